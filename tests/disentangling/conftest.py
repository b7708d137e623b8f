"""Small images with known factors, and one small result for all tests."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import isorep


def bars(count=300, size=8, seed=0):
    """Grey images: brightness of the left half, the right half and a bar along the top."""
    rng = np.random.default_rng(seed)
    factors = rng.uniform(0.1, 0.9, size=(count, 3))
    images = np.zeros((count, size, size))
    images[:, :, : size // 2] = factors[:, 0, None, None]
    images[:, :, size // 2 :] = factors[:, 1, None, None]
    images[:, : size // 4] = factors[:, 2, None, None]
    return images, factors


@lru_cache(maxsize=1)
def small():
    """Two trainings on bars, with the images and their factors."""
    images, factors = bars()
    return isorep.disentangle(images, latents=6, size=8, steps=400, batch=32, n_seeds=2), images, factors


@pytest.fixture(scope="session")
def found():
    """The small result, made once."""
    pytest.importorskip("torch")
    return small()


def spots(count=300, size=16, seed=0):
    """A bright spot somewhere on a ground with a fixed texture: where it is, and how bright."""
    rng = np.random.default_rng(seed)
    factors = rng.uniform(size=(count, 3))
    down, across = np.mgrid[0:size, 0:size] / (size - 1)
    ground = 0.25 + 0.1 * np.sin(20 * down + 13 * across)
    x, y, bright = (factors[:, index, None, None] for index in range(3))
    near = np.exp(-((across - 0.2 - 0.6 * x) ** 2 + (down - 0.2 - 0.6 * y) ** 2) / 0.02)
    return ground + near * (0.2 + 0.4 * bright), factors


@lru_cache(maxsize=1)
def placed():
    """One training of the spatial network on spots, with the images and their factors."""
    images, factors = spots()
    return isorep.disentangle(images, latents=5, size=16, steps=400, n_seeds=1), images, factors
