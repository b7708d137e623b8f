r"""Chance levels of matched atoms: random directions, rotated dictionaries, and shuffled rows of activations.

Many atoms in few dimensions have near matches by chance. A *random* dictionary has independent directions. A *rotated*
one, :math:`B'=B\,C^{-1/2}QC^{1/2}` with :math:`C` the shape of :math:`B`'s directions (Tyler 1987) and :math:`Q` a Haar
rotation, keeps what :math:`B` has of its own: its number of atoms, its duplicates, and the directions that its atoms
prefer. Where atoms spread equally, :math:`C\propto I`, it is a plain rotation and keeps all angles. Atoms that are
independent draws of one angular Gaussian law are exchangeable with rotated ones. The larger dictionary is rotated: few
atoms span few directions, and rotated ones stay among these. Chance levels of correlations come from shuffled rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..representation import Array
from .matching import BestMatches, best_matches, one_to_one

WHOLE = 2**22
"""Pairs of atoms up to which every draw is matched as a whole; above, draws look at some atoms of either side."""
_SAMPLED = 3.3e9  # products of numbers per draw above that
_STEPS, _SETTLED, _SHRUNK = 12, 0.01, 0.001
_RESOLVED = 1e-7  # share of the largest eigenvalue of second moments in float32 that is still a direction

Draw = Callable[[np.random.Generator], Array]


def random_dictionary(target: Array) -> Draw:
    """Independent directions, as many as the target has atoms."""

    def drawn(rng: np.random.Generator) -> Array:
        return _unit(rng.standard_normal(target.shape, dtype=np.float32))

    return drawn


def rotated_dictionary(target: Array) -> Draw:
    """The target rotated where its directions spread equally; see the formula above."""
    values, axes = np.linalg.eigh(tyler_shape(target))
    kept = values > _RESOLVED * values[-1]
    roots, axes = np.sqrt(values[kept]), axes[:, kept]

    def drawn(rng: np.random.Generator) -> Array:
        q, r = np.linalg.qr(rng.standard_normal((len(roots), len(roots))))
        turn = (axes / roots) @ (q * np.sign(np.diagonal(r))) @ (axes * roots).T
        return _unit(target @ turn.astype(np.float32))

    return drawn


def tyler_shape(unit: Array) -> Array:
    r"""Tyler's shape matrix of directions: the fixed point of

    .. math:: C\mapsto\frac dn\sum_i\frac{b_ib_i^\top}{b_i^\top C^{-1}b_i}

    over the span of the atoms, shrunk a little towards equal spread so that it exists for any atoms; a few steps from
    the second moments.
    """
    rows = unit.astype(np.float64)
    values, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    kept = values > _RESOLVED * values[-1]
    rows, width = rows @ axes[:, kept], int(kept.sum())
    shape = np.diag(values[kept])
    for _ in range(_STEPS):
        weights = 1 / np.einsum("ij,ij->i", rows @ np.linalg.inv(shape), rows).clip(1e-12)
        moved = (rows * weights[:, None]).T @ rows / weights.sum()
        moved = (1 - _SHRUNK) * moved / np.trace(moved) + _SHRUNK * np.eye(width) / width
        change = np.abs(moved - shape / np.trace(shape)).max() * width
        shape = moved
        if change < _SETTLED:
            break
    return np.asarray(axes[:, kept] @ shape @ axes[:, kept].T)


def shuffled_rows(target: Array) -> Draw:
    """The target's activations with the rows in another order: one for all atoms."""
    return lambda rng: np.ascontiguousarray(target[:, rng.permutation(target.shape[1])])


def _unit(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class ChanceDraw:
    """Similarities of one draw: of one-to-one partners, and of best matches from either side.

    ``sources`` and ``targets`` are the atoms that were looked at. Where these are not all, ``one_to_one`` is the best
    match from the smaller side, which is never below.
    """

    sources: Array
    targets: Array
    one_to_one: Array
    forward: Array
    backward: Array
    whole: BestMatches | None


def draw(
    source: Array,
    target: Array,
    made: Draw,
    rng: np.random.Generator,
    *,
    signed: bool,
    whole: bool = False,
    instead_of_source: bool = False,
) -> ChanceDraw:
    """Match the source with a draw in the target's place, or a draw in the source's place with the target."""
    source, other = (made(rng), target) if instead_of_source else (source, made(rng))
    found: BestMatches | None = None
    n, m = len(source), len(other)
    if n * m <= WHOLE:
        found = best_matches(source, other, signed=signed, keep=16)
        pairs = one_to_one(source, other, signed=signed, found=found, proven=False).similarity
        if n > m:
            pairs = np.sort(pairs)[n - m :]
        return ChanceDraw(np.arange(n), np.arange(m), pairs, found.similarity, found.reverse_similarity, found)
    size = int(max(256, _SAMPLED // (max(n, m) * source.shape[1])))
    sources, targets = (np.sort(rng.choice(each, min(size, each), replace=False)) for each in (n, m))
    if whole:
        found = best_matches(source, other, signed=signed)
        forward, backward = found.similarity[sources], found.reverse_similarity[targets]
    else:
        forward = best_matches(source[sources], other, signed=signed).similarity
        backward = best_matches(other[targets], source, signed=signed).similarity
    return ChanceDraw(sources, targets, forward if n <= m else backward, forward, backward, found)
