"""A drawing: SVG text, and the marks in it that can be pointed at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True)
class Series:
    """Marks in reading order: arrow keys move along a series, and from one to the next."""

    name: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Drawing:
    """The inside of an ``svg`` element of this size; ``reach`` is how near a pointer must come to a mark."""

    width: float
    height: float
    body: Markup
    series: tuple[Series, ...]
    reach: float = 24.0


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


def short(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
