"""Rows that belong together: labels of any kind as integers, and pairings shuffled group by group."""

from __future__ import annotations

import numpy as np

from .representation import Array

_SIMILAR_GROUPS = 8  # how many groups of similar size exchange partners


def shuffled_partners(n: int, groups: Array | None, rng: np.random.Generator, turn: int = 0) -> Array:
    """For each row the row whose target it is given instead of its own.

    Without groups: everybody takes the partner of somebody else, on a circle in random order. With groups: each group
    takes the rows of one other group of about its size, in random order, and of further groups if that one is too
    small, so that the null has about as many independent units as the data.

    Another ``turn`` with a generator in the same state takes partners that differ from those of the first.
    """
    if groups is None:
        return _next_on_a_circle(np.arange(n), rng, turn)
    sizes = np.bincount(groups)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    by_size = np.lexsort((rng.permutation(len(sizes)), -sizes))
    place = np.argsort(by_size)
    partners = np.empty(n, dtype=np.intp)
    for similar in np.array_split(by_size, max(1, len(sizes) // _SIMILAR_GROUPS)):
        for group, other in zip(similar, _next_on_a_circle(similar, rng, turn), strict=True):
            others = np.roll(by_size, -place[other])
            others = others[others != group]
            enough = int(np.searchsorted(np.cumsum(sizes[others]), sizes[group])) + 1
            taken = np.concatenate([rng.permutation(members[each]) for each in others[:enough]])
            partners[members[group]] = np.resize(taken, sizes[group])
    return partners


def _next_on_a_circle(items: Array, rng: np.random.Generator, turn: int) -> Array:
    """For each item another one: on a circle in random order, some steps on, other steps for each turn."""
    order = rng.permutation(len(items))
    steps = 1 + (int(rng.integers(1, len(items))) - 1 + turn) % (len(items) - 1)
    result = np.empty(len(items), dtype=np.intp)
    result[order] = items[np.roll(order, -steps)]
    return result
