"""Factors and latents with known answers: three worlds with reference values, and small makers."""

import numpy as np

SIZES = (4, 5, 6)


def aligned(n=2000, seed=0):
    """Three factors in a latent each, and a fourth latent of no size."""
    rng = np.random.RandomState(seed)
    s, e = _factors(rng, n), rng.randn(n, 4)
    z = [s[:, 0] + 0.3 * e[:, 0], 0.5 * s[:, 1] + 0.15 * e[:, 1], 2.5 - s[:, 2] + 0.3 * e[:, 2], 0.01 * e[:, 3]]
    return s, np.column_stack(z)


def rotated(n=2000, seed=1):
    """Standardised factors turned into each other."""
    rng = np.random.RandomState(seed)
    s, e = _factors(rng, n), rng.randn(n, 3)
    x = np.column_stack([(s[:, i] - (k - 1) / 2) / np.sqrt((k * k - 1) / 12) for i, k in enumerate(SIZES)])
    turn = np.array([[2, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3
    return s, x @ turn.T + 0.1 * e


def quantised(n=2000, seed=2):
    """Discrete latents: a copy, a coarser copy, a sum, a constant, and a copy with errors."""
    rng = np.random.RandomState(seed)
    s = _factors(rng, n)
    flip = rng.rand(n) < 0.2
    other = rng.randint(0, 4, size=n)
    z = [s[:, 0], s[:, 1] // 2, (s[:, 2] + s[:, 0]) % 6, np.full(n, 3), np.where(flip, other, s[:, 0])]
    return s, np.column_stack(z).astype(float)


def _factors(rng, n):
    return np.column_stack([rng.randint(0, k, size=n) for k in SIZES]).astype(np.int64)


def rooms(n=400, seed=0, noise=0.1):
    """A data frame's worth of named factors of every kind, and a latent for each."""
    rng = np.random.default_rng(seed)
    factors = {
        "shape": np.array(["ball", "cone", "cube"])[rng.integers(3, size=n)],
        "lit": rng.random(n) < 0.5,
        "size": rng.integers(4, size=n),
        "hue": rng.uniform(size=n),
    }
    codes = [np.unique(values, return_inverse=True)[1] for values in list(factors.values())[:3]]
    clean = np.column_stack([*codes, factors["hue"]]).astype(float)
    clean = (clean - clean.mean(axis=0)) / clean.std(axis=0)
    return factors, clean + noise * rng.normal(size=clean.shape)
