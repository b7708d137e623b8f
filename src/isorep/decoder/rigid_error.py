"""The error of the best rigid motion without a scale, as Theorem 1 asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..alignment import Rigid
from ..comparison import Error
from ..comparison.statistics import summarise
from ..representation import Array
from ..resampling import assign_folds


@dataclass(frozen=True)
class RigidErrors:
    """Residuals of least-squares rigid motions, held out and in sample, in units of the target's diameter."""

    held_out: Error
    in_sample: Error


def rigid_errors(x: Array, y: Array, unit: float, folds: int, seed: int) -> RigidErrors:
    """Fit on all rows, and without each fold; no scale is fitted."""
    fold_of = assign_folds(len(x), folds, None, np.random.default_rng(seed))
    residuals = np.empty(len(x))
    for fold in range(folds):
        held = fold_of == fold
        residuals[held] = Rigid(scale=False).fit(x[~held], y[~held]).residuals(x[held], y[held])
    inside = Rigid(scale=False).fit(x, y).residuals(x, y)
    return RigidErrors(summarise(residuals, unit), summarise(inside, unit))
