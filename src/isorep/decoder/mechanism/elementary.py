r"""Sparsest bases: the vectors of minimal support in the range of a matrix, and the greedy choice among them.

:math:`\|AM\|_0=\sum_c w(m_c)` with :math:`w(m)=\|Am\|_0` is the weight of a basis of a linear matroid, so the greedy
choice of light vectors is optimal; and candidates may be restricted to elementary vectors, each of which vanishes on
:math:`d-1` independent rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from ...representation import Array

_DRAWN = 1000  # subsets where they are too many to see all
_PARALLEL = 1e-9  # rows of unit length that agree so far are one row


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidate vectors of a matrix (rows, d) before any tolerance.

    ``values`` are the images of ``vectors``, each scaled to a largest entry of 1, and ``conditions`` says how well the
    rows that a vector vanishes on determine it. ``complete`` unless subsets were drawn at random.
    """

    vectors: Array
    values: Array
    conditions: Array
    complete: bool

    def at(self, tolerance: float) -> Candidates:
        """The distinct supports at a tolerance, lightest first; equal weights in the order of their supports."""
        kept = self.conditions > tolerance
        supports = np.abs(self.values[kept]) > tolerance
        vectors = self.vectors[kept]
        packed = np.packbits(supports, axis=1)
        _, first = np.unique(packed, axis=0, return_index=True)
        weights = supports[first].sum(1)
        order = np.argsort(weights, kind="stable")
        chosen = first[order]
        return Candidates(vectors[chosen], supports[chosen], weights[order], tolerance, self.complete)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Vectors with their supports (E, rows) and weights, lightest first."""

    vectors: Array
    supports: Array
    weights: Array
    tolerance: float
    complete: bool

    @cached_property
    def basis(self) -> Array:
        """The places of a lightest basis: each vector that raises the rank, in order; shorter where none is left."""
        residuals = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True).clip(1e-300)
        chosen: list[int] = []
        while len(chosen) < self.vectors.shape[1]:
            sizes = np.linalg.norm(residuals, axis=1)
            raising = np.flatnonzero(sizes > max(self.tolerance, 1e-9))
            if len(raising) == 0:
                break
            place = int(raising[0])
            chosen.append(place)
            direction = residuals[place] / sizes[place]
            residuals = residuals - np.multiply.outer(residuals @ direction, direction)
        return np.array(chosen, dtype=int)

    @property
    def lightest(self) -> float | None:
        """The weight of a sparsest basis, None without one."""
        return None if len(self.basis) < self.vectors.shape[1] else float(self.weights[self.basis].sum())

    @cached_property
    def circuits(self) -> Array | None:
        """Which basis vectors each candidate needs, by its coefficients: (E, d) bool; None without a basis."""
        if len(self.basis) < self.vectors.shape[1]:
            return None
        sizes = np.abs(np.linalg.solve(self.vectors[self.basis].T, self.vectors.T).T)
        return np.asarray(sizes > self.tolerance * sizes.max(1, keepdims=True))

    @cached_property
    def needed(self) -> Array | None:
        """The weight of the heaviest basis vector that each candidate needs."""
        return None if self.circuits is None else np.where(self.circuits, self.weights[self.basis], 0).max(1)


def pool(matrix: Array, limit: int, rng: np.random.Generator | None = None, floor: float = 0.0) -> Pool | None:
    """The elementary vectors of a matrix (rows, d) with independent columns.

    Parameters
    ----------
    matrix : array (rows, d)
        Whitened, so that the lengths of vectors mean something.
    limit : int
        Subsets of rows to look at.
    rng : numpy.random.Generator, optional
        Draws a thousand subsets beyond the limit; without one the answer is then None.
    floor : float
        Rows shorter than this share of the longest are zero at every tolerance and vanish on nothing.
    """
    d = matrix.shape[1]
    if d == 1:
        return _made(matrix, np.ones((1, 1)), np.ones(1), True)
    directions = _directions(matrix, floor)
    total = comb(len(directions), d - 1)
    if total <= limit:
        subsets = np.array(list(combinations(range(len(directions)), d - 1)), dtype=int).reshape(-1, d - 1)
    elif rng is None:
        return None
    else:
        subsets = np.argsort(rng.random((min(limit, _DRAWN), len(directions))), axis=1)[:, : d - 1]
    vectors, conditions = [], []
    for start in range(0, len(subsets), 20_000):
        part = directions[subsets[start : start + 20_000]]
        if d == 2:
            vectors.append(np.stack([-part[:, 0, 1], part[:, 0, 0]], axis=1))
            conditions.append(np.ones(len(part)))
        else:
            _, sizes, right = np.linalg.svd(part, full_matrices=True)
            vectors.append(right[:, -1])
            conditions.append(sizes[:, -1])
    found = np.concatenate(vectors) if vectors else np.zeros((0, d))
    return _made(matrix, found, np.concatenate(conditions) if conditions else np.zeros(0), total <= limit)


def subset_count(matrix: Array, floor: float = 0.0) -> int:
    """How many subsets of rows :func:`pool` would look at."""
    d = matrix.shape[1]
    return 1 if d <= 1 else comb(len(_directions(matrix, floor)), d - 1)


def _made(matrix: Array, vectors: Array, conditions: Array, complete: bool) -> Pool:
    values = vectors @ matrix.T
    largest = np.abs(values).max(1, initial=0.0, keepdims=True)
    return Pool(vectors, values / np.where(largest > 0, largest, 1.0), conditions, complete)


def _directions(matrix: Array, floor: float) -> Array:
    """Rows of unit length; proportional ones, which vanish together, once."""
    norms = np.linalg.norm(matrix, axis=1)
    rows = matrix[norms > floor * norms.max(initial=0.0)]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    leading = np.take_along_axis(rows, np.abs(rows).argmax(1)[:, None], axis=1)
    rows = rows * np.where(leading < 0, -1.0, 1.0)
    rounded = np.round(rows / _PARALLEL / 10)
    _, first = np.unique(rounded, axis=0, return_index=True)
    return np.asarray(rows[np.sort(first)])
