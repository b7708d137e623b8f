"""The page of a comparison: the verdict first, then what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise

from ..pairs import Side
from ..report.charts import colour, legend_of, rung_name
from ..report.document import Answer, Cell, Column, Figure, Forms, Heading, Page, Part, Prose, Row, Section, Table
from ..report.figures import Cloud, Heatmap, Histogram, IntervalRow, Intervals, Key, Line, Lines, Scatter
from ..report.page import page_of
from ..report.read import MISSING, compact, count, fixed, p_value, percent
from ..resampling import LEVEL
from .figures import Plane, Reproducibility
from .residuals import BEYOND
from .result import Comparison, Direction, Verdict
from .worst_case import WorstCase

CLEAR = 0.9  # correlation from which on two dimensions are the same
LOWEST_R2 = -0.5
FEW = 10  # dimensions up to which each has its name under the axis
MOST_DIMENSIONS = 10_000
INTERVAL = f"{percent(LEVEL)} interval"
three, whole = partial(fixed, digits=3), "{:d}".format


def page(result: Comparison) -> Page:
    """All of it, most important first."""
    source, target = result.source.name, result.target.name
    sides = {f"{side.name} ({role})": side for role, side in (("source", result.source), ("target", result.target))}
    dimensions = result.figures.dimensions
    single = (_matching(result), *(() if dimensions is None else (_dimensions(dimensions, target),)))
    return page_of(
        result,
        f"{source} → {target}",
        f"Comparison of {source} (source) with {target} (target)",
        verdict_answer(result.verdict, result.rungs),
        _tiles(result),
        (
            _ladder(result),
            _worst_case(result),
            _alignment(result),
            Section("dimensions", "Single dimensions", single),
            Section("residuals", "Residuals", (_residuals(result),)),
            Section(
                "rank", "Rank and spectrum", (sides_table("sides", "The two sides", "side", sides), _spectrum(sides))
            ),
        ),
    )


def verdict_answer(verdict: Verdict, rungs: Iterable[str]) -> Answer:
    """The verdict among the rungs: open where something qualifies it, and where nothing could be judged."""
    head, stop, rest = verdict.sentence.partition(". ")
    if not stop:
        head, _, rest = verdict.sentence.removesuffix(".").partition(": ")
        rest = f"{rest[:1].upper()}{rest[1:]}." if rest else ""
    weak = verdict.qualified is not None or " agree in part only, " in verdict.sentence
    unsure = weak if verdict.rung else verdict.sentence.startswith("No verdict")
    steps = tuple((rung_name(name), name == verdict.rung) for name in rungs)
    return Answer(f"{head}.", rest, None if unsure else verdict.rung is not None, steps)


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
        bracket = result.worst_case["rigid"]
        said = f"diameters, certified; no rigid map does better than {three(bracket.lower)}"
        tiles.append(("worst row, best rigid map", f"≤ {three(bracket.upper)}", said))
    if result.ica_efficiency is not None:
        tiles.append(("ICA efficiency", percent(result.ica_efficiency), _efficiency_remark(result.ica_efficiency)))
    return tiles


def _efficiency_remark(efficiency: float) -> str:
    if efficiency > BEYOND:
        return "no share: ICA undoes stretches that no rotation can, and leaves less"
    gains = "of what a rotation gains over matching, ICA gains as well"
    return gains if efficiency >= 0 else "ICA gains nothing on matching"


# The ladder


def _ladder(result: Comparison) -> Section:
    forward, reverse = result.forward, result.reverse
    unit = "{0} mapped onto {1}: mean error in mean distances of {1} to its mean"
    lower = "; lower is closer, and 1 is no better than predicting the mean. The last column is in"
    return Section(
        "the-ladder",
        "The ladder",
        (
            Prose((f"{unit.format(forward.source, forward.target)}{lower} {_diameters(forward)}.",)),
            ladder_table(forward, "ladder"),
            _ladder_figure(forward),
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
    """The rungs of one direction: held out, interval, chance, p, R², and the error in diameters."""
    columns: Forms = {"rung": str} | dict.fromkeys(("held out", INTERVAL, "chance", "p", "R²", "diameters"), three)
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
                rung.in_diameters.held_out.mean,
            )
        )
    title = f"{direction.source} → {direction.target}"
    return Table.of(name, title, columns, rows, strong=rung_name(direction.verdict.rung or ""))


def _brackets(low: float, high: float, digits: int = 4) -> str:
    return f"[{fixed(low, digits)}, {fixed(high, digits)}]"


def _ladder_figure(direction: Direction) -> Figure:
    rows = []
    for rung in direction.rungs.values():
        held, inside, span, null = rung.held_out.mean, rung.in_sample.mean, rung.interval, rung.null
        labels = (
            f"held out {fixed(held)}" + ("" if span is None else f" {_brackets(span.low, span.high)}"),
            f"in-sample {fixed(inside)}",
            "" if null is None else f"chance {fixed(null.mean)} {_brackets(null.low, null.high)}",
        )
        rows.append(
            IntervalRow(
                rung_name(rung.name),
                colour(rung.name),
                held,
                None if span is None else (span.low, span.high),
                inside,
                None if null is None else (null.low, null.mean, null.high),
                strong=rung.name == direction.verdict.rung,
                labels=labels,
                printed=fixed(held),
            )
        )
    told = "; ".join(f"{row.name}: {', '.join(label for label in row.labels if label)}" for row in rows)
    marks = {"dot": "held out", "whisker": INTERVAL, "ring": "in-sample", "tick": "chance"}
    return Figure(
        "ladder-figure",
        "Mean error of each rung",
        "A rung counts only if its interval lies left of chance, which is what shuffled rows give (mean, 5 to 95 %), "
        "and left of 1, the error of predicting the mean.",
        f"Mean errors in mean distances of {direction.target} to its mean. {told}.",
        Intervals(tuple(rows), "mean error; 1 is no better than the mean"),
        legend=tuple(Key(mark, "", words) for mark, words in marks.items()),
    )


def _statistics(direction: Direction) -> Table:
    """Every statistic of every rung, held out and in-sample; the last column in the target's own units."""
    rungs = direction.rungs.values()
    levels = next(iter(rungs)).held_out.quantiles
    numbers = ("mean", "RMS", *(f"{100 * float(level):g} %" for level in levels), "worst")
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


# Rows and dimensions


def _alignment(result: Comparison) -> Section:
    """Two panels on the target's principal plane, with common axes, and their coordinates."""
    data = result.figures.scatter
    clouds = {"target": data.target, "before": data.before, "after": data.after}
    said = (
        f"Both sides on the principal plane of {result.target.name}, in its diameters; a thin line joins the two "
        "points of a row."
    )
    columns: Forms = {"row": str} | dict.fromkeys((f"{name}, axis {axis}" for name in clouds for axis in (1, 2)), three)
    points = zip(*(cloud.tolist() for cloud in clouds.values()), strict=True)
    rows = [(row, *(part for point in each for part in point)) for row, each in zip(data.rows, points, strict=True)]
    panels = (
        _panel("before", "centred, at the same size", result),
        _panel("after", f"mapped by the {rung_name(data.rung)} rung", result),
    )
    parts = (Prose((said,)), Row(panels), Table.of("scatter", "Coordinates", columns, rows, folded=True))
    return Section("alignment", "Before and after alignment", parts)


def _panel(name: str, how: str, result: Comparison) -> Figure:
    data, source, target = result.figures.scatter, result.source.name, result.target.name
    mapped, there = ([(x, y) for x, y in cloud.tolist()] for cloud in (getattr(data, name), data.target))
    gaps = [math.dist(one, other) for one, other in zip(mapped, there, strict=True)]
    labels = tuple(f"row {row}: {three(gap)} from its partner here" for row, gap in zip(data.rows, gaps, strict=True))
    chart = Scatter(
        Cloud(target, "s2", tuple(there), labels, hollow=True),
        Cloud(f"{source}, {name}", "s1", tuple(mapped), labels),
        _bounds(data),
        (f"axis 1 ({percent(data.explained[0])} of variance)", f"axis 2 ({percent(data.explained[1])} of variance)"),
    )
    return Figure(
        f"{name}-figure",
        f"{name.capitalize()}: {how}",
        "",
        f"{len(mapped)} rows of {source}, {how}, beside {target}. Here partners are "
        f"{three(sum(gaps) / len(gaps))} diameters apart on average.",
        chart,
        narrow=True,
        legend=(Key("dot", "s2", target), Key("dot", "s1", source)),
    )


def _bounds(data: Plane) -> tuple[float, float, float, float]:
    x, y = zip(*data.target.tolist(), *data.before.tolist(), *data.after.tolist(), strict=True)
    return min(x), max(x), min(y), max(y)


def _matching(result: Comparison) -> Figure:
    """Correlations of matched dimensions: a clean diagonal means that single dimensions come back."""
    data, source, target = result.figures.matching, result.source.name, result.target.name
    values, diagonal = data.correlations.tolist(), data.correlations.diagonal().tolist()
    rows, columns = (tuple(map(str, dims)) for dims in (data.target_dims, data.source_dims))
    strong = f"{sum(abs(value) >= CLEAR for value in diagonal)} of {len(diagonal)}"
    part = f" Shown are the {data.shown} of largest variance among {data.of}, best match first."
    part = part if data.of > data.shown else ""
    titles: Forms = {"target dimension": whole, "source dimension": whole, "correlation": three}
    matched = zip(data.target_dims.tolist(), data.source_dims.tolist(), diagonal, strict=True)
    return Figure(
        "matching-figure",
        "Matched dimensions",
        f"Signed correlations of dimensions of {target} with those of {source} matched to them. A clean diagonal means "
        f"that single dimensions come back; here {strong} exceed {CLEAR} in size.{part}",
        f"Heat map of correlations. On the diagonal, {strong} matched pairs exceed {CLEAR} in size.",
        Heatmap(tuple(map(tuple, values)), rows, columns, ("source dimension", "target dimension"), widest=560),
        table=Table.of("matched-dimensions", "Matched dimensions", titles, matched, folded=True),
    )


def _dimensions(data: Reproducibility, target: str) -> Figure:
    """Held-out R² of every target dimension, rung by rung."""
    order = data.order[:MOST_DIMENSIONS].tolist()
    r2 = {name: values[order].tolist() for name, values in data.r2.items()}
    lines = tuple(
        Line(
            rung_name(name),
            colour(name),
            tuple((rank + 1.0, value) for rank, value in enumerate(values)),
            tuple(f"dimension {dimension}: {three(value)}" for dimension, value in zip(order, values, strict=True)),
            dotted=True,
        )
        for name, values in r2.items()
    )
    every = [value for values in r2.values() for value in values]
    lowest = math.floor(10 * max(LOWEST_R2, min(0.0, *every))) / 10
    below = sum(value < LOWEST_R2 for value in every)
    cut = f" Those below {fixed(LOWEST_R2, 1)} ({below}) are drawn at the edge." if below else ""
    rest = (
        f" The first {count(len(order))} of {count(len(data.order))} are shown." if len(order) < len(data.order) else ""
    )
    told = "; ".join(f"{rung_name(name)}: {_typical(values)}" for name, values in r2.items())
    few = len(order) <= FEW
    what = "dimension" if few else "rank of the dimension"
    axes = (f"{what}, best first by {rung_name(data.reference)}", "held-out R²")
    ticks = tuple((rank + 1.0, str(dimension)) for rank, dimension in enumerate(order)) if few else ()
    columns: Forms = {"target dimension": whole} | dict.fromkeys(map(rung_name, r2), three)
    rows = zip(order, *r2.values(), strict=True)
    return Figure(
        "dimensions-figure",
        "Reproducibility of each dimension",
        f"The share of the variance of each dimension of {target} that a map predicts on rows it has not seen. "
        f"One is perfect; zero is no better than the mean.{cut}{rest}",
        f"Held-out R squared of {len(order)} dimensions. {told}.",
        Lines(lines, axes, y_range=(lowest, 1.0), ticks=ticks),
        table=Table.of("dimensions", "Held-out R² of each dimension", columns, rows, folded=True),
    )


def _typical(values: Sequence[float]) -> str:
    ordered = sorted(values)
    middle, least, greatest = (fixed(ordered[place], 2) for place in (len(ordered) // 2, 0, -1))
    return f"median {middle}, least {least}, greatest {greatest}"


def _residuals(result: Comparison) -> Figure:
    """How the held-out errors of single rows are distributed."""
    data = result.figures.residuals
    bins = list(pairwise(data.edges.tolist()))
    spans = [f"{three(low)} to {three(high)}" for low, high in bins]
    counts = {name: each.tolist() for name, each in data.counts.items()}
    lines = tuple(
        Line(
            rung_name(name),
            colour(name),
            tuple(((low + high) / 2, float(value)) for (low, high), value in zip(bins, values, strict=True)),
            tuple(f"{compact(value)} rows at {span}" for value, span in zip(values, spans, strict=True)),
        )
        for name, values in counts.items()
    )
    modes = "; ".join(
        f"{rung_name(name)}: most rows at {spans[values.index(max(values))]}" for name, values in counts.items()
    )
    columns: Forms = {"error from": fixed, "to": fixed} | dict.fromkeys(map(rung_name, counts), compact)
    rows = [(*ends, *values) for ends, *values in zip(bins, *counts.values(), strict=True)]
    chance = tuple((colour(name), mean) for name, mean in data.null_mean.items())
    axes = ("error of a row, mean distances to the mean", "rows")
    return Figure(
        "residuals-figure",
        "Distribution of held-out errors",
        "A long tail means that a few rows carry the error; a shift of the whole outline, that all do.",
        f"Histogram of held-out errors. {modes}.",
        Histogram(tuple(data.edges.tolist()), lines, axes, chance),
        legend=(
            *legend_of(list(counts), "line"),
            *((Key("chance", "", "mean under shuffled rows"),) if chance else ()),
        ),
        table=Table.of("residuals", "Rows in each bin", columns, rows, folded=True),
    )


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
