"""Single dimensions: how they match, how well each comes back, and how much each axis varies."""

from __future__ import annotations

import math
from itertools import pairwise

from .figures import Line, heatmap, lines
from .parts import Cell, Column, Figure, Key, Table
from .rungs import colour, legend_of, on_both, rung_name
from .values import MISSING, Node, compact, count, fixed, present

MOST_CELLS, MOST_DIMENSIONS = 64, 10_000
LOWEST_R2 = -0.5
FEW = 10
"""So many dimensions have their names under the axis."""


def matching_figure(node: Node, source: str, target: str) -> Figure | None:
    """Correlations of matched dimensions: a clean diagonal means that single dimensions come back."""
    values = [row.numbers(MOST_CELLS) for row in node["correlations"].nodes(MOST_CELLS)]
    columns = [entry.text(MISSING) for entry in node["source_dims"].nodes(MOST_CELLS)]
    rows = [entry.text(MISSING) for entry in node["target_dims"].nodes(MOST_CELLS)]
    if not values or len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        return None
    diagonal = [values[place][place] for place in range(min(len(rows), len(columns)))]
    strong = sum(1 for value in present(*diagonal) if abs(value) >= 0.9)
    shown, of = node["shown"].whole() or len(rows), node["of"].whole() or len(rows)
    part = f" Shown are the {shown} of largest variance among {of}, best match first." if of > shown else ""
    table = Table(
        "matched-dimensions",
        "Matched dimensions",
        (Column("target dimension"), Column("source dimension"), Column("correlation")),
        tuple(
            (Cell(row), Cell(column), Cell(fixed(value, 3), value))
            for row, column, value in zip(rows, columns, diagonal, strict=False)
        ),
        folded=True,
    )
    return Figure(
        "matching-figure",
        "Matched dimensions",
        f"Signed correlations of dimensions of {target} with those of {source} matched to them. A clean diagonal means "
        f"that single dimensions come back; here {strong} of {len(diagonal)} exceed 0.9 in size.{part}",
        f"Heat map of correlations. On the diagonal, {strong} of {len(diagonal)} matched pairs exceed 0.9 in size.",
        on_both(
            lambda width: heatmap(values, rows, columns, ("source dimension", "target dimension"), min(width, 560))
        ),
        table=table,
    )


def dimensions_figure(node: Node, target: str) -> Figure | None:
    """Held-out R² of every target dimension, rung by rung; ``order`` says which dimension comes first."""
    places = dimension_order(node)
    given = [(rung, entry.numbers()) for rung, entry in node["r2"].items()[:8]]
    shown = places[:MOST_DIMENSIONS]
    found = [(rung, [values[place] for place in shown]) for rung, values in given if len(values) == len(places)]
    found = [(rung, values) for rung, values in found if present(*values)]
    if not found:
        return None
    order = [str(place) for place in shown]
    drawn = [_r2_line(rung, values, order) for rung, values in found]
    every = [y for line in drawn for _, y in line.points]
    low = max(LOWEST_R2, math.floor(10 * max(LOWEST_R2, min(0.0, *every))) / 10)
    below = sum(1 for y in every if y < LOWEST_R2)
    cut = f" Those below {fixed(LOWEST_R2, 1)} ({below}) are drawn at the edge." if below else ""
    rest = f" The first {count(len(shown))} of {count(len(places))} are shown." if len(places) > len(shown) else ""
    told = "; ".join(f"{rung_name(rung)}: {_typical(values)}" for rung, values in found)
    few = len(shown) <= FEW
    axes = (f"{'dimension' if few else 'rank of the dimension'}, {_ordering(found)}", "held-out R²")
    ticks = [(place + 1.0, name) for place, name in enumerate(order)] if few else None
    return Figure(
        "dimensions-figure",
        "Reproducibility of each dimension",
        f"The share of the variance of each dimension of {target} that a map predicts on rows it has not seen. "
        f"One is perfect; zero is no better than the mean.{cut}{rest}",
        f"Held-out R squared of {len(order)} dimensions. {told}.",
        on_both(lambda width: lines(drawn, axes, width, 280, y_range=(low, 1.0), ticks=ticks)),
        legend=legend_of([rung for rung, _ in found], "dot"),
        table=_r2_table(order, found),
    )


def spectrum_figure(result: Node) -> Figure | None:
    """Standard deviations along the principal axes of both sides, each relative to its largest."""
    drawn, columns, told = [], [], []
    for kind, class_ in (("source", "s1"), ("target", "s2")):
        values = present(*result[kind]["spectrum"].numbers(MOST_DIMENSIONS))
        if not values or values[0] <= 0:
            continue
        name = f"{result[kind]['name'].text(kind)} ({kind})"
        shares = [max(value, 0.0) / values[0] for value in values]
        labels = tuple(f"axis {place + 1}: {compact(value)}" for place, value in enumerate(values))
        points = tuple((float(place + 1), share) for place, share in enumerate(shares))
        drawn.append(Line(name, class_, points, labels))
        columns.append((name, values))
        rank = result[kind]["rank"].whole()
        told.append(f"{name}: rank {rank if rank is not None else 'unknown'} of {len(values)} axes shown")
    if not drawn:
        return None
    least = min((y for line in drawn for _, y in line.points if y > 0), default=1.0)
    low = max(least, 1e-9) * 0.8
    axes = ("principal axis", "standard deviation, relative to the largest")
    longest = max(len(values) for _, values in columns)
    rows = tuple((Cell(str(place + 1)), *(_at(values, place) for _, values in columns)) for place in range(longest))
    table = Table(
        "spectrum",
        "Standard deviations",
        (Column("principal axis"), *(Column(name) for name, _ in columns)),
        rows,
        folded=True,
    )
    return Figure(
        "spectrum-figure",
        "Spectrum of both sides",
        "A steep fall means that few directions carry the variance; the error then says little about the rest.",
        "Standard deviations along principal axes, falling. " + "; ".join(told) + ".",
        on_both(lambda width: lines(drawn, axes, width, 280, y_range=(low, 1.0), log=True)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
        table=table,
    )


def dimension_order(node: Node) -> list[int]:
    """The dimensions in their order; as they are numbered where the order names some twice or not at all."""
    order = [entry.whole() for entry in node["order"].nodes()]
    places = [place for place in order if place is not None]
    return places if sorted(places) == list(range(len(order))) else list(range(len(order)))


def _r2_line(rung: str, values: list[float | None], order: list[str]) -> Line:
    kept = [(place, value) for place, value in enumerate(values) if value is not None]
    return Line(
        rung_name(rung),
        colour(rung),
        tuple((float(place + 1), value) for place, value in kept),
        tuple(f"dimension {order[place]}: {fixed(value, 3)}" for place, value in kept),
        dotted=True,
    )


def _r2_table(order: list[str], found: list[tuple[str, list[float | None]]]) -> Table:
    columns = (Column("target dimension"), *(Column(rung_name(rung)) for rung, _ in found))
    rows = tuple(
        (Cell(name), *(Cell(fixed(values[place], 3), values[place]) for _, values in found))
        for place, name in enumerate(order)
    )
    return Table("dimensions", "Held-out R² of each dimension", columns, rows, folded=True)


def _typical(values: list[float | None]) -> str:
    ordered = sorted(present(*values))
    return (
        f"median {fixed(ordered[len(ordered) // 2], 2)}, least {fixed(ordered[0], 2)}, greatest {fixed(ordered[-1], 2)}"
    )


def _ordering(found: list[tuple[str, list[float | None]]]) -> str:
    for rung, values in sorted(found, key=lambda entry: entry[0] != "linear"):
        known = present(*values)
        if len(known) == len(values) and all(a >= b for a, b in pairwise(known)):
            return f"best first by {rung_name(rung)}"
    return "in the order given"


def _at(values: list[float], place: int) -> Cell:
    return Cell(compact(values[place]), values[place]) if place < len(values) else Cell(MISSING)
