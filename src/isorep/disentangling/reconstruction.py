"""Reconstructions of held-out images: the variance kept by components, compared with principal components (PCA).

An autoencoder that keeps no more than as many principal components of the pixels has learnt no more than PCA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from ..representation import Array
from ..rows import blocks
from .traversals import Sheet, contact_sheet, decoded
from .unmixing import Unmixing

_MOST_IMAGES = 2000  # that principal components are fitted to, and tested on
_BLOCK = 512
_SHOWN = 8  # images of the sheet, from the best reconstructed to the worst
_LEAST_HELD_OUT = 8  # with fewer the comparison is undecided
_STANDARD_ERRORS = 2.0  # by which the autoencoder has to be ahead


@dataclass(frozen=True, eq=False)
class PrincipalImages:
    """The mean of images, flattened, and the leading principal axes of their pixels as rows."""

    mean: Array
    axes: Array

    def drawn(self, pixels: Array, count: int) -> Array:
        """Rows of pixels reconstructed from their first scores, clipped to [0, 1]."""
        axes = self.axes[:count]
        return np.asarray(np.clip((pixels - self.mean) @ axes.T @ axes + self.mean, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Shares of the held-out variance that components and as many principal components keep, and images of both.

    ``ahead`` is true if the components' squared error is smaller by two standard errors of the paired difference.
    """

    kept: float
    principal: float
    ahead: bool
    sheet: Sheet


def principal_images(images: Array, count: int, rng: np.random.Generator) -> PrincipalImages:
    """Principal axes of bytes, from at most 2000 of the images."""
    if len(images) > _MOST_IMAGES:
        images = images[np.sort(rng.choice(len(images), _MOST_IMAGES, replace=False))]
    pixels = unit_pixels(images)
    mean = pixels.mean(axis=0)
    pixels -= mean
    n = len(pixels)
    values, vectors = linalg.eigh(pixels @ pixels.T, subset_by_index=(max(n - count, 0), n - 1))
    keep = values > values[-1] * 1e-10
    axes = (vectors[:, keep] / np.sqrt(values[keep])).T @ pixels
    return PrincipalImages(mean, axes[::-1])


def reconstruct(
    module: Any, unmixing: Unmixing, images: Array, latents: Array, principal: PrincipalImages, enlarge: int
) -> Reconstruction:
    """Reconstruct held-out images from their components: pruned directions stay at their mean.

    If there are many images, a few thousand evenly spaced ones are used.
    """
    some = np.linspace(0, len(images) - 1, min(_MOST_IMAGES, len(images))).astype(int)
    images, latents = images[some], latents[some]
    pixels = unit_pixels(images)
    components = unmixing.transform(latents)
    drawn = decoded(module, unmixing.inverse_transform(components)).reshape(len(pixels), -1).astype(np.float64)
    linear = principal.drawn(pixels, unmixing.components)
    own, other = (((each - pixels) ** 2).sum(axis=1) for each in (drawn, linear))
    spread = float(((pixels - pixels.mean(axis=0)) ** 2).sum())
    kept, by_principal = (1 - float(each.sum()) / spread if spread > 0 else float("nan") for each in (own, other))
    gain = other - own
    ahead = len(gain) >= _LEAST_HELD_OUT and gain.mean() > _STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain))
    chosen = np.argsort(own, kind="stable")[np.linspace(0, len(own) - 1, min(_SHOWN, len(own))).astype(int)]
    rows = [each[chosen] for each in (pixels, drawn, 0.5 + (pixels - drawn) / 2, linear)]
    sheet = contact_sheet(np.stack(rows).reshape(len(rows), -1, *images.shape[1:]), enlarge=enlarge)
    return Reconstruction(kept, by_principal, bool(ahead), sheet)


def mean_and_spread(images: Array, rows: Array) -> tuple[Array, float]:
    """The mean of some images of bytes in [0, 1], and the root mean square of their pixels about it; 1 for none."""
    total = squares = 0.0
    for some in blocks(len(rows), _BLOCK):
        pixels = images[rows[some]].astype(np.float64) / 255
        total, squares = total + pixels.sum(axis=0), squares + float((pixels**2).sum())
    mean = np.asarray(total / len(rows))
    return mean, float(np.sqrt(max(squares / len(rows) / mean.size - np.mean(mean**2), 0.0))) or 1.0


def unit_pixels(images: Array) -> Array:
    """Bytes as rows of numbers in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float64) / 255
