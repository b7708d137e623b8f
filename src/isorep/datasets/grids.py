"""Shapes3D, MPI3D, dSprites, Falcor3D and Isaac3D: images on complete grids of factors.

Falcor3D and Isaac3D: a lit living room and a robot's kitchen, as folders of PNG files (Nie et al. 2020).

dSprites: one white shape on black, five factors and a constant colour (Matthey et al. 2017).

MPI3D: a robot arm with an object, simulated and photographed, seven factors (Gondal et al. 2019).

Shapes3D: an object in a room, six factors, as one HDF5 file (Burgess and Kim 2018).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError, import_extra
from ..representation import Array
from ..storage import npz
from ..storage.hdf5 import HDF5Tree
from ..storage.lazy import LazyMatrix
from ..storage.npy import open_array, read_header
from ..storage.registry import guarded
from ..storage.scratch import spool
from .images import DSPRITES, MPI3D, SHAPES3D, SIZE, FactorImages, Layout, once, require_size, resized

_MOST_BYTES = 2**20  # of one PNG file; 128 x 128 x 4 bytes are 64 KiB


def read_png_folder(layout: Layout, labels: Path, *, size: int | None = SIZE) -> FactorImages:
    """Open ``images/{row:06}.png`` (128 x 128) next to an npy file of labels, one row per image.

    Images are shrunk to ``size`` by bicubic resizing with antialiasing, as published; None leaves them at 128.
    """
    require_size(size)
    values = guarded(labels, _labels, labels, layout)
    classes, sizes = layout.from_values(values, labels)
    pictures = labels.parent / "images"
    for row in (0, len(values) - 1):
        _require(pictures / f"{row:06}.png")

    def read(rows: Array) -> Array:
        images = np.empty((len(rows), *layout.image_shape), np.uint8)
        for index, row in enumerate(rows):
            path = pictures / f"{row:06}.png"
            _require(path)
            images[index] = guarded(path, _png, path, layout.image_shape)
        return resized(images, size)

    edge = layout.image_shape[0] if size is None else size
    return layout.images(classes, read, values=values, sizes=sizes, image_shape=(edge, edge, 3))


def decoder() -> Any:
    """Pillow's Image, which is optional."""
    return import_extra("PIL.Image", "images", "reading PNG and JPEG images", "pillow")


def _labels(path: Path, layout: Layout) -> Array:
    with path.open("rb") as file:
        header = read_header(file)
    if len(header.shape) != 2 or header.shape[1] != len(layout.sizes) or header.dtype.kind not in "fiu":
        raise InputError(
            f"{path.name} holds {header.shape} {header.dtype} where one row of {len(layout.sizes)} numbers per image "
            "is needed"
        )
    layout.require_rows(header.shape[0], path)
    return np.array(open_array(path, header, 0, path.stat().st_size), dtype=np.float64)


def _require(path: Path) -> None:
    if not path.is_file():
        raise MissingFileError(f"{path} does not exist, though the labels have a row for it")


def _png(path: Path, shape: tuple[int, int, int]) -> Array:
    """One picture; its size is read from its first bytes before anything is unpacked."""
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path.name} takes {path.stat().st_size} bytes, too much for a picture of {shape}")
    with path.open("rb") as file:
        lead = file.read(24)
    if len(lead) < 24 or lead[:8] != b"\x89PNG\r\n\x1a\n" or lead[12:16] != b"IHDR":
        raise InputError(f"{path.name} is not a PNG file")
    width, height = struct.unpack(">II", lead[16:24])
    if (height, width) != shape[:2]:
        raise InputError(f"{path.name} is {width} x {height} where {shape[1]} x {shape[0]} is needed")
    with decoder().open(path, formats=["PNG"]) as picture:
        return np.asarray(picture.convert("RGB"))


_PIXELS = 64 * 64


def read_dsprites(path: Path) -> FactorImages:
    """Open the npz file: ``imgs`` (737280, 64, 64) of 0 and 1, ``latents_values``, ``latents_classes``.

    Its fourth member, ``metadata``, is a pickle and is never read. Images are packed to one bit per pixel (377 MB)
    when the first one is read; they are returned as 0 and 255.
    """
    return guarded(path, _open_dsprites, path)


def _open_dsprites(path: Path) -> FactorImages:
    header = npz.peek(path, "imgs")
    if header.dtype != np.uint8 or len(header.shape) != 3 or header.shape[1:] != (64, 64) or header.fortran_order:
        raise InputError(
            f"{path.name} holds imgs {header.shape} {header.dtype} where (n, 64, 64) uint8 in C order is needed"
        )
    DSPRITES.require_rows(header.shape[0], path)
    wanted = (header.shape[0], len(DSPRITES.sizes))
    classes = _table(path, "latents_classes", "iu", wanted)
    values = _table(path, "latents_values", "f", wanted)
    if classes.min() < 0 or (classes.max(axis=0) >= DSPRITES.sizes).any():
        raise InputError(f"{path.name} holds latents_classes outside of {DSPRITES.sizes}")
    if not np.isfinite(values).all():
        raise InputError(f"{path.name} holds latents_values that are not finite")
    packed = once(lambda: guarded(path, _packed, path, math.prod(header.shape)))

    def read(rows: Array) -> Array:
        bits = np.unpackbits(np.asarray(packed()[rows]), axis=1)
        return (bits * np.uint8(255)).reshape(-1, 64, 64, 1)

    return DSPRITES.images(classes.astype(np.int32), read, values=values.astype(np.float64), sizes=DSPRITES.sizes)


def _table(path: Path, name: str, kinds: str, wanted: tuple[int, int]) -> Array:
    header = npz.peek(path, name)
    if header.shape != wanted or header.dtype.kind not in kinds:
        raise InputError(f"{path.name} holds {name} {header.shape} {header.dtype} where {wanted} is needed")
    return np.array(npz.array(path, name))


def _packed(path: Path, entries: int) -> Array:
    """One bit per pixel; blocks hold whole images, as their size is a multiple of an image's."""

    def blocks() -> Iterator[Array]:
        for block in npz.flat_blocks(path, "imgs"):
            if block.max() > 1:
                raise InputError(f"{path.name} holds imgs with values other than 0 and 1")
            yield np.packbits(block.reshape(-1, _PIXELS), axis=1)

    return spool(blocks(), path.stat().st_size, expected_bytes=entries // 8)


def read_mpi3d(variant: str, path: Path, *, sizes: Sequence[int] | None = None) -> FactorImages:
    """Open an npz file with ``images`` (n, 64, 64, 3) uint8 in the order of the grid; it has no labels.

    Images stored plain are mapped. Compressed ones are unpacked when the first image is read, into a scratch
    file where they are large. ``sizes`` names the grid of a file that is not the published one.
    """
    layout = MPI3D[variant]
    header = guarded(path, npz.peek, path, "images")
    if header.dtype != np.uint8 or len(header.shape) != 4 or header.shape[1:] != layout.image_shape:
        raise InputError(f"{path.name} holds images {header.shape} {header.dtype} where (n, 64, 64, 3) uint8 is needed")
    if header.fortran_order:
        raise InputError(f"{path.name} holds images in Fortran order: save them in C order")
    classes = layout.classes(header.shape[0], sizes, path)
    images = once(lambda: guarded(path, npz.array, path, "images"))
    return layout.images(
        classes, lambda rows: np.asarray(images()[rows]), sizes=layout.sizes if sizes is None else tuple(sizes)
    )


_FEW_ROWS = 64  # rows that may be read for the sake of one
_BAND_BYTES = 2**30


def read_shapes3d(path: Path) -> FactorImages:
    """Open ``3dshapes.h5``: images (480000, 64, 64, 3) uint8 and labels (480000, 6); a part of the rows will do.

    The published file is cut into compressed chunks of thousands of images each. It is unpacked once, when the first
    image is read, into a scratch file of 5.9 GB (memory, below 256 MiB); other files are sliced lazily.
    """
    return guarded(path, _open_shapes3d, path)


def _open_shapes3d(path: Path) -> FactorImages:
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
        raise InputError(f"{path.name} is cut into chunks of {chunks}: save it with fewer rows per chunk")
    stored = path.stat().st_size
    unpacked = once(
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
