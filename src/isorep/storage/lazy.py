"""Lazy matrices in files: row slices, and rows by index in any order, are read as arrays.

HDF5 and zarr are fast at slices and slow at indices. Here an index is sorted, its neighbours are read together, and the
rows are returned in the requested order.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .scratch import MEMORY_LIMIT

_RUN_BYTES = 2**25
_MOST_PIECES = 2**16


class LazyMatrix(ABC):
    """Rows that are read on demand."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @abstractmethod
    def _slice(self, start: int, stop: int) -> Array:
        """Consecutive rows, with ``0 <= start <= stop <= len(self)``."""

    @abstractmethod
    def _take(self, rows: Array) -> Array:
        """Rows by an index that is sorted, without repeats."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, tuple):
            first, *rest = rows
            one_row = isinstance(first, int | np.integer)
            part: Array = self[first][tuple(rest) if one_row else (slice(None), *rest)]
            return part
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._slice(start, max(start, stop))
            rows = np.arange(start, stop, step)
        if isinstance(rows, int | np.integer):
            number = int(self._checked(np.array([rows]))[0])
            row: Array = self._slice(number, number + 1)[0]
            return row
        return self._rows(self._checked(np.asarray(rows)))

    def _rows(self, index: Array) -> Array:
        if len(index) == 0:
            return np.empty((0, *self.shape[1:]), self.dtype)
        if np.all(np.diff(index) > 0):
            return self._take(index)
        unique, inverse = np.unique(index, return_inverse=True)
        taken: Array = self._take(unique)[inverse]
        return taken

    def _checked(self, index: Array) -> Array:
        """A one-dimensional index without negative places; masks become indices."""
        if index.dtype == bool and index.shape == self.shape[:1]:
            return np.flatnonzero(index)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise IndexError(f"rows are chosen by a slice or by integers, not by {index.dtype} of shape {index.shape}")
        index = index.astype(np.int64)
        index = np.where(index < 0, index + len(self), index)
        if index.size and (index.min() < 0 or index.max() >= len(self)):
            raise IndexError(f"row index out of bounds for {len(self)} rows")
        return index

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


class StoredMatrix(LazyMatrix):
    """An array of an HDF5 file or a zarr store; ``bridge`` bytes are cheaper to read than to skip."""

    def __init__(self, stored: Any, label: str, chunks: tuple[int, ...] | None, bridge: int) -> None:
        super().__init__(stored.shape, stored.dtype)
        self._stored = stored
        self.chunk_rows = chunks[0] if chunks else None
        self._label = label
        row_bytes = max(1, math.prod(self.shape[1:]) * self.dtype.itemsize)
        self._gap = max(1, bridge // row_bytes, chunks[0] if chunks else 1)
        self._longest = max(1, _RUN_BYTES // row_bytes)

    def _slice(self, start: int, stop: int) -> Array:
        try:
            return np.asarray(self._stored[start:stop])
        except InputError as error:
            raise InputError(f"{self._label}: {error}") from error
        except Exception as error:  # codecs raise what they like
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise InputError(
                f"{self._label}: rows {start} to {stop - 1} cannot be read, the file may be damaged: {reason}"
            ) from error

    def _take(self, rows: Array) -> Array:
        taken = np.empty((len(rows), *self.shape[1:]), self.dtype)
        apart = (np.diff(rows) > self._gap) | (np.diff(rows // self._longest) > 0)
        ends = [*(np.flatnonzero(apart) + 1).tolist(), len(rows)]
        begin = 0
        for end in ends:
            first = int(rows[begin])
            taken[begin:end] = self._slice(first, int(rows[end - 1]) + 1)[rows[begin:end] - first]
            begin = end
        return taken


def require_small_pieces(shape: tuple[int, ...], itemsize: int, chunks: tuple[int, ...] | None) -> None:
    """Refuse an array that cannot be read in small pieces: what it declares would fill the memory."""
    row_bytes = math.prod(shape[1:]) * itemsize
    if row_bytes > MEMORY_LIMIT:
        raise InputError(f"it declares the shape {shape}: one row takes {row_bytes} bytes")
    if chunks is None:
        return
    if min(chunks, default=1) < 1 or len(chunks) != len(shape):
        raise InputError(f"it declares chunks of {chunks} for the shape {shape}")
    chunk_bytes = math.prod(chunks) * itemsize
    if chunk_bytes > MEMORY_LIMIT:
        raise InputError(f"it declares chunks of {chunks}, {chunk_bytes} bytes each: save it with smaller chunks")
    pieces = math.prod(-(-size // chunk) for size, chunk in zip(shape[1:], chunks[1:], strict=True))
    if pieces > _MOST_PIECES:
        raise InputError(f"it declares chunks of {chunks} for the shape {shape}: one row is cut into {pieces} pieces")


def release(values: Any) -> None:
    """Give the resident pages of a read-only memory map back to the system."""
    if not (isinstance(values, np.memmap) and values.mode == "r" and hasattr(mmap, "MADV_DONTNEED")):
        return
    mapped = getattr(values, "_mmap", None)
    if isinstance(mapped, mmap.mmap):
        mapped.madvise(mmap.MADV_DONTNEED)
