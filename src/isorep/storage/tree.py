"""AnnData layout in HDF5 (``.h5ad``) and in zarr: X, obsm, and the columns of obs.

It is read directly: opening a file with the anndata package loads every column of obs and var.

In HDF5 and zarr files with a tree of named arrays: which array is the representation, and which holds the ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .lazy import LazyMatrix, StoredMatrix, require_small_pieces
from .naming import as_ids, choose_array, default_ids_name, other_arrays, require_vector
from .registry import Contents

_INDEX = "_index"


def is_annotated(tree: Tree) -> bool:
    """Whether a tree is an AnnData object."""
    return tree.attributes("").get("encoding-type") == "anndata" or (
        bool(tree.names("obs")) and bool(tree.names("var")) and _INDEX in tree.attributes("obs")
    )


def load(tree: Tree, key: str | None, ids: str | None) -> Contents:
    """Open an obsm entry or X; the ids are obs_names, or the obs column that was named."""
    path = _place(tree, key)
    kind = str(tree.attributes(path).get("encoding-type", ""))
    if tree.shape(path) is None:
        what = "sparse" if kind.startswith(("csr", "csc")) else f"not an array ({kind or 'no encoding'})"
        raise InputError(f"{path} is {what}: choose a dense embedding with FILE::KEY; {_choices(tree)}")
    values = tree.matrix(path)
    row_ids = _index(tree) if ids is None else column(tree, ids)
    if len(row_ids) != values.shape[0]:
        raise InputError(f"{path} has {values.shape[0]} rows and obs has {len(row_ids)}")
    return Contents(values, row_ids, _others(tree, path) if key is None else {})


def column(tree: Tree, name: str) -> Array:
    """A column of obs; ``obs_names`` gives the names of the rows."""
    columns = tree.names("obs")
    if name == "obs_names":
        return _index(tree)
    if name not in columns or name == "__categories":
        shown = [other for other in columns if other != "__categories"]
        raise InputError(f"there is no column {name!r} in obs; there are {', '.join(shown[:12]) or 'none'}")
    return _element(tree, f"obs/{name}")


def _place(tree: Tree, key: str | None) -> str:
    embeddings = tree.names("obsm")
    if key is None:
        return f"obsm/{embeddings[0]}" if len(embeddings) == 1 else _existing_x(tree)
    if key == "X":
        return _existing_x(tree)
    name = key.removeprefix("obsm/")
    if name not in embeddings:
        raise InputError(f"there is no {key!r} in obsm; {_choices(tree)}")
    return f"obsm/{name}"


def _existing_x(tree: Tree) -> str:
    if "X" not in tree.names("") or tree.attributes("X").get("encoding-type") == "null":
        raise InputError(f"there is no X: name an entry of obsm with FILE::KEY; {_choices(tree)}")
    return "X"


def _others(tree: Tree, path: str) -> dict[str, str]:
    """What could have been meant as well: entries of obsm, X."""
    others = {f"obsm/{name}": "another embedding" for name in tree.names("obsm")}
    if "X" in tree.names("") and tree.attributes("X").get("encoding-type") != "null":
        others["X"] = "obsm has one entry"
    others.pop(path, None)
    return others


def _choices(tree: Tree) -> str:
    return f"obsm has {', '.join(tree.names('obsm')[:12]) or 'no entries'}"


def _index(tree: Tree) -> Array:
    if not tree.names("obs"):
        raise InputError("its obs is not a group of columns: read it and write it again with a newer anndata")
    name = str(tree.attributes("obs").get(_INDEX, _INDEX))
    return as_ids(_element(tree, f"obs/{name}"))


def _element(tree: Tree, path: str) -> Array:
    """One column: a plain array, a categorical, or one of pandas' nullable arrays."""
    if tree.shape(path) is not None:
        group, _, name = path.rpartition("/")
        if name not in tree.names(f"{group}/__categories"):
            return tree.vector(path)
        return _decoded(tree.vector(path), tree.vector(f"{group}/__categories/{name}"), path)  # anndata 0.7
    parts = tree.names(path)
    if "codes" in parts and "categories" in parts:
        return _decoded(tree.vector(f"{path}/codes"), tree.vector(f"{path}/categories"), path)
    if "values" in parts:
        if "mask" in parts:
            _refuse_missing(int(np.count_nonzero(tree.vector(f"{path}/mask"))), path)
        return tree.vector(f"{path}/values")
    kind = tree.attributes(path).get("encoding-type", "unknown")
    raise InputError(f"{path} is stored as {kind}, which is not read")


def _decoded(codes: Array, categories: Array, path: str) -> Array:
    _refuse_missing(int(np.count_nonzero(codes < 0)), path)
    if len(codes) and codes.max() >= len(categories):
        raise InputError(f"{path} has a code {codes.max()} and only {len(categories)} categories")
    decoded: Array = categories[codes]
    return decoded


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
        matrix = StoredMatrix(self._checked(array), self.path.name, array.chunks, self.bridge)
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


def column_of_tree(tree: Tree, name: str) -> Array:
    """A one-dimensional array of a tree."""
    if is_annotated(tree):
        return column(tree, name)
    shape = tree.shape(name)
    if shape is None:
        raise InputError(f"there is no array {name!r}; there are {', '.join(tree.names('')[:12]) or 'none'}")
    require_vector({name: shape}, name, "array")
    return tree.vector(name)
