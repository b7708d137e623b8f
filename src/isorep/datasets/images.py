"""Images with known factors: the result of every loader and every rendered scene.

Bicubic resizing with antialiasing, in numpy, as in published protocols for larger images.

Layouts: factors, sizes and image shape of each published data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..settings import check_counts

Reader = Callable[[Array], Array]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class FactorImages:
    """Images that are read or rendered lazily, and the factors that generated them.

    Attributes
    ----------
    name : str
        Name of the data set.
    factor_names : tuple of str
        Names of the factors.
    factor_sizes : tuple of int
        Number of values of each factor; 0 for a continuous one.
    factors : array of shape (images, factors)
        Integer classes from 0. In scenes drawn with continuous factors, the values themselves.
    factor_values : array of shape (images, factors), or None
        The values of the classes, where known.
    image_shape : tuple of int
        Height, width and channels.
    note : str
        A note about the images, for example that they were compressed with loss.
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
            reader=lambda inside: reader(chosen[inside]),
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


def channels_first(images: Array) -> Array:
    """Images (rows, height, width, channels) as (rows, channels, height, width)."""
    return np.ascontiguousarray(np.moveaxis(images, -1, 1))


def as_floats(images: Array) -> Array:
    """uint8 images (rows, height, width, channels) as float32 in [0, 1] of shape (rows, channels, height, width)."""
    return channels_first(images).astype(np.float32) / np.float32(255)


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
        raise InputError(f"sizes must be {len(published)} positive integers, one per factor")
    return tuple(map(int, given))


def gathered(rows: Array, counts: Sequence[int], read: Callable[[int, Array], Array], shape: tuple[int, ...]) -> Array:
    """Images of several files with consecutive rows: ``read(file, rows)`` gives those of one."""
    bounds = np.cumsum([0, *counts])
    images = np.empty((len(rows), *shape), np.uint8)
    owners = np.searchsorted(bounds, rows, side="right") - 1
    for owner in np.unique(owners):
        images[owners == owner] = read(int(owner), rows[owners == owner] - bounds[owner])
    return images


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
    small = np.matmul(across, tall)
    return np.asarray(np.clip(np.rint(small), 0, 255), np.uint8)


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


@dataclass(frozen=True)
class Layout:
    """The layout of a published data set: the last factor varies fastest where the rows are in order."""

    name: str
    factor_names: tuple[str, ...]
    sizes: tuple[int, ...]
    image_shape: tuple[int, int, int]

    @classmethod
    def of(cls, name: str, edge: int, channels: int, **factors: int) -> Layout:
        """Square images of so many channels, and factors with how many values each takes."""
        return cls(name, tuple(factors), tuple(factors.values()), (edge, edge, channels))

    @property
    def count(self) -> int:
        """The number of images in the published files."""
        return math.prod(self.sizes)

    def classes(self, n: int, sizes: Sequence[int] | None, path: Path) -> Array:
        """The classes of files without labels, whose rows must be the whole grid: the published one, or ``sizes``."""
        chosen = grid_sizes(sizes, self.sizes)
        if math.prod(chosen) != n:
            hint = "" if sizes is not None else "; another grid must be named with sizes="
            raise InputError(
                f"{path.name} holds {n} images where {self.name} has {math.prod(chosen)}, the grid "
                f"{' x '.join(map(str, chosen))}; it has no labels that could tell which they are{hint}"
            )
        return grid_classes(chosen)

    def require_rows(self, n: int, path: Path) -> None:
        """Refuse files with labels that hold no images, or more than were published."""
        if not 1 <= n <= self.count:
            raise InputError(f"{path.name} holds {n} rows where {self.name} has {self.count}, or fewer in a part of it")

    def from_values(self, values: Array, path: Path) -> tuple[Array, tuple[int, ...]]:
        """Classes of labelled rows, in the order of the values of each factor, and how many values each takes."""
        if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise InputError(f"{path.name} holds labels that are not finite numbers")
        classes = np.empty(values.shape, np.int32)
        sizes = []
        for factor in range(values.shape[1]):
            known, classes[:, factor] = np.unique(values[:, factor], return_inverse=True)
            sizes.append(len(known))
        wrong = [factor for factor, size in enumerate(sizes) if size > self.sizes[factor]]
        if not wrong and len(values) == self.count and tuple(sizes) != self.sizes:
            wrong = [factor for factor, size in enumerate(sizes) if size != self.sizes[factor]]
        if wrong:
            factor = wrong[0]
            raise InputError(
                f"{path.name} has {sizes[factor]} values of {self.factor_names[factor]} where {self.name} has "
                f"{self.sizes[factor]}"
            )
        return classes, tuple(sizes)

    def images(
        self,
        classes: Array,
        reader: Reader,
        *,
        values: Array | None = None,
        sizes: tuple[int, ...] | None = None,
        image_shape: tuple[int, int, int] | None = None,
        note: str = "",
    ) -> FactorImages:
        """The data set with these classes."""
        factor_sizes = tuple(int(size) + 1 for size in classes.max(axis=0)) if sizes is None else sizes
        shape = self.image_shape if image_shape is None else image_shape
        return FactorImages(self.name, self.factor_names, factor_sizes, classes, values, shape, reader, note)


def once(make: Callable[[], Result]) -> Callable[[], Result]:
    """A function that makes an array on its first call, in one thread, and returns the same one afterwards."""
    lock, made = Lock(), cache(make)

    def held() -> Result:
        with lock:
            return made()

    return held


SHAPES3D = Layout.of("shapes3d", 64, 3, floor_hue=10, wall_hue=10, object_hue=10, scale=8, shape=4, orientation=15)
_ARM = {"object_size": 2, "camera_height": 3, "background_colour": 3, "horizontal_axis": 40, "vertical_axis": 40}
MPI3D = {
    variant: Layout.of(f"mpi3d_{variant}", 64, 3, object_colour=objects, object_shape=objects, **_ARM)
    for variant, objects in (("toy", 6), ("realistic", 6), ("real", 6), ("real_complex", 4))
}
DSPRITES = Layout.of("dsprites", 64, 1, colour=1, shape=3, scale=6, orientation=40, x=32, y=32)
_LIGHT = {"lighting_intensity": 5, "lighting_x": 6, "lighting_y": 6, "lighting_z": 6}
FALCOR3D = Layout.of("falcor3d", 128, 3, **_LIGHT, camera_x=6, camera_y=6, camera_z=6)
_ROBOT = {"object_shape": 3, "robot_x": 8, "robot_y": 5, "camera_height": 4, "object_scale": 4}
ISAAC3D = Layout.of("isaac3d", 128, 3, **_ROBOT, lighting_intensity=4, lighting_y=6, object_colour=4, wall_colour=4)
CARS3D = Layout.of("cars3d", 128, 3, elevation=4, azimuth=24, object=183)
SMALLNORB = Layout.of("smallnorb", 96, 1, category=5, instance=10, elevation=9, azimuth=18, lighting=6)
