"""Units that are resampled together, and intervals of what is taken from them."""

from __future__ import annotations

import numpy as np

from ..comparison.statistics import LEVEL
from ..representation import Array
from ..resampling import Interval


def pooled_units(n: int, groups: Array | None, most: int, rng: np.random.Generator) -> Array:
    """The unit of each row: rows, or whole groups, pooled at random where there are more than ``most``.

    Pooling leaves the variance of a mean what it is.
    """
    codes = np.arange(n) if groups is None else groups
    count = int(codes.max()) + 1
    if count <= most:
        return codes
    return np.asarray((rng.permutation(count) % most)[codes])


def draws_of(draws: Array) -> Interval:
    """The percentile interval of bootstrap draws."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high), LEVEL)
