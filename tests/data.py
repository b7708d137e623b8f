"""Data with known answers."""

from __future__ import annotations

import numpy as np


def rotation(d: int, seed: int) -> np.ndarray:
    """A random orthogonal matrix; half of the seeds give a reflection."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def signed_permutation(d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = np.zeros((d, d))
    matrix[rng.permutation(d), np.arange(d)] = rng.choice([-1.0, 1.0], d)
    return matrix


def mixing(d: int, seed: int, condition: float = 10.0) -> np.ndarray:
    """An invertible matrix of given condition number."""
    return rotation(d, seed) * np.geomspace(1, 1 / condition, d) @ rotation(d, seed + 1)


def sources(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Independent non-Gaussian columns: super- and sub-Gaussian and skewed ones in turn."""
    rng = np.random.default_rng(seed)
    makers = (rng.laplace, lambda size: rng.uniform(-1, 1, size), lambda size: rng.exponential(size=size))
    columns = [makers[j % 3](size=n) for j in range(d)]
    values = np.stack(columns, axis=1)
    return (values - values.mean(0)) / values.std(0)


def noisy_pair(n: int, d: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two runs that share sources up to rotation and scale 1.7, each with its own noise."""
    rng = np.random.default_rng(seed)
    shared = sources(n, d, seed)
    x = shared @ rotation(d, seed + 1) + noise * rng.normal(size=(n, d))
    y = 1.7 * shared @ rotation(d, seed + 2) + 1.7 * noise * rng.normal(size=(n, d))
    return x, y
