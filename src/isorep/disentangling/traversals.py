"""Traversals: the effect of single components of an autoencoder on its images, the others held fixed.

Contact sheets of images, and a PNG writer without dependencies.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import blocks
from ..settings import check_counts
from .unmixing import Unmixing

STEPS = 7
MOST_ROWS = 20
_ROWS = 256  # images that pass through a network at once


def traversal(
    module: Any, unmixing: Unmixing, latents: Array, *, steps: int = STEPS, most: int = MOST_ROWS, enlarge: int = 1
) -> tuple[Sheet, tuple[int, ...]]:
    """A sheet with one row per component, from its 5% to its 95% quantile, and the component of each row.

    The others stay at those of the row whose components lie nearest to their medians. Components that affect the images
    most come first.
    """
    components = unmixing.transform(latents)
    middle = np.median(components, axis=0)
    spread = components.std(0)
    spread[spread == 0] = 1.0
    base = components[np.argmin((((components - middle) / spread) ** 2).sum(1))]
    low, high = np.quantile(components, [0.05, 0.95], axis=0)
    count = components.shape[1]
    walked = np.repeat(base[None, None], steps, axis=1).repeat(count, axis=0)
    each = np.arange(count)
    walked[each, :, each] = np.linspace(low, high, steps).T
    images = decoded(module, unmixing.inverse_transform(walked.reshape(count * steps, count)))
    images = images.reshape(count, steps, *images.shape[1:])
    moved = images.std(1).reshape(count, -1).mean(1)
    order = np.argsort(-moved, kind="stable")[:most]
    return contact_sheet(images[order], enlarge=enlarge, strips=True), tuple(order.tolist())


def decoded(module: Any, latents: Array) -> Array:
    """Images of latents, in [0, 1]."""
    return _passed(module.decode, np.ascontiguousarray(latents), next(module.parameters()))


def encoded(module: Any, images: Array) -> Array:
    """Latents of images, in double precision."""
    return _passed(module.encode, images, next(module.parameters()).device).astype(np.float64)


def _passed(function: Any, values: Array, to: Any) -> Array:
    """A network applied to values, on its device and in its dtype, a few rows at a time."""
    from ..models.evaluation import torch

    with torch.no_grad():
        parts = [function(torch.as_tensor(values[rows]).to(to)).cpu().numpy() for rows in blocks(len(values), _ROWS)]
    return np.concatenate(parts)


def lost(module: Any, images: Array, latents: Array) -> float:
    """Squared error of reconstructions of bytes, as a share of the variance of the pixels."""
    error = total = squares = 0.0
    for rows in blocks(len(images), _ROWS):
        wanted = images[rows].astype(np.float64) / 255
        error += float(((decoded(module, latents[rows]) - wanted) ** 2).sum())
        total = total + wanted.sum(0)
        squares = squares + (wanted**2).sum(0)
    spread = float(np.sum(squares - total**2 / len(images)))
    return error / spread if spread > 0 else float("nan")


_GAP = 2  # pixels between images
_PAPER = 255


@dataclass(frozen=True)
class Sheet:
    """A picture of many images: PNG bytes, its size in pixels, and its rows as pictures where asked for."""

    png: bytes
    width: int
    height: int
    strips: tuple[bytes, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the bytes as base64."""
        return {"png": base64.b64encode(self.png).decode("ascii"), "width": self.width, "height": self.height}


def contact_sheet(images: Any, *, enlarge: int = 1, strips: bool = False) -> Sheet:
    """Images in rows and columns on white.

    Parameters
    ----------
    images : (rows, columns, channels, height, width) array
        In [0, 1]; one or three channels.
    enlarge : int
        Pixels of the sheet for each pixel of an image, along each side.
    strips : bool
        Keep each row as a picture of its own, too; default: no.
    """
    values = np.asarray(images)
    if values.ndim != 5 or values.shape[2] not in (1, 3) or min(values.shape) < 1:
        raise InputError(f"a sheet has rows, columns, 1 or 3 channels, height and width, not the shape {values.shape}")
    check_counts(enlarge=(enlarge, 1))
    pixels = np.clip(np.rint(np.nan_to_num(values.astype(np.float64)) * 255), 0, 255).astype(np.uint8)
    pixels = pixels.repeat(enlarge, axis=3).repeat(enlarge, axis=4)
    rows, columns, _, height, width = pixels.shape
    sheet = np.full((rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3), _PAPER, np.uint8)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (height + _GAP), column * (width + _GAP)
            sheet[top : top + height, left : left + width] = np.moveaxis(pixels[row, column], 0, -1)
    rows_alone = [sheet[top : top + height] for top in range(0, len(sheet), height + _GAP)] if strips else []
    return Sheet(png_bytes(sheet), sheet.shape[1], sheet.shape[0], tuple(map(png_bytes, rows_alone)))


def png_bytes(pixels: Array) -> bytes:
    """An image (height, width, 3) of bytes as PNG; each line is stored as differences to the line above."""
    height, width, _ = pixels.shape
    above = np.concatenate([np.zeros((1, width, 3), np.uint8), pixels[:-1]])
    lines = (pixels - above).reshape(height, 3 * width)  # bytes wrap around, as the format says
    filtered = np.concatenate([np.full((height, 1), 2, np.uint8), lines], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b""))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
