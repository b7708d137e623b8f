"""The main figures of a comparison through matplotlib, for papers.

The main figures of many runs through matplotlib, for papers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..errors import missing_extra
from ..report.charts import rung_name
from ..report.read import Node, percent, present
from .many_page import Matrix, run_names, run_order, square
from .page_figures import dimension_order

COLOURS = {
    "identity": "#6b7280",
    "signed_permutation": "#c2570c",
    "rigid": "#0b65b3",
    "linear": "#007f5c",
    "ica": "#9a4c94",
}
PANEL = (4.2, 3.2)
"""Inches a panel: two fill the width of a page."""


def plot(result: Any) -> Any:
    """A ``Figure`` with the ladder and whatever else the result holds; no global state is touched."""
    return arranged(_panels(Node(result)))


def arranged(panels: Sequence[Callable[[Any], None]]) -> Any:
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


def _panels(node: Node) -> list[Callable[[Any], None]]:
    figures = node["figures"]
    panels: list[Callable[[Any], None]] = [partial(_ladder, direction=node["forward"])]
    there = figures["scatter"]["target"].points()
    for name in ("before", "after"):
        if there and len(figures["scatter"][name].points()) == len(there):
            panels.append(partial(_scatter, node=figures["scatter"], name=name, result=node))
    edges = present(*figures["residuals"]["edges"].numbers())
    if len(edges) > 1 and figures["residuals"]["counts"]:
        panels.append(partial(_residuals, node=figures["residuals"], edges=edges))
    if figures["dimensions"]["r2"]:
        panels.append(partial(_dimensions, node=figures["dimensions"]))
    return panels


def _ladder(axis: Any, direction: Node) -> None:
    rungs = direction["rungs"].items()
    for place, (rung, entry) in enumerate(rungs):
        colour = _colour(rung)
        mean, second = entry["held_out"]["mean"].number(), entry["in_sample"]["mean"].number()
        low, high = entry["interval"]["low"].number(), entry["interval"]["high"].number()
        null = [entry["null"][key].number() for key in ("low", "high", "mean")]
        if null[0] is not None and null[1] is not None and null[2] is not None:
            axis.barh(place, null[1] - null[0], left=null[0], height=0.5, color="#c9ced6")
            axis.plot([null[2], null[2]], [place - 0.3, place + 0.3], color="#545c69", lw=1.5)
        if low is not None and high is not None:
            axis.plot([low, high], [place, place], color=colour, lw=2)
        if mean is not None:
            axis.plot(mean, place, "o", color=colour, ms=5)
        if second is not None:
            axis.plot(second, place + 0.28, "o", color=colour, ms=4, mfc="none")
    axis.set_yticks(range(len(rungs)), [rung_name(rung) for rung, _ in rungs])
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.set_xlabel("mean error (1: no better than the mean)")
    axis.set_title("held out (dot, interval), in-sample (ring), null (bar)", fontsize="small", loc="left")


def _scatter(axis: Any, node: Node, name: str, result: Node) -> None:
    for colour, key, side in (("#0b65b3", "target", "target"), ("#c2570c", name, "source")):
        points = node[key].points()
        label = short_name(plain_text(result[side]["name"].text(side)))
        axis.scatter([x for x, _ in points], [y for _, y in points], s=8, color=colour, alpha=0.7, lw=0, label=label)
    shares = node["explained"].numbers(2)
    words = [f" ({percent(share)} of variance)" for share in shares] if len(shares) == 2 else ["", ""]
    axis.set_xlabel(f"axis 1{words[0]}")
    axis.set_ylabel(f"axis 2{words[1]}")
    axis.set_aspect("equal", adjustable="datalim")
    how = "centred" if name == "before" else rung_name(node["rung"].text("aligned"))
    axis.set_title(f"{name} alignment: {how}", fontsize="small", loc="left")
    axis.legend(frameon=False, fontsize="small")


def _residuals(axis: Any, node: Node, edges: list[float]) -> None:
    for rung, entry in node["counts"].items():
        counts = [value or 0.0 for value in entry.numbers()]
        if len(counts) == len(edges) - 1:
            axis.stairs(counts, edges, color=_colour(rung), label=rung_name(plain_text(rung)))
    axis.set_xlabel("held-out error of a row, mean distances to the mean")
    axis.set_ylabel("rows")
    axis.legend(frameon=False, fontsize="small")


def _dimensions(axis: Any, node: Node) -> None:
    order = dimension_order(node)
    for rung, entry in node["r2"].items():
        found = entry.numbers()
        if len(found) != len(order):
            continue
        values = [(rank + 1, value) for rank, place in enumerate(order) if (value := found[place]) is not None]
        if values:
            where, heights = zip(*values, strict=True)
            size = 3 if len(values) > 100 else 14
            axis.scatter(where, heights, s=size, color=_colour(rung), lw=0, label=rung_name(plain_text(rung)))
    axis.axhline(0, color="#545c69", lw=0.8, ls="--")
    axis.set_ylim(max(axis.get_ylim()[0], -0.5), 1.02)
    axis.set_xlabel("rank of the target dimension")
    axis.set_ylabel("held-out R²")
    axis.legend(frameon=False, fontsize="small")


def _colour(rung: str) -> str:
    return COLOURS.get(rung, "#6b7280")


def plain_text(text: str) -> str:
    """Text as it is: matplotlib reads what stands between dollar signs as mathematics."""
    return text.replace("$", r"\$")


def short_name(name: str, most: int = 32) -> str:
    """A name that leaves room for the axes: its end, where file names differ."""
    return name if len(name) <= most else "…" + name[1 - most :]


PRINTED = 9
"""Up to so many runs, cells have their numbers in them."""


def plot_many(result: Any) -> Any:
    """A ``Figure`` with the matrix of every rung and the agreement along the consensus's axes."""
    node = Node(result)
    names = run_names(node)
    order, _ = run_order(node, len(names))
    panels: list[Callable[[Any], None]] = []
    for rung, entry in node["rungs"].items():
        matrix = square(entry["error"], len(names))
        if matrix is not None:
            panels.append(partial(_matrix, matrix=matrix, names=names, order=order, rung=rung))
    agreement = present(*node["consensus"]["agreement"].numbers())
    if len(agreement) > 1:
        panels.append(partial(_agreement, values=agreement))
    return arranged(panels)


def _matrix(axis: Any, matrix: Matrix, names: list[str], order: list[int], rung: str) -> None:
    nan = float("nan")
    values = [[nan if matrix[i][j] is None else matrix[i][j] for j in order] for i in order]
    axis.imshow(values, cmap="Blues_r", vmin=0, vmax=1)
    labels = [short_name(plain_text(names[i]), 16) for i in order]
    axis.set_yticks(range(len(order)), labels, fontsize="small")
    axis.set_xticks(range(len(order)), labels, rotation=45, ha="right", fontsize="small")
    if len(order) <= PRINTED:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                if value is not None and value == value:
                    colour = "white" if value < 0.5 else "black"
                    axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=colour)
    axis.set_title(f"{rung_name(plain_text(rung))}: error, row onto column", fontsize="small", loc="left")


def _agreement(axis: Any, values: list[float]) -> None:
    axis.plot(range(1, len(values) + 1), values, ".", color="#0b65b3", ms=4)
    axis.set_ylim(min(0.0, *values), 1.02)
    axis.set_xlabel("axis of the consensus")
    axis.set_ylabel("agreement")
