"""Matplotlib figures of a comparison, and of many runs, through matplotlib, for papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import missing_extra
from ..report.charts import colour, rung_name
from ..report.read import percent
from .figures import Plane, Reproducibility, ResidualCounts

if TYPE_CHECKING:
    from .many_errors import RungMatrix
    from .many_result import Ensemble
    from .result import Comparison, Direction

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
SOURCE, TARGET, CHANCE = "#c2570c", "#0b65b3", "#545c69"
PANEL = (4.2, 3.2)  # inches: two fill the width of a page
PRINTED = 9  # runs up to which cells have their numbers in them


def plot(result: Comparison) -> Any:
    """A ``Figure`` with the ladder, rows, errors and dimensions; no global state is touched."""
    figures, names = result.figures, (result.source.name, result.target.name)
    panels = [
        partial(_ladder, direction=result.forward),
        *(partial(_scatter, plane=figures.scatter, when=when, names=names) for when in ("before", "after")),
        partial(_residuals, data=figures.residuals),
    ]
    if figures.dimensions is not None:
        panels.append(partial(_dimensions, data=figures.dimensions))
    return _arranged(panels)


def plot_many(result: Ensemble) -> Any:
    """A ``Figure`` with the matrix of every rung and the agreement along the consensus's axes."""
    panels = [partial(_matrix, rung=rung, result=result) for rung in result.rungs.values()]
    if len(result.consensus.agreement) > 1:
        panels.append(partial(_agreement, values=result.consensus.agreement))
    return _arranged(panels)


def _arranged(panels: Sequence[Callable[[Any], None]]) -> Any:
    """A ``Figure`` with these panels, two across."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "plot", "plot()") from None
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(PANEL[0] * across, PANEL[1] * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis, draw in zip(axes, panels, strict=False):
        draw(axis)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(panels) :]:
        axis.remove()
    return figure


def _ladder(axis: Any, direction: Direction) -> None:
    for place, (name, rung) in enumerate(direction.rungs.items()):
        shade, null, span = SHADES[colour(name)], rung.null, rung.interval
        if null is not None:
            axis.barh(place, null.high - null.low, left=null.low, height=0.5, color="#c9ced6")
            axis.plot([null.mean, null.mean], [place - 0.3, place + 0.3], color=CHANCE, lw=1.5)
        if span is not None:
            axis.plot([span.low, span.high], [place, place], color=shade, lw=2)
        axis.plot(rung.held_out.mean, place, "o", color=shade, ms=5)
        axis.plot(rung.in_sample.mean, place + 0.28, "o", color=shade, ms=4, mfc="none")
    axis.set_yticks(range(len(direction.rungs)), [rung_name(name) for name in direction.rungs])
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.set_xlabel("mean error (1: no better than the mean)")
    axis.set_title("held out (dot, interval), in-sample (ring), null (bar)", fontsize="small", loc="left")


def _scatter(axis: Any, plane: Plane, when: str, names: tuple[str, str]) -> None:
    for shade, name, cloud in ((TARGET, names[1], plane.target), (SOURCE, names[0], getattr(plane, when))):
        axis.scatter(*cloud.T, s=8, color=shade, alpha=0.7, lw=0, label=_label(name))
    axis.set_xlabel(f"axis 1 ({percent(plane.explained[0])} of variance)")
    axis.set_ylabel(f"axis 2 ({percent(plane.explained[1])} of variance)")
    axis.set_aspect("equal", adjustable="datalim")
    how = "centred" if when == "before" else rung_name(plane.rung)
    axis.set_title(f"{when} alignment: {how}", fontsize="small", loc="left")
    axis.legend(frameon=False, fontsize="small")


def _residuals(axis: Any, data: ResidualCounts) -> None:
    for name, counts in data.counts.items():
        axis.stairs(counts, data.edges, color=SHADES[colour(name)], label=rung_name(name))
    axis.set_xlabel("held-out error of a row, mean distances to the mean")
    axis.set_ylabel("rows")
    axis.legend(frameon=False, fontsize="small")


def _dimensions(axis: Any, data: Reproducibility) -> None:
    ranks = range(1, len(data.order) + 1)
    for name, r2 in data.r2.items():
        size = 3 if len(r2) > 100 else 14
        axis.scatter(ranks, r2[data.order], s=size, color=SHADES[colour(name)], lw=0, label=rung_name(name))
    axis.axhline(0, color=CHANCE, lw=0.8, ls="--")
    axis.set_ylim(max(axis.get_ylim()[0], -0.5), 1.02)
    axis.set_xlabel("rank of the target dimension")
    axis.set_ylabel("held-out R²")
    axis.legend(frameon=False, fontsize="small")


def _matrix(axis: Any, rung: RungMatrix, result: Ensemble) -> None:
    order = list(result.clustering.order)
    values = np.where(np.eye(len(order), dtype=bool), np.nan, rung.error[np.ix_(order, order)])
    axis.imshow(values, cmap="Blues_r", vmin=0, vmax=1)
    labels = [_label(result.names[run], 16) for run in order]
    axis.set_yticks(range(len(order)), labels, fontsize="small")
    axis.set_xticks(range(len(order)), labels, rotation=45, ha="right", fontsize="small")
    if len(order) <= PRINTED:
        for (i, j), value in np.ndenumerate(values):
            if i != j:
                ink = "white" if value < 0.5 else "black"
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=ink)
    axis.set_title(f"{rung_name(rung.name)}: error, row onto column", fontsize="small", loc="left")


def _agreement(axis: Any, values: Any) -> None:
    axis.plot(range(1, len(values) + 1), values, ".", color=TARGET, ms=4)
    axis.set_ylim(min(0.0, *values), 1.02)
    axis.set_xlabel("axis of the consensus")
    axis.set_ylabel("agreement")


def _label(name: str, most: int = 32) -> str:
    """A name that leaves room for the axes: its end, where file names differ, with dollars that start no formula."""
    text = name.replace("$", r"\$")
    return text if len(text) <= most else "…" + text[1 - most :]
