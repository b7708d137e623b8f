"""Which rows are held out together, and which partners a shuffled pairing gives them."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GroupKFold

from ..errors import InputError
from ..representation import Array

_SIMILAR_GROUPS = 8  # how many groups of similar size exchange partners


def assign_folds(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The fold of each row: at random, or whole groups balanced over the folds."""
    if n < n_folds:
        raise InputError(f"there are {n} rows and {n_folds} folds: a fold needs at least one row")
    folds = np.empty(n, dtype=np.intp)
    if groups is None:
        folds[rng.permutation(n)] = np.arange(n) % n_folds
        return _with_training_rows(folds)
    n_groups = int(groups.max()) + 1
    if n_groups < n_folds:
        raise InputError(f"there are {n_groups} groups and {n_folds} folds: a group is never split over folds")
    splits = GroupKFold(n_splits=n_folds).split(np.empty((n, 0)), groups=groups)
    for fold, (_, held_out) in enumerate(splits):
        folds[held_out] = fold
    return _with_training_rows(folds)


def _with_training_rows(folds: Array) -> Array:
    left = len(folds) - int(np.bincount(folds).max())
    if left < 2:
        raise InputError(f"without the largest fold {left} row is left to fit on: at least 2 are needed")
    return folds


def shuffled_partners(n: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """For each row the row whose target it is given instead of its own.

    Without groups: everybody takes the partner of somebody else, on a circle in random order. With groups: each group
    takes the rows of one other group of about its size, in random order, and of further groups if that one is too
    small, so that the null has about as many independent units as the data.
    """
    if groups is None:
        return _next_on_a_circle(np.arange(n), rng)
    sizes = np.bincount(groups)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    by_size = np.lexsort((rng.permutation(len(sizes)), -sizes))
    place = np.argsort(by_size)
    partners = np.empty(n, dtype=np.intp)
    for similar in np.array_split(by_size, max(1, len(sizes) // _SIMILAR_GROUPS)):
        for group, other in zip(similar, _next_on_a_circle(similar, rng), strict=True):
            others = np.roll(by_size, -place[other])
            others = others[others != group]
            enough = int(np.searchsorted(np.cumsum(sizes[others]), sizes[group])) + 1
            taken = np.concatenate([rng.permutation(members[each]) for each in others[:enough]])
            partners[members[group]] = np.resize(taken, sizes[group])
    return partners


def _next_on_a_circle(items: Array, rng: np.random.Generator) -> Array:
    """For each item another one: on a circle in random order, some steps on."""
    order = rng.permutation(len(items))
    steps = int(rng.integers(1, len(items)))
    result = np.empty(len(items), dtype=np.intp)
    result[order] = items[np.roll(order, -steps)]
    return result
