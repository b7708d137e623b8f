r"""Paired tests of conditions on the same held-out batches: sign flips, their interval, Holm's correction.

With no difference, the sign of every batch's difference :math:`d_i` is a coin. The two-sided p-value is the share of
sign patterns whose sum is as far from zero as the observed one. A pattern divides the batches into P and N, and it is
as far from zero exactly if zero lies between the means of P and of N. So the values :math:`\delta` that the test of
:math:`d_i-\delta` does not reject are an interval between order statistics of subset means (Hartigan 1969), and it
excludes zero exactly if p is at most 0.05: test and interval never contradict each other.

Held-out batches are not independent: every two of them train each other's classifier. With labels drawn at random, the
mean difference varies :math:`f=\sqrt{1+J\,n_\mathrm{test}/n_\mathrm{train}}` times as much as with independent ones
(Nadeau & Bengio 2003; about :math:`\sqrt2` where batches are left out singly). So the test is made of
:math:`d_i-\bar d+\bar d/f`, and its interval is multiplied by f; otherwise about one of six screens without any effect
would be given a verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..representation import Array
from ..resampling import Interval, t_interval

LEVEL = 0.05
LEAST_PAIRS = 6  # fewer cannot give a two-sided p below 0.05: five coins fall alike in 1 of 16 throws
_EXACT_PAIRS = 20  # up to which all sign patterns are counted: about a million
_DRAWS = 20_000
_ROUNDING = 1e-9  # of an AUROC: differences below it are rounding


@dataclass(frozen=True)
class Comparison:
    """Differences of pairs: mean, interval, p, and in how many pairs the first is better or worse.

    Below six pairs p is None and the interval is Student's, with a variance that allows for shared training rows.
    """

    difference: float
    interval: Interval | None
    p_value: float | None
    pairs: int
    better: int
    worse: int

    @property
    def shown(self) -> bool:
        """Whether the difference is shown: p of at most 0.05, or an interval without zero, which is the same."""
        return self.p_value is not None and self.p_value <= LEVEL


def compared(differences: Array, test_over_train: float, rng: np.random.Generator) -> Comparison:
    """Test paired differences; ``test_over_train`` is the mean ratio of a pair's test rows to its training rows."""
    rounded = np.where(np.abs(differences) < _ROUNDING, 0.0, differences)
    p_value, interval = None, None
    if len(rounded) >= LEAST_PAIRS:
        mean, factor = rounded.mean(), math.sqrt(1 + len(rounded) * test_over_train)
        p_value, narrow = sign_flips(rounded - mean + mean / factor, rng)
        interval = Interval(factor * narrow.low, factor * narrow.high, narrow.level)
    elif len(rounded) > 1:
        interval = student(rounded, test_over_train)
    if interval is not None:  # two scores from 0 to 1 differ by at most 1; few pairs give wider intervals
        interval = Interval(max(interval.low, -1.0), min(interval.high, 1.0), interval.level)
    better, worse = int((rounded > 0).sum()), int((rounded < 0).sum())
    return Comparison(float(rounded.mean()), interval, p_value, len(rounded), better, worse)


def sign_flips(differences: Array, rng: np.random.Generator) -> tuple[float, Interval]:
    """The p-value of random signs and the 95% interval of the same test: all patterns if few, else a sample."""
    n = len(differences)
    exact = n <= _EXACT_PAIRS
    if exact:
        # Every division into P and N once: the first pair is in P.
        sums, sizes = differences[:1], np.ones(1)
        for each in differences[1:]:
            sums, sizes = np.concatenate([sums, sums + each]), np.concatenate([sizes, sizes + 1])
        weight, alone = 2, 2  # both signs of a pattern; no pair, or all of them, in P
        sums, sizes = sums[:-1], sizes[:-1]
        total = 2**n
    else:
        chosen = rng.random((_DRAWS, n)) < 0.5
        sums, sizes = chosen @ differences, chosen.sum(axis=1).astype(float)
        whole = (sizes == 0) | (sizes == n)
        weight, alone, total = 1, 1 + int(whole.sum()), 1 + _DRAWS
        sums, sizes = sums[~whole], sizes[~whole]
    means = sums / sizes, (differences.sum() - sums) / (n - sizes)
    low, high = np.sort(np.minimum(*means)), np.sort(np.maximum(*means))
    touching = int((low <= _ROUNDING).sum() - (high < -_ROUNDING).sum())
    # A value is in the interval if more than 5% of the patterns lie on both sides of it.
    place = max(0, math.floor((LEVEL * total - alone) / weight))
    interval = Interval(float(low[place]), float(high[-1 - place]), 1 - LEVEL)
    return (alone + weight * touching) / total, interval


def least_p(pairs: int) -> float | None:
    """The smallest possible p-value for this number of pairs; None where no test is made."""
    if pairs < LEAST_PAIRS:
        return None
    return float(2.0 ** (1 - pairs)) if pairs <= _EXACT_PAIRS else 1 / (1 + _DRAWS)


def student(differences: Array, test_over_train: float) -> Interval:
    r"""Student's interval of the mean difference of folds that share training rows.

    The variance is :math:`(1/J+n_\mathrm{test}/n_\mathrm{train})s^2` (Nadeau & Bengio 2003).
    """
    n = len(differences)
    return t_interval(float(differences.mean()), float(differences.std(ddof=1) * np.sqrt(1 / n + test_over_train)), n)


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction.

    Examples
    --------
    >>> from isorep.deconfounding.paired import holm
    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(order), 0, -1) * np.array(p_values)[order]
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected.tolist()
