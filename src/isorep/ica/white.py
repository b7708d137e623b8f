r"""Whitened rows and the passes over them: all that the solver ever asks of the data.

A pass returns sums over rows, which add over blocks, processes and machines. One sweep reads each block once,
projects it, applies the contrast in place and accumulates :math:`\sum g(Y)^\top Z`; the projections of all rows
never exist at once. Products of a block are in the data's dtype, their totals in float64.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..representation import Array, Matrix
from ..rows import Crew, blocks, read_rows
from ..storage.scratch import empty
from .contrasts import Contrast, column_squares, column_sums

_BLOCK_CELLS = 3 * 2**18  # cells of a block: its rows and their projections stay in the cache of a core
_BLOCKS_A_TASK = 8
_TIE = 1e-5  # below it contrasts (relatively), skewnesses and loadings differ by rounding alone, float32's too

Sums = list[Array]


@dataclass(frozen=True, eq=False)
class Sweep:
    r"""Means over all rows at directions :math:`W`, one row each.

    ``cross`` is :math:`\mathbb E\,g(Wz)z^\top`, ``slope`` :math:`\mathbb E\,g'(Wz)` and ``value``
    :math:`\mathbb E\,G(Wz)`.
    """

    cross: Array
    slope: Array
    value: Array


@dataclass(frozen=True, eq=False)
class Portrait:
    r"""What one last pass tells about every component :math:`y` and every pair of them.

    ``third`` and ``fourth`` are moments, ``pairs[i, j]`` is :math:`\mathbb E\,g'(y_i)y_j^2`, ``product``
    :math:`\mathbb E\,g(y)y` and ``square`` :math:`\mathbb E\,g(y)^2`; ``slope`` and ``value`` are as in a sweep.
    """

    slope: Array
    value: Array
    product: Array
    square: Array
    third: Array
    fourth: Array
    pairs: Array

    @property
    def alpha(self) -> Array:
        """Each component's curvature, with its sign: positive for super-Gaussian ones under logcosh."""
        return np.asarray(self.slope - self.product)


def canonical_form(excess: Array, third: Array, mixing: Array) -> tuple[Array, Array]:
    """The order and the signs of components: by distance from a Gaussian's contrast, with non-negative skewness.

    Both can tie: sources of one distribution in equal numbers, symmetric rows. What differs by rounding alone is
    settled by the largest entry of the component's column of ``mixing``: its row decides the order, its sign the sign.
    """
    size = np.abs(mixing)
    leading = np.argmax(size >= (1 - _TIE) * size.max(axis=0), axis=0)
    by_loading = np.where(mixing[leading, np.arange(len(leading))] >= 0, 1.0, -1.0)
    signs = np.where(np.abs(third) <= _TIE, by_loading, np.where(third >= 0, 1.0, -1.0))
    distance = np.abs(excess)
    order = np.argsort(-distance, kind="stable")
    steps = -np.diff(distance[order]) > _TIE * distance.max(initial=0.0)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.concatenate([[0], np.cumsum(steps)])
    return np.lexsort((-size.max(axis=0), leading, rank)), signs


class WhiteRows(Protocol):
    """Rows with unit covariance, wherever they lie."""

    n: int
    width: int

    def sweep(self, directions: Array, contrast: Contrast) -> Sweep:
        """One pass at these directions."""

    def fourth_order(self) -> Array:
        r"""The matrix :math:`\mathbb E\,\|z\|^2zz^\top`."""

    def portrait(self, directions: Array, contrast: Contrast) -> Portrait:
        """One last pass at the components found."""

    def project(self, directions: Array) -> WhiteRows:
        """The rows' coordinates along orthonormal directions."""

    def sample(self, rows: int, rng: np.random.Generator) -> WhiteRows:
        """Some rows drawn at random; these rows themselves if there are no more."""


class ArrayRows:
    """Whitened rows in an array or a memory map, worked on by one thread a core."""

    def __init__(self, values: Matrix, crew: Crew) -> None:
        self.values, self.crew = values, crew
        self.n, self.width = int(values.shape[0]), int(values.shape[1])

    def sweep(self, directions: Array, contrast: Contrast) -> Sweep:
        """One pass at these directions."""
        return as_sweep(self.sums(SweepPass(directions, contrast)), self.n)

    def fourth_order(self) -> Array:
        """The start's matrix."""
        return np.asarray(self.sums(fourth_order_block)[0] / self.n)

    def portrait(self, directions: Array, contrast: Contrast) -> Portrait:
        """One last pass at the components found."""
        return as_portrait(self.sums(PortraitPass(directions, contrast)), self.n)

    def project(self, directions: Array) -> ArrayRows:
        """The rows' coordinates along orthonormal directions, in memory."""
        matrix = np.ascontiguousarray(directions.T, dtype=self.values.dtype)
        out = empty((self.n, matrix.shape[1]), matrix.dtype)

        def fill(rows: slice) -> None:
            np.matmul(read_rows(self.values, rows), matrix, out=out[rows])

        deque(self.crew.stream(fill, blocks(self.n, _BLOCKS_A_TASK * self._block)), maxlen=0)
        return ArrayRows(out, self.crew)

    def sample(self, rows: int, rng: np.random.Generator) -> ArrayRows:
        """Some rows drawn at random; these rows themselves if there are no more."""
        if rows >= self.n:
            return self
        chosen = np.sort(rng.choice(self.n, rows, replace=False))
        out = empty((rows, self.width), self.values.dtype)

        def fill(part: slice) -> None:
            out[part] = read_rows(self.values, chosen[part])

        deque(self.crew.stream(fill, blocks(rows, _BLOCKS_A_TASK * self._block)), maxlen=0)
        return ArrayRows(out, self.crew)

    def sums(self, block_sums: Callable[[Array], Sums]) -> Sums:
        """Add up what a function gives for every block. The order of addition is fixed by the shape alone."""

        def of_task(rows: slice) -> Sums:
            return sums_of(read_rows(self.values, rows), block_sums)

        return add(self.crew.stream(of_task, blocks(self.n, _BLOCKS_A_TASK * self._block)))

    @property
    def _block(self) -> int:
        return _block_rows(self.width)


class SweepPass:
    """The sums of one sweep over a block; a class, so that it can travel to other processes."""

    def __init__(self, directions: Array, contrast: Contrast) -> None:
        self.directions, self.contrast = directions, contrast

    def __call__(self, z: Array) -> Sums:
        """Sums over the rows of a block."""
        y = z @ np.ascontiguousarray(self.directions.T, dtype=z.dtype)
        slope, value = self.contrast.apply(y, np.empty_like(y))
        return [(y.T @ z).astype(np.float64), slope, value]


class PortraitPass:
    """The sums of the last pass over a block."""

    def __init__(self, directions: Array, contrast: Contrast) -> None:
        self.directions, self.contrast = directions, contrast

    def __call__(self, z: Array) -> Sums:
        """Sums over the rows of a block."""
        y = z @ np.ascontiguousarray(self.directions.T, dtype=z.dtype)
        square = y * y
        pairs = self.contrast.slopes(y).T @ square
        third, fourth = column_sums(square * y), column_squares(square)
        g = y.copy()
        slope, value = self.contrast.apply(g, square)
        np.multiply(g, y, out=y)
        return [slope, value, column_sums(y), column_squares(g), third, fourth, pairs.astype(np.float64)]


def fourth_order_block(z: Array) -> Sums:
    """The sums of the fourth-order start over a block."""
    weights = np.sqrt(np.einsum("ij,ij->i", z, z))
    weighted = z * weights[:, None]
    return [(weighted.T @ weighted).astype(np.float64)]


def sums_of(values: Array, block_sums: Callable[[Array], Sums]) -> Sums:
    """Add up what a function gives for every block of an array in memory."""
    return add(block_sums(values[part]) for part in blocks(len(values), _block_rows(values.shape[1])))


def _block_rows(width: int) -> int:
    return int(np.clip(_BLOCK_CELLS // width, 256, 4096))


def as_sweep(sums: Sums, n: int) -> Sweep:
    """Means from the sums of a sweep."""
    return Sweep(*(each / n for each in sums))


def as_portrait(sums: Sums, n: int) -> Portrait:
    """Means from the sums of the last pass."""
    return Portrait(*(each / n for each in sums))


def add(parts: Iterable[Sums]) -> Sums:
    """Sums of sums, in order."""
    total: Sums | None = None
    for part in parts:
        if total is None:
            total = part
        else:
            for mine, theirs in zip(total, part, strict=True):
                mine += theirs
    if total is None:
        raise ValueError("there is nothing to add up")
    return total
