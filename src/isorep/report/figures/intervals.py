"""Rows of values with intervals: a ladder, a certificate, any list of estimates."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from .axes import FOOT, Drawing, Frame, Scale, Series, clipped, group, short, tag

BELOW = 13.0
"""How far under its row the hollow dot stands, clear of the whiskers."""


SMALLEST, LARGEST = 1e-300, 1e12
"""Axes end at values between these; nothing that isorep measures lies beyond."""


@dataclass(frozen=True)
class IntervalRow:
    """One row: a dot with whiskers, a second hollow dot, and a band with a tick that stands for chance.

    A row with a ``key`` can be chosen, and figures that have the same keys follow. ``limit`` is where its zone begins,
    by default where the band does.
    """

    name: str
    series: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    second: float | None = None
    band: tuple[float, float, float] | None = None
    strong: bool = False
    labels: tuple[str, str, str] = ("", "", "")
    printed: str = ""
    key: str = ""
    limit: float | None = None


@dataclass(frozen=True)
class Intervals:
    """Rows from the top on one axis; on a narrow page the names stand above the rows.

    Stems begin at ``origin``, the value that stands for nothing (0, or 1 for a ratio), where the axis begins unless
    values lie below. It ends at ``end``, or beyond the largest value; what lies outside is an arrow at the edge.
    ``zone`` shades each row from its limit to the end: what chance reaches. ``tolerance`` is a stretch
    of the axis that counts as equal, ``chosen`` the key of the row that is chosen at first.
    """

    rows: tuple[IntervalRow, ...]
    axis: str
    origin: float = 0.0
    end: float | None = None
    zone: bool = False
    tolerance: tuple[float, float] | None = None
    chosen: str = ""

    @property
    def role(self) -> str:
        """What the page does with it: a ladder is where rows are chosen."""
        return "ladder" if self.chosen else ""

    def draw(self, width: float) -> Drawing:
        """At this width."""
        narrow = width < 500
        each = 50.0 if narrow else 42.0
        height = 10 + each * len(self.rows) + FOOT
        frame = Frame(width, height, left=10 if narrow else 176, right=14 if narrow else 68, top=10, bottom=FOOT)
        scale = self._scale(frame)
        drawn = [frame.x_axis(scale, self.axis)]
        if self.tolerance is not None:
            low, high = (scale(value) for value in self.tolerance)
            drawn.append(
                tag("rect", class_="tolerance", x=low, y=10, width=max(high - low, 1), height=height - 10 - FOOT)
            )
        series = []
        for number, row in enumerate(self.rows):
            top = 10 + number * each
            y = top + (33 if narrow else each / 2)
            if self.zone and row.band is not None:
                start, stop = scale(row.band[0] if row.limit is None else row.limit), frame.across[1]
                drawn.append(tag("rect", class_="zone", x=start, y=top, width=max(stop - start, 1), height=each))
            drawn.append(_names(row, frame, y, top, narrow))
            drawn.append(_marks(row, scale, y, self.origin))
            if row.key:
                state = "hit on" if row.key == self.chosen else "hit"
                drawn.append(tag("rect", class_=state, x=0, y=top, width=width, height=each, rx=4, data_k=row.key))
            series.append(_series(row, scale, y))
        return Drawing(frame.width, frame.height, Markup("").join(drawn), tuple(series), reach=30)

    def _scale(self, frame: Frame) -> Scale:
        every = [value for row in self.rows for value in _values(row) if abs(value) < LARGEST]
        most = max([self.origin, *every])
        low = min([self.origin, *every])
        room = 0.04 * (most - low)
        if not room > SMALLEST:
            low, most, room = self.origin, self.origin + 1.0, 0.0
        high = most + room if self.end is None else self.end
        return Scale(low - room if low < self.origin else low, max(high, low + room), *frame.across)

    @property
    def told(self) -> str:
        """The chart in words."""
        return "; ".join(f"{row.name}: {row.labels[0] or row.printed}" for row in self.rows)


def _values(row: IntervalRow) -> list[float]:
    values = [row.value, row.second, *(row.interval or ()), *(row.band or ())]
    return [value for value in values if value is not None]


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


def _marks(row: IntervalRow, scale: Scale, y: float, origin: float) -> Markup:
    drawn = []
    if row.band is not None:
        low, tick, high = (scale(value) for value in row.band)
        drawn.append(tag("rect", class_="band", x=low, y=y - 9, width=max(high - low, 1), height=18))
        drawn.append(tag("line", class_="chance", x1=tick, x2=tick, y1=y - 11, y2=y + 11))
    if row.value is not None:
        drawn.append(tag("line", class_="stem", x1=scale(origin), x2=scale(row.value), y1=y, y2=y))
    if row.interval is not None and row.interval[0] <= scale.high:
        low, high = (scale(value) for value in row.interval)
        drawn.append(tag("path", class_="whisker", d=f"M{low:.1f} {y - 6:.1f}v12m0 -6H{high:.1f}m0 -6v12"))
    if row.second is not None and row.second <= scale.high:
        drawn.append(tag("circle", class_="ring", cx=scale(row.second), cy=y + BELOW, r=3))
    if row.value is not None:
        drawn.append(_dot(row.value, scale, y))
    return group(drawn, class_=row.series)


def _dot(value: float, scale: Scale, y: float) -> Markup:
    """A dot; what lies outside the axis is an arrow that points there."""
    x = scale(value)
    if scale.low <= value <= scale.high:
        return tag("circle", class_="dot", cx=x, cy=y, r=4.5)
    way = 1 if value > scale.high else -1
    return tag("path", class_="dot", d=f"M{short(x)} {short(y)}l{-9 * way} -5.5v11z")


def _series(row: IntervalRow, scale: Scale, y: float) -> Series:
    middle = None if row.interval is None else sum(row.interval) / 2
    values = (row.value if row.value is not None else middle, row.second, row.band[1] if row.band else None)
    marks = zip(values, row.labels, (0.0, BELOW, 0.0), strict=True)
    kept = [(value, label, drop) for value, label, drop in marks if value is not None and label]
    points = tuple((scale(value), y + drop) for value, _, drop in kept)
    return Series(row.name, points, tuple(entry[1] for entry in kept), row.key)
