"""Matplotlib figures of a comparison, of its layers, and of many runs, for papers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.charts import colour, rung_name
from ..report.plots import (
    CHANCE,
    SHADES,
    Draw,
    Mark,
    above,
    arranged,
    canvas,
    columns,
    dots,
    matrix,
    middle,
    short_name,
    span,
)
from ..report.read import percent
from .figures import Plane, Reproducibility, ResidualCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .layers import LayerComparison
    from .many_result import Ensemble
    from .result import Comparison, Direction

SOURCE, TARGET = SHADES["s1"], SHADES["s2"]
LABEL = "held-out error\n(mean distances to the mean)"
MEAN = (1.0, "no better than the mean")
FARTHEST = 2.0  # largest error that sets the limits of a ladder's axis: larger ones stand at its end
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
SHAPES = "osD^v"


def plot(result: Comparison) -> Figure:
    """A ``Figure`` with the ladder, rows, errors and dimensions; no global state is touched."""
    figures, names = result.figures, (result.source.name, result.target.name)
    panels: list[Draw] = [
        result.plot_ladder,
        partial(_residuals, data=figures.residuals),
        *(partial(_scatter, plane=figures.scatter, when=when, names=names) for when in ("before", "after")),
    ]
    if figures.dimensions is not None:
        panels.append(partial(_dimensions, data=figures.dimensions))
    return arranged(panels)


def plot_many(result: Ensemble) -> Figure:
    """A ``Figure`` with the ladder, the matrix of every rung and the agreement along the consensus's axes."""
    panels: list[Draw] = [result.plot_ladder, *(partial(result.plot_matrix, rung=name) for name in result.rungs)]
    if len(result.consensus.agreement) > 1:
        panels.append(result.plot_components)
    return arranged(panels)


def ladder(ax: Axes | None, direction: Direction, width: str) -> Axes:
    """The rungs of one direction, that of the verdict marked."""
    marks = [
        Mark(
            rung_name(name),
            rung.held_out.mean,
            span(rung.interval),
            None if rung.null is None else rung.null.mean,
            middle(rung.null),
            rung.in_sample.mean,
            strong=name == direction.verdict.rung,
        )
        for name, rung in direction.rungs.items()
    ]
    return rungs(ax, marks, width, "held out", "95% interval")


def rungs(ax: Axes | None, marks: list[Mark], width: str, value_name: str, interval_name: str) -> Axes:
    """Marks of rungs on the axis that all ladders have."""
    return dots(
        ax,
        marks,
        LABEL,
        width=width,
        reference=MEAN,
        farthest=FARTHEST,
        value_name=value_name,
        interval_name=interval_name,
        purpose="plot_ladder()",
    )


def ladder_of_many(ax: Axes | None, result: Ensemble, width: str) -> Axes:
    """The rungs' means over ordered pairs; the interval is their range."""
    apart = ~np.eye(len(result.runs), dtype=bool)
    marks = [
        Mark(
            rung_name(name),
            rung.mean,
            (rung.min, rung.max),
            None if rung.null is None else float(np.nanmean(rung.null)),
            in_sample=float(rung.in_sample[apart].mean()),
            strong=name == result.verdict.rung,
        )
        for name, rung in result.rungs.items()
    ]
    return rungs(ax, marks, width, "held out, mean", "range over pairs")


def matrix_of_many(ax: Axes | None, result: Ensemble, rung: str, width: str) -> Axes:
    """The errors of one rung between all runs."""
    order = list(result.clustering.order)
    values = np.where(np.eye(len(order), dtype=bool), np.nan, result.rungs[rung].error[np.ix_(order, order)])
    names = [result.names[run] for run in order]
    ax = matrix(ax, values, names, names, "held-out error", width=width, dark_is_low=True, names=("source", "target"))
    ax.set_title(rung_name(rung), fontsize="small", loc="left")
    return ax


def matrix_of_layers(ax: Axes | None, result: LayerComparison, width: str) -> Axes:
    """The errors of every rung in every layer, source mapped onto target."""
    directions = result.directions()
    values = [
        [direction.rungs[rung].held_out.mean if rung in direction.rungs else np.nan for rung in result.rungs]
        for direction in directions.values()
    ]
    rungs = [rung_name(rung) for rung in result.rungs]
    return matrix(ax, values, list(directions), rungs, "held-out error", width=width, dark_is_low=True)


def agreement(ax: Axes | None, result: Ensemble, width: str) -> Axes:
    """The agreement of runs along the axes of their consensus."""
    values = result.consensus.agreement
    names = [str(place + 1) for place in range(len(values))]
    limits = (min(0.0, float(np.min(values))), 1.0)
    across = "axis of the consensus"
    return columns(ax, values, "agreement (in-sample)", across, names=names, limits=limits, width=width)


def _scatter(ax: Any, plane: Plane, when: str, names: tuple[str, str]) -> None:
    ax = canvas(ax, "single", 3.0, "plot()")
    handles = [
        ax.scatter(*cloud.T, s=6, color=shade, marker=shape, alpha=0.6, lw=0, label=short_name(name))
        for shade, shape, name, cloud in (
            (TARGET, "o", names[1], plane.target),
            (SOURCE, "^", names[0], getattr(plane, when)),
        )
    ]
    how = "centred only" if when == "before" else f"after the {rung_name(plane.rung)} map"
    ax.set_xlabel(f"axis 1 ({percent(plane.explained[0])} of variance)\n{how}", fontsize="small")
    ax.set_ylabel(f"axis 2 ({percent(plane.explained[1])} of variance)", fontsize="small")
    ax.set_aspect("equal", adjustable="datalim")
    above(ax, handles)


def _residuals(ax: Any, data: ResidualCounts) -> None:
    ax = canvas(ax, "single", 2.6, "plot()")
    handles = [
        ax.stairs(counts, data.edges, color=SHADES[colour(name)], ls=style, label=rung_name(name))
        for (name, counts), style in zip(data.counts.items(), STYLES, strict=False)
    ]
    ax.set_xlim(data.edges[0], data.edges[-1])
    ax.set_ylim(bottom=0)
    outside = ", ".join(f"{rung_name(name)} {number}" for name, number in data.beyond.items())
    cut = f"\nbeyond the axis: {outside}" if outside else ""
    ax.set_xlabel(f"held-out error of a row\n(mean distances to the mean){cut}", fontsize="small")
    ax.set_ylabel("rows", fontsize="small")
    ax.yaxis.get_major_locator().set_params(integer=True)
    above(ax, handles, columns=3)


def _dimensions(ax: Any, data: Reproducibility) -> None:
    ax = canvas(ax, "single", 2.6, "plot()")
    ranks = range(1, len(data.order) + 1)
    handles = []
    for (name, r2), shape in zip(data.r2.items(), SHAPES, strict=False):
        size = 3 if len(r2) > 100 else 10
        shade = SHADES[colour(name)]
        handles.append(
            ax.scatter(ranks, r2[data.order], s=size, color=shade, marker=shape, lw=0, label=rung_name(name))
        )
    ax.axhline(0, color=CHANCE, lw=0.8, ls=":")
    ax.set_ylim(max(ax.get_ylim()[0], -0.5), 1.02)
    ax.set_xlabel("rank of the target dimension", fontsize="small")
    ax.set_ylabel("held-out R²", fontsize="small")
    ax.xaxis.get_major_locator().set_params(integer=True)
    above(ax, handles)
