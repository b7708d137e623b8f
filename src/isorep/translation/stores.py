"""Embedding stores: rows that carry ids, text and other columns beside their vector, translated with all they carry.

Tables and JSON lines are streamed, quantised vectors are translated and quantised again, and FAISS indexes, LanceDB
tables, Qdrant collections and tables of PostgreSQL with pgvector are read and written by their own clients.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import InputError, MissingFileError, import_extra
from ..files import replacing, require_writable, without_secrets
from ..representation import Array, Representation
from ..rows import Progress, no_progress
from ..rows import blocks as blocks_of
from ..storage import jsonl, npy, npz, parquet, read
from ..storage.naming import FEATURE_PREFIX, IDS_NAMES, LIST
from ..storage.registry import guarded, reader, split_key
from ..storage.remote import is_url
from .drift import SAMPLE
from .translator import Translator

Change = Callable[[Array], Array]
"""From old vectors in float to new ones."""

_CELLS = 2**21  # of vectors in a batch
_LEVELS = 127  # of int8 on either side of zero
_HEADROOM = 1.1  # of one scale for all rows over the largest value of a sample
ADDRESSES = ("qdrant", "lancedb", "pgvector")


class Store(Protocol):
    """A store that is translated with everything its rows carry."""

    name: str
    rows: int

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where the store has ids of its own, and the old vectors, block by block."""

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors, completely or not at all; returns what was written in words."""


def open_store(source: str | Path, output: str | Path, scale: str | None = None) -> Store | None:
    """The store that a path or address names, if it has rows that carry more and the output is of the same kind.

    None where only vectors and ids are to be written: :func:`isorep.write` does that.
    """
    kind, there = _kind(str(source)), _kind(str(output))
    if kind in ADDRESSES or there in ADDRESSES:
        if kind != there:
            raise InputError(
                f"{without_secrets(str(source))} and {without_secrets(str(output))} are different kinds of store: both "
                f"must be {kind or there}: addresses"
            )
        if kind == "lancedb":
            return _Lance(str(source), scale)
        if scale is not None:
            raise InputError(f"--scale is for integer vectors, which {kind} does not hold")
        return _Qdrant(str(source)) if kind == "qdrant" else _PgVector(str(source))
    path, key = split_key(source, None)
    if kind is None or is_url(path):
        if scale is not None:
            raise InputError("--scale is for parquet, LanceDB and npz files with integer vectors")
        return None
    if kind == "faiss":
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist")
        if there != "faiss":
            raise InputError(f"{path.name} is written to a FAISS index: name a .faiss or .index file")
        return guarded(path, _Faiss, path)
    reader(path)  # refuses what is not there
    if path.is_dir():
        return None
    if kind == "npz":
        return guarded(path, _quantised_arrays, path, key, scale, str(output))
    if kind != there:
        return None
    opened: dict[str, Callable[[], Store]] = {
        "parquet": lambda: _ParquetStore(path, key, scale),
        "jsonl": lambda: _JsonLines(path, key),
    }
    return guarded(path, opened[kind])


def sample_of(store: Store) -> Array:
    """Up to 10,000 old vectors: the first ones."""
    held, rows = [], 0
    for _, vectors in store.blocks():
        held.append(vectors)
        rows += len(vectors)
        if rows >= SAMPLE:
            break
    return np.concatenate(held)[:SAMPLE]


def store_confidence(translator: Translator, store: Store) -> tuple[Array | None, Array]:
    """The ids of a store, where it has ids of its own, and the predicted cosine of every row, in its order."""
    ids, found = [], []
    for some, vectors in store.blocks():
        if some is not None:
            ids.append(some)
        found.append(translator.confidence(Representation(vectors, name=store.name)))
    return np.concatenate(ids) if ids else None, np.concatenate(found)


def read_vectors(
    path: str | Path,
    *,
    ids: str | None = None,
    scale: str | None = None,
    besides: Sequence[str | None] = (),
    **more: Any,
) -> Representation:
    """Vectors to fit a map to, as :func:`isorep.read` reads them; int8 ones with their scale become float32.

    ``scale`` names the scale of integers: an array of an npz file, a column of a parquet file, or a number.
    """
    file, key = split_key(path, None)
    kind = _kind(str(path))
    store: _QuantisedArrays | _ParquetStore | None = None
    if not is_url(file) and kind in ("npz", "parquet") and file.is_file():
        if kind == "npz":
            store = guarded(file, _quantised_arrays, file, key, scale, None)
        else:
            store = guarded(
                file, _integer_lists, file, key, ids, scale, [name.rpartition("::")[2] for name in besides if name]
            )
    if store is None:
        return read(path, ids=ids, besides=besides, **more)
    values = np.concatenate([vectors for _, vectors in store.blocks()])
    return Representation(values, guarded(file, store.names, ids), file.name, origin=str(path))


def _integer_lists(
    path: Path, key: str | None, ids: str | None, scale: str | None, besides: list[str]
) -> _ParquetStore | None:
    """A parquet file whose vectors are lists of int8; None for others."""
    table = parquet.describe(path, key, ids, [*besides, *([scale] if scale else ["scale", "scales"])])
    if table.list_column is None:
        return None
    from pyarrow import types

    kind = parquet.open_file(path).schema_arrow.field(table.list_column).type.value_type
    return _ParquetStore(path, table.list_column, scale) if types.is_int8(kind) else None


def translate_store(translator: Translator, store: Store, output: str, progress: Progress = no_progress) -> str:
    """Write a store with translated vectors, and everything else as it is; returns what was written in words."""
    done = 0

    def change(vectors: Array) -> Array:
        rows = Representation(vectors, name=store.name)
        return np.asarray(translator.translated(rows).values[:])

    def told(count: int) -> None:
        nonlocal done
        done += count
        progress("translating", done, store.rows)

    return store.write(output, len(translator.new_mean), change, told)


def _kind(address: str) -> str | None:
    scheme = address.partition(":")[0]
    if scheme in ADDRESSES:
        return scheme
    lowered = split_key(address, None)[0].name.lower()
    endings = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".npz": "npz"}
    endings |= {".faiss": "faiss", ".index": "faiss"}
    return next((kind for ending, kind in endings.items() if lowered.endswith(ending)), None)


# Quantised vectors


@dataclass(frozen=True)
class _Scale:
    """How integers stand for numbers: one factor for all, one per row, or one per dimension."""

    values: Array | float

    def decoded(self, block: Array, rows: slice) -> Array:
        factor = self.values
        if isinstance(factor, np.ndarray) and factor.ndim == 1 and len(factor) != block.shape[1]:
            factor = factor[rows, None]
        return np.asarray(block.astype(np.float32) * np.asarray(factor, np.float32))


def _encoded(vectors: Array) -> tuple[Array, Array]:
    """Integers from -127 to 127, and the scale of each row."""
    largest = np.abs(vectors).max(axis=1)
    scales = (np.where(largest > 0, largest, 1.0) / _LEVELS).astype(np.float32)
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales


def _with_scale(vectors: Array, scale: float) -> Array:
    return np.clip(np.rint(vectors / scale), -_LEVELS, _LEVELS).astype(np.int8)


def _one_scale(sample: Array, change: Change) -> float:
    return float(np.abs(change(sample)).max()) * _HEADROOM / _LEVELS or 1.0


def _narrowed(vectors: Array, dtype: Any, name: str) -> Array:
    """Vectors in the type of the store; refused where they do not fit."""
    with np.errstate(over="ignore"):
        narrow = vectors.astype(dtype)
    if not np.isfinite(narrow).all():
        raise InputError(f"{name} holds {np.dtype(dtype)}, which is too narrow for translated vectors")
    return narrow


def _quantised_arrays(path: Path, key: str | None, scale: str | None, output: str | None) -> _QuantisedArrays | None:
    """An npz file with integer vectors and their scale; None for floating-point ones. Without output it is read."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    headers = {name: npz.peek(path, name) for name in names}
    wide = [name for name, header in headers.items() if len(header.shape) == 2 and header.dtype == np.int8]
    floating = any(len(header.shape) == 2 and header.dtype.kind == "f" for header in headers.values())
    chosen = key if key is not None else wide[0] if len(wide) == 1 and not floating else None
    if chosen is None or chosen not in wide:
        if scale is not None and output is not None:
            raise InputError("--scale is for int8 vectors, of which it has no single array")
        return None
    named = scale or next((name for name in ("scale", "scales") if name in names), None)
    if named is None or (named not in names and not _is_positive(named)):
        raise InputError(f"array {chosen!r} holds int8: name its scale with --scale, an array of the file or a number")
    if output is not None and _kind(output) != "npz":
        raise InputError(f"int8 vectors of {path.name} are written to an npz file, with their scale")
    return _QuantisedArrays(path, chosen, named, names)


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < np.inf
    except ValueError:
        return False


class _QuantisedArrays:
    def __init__(self, path: Path, values: str, scale: str, names: list[str]) -> None:
        self.name, self._path, self._names = path.name, path, names
        self._values_name, self._scale_name = values, scale
        self._values = npz.array(path, values)
        self.rows = len(self._values)
        given = npz.array(path, scale) if scale in names else np.array(float(scale))
        self._given = np.asarray(given, np.float64)
        n, d = self._values.shape
        if self._given.shape not in ((), (1,), (n,), (d,)) or not (self._given > 0).all():
            raise InputError(f"the scale has shape {self._given.shape}: one positive number, one per row or per column")
        self._per_row = self._given.shape == (n,) and n != 1
        self._scale = _Scale(self._given if self._given.size > 1 else float(self._given.reshape(-1)[0]))

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        for rows in blocks_of(self.rows, max(1, _CELLS // self._values.shape[1])):
            yield None, self._scale.decoded(np.asarray(self._values[rows]), rows)

    def names(self, wanted: str | None) -> Array | None:
        """The row ids."""
        name = wanted or next((name for name in IDS_NAMES if name in self._names), None)
        if name is not None and name not in self._names:
            raise InputError(f"there is no array {name!r} for ids")
        return None if name is None else np.asarray(npz.array(self._path, name))

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        path = split_key(output, None)[0]
        require_writable(path)
        step = max(1, _CELLS // max(width, self._values.shape[1]))
        single = None if self._per_row else _one_scale(sample_of(self), change)
        scales: list[Array] = []

        def blocks() -> Iterator[Array]:
            for start in range(0, self.rows, step):
                rows = slice(start, min(start + step, self.rows))
                vectors = change(self._scale.decoded(np.asarray(self._values[rows]), rows))
                progress(rows.stop - rows.start)
                if single is not None:
                    yield _with_scale(vectors, single)
                    continue
                block, mine = _encoded(vectors)
                scales.append(mine)
                yield block

        with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            with archive.open(f"{self._values_name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, (self.rows, width), np.dtype(np.int8), blocks())
            new = np.concatenate(scales) if single is None else np.array(single)
            others = {name: npz.array(self._path, name) for name in self._names if name != self._values_name}
            others[self._scale_name if self._scale_name in self._names else "scale"] = new
            for name, array in others.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
        how = "a scale per row" if single is None else f"one scale, {single:.4g}"
        return f"{self.rows} rows x {width} columns, int8 with {how}, and {len(others) - 1} other arrays"


# Tables


class _ArrowTable:
    """Record batches of a table with a list column, or with feature columns, and everything else."""

    def __init__(self, schema: Any, list_column: str | None, columns: tuple[str, ...], scale: str | None) -> None:
        from pyarrow import types

        self._schema, self._list, self._columns = schema, list_column, columns
        self._scale: str | float | None = None
        kind = schema.field(list_column).type.value_type if list_column else schema.field(columns[0]).type
        self._integer = types.is_integer(kind)
        if self._integer:
            if not types.is_int8(kind) or list_column is None:
                raise InputError(
                    f"column {list_column or columns[0]!r} holds {kind}: of integers, lists of int8 are taken"
                )
            named = scale or next((name for name in ("scale", "scales") if name in schema.names), None)
            if named is None or (named not in schema.names and not _is_positive(named)):
                raise InputError(
                    f"column {list_column!r} holds int8: name its scale with --scale, a column or a number"
                )
            self._scale = named if named in schema.names else float(named)
        elif scale is not None:
            raise InputError(f"column {list_column or columns[0]!r} holds {kind}: --scale is for integers")
        self._kind = kind

    @property
    def batch_rows(self) -> int:
        return max(1, _CELLS // max(len(self._columns), 1))

    def vectors(self, batch: Any, start: int) -> Array:
        """The vectors of a batch, decoded."""
        if self._list is None:
            names = [batch.schema.get_field_index(name) for name in self._columns]
            return np.stack([batch.column(place).to_numpy(zero_copy_only=False) for place in names], axis=1)
        cells = batch.column(batch.schema.get_field_index(self._list))
        values = parquet.list_rows(cells, self._list, len(self._columns), start)
        if self._scale is None:
            return values
        if isinstance(self._scale, float):
            return _Scale(self._scale).decoded(values, slice(0, len(values)))
        factors = batch.column(batch.schema.get_field_index(self._scale)).to_numpy(zero_copy_only=False)
        if not (factors.astype(np.float64) > 0).all():
            raise InputError(f"column {self._scale!r} holds a scale that is not positive, from row {start} on")
        return np.asarray(values.astype(np.float32) * factors.astype(np.float32)[:, None])

    def schema(self, width: int) -> Any:
        """The schema of the output: lists keep their kind, feature columns their prefix."""
        import pyarrow

        if self._list is not None:
            place = self._schema.get_field_index(self._list)
            field = self._schema.field(place)
            kind = field.type
            if pyarrow.types.is_fixed_size_list(kind):
                kind = pyarrow.list_(kind.value_field, width)
            return self._schema.set(place, field.with_type(kind))
        names = self.new_names(width)
        fields = []
        for field in self._schema:
            if field.name == self._columns[0]:
                fields += [pyarrow.field(name, self._kind) for name in names]
            elif field.name not in self._columns:
                fields.append(field)
        metadata = {key: value for key, value in (self._schema.metadata or {}).items() if key != b"pandas"}
        return pyarrow.schema(fields, metadata or None)

    def new_names(self, width: int) -> list[str]:
        """Names of new feature columns: the common prefix of the old ones and a number."""
        first = self._columns[0]
        prefix = first.rstrip("0123456789") or FEATURE_PREFIX
        if not all(name.startswith(prefix) for name in self._columns):
            prefix = FEATURE_PREFIX
        names = [f"{prefix}{number}" for number in range(width)]
        taken = set(self._schema.names) - set(self._columns)
        if taken & set(names):
            raise InputError(f"column {min(taken & set(names))!r} is there already, so new columns need another prefix")
        return names

    def changed(self, batch: Any, schema: Any, vectors: Array, single: float | None, name: str) -> Any:
        """The batch with new vectors."""
        import pyarrow

        scales = None
        if self._integer:
            if single is None:
                vectors, scales = _encoded(vectors)
            else:
                vectors = _with_scale(vectors, single)
        else:
            vectors = _narrowed(vectors, self._kind.to_pandas_dtype(), name)
        if self._list is None:
            new = dict(zip(self.new_names(vectors.shape[1]), vectors.T, strict=True))
        else:
            flat = pyarrow.array(np.ascontiguousarray(vectors).reshape(-1), self._kind)
            kind = schema.field(self._list).type
            if pyarrow.types.is_fixed_size_list(kind):
                new = {self._list: pyarrow.FixedSizeListArray.from_arrays(flat, type=kind)}
            else:
                ends = np.arange(len(vectors) + 1) * vectors.shape[1]
                large = pyarrow.types.is_large_list(kind)
                made = pyarrow.LargeListArray if large else pyarrow.ListArray
                new = {
                    self._list: made.from_arrays(pyarrow.array(ends, "int64" if large else "int32"), flat, type=kind)
                }
        if scales is not None and isinstance(self._scale, str):
            new[self._scale] = pyarrow.array(scales).cast(schema.field(self._scale).type)
        columns = []
        for field in schema:
            held = new.get(field.name)
            if held is None:
                held = batch.column(batch.schema.get_field_index(field.name))
            columns.append(
                held if not isinstance(held, np.ndarray) else pyarrow.array(np.ascontiguousarray(held), field.type)
            )
        return pyarrow.RecordBatch.from_arrays(columns, schema=schema)

    def new_scale(self, sample: Array, change: Change) -> float | None:
        """One scale for all rows, where the old vectors have one."""
        return _one_scale(sample, change) if self._integer and isinstance(self._scale, float) else None

    def described(self, rows: int, width: int, single: float | None) -> str:
        """What was written, in words."""
        others = len(self._schema.names) - (1 if self._list else len(self._columns))
        stored = "int8" if self._integer else str(self._kind)
        how = "" if single is None else f" with the scale {single:.4g}"
        shape = f"in the column {self._list!r}" if self._list else "in columns"
        return f"{rows} rows x {width} columns, {stored}{how}, {shape}, with {others} other columns"


class _ParquetStore:
    def __init__(self, path: Path, key: str | None, scale: str | None) -> None:
        self.name, self._path = path.name, path
        table = parquet.describe(path, key, None, [scale] if scale else ["scale", "scales"])
        self.rows = sum(table.group_rows)
        self._file = parquet.open_file(path)
        self._table = _ArrowTable(self._file.schema_arrow, table.list_column, table.columns, scale)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        rows = 0
        for batch in self._file.iter_batches(batch_size=self._table.batch_rows):
            yield None, self._table.vectors(batch, rows)
            rows += batch.num_rows

    def names(self, wanted: str | None) -> Array | None:
        """The row ids."""
        held = self._file.schema_arrow.names
        name = wanted or next((name for name in IDS_NAMES if name in held), None)
        if name is None:
            return None
        if name not in held:
            raise InputError(f"there is no column {name!r} for ids")
        return np.asarray(parquet.column(self._path, name))

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        import pyarrow.parquet

        path = split_key(output, None)[0]
        require_writable(path)
        schema, rows = self._table.schema(width), 0
        single = self._table.new_scale(sample_of(self), change)
        with replacing(path) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
            for batch in self._file.iter_batches(batch_size=self._table.batch_rows):
                vectors = change(self._table.vectors(batch, rows))
                writer.write_batch(self._table.changed(batch, schema, vectors, single, self.name))
                rows += batch.num_rows
                progress(batch.num_rows)
        return self._table.described(rows, width, single)


class _Lance:
    """A LanceDB table: ``lancedb:FOLDER::TABLE``."""

    def __init__(self, address: str, scale: str | None) -> None:
        self._place, self.name = _address(address)
        database = _lance(self._place)
        try:
            self._table = database.open_table(self.name)
        except Exception as error:
            raise InputError(f"{address} cannot be opened: {str(error)[:200]}") from error
        self.rows = int(self._table.count_rows())
        kinds = parquet.column_kinds(self._table.schema)
        lists = [name for name, kind in kinds.items() if kind == LIST]
        column = "vector" if "vector" in lists else lists[0] if len(lists) == 1 else None
        if column is None or not self.rows:
            raise InputError(f"{address} has {'no rows' if not self.rows else 'no single column of vectors'}")
        width = len(next(iter(self._batches())).column(self._table.schema.get_field_index(column))[0])
        self._rows = _ArrowTable(self._table.schema, column, tuple(map(str, range(width))), scale)

    def _batches(self, size: int = 8192) -> Iterator[Any]:
        return iter(self._table.search().limit(self.rows).to_batches(size))

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        rows = 0
        for batch in self._batches():
            yield None, self._rows.vectors(batch, rows)
            rows += batch.num_rows

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        import pyarrow

        place, name = _address(output)
        database = _lance(place)
        if name in _names(database):
            raise InputError(f"{output} exists: name another table")
        schema, single = self._rows.schema(width), self._rows.new_scale(sample_of(self), change)

        rows = 0
        with ExitStack() as undo:
            undo.callback(lambda: name in _names(database) and database.drop_table(name))
            table = database.create_table(name, schema=schema)
            for batch in self._batches():
                vectors = change(self._rows.vectors(batch, rows))
                rows += batch.num_rows
                table.add(pyarrow.Table.from_batches([self._rows.changed(batch, schema, vectors, single, self.name)]))
                progress(batch.num_rows)
            undo.pop_all()
        return self._rows.described(self.rows, width, single)


def _lance(place: str) -> Any:
    return import_extra("lancedb", "stores", "a LanceDB table").connect(place)


def _names(database: Any) -> list[str]:
    listed = getattr(database, "list_tables", None)
    found = database.table_names() if listed is None else listed()
    return list(getattr(found, "tables", found))


def _address(address: str) -> tuple[str, str]:
    place, mark, name = address.partition(":")[2].rpartition("::")
    if not mark or not place or not name:
        raise InputError(f"{without_secrets(address)} should name a place and a table or collection: KIND:PLACE::NAME")
    return place, name


# JSON lines


class _JsonLines:
    def __init__(self, path: Path, key: str | None) -> None:
        self.name, self._path = path.name, path
        self._key = jsonl.vector_name(path, key)[0]
        self.rows = self._width = 0
        for start, records in jsonl.batches(path):  # all lines are checked before one is written
            width = jsonl.vectors(records, self._key, start).shape[1]
            if start and width != self._width:
                raise InputError(
                    f"{self._key!r} is ragged: row 0 has {self._width} entries and row {start} has {width}"
                )
            self._width, self.rows = width, start + len(records)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        for start, records in jsonl.batches(self._path):
            yield None, jsonl.vectors(records, self._key, start).astype(np.float32)

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        path = split_key(output, None)[0]
        require_writable(path)
        with replacing(path) as temporary, jsonl.opened(temporary, "wt", path.name) as file:
            for start, records in jsonl.batches(self._path):
                new = change(jsonl.vectors(records, self._key, start).astype(np.float32))
                for record, vector in zip(records, new, strict=True):
                    record[self._key] = [float(f"{value:.9g}") for value in vector.tolist()]
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                progress(len(records))
        return f"{self.rows} rows x {width} columns under {self._key!r}, with all that the rows carry"


# Indexes and collections


class _Faiss:
    """A FAISS index whose vectors can be read back: flat, HNSW or IVF with flat storage, also with ids."""

    def __init__(self, path: Path) -> None:
        faiss = import_extra("faiss", "stores", "a FAISS index", "faiss-cpu")
        self.name = path.name
        try:
            index = self._owner = faiss.read_index(str(path))
        except RuntimeError as error:
            raise InputError(f"{path.name} is not a FAISS index: {str(error)[:120]}") from error
        self._ids = None
        if isinstance(index, faiss.IndexIDMap):
            self._ids = faiss.vector_to_array(index.id_map).copy()
            self._map_kind = type(index)
            index = faiss.downcast_index(index.index)
        self._index, self._faiss = index, faiss
        kinds = (faiss.IndexFlat, faiss.IndexHNSWFlat, faiss.IndexIVFFlat)
        if not isinstance(index, kinds) or isinstance(index, faiss.IndexIVFFlatDedup):
            known = "flat, HNSW and IVF indexes with flat storage"
            raise InputError(
                f"{path.name} is a {type(index).__name__}: {known} keep the vectors that can be translated"
            )
        if not index.ntotal:
            raise InputError(f"{path.name} holds no vectors")
        if isinstance(index, faiss.IndexIVFFlat):
            index.make_direct_map()
        self.rows = int(index.ntotal)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        for rows in blocks_of(self.rows, max(1, _CELLS // self._index.d)):
            yield None if self._ids is None else self._ids[rows], self._part(rows.start, rows.stop)

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        path = split_key(output, None)[0]
        require_writable(path)
        faiss, old = self._faiss, self._index
        if isinstance(old, faiss.IndexHNSWFlat):
            new = faiss.IndexHNSWFlat(width, old.hnsw.nb_neighbors(1), old.metric_type)
            new.hnsw.efConstruction, new.hnsw.efSearch = old.hnsw.efConstruction, old.hnsw.efSearch
        elif isinstance(old, faiss.IndexIVFFlat):
            quantiser = faiss.IndexFlat(width, old.metric_type)
            new = faiss.IndexIVFFlat(quantiser, width, old.nlist, old.metric_type)
            new.nprobe = old.nprobe
            new.train(np.ascontiguousarray(change(self._part(0, min(self.rows, 256 * old.nlist))), np.float32))
        else:
            new = faiss.IndexFlat(width, old.metric_type)
        whole = new if self._ids is None else self._map_kind(new)
        step = max(1, _CELLS // max(width, old.d))
        for start in range(0, self.rows, step):
            stop = min(start + step, self.rows)
            vectors = np.ascontiguousarray(change(self._part(start, stop)), np.float32)
            if self._ids is None:
                whole.add(vectors)
            else:
                whole.add_with_ids(vectors, self._ids[start:stop])
            progress(stop - start)
        kind = type(new).__name__
        with replacing(path) as temporary:
            faiss.write_index(whole, str(temporary))
        return f"{self.rows} rows x {width} columns, {kind}{' with ids' if self._ids is not None else ''}"

    def _part(self, start: int, stop: int) -> Array:
        return np.asarray(self._index.reconstruct_n(start, stop - start))


class _Qdrant:
    """A Qdrant collection: ``qdrant:FOLDER::COLLECTION`` in local mode, or ``qdrant:http://HOST:PORT::COLLECTION``."""

    def __init__(self, address: str) -> None:
        self._place, self.name = _address(address)
        self._client = _qdrant(self._place)
        if not self._client.collection_exists(self.name):
            raise InputError(f"{address} does not exist")
        vectors = self._client.get_collection(self.name).config.params.vectors
        self._vector: str | None = None
        if isinstance(vectors, dict):
            if len(vectors) != 1:
                raise InputError(f"{address} has several vectors per point ({', '.join(vectors)}): one is translated")
            self._vector, vectors = next(iter(vectors.items()))
        if vectors is None:
            raise InputError(f"{address} has no vectors")
        self._distance = vectors.distance
        self.rows = int(self._client.count(self.name, exact=True).count)
        if not self.rows:
            raise InputError(f"{address} holds no points")

    def _points(self) -> Iterator[tuple[list[Any], Array]]:
        offset = None
        while True:
            points, offset = self._client.scroll(
                self.name, limit=1000, offset=offset, with_vectors=True, with_payload=True
            )
            if points:
                held = [point.vector if self._vector is None else point.vector[self._vector] for point in points]
                yield points, np.array(held, np.float32)
            if offset is None:
                return

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        for points, vectors in self._points():
            yield np.array([str(point.id) for point in points]), vectors

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        from qdrant_client import models

        place, name = _address(output)
        client = self._client if place == self._place else _qdrant(place)
        if client.collection_exists(name):
            raise InputError(f"{output} exists: name another collection")
        params = models.VectorParams(size=width, distance=self._distance)
        with ExitStack() as undo:
            undo.callback(client.delete_collection, name)
            client.create_collection(name, vectors_config=params if self._vector is None else {self._vector: params})
            for points, vectors in self._points():
                new = change(vectors).tolist()
                client.upsert(
                    name,
                    [
                        models.PointStruct(
                            id=point.id,
                            vector=vector if self._vector is None else {self._vector: vector},
                            payload=point.payload,
                        )
                        for point, vector in zip(points, new, strict=True)
                    ],
                )
                progress(len(points))
            undo.pop_all()
        if client is not self._client:
            client.close()
        self._client.close()
        return f"{self.rows} points x {width} columns with ids and payloads, by {self._distance.value.lower()}"


def _qdrant(place: str) -> Any:
    client = import_extra("qdrant_client", "stores", "a Qdrant collection", "qdrant-client").QdrantClient
    if place.startswith(("http://", "https://")):
        return client(url=place)
    return client(path=place)


class _PgVector:
    """A table of PostgreSQL with one column of pgvector: ``pgvector:postgresql://USER@HOST/DATABASE::TABLE``.

    Rows travel as the text of COPY. All fields but the vector pass as they are, whatever their types.
    """

    def __init__(self, address: str) -> None:
        self._place, self._table = _address(address)
        self.name = without_secrets(address)
        with _postgres(self._place) as connection:
            place = _identifier(self._table)
            try:
                found = connection.execute(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass "
                    "AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                    [place.as_string(connection)],
                ).fetchall()
            except import_extra("psycopg", *_PSYCOPG).Error as error:
                raise InputError(f"{self.name} cannot be opened: {str(error).splitlines()[0]}") from error
            kinds = dict(found)
            wide = [name for name, kind in kinds.items() if kind.partition("(")[0].rpartition(".")[2] in _PG_KINDS]
            if len(wide) != 1:
                raise InputError(
                    f"{self.name} has {len(wide)} columns of vectors ({', '.join(wide) or 'none'}): one is translated"
                )
            self._column, self._names = wide[0], list(kinds)
            self._kind = kinds[self._column].partition("(")[0]
            counted = connection.execute(_sql("SELECT count(*) FROM {}", place)).fetchone()
            self.rows = int(counted[0])
        if not self.rows:
            raise InputError(f"{self.name} holds no rows")

    def _lines(self, connection: Any) -> Iterator[tuple[list[list[bytes]], Array]]:
        """Batches of rows, as fields of COPY, and their vectors."""
        place, held, start = self._names.index(self._column), [], 0
        with (
            connection.cursor() as cursor,
            cursor.copy(
                _sql(
                    f"COPY (SELECT {', '.join(['{}'] * len(self._names))} FROM {{}}) TO STDOUT",
                    *map(_identifier_of, self._names),
                    _identifier(self._table),
                )
            ) as copy,
        ):
            for fields in copied_rows(copy):
                held.append(fields)
                if len(held) == _PG_ROWS:
                    yield held, pg_vectors([each[place] for each in held], self.name, start)
                    start, held = start + len(held), []
        if held:
            yield held, pg_vectors([each[place] for each in held], self.name, start)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        with _postgres(self._place) as connection:
            for _, vectors in self._lines(connection):
                yield None, vectors

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        place, table = _address(output)
        psycopg = import_extra("psycopg", *_PSYCOPG)
        new, old, column = _identifier(table), _identifier(self._table), _identifier_of(self._column)
        said, index = without_secrets(output), self._names.index(self._column)
        with _postgres(self._place) as reading, _postgres(place) as writing:
            try:
                writing.execute(
                    _sql(
                        "CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
                        "INCLUDING GENERATED INCLUDING COMMENTS)",
                        new,
                        old,
                    )
                )
                writing.execute(
                    _sql(f"ALTER TABLE {{}} ALTER COLUMN {{}} TYPE {self._kind}({int(width)})", new, column)
                )
                names = [_identifier_of(name) for name in self._names]
                into = _sql(f"COPY {{}} ({', '.join(['{}'] * len(names))}) FROM STDIN", new, *names)
                with writing.cursor() as cursor, cursor.copy(into) as copy:
                    for rows, vectors in self._lines(reading):
                        for fields, vector in zip(rows, change(vectors), strict=True):
                            fields[index] = pg_text(vector)
                            copy.write(b"\t".join(fields) + b"\n")
                        progress(len(rows))
            except psycopg.Error as error:
                raise InputError(f"{said} cannot be written: {str(error).splitlines()[0]}") from error
            writing.commit()
        others = len(self._names) - 1
        return f"{self.rows} rows x {width} columns, {self._kind}, with {others} other columns; indexes are not copied"


_PSYCOPG = ("stores", "a table of PostgreSQL", "psycopg[binary]")
_PG_KINDS = ("vector", "halfvec")
_PG_ROWS = 1000


def copied_rows(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The rows of COPY's text format as fields; line ends and tabs inside fields are escaped there, and stay so."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + bytes(chunk)).split(b"\n")
        for line in lines:
            yield line.split(b"\t")
    if rest:
        yield rest.split(b"\t")


def pg_vectors(cells: list[bytes], name: str, start: int) -> Array:
    """Vectors from pgvector's text, such as ``[1,2.5]``."""
    missing = [row for row, cell in enumerate(cells) if cell == rb"\N"]
    if missing:
        raise InputError(
            f"{name} has no vector in row {start + missing[0]} (as the table is read): leave such rows out"
        )
    rows = [np.array(cell.strip(b"[]").split(b","), np.float32) for cell in cells]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{name} holds vectors of different widths")
    return np.stack(rows)


def pg_text(vector: Array) -> bytes:
    """A vector as pgvector's text, with all digits of float32."""
    return ("[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]").encode()


def _postgres(place: str) -> Any:
    if not place.startswith(("postgresql://", "postgres://")):
        raise InputError("pgvector: needs a URL and a table: pgvector:postgresql://USER@HOST/DATABASE::TABLE")
    psycopg = import_extra("psycopg", *_PSYCOPG)
    try:
        return psycopg.connect(place)
    except psycopg.Error as error:
        raise InputError(f"{without_secrets(place)} cannot be reached: {str(error).splitlines()[0]}") from error


def _sql(text: str, *parts: Any) -> Any:
    return import_extra("psycopg.sql", *_PSYCOPG).SQL(text).format(*parts)


def _identifier(table: str) -> Any:
    """A table, or ``schema.table``, quoted."""
    return import_extra("psycopg.sql", *_PSYCOPG).Identifier(*table.split(".", 1))


def _identifier_of(name: str) -> Any:
    return import_extra("psycopg.sql", *_PSYCOPG).Identifier(name)
