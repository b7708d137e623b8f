"""Images with known factors: what every loader and every rendered scene gives.

Bicubic resizing with antialiasing, in numpy: what published protocols apply to larger images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..settings import check_counts

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
        check_counts(n=(n, 1, len(self)), seed=(seed, 0))
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
        check_counts(seed=(seed, 0))
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


def as_floats(images: Array) -> Array:
    """uint8 images (rows, height, width, channels) as float32 in [0, 1] of shape (rows, channels, height, width)."""
    return np.ascontiguousarray(np.moveaxis(images, -1, 1)).astype(np.float32) / np.float32(255)


def grid_classes(sizes: tuple[int, ...]) -> Array:
    """All combinations of classes in order, the last factor varying fastest."""
    return np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1).astype(np.int32)


def grid_sizes(sizes: Any, published: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a grid: the published ones, or as many positive whole numbers that were given."""
    if sizes is None:
        return published
    given = list(sizes) if isinstance(sizes, Iterable) else []
    whole = all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in given)
    if not whole or len(given) != len(published):
        raise InputError(f"sizes must be {len(published)} positive integers, one a factor")
    return tuple(map(int, given))


def gathered(rows: Array, counts: Sequence[int], read: Callable[[int, Array], Array], shape: tuple[int, ...]) -> Array:
    """Images of several files that hold their rows one after the other: ``read(file, rows)`` gives those of one."""
    bounds = np.cumsum([0, *counts])
    found = np.empty((len(rows), *shape), np.uint8)
    owners = np.searchsorted(bounds, rows, side="right") - 1
    for owner in np.unique(owners):
        found[owners == owner] = read(int(owner), rows[owners == owner] - bounds[owner])
    return found


SIZE = 64


def resized(images: Array, size: int | None) -> Array:
    r"""uint8 images (rows, height, width, channels) at ``size`` x ``size``, rounded and clipped; None leaves them.

    Keys' cubic kernel (a = -1/2). When shrinking, the kernel is widened by the factor of shrinking, so that nothing is
    sampled more coarsely than it varies, and its weights are normalised at the borders.
    """
    height, width = images.shape[1:3]
    if size is None or (height, width) == (size, size):
        return images
    down, across = _weights(height, size), _weights(width, size)
    tall = np.matmul(down, images.astype(np.float32).reshape(len(images), height, -1)).reshape(
        len(images), size, width, -1
    )
    found = np.matmul(across, tall)
    return np.asarray(np.clip(np.rint(found), 0, 255), np.uint8)


def require_size(size: int | None) -> None:
    """Refuse a size that is no image; None is that of the files."""
    if size is not None:
        check_counts(size=(size, 1, 1024))


@lru_cache(maxsize=16)
def _weights(old: int, new: int) -> Array:
    """The matrix that maps a line of old pixels to new ones."""
    step = old / new
    width = max(step, 1.0)
    centres = (np.arange(new) + 0.5) * step - 0.5
    weights = _cubic((centres[:, None] - np.arange(old)) / width)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def _cubic(x: Array) -> Array:
    x = np.abs(x)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
