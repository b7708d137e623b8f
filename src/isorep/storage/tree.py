"""AnnData layout in HDF5 (``.h5ad``) and in zarr: X, obsm, layers, and the columns of obs.

It is read directly: opening a file with the anndata package loads every column of obs and var.

In HDF5 and zarr files with a tree of named arrays: which array is the representation, and which holds the ids.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..annotated import Entries, own_entries, refuse_counts, require_small
from ..errors import InputError
from ..representation import Array
from .lazy import LazyMatrix, StoredMatrix, require_small_pieces
from .naming import as_ids, choose_array, default_ids_name, other_arrays, require_vector
from .registry import Contents
from .scratch import BOMB_RATIO, MEMORY_LIMIT, require_plausible_values

_INDEX = "_index"


def is_annotated(tree: Tree) -> bool:
    """Whether a tree is an AnnData object."""
    return tree.attributes("").get("encoding-type") == "anndata" or (
        bool(tree.names("obs")) and bool(tree.names("var")) and _INDEX in tree.attributes("obs")
    )


def load(tree: Tree, key: str | None, ids: str | None) -> Contents:
    """Open X, an obsm entry or a layer; the ids are obs_names, or the obs column that was named."""
    entries = entries_of(tree)
    path = entries.choose(key)
    kind = str(tree.attributes(path).get("encoding-type", ""))
    columns = None if path.startswith("obsm/") else _names(tree, "raw/var" if path.startswith("raw/") else "var")
    if tree.shape(path) is not None:
        values: Any = tree.matrix(path)
    elif kind.startswith(("csr", "csc")):
        values = _dense(tree, path, entries.named(tree.path.name), by_rows=kind.startswith("csr"))
    elif kind == "dataframe":
        values, columns = _frame(tree, path)
    else:
        raise InputError(f"{path} is not an array ({kind or 'no encoding'}): choose another matrix; {entries}")
    refuse_counts(values.dtype, path, entries.named(tree.path.name))
    row_ids = _index(tree) if ids is None else column(tree, ids)
    if len(row_ids) != values.shape[0]:
        raise InputError(f"{path} has {values.shape[0]} rows and obs has {len(row_ids)}")
    if columns is not None and len(columns) != values.shape[1]:
        raise InputError(f"{path} has {values.shape[1]} columns and var has {len(columns)}")
    left_out = entries.besides(path) if key is None else {}
    return Contents(values, row_ids, left_out, columns=columns, part=path, taken=path if left_out else "")


def entries_of(tree: Tree) -> Entries:
    """The matrices of an AnnData file."""
    obsm = tuple(tree.names("obsm"))
    held = {name.removeprefix("X_"): tree.names(f"uns/{name.removeprefix('X_')}") for name in obsm}
    x = "X" in tree.names("") and tree.attributes("X").get("encoding-type") != "null"
    uns = {name: dict.fromkeys(parts) for name, parts in held.items()}
    return Entries(x, obsm, tuple(tree.names("layers")), "X" in tree.names("raw"), own_entries(obsm, uns))


def _dense(tree: Tree, path: str, instead: str, *, by_rows: bool) -> Array:
    """A compressed sparse matrix as a dense array; what it declares is checked before it is unpacked."""
    attributes = tree.attributes(path)
    shape = tuple(attributes.get("shape", attributes.get("h5sparse_shape", ())))
    if len(shape) != 2 or not all(isinstance(size, int) and 0 < size < 2**31 for size in shape):
        raise InputError(f"{path} is sparse and declares the shape {shape}")
    stored = tree.dtype(f"{path}/data")
    require_small(shape, stored.itemsize, path, instead)
    ends, places = tree.vector(f"{path}/indptr"), tree.vector(f"{path}/indices")
    values = tree.vector(f"{path}/data")
    lines, width = shape if by_rows else shape[::-1]
    whole = ends.dtype.kind in "iu" and places.dtype.kind in "iu" and values.dtype.kind in "fiub"
    if not whole or len(ends) != lines + 1 or len(values) != len(places):
        raise InputError(f"{path} is sparse, and its parts do not fit the shape {shape}")
    ends = ends.astype(np.int64)
    rising = ends[0] == 0 and ends[-1] == len(places) and bool(np.all(np.diff(ends) >= 0))
    if not rising or (len(places) and not (places.min() >= 0 and places.max() < width)):
        raise InputError(f"{path} is sparse, and its indices lie outside of the shape {shape}")
    from scipy.sparse import csc_array, csr_array

    made = (csr_array if by_rows else csc_array)((values, places.astype(np.int64), ends), shape=shape)
    return np.asarray(made.toarray())


def _frame(tree: Tree, path: str) -> tuple[Array, tuple[str, ...]]:
    """A data frame of numbers in obsm, with the names of its columns."""
    names = [str(name) for name in tree.attributes(path).get("column-order", ())]
    held = set(tree.names(path))
    missing = [name for name in names if name not in held]
    if not names or missing:
        raise InputError(f"{path} is a data frame without {f'its column {missing[0]!r}' if missing else 'columns'}")
    columns = [_element(tree, f"{path}/{name}") for name in names]
    odd = [name for name, held in zip(names, columns, strict=True) if held.dtype.kind not in "fiub"]
    if odd:
        raise InputError(f"column {odd[0]!r} of {path} holds no numbers")
    if len({len(held) for held in columns}) > 1:
        raise InputError(f"the columns of {path} have different lengths")
    return np.stack(columns, axis=1), tuple(names)


def column(tree: Tree, name: str, missing: bool = False) -> Array:
    """A column of obs; ``obs_names`` gives the names of the rows, ``missing`` allows gaps, as empty text."""
    columns = tree.names("obs")
    if name == "obs_names":
        return _index(tree)
    if name not in columns or name == "__categories":
        shown = [other for other in columns if other != "__categories"]
        raise InputError(f"there is no column {name!r} in obs; there are {', '.join(shown[:12]) or 'none'}")
    return _element(tree, f"obs/{name}", missing)


def columns(tree: Tree) -> tuple[dict[str, Array], dict[str, str]]:
    """All columns of obs but the names of the rows, with missing entries; and those that are not read, and why."""
    order = [str(name) for name in tree.attributes("obs").get("column-order", ())]
    index = str(tree.attributes("obs").get(_INDEX, _INDEX))
    found, left_out = {}, {}
    held_names = tree.names("obs")
    names = dict.fromkeys([*(name for name in order if name in set(held_names)), *held_names])
    for name in names:
        if name in (index, "__categories"):
            continue
        try:
            held = _element(tree, f"obs/{name}", missing=True)
            whole = tree.attributes(f"obs/{name}").get("encoding-type") == "nullable-integer" and held.dtype.kind == "U"
            found[name] = np.array([float(cell or "nan") for cell in held.tolist()]) if whole else held
        except InputError as error:
            left_out[name] = str(error)
    return found, left_out


def _names(tree: Tree, frame: str) -> tuple[str, ...] | None:
    """The names of a frame's rows: those of the variables; None where there is no such frame."""
    name = str(tree.attributes(frame).get(_INDEX, _INDEX))
    if name not in tree.names(frame):
        return None
    return tuple(str(each) for each in _element(tree, f"{frame}/{name}").tolist())


def _index(tree: Tree) -> Array:
    if not tree.names("obs"):
        raise InputError("its obs is not a group of columns: read it and write it again with a newer anndata")
    name = str(tree.attributes("obs").get(_INDEX, _INDEX))
    return as_ids(_element(tree, f"obs/{name}"))


def _element(tree: Tree, path: str, missing: bool = False) -> Array:
    """One column: a plain array, a categorical, or one of pandas' nullable arrays."""
    if tree.shape(path) is not None:
        group, _, name = path.rpartition("/")
        if name not in tree.names(f"{group}/__categories"):
            return tree.vector(path)
        return _decoded(tree.vector(path), tree.vector(f"{group}/__categories/{name}"), path, missing)  # anndata 0.7
    parts = tree.names(path)
    if "codes" in parts and "categories" in parts:
        return _decoded(tree.vector(f"{path}/codes"), tree.vector(f"{path}/categories"), path, missing)
    if "values" in parts:
        values = tree.vector(f"{path}/values")
        gaps = tree.vector(f"{path}/mask").astype(bool) if "mask" in parts else np.zeros(len(values), dtype=bool)
        return _with_gaps(values, gaps, path, missing)
    kind = tree.attributes(path).get("encoding-type", "unknown")
    raise InputError(f"{path} is stored as {kind}, which is not read")


def _decoded(codes: Array, categories: Array, path: str, missing: bool) -> Array:
    if codes.dtype.kind not in "iu":
        raise InputError(f"{path} has codes of type {codes.dtype}, not whole numbers")
    gaps = codes < 0
    if len(codes) and codes.max() >= len(categories):
        raise InputError(f"{path} has a code {codes.max()} and only {len(categories)} categories")
    return _with_gaps(
        categories[np.where(gaps, 0, codes)] if len(categories) else codes.astype(str), gaps, path, missing
    )


def _with_gaps(values: Array, gaps: Array, path: str, missing: bool) -> Array:
    """Entries without gaps; with them as text, of which missing entries are empty."""
    if not gaps.any():
        return values
    if not missing:
        _refuse_missing(int(np.count_nonzero(gaps)), path)
    if gaps.shape != values.shape:
        raise InputError(f"{path} has {len(values)} entries and marks {len(gaps)} of them")
    return np.where(gaps, "", values.astype(str))


def _refuse_missing(count: int, path: str) -> None:
    if count:
        raise InputError(f"column {path.rpartition('/')[2]!r} has {count} missing entries")


class Tree(ABC):
    """A tree of named arrays in a file; names are paths with ``/``, and ``""`` is the root."""

    noun: str  # what the format calls an array
    bridge: int  # bytes that are cheaper to read than to skip
    group: Any  # the library's classes of groups and arrays
    array: Any
    path: Path

    @abstractmethod
    def attributes(self, name: str) -> Mapping[str, Any]:
        """The attributes of a node."""

    @abstractmethod
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shapes of all arrays, and the kinds of their dtypes."""

    @abstractmethod
    def vector(self, name: str) -> Array:
        """A one-dimensional array, as numbers or text."""

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of an array."""
        kept: np.dtype[Any] = np.dtype(self._array(name).dtype)
        return kept

    @abstractmethod
    def _node(self, name: str) -> Any:
        """A group or an array; None where there is none."""

    @abstractmethod
    def _checked(self, array: Any) -> Any:
        """An array whose chunks are checked before they are unpacked."""

    def names(self, group: str) -> list[str]:
        """What a group holds; nothing where there is no such group."""
        node = self._node(group)
        return sorted(node.keys()) if isinstance(node, self.group) else []

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; None for a group, or where nothing is."""
        node = self._node(name)
        return tuple(node.shape) if isinstance(node, self.array) and node.shape is not None else None

    def matrix(self, name: str) -> LazyMatrix:
        """An array that stays in the file; its first and last rows are read, to find damage early."""
        array = self._array(name)
        if len(array.shape) < 2:
            raise InputError(f"{self.noun} {name!r} has shape {array.shape}: a representation has rows and columns")
        checked = self._checked(array)
        declared = math.prod(array.shape) * array.dtype.itemsize
        if declared > MEMORY_LIMIT:
            require_plausible_values(declared, checked.stored_bytes(-(-declared // BOMB_RATIO)))
        matrix = StoredMatrix(checked, self.path.name, array.chunks, self.bridge)
        if 0 not in matrix.shape:
            matrix[[0, -1]]
        return matrix

    def _array(self, name: str) -> Any:
        node = self._node(name)
        if not isinstance(node, self.array) or node.shape is None:
            raise InputError(f"there is no {self.noun} {name!r}")
        require_small_pieces(node.shape, node.dtype.itemsize, node.chunks)
        return node


def load_tree(tree: Tree, key: str | None, ids: str | None) -> Contents:
    """Open one array of a tree, and read the vector of row ids next to it, or the named one."""
    if is_annotated(tree):
        return load(tree, key, ids)
    key = None if key is None else key.strip("/")
    arrays = {name: held for name, held in tree.arrays().items() if name != ids}
    shapes = {name: shape for name, (shape, kind) in arrays.items() if kind in "fiub" and shape}
    if len(shapes) > 1:
        shapes = {name: shape for name, shape in shapes.items() if name == key or len(shape) > 1}
    name = choose_array(shapes, key, "array")
    values = tree.matrix(name)
    left_out = other_arrays({other: shape for other, (shape, _) in arrays.items()}, name, key)
    if ids is None:
        folder = name.rpartition("/")[0]
        beside = default_ids_name([child for child in tree.names(folder) if child])
        ids = None if beside is None else f"{folder}/{beside}".strip("/")
        if ids is None or ids == name:
            return Contents(values, left_out=left_out)
        left_out.pop(ids, None)
    ids_shape = tree.shape(ids)
    if ids_shape is not None and ids_shape != values.shape[:1]:
        raise InputError(f"there are {values.shape[0]} rows and the ids {ids!r} have shape {ids_shape}")
    return Contents(values, column_of_tree(tree, ids), left_out)


def column_of_tree(tree: Tree, name: str, missing: bool = False) -> Array:
    """A one-dimensional array of a tree."""
    if is_annotated(tree):
        return column(tree, name, missing)
    shape = tree.shape(name)
    if shape is None:
        raise InputError(f"there is no array {name!r}; there are {', '.join(tree.names('')[:12]) or 'none'}")
    require_vector({name: shape}, name, "array")
    return tree.vector(name)
