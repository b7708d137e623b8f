"""Dask rows: the passes of whitening and ICA over chunks, each one task per chunk and a tree of sums.

Workers load the chunks and keep the whitened rows; only sums are returned. Passes are made by ``isorep.chunked``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
from dask import delayed

from ..chunked import (
    ChunkedRows,
    computed,
    joined,
    reduced,
    shared,
    starts,
    whole_rows,
)
from ..errors import InputError
from ..moments import Moments, merged
from ..representation import Array, rounding_of
from ..rows import ProjectedRows, block_rows, blocks
from ..threads import Crew, one_blas_thread
from . import whitening
from .unmixing import FINGERPRINT_ROWS
from .white import ArrayRows, Sums, WhiteRows, add, farthest, row_squares, sums_of

_LEAST_CELLS = 2**19  # of a whitened chunk: smaller ones are joined, because each task has an overhead of a millisecond
_NEAR_CELLS = 2**22  # rows up to this size are fetched: local passes cost less than tasks


class DaskSource:
    """A Dask array of rows; the sizes of its chunks need not be known."""

    def __init__(self, data: Any) -> None:
        rows = data if isinstance(data, ChunkedRows) else ChunkedRows(data)
        self.dtype = rows.dtype
        self.rounding = rounding_of(rows)
        self._rows, self._chunks, self._width = rows, rows.chunks, rows.width

    @property
    def lengths(self) -> list[int]:
        """Rows of each chunk; counted in an extra pass if unknown."""
        return self._rows.lengths

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return sum(self.lengths), self._width

    def moments(self, mean: Array | None, basis: Array | None) -> Moments:
        """One pass over the rows, which also counts them."""
        space = shared(None if mean is None or basis is None else (mean, basis))
        task = delayed(_chunk_moments, pure=False)
        parts = [task(chunk, space) for chunk in self._chunks]
        self._rows.lengths, total = computed([reduced(_merged_moments, parts)], warn=mean is None)[0]
        self._require_usable(total)
        return total  # type: ignore[no-any-return]

    def whitened(self, mean: Array, whitener: Array, crew: Crew) -> DaskRows:
        """Whitened rows, kept by the workers: products in float64, stored as float64 only if the rows are."""
        dtype = np.dtype(np.float64 if self.dtype == np.float64 else np.float32)
        matrix, before, task = shared(whitener), shared(mean), delayed(_affine, pure=False)
        chunks = [task(chunk, matrix, before) for chunk in self._chunks]
        return DaskRows(chunks, self.lengths, whitener.shape[1], dtype, crew)

    def fingerprint(self) -> str:
        """The same as that of an array with these rows, however they are cut."""
        step = max(self.shape[0] // FINGERPRINT_ROWS, 1)
        task, begins = delayed(getitem, pure=False), starts(self.lengths)
        parts = [task(chunk, slice(-at % step, None, step)) for chunk, at in zip(self._chunks, begins, strict=True)]
        digest = hashlib.sha256(f"{self.shape} {self.dtype.str}".encode())
        for rows in computed(parts):
            digest.update(rows.tobytes())
        return digest.hexdigest()

    def _require_usable(self, total: Moments) -> None:
        if total.n == 0:
            raise InputError("X has no rows")
        if np.isfinite(total.source_mean).all() and np.isfinite(np.diagonal(total.xx)).all():
            return
        bad = computed([delayed(_not_finite, pure=False)(chunk) for chunk in self._chunks])
        count = sum(number for number, _, _ in bad)
        if not count:
            raise InputError("X holds values so large that their squares overflow: rescale it")
        chunk = next(index for index, (number, _, _) in enumerate(bad) if number)
        row, column = starts(self.lengths)[chunk] + bad[chunk][1], bad[chunk][2]
        values = f"{count} NaN or infinite value{'s' if count > 1 else ''}"
        raise InputError(f"X holds {values}, the first at row {row}, column {column}")


class DaskRows(WhiteRows):
    """Whitened rows that the workers keep, in the chunks they came in; very small chunks are joined."""

    def __init__(
        self, chunks: Sequence[Any], lengths: Sequence[int], width: int, dtype: np.dtype[Any], crew: Crew
    ) -> None:
        super().__init__((sum(lengths), width), dtype)
        groups = list(joined(lengths, width, _LEAST_CELLS))
        self._chunks = computed([_joined([chunks[index] for index in group]) for group in groups], keep=True)
        self._lengths = [sum(lengths[index] for index in group) for group in groups]
        self._crew = crew

    def means(self, block_sums: Callable[[Array], Sums]) -> Sums:
        """Means over all rows: one task per chunk, and a tree of sums."""
        function, task = shared(block_sums), delayed(_chunk_sums, pure=False)
        total: Sums = computed([reduced(_added, [task(chunk, function) for chunk in self._chunks])])[0]
        return [each / self.n for each in total]

    def project(self, directions: Array) -> WhiteRows:
        """The rows' coordinates along orthonormal directions."""
        matrix, task = shared(self.placed(directions.T)), delayed(_projected, pure=False)
        return self._made([task(chunk, matrix) for chunk in self._chunks], self._lengths, len(directions))

    def take(self, rows: Array) -> WhiteRows:
        """Some rows, the same ones however they are cut."""
        begins = starts(self._lengths)
        ends = np.searchsorted(rows, [*begins, self.n])
        picks = [rows[ends[index] : ends[index + 1]] - start for index, start in enumerate(begins)]
        task = delayed(getitem, pure=False)
        chunks = [task(chunk, pick) for chunk, pick in zip(self._chunks, picks, strict=True)]
        return self._made(chunks, [len(pick) for pick in picks], self.width)

    def outlying(self, count: int) -> Array:
        """The rows farthest from the mean: those of every chunk, merged in a tree."""
        task, merge = delayed(_outlying, pure=False), partial(_merged_outlying, count)
        return np.asarray(computed([reduced(merge, [task(chunk, count) for chunk in self._chunks])])[0])

    def _made(self, chunks: Sequence[Any], lengths: Sequence[int], width: int) -> WhiteRows:
        """Rows made from these: in local memory if they are few, otherwise on the workers."""
        if sum(lengths) * width > _NEAR_CELLS:
            return DaskRows(chunks, lengths, width, self.dtype, self._crew)
        return ArrayRows(np.concatenate(computed(chunks)), self._crew)


def apply_affine(rows: Any, matrix: Array, before: Array, after: Array) -> Any:
    """``(rows - before) @ matrix + after`` as a Dask array, not yet computed."""
    rows = whole_rows(rows)
    dtype = np.float64 if rows.dtype == np.float64 else np.float32
    chunks = (rows.chunks[0], (matrix.shape[1],))
    return rows.map_blocks(_affine, matrix, before, after, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))


def _chunk_moments(values: Array, space: tuple[Array, Array] | None) -> tuple[list[int], Moments]:
    """The number of rows of a chunk, and their moments."""
    rows = values if space is None else ProjectedRows(values, *space)
    moments = Moments.empty(rows.shape[1], 0)
    with one_blas_thread, np.errstate(over="ignore", invalid="ignore"):  # overflow is reported in the end
        for part in blocks(len(values), block_rows(*values.shape[1:], rows.shape[1])):
            block = rows[part]
            moments.absorb_rows(block, np.empty((len(block), 0)))
    return [len(values)], moments


def _merged_moments(parts: list[tuple[list[int], Moments]]) -> tuple[list[int], Moments]:
    with np.errstate(over="ignore", invalid="ignore"):
        return [length for lengths, _ in parts for length in lengths], merged([moments for _, moments in parts])


def _not_finite(values: Array) -> tuple[int, int, int]:
    """How many values are not finite, and row and column of the first."""
    bad = np.argwhere(~np.isfinite(values))
    return (len(bad), int(bad[0, 0]), int(bad[0, 1])) if len(bad) else (0, 0, 0)


def _affine(values: Array, matrix: Array, before: Array, after: Array | None = None) -> Array:
    with one_blas_thread:
        return np.asarray(whitening.apply_affine(values, matrix, before=before, after=after))


def _projected(values: Array, matrix: Array) -> Array:
    with one_blas_thread:
        return np.asarray(values @ matrix)


def _chunk_sums(values: Array, block_sums: Callable[[Array], Sums]) -> Sums:
    with one_blas_thread:
        return sums_of(values, block_sums)


def _outlying(values: Array, count: int) -> Array:
    return np.asarray(values[farthest(row_squares(values), count)], dtype=np.float64)


def _merged_outlying(count: int, parts: list[Array]) -> Array:
    return _outlying(np.concatenate(parts), count)


def _added(parts: list[Sums]) -> Sums:
    """Sums of sums; inputs stay unchanged, because Dask may use them again."""
    return add([[each.copy() for each in parts[0]], *parts[1:]])


def _joined(chunks: list[Any]) -> Any:
    return chunks[0] if len(chunks) == 1 else delayed(np.concatenate, pure=False)(chunks)
