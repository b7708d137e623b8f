"""Pairs of models with known relations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Models:
    """Features, head and biases of two models, source first; ``map`` and ``shift`` take source to target features."""

    f: np.ndarray
    other_f: np.ndarray
    g: np.ndarray
    other_g: np.ndarray
    b: np.ndarray
    other_b: np.ndarray
    map: np.ndarray
    shift: np.ndarray


def equal_models(n=300, classes=12, width=4, *, biases=True, seed=0) -> Models:
    """Two models with the same distribution: another basis, another origin where biases allow it, other offsets."""
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(n, width)) + 2, rng.normal(size=(classes, width))
    a = rng.normal(size=(width, width)) + 2 * np.eye(width)
    shift = rng.normal(size=width) if biases else np.zeros(width)
    other_g = g @ np.linalg.inv(a).T + rng.normal(size=width)  # one vector for all classes changes nothing
    b = rng.normal(size=classes) if biases else np.zeros(classes)
    centred = other_g - other_g.mean(axis=0)
    return Models(f, f @ a + shift, g, other_g, b, b - centred @ shift + 3.0, a, shift)


def circle_models(n=400, classes=8, radius=60.0, seed=0):
    """Two confident classifiers whose classes lie on a circle in different orders: tiny divergence, other geometry."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(classes) / classes
    g = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    order = np.array([0, 3, 6, 1, 4, 7, 2, 5])[:classes]
    y = rng.integers(classes, size=n)
    f = radius * g[y] + 0.5 * rng.normal(size=(n, 2))
    other = radius * g[order][y] + 0.5 * rng.normal(size=(n, 2))
    return f, other, g, g[order]
