"""Lines, histograms and clouds.

Lines or dots over a common x.

Distributions over common bins, as outlines one can compare.

Paired clouds of points on a plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from .axes import (
    FOOT,
    Drawing,
    Frame,
    Key,
    Scale,
    Series,
    clipped,
    dots,
    equal_scales,
    extent,
    group,
    polyline,
    spanning,
    tag,
)

FEW = 60
MOST_TOLD = 40
MARGIN = 0.035
"""Share of an axis that stays free at either end."""
SQUARE = 520
"""Pixels of a figure whose axes have one scale, at most."""


@dataclass(frozen=True)
class Line:
    """One series: x, y and a label for each point; ``dotted`` ones have no line through them.

    ``spans`` are intervals of y, one for each point, or none. A series with a ``key`` follows the reader's choice.
    """

    name: str
    series: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    dotted: bool = False
    spans: tuple[tuple[float, float], ...] = ()
    key: str = ""

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.points) or len(self.spans) not in (0, len(self.points)):
            raise ValueError("every point has a label, and a span if any has one")


@dataclass(frozen=True)
class Lines:
    """All series in one frame; values outside ``y_range`` are drawn at its edge, ``ticks`` name values of x.

    With ``square`` both axes have one scale; ``notes`` are words beside points, by x and y. ``chosen`` is the key of
    the series that stands out at first.
    """

    lines: tuple[Line, ...]
    axes: tuple[str, str]
    height: float = 280
    y_range: tuple[float, float] | None = None
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    square: bool = False
    notes: tuple[tuple[float, float, str], ...] = ()
    chosen: str = ""

    def draw(self, width: float) -> Drawing:
        """At this width."""
        width = min(width, SQUARE) if self.square else width
        height = width if self.square else self.height
        frame = Frame(width, height, left=52, right=14, top=30, bottom=FOOT)
        every = [point for line in self.lines for point in line.points]
        x_low, x_high = extent([x for x, _ in every])
        ends = [end for line in self.lines for span in line.spans for end in span]
        y_low, y_high = self.y_range or extent([*(y for _, y in every), *ends])
        across = spanning(x_low, x_high, *frame.across, margin=MARGIN)
        upward = _upward(y_low, y_high, frame, self.log)
        if self.square:
            across, upward = equal_scales((x_low, x_high, y_low, y_high), frame)
        y_title = f"{self.axes[1]} (log scale)" if self.log else self.axes[1]
        drawn = [frame.x_axis(across, self.axes[0], ticks=self.ticks), frame.y_axis(upward, y_title)]
        if not self.log and upward.low < 0 < upward.high:
            drawn.append(tag("line", class_="zero", x1=frame.left, x2=width - frame.right, y1=upward(0), y2=upward(0)))
        marks = []
        for line in self.lines:
            points = [(across(x), upward(y)) for x, y in line.points]
            whiskers = [(x, upward(low), upward(high)) for (x, _), (low, high) in zip(points, line.spans, strict=False)]
            drawn.append(_draw(line, points, whiskers, self.chosen))
            marks.append(Series(line.name, tuple(points), line.labels, line.key))
        drawn += [_note(across(x), upward(y), text, width) for x, y, text in self.notes]
        return Drawing(width, height, Markup("").join(drawn), tuple(marks), reach=40)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend: every series by name."""
        marks = (("dot" if line.dotted else "line", line) for line in self.lines)
        return tuple(
            Key(mark, line.series, line.name, line.key, bool(line.key) and line.key == self.chosen)
            for mark, line in marks
        )

    @property
    def told(self) -> str:
        """The chart in words."""
        return "; ".join(f"{line.name}: {', '.join(line.labels[:MOST_TOLD])}" for line in self.lines)


def _note(x: float, y: float, text: str, width: float) -> Markup:
    """Words at the side of a point where there is more room."""
    right = x < width / 2
    side = "start" if right else "end"
    return tag("text", clipped(text, 160), class_="tick strong", x=x + (7 if right else -7), y=y - 5, text_anchor=side)


def _upward(low: float, high: float, frame: Frame, log: bool) -> Scale:
    """With room on both sides, so that no mark is cut by the edge."""
    if log:
        high = max(high, low * 1.5)
        room = (high / low) ** MARGIN
        return Scale(low / room, high * room, *frame.upward, log=True)
    return spanning(low, high, *frame.upward, margin=MARGIN)


def _state(series: str, key: str, chosen: str) -> dict[str, str | None]:
    """Classes and key of a series that may follow a choice."""
    return {"class_": f"{series} on" if key and key == chosen else series, "data_k": key or None}


def _draw(
    line: Line, points: list[tuple[float, float]], whiskers: list[tuple[float, float, float]], chosen: str
) -> Markup:
    size = "large" if len(points) <= FEW else "small"
    drawn = [] if line.dotted or not points else [polyline(points, "line")]
    if whiskers:
        paths = "".join(f"M{x - 4:.1f} {low:.1f}h8m-4 0V{high:.1f}m-4 0h8" for x, low, high in whiskers)
        drawn.append(tag("path", class_="whisker", d=paths))
    if line.dotted or len(points) <= FEW:
        drawn.append(dots(points, size))
    return group(drawn, **_state(line.series, line.key, chosen))


@dataclass(frozen=True)
class Histogram:
    """One outline per series, its heights the y of its points; ticks at the top stand for chance, by series or key.

    ``chosen`` is the key of the series that stands out at first.
    """

    edges: tuple[float, ...]
    lines: tuple[Line, ...]
    axes: tuple[str, str]
    chance: tuple[tuple[str, float], ...] = ()
    chosen: str = ""

    @property
    def role(self) -> str:
        """What the page does with it: where rows are selected, their own outline is drawn."""
        return "residuals" if self.chosen else ""

    def behind(self, drawings: Sequence[Drawing]) -> dict[str, Any]:
        """What an outline of selected rows needs: the bins, and where they lie in each drawing."""
        if not self.chosen:
            return {}
        ends = [self._scales(drawing.width) for drawing in drawings]
        return {
            "edges": [round(edge, 5) for edge in self.edges],
            "bins": [[across.start, across.stop, upward.start, upward.stop] for across, upward in ends],
            "most": ends[0][1].high,
        }

    def _frame(self, width: float) -> Frame:
        return Frame(width, 300 if width > 500 else 260, left=52, right=14, top=30, bottom=FOOT)

    def _scales(self, width: float) -> tuple[Scale, Scale]:
        frame = self._frame(width)
        most = max((y for line in self.lines for _, y in line.points), default=1.0) or 1.0
        return spanning(self.edges[0], self.edges[-1], *frame.across), Scale(0.0, 1.06 * most, *frame.upward)

    def draw(self, width: float) -> Drawing:
        """At this width."""
        frame, (across, upward) = self._frame(width), self._scales(width)
        drawn = [frame.y_axis(upward, self.axes[1]), frame.x_axis(across, self.axes[0])]
        chance = dict(self.chance)
        marks = []
        for line in self.lines:
            outline = _outline(self.edges, [y for _, y in line.points], across, upward)
            mean = chance.get(line.key or line.series)
            if mean is not None and self.edges[0] <= mean <= self.edges[-1]:
                x = across(mean)
                outline.append(tag("line", class_="chance", x1=x, x2=x, y1=frame.top, y2=frame.top + 14))
            drawn.append(group(outline, **_state(line.series, line.key, self.chosen)))
            points = tuple((across(x), upward(y)) for x, y in line.points)
            marks.append(Series(line.name, points, line.labels, line.key))
        return Drawing(width, frame.height, Markup("").join(drawn), tuple(marks), reach=40)


def _outline(edges: Sequence[float], heights: Sequence[float], across: Scale, upward: Scale) -> list[Markup]:
    corners = [(across(edges[0]), upward(0))]
    for low, high, value in zip(edges[:-1], edges[1:], heights, strict=True):
        corners += [(across(low), upward(value)), (across(high), upward(value))]
    corners.append((across(edges[-1]), upward(0)))
    return [polyline(corners, "area"), polyline(corners, "line")]


@dataclass(frozen=True)
class Cloud:
    """Points of one kind, with a label for each."""

    name: str
    series: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    hollow: bool = False

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.points):
            raise ValueError("every point has a label")


@dataclass(frozen=True)
class Scatter:
    """Two clouds, a thin line from each point to its partner; both axes have one scale, given by the bounds."""

    first: Cloud
    second: Cloud
    bounds: tuple[float, float, float, float]
    axes: tuple[str, str]

    def draw(self, width: float) -> Drawing:
        """At this width, and as high."""
        frame = Frame(width, width, left=44, right=8, top=30, bottom=FOOT)
        across, upward = equal_scales(self.bounds, frame)
        drawn = [frame.x_axis(across, self.axes[0], 5), frame.y_axis(upward, self.axes[1], 5)]
        clouds = (self.first, self.second)
        places = [tuple((across(x), upward(y)) for x, y in cloud.points) for cloud in clouds]
        pairs = zip(*places, strict=False)
        links = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in pairs)
        drawn.append(tag("path", class_="links", d=links))
        for cloud, points in zip(clouds, places, strict=True):
            drawn.append(group([dots(points, "hollow" if cloud.hollow else "medium")], class_=cloud.series))
        series = tuple(Series(cloud.name, at, cloud.labels) for cloud, at in zip(clouds, places, strict=True))
        return Drawing(width, width, Markup("").join(drawn), series, reach=20)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend: both clouds by name."""
        return tuple(Key("dot", cloud.series, cloud.name) for cloud in (self.first, self.second))
