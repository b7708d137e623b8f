"""Scatter of paired rows that moves: from where the source lies to where each map takes it, with the target behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from .axes import FOOT, Drawing, Frame, Key, Scale, Series, dots, equal_scales, group, tag

Points = tuple[tuple[float, float], ...]
SIDE = 340.0
COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6", "s0")
"""Series of classes in their order; the last stands for all further ones."""
PICTURES = ("data:image/png;base64,", "data:image/jpeg;base64,")


@dataclass(frozen=True)
class Movement:
    """Where a map takes every row, and the held-out error of each: ``key`` is what the reader chooses it by."""

    key: str
    name: str
    points: Points
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Alignment:
    """Rows of a source and their partners, the target's, on a plane; both axes have one scale.

    ``movements`` has one entry for each map, ``chosen`` is the key of the one drawn. ``classes`` number the class of
    each row, by which it is coloured; ``examples`` are texts, or pictures as ``data:`` addresses.
    """

    names: tuple[str, str]
    rows: tuple[str, ...]
    target: Points
    before: Points
    movements: tuple[Movement, ...]
    chosen: str
    axes: tuple[str, str]
    classes: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = {len(self.rows), len(self.target), len(self.before)}
        counts |= {len(each) for move in self.movements for each in (move.points, move.errors)}
        counts |= {len(each) for each in (self.classes, self.examples) if each}
        if len(counts) != 1 or self.chosen not in [move.key for move in self.movements]:
            raise ValueError("every row has its points, errors, class and example, and one movement is chosen")
        if any(not 0 <= each < len(self.class_names) for each in self.classes):
            raise ValueError("every class has a name")

    @property
    def role(self) -> str:
        """What the page does with it: it moves, and rows are selected in it."""
        return "alignment"

    def draw(self, width: float) -> Drawing:
        """Square, whatever the page; after alignment by what is chosen."""
        return self._at(next(each for each in self.movements if each.key == self.chosen).points)

    @property
    def stills(self) -> tuple[tuple[str, Drawing], ...]:
        """What paper shows, where nothing moves: before alignment, and after it by what is chosen."""
        move = next(each for each in self.movements if each.key == self.chosen)
        return ("before", self._at(self.before)), (f"after: {move.name}", self._at(move.points))

    def _at(self, moved: Points) -> Drawing:
        """The target, and the rows of the source in these places."""
        frame = Frame(SIDE, SIDE, left=44, right=10, top=30, bottom=FOOT)
        across, upward = self._scales(frame)
        drawn = [frame.x_axis(across, self.axes[0], 5), frame.y_axis(upward, self.axes[1], 5)]
        places = [tuple((across(x), upward(y)) for x, y in points) for points in (self.target, moved)]
        pairs = zip(*places, strict=True)
        links = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in pairs)
        drawn.append(tag("path", class_="links", d=links))
        drawn += [
            group([dots((points[row] for row in rows), size)], class_=f"{series} cloud-{side}")
            for side, (points, size) in enumerate(zip(places, ("hollow", "medium"), strict=True))
            for series, rows in self._groups(side)
        ]
        series = tuple(Series(name, (), ()) for name in self.names)  # the page writes the labels of what it moves
        return Drawing(SIDE, SIDE, Markup("").join(drawn), series, reach=20)

    def behind(self, drawings: Sequence[Drawing]) -> dict[str, Any]:
        """All points and errors, so that the page can move them: in thousandths of the axes' unit of length."""
        across, upward = self._scales(Frame(SIDE, SIDE, left=44, right=10, top=30, bottom=FOOT))
        return {
            "frame": [end for each in (across, upward) for end in (each.low, each.high, each.start, each.stop)],
            "rows": self.rows,
            "target": _rounded(self.target),
            "before": _rounded(self.before),
            "moves": {
                move.key: {
                    "name": move.name,
                    "points": _rounded(move.points),
                    "errors": [round(error, 4) for error in move.errors],
                }
                for move in self.movements
            },
            "chosen": self.chosen,
            "classes": self.classes,
            "classNames": self.class_names,
            "groups": [[rows for _, rows in self._groups(side)] for side in (0, 1)],
            "examples": self.examples,
        }

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend: both sides where rows have no classes, else the classes."""
        if not self.classes:
            return tuple(Key("dot", series, name) for series, name in zip(("s2", "s1"), self.names, strict=True))
        shown = [Key("dot", series, name) for series, name in zip(COLOURS, self.class_names, strict=False)]
        if len(self.class_names) > len(COLOURS):
            shown[-1] = Key("dot", COLOURS[-1], f"{len(self.class_names) - len(COLOURS) + 1} others")
        return (*shown, Key("ring", "", f"faint: {self.names[0]}"))

    def _groups(self, side: int) -> list[tuple[str, list[int]]]:
        """Rows that share a colour: all of a side, or all of a class."""
        if not self.classes:
            return [(("s2", "s1")[side], list(range(len(self.rows))))]
        last = len(COLOURS) - 1
        return [
            (series, [row for row, each in enumerate(self.classes) if min(each, last) == place])
            for place, series in enumerate(COLOURS[: len(self.class_names)])
        ]

    def _scales(self, frame: Frame) -> tuple[Scale, Scale]:
        every = [*self.target, *self.before, *(point for move in self.movements for point in move.points)]
        x, y = zip(*every, strict=True)
        return equal_scales((min(x), max(x), min(y), max(y)), frame)


def _rounded(points: Points) -> list[tuple[float, float]]:
    return [(round(x, 3), round(y, 3)) for x, y in points]
