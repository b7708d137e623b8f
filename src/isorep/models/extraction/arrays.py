"""Examples that are rows of an array or image files: read block by block, as a model takes them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, missing_extra
from ...representation import Array, Matrix, notes_on
from ...storage.lazy import release
from ...storage.npy import load as load_npy
from ...storage.npz import load as load_npz
from ...storage.registry import guarded, reader

_MOST_PIXELS = 2**26  # of one image file
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
_CHANNELS = (1, 3, 4)


class Rows(ABC):
    """Examples of one shape; ``kind`` is values, tokens or images."""

    kind: str
    name: str
    count: int
    paths: tuple[Path, ...] = ()
    told: str = ""  # what tells other data from these, besides the files
    notes: tuple[str, ...] = ()  # what was left out or converted in reading
    has_groups = False

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Some consecutive examples."""

    @abstractmethod
    def ids(self, start: int, stop: int) -> list[int | str]:
        """Their ids."""


class ArrayRows(Rows):
    """The rows of an array: floating point as they are, whole numbers as token ids, bytes with axes as images."""

    def __init__(
        self, values: Matrix, name: str, *, kind: str = "auto", ids: Array | None = None, pixels: dict[str, Any]
    ) -> None:
        shape, letter = tuple(values.shape), values.dtype.kind
        if len(shape) < 2 or 0 in shape:
            raise InputError(f"{name} has shape {shape}: one row an example is needed, and something in each")
        if letter not in "fiu":
            raise InputError(f"{name} holds {values.dtype} where numbers are needed")
        if kind == "auto":
            is_image = values.dtype == np.uint8 and len(shape) in (3, 4)
            kind = "values" if letter == "f" else "images" if is_image else "tokens"
        if kind == "tokens" and letter == "f":
            raise InputError(f"{name} holds {values.dtype} where token ids are whole numbers")
        if kind == "images" and len(shape) not in (3, 4):
            raise InputError(f"{name} has shape {shape}: images have height and width, and channels where not grey")
        self.kind, self.name, self.count = kind, name, shape[0]
        self.told = f"{shape} {values.dtype} {kind} {sorted(pixels.items())}"
        self._values, self._ids, self._pixels = values, ids, pixels

    def read(self, start: int, stop: int) -> Array:
        """Some consecutive examples."""
        block = np.array(self._values[start:stop])
        release(self._values)
        if self.kind == "tokens":
            return block.astype(np.int64)
        if self.kind == "images":
            return normalised(_channels_first(block), self._pixels)
        return block

    def ids(self, start: int, stop: int) -> list[int | str]:
        """Ids of the file, else row numbers."""
        if self._ids is None:
            return list(range(start, stop))
        return list(self._ids[start:stop].tolist())


class ImageFiles(Rows):
    """A folder of images, named by their paths in it: cut to a square around the middle and resized."""

    kind = "images"

    def __init__(self, folder: Path, files: list[Path], pixels: dict[str, Any]) -> None:
        self._pillow()
        self.name, self.count, self.paths = folder.name, len(files), tuple(files)
        self._folder, self._pixels = folder, pixels
        self.told = f"{folder.name} {sorted(pixels.items())}"
        self._size: int | None = pixels.get("size")

    def read(self, start: int, stop: int) -> Array:
        """Some consecutive images, channels first."""
        found = [self._read_one(path) for path in self.paths[start:stop]]
        return normalised(np.stack(found).transpose(0, 3, 1, 2), self._pixels)

    def ids(self, start: int, stop: int) -> list[int | str]:
        """Paths in the folder."""
        return [path.relative_to(self._folder).as_posix() for path in self.paths[start:stop]]

    def _read_one(self, path: Path) -> Array:
        image = self._pillow()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # pillow's word on images that would fill the memory
                with image.open(path, formats=_FORMATS) as opened:
                    if opened.width * opened.height > _MOST_PIXELS:
                        raise InputError(
                            f"{path} has {opened.width} x {opened.height} pixels, more than {_MOST_PIXELS}"
                        )
                    picture = opened.convert("L" if self._pixels.get("grey") else "RGB")
        except InputError:
            raise
        except Exception as error:  # whatever a damaged file makes a decoder raise
            raise InputError(f"{path} cannot be read as an image: {error}") from error
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        self._size = self._size or side
        if picture.size != (self._size, self._size):
            box = (left, top, left + side, top + side)
            picture = picture.resize((self._size, self._size), image.Resampling.BICUBIC, box=box)
        values = np.asarray(picture)
        return values[..., None] if values.ndim == 2 else values

    @staticmethod
    def _pillow() -> Any:
        try:
            from PIL import Image
        except ModuleNotFoundError:
            raise missing_extra("pillow", "images", "a folder of images") from None
        return Image


def stored_rows(path: Path, key: str | None, kind: str, pixels: dict[str, Any]) -> Rows:
    """The rows of any file that holds an array; those of npy and npz may have any number of axes."""
    module = reader(path)
    load = {".npy": load_npy, ".npz": load_npz}.get(path.suffix.lower(), module.load)
    contents = guarded(path, lambda: load(path, key, None))
    found = ArrayRows(contents.values, path.name, kind=kind, ids=contents.ids, pixels=pixels)
    found.paths = (path,)
    found.notes = tuple(notes_on(path.name, contents.left_out, contents.converted))
    return found


def normalised(images: Array, pixels: dict[str, Any]) -> Array:
    """Bytes as numbers in [0, 1], less the mean of each channel and over its spread where they are given."""
    values = images.astype(np.float32)
    if images.dtype.kind in "iu":
        values /= 255
    for name, sign in (("mean", -1), ("spread", 1)):
        given = pixels.get(name)
        if given is None:
            continue
        each = np.asarray(given, dtype=np.float32).reshape(-1)
        if len(each) not in (1, values.shape[1]) or (sign > 0 and not (each > 0).all()):
            raise InputError(f"{name} is {given} for images of {values.shape[1]} channels")
        values = values - each[:, None, None] if sign < 0 else values / each[:, None, None]
    return np.ascontiguousarray(values)


def _channels_first(images: Array) -> Array:
    if images.ndim == 3:
        return images[:, None]
    if images.shape[-1] in _CHANNELS and images.shape[1] not in _CHANNELS:
        return images.transpose(0, 3, 1, 2)
    return images
