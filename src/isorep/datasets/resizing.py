"""Bicubic resizing with antialiasing, in numpy: what published protocols apply to larger images."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..errors import InputError
from ..representation import Array
from .checks import is_whole

SIZE = 64


def resized(images: Array, size: int | None) -> Array:
    r"""uint8 images (rows, height, width, channels) at ``size`` x ``size``, rounded and clipped; None leaves them.

    Keys' cubic kernel (a = -1/2). When shrinking, the kernel is widened by the factor of shrinking, so that nothing is
    sampled more coarsely than it varies, and its weights are normalised at the borders.
    """
    height, width = images.shape[1:3]
    if size is None or (height, width) == (size, size):
        return images
    down, across = _weights(height, size), _weights(width, size)
    tall = np.matmul(down, images.astype(np.float32).reshape(len(images), height, -1)).reshape(
        len(images), size, width, -1
    )
    found = np.matmul(across, tall)
    return np.asarray(np.clip(np.rint(found), 0, 255), np.uint8)


def require_size(size: int | None) -> None:
    """Refuse a size that is no image."""
    if size is not None and not is_whole(size, 1, 1024):
        raise InputError(
            f"size is {size!r} and must be a whole number between 1 and 1024, or be None for the size in the files"
        )


@lru_cache(maxsize=16)
def _weights(old: int, new: int) -> Array:
    """The matrix that maps a line of old pixels to new ones."""
    step = old / new
    width = max(step, 1.0)
    centres = (np.arange(new) + 0.5) * step - 0.5
    weights = _cubic((centres[:, None] - np.arange(old)) / width)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def _cubic(x: Array) -> Array:
    x = np.abs(x)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
