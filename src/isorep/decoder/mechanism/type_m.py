r"""Types D and M at one sample: outputs that two blocks share, and supports that contain each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from math import comb

import numpy as np
from scipy.sparse.csgraph import connected_components

from ...representation import Array
from .type_s import Candidates
from .views import Frame

_BASES = 200  # sparsest bases of a block that are looked through for one that splits


def shared(frame: Frame) -> float:
    r"""The Type D score, 0 where no output depends on two blocks.

    :math:`\max_n` of the second largest over blocks of :math:`\|Q_{n,C_i}\|`, each block's largest being 1. It is basis
    free: no invertible map inside a block changes it.
    """
    weights = frame.weights()
    if weights.shape[1] < 2:
        return 0.0
    return float(np.sort(weights, axis=1)[:, -2].max())


def owners(frame: Frame, tolerance: float) -> Array:
    """The block that moves each output most; -1 for outputs that none moves."""
    weights = frame.weights()
    return np.where(weights.max(1) > tolerance, weights.argmax(1), -1)


def contrast(jacobian: Array, blocks: Sequence[Array]) -> float:
    r"""The compositional contrast :math:`\sum_n\sum_{i<j}\|J_{n,C_i}\|\|J_{n,C_j}\|` of one Jacobian."""
    norms = np.stack([np.linalg.norm(jacobian[:, block], axis=1) for block in blocks], axis=1)
    return float(0.5 * (norms.sum(1) ** 2 - (norms**2).sum(1)).sum())


def containment(blocks: Sequence[Candidates]) -> int | None:
    r"""The Type M margin: the least of :math:`|\Omega_a\setminus\Omega_b|` over a, b in different blocks.

    Over all vectors of all sparsest bases, so that no choice among equally sparse bases decides; None where a block's
    basis cannot be decided at this tolerance. One block alone has no margin to lose: the number of outputs.
    """
    supports = []
    for candidates in blocks:
        if candidates.in_sparsest_bases is None:
            return None
        supports.append(candidates.supports[candidates.in_sparsest_bases].astype(np.float32))
    least = int(blocks[0].supports.shape[1])
    for one, other in combinations(supports, 2):
        common = one @ other.T
        left = (one.sum(1)[:, None] - common).min()
        right = (other.sum(1)[None] - common).min()
        least = min(least, round(float(min(left, right))))
    return least


def irreducible_by_containment(candidates: Candidates) -> bool | None:
    """Whether no sparsest basis of a block splits into groups whose supports do not contain each other.

    None where equally sparse bases are too many to search and none of those searched splits.
    """
    d = candidates.vectors.shape[1]
    if d == 1:
        return True
    basis, used = candidates.basis, candidates.in_sparsest_bases
    if used is None:
        return None
    if _falls_apart(candidates.supports[basis]):
        return False
    usable, total = np.flatnonzero(used), candidates.weights[basis].sum()
    for chosen in islice(combinations(usable, d), _BASES):
        picked = list(chosen)
        light = candidates.weights[picked].sum() == total
        independent = np.linalg.svd(candidates.vectors[picked], compute_uv=False)[-1] > candidates.tolerance
        if light and independent and _falls_apart(candidates.supports[picked]):
            return False
    return True if candidates.complete and comb(len(usable), d) <= _BASES else None


def _falls_apart(supports: Array) -> bool:
    inside = supports.astype(int)
    common = inside @ inside.T
    sizes = inside.sum(1)
    contained = (common == sizes[:, None]) | (common == sizes[None])
    return bool(connected_components(contained, directed=False)[0] > 1)
