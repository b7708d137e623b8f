"""Affine maps from source to target: the optimal map of every rung from moments, and its errors.

Plain functions and records; the scikit-learn estimators are thin wrappers in files of their own and load on first use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..assignment import best_assignment
from ..covariance import (
    Preconditioner,
    factor_covariance,
    factor_preconditioned,
    has_few_rows,
    least_squares,
    narrow_root,
    solve_well_conditioned,
)
from ..moments import Moments
from ..representation import Array
from ..threads import WIDE_MATRIX

_UNDETERMINED = 1e-12  # singular values, relative to the largest, that rounding leaves of none
_DEAD = 0.02  # share of the columns that may be dead
_RESOLVED = 1e-7  # squares of singular values, relative to the largest, that leave nine digits of a rotation
_RESOLVED_WIDE = 1e-9  # the same for seven digits: of thousands of columns a full decomposition takes a minute
_RESOLVED_QUICK = 1e-11  # the same for five digits: errors of shuffled pairings differ by far more
_MANY_COLUMNS = 256  # from which on five digits do where ``quick``; of fewer a decomposition takes milliseconds


@dataclass(frozen=True, eq=False)
class AffineMap:
    r"""The map :math:`x\mapsto s\,(x-\mu_x)M+\mu_y`, with ``linear`` :math:`M` of shape (d_x, d_out).

    ``d_out`` exceeds the target's width ``d_y`` when the wider source was matched against a zero-padded target:
    the columns beyond ``d_y`` should then be zero, and their values count as error. ``orthogonal`` is true if
    :math:`M` is (the upper part of) an orthogonal matrix.
    """

    linear: Array
    source_mean: Array
    target_mean: Array
    scale: float = 1.0
    orthogonal: bool = False

    @property
    def matrix(self) -> Array:
        """The linear part with its scale."""
        return self.linear if self.scale == 1 else np.asarray(self.scale * self.linear)

    @property
    def target_width(self) -> int:
        """The number of columns of the target."""
        return len(self.target_mean)

    def apply(self, x: Array) -> Array:
        """Map rows into the target's space, padded columns included."""
        mapped: Array = (np.asarray(x, dtype=np.float64) - self.source_mean) @ self.matrix
        mapped[:, : self.target_width] += self.target_mean
        return mapped

    def residual_norms(self, x: Array, y: Array) -> Array:
        """The distance of each mapped row from its target."""
        error = self.apply(x)
        error[:, : self.target_width] -= y
        return np.asarray(np.linalg.norm(error, axis=1))

    def squared_errors(self, rows: Moments) -> Array:
        """Summed squared errors of each target dimension over some rows, from their moments."""
        matrix = self.matrix[:, : self.target_width]
        shift = (rows.target_mean - self.target_mean) - (rows.source_mean - self.source_mean) @ matrix
        sums = rows.xx.astype(matrix.dtype, copy=False)  # of thousands of columns maps are kept in single precision
        return column_errors(matrix, shift, rows.n, sums, rows.xy, np.diagonal(rows.yy))

    def squared_errors_along(self, rows: Moments, directions: Array) -> Array:
        """The same along directions of the target, given as columns."""
        matrix = self.matrix[:, : self.target_width]
        shift = (rows.target_mean - self.target_mean) - (rows.source_mean - self.source_mean) @ matrix
        spread = np.einsum("ij,ij->j", directions, rows.yy @ directions)
        return column_errors(matrix @ directions, shift @ directions, rows.n, rows.xx, rows.xy @ directions, spread)

    def squared_error(self, rows: Moments) -> float:
        """The summed squared error over some rows, padded columns included, from their moments.

        An orthogonal map keeps the norm of the source, so no matrix product is needed.
        """
        if not self.orthogonal:
            return float(self.squared_errors(rows).sum())
        overlap = float(np.einsum("ij,ij->", self.linear[:, : self.target_width], rows.xy))
        around = np.trace(rows.yy) - 2 * self.scale * overlap + self.scale**2 * np.trace(rows.xx)
        shift = -self.scale * ((rows.source_mean - self.source_mean) @ self.linear)
        shift[: self.target_width] += rows.target_mean - self.target_mean
        return max(float(around), 0.0) + rows.n * float(shift @ shift)


def column_errors(matrix: Array, shift: Array, n: int, xx: Array, xy: Array, yy: Array) -> Array:
    r"""Summed squared errors of each target column under a linear map, from co-moments of ``n`` rows.

    .. math:: \sum_i(y_{ij}-x_i^\top m_j)^2=Y_{jj}-2m_j^\top C_{\cdot j}+m_j^\top Xm_j+n\,s_j^2

    with ``yy`` the diagonal of :math:`Y` and ``shift`` the error :math:`s` at the rows' mean.
    """
    root = narrow_root(xx, n)
    mapped = np.einsum("ij,ij->j", matrix, xx @ matrix) if root is None else ((root.T @ matrix) ** 2).sum(axis=0)
    around = yy + mapped - 2 * np.einsum("ij,ij->j", matrix, xy)
    return np.asarray(np.maximum(around, 0) + n * shift**2)


def padded(cross: Array) -> Array:
    """A square matrix, padded with zero rows or columns."""
    d_x, d_y = cross.shape
    width = max(d_x, d_y)
    return cross if d_x == d_y else np.pad(cross, ((0, width - d_x), (0, width - d_y)))


def fitted_scale(wanted: bool, overlap: float, sums: Array) -> float:
    """The least-squares scale of a mapped source: its overlap with the target over its own sum of squares."""
    if not wanted:
        return 1.0
    squares = float(np.trace(sums))
    return overlap / squares if squares > 0 else 0.0


# The rungs' maps, from moments


def identity_map(moments: Moments) -> AffineMap:
    """No map at all, between spaces of these widths."""
    d_x, d_y = moments.xy.shape
    return AffineMap(np.eye(d_x, max(d_x, d_y)), np.zeros(d_x), np.zeros(d_y), orthogonal=True)


def match_signed(cross: Array) -> tuple[Array, Array, float]:
    """For each column of ``cross`` its row, the sign, and the sum of matched absolute values.

    ``cross`` has at least as many rows as columns.
    """
    columns, rows = best_assignment(np.abs(cross.T))
    matched = cross[rows, columns]
    return rows, np.where(matched >= 0, 1, -1), float(np.abs(matched).sum())


def signed_matrix(permutation: Array, signs: Array) -> Array:
    """The orthogonal matrix that takes row ``permutation[j]``, with its sign, to column ``j``."""
    width = len(permutation)
    matrix = np.zeros((width, width))
    matrix[permutation, np.arange(width)] = signs
    return matrix


def nearest_rotation(cross: Array, rows: int | None = None, guess: Array | None = None) -> tuple[Array, float]:
    """The orthogonal matrix nearest to a square one (Procrustes), and the sum of its singular values.

    Directions without cross-moments are turned as near to the ``guess`` as they can be, if there is one; otherwise
    rounding decides.

    The cross-moments of fewer ``rows`` than half of the columns have a rank below that. Their axes are found in a
    random sketch, which spans them, and the rotation leaves what is outside of both sides' axes where it is.
    """
    if rows is None or not has_few_rows(rows, len(cross)):
        u, singular, vt = np.linalg.svd(cross)  # numpy's releases the GIL, scipy's does not
        overlap = float(singular.sum())
        free = singular <= _UNDETERMINED * singular[0]
        if guess is None or not free.any():
            return np.asarray(u @ vt), overlap
        left, right = u[:, free], vt[free]
        a, _, b = np.linalg.svd(left.T @ guess @ right.T)
        return np.asarray(u[:, ~free] @ vt[~free] + left @ (a @ b) @ right), overlap
    left, singular, vt = _axes_of_few(cross, rows)
    sides = left, vt.T
    both = np.linalg.qr(np.hstack(sides))[0]
    free, goal = (np.linalg.qr(both.T @ side, mode="complete")[0][:, rows:] for side in sides)
    inside = (both.T @ sides[0]) @ (vt @ both) + free @ goal.T
    return np.eye(len(cross)) + both @ (inside - np.eye(2 * rows)) @ both.T, float(singular.sum())


def partial_rotation(cross: Array, rows: int) -> tuple[Array, float]:
    """The rotation of the directions that cross-moments of so many rows determine, and the sum of its singular values.

    All other directions are mapped to zero.
    """
    few = has_few_rows(rows, min(cross.shape))
    left, singular, right = _axes_of_few(cross, rows) if few else np.linalg.svd(cross, full_matrices=False)
    kept = singular > _UNDETERMINED * singular.max(initial=0.0)
    return np.asarray(left[:, kept] @ right[kept]), float(singular.sum())


def _axes_of_few(cross: Array, rows: int) -> tuple[Array, Array, Array]:
    """Singular vectors and values of cross-moments of so many rows, found in a random sketch, which spans them."""
    sketch = cross @ np.random.default_rng(0).standard_normal((cross.shape[1], rows))
    axes = np.linalg.qr(sketch)[0]
    u, singular, vt = np.linalg.svd(axes.T @ cross, full_matrices=False)
    return axes @ u, singular, vt


def orthogonal_map(moments: Moments, matrix: Array, overlap: float, *, scale: bool = True) -> AffineMap:
    """The map by an orthogonal matrix about the means, with the least-squares scale if ``scale``.

    ``overlap`` is the matrix's inner product with the cross-moments.
    """
    factor = fitted_scale(scale, overlap, moments.xx)
    linear = matrix[: moments.xy.shape[0]]
    return AffineMap(linear, moments.source_mean, moments.target_mean, factor, orthogonal=True)


def signed_permutation_maps(moments: Moments) -> tuple[AffineMap, AffineMap]:
    """The best signed permutation, both ways."""
    permutation, signs, overlap = match_signed(padded(moments.xy))
    back = np.argsort(permutation)
    return (
        orthogonal_map(moments, signed_matrix(permutation, signs), overlap),
        orthogonal_map(moments.swapped(), signed_matrix(back, signs[back]), overlap),
    )


def rigid_maps(moments: Moments, *, quick: bool = False, guess: Array | None = None) -> tuple[AffineMap, AffineMap]:
    """The best rigid motion with a scale, both ways.

    ``quick`` is for errors of rows alone, which a few dead columns of the source do not change: these columns are not
    rotated, and the rotation of the source may be incomplete. With a ``guess`` directions that the moments leave open
    are turned as near to it as they can be.
    """
    polar = None
    if guess is not None:
        polar = nearest_rotation(padded(moments.xy), guess=guess)
    elif quick:
        many = max(moments.xy.shape) >= _MANY_COLUMNS
        polar = quick_polar(moments.xy, dead=_DEAD, resolved=_RESOLVED_QUICK if many else _RESOLVED)
    elif min(moments.xy.shape) == max(moments.xy.shape) > WIDE_MATRIX and not has_few_rows(moments.n, len(moments.xy)):
        polar = quick_polar(moments.xy, resolved=_RESOLVED_WIDE)
    rotation, overlap = polar or nearest_rotation(padded(moments.xy), moments.n)
    return orthogonal_map(moments, rotation, overlap), orthogonal_map(moments.swapped(), rotation.T, overlap)


def quick_polar(cross: Array, dead: float = 0.0, resolved: float = _RESOLVED) -> tuple[Array, float] | None:
    r"""The orthonormal factor of a matrix with no more rows than columns, and the sum of its singular values.

    :math:`(CC^\top)^{-1/2}C` costs a quarter of a decomposition. None where squares do not resolve the singular values,
    except for a share ``dead`` of them: where they are below ``resolved``, relative to the largest.
    """
    found = _by_squares(cross, dead, resolved)
    if found is None:
        return None
    scaled, axes, singular, overlap = found
    return np.asarray((axes / singular) @ (axes.T @ scaled)), overlap


def rotated_rows(rows: Array, moments: Moments) -> tuple[Array, float] | None:
    """Centred rows under the rotation of ``rigid_maps(moments, quick=True)``, and its overlap, without the rotation.

    For a few rows that saves products of whole matrices. None where squares do not resolve the rotation.
    """
    found = _by_squares(moments.xy, _DEAD, _RESOLVED_QUICK)
    if found is None:
        return None
    scaled, axes, singular, overlap = found
    return np.asarray((rows @ axes / singular) @ axes.T @ scaled), overlap


def _by_squares(cross: Array, dead: float, resolved: float) -> tuple[Array, Array, Array, float] | None:
    """The matrix scaled, its left singular vectors and values that squares resolve, and the sum of these unscaled."""
    size = float(np.abs(cross).max(initial=0.0))
    if cross.shape[0] > cross.shape[1] or not size > 0:
        return None
    scaled = cross / size  # squares of large values overflow, of small ones vanish
    squares, axes = np.linalg.eigh(scaled @ scaled.T)
    kept = squares > resolved * squares[-1]
    if (~kept).sum() > dead * len(kept):
        return None
    singular = np.sqrt(squares[kept])
    return scaled, axes[:, kept], singular, size * float(singular.sum())


def solve_linear(moments: Moments, rounding: float, by: Preconditioner | None = None) -> tuple[Array, int]:
    """The (d_x, d_y) matrix of least squares and the source's numerical rank.

    With a preconditioner the moments are those of the preconditioned rows.
    """
    if by is not None:
        factor = factor_preconditioned(moments.xx, moments.n, by, any_scale=True)
    else:
        quick = solve_well_conditioned(moments.xx, moments.xy, moments.n, moments.source_mean, rounding)
        if quick is not None:
            return quick, len(quick)
        factor = factor_covariance(moments.xx, moments.n, moments.source_mean, rounding, any_scale=True)
    return least_squares(factor, moments.xy, moments.n), factor.rank


@dataclass(frozen=True, eq=False)
class ComponentMatch:
    """Independent components matched one to one: ``source[j]`` with ``target[j]``, by sign and absolute correlation."""

    source: Array
    target: Array
    signs: Array
    correlations: Array

    def swapped(self) -> ComponentMatch:
        """The same matching, read the other way."""
        return ComponentMatch(self.target, self.source, self.signs, self.correlations)


def match_components(moments: Moments, source: Array, target: Array) -> ComponentMatch:
    """Match the components of two unmixing matrices by the absolute correlations that the paired rows' moments give."""
    correlations = source @ moments.xy @ target.T / max(moments.n, 1)
    if len(source) >= len(target):
        here, signs, _ = match_signed(correlations)
        there = np.arange(len(target))
    else:
        there, signs, _ = match_signed(correlations.T)
        here = np.arange(len(source))
    return ComponentMatch(here, there, signs, np.abs(correlations[here, there]))


def component_map(
    moments: Moments, unmixing: Array, mixing: Array, match: ComponentMatch, *, shrink: bool = False
) -> AffineMap:
    r"""The map that unmixes by the source's ICA, matches components, and mixes by the target's.

    With ``shrink`` every component has its least-squares scale :math:`|c_j|/v_j`: the matched covariance over the
    variance of the source's component, both of these rows.
    """
    chosen = unmixing[match.source]
    unmixed = chosen.T * match.signs.astype(chosen.dtype)
    if shrink:
        variances = np.einsum("ij,ij->i", chosen @ moments.xx, chosen) / max(moments.n, 1)
        unmixed *= np.divide(match.correlations, variances, out=np.zeros(len(variances)), where=variances > 0)
    return AffineMap(unmixed @ mixing.T[match.target], moments.source_mean, moments.target_mean)


# Errors


@dataclass(frozen=True)
class Error:
    """Residual norms of one fit: lower is closer."""

    mean: float
    rms: float
    sup: float
    quantiles: dict[str, float]

    def times(self, unit: float) -> Error:
        """The same errors in other units."""
        quantiles = {level: value * unit for level, value in self.quantiles.items()}
        return Error(self.mean * unit, self.rms * unit, self.sup * unit, quantiles)


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


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
