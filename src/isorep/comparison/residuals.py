"""The residuals of many maps in one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..alignment import AffineMap
from ..representation import Array, Matrix
from ..rows import block_rows, map_blocks, read_rows


@dataclass(frozen=True, eq=False)
class Centre:
    """The means that rows are shifted by before maps are applied, and the dtype the work is done in."""

    source: Array
    target: Array
    dtype: Any

    def shift(self, block: Array, side: int) -> Array:
        """Rows about the mean of their side (0 source, 1 target).

        The difference is taken in float64, so large means do not cost digits.
        """
        mean = self.target if side else self.source
        return np.subtract(block, mean, dtype=np.float64).astype(self.dtype, copy=False)


class PreparedMaps:
    """A map and its counterpart in the reverse direction, made ready for rows about the map's own means.

    For orthogonal maps one product serves both directions: with P the rotated source, the source's residual
    ‖x − s′yQᵀ‖ equals ‖P − s′y‖.
    """

    def __init__(self, forward: AffineMap, reverse: AffineMap, dtype: Any) -> None:
        self._forward = _Linear(forward.linear if forward.orthogonal else forward.matrix, dtype)
        self._reverse = None if forward.orthogonal else _Linear(reverse.matrix, dtype)
        self._scales = (np.dtype(dtype).type(forward.scale), np.dtype(dtype).type(reverse.scale))

    def norms(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Residual norms forward and reverse."""
        mapped = self._forward(x)
        if self._reverse is not None:
            back = self._reverse(y)
            _subtract(mapped, y)
            _subtract(back, x)
            return _norms(mapped), _norms(back)
        scale, back_scale = self._scales
        error = mapped * scale
        _subtract(error, y)
        _subtract(mapped, y * back_scale)
        return _norms(error), _norms(mapped)


class _Linear:
    """A matrix in the working dtype; one that only moves and weights columns is applied without a product."""

    def __init__(self, matrix: Array, dtype: Any) -> None:
        self._columns = _only_entries(matrix)
        if self._columns is None:
            self._weights = matrix.astype(dtype)
        else:
            self._weights = matrix[self._columns, np.arange(matrix.shape[1])].astype(dtype)

    def __call__(self, x: Array) -> Array:
        if self._columns is None:
            return np.asarray(x @ self._weights)
        moved: Array = np.take(x, self._columns, axis=1)
        moved *= self._weights
        return moved


def _only_entries(matrix: Array) -> Array | None:
    """For a matrix with at most one entry a column the row of that entry; otherwise None."""
    if np.count_nonzero(matrix[:, 0]) > 1:  # the usual dense case, told at once
        return None
    nonzero = matrix != 0
    return np.argmax(nonzero, axis=0) if nonzero.sum(axis=0).max(initial=0) <= 1 else None


def _subtract(mapped: Array, rows: Array) -> None:
    mapped[:, : rows.shape[1]] -= rows


def _norms(error: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", error, error)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FittedRung:
    """One rung: the maps (forward, reverse) fitted on all rows, and those fitted without each fold."""

    whole: tuple[AffineMap, AffineMap]
    without: Sequence[tuple[AffineMap, AffineMap]]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residual norms of every row: for each rung an array (direction, in-sample or held-out, row).

    ``radii`` are the rows' distances from the mean, of source and target.
    """

    rungs: dict[str, Array]
    radii: Array


def residual_pass(
    x: Matrix,
    y: Matrix,
    folds: Array,
    centre: Centre,
    rungs: dict[str, FittedRung],
    progress: Callable[[int, int], None] | None = None,
) -> Residuals:
    """In-sample and held-out residuals of every rung in both directions."""
    n = x.shape[0]
    passes = HeldOutMaps(rungs, centre)
    result = Residuals({name: np.empty((2, 2, n)) for name in rungs}, np.empty((2, n)))

    def evaluate(rows: slice) -> None:
        x_block, y_block = centre.shift(read_rows(x, rows), 0), centre.shift(read_rows(y, rows), 1)
        result.radii[:, rows] = _norms(x_block), _norms(y_block)
        for name, norms in passes.whole(x_block, y_block):
            result.rungs[name][:, 0, rows] = norms
        here = folds[rows]
        for fold in np.unique(here):
            mine = np.flatnonzero(here == fold)
            for name, norms in passes.without(fold, x_block[mine], y_block[mine]):
                result.rungs[name][:, 1, rows.start + mine] = norms
        if "identity" in rungs:
            result.rungs["identity"][:, :, rows] = passes.identity(x_block, y_block)

    # Smaller blocks than for moments: several are in work at once, and the last ones should end together.
    map_blocks(evaluate, n, max(64, block_rows(x.shape[1], y.shape[1]) // 4), progress=progress)
    return result


class HeldOutMaps:
    """Every fitted rung made ready; those of one training set share its means, so rows are centred once for all."""

    def __init__(self, rungs: dict[str, FittedRung], centre: Centre) -> None:
        fitted = {name: rung for name, rung in rungs.items() if name != "identity"}
        dtype = centre.dtype
        self._whole = {name: PreparedMaps(*rung.whole, dtype) for name, rung in fitted.items()}
        self._without = {name: [PreparedMaps(*maps, dtype) for maps in rung.without] for name, rung in fitted.items()}
        self._offsets: list[tuple[Array, Array]] = []
        for rung in list(fitted.values())[:1]:
            for forward, _ in rung.without:
                offsets = (forward.source_mean - centre.source, forward.target_mean - centre.target)
                self._offsets.append((offsets[0].astype(dtype), offsets[1].astype(dtype)))
        d_x, d_y = len(centre.source), len(centre.target)
        self._gap = np.zeros(max(d_x, d_y))
        self._gap[:d_x] += centre.source
        self._gap[:d_y] -= centre.target
        self._dtype = dtype

    def whole(self, x: Array, y: Array) -> Iterator[tuple[str, tuple[Array, Array]]]:
        """Residual norms of the maps fitted on all rows, for rows about the common centre."""
        for name, maps in self._whole.items():
            yield name, maps.norms(x, y)

    def without(self, fold: int, x: Array, y: Array) -> Iterator[tuple[str, tuple[Array, Array]]]:
        """Residual norms of the maps fitted without a fold; the arrays are changed."""
        if self._offsets:
            x -= self._offsets[fold][0]
            y -= self._offsets[fold][1]
        for name, maps in self._without.items():
            yield name, maps[fold].norms(x, y)

    def identity(self, x: Array, y: Array) -> Array:
        """The distance of paired rows as they are, which no fit changes."""
        apart = np.tile(self._gap.astype(self._dtype), (len(x), 1))
        apart[:, : x.shape[1]] += x
        _subtract(apart, y)
        return _norms(apart)
