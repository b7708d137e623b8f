"""Paired clouds of points on a plane."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from .axes import Frame, equal_scales
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
