"""Charts as SVG that we write ourselves: each is a function from plain numbers to a :class:`Drawing`."""

from __future__ import annotations

from .axes import Drawing, Series
from .heatmap import clustered, heatmap
from .intervals import IntervalRow, intervals
from .lines import Cloud, Line, histogram, lines, scatter

NARROW, WIDE = 340, 720
"""The widths to draw for: text keeps its size on a phone and on a desk."""

__all__ = [
    "NARROW",
    "WIDE",
    "Cloud",
    "Drawing",
    "IntervalRow",
    "Line",
    "Series",
    "clustered",
    "heatmap",
    "histogram",
    "intervals",
    "lines",
    "scatter",
]
