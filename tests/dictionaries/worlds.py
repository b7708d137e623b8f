"""Dictionaries with planted atoms: shared ones at a known rate, splits and absorbed atoms."""

import numpy as np


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def planted(atoms=300, others=400, width=64, shared=120, noise=0.02, seed=0):
    """Two dictionaries that share so many atoms, in another order and with their own lengths."""
    rng = np.random.default_rng(seed)
    source = unit(rng.normal(size=(atoms, width)))
    target = unit(rng.normal(size=(others, width)))
    target[:shared] = source[:shared] + noise * rng.normal(size=(shared, width))
    order = rng.permutation(others)
    return source * rng.uniform(0.5, 2, (atoms, 1)), (target * rng.uniform(0.5, 2, (others, 1)))[order], order


def sparse_codes(rows, frequency, seed=0):
    """Codes that are active so often, each on its own."""
    rng = np.random.default_rng(seed)
    active = rng.random((rows, len(frequency))) < frequency
    return (active * rng.exponential(size=active.shape)).astype(np.float32)
