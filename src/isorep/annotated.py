"""AnnData: which matrix of an object or a file is the representation, with its row names and feature names.

One rule for objects in memory, views, backed objects and files: the entry that was named, otherwise X, otherwise the
only entry of obsm. Components that isorep itself has written into obsm are never taken unless they are named.
Nothing here imports anndata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Array = NDArray[Any]

DENSE_LIMIT = 2**30
"""Bytes up to which a sparse matrix is turned into a dense one."""
OWN_PREFIX = "X_isorep"
_SHOWN = 12


def is_annotated(data: Any) -> bool:
    """Whether something is an AnnData object, without importing anndata."""
    return all(hasattr(data, part) for part in ("obs", "obsm", "obs_names", "uns"))


@dataclass(frozen=True)
class Entries:
    """The matrices of an AnnData object or file; ``own`` are the entries of obsm that isorep has written."""

    x: bool
    obsm: tuple[str, ...]
    layers: tuple[str, ...]
    raw: bool
    own: frozenset[str]

    def choose(self, key: str | None) -> str:
        """The path of the matrix that is meant: ``X``, ``obsm/NAME``, ``layers/NAME`` or ``raw/X``."""
        if key is None:
            return self._default()
        if key == "X":
            if not self.x:
                raise InputError(f"there is no X: name another matrix with key= or FILE::KEY; {self}")
            return "X"
        if key == "raw/X" and self.raw:
            return key
        group, _, name = key.partition("/")
        if group in ("obsm", "layers") and name:
            if name in (self.obsm if group == "obsm" else self.layers):
                return key
        elif key in self.obsm:
            return f"obsm/{key}"
        elif key in self.layers:
            return f"layers/{key}"
        raise InputError(f"there is no {key!r} in {group if name else 'obsm'}; {self}")

    def _default(self) -> str:
        if self.x:
            return "X"
        others = [name for name in self.obsm if name not in self.own] or list(self.obsm)
        if len(others) == 1:
            return f"obsm/{others[0]}"
        raise InputError(f"there is no X: name an entry of obsm with key= or FILE::KEY; {self}")

    def besides(self, place: str) -> dict[str, str]:
        """What could have been meant as well, and why it was not taken."""
        said = {
            f"obsm/{name}": "components that isorep wrote" if name in self.own else "another embedding"
            for name in self.obsm
        }
        said.pop(place, None)
        return said

    def named(self, file: str = "") -> str:
        """An embedding that could be taken instead of a matrix that is too large, as it is named; empty without one."""
        others = [name for name in self.obsm if name not in self.own]
        if not others:
            return ""
        one = "X_pca" if "X_pca" in others else others[0]
        return f"{file}::{one}" if file else f"key={one!r}"

    def __str__(self) -> str:
        held = f"obsm has {_some(self.obsm)}"
        return f"{held}, layers has {_some(self.layers)}" if self.layers else held


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "") or "no entries"


def own_entries(obsm: Sequence[str], uns: Mapping[str, Any]) -> frozenset[str]:
    """The entries of obsm that isorep wrote: by name, or by the matrices that it leaves beside them in uns."""

    def marked(name: str) -> bool:
        beside = uns.get(name.removeprefix("X_"))
        return beside is not None and {"unmixing", "mixing"} <= set(beside)

    return frozenset(name for name in obsm if name.startswith(OWN_PREFIX) or marked(name))


@dataclass(frozen=True, eq=False)
class Opened:
    """A matrix of an AnnData object, its row names and feature names, and what else could have been meant."""

    values: Any
    place: str
    ids: Array
    columns: tuple[str, ...] | None
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def taken(self) -> str:
        """The place, where there was a choice."""
        return self.place if self.left_out else ""


def opened(data: Any, key: str | None = None) -> Opened:
    """The matrix that is meant, dense; that of a backed object stays in its file."""
    if key is not None and not isinstance(key, str):
        raise InputError(f"key is {key!r}; it names a matrix of the AnnData object, such as X, X_pca or layers/NAME")
    entries = entries_of(data)
    place = entries.choose(key)
    values, columns = _matrix(data, place)
    refuse_counts(values.dtype, place, entries.named())
    ids = np.asarray(data.obs_names).astype(str)
    return Opened(dense(values, place, entries.named()), place, ids, columns, {} if key else entries.besides(place))


def entries_of(data: Any) -> Entries:
    """The matrices of an object."""
    obsm, layers = tuple(map(str, data.obsm.keys())), tuple(map(str, getattr(data, "layers", {}).keys()))
    uns = {name: held for name, held in data.uns.items() if hasattr(held, "keys")}
    return Entries(_has_x(data), obsm, layers, getattr(data, "raw", None) is not None, own_entries(obsm, uns))


def _has_x(data: Any) -> bool:
    return (getattr(data, "isbacked", False) and "X" in data.file) or getattr(data, "X", None) is not None


def _matrix(data: Any, place: str) -> tuple[Any, tuple[str, ...] | None]:
    """Values as they are held, and the names of their columns."""
    group, _, name = place.partition("/")
    if group == "obsm":
        entry = data.obsm[name]
        if hasattr(entry, "to_numpy"):
            return entry.to_numpy(), tuple(map(str, entry.columns))
        return entry, None
    if group == "raw":
        return data.raw.X, tuple(map(str, data.raw.var_names))
    return data.layers[name] if group == "layers" else data.X, tuple(map(str, data.var_names))


def dense(values: Any, label: str, instead: str = "") -> Any:
    """Values as they are, sparse ones as an array if it is not too large, stored ones as rows that are read on demand.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> dense(sparse.csr_array(np.eye(2)), "X").tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    kind = type(values)
    if kind.__module__.startswith("h5py"):
        return StoredRows(values)
    stored = kind.__module__.startswith("anndata") and "Dataset" in kind.__name__  # sparse, of a backed object
    if not stored and not hasattr(values, "tocsr"):
        view = kind.__module__.startswith("anndata") and isinstance(values, np.ndarray)
        return np.asarray(values) if view else values
    require_small(tuple(values.shape), np.dtype(values.dtype).itemsize, label, instead)
    return (values.to_memory() if stored else values).toarray()


def refuse_counts(dtype: Any, place: str, instead: str = "") -> None:
    """Refuse integers in X or a layer: raw counts, whose variance is that of the few largest features."""
    if getattr(dtype, "kind", "") in "iu" and not place.startswith("obsm/"):
        raise InputError(
            f"{place} holds integers ({dtype}), as raw counts do: normalise and log-transform them first (in scanpy "
            "pp.normalize_total and pp.log1p)" + (f", or take the embedding {instead}" if instead else "")
        )


def require_small(shape: tuple[int, ...], itemsize: int, label: str, instead: str = "") -> None:
    """Refuse a sparse matrix that would be too large as a dense one; ``instead`` names an embedding of the rows."""
    size = itemsize * int(np.prod(shape, dtype=object))
    if size > DENSE_LIMIT:
        raise InputError(
            f"{label} is sparse, and its {shape[0]} x {shape[1]} values would take {size / 2**30:.1f} GiB as a dense "
            f"array (at most {DENSE_LIMIT / 2**30:.0f}): choose fewer columns"
            + (f", or the embedding {instead}" if instead else ", or add an embedding such as obsm/X_pca")
        )


class StoredRows:
    """The rows of an HDF5 dataset by slices, and by indices in any order, which h5py alone does not give."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.shape, self.dtype = tuple(dataset.shape), np.dtype(dataset.dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, tuple):
            first, *rest = rows
            part: Array = self[first][tuple(rest) if isinstance(first, int | np.integer) else (slice(None), *rest)]
            return part
        if isinstance(rows, int | np.integer | slice):
            if isinstance(rows, slice) and (rows.step or 1) < 1:
                rows = np.arange(*rows.indices(len(self)))
            else:
                return np.asarray(self._dataset[rows])
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else np.where(index < 0, index + len(self), index)
        unique, inverse = np.unique(index.astype(np.int64), return_inverse=True)
        taken: Array = np.asarray(self._dataset[unique])[inverse] if len(unique) else self._dataset[:0]
        return taken

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._dataset[:], dtype=dtype)
