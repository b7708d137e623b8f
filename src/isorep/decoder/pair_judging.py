"""What a pair of decoders shows: which assumptions hold, which bounds are kept, and the sentence that says so."""

from __future__ import annotations

import math

import numpy as np

from ..comparison import Comparison
from .bound import MEASURED, NOT_TESTED, VIOLATED, Assumption, Bound, Bounds
from .chords import Chords, Mismatch
from .geometry import Geometry
from .near_isometries import CHORDS, CONVEX, EQUAL, INJECTIVE, SMOOTH, SUPREMUM
from .pair_result import TITLES, Finding
from .rigid_error import RigidErrors

_EQUAL = 1e-6  # share of the outputs' spread up to which they count as equal
_ROUNDING = 1e-9


def assumptions_of(
    geometries: list[Geometry], seen: tuple[Chords, Chords], apart: Mismatch | None
) -> tuple[Assumption, ...]:
    """The assumptions of Theorem 1 with what the sample says about each."""
    return (
        _convex(geometries),
        _equal(apart),
        _injective(geometries, seen),
        _smooth(geometries),
        _chords(geometries, seen),
        _supremum(geometries),
    )


def findings_of(
    ties: dict[str, Bounds],
    compared: Comparison,
    errors: RigidErrors,
    assumptions: tuple[Assumption, ...],
    rounding: float,
) -> tuple[Finding, ...]:
    """Each bound beside what was measured: kept, violated or vacuous.

    ``rounding`` is the error, in diameters, that the precision of the latents alone can leave.
    """
    found = []
    for source, bounds in ties.items():
        if source == "mean":
            continue
        for error in ("sup", "rms"):
            for bound in _named(bounds, error):
                measured = _measured(source, error, compared, errors)
                if measured is not None:
                    found.append(_finding(source, bound, measured, assumptions, rounding))
    return tuple(found)


def sentence_of(
    ties: dict[str, Bounds], errors: RigidErrors, findings: tuple[Finding, ...], names: tuple[str, str]
) -> str:
    """The answer: is a bound violated, and if not, does any say something."""
    broken = [finding for finding in findings if finding.answer == "violated"]
    tie = ties["equal_outputs"]
    constant = "infinite" if tie.constant is None or math.isinf(tie.constant) else f"{tie.constant:.3g}"
    if broken:
        first = broken[0]
        return (
            f"A bound is violated: {TITLES[first.source]}, {first.error} error at most {first.bound:.4g} diameters, "
            f"and {first.measured:.4g} is measured. {first.why}"
        )
    measured = f"between {names[0]} and {names[1]} a rigid motion leaves {errors.in_sample.rms:.4f} diameters"
    plain, differing = tie.rms, ties.get("with_mismatch", tie).rms
    if plain.vacuous:
        return (
            f"No bound is violated, and none from the decoders says anything: {measured} in the root mean square; the "
            f"stitching constant is {constant}, and in {tie.dimension} dimensions it would have to be below "
            f"{tie.needed:.3g}."
        )
    said = f"No bound is violated: {measured} in the root mean square, and the decoders, with a stitching constant of "
    if differing.vacuous:
        return (
            f"{said}{constant}, would allow {plain.value:.4f} if their outputs were equal. Allowing for outputs that "
            "differ as these do, the bound is vacuous."
        )
    return f"{said}{constant}, allow at most {differing.value:.4f}."


def caveats_of(
    geometries: list[Geometry],
    compared: Comparison,
    apart: Mismatch | None,
    paired: int,
    rows: int,
    names: tuple[str, str],
) -> tuple[str, ...]:
    """What to keep in mind."""
    said = [f"{name}: {caveat}" for name, side in zip(names, geometries, strict=True) for caveat in side.caveats]
    widths = [int(side.data["latents"]) for side in geometries]
    if widths[0] != widths[1]:
        said.append(
            f"the latents have {widths[0]} and {widths[1]} dimensions: no continuous one-to-one map joins convex sets "
            "with inner points in both, so Theorem 1 cannot apply; errors and bounds are those of the padded clouds"
        )
    if apart is None:
        said.append("the outputs have different widths: there is no mismatch to measure, and Theorem 1 cannot apply")
    if paired < rows:
        said.append(f"chords and all distances were compared on {paired} of {rows} rows: their extremes are estimates")
    said += compared.caveats
    return tuple(dict.fromkeys(said))


def _named(bounds: Bounds, error: str) -> list[Bound]:
    """The bounds of a kind: the smallest that needs no assumption on images, then the others."""
    best = bounds.sup if error == "sup" else bounds.rms
    return [best, *(bound for bound in bounds.entries if bound.error == error and bound.name != best.name)]


def _measured(source: str, error: str, compared: Comparison, errors: RigidErrors) -> float | None:
    """What a bound is held against: the certified lower end of the supremum, the exact in-sample root mean square."""
    if compared.worst_case is None:
        return None
    certificate = compared.worst_case["rigid_with_scale" if source == "scaled" else "rigid"]
    if error == "sup":
        return float(certificate.lower)
    return compared.rungs["rigid"].in_diameters.in_sample.rms if source == "scaled" else errors.in_sample.rms


def _finding(
    source: str, bound: Bound, measured: float, assumptions: tuple[Assumption, ...], rounding: float
) -> Finding:
    if measured > bound.value * (1 + _ROUNDING) + _ROUNDING + rounding:
        answer, why = "violated", _why(bound, assumptions)
    elif bound.vacuous:
        answer, why = "vacuous", "It says no more than the sizes of the clouds do."
    else:
        answer, why = "kept", ""
    return Finding(source, bound.name, bound.error, bound.value, measured, answer, why)


def _why(bound: Bound, assumptions: tuple[Assumption, ...]) -> str:
    rests = {entry.text for entry in bound.assumptions}
    wrong = [entry for entry in assumptions if entry.text in rests and entry.status == VIOLATED]
    if wrong:
        return "It rests on what does not hold: " + "; ".join(map(str, wrong)) + "."
    doubtful = [entry.text for entry in assumptions if entry.text in rests and entry.status == NOT_TESTED]
    return "Something it rests on does not hold" + (f"; not tested: {'; '.join(doubtful)}." if doubtful else ".")


def _convex(geometries: list[Geometry]) -> Assumption:
    probes = [side.convexity for side in geometries]
    answers = ["blind" if probe is None else probe.answer for probe in probes]
    evidence = " ".join(f"{place}: {words}." for place, words in zip(("first", "second"), answers, strict=True))
    if "holes" in answers:
        return Assumption(CONVEX, VIOLATED, f"holes between samples; {evidence}")
    return Assumption(CONVEX, MEASURED if set(answers) == {"none seen"} else NOT_TESTED, evidence)


def _equal(apart: Mismatch | None) -> Assumption:
    if apart is None:
        return Assumption(EQUAL, VIOLATED, "outputs have different widths")
    said = (
        f"they differ by {apart.rms:.3g} in the root mean square and {apart.largest:.3g} at most; their spread is "
        f"{apart.spread:.3g}"
    )
    return Assumption(EQUAL, MEASURED if apart.share <= _EQUAL else VIOLATED, said)


def _injective(geometries: list[Geometry], seen: tuple[Chords, Chords]) -> Assumption:
    least = [min(float(np.min(side.smallest)), each.smallest) for side, each in zip(geometries, seen, strict=True)]
    if min(least) <= 0:
        return Assumption(INJECTIVE, VIOLATED, "a direction is lost, or two latents share their output")
    return Assumption(INJECTIVE, MEASURED, f"not falsified: no stretch below {min(least):.3g}")


def _smooth(geometries: list[Geometry]) -> Assumption:
    kinks = sorted({kink for side in geometries for kink in side.data.get("kinks", [])})
    if kinks:
        return Assumption(SMOOTH, VIOLATED, f"kinks by {', '.join(kinks)}: Jacobians exist almost everywhere only")
    return Assumption(SMOOTH, NOT_TESTED, "no kinked operation was seen")


def _chords(geometries: list[Geometry], seen: tuple[Chords, Chords]) -> Assumption:
    ratios = [
        float(np.min(side.smallest)) / each.smallest if each.smallest > 0 else math.inf
        for side, each in zip(geometries, seen, strict=True)
    ]
    worst = max(ratios)
    said = f"the shortest chord is {worst:.3g} times shorter than the Jacobians allow"
    if worst > 1 + 1e-6:
        return Assumption(CHORDS, VIOLATED, said)
    return Assumption(CHORDS, MEASURED, f"no chord of {sum(each.pairs for each in seen)} is shorter than they allow")


def _supremum(geometries: list[Geometry]) -> Assumption:
    rows = min(len(side.local) for side in geometries)
    said = (
        f"with 95 % confidence a new latent exceeds the largest of {rows} with a probability of at most "
        f"{1 - 0.05 ** (1 / rows):.2g}"
    )
    return Assumption(SUPREMUM, NOT_TESTED, said)
