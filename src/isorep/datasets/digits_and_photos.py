"""MNIST and CIFAR-10: labelled images in ten classes.

CIFAR-10: photographs of ten classes, from the published binary files, or from an archive of JPEGs.

MNIST: 28 x 28 images of handwritten digits, from the archive ``mnist.npz`` (x_train, y_train, x_test, y_test).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage import npz
from ..storage.registry import guarded
from .folder import VARIABLE, data_folder, members, parts_of, require_file
from .grids import decoder
from .images import FactorImages, Reader, gathered

ARCHIVE = "cifar-10-binary.tar.gz"
JPEGS = "cifar10_jpeg.npz"
BATCHES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
FOLDER_INSIDE = "cifar-10-batches-bin"
FIRST = (f"{FOLDER_INSIDE}/{BATCHES['train'][0]}", BATCHES["train"][0])
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_RECORD = 1 + 3 * 32 * 32
_ROWS = 10000  # of one file
_MOST_ARCHIVE = 2**29  # bytes unpacked; the published archive has 184 MB
_MOST_JPEG = 2**16


def read_cifar10_binary(find: Callable[..., Path], *, part: str = "train") -> FactorImages:
    """Open the six binary files, or the archive that holds them, which is read into memory and not extracted.

    A record is one byte of label and 3072 bytes of red, green and blue planes.
    """
    names = [name for each in parts_of(part) for name in BATCHES[each]]
    first = find(*FIRST, ARCHIVE)
    if first.name == ARCHIVE:
        batches = guarded(first, _from_archive, first, names)
    else:
        # All six are required for any part: a folder that lacks one is not a copy of the data set.
        paths = {name: find(f"{FOLDER_INSIDE}/{name}", name) for each in BATCHES.values() for name in each}
        batches = [guarded(paths[name], _mapped, paths[name]) for name in names]

    def read(rows: Array) -> Array:
        counts = [len(batch) for batch in batches]
        planes = gathered(
            rows, counts, lambda file, inside: batches[file][inside, 1:].reshape(-1, 3, 32, 32), (3, 32, 32)
        )
        return np.ascontiguousarray(np.moveaxis(planes, 1, -1))

    return _made("cifar10", np.concatenate([batch[:, 0] for batch in batches]), read)


def read_cifar10_jpeg(path: Path, *, part: str = "train") -> FactorImages:
    """Open an npz archive of JPEGs: ``bytes``, ``offsets``, ``label``, ``is_test``. They are compressed with loss."""
    parts_of(part)
    data, offsets, label, is_test = guarded(path, _jpeg_arrays, path)
    rows_of_part = np.arange(len(label)) if part == "both" else np.flatnonzero(is_test == (part == "test"))
    if not len(rows_of_part):
        raise InputError(f"{path.name} holds no images of the part {part!r}")

    def read(rows: Array) -> Array:
        images = np.empty((len(rows), 32, 32, 3), np.uint8)
        for index, row in enumerate(rows_of_part[rows]):
            packed = np.asarray(data[offsets[row] : offsets[row + 1]]).tobytes()
            images[index] = guarded(path, _jpeg, packed, int(row))
        return images

    note = "JPEG copies of the images, compressed with loss: pixels differ from the published ones"
    return _made("cifar10_jpeg", np.asarray(label)[rows_of_part], read, note)


def _made(name: str, labels: Array, read: Reader, note: str = "") -> FactorImages:
    if labels.size and labels.max() >= len(CLASSES):
        raise InputError(f"{name} holds the label {labels.max()} where 0 to 9 are known")
    classes = labels.astype(np.int32)[:, None]
    return FactorImages(name, ("class",), (len(CLASSES),), classes, None, (32, 32, 3), read, note)


def _require_records(name: str, size: int) -> int:
    if size % _RECORD or not 1 <= size // _RECORD <= _ROWS:
        raise InputError(f"{name} has {size} bytes where 1 to {_ROWS} records of {_RECORD} bytes are needed")
    return size // _RECORD


def _mapped(path: Path) -> Array:
    rows = _require_records(path.name, path.stat().st_size)
    return np.memmap(path, np.uint8, "r", shape=(rows, _RECORD))


def _from_archive(path: Path, names: list[str]) -> list[Array]:
    """The wanted members in their order, read into memory."""
    batches: dict[str, Array] = {}
    for name, data in members(
        path, lambda full: PurePosixPath(full).name in names, each=_ROWS * _RECORD, total=_MOST_ARCHIVE
    ):
        batches[name] = np.frombuffer(data, np.uint8).reshape(_require_records(name, len(data)), _RECORD)
        if len(batches) == len(names):
            break
    missing = [name for name in names if name not in batches]
    if missing:
        raise InputError(f"{path.name} does not hold {missing[0]}")
    return [batches[name] for name in names]


def _jpeg_arrays(path: Path) -> tuple[Array, Array, Array, Array]:
    headers = {name: npz.peek(path, name) for name in ("bytes", "offsets", "label", "is_test")}
    n = math.prod(headers["label"].shape)
    wanted = {"bytes": ("u", None), "offsets": ("iu", n + 1), "label": ("iu", n), "is_test": ("b", n)}
    for name, (kinds, entries) in wanted.items():
        header = headers[name]
        if header.dtype.kind not in kinds or len(header.shape) != 1 or entries not in (None, header.shape[0]):
            raise InputError(f"{path.name} holds {name} as {header.shape} {header.dtype}")
    if not 1 <= n <= 6 * _ROWS or headers["bytes"].dtype != np.uint8:
        raise InputError(f"{path.name} holds {n} images where CIFAR-10 has {6 * _ROWS}, or fewer in a part of it")
    data = npz.array(path, "bytes")
    offsets, label, is_test = (np.array(npz.array(path, name)) for name in ("offsets", "label", "is_test"))
    offsets = offsets.astype(np.int64)
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(data) or lengths.min() < 1 or lengths.max() > _MOST_JPEG:
        raise InputError(f"{path.name} holds offsets that do not cut its bytes into images")
    return data, offsets, label, is_test


def _jpeg(packed: bytes, row: int) -> Array:
    if packed[:2] != b"\xff\xd8":
        raise InputError(f"image {row} is no JPEG")
    with decoder().open(io.BytesIO(packed), formats=["JPEG"]) as picture:
        if picture.size != (32, 32):
            raise InputError(f"image {row} is {picture.size[0]} x {picture.size[1]} where 32 x 32 is needed")
        return np.asarray(picture.convert("RGB"))


FOLDER = "mnist"
FILE = "mnist.npz"
ORIGIN = "the npz file that Keras and many mirrors distribute (LeCun, Cortes and Burges)"
_PARTS = (("x_train", "y_train"), ("x_test", "y_test"))
_MOST = 200_000


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as bytes, (n, 28, 28), and their digits, for training and for testing."""

    train: Array
    train_labels: Array
    test: Array
    test_labels: Array


def load_mnist(folder: str | Path | None = None) -> Digits:
    """Read MNIST from a data folder, or from its subfolder ``mnist``.

    Parameters
    ----------
    folder : str or Path, optional
        The folder of data sets; default: the environment variable ISOREP_DATA.
    """
    data = data_folder(folder)
    if data is None:
        raise InputError(f"no data folder is known: name one, or set {VARIABLE}")
    return _digits(require_file(data, FOLDER, FILE, ORIGIN))


def read_mnist(path: Path, *, part: str = "train") -> FactorImages:
    """MNIST as images with one factor, read into memory."""
    parts, digits = parts_of(part), _digits(path)
    sides = {"train": (digits.train, digits.train_labels), "test": (digits.test, digits.test_labels)}
    images, labels = (np.concatenate([sides[each][index] for each in parts])[..., None] for index in (0, 1))
    classes = labels.astype(np.int32)
    return FactorImages("mnist", ("class",), (10,), classes, None, (28, 28, 1), lambda rows: images[rows])


def _digits(path: Path) -> Digits:
    return guarded(path, lambda: Digits(*(part for names in _PARTS for part in _read(path, *names))))


def _read(path: Path, images: str, labels: str) -> tuple[Array, Array]:
    shape, kind = npz.peek(path, images).shape, npz.peek(path, images).dtype
    if len(shape) != 3 or shape[1:] != (28, 28) or not 0 < shape[0] <= _MOST or kind != np.uint8:
        raise InputError(f"{images!r} is {kind} of shape {shape} where bytes of shape (n, 28, 28) are needed")
    label = npz.peek(path, labels)
    if label.shape != shape[:1] or label.dtype.kind not in "iu":
        raise InputError(
            f"{labels!r} is {label.dtype} of shape {label.shape} where {shape[0]} whole numbers are needed"
        )
    digits = np.array(npz.array(path, labels)).astype(np.int64)
    if digits.min() < 0 or digits.max() > 9:
        raise InputError(f"{labels!r} holds values other than 0 to 9")
    return np.array(npz.array(path, images)), digits
