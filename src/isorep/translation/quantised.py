"""Quantised vectors: int8 with one scale, or one per row or column, and npz files of them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import replacing, require_writable
from ..representation import Array
from ..results import counted
from ..rows import blocks as blocks_of
from ..storage import npy, npz
from ..storage.registry import split_key
from .rewriting import CELLS, Block, Task, default_ids

SCALES = ("scale", "scales")
"""Columns, fields or arrays that hold a scale without being named."""

_LEVELS = 127  # of int8 on either side of zero


@dataclass(frozen=True)
class Scale:
    """How integers stand for numbers: one factor for all, or of shape (n, 1) or (1, d)."""

    values: Array | float

    def decoded(self, block: Array, rows: slice) -> Array:
        """The numbers that a block of integers stands for."""
        factor = self.values
        if isinstance(factor, np.ndarray) and len(factor) > 1:
            factor = factor[rows]
        return np.asarray(block.astype(np.float32) * np.asarray(factor, np.float32))


def encoded(vectors: Array, scale: float | None = None) -> tuple[Array, Array | None]:
    """Integers from -127 to 127, and the scale of each row where there is not one for all."""
    if scale is not None:
        return np.clip(np.rint(vectors / scale), -_LEVELS, _LEVELS).astype(np.int8), None
    largest = np.abs(vectors).max(axis=1)
    scales = (np.where(largest > 0, largest, 1.0) / _LEVELS).astype(np.float32)
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales


def scale_for(largest: float) -> float:
    """One scale for values up to the largest, of four digits, so that it can be told and typed exactly."""
    if not largest > 0:
        return 1.0
    scale = largest / _LEVELS
    unit = 10.0 ** (math.floor(math.log10(scale)) - 3)
    return float(f"{math.ceil(scale / unit) * unit:.4g}")


def is_positive(text: str) -> bool:
    """Whether a text is a positive number."""
    try:
        return 0 < float(text) < np.inf
    except ValueError:
        return False


def narrowed(vectors: Array, dtype: Any, name: str) -> Array:
    """Vectors in the type of the store; refused where they do not fit."""
    with np.errstate(over="ignore"):
        narrow = vectors.astype(dtype)
    if not np.isfinite(narrow).all():
        raise InputError(f"{name} holds {np.dtype(dtype)}, which is too narrow for translated vectors")
    return narrow


def quantised_arrays(
    path: Path, key: str | None, scale: str | None, output: str | None, ids: str | None = None
) -> QuantisedArrays | None:
    """An npz file with integer vectors and their scale; None for floating-point ones. Without output it is read."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    headers = {name: npz.peek(path, name) for name in names}
    wide = [name for name, header in headers.items() if len(header.shape) == 2 and header.dtype == np.int8]
    floating = any(
        len(header.shape) == 2 and header.dtype.kind == "f" and name not in (*SCALES, scale)
        for name, header in headers.items()
    )
    chosen = key if key is not None else wide[0] if len(wide) == 1 and not floating else None
    if chosen is None or chosen not in wide:
        if scale is not None and output is not None:
            raise InputError("--scale is for int8 vectors, of which it has no single array")
        return None
    named = scale or next((name for name in SCALES if name in names), None)
    if named is None or (named not in names and not is_positive(named)):
        raise InputError(f"array {chosen!r} holds int8: name its scale with --scale, an array of the file or a number")
    if output is not None and not split_key(output, None)[0].name.lower().endswith(".npz"):
        raise InputError(f"int8 vectors of {path.name} are written to an npz file, with their scale")
    return QuantisedArrays(path, chosen, named, names, ids)


class QuantisedArrays:
    """An npz file with int8 vectors, their scale and other arrays."""

    required = True  # an array of ids has no gaps

    def __init__(self, path: Path, values: str, scale: str, names: list[str], ids: str | None) -> None:
        self.name, self._path, self._names = path.name, path, names
        self._values_name, self._scale_name = values, scale
        self._values = npz.array(path, values)
        self.rows = len(self._values)
        if ids is not None and ids not in names:
            raise InputError(f"there is no array {ids!r} for ids")
        self._ids = ids or default_ids(names)
        given = np.asarray(npz.array(path, scale) if scale in names else float(scale), np.float64)
        n, d = self._values.shape
        if given.shape not in ((), (1,), (1, 1), (n,), (n, 1), (d,), (1, d)) or not (given > 0).all():
            raise InputError(f"the scale has shape {given.shape}: one positive number, one per row or per column")
        per_row = given.shape in ((n,), (n, 1)) and n > 1
        self.one_scale = not per_row
        self.note = ""
        if given.shape == (n,) == (d,) and n > 1:
            self.note = f"its scale, one number for each of {n} rows or columns, is taken to be that of rows"
        self._shape = (-1, *given.shape[1:])
        shape = (n, 1) if per_row else (1, d)
        self._scale = Scale(float(given.reshape(-1)[0]) if given.size == 1 else given.reshape(shape))

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, decoded, block by block; with ids if these are wanted and known."""
        ids = self.ids() if named else None
        for rows in blocks_of(self.rows, max(1, CELLS // self._values.shape[1])):
            yield None if ids is None else ids[rows], self._scale.decoded(np.asarray(self._values[rows]), rows)

    def ids(self) -> Array | None:
        """The row ids."""
        if self._ids is None:
            return None
        found = np.asarray(npz.array(self._path, self._ids))
        if found.shape != (self.rows,):
            raise InputError(f"the ids {self._ids!r} have shape {found.shape} for {self.rows} rows")
        return found

    def write(self, output: str, task: Task) -> str:
        """Write all arrays to an npz file, with new vectors and their scale."""
        path = split_key(output, None)[0]
        require_writable(path)
        step = max(1, CELLS // max(task.width, self._values.shape[1]))
        scales: list[Array] = []

        def blocks() -> Iterator[Array]:
            for start in range(0, self.rows, step):
                rows = slice(start, min(start + step, self.rows))
                vectors = task.change(self._scale.decoded(np.asarray(self._values[rows]), rows))
                block, mine = encoded(vectors, task.scale)
                if mine is not None:
                    scales.append(mine)
                task.told(rows.stop - rows.start)
                yield block

        with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            with archive.open(f"{self._values_name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, (self.rows, task.width), np.dtype(np.int8), blocks())
            new = np.concatenate(scales).reshape(self._shape) if scales else np.array(task.scale)
            others = {name: npz.array(self._path, name) for name in self._names if name != self._values_name}
            others[self._scale_name if self._scale_name in self._names else "scale"] = new
            for name, array in others.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
        how = "a scale per row" if task.scale is None else f"one scale, {task.scale:.4g}"
        noted = f"; {self.note}" if self.note else ""
        more = counted(len(others) - 1, "other array")
        return f"{self.rows} rows x {task.width} columns, int8 with {how}, and {more}{noted}"
