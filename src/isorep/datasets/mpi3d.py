"""MPI3D: a robot arm with an object, simulated and photographed, seven factors (Gondal et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage import npz
from ..storage.registry import guarded
from .images import FactorImages
from .layouts import MPI3D, Once

FILES = {
    "toy": ("mpi3d_toy.npz",),
    "realistic": ("mpi3d_realistic.npz",),
    "real": ("mpi3d_real.npz", "real.npz"),
    "real_complex": ("real3d_complicated_shapes_ordered.npz",),
}


def read_mpi3d(path: Path, variant: str, *, sizes: Sequence[int] | None = None) -> FactorImages:
    """Open an npz file with ``images`` (n, 64, 64, 3) uint8 in the order of the grid; it has no labels.

    Images stored plain are mapped. Compressed ones are unpacked when the first image is asked for, into a scratch
    file where they are large. ``sizes`` names the grid of a file that is not the published one.
    """
    layout = MPI3D[variant]
    header = guarded(path, lambda: npz.peek(path, "images"))
    if header.dtype != np.uint8 or len(header.shape) != 4 or header.shape[1:] != layout.image_shape:
        raise InputError(f"{path.name} holds images {header.shape} {header.dtype} where (n, 64, 64, 3) uint8 is needed")
    if header.fortran_order:
        raise InputError(f"{path.name} holds images in Fortran order: save them in C order")
    classes = layout.classes(header.shape[0], sizes, path)
    chosen = layout.sizes if sizes is None else tuple(int(size) for size in sizes)
    images = Once(lambda: guarded(path, lambda: npz.array(path, "images")))

    def read(rows: Array) -> Array:
        return np.asarray(images()[rows])

    return layout.images(classes, read, sizes=chosen)
