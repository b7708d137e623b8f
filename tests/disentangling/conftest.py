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
