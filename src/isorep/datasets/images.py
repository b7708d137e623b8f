"""Images with known factors: what every loader and every rendered scene gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ..representation import Array
from .checks import is_seed, is_whole

Reader = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class FactorImages:
    """Images that stay where they are until they are asked for, and the factors that made them.

    Attributes
    ----------
    name : str
        The data set.
    factor_names : tuple of str
        One name a factor.
    factor_sizes : tuple of int
        How many values each factor takes; 0 for a continuous one.
    factors : array of shape (images, factors)
        Integer classes from 0. In scenes drawn with continuous factors, the values themselves.
    factor_values : array of shape (images, factors), or None
        The values behind the classes, where they are known.
    image_shape : tuple of int
        Height, width and channels.
    note : str
        What a reader of results should know about the images, for example that they were compressed with loss.
    """

    name: str
    factor_names: tuple[str, ...]
    factor_sizes: tuple[int, ...]
    factors: Array
    factor_values: Array | None
    image_shape: tuple[int, int, int]
    reader: Reader = field(repr=False)
    note: str = ""

    def __len__(self) -> int:
        return len(self.factors)

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name} {size or 'continuous'}" for name, size in zip(self.factor_names, self.factor_sizes, strict=True)
        )
        height, width, channels = self.image_shape
        return f"{type(self).__name__}({self.name!r}, {len(self)} images {height} x {width} x {channels}, {sizes})"

    def images(self, rows: Any = None) -> Array:
        """Images as uint8 of shape (rows, height, width, channels); ``rows`` are indices, a mask or a slice."""
        return self.reader(self._rows(rows))

    def floats(self, rows: Any = None) -> Array:
        """Images as float32 in [0, 1] of shape (rows, channels, height, width), as networks take them."""
        return as_floats(self.images(rows))

    def sample(self, n: int, seed: int = 0) -> Sample:
        """``n`` different images chosen at random, with their factors; the same for the same seed."""
        if not is_whole(n, 1, len(self)):
            raise InputError(f"{self.name} has {len(self)} images, so {n} different ones cannot be drawn from it")
        _require_seed(seed)
        rows = np.random.default_rng(seed).permutation(len(self))[:n]
        values = None if self.factor_values is None else self.factor_values[rows]
        return Sample(rows, self.images(rows), self.factors[rows], values)

    def subset(self, rows: Any) -> Self:
        """Some of the images, in the given order; nothing is read."""
        chosen, reader = self._rows(rows), self.reader
        return replace(
            self,
            factors=self.factors[chosen],
            factor_values=None if self.factor_values is None else self.factor_values[chosen],
            reader=lambda places: reader(chosen[places]),
        )

    def split(self, held_out: float = 0.1, seed: int = 0) -> tuple[Self, Self]:
        """Training images, and a share of the images that is held out, both in random order."""
        _require_seed(seed)
        if not 0 < held_out < 1:
            raise InputError(f"held_out is {held_out} and must be a share between 0 and 1")
        aside = round(held_out * len(self))
        if not 0 < aside < len(self):
            raise InputError(f"held_out is {held_out}, which leaves one side of {len(self)} images empty")
        order = np.random.default_rng(seed).permutation(len(self))
        return self.subset(order[aside:]), self.subset(order[:aside])

    def _rows(self, rows: Any) -> Array:
        if rows is None:
            return np.arange(len(self))
        if isinstance(rows, slice):
            return np.arange(len(self))[rows]
        index = np.atleast_1d(np.asarray(rows))
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iub"):
            raise InputError(f"rows are chosen by integers, a mask or a slice, not by {index.dtype} {index.shape}")
        if index.dtype == bool:
            if len(index) != len(self):
                raise InputError(f"the mask has {len(index)} entries and {self.name} has {len(self)} images")
            return np.flatnonzero(index)
        index = index.astype(np.int64)
        if index.size and (index.min() < -len(self) or index.max() >= len(self)):
            raise InputError(f"{self.name} has {len(self)} images, and row {index.max()} was asked for")
        return np.asarray(np.where(index < 0, index + len(self), index))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some images in memory: their rows, uint8 pixels, classes, and values where they are known."""

    rows: Array
    images: Array
    factors: Array
    factor_values: Array | None

    def __len__(self) -> int:
        return len(self.rows)

    def floats(self) -> Array:
        """The images as float32 in [0, 1], channels first."""
        return as_floats(self.images)


def _require_seed(seed: Any) -> None:
    if not is_seed(seed):
        raise InputError(f"seed is {seed!r} and must be a whole number from 0 on")


def as_floats(images: Array) -> Array:
    """uint8 images (rows, height, width, channels) as float32 in [0, 1] of shape (rows, channels, height, width)."""
    return np.ascontiguousarray(np.moveaxis(images, -1, 1)).astype(np.float32) / np.float32(255)


def grid_classes(sizes: tuple[int, ...]) -> Array:
    """All combinations of classes in order, the last factor varying fastest."""
    return np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1).astype(np.int32)
