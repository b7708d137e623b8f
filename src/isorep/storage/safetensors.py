"""safetensors files, whose tensors stay in the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import require_short_header
from ..representation import Array, BFloat16Matrix
from .lazy import PlainMatrix
from .naming import choose_named, require_vector
from .registry import Contents, RowStream

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Open one tensor, and the integer tensor of row ids where there is one."""
    entries = _entries(path)
    name, ids_name, left_out = choose_named(_shapes(entries), key, ids, "tensor")
    row_ids = None if ids_name is None else column(path, ids_name)
    taken = f"tensor {name!r}" if key is None else ""
    return Contents(_open(path, entries[name]), row_ids, left_out, part=name, taken=taken)


def column(path: Path, name: str) -> Array:
    """A one-dimensional tensor."""
    entries = _entries(path)
    require_vector(_shapes(entries), name, "tensor")
    return np.asarray(_open(path, entries[name]))


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write the tensors ``values`` and ``ids``; the ids come first, where they are aligned."""
    header: dict[str, Any] = {}
    ids = rows.ids
    start = 0 if ids is None else ids.nbytes
    if ids is not None:
        header["ids"] = {"dtype": "I64", "shape": list(ids.shape), "data_offsets": [0, start]}
    end = start + rows.shape[0] * rows.shape[1] * rows.dtype.itemsize
    dtype = f"F{8 * rows.dtype.itemsize}"
    header[key or "values"] = {"dtype": dtype, "shape": list(rows.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        if ids is not None:
            file.write(np.ascontiguousarray(ids, "<i8").data)
        for block in rows.blocks():
            file.write(block.data)


def _shapes(entries: dict[str, dict[str, Any]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(entry["shape"]) for name, entry in entries.items()}


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    require_short_header(path)
    try:
        with safe_open(path, framework="numpy") as checked:  # checks sizes, offsets and overlaps
            checked.keys()
    except SafetensorError as error:
        raise InputError(f"this is not a valid safetensors file: {error}") from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length), object_pairs_hook=_once)
    header.pop("__metadata__", None)
    start = 8 + length
    return {name: {**entry, "start": start + entry["data_offsets"][0]} for name, entry in header.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the header, whose names must differ: readers would take one or the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise InputError(f"its header names {name!r} twice")
    return found


def _open(path: Path, entry: dict[str, Any]) -> Any:
    dtype, shape = entry["dtype"], tuple(entry["shape"])
    if dtype not in _DTYPES:
        raise InputError(f"tensors of type {dtype} are not read: convert them to float32")
    if 0 in shape:
        return np.empty(shape, _DTYPES[dtype])
    matrix = PlainMatrix(path, shape or (1,), _DTYPES[dtype], entry["start"], by_columns=False)
    opened: Any = matrix if shape else matrix[0]
    return BFloat16Matrix(opened) if dtype == "BF16" else opened
