"""MNIST: 28 x 28 images of handwritten digits, from the archive ``mnist.npz`` (x_train, y_train, x_test, y_test)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage import npz
from ..storage.registry import guarded
from .folder import VARIABLE, data_folder, find_file, require_file

FOLDER = "mnist"
FILE = "mnist.npz"
ORIGIN = "the npz file that Keras and many mirrors distribute (LeCun, Cortes and Burges)"
_PARTS = {"train": ("x_train", "y_train"), "test": ("x_test", "y_test")}
_MOST = 200_000


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as bytes, (n, 28, 28), and their digits, for training and for testing."""

    train: Array
    train_labels: Array
    test: Array
    test_labels: Array


def has_mnist(folder: Path) -> bool:
    """Whether the file is there."""
    return find_file(folder, FOLDER, FILE) is not None


def load_mnist(folder: str | Path | None = None) -> Digits:
    """Read MNIST from a data folder, or from its subfolder ``mnist``.

    Parameters
    ----------
    folder : str or Path, optional
        The folder of data sets; by default that of the environment variable ISOREP_DATA.
    """
    place = data_folder(folder)
    if place is None:
        raise InputError(f"no data folder is known: name one, or set {VARIABLE}")
    path = require_file(place, FOLDER, FILE, ORIGIN)
    found = [part for names in _PARTS.values() for part in guarded(path, lambda names=names: _read(path, *names))]
    return Digits(*found)


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
