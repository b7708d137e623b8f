"""Which rows are held out together."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GroupKFold

from ..errors import InputError
from ..groups import shuffled_partners
from ..representation import Array

__all__ = ["assign_folds", "shuffled_partners"]


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
