"""What experiments on pairs of trained models share: held-out rungs of the ladder, and errors over pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from ..alignment import Identity, Linear, Rigid, SignedPermutation
from ..alignment.base import Aligner
from ..representation import Array

RUNGS = ("identity", "permutation", "rigid", "linear")
"""From nothing fitted to every linear map; permutation and rigid have a scale."""


def aligner(rung: str) -> Aligner:
    """The map of a rung, not yet fitted."""
    kinds = {"identity": Identity, "permutation": SignedPermutation, "rigid": Rigid, "linear": Linear}
    found: Aligner = kinds[rung]()
    return found


def held_out(source: Array, target: Array, folds: Array, rung: str = "linear") -> Array:
    """The source's rows mapped onto the target, each by a map that was fitted to the other folds."""
    mapped = np.empty_like(target, dtype=np.float64)
    for fold in np.unique(folds):
        out = folds == fold
        fitted = aligner(rung).fit(source[~out], target[~out])
        mapped[out] = fitted.transform(source[out])[:, : target.shape[1]]
    return mapped


def explained(mapped: Array, target: Array) -> float:
    r"""The share of the target's variance that is explained, :math:`1-\sum\|y-\hat y\|^2/\sum\|y-\bar y\|^2`."""
    around = float(((target - target.mean(0)) ** 2).sum())
    return 1.0 - float(((target - mapped) ** 2).sum()) / around if around > 0 else float("nan")


def ladder(source: Array, target: Array, folds: Array, rungs: Sequence[str] = RUNGS) -> dict[str, float]:
    """Held-out R² of every rung, both sides centred first: what an offset does is no question here."""
    x, y = source - source.mean(0), target - target.mean(0)
    return {rung: explained(held_out(x, y, folds, rung), y) for rung in rungs}


def folds_of(rows: int, count: int, seed: int) -> Array:
    """Rows in so many folds of the same size, at random."""
    return np.random.default_rng([seed, 41]).permutation(np.arange(rows) % min(count, rows))


def all_pairs(count: int) -> list[tuple[int, int]]:
    """Every pair of models once, the earlier as the source."""
    return list(combinations(range(count), 2))


def over_pairs(values: Mapping[tuple[int, int], float]) -> tuple[float | None, float | None]:
    r"""Mean over pairs of models, and its standard error.

    Pairs share models, so that they are not independent: the error is the jackknife over models,
    :math:`\sqrt{\frac{m-1}{m}\sum_i(\theta_{(i)}-\bar\theta)^2}` with :math:`\theta_{(i)}` the mean over pairs without
    model i. Two models give no error.
    """
    known = {pair: value for pair, value in values.items() if np.isfinite(value)}
    if not known:
        return None, None
    models = sorted({model for pair in known for model in pair})
    without = [[value for pair, value in known.items() if model not in pair] for model in models]
    mean = float(np.mean(list(known.values())))
    if len(models) < 3 or not all(without):
        return mean, None
    left = np.array([np.mean(each) for each in without])
    return mean, float(np.sqrt((len(models) - 1) / len(models) * ((left - left.mean()) ** 2).sum()))
