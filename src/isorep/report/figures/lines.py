"""Lines or dots over a common x.

Distributions over common bins, as outlines one can compare.

Paired clouds of points on a plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .axes import Drawing, Frame, Scale, Series, clipped, dots, equal_scales, extent, group, polyline, spanning, tag

FEW = 60


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


def lines(
    series: Sequence[Line],
    axes: tuple[str, str],
    width: float,
    height: float,
    *,
    y_range: tuple[float, float] | None = None,
    log: bool = False,
    ticks: Sequence[tuple[float, str]] | None = None,
    square: bool = False,
    notes: Sequence[tuple[float, float, str]] = (),
) -> Drawing:
    """All series in one frame; values outside ``y_range`` are drawn at its edge, ``ticks`` name values of x.

    With ``square`` both axes have one scale; ``notes`` are words beside points, by x and y.
    """
    frame = Frame(width, height, left=52, right=14, top=30, bottom=44)
    every = [point for line in series for point in line.points]
    x_low, x_high = extent([x for x, _ in every])
    ends = [end for line in series for span in line.spans for end in span]
    y_low, y_high = y_range or extent([*(y for _, y in every), *ends])
    across = spanning(x_low, x_high, *frame.across, margin=0.015)
    upward = _upward(y_low, y_high, frame, log)
    if square:
        across, upward = equal_scales((x_low, x_high, y_low, y_high), frame)
    drawn = [frame.x_axis(across, axes[0], ticks=ticks), frame.y_axis(upward, axes[1])]
    if not log and upward.low < 0 < upward.high:
        drawn.append(tag("line", class_="zero", x1=frame.left, x2=width - frame.right, y1=upward(0), y2=upward(0)))
    marks = []
    for line in series:
        points = [(across(x), upward(y)) for x, y in line.points]
        whiskers = [(x, upward(low), upward(high)) for (x, _), (low, high) in zip(points, line.spans, strict=False)]
        drawn.append(_draw(line, points, whiskers))
        marks.append(Series(line.name, tuple(points), line.labels))
    drawn += [_note(across(x), upward(y), text, width) for x, y, text in notes]
    return Drawing(width, height, Markup("").join(drawn), tuple(marks), reach=40)


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


def histogram(
    edges: Sequence[float],
    series: Sequence[Line],
    chance: Sequence[tuple[str, float]],
    axes: tuple[str, str],
    width: float,
    height: float,
) -> Drawing:
    """One outline a series, its heights the y of its points; ticks at the top stand for chance, by series class."""
    frame = Frame(width, height, left=52, right=14, top=30, bottom=44)
    across = spanning(edges[0], edges[-1], *frame.across)
    most = max((y for line in series for _, y in line.points), default=1.0) or 1.0
    upward = Scale(0.0, 1.06 * most, *frame.upward)
    drawn = [frame.y_axis(upward, axes[1]), frame.x_axis(across, axes[0])]
    marks = []
    for line in series:
        heights = [y for _, y in line.points]
        drawn.append(_outline(line.series, edges, heights, across, upward))
        points = tuple((across(x), upward(y)) for x, y in line.points)
        marks.append(Series(line.name, points, line.labels))
    for class_, value in chance:
        x = across(value)
        drawn.append(group([tag("line", class_="chance", x1=x, x2=x, y1=frame.top, y2=frame.top + 14)], class_=class_))
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


def scatter(
    first: Cloud, second: Cloud, bounds: tuple[float, float, float, float], axes: tuple[str, str], width: float
) -> Drawing:
    """Two clouds, a thin line from each point to its partner; both axes have one scale, given by the bounds."""
    frame = Frame(width, width, left=44, right=8, top=30, bottom=44)
    across, upward = equal_scales(bounds, frame)
    drawn = [frame.x_axis(across, axes[0], 5), frame.y_axis(upward, axes[1], 5)]
    places = [tuple((across(x), upward(y)) for x, y in cloud.points) for cloud in (first, second)]
    pairs = zip(*places, strict=False)
    drawn.append(
        tag("path", class_="links", d="".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in pairs))
    )
    for cloud, points in zip((first, second), places, strict=True):
        drawn.append(group([dots(points, "hollow" if cloud.hollow else "medium")], class_=cloud.series))
    series = tuple(
        Series(cloud.name, points, cloud.labels) for cloud, points in zip((first, second), places, strict=True)
    )
    return Drawing(width, width, Markup("").join(drawn), series, reach=20)
