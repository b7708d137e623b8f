r"""Whitened rows and the passes over them: the solver's only access to the data.

A pass returns sums over rows, which add over blocks, processes and machines. One sweep reads each block once,
projects it, applies the contrast in place and accumulates :math:`\sum g(Y)^\top Z`; the projections of all rows
never exist at once. Products of a block are in the data's dtype, their totals in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError, missing_extra
from ..representation import Array, Matrix
from ..rows import blocks, read_rows
from ..storage.scratch import empty
from ..threads import Crew
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

    def curvature(self, directions: Array) -> Array:
        r"""Each direction's :math:`\alpha=\mathbb E\,g'(y)-\mathbb E\,g(y)y`, with its sign."""
        return np.asarray(self.slope - np.einsum("ij,ij->i", self.cross, directions))


@dataclass(frozen=True, eq=False)
class Portrait:
    r"""Statistics of every component :math:`y` and every pair of them, from one last pass.

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

    Both can tie, for sources with one distribution or symmetric rows. Differences by rounding alone are ties, resolved
    by the largest entry of the component's column of ``mixing``: its row decides the order, its sign the sign.
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


def sweep_sums(matrix: Array, contrast: Contrast, z: Array) -> Sums:
    """The sums of one sweep over a block, at the directions in the columns of the matrix."""
    y = z @ matrix
    slope, value = contrast.apply(y, np.empty_like(y))
    return [(y.T @ z).astype(np.float64), slope, value]


def portrait_sums(matrix: Array, contrast: Contrast, z: Array) -> Sums:
    """The sums of the last pass over a block."""
    y = z @ matrix
    square = y * y
    pairs = contrast.slopes(y).T @ square
    third, fourth = column_sums(square * y), column_squares(square)
    g = y.copy()
    slope, value = contrast.apply(g, square)
    np.multiply(g, y, out=y)
    return [slope, value, column_sums(y), column_squares(g), third, fourth, pairs.astype(np.float64)]


def fourth_order_sums(z: Array) -> Sums:
    """The sums of the fourth-order start over a block."""
    weights = np.sqrt(np.einsum("ij,ij->i", z, z))
    weighted = z * weights[:, None]
    return [(weighted.T @ weighted).astype(np.float64)]


class WhiteRows(ABC):
    """Rows with unit covariance; a subclass implements sums over all of them."""

    sweep_sums: Callable[..., Any] = staticmethod(sweep_sums)
    portrait_sums: Callable[..., Any] = staticmethod(portrait_sums)
    fourth_order_sums: Callable[..., Any] = staticmethod(fourth_order_sums)

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self.n, self.width = (int(size) for size in shape)
        self.dtype = dtype

    def sweep(self, directions: Array, contrast: Contrast) -> Sweep:
        """One pass at these directions."""
        return Sweep(*self.means(partial(self.sweep_sums, self.placed(directions.T), contrast)))

    def portrait(self, directions: Array, contrast: Contrast) -> Portrait:
        """One last pass at the components found."""
        return Portrait(*self.means(partial(self.portrait_sums, self.placed(directions.T), contrast)))

    def fourth_order(self) -> Array:
        r"""The matrix :math:`\mathbb E\,\|z\|^2zz^\top`."""
        return self.means(self.fourth_order_sums)[0]

    def sample(self, rows: int, rng: np.random.Generator) -> WhiteRows:
        """Some rows drawn at random; these rows themselves if there are no more."""
        return self if rows >= self.n else self.take(np.sort(rng.choice(self.n, rows, replace=False)))

    def placed(self, matrix: Array) -> Any:
        """A matrix in the precision of the rows, for products with them."""
        return np.ascontiguousarray(matrix, dtype=self.dtype)

    @abstractmethod
    def means(self, block_sums: Callable[[Any], Any]) -> Sums:
        """Mean of a function over blocks: sums added in an order fixed by the shape, divided by the number of rows."""

    @abstractmethod
    def project(self, directions: Array) -> WhiteRows:
        """The rows' coordinates along orthonormal directions."""

    @abstractmethod
    def take(self, rows: Array) -> WhiteRows:
        """The rows of these numbers, in ascending order."""

    @abstractmethod
    def outlying(self, count: int) -> Array:
        """Up to ``count`` rows that lie farthest from the mean, in float64, in their order; none at the mean itself."""


class ArrayRows(WhiteRows):
    """Whitened rows in an array or a memory map, processed by one thread per core."""

    def __init__(self, values: Matrix, crew: Crew) -> None:
        super().__init__(values.shape, values.dtype)
        self.values, self.crew = values, crew

    def means(self, block_sums: Callable[[Array], Sums]) -> Sums:
        """Means over all rows."""

        def of_task(rows: slice) -> Sums:
            return sums_of(read_rows(self.values, rows), block_sums)

        return [total / self.n for total in add(self.crew.stream(of_task, self._tasks(self.n)))]

    def project(self, directions: Array) -> ArrayRows:
        """The rows' coordinates along orthonormal directions, in memory."""
        matrix = self.placed(directions.T)
        return self._made(self.n, matrix.shape[1], lambda part: read_rows(self.values, part) @ matrix)

    def take(self, rows: Array) -> ArrayRows:
        """Some rows, in memory."""
        return self._made(len(rows), self.width, lambda part: read_rows(self.values, rows[part]))

    def outlying(self, count: int) -> Array:
        """The rows farthest from the mean."""
        parts = self.crew.stream(lambda part: row_squares(read_rows(self.values, part)), self._tasks(self.n))
        return read_rows(self.values, farthest(np.concatenate(list(parts)), count)).astype(np.float64)

    def _made(self, n: int, width: int, block: Callable[[slice], Array]) -> ArrayRows:
        return ArrayRows(filled((n, width), self.dtype, block, self.crew, self._tasks(n)), self.crew)

    def _tasks(self, n: int) -> Iterator[slice]:
        return blocks(n, _BLOCKS_A_TASK * _block_rows(self.width))


def row_squares(values: Array) -> Array:
    """The squared length of every row."""
    return np.asarray(np.einsum("ij,ij->i", values, values))


def farthest(squares: Array, count: int) -> Array:
    """The numbers of the longest rows, in ascending order, without rows of no length."""
    order = np.argsort(-squares, kind="stable")[:count]
    return np.sort(order[squares[order] > 0])


def filled(
    shape: tuple[int, int], dtype: Any, block: Callable[[slice], Array], crew: Crew, parts: Iterable[slice]
) -> Array:
    """Rows that a function makes block by block, in memory or in a scratch file."""
    out = empty(shape, dtype)

    def fill(part: slice) -> None:
        out[part] = block(part)

    deque(crew.stream(fill, parts), maxlen=0)
    return out


def sums_of(values: Array, block_sums: Callable[[Array], Sums]) -> Sums:
    """Add up what a function gives for every block of an array in memory."""
    return add(block_sums(values[part]) for part in blocks(len(values), _block_rows(values.shape[1])))


def _block_rows(width: int) -> int:
    return int(np.clip(_BLOCK_CELLS // width, 256, 4096))


def add(parts: Iterable[Sums]) -> Sums:
    """Sums of sums, in order; the first part is added to."""
    every = iter(parts)
    total = next(every)
    for part in every:
        for mine, theirs in zip(total, part, strict=True):
            mine += theirs
    return total


# Rows on a torch device: the same sums as on the processor

_TORCH_CELLS = 2**25


def on_device(rows: WhiteRows, device: str | None) -> WhiteRows:
    """Whitened rows copied to a torch device, where one is named."""
    if device is None:
        return rows
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "torch", f"device={device!r}") from None
    if not isinstance(rows, ArrayRows):
        raise InputError("device= is for rows on this machine; Dask workers compute where they are")
    try:
        where = torch.device(device)
        if where.type == "meta":
            raise RuntimeError("it holds no numbers")
        precision = torch.float64 if rows.dtype == np.float64 and where.type != "mps" else torch.float32
        values = torch.empty((rows.n, rows.width), dtype=precision, device=where)
        for part in blocks(rows.n, max(_TORCH_CELLS // rows.width, 1)):
            values[part] = torch.from_numpy(np.array(rows.values[part])).to(precision).to(where)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"torch cannot use the device {device!r}: {str(error).splitlines()[0]}") from None
    return TorchRows(values)


def _torch_sweep(matrix: Any, contrast: Contrast, z: Any) -> list[Any]:
    g, slope, value = _TORCH_CONTRASTS[contrast.name](z @ matrix)
    return [g.T @ z, slope.sum(0), value.sum(0)]


def _torch_portrait(matrix: Any, contrast: Contrast, z: Any) -> list[Any]:
    y = z @ matrix
    g, slope, value = _TORCH_CONTRASTS[contrast.name](y)
    square = y * y
    sums = [each.sum(0) for each in (slope, value, g * y, g * g, square * y, square * square)]
    return [*sums, slope.T @ square]


def _torch_fourth_order(z: Any) -> list[Any]:
    return [(z * (z * z).sum(1, keepdim=True)).T @ z]


class TorchRows(WhiteRows):
    """Whitened rows in a tensor, which stays on its device."""

    sweep_sums = staticmethod(_torch_sweep)
    portrait_sums = staticmethod(_torch_portrait)
    fourth_order_sums = staticmethod(_torch_fourth_order)

    def __init__(self, values: Any) -> None:
        super().__init__(values.shape, values.dtype)
        self.values = values

    def means(self, block_sums: Callable[[Any], list[Any]]) -> Sums:
        """Means over all rows, in float64."""
        parts = (block_sums(self.values[part]) for part in blocks(self.n, max(_TORCH_CELLS // self.width, 1)))
        return [total / self.n for total in add([each.double().cpu().numpy() for each in part] for part in parts)]

    def project(self, directions: Array) -> TorchRows:
        """The rows' coordinates along orthonormal directions."""
        return TorchRows(self.values @ self.placed(directions.T))

    def take(self, rows: Array) -> TorchRows:
        """Some rows."""
        return TorchRows(self.values[rows])

    def outlying(self, count: int) -> Array:
        """The rows farthest from the mean."""
        squares = (self.values * self.values).sum(1).double().cpu().numpy()
        return np.asarray(self.values[farthest(squares, count)].double().cpu().numpy())

    def placed(self, matrix: Array) -> Any:
        """A matrix on the device, in the precision of the rows."""
        return self.values.new_tensor(np.ascontiguousarray(matrix))


def _torch_logcosh(y: Any) -> tuple[Any, Any, Any]:
    g, size = y.tanh(), y.abs()
    return g, 1 - g * g, size + (-2 * size).exp().log1p() - float(np.log(2.0))


def _torch_exp(y: Any) -> tuple[Any, Any, Any]:
    bell = (-y * y / 2).exp()
    return y * bell, (1 - y * y) * bell, -bell


def _torch_cube(y: Any) -> tuple[Any, Any, Any]:
    square = y * y
    return square * y, 3 * square, square * square / 4


_TORCH_CONTRASTS = {"logcosh": _torch_logcosh, "exp": _torch_exp, "cube": _torch_cube}  # y -> g(y), g'(y), G(y)
