"""Applying a fitted affine map to rows, wherever they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import block_rows, map_blocks, read_rows
from .sources import is_dask


def apply_affine(rows: Any, matrix: Array, *, before: Array | None = None, after: Array | None = None) -> Any:
    """``(rows - before) @ matrix + after``: products in float64, the result in the rows' precision.

    The result is an array in memory; a Dask array stays one.
    """
    before = np.zeros(matrix.shape[0]) if before is None else before
    after = np.zeros(matrix.shape[1]) if after is None else after
    if is_dask(rows):
        from .distributed import apply_affine as apply_to_chunks

        return apply_to_chunks(rows, matrix, before, after)
    dtype = np.float64 if rows.dtype == np.float64 else np.float32
    out = np.empty((rows.shape[0], matrix.shape[1]), dtype)

    def fill(part: slice) -> None:
        out[part] = transformed(read_rows(rows, part), matrix, before, after)

    map_blocks(fill, len(out), block_rows(*matrix.shape, cells=2**21))
    return out


def transformed(block: Array, matrix: Array, before: Array, after: Array | float = 0.0) -> Array:
    """One block, in float64; values that are not finite are refused."""
    found = np.asarray((block.astype(np.float64) - before) @ matrix)
    if not np.isfinite(found.sum()) and not np.isfinite(block).all():
        raise InputError("X holds values that are not finite")
    found += after
    return found
