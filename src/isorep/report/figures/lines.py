"""Lines, histograms and clouds.

Lines or dots over a common x.

Distributions over common bins, as outlines one can compare.

Paired clouds of points on a plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .axes import (
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
SQUARE = 520
"""Pixels of a figure whose axes have one scale, at most."""


@dataclass(frozen=True)
class Line:
    """One series: x, y and a label for each point; ``dotted`` ones have no line through them.

    ``spans`` are intervals of y, one for each point, or none.
    """

    name: str
    series: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    dotted: bool = False
    spans: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.points) or len(self.spans) not in (0, len(self.points)):
            raise ValueError("every point has a label, and a span if any has one")


@dataclass(frozen=True)
class Lines:
    """All series in one frame; values outside ``y_range`` are drawn at its edge, ``ticks`` name values of x.

    With ``square`` both axes have one scale; ``notes`` are words beside points, by x and y.
    """

    lines: tuple[Line, ...]
    axes: tuple[str, str]
    height: float = 280
    y_range: tuple[float, float] | None = None
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    square: bool = False
    notes: tuple[tuple[float, float, str], ...] = ()

    def draw(self, width: float) -> Drawing:
        """At this width."""
        width = min(width, SQUARE) if self.square else width
        height = width if self.square else self.height
        frame = Frame(width, height, left=52, right=14, top=30, bottom=44)
        every = [point for line in self.lines for point in line.points]
        x_low, x_high = extent([x for x, _ in every])
        ends = [end for line in self.lines for span in line.spans for end in span]
        y_low, y_high = self.y_range or extent([*(y for _, y in every), *ends])
        across = spanning(x_low, x_high, *frame.across, margin=0.015)
        upward = _upward(y_low, y_high, frame, self.log)
        if self.square:
            across, upward = equal_scales((x_low, x_high, y_low, y_high), frame)
        drawn = [frame.x_axis(across, self.axes[0], ticks=self.ticks), frame.y_axis(upward, self.axes[1])]
        if not self.log and upward.low < 0 < upward.high:
            drawn.append(tag("line", class_="zero", x1=frame.left, x2=width - frame.right, y1=upward(0), y2=upward(0)))
        marks = []
        for line in self.lines:
            points = [(across(x), upward(y)) for x, y in line.points]
            whiskers = [(x, upward(low), upward(high)) for (x, _), (low, high) in zip(points, line.spans, strict=False)]
            drawn.append(_draw(line, points, whiskers))
            marks.append(Series(line.name, tuple(points), line.labels))
        drawn += [_note(across(x), upward(y), text, width) for x, y, text in self.notes]
        return Drawing(width, height, Markup("").join(drawn), tuple(marks), reach=40)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend: every series by name."""
        return tuple(Key("dot" if line.dotted else "line", line.series, line.name) for line in self.lines)

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
    if log:
        return Scale(low, max(high, low * 1.5), *frame.upward, log=True)
    return spanning(low, high, *frame.upward)


def _draw(line: Line, points: list[tuple[float, float]], whiskers: list[tuple[float, float, float]]) -> Markup:
    size = "large" if len(points) <= FEW else "small"
    drawn = [] if line.dotted or not points else [polyline(points, "line")]
    if whiskers:
        paths = "".join(f"M{x - 4:.1f} {low:.1f}h8m-4 0V{high:.1f}m-4 0h8" for x, low, high in whiskers)
        drawn.append(tag("path", class_="whisker", d=paths))
    if line.dotted or len(points) <= FEW:
        drawn.append(dots(points, size))
    return group(drawn, class_=line.series)


@dataclass(frozen=True)
class Histogram:
    """One outline a series, its heights the y of its points; ticks at the top stand for chance, by series class."""

    edges: tuple[float, ...]
    lines: tuple[Line, ...]
    axes: tuple[str, str]
    chance: tuple[tuple[str, float], ...] = ()

    def draw(self, width: float) -> Drawing:
        """At this width."""
        height = 300 if width > 500 else 260
        frame = Frame(width, height, left=52, right=14, top=30, bottom=44)
        across = spanning(self.edges[0], self.edges[-1], *frame.across)
        most = max((y for line in self.lines for _, y in line.points), default=1.0) or 1.0
        upward = Scale(0.0, 1.06 * most, *frame.upward)
        drawn = [frame.y_axis(upward, self.axes[1]), frame.x_axis(across, self.axes[0])]
        marks = []
        for line in self.lines:
            heights = [y for _, y in line.points]
            drawn.append(_outline(line.series, self.edges, heights, across, upward))
            points = tuple((across(x), upward(y)) for x, y in line.points)
            marks.append(Series(line.name, points, line.labels))
        for class_, value in self.chance:
            x = across(value)
            tick = tag("line", class_="chance", x1=x, x2=x, y1=frame.top, y2=frame.top + 14)
            drawn.append(group([tick], class_=class_))
        return Drawing(width, height, Markup("").join(drawn), tuple(marks), reach=40)


def _outline(class_: str, edges: Sequence[float], heights: Sequence[float], across: Scale, upward: Scale) -> Markup:
    corners = [(across(edges[0]), upward(0))]
    for low, high, value in zip(edges[:-1], edges[1:], heights, strict=True):
        corners += [(across(low), upward(value)), (across(high), upward(value))]
    corners.append((across(edges[-1]), upward(0)))
    return group([polyline(corners, "area"), polyline(corners, "line")], class_=class_)


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
        frame = Frame(width, width, left=44, right=8, top=30, bottom=44)
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
