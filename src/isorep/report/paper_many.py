"""The main figures of many runs through matplotlib, for papers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .compare_many import Matrix, run_names, run_order, square
from .paper import arranged, plain_text, short_name
from .rungs import rung_name
from .values import Node, present

PRINTED = 9
"""Up to so many runs, cells have their numbers in them."""


def plot(result: Any) -> Any:
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
