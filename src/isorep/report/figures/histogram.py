"""Distributions over common bins, as outlines one can compare."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from .axes import Frame, Scale, spanning
from .drawing import Drawing, Series, group, polyline, tag
from .lines import Line


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
