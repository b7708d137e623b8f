"""What the published files of each data set hold: factors, sizes, the shape of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .images import FactorImages, Reader, grid_classes, grid_sizes


@dataclass(frozen=True)
class Layout:
    """The published form of a data set: the last factor varies fastest where the rows are in order."""

    name: str
    factor_names: tuple[str, ...]
    sizes: tuple[int, ...]
    image_shape: tuple[int, int, int]

    @classmethod
    def of(cls, name: str, image_shape: tuple[int, int, int], **factors: int) -> Layout:
        """Factors with how many values each takes."""
        return cls(name, tuple(factors), tuple(factors.values()), image_shape)

    @property
    def count(self) -> int:
        """How many images the published files hold."""
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
        for place in range(values.shape[1]):
            known, classes[:, place] = np.unique(values[:, place], return_inverse=True)
            sizes.append(len(known))
        wrong = [place for place, size in enumerate(sizes) if size > self.sizes[place]]
        if not wrong and len(values) == self.count and tuple(sizes) != self.sizes:
            wrong = [place for place, size in enumerate(sizes) if size != self.sizes[place]]
        if wrong:
            place = wrong[0]
            raise InputError(
                f"{path.name} has {sizes[place]} values of {self.factor_names[place]} where {self.name} has "
                f"{self.sizes[place]}"
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
        found = tuple(int(size) + 1 for size in classes.max(axis=0)) if sizes is None else sizes
        shape = self.image_shape if image_shape is None else image_shape
        return FactorImages(self.name, self.factor_names, found, classes, values, shape, reader, note)


class Once:
    """An array that is made when it is first needed, by one thread."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._lock = Lock()
        self._made: Any = None

    def __call__(self) -> Any:
        """The array."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


SHAPES3D = Layout.of(
    "shapes3d", (64, 64, 3), floor_hue=10, wall_hue=10, object_hue=10, scale=8, shape=4, orientation=15
)
MPI3D = {
    variant: Layout.of(
        f"mpi3d_{variant}",
        (64, 64, 3),
        object_colour=objects,
        object_shape=objects,
        object_size=2,
        camera_height=3,
        background_colour=3,
        horizontal_axis=40,
        vertical_axis=40,
    )
    for variant, objects in (("toy", 6), ("realistic", 6), ("real", 6), ("real_complex", 4))
}
DSPRITES = Layout.of("dsprites", (64, 64, 1), colour=1, shape=3, scale=6, orientation=40, x=32, y=32)
FALCOR3D = Layout.of(
    "falcor3d",
    (128, 128, 3),
    lighting_intensity=5,
    lighting_x=6,
    lighting_y=6,
    lighting_z=6,
    camera_x=6,
    camera_y=6,
    camera_z=6,
)
ISAAC3D = Layout.of(
    "isaac3d",
    (128, 128, 3),
    object_shape=3,
    robot_x=8,
    robot_y=5,
    camera_height=4,
    object_scale=4,
    lighting_intensity=4,
    lighting_y=6,
    object_colour=4,
    wall_colour=4,
)
CARS3D = Layout.of("cars3d", (128, 128, 3), elevation=4, azimuth=24, object=183)
SMALLNORB = Layout.of("smallnorb", (96, 96, 1), category=5, instance=10, elevation=9, azimuth=18, lighting=6)
