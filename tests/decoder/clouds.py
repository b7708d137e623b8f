"""Pairs of clouds that are nearly isometric, of many kinds."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

import isorep

KINDS = ("bumps", "pieces", "tent", "thin", "simplex", "turned", "noise", "flattened")


def near_isometry(kind: str, seed: int, d: int, size: float, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A cloud and its image; ``size`` is how far the map is from an isometry, roughly."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d))
    if kind == "thin":
        x *= np.exp(rng.normal(0, 2, d))
    if kind == "simplex" and d > 1:  # the diameter is reached between all corners
        x = np.concatenate([np.eye(d) * np.sqrt(0.5), rng.dirichlet(np.ones(d), n) * np.sqrt(0.5)])
    if kind == "tent":
        x = np.zeros((3, d))
        x[:, 0] = (0, 0.5, 1)
    y = {
        "bumps": lambda: x + size * np.sin(x @ rng.normal(size=(d, d)) * 3),
        "pieces": lambda: x + size * np.abs(x @ rng.normal(size=(d, d))),
        "tent": lambda: x + np.sqrt(size) * np.eye(3, d)[[2, 1, 2]] * (np.arange(3) == 1)[:, None],
        "thin": lambda: x + size * np.tanh(x @ rng.normal(size=(d, d))),
        "simplex": lambda: x + size * rng.normal(size=x.shape),
        "turned": lambda: x.copy(),
        "noise": lambda: x + size * rng.uniform(-1, 1, x.shape),
        "flattened": lambda: np.concatenate([x[:, :-1], x[:, -1:] * (1 - min(size, 0.9))], axis=1),
    }[kind]()
    return x, y @ rotation(rng, d) + rng.normal(size=d)


def rotation(rng: np.random.Generator, d: int) -> np.ndarray:
    """A random rotation or reflection."""
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def defect(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The largest change of a distance in diameters of the source, and that diameter, over all pairs."""
    before, after = pdist(x), pdist(y)
    return float(np.abs(after - before).max() / before.max()), float(before.max())


def procrustes_rms(x: np.ndarray, y: np.ndarray) -> float:
    """The root mean square error of the best rigid motion; the narrower side is padded."""
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    overlap = np.linalg.svd(a.T @ b, compute_uv=False).sum()
    return float(np.sqrt(max((a**2).sum() + (b**2).sum() - 2 * overlap, 0) / len(x)))


def chords(latents: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """The least and the largest ratio of output to latent distance over all pairs."""
    ratio = pdist(outputs) / pdist(latents)
    return float(ratio.min()), float(ratio.max())


def within(x: np.ndarray, y: np.ndarray, bound: float) -> bool:
    """Whether some rigid motion keeps every row within the bound: least squares first, as it is quick."""
    fitted = isorep.Rigid(scale=False).fit(x, y)
    return bool(fitted.residuals(x, y).max() <= bound) or isorep.worst_case(x, y).upper <= bound
