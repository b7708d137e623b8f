"""Parts of files that Dask workers read: row groups of parquet, row slices of arrays, the files of a folder.

Here only headers are read: shapes, columns and lengths. A task of the graph names a file and some of its rows.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..chunked import ChunkedRows, computed
from ..errors import InputError, import_extra
from ..representation import Array
from . import parquet, shards
from .lazy import release
from .naming import shown
from .registry import Contents, family, guarded, reader
from .remote import address, as_path, is_remote

_LEAST_CELLS, _MOST_CELLS = 2**19, 2**24  # of a chunk that is cut from an array
_FEWEST = 16  # chunks of an array that is not small
_IN_PARTS = ("npy", "npz", "safetensors", "hdf5", "zarr", "torch_files")  # modules whose arrays give row slices


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """The contents of a file or a folder, with values that workers read."""
    import_extra("dask", "dask", "reading in the workers of a cluster")
    module = reader(path)
    files = shards.filled_files(path) if module is shards else [path]
    kind = (reader(files[0]) if module is shards else module).__name__.rpartition(".")[2]
    if kind == "parquet":
        return _tables(files, key, ids, besides)
    if kind not in _IN_PARTS:
        raise InputError("text is parsed from its beginning: to read it in workers, save it as parquet, npy or zarr")
    return _arrays(path, files, key, ids, besides)


def _tables(files: list[Path], key: str | None, ids: str | None, besides: Collection[str]) -> Contents:
    """Row groups of parquet files, each a chunk."""
    tables = [guarded(file, parquet.describe, file, key, ids, besides) for file in files]
    first = tables[0]
    for file, table in zip(files, tables, strict=True):
        _require_alike(file, table, files[0], first)
    dtype = np.result_type(*(table.dtype for table in tables))
    task = _delayed(_read_groups)
    chunks, lengths = [], []
    for file, table in zip(files, tables, strict=True):
        begin = 0
        for group, rows in enumerate(table.group_rows):
            chunks.append(task(address(file), table, group, begin, dtype))
            lengths.append(rows)
            begin += rows
    row_ids = None
    if first.ids_names:
        told = computed([_delayed(_read_ids)(address(file), table) for file, table in zip(files, tables, strict=True)])
        row_ids = shards.joined_labels(told)
    left_out = {name: why for table in tables for name, why in table.left_out.items()}
    converted = {name: why for table in tables for name, why in table.converted.items()}
    values = ChunkedRows.of_chunks(chunks, lengths, len(first.columns), dtype)
    return Contents(values, row_ids, left_out, converted, first.columns)


def _require_alike(file: Path, table: parquet.Table, first_file: Path, first: parquet.Table) -> None:
    """Refuse a shard that does not continue the first."""
    if len(table.columns) != len(first.columns):
        raise InputError(f"{file.name} has {len(table.columns)} columns and {first_file.name} has {len(first.columns)}")
    for index, (here, there) in enumerate(zip(table.columns, first.columns, strict=True)):
        if here != there:
            raise InputError(
                f"column {index} is {shown(here)} in {file.name} and {shown(there)} in {first_file.name}: shards need "
                "the same columns in the same order"
            )
    if table.dtype.kind != first.dtype.kind:
        raise InputError(f"{file.name} holds {table.dtype} and {first_file.name} holds {first.dtype}")
    if bool(table.ids_names) != bool(first.ids_names):
        with_ids, without = (first_file, file) if first.ids_names else (file, first_file)
        raise InputError(f"{with_ids.name} has row ids and {without.name} has none")


def _arrays(path: Path, files: list[Path], key: str | None, ids: str | None, besides: Collection[str]) -> Contents:
    """Row slices of arrays, those of each file apart."""
    contents = guarded(path, reader(path).load, path, key, ids, besides)
    values = contents.values
    if isinstance(values, np.ndarray):
        raise InputError("it is compressed as a whole: to read it in workers, save it as parquet, npy or zarr")
    if len(values.shape) != 2:
        return Contents(values, contents.ids, contents.left_out)  # refused with its shape
    n, width = (int(size) for size in values.shape)
    sizes = [n] if len(files) == 1 else values.lengths
    cells = int(np.clip(n * width // _FEWEST, _LEAST_CELLS, _MOST_CELLS))
    step = max(1, cells // max(width, 1))
    stored = getattr(values, "chunk_rows", None)
    if stored:  # whole chunks of a store are read once
        step = max(1, step // stored) * stored
    task = _delayed(_read_slice)
    chunks, lengths = [], []
    for file, size in zip(files, sizes, strict=True):
        for start in range(0, size, step):
            stop = min(start + step, size)
            chunks.append(task(address(file), key, start, stop, values.dtype))
            lengths.append(stop - start)
    rows = ChunkedRows.of_chunks(chunks, lengths, width, values.dtype, getattr(values, "rounding", None))
    return Contents(rows, contents.ids, contents.left_out, contents.converted, contents.columns)


def _delayed(function: Any) -> Any:
    from dask import delayed

    return delayed(function, pure=False)


def _read_groups(file: str, table: parquet.Table, group: int, begin: int, dtype: np.dtype[Any]) -> Array:
    path = as_path(file)
    rows: Array = guarded(path, parquet.read_group, path, table, group, begin)
    return rows.astype(dtype, copy=False)


def _read_ids(file: str, table: parquet.Table) -> Array:
    path = as_path(file)
    return np.asarray(guarded(path, parquet.row_ids, path, table.ids_names))


def _read_slice(file: str, key: str | None, start: int, stop: int, dtype: np.dtype[Any]) -> Array:
    path = as_path(file)
    values = _opened(file, key, *_stamp(path))
    rows = np.array(values[start:stop], dtype=dtype)
    release(values)
    return rows


@lru_cache(32)
def _opened(file: str, key: str | None, *stamp: int) -> Any:
    path = as_path(file)
    module = reader(path) if path.is_dir() else family(path)
    return guarded(path, module.load, path, key, None, ()).values


def _stamp(path: Any) -> tuple[int, ...]:
    """A stamp that identifies a file, and changes when it is overwritten."""
    if is_remote(path):
        return (path.stat().st_size if path.is_file() else 0,)
    known = path.stat()
    return known.st_size, known.st_mtime_ns
