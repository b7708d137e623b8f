"""Labelled images in ten classes: CIFAR-10, or rendered rooms with the object's hue as the class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..representation import Array
from . import digits_and_photos
from .catalogue import load
from .folder import find_file
from .rooms import Rooms

CLASSES = 10
_HELD_OUT = 1_000  # images that losses and accuracies are taken on
_BINARY = ("cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin", digits_and_photos.ARCHIVE)


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Bytes (n, channels, height, width) and a class each; ``rows`` are those that are compared."""

    train: Array
    classes: Array
    held_out: Array
    held_out_classes: Array
    rows: Array
    note: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.shape[1:]
        return int(channels), int(height), int(width)


def find_cifar10(data: Path | None) -> tuple[str, Path] | None:
    """The name and the main file of CIFAR-10 in a data folder: its batches, or the JPEGs."""
    if data is None:
        return None
    files = [("cifar10", name) for name in _BINARY] + [("cifar10_jpeg", digits_and_photos.JPEGS)]
    return next(((name, path) for name, file in files if (path := find_file(data, name, file)) is not None), None)


@lru_cache(maxsize=1)
def labelled_images(data: Path | None, size: int, train: int, rows: int, unseen: bool, seed: int) -> LabelledImages:
    """CIFAR-10 of a folder, or without one rooms of so many pixels a side.

    ``rows`` images are compared: training images, or with ``unseen`` others.
    """
    cifar = find_cifar10(data)
    if cifar is None:
        drawn = Rooms(size=size, antialias=1).draw(train + _HELD_OUT + (rows if unseen else 0), seed=seed)
        pixels, note = _channels_first(drawn.images()), ""
        hue = np.asarray(drawn.factors)[:, drawn.factor_names.index("object_hue")]
        classes = np.minimum((hue * CLASSES).astype(np.int64), CLASSES - 1)
        seen, others = (pixels[:train], classes[:train]), (pixels[train:], classes[train:])
    else:
        sources = [load(cifar[0], data, part=part) for part in ("train", "test")]
        rng = np.random.default_rng([seed, 47])
        most = (train, max(_HELD_OUT, rows if unseen else 0))
        chosen = [np.sort(rng.permutation(len(each))[:count]) for each, count in zip(sources, most, strict=True)]
        seen, others = (
            (_channels_first(each.images(places)), each.factors[places, 0].astype(np.int64))
            for each, places in zip(sources, chosen, strict=True)
        )
        note = sources[0].note
    compared = (others if unseen else seen)[0][:rows]
    return LabelledImages(*seen, others[0][:_HELD_OUT], others[1][:_HELD_OUT], compared, note)


def _channels_first(images: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(images, -1, 1))
