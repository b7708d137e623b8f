"""Conditions against each other on the same folds: differences, intervals, tests, and the correction for many tests."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy import stats

from ..errors import InputError
from ..representation import Array
from ..resampling import Interval, t_interval

TESTS = ("sign_flip", "wilcoxon")
_EXACT_PAIRS = 14  # up to which all sign patterns are counted: 16,384
_DRAWS = 20_000


def paired_p(differences: Array, test: str, rng: np.random.Generator) -> float:
    """The two-sided p-value of no difference; not a number without pairs."""
    found = differences[np.isfinite(differences)]
    if len(found) == 0:
        return float("nan")
    if not found.any():
        return 1.0
    if test == "wilcoxon":
        kept = found[found != 0]
        exact = len(kept) <= 50 and len(np.unique(np.abs(kept))) == len(kept)
        tested = stats.wilcoxon(kept, method="exact") if exact else stats.wilcoxon(kept, method="approx")
        return float(tested.pvalue)
    return _sign_flip(found, rng)


def least_p(pairs: int, test: str = "sign_flip") -> float:
    """The smallest p-value that so many pairs can give: all differences of one sign, or no drawn signs as far out."""
    if not pairs:
        return float("nan")
    drawn = test == "sign_flip" and pairs > _EXACT_PAIRS
    return 1 / (1 + _DRAWS) if drawn else float(2.0 ** (1 - pairs))


def interval_of(differences: Array, test_over_train: float) -> Interval | None:
    r"""An interval of the mean difference whose folds share training rows: t with :math:`J-1` degrees of freedom and

    the variance :math:`(1/J+n_\mathrm{test}/n_\mathrm{train})s^2` (Nadeau & Bengio 2003). None for one pair.
    """
    found = differences[np.isfinite(differences)]
    if len(found) < 2:
        return None
    spread = float(found.std(ddof=1) * np.sqrt(1 / len(found) + test_over_train))
    return t_interval(float(found.mean()), spread, len(found))


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction; what is not a number stays so and does not count.

    Examples
    --------
    >>> from isorep.deconfounding.pairing import holm
    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    given = np.array(p_values, dtype=float)
    corrected = np.full(len(given), np.nan)
    order = [place for place in np.argsort(given, kind="stable") if np.isfinite(given[place])]
    largest = 0.0
    for step, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - step) * given[place]))
        corrected[place] = largest
    return [float(p) for p in corrected]


def check_test(test: str) -> None:
    """Refuse an unknown test."""
    if test not in TESTS:
        raise InputError(f"test is {test!r}; known are {', '.join(TESTS)}")


def _sign_flip(differences: Array, rng: np.random.Generator) -> float:
    """How often random signs give a mean as far from zero: all signs if they are few, else with this one added."""
    reached = abs(differences.sum()) * (1 - 1e-12)
    if len(differences) <= _EXACT_PAIRS:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(differences))))
        return float(np.mean(np.abs(signs @ differences) >= reached))
    signs = rng.choice((-1.0, 1.0), size=(_DRAWS, len(differences)))
    return float((1 + np.sum(np.abs(signs @ differences) >= reached)) / (1 + _DRAWS))
