"""Curves err = a sqrt(2L + L^2), and rank correlations with their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from ...representation import Array

FORMS = ("2L+L2", "L+L2")
_DRAWS = 2000


@dataclass(frozen=True)
class Curve:
    """A fitted curve err = ``slope`` x + ``intercept``; ``r2`` is the share of the variance it explains."""

    slope: float
    intercept: float
    r2: float | None


@dataclass(frozen=True)
class Correlation:
    """A rank correlation with its 95 % bootstrap interval, over so many pairs; None where nothing varies."""

    value: float | None
    low: float | None
    high: float | None
    pairs: int


def roots(excess: Array, form: str = "2L+L2") -> Array:
    r"""The theorem's :math:`\sqrt{2L+L^2}`, or :math:`\sqrt{L+L^2}`."""
    linear = 2.0 if form == "2L+L2" else 1.0
    return np.asarray(np.sqrt(linear * excess + np.square(excess)))


def fit_curve(x: Array, errors: Array, intercept: bool = False) -> Curve:
    r"""Least squares in closed form: :math:`a=\sum x_ie_i/\sum x_i^2`, or a line with intercept."""
    if intercept:
        centred = x - x.mean()
        spread = float((centred**2).sum())
        slope = float((centred * errors).sum()) / spread if spread > 0 else 0.0
        start = float(errors.mean()) - slope * float(x.mean())
    else:
        size = float((x**2).sum())
        slope, start = (float((x * errors).sum()) / size if size > 0 else 0.0), 0.0
    total = float(((errors - errors.mean()) ** 2).sum())
    left = float(((errors - slope * x - start) ** 2).sum())
    return Curve(slope, start, 1 - left / total if total > 0 else None)


def spearman(x: Array, y: Array, seed: int = 0) -> Correlation:
    """Spearman's rank correlation over pairs, resampled."""
    return _resampled([(x, y)], seed)


def spearman_within(groups: list[tuple[Array, Array]], seed: int = 0) -> Correlation:
    """The same within groups: ranks within each, their deviations from the group's mean put together."""
    return _resampled([(x, y) for x, y in groups if len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0], seed)


def _resampled(groups: list[tuple[Array, Array]], seed: int) -> Correlation:
    count = sum(len(x) for x, _ in groups)
    if not groups:
        return Correlation(None, None, None, 0)
    value = _rank_correlations([(x[None], y[None]) for x, y in groups])[0]
    if not np.isfinite(value) or count < 4:
        return Correlation(float(value) if np.isfinite(value) else None, None, None, count)
    rng = np.random.default_rng([seed, 17])
    chosen = [rng.integers(0, len(x), (_DRAWS, len(x))) for x, _ in groups]
    draws = _rank_correlations([(x[rows], y[rows]) for (x, y), rows in zip(groups, chosen, strict=True)])
    low, high = np.nanquantile(draws, (0.025, 0.975))
    return Correlation(float(value), float(low), float(high), count)


def _rank_correlations(groups: list[tuple[Array, Array]]) -> Array:
    """One for each line of the groups' columns; NaN where nothing varies."""
    first, second = (np.concatenate([_centred_ranks(group[side]) for group in groups], axis=1) for side in (0, 1))
    size = np.sqrt((first**2).sum(1) * (second**2).sum(1))
    return np.asarray(np.divide((first * second).sum(1), size, out=np.full(len(size), np.nan), where=size > 0))


def _centred_ranks(values: Array) -> Array:
    ranks = rankdata(values, axis=1) / values.shape[1]
    return np.asarray(ranks - ranks.mean(1, keepdims=True))
