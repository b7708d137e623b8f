"""Few rows of many columns, in the coordinates of their span.

The rows of a side that has fewer of them than columns lie, about their mean, in a space with no more dimensions than
rows. Orthonormal axes of it change no distance and no product of rows. So all that depends on these alone, such as
rotations, least squares and independent components, costs as much as with as many columns as rows. The coordinates
are those of Gram and Schmidt, in the order of the rows: rotated rows have the same ones.

Rows count as few where maps are fitted to no more of them than there are columns. All rows together may then span the
columns, but training rows do not, and rounding must not decide what they leave open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from .covariance import Factor, factor_rows, rank_tolerance, resolved_combinations
from .errors import InputError
from .representation import Array, Matrix, rounding_of
from .rows import equal_rows, read_rows, refuse_non_finite

_CENTRING = 16 * float(np.finfo(np.float64).eps)  # of a mean, what rounding leaves when it is subtracted


@dataclass(frozen=True, eq=False)
class RowSpan:
    """Some rows: their mean, the rows about it, orthonormal axes of their span, as rows, and their coordinates there.

    ``rounding`` is the relative rounding of the values as they were stored; ``equal`` numbers the rows, alike where
    they are equal.
    """

    mean: Array
    centred: Array
    axes: Array
    rows: Array
    rounding: float
    equal: Array

    @classmethod
    def of(cls, values: Matrix, name: str, least: int) -> RowSpan:
        """That of all rows; a side with fewer columns than the ``least`` rows that maps are fitted to keeps them."""
        refuse_non_finite(values, name)
        rows = read_rows(values, slice(None)).astype(np.float64, order="C")  # sums depend on the order in memory
        with np.errstate(over="ignore", invalid="ignore"):  # sums of squares will tell
            first = rows[0].copy()
            rows -= first
            shift = rows.mean(axis=0)
            rows -= shift
        if not np.isfinite(rows).all():
            raise InputError(f"{name} holds values so large that their squares overflow: rescale it")
        equal, keeps = equal_rows(values), rows.shape[1] < least
        axes, coordinates = (np.eye(rows.shape[1]), rows) if keeps else _gram_schmidt(rows, equal)
        return cls(first + shift, rows, axes, coordinates, rounding_of(values), equal)

    def without(self, columns: Array) -> RowSpan:
        """That of the same rows with marked columns left out: they do not vary there, and their axes are zero."""
        if not columns.any():
            return self
        rows = np.where(columns, 0.0, self.centred)
        axes, coordinates = (self.axes, rows) if self._keeps_columns else _gram_schmidt(rows, self.equal)
        return replace(self, centred=rows, axes=axes, rows=coordinates)

    @property
    def width(self) -> int:
        """The number of axes."""
        return len(self.axes)

    def in_columns(self, coordinates: Array) -> Array:
        """Directions or vectors, as rows of coordinates, in the columns."""
        return coordinates if self._keeps_columns else np.asarray(coordinates @ self.axes)

    @property
    def _keeps_columns(self) -> bool:
        return self.rows is self.centred

    @cached_property
    def squares(self) -> Array:
        """The sum of squares of every column."""
        return np.asarray(np.einsum("ij,ij->j", self.centred, self.centred))

    @cached_property
    def factor(self) -> Factor:
        """The factor of the covariance in coordinates; the columns decide what is rounding, and which of them count."""
        return factor_rows(self.centred, self.mean, self.rounding).along(self.axes)

    def above_rounding(self) -> Array:
        """Orthonormal axes, as rows, of the coordinates in which the rows vary by more than their rounding."""
        if self._keeps_columns:
            return np.eye(self.width)
        _, values, axes = np.linalg.svd(self.rows, full_matrices=False)
        axes = axes[values > rank_tolerance(self.rounding) * values[0]]
        if len(axes) == self.width:
            return np.eye(self.width)
        return np.asarray(_gram_schmidt(self.rows @ axes.T, self.equal)[0] @ axes)

    def least_squares(self, chosen: Array, target: Array) -> Array:
        """The map of least norm from the coordinates of chosen rows, about their mean, onto as many centred rows.

        It comes from the rows themselves, as squares would lose the digits that few large rows leave to the others.
        """
        columns = self.centred[chosen]
        here = columns.mean(axis=0)
        noise = self.rounding * np.abs(self.mean + here) + _CENTRING * np.abs(here)
        by = resolved_combinations(columns - here, noise, self.rounding)
        if by.shape[1] == 0:
            return np.zeros((self.width, target.shape[1]))
        rows = self.rows[chosen]
        axes, triangle = np.linalg.qr((rows - rows.mean(axis=0)).T @ by)
        return np.asarray(axes @ linalg.solve_triangular(triangle, by.T @ target, trans="T", check_finite=False))

    def weights(self, chosen: Array, others: Array) -> Array:
        """The weights of chosen rows' targets in the images of other rows under least squares."""
        reach = self.rows[others] - self.rows[chosen].mean(axis=0)
        return np.asarray(reach @ self.least_squares(chosen, np.eye(len(chosen))))


def spans_of_few(x: Matrix, y: Matrix, names: tuple[str, str], least: int) -> tuple[RowSpan, RowSpan] | None:
    """The spans of two sides, where one has no fewer columns than the ``least`` rows that maps are fitted to."""
    if least > max(int(x.shape[1]), int(y.shape[1])):
        return None
    return RowSpan.of(x, names[0], least), RowSpan.of(y, names[1], least)


def _gram_schmidt(rows: Array, equal: Array) -> tuple[Array, Array]:
    """Orthonormal axes, as rows, and coordinates of centred rows: each has no axis but its own and those before it.

    ``equal`` numbers the rows, alike where they are equal. These have the same coordinates, to the last bit, and one
    axis: another would have any direction that rounding gives it, and later rows would have coordinates along it.
    """
    _, first, which = np.unique(equal, return_index=True, return_inverse=True)
    places = np.sort(first)
    axes, triangle = np.linalg.qr(rows[places].T)
    used = max(min(axes.shape[1], len(places) - 1), 1)  # as rows are centred, the last one lies within the others' span
    signs = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)[:used]
    coordinates = np.ascontiguousarray((signs[:, None] * triangle[:used]).T)
    return (axes[:, :used] * signs).T, coordinates[np.searchsorted(places, first[which])]
