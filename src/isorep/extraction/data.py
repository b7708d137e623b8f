"""Examples for a model: rows of an array, images or documents, determined by the contents of a path.

Rows of arrays and image files are read block by block, in the form that the model takes.
"""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError, import_extra
from ..files import require_regular
from ..representation import Array, Matrix, notes_on
from ..rows import blocks
from ..settings import check_choice, check_counts
from ..storage import suffixes
from ..storage.lazy import release
from ..storage.npy import load as load_npy
from ..storage.npz import load as load_npz
from ..storage.registry import guarded, reader, split_key
from .documents import Document, Documents, JsonLines, ParquetTexts, TextFile, TextFolder, Texts, holds_text

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_PIECES, _PIECE = 64, 2**14
Fields = tuple[str, str | None, str | None]  # of text, ids and groups


def open_data(
    data: Any,
    *,
    kind: str = "auto",
    text_field: str = "text",
    id_field: str | None = None,
    group_field: str | None = None,
    limit: int | None = None,
    pixels: dict[str, Any] | None = None,
) -> Rows | Documents:
    """The examples of a file, a folder, an array or a list of texts, with ids and groups where there are any."""
    check_choice("input", kind, ("auto", "values", "tokens", "images", "text"))
    if limit is not None:
        check_counts(limit=(limit, 1))
    if isinstance(data, list | tuple) and data and all(isinstance(item, str) for item in data):
        return _limited(Texts(list(data)), limit)
    if not isinstance(data, str | Path):
        return _limited(ArrayRows(_as_array(data), "data", kind=kind, pixels=pixels or {}), limit)
    path, key = split_key(data, None)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    if not path.is_dir():
        require_regular(path)
    fields = (text_field if key is None else key, id_field, group_field)
    opened = (_folder if path.is_dir() else _file)(path, key, kind, fields, pixels or {})
    if group_field is not None and not opened.has_groups:
        raise InputError(f"{path.name} has no fields, so there is no group {group_field!r} in it")
    return _limited(opened, limit)


def _folder(path: Path, key: str | None, kind: str, fields: Fields, pixels: dict[str, Any]) -> Rows | Documents:
    if path.name.lower().endswith(".zarr"):
        return stored_rows(path, key, kind, pixels)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    texts = [file for file in files if file.suffix.lower() == ".txt"]
    images = [file for file in files if file.suffix.lower() in IMAGES]
    if kind == "auto" and texts and images:
        raise InputError(f"{path} holds both texts and images: say which with --input text or --input images")
    if texts and kind in ("auto", "text"):
        return TextFolder(path, texts)
    if images and kind in ("auto", "images"):
        return ImageFiles(path, images, pixels)
    if kind in ("auto", "values", "tokens") and any(file.name.endswith(tuple(suffixes())) for file in files):
        return stored_rows(path, key, kind, pixels)
    raise InputError(f"{path} holds no .txt files and no images ({', '.join(IMAGES)})")


def _file(path: Path, key: str | None, kind: str, fields: Fields, pixels: dict[str, Any]) -> Rows | Documents:
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty (0 bytes)")
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return JsonLines(path, *fields)
    if suffix in (".parquet", ".pq") and kind in ("auto", "text") and holds_text(path, fields[0]):
        return ParquetTexts(path, *fields)
    if suffix in (".txt", ".text") or (kind == "text" and suffix not in suffixes()):
        return TextFile(path)
    if kind == "text":
        raise InputError(f"{path.name} holds no texts: a text file, a folder of .txt files, jsonl or parquet does")
    return stored_rows(path, key, kind, pixels)


def _limited(opened: Rows | Documents, limit: int | None) -> Rows | Documents:
    if limit is not None and (opened.count is None or opened.count > limit):
        opened.count = limit
    if opened.count == 0:
        raise InputError(f"{opened.name} holds no examples")
    return opened


def _as_array(data: Any) -> Array:
    if hasattr(data, "detach"):
        data = data.detach().cpu()
        data = (data.float() if str(data.dtype) == "torch.bfloat16" else data).numpy()  # numpy has no bfloat16
    try:
        return np.asanyarray(data)
    except ValueError as error:
        raise InputError(f"the data are not a rectangular array: {error}") from None


class TokenRows(Documents):
    """Token ids of an array, without padding at either end, as documents."""

    kind = "tokens"

    def __init__(self, rows: Rows, pad: int | None) -> None:
        self.rows, self._pad = rows, pad
        self.name, self.count, self.paths, self.told = rows.name, rows.count, rows.paths, rows.told

    def _all(self) -> Iterator[Document]:
        for block in blocks(self.rows.count, 256):
            span = block.start, block.stop
            for label, tokens in zip(self.rows.ids(*span), self.rows.read(*span), strict=True):
                real = np.flatnonzero(tokens != self._pad) if self._pad is not None else np.arange(len(tokens))
                yield Document(label, tokens[real[0] : real[-1] + 1] if len(real) else tokens[:0])


def file_fingerprint(path: Path) -> str:
    """A hash of a file's size and of pieces of it, evenly spaced: all of a small one."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    step = max(_PIECE, size // _PIECES)
    with path.open("rb") as file:
        for start in (*range(0, size, step), max(0, size - _PIECE)):
            file.seek(start)
            digest.update(file.read(_PIECE))
    return digest.hexdigest()


def data_fingerprint(opened: Rows | Documents) -> str:
    """A hash that identifies the data: of their files, or of evenly spaced rows of an array or store."""
    digest = hashlib.sha256(opened.told.encode())
    for path in opened.paths:
        whole = path.is_file() and len(opened.paths) == 1
        digest.update((file_fingerprint(path) if whole else f"{path.name} {path.stat().st_size};").encode())
    rows = opened.rows if isinstance(opened, TokenRows) else opened
    if isinstance(rows, Rows) and not any(path.is_file() for path in rows.paths):
        for row in np.linspace(0, rows.count - 1, _PIECES).astype(int):
            digest.update(np.ascontiguousarray(rows.read(row, row + 1)).tobytes())
    return digest.hexdigest()


_MOST_PIXELS = 2**26  # of one image file
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
_CHANNELS = (1, 3, 4)


class Rows(ABC):
    """Examples of one shape; ``kind`` is values, tokens or images."""

    kind: str
    name: str
    count: int
    paths: tuple[Path, ...] = ()
    told: str = ""  # part of the fingerprint, besides the files
    notes: tuple[str, ...] = ()  # notes on parts left out or converted in reading
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
            raise InputError(f"{name} has shape {shape}: one row per example is needed, and something in each")
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
        if self.kind == "images":
            return normalised(_channels_first(block), self._pixels)
        return block.astype(np.int64) if self.kind == "tokens" else block

    def ids(self, start: int, stop: int) -> list[int | str]:
        """Ids of the file, else row numbers."""
        return list(range(start, stop)) if self._ids is None else list(self._ids[start:stop].tolist())


@contextmanager
def open_image(path: Path) -> Iterator[Any]:
    """An image file, whose size is checked before it is unpacked; any problem becomes an InputError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that are not used
            with pillow().open(path, formats=_FORMATS) as image:
                if image.width * image.height > _MOST_PIXELS:
                    raise InputError(f"{path} has {image.width} x {image.height} pixels, more than {_MOST_PIXELS}")
                yield image
    except InputError:
        raise
    except Exception as error:  # whatever a damaged file makes a decoder raise
        raise InputError(f"{path} cannot be read as an image: {error}") from error


def pillow() -> Any:
    """Pillow's module of images, or the error that names the extra."""
    return import_extra("PIL.Image", "images", "reading and resizing images", "pillow")


class ImageFiles(Rows):
    """A folder of images, named by their paths in it: cut to a square around the middle and resized."""

    kind = "images"

    def __init__(self, folder: Path, files: list[Path], pixels: dict[str, Any]) -> None:
        pillow()
        self.name, self.count, self.paths = folder.name, len(files), tuple(files)
        self._folder, self._pixels = folder, pixels
        self.told = f"{folder.name} {sorted(pixels.items())}"
        self._size: int | None = pixels.get("size")

    def read(self, start: int, stop: int) -> Array:
        """Some consecutive images, channels first."""
        images = [self._read_one(path) for path in self.paths[start:stop]]
        return normalised(np.stack(images).transpose(0, 3, 1, 2), self._pixels)

    def ids(self, start: int, stop: int) -> list[int | str]:
        """Paths in the folder."""
        return [path.relative_to(self._folder).as_posix() for path in self.paths[start:stop]]

    def _read_one(self, path: Path) -> Array:
        with open_image(path) as image:
            picture = image.convert("L" if self._pixels.get("grey") else "RGB")
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        self._size = self._size or side
        if picture.size != (self._size, self._size):
            box = (left, top, left + side, top + side)
            picture = picture.resize((self._size, self._size), pillow().Resampling.BICUBIC, box=box)
        return np.atleast_3d(np.asarray(picture))


def stored_rows(path: Path, key: str | None, kind: str, pixels: dict[str, Any]) -> Rows:
    """The rows of any file that holds an array; those of npy and npz may have any number of axes."""
    module = reader(path)
    load = {".npy": load_npy, ".npz": load_npz}.get(path.suffix.lower(), module.load)
    contents = guarded(path, lambda: load(path, key, None))
    rows = ArrayRows(contents.values, path.name, kind=kind, ids=contents.ids, pixels=pixels)
    rows.paths = (path,)
    rows.notes = tuple(notes_on(path.name, contents.left_out, contents.converted))
    return rows


def normalised(images: Array, pixels: dict[str, Any]) -> Array:
    """Bytes as numbers in [0, 1], less the mean of each channel and over its spread where they are given."""
    values = images.astype(np.float32)
    if images.dtype.kind in "iu":
        values /= 255
    for name, default in (("mean", 0.0), ("spread", 1.0)):
        given = default if pixels.get(name) is None else pixels[name]
        each = np.asarray(given, dtype=np.float32).reshape(-1, 1, 1)
        if len(each) not in (1, values.shape[1]) or (name == "spread" and not (each > 0).all()):
            raise InputError(f"{name} is {given} for images of {values.shape[1]} channels")
        values = values - each if name == "mean" else values / each
    return np.ascontiguousarray(values)


def _channels_first(images: Array) -> Array:
    if images.ndim == 3:
        return images[:, None]
    channels_last = images.shape[-1] in _CHANNELS and images.shape[1] not in _CHANNELS
    return images.transpose(0, 3, 1, 2) if channels_last else images
