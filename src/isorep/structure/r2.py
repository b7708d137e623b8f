r"""Held-out R² of factors from all latents, by linear and by kernel ridge regression.

Also the ladder of groups from latents to factors (structural near-identifiability).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..comparison import Comparison, compare
from ..comparison.fits import RUNGS
from ..errors import InputError
from ..representation import Array, Representation
from ..resampling import Interval, jackknife
from ..results import Record
from ..rows import Progress
from ..settings import check_counts
from .columns import Columns, Pair, moments_of, paired, standardised
from .splits import (
    FEWEST,
    FOLDS,
    HALVES,
    KERNEL_ROWS,
    cross_validated,
    few_for_halves,
    folds_of,
    half,
    halves_interval,
    kept_folds,
    looked_at,
    recoded,
)


@dataclass(frozen=True, eq=False)
class R2(Record):
    """The result of :func:`linear_r2` and :func:`kernel_r2`.

    ``value`` is the mean over factors on held-out rows, negative ones counted as 0. ``factors`` has each as it is.
    ``interval`` is for the value, with all maps refitted to random halves of the rows (or groups). With fewer than 40
    groups they are refitted without each group instead.
    """

    value: float
    factors: dict[str, float]
    interval: Interval | None


def linear_r2(
    factors: Any,
    latents: Any,
    *,
    folds: int = FOLDS,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> R2:
    r"""Linear R²: the share of each factor's variance that a linear map of all latents explains on held-out rows.

    .. math:: R^2_i=1-\frac{\sum(s_i-\hat s_i)^2}{\sum(s_i-\bar s_i)^2}

    Numbers are used as numbers, even if discrete; text as one indicator per label. Constant factors
    are left out.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    folds : int
        Number of folds; each row is predicted by a map fitted without its fold.
    groups : (n,) array, optional
        Group per row; rows of a group are held out and resampled together.
    discrete_factors, discrete_latents
        As for :func:`infomec`; they do not change the score.
    random_state : int
        Seed of the folds.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).normal(size=(200, 2))
    >>> round(isorep.structure.linear_r2(s, s @ [[1.0, 2.0], [0.0, 1.0]]).value, 6)
    1.0
    """
    given = (factors, latents, folds, groups, discrete_factors, discrete_latents, random_state)
    pair, labels = cross_validated(*given)
    return _with_interval(pair, linear_fit, folds, labels, random_state)


def kernel_r2(
    factors: Any,
    latents: Any,
    *,
    folds: int = FOLDS,
    rows: int | None = KERNEL_ROWS,
    alpha: float = 1.0,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> R2:
    """Kernel R²: as :func:`linear_r2`, with kernel ridge regression, which also fits nonlinear smooth maps.

    A Gaussian kernel of width 1/d on standardised columns, penalty ``alpha``; the cost grows with the cube of the rows,
    so at most ``rows`` random ones are used.

    Parameters
    ----------
    factors, latents, folds, groups, discrete_factors, discrete_latents, random_state
        As for :func:`linear_r2`.
    rows : int or None
        Largest number of rows to use; None for all.
    alpha : float
        Ridge penalty; default 1.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).normal(size=(300, 2))
    >>> isorep.structure.kernel_r2(s, np.tanh(s)).value > 0.9
    True
    """
    given = (factors, latents, folds, groups, discrete_factors, discrete_latents, random_state)
    pair, labels = cross_validated(*given)
    if rows is not None:
        check_counts(rows=(rows, 4))
        pair, labels = looked_at(pair, labels, rows, np.random.default_rng(random_state))
    return _with_interval(pair, lambda x, y: kernel_fit(x, y, alpha), folds, labels, random_state)


Fit = Callable[[Array, Array], Callable[[Array], Array]]


def measure_r2(pair: Pair, fit: Fit, fold_of: Array) -> R2:
    """R² of checked columns, by any fit; without an interval."""
    x, (y, owner) = numbers(pair.latents)[0], numbers(pair.factors)
    lost, spread = np.empty_like(y), np.empty_like(y)
    for fold in kept_folds(fold_of):
        held = fold_of == fold
        mean = y[~held].mean(axis=0)
        lost[held] = (y[held] - fit(x[~held], y[~held])(x[held])) ** 2
        spread[held] = (y[held] - mean) ** 2
    varies = [i for i, factor in enumerate(pair.factors) if not factor.constant]
    if not varies:
        return R2(0.0, {}, None)
    lost, spread = (np.column_stack([each[:, owner == i].sum(axis=1) for i in varies]) for each in (lost, spread))
    below = spread.sum(axis=0)
    each = np.where(below > 0, 1 - lost.sum(axis=0) / np.where(below > 0, below, 1.0), 0.0)
    by_factor = {pair.factors.names[i]: float(value) for i, value in zip(varies, each, strict=True)}
    return R2(float(np.maximum(each, 0.0).mean()), by_factor, None)


def numbers(columns: Columns) -> tuple[Array, Array]:
    """Columns as numbers, text as an indicator for each label; and which column each number belongs to."""
    parts, owner = [], []
    for index, column in enumerate(columns):
        part = column.values[:, None]
        if column.text:
            part = (part == np.arange(len(column.labels or ()))).astype(np.float64)
        parts.append(part)
        owner += [index] * part.shape[1]
    return np.hstack(parts), np.array(owner)


def linear_fit(x: Array, y: Array) -> Callable[[Array], Array]:
    """Least squares with an intercept; dependent columns share their weight."""
    target = y.mean(axis=0)
    weights = np.linalg.lstsq(standardised(x), y - target, rcond=1e-10)[0]
    return lambda rows: np.asarray(standardised(rows, x) @ weights + target)


def kernel_fit(x: Array, y: Array, alpha: float = 1.0) -> Callable[[Array], Array]:
    """Kernel ridge regression with a Gaussian kernel exp(-|a - b|²/d) on columns standardised by these rows."""
    centre, scale = moments_of(y)
    inner = plain_kernel_fit(standardised(x), (y - centre) / scale, alpha)
    return lambda rows: np.asarray(inner(standardised(rows, x)) * scale + centre)


def plain_kernel_fit(x: Array, y: Array, alpha: float = 1.0) -> Callable[[Array], Array]:
    """The same on columns as they are, without an intercept."""
    gram = _gaussian(x, x)
    gram[np.diag_indices_from(gram)] += alpha
    weights = cho_solve(cho_factor(gram, lower=True), y)
    return lambda rows: np.asarray(_gaussian(rows, x) @ weights)


def _gaussian(a: Array, b: Array) -> Array:
    distances = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(-np.maximum(distances, 0.0) / a.shape[1]))


def _with_interval(pair: Pair, fit: Fit, folds: int, groups: Array | None, random_state: int) -> R2:
    def folded(n: int, labels: Array | None) -> Array:
        return folds_of(n, folds, labels, np.random.default_rng(random_state))

    fold_of = folded(pair.n, groups)
    whole = measure_r2(pair, fit, fold_of)
    if pair.n < FEWEST:
        return whole
    if groups is not None and few_for_halves(groups):

        def without(kept: Array) -> float:
            return measure_r2(pair.take(np.flatnonzero(kept)), fit, fold_of[kept]).value

        with suppress(InputError):  # two groups: without one of them none is held out
            return replace(whole, interval=jackknife(without, groups, whole.value, least=0.0, most=1.0))
        return whole
    rng = np.random.default_rng(np.random.SeedSequence(random_state).spawn(1)[0])
    draws = []
    for _ in range(HALVES):
        rows = half(pair.n, groups, None, rng)
        with suppress(InputError):  # groups of very unequal size: a half may hold too few rows to hold any out
            labels = None if groups is None else recoded(groups[rows])
            draws.append(measure_r2(pair.take(rows), fit, folded(len(rows), labels)).value)
    return replace(whole, interval=halves_interval(whole.value, draws, pair.n, groups))


def ladder(
    factors: Any,
    latents: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    standardise: bool = True,
    folds: int = 5,
    groups: Any = None,
    n_null: int = 20,
    n_boot: int = 1000,
    tolerance: float = 0.01,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    r"""The ladder from latents to factors: up to which group of maps do they agree?

    For each group :math:`H` the best :math:`h\in H` is fitted from latents to factors, and
    :math:`\sum\|h(z)-u\|/\sum\|u-\bar u\|` is reported on held-out rows, as by :func:`isorep.compare`. Here :math:`h`
    acts on the latents, and the unit is the mean distance of the factors to their mean.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows; text is replaced by one indicator per label.
    standardise : bool
        Scale every column of both sides to unit variance first (default), because factors have different units and the
        signed permutation has one scale for all columns.
    rungs, folds, groups, n_null, n_boot, tolerance, random_state, progress
        As for :func:`isorep.compare`.

    Returns
    -------
    Comparison
        ``rungs`` from latents onto factors, ``reverse`` from factors onto latents.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).laplace(size=(400, 3))
    >>> isorep.structure.ladder(s, -3 * s[:, [2, 0, 1]]).verdict.rung
    'signed_permutation'
    """
    pair = paired(factors, latents)
    return measure_ladder(
        pair,
        standardise=standardise,
        rungs=rungs,
        folds=folds,
        groups=pair.group_codes(groups),
        n_null=n_null,
        n_boot=n_boot,
        tolerance=tolerance,
        random_state=random_state,
        progress=progress,
    )


def measure_ladder(pair: Pair, *, standardise: bool = True, **options: Any) -> Comparison:
    """The ladder of columns that were checked."""
    sides = []
    for columns in (pair.latents, pair.factors):
        values = numbers(columns)[0]
        sides.append(Representation(standardised(values) if standardise else values, name=columns.name))
    return compare(*sides, **options)
