"""Row blocks: passes over rows in memory, in files or on workers.

A pass slices blocks of consecutive rows, so a memory map is read once in order and never held as a whole. A pass over
the chunks of Dask arrays runs the same functions in the workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np

from .chunked import ChunkedRows, keep_all, pass_over
from .errors import InputError
from .representation import Array, Matrix, Representation, rounding_of
from .storage.lazy import release
from .threads import Crew

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[str, int, int], None]

BLOCK_CELLS = 6 * 2**20  # 48 MiB in float64: large enough for BLAS, small compared with any input that needs blocks


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def block_rows(*widths: int, cells: int = BLOCK_CELLS) -> int:
    """The number of rows per block, for matrices of these widths."""
    return int(np.clip(cells // max(widths), 64, 65536))


def blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive row slices that cover ``n`` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def read_rows(values: Matrix, rows: slice | Array) -> Array:
    """Some rows as an array in memory; the pages of a memory map are released to the system."""
    if not isinstance(values, np.memmap):
        return np.asarray(values[rows])
    block = np.array(values[rows])
    release(values)
    return block


class OutOfTimeError(Exception):
    """A stage was stopped before it had a result."""


class Deadline:
    """A time limit for stages: some seconds, or until stopped from outside; without either, no limit.

    Stages check it between steps, and return what they have. Default budgets count work, so that results do not depend
    on the load of a machine: only this class uses the clock.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._parent: Deadline | None = None
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether it, or the deadline it is a share of, was stopped."""
        return self._stopped or (self._parent is not None and self._parent.stopped)

    @stopped.setter
    def stopped(self, stopped: bool) -> None:
        self._stopped = stopped

    @property
    def passed(self) -> bool:
        """Whether it is time to stop."""
        if self._stopped or (self._parent is not None and self._parent.passed):
            return True
        return self._end is not None and time.monotonic() >= self._end

    def share(self, part: float) -> Deadline:
        """A deadline after a part of the remaining time."""
        mine = Deadline(None if self._end is None else part * max(self._end - time.monotonic(), 0.0))
        mine._parent = self
        return mine

    def leave(self) -> None:
        """Leave the stage if it is time to."""
        if self.passed:
            raise OutOfTimeError


def map_blocks(
    function: Callable[[slice], Result],
    n: int,
    size: int,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Apply a function to every row slice, one thread per core with single-threaded BLAS inside; results in order."""
    slices = list(blocks(n, size))
    if len(slices) < 2:
        return [function(rows) for rows in slices]
    results: list[Result] = []
    if progress:
        progress(0, len(slices))
    with Crew() as crew:
        for result in crew.stream(function, slices):
            results.append(result)
            if progress:
                progress(len(results), len(slices))
    return results


def map_rows(
    function: Callable[..., Result],
    matrices: Sequence[Matrix],
    size: int,
    *,
    beside: Sequence[Array] = (),
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Apply a function to blocks of the same rows of several matrices, local or on workers; results in order.

    It is called with the first row's place, a block of each matrix, and the block's rows of each array ``beside``.
    Rows of Dask arrays are processed in the workers, so the function must not have side effects.
    """
    return list(stream_rows(function, matrices, size, beside=beside, progress=progress))


def stream_rows(
    function: Callable[..., Result],
    matrices: Sequence[Matrix],
    size: int,
    *,
    beside: Sequence[Array] = (),
    per_row: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Result]:
    """The results of :func:`map_rows` one by one: for those that together would fill the memory.

    ``per_row`` is the number of results per row.
    """
    away = in_chunks(*matrices)
    if away is not None:
        done, n = 0, away[0].shape[0]
        if progress:
            progress(0, n)
        for results, rows in pass_over(_OverBlocks(function, size), away, beside, per_row=per_row):
            yield from results
            done += rows
            if progress:
                progress(done, n)
        return

    def here(rows: slice) -> Result:
        return function(rows.start, *(read_rows(each, rows) for each in matrices), *(each[rows] for each in beside))

    slices = list(blocks(int(matrices[0].shape[0]), size))
    if len(slices) < 2:
        yield from map(here, slices)
        return
    if progress:
        progress(0, len(slices))
    with Crew() as crew:
        for done, result in enumerate(crew.stream(here, slices)):
            yield result
            if progress:
                progress(done + 1, len(slices))


class _OverBlocks:
    """A function of blocks, applied to a chunk; with the chunk's number of rows."""

    def __init__(self, function: Callable[..., Any], size: int) -> None:
        self._function, self._size = function, size

    def __call__(self, start: int, *chunks: Array) -> tuple[list[Any], int]:
        n = len(chunks[0])
        slices = blocks(n, self._size)
        return [self._function(start + rows.start, *(each[rows] for each in chunks)) for rows in slices], n


def in_chunks(*matrices: Matrix) -> list[ChunkedRows] | None:
    """The rows of Dask arrays that these matrices are; None where rows are on this machine."""
    found = [each.chunked if isinstance(each, ProjectedRows) else each for each in matrices]
    return found if all(isinstance(each, ChunkedRows) for each in found) else None  # type: ignore[return-value]


def kept_by_workers(*sides: Representation) -> tuple[Representation, ...]:
    """Sides for several passes: rows of Dask arrays are kept by the workers if all fit there together.

    Ids are not checked again.
    """
    away = in_chunks(*(side.values for side in sides))
    if away is None:
        return sides
    kept = []
    for side, values in zip(sides, keep_all(away), strict=True):
        kept.append(copy(side))
        object.__setattr__(kept[-1], "values", values)
    return tuple(kept)


NEAR_CELLS = 2**24  # of a Dask array that is fetched where many short passes are made over it


def brought_here(values: Matrix, most: float = np.inf) -> Matrix:
    """Rows on this machine: those of a Dask array are fetched, if they have at most ``most`` cells."""
    cells = int(values.shape[0]) * int(values.shape[1])
    away = isinstance(values, ChunkedRows) or (isinstance(values, ProjectedRows) and values.chunked is not None)
    return values[:] if away and cells <= most else values


class SelectedRows:
    """Some rows of a matrix, in a chosen order, without copying them all."""

    def __init__(self, values: Matrix, rows: Array) -> None:
        self._values = values
        self._rows = rows
        self.dtype = values.dtype
        self.rounding = rounding_of(values)
        self.shape = (len(rows), values.shape[1])

    def __getitem__(self, rows: Any) -> Array:
        block: Array = np.asarray(self._values[self._rows[rows]])
        release(self._values)
        return block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


class HeldRows:
    """Some rows of a Dask array, fetched at once and indexed by their numbers in that array."""

    def __init__(self, values: Matrix, rows: Array) -> None:
        self._rows = np.unique(rows)
        self._held: Array = np.asarray(values[self._rows])
        self.dtype, self.rounding, self.shape = values.dtype, rounding_of(values), values.shape

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self._held[np.searchsorted(self._rows, rows)])


class ProjectedRows:
    """Rows of a matrix after a linear map, computed block by block in float64."""

    dtype = np.dtype(np.float64)

    def __init__(self, values: Matrix, mean: Array, matrix: Array) -> None:
        self._values = values
        self._mean = mean
        self._matrix = matrix
        self.shape = (values.shape[0], matrix.shape[1])

    def __getitem__(self, rows: Any) -> Array:
        return self._projected(read_rows(self._values, rows))

    def _projected(self, rows: Array) -> Array:
        return np.asarray((rows.astype(np.float64) - self._mean) @ self._matrix)

    @property
    def chunked(self) -> ChunkedRows | None:
        """The same rows in the workers, if they are those of a Dask array."""
        if not isinstance(self._values, ChunkedRows):
            return None
        by = ProjectedRows(np.empty((0, len(self._mean))), self._mean, self._matrix)
        return self._values.mapped(by._projected, self.shape[1], self.dtype)


def select(values: Matrix, rows: Array | None) -> Matrix:
    """The chosen rows of a matrix; all of them when ``rows`` is None."""
    if rows is None:
        return values
    return values.taken(rows) if isinstance(values, ChunkedRows) else SelectedRows(values, rows)


def equal_rows(values: Matrix) -> Array:
    """For each row a number from 0, the same for equal rows.

    Rows are compared by a 64-bit hash of their float64 values, so -0.0 equals 0.0 and one pass is enough.
    """
    d = values.shape[1]
    salt = np.random.default_rng(20261116).integers(2**64, size=d, dtype=np.uint64)

    def hashed(start: int, block: Array) -> Array:
        with np.errstate(invalid="ignore"):  # NaN may be signalling ones
            block = np.ascontiguousarray(block, dtype=np.float64) + 0.0
        bits = block.view(np.uint64) ^ salt
        bits ^= bits >> np.uint64(30)
        bits *= np.uint64(0xBF58476D1CE4E5B9)
        bits ^= bits >> np.uint64(27)
        bits *= np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        return np.asarray((bits * (salt | np.uint64(1))).sum(axis=1, dtype=np.uint64))

    hashes = np.concatenate(map_rows(hashed, [values], block_rows(d)))
    return np.asarray(np.unique(hashes, return_inverse=True)[1])


def refuse_non_finite(values: Matrix, name: str, start: int = 0) -> None:
    """Raise an error that counts the NaN and infinite values and names the first, if there are any.

    ``start`` is the place of the first row.
    """
    found = map_rows(_not_finite, [values], block_rows(values.shape[1]))
    total, nans = sum(count for count, _, _ in found), sum(count for _, count, _ in found)
    first = next((place for _, _, place in found if place is not None), None)
    if first is not None:
        kinds = " and ".join(f"{count} {what}" for count, what in ((nans, "NaN"), (total - nans, "infinite")) if count)
        row, column = start + first[0], first[1]
        raise InputError(
            f"{name} holds {kinds} value{'s' if total > 1 else ''}, the first at row {row}, column {column}"
        )


def _not_finite(start: int, block: Array) -> tuple[int, int, tuple[int, int] | None]:
    """How many values are not finite, how many of them are NaN, and the place of the first."""
    bad = ~np.isfinite(block)
    count = int(bad.sum())
    if not count:
        return 0, 0, None
    row, column = np.argwhere(bad)[0]
    return count, int(np.isnan(block).sum()), (start + int(row), int(column))
