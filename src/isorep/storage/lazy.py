"""Lazy matrices in files: row slices, and rows by index in any order, are read as arrays.

Plain arrays are read by position, never mapped: a mapped file that shrinks ends the process (SIGBUS). HDF5 and zarr are
fast at slices and slow at indices. Here an index is sorted, its neighbours are read together, and the rows are returned
in the requested order.
"""

from __future__ import annotations

import math
import mmap
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .scratch import MEMORY_LIMIT

HELD_BYTES = 2**26  # a plain array up to this size is read at once
_RUN_BYTES = 2**25
_PLAIN_BRIDGE = 2**14
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


class PlainArray:
    """An array that lies uncompressed in a file, from byte ``offset`` on; it is refused once the file has changed."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any, offset: int, *, by_columns: bool) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._path, self._offset, self._by_columns = path, offset, by_columns
        self._file = _Descriptor(path)
        self._stamp = self._file.stamp()

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        count, rest = max(stop - start, 0), math.prod(self.shape[1:])
        item = self.dtype.itemsize
        if self._by_columns:  # the first index runs fastest: a piece of every column
            pieces = np.empty((rest, count), self.dtype)
            for place, piece in enumerate(pieces):
                self._fill(piece, self._offset + (place * self.shape[0] + start) * item)
            block = pieces.T.reshape((count, *self.shape[1:]), order="F")
        else:
            block = np.empty((count, *self.shape[1:]), self.dtype)
            self._fill(block, self._offset + start * rest * item)
        if self._file.stamp() != self._stamp:
            raise InputError("the file was changed while it was read: run again when nothing writes to it")
        return block

    def _fill(self, block: Array, position: int) -> None:
        if block.nbytes == 0:
            return
        flat: Any = block.reshape(-1).view(np.uint8)
        view = memoryview(flat)
        while len(view):
            count = self._file.read_at(view, position)
            if not count:
                raise InputError("the file became shorter while it was read: run again when nothing writes to it")
            view, position = view[count:], position + count


class _Descriptor:
    """An open file, which is closed with the last array that reads it; a copy in another process opens it again."""

    def __init__(self, path: Path) -> None:
        self._number = -1  # if opening fails there is nothing to close
        self._path = path
        self._number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def __reduce__(self) -> tuple[Any, ...]:
        return _Descriptor, (self._path,)

    def __del__(self) -> None:
        if self._number >= 0:
            os.close(self._number)

    def stamp(self) -> tuple[int, int]:
        """What changes when the file is written to: its size, and the time of the last change."""
        known = os.fstat(self._number)
        return known.st_size, known.st_mtime_ns

    def read_at(self, view: memoryview, position: int) -> int:
        """Read into memory from a position of the file; the number of bytes."""
        if hasattr(os, "preadv"):
            return os.preadv(self._number, [view], position)
        with self._path.open("rb", buffering=0) as file:  # Windows cannot read at a position
            file.seek(position)
            return file.readinto(view) or 0


class PlainMatrix(StoredMatrix):
    """A plain array of a file, whose rows are read on demand."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any, offset: int, *, by_columns: bool) -> None:
        stored = PlainArray(path, shape, dtype, offset, by_columns=by_columns)
        super().__init__(stored, path.name, None, _PLAIN_BRIDGE)


def held_if_small(values: Any) -> Any:
    """A plain array of a file as an array in memory, unless it is large."""
    small = isinstance(values, PlainMatrix) and math.prod(values.shape) * values.dtype.itemsize <= HELD_BYTES
    return values[:] if small else values


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
