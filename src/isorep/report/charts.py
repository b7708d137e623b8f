"""Figures from charts that an experiment left as plain numbers: rows of values, or lines over a common x.

Figures of matrices from 0 to 1, and pictures that came as PNG in base64.

What every figure of a ladder shares: the names and colours of rungs, and two sizes of drawing.
"""

from __future__ import annotations

from .document import Cell, Column, Figure, Table
from .figures import Heatmap, IntervalRow, Intervals, Key, Line, Lines, Picture
from .read import Node, fixed

MOST_MARKS, MOST_LINES, MOST_POINTS, MOST_TICKS, MOST_NOTES = 60, 8, 400, 40, 40
SERIES_COLOURS = 7
LARGEST = 1e12


def chart_figure(node: Node) -> Figure | None:
    """The figure of a chart, or nothing where it holds no values to draw."""
    if node["cells"]:
        return cells_figure(node, _name(node))
    if node["picture"].text():
        return picture_figure(node, _name(node))
    return _rows_figure(node) if node["marks"] else _lines_figure(node)


def _rows_figure(node: Node) -> Figure | None:
    rows = []
    for mark in node["marks"].nodes(MOST_MARKS):
        value, low, high, bound = (mark[key].number() for key in ("value", "low", "high", "bound"))
        if value is None or not 0 <= value < LARGEST:
            continue
        span = (low, high) if low is not None and high is not None and 0 <= low <= high < LARGEST else None
        tick = (bound, bound, bound) if bound is not None and 0 <= bound < LARGEST else None
        said = fixed(value, 3) + (f", {fixed(span[0], 3)} to {fixed(span[1], 3)}" if span else "")
        rows.append(
            IntervalRow(
                mark["name"].text("unnamed"),
                _colour(mark),
                value,
                span,
                band=tick,
                labels=(said, "", f"{node['bound'].text('bound')}: {fixed(bound, 3)}" if tick else ""),
                printed=fixed(value, 3),
            )
        )
    if not rows:
        return None
    axis = node["axes"].nodes(2)[0].text() if node["axes"].nodes(2) else ""
    legend = [Key("dot", "s0", "value"), Key("whisker", "s0", node["whisker"].text("standard error"))]
    if any(row.band for row in rows):
        legend.append(Key("tick", "s0", node["bound"].text("bound")))
    table = Table(
        f"{_name(node)}-table",
        "The figure in numbers",
        (
            Column("", numeric=False),
            Column("value"),
            Column("low"),
            Column("high"),
            Column(node["bound"].text("bound")),
        ),
        tuple(
            (
                Cell(row.name),
                *(
                    Cell(fixed(number, 3), number)
                    for number in (row.value, *(row.interval or (None, None)), row.band[1] if row.band else None)
                ),
            )
            for row in rows
        ),
        folded=True,
    )
    return Figure(
        _name(node),
        node["title"].text("A figure"),
        node["caption"].text(),
        "; ".join(f"{row.name} {row.labels[0]}" for row in rows),
        Intervals(tuple(rows), axis),
        legend=tuple(legend),
        table=table,
    )


def _lines_figure(node: Node) -> Figure | None:
    drawn = []
    for line in node["lines"].nodes(MOST_LINES):
        points = line["points"].points(MOST_POINTS)
        if not points or any(abs(number) > LARGEST for point in points for number in point):
            continue
        texts = [label.text() for label in line["labels"].nodes(len(points))]
        labels = tuple((*texts, *("" for _ in points))[: len(points)])
        dotted = line["dotted"].raw is True
        spans = line["spans"].points(MOST_POINTS)
        fits = len(spans) == len(points) and all(-LARGEST < low <= high < LARGEST for low, high in spans)
        name, kept = line["name"].text("unnamed"), tuple(spans) if fits else ()
        drawn.append(Line(name, _colour(line), tuple(points), labels, dotted=dotted, spans=kept))
    if not drawn:
        return None
    named = [each.text() for each in node["axes"].nodes(2)]
    axes = (named[0], named[1]) if len(named) == 2 else ("", "")
    ticks = []
    for tick in node["ticks"].nodes(MOST_TICKS):
        pair = tick.nodes(2)
        place = pair[0].number() if len(pair) == 2 else None
        if place is not None and abs(place) < LARGEST:
            ticks.append((place, pair[1].text()))
    square, notes = node["square"].raw is True, _notes(node)
    return Figure(
        _name(node),
        node["title"].text("A figure"),
        node["caption"].text(),
        "; ".join(f"{line.name}: {', '.join(line.labels[:MOST_TICKS])}" for line in drawn),
        Lines(tuple(drawn), axes, 300, ticks=tuple(ticks), square=square, notes=tuple(notes)),
    )


def _notes(node: Node) -> list[tuple[float, float, str]]:
    """Words with their places."""
    found = []
    for note in node["notes"].nodes(MOST_NOTES):
        parts = note.nodes(3)
        x, y = (parts[0].number(), parts[1].number()) if len(parts) == 3 else (None, None)
        if x is not None and y is not None and max(abs(x), abs(y)) < LARGEST:
            found.append((x, y, parts[2].text()))
    return found


def _colour(node: Node) -> str:
    return f"s{(node['series'].whole() or 0) % SERIES_COLOURS}"


def _name(node: Node) -> str:
    """An anchor: letters, digits and dashes only."""
    text = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in node["name"].text("chart"))
    return f"{text[:60]}-figure"


MOST_ROWS, MOST_COLUMNS = 64, 64
_ROOM = 110.0  # pixels for names of rows


def cells_figure(node: Node, name: str) -> Figure | None:
    """The heat map of a chart's ``cells``; nothing unless they are a matrix."""
    values = [row.numbers(MOST_COLUMNS) for row in node["cells"].nodes(MOST_ROWS)]
    if not values or not values[0] or any(len(row) != len(values[0]) for row in values):
        return None
    sides = node["sides"].nodes(2)
    rows = _names(sides[0] if sides else Node(None), len(values))
    columns = _names(sides[1] if len(sides) == 2 else Node(None), len(values[0]))
    named = [each.text() for each in node["axes"].nodes(2)]
    axes = (named[0], named[1]) if len(named) == 2 else ("", "")
    said = "; ".join(
        f"{row}: {', '.join(fixed(value, 2) for value in line)}" for row, line in zip(rows, values, strict=True)
    )
    return Figure(
        name,
        node["title"].text("A matrix"),
        node["caption"].text(),
        said,
        Heatmap(tuple(map(tuple, values)), tuple(rows), tuple(columns), axes, left=_ROOM, signed=False),
    )


def picture_figure(node: Node, name: str) -> Figure | None:
    """A picture as it is; nothing unless it is a PNG of a sensible size."""
    title = node["title"].text("A picture")
    try:
        picture = Picture(node["picture"].text(), title)
    except ValueError:
        return None
    return Figure(name, title, node["caption"].text(), node["caption"].text() or title, picture)


def _names(node: Node, count: int) -> list[str]:
    found = [each.text() for each in node.nodes(count)]
    return [*found, *(str(place) for place in range(len(found), count))]


NAMES = {"signed_permutation": "signed permutation", "ica": "ICA"}
COLOURS = {"identity": "s0", "signed_permutation": "s1", "rigid": "s2", "linear": "s3", "ica": "s4"}


def rung_name(rung: str) -> str:
    """A rung's name in words."""
    return NAMES.get(rung, rung)


def colour(rung: str) -> str:
    """The class of a rung's colour; it is the same in every figure."""
    return COLOURS.get(rung, "s0")


def legend_of(rungs: list[str], mark: str) -> tuple[Key, ...]:
    """A legend of rungs."""
    return tuple(Key(mark, colour(rung), rung_name(rung)) for rung in rungs)
