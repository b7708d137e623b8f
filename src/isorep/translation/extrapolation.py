r"""Recall in a larger store: the number of items closer than a query's own, extrapolated from a sample.

Let a query be closer to a random item of the store than to its own with probability :math:`p`. Among :math:`N` items
the number of closer ones is about Poisson with mean :math:`Np`, and the own item is among the first :math:`k` if that
number is below :math:`k`. Over queries, :math:`\log p` is taken as normal; its two parameters follow from the numbers
of closer items in the sample, of which those from 16 on count as 16 or more, so that the hard queries, which any
larger store loses, do not shape the rest. Recall at size :math:`M` is the mean of :math:`P(\mathrm{Poisson}(Mp)<k)`
over the posterior of the two parameters on a grid (Zheng, Achanta & Benjamini 2018 treat the same problem for
classifiers). The interval is the posterior's, and on both sides what the same method misses when it predicts the whole
sample from an eighth of it: that is a bias, and adds to the error of sampling. The store must hold items like those of
the sample.

In a smaller store no law is assumed: of the :math:`c` closer items of the sample, a random subset of it keeps a
hypergeometric number. The interval of measured recall, and of that of smaller stores, is Wilson's over queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaln, pdtr

from ..representation import Array

_CENSORED = 16
_PART = 8  # one row in so many makes the prediction that is checked
_LEAST_MISS = 0.02  # per factor of eight
_CENTRES = np.arange(-16.0, 8.01, 0.1)  # mean of the log of the expected number of closer items
_SPREADS = np.geomspace(0.2, 8.0, 32)
_MOST_COUNT = 1e15
_DEVIATIONS = 1.96  # of a 95% interval


@dataclass(frozen=True)
class StoreRecall:
    """Recall at each k below ``size`` in a store of ``size`` items, with a 95% interval.

    ``measured`` is true where the sample is that large. ``native`` is the recall of native vectors, up to that size,
    ``guessing`` that of drawn items.
    """

    size: int
    recall: dict[int, float]
    low: dict[int, float]
    high: dict[int, float]
    measured: bool = False
    native: dict[int, float] | None = None
    guessing: dict[int, float] = field(default_factory=dict)


class Extrapolation:
    """Recall as a function of the size of the store, from the number of closer items of every query.

    Parameters
    ----------
    closer : (q,) int array
        For each query the number of items of the sample that are closer to it than its own, however many these are.
    size : int
        Number of items of the sample.
    rng : Generator
        Draws the eighth of the sample that the method is checked with.
    units : int, optional
        The number of independent queries, where some belong together.
    """

    def __init__(self, closer: Array, size: int, rng: np.random.Generator, units: int | None = None) -> None:
        self.size, self._closer = size, np.asarray(closer)
        self._weight = 1.0 if units is None else units / len(closer)
        self._posterior = self._fitted(self._closer)
        part = max(size // _PART, 2)
        others = max(size - 1, 1)
        draws = min(part - 1, others)
        fewer = np.minimum(self._closer, others)
        thinned = rng.hypergeometric(fewer, others - fewer, draws) if draws > 0 else fewer
        self._growth = others / max(draws, 1)
        self._checked = self._fitted(thinned)

    def at(self, size: int, counts: tuple[int, ...]) -> StoreRecall:
        """Recall at each k in a store of so many items."""
        ratio = max(size - 1, 1) / max(self.size - 1, 1)
        found: dict[str, dict[int, float]] = {"recall": {}, "low": {}, "high": {}}
        for k in (each for each in counts if each < size):
            if size > self.size:
                mean, low, high = _summary(self._posterior, ratio, k)
                miss = self.miss(k) * float(np.log(ratio)) / np.log(_PART)
            else:
                mean, miss = self.within(size, k), 0.0
                low, high = wilson(mean, self._weight * len(self._closer))
            found["recall"][k] = mean
            found["low"][k] = max(min(low, mean) - miss, 0.0)
            found["high"][k] = min(max(high, mean) + miss, 1.0)
        return StoreRecall(int(size), **found, measured=size == self.size)

    def within(self, size: int, k: int) -> float:
        """Recall at k in a random subset of the sample, of so many items, that holds the query's own."""
        return recall_within(self._closer, self.size, size, k)

    def measured(self, k: int) -> float:
        """Recall at k in the sample itself."""
        return float((self._closer < k).mean())

    def miss(self, k: int) -> float:
        """What the method misses when it predicts the sample from an eighth of it; at least 0.02."""
        predicted = _summary(self._checked, self._growth, k)[0]
        return max(abs(predicted - self.measured(k)), _LEAST_MISS)

    def _fitted(self, closer: Array) -> Array:
        """The posterior of the parameters on the grid."""
        histogram = np.bincount(np.minimum(closer, _CENSORED), minlength=_CENSORED + 1)
        score = self._weight * (_log_probabilities() @ histogram) + _prior()
        weights = np.exp(score - score.max())
        return np.asarray(weights / weights.sum())


def recall_within(closer: Array, sample: int, size: int, k: int) -> float:
    """The mean probability that a random subset of a sample keeps fewer than k of the items closer than a query's own.

    The number that is kept is hypergeometric: ``size - 1`` items are drawn of the ``sample - 1`` beside the own one.
    """
    if size >= sample:
        return float((closer < k).mean())
    others, drawn = sample - 1, size - 1
    there, times = np.unique(np.minimum(closer, others), return_counts=True)
    log_all = _log_choose(others, drawn)
    below = np.zeros(len(there))
    for number in range(min(k, drawn + 1)):
        possible = (there >= number) & (others - there >= drawn - number)
        logs = _log_choose(there[possible], number) + _log_choose(others - there[possible], drawn - number) - log_all
        below[possible] += np.exp(logs)
    return float(np.minimum(below, 1.0) @ times / times.sum())


def guessed(twins: Array, sample: int, size: int, k: int) -> float:
    """The mean probability that k items drawn from a store hold one with a query's own new vector.

    ``twins`` of the ``sample`` items have it, the query's own included; in another store the others are in proportion.
    """
    there, times = np.unique(twins, return_counts=True)
    there = 1 + (there - 1) * ((size - 1) / max(sample - 1, 1))
    left = size - np.arange(k)  # items before each draw
    missed = [np.log1p(-each / left).sum() if each <= left[-1] - 1 else -np.inf for each in there]
    return float(-np.expm1(missed) @ times / times.sum())


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95% interval of a mean of ``n`` values from 0 to 1; for values between them it is a little wide."""
    n = max(n, 1.0)
    middle = (share + _DEVIATIONS**2 / (2 * n)) / (1 + _DEVIATIONS**2 / n)
    half = np.sqrt(share * (1 - share) / n + (_DEVIATIONS / (2 * n)) ** 2) * _DEVIATIONS / (1 + _DEVIATIONS**2 / n)
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(np.add(n, 1.0)) - gammaln(np.add(k, 1.0)) - gammaln(np.subtract(n, k) + 1.0)


@cache
def _nodes() -> tuple[Array, Array]:
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    return points, weights / weights.sum()


@cache
def _grid() -> Array:
    """The log of the expected number of closer items at every node of every pair of parameters."""
    centres, spreads = (each.ravel() for each in np.meshgrid(_CENTRES, _SPREADS, indexing="ij"))
    return np.asarray(np.clip(centres[:, None] + spreads[:, None] * _nodes()[0], -60.0, 30.0))


@cache
def _prior() -> Array:
    """Spreads near e are likely, with a standard deviation of a factor e; any centre is."""
    return np.asarray(np.tile(-0.5 * (np.log(_SPREADS) - 1) ** 2, len(_CENTRES)))


@cache
def _log_probabilities() -> Array:
    """For every pair of parameters the log probability of 0, 1, ... 15, and of 16 or more closer items."""
    logs, weights = _grid(), _nodes()[1]
    means = np.exp(logs)
    table = np.empty((len(logs), _CENSORED + 1))
    for number in range(_CENSORED):
        table[:, number] = np.exp(number * logs - means - gammaln(number + 1)) @ weights
    table[:, -1] = 1 - table[:, :-1].sum(axis=1)
    return np.log(np.maximum(table, 1e-300))


def _summary(posterior: Array, ratio: float, k: int) -> tuple[float, float, float]:
    """Mean and 95% range of recall at k, in a store ``ratio`` times the sample."""
    likely = np.flatnonzero(posterior > 1e-7 * posterior.max())
    means = np.minimum(np.exp(_grid()[likely]) * ratio, _MOST_COUNT)
    recalls, weights = pdtr(k - 1, means) @ _nodes()[1], posterior[likely] / posterior[likely].sum()
    order = np.argsort(recalls)
    upto = np.cumsum(weights[order])
    places = np.minimum(np.searchsorted(upto, [0.025, 0.975]), len(order) - 1)
    low, high = recalls[order[places]].tolist()
    return float(recalls @ weights), low, high
