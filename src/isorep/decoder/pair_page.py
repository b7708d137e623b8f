"""The page of a pair of decoders: what is measured and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..alignment.base import Error
from ..report.document import Answer, Cell, Column, Definitions, Figure, Forms, Page, Part, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key
from ..report.page import page_of, size
from ..report.read import MISSING, count, fixed, percent
from .bound import VIOLATED, Bound, Finding
from .page import dot, number, short
from .pair import TITLES, DecoderPair, DecoderSide
from .structural_result import MapSide, Structural
from .theorems import Conditioning

ERRORS = {"sup": "largest error", "rms": "root mean square error"}
DRAWN = 20.0  # diameters up to which a bound is drawn
MEASURED = (
    "Measured errors are those of the best rigid motion without a scale (Theorem 1), in diameters of the second.",
    "Bounds from the decoders take the outputs to be equal, or allow for their mismatch; by chords they take ratios of "
    "output to latent distances in the place of singular values. Means of singular values bound nothing.",
)
SIDES = {
    "rows": "rows",
    "latents": "latents",
    "outputs": "outputs",
    "constant": "constant 1 + L, largest of the sample",
    "mean_constant": "mean of the local constants",
    "similarity_constant": "constant up to scale",
    "largest": "largest singular value",
    "smallest": "smallest singular value",
    "chord_largest": "longest chord over latent distance",
    "chord_smallest": "shortest chord over latent distance",
    "diameter": "diameter of the latents",
}
THEOREM_2 = {"whitening": "K_w", "kappa": "κ", "radius": "B", "linear": "K", "quadratic": "K'", "error": "ε before"}
ICA = "Gamma, the least curvature of the contrast, tells how firmly ICA holds the components; weak planes may turn."


def page(result: DecoderPair) -> Page:
    """All of it, most important first."""
    first, second = result.first.name, result.second.name
    answer = Answer(bounds_headline(bool(result.violated)), result.sentence, not result.violated)
    figures = tuple(error_figure(result, error, TITLES) for error in ("rms", "sup"))
    return page_of(
        result,
        f"{first} and {second} · decoders",
        f"Measured and allowed: {first} and {second}",
        answer,
        _tiles(result),
        (
            Section("errors", "Measured and allowed", (Prose(MEASURED), *figures, error_table(result, "the second"))),
            Section("bounds", "Bounds", (*violations(result, TITLES), bound_table(result, TITLES, "the second"))),
            Section("assumptions", "Assumptions", (assumption_table(result),)),
            Section("decoders", "The decoders", (side_table("Both sides", (result.first, result.second), SIDES),)),
            None if result.ica is None else ica_section(result.ica, (first, second)),
        ),
        data=" and ".join(f"{side.name} {size(side.rows, side.latents)}" for side in (result.first, result.second)),
    )


def bounds_headline(violated: bool) -> str:
    """The answer that pages of bounds begin with."""
    return "A bound is violated: an assumption fails." if violated else "No bound is violated."


def _tiles(result: DecoderPair) -> list[tuple[str, str, str]]:
    source = "with_mismatch" if "with_mismatch" in result.bounds else "equal_outputs"
    tie = result.bounds[source]
    broken = next((finding for finding in result.findings if finding.answer == VIOLATED), None)
    tiles = [
        *allowance(broken, source, tie.rms, result.in_sample, TITLES),
        ("stitching constant", number(tie.constant, 3), "1 is an isometry"),
    ]
    if result.mismatch is not None:
        tiles.append(("outputs differ by", percent(result.mismatch.share), "of their spread, root mean square"))
    return tiles


def allowance(
    broken: Finding | None, source: str, bound: Bound, measured: Error, titles: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Two tiles, the measured error and the bound that the sentence quotes: the one that is violated, if one is."""
    scale = "one scale" if (source if broken is None else broken.source).endswith("scaled") else "no scale"
    how = "in sample"
    if broken is None:
        error, value, most, why = "RMS", measured.rms, bound.value, "vacuous" if bound.vacuous else titles[source]
    else:
        error, value, most, why = broken.error, broken.measured, broken.bound, f"violated: {titles[broken.source]}"
        error, how = ("RMS", how) if error == "rms" else ("largest", "at least")
    return [
        (f"{error} error, measured", fixed(value), f"rigid, {scale}, {how}"),
        (f"{error} error, allowed", _value(most), why),
    ]


def error_figure(result: DecoderPair | Structural, error: str, titles: Mapping[str, str]) -> Figure:
    """Measured errors, certificates and bounds on one axis; bounds beyond 20 diameters are in the table alone."""
    rows = []
    for title, each in (("measured, held out", result.held_out), ("measured, in sample", result.in_sample)):
        value = getattr(each, error)
        rows.append(dot(title, "s2", value, fixed(value), strong=True))
    if (known := result.certificate) is not None:
        low, high = (known.lower, known.upper) if error == "sup" else (known.rms, known.rms_upper)
        said, printed = f"{fixed(low)} to {fixed(high)}", f"≤ {fixed(high)}"
        rows.append(
            IntervalRow("certified by the rows", "s3", interval=(low, high), labels=(said, "", ""), printed=printed)
        )
    for source, title in titles.items():
        if source in result.bounds and not source.endswith("scaled"):
            best = result.bounds[source].smallest(error)
            how = "vacuous" if best.vacuous else f"by {_name(best)}"
            rows.append(dot(title, "s4" if source == "mean" else "s0", best.value, fixed(best.value), f", {how}"))
    chance = next(iter(result.bounds.values())).smallest(error).chance
    rows.append(dot("chance", "s1", chance, fixed(chance)))
    return Figure(
        f"{error}-figure",
        ERRORS[error].capitalize(),
        "Chance is what holds for any two clouds of these sizes: a bound that reaches it is vacuous.",
        "",
        Intervals(tuple(row for row in rows if row.value is None or row.value <= DRAWN), f"{ERRORS[error]}, diameters"),
        legend=(Key("dot", "s2", "measured"), Key("whisker", "s3", "certified"), Key("dot", "s0", "bound")),
    )


def error_table(result: DecoderPair | Structural, unit: str) -> Table:
    """The errors of every map, in diameters of the target."""
    errors = {
        "rigid, no scale, held out": result.held_out,
        "rigid, no scale, in sample": result.in_sample,
        "rigid with one scale, held out": result.scaled_held_out,
        "rigid with one scale, in sample": result.scaled_in_sample,
        "linear, held out": result.linear,
    }
    rows: list[tuple[str, float | None, float | None, float]] = [
        (title, each.sup, each.rms, each.mean) for title, each in errors.items()
    ]
    if result.null is not None:
        rows.append(("rigid with one scale, shuffled rows", None, None, result.null.mean))
    columns: Forms = {"error": str, "sup": fixed, "rms": fixed, "mean": fixed}
    return Table.of("errors", f"Measured errors, in diameters of {unit}", columns, rows)


def violations(result: DecoderPair | Structural, titles: Mapping[str, str]) -> tuple[Prose, ...]:
    """The bounds that are violated, and why."""
    said = [
        f"Violated: {titles[finding.source]}, {finding.error}: {finding.why}"
        for finding in result.findings
        if finding.answer == VIOLATED
    ]
    return (Prose(tuple(dict.fromkeys(said))),) if said else ()


def bound_table(result: DecoderPair | Structural, titles: Mapping[str, str], unit: str) -> Table:
    """Every bound with its answer; those that the sizes of the clouds give are the same for all, and stand once."""
    answers = {(finding.source, finding.name): finding.answer for finding in result.findings}
    rows = []
    for source, title in titles.items():
        for bound in result.bounds[source].entries if source in result.bounds else ():
            if bound.name.endswith("_trivial") and source != next(iter(result.bounds)):
                continue
            answer = answers.get((source, bound.name), "vacuous" if bound.vacuous else "–")
            said = Cell("no bound" if source == "mean" else answer, strong=answer == VIOLATED)
            rows.append((title, _name(bound), bound.error, bound.value, bound.chance, said, bound.formula))
    return Table.of("bounds", f"All bounds, in diameters of {unit}", BOUNDS, rows)


def assumption_table(result: DecoderPair | Structural) -> Table:
    """Every assumption with its status and what was seen."""
    columns: Forms = {"assumption": str, "status": str, "evidence": str}
    rows = [
        (each.text, Cell(each.status, strong=each.status == VIOLATED), each.evidence) for each in result.assumptions
    ]
    return Table.of("assumptions", "What the bounds rest on", columns, rows)


def side_table(title: str, sides: Sequence[DecoderSide | MapSide], titles: Mapping[str, str]) -> Table:
    """Every quantity of two maps, a column each."""

    def cell(value: str | float | None) -> Cell:
        if value is None or isinstance(value, str):
            return Cell(value or MISSING)
        return Cell(count(value) if isinstance(value, int) else number(value), None if math.isinf(value) else value)

    rows = tuple((Cell(words), *(cell(getattr(side, key)) for side in sides)) for key, words in titles.items())
    columns = (Column("quantity", numeric=False), *(Column(side.name) for side in sides))
    return Table("sides", title, columns, rows)


def ica_section(ica: Conditioning, names: tuple[str, str]) -> Section:
    """How firmly ICA holds the components of both sides, and the constants of Theorem 2."""
    rows = []
    for name, side in zip(names, ica.sides, strict=True):
        weakest = ", ".join(f"{i} and {j} ({short(curvature)})" for i, j, curvature in side.weakest)
        rows.append((name, side.components, side.gamma, side.weak, side.planes, side.gaussian, weakest))
    numbers = ("components", "gamma", "weak planes", "of", "near-Gaussian")
    columns: Forms = {
        "model": str,
        **dict.fromkeys(numbers, short),
        "weakest planes (curvature)": str,
    }
    parts: list[Part] = [Prose((ica.sentence, ICA)), Table.of("ica", "ICA of the latents", columns, rows)]
    if ica.theorem2 is not None:
        items = tuple((title, number(getattr(ica.theorem2, key)), "") for key, title in THEOREM_2.items())
        parts.append(Definitions(items))
    return Section("ica", "After ICA", tuple(parts))


def _name(bound: Bound) -> str:
    return bound.name.replace("_", " ")


def _value(value: float) -> str:
    return fixed(value) if value < DRAWN else number(value)


BOUNDS: Forms = {
    **dict.fromkeys(("from", "bound", "error"), str),
    "at most": _value,
    "chance": fixed,
    **dict.fromkeys(("answer", "formula"), str),
}
