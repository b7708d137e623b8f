"""Parquet tables, read in batches: feature columns, or one list column."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import InputError, import_extra
from ..representation import Array
from . import naming
from .naming import FLAG, LIST, NUMBER, TEXT, Tally, as_text, require_column, require_plausible
from .registry import Contents, RowStream
from .remote import is_remote
from .scratch import require_plausible_values, spool

_BATCH_CELLS = 2**21
_LABELS_BATCH = 2**16
_LONGEST_LIST = 2**20
_LONGEST_FOOTER = 2**25  # bytes; opened it takes some twenty times as many
_MOST_COLUMNS = 10**5  # each takes several kilobytes while it is read

GAPS = True  # columns may have missing entries


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Read the representation's columns, and the column of row ids where there is one."""
    table = describe(path, key, ids, besides)
    labels = row_ids(path, table.ids_names)
    file, rows = _open(path), sum(table.group_rows)
    if table.list_column is not None:
        values = spool(_list_blocks(file, table.list_column, len(table.columns)), path.stat().st_size)
        return Contents(values, labels, table.left_out, table.converted, part=table.list_column)
    size = rows * len(table.columns) * table.dtype.itemsize
    blocks = _column_blocks(file, list(table.columns), table.dtype)
    values = spool(blocks, path.stat().st_size, expected_bytes=size)
    return Contents(values, labels, table.left_out, table.converted, table.columns)


@dataclass(frozen=True)
class Table:
    """Metadata of a file: the columns of the representation and of the ids, and the rows of each group."""

    columns: tuple[str, ...]
    list_column: str | None
    dtype: np.dtype[Any]
    ids_names: tuple[str, ...]
    group_rows: tuple[int, ...]
    left_out: Mapping[str, str]
    converted: Mapping[str, str]


def describe(
    path: Path, key: str | None, ids: str | None, besides: Collection[str] = (), *, empty: bool = False
) -> Table:
    """Choose the columns of a file; its values are not read, but for columns of text that may hold numbers.

    A file without rows is refused unless ``empty`` is true; the width of its lists is then not known, and is 0.
    """
    file = _open(path)
    schema = file.schema_arrow
    if ids is not None:
        require_column(ids, schema.names)
    names = list(schema.names)  # which are made anew at every look
    repeated = [name for name, often in Counter(names).items() if often > 1]
    if repeated:
        raise InputError(f"two columns are called {repeated[0]!r}")
    index = saved_index(schema)
    if ids is not None:
        ids_names = [ids]
    else:
        ids_names = index or [name for name in [naming.default_ids_name(names)] if name is not None]
    kinds = column_kinds(schema)
    choice = naming.choose_columns(kinds, key, [*besides, *ids_names, *index])
    for name in choice.columns:
        if kinds[name] not in (NUMBER, FLAG):
            _refuse(path, name, kinds[name], schema.field(name).type)
    for name in choice.doubtful:
        _tally(path, name).kind(typed=True)
    choice.require()
    metadata = file.metadata
    if not empty and metadata.num_rows == 0:
        raise InputError("there are no rows of data")
    groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    left_out = choice.left_out | {
        name: "index of a data frame" for name in index if key is None and name not in (*ids_names, *besides)
    }
    if choice.list_column is not None:
        _require_short_lists(metadata, choice.list_column)
        if metadata.num_rows == 0:
            dtype = _common_dtype([schema.field(choice.list_column).type.value_type])
            return Table((), choice.list_column, dtype, tuple(ids_names), groups, left_out, {})
        first = next(_list_blocks(file, choice.list_column, None, batch_size=1))
        numbered = tuple(f"{choice.list_column}{number}" for number in range(first.shape[1]))
        return Table(numbered, choice.list_column, first.dtype, tuple(ids_names), groups, left_out, {})
    stored_as = {field.name: field.type for field in schema}
    types = [_plain_type(stored_as[name]) for name in choice.columns]
    converted = {name: said for name, kind in zip(choice.columns, types, strict=True) if (said := _conversion(kind))}
    dtype = _common_dtype(types)
    return Table(tuple(choice.columns), None, dtype, tuple(ids_names), groups, left_out, converted)


def has_rows(path: Path) -> bool:
    """Whether a file has rows at all."""
    return bool(_open(path).metadata.num_rows)


def read_group(path: Path, table: Table, group: int, first: int) -> Array:
    """The values of one row group, whose first row is row ``first`` of the file."""
    file = _open(path)
    rows, stored = table.group_rows[group], path.stat().st_size
    require_plausible_values(rows * len(table.columns) * table.dtype.itemsize, stored)
    if table.list_column is not None:
        blocks = _list_blocks(file, table.list_column, len(table.columns), row_groups=[group], first=first)
    else:
        blocks = _column_blocks(file, list(table.columns), table.dtype, row_groups=[group], first=first)
    return np.concatenate([np.empty((0, len(table.columns)), table.dtype), *blocks])


def row_ids(path: Path, names: Sequence[str]) -> Array | None:
    """The ids of all rows: one column, or the levels of an index."""
    return _joined([_labels(path, name) for name in names])


def column(path: Path, name: str, missing: bool = False) -> Array:
    """One column of labels; ``missing`` allows gaps, as empty text."""
    require_column(name, _open(path).schema_arrow.names)
    return _labels(path, name, missing)


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write one column per dimension, ``feature_0`` and so on, after the column ``id`` and further labels."""
    pyarrow = _pyarrow()
    names = [f"{naming.FEATURE_PREFIX if key is None else key}{index}" for index in range(rows.shape[1])]
    fields = [(name, pyarrow.from_numpy_dtype(rows.dtype)) for name in names]
    labels = rows.all_labels("id")
    kinds = {name: _label_type(held) for name, held in labels.items()}
    schema = pyarrow.schema([*kinds.items(), *fields])
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for here, block in rows.placed():
            columns = [_label_cells(held[here], kinds[name]) for name, held in labels.items()]
            columns += [pyarrow.array(np.ascontiguousarray(column)) for column in block.T]
            writer.write_table(pyarrow.table(columns, schema=schema))


def open_file(path: Path) -> Any:
    """A parquet file of this machine or of an object store."""
    return _open(path)


def others(path: Path, besides: Collection[str]) -> dict[str, Any]:
    """The columns of a file besides some, of whatever type, as they are stored."""
    file = _open(path)
    names = [name for name in file.schema_arrow.names if name not in besides]
    entries = _entries(file.metadata)
    for name in names:
        _require_plausible_cells(path, file, name, entries[name])
    table = file.read(columns=names)
    return {name: ArrowLabels(table.column(name)) for name in names}


class ArrowLabels:
    """A column of a parquet file, with its type; numbers and flags without gaps are arrays of them."""

    def __init__(self, cells: Any) -> None:
        from pyarrow import types

        self.cells = cells
        kind = cells.type
        plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        self.dtype = np.dtype(kind.to_pandas_dtype() if plain and not cells.null_count else object)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, rows: slice) -> Any:
        cells = self.cells[rows].to_pylist()
        return cells if self.dtype.kind == "O" else np.array(cells, dtype=self.dtype)


def numbers(path: Path, file: Any, name: str) -> Any:
    """The entries of a column whose entries take a few bytes each."""
    require_plausible_values(8 * file.metadata.num_rows, path.stat().st_size)
    return file.read(columns=[name]).column(0)


def _entries(metadata: Any) -> Counter[str]:
    """The number of entries of each column, those of all its parts together."""
    found: Counter[str] = Counter()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            found[chunk.path_in_schema.split(".")[0]] += chunk.num_values
    return found


def _require_plausible_cells(path: Path, file: Any, name: str, entries: int) -> None:
    """Refuse a column that would unpack to far more than the file; a few bytes can stand for many long texts."""
    import pyarrow.compute
    from pyarrow import types

    stored = path.stat().st_size
    require_plausible_values(8 * entries, stored)
    if not types.is_string(kind := _plain_type(file.schema_arrow.field(name).type)) and not types.is_binary(kind):
        return
    unpacked = 0
    for batch in _open(path, read_dictionary=[name]).iter_batches(batch_size=_LABELS_BATCH, columns=[name]):
        cells = batch.column(0).dictionary_encode()  # where it is not yet
        lengths = pyarrow.compute.binary_length(cells.dictionary).take(cells.indices)
        unpacked += pyarrow.compute.sum(lengths).as_py() or 0
        require_plausible(unpacked, stored, f"column {name!r}")


def _label_type(held: Any) -> Any:
    """The type of a column of labels."""
    pyarrow = _pyarrow()
    if isinstance(held, ArrowLabels):
        return held.cells.type
    known = {"i": pyarrow.int64(), "u": pyarrow.int64(), "f": pyarrow.float64(), "b": pyarrow.bool_()}
    return known.get(held.dtype.kind, pyarrow.string())


def _label_cells(cells: Any, kind: Any) -> Any:
    return _pyarrow().array(
        cells.tolist() if isinstance(cells, np.ndarray) and cells.dtype.kind == "O" else cells, kind
    )


def _open(path: Path, **options: Any) -> Any:
    if is_remote(path):
        return _pyarrow().parquet.ParquetFile(path.open(), pre_buffer=True, **options)
    with path.open("rb") as held:
        held.seek(-min(8, path.stat().st_size), os.SEEK_END)
        footer = int.from_bytes(held.read(4), "little")
    if _LONGEST_FOOTER < footer <= path.stat().st_size:
        raise InputError(
            f"its footer has {footer} bytes, and one of up to {_LONGEST_FOOTER} is read: save it with fewer columns "
            "or with larger row groups"
        )
    file = _pyarrow().parquet.ParquetFile(path, memory_map=False, **options)  # a file may shrink
    if file.metadata.num_columns > _MOST_COLUMNS:
        raise InputError(f"it has {file.metadata.num_columns} columns, and up to {_MOST_COLUMNS} are read")
    return file


def _pyarrow() -> Any:
    import_extra("pyarrow.parquet", "io", "parquet")
    import pyarrow

    return pyarrow


def saved_index(schema: Any) -> list[str]:
    """The columns that pandas saved as a data frame's index."""
    saved = (schema.metadata or {}).get(b"pandas")
    try:
        index = json.loads(saved).get("index_columns", []) if saved else []
        return [name for name in index if isinstance(name, str) and name in schema.names]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise InputError("what pandas wrote about its index is damaged: save the table again") from error


def _joined(labels: list[Array]) -> Array | None:
    """One id per row: the label itself, or the labels of several index levels joined by slashes."""
    if len(labels) <= 1:
        return labels[0] if labels else None
    return np.array(["/".join(map(str, parts)) for parts in zip(*labels, strict=True)])


def column_kinds(schema: Any) -> dict[str, str]:
    """The kind of each column: numbers, flags, lists of numbers, text, or its type in a word or two."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(kind: Any) -> str:
    from pyarrow import types

    kind = _plain_type(kind)
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind) or types.is_null(kind):
        return NUMBER
    if types.is_boolean(kind):
        return FLAG
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _kind(kind.value_type)
        return LIST if inner == NUMBER and not types.is_null(kind.value_type) else f"list of {inner}"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return TEXT
    word = re.match("[a-z_]+", str(kind))  # timestamp, date, duration, binary, struct, ...
    return str(kind) if word is None else word[0]


def _plain_type(kind: Any) -> Any:
    """The type of a column's entries, also where it stores each different one once."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _conversion(kind: Any) -> str | None:
    """How entries of a type become numbers, if they are not yet."""
    from pyarrow import types

    if types.is_boolean(kind):
        return "true and false to 1 and 0"
    return f"{kind} to float64" if types.is_decimal(kind) else None


def _refuse(path: Path, name: str, kind: str, stored: Any) -> NoReturn:
    """Refuse a requested column without numbers, with the first entry that is not a number."""
    if kind == TEXT:
        tally = _tally(path, name)
        tally.kind(typed=True)
        first = tally.first
        if first is not None:
            raise InputError(naming.not_a_number(name, *first))
    raise InputError(f"column {name!r} holds {stored}, not floating-point numbers")


def _tally(path: Path, name: str) -> Tally:
    """The counts of a column of text."""
    tally = Tally(name)
    rows = 0
    for batch in _open(path, read_dictionary=[name]).iter_batches(batch_size=_LABELS_BATCH, columns=[name]):
        cells = batch.column(0).dictionary_encode()  # where it is not yet
        words = [*cells.dictionary.to_pylist(), ""]
        codes = cells.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
        different, first, counts = np.unique(codes, return_index=True, return_counts=True)
        for index in np.argsort(first):
            tally.add(words[different[index]] or "", rows + int(first[index]), int(counts[index]))
        rows += len(cells)
    return tally


def _common_dtype(types: list[Any]) -> np.dtype[Any]:
    """One dtype for all columns; integers become float64 if some columns are floating point."""
    from pyarrow import types as arrow

    dtypes = [
        np.dtype(np.float64 if arrow.is_decimal(kind) or arrow.is_null(kind) else kind.to_pandas_dtype())
        for kind in types
    ]
    floating = [dtype for dtype in dtypes if dtype.kind == "f"]
    if floating and len(floating) < len(dtypes):
        return np.dtype(np.float64)
    return np.result_type(*dtypes)


def _column_blocks(
    file: Any, columns: list[str], dtype: np.dtype[Any], *, row_groups: list[int] | None = None, first: int = 0
) -> Iterator[Array]:
    rows = first
    size = max(1, _BATCH_CELLS // len(columns))
    for batch in file.iter_batches(batch_size=size, columns=columns, row_groups=row_groups):
        block = np.empty((batch.num_rows, len(columns)), dtype)
        places = {name: place for place, name in enumerate(batch.schema.names)}
        for index, name in enumerate(columns):
            cells = as_numbers(batch.column(places[name]))
            if cells.null_count and dtype.kind != "f":
                missing = int(np.argmax(cells.is_null().to_numpy(zero_copy_only=False)))
                raise InputError(f"row {rows + missing}, column {name!r}: the entry is missing")
            if dtype.kind == "f":
                _refuse_inexact(cells, name, rows)
            block[:, index] = cells.to_numpy(zero_copy_only=False)
        rows += len(block)
        yield block


def as_numbers(cells: Any) -> Any:
    """Entries that stand for numbers as numbers: dictionaries decoded, decimals as float64, flags as 0 and 1."""
    from pyarrow import types

    if types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if types.is_decimal(cells.type):
        return cells.cast("string").cast("float64")  # the nearest one; a direct cast may miss it
    if types.is_null(cells.type):
        return cells.cast("float64")
    return cells.cast("int8") if types.is_boolean(cells.type) else cells


def _refuse_inexact(cells: Any, name: str, rows: int) -> None:
    """Refuse whole numbers that float64 would round."""
    import pyarrow.compute
    from pyarrow import types

    if not (types.is_int64(cells.type) or types.is_uint64(cells.type)):
        return
    ends = pyarrow.compute.min_max(cells).as_py()
    if max(abs(ends["min"] or 0), abs(ends["max"] or 0)) <= naming.EXACT:
        return
    for index, number in enumerate(cells.to_pylist()):
        if number is not None and int(float(number)) != number:
            raise naming.inexact(name, rows + index, number)


def _require_short_lists(metadata: Any, name: str) -> None:
    """Refuse lists so long that one batch of them would fill the memory; few bytes can stand for many equal entries."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column_chunk in map(group.column, range(group.num_columns)):
            is_meant = column_chunk.path_in_schema.split(".")[0] == name
            if is_meant and column_chunk.num_values > group.num_rows * _LONGEST_LIST:
                raise InputError(f"the lists of column {name!r} have more than {_LONGEST_LIST} entries")


def _list_blocks(
    file: Any,
    name: str,
    width: int | None,
    *,
    row_groups: list[int] | None = None,
    first: int = 0,
    batch_size: int | None = None,
) -> Iterator[Array]:
    """Lists of one width, that of the first row where it is not known."""
    if width is None:
        width = len(next(file.iter_batches(batch_size=1, columns=[name])).column(0)[0].as_py() or [])
    row = first
    size = batch_size or max(1, _BATCH_CELLS // max(width, 1))
    for batch in file.iter_batches(batch_size=size, columns=[name], row_groups=row_groups):
        block = list_rows(batch.column(0), name, width, row)
        row += len(block)
        yield block


def list_rows(cells: Any, name: str, width: int, row: int) -> Array:
    """Lists of one width as rows, of which the first is row ``row`` of the file."""
    import pyarrow.compute

    if cells.null_count:
        missing = int(np.argmax(cells.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"row {row + missing} of column {name!r} is missing ({cells.null_count} in this batch)")
    lengths = pyarrow.compute.list_value_length(cells).to_numpy(zero_copy_only=False)
    ragged = np.flatnonzero(lengths != width)
    if len(ragged):
        raise InputError(
            f"column {name!r} is ragged: row 0 has {width} entries and row {row + int(ragged[0])} has "
            f"{int(lengths[ragged[0]])}"
        )
    if width == 0:
        raise InputError(f"the lists of column {name!r} are empty")
    flat: Array = as_numbers(cells.flatten()).to_numpy(zero_copy_only=False)
    return flat.reshape(len(cells), width)


def _with_nulls(cells: Any) -> Any:
    """Numbers whose NaN are missing entries, as null ones are."""
    import pyarrow.compute

    cells = cells.cast("float64")  # float16 has no such kernels
    return pyarrow.compute.if_else(pyarrow.compute.is_nan(cells), None, cells)


def _is_array(part: Any) -> bool:
    return isinstance(part, np.ndarray)


def _labels(path: Path, name: str, missing: bool = False) -> Array:
    """A column of ids or groups as numpy integers or text; repeated text is held once."""
    from pyarrow import types

    kind = _open(path).schema_arrow.field(name).type
    if types.is_nested(kind):
        raise InputError(f"column {name!r} holds {kind}, which cannot be row ids or labels")
    stored = path.stat().st_size
    parts: list[Any] = []
    rows = 0
    for batch in _open(path, read_dictionary=[name]).iter_batches(batch_size=_LABELS_BATCH, columns=[name]):
        cells = batch.column(0)
        if types.is_floating(cells.type):
            cells = _with_nulls(cells)
        if cells.null_count and not missing:
            raise InputError(f"column {name!r} has {cells.null_count} missing entries from row {rows} on")
        rows += len(cells)
        require_plausible(16 * rows, stored, f"column {name!r}")
        if types.is_dictionary(cells.type):
            words = cells.dictionary.to_pylist()
            parts.append(["" if code is None else words[code] for code in cells.indices.to_pylist()])
        elif types.is_integer(cells.type) and not cells.null_count and all(map(_is_array, parts)):
            parts.append(cells.to_numpy(zero_copy_only=False))
        else:
            parts = [list(part) for part in parts]
            parts.append(["" if cell is None else cell for cell in cells.to_pylist()])
    if parts and all(map(_is_array, parts)):
        return np.concatenate(parts)
    return as_text(chain.from_iterable(parts), stored, f"column {name!r}")
