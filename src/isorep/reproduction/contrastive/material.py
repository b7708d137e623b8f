"""Images as upper and lower halves, and the patches that are taken from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import Rooms, cifar10, load
from ...datasets.folder import VARIABLE, find_file
from ...errors import InputError
from ...representation import Array
from .presets import Preset

SOURCES = {"cifar10": "CIFAR-10", "rooms": "rendered rooms"}
_COMPONENT_ROWS = 5000  # training patches that principal components are fitted to
_BINARY = ("cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin", cifar10.ARCHIVE)


@dataclass(frozen=True, eq=False)
class Material:
    """Halves of images, and what everything is measured on.

    Attributes
    ----------
    halves : tuple of two arrays
        Upper and lower halves of the training images as bytes, (images, columns, height x channels).
    centre, scale : arrays
        Means by half, height and channel, and the standard deviation around them.
    test : tuple of two arrays
        Patches of other images, flat, at places drawn once.
    components : tuple of two arrays
        The same patches in as many principal components of training patches as the models have outputs.
    note : str
        What a reader should know about the images.
    """

    halves: tuple[Array, Array]
    centre: tuple[Array, Array]
    scale: float
    test: tuple[Array, Array]
    components: tuple[Array, Array]
    note: str


def source_of(preset: Preset, data: Path | None) -> str:
    """The images that are taken: rendered ones where CIFAR-10 is asked for and not there."""
    if preset.source not in SOURCES:
        raise InputError(f"source is {preset.source!r}; known are {', '.join(SOURCES)}")
    return preset.source if preset.source == "rooms" or _file(data) is not None else "rooms"


def files_of(preset: Preset, data: Path | None) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files that decide which images are read, and a sentence for what is missing."""
    if source_of(preset, data) == preset.source:
        path = _file(data) if preset.source == "cifar10" else None
        return ((path,) if path is not None else ()), ()
    where = f"name a folder with --data or {VARIABLE}" if data is None else f"{data} does not hold its files"
    return (), (
        f"CIFAR-10 was left out, and rendered rooms stand for it: {where} ({cifar10.ARCHIVE} or what it holds, or "
        f"{cifar10.JPEGS})",
    )


def material(preset: Preset, data: Path | None, seed: int) -> Material:
    """Read or render everything once."""
    shape = (source_of(preset, data), data, preset.scene, preset.scenes, preset.test_images)
    return _material(*shape, preset.patch, preset.outputs, seed)


def patches(halves: Any, starts: Any, columns: int) -> Any:
    """Columns from each row's own start on, flat; arrays or tensors."""
    places = np.arange if isinstance(halves, np.ndarray) else _arange(halves.device)
    rows = places(len(halves))[:, None]
    return halves[rows, starts[:, None] + places(columns)].reshape(len(halves), columns, -1)


@lru_cache(maxsize=1)
def _material(
    source: str, data: Path | None, scene: int, scenes: int, test_images: int, patch: int, outputs: int, seed: int
) -> Material:
    train, test, note = _images(source, data, scene, scenes, test_images, seed)
    halves, others = _halves(train), _halves(test)
    columns = patch or halves[0].shape[1]
    if not 1 <= columns <= halves[0].shape[1]:
        raise InputError(f"patch is {patch}: halves have {halves[0].shape[1]} columns")
    centre = tuple(half.mean((0, 1), dtype=np.float64).astype(np.float32) for half in halves)
    spread = [float(((half[:_COMPONENT_ROWS] - mean) ** 2).mean()) for half, mean in zip(halves, centre, strict=True)]
    scale = float(np.sqrt(np.mean(spread))) or 1.0
    rng = np.random.default_rng([seed, 41])

    def flat(half: Array, mean: Array) -> Array:
        starts = rng.integers(0, half.shape[1] - columns + 1, len(half))
        return np.asarray(((patches(half, starts, columns) - mean) / np.float32(scale)).reshape(len(half), -1))

    placed = [flat(half, mean) for half, mean in zip(others, centre, strict=True)]
    seen = [flat(half[:_COMPONENT_ROWS], mean) for half, mean in zip(halves, centre, strict=True)]
    components = [_components(given, patch, outputs) for given, patch in zip(seen, placed, strict=True)]
    return Material(
        (halves[0], halves[1]),
        (centre[0], centre[1]),
        scale,
        (placed[0], placed[1]),
        (components[0], components[1]),
        note,
    )


def _images(
    source: str, data: Path | None, scene: int, scenes: int, test_images: int, seed: int
) -> tuple[Array, Array, str]:
    """Training images in random order, test images, and a note; bytes (n, height, width, channels)."""
    if source == "rooms":
        drawn = Rooms(size=scene, antialias=1).draw(scenes + test_images, seed=seed).images()
        return drawn[:scenes], drawn[scenes:], ""
    name = "cifar10" if data is not None and _binary(data) is not None else "cifar10_jpeg"
    train, test = (load(name, data, part=part) for part in ("train", "test"))
    rng = np.random.default_rng([seed, 43])
    order, chosen = rng.permutation(len(train)), rng.permutation(len(test))[:test_images]
    return train.images(order), test.images(np.sort(chosen)), train.note


def _file(data: Path | None) -> Path | None:
    return None if data is None else _binary(data) or find_file(data, "cifar10_jpeg", cifar10.JPEGS)


def _binary(data: Path) -> Path | None:
    return next((path for file in _BINARY if (path := find_file(data, "cifar10", file)) is not None), None)


def _halves(images: Array) -> tuple[Array, Array]:
    middle = images.shape[1] // 2
    upper, lower = (np.moveaxis(part, 2, 1) for part in (images[:, :middle], images[:, middle : 2 * middle]))
    return tuple(np.ascontiguousarray(part).reshape(*part.shape[:2], -1) for part in (upper, lower))  # type: ignore[return-value]


def _components(seen: Array, other: Array, count: int) -> Array:
    mean = seen.mean(0)
    directions = np.linalg.eigh(np.cov(seen.T.astype(np.float64)))[1][:, ::-1][:, :count]
    return np.asarray((other - mean) @ directions)


def _arange(device: Any) -> Any:
    import torch

    return lambda count: torch.arange(count, device=device)
