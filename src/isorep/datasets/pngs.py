"""Falcor3D and Isaac3D: a lit living room and a robot's kitchen, as folders of PNG files (Nie et al. 2020)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError, missing_extra
from ..representation import Array
from ..storage.npy import map_array, read_header
from ..storage.registry import guarded
from .images import FactorImages
from .layouts import FALCOR3D, ISAAC3D, Layout
from .resizing import SIZE, require_size, resized

FOLDERS = {"falcor3d": ("Falcor3D_down128", "train-rec.labels"), "isaac3d": ("Isaac3D_down128", "labels.npy")}
_LAYOUTS = {"falcor3d": FALCOR3D, "isaac3d": ISAAC3D}
_MOST_BYTES = 2**20  # of one PNG file; 128 x 128 x 4 bytes are 64 KiB


def read_png_folder(labels: Path, name: str, *, size: int | None = SIZE) -> FactorImages:
    """Open ``images/{row:06}.png`` (128 x 128) beside an npy file of labels, one row an image.

    Images are shrunk to ``size`` by bicubic resizing with antialiasing, as published; None leaves them at 128.
    """
    require_size(size)
    layout = _LAYOUTS[name]
    values = guarded(labels, lambda: _labels(labels, layout))
    classes, sizes = layout.from_values(values, labels)
    pictures = labels.parent / "images"
    for row in (0, len(values) - 1):
        _require(pictures / f"{row:06}.png")

    def read(rows: Array) -> Array:
        found = np.empty((len(rows), *layout.image_shape), np.uint8)
        for place, row in enumerate(rows):
            path = pictures / f"{row:06}.png"
            _require(path)
            found[place] = guarded(path, lambda path=path: _png(path, layout.image_shape))
        return resized(found, size)

    edge = layout.image_shape[0] if size is None else size
    return layout.images(classes, read, values=values, sizes=sizes, image_shape=(edge, edge, 3))


def decoder() -> Any:
    """Pillow's Image, which is optional."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise missing_extra("pillow", "images", "reading PNG and JPEG images") from None
    return Image


def _labels(path: Path, layout: Layout) -> Array:
    with path.open("rb") as file:
        header = read_header(file)
    if len(header.shape) != 2 or header.shape[1] != len(layout.sizes) or header.dtype.kind not in "fiu":
        raise InputError(
            f"{path.name} holds {header.shape} {header.dtype} where one row of {len(layout.sizes)} numbers an image "
            "is needed"
        )
    layout.require_rows(header.shape[0], path)
    return np.array(map_array(path, header, 0, path.stat().st_size), dtype=np.float64)


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
