"""A matrix of signed values in colour.

A matrix of errors in colour, near items side by side, with the tree that put them there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .axes import Drawing, Series, clipped, dots, group, short, tag

SHADES = 10
"""Shades of each sign; the style sheet mixes them (``n1`` to ``n10`` and ``p1`` to ``p10``)."""
LARGEST_CELL = 38.0


@dataclass(frozen=True)
class Heatmap:
    """Cells from -1 to 1, row 0 at the top; cells of one shade are one element.

    Where no cell can be negative (not ``signed``), the legend begins at 0. ``left`` is the room for row names, at most
    a quarter of the width; ``marked`` cells (row, column) have a dot; ``labels`` say what each cell is where its value
    does not.
    """

    values: tuple[tuple[float | None, ...], ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    left: float = 48.0
    signed: bool = True
    widest: float = 720.0
    marked: tuple[tuple[int, int], ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        shape = [len(self.columns)] * len(self.rows)
        if [len(row) for row in self.values] != shape or (self.labels and [len(row) for row in self.labels] != shape):
            raise ValueError("values and labels are matrices of the named rows and columns")

    def draw(self, width: float) -> Drawing:
        """At this width."""
        width = min(width, self.widest)
        left = max(min(self.left, width / 4), 48.0)
        top, right, bottom = 30.0, 8.0, 92.0
        cell = min((width - left - right) / max(len(self.columns), 1), LARGEST_CELL)
        height = top + cell * len(self.rows) + bottom
        middle = left + cell * len(self.columns) / 2
        foot = top + cell * len(self.rows)
        columns = [clipped(name, 60) for name in self.columns]
        drawn = [
            tag("text", self.axes[1], class_="axis-title", x=2, y=top - 14),
            tag("text", self.axes[0], class_="axis-title", x=max(middle, 90), y=foot + 35, text_anchor="middle"),
            tag("rect", class_="ground", x=left, y=top, width=cell * len(columns), height=cell * len(self.rows)),
            *_cells(self.values, left, top, cell),
            *_names([clipped(name, left - 6) for name in self.rows], columns, left, top, cell),
            _legend(left, foot + 52, self.signed),
        ]
        if self.marked:
            spots = [(left + (j + 0.5) * cell, top + (i + 0.5) * cell) for i, j in self.marked]
            drawn.append(group([dots(spots, "medium" if cell > 9 else "small")], class_="s2"))
        series = tuple(
            Series(
                f"{self.axes[1]} {row}",
                tuple((left + (j + 0.5) * cell, top + (i + 0.5) * cell) for j in range(len(columns))),
                self.labels[i] if self.labels else tuple(map(self._label, self.columns, self.values[i])),
            )
            for i, row in enumerate(self.rows)
        )
        return Drawing(width, height, Markup("").join(drawn), series, reach=0.75 * cell)

    def _label(self, column: str, value: float | None) -> str:
        return f"{self.axes[0]} {column}: {'no value' if value is None else f'{value:.2f}'.replace('-', '−')}"

    @property
    def told(self) -> str:
        """The chart in words."""
        texts = [", ".join("–" if value is None else f"{value:.2f}" for value in row) for row in self.values]
        return "; ".join(f"{row}: {text}" for row, text in zip(self.rows, texts, strict=False)).replace("-", "−")


def _cells(values: Sequence[Sequence[float | None]], left: float, top: float, cell: float) -> list[Markup]:
    gap = 0.5 if cell > 8 else 0.0
    side = short(cell - 2 * gap + (0 if gap else 0.1))
    shades: dict[str, list[str]] = defaultdict(list)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            shade = 0 if value is None else round(SHADES * min(abs(value), 1.0))
            if shade and value is not None:
                corner = f"M{left + j * cell + gap:.2f} {top + i * cell + gap:.2f}"
                shades[f"{'p' if value > 0 else 'n'}{shade}"].append(f"{corner}h{side}v{side}h-{side}z")
    return [tag("path", class_=f"cell {shade}", d="".join(shades[shade])) for shade in sorted(shades)]


def _names(rows: Sequence[str], columns: Sequence[str], left: float, top: float, cell: float) -> list[Markup]:
    longest = max((len(name) for name in columns), default=1)
    across = max(1, round((7.5 * longest + 6) / cell + 0.49))
    down = max(1, round(14 / cell + 0.49))
    foot = top + cell * len(rows)
    drawn = [
        tag("text", rows[i], class_="tick", x=left - 6, y=top + (i + 0.5) * cell + 4, text_anchor="end")
        for i in range(0, len(rows), down)
    ]
    drawn += [
        tag("text", columns[j], class_="tick", x=left + (j + 0.5) * cell, y=foot + 16, text_anchor="middle")
        for j in range(0, len(columns), across)
    ]
    return drawn


def _legend(left: float, y: float, signed: bool = True) -> Markup:
    each = 9.0
    negative = [f"n{shade}" for shade in range(SHADES, 0, -1)] if signed else []
    shades = [*negative, "p0", *(f"p{shade}" for shade in range(1, SHADES + 1))]
    drawn = [
        tag("rect", class_=f"cell {shade}", x=left + place * each, y=y, width=each + 0.1, height=9)
        for place, shade in enumerate(shades)
    ]
    for place, text in ((0.0, "−1"), (0.5, "0"), (1.0, "1")) if signed else ((0.0, "0"), (1.0, "1")):
        x = left + each * (0.5 + place * (len(shades) - 1))
        drawn.append(tag("text", text, class_="tick", x=x, y=y + 24, text_anchor="middle"))
    return group(drawn, class_="scale-bar")


LARGEST_CLUSTERED, PRINTED_CELL = 54.0, 32.0
"""Pixels a cell has at most, and from which on it has its number in it."""
TREE, LABEL = 64.0, 160.0

Tree = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class Clustered:
    """Errors from 0 (dark) to 1 or more (blank), row 0 at the top; rows and columns are the same items.

    ``tree`` joins items as scipy's linkage does: two clusters, and the height at which. Items are leaves 0, 1, ... in
    the order they are drawn.
    """

    values: tuple[tuple[float | None, ...], ...]
    names: tuple[str, ...]
    tree: Tree
    axes: tuple[str, str]

    def __post_init__(self) -> None:
        if [len(row) for row in self.values] != [len(self.names)] * len(self.names):
            raise ValueError("values are a square matrix of the named items")

    def draw(self, width: float) -> Drawing:
        """At this width."""
        count, names, values = len(self.names), self.names, self.values
        left, right, bottom = (96.0 if width < 500 else 190.0), 8.0, 86.0
        top = 30.0 + (TREE if self.tree else 0.0)
        cell = min((width - left - right) / max(count, 1), LARGEST_CLUSTERED)
        foot, middle = top + cell * count, left + cell * count / 2
        drawn = [
            tag("text", self.axes[1], class_="axis-title", x=2, y=top - 10),
            tag("text", self.axes[0], class_="axis-title", x=middle, y=foot + 35, text_anchor="middle"),
            tag("rect", class_="ground", x=left, y=top, width=cell * count, height=cell * count),
            *_clustered_cells(values, left, top, cell),
            *(_printed(values, left, top, cell) if cell >= PRINTED_CELL else ()),
            *_clustered_names(names, left, top, cell),
            *(_branches(self.tree, count, left, top, cell) if self.tree else ()),
            _clustered_legend(left, foot + 50),
        ]
        series = tuple(
            Series(
                f"{self.axes[1]} {names[i]}",
                tuple((left + (j + 0.5) * cell, top + (i + 0.5) * cell) for j in range(count)),
                tuple(f"{self.axes[0]} {clipped(names[j], LABEL)}: {_spelt(values[i][j])}" for j in range(count)),
            )
            for i in range(count)
        )
        return Drawing(width, foot + bottom, Markup("").join(drawn), series, reach=0.75 * cell)


def _spelt(value: float | None) -> str:
    return "the run itself" if value is None else f"{value:.3f}"


def _shade(value: float) -> int:
    return round(SHADES * (1 - min(max(value, 0.0), 1.0)))


def _clustered_cells(values: Sequence[Sequence[float | None]], left: float, top: float, cell: float) -> list[Markup]:
    gap = 0.5 if cell > 8 else 0.0
    side = short(cell - 2 * gap + (0 if gap else 0.1))
    shades: dict[int, list[str]] = defaultdict(list)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is not None:
                corner = f"M{left + j * cell + gap:.2f} {top + i * cell + gap:.2f}"
                shades[_shade(value)].append(f"{corner}h{side}v{side}h-{side}z")
    return [
        tag("path", class_=f"cell {f'n{shade}' if shade else 'p0'}", d="".join(shades[shade]))
        for shade in sorted(shades)
    ]


def _printed(values: Sequence[Sequence[float | None]], left: float, top: float, cell: float) -> list[Markup]:
    drawn = []
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is not None:
                text = f"{value:.2f}" if value < 9.995 else f"{value:.0f}"
                tone = "inside light" if _shade(value) > SHADES / 2 else "inside"
                where = {"x": left + (j + 0.5) * cell, "y": top + (i + 0.5) * cell + 4}
                drawn.append(tag("text", clipped(text, cell + 8), class_=tone, text_anchor="middle", **where))
    return drawn


def _clustered_names(names: Sequence[str], left: float, top: float, cell: float) -> list[Markup]:
    """Names at the rows with their numbers, numbers under the columns; where cells are small, some of them."""
    every = max(1, round(15 / cell + 0.49))
    foot = top + cell * len(names)
    drawn = []
    for i in range(0, len(names), every):
        middle = (i + 0.5) * cell
        text = clipped(f"{i + 1} · {names[i]}", left - 8)
        drawn.append(tag("text", text, class_="tick", x=left - 6, y=top + middle + 4, text_anchor="end"))
        drawn.append(tag("text", str(i + 1), class_="tick", x=left + middle, y=foot + 16, text_anchor="middle"))
    return drawn


def _branches(tree: Tree, count: int, left: float, top: float, cell: float) -> list[Markup]:
    """The tree above the matrix: a bracket for each join, at the height of its error."""
    highest = max((height for _, _, height in tree), default=0.0) or 1.0
    places = {leaf: (left + (leaf + 0.5) * cell, top - 4.0) for leaf in range(count)}
    paths = []
    for step, (a, b, height) in enumerate(tree):
        (x_a, y_a), (x_b, y_b) = places[a], places[b]
        y = top - 4 - (TREE - 12) * height / highest
        paths.append(f"M{short(x_a)} {short(y_a)}V{short(y)}H{short(x_b)}V{short(y_b)}")
        places[count + step] = ((x_a + x_b) / 2, y)
    return [tag("path", class_="branch", d="".join(paths))]


def _clustered_legend(left: float, y: float) -> Markup:
    each = 14.0
    shades = [f"n{shade}" for shade in range(SHADES, 0, -1)] + ["p0"]
    drawn = [
        tag("rect", class_=f"cell {shade}", x=left + place * each, y=y, width=each + 0.1, height=9)
        for place, shade in enumerate(shades)
    ]
    for place, text in ((0.0, "0"), (0.5, "0.5"), (1.0, "1 or more")):
        x = left + each * (0.5 + place * (len(shades) - 1))
        drawn.append(tag("text", text, class_="tick", x=x, y=y + 24, text_anchor="middle"))
    return group(drawn, class_="scale-bar")
