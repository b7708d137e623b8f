"""Numbers from residuals: summaries, bootstrap intervals, ICA efficiency."""

from __future__ import annotations

import numpy as np

from ..representation import Array
from ..resampling import Interval
from .result import Error

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
LEVEL = 0.95
LEAST_GAP = 0.1  # share of the permutation's error that rigid must remove for an efficiency to mean anything
BEYOND = 1.005  # prints as more than 100 %
_MOST_UNITS = 10_000


def summarise(residuals: Array, unit: float) -> Error:
    """Mean, RMS, maximum and quantiles of residual norms, in units of ``unit``."""
    scaled = residuals / unit
    levels = np.quantile(scaled, QUANTILES)
    return Error(
        mean=float(scaled.mean()),
        rms=float(np.sqrt(np.mean(scaled**2))),
        sup=float(scaled.max()),
        quantiles={f"{q:g}": float(level) for q, level in zip(QUANTILES, levels, strict=True)},
    )


def ica_efficiency(permutation: float, rigid: float, ica: float) -> float | None:
    """The share of the error between signed permutation and rigid alignment that ICA removes without pairs.

    (perm - ica)/(perm - rigid): it may be negative or exceed one, and is undefined where rigid alignment does not
    improve on the permutation.

    Examples
    --------
    >>> from isorep.comparison import ica_efficiency
    >>> round(ica_efficiency(0.197, 0.109, 0.145), 2)  # MAE, Table 1 of Nelson et al. (2026)
    0.59
    """
    gap = permutation - rigid
    return (permutation - ica) / gap if gap > 0 else None


def told_efficiency(permutation: float, rigid: float, ica: float) -> float | None:
    """The efficiency, or None where rigid improves on the permutation so little that it is a ratio of noise."""
    return ica_efficiency(permutation, rigid, ica) if permutation - rigid >= LEAST_GAP * permutation else None


def efficiency_sentence(efficiency: float) -> str:
    """What an efficiency says; ICA is no rigid motion, and so not bound by what rigid reaches."""
    if efficiency > BEYOND:
        said = (
            "ICA leaves less than rigid, so that this is no share; it brings every component to unit variance, and so "
            "undoes stretches that no rigid motion can"
        )
    elif efficiency < 0:
        said = "ICA leaves more than signed permutation, so that it closes nothing of the gap to rigid"
    else:
        said = "the share of the gap between signed permutation and rigid that ICA closes without seeing pairs"
    return f"ICA efficiency {efficiency:.0%}: {said}"


def bootstrap(
    residuals: dict[str, Array],
    reference: str | None,
    groups: Array | None,
    n_boot: int,
    rng: np.random.Generator,
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Percentile intervals of the mean of each residual array, and of its excess over the reference's mean.

    Rows are resampled, or whole groups where given, the same ones for all arrays, so that differences are paired. More
    than 10,000 rows are first pooled at random into 10,000 units, which leaves the variance of a mean what it is.
    """
    names = list(residuals)
    n = len(residuals[names[0]])
    units = _resampling_units(n, groups, rng)
    n_units = int(units.max()) + 1
    sums = np.stack([np.bincount(units, residuals[name], n_units) for name in names] + [np.bincount(units)], axis=1)
    draws = np.empty((n_boot, len(names)))
    for draw in range(n_boot):
        counts = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)
        totals = counts @ sums
        draws[draw] = totals[:-1] / totals[-1]
    intervals = {name: _percentiles(draws[:, place]) for place, name in enumerate(names)}
    excess = {}
    if reference in names:
        baseline = draws[:, names.index(reference)]
        excess = {name: _percentiles(draws[:, place] - baseline) for place, name in enumerate(names)}
    return intervals, excess


def _resampling_units(n: int, groups: Array | None, rng: np.random.Generator) -> Array:
    if groups is not None:
        return groups
    return np.arange(n) if n <= _MOST_UNITS else rng.permutation(n) % _MOST_UNITS


def _percentiles(draws: Array) -> Interval:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high), LEVEL)
