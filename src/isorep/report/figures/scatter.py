"""Paired clouds of points on a plane."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from .axes import Frame, Scale
from .drawing import Drawing, Series, dots, group, tag


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
    across, upward = _equal_scales(bounds, frame)
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


def _equal_scales(bounds: tuple[float, float, float, float], frame: Frame) -> tuple[Scale, Scale]:
    left, right, bottom, top = bounds
    (start, stop), (low, high) = frame.across, frame.upward
    a_pixel = max((right - left) / (stop - start), (top - bottom) / (low - high), 1e-12) * 1.08
    half_x, half_y = a_pixel * (stop - start) / 2, a_pixel * (low - high) / 2
    x, y = (left + right) / 2, (bottom + top) / 2
    return Scale(x - half_x, x + half_x, start, stop), Scale(y - half_y, y + half_y, low, high)
