"""zarr stores (a ``.zarr`` folder), formats 2 and 3, sliced where they lie."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, missing_extra
from ..representation import Array
from . import hierarchy
from .lazy import LazyMatrix, StoredMatrix, require_small_pieces
from .naming import as_text, require_plausible
from .registry import ZARR_METADATA, Contents, Labels, RowStream
from .zarr_chunks import CheckedArray

_BRIDGE = 2**20
_CHUNK_BYTES = 2**22
_CHUNK_LABELS = 2**16
_MOST_METADATA = 2**26


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Open the array, or one array of the group, and read the array of row ids where there is one."""
    tree = ZarrTree(path)
    if tree.shape("") is None:
        return hierarchy.load(tree, key, ids)
    for option, given in (("key", key), ("ids", ids)):
        if given is not None:
            raise InputError(f"it is one zarr array without names, so {option} {given!r} cannot be found in it")
    return Contents(tree.matrix(""))


def column(path: Path, name: str) -> Array:
    """A one-dimensional array of a group, or a column of an AnnData object."""
    tree = ZarrTree(path)
    if tree.shape("") is not None:
        raise InputError(f"it is one zarr array, so it has no column {name!r}")
    return hierarchy.column(tree, name)


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write one array; with ids, labels or a key, a group with the arrays ``values``, ``ids`` and one a label."""
    zarr = _zarr()
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    chunk_rows = min(rows.shape[0], max(1, _CHUNK_BYTES // row_bytes))
    layout = {"shape": rows.shape, "dtype": rows.dtype, "chunks": (chunk_rows, rows.shape[1])}
    labels: dict[str, Labels] = ({} if rows.ids is None else {"ids": rows.ids}) | dict(rows.labels)
    if not labels and key is None:
        values = zarr.create_array(path, overwrite=True, **layout)
    else:
        group = zarr.open_group(path, mode="w")
        values = group.create_array(key or "values", **layout)
        for name, held in labels.items():
            _save_labels(group, name, held)
    start = 0
    for block in rows.blocks(multiple=chunk_rows):
        values[start : start + len(block)] = block
        start += len(block)


def is_store(path: Path) -> bool:
    """Whether a folder is a zarr array or group."""
    return any((path / name).is_file() for name in ZARR_METADATA)


def _save_labels(group: Any, name: str, labels: Labels) -> None:
    text = labels.dtype.kind == "U"
    step = min(len(labels), _CHUNK_LABELS)
    array = group.create_array(
        name, shape=(len(labels),), dtype="string" if text else labels.dtype, chunks=(max(step, 1),)
    )
    for start in range(0, len(labels), _CHUNK_LABELS):
        block = np.asarray(labels[start : start + _CHUNK_LABELS])
        array[start : start + len(block)] = block.astype(object) if text else block


def _zarr() -> Any:
    try:
        import zarr
    except ModuleNotFoundError:
        raise missing_extra("zarr", "io", "zarr") from None
    return zarr


class ZarrTree:
    """The arrays and groups of a store."""

    def __init__(self, path: Path) -> None:
        if not is_store(path):
            raise InputError("this is not a zarr store: it has no zarr.json, .zarray or .zgroup")
        self._path = path
        self._zarr = _zarr()
        if _is_array(path):
            self._root = self._zarr.open_array(path, mode="r")
        else:  # a consolidated copy of the metadata could say other things than the arrays' own
            self._root = self._zarr.open_group(path, mode="r", use_consolidated=False)

    def attributes(self, name: str) -> Mapping[str, Any]:
        """The attributes of a node."""
        node = self._node(name)
        return {} if node is None else node.attrs.asdict()

    def names(self, group: str) -> list[str]:
        """What a group holds; nothing where there is no such group."""
        node = self._node(group)
        return sorted(node.keys()) if isinstance(node, self._zarr.Group) else []

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array."""
        node = self._node(name)
        return tuple(node.shape) if isinstance(node, self._zarr.Array) else None

    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shapes of all arrays, and the kinds of their dtypes."""
        members = self._root.members(max_depth=None)
        arrays = [(name, node) for name, node in members if isinstance(node, self._zarr.Array)]
        return {name: (tuple(node.shape), node.dtype.kind) for name, node in arrays}

    def matrix(self, name: str) -> LazyMatrix:
        """An array that stays in the store; its first and last rows are read, to find damage early."""
        array = self._array(name)
        if len(array.shape) < 2:
            raise InputError(f"the array has shape {array.shape}: a representation has rows and columns")
        matrix = StoredMatrix(CheckedArray(array, self._path), self._path.name, array.chunks, _BRIDGE)
        if 0 not in matrix.shape:
            matrix[[0, -1]]
        return matrix

    def vector(self, name: str) -> Array:
        """A one-dimensional array, as numbers or text."""
        array = self._array(name)
        stored = int(array.nbytes_stored())
        require_plausible(array.size * max(16, array.dtype.itemsize), stored, f"array {name!r}")
        found = CheckedArray(array, self._path)[0 : array.shape[0]]
        return found if found.dtype.kind in "fiub" else as_text(found, stored, f"array {name!r}")

    def _array(self, name: str) -> Any:
        array = self._node(name)
        if not isinstance(array, self._zarr.Array):
            raise InputError(f"there is no array {name!r}")
        require_small_pieces(array.shape, array.dtype.itemsize, array.chunks)
        return array

    def _node(self, name: str) -> Any:
        name = name.strip("/")
        if not name:
            return self._root
        if not isinstance(self._root, self._zarr.Group) or ".." in name.split("/"):
            return None
        return self._root.get(name)


def _is_array(path: Path) -> bool:
    """Whether the root of a store is an array and not a group."""
    metadata = path / "zarr.json"
    if not metadata.is_file():
        return (path / ".zarray").is_file()
    if metadata.stat().st_size > _MOST_METADATA:
        raise InputError(f"its zarr.json takes more than {_MOST_METADATA} bytes")
    described = json.loads(metadata.read_text("utf-8"))
    return isinstance(described, dict) and described.get("node_type") == "array"
