"""Connected components of a few things."""

from __future__ import annotations

import numpy as np

from ...representation import Array


def hyper_components(members: Array) -> tuple[int, Array]:
    """Components of things (columns) that rows join: how many, and the label of every column in order of appearance."""
    joined = members.astype(np.float32)
    return components(joined.T @ joined > 0)


def components(adjacent: Array) -> tuple[int, Array]:
    """Components of a small graph, by squaring its adjacency until nothing more is reached."""
    reached = adjacent | adjacent.T | np.eye(len(adjacent), dtype=bool)
    while True:
        wider = (reached.astype(np.float32) @ reached.astype(np.float32)) > 0
        if (wider == reached).all():
            break
        reached = wider
    _, labels = np.unique(reached.argmax(1), return_inverse=True)
    return int(labels.max(initial=-1)) + 1, labels
