"""Which rows are held out together, and which partners a shuffled pairing gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold

from ..errors import InputError
from ..representation import Array


def assign_folds(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The fold of each row: at random, or whole groups balanced over the folds."""
    if n < n_folds:
        raise InputError(f"there are {n} rows and {n_folds} folds: a fold needs at least one row")
    folds = np.empty(n, dtype=np.intp)
    if groups is None:
        folds[rng.permutation(n)] = np.arange(n) % n_folds
        return folds
    n_groups = int(groups.max()) + 1
    if n_groups < n_folds:
        raise InputError(f"there are {n_groups} groups and {n_folds} folds: a group is never split over folds")
    splits = GroupKFold(n_splits=n_folds).split(np.empty((n, 0)), groups=groups)
    for fold, (_, held_out) in enumerate(splits):
        folds[held_out] = fold
    return folds


def group_codes(groups: Any, n: int) -> Array | None:
    """Group labels of any kind as integers from 0."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != n:
        raise InputError(f"groups has shape {labels.shape} where one label a row is needed: ({n},)")
    missing = [place for place, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        raise InputError(f"groups is missing for {len(missing)} rows, the first at row {missing[0]}")
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def shuffled_partners(n: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """For each row the row whose target it is given instead of its own, never one of its own group.

    Groups are laid out on a circle in random order, rows in random order inside them, and everybody takes the target
    some steps further on: at least as many as the largest group has rows. Rows of a group thus stay together. (If one
    group holds more than half of the rows, some of them necessarily meet their own.)
    """
    if groups is None:
        order, largest = rng.permutation(n), 1
    else:
        sizes = np.bincount(groups)
        order = np.lexsort((rng.permutation(n), rng.permutation(len(sizes))[groups]))
        largest = int(sizes.max())
    steps = n // 2 if 2 * largest > n else int(rng.integers(largest, n - largest + 1))
    partners = np.empty(n, dtype=np.intp)
    partners[order] = np.roll(order, -steps)
    return partners
