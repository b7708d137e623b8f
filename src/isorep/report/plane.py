"""Two clouds on the principal plane, before and after alignment."""

from __future__ import annotations

from .figures import NARROW, Cloud, scatter
from .parts import Cell, Column, Figure, Key, Prose, Row, Table
from .rungs import rung_name
from .values import Node, fixed, percent

MOST_ROWS = 1000
LARGEST = 1e12


def scatter_figures(node: Node, source: str, target: str) -> tuple[object, ...]:
    """Two panels on the target's principal plane, with common axes, and their coordinates."""
    there = node["target"].points(MOST_ROWS)
    panels = [(name, node[name].points(MOST_ROWS)) for name in ("before", "after")]
    panels = [(name, points) for name, points in panels if points and len(points) == len(there)]
    if not panels:
        return ()
    names = [entry.text() for entry in node["rows"].nodes(MOST_ROWS)]
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
        (scatter(fixed_side, mapped, bounds, axes, NARROW),),
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
