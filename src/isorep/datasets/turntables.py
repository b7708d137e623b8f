"""Cars3D and SmallNORB: objects on a turntable.

Cars3D: car models seen from 24 azimuths and 4 elevations, as MATLAB files (Reed et al. 2015).

SmallNORB: fifty toys under 6 lights from 9 elevations and 18 azimuths (LeCun et al. 2004).
"""

from __future__ import annotations

import gzip
import io
import math
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array
from ..settings import check_choice
from ..storage.npy import exactly
from ..storage.registry import guarded
from ..storage.scratch import spool
from .folder import parts_of
from .images import CARS3D, SIZE, SMALLNORB, FactorImages, gathered, grid_classes, once, require_size, resized

_CAR = (128, 128, 3, 24, 4)
_MOST_BYTES = 2**25  # of one file, and of one variable unpacked; the images of a car take 4.7 MB, its masks 1.6 MB
_CAR_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COMPRESSED = 15
_HEADER = 128


def read_cars3d(listing: Path, *, size: int | None = SIZE) -> FactorImages:
    """Open ``list.txt`` and the files ``car_*_mesh.mat`` it names, each with ``im`` (128, 128, 3, 24, 4) uint8.

    Rows run over elevation, azimuth and car, the car varying fastest. Fewer cars than the published 183 will do.
    Images are shrunk to ``size`` by bicubic resizing; None leaves them at 128.
    """
    require_size(size)
    names = guarded(listing, _names, listing)
    paths = [listing.parent / f"{name}.mat" for name in names]
    for path in paths:
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist, though {listing.name} names it")

    @lru_cache(maxsize=4)
    def views(car: int) -> Array:
        return guarded(paths[car], _views, paths[car])

    sizes = (4, 24, len(paths))
    classes = grid_classes(sizes)
    edge = 128 if size is None else size

    def read(rows: Array) -> Array:
        images = np.empty((len(rows), edge, edge, 3), np.uint8)
        for car in np.unique(classes[rows, 2]):
            chosen = np.flatnonzero(classes[rows, 2] == car)
            elevations, azimuths = classes[rows[chosen], 0], classes[rows[chosen], 1]
            images[chosen] = resized(np.moveaxis(views(int(car))[..., azimuths, elevations], -1, 0), size)
        return images

    return CARS3D.images(classes, read, sizes=sizes, image_shape=(edge, edge, 3))


def _names(listing: Path) -> list[str]:
    if listing.stat().st_size > 2**16:
        raise InputError(f"{listing.name} takes {listing.stat().st_size} bytes, too much for a list of cars")
    names = listing.read_text(encoding="ascii").split()
    wrong = [name for name in names if not _CAR_NAME.fullmatch(name)]
    if wrong or not 1 <= len(names) <= CARS3D.sizes[-1] or len(set(names)) != len(names):
        raise InputError(f"{listing.name} must name 1 to {CARS3D.sizes[-1]} different files, one per line")
    return names


def _views(path: Path) -> Array:
    from scipy.io import loadmat, whosmat

    file: Any = io.BytesIO(_unpacked(path))
    known = {name: (shape, kind) for name, shape, kind in whosmat(file)}
    if known.get("im") != (_CAR, "uint8"):
        raise InputError(f"{path.name} holds im as {known.get('im', 'nothing')} where {_CAR} uint8 is needed")
    images: Any = loadmat(file, variable_names=["im"])["im"]
    if images.shape != _CAR or images.dtype != np.uint8:
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


PARTS = {"train": "smallnorb-5x46789x9x18x6x2x96x96-training", "test": "smallnorb-5x01235x9x18x6x2x96x96-testing"}
KINDS = ("dat", "cat", "info")
_ROWS = 24300  # of one part
_CODES = {0x1E3D4C55: "u1", 0x1E3D4C54: "<i4", 0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8"}
_BLOCK = 256  # rows read at once


def read_smallnorb(
    find: Callable[[str], Path], *, part: str = "both", camera: int = 0, size: int | None = SIZE
) -> FactorImages:
    """Open the training part, the test part, or both; images of one of the two cameras.

    Each part has three files, plain or gzipped: images, categories, and the other factors. Factors are category,
    instance (0 to 9; five in each part), elevation, azimuth (in steps of 20 degrees) and lighting. Images are shrunk
    from 96 to ``size`` by bicubic resizing; None leaves them. Gzipped images are unpacked when the first one is read.
    """
    require_size(size)
    check_choice("camera", camera, (0, 1))
    pixels, counts, labels = [], [], []
    for each in parts_of(part):
        dat, cat, info = (find(f"{PARTS[each]}-{kind}.mat") for kind in KINDS)
        counts.append(guarded(dat, _shape, dat)[0])
        pixels.append(once(partial(guarded, dat, _spooled, dat)))
        labels.append(_classes(cat, info))
        if len(labels[-1]) != counts[-1]:
            raise InputError(f"{dat.name} has {counts[-1]} rows and {cat.name} has {len(labels[-1])}")

    def read(rows: Array) -> Array:
        images = gathered(rows, counts, lambda file, inside: pixels[file]()[inside, camera, ..., None], (96, 96, 1))
        return resized(images, size)

    edge = 96 if size is None else size
    return SMALLNORB.images(np.concatenate(labels), read, sizes=SMALLNORB.sizes, image_shape=(edge, edge, 1))


def _shape(path: Path) -> tuple[int, ...]:
    with _stream(path) as stream:
        dtype, shape = _matrix_header(stream)
    if dtype != np.uint8 or len(shape) != 4 or shape[1:] != (2, 96, 96) or not 1 <= shape[0] <= _ROWS:
        raise InputError(f"{path.name} holds {shape} {dtype} where ({_ROWS}, 2, 96, 96) bytes are needed")
    return shape


def _classes(cat: Path, info: Path) -> Array:
    category, others = guarded(cat, _table, cat, 1), guarded(info, _table, info, 2)
    if others.shape[1:] != (4,) or len(others) != len(category):
        raise InputError(f"{info.name} holds {others.shape} where ({len(category)}, 4) is needed")
    classes = np.column_stack([category, others]).astype(np.int32)
    if (classes[:, 3] % 2).any():
        raise InputError(f"{info.name} holds odd azimuths, which the data set does not have")
    classes[:, 3] //= 2
    if classes.min() < 0 or (classes >= SMALLNORB.sizes).any():
        raise InputError(f"{info.name} or {cat.name} holds classes outside of {SMALLNORB.sizes}")
    return classes


def _table(path: Path, dimensions: int) -> Array:
    """A small matrix of integers in memory."""
    with _stream(path) as stream:
        dtype, shape = _matrix_header(stream)
        if dtype != np.dtype("<i4") or len(shape) != dimensions or not 1 <= shape[0] <= _ROWS or max(shape) > _ROWS:
            raise InputError(f"{path.name} holds {shape} {dtype} where {_ROWS} rows of integers are needed")
        return np.frombuffer(exactly(stream, 4 * math.prod(shape)), dtype).reshape(shape)


def _spooled(path: Path) -> Array:
    with _stream(path) as stream:
        _, shape = _matrix_header(stream)
        width = math.prod(shape[1:])

        def blocks() -> Iterator[Array]:
            for start in range(0, shape[0], _BLOCK):
                count = min(_BLOCK, shape[0] - start)
                yield np.frombuffer(exactly(stream, count * width), np.uint8).reshape(count, width)
            if stream.read(1):
                raise InputError(f"{path.name} holds more than its header declares")

        return spool(blocks(), path.stat().st_size, expected_bytes=shape[0] * width).reshape(shape)


def _stream(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _matrix_header(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Magic number, number of dimensions, and at least three sizes, all little-endian."""
    magic, dimensions = struct.unpack("<Ii", exactly(stream, 8))
    if magic not in _CODES:
        raise InputError(f"the magic number {magic:#010x} is none of a matrix")
    if not 1 <= dimensions <= 4:
        raise InputError(f"the header declares {dimensions} dimensions")
    sizes = struct.unpack(f"<{max(3, dimensions)}i", exactly(stream, 4 * max(3, dimensions)))[:dimensions]
    if min(sizes) < 1:
        raise InputError(f"the header declares the impossible shape {sizes}")
    return np.dtype(_CODES[magic]), tuple(sizes)
