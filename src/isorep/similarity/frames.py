r"""The principal frame of one side: centred rows as :math:`X_c=U\,\mathrm{diag}(s)\,V^\top`, at their numerical rank.

Everything that a linear index asks of two sides follows from their frames and :math:`C=U_X^\top U_Y`: the canonical
correlations are its singular values, :math:`X^\top Y=V_XS_X\,C\,S_YV_Y^\top`. Under a permutation of rows only
:math:`C` changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from ..conditioning import Factor, hardly_vary, rank_tolerance
from ..errors import InputError
from ..moments import Moments, moments_alone
from ..representation import Array, Matrix, rounding_of
from ..resolution import resolve_alone
from ..rows import ProjectedRows, block_rows, map_blocks, read_rows, refuse_non_finite
from ..storage.scratch import empty


@dataclass(frozen=True, eq=False)
class Frame:
    r"""Rows in principal coordinates.

    ``whitener`` is the (d, r) matrix with :math:`U=X_cW`; where rows are fewer than columns ``left`` is :math:`U`.
    """

    n: int
    mean: Array
    singular_values: Array
    axes: Array
    whitener: Array | None = None
    left: Array | None = None

    @property
    def rank(self) -> int:
        """How many directions vary."""
        return len(self.singular_values)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.mean)

    @cached_property
    def root(self) -> Array:
        """The (r, d) matrix that takes scores back to centred rows."""
        return np.asarray(self.singular_values[:, None] * self.axes.T)

    @cached_property
    def inverse_spread(self) -> Array:
        """One over the standard deviation of each column, 0 for a constant one."""
        spread = np.linalg.norm(self.root, axis=0) / np.sqrt(self.n)
        varies = spread > 8 * np.finfo(float).eps * np.maximum(np.abs(self.mean), spread.max())
        return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=varies))

    @property
    def square_norm(self) -> float:
        """The sum of squares of the centred rows."""
        return float((self.singular_values**2).sum())

    def scores(self, values: Matrix | None, dtype: type = np.float64) -> Array:
        """The (n, r) orthonormal columns :math:`U`, one pass over the rows."""
        if self.left is not None:
            return self.left.astype(dtype)
        out = empty((self.n, self.rank), dtype)

        def fill(rows: slice) -> None:
            out[rows] = self.block(values, rows)

        map_blocks(fill, self.n, block_rows(self.width, cells=2**20))
        return out

    def block(self, values: Matrix | None, rows: slice) -> Array:
        """Some rows of :math:`U`, in float64."""
        if self.left is not None:
            return self.left[rows]
        if self.whitener is None or values is None:
            raise InputError("second moments hold no rows to shuffle: a null needs the two arrays")
        return np.asarray((read_rows(values, rows).astype(np.float64) - self.mean) @ self.whitener)

    def leading(self, k: int) -> Frame:
        """The first ``k`` principal directions alone."""
        return Frame(
            self.n,
            self.mean,
            self.singular_values[:k],
            self.axes[:, :k],
            None if self.whitener is None else self.whitener[:, :k],
            None if self.left is None else self.left[:, :k],
        )

    def standardised(self) -> Frame:
        """The frame of the same rows with every column brought to unit variance; constant columns stay out."""
        turn, values, axes = np.linalg.svd(self.root * self.inverse_spread, full_matrices=False)
        return Frame(
            self.n,
            self.mean,
            values,
            axes.T,
            None if self.whitener is None else self.whitener @ turn,
            None if self.left is None else self.left @ turn,
        )

    def components_for(self, variance: float) -> int:
        """How many leading directions hold this share of the variance, with those that tie with the last of them.

        Directions of equal variance have no order: which of them came first would be a matter of rounding.
        """
        shares = np.cumsum(self.singular_values**2) / self.square_norm
        last = min(int(np.searchsorted(shares, variance - 1e-12)), self.rank - 1)
        return int((self.singular_values >= (1 - 1e-9) * self.singular_values[last]).sum())


def frame_of(values: Matrix, name: str) -> Frame:
    """The frame of stored rows: from moments where rows outnumber columns, from the rows themselves where not."""
    n, d = values.shape
    if n <= d:
        return _wide(values, name)
    rounding = rounding_of(values)

    def moments(mean: Array | None, basis: Array | None) -> Moments:
        rows = values if mean is None or basis is None else ProjectedRows(values, mean, basis)
        return moments_alone(rows, name)

    total, factor = resolve_alone(moments, rounding)
    return frame_of_factor(factor, total.n, total.source_mean, name)


def frame_of_factor(factor: Factor, n: int, mean: Array, name: str) -> Frame:
    """Principal axes of a factored covariance."""
    _require_variation(factor.rank, name)
    turn, values, axes = np.linalg.svd(factor.root, full_matrices=False)
    return Frame(n, mean, values * np.sqrt(n), axes.T, factor.whitener @ turn / np.sqrt(n))


def _wide(values: Matrix, name: str) -> Frame:
    """Fewer rows than columns: a decomposition of the rows, without a (d, d) matrix."""
    rows = np.asarray(values[:], dtype=np.float64)
    if not np.isfinite(rows).all():
        refuse_non_finite(values, name)
    n, d = rows.shape
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.mean(axis=0)
        rows = rows - mean
        size = float(np.abs(rows).max())
    if not size < 1e140:
        raise InputError(f"{name} holds values so large that their squares overflow: rescale it")
    # As for moments, columns that count are brought to one scale before anything counts as zero.
    rounding = rounding_of(values)
    spread = np.linalg.norm(rows, axis=0) / np.sqrt(n)
    noise = rounding * np.abs(mean)
    constant = spread <= noise
    varies = ~(constant | hardly_vary(spread, constant))
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    left, singular, _ = linalg.svd(rows * inverse, full_matrices=False, check_finite=False)
    least = max(max(n, d) * np.finfo(float).eps, rank_tolerance(rounding)) * singular[0]
    kept = (singular > max(least, 2 * np.sqrt(n) * float(np.linalg.norm(noise * inverse)))) & (np.arange(n) < n - 1)
    _require_variation(int(kept.sum()), name)
    left = left[:, kept]
    turn, found, axes = np.linalg.svd(left.T @ (rows * varies), full_matrices=False)
    return Frame(n, mean, found, axes.T, left=left @ turn)


def _require_variation(rank: int, name: str) -> None:
    if rank == 0:
        raise InputError(f"all rows of {name} are identical, as far as their precision tells: nothing can be compared")
