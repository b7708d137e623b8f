"""Parquet tables, read in batches: feature columns, or one list column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, missing_extra
from ..representation import Array
from .naming import choose_columns, default_ids_name
from .registry import Contents
from .scratch import spool

_BATCH_CELLS = 2**21


def load(path: Path, key: str | None, ids: str | None) -> Contents:
    """Read the representation's columns, and the column of row ids where there is one."""
    file = _open(path)
    schema = file.schema_arrow
    if ids is not None and ids not in schema.names:
        raise InputError(f"there is no column {ids!r}; there are {', '.join(schema.names[:12])}")
    ids_name = (_saved_index(schema) or default_ids_name(schema.names)) if ids is None else ids
    numeric, lists = _numeric_and_list_columns(schema)
    columns, list_column = choose_columns(numeric, lists, key, ids_name)
    row_ids = None if ids_name is None else _labels(file.read([ids_name]).column(0), ids_name)
    rows = file.metadata.num_rows
    if rows == 0:
        raise InputError("there are no rows of data")
    if list_column is not None:
        values = spool(_list_blocks(file, list_column))
    else:
        dtype = _common_dtype([schema.field(name).type for name in columns])
        size = rows * len(columns) * dtype.itemsize
        values = spool(_column_blocks(file, columns, dtype), expected_bytes=size)
    return Contents(values, row_ids)


def column(path: Path, name: str) -> Array:
    """One column of labels."""
    file = _open(path)
    if name not in file.schema_arrow.names:
        raise InputError(f"there is no column {name!r}; there are {', '.join(file.schema_arrow.names[:12])}")
    return _labels(file.read([name]).column(0), name)


def _open(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise missing_extra("pyarrow", "io", "reading parquet") from None
    return pyarrow.parquet.ParquetFile(path, memory_map=True)


def _saved_index(schema: Any) -> str | None:
    """The column that pandas saved as a data frame's index."""
    saved = (schema.metadata or {}).get(b"pandas")
    index = json.loads(saved).get("index_columns", []) if saved else []
    return index[0] if len(index) == 1 and isinstance(index[0], str) and index[0] in schema.names else None


def _numeric_and_list_columns(schema: Any) -> tuple[list[str], list[str]]:
    from pyarrow import types

    numeric, lists = [], []
    for field in schema:
        if types.is_floating(field.type) or types.is_integer(field.type):
            numeric.append(field.name)
        elif types.is_list(field.type) or types.is_large_list(field.type) or types.is_fixed_size_list(field.type):
            inner = field.type.value_type
            if types.is_floating(inner) or types.is_integer(inner):
                lists.append(field.name)
    return numeric, lists


def _common_dtype(types: list[Any]) -> np.dtype[Any]:
    """One dtype for all columns; integers become float64 beside floating-point columns and stay integers alone."""
    dtypes = [np.dtype(kind.to_pandas_dtype()) for kind in types]
    floating = [dtype for dtype in dtypes if dtype.kind == "f"]
    if floating and len(floating) < len(dtypes):
        return np.dtype(np.float64)
    return np.result_type(*dtypes)


def _column_blocks(file: Any, columns: list[str], dtype: np.dtype[Any]) -> Iterator[Array]:
    for batch in file.iter_batches(batch_size=max(1, _BATCH_CELLS // len(columns)), columns=columns):
        block = np.empty((batch.num_rows, len(columns)), dtype)
        for place, name in enumerate(columns):
            cells = batch.column(batch.schema.get_field_index(name))
            if cells.null_count and dtype.kind != "f":
                raise InputError(f"column {name!r} has {cells.null_count} missing entries")
            block[:, place] = cells.to_numpy(zero_copy_only=False)
        yield block


def _list_blocks(file: Any, name: str) -> Iterator[Array]:
    import pyarrow.compute

    first = next(file.iter_batches(batch_size=1, columns=[name])).column(0)[0].as_py() or []
    width = len(first)
    row = 0
    for batch in file.iter_batches(batch_size=max(1, _BATCH_CELLS // max(width, 1)), columns=[name]):
        cells = batch.column(0)
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
        flat = cells.flatten().to_numpy(zero_copy_only=False)
        row += len(cells)
        yield flat.reshape(len(cells), width)


def _labels(cells: Any, name: str) -> Array:
    """A column of ids or groups as numpy integers or text."""
    from pyarrow import types

    if cells.null_count:
        raise InputError(f"column {name!r} has {cells.null_count} missing entries")
    if types.is_integer(cells.type):
        return np.asarray(cells.to_numpy())
    return np.array([str(cell) for cell in cells.to_pylist()])
