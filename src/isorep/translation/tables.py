"""Tables of Arrow, as parquet files and in LanceDB: new vectors beside every other column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..files import replacing, require_writable
from ..representation import Array
from ..results import counted
from ..storage import parquet
from ..storage.naming import FEATURE_PREFIX, LIST, require_column
from ..storage.registry import split_key
from .quantised import SCALES, Scale, encoded, is_positive, narrowed
from .rewriting import CELLS, Block, Task, address_of, default_ids, guarded_each, labels, require_folder


class ArrowTable:
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
            named = scale or next((name for name in SCALES if name in schema.names), None)
            if named is None or (named not in schema.names and not is_positive(named)):
                raise InputError(
                    f"column {list_column!r} holds int8: name its scale with --scale, a column or a number"
                )
            self._scale = named if named in schema.names else float(named)
        elif scale is not None:
            raise InputError(f"column {list_column or columns[0]!r} holds {kind}: --scale is for integers")
        self._kind = kind

    @property
    def batch_rows(self) -> int:
        """Rows of a batch that fits into memory."""
        return max(1, CELLS // max(len(self._columns), 1))

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
            return Scale(self._scale).decoded(values, slice(0, len(values)))
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
            vectors, scales = encoded(vectors, single)
        else:
            vectors = narrowed(vectors, self._kind.to_pandas_dtype(), name)
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

    @property
    def one_scale(self) -> bool:
        """Whether all rows have the same scale."""
        return isinstance(self._scale, float)

    def needed(self, *others: str | None) -> list[str]:
        """The columns of vectors and their scale, and others."""
        vectors = self._columns if self._list is None else (self._list,)
        scale = self._scale if isinstance(self._scale, str) else None
        return list(dict.fromkeys(name for name in (*vectors, scale, *others) if name is not None))

    def block(self, batch: Any, start: int, ids: str | None, required: bool) -> Block:
        """The ids of a batch, where a column of them is named, and its vectors."""
        names = None
        if ids is not None:
            cells = batch.column(batch.schema.get_field_index(ids)).to_pylist()
            names = labels(cells, ids, start, required)
        return names, self.vectors(batch, start)

    def described(self, rows: int, width: int, single: float | None) -> str:
        """What was written, in words."""
        others = len(self._schema.names) - (1 if self._list else len(self._columns))
        stored = "int8" if self._integer else str(self._kind)
        how = "" if single is None else f" with the scale {single:.4g}"
        shape = f"in the column {self._list!r}" if self._list else "in columns"
        return f"{rows} rows x {width} columns, {stored}{how}, {shape}, with {counted(others, 'other column')}"


class ParquetStore:
    """A parquet file."""

    def __init__(self, path: Path, key: str | None, scale: str | None, ids: str | None = None) -> None:
        self.name, self._path = path.name, path
        table = parquet.describe(path, key, ids, [scale] if scale else list(SCALES), empty=True)
        self.rows = sum(table.group_rows)
        self._rows = ArrowTable(parquet.open_file(path).schema_arrow, table.list_column, table.columns, scale)
        self.vectors = table.list_column or table.columns
        self._ids = table.ids_names[0] if len(table.ids_names) == 1 else None
        self.required, self.one_scale = ids is not None, self._rows.one_scale

    def _batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        if not self.rows:
            return
        # Opened for each pass: of thousands of shards only one is open at a time.
        yield from parquet.open_file(self._path).iter_batches(batch_size=self._rows.batch_rows, columns=columns)

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, block by block; with ids if these are wanted and known."""
        ids = self._ids if named else None

        def made() -> Iterator[Block]:
            rows = 0
            for batch in self._batches(self._rows.needed(ids)):
                yield self._rows.block(batch, rows, ids, self.required)
                rows += batch.num_rows

        return guarded_each(self._path, made())

    def write(self, output: str, task: Task) -> str:
        """Write all columns to a parquet file, with new vectors."""
        import pyarrow.parquet

        path = split_key(output, None)[0]
        require_writable(path)
        schema, rows = self._rows.schema(task.width), 0
        with (
            replacing(path) as temporary,
            pyarrow.parquet.ParquetWriter(temporary, schema, compression=self._codecs(schema)) as writer,
        ):
            for batch in self._batches():
                vectors = task.change(self._rows.vectors(batch, rows))
                writer.write_batch(self._rows.changed(batch, schema, vectors, task.scale, self.name))
                rows += batch.num_rows
                task.told(batch.num_rows)
        return self._rows.described(rows, task.width, task.scale)

    def _codecs(self, schema: Any) -> dict[str, str]:
        """The compression of every column of the output: that of the source, and of its vectors for new columns."""
        import pyarrow.parquet

        metadata = parquet.open_file(self._path).metadata
        if not metadata.num_row_groups:
            return {}
        group, held = metadata.row_group(0), {}
        for chunk in map(group.column, range(group.num_columns)):
            plain = chunk.compression == "UNCOMPRESSED"
            held[chunk.path_in_schema.partition(".")[0]] = "NONE" if plain else chunk.compression
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(schema.empty_table(), sink)
        made = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(sink.getvalue())).schema
        paths = [made.column(place).path for place in range(len(made))]
        vectors = held[self._rows.needed()[0].partition(".")[0]]
        return {path: held.get(path.partition(".")[0], vectors) for path in paths}


class LanceTable:
    """A LanceDB table: ``lancedb:FOLDER::TABLE``."""

    def __init__(self, address: str, scale: str | None, ids: str | None = None) -> None:
        self._place, self.name = address_of(address)
        require_folder(self._place, address, f"{self.name}.lance")
        database = _lance(self._place)
        try:
            self._table = database.open_table(self.name)
        except Exception as error:
            raise InputError(f"{address} cannot be opened: {str(error)[:200]}") from error
        self.rows = int(self._table.count_rows())
        schema = self._table.schema
        if ids is not None:
            require_column(ids, schema.names)
        self._ids, self._required = ids or default_ids(schema.names), ids is not None
        lists = [name for name, kind in parquet.column_kinds(schema).items() if kind == LIST]
        column = "vector" if "vector" in lists else lists[0] if len(lists) == 1 else None
        if column is None or not self.rows:
            raise InputError(f"{address} has {'no rows' if not self.rows else 'no single column of vectors'}")
        first = next(batch for batch in self._batches([column], limit=1) if batch.num_rows).column(0)[0]
        width = len(first) if first.is_valid else 0
        self._rows = ArrowTable(schema, column, tuple(map(str, range(width))), scale)
        self.one_scale = self._rows.one_scale

    def _batches(self, columns: list[str] | None = None, limit: int | None = None, size: int = 8192) -> Iterator[Any]:
        rows = self._table.search().limit(limit or self.rows)
        try:
            yield from (rows if columns is None else rows.select(columns)).to_batches(size)
        except Exception as error:  # whatever a damaged table makes the library raise
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{self.name} cannot be read, it may be damaged: {reason}") from error

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, block by block; with ids if these are wanted and known."""
        rows, ids = 0, self._ids if named else None
        for batch in self._batches(self._rows.needed(ids)):
            yield self._rows.block(batch, rows, ids, self._required)
            rows += batch.num_rows

    def write(self, output: str, task: Task) -> str:
        """Write all columns to a new table, with new vectors."""
        import pyarrow

        place, name = address_of(output)
        new_folder = "://" not in place and not Path(place).exists()
        database = _lance(place)
        if name in _names(database):
            raise InputError(f"{output} exists: name another table")
        schema, rows = self._rows.schema(task.width), 0
        with ExitStack() as undo:
            if new_folder:  # which the library has made
                undo.callback(_remove_empty, Path(place))
            undo.callback(lambda: name in _names(database) and database.drop_table(name))
            table = database.create_table(name, schema=schema)
            for batch in self._batches():
                vectors = task.change(self._rows.vectors(batch, rows))
                rows += batch.num_rows
                new = self._rows.changed(batch, schema, vectors, task.scale, self.name)
                table.add(pyarrow.Table.from_batches([new]))
                task.told(batch.num_rows)
            undo.pop_all()
        return f"{self._rows.described(self.rows, task.width, task.scale)}; indexes are not copied"


def _lance(place: str) -> Any:
    return import_extra("lancedb", "stores", "a LanceDB table").connect(place)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _names(database: Any) -> list[str]:
    listed = getattr(database, "list_tables", None)
    found = database.table_names() if listed is None else listed()
    return list(getattr(found, "tables", found))
