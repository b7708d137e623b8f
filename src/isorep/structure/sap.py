r"""SAP (Kumar et al. 2018): the gap between the two single latents that predict a factor best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..representation import Array
from ..results import Record
from .columns import Column, Pair, mean_of
from .splits import ROWS, split_pair

_COST = 0.01
_STEPS = 60


@dataclass(frozen=True, eq=False)
class SAP(Record):
    """The result of :func:`sap`: the mean gap, that of every factor that varies, and the scores of single latents.

    ``scores`` is latents by factors: held-out accuracy, or squared correlation for continuous factors.
    """

    value: float
    gaps: dict[str, float]
    scores: Array


def sap(
    factors: Any,
    latents: Any,
    *,
    test: Any = None,
    rows: int | None = ROWS,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> SAP:
    r"""Separated attribute predictability (SAP): the gap between the two best single-latent predictors of each factor.

    Each latent alone predicts each factor: a discrete one by a linear classifier (squared hinge loss, C = 0.01,
    balanced classes, latents unscaled) on held-out rows, a continuous one by its squared correlation. SAP is the mean
    over factors of the best minus the second best. Constant factors are left out; with one latent the second is 0.

    Parameters
    ----------
    factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state
        As for :func:`dci`.

    References
    ----------
    .. [1] Kumar, A., Sattigeri, P., Balakrishnan, A. (2018). Variational inference of disentangled latent concepts from
           unlabeled observations. ICLR.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).normal(size=(300, 2))
    >>> isorep.structure.sap(s, s).value > 0.9
    True
    """
    given = (factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state)
    return measure_sap(*split_pair(*given))


def measure_sap(train: Pair, test: Pair) -> SAP:
    """SAP of columns that were checked and split."""
    x, other = train.latents.matrix, test.latents.matrix
    scores, gaps = np.zeros((len(train.latents), len(train.factors))), {}
    for index, (factor, judged) in enumerate(zip(train.factors, test.factors, strict=True)):
        if factor.constant:
            continue
        scores[:, index] = _accuracies(x, factor, other, judged) if factor.discrete else _correlations(x, factor.values)
        best = np.sort(np.append(scores[:, index], 0.0))[::-1]
        gaps[factor.name] = float(best[0] - best[1])
    return SAP(mean_of(gaps), gaps, scores)


def _correlations(x: Array, values: Array) -> Array:
    centred, target = x - x.mean(axis=0), values - values.mean()
    norms = np.sqrt((centred**2).sum(axis=0))
    directions = centred / np.where(norms > 0, norms, 1.0)  # lengths first: the product of two large ones is infinite
    return np.asarray((target / (np.sqrt(target @ target) or 1.0) @ directions) ** 2)


def _accuracies(x: Array, factor: Column, other: Array, judged: Column) -> Array:
    """Held-out accuracy of every latent alone, one classifier against the rest for each label."""
    labels = np.unique(factor.values)
    counts = np.bincount(factor.codes)
    weights = len(x) / (len(labels) * counts)
    if len(labels) == 2:
        signs = np.where(factor.codes == 1, 1.0, -1.0)[:, None]
        costs = _COST * np.where(factor.codes == 1, weights[1], weights[0])[:, None]
    else:
        mine = factor.codes[:, None] == np.arange(len(labels))
        signs = np.where(mine, 1.0, -1.0)
        costs = _COST * np.where(mine, weights, 1.0)  # liblinear weighs a label against all others unweighted
    right = np.empty(x.shape[1])
    for index in range(x.shape[1]):
        slope, intercept = _separate(x[:, index], signs, costs)
        decisions = other[:, [index]] * slope + intercept
        chosen = (decisions[:, 0] > 0).astype(int) if len(labels) == 2 else decisions.argmax(axis=1)
        right[index] = np.mean(labels[chosen] == judged.values)
    return right


def _separate(x: Array, signs: Array, costs: Array) -> tuple[Array, Array]:
    """Lines w x + b of least squared hinge loss, one for each column of signs: Newton steps on two numbers.

    Both numbers are penalised, as liblinear does.
    """
    theta = np.zeros((2, signs.shape[1]))
    x = x[:, None]

    def margins(at: Array) -> Array:
        return np.asarray(np.maximum(1 - signs * (x * at[0] + at[1]), 0.0))

    def loss(at: Array, short: Array) -> Array:
        return np.asarray(0.5 * (at**2).sum(axis=0) + (costs * short**2).sum(axis=0))

    short = margins(theta)
    value = loss(theta, short)
    for _ in range(_STEPS):
        pull = costs * signs * short
        gradient = np.stack([theta[0] - 2 * (pull * x).sum(axis=0), theta[1] - 2 * pull.sum(axis=0)])
        active = 2 * costs * (short > 0)
        along = active * x
        h00, h01, h11 = 1 + (along * x).sum(axis=0), along.sum(axis=0), 1 + active.sum(axis=0)
        determinant = h00 * h11 - h01**2
        step = np.stack([h11 * gradient[0] - h01 * gradient[1], h00 * gradient[1] - h01 * gradient[0]]) / determinant
        size = np.ones(signs.shape[1])
        for _ in range(30):
            there = theta - size * step
            new_short = margins(there)
            new_value = loss(there, new_short)
            worse = new_value > value + 1e-12 * np.abs(value)
            if not worse.any():
                break
            size = np.where(worse, size / 2, size)
        gained = value - new_value
        theta, short, value = there, new_short, new_value
        if np.all(gained <= 1e-10 * np.abs(value)):
            break
    return theta[0], theta[1]
