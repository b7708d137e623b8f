"""Latents from whatever the caller has: arrays, tensors, representations or files, one row an example."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix, Representation, as_representation
from ..rows import read_rows, refuse_non_finite, select
from ..storage import read


@dataclass(frozen=True, eq=False)
class Latents:
    """Flat rows, the shape a decoder wants each of them in, and what to call them."""

    values: Matrix
    row_shape: tuple[int, ...]
    name: str
    ids: Array | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    @property
    def d(self) -> int:
        """The number of latents."""
        return int(self.values.shape[1])

    @property
    def double(self) -> bool:
        """Whether they are in double precision."""
        return bool(np.dtype(self.values.dtype).itemsize >= 8)

    def rows(self, part: slice | Array) -> Array:
        """Some rows in memory."""
        return read_rows(self.values, part)

    def chosen(self, rows: Array) -> Latents:
        """Some rows, in this order."""
        ids = None if self.ids is None else self.ids[rows]
        return Latents(select(self.values, rows), self.row_shape, self.name, ids)


def as_latents(given: Any, name: str = "latents") -> Latents:
    """Latents as flat rows; arrays with more than two axes are flattened and their row shape is remembered.

    Values that are not finite are refused.
    """
    if isinstance(given, Latents):
        return given
    if isinstance(given, str | Path):
        given = read(given)
    row_shape = None
    if not isinstance(given, Representation) and len(getattr(given, "shape", ())) > 2:
        row_shape = tuple(int(size) for size in given.shape[1:])
        if 0 in given.shape:
            raise InputError(f"{name} is empty: its shape is {tuple(given.shape)}")
        given = given.reshape(given.shape[0], -1)
    found = as_representation(given, name)
    label = found.name or name
    refuse_non_finite(found.values, label)
    return Latents(found.values, row_shape or (found.shape[1],), label, found.ids)
