"""What the components of an autoencoder do to its images: one at a time, the others at rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..representation import Array
from ..rows import blocks
from .sheets import Sheet, contact_sheet
from .unmixing import Unmixing

STEPS = 7
MOST_ROWS = 20
_ROWS = 256  # images that pass through a network at once


def traversal(
    module: Any, unmixing: Unmixing, latents: Array, *, steps: int = STEPS, most: int = MOST_ROWS, enlarge: int = 1
) -> tuple[Sheet, tuple[int, ...]]:
    """A sheet with a row for each component, from its 5 % to its 95 % quantile, and which component each row is.

    The others stay at those of the row whose components lie nearest to their medians. Components that move the images
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
    places = np.arange(count)
    walked[places, :, places] = np.linspace(low, high, steps).T
    images = decoded(module, unmixing.inverse_transform(walked.reshape(count * steps, count)))
    images = images.reshape(count, steps, *images.shape[1:])
    moved = images.std(1).reshape(count, -1).mean(1)
    order = np.argsort(-moved, kind="stable")[:most]
    return contact_sheet(images[order], enlarge=enlarge), tuple(int(place) for place in order)


def decoded(module: Any, latents: Array) -> Array:
    """Images of latents, in [0, 1]; a few rows at a time."""
    from ..models.backend import torch

    first = next(module.parameters())
    found = []
    with torch.no_grad():
        for rows in blocks(len(latents), _ROWS):
            given = torch.from_numpy(np.ascontiguousarray(latents[rows])).to(first)
            found.append(np.asarray(module.decode(given).cpu().numpy()))
    return np.concatenate(found)


def encoded(module: Any, images: Array) -> Array:
    """Latents of images, in double precision; a few rows at a time."""
    from ..models.backend import torch

    device = next(module.parameters()).device
    found = []
    with torch.no_grad():
        for rows in blocks(len(images), _ROWS):
            part = torch.as_tensor(images[rows]).to(device)
            found.append(np.asarray(module.encode(part).cpu().numpy(), dtype=np.float64))
    return np.concatenate(found)


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
