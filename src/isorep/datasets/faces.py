"""Faces of Tenenbaum, de Silva and Langford (2000): rendered heads with light, pan and tilt as factors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage import npz
from ..storage.registry import guarded
from .images import FactorImages

FILE = "faces.npz"
NAMES = ("light", "pan", "tilt")
CLASSES = 8
"""Classes of each factor, of equal counts: its values are continuous, and nearly every image has its own."""
_SIDE = 32
_MOST = 100_000


def read_faces(path: Path) -> FactorImages:
    """Open the npz file: ``images`` (698, 32, 32) as bytes and ``factors`` (698, 3); both are read into memory."""
    images, factors = guarded(path, _arrays, path)

    def read(rows: Array) -> Array:
        return np.asarray(images[rows][..., None])

    ranks = factors.argsort(0, kind="stable").argsort(0, kind="stable")
    classes = (ranks * CLASSES // len(factors)).astype(np.int32)
    return FactorImages("faces", NAMES, (CLASSES,) * len(NAMES), classes, factors, (_SIDE, _SIDE, 1), read)


def _arrays(path: Path) -> tuple[Array, Array]:
    pixels, numbers = (npz.peek(path, name) for name in ("images", "factors"))
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (_SIDE, _SIDE) or not 0 < pixels.shape[0] <= _MOST:
        raise InputError(
            f"{path.name} holds images {pixels.shape} {pixels.dtype} where (n, {_SIDE}, {_SIDE}) uint8 is needed"
        )
    wanted = (pixels.shape[0], len(NAMES))
    if numbers.shape != wanted or numbers.dtype.kind != "f":
        raise InputError(f"{path.name} holds factors {numbers.shape} {numbers.dtype} where {wanted} floats are needed")
    factors = np.array(npz.array(path, "factors"), dtype=np.float64)
    if not np.isfinite(factors).all():
        raise InputError(f"{path.name} holds factors that are not finite")
    return np.array(npz.array(path, "images")), factors
