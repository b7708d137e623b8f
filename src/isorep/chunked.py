"""Dask arrays of rows: every pass is one task per chunk, where the rows are, and a tree of sums.

Workers load the chunks. Results are returned as sums, as a few numbers per row, or as a sample of rows; no row is ever
put into a graph. Other input of a pass (maps, means) is a task of its own: it is sent once to each worker, and
recomputed if a worker is lost. The order of all sums is fixed by the chunks, so that results do not depend on the
assignment of tasks to workers. Without a cluster the tasks run in Dask's own scheduler, in threads.

Dask itself is imported with the first Dask array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, import_extra
from .threads import one_blas_thread

Array = NDArray[Any]

MOST_BYTES = 2**32  # of rows that are fetched at once
_LEAST_CELLS = 2**19  # of a task: smaller chunks are joined, because each task has an overhead of a millisecond
_LEAST_ROWS = 2**13  # of a task whose sums are merged: sums of wide rows are large even for few rows
_KEPT_SHARE = 0.4  # of the workers' memory that rows may fill
_FAN_IN = 8  # sums that are added up at once
_BATCH_CELLS = 2**25  # of results that are fetched at once
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


def is_dask(data: Any) -> bool:
    """Whether data are a Dask array, without importing Dask."""
    return type(data).__module__.startswith("dask.array")


class ChunkedRows:
    """The rows of a Dask array: a shape, a dtype, samples of rows fetched to this machine, and passes in the workers.

    The sizes of chunks need not be known: they are counted in an extra pass.
    """

    def __init__(self, data: Any, name: str = "X") -> None:
        if type(data._meta) is not np.ndarray:
            kind = type(data._meta).__name__
            raise InputError(f"{name} has chunks of type {kind}: turn them into plain arrays first, with map_blocks")
        if np.isnan(data.shape[1]):
            raise InputError(f"{name} does not say how many columns it has: name them when the array is made")
        sizes = data.chunks[0]
        lengths = None if np.isnan(sizes).any() else [int(size) for size in sizes]
        chunks = list(whole_rows(data).to_delayed().ravel())
        self._set(chunks, lengths, int(data.shape[1]), data.dtype, getattr(data, "rounding", None))

    @classmethod
    def of_chunks(
        cls, chunks: Sequence[Any], lengths: Sequence[int] | None, width: int, dtype: Any, rounding: float | None = None
    ) -> ChunkedRows:
        """Rows of vertically stacked delayed arrays."""
        made = cls.__new__(cls)
        made._set(chunks, lengths, width, dtype, rounding)
        return made

    def _set(
        self, chunks: Sequence[Any], lengths: Sequence[int] | None, width: int, dtype: Any, rounding: float | None
    ) -> None:
        self.chunks, self._lengths, self.width = list(chunks), lengths, width
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.rounding = rounding
        self._made_from: ChunkedRows | None = None

    @property
    def lengths(self) -> list[int]:
        """Rows of each chunk."""
        if self._lengths is None:
            self._lengths = [int(rows) for rows in computed([_task(len)(each) for each in self.chunks])]
        return list(self._lengths)

    @lengths.setter
    def lengths(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return sum(self.lengths), self.width

    def __len__(self) -> int:
        return self.shape[0]

    def array(self) -> Any:
        """The rows as a Dask array."""
        da = import_extra("dask.array", "dask", "a Dask array", "dask")
        shapes = [(length, self.width) for length in self.lengths]
        meta = np.empty((0, 0), self.dtype)
        return da.concatenate(
            [da.from_delayed(each, shape, meta=meta) for each, shape in zip(self.chunks, shapes, strict=True)]
        )

    def mapped(self, function: Callable[..., Array], width: int, dtype: Any, *, placed: bool = False) -> ChunkedRows:
        """A function applied to each chunk, row by row; nothing is computed yet.

        If ``placed``, it also gets the place of the chunk's first row.
        """
        each, task = shared(function), _task(_applied)
        places = [[start] if placed else [] for start in starts(self.lengths)]
        chunks = [task(each, chunk, *place) for chunk, place in zip(self.chunks, places, strict=True)]
        return self._holder_of(self.of_chunks(chunks, self.lengths, width, dtype))

    def taken(self, rows: Array) -> ChunkedRows:
        """Chosen rows, in the order given, still in the workers; rows in order stay in their chunks."""
        ends = np.cumsum(self.lengths)
        if len(rows) and np.all(np.diff(rows) > 0):
            places = np.searchsorted(rows, [0, *ends])
            picks = [rows[a:b] - start for a, b, start in zip(places, places[1:], starts(self.lengths), strict=False)]
            chunks = [_task(getitem)(chunk, pick) for chunk, pick in zip(self.chunks, picks, strict=True)]
            lengths = [len(pick) for pick in picks]
            return self._holder_of(self.of_chunks(chunks, lengths, self.width, self.dtype, self.rounding))
        size = max(max(self.lengths), 1)
        pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
        chunks = [self._gathered(piece) for piece in pieces]
        lengths = [len(piece) for piece in pieces]
        return self._holder_of(self.of_chunks(chunks, lengths, self.width, self.dtype, self.rounding))

    def _holder_of(self, made: ChunkedRows) -> ChunkedRows:
        """Rows made from these hold them: a cluster drops kept rows that only a graph refers to."""
        made._made_from = self
        return made

    def _gathered(self, rows: Array) -> Any:
        """Some rows of any chunks, as one chunk."""
        owners = np.searchsorted(np.cumsum(self.lengths), rows, "right")
        first = starts(self.lengths)
        parts, places = [], []
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            parts.append(_task(getitem)(self.chunks[owner], rows[mine] - first[owner]))
            places.append(mine)
        return _task(_put)(parts, np.concatenate(places))

    def cut(self, ends: Sequence[int]) -> list[Any]:
        """The same rows in chunks that end at these rows."""
        mine = np.cumsum(self.lengths)
        first = starts(self.lengths)
        pieces = []
        begin = 0
        for end in ends:
            parts = []
            for owner in range(int(np.searchsorted(mine, begin, "right")), len(self.chunks)):
                if first[owner] >= end:
                    break
                if mine[owner] == first[owner]:
                    continue
                part = slice(max(begin - first[owner], 0), min(end, int(mine[owner])) - first[owner])
                whole = part.start == 0 and part.stop == mine[owner] - first[owner]
                parts.append(self.chunks[owner] if whole else _task(getitem)(self.chunks[owner], part))
            pieces.append(parts[0] if len(parts) == 1 else _task(np.concatenate)(parts))
            begin = end
        return pieces

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, tuple):
            first, *rest = rows
            alone = isinstance(first, int | np.integer)
            part: Array = self[first][tuple(rest) if alone else (slice(None), *rest)]
            return part
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        if isinstance(rows, int | np.integer):
            row: Array = self[np.array([rows])][0]
            return row
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        index = np.where(index < 0, index + len(self), index)
        if len(index) and (index.min() < 0 or index.max() >= len(self)):
            raise IndexError(f"row index out of bounds for {len(self)} rows")
        self._require_room(len(index))
        if np.all(np.diff(index) > 0):
            return self._brought(index)
        unique, inverse = np.unique(index, return_inverse=True)
        brought: Array = self._brought(unique)[inverse]
        return brought

    def _brought(self, rows: Array) -> Array:
        """Rows in order, from the chunks that hold them."""
        places = np.searchsorted(rows, [0, *np.cumsum(self.lengths)])
        tasks = []
        for chunk, start, length, a, b in zip(
            self.chunks, starts(self.lengths), self.lengths, places, places[1:], strict=False
        ):
            if b > a:
                whole = b - a == length
                run = slice(int(rows[a]) - start, int(rows[b - 1]) - start + 1)
                near = run if run.stop - run.start == b - a else rows[a:b] - start
                tasks.append(chunk if whole else _task(getitem)(chunk, near))
        parts = [np.empty((0, self.width), self.dtype), *map(np.asarray, computed(tasks))]
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def _require_room(self, rows: int) -> None:
        wanted = rows * self.width * self.dtype.itemsize
        if wanted > MOST_BYTES:
            raise InputError(
                f"this step needs {rows} x {self.width} values in one place, {wanted / 2**30:.1f} GiB, and at most "
                f"{MOST_BYTES / 2**30:.0f} GiB of a Dask array are brought here: pass fewer rows"
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


def keep_all(matrices: Sequence[ChunkedRows]) -> list[ChunkedRows]:
    """The same rows, kept by the workers if all fit into their memory; otherwise every pass reads them again.

    Without a cluster nothing is kept.
    """
    memory = cluster_memory()
    wanted = sum(len(each) * each.width * each.dtype.itemsize for each in matrices) if memory else 0
    if not 0 < wanted <= _KEPT_SHARE * memory:
        return list(matrices)
    kept = []
    for each in matrices:
        chunks = computed(each.chunks, warn=True, keep=True)
        kept.append(ChunkedRows.of_chunks(chunks, each.lengths, each.width, each.dtype, each.rounding))
    return kept


def pass_over(
    function: Callable[..., Any],
    matrices: Sequence[ChunkedRows],
    beside: Sequence[Array] = (),
    *,
    merge: Callable[[list[Any]], Any] | None = None,
    per_row: int = 1,
) -> Iterator[Any]:
    """Run ``function(start, *chunks, *parts)`` in the workers, one task per chunk, and yield the results in order.

    Chunks of several matrices hold the same rows: others are cut like those of the first. ``parts`` are the chunk's
    rows of ``beside``, one number per row. With ``merge`` the function returns a part to keep and a part to sum: all
    kept parts are yielded, then the sum. Results of ``per_row`` numbers per row are fetched some at a time.
    """
    ends = _ends(matrices, 1 if merge is None else _LEAST_ROWS)
    shared_function, task = shared(function), _task(_in_a_worker)
    columns = [each.cut(ends) for each in matrices]
    begins = [0, *ends[:-1]]
    tasks = [
        task(shared_function, begin, end, list(chunks), [_small(each[begin:end]) for each in beside])
        for begin, end, *chunks in zip(begins, ends, *columns, strict=True)
    ]
    if merge is None:
        yield from _in_batches(tasks, [per_row * (end - begin) for begin, end in zip(begins, ends, strict=True)])
        return
    kept, sums = ([_task(getitem)(each, place) for each in tasks] for place in (0, 1))
    *found, total = computed([*kept, reduced(merge, sums)])
    yield from found
    yield total


def _in_batches(tasks: list[Any], sizes: Sequence[int]) -> Iterator[Any]:
    """Results in order, some at a time where they are large."""
    batch: list[Any] = []
    cells = 0
    for each, count in zip(tasks, sizes, strict=True):
        if batch and cells + count > _BATCH_CELLS:
            yield from computed(batch)
            batch, cells = [], 0
        batch.append(each)
        cells += count
    yield from computed(batch)


def _ends(matrices: Sequence[ChunkedRows], rows: int) -> list[int]:
    """Common chunk ends of all matrices: those of the first, with small chunks joined."""
    lengths = matrices[0].lengths
    width = sum(each.width for each in matrices)
    groups = list(joined(lengths, width, max(_LEAST_CELLS, rows * width)))
    return [int(end) for end in np.cumsum([sum(lengths[index] for index in group) for group in groups])]


def joined(lengths: Sequence[int], width: int, least: int) -> Iterator[list[int]]:
    """Consecutive chunks with at least ``least`` cells together, without empty ones."""
    group: list[int] = []
    cells = 0
    for index, length in enumerate(lengths):
        if length:
            group.append(index)
            cells += length * width
        if cells >= least:
            yield group
            group, cells = [], 0
    if group:
        yield group


def starts(lengths: Sequence[int]) -> list[int]:
    """The first row of each chunk."""
    return [0, *np.cumsum(lengths).tolist()][:-1]


def whole_rows(data: Any) -> Any:
    """Chunks that hold all columns."""
    return data if data.numblocks[1] == 1 else data.rechunk({1: -1}, method="tasks")


def shared(value: Any) -> Any:
    """A value that many tasks use, as a task of its own."""
    return _dask().delayed(value, name=f"isorep-{uuid4().hex}", traverse=False)


def reduced(merge: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """A tree of merges, in order."""
    task = _task(merge)
    while len(parts) > 1:
        parts = [task(parts[start : start + _FAN_IN]) for start in range(0, len(parts), _FAN_IN)]
    return parts[0]


def computed(tasks: Sequence[Any], *, warn: bool = False, keep: bool = False) -> list[Any]:
    """Results, in order; with ``keep`` they stay where they are computed until they are dropped here.

    Dask's warning of a large graph is shown only for passes that hold nothing but rows: others hold maps.
    """
    dask = _dask()
    with _told_in_a_sentence(), one_blas_thread, _settings(warn):
        return list(dask.persist(*tasks) if keep else dask.compute(*tasks))


@contextmanager
def _told_in_a_sentence() -> Iterator[None]:
    """What a cluster cannot recover from, as an error that says what to do."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise InputError(
                "several workers died of the same task, which Dask then gives up: give them more memory, or cut the "
                "rows into smaller chunks"
            ) from error
        if type(error).__name__ not in _LOST or _scheduler_answers():
            raise
        raise InputError(
            "the connection to the Dask scheduler was lost: run the command again when the cluster is there"
        ) from error


_LOST = {"FutureCancelledError", "CancelledError", "CommClosedError", "ClosedClientError", "TimeoutError", "OSError"}
"""What a client raises when its scheduler is gone, depending on what it was doing."""


def _scheduler_answers() -> bool:
    """Whether the current cluster is there: its client is then not about to connect again."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return True
    try:
        return bool(distributed.default_client().status == "running")
    except ValueError:  # there is no cluster
        return True


def cluster_memory() -> int:
    """Bytes of memory that the workers of the current cluster may use together; 0 without a cluster."""
    try:
        from distributed import default_client

        client: Any = default_client()  # type: ignore[no-untyped-call]
    except (ImportError, ValueError):
        return 0
    with _told_in_a_sentence():
        workers = client.scheduler_info(n_workers=-1)["workers"]
    return int(sum(each.get("memory_limit") or 0 for each in workers.values()))


_quiet = Lock()
_quiet_count = 0
_quiet_setting: Any = None


@contextmanager
def _settings(warn: bool) -> Iterator[None]:
    """Without the warning of a large graph; settings belong to the process, and passes may run side by side."""
    global _quiet_count, _quiet_setting
    if warn or "distributed" not in sys.modules:  # which brings the setting with it
        yield
        return
    with _quiet:
        if _quiet_count == 0:
            _quiet_setting = _dask().config.set({_LARGE_GRAPH: "1 GiB"})
        _quiet_count += 1
    try:
        yield
    finally:
        with _quiet:
            _quiet_count -= 1
            if _quiet_count == 0:
                _quiet_setting.__exit__(None, None, None)


def _in_a_worker(function: Callable[..., Any], start: int, end: int, chunks: list[Array], parts: list[Array]) -> Any:
    for each in chunks:
        if len(each) != end - start:
            raise InputError(
                f"a Dask array has {len(each)} rows where its chunks declare {end - start}, from row {start} on: make "
                "it again with the sizes that its chunks have"
            )
    with one_blas_thread:
        return function(start, *map(np.asarray, chunks), *parts)


def _applied(function: Callable[..., Array], chunk: Array, *place: int) -> Array:
    with one_blas_thread:
        return function(np.asarray(chunk), *place)


def _put(parts: list[Array], places: Array) -> Array:
    rows = np.concatenate(parts)
    placed = np.empty_like(rows)
    placed[places] = rows
    return placed


def _small(numbers: Array) -> Array:
    """Whole numbers in as few bytes as possible: the fold of a row takes one."""
    if numbers.dtype.kind not in "iu" or not len(numbers):
        return numbers
    return numbers.astype(np.min_scalar_type(int(numbers.max()))) if numbers.min() >= 0 else numbers


def _task(function: Callable[..., Any]) -> Any:
    return _dask().delayed(function, pure=False)


def _dask() -> Any:
    return import_extra("dask", "dask", "a Dask array")
