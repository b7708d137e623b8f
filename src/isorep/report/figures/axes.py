"""Axes: scales, and the frame that charts share.

A drawing: SVG text, and the marks in it that can be pointed at.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

FOOT = 49.0
"""Room under a plotting area: tick labels, and a title in up to two lines."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """Values on a line of pixels; with ``log``, by their logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value lies; what is outside lies at the edge."""
        share = (self._bend(value) - self._bend(self.low)) / (self._bend(self.high) - self._bend(self.low))
        return self.start + min(max(share, 0.0), 1.0) * (self.stop - self.start)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Round values within the scale, with their texts."""
        return _decades(self.low, self.high, most) if self.log else _round_values(self.low, self.high, most)

    def _bend(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.log else value


def spanning(low: float, high: float, start: float, stop: float, margin: float = 0.0) -> Scale:
    """A linear scale over values, never empty, with a margin on both sides."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    room = margin * (high - low)
    return Scale(low - room, high + room, start, stop)


@dataclass(frozen=True)
class Frame:
    """A drawing's size and the edges of its plotting area."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def across(self) -> tuple[float, float]:
        """Where x runs."""
        return self.left, self.width - self.right

    @property
    def upward(self) -> tuple[float, float]:
        """Where y runs, from the bottom."""
        return self.height - self.bottom, self.top

    def x_axis(
        self, scale: Scale, title: str, most: int | None = None, ticks: Sequence[tuple[float, str]] | None = None
    ) -> Markup:
        """Grid lines, tick labels (round values, or those given) as far as there is room, and the title below."""
        start, stop = self.across
        low, high = self.upward
        drawn = [tag("line", class_="axis", x1=start, x2=stop, y1=low, y2=low)]
        free = -math.inf  # where the last text ends: what would touch it is left out
        for value, text in ticks or scale.ticks(most or max(2, int((stop - start) / 75))):
            x, half = scale(value), 3.1 * len(text)
            drawn.append(tag("line", class_="grid", x1=x, x2=x, y1=low, y2=high))
            if x - half > free:
                drawn.append(tag("text", text, class_="tick", x=x, y=low + 16, text_anchor="middle"))
                free = x + half
        middle = (start + stop) / 2
        lines = in_two_lines(title, 2 * min(middle, self.width - middle))
        for y, line in zip((low + 35,) if len(lines) == 1 else (low + 31, low + 44), lines, strict=True):
            drawn.append(tag("text", line, class_="axis-title", x=middle, y=y, text_anchor="middle"))
        return group(drawn)

    def y_axis(self, scale: Scale, title: str, most: int | None = None) -> Markup:
        """Grid lines and tick labels at the left, the title above them."""
        start, stop = self.across
        low, high = self.upward
        drawn = []
        for value, text in scale.ticks(most or max(2, int((low - high) / 42))):
            y = scale(value)
            drawn.append(tag("line", class_="grid", x1=start, x2=stop, y1=y, y2=y))
            drawn.append(tag("text", text, class_="tick", x=start - 7, y=y + 4, text_anchor="end"))
        drawn.append(tag("text", clipped(title, self.width - 2), class_="axis-title", x=2, y=high - 14))
        return group(drawn)


def extent(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest; zero and one for nothing."""
    return (min(values), max(values)) if values else (0.0, 1.0)


def equal_scales(bounds: tuple[float, float, float, float], frame: Frame) -> tuple[Scale, Scale]:
    """Scales of x and y with as many pixels to a unit, over bounds (left, right, bottom, top) in the middle."""
    left, right, bottom, top = bounds
    (start, stop), (low, high) = frame.across, frame.upward
    a_pixel = max((right - left) / (stop - start), (top - bottom) / (low - high), 1e-12) * 1.08
    half_x, half_y = a_pixel * (stop - start) / 2, a_pixel * (low - high) / 2
    x, y = (left + right) / 2, (bottom + top) / 2
    return Scale(x - half_x, x + half_x, start, stop), Scale(y - half_y, y + half_y, low, high)


def _round_values(low: float, high: float, most: int) -> list[tuple[float, str]]:
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10, 20) if (high - low) / (factor * step) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = next((places for places in range(12) if abs(round(step, places) - step) < 1e-9 * step), 12)
    if max(abs(low), abs(high)) >= 1e6 or high - low < 1e-6:
        return [(number * step, f"{number * step:.3g}".replace("-", "−")) for number in range(first, last + 1)]
    return [(number * step, f"{number * step:.{decimals}f}".replace("-", "−")) for number in range(first, last + 1)]


def _decades(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Powers of ten, all written alike: as decimals where all are short."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        return _round_values(low, high, most)
    stride = max(1, math.ceil((last - first + 1) / most))
    powers, short_ones = range(last, first - 1, -stride), first >= -3 and last <= 3
    return [(10.0**power, f"{10.0**power:g}" if short_ones else _power(power)) for power in powers]


def _power(power: int) -> str:
    return "10" + str(power).translate(SUPERSCRIPTS)


@dataclass(frozen=True)
class Series:
    """Marks in reading order: arrow keys move along a series, and from one to the next.

    With a ``key`` the series can be chosen, and figures that have the same keys follow.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    key: str = ""


@dataclass(frozen=True)
class Drawing:
    """The inside of an ``svg`` element of this size; ``reach`` is how near a pointer must come to a mark."""

    width: float
    height: float
    body: Markup
    series: tuple[Series, ...]
    reach: float = 24.0


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a mark (dot, ring, line, tick, whisker, zone, tolerance), its series' colour and a word.

    One with a ``key`` follows the choice of the reader; ``chosen`` is the choice at first.
    """

    mark: str
    series: str
    text: str
    key: str = ""
    chosen: bool = False


def tag(element: str, content: str | None = None, **attributes: str | float | None) -> Markup:
    """One SVG element. Everything is escaped; ``class_`` and ``stroke_width`` are spelt as in SVG."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{short(value) if isinstance(value, int | float) else escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if content is None:
        return Markup(f"<{element}{written}/>")
    return Markup(f"<{element}{written}>{escape(content)}</{element}>")


def group(elements: Iterable[Markup], **attributes: str | float | None) -> Markup:
    """Elements that share attributes."""
    return tag("g", Markup("").join(elements), **attributes)


def dots(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Many round dots in one element: lines of no length with round ends."""
    return tag("path", class_=f"dots {class_}", d="".join(f"M{short(x)} {short(y)}h0" for x, y in points))


def polyline(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return tag("path", class_=class_, d="M" + "L".join(f"{short(x)} {short(y)}" for x, y in points))


def clipped(text: str, pixels: float) -> str:
    """Text that fits: what is too long for the room ends with an ellipsis."""
    most = max(3, int(pixels / 6.6))
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def in_two_lines(text: str, pixels: float) -> list[str]:
    """Text in one line or, where it is too long for the room, in two; what does not fit these ends with an ellipsis."""
    if clipped(text, pixels) == text:
        return [text]
    first, *rest = textwrap.wrap(text, max(3, int(pixels / 6.6)), break_on_hyphens=False)
    return [first, clipped(" ".join(rest), pixels)]


def short(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
