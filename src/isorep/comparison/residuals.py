"""The residuals of many maps in one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def shift(self, block: Array, mean: Array) -> Array:
        """Rows about the mean; the difference is taken in float64, so large means do not cost digits."""
        return (block.astype(np.float64) - mean).astype(self.dtype, copy=False)

    def swapped(self) -> Centre:
        """The same for the reverse direction."""
        return Centre(self.target, self.source, self.dtype)


class Prepared:
    """A map made ready for shifted rows, in the working dtype."""

    def __init__(self, affine: AffineMap, centre: Centre) -> None:
        matrix, offset = affine.about(centre.source, centre.target)
        self._offset = offset.astype(centre.dtype)
        self._width = affine.target_width
        self._columns, self._weights = _as_matching(matrix, centre.dtype)
        self._matrix = matrix.astype(centre.dtype) if self._columns is None else None

    def norms(self, x: Array, y: Array) -> Array:
        """The distance of each mapped row from its target, for rows already shifted."""
        error = x @ self._matrix if self._matrix is not None else x[:, self._columns] * self._weights
        error += self._offset
        error[:, : self._width] -= y
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", error, error, dtype=np.float64)))


@dataclass(frozen=True, eq=False)
class FittedRung:
    """One rung in one direction: the map fitted on all rows, and those fitted without each fold."""

    whole: AffineMap
    without: Sequence[AffineMap]


def residual_pass(
    x: Matrix,
    y: Matrix,
    folds: Array,
    centre: Centre,
    forward: dict[str, FittedRung],
    reverse: dict[str, FittedRung],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Array], dict[str, Array], Array, Array]:
    """In-sample and held-out residuals of every rung in both directions, and the rows' distances from the means.

    Returns two dicts, forward and reverse, of (2, n) arrays (in-sample, held-out), and two arrays of norms.
    """
    n = x.shape[0]
    directions = []
    for rungs, middle in ((forward, centre), (reverse, centre.swapped())):
        ready = {
            name: (Prepared(rung.whole, middle), [Prepared(each, middle) for each in rung.without])
            for name, rung in rungs.items()
        }
        directions.append((ready, {name: np.empty((2, n)) for name in rungs}))
    radii = np.empty((2, n))

    def evaluate(rows: slice) -> None:
        pair = (
            centre.shift(read_rows(x, rows), centre.source),
            centre.shift(read_rows(y, rows), centre.target),
        )
        for side, block in enumerate(pair):
            radii[side, rows] = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
        for place, (ready, out) in enumerate(directions):
            for name, (whole, _) in ready.items():
                out[name][0, rows] = whole.norms(pair[place], pair[1 - place])
        here = folds[rows]
        for fold in np.unique(here):
            mine = np.flatnonzero(here == fold)
            part = (pair[0][mine], pair[1][mine])
            for place, (ready, out) in enumerate(directions):
                for name, (_, without) in ready.items():
                    out[name][1, rows.start + mine] = without[fold].norms(part[place], part[1 - place])

    size = max(64, block_rows(x.shape[1], y.shape[1]) // 2)
    map_blocks(evaluate, n, size, progress=progress)
    return directions[0][1], directions[1][1], radii[0], radii[1]


def _as_matching(matrix: Array, dtype: Any) -> tuple[Array | None, Array | None]:
    """Column indices and weights of a matrix with at most one entry a column, which is applied without a product."""
    nonzero = matrix != 0
    if nonzero.sum(axis=0).max(initial=0) > 1:
        return None, None
    columns = np.argmax(nonzero, axis=0)
    return columns, matrix[columns, np.arange(matrix.shape[1])].astype(dtype)
