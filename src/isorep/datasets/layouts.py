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
from .folder import are_whole
from .images import FactorImages, Reader, grid_classes


@dataclass(frozen=True)
class Layout:
    """The published form of a data set: the last factor varies fastest where the rows are in order."""

    name: str
    factor_names: tuple[str, ...]
    sizes: tuple[int, ...]
    image_shape: tuple[int, int, int]

    @property
    def count(self) -> int:
        """How many images the published files hold."""
        return math.prod(self.sizes)

    def classes(self, n: int, sizes: Sequence[int] | None, path: Path) -> Array:
        """The classes of files without labels, whose rows must be the whole grid: the published one, or ``sizes``."""
        if sizes is not None and not are_whole(sizes, len(self.sizes)):
            raise InputError(f"sizes must be {len(self.sizes)} positive integers, one a factor of {self.name}")
        chosen = self.sizes if sizes is None else tuple(int(size) for size in sizes)
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


SHAPES3D = Layout(
    "shapes3d",
    ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    (10, 10, 10, 8, 4, 15),
    (64, 64, 3),
)
_ARM = (
    "object_colour",
    "object_shape",
    "object_size",
    "camera_height",
    "background_colour",
    "horizontal_axis",
    "vertical_axis",
)
MPI3D = {
    variant: Layout(f"mpi3d_{variant}", _ARM, sizes, (64, 64, 3))
    for variant, sizes in (
        ("toy", (6, 6, 2, 3, 3, 40, 40)),
        ("realistic", (6, 6, 2, 3, 3, 40, 40)),
        ("real", (6, 6, 2, 3, 3, 40, 40)),
        ("real_complex", (4, 4, 2, 3, 3, 40, 40)),
    )
}
DSPRITES = Layout(
    "dsprites",
    ("colour", "shape", "scale", "orientation", "x", "y"),
    (1, 3, 6, 40, 32, 32),
    (64, 64, 1),
)
FALCOR3D = Layout(
    "falcor3d",
    ("lighting_intensity", "lighting_x", "lighting_y", "lighting_z", "camera_x", "camera_y", "camera_z"),
    (5, 6, 6, 6, 6, 6, 6),
    (128, 128, 3),
)
ISAAC3D = Layout(
    "isaac3d",
    (
        "object_shape",
        "robot_x",
        "robot_y",
        "camera_height",
        "object_scale",
        "lighting_intensity",
        "lighting_y",
        "object_colour",
        "wall_colour",
    ),
    (3, 8, 5, 4, 4, 4, 6, 4, 4),
    (128, 128, 3),
)
CARS3D = Layout("cars3d", ("elevation", "azimuth", "object"), (4, 24, 183), (128, 128, 3))
SMALLNORB = Layout(
    "smallnorb",
    ("category", "instance", "elevation", "azimuth", "lighting"),
    (5, 10, 9, 18, 6),
    (96, 96, 1),
)
