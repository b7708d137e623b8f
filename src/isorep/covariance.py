r"""Rank, condition and least squares from second moments, numerically safe.

**Which columns count** is decided first, from their spreads (standard deviations):

* A column whose spread does not exceed the rounding of its own values is *constant*. Rounding is that of the stored
  dtype times the column's largest magnitude: its absolute mean and some spreads, which are no part of the comparison
  as a spread always exceeds its own rounding.
* A column that varies, but by no more than 1e-4 of the median column, is *left out*: released embedding models have
  columns at 1e-33 to 1e-5 of the median where the next one is at 0.4. Scaled to unit variance such a column is
  noise that counts as a full dimension. The median is taken over the columns that count, so that removing the others
  from a file changes nothing; of an even number it is the upper one, so that half of the columns may be dead. It
  does not depend on a few columns of very large spread.

The second rule is for questions about dimensions: rank, condition, whitening, canonical correlations. It is not for
least squares and not for columns in different units, where spreads cannot be compared: a linear map may scale, so a
column of small spread may carry what the target needs, and leaving it out would silently lose it. These count
columns of any scale (``any_scale=True``).

**Columns that count are scaled to unit variance**, so that units do not matter any more. A covariance squares the
condition number: in float64 it shows directions down to about 1e-7 of the largest. Where float64 data may hold
smaller ones, a second pass over rows in a preconditioned basis (as in CholeskyQR2, Yamamoto et al. 2015) shows them
down to 1e-12; it does the work of a QR of the rows in the same additive form. Directions below the rounding of the
stored dtype are noise, and count as zero.

Factoring a covariance from rows uses the available moments, and a second pass only where they do not resolve it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from .errors import InputError
from .moments import Moments, fold_moments, merged
from .representation import Array, Matrix, rounding_of
from .rows import ProjectedRows
from .threads import WIDE_MATRIX

_RESOLVED = 1e-9  # eigenvalue of a unit-diagonal covariance, relative to the largest, that float64 sums still resolve
_FLOOR = 1e-13
_NOISE_FACTOR = 4.0
_COARSE = 1e-10  # rounding above which data have no directions that float64 sums could miss
_EPS = float(np.finfo(np.float64).eps)
LEAST_SPREAD = 1e-150  # below it squares leave float64
_EXACT = 1e-8  # error of an inverse, as the root times it shows, up to which it can be used
_FEW_DIGITS = 1e-6  # squared singular values, relative to the largest, down to which squares keep ten digits
_BLIND = 1e-4  # standard deviation that directions taken for rounding may give to a whitened one
_MOST_NAMED = 10

HARDLY = 1e-4  # of the median column's spread: a column that varies by no more does not count as a dimension


def or_tiny(mean: Array) -> str:
    """What else than identical rows may have no variance: values whose squares vanish, where the mean allows it."""
    tiny = float(np.abs(mean).max(initial=0.0)) < LEAST_SPREAD
    return " (or they differ by less than 1e-150, and must be rescaled: squares of such values vanish)" if tiny else ""


@dataclass(frozen=True, eq=False)
class Factor:
    r"""A covariance :math:`\Sigma=F^\top F` in factored form: ``root`` is the (r, d) matrix :math:`F`.

    ``local`` whitens rows in the coordinates whose moments were factored: the centred columns themselves, or their
    image under the ``basis`` of a :class:`Preconditioner`. ``spread`` holds the standard deviations of all columns;
    ``constant`` marks those that do not vary, ``left_out`` others that vary too little to count as a dimension.
    ``rest`` is a root of the part treated as rounding. ``resolved`` is true if the moments show all directions of all
    columns, of any scale, and ``error`` is about the share of a variance along some direction that may be an error of
    sums in float64.
    """

    root: Array
    local: Array
    basis: Array | None
    constant: Array
    left_out: Array
    spread: Array
    rest: Array
    resolved: bool
    error: float

    @property
    def whitener(self) -> Array:
        """The (d, r) matrix that gives centred rows unit covariance."""
        return self.local if self.basis is None else np.asarray(self.basis @ self.local)

    @property
    def counted(self) -> int:
        """The number of columns that count."""
        return int((~(self.constant | self.left_out)).sum())

    @property
    def rank(self) -> int:
        """The number of directions above the rounding of the data."""
        return int(self.root.shape[0])

    @cached_property
    def singular_values(self) -> Array:
        """Standard deviations along the principal axes, largest first."""
        if self.rank > WIDE_MATRIX:  # a tenth of the time, if squares lose at most six digits
            squares = np.linalg.eigvalsh(self.root @ self.root.T)
            if squares[0] > _FEW_DIGITS * squares[-1]:
                return np.asarray(np.sqrt(squares[::-1]))
        values: Array = linalg.svdvals(self.root) if self.rank else np.zeros(0)
        return values

    def along(self, axes: Array) -> Factor:
        """The factor of rows in the coordinates of orthonormal axes that span them; columns are those of the rows."""
        root, rest = self.root @ axes.T, self.rest @ axes.T
        return replace(self, root=root, local=axes @ self.whitener, basis=None, rest=rest)

    @property
    def condition(self) -> float:
        """Largest over smallest standard deviation along principal axes, over the numerical rank."""
        values = self.singular_values
        return float(values[0] / values[-1]) if len(values) and values[-1] > 0 else float("inf")


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """The change of basis of the second pass: centred rows times ``basis`` are nearly white.

    It spans the columns of any scale, as least squares needs them all; ``left_out`` are those that are no dimensions.
    """

    basis: Array
    inverse: Array
    constant: Array
    left_out: Array
    spread: Array
    noise: Array


def rank_tolerance(rounding: float) -> float:
    """Singular values below this share of the largest are rounding, for unit-variance columns stored that coarsely."""
    if rounding <= _COARSE:
        return 1e-12
    return (16 if rounding < 1e-4 else 2) * rounding


def hardly_vary(spread: Array, constant: Array) -> Array:
    """Which columns vary by no more than 1e-4 of the median column, among those that are not constant."""
    counts = ~constant
    while True:
        ordered = np.sort(spread[counts])
        fewer = counts & (spread > HARDLY * ordered[len(ordered) // 2]) if len(ordered) else counts
        if fewer.sum() == counts.sum():
            return np.asarray(~counts & ~constant)
        counts = fewer


def left_out_sentence(factor: Factor, name: str, titles: Sequence[str] | None = None) -> str | None:
    """The columns that do not count as dimensions although they vary, and their spreads; None without any.

    ``titles`` are the names of all columns, where they have names.
    """
    return sentence_on_columns(np.flatnonzero(factor.left_out), factor.spread[factor.left_out], name, titles)


def sentence_on_columns(places: Array, spreads: Array, name: str, titles: Sequence[str] | None = None) -> str | None:
    """The same from the columns' numbers and spreads."""
    if len(places) == 0:
        return None
    named = [
        f"{place if titles is None else titles[place]} ({spread:.1g})"
        for place, spread in zip(places, spreads, strict=True)
    ]
    listed = ", ".join(named[:_MOST_NAMED])
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    one = len(named) == 1
    return (
        f"{len(named)} column{'' if one else 's'} of {name} hardly {'varies' if one else 'vary'} (spread below 1e-4 of "
        f"the median column's) and {'does' if one else 'do'} not count as {'a dimension' if one else 'dimensions'}: "
        f"{listed}{more}"
    )


def factor_covariance(sums: Array, n: int, mean: Array, rounding: float, *, any_scale: bool = False) -> Factor:
    """Factor the covariance given by centred co-moments ``sums`` of ``n`` rows.

    ``rounding`` is the relative rounding of the stored values; with a large mean it makes noise of that size. Columns
    that hardly vary compared with the others are left out unless columns of ``any_scale`` count.
    """
    if len(sums) > WIDE_MATRIX:
        triangle = triangular_root(sums, n, mean, rounding)
        if triangle is not None:
            return _triangular(*triangle, sums, n, mean)
    spread, constant, noise = _columns(sums, n, mean, rounding)
    left_out = np.zeros_like(constant) if any_scale else hardly_vary(spread, constant)
    scale = np.where(left_out, 0.0, spread)
    inverse = _inverse(scale)
    values, vectors = spectrum(_correlation(sums, n, inverse), n)
    top = float(values.max(initial=0.0))  # identical rows of many columns have no axis at all
    keep = values > max(rank_tolerance(rounding) ** 2, _FLOOR * 10) * top
    keep &= values > _noise_along(inverse[:, None] * vectors, noise)
    all_values = spectrum(_correlation(sums, n, _inverse(spread)), n)[0] if left_out.any() else values
    expected = min(len(scale) - int(constant.sum()), n - 1)
    resolved = rounding > _COARSE or int((all_values > _RESOLVED * all_values.max(initial=0.0)).sum()) >= expected
    root_values = np.sqrt(values[keep])
    local = inverse[:, None] * vectors[:, keep] / root_values
    return Factor(
        root=(vectors[:, keep] * root_values).T * scale,
        local=local,
        basis=None,
        constant=constant,
        left_out=left_out,
        spread=spread,
        rest=(vectors[:, ~keep] * np.sqrt(np.maximum(values[~keep], 0.0))).T * scale,
        resolved=bool(resolved),
        error=_error_of_sums(values[keep], local, mean),
    )


def factor_rows(rows: Array, mean: Array, rounding: float) -> Factor:
    """The factor of the covariance of a few rows about their mean, from the rows themselves: squares lose no digits."""
    n = len(rows)
    spread, constant, noise = _columns_of(np.einsum("ij,ij->j", rows, rows), n, mean, rounding)
    left_out = hardly_vary(spread, constant)
    scale = np.where(left_out, 0.0, spread)
    inverse = _inverse(scale)
    _, values, axes = np.linalg.svd(rows * (inverse / np.sqrt(max(n, 1))), full_matrices=False)
    keep = values > rank_tolerance(rounding) * values.max(initial=0.0)
    keep &= values**2 > _noise_along(inverse[:, None] * axes.T, noise)
    return Factor(
        root=values[keep, None] * axes[keep] * scale,
        local=inverse[:, None] * axes[keep].T / values[keep],
        basis=None,
        constant=constant,
        left_out=left_out,
        spread=spread,
        rest=values[~keep, None] * axes[~keep] * scale,
        resolved=True,
        error=_error_of_sums(values[keep]),
    )


def resolved_combinations(rows: Array, noise: Array, rounding: float) -> Array:
    """Combinations of a few rows about their mean, as columns, in which no direction is rounding.

    They are the rows themselves but one where these are independent, or else combinations by singular vectors. Columns
    of any scale count, each at unit variance; ``noise`` is the standard deviation of rounding in each.
    """
    n = len(rows)
    spread = np.sqrt(np.einsum("ij,ij->j", rows, rows) / n)
    inverse = _inverse(np.where(spread > np.maximum(noise, LEAST_SPREAD), spread, 0.0))
    scaled = rows * inverse
    if n <= scaled.shape[1]:
        products = scaled @ scaled.T
        products += np.trace(products) / n**2  # along the mean, where centred rows have none
        if _cholesky(products, float((noise * inverse).max(initial=0.0)), rounding) is not None:
            return np.eye(n)[:, :-1]
    narrow = scaled if scaled.shape[1] <= n else np.asarray(np.linalg.qr(scaled.T, mode="r")).T
    left, values, _ = np.linalg.svd(narrow, full_matrices=False)
    keep = values > rank_tolerance(rounding) * values.max(initial=0.0)
    keep[n - 1 :] = False  # rows about their mean
    left, values = left[:, keep], values[keep]
    if n * _NOISE_FACTOR * float((noise * inverse).max(initial=0.0)) ** 2 > float(values.min(initial=np.inf)) ** 2:
        axes = (left / values).T @ scaled
        left = left[:, values**2 > n * _noise_along(inverse[:, None] * axes.T, noise)]
    return np.asarray(left)


def spectrum(sums: Array, n: int) -> tuple[Array, Array]:
    """Eigenvalues in ascending order, and eigenvectors as columns, of the co-moments of ``n`` rows.

    Of few rows only those are computed that are not zero: they are the axes of a narrow root.
    """
    root = narrow_root(sums, n)
    if root is None:
        return linalg.eigh(sums)
    axes = linalg.svd(root, full_matrices=False, overwrite_a=True)[0]
    values, turn = linalg.eigh(axes.T @ sums @ axes)  # the squares of the factor's deviations have fewer digits
    return values, axes @ turn


def has_few_rows(n: int, columns: int) -> bool:
    """Whether the rows are so few that their axes alone cost less than a decomposition of all columns."""
    return 2 * n <= columns


def narrow_root(sums: Array, n: int) -> Array | None:
    r"""A matrix :math:`L` with as many columns as directions vary and :math:`LL^\top` the co-moments of ``n`` rows.

    Cholesky's factorisation with pivots stops after these. None where rows are not few compared with the columns.
    """
    if not has_few_rows(n, len(sums)):
        return None
    triangle, pivots, rank, _ = lapack.dpstrf(sums, lower=1)
    root = np.empty((len(sums), rank))
    root[pivots - 1] = np.tril(triangle[:, :rank])
    return root


def triangular_root(sums: Array, n: int, mean: Array, rounding: float) -> tuple[Array, float] | None:
    r"""The upper triangular :math:`F` of :math:`\Sigma=F^\top F` (Cholesky), where all columns and directions count.

    Also the reciprocal condition number of the correlations, which tells whether they do; None where they may not. Of
    thousands of columns it costs a twentieth of a decomposition.
    """
    spread, constant, noise = _columns(sums, n, mean, rounding)
    if constant.any() or n <= len(spread) or hardly_vary(spread, constant).any():
        return None
    factored = _cholesky(_correlation(sums, n, 1.0 / spread), float(np.max(noise / spread)), rounding)
    return None if factored is None else (np.triu(factored[0]) * spread, factored[1])


def _triangular(root: Array, reciprocal: float, sums: Array, n: int, mean: Array) -> Factor:
    """The factor with a triangular root."""
    nothing = np.zeros(len(root), dtype=bool)
    local = np.asarray(lapack.dtrtri(root, lower=0)[0])
    error = _error_of_sums(np.array([reciprocal, 1.0]), local, mean)
    spread = np.sqrt(np.diagonal(sums) / n)
    return Factor(root, local, None, nothing, nothing, spread, np.zeros((0, len(root))), True, error)


def preconditioner(sums: Array, n: int, mean: Array, rounding: float) -> Preconditioner:
    """The basis for a second pass where :func:`factor_covariance` is not resolved."""
    spread, constant, noise = _columns(sums, n, mean, rounding)
    inverse = _inverse(spread)
    values, vectors = linalg.eigh(_correlation(sums, n, inverse))
    root_values = np.sqrt(np.maximum(values, _FLOOR * values[-1]))
    return Preconditioner(
        basis=inverse[:, None] * vectors / root_values,
        inverse=(vectors * root_values).T * spread,
        constant=constant,
        left_out=hardly_vary(spread, constant),
        spread=spread,
        noise=noise,
    )


def factor_preconditioned(sums: Array, n: int, by: Preconditioner, *, any_scale: bool = False) -> Factor:
    """Factor the covariance of the original rows from the co-moments of the preconditioned ones."""
    values, vectors = linalg.eigh(sums / max(n, 1))
    keep = values > rank_tolerance(0.0) ** 2 / _FLOOR * max(values[-1], 0.0)
    keep &= values > _noise_along(by.basis @ vectors, by.noise)
    root_values = np.sqrt(values[keep])
    factor = Factor(
        root=(vectors[:, keep] * root_values).T @ by.inverse,
        local=vectors[:, keep] / root_values,
        basis=by.basis,
        constant=by.constant,
        left_out=np.zeros_like(by.constant),
        spread=by.spread,
        rest=(vectors[:, ~keep] * np.sqrt(np.maximum(values[~keep], 0.0))).T @ by.inverse,
        resolved=True,
        error=_error_of_sums(values[keep]),
    )
    return factor if any_scale or not by.left_out.any() else _narrowed(factor, by)


def _narrowed(factor: Factor, by: Preconditioner) -> Factor:
    """The factor of the columns that count as dimensions alone.

    A root of the whole covariance contains a root of every part of it; its singular values are not squared. Directions
    that are rounding relative to the other columns need not be rounding among these.
    """
    scale = np.where(by.left_out, 0.0, by.spread)
    inverse = _inverse(scale)
    _, values, axes = linalg.svd(np.concatenate([factor.root, factor.rest]) * inverse, full_matrices=False)
    keep = values > rank_tolerance(0.0) * max(values.max(initial=0.0), 0.0)
    keep &= values**2 > _noise_along(inverse[:, None] * axes.T, by.noise)
    rest = values[~keep, None] * axes[~keep] * scale
    axes, values = axes[keep], values[keep]
    return replace(
        factor,
        root=values[:, None] * axes * scale,
        local=inverse[:, None] * axes.T / values,
        basis=None,
        left_out=by.left_out,
        rest=rest,
        error=_error_of_sums(values**2),
    )


def principal(factor: Factor, units: Array) -> tuple[Array, Array, Array, Array]:
    """Principal axes of the columns divided by their ``units``: (r, d) whitening and (d, r) mixing matrices.

    Also the standard deviations along the axes and the axes themselves, as rows.
    """
    turn, deviations, axes = _singular(factor.root / units)
    axes[:, factor.constant | factor.left_out] = 0.0
    least = _inverse(deviations)[:, None] * axes / units
    mixing = factor.root.T @ turn
    return _sound_inverse(factor, least, turn, mixing), mixing, deviations, axes


def _singular(root: Array) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition; of thousands of columns by squares, if these lose at most six digits.

    That costs a third, and there a decomposition takes a minute.
    """
    if len(root) > WIDE_MATRIX:
        squares, turn = linalg.eigh(root @ root.T)
        if squares[0] > _FEW_DIGITS * squares[-1]:
            turn, deviations = turn[:, ::-1], np.sqrt(squares[::-1])
            return turn, deviations, turn.T @ root / deviations[:, None]
    turn, deviations, axes = linalg.svd(root, full_matrices=False)
    return turn, deviations, axes


def whitened_again(factor: Factor, sums: Array, n: int) -> Factor:
    """The factor corrected by the co-moments of the rows that it whitened, which are the identity but for its error."""
    values, vectors = linalg.eigh(sums / max(n, 1))
    keep = values > 0
    root_values = np.sqrt(values[keep])
    return replace(
        factor,
        root=(vectors[:, keep] * root_values).T @ factor.root,
        local=factor.local @ (vectors[:, keep] / root_values),
        error=0.0,
    )


def least_squares(factor: Factor, cross: Array, n: int) -> Array:
    """The (d_x, d_y) least-squares map; of least norm where the rows do not determine it.

    ``cross`` holds the co-moments with the target of the source in the factored coordinates.
    """
    scores = factor.local.T @ cross / max(n, 1)
    if factor.rank == factor.counted:
        return np.asarray(factor.whitener @ scores)
    if factor.rank == 0:
        return np.zeros((factor.root.shape[1], cross.shape[1]))
    least = linalg.pinv(factor.root, rtol=_EPS).T
    return np.asarray(_sound_inverse(factor, least, np.eye(factor.rank), factor.root.T).T @ scores)


def solve_well_conditioned(sums: Array, cross: Array, n: int, mean: Array, rounding: float) -> Array | None:
    """Least squares by the normal equations, or None where the condition number does not allow it."""
    scale, constant, noise = _columns(sums, n, mean, rounding)
    if constant.any() or n <= len(scale):
        return None
    inverse = 1.0 / scale
    correlation = sums * np.multiply.outer(inverse, inverse) / n
    factored = _cholesky(correlation, float(np.max(noise * inverse)), rounding)
    if factored is None:
        return None
    scores = inverse[:, None] * cross / n
    if len(scale) > WIDE_MATRIX and cross.shape[1] < len(scale) / 2:
        return np.asarray(inverse[:, None] * lapack.dpotrs(factored[0], scores, lower=0)[0])
    # numpy's solvers release the GIL, scipy's Cholesky solver does not. Many targets at once share an inverse.
    many = cross.shape[1] > 2 * len(scale)
    solved = np.linalg.inv(correlation) @ scores if many else np.linalg.solve(correlation, scores)
    return np.asarray(inverse[:, None] * solved)


def _cholesky(correlation: Array, noise: float, rounding: float) -> tuple[Array, float] | None:
    """The Cholesky factor and the reciprocal condition number; None where directions may be rounding or unresolved.

    ``noise`` is the largest standard deviation that rounding may cause in a column.
    """
    norm = float(np.abs(correlation).sum(axis=0).max())
    triangle, info = lapack.dpotrf(correlation, lower=0)
    smallest = max(_RESOLVED, _NOISE_FACTOR * noise**2, rank_tolerance(rounding) ** 2)
    if info != 0:
        return None
    reciprocal = float(lapack.dpocon(triangle, norm, uplo="U")[0])
    return None if reciprocal < smallest else (triangle, reciprocal)


def _sound_inverse(factor: Factor, least: Array, turn: Array, mixing: Array) -> Array:
    """The (r, d) inverse of the turned root, transposed ``mixing``, that is of least norm, if it can be used.

    It cannot where columns of large spread leave the others no digits, or where it responds to the directions that were
    treated as rounding. Then the inverse of least norm in columns of unit variance is used, which is accurate in any
    units, or else the whitener, which does not respond to them.
    """

    def flaw(found: Array) -> float:
        apart = np.abs(found @ mixing - np.eye(factor.rank)).max(initial=0.0)
        return float(max(apart / _EXACT, np.abs(factor.rest @ found.T).max(initial=0.0) / _BLIND))

    best = flaw(least)
    if best <= 1e-3:
        return least
    if factor.rank < factor.counted:
        inverse = _inverse(np.where(factor.left_out, 0.0, factor.spread))
        left, values, axes = linalg.svd(factor.root * inverse, full_matrices=False)
        scaled = np.asarray((left.T @ turn).T / values @ axes * inverse)
        if flaw(scaled) < best / 100:
            least, best = scaled, flaw(scaled)
    return least if best <= 1 else np.asarray((factor.whitener @ turn).T)


def _columns(sums: Array, n: int, mean: Array, rounding: float) -> tuple[Array, Array, Array]:
    """Standard deviations of the columns (0 for constant ones), which are constant, and the noise of rounding."""
    return _columns_of(np.diagonal(sums), n, mean, rounding)


def _columns_of(squares: Array, n: int, mean: Array, rounding: float) -> tuple[Array, Array, Array]:
    spread = np.sqrt(np.maximum(squares, 0.0) / max(n, 1))
    noise = rounding * np.abs(mean)
    constant = spread <= np.maximum(noise, LEAST_SPREAD)
    return np.where(constant, 0.0, spread), constant, noise


def _correlation(sums: Array, n: int, inverse: Array) -> Array:
    return np.asarray(sums * inverse[:, None] * inverse / max(n, 1))


def _error_of_sums(values: Array, whitener: Array | None = None, mean: Array | None = None) -> float:
    """About the share of the smallest variance that may be rounding, in sums and in the mean of the rows."""
    if len(values) == 0:
        return 0.0
    error = 8 * _EPS * float(values.max() / values.min())
    if whitener is not None and mean is not None:
        error += float(_noise_along(whitener, _EPS * np.abs(mean)).max())
    return error


def _noise_along(directions: Array, noise: Array) -> Array:
    """The variance that rounding about a large mean may cause in each direction (columns)."""
    return np.asarray(_NOISE_FACTOR * (directions**2).T @ noise**2)


def _inverse(scale: Array) -> Array:
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


_PRECISE = 1e-5  # relative error of a variance along some direction above which one more pass corrects it


@dataclass(frozen=True, eq=False)
class SecondPass:
    """The moments of every fold in the preconditioned basis."""

    by: Preconditioner
    folds: list[Moments]


def resolve_source(
    total: Moments, x: Matrix, y: Matrix, folds: Array, n_folds: int, rounding: float | None = None
) -> tuple[Factor, SecondPass | None]:
    """Factor the source's covariance, with a second pass over the rows only if the moments do not resolve it.

    The factor is of the columns that count as dimensions, the second pass of columns of any scale, for least squares.
    """
    arguments = (total.xx, total.n, total.source_mean, rounding_of(x) if rounding is None else rounding)
    factor = factor_covariance(*arguments)
    if factor.resolved:
        return factor, None
    by = preconditioner(*arguments)
    second = SecondPass(by, fold_moments(ProjectedRows(x, total.source_mean, by.basis), y, folds, n_folds))
    whole = merged(second.folds)
    return factor_preconditioned(whole.xx, whole.n, by), second


def resolve_alone(
    moments: Callable[[Array | None, Array | None], Moments], rounding: float, *, any_scale: bool = False
) -> tuple[Moments, Factor]:
    """Moments and factored covariance of one side, in memory, in files or on workers.

    ``moments(mean, basis)`` makes a pass: over the rows, or over centred rows times a basis. Rows times the factor's
    whitener have unit covariance within 1e-3 for any data: where sums in float64 do not give it, a last pass over
    the whitened rows does. With ``any_scale`` all varying columns count, otherwise only those that vary enough.
    """
    total = moments(None, None)
    spread = float(np.sqrt(np.trace(total.xx) / max(total.n, 1)))
    if spread > 0 and not 1e-140 < spread < 1e140:
        raise InputError(f"the values of X spread by {spread:.0e}: rescale, their squares leave float64")
    arguments = (total.xx, total.n, total.source_mean, rounding)
    factor = factor_covariance(*arguments, any_scale=any_scale)
    if not factor.resolved:
        by = preconditioner(*arguments)
        second = moments(total.source_mean, by.basis)
        factor = factor_preconditioned(second.xx, second.n, by, any_scale=any_scale)
    if factor.error > _PRECISE:
        white = moments(total.source_mean, factor.whitener)
        factor = whitened_again(factor, white.xx, white.n)
    return total, factor
