"""Figures of a decoder's singular values: how they spread over rows, and one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from .figures import NARROW, Line, histogram, lines
from .parts import Figure, Key
from .rungs import on_both
from .values import Node, compact, count

MOST_ROWS, MOST_VALUES = 20_000, 2_000
LARGEST, SMALLEST = 1e12, 1e-12
BINS = 30
FEW = 10  # singular values that are all named on the axis
FLOOR = 1e-6  # of the largest singular value: what lies lower is drawn at the edge
_QUANTILES = (
    ("0.95", "95 %", "s1"),
    ("0.75", "75 %", "s3"),
    ("0.5", "median", "s0"),
    ("0.25", "25 %", "s3"),
    ("0.05", "5 %", "s1"),
)


def stretch_figure(result: Node) -> Figure | None:
    """Where the largest and the smallest singular value of each row lie."""
    sides = (("largest", "s0", "largest"), ("smallest", "s2", "smallest"))
    samples, of = _samples(result)
    found = [(name, colour, _values(samples[key])) for name, colour, key in sides]
    return _spread_figure(
        "stretch-figure",
        "Largest and smallest stretch of each row",
        f"The extreme singular values of the Jacobian{of}. An isometry has all of them at 1.",
        "singular value",
        [(name, colour, values) for name, colour, values in found if values],
    )


def local_figure(result: Node) -> Figure | None:
    """Where the local constants lie."""
    samples, of = _samples(result)
    values = _values(samples["local"])
    lost = len(samples["local"].nodes(MOST_ROWS)) - len(values)
    missing = f" {count(lost)} rows whose constant is infinite are left out." if lost else ""
    return _spread_figure(
        "local-figure",
        "Local bi-Lipschitz constants",
        f"One value a row{of}; 1 is an isometry, and the constant of the sample is the right end.{missing}",
        "local constant 1 + L",
        [("local constant", "s2", values)] if values else [],
    )


def _spread_figure(
    name: str, title: str, caption: str, axis: str, sides: Sequence[tuple[str, str, list[float]]]
) -> Figure | None:
    every = [value for _, _, values in sides for value in values]
    if not every:
        return None
    edges = _edges(min(every), max(every))
    drawn = []
    for label, colour, values in sides:
        heights = _counted(values, edges)
        points = tuple((0.5 * (a + b), float(h)) for a, b, h in zip(edges[:-1], edges[1:], heights, strict=True))
        said = tuple(
            f"{compact(a, 3)} to {compact(b, 3)}: {count(h)} rows"
            for a, b, h in zip(edges[:-1], edges[1:], heights, strict=True)
        )
        drawn.append(Line(label, colour, points, said))
    told = "; ".join(f"{label} from {compact(min(values))} to {compact(max(values))}" for label, _, values in sides)
    return Figure(
        name,
        title,
        caption,
        f"{title}: {told}.",
        on_both(lambda width: histogram(edges, drawn, (), (axis, "rows"), width, 300 if width > NARROW else 260)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )


def spectrum_figure(result: Node) -> Figure | None:
    """All singular values, the largest first, with quantiles over the rows."""
    spectrum = result["spectrum"]
    places = spectrum["index"].numbers(MOST_VALUES)
    drawn = []
    for level, name, colour in _QUANTILES:
        values = spectrum[level].numbers(MOST_VALUES)
        pairs = [
            (place, value)
            for place, value in zip(places, values, strict=False)
            if place is not None and value is not None and 0 < place < LARGEST and SMALLEST < value < LARGEST
        ]
        if pairs:
            labels = tuple(f"σ{place:g}, {name}: {compact(value)}" for place, value in pairs)
            drawn.append(Line(name, colour, tuple(pairs), labels))
    if not drawn:
        return None
    every = [value for line in drawn for _, value in line.points]
    high = max(every)
    low = max(min(every), FLOOR * high)
    axes = ("singular value, from the largest", "value")
    named = sorted({place for line in drawn for place, _ in line.points})
    ticks = [(place, f"{place:g}") for place in named] if len(named) <= FEW else None
    return Figure(
        "spectrum-figure",
        "Singular values",
        "The median over rows, and where half and nine tenths of the rows lie. Flat at 1 is an isometry.",
        f"Singular values from {compact(high)} down to {compact(low)}.",
        on_both(lambda width: lines(drawn, axes, width, 300, y_range=(low, high), log=high > 20 * low, ticks=ticks)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn if line.name in ("median", "75 %", "95 %")),
    )


def _samples(result: Node) -> tuple[Node, str]:
    """The rows to draw: those of the active latents where some are inactive, since the others hold zeros."""
    active = result["active_samples"]
    return (active, " of the active latents") if active else (result["samples"], "")


def _values(node: Node) -> list[float]:
    return [value for value in node.numbers(MOST_ROWS) if value is not None and 0 <= value < LARGEST]


def _edges(low: float, high: float) -> list[float]:
    room = max(0.02 * abs(high) - (high - low), 0.0) / 2 or (0.5 if high == low else 0.0)
    low, high = max(low - room, 0.0), high + room
    return [low + (high - low) * place / BINS for place in range(BINS + 1)]


def _counted(values: list[float], edges: list[float]) -> list[int]:
    heights = [0] * BINS
    for value in values:
        share = (value - edges[0]) / (edges[-1] - edges[0])
        heights[min(max(int(share * BINS), 0), BINS - 1)] += 1
    return heights
