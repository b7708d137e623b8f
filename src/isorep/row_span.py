"""Few rows of many columns, in the coordinates of their span.

The rows of a side that has fewer of them than columns lie, about their mean, in a space with no more dimensions than
rows. Orthonormal axes of it change no distance and no product of rows. So all that depends on these alone, such as
rotations, least squares and independent components, costs as much as with as many columns as rows. The coordinates
are those of Gram and Schmidt, in the order of the rows: rotated rows have the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from .covariance import Factor, factor_rows, rank_tolerance
from .representation import Array, Matrix, rounding_of
from .rows import read_rows, refuse_non_finite

_STEADY = 3e-6  # of the largest, singular values of some whitened rows that are no rounding


@dataclass(frozen=True, eq=False)
class RowSpan:
    """Some rows: their mean, the rows about it, orthonormal axes of their span, as rows, and their coordinates there.

    ``rounding`` is the relative rounding of the values as they were stored.
    """

    mean: Array
    centred: Array
    axes: Array
    rows: Array
    rounding: float

    @classmethod
    def of(cls, values: Matrix, name: str) -> RowSpan:
        """That of all rows; a side with no more columns than rows keeps its columns."""
        refuse_non_finite(values, name)
        rows = read_rows(values, slice(None)).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # sums of squares will tell
            first = rows[0].copy()
            rows -= first
            shift = rows.mean(axis=0)
            rows -= shift
        return cls(first + shift, rows, *_coordinates(rows), rounding_of(values))

    def without(self, columns: Array) -> RowSpan:
        """That of the same rows with marked columns left out: they do not vary there, and their axes are zero."""
        if not columns.any():
            return self
        rows = np.where(columns, 0.0, self.centred)
        return RowSpan(self.mean, rows, *_coordinates(rows), self.rounding)

    @property
    def width(self) -> int:
        """The number of axes."""
        return len(self.axes)

    def in_columns(self, coordinates: Array) -> Array:
        """Directions or vectors, as rows of coordinates, in the columns."""
        return coordinates if self._keeps_columns else np.asarray(coordinates @ self.axes)

    @property
    def _keeps_columns(self) -> bool:
        return len(self.mean) <= len(self.rows)

    @cached_property
    def squares(self) -> Array:
        """The sum of squares of every column."""
        return np.asarray(np.einsum("ij,ij->j", self.centred, self.centred))

    @cached_property
    def factor(self) -> Factor:
        """The factor of the covariance in coordinates; the columns decide what is rounding, and which of them count."""
        return factor_rows(self.centred, self.mean, self.rounding).along(self.axes)

    @cached_property
    def _white(self) -> Array:
        """The rows at unit variance in all directions above rounding, of columns of any scale."""
        factor = self.factor
        if factor.left_out.any():
            factor = factor_rows(self.centred, self.mean, self.rounding, any_scale=True).along(self.axes)
        return np.asarray(self.rows @ factor.whitener)

    def above_rounding(self) -> Array:
        """Orthonormal axes, as rows, of the coordinates in which the rows vary by more than their rounding."""
        if self._keeps_columns:
            return np.eye(self.width)
        _, values, axes = np.linalg.svd(self.rows, full_matrices=False)
        return np.asarray(axes[values > rank_tolerance(self.rounding) * values[0]])

    def least_squares(self, chosen: Array, target: Array) -> Array:
        """The map of least norm from the coordinates of chosen rows, about their mean, onto as many centred rows.

        It comes from the rows themselves, as squares would lose the digits that few large rows leave to the others.
        """
        white = self._white[chosen]
        left, values, _ = np.linalg.svd(white - white.mean(axis=0), full_matrices=False)
        left = left[:, values > _STEADY * values.max(initial=0.0)]
        if left.shape[1] == 0:
            return np.zeros((self.width, target.shape[1]))
        rows = self.rows[chosen]
        axes, triangle = np.linalg.qr((rows - rows.mean(axis=0)).T @ left)
        return np.asarray(axes @ linalg.solve_triangular(triangle, left.T @ target, trans="T", check_finite=False))


def _coordinates(centred: Array) -> tuple[Array, Array]:
    """Orthonormal axes of centred rows, and the rows along them; the columns themselves where they are not more."""
    n, d = centred.shape
    if d <= n:
        return np.eye(d), centred
    axes, triangle = np.linalg.qr(centred.T)
    signs = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
    return (axes * signs).T, np.ascontiguousarray((signs[:, None] * triangle).T)


def spans_of_few(x: Matrix, y: Matrix, names: tuple[str, str]) -> tuple[RowSpan, RowSpan] | None:
    """The spans of two sides, where their rows are fewer than the columns of one of them."""
    if int(x.shape[0]) >= max(int(x.shape[1]), int(y.shape[1])):
        return None
    return RowSpan.of(x, names[0]), RowSpan.of(y, names[1])
