"""Single dimensions: how they match, how well each comes back, and how much each axis varies.

The worst case: what is certified about the best map, and which rows fit worst.

Two clouds on the principal plane, before and after alignment.

The representations that were compared, as a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from ..report.charts import colour, legend_of, rung_name
from ..report.document import Cell, Column, Figure, Part, Prose, Row, Section, Table
from ..report.figures import Cloud, Heatmap, IntervalRow, Intervals, Key, Line, Lines, Scatter
from ..report.read import MISSING, Node, compact, count, fixed, percent, present

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
        Heatmap(
            tuple(map(tuple, values)), tuple(rows), tuple(columns), ("source dimension", "target dimension"), widest=560
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
    ticks = [(place + 1.0, name) for place, name in enumerate(order)] if few else []
    return Figure(
        "dimensions-figure",
        "Reproducibility of each dimension",
        f"The share of the variance of each dimension of {target} that a map predicts on rows it has not seen. "
        f"One is perfect; zero is no better than the mean.{cut}{rest}",
        f"Held-out R squared of {len(order)} dimensions. {told}.",
        Lines(tuple(drawn), axes, 280, y_range=(low, 1.0), ticks=tuple(ticks)),
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
        Lines(tuple(drawn), axes, 280, y_range=(low, 1.0), log=True),
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
MOST_CERTIFIED = 200


def worst_case(result: Node, target: str) -> Section | None:
    """The section on the certificates; None without one."""
    found = _certificates(result)
    if not found:
        return None
    parts: list[Part] = [Prose(tuple(_sentence(*entry) for entry in found))]
    if result["worst_case"]["sample"]["sentence"]:
        parts.append(Prose((result["worst_case"]["sample"]["sentence"].text(),)))
    parts += [_figure(found, target), _quantities(found)]
    for place, (group, node) in enumerate(found):
        parts += _worst_rows(group, node, folded=place > 0)
    return Section("worst-case", "Worst case", tuple(parts))


def bracket(result: Node) -> tuple[float, float] | None:
    """The certified ends of the smallest possible largest error over rigid maps without scaling."""
    node = result["worst_case"]["rigid"]
    lower, upper = node["lower"].number(), node["upper"].number()
    return None if lower is None or upper is None else (lower, upper)


def _certificates(result: Node) -> list[tuple[str, Node]]:
    found = [(group, result["worst_case"][group]) for group in GROUPS]
    return [(group, node) for group, node in found if _ends(node) is not None]


def _ends(node: Node) -> tuple[float, float] | None:
    lower, upper = node["lower"].number(), node["upper"].number()
    return None if lower is None or upper is None or not lower <= upper else (lower, upper)


def _sentence(group: str, node: Node) -> str:
    by = f" (by {node['lower_by'].text()})" if node["lower_by"] else ""
    lower, upper = fixed(node["lower"].number()), fixed(node["upper"].number())
    if group == "rigid":
        return (
            f"Whatever rotation, reflection and translation is chosen, some row is off by at least {lower} diameters"
            f"{by}; one is known that keeps every row within {upper}."
        )
    return f"With one scale allowed as well, as on the ladder, the two ends are {lower}{by} and {upper}."


def _figure(found: list[tuple[str, Node]], target: str) -> Figure:
    rows = []
    for group, node in found:
        least = node["least_squares_sup"].number()
        upper = fixed(node["upper"].number())
        said = f"best worst row between {fixed(node['lower'].number())} and {upper}"
        rows.append(
            IntervalRow(
                GROUPS[group],
                "s2",
                interval=_ends(node),
                second=least,
                labels=(said, f"worst row under least squares {fixed(least)}", ""),
                printed=f"≤ {upper}",
            )
        )
    told = "; ".join(f"{row.name}: {row.labels[0]}, {row.labels[1]}" for row in rows)
    return Figure(
        "certificate-figure",
        "The certificate",
        "No map of the group does better than the left end of its bracket; one reaches the right end.",
        f"In diameters of {target}. {told}.",
        Intervals(tuple(rows), f"error of the worst row, diameters of {target}"),
        legend=(Key("whisker", "s2", "certified bracket"), Key("ring", "s2", "worst row under least squares")),
    )


def _quantities(found: list[tuple[str, Node]]) -> Table:
    rows = []
    for key, title in QUANTITIES.items():
        numbers = [node[key].number() for _, node in found]
        rows.append((Cell(title), *(Cell(fixed(number), number) for number in numbers)))
    pairs = [node["pairs_checked"].number() for _, node in found]
    rows.append((Cell("pairs of rows compared"), *(Cell(count(number), number) for number in pairs)))
    kept = tuple(row for row in rows if any(cell.text != MISSING for cell in row[1:]))
    columns = (Column("quantity", numeric=False), *(Column(GROUPS[group]) for group, _ in found))
    return Table("certificate", "What is known, in diameters", columns, kept)


def _worst_rows(group: str, node: Node, folded: bool) -> list[Table]:
    entries = node["worst_rows"].nodes(MOST_CERTIFIED)
    named = any(entry["id"].text() for entry in entries)
    rows = []
    for entry in entries:
        place, error = entry["row"].number(), entry["error"].number()
        name = (Cell(entry["id"].text(MISSING)),) if named else ()
        rows.append((*name, Cell(count(place), place), Cell(fixed(error), error)))
    columns = ((Column("row id", numeric=False),) if named else ()) + (Column("row number"), Column("error"))
    title = f"The rows that fit worst under least squares: {GROUPS[group]}"
    return [Table(f"worst-rows-{group.replace('_', '-')}", title, columns, tuple(rows), folded)] if rows else []


MOST_POINTS = 1000
LARGEST = 1e12


def scatter_figures(node: Node, source: str, target: str) -> tuple[Part, ...]:
    """Two panels on the target's principal plane, with common axes, and their coordinates."""
    there = node["target"].points(MOST_POINTS)
    panels = [(name, node[name].points(MOST_POINTS)) for name in ("before", "after")]
    panels = [(name, points) for name, points in panels if points and len(points) == len(there)]
    if not panels:
        return ()
    names = [entry.text() for entry in node["rows"].nodes(MOST_POINTS)]
    names = names if len(names) == len(there) else [str(place) for place in range(len(there))]
    every = [*there, *(point for _, points in panels for point in points)]
    if max(abs(part) for point in every for part in point) > LARGEST:
        return ()  # in diameters, no row lies so far out
    bounds = (min(x for x, _ in every), max(x for x, _ in every), min(y for _, y in every), max(y for _, y in every))
    shares = node["explained"].numbers(2)
    axes = tuple(
        f"axis {place + 1}" + (f" ({percent(shares[place])} of variance)" if place < len(shares) else "")
        for place in (0, 1)
    )
    rung = rung_name(node["rung"].text("aligned"))
    figures = tuple(
        _panel(name, points, there, names, bounds, (axes[0], axes[1]), rung, (source, target))
        for name, points in panels
    )
    said = (
        f"Both sides on the principal plane of {target}, in its diameters; a thin line joins the two points of a row."
    )
    return (Prose((said,)), Row(figures), _coordinates(names, there, dict(panels)))


def _panel(
    name: str,
    points: list[tuple[float, float]],
    there: list[tuple[float, float]],
    rows: list[str],
    bounds: tuple[float, float, float, float],
    axes: tuple[str, str],
    rung: str,
    sides: tuple[str, str],
) -> Figure:
    source, target = sides
    apart = [((a - c) ** 2 + (b - d) ** 2) ** 0.5 for (a, b), (c, d) in zip(points, there, strict=True)]
    labels = tuple(f"row {row}: {fixed(gap, 3)} from its partner here" for row, gap in zip(rows, apart, strict=True))
    mapped = Cloud(f"{source}, {name}", "s1", tuple(points), labels)
    fixed_side = Cloud(target, "s2", tuple(there), labels, hollow=True)
    how = "centred, at the same size" if name == "before" else f"mapped by the {rung} rung"
    mean = sum(apart) / len(apart)
    return Figure(
        f"{name}-figure",
        f"{name.capitalize()}: {how}",
        "",
        f"{len(points)} rows of {source}, {how}, beside {target}. Here partners are {fixed(mean, 3)} diameters "
        "apart on average.",
        Scatter(fixed_side, mapped, bounds, axes),
        narrow=True,
        legend=(Key("dot", "s2", target), Key("dot", "s1", source)),
    )


def _coordinates(
    names: list[str], there: list[tuple[float, float]], panels: dict[str, list[tuple[float, float]]]
) -> Table:
    clouds = {"target": there, **panels}
    titles = [f"{name}, axis {axis}" for name in clouds for axis in (1, 2)]
    rows = tuple(
        (
            Cell(row),
            *(Cell(fixed(value, 3), value) for points in clouds.values() for value in points[place]),
        )
        for place, row in enumerate(names)
    )
    columns = (Column("row", numeric=False), *(Column(title) for title in titles))
    return Table("scatter", "Coordinates", columns, rows, folded=True)


def sides_table(name: str, title: str, first: str, sides: Sequence[tuple[str, Node]]) -> Table:
    """Size, rank, condition and spread of every side, with what it is called in the first column."""
    rows = []
    for said, side in sides:
        numbers = [side[key].number() for key in ("rows", "columns", "rank", "condition", "constant_columns")]
        texts = [*map(count, numbers[:3]), compact(numbers[3]), count(numbers[4])]
        radius, half = side["rms_radius"].number(), side["half_variance_share"].number()
        rows.append(
            (
                Cell(said),
                *(Cell(text, number) for text, number in zip(texts, numbers, strict=True)),
                Cell(compact(radius), radius),
                Cell(percent(half, 1), half),
                Cell(side["dtype"].text(MISSING)),
            )
        )
    titles = ("rows", "dimensions", "rank", "condition", "constant", "RMS radius", "half the variance in")
    numeric = tuple(Column(each) for each in titles)
    return Table(name, title, (Column(first, numeric=False), *numeric, Column("dtype", numeric=False)), tuple(rows))
