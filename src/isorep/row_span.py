"""Few rows of many columns, in the coordinates of their span.

The rows of a side that has fewer of them than columns lie, about their mean, in a space with no more dimensions than
rows. Orthonormal axes of it change no distance and no product of rows. So all that depends on these alone, such as
rotations, least squares and independent components, costs as much as with as many columns as rows. The coordinates
are those of Gram and Schmidt, in the order of the rows: rotated rows have the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .representation import Array, Matrix
from .rows import read_rows, refuse_non_finite


@dataclass(frozen=True, eq=False)
class RowSpan:
    """The mean of some rows, orthonormal axes of their span about it, as rows, and the rows in these coordinates."""

    mean: Array
    axes: Array
    rows: Array

    @classmethod
    def of(cls, values: Matrix, name: str) -> RowSpan:
        """That of all rows; a side with no more columns than rows keeps its columns."""
        refuse_non_finite(values, name)
        rows = read_rows(values, slice(None)).astype(np.float64)
        n, d = rows.shape
        with np.errstate(over="ignore", invalid="ignore"):  # sums of squares will tell
            first = rows[0].copy()
            rows -= first
            shift = rows.mean(axis=0)
            rows -= shift
        if d <= n:
            return cls(first + shift, np.eye(d), rows)
        axes, triangle = np.linalg.qr(rows.T)
        signs = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
        return cls(first + shift, (axes * signs).T, np.ascontiguousarray((signs[:, None] * triangle).T))

    @property
    def width(self) -> int:
        """The number of axes."""
        return len(self.axes)

    def centred(self) -> Array:
        """The rows about their mean, in their columns."""
        return np.asarray(self.rows @ self.axes)

    def spread(self) -> Array:
        """The sum of squares of every column."""
        return np.asarray(np.einsum("ij,ij->j", self.axes, (self.rows.T @ self.rows) @ self.axes))


def spans_of_few(x: Matrix, y: Matrix, names: tuple[str, str]) -> tuple[RowSpan, RowSpan] | None:
    """The spans of two sides, where their rows are fewer than the columns of one of them."""
    if int(x.shape[0]) >= max(int(x.shape[1]), int(y.shape[1])):
        return None
    return RowSpan.of(x, names[0]), RowSpan.of(y, names[1])
