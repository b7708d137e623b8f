"""The page of a comparison: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ..pairs import Side
from ..report.charts import SHORT_PHRASES, rung_name
from ..report.document import Answer, Cell, Column, Figure, Forms, Heading, Page, Part, Prose, Section, Table
from ..report.figures import (
    IntervalRow,
    Intervals,
    Key,
    Line,
    Lines,
)
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, p_value, percent
from ..resampling import LEVEL
from .residuals import BEYOND, efficiency_text
from .result import Comparison, Direction, Verdict
from .rows_page import alignment, single_dimensions, three
from .verdict import TOLERANCE
from .worst_case import WorstCase

INTERVAL = f"{percent(LEVEL)} interval"
LADDER = ("held-out error", INTERVAL, "chance", "p", "R²", "in-sample", "diameters")


def page(result: Comparison) -> Page:
    """All of it, most important first."""
    source, target = result.source.name, result.target.name
    sides = {f"{side.name} ({role})": side for role, side in (("source", result.source), ("target", result.target))}
    return page_of(
        result,
        f"{source} → {target}",
        f"Comparison of {source} (source) with {target} (target)",
        verdict_answer(result.verdict, "The two representations"),
        _tiles(result),
        (
            _ladder(result),
            alignment(result),
            single_dimensions(result),
            _worst_case(result),
            Section(
                "rank", "Rank and spectrum", (sides_table("sides", "The two sides", "side", sides), _spectrum(sides))
            ),
        ),
        data=" → ".join(f"{side.name} {size(side.rows, side.columns)}" for side in (result.source, result.target)),
        hero=_ladder_figure(result),
    )


def verdict_answer(verdict: Verdict, who: str, rungs: Iterable[str] = ()) -> Answer:
    """The verdict among the rungs: open where something qualifies it, and where nothing could be judged."""
    phrase = SHORT_PHRASES.get(verdict.rung or "", f"by {rung_name(verdict.rung or '')}")
    unjudged = verdict.sentence.startswith("No verdict")
    partly = " are partly related, " in verdict.sentence
    if unjudged:
        headline = "No verdict."
    elif verdict.rung is None:
        headline = f"No rung explains {who[:1].lower()}{who[1:]}."
    elif verdict.qualified is not None:
        headline = "Few rows or dimensions decide the answer."
    else:
        headline = f"{who} are partly related, {phrase}." if partly else f"{who} agree {phrase}."
    unsure = (partly or verdict.qualified is not None) if verdict.rung else unjudged
    steps = tuple((rung_name(name), name == verdict.rung) for name in rungs)
    return Answer(headline, verdict.sentence, None if unsure else verdict.rung is not None, steps)


def _tiles(result: Comparison) -> list[tuple[str, str, str]]:
    tiles = []
    rung = result.rungs.get(result.verdict.rung or "linear")
    if rung is not None:
        span = "" if rung.interval is None else f", {fixed(rung.interval.low)} to {fixed(rung.interval.high)}"
        said = f"1 is no better than the mean{span}"
        tiles.append((f"held-out error, {rung_name(rung.name)}", fixed(rung.held_out.mean), said))
        if rung.null is not None:
            said = f"the error of shuffled rows; {percent(rung.explained)} of the variance is explained, held out"
            tiles.append(("chance", fixed(rung.null.mean), said))
    if result.worst_case is not None:
        bracket = result.worst_case["rigid_with_scale"]
        said = f"diameters, certified; no rigid motion with one scale does better than {three(bracket.lower)}"
        tiles.append(("worst row, best rigid motion", f"≤ {three(bracket.upper)}", said))
    if result.ica_efficiency is not None:
        tiles.append(
            ("ICA efficiency", efficiency_text(result.ica_efficiency), _efficiency_remark(result.ica_efficiency))
        )
    return tiles


def _efficiency_remark(efficiency: float) -> str:
    if efficiency > BEYOND:
        return "no share: ICA undoes stretches that no rotation can, and leaves less"
    gains = "of what a rotation gains over matching, ICA gains as well"
    return gains if efficiency >= 0 else "ICA gains nothing on matching"


# The ladder


def _ladder(result: Comparison) -> Section:
    forward, reverse = result.forward, result.reverse
    unit = "{0} mapped onto {1}: errors in mean distances of {1} to its mean"
    lower = "; lower is closer, and 1 is no better than predicting the mean. The last column is in"
    return Section(
        "the-ladder",
        "The ladder",
        (
            Prose((f"{unit.format(forward.source, forward.target)}{lower} {_diameters(forward)}.",)),
            ladder_table(forward, "ladder"),
            _statistics(forward),
            Heading("The reverse direction"),
            Prose(
                (
                    f"{unit.format(reverse.source, reverse.target)}; the last column is in {_diameters(reverse)}.",
                    reverse.verdict.sentence,
                )
            ),
            ladder_table(reverse, "ladder-reverse"),
        ),
    )


def _diameters(direction: Direction) -> str:
    exactness = "exact" if direction.diameter.exact else "a lower bound"
    return f"diameters of {direction.target} ({compact(direction.diameter.value, 6)}, {exactness})"


def ladder_table(direction: Direction, name: str) -> Table:
    """The rungs of one direction: held-out error, interval, chance, p, R², in-sample, and the error in diameters."""
    columns: Forms = {"rung": str} | dict.fromkeys(LADDER, three)
    rows = []
    for rung in direction.rungs.values():
        span, null = rung.interval, rung.null
        rows.append(
            (
                rung_name(rung.name),
                rung.held_out.mean,
                None if span is None else Cell(_brackets(span.low, span.high, 3), span.low),
                null and null.mean,
                null and Cell(p_value(null.p_value, null.smallest_p), null.p_value),
                rung.explained,
                rung.in_sample.mean,
                rung.in_diameters.held_out.mean,
            )
        )
    title = f"{direction.source} → {direction.target}"
    return Table.of(name, title, columns, rows, strong=rung_name(direction.verdict.rung or ""))


def _brackets(low: float, high: float, digits: int = 4) -> str:
    return f"[{fixed(low, digits)}, {fixed(high, digits)}]"


def _ladder_figure(result: Comparison) -> Figure:
    """The errors from 0 to chance: what lies left of chance and near the best rung suffices."""
    direction, verdict = result.forward, result.verdict.rung
    rows = []
    for rung in direction.rungs.values():
        held, inside, span, null = rung.held_out.mean, rung.in_sample.mean, rung.interval, rung.null
        labels = (
            f"held out {fixed(held)}" + ("" if span is None else f" {_brackets(span.low, span.high)}"),
            f"in-sample {fixed(inside)}",
            "" if null is None else f"chance {fixed(null.mean)} {_brackets(*null.range_95)}",
        )
        rows.append(
            IntervalRow(
                rung_name(rung.name),
                "accent" if rung.name == verdict else "s0",
                held,
                None if span is None else (span.low, span.high),
                inside,
                None if null is None else (null.range_95[0], null.mean, null.range_95[1]),
                strong=rung.name == verdict,
                labels=labels,
                printed=three(held),
                key=rung.name,
                limit=None if null is None else null.low,
            )
        )
    told = "; ".join(f"{row.name}: {', '.join(label for label in row.labels if label)}" for row in rows)
    errors = [rung.held_out.mean for rung in direction.rungs.values()]
    nulls = [rung.null.range_95[1] for rung in direction.rungs.values() if rung.null is not None]
    tolerance, best = float(result.settings.get("tolerance", TOLERANCE)), min(errors)
    marks = {"dot": "held-out error", "whisker": INTERVAL, "ring": "in-sample", "tick": "chance, 95% range"}
    marks |= {"zone": "chance zone, from the 5th percentile"} if nulls else {}
    within = f"within {compact(tolerance)} of the best rung"
    return Figure(
        "ladder-figure",
        "The ladder: held-out error of each rung",
        "The verdict is the first rung whose interval ends left of the chance zone and of 1, and whose error is, by "
        f"its interval, {within}. Choose a rung, and the figures below show it.",
        f"Held-out errors in mean distances of {direction.target} to its mean. {told}.",
        Intervals(
            tuple(rows),
            f"held-out error, mean distances of {direction.target} to its mean",
            end=max(1.12 * max(nulls), 1.04 * best) if nulls else None,
            zone=bool(nulls),
            tolerance=(best, best + tolerance),
            chosen=result.figures.scatter.rung,
        ),
        legend=(
            *((Key("dot", "accent", f"verdict: {rung_name(verdict)}"),) if verdict else ()),
            *(Key(mark, "s0" if mark == "dot" else "", words) for mark, words in marks.items()),
            Key("tolerance", "", within),
        ),
    )


def _statistics(direction: Direction) -> Table:
    """Every statistic of every rung, held out and in-sample; the last column in the target's own units."""
    rungs = direction.rungs.values()
    levels = next(iter(rungs)).held_out.quantiles
    numbers = ("mean", "RMS", *(f"{100 * float(level):g}%" for level in levels), "worst")
    columns: Forms = {"rung": str, "rows": str} | dict.fromkeys(numbers, fixed)
    columns = {**columns, "mean, raw units": partial(compact, digits=5)}
    rows = [
        (
            rung_name(rung.name),
            words,
            error.mean,
            error.rms,
            *error.quantiles.values(),
            error.sup,
            error.mean * rung.unit,
        )
        for rung in rungs
        for words, error in (("held out", rung.held_out), ("in-sample", rung.in_sample))
    ]
    return Table.of("statistics", "All statistics of the errors", columns, rows, folded=True)


# The worst case

GROUPS = {"rigid": "rigid", "rigid_with_scale": "rigid, with one scale"}
QUANTITIES = {
    "lower": "best worst row, at least",
    "upper": "best worst row, at most",
    "least_squares_sup": "worst row under least squares",
    "rms": "RMS under least squares",
    "rms_upper": "RMS, bound from Gram matrices",
    "distortion": "largest distance distortion",
    "near_isometry_defect": "near-isometry defect",
}


def _worst_case(result: Comparison) -> Section | None:
    if result.worst_case is None:
        return None
    brackets: dict[str, WorstCase] = {group: result.worst_case[group] for group in GROUPS}
    rigid, scaled = ((fixed(each.lower), each.lower_by, fixed(each.upper)) for each in brackets.values())
    said = (
        "Whatever rotation, reflection and translation is chosen, some row is off by at least "
        f"{rigid[0]} diameters (by {rigid[1]}); one is known that keeps every row within {rigid[2]}.",
        f"With one scale allowed as well, as on the ladder, the two ends are {scaled[0]} (by {scaled[1]}) and "
        f"{scaled[2]}.",
    )
    parts: list[Part] = [Prose(said)]
    if "sample" in result.worst_case:
        parts.append(Prose((result.worst_case["sample"].sentence,)))
    rows = [(title, *(getattr(each, key) for each in brackets.values())) for key, title in QUANTITIES.items()]
    pairs = (Cell(count(each.pairs_checked), each.pairs_checked) for each in brackets.values())
    columns: Forms = {"quantity": str} | dict.fromkeys(GROUPS.values(), fixed)
    known = Table.of("certificate", "What is known, in diameters", columns, [*rows, ("pairs of rows compared", *pairs)])
    worst = (_worst_rows(group, each) for group, each in brackets.items())
    return Section("worst-case", "Worst case", (*parts, _certificate(brackets, result.target.name), known, *worst))


def _certificate(brackets: dict[str, WorstCase], target: str) -> Figure:
    rows = tuple(
        IntervalRow(
            GROUPS[group],
            "s2",
            interval=(each.lower, each.upper),
            second=each.least_squares_sup,
            labels=(
                f"best worst row between {fixed(each.lower)} and {fixed(each.upper)}",
                f"worst row under least squares {fixed(each.least_squares_sup)}",
                "",
            ),
            printed=f"≤ {fixed(each.upper)}",
        )
        for group, each in brackets.items()
    )
    told = "; ".join(f"{row.name}: {row.labels[0]}, {row.labels[1]}" for row in rows)
    return Figure(
        "certificate-figure",
        "The certificate",
        "No map of the group does better than the left end of its bracket; one reaches the right end.",
        f"In diameters of {target}. {told}.",
        Intervals(rows, f"error of the worst row, diameters of {target}"),
        legend=(Key("whisker", "s2", "certified bracket"), Key("ring", "s2", "worst row under least squares")),
    )


def _worst_rows(group: str, bracket: WorstCase) -> Table:
    named = any(row.id for row in bracket.worst_rows)
    columns: Forms = {**({"row id": str} if named else {}), "row number": count, "error": fixed}
    rows = [(*((row.id,) if named else ()), row.row, row.error) for row in bracket.worst_rows]
    title = f"The rows that fit worst under least squares: {GROUPS[group]}"
    return Table.of(f"worst-rows-{group.replace('_', '-')}", title, columns, rows, folded=group != "rigid")


# The sides


def sides_table(name: str, title: str, first: str, sides: dict[str, Side]) -> Table:
    """Size, rank, condition and spread of every side, with what it is called in the first column."""
    columns: Forms = {first: str} | dict.fromkeys(("rows", "dimensions", "rank"), count)
    columns = {**columns, "condition": compact, "constant": count, "RMS radius": compact}
    columns = {**columns, "half the variance in": partial(percent, digits=1), "dtype": str}
    rows = [
        (
            words,
            *(side.rows, side.columns, side.rank, side.condition, side.constant_columns, side.rms_radius),
            *(side.half_variance_share, side.dtype),
        )
        for words, side in sides.items()
    ]
    return Table.of(name, title, columns, rows)


def _spectrum(sides: dict[str, Side]) -> Figure:
    """Standard deviations along the principal axes of both sides, each relative to its largest."""
    lines = tuple(
        Line(
            name,
            series,
            tuple((axis + 1.0, value / side.spectrum[0]) for axis, value in enumerate(side.spectrum)),
            tuple(f"axis {axis + 1}: {compact(value)}" for axis, value in enumerate(side.spectrum)),
        )
        for (name, side), series in zip(sides.items(), ("s1", "s2"), strict=True)
    )
    least = min((share for line in lines for _, share in line.points if share > 0), default=1.0)
    told = "; ".join(f"{name}: rank {side.rank} of {len(side.spectrum)} axes shown" for name, side in sides.items())
    spectra = [side.spectrum for side in sides.values()]
    rows = tuple(
        (Cell(str(axis + 1)), *(_cell(spectrum[axis : axis + 1]) for spectrum in spectra))
        for axis in range(max(map(len, spectra)))
    )
    columns = (Column("principal axis"), *map(Column, sides))
    return Figure(
        "spectrum-figure",
        "Spectrum of both sides",
        "A steep fall means that few directions carry the variance; the error then says little about the rest.",
        f"Standard deviations along principal axes, falling. {told}.",
        Lines(
            lines,
            ("principal axis", "standard deviation, relative to the largest"),
            y_range=(0.8 * max(least, 1e-9), 1.0),
            log=True,
        ),
        table=Table("spectrum", "Standard deviations", columns, rows, folded=True),
    )


def _cell(values: Sequence[float]) -> Cell:
    """The one value, where a side has as many."""
    return Cell(compact(values[0]), values[0]) if values else Cell(MISSING)
