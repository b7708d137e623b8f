"""Whether a measure grows along a sweep: differences of ends and rank correlations, over pairs of models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from ...representation import Array

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over pairs with its standard error and its 95 % interval (Student's t); no interval for one pair."""

    mean: float
    error: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Trend:
    """A measure along a sweep.

    Attributes
    ----------
    first, last : float
        Means at both ends.
    difference : Estimate
        Last minus first, pair by pair.
    correlation : Estimate or None
        Spearman's rank correlation with the place in the sweep, pair by pair; None for fewer than three places.
    largest : int
        The place of the largest mean.
    steady : bool
        Whether no mean is below the one before.
    """

    first: float
    last: float
    difference: Estimate
    correlation: Estimate | None
    largest: int
    steady: bool

    @property
    def grows(self) -> bool | None:
        """True or False where the interval of the difference lies above or below zero, otherwise None."""
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or low <= 0 <= high:
            return None
        return low > 0


def estimate(values: Array) -> Estimate:
    """Mean and interval of independent values."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Estimate(mean, None, None, None)
    error = float(np.std(values, ddof=1) / np.sqrt(count))
    reach = float(student.ppf(0.5 + LEVEL / 2, count - 1)) * error
    return Estimate(mean, error, mean - reach, mean + reach)


def trend(values: Array) -> Trend | None:
    """From a table of pairs x places; None where there is nothing to compare."""
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        return None
    means = values.mean(0)
    return Trend(
        float(means[0]),
        float(means[-1]),
        estimate(values[:, -1] - values[:, 0]),
        estimate(np.array([_spearman(row) for row in values])) if values.shape[1] > 2 else None,
        int(np.argmax(means)),
        bool((np.diff(means) >= 0).all()),
    )


def _spearman(row: Array) -> float:
    """Of a row with its places; 0 where nothing varies."""
    ranks = rankdata(row) - (len(row) + 1) / 2
    places = np.arange(len(row)) - (len(row) - 1) / 2
    size = float(np.sqrt((ranks**2).sum() * (places**2).sum()))
    return float(ranks @ places) / size if size > 0 else 0.0
