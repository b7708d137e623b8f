"""Matplotlib figures for papers: ladders and scores as dots, matrices, and components, in one or two columns.

Results draw with these functions; the methods ``plot_ladder``, ``plot_scores``, ``plot_matrix`` and
``plot_components`` name what is drawn. Colours are those of the report, and no figure needs them to be understood.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS = {"single": 3.35, "double": 6.9}
"""Inches of one column and of two columns of a page."""
LETTERS = {"single": 26, "double": 48}
"""How many letters of a name leave room for the axes."""
SHADES = {
    "s0": "#6b7280",
    "s1": "#c2570c",
    "s2": "#0b65b3",
    "s3": "#007f5c",
    "s4": "#9a4c94",
    "s5": "#846500",
    "s6": "#b02a4c",
}
"""The colour of each class of colours, as on a light page."""
ACCENT, PLAIN, CHANCE, BAND, OTHER = SHADES["s2"], "#3c434e", "#545c69", "#d3d8df", SHADES["s1"]
PRINTED = 9  # rows and columns up to which the cells of a matrix have their numbers in them
NAMED, NUMBERED = 30, 12  # rows and columns up to which each has its name, and its number

Draw = Callable[..., Any]


@dataclass(frozen=True)
class Mark:
    """One row of a figure of dots: its value, interval, chance level with its range, and value in sample."""

    name: str
    value: float
    interval: tuple[float, float] | None = None
    chance: float | None = None
    chance_range: tuple[float, float] | None = None
    in_sample: float | None = None
    strong: bool = False

    @property
    def known(self) -> list[float]:
        """All numbers of the row that can be drawn."""
        several = (*(self.interval or ()), *(self.chance_range or ()))
        return [x for x in (self.value, self.chance, self.in_sample, *several) if x is not None and np.isfinite(x)]


def span(interval: Any) -> tuple[float, float] | None:
    """The ends of an interval, where there is one."""
    return None if interval is None else (interval.low, interval.high)


def middle(null: Any, share: float = 0.95) -> tuple[float, float] | None:
    """The range that holds this share of what chance gives."""
    return None if null is None else (null.quantile((1 - share) / 2), null.quantile((1 + share) / 2))


def arranged(draws: Sequence[Draw], width: str = "double") -> Figure:
    """A ``Figure`` of its own with these panels, two across, which pyplot does not know; an odd last one is wide."""
    module = import_extra("matplotlib.figure", "plot", "plot()")
    if not draws:
        raise InputError("this result has no figure for papers: to_html() writes its report, to_frame() its numbers")
    across = min(2, len(draws))
    down = -(-len(draws) // across)
    figure: Figure = module.Figure(figsize=(WIDTHS[width] * across / 2, 2.6 * down), layout="constrained")
    grid = figure.add_gridspec(down, across)
    for place, draw in enumerate(draws):
        row, column = divmod(place, across)
        alone = place == len(draws) - 1 and column == 0  # the last of an odd number takes the whole row
        draw(ax=figure.add_subplot(grid[row, :] if alone else grid[row, column]))
    return figure


def canvas(ax: Axes | None, width: str, height: float, purpose: str) -> Axes:
    """The axes to draw on: those that were given, or those of a new pyplot figure of one or two columns."""
    if width not in WIDTHS:
        raise InputError(f"width is {width!r}; known are {', '.join(WIDTHS)}")
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "plot", purpose)
        made: Axes = pyplot.subplots(figsize=(WIDTHS[width], height), layout="constrained")[1]
        return canvas(made, width, height, purpose)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")
    return ax


def dots(
    ax: Axes | None,
    marks: Sequence[Mark],
    label: str,
    *,
    width: str = "single",
    limits: tuple[float | None, float | None] = (0.0, None),
    reference: tuple[float, str] | None = None,
    farthest: float = np.inf,
    value_name: str = "value",
    interval_name: str = "95% interval",
    chance_name: str = "chance, mean",
    purpose: str = "plot_scores()",
) -> Axes:
    """Values as dots in rows, with interval and chance; the strong row stands out.

    ``limits`` are those of the axis, found where None; values above ``farthest`` do not set them. ``reference`` is a
    line with its name. A value beyond a limit stands at it as an arrow with its number.
    """
    ax = canvas(ax, width, 1.0 + 0.25 * len(marks), purpose)
    low, high = _limits(marks, limits, reference, farthest)
    for place, mark in enumerate(marks):
        _row(ax, mark, place, low, high)
    if reference is not None:
        ax.axvline(reference[0], color=CHANCE, lw=0.8, ls=":", zorder=1)
    ax.set_yticks(range(len(marks)), [short_name(mark.name, LETTERS[width]) for mark in marks])
    for tick, mark in zip(ax.get_yticklabels(), marks, strict=True):
        tick.set_fontweight("bold" if mark.strong else "normal")
    ax.set_ylim(len(marks) - 0.4, -0.6)
    ax.set_xlim(low, high)
    ax.locator_params(axis="x", nbins=5 if width == "single" else 8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(label, fontsize="small")
    _legend(ax, marks, (value_name, interval_name, chance_name), reference)
    return ax


def _row(ax: Any, mark: Mark, place: int, low: float, high: float) -> None:
    shade = ACCENT if mark.strong else PLAIN
    if mark.chance_range is not None:
        left, right = np.clip(mark.chance_range, low, high)
        ax.barh(place, max(right - left, 0.004 * (high - low)), left=left, height=0.56, color=BAND, zorder=1)
    if mark.chance is not None and low <= mark.chance <= high:
        ax.plot([mark.chance] * 2, [place - 0.28, place + 0.28], color=CHANCE, lw=1.2, zorder=2)
    if mark.interval is not None:
        ax.plot(np.clip(mark.interval, low, high), [place] * 2, color=shade, lw=2.2, solid_capstyle="butt", zorder=3)
    if mark.in_sample is not None and low <= mark.in_sample <= high:
        ax.plot(mark.in_sample, place + 0.3, "o", color=shade, ms=3.5, mfc="white", mew=0.9, zorder=4, clip_on=False)
    if np.isnan(mark.value):
        return
    beyond = mark.value > high or mark.value < low
    at = float(np.clip(mark.value, low, high))
    shape = "o" if not beyond else ">" if mark.value > high else "<"
    ax.plot(at, place, shape, color=shade, ms=6 if mark.strong else 5, zorder=5, clip_on=False)
    if beyond:
        side = "right" if mark.value > high else "left"
        near = {"xytext": (0, -4), "textcoords": "offset points", "ha": side, "va": "top"}
        ax.annotate(f"{mark.value:.3g}", (at, place), fontsize="x-small", color=shade, **near)


def _limits(
    marks: Sequence[Mark],
    limits: tuple[float | None, float | None],
    reference: tuple[float, str] | None,
    farthest: float,
) -> tuple[float, float]:
    low, high = limits
    known = [x for mark in marks for x in mark.known] + ([] if reference is None else [reference[0]])
    low = min(known, default=0.0) if low is None else low
    if high is None:
        high = max((x for x in known if x <= farthest), default=max(known, default=1.0))
    if high <= low:
        high = low + 1.0
    room = 0.04 * (high - low)
    return (low - room if limits[0] is None else low), (high + room if limits[1] is None else high)


def _legend(ax: Any, marks: Sequence[Mark], names: tuple[str, str, str], reference: tuple[float, str] | None) -> None:
    """What each kind of mark is."""
    value, interval, chance = names
    lines = import_extra("matplotlib.lines", "plot", "plot()")
    patches = import_extra("matplotlib.patches", "plot", "plot()")
    strong = any(mark.strong for mark in marks)
    shade = ACCENT if strong else PLAIN
    keys = [lines.Line2D([], [], color=shade, marker="o", ms=5, lw=0, label=value)]
    if any(mark.interval is not None for mark in marks):
        keys.append(lines.Line2D([], [], color=shade, lw=2.2, label=interval))
    if any(mark.in_sample is not None for mark in marks):
        keys.append(lines.Line2D([], [], color=shade, marker="o", ms=3.5, mfc="white", lw=0, label="in-sample"))
    if any(mark.chance_range is not None for mark in marks):
        keys.append(patches.Patch(color=BAND, label="chance, 95% range"))
    if any(mark.chance is not None for mark in marks):
        keys.append(lines.Line2D([], [], color=CHANCE, marker="|", ms=8, mew=1.2, lw=0, label=chance))
    if reference is not None and reference[1]:
        keys.append(lines.Line2D([], [], color=CHANCE, lw=0.8, ls=":", label=reference[1]))
    if len(keys) > 1:
        above(ax, keys)


def above(ax: Any, handles: Sequence[Any], columns: int = 2) -> None:
    """A legend over the axes, where it hides nothing whatever stands under them."""
    ax.legend(
        handles=list(handles),
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize="x-small",
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.0,
    )


def matrix(
    ax: Axes | None,
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    *,
    width: str = "single",
    limits: tuple[float, float] = (0.0, 1.0),
    dark_is_low: bool = False,
    names: tuple[str, str] = ("", ""),
    purpose: str = "plot_matrix()",
) -> Axes:
    """A matrix in one hue, with its colour bar; cells without a number are hatched.

    Limits that start below 0 make a diverging scale about 0. ``names`` are those of the rows' and of the columns' axis.
    """
    values = np.asarray(values, dtype=float)
    wide = WIDTHS.get(width, WIDTHS["single"])
    height = 0.55 + float(np.clip(0.72 * wide * values.shape[0] / max(values.shape[1], 1), 0.9, 1.25 * wide))
    ax = canvas(ax, width, height, purpose)
    diverging = limits[0] < 0
    colours = "PuOr" if diverging else "Blues_r" if dark_is_low else "Blues"
    image = ax.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest")
    _hatch(ax, values)
    if max(values.shape) <= PRINTED:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=_ink(image, value))
    _names(ax.yaxis, rows)
    _names(ax.xaxis, columns, turned=True)
    ax.set_ylabel(names[0], fontsize="small")
    ax.set_xlabel(names[1], fontsize="small")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    known, room = values[np.isfinite(values)], 1e-3 * (limits[1] - limits[0])  # rounding is not beyond a limit
    ends = bool((known < limits[0] - room).any()), bool((known > limits[1] + room).any())
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[ends]
    bar = ax.figure.colorbar(image, ax=ax, label=label, extend=extend, fraction=0.08, pad=0.03)
    bar.ax.tick_params(labelsize="x-small")
    bar.ax.yaxis.label.set_fontsize("small")
    bar.outline.set_visible(False)
    return ax


def _hatch(ax: Any, values: Any) -> None:
    """Cells without a number, told apart from pale ones."""
    patches = import_extra("matplotlib.patches", "plot", "plot()")
    for i, j in np.argwhere(~np.isfinite(values))[:4000]:
        box = patches.Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="////", ec="#c3c8d0", lw=0)
        ax.add_patch(box)


def _ink(image: Any, value: float) -> str:
    """Black or white, whichever is easier to read on this cell (relative luminance as WCAG has it)."""
    channels = np.array(image.cmap(image.norm(value))[:3])
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"


def _names(axis: Any, names: Sequence[str], turned: bool = False) -> None:
    """Names along an axis; where there are many, every second, third, ... of them."""
    step = -(-len(names) // (NUMBERED if all(name.isdigit() for name in names) else NAMED)) or 1
    shown = [short_name(name, 22) for name in names[::step]]
    leaning = turned and max(map(len, shown), default=0) > 3
    axis.set_ticks(range(0, len(names), step), shown, **({"rotation": 45, "ha": "right"} if leaning else {}))


def columns(
    ax: Axes | None,
    values: Any,
    label: str,
    across: str,
    *,
    names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    limits: tuple[float | None, float | None] = (0.0, 1.0),
    reference: tuple[float, str] | None = None,
    spread: Any = None,
    width: str = "single",
    purpose: str = "plot_components()",
) -> Axes:
    """One value per component, in order, as stems; ``groups`` of them have shapes and colours of their own.

    ``spread`` holds further values of each component, (k, n), drawn as small dots.
    """
    ax = canvas(ax, width, 2.3, purpose)
    values = np.asarray(values, dtype=float)
    places = np.arange(len(values))
    kinds = list(dict.fromkeys(groups)) if groups is not None else [""]
    few = len(values) <= 60
    if spread is not None:
        for place, several in zip(places, spread, strict=True):
            ax.plot([place] * len(several), several, ".", color="#aab1bc", ms=2.5, zorder=2)
    looks = ((ACCENT, "o"), (OTHER, "s"), (SHADES["s3"], "^"), (SHADES["s0"], "D"))
    for kind, (shade, shape) in zip(kinds, looks, strict=False):
        here = np.array([groups is None or group == kind for group in (groups or [""] * len(values))])
        if few:
            ax.vlines(places[here], 0 if limits[0] is None else limits[0], values[here], color=shade, lw=1.2, zorder=3)
        ax.plot(places[here], values[here], shape, color=shade, ms=4 if few else 2.5, label=kind, zorder=4)
    if reference is not None:
        ax.axhline(reference[0], color=CHANCE, lw=0.8, ls=":", label=reference[1] or None, zorder=1)
    low, high = limits
    ax.set_ylim(low, None if high is None else high + 0.03 * (high - (low or 0.0)))
    ax.set_xlim(-0.6, len(values) - 0.4)
    _names(ax.xaxis, names or [str(place) for place in places], turned=True)
    ax.set_xlabel(across, fontsize="small")
    ax.set_ylabel(label, fontsize="small")
    if any(kinds) or (reference is not None and reference[1]):
        above(ax, ax.get_legend_handles_labels()[0])
    return ax


def coloured(names: Sequence[str]) -> dict[str, Any]:
    """A colour for each name: as many as there are classes of colours have one of their own, more lie on a scale."""
    if len(names) <= len(SHADES):
        return dict(zip(names, SHADES.values(), strict=False))
    scale = import_extra("matplotlib", "plot", "a map").colormaps["viridis"]
    return {name: scale(place / (len(names) - 1)) for place, name in enumerate(names)}


def short_name(name: str, most: int = 26) -> str:
    """A name that leaves room for the axes: its end, where file names differ, with dollars that start no formula."""
    cut = name if len(name) <= most else "…" + name[1 - most :]
    return cut.replace("$", r"\$")
