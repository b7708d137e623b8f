"""Shapes3D: an object in a room, six factors, as one HDF5 file (Burgess and Kim 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage.hdf5 import HDF5Tree
from ..storage.lazy import LazyMatrix
from ..storage.registry import guarded
from ..storage.scratch import spool
from .images import FactorImages
from .layouts import SHAPES3D, Once

FILE = "3dshapes.h5"
_FEW_ROWS = 64  # rows that may be read for the sake of one
_BAND_BYTES = 2**30


def read_shapes3d(path: Path) -> FactorImages:
    """Open ``3dshapes.h5``: images (480000, 64, 64, 3) uint8 and labels (480000, 6); a part of the rows will do.

    The published file is cut into compressed chunks of thousands of images each. It is unpacked once, when the first
    image is asked for, into a scratch file of 5.9 GB (memory, below 256 MiB); other files are sliced where they lie.
    """
    found: FactorImages = guarded(path, lambda: _open(path))
    return found


def _open(path: Path) -> FactorImages:
    tree = HDF5Tree(path)
    shape, labels_shape = tree.shape("images"), tree.shape("labels")
    if shape is None or labels_shape is None:
        raise InputError(f"{path.name} must hold the datasets images and labels")
    if shape[1:] != SHAPES3D.image_shape or labels_shape != (shape[0], len(SHAPES3D.sizes)):
        raise InputError(
            f"{path.name} holds images {shape} and labels {labels_shape} where (n, 64, 64, 3) and (n, 6) are needed"
        )
    SHAPES3D.require_rows(shape[0], path)
    labels, images = tree.matrix("labels"), tree.matrix("images")
    if images.dtype != np.uint8:
        raise InputError(f"{path.name} holds images as {images.dtype} where uint8 is needed")
    values = np.asarray(labels[:])
    classes, sizes = SHAPES3D.from_values(values, path)
    chunks = tree.chunks("images")
    if chunks is None or chunks[0] <= _FEW_ROWS:
        return SHAPES3D.images(classes, lambda rows: images[rows], values=values.astype(np.float64), sizes=sizes)
    band_bytes = chunks[0] * math.prod(SHAPES3D.image_shape)
    if band_bytes > _BAND_BYTES:
        raise InputError(f"{path.name} is cut into chunks of {chunks}: save it with fewer rows a chunk")
    stored = path.stat().st_size
    unpacked = Once(
        lambda: guarded(
            path, lambda: spool(_bands(images, chunks[0]), stored, expected_bytes=math.prod(images.shape))
        ).reshape(images.shape)
    )
    return SHAPES3D.images(
        classes, lambda rows: np.asarray(unpacked()[rows]), values=values.astype(np.float64), sizes=sizes
    )


def _bands(images: LazyMatrix, step: int) -> Iterator[Array]:
    """All images in bands of whole chunks, so that every chunk is unpacked once."""
    for start in range(0, len(images), step):
        band = images[start : min(start + step, len(images))]
        yield band.reshape(len(band), -1)
