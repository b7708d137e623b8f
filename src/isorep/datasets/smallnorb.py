"""SmallNORB: fifty toys under 6 lights from 9 elevations and 18 azimuths (LeCun et al. 2004)."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..settings import check_choice
from ..storage.registry import guarded
from ..storage.scratch import spool
from .folder import parts_of
from .images import SIZE, FactorImages, gathered, require_size, resized
from .layouts import SMALLNORB, Once

PARTS = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
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
    from 96 to ``size`` by bicubic resizing; None leaves them. Gzipped images are unpacked when the first one is asked
    for.
    """
    require_size(size)
    check_choice("camera", camera, (0, 1))
    pixels, counts, labels = [], [], []
    for each in parts_of(part):
        dat, cat, info = (find(f"{PARTS[each]}-{kind}.mat") for kind in KINDS)
        counts.append(guarded(dat, lambda dat=dat: _shape(dat)[0]))
        pixels.append(Once(lambda dat=dat: guarded(dat, lambda: _spooled(dat))))
        labels.append(_classes(cat, info))
        if len(labels[-1]) != counts[-1]:
            raise InputError(f"{dat.name} has {counts[-1]} rows and {cat.name} has {len(labels[-1])}")

    def read(rows: Array) -> Array:
        found = gathered(rows, counts, lambda file, inside: pixels[file]()[inside, camera, ..., None], (96, 96, 1))
        return resized(found, size)

    edge = 96 if size is None else size
    return SMALLNORB.images(np.concatenate(labels), read, sizes=SMALLNORB.sizes, image_shape=(edge, edge, 1))


def _shape(path: Path) -> tuple[int, ...]:
    with _stream(path) as stream:
        dtype, shape = _header(stream)
    if dtype != np.uint8 or len(shape) != 4 or shape[1:] != (2, 96, 96) or not 1 <= shape[0] <= _ROWS:
        raise InputError(f"{path.name} holds {shape} {dtype} where ({_ROWS}, 2, 96, 96) bytes are needed")
    return shape


def _classes(cat: Path, info: Path) -> Array:
    category, others = guarded(cat, lambda: _table(cat, 1)), guarded(info, lambda: _table(info, 2))
    if others.shape[1:] != (4,) or len(others) != len(category):
        raise InputError(f"{info.name} holds {others.shape} where ({len(category)}, 4) is needed")
    found = np.column_stack([category, others]).astype(np.int32)
    if (found[:, 3] % 2).any():
        raise InputError(f"{info.name} holds odd azimuths, which the data set does not have")
    found[:, 3] //= 2
    if found.min() < 0 or (found >= SMALLNORB.sizes).any():
        raise InputError(f"{info.name} or {cat.name} holds classes outside of {SMALLNORB.sizes}")
    return found


def _table(path: Path, dimensions: int) -> Array:
    """A small matrix of integers in memory."""
    with _stream(path) as stream:
        dtype, shape = _header(stream)
        if dtype != np.dtype("<i4") or len(shape) != dimensions or not 1 <= shape[0] <= _ROWS or max(shape) > _ROWS:
            raise InputError(f"{path.name} holds {shape} {dtype} where {_ROWS} rows of integers are needed")
        return np.frombuffer(_exactly(stream, 4 * math.prod(shape)), dtype).reshape(shape)


def _spooled(path: Path) -> Array:
    with _stream(path) as stream:
        _, shape = _header(stream)
        width = math.prod(shape[1:])

        def blocks() -> Iterator[Array]:
            for start in range(0, shape[0], _BLOCK):
                count = min(_BLOCK, shape[0] - start)
                yield np.frombuffer(_exactly(stream, count * width), np.uint8).reshape(count, width)
            if stream.read(1):
                raise InputError(f"{path.name} holds more than its header declares")

        return spool(blocks(), path.stat().st_size, expected_bytes=shape[0] * width).reshape(shape)


def _stream(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _header(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Magic number, number of dimensions, and at least three sizes, all little-endian."""
    magic, dimensions = struct.unpack("<Ii", _exactly(stream, 8))
    if magic not in _CODES:
        raise InputError(f"the magic number {magic:#010x} is none of a matrix")
    if not 1 <= dimensions <= 4:
        raise InputError(f"the header declares {dimensions} dimensions")
    sizes = struct.unpack(f"<{max(3, dimensions)}i", _exactly(stream, 4 * max(3, dimensions)))[:dimensions]
    if min(sizes) < 1:
        raise InputError(f"the header declares the impossible shape {sizes}")
    return np.dtype(_CODES[magic]), tuple(sizes)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise InputError("the file is truncated")
    return data
