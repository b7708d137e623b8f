"""Cars3D: car models seen from 24 azimuths and 4 elevations, as MATLAB files (Reed et al. 2015)."""

from __future__ import annotations

import io
import re
import struct
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array
from ..storage.registry import guarded
from .images import SIZE, FactorImages, grid_classes, require_size, resized
from .layouts import CARS3D

_SHAPE = (128, 128, 3, 24, 4)
_MOST_BYTES = 2**25  # of one file, and of one variable unpacked; the images of a car take 4.7 MB, its masks 1.6 MB
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COMPRESSED = 15
_HEADER = 128


def read_cars3d(listing: Path, *, size: int | None = SIZE) -> FactorImages:
    """Open ``list.txt`` and the files ``car_*_mesh.mat`` it names, each with ``im`` (128, 128, 3, 24, 4) uint8.

    Rows run over elevation, azimuth and car, the car varying fastest. Fewer cars than the published 183 will do.
    Images are shrunk to ``size`` by bicubic resizing; None leaves them at 128.
    """
    require_size(size)
    names = guarded(listing, lambda: _names(listing))
    paths = [listing.parent / f"{name}.mat" for name in names]
    for path in paths:
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist, though {listing.name} names it")

    @lru_cache(maxsize=4)
    def car(place: int) -> Array:
        found: Array = guarded(paths[place], lambda: _images(paths[place]))
        return found

    sizes = (4, 24, len(paths))
    classes = grid_classes(sizes)

    edge = 128 if size is None else size

    def read(rows: Array) -> Array:
        found = np.empty((len(rows), edge, edge, 3), np.uint8)
        for place in np.unique(classes[rows, 2]):
            chosen = np.flatnonzero(classes[rows, 2] == place)
            elevations, azimuths = classes[rows[chosen], 0], classes[rows[chosen], 1]
            found[chosen] = resized(np.moveaxis(car(int(place))[..., azimuths, elevations], -1, 0), size)
        return found

    return CARS3D.images(classes, read, sizes=sizes, image_shape=(edge, edge, 3))


def _names(listing: Path) -> list[str]:
    if listing.stat().st_size > 2**16:
        raise InputError(f"{listing.name} takes {listing.stat().st_size} bytes, too much for a list of cars")
    names = listing.read_text(encoding="ascii").split()
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong or not 1 <= len(names) <= CARS3D.sizes[-1] or len(set(names)) != len(names):
        raise InputError(f"{listing.name} must name 1 to {CARS3D.sizes[-1]} different files, one a line")
    return names


def _images(path: Path) -> Array:
    from scipy.io import loadmat, whosmat

    file: Any = io.BytesIO(_unpacked(path))
    known = {name: (shape, kind) for name, shape, kind in whosmat(file)}
    if known.get("im") != (_SHAPE, "uint8"):
        raise InputError(f"{path.name} holds im as {known.get('im', 'nothing')} where {_SHAPE} uint8 is needed")
    images: Any = loadmat(file, variable_names=["im"])["im"]
    if images.shape != _SHAPE or images.dtype != np.uint8:
        raise InputError(f"{path.name} holds im as {images.shape} {images.dtype}")
    return np.asarray(images)


def _unpacked(path: Path) -> bytes:
    """A MATLAB 5 file with its variables unpacked, each only as far as a variable may reach."""
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path.name} takes {path.stat().st_size} bytes, too much for the images of one car")
    data = path.read_bytes()
    if len(data) < _HEADER or data[126:128] != b"IM":
        raise InputError(f"{path.name} is no little-endian MATLAB 5 file")
    parts, start, total = [data[:_HEADER]], _HEADER, 0
    while start + 8 <= len(data):
        kind, length = struct.unpack("<II", data[start : start + 8])
        body = data[start + 8 : start + 8 + length]
        if len(body) < length:
            raise InputError(f"{path.name} is truncated")
        if kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            part = unpacker.decompress(body, _MOST_BYTES)
            if unpacker.unconsumed_tail or not unpacker.eof:
                raise InputError(f"{path.name} holds a variable that is damaged, or unpacks to more than it may")
        else:
            part = data[start : start + 8] + body
        total += len(part)
        if total > 2 * _MOST_BYTES:
            raise InputError(f"{path.name} unpacks to more than the images of one car can take")
        parts.append(part)
        start += 8 + length
    return b"".join(parts)
