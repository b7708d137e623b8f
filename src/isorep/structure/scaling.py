"""Means and standard deviations of columns, also of those that are constant on some of the rows."""

from __future__ import annotations

import numpy as np

from ..representation import Array


def moments_of(x: Array) -> tuple[Array, Array]:
    """Means and standard deviations of columns; of constant ones their value, exactly, and 1.

    The mean of equal numbers may round. A spread of 1e-17 would then blow up rows whose entry is another one.
    """
    constant = x.min(axis=0) == x.max(axis=0)
    mean = np.where(constant, x[0], x.mean(axis=0))
    return mean, np.where(constant, 1.0, x.std(axis=0))
