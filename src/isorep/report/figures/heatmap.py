"""Heat maps, clustered or not, and pictures.

Heat map: a matrix in colour, on a diverging scale where values have signs and a sequential one where they have none.

A matrix of errors in colour, near items side by side, with the tree that put them there.

A picture that came as PNG in base64, drawn with its pixels as squares.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .axes import Drawing, Series, clipped, dots, group, short, tag

DARK_INK = 7
"""The shade on which black ink has the most contrast in both themes; on darker ones it is light in the light theme."""
SHADES = 10
"""Shades of each sign; the style sheet mixes them (``n1`` to ``n10`` and ``p1`` to ``p10``)."""
LARGEST_CELL, LARGEST_WRITTEN = 38.0, 72.0


@dataclass(frozen=True)
class Heatmap:
    """Cells from -1 to 1, row 0 at the top; cells of one shade are one element, those without a value are grey.

    Where no cell can be negative (not ``signed``), the scale is sequential and begins at 0. ``left`` is the room for
    row names, at most a quarter of the width; ``marked`` cells (row, column) have a dot; ``labels`` say what each cell
    is where its value does not. ``words`` are written into the cells, which are larger then.
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
    words: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        shape = [len(self.columns)] * len(self.rows)
        given = (self.values, *((self.labels,) if self.labels else ()), *((self.words,) if self.words else ()))
        if any([len(row) for row in each] != shape for each in given):
            raise ValueError("values, labels and words are matrices of the named rows and columns")

    def draw(self, width: float) -> Drawing:
        """At this width."""
        width = min(width, self.widest)
        left = max(min(self.left, width / 4), 48.0)
        largest = LARGEST_WRITTEN if self.words else LARGEST_CELL
        cell = min((width - left - 8) / max(len(self.columns), 1), largest)
        grid = _Grid(left, 30.0, cell, len(self.rows), len(self.columns))
        rows = [clipped(name, left - 6) for name in self.rows]
        shade_of = _signed_shade if self.signed else _share_shade
        drawn = [
            *grid.ground(rows, [clipped(name, 60) for name in self.columns], self.axes),
            *grid.cells(self.values, shade_of),
            *_written(self.values, self.words, grid, shade_of),
            _legend(left, grid.foot + 52, *((DIVERGING, ("−1", "0", "1")) if self.signed else (RISING, ("0", "1")))),
        ]
        if any(value is None for row in self.values for value in row):
            drawn.append(_legend(left + 210, grid.foot + 52, ("none",), ("no value",)))
        if self.marked:
            spots = [grid.middle(i, j) for i, j in self.marked]
            drawn.append(group([dots(spots, "medium" if cell > 9 else "small")], class_="ink"))
        labels = self.labels or [tuple(map(self._label, self.columns, row)) for row in self.values]
        return Drawing(
            width, grid.foot + 92, Markup("").join(drawn), grid.series(self.axes[1], self.rows, labels), 0.75 * cell
        )

    def _label(self, column: str, value: float | None) -> str:
        return f"{self.axes[0]} {column}: {'no value' if value is None else f'{value:.2f}'.replace('-', '−')}"

    @property
    def told(self) -> str:
        """The chart in words."""
        texts = [", ".join("–" if value is None else f"{value:.2f}" for value in row) for row in self.values]
        return "; ".join(f"{row}: {text}" for row, text in zip(self.rows, texts, strict=False)).replace("-", "−")


LARGEST_CLUSTERED, PRINTED_CELL = 54.0, 32.0
"""Pixels a cell has at most, and from which on it has its number in it."""
TREE, LABEL = 64.0, 160.0

Tree = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class Clustered:
    """Errors from 0 (dark) to 1 or more (faint), row 0 at the top; rows and columns are the same items.

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
        count, left = len(self.names), 96.0 if width < 500 else 190.0
        cell = min((width - left - 8) / max(count, 1), LARGEST_CLUSTERED)
        grid = _Grid(left, 30.0 + (TREE if self.tree else 0.0), cell, count, count)
        numbers = [str(number) for number in range(1, count + 1)]
        rows = [clipped(f"{number} · {name}", left - 8) for number, name in zip(numbers, self.names, strict=True)]
        drawn = [
            *grid.ground(rows, numbers, self.axes),
            *grid.cells(self.values, _error_shade),
            *(_printed(self.values, grid) if cell >= PRINTED_CELL else ()),
            *(_branches(self.tree, grid) if self.tree else ()),
            _legend(left, grid.foot + 50, FALLING, ("0", "0.5", "1 or more")),
        ]
        columns = [f"{self.axes[0]} {clipped(name, LABEL)}" for name in self.names]
        labels = [
            tuple(
                f"{name}: {'the run itself' if each is None else f'{each:.3f}'}"
                for name, each in zip(columns, row, strict=True)
            )
            for row in self.values
        ]
        return Drawing(
            width, grid.foot + 86, Markup("").join(drawn), grid.series(self.axes[1], self.names, labels), 0.75 * cell
        )


@dataclass(frozen=True)
class _Grid:
    """Where the cells of a matrix lie."""

    left: float
    top: float
    cell: float
    rows: int
    columns: int

    @property
    def foot(self) -> float:
        """The lower edge."""
        return self.top + self.cell * self.rows

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a cell."""
        return self.left + (column + 0.5) * self.cell, self.top + (row + 0.5) * self.cell

    def ground(self, rows: Sequence[str], columns: Sequence[str], axes: tuple[str, str]) -> list[Markup]:
        """The titles of both axes, the ground, and as many names of rows and columns as there is room for."""
        wide, high, foot = self.cell * self.columns, self.cell * self.rows, self.foot
        longest = max((len(name) for name in columns), default=1)
        across = max(1, round((7.5 * longest + 6) / self.cell + 0.49))
        down = max(1, round(14 / self.cell + 0.49))
        return [
            tag("text", axes[1], class_="axis-title", x=2, y=self.top - 14),
            tag(
                "text", axes[0], class_="axis-title", x=max(self.left + wide / 2, 90), y=foot + 35, text_anchor="middle"
            ),
            tag("rect", class_="ground", x=self.left, y=self.top, width=wide, height=high),
            *(
                tag("text", rows[i], class_="tick", x=self.left - 6, y=self.middle(i, 0)[1] + 4, text_anchor="end")
                for i in range(0, len(rows), down)
            ),
            *(
                tag("text", columns[j], class_="tick", x=self.middle(0, j)[0], y=foot + 16, text_anchor="middle")
                for j in range(0, len(columns), across)
            ),
        ]

    def cells(self, values: Sequence[Sequence[float | None]], shade_of: Callable[[float], str]) -> list[Markup]:
        """All cells of one shade as one element; those without a shade stay blank, those without a value are grey."""
        gap = 0.5 if self.cell > 8 else 0.0
        side = short(self.cell - 2 * gap + (0 if gap else 0.1))
        shades: dict[str, list[str]] = defaultdict(list)
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                shade = "none" if value is None else shade_of(value)
                if shade:
                    corner = f"M{self.left + j * self.cell + gap:.2f} {self.top + i * self.cell + gap:.2f}"
                    shades[shade].append(f"{corner}h{side}v{side}h-{side}z")
        return [tag("path", class_=f"cell {shade}", d="".join(shades[shade])) for shade in sorted(shades)]

    def series(self, axis: str, rows: Sequence[str], labels: Sequence[tuple[str, ...]]) -> tuple[Series, ...]:
        """A series for each row, a mark for each cell."""
        return tuple(
            Series(f"{axis} {row}", tuple(self.middle(i, j) for j in range(self.columns)), labels[i])
            for i, row in enumerate(rows)
        )


def _signed_shade(value: float) -> str:
    shade = round(SHADES * min(abs(value), 1.0))
    return f"{'p' if value > 0 else 'n'}{shade}" if shade else ""


def _share_shade(value: float) -> str:
    shade = round(SHADES * min(max(value, 0.0), 1.0))
    return f"n{shade}" if shade else ""


def _error_shade(value: float) -> str:
    """The largest error has a shade as well: what is blank has no value."""
    return f"n{1 + round((SHADES - 1) * (1 - min(max(value, 0.0), 1.0)))}"


RISING = ("p0", *(f"n{shade}" for shade in range(1, SHADES + 1)))
FALLING = RISING[:0:-1]
DIVERGING = (*FALLING, "p0", *(f"p{shade}" for shade in range(1, SHADES + 1)))


def _legend(left: float, y: float, shades: Sequence[str], texts: Sequence[str]) -> Markup:
    """The shades side by side, with texts from the first to the last."""
    each = 9.0 if len(shades) > SHADES + 1 else 14.0
    drawn = [
        tag("rect", class_=f"cell {shade}", x=left + number * each, y=y, width=each + 0.1, height=9)
        for number, shade in enumerate(shades)
    ]
    for number, text in enumerate(texts):
        x = left + each * (0.5 + number / max(len(texts) - 1, 1) * (len(shades) - 1))
        drawn.append(tag("text", text, class_="tick", x=x, y=y + 24, text_anchor="middle"))
    return group(drawn, class_="scale-bar")


def _printed(values: Sequence[Sequence[float | None]], grid: _Grid) -> Iterator[Markup]:
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is not None:
                text = f"{value:.2f}" if value < 9.995 else f"{value:.0f}"
                yield _inside(clipped(text, grid.cell + 8), _error_shade(value), grid.middle(i, j))


def _written(
    values: Sequence[Sequence[float | None]],
    words: Sequence[Sequence[str]],
    grid: _Grid,
    shade_of: Callable[[float], str],
) -> Iterator[Markup]:
    """Words of the cells that have a value; a word after a line break is written below."""
    for i, row in enumerate(words):
        for j, text in enumerate(row):
            value, (x, y) = values[i][j], grid.middle(i, j)
            if value is not None:
                lines = text.split("\n")
                for place, line in enumerate(lines):
                    below = 14 * (place - (len(lines) - 1) / 2)
                    yield _inside(clipped(line, grid.cell + 4), shade_of(value), (x, y + below))


def _inside(text: str, shade: str, middle: tuple[float, float]) -> Markup:
    """Text in a cell, in ink that is read on its shade."""
    dark = int(shade[1:] or 0) if shade else 0
    tone = "inside light" if dark > DARK_INK else "inside dark" if dark == DARK_INK else "inside"
    return tag("text", text, class_=tone, text_anchor="middle", x=middle[0], y=middle[1] + 4)


def _branches(tree: Tree, grid: _Grid) -> list[Markup]:
    """The tree above the matrix: a bracket for each join, at the height of its error."""
    highest = max((height for _, _, height in tree), default=0.0) or 1.0
    ends = {leaf: (grid.middle(0, leaf)[0], grid.top - 4.0) for leaf in range(grid.columns)}
    paths = []
    for step, (a, b, height) in enumerate(tree):
        (x_a, y_a), (x_b, y_b) = ends[a], ends[b]
        y = grid.top - 4 - (TREE - 12) * height / highest
        paths.append(f"M{short(x_a)} {short(y_a)}V{short(y)}H{short(x_b)}V{short(y_b)}")
        ends[grid.columns + step] = ((x_a + x_b) / 2, y)
    return [tag("path", class_="branch", d="".join(paths))]


MOST_CHARACTERS = 400_000  # of a picture: a page must stay below 1.5 MB
LARGEST_SIDE = 4096
PICTURE_WIDTH = 500  # about how wide a picture is drawn
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """A PNG in base64; anything else is refused. ``rows`` name its rows of equal height from the top."""

    png: str
    title: str
    rows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.size is None:
            raise ValueError("not a PNG picture in base64 that a page has room for")

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height in pixels; None for what is no PNG, or too large for a page."""
        if not self.png or len(self.png) > MOST_CHARACTERS:
            return None
        try:
            data = base64.b64decode(self.png, validate=True)
        except (binascii.Error, ValueError):
            return None
        if not data.startswith(SIGNATURE) or data[12:16] != b"IHDR" or len(data) < 33:
            return None
        width, height = struct.unpack(">II", data[16:24])
        return (width, height) if 0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE else None

    def draw(self, width: float) -> Drawing:
        """Enlarged by a whole number where it is small, whatever the page."""
        size = self.size or (1, 1)
        times = max(1, round(PICTURE_WIDTH / size[0]))
        across, down = float(times * size[0]), float(times * size[1])
        left = max((14 + 6.6 * len(clipped(name, LABEL)) for name in self.rows), default=0.0)
        address, style = f"data:image/png;base64,{self.png}", "image-rendering:pixelated"
        picture = tag(
            "image", x=left, width=across, height=down, href=address, role="img", aria_label=self.title, style=style
        )
        body = [picture]
        for place, name in enumerate(self.rows):
            y = down * (place + 0.5) / len(self.rows) + 4
            body.append(tag("text", clipped(name, LABEL), x=left - 8, y=y, text_anchor="end"))
        middle = (left + across / 2, down / 2)
        return Drawing(left + across, down, Markup("").join(body), (Series(self.title, (middle,), (self.title,)),))
