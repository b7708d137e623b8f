"""A screen with known factors: some of biology, some of batch, mixed by a map that is nearly an isometry."""

from __future__ import annotations

import numpy as np


def screen(n_batches=10, wells=60, dimensions=8, effect=1.4, batch_effect=1.5, share=0.35, seed=0):
    """Embedding, treated or not, and plate: factors 0 and 1 are biology, 4 to 6 shift with the plate."""
    rng = np.random.default_rng(seed)
    n = n_batches * wells
    plate = np.repeat(np.arange(n_batches), wells)
    treated = rng.random(n) < share
    factors = rng.laplace(size=(n, dimensions)) / np.sqrt(2)
    factors[:, :2] += effect * np.array([1.0, 0.6]) * treated[:, None]
    factors[:, 4:7] += batch_effect * rng.laplace(size=(n_batches, 3))[plate]
    turned = factors @ np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0].T
    bent = np.tanh(turned @ np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0])
    names = np.array([f"plate {place:02}" for place in range(n_batches)])
    return (turned + 0.05 * bent).astype(np.float32), treated, names[plate]
