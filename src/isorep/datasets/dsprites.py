"""dSprites: one white shape on black, five factors and a constant colour (Matthey et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage import npz
from ..storage.registry import guarded
from ..storage.scratch import spool
from .images import FactorImages
from .layouts import DSPRITES, Once

FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
_PIXELS = 64 * 64


def read_dsprites(path: Path) -> FactorImages:
    """Open the npz file: ``imgs`` (737280, 64, 64) of 0 and 1, ``latents_values``, ``latents_classes``.

    Its fourth member, ``metadata``, is a pickle and is never touched. Images are packed to one bit a pixel (377 MB)
    when the first one is asked for; they come back as 0 and 255.
    """
    found: FactorImages = guarded(path, lambda: _open(path))
    return found


def _open(path: Path) -> FactorImages:
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
    packed = Once(lambda: guarded(path, lambda: _packed(path, math.prod(header.shape))))

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
    """One bit a pixel; blocks hold whole images, as their size is a multiple of an image's."""

    def blocks() -> Iterator[Array]:
        for block in npz.flat_blocks(path, "imgs"):
            if block.max() > 1:
                raise InputError(f"{path.name} holds imgs with values other than 0 and 1")
            yield np.packbits(block.reshape(-1, _PIXELS), axis=1)

    return spool(blocks(), path.stat().st_size, expected_bytes=entries // 8)
