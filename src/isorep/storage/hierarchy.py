"""Files that hold a tree of named arrays, HDF5 and zarr: which array is meant, and which holds the ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..errors import InputError
from ..representation import Array
from . import annotated
from .lazy import LazyMatrix
from .naming import choose_array, default_ids_name, other_arrays
from .registry import Contents


class Tree(Protocol):
    """What is asked of a tree of arrays; names are paths with ``/``, and ``""`` is the root."""

    def attributes(self, name: str) -> Mapping[str, Any]: ...  # noqa: D102
    def names(self, group: str) -> list[str]: ...  # noqa: D102
    def shape(self, name: str) -> tuple[int, ...] | None: ...  # noqa: D102  None for a group, or where nothing is
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]: ...  # noqa: D102  shapes and kinds of dtype
    def matrix(self, name: str) -> LazyMatrix: ...  # noqa: D102
    def vector(self, name: str) -> Array: ...  # noqa: D102


def load(tree: Tree, key: str | None, ids: str | None) -> Contents:
    """Open one array of a tree, and read the vector of row ids that lies beside it or was named."""
    if annotated.is_annotated(tree):
        return annotated.load(tree, key, ids)
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
    found = tree.shape(ids)
    if found is not None and found != values.shape[:1]:
        raise InputError(f"there are {values.shape[0]} rows and the ids {ids!r} have shape {found}")
    return Contents(values, column(tree, ids), left_out)


def column(tree: Tree, name: str) -> Array:
    """A one-dimensional array of a tree."""
    if annotated.is_annotated(tree):
        return annotated.column(tree, name)
    shape = tree.shape(name)
    if shape is None:
        raise InputError(f"there is no array {name!r}; there are {', '.join(tree.names('')[:12]) or 'none'}")
    if len(shape) != 1:
        raise InputError(f"array {name!r} has shape {shape} where one entry a row is needed")
    return tree.vector(name)
