"""Charts as data that draw themselves: each is a record of plain numbers with ``draw(width)``, which writes SVG."""

from __future__ import annotations

from .alignment import Alignment, Movement
from .axes import Drawing, Key, Series
from .heatmap import Clustered, Heatmap, Picture
from .intervals import IntervalRow, Intervals
from .lines import Cloud, Histogram, Line, Lines, Scatter

NARROW, WIDE = 340, 720
"""The widths to draw for: text keeps its size on a phone and on a desk."""

Chart = Intervals | Lines | Histogram | Scatter | Alignment | Heatmap | Clustered | Picture

__all__ = [
    "NARROW",
    "WIDE",
    "Alignment",
    "Chart",
    "Cloud",
    "Clustered",
    "Drawing",
    "Heatmap",
    "Histogram",
    "IntervalRow",
    "Intervals",
    "Key",
    "Line",
    "Lines",
    "Movement",
    "Picture",
    "Scatter",
    "Series",
]
