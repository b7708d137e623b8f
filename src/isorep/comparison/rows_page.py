"""Rows and dimensions on the page of a comparison: they follow the rung that the reader chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from ..report.charts import colour, rung_name
from ..report.document import Figure, Forms, Prose, Row, Section, Table
from ..report.figures import Alignment, Heatmap, Histogram, Key, Line, Lines, Movement
from ..report.figures.alignment import PICTURES
from ..report.read import compact, count, fixed, percent
from ..representation import Array
from .figures import Matching, Plane, Reproducibility
from .result import Comparison

CLEAR = 0.9  # correlation from which on two dimensions are the same
LOWEST_R2 = -0.5
MOST_WORST = 10  # rows of largest error that are listed
FEW = 10  # dimensions up to which each has its name under the axis
MOST_DIMENSIONS = 10_000
three, whole = partial(fixed, digits=3), "{:d}".format


def alignment(result: Comparison) -> Section:
    """The rows that move from before to after alignment, their errors, and the rows that fit worst."""
    data = result.figures.scatter
    said = (
        f"Rows on the principal plane of {result.target.name}, in its diameters; a thin line joins the two points of a "
        "row. The slider moves the source from where it lies, centred and at the same size, to where the chosen rung, "
        "fitted to all rows, takes it. Drag over points to select rows; Enter selects the 25 rows around the current "
        "one."
    )
    places = {"target": data.target, "before": data.before, rung_name(data.rung): data.after}
    columns: Forms = {"row": str} | dict.fromkeys((f"{name}, axis {axis}" for name in places for axis in (1, 2)), three)
    points = zip(*(cloud.tolist() for cloud in places.values()), strict=True)
    rows = [(row, *(part for point in each for part in point)) for row, each in zip(data.rows, points, strict=True)]
    table = Table.of("scatter", "Coordinates", columns, rows, folded=True)
    parts = (Prose((said,)), Row((_moving(result), _residuals(result))), _worst_drawn(data), table)
    return Section("alignment", "Before and after alignment", parts)


def _moving(result: Comparison) -> Figure:
    data, source, target = result.figures.scatter, result.source.name, result.target.name
    names = tuple(dict.fromkeys(sorted(data.classes)))
    movements = tuple(
        Movement(name, rung_name(name), _points(places), tuple(data.errors[name].tolist()))
        for name, places in data.by_rung.items()
    )
    chart = Alignment(
        (target, source),
        data.rows,
        _points(data.target),
        _points(data.before),
        movements,
        data.rung,
        (f"axis 1 ({percent(data.explained[0])} of variance)", f"axis 2 ({percent(data.explained[1])} of variance)"),
        tuple(names.index(each) for each in data.classes),
        names,
        data.examples,
    )
    gaps = [math.dist(*pair) for pair in zip(chart.target, _points(data.after), strict=True)]
    return Figure(
        "alignment-figure",
        f"{count(len(data.rows))} rows, before and after alignment",
        "",
        f"{len(gaps)} rows of {source} and {target}. After alignment by the {rung_name(data.rung)} rung, partners are "
        f"{three(sum(gaps) / len(gaps))} diameters apart on average on this plane.",
        chart,
        narrow=True,
    )


def _points(places: Array) -> tuple[tuple[float, float], ...]:
    return tuple((x, y) for x, y in places.tolist())


def _worst_drawn(data: Plane) -> Table:
    """The rows of largest error among those drawn; the page shows those of the chosen rung, or of what is selected."""
    errors = data.errors[data.rung]
    texts = data.examples if not any(each.startswith(PICTURES) for each in data.examples) else ()
    more = {"class": data.classes, "example": texts}
    shown = {name: values for name, values in more.items() if values}
    columns: Forms = {"row": str, "held-out error": three, **dict.fromkeys(shown, str)}
    worst = np.argsort(-errors, kind="stable")[:MOST_WORST].tolist()
    rows = [(data.rows[row], float(errors[row]), *(each[row] for each in shown.values())) for row in worst]
    title = f"The {len(rows)} rows that fit worst among those drawn, or selected, by the chosen rung"
    return Table.of("worst-drawn", title, columns, rows)


def single_dimensions(result: Comparison) -> Section:
    """How well every dimension of the target is predicted, and which dimensions of the source match it."""
    dimensions, chosen = result.figures.dimensions, result.figures.scatter.rung
    followed = () if dimensions is None else (_dimensions(dimensions, result.target.name, chosen),)
    matching = result.figures.matching
    matched = () if matching is None else (_matching(result, matching),)
    return Section("dimensions", "Single dimensions", (*followed, *matched))


def _matching(result: Comparison, data: Matching) -> Figure:
    """Correlations of matched dimensions: a clean diagonal means that single dimensions are reproducible."""
    source, target = result.source.name, result.target.name
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
        f"that single dimensions are reproducible; here {strong} exceed {CLEAR} in size.{part}",
        f"Heat map of correlations. On the diagonal, {strong} matched pairs exceed {CLEAR} in size.",
        Heatmap(tuple(map(tuple, values)), rows, columns, ("source dimension", "target dimension"), widest=560),
        table=Table.of("matched-dimensions", "Matched dimensions", titles, matched, folded=True),
    )


def _dimensions(data: Reproducibility, target: str, chosen: str) -> Figure:
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
            key=name,
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
        Lines(lines, axes, y_range=(lowest, 1.0), ticks=ticks, chosen=chosen),
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
    first = next(iter(counts))
    total = max(sum(counts[first]) + data.beyond.get(first, 0), 1)
    outside = ", ".join(f"{rung_name(name)} {count(number)}" for name, number in data.beyond.items())
    cut = f" Beyond the axis, of {count(total)} rows: {outside}." if outside else ""
    lines = tuple(
        Line(
            rung_name(name),
            colour(name),
            tuple(((low + high) / 2, 100 * value / total) for (low, high), value in zip(bins, values, strict=True)),
            tuple(f"{compact(value)} rows at {span}" for value, span in zip(values, spans, strict=True)),
            key=name,
        )
        for name, values in counts.items()
    )
    modes = "; ".join(
        f"{rung_name(name)}: most rows at {spans[values.index(max(values))]}" for name, values in counts.items()
    )
    columns: Forms = {"error from": fixed, "to": fixed} | dict.fromkeys(map(rung_name, counts), compact)
    rows = [(*ends, *values) for ends, *values in zip(bins, *counts.values(), strict=True)]
    chosen = result.figures.scatter.rung
    legend = [Key("line", colour(name), rung_name(name), name, name == chosen) for name in counts]
    return Figure(
        "residuals-figure",
        "Distribution of held-out errors",
        f"A long tail means that a few rows carry the error; a shift of the whole outline, that all do.{cut}",
        f"Histogram of held-out errors. {modes}.{cut}",
        Histogram(
            tuple(data.edges.tolist()),
            lines,
            ("error of a row, mean distances to the mean", "% of rows"),
            tuple(data.null_mean.items()),
            chosen,
        ),
        legend=(*legend, *((Key("chance", "", "chance, mean"),) if data.null_mean else ())),
        table=Table.of("residuals", "Rows in each bin", columns, rows, folded=True),
        narrow=True,
    )
