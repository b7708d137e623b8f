"""Views with a known content block."""

import numpy as np


def views_of(content, styles, *, noise=0.1, seed=0, width=None):
    """One view per number of style dimensions: content and its own style, mixed at random, and noise."""
    rng = np.random.default_rng(seed)
    views = []
    for style in styles:
        parts = np.hstack([content, 1.5 * rng.normal(size=(len(content), style))])
        mixed = parts @ rng.normal(size=(parts.shape[1], width or parts.shape[1] + 1))
        views.append(mixed + noise * rng.normal(size=mixed.shape) + 3)
    return views


def latents(n, k, seed=0):
    return np.random.default_rng([seed, 7]).laplace(size=(n, k))
