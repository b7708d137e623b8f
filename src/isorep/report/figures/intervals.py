"""Rows of values with intervals: a ladder, a certificate, any list of estimates."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from .axes import Drawing, Frame, Scale, Series, clipped, group, tag

BELOW = 13.0
"""How far under its row the hollow dot stands, clear of the whiskers."""


SMALLEST, LARGEST = 1e-300, 1e12
"""Axes end at values between these; nothing that isorep measures lies beyond."""


@dataclass(frozen=True)
class IntervalRow:
    """One row: a dot with whiskers, a second hollow dot, and a band with a tick that stands for chance."""

    name: str
    series: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    second: float | None = None
    band: tuple[float, float, float] | None = None
    strong: bool = False
    labels: tuple[str, str, str] = ("", "", "")
    printed: str = ""


@dataclass(frozen=True)
class Intervals:
    """Rows from the top on one axis from zero; on a narrow page the names stand above the rows."""

    rows: tuple[IntervalRow, ...]
    axis: str

    def draw(self, width: float) -> Drawing:
        """At this width."""
        narrow = width < 500
        each = 50.0 if narrow else 42.0
        height = 10 + each * len(self.rows) + 44
        frame = Frame(width, height, left=8 if narrow else 176, right=14 if narrow else 68, top=10, bottom=44)
        start, stop = frame.across
        reach = max([_reach(row) for row in self.rows], default=1.0)
        scale = Scale(0.0, 1.04 * reach if SMALLEST < reach < LARGEST else 1.0, start, stop)
        drawn = [frame.x_axis(scale, self.axis)]
        series = []
        for number, row in enumerate(self.rows):
            top = 10 + number * each
            y = top + (33 if narrow else each / 2)
            drawn.append(_names(row, frame, y, top, narrow))
            drawn.append(_marks(row, scale, y))
            series.append(_series(row, scale, y))
        return Drawing(frame.width, frame.height, Markup("").join(drawn), tuple(series), reach=30)

    @property
    def told(self) -> str:
        """The chart in words."""
        return "; ".join(f"{row.name}: {row.labels[0] or row.printed}" for row in self.rows)


def _reach(row: IntervalRow) -> float:
    values = [row.value, row.second, *(row.interval or ()), *(row.band or ())]
    return max((value for value in values if value is not None), default=0.0)


def _names(row: IntervalRow, frame: Frame, y: float, top: float, narrow: bool) -> Markup:
    weight = "label strong" if row.strong else "label"
    text = clipped(row.name, frame.width - 90 if narrow else frame.left - 16)
    if narrow:
        name = tag("text", text, class_=weight, x=frame.left, y=top + 16)
        number = tag("text", row.printed, class_=weight, x=frame.width - frame.right, y=top + 16, text_anchor="end")
    else:
        name = tag("text", text, class_=weight, x=frame.left - 16, y=y + 4, text_anchor="end")
        number = tag("text", row.printed, class_=weight, x=frame.width - 2, y=y + 4, text_anchor="end")
    return group([name, number])


def _marks(row: IntervalRow, scale: Scale, y: float) -> Markup:
    drawn = []
    if row.band is not None:
        low, tick, high = (scale(value) for value in row.band)
        drawn.append(tag("rect", class_="band", x=low, y=y - 9, width=max(high - low, 1), height=18))
        drawn.append(tag("line", class_="chance", x1=tick, x2=tick, y1=y - 11, y2=y + 11))
    if row.value is not None:
        drawn.append(tag("line", class_="stem", x1=scale(0), x2=scale(row.value), y1=y, y2=y))
    if row.interval is not None:
        low, high = (scale(value) for value in row.interval)
        drawn.append(tag("path", class_="whisker", d=f"M{low:.1f} {y - 6:.1f}v12m0 -6H{high:.1f}m0 -6v12"))
    if row.second is not None:
        drawn.append(tag("circle", class_="ring", cx=scale(row.second), cy=y + BELOW, r=3))
    if row.value is not None:
        drawn.append(tag("circle", class_="dot", cx=scale(row.value), cy=y, r=4.5))
    return group(drawn, class_=row.series)


def _series(row: IntervalRow, scale: Scale, y: float) -> Series:
    middle = None if row.interval is None else sum(row.interval) / 2
    values = (row.value if row.value is not None else middle, row.second, row.band[1] if row.band else None)
    marks = zip(values, row.labels, (0.0, BELOW, 0.0), strict=True)
    kept = [(value, label, drop) for value, label, drop in marks if value is not None and label]
    return Series(
        row.name, tuple((scale(value), y + drop) for value, _, drop in kept), tuple(entry[1] for entry in kept)
    )
