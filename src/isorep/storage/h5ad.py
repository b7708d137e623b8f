"""AnnData files (``.h5ad``): read like any HDF5 file with AnnData's layout, written as one obsm entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .hdf5 import column, h5py, load, write_labels, write_values
from .registry import RowStream

__all__ = ["column", "load", "save"]

_DEFAULT_KEY = "X_isorep"


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write an AnnData object without X and var: obs_names, and the values as an entry of obsm."""
    names = np.arange(rows.shape[0]) if rows.ids is None else rows.ids
    with h5py().File(path, "w") as file:
        _encode(file, "anndata", "0.1.0")
        for group in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            _encode(file.create_group(group), "dict", "0.1.0")
        _frame(file.create_group("obs"), names.astype(str))
        _frame(file.create_group("var"), np.array([], dtype=str))
        _encode(write_values(file["obsm"], (key or _DEFAULT_KEY).removeprefix("obsm/"), rows), "array", "0.2.0")


def _frame(group: Any, names: Any) -> None:
    _encode(group, "dataframe", "0.2.0")
    group.attrs["_index"] = "_index"
    group.attrs["column-order"] = np.array([], dtype=np.float64)  # how anndata writes an empty list
    _encode(write_labels(group, "_index", names), "string-array", "0.2.0")


def _encode(node: Any, kind: str, version: str) -> None:
    node.attrs["encoding-type"] = kind
    node.attrs["encoding-version"] = version
