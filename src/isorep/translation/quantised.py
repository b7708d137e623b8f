"""Quantised vectors: int8 with one scale, or one per row or column, and npz files of them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import replacing, require_writable
from ..representation import Array
from ..rows import blocks as blocks_of
from ..storage import npy, npz
from ..storage.naming import IDS_NAMES
from ..storage.registry import split_key
from .drift import SAMPLE

Change = Callable[[Array], Array]
"""From old vectors in float to new ones."""

CELLS = 2**21  # of vectors in a batch
_LEVELS = 127  # of int8 on either side of zero
_HEADROOM = 1.1  # of one scale for all rows over the largest value of a sample


@dataclass(frozen=True)
class Scale:
    """How integers stand for numbers: one factor for all, one per row, or one per dimension."""

    values: Array | float

    def decoded(self, block: Array, rows: slice) -> Array:
        """The numbers that a block of integers stands for."""
        factor = self.values
        if isinstance(factor, np.ndarray) and factor.ndim == 1 and len(factor) != block.shape[1]:
            factor = factor[rows, None]
        return np.asarray(block.astype(np.float32) * np.asarray(factor, np.float32))


def encoded(vectors: Array) -> tuple[Array, Array]:
    """Integers from -127 to 127, and the scale of each row."""
    largest = np.abs(vectors).max(axis=1)
    scales = (np.where(largest > 0, largest, 1.0) / _LEVELS).astype(np.float32)
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales


def with_scale(vectors: Array, scale: float) -> Array:
    """Integers from -127 to 127 for one scale."""
    return np.clip(np.rint(vectors / scale), -_LEVELS, _LEVELS).astype(np.int8)


def one_scale(sample: Array, change: Change) -> float:
    """One scale for all rows, with room above the largest value of a sample."""
    return float(np.abs(change(sample)).max()) * _HEADROOM / _LEVELS or 1.0


def narrowed(vectors: Array, dtype: Any, name: str) -> Array:
    """Vectors in the type of the store; refused where they do not fit."""
    with np.errstate(over="ignore"):
        narrow = vectors.astype(dtype)
    if not np.isfinite(narrow).all():
        raise InputError(f"{name} holds {np.dtype(dtype)}, which is too narrow for translated vectors")
    return narrow


def quantised_arrays(path: Path, key: str | None, scale: str | None, output: str | None) -> QuantisedArrays | None:
    """An npz file with integer vectors and their scale; None for floating-point ones. Without output it is read."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    headers = {name: npz.peek(path, name) for name in names}
    wide = [name for name, header in headers.items() if len(header.shape) == 2 and header.dtype == np.int8]
    floating = any(len(header.shape) == 2 and header.dtype.kind == "f" for header in headers.values())
    chosen = key if key is not None else wide[0] if len(wide) == 1 and not floating else None
    if chosen is None or chosen not in wide:
        if scale is not None and output is not None:
            raise InputError("--scale is for int8 vectors, of which it has no single array")
        return None
    named = scale or next((name for name in ("scale", "scales") if name in names), None)
    if named is None or (named not in names and not is_positive(named)):
        raise InputError(f"array {chosen!r} holds int8: name its scale with --scale, an array of the file or a number")
    if output is not None and not split_key(output, None)[0].name.lower().endswith(".npz"):
        raise InputError(f"int8 vectors of {path.name} are written to an npz file, with their scale")
    return QuantisedArrays(path, chosen, named, names)


def is_positive(text: str) -> bool:
    """Whether a text is a positive number."""
    try:
        return 0 < float(text) < np.inf
    except ValueError:
        return False


class QuantisedArrays:
    """An npz file with int8 vectors, their scale and other arrays."""

    def __init__(self, path: Path, values: str, scale: str, names: list[str]) -> None:
        self.name, self._path, self._names = path.name, path, names
        self._values_name, self._scale_name = values, scale
        self._values = npz.array(path, values)
        self.rows = len(self._values)
        given = npz.array(path, scale) if scale in names else np.array(float(scale))
        self._given = np.asarray(given, np.float64)
        n, d = self._values.shape
        if self._given.shape not in ((), (1,), (n,), (d,)) or not (self._given > 0).all():
            raise InputError(f"the scale has shape {self._given.shape}: one positive number, one per row or per column")
        self._per_row = self._given.shape == (n,) and n != 1
        self._scale = Scale(self._given if self._given.size > 1 else float(self._given.reshape(-1)[0]))

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where they are known, and the old vectors, block by block."""
        for rows in blocks_of(self.rows, max(1, CELLS // self._values.shape[1])):
            yield None, self._scale.decoded(np.asarray(self._values[rows]), rows)

    def names(self, wanted: str | None) -> Array | None:
        """The row ids."""
        name = wanted or next((name for name in IDS_NAMES if name in self._names), None)
        if name is not None and name not in self._names:
            raise InputError(f"there is no array {name!r} for ids")
        return None if name is None else np.asarray(npz.array(self._path, name))

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors; returns what was written in words."""
        path = split_key(output, None)[0]
        require_writable(path)
        step = max(1, CELLS // max(width, self._values.shape[1]))
        single = None if self._per_row else one_scale(sample_of(self), change)
        scales: list[Array] = []

        def blocks() -> Iterator[Array]:
            for start in range(0, self.rows, step):
                rows = slice(start, min(start + step, self.rows))
                vectors = change(self._scale.decoded(np.asarray(self._values[rows]), rows))
                progress(rows.stop - rows.start)
                if single is not None:
                    yield with_scale(vectors, single)
                    continue
                block, mine = encoded(vectors)
                scales.append(mine)
                yield block

        with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            with archive.open(f"{self._values_name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, (self.rows, width), np.dtype(np.int8), blocks())
            new = np.concatenate(scales) if single is None else np.array(single)
            others = {name: npz.array(self._path, name) for name in self._names if name != self._values_name}
            others[self._scale_name if self._scale_name in self._names else "scale"] = new
            for name, array in others.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
        how = "a scale per row" if single is None else f"one scale, {single:.4g}"
        return f"{self.rows} rows x {width} columns, int8 with {how}, and {len(others) - 1} other arrays"


def sample_of(store: Any) -> Array:
    """Up to 10,000 old vectors: the first ones."""
    held, rows = [], 0
    for _, vectors in store.blocks():
        held.append(vectors)
        rows += len(vectors)
        if rows >= SAMPLE:
            break
    return np.concatenate(held)[:SAMPLE]
