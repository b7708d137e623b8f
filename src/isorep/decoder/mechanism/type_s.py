r"""Type S at one sample: the sparsity gap, exact where few subsets of rows have to be searched, otherwise a bound.

:math:`\rho^+=\min_{M\text{ block diagonal}}\|JM\|_0` and :math:`\rho^-=\inf_{M\text{ not respecting the blocks}}
\|JM\|_0`. With an aligned sparsest basis :math:`B`, the lightest basis that contains :math:`m` costs
:math:`\rho^++w(m)-\max_{b\in C_B(m)}w(b)`, :math:`C_B(m)` being the basis vectors that :math:`m` needs.

Sparsest bases: the vectors of minimal support in the range of a matrix, and the greedy choice among them.

:math:`\|AM\|_0=\sum_c w(m_c)` with :math:`w(m)=\|Am\|_0` is the weight of a basis of a linear matroid, so the greedy
choice of light vectors is optimal; and candidates may be restricted to elementary vectors, each of which vanishes on
:math:`d-1` independent rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np
from scipy.sparse.csgraph import connected_components

from ...representation import Array
from .views import Frame

EXACT, BOUND, NONE = "exact", "bound", "none"
_ALL_SUBSETS = 12  # blocks up to which the bound looks at every set of them
_CLEARLY = 10  # tolerances that a vector's second block must exceed for a missing gap to count
_CHUNK = 4_000_000  # cells of an intersection table at once


@dataclass(frozen=True)
class Gap:
    """``aligned`` is rho+, ``value`` is rho- minus rho+, or with the method ``bound`` a positive lower bound of it.

    ``value`` is None where neither was found.
    """

    aligned: int | None
    value: float | None
    method: str

    @property
    def holds(self) -> bool | None:
        """Whether misaligned bases are less sparse; undecided if a bound is not positive."""
        if self.value is None or (self.method == BOUND and self.value <= 0):
            return None
        return self.value > 0


def exact_gap(frame: Frame, whole: Candidates, blocks: Sequence[Candidates]) -> Gap:
    r"""The gap by the matroid: the lightest basis with one misaligned vector, over all such vectors.

    A misaligned vector is elementary itself or joins an aligned vector with one from elsewhere:

    .. math:: \rho^--\rho^+=\min\Bigl\{\min_{m}\bigl[w(m)-\max_{C_B(m)}w\bigr],\
              \min_{a,e}\bigl[|\Omega_a\cup\Omega_e|-\max_{C_B(a)\cup C_B(e)}w\bigr]\Bigr\}

    and where the sparsest basis of all is lighter than :math:`\rho^+`, the gap is that difference. Where only vectors
    that hardly leave their block contradict a gap, it is undecided: their supports are those of the block.
    """
    embedded = _embedded(frame, blocks) if all(each.complete for each in blocks) else None
    if embedded is None or len(whole.basis) < whole.vectors.shape[1]:
        return Gap(None, None, NONE)
    bases, weights, aligned, home = embedded
    if len(frame.places) == 1:
        return Gap(int(weights.sum()), np.inf, EXACT)
    sizes = np.stack([np.linalg.norm(whole.vectors[:, place], axis=1) for place in frame.places], axis=1)
    second = np.sort(sizes / sizes.max(1, keepdims=True), axis=1)[:, -2]
    everything = _gap(bases, weights, aligned, home, whole, second > whole.tolerance)
    if everything.holds:
        return everything
    clearly = _gap(bases, weights, aligned, home, whole, second > _CLEARLY * whole.tolerance)
    return Gap(everything.aligned, None, NONE) if clearly.holds else everything


def gap_bound(frame: Frame, blocks: Sequence[Candidates], limit: int) -> Gap:
    r"""A lower bound of the gap: outputs that only one of the blocks :math:`T` moves cannot cancel.

    .. math:: \rho^--\rho^+\ \ge\ \beta=\min_{|T|\ge2}\Bigl[\sum_{k\in T}\mu_k(T)-\max_{k\in T}w_k\Bigr]

    with :math:`\mu_k(T)` the least number of block k's own outputs within :math:`T` that a direction of the block
    moves (for a block of one dimension all of them, for generic rows their number less :math:`d_k-1`), and
    :math:`w_k` the heaviest vector of its sparsest basis, if :math:`\beta>0`; otherwise nothing is decided. Up
    to 12 blocks every set :math:`T` is seen, beyond that pairs with the outputs that no other block moves: weaker.
    """
    heaviest, masks, rho = [], [], 0
    for candidates in blocks:
        basis = candidates.basis
        if len(basis) < candidates.vectors.shape[1] or not candidates.complete:
            return Gap(None, None, NONE)
        heaviest.append(int(candidates.weights[basis].max()))
        rho += int(candidates.weights[basis].sum())
        masks.append(candidates.supports.any(0))
    if len(blocks) == 1:
        return Gap(rho, np.inf, BOUND)
    cached: dict[tuple[int, bytes], int | None] = {}
    tolerance = blocks[0].tolerance

    def least(k: int, others: Sequence[int]) -> int | None:
        own = masks[k] & ~np.logical_or.reduce([masks[other] for other in others])
        key = (k, np.packbits(own).tobytes())
        if key not in cached:
            cached[key] = _least_weight(frame.block(k)[own], limit, tolerance)
        return cached[key]

    count = len(blocks)
    sizes = range(2, count + 1 if count <= _ALL_SUBSETS else 3)
    found: list[int | None] = []
    for chosen in (each for size in sizes for each in combinations(range(count), size)):
        rivals = chosen if count <= _ALL_SUBSETS else range(count)
        own = [least(k, [j for j in rivals if j != k]) for k in chosen]
        known = [each for each in own if each is not None]
        found.append(sum(known) - max(heaviest[k] for k in chosen) if len(known) == len(own) else None)
    numbers = [each for each in found if each is not None]
    return Gap(rho, float(min(numbers)) if len(numbers) == len(found) else None, BOUND)


def sparsity_components(candidates: Candidates) -> list[Array] | None:
    r"""The finest Type S split: groups of a sparsest basis (as places among the candidates).

    A vector that is as light as the heaviest it needs belongs to another sparsest basis, and joins all that it needs.
    A decomposition has a positive gap exactly where no such vector crosses it, so the groups are the finest.
    """
    if candidates.in_sparsest_bases is None or candidates.circuits is None or not candidates.complete:
        return None
    count, labels = hyper_components(candidates.circuits[candidates.in_sparsest_bases])
    return [candidates.basis[labels == label] for label in range(count)]


def _embedded(frame: Frame, blocks: Sequence[Candidates]) -> tuple[Array, Array, Candidates, Array] | None:
    """Aligned basis (d, d) with its weights, and all aligned elementary vectors with their blocks."""
    d = frame.values.shape[1]
    bases, weights, vectors, supports, home = [], [], [], [], []
    for number, (place, candidates) in enumerate(zip(frame.places, blocks, strict=True)):
        basis = candidates.basis
        if len(basis) < candidates.vectors.shape[1]:
            return None
        wide = np.zeros((len(candidates.vectors), d))
        wide[:, place] = candidates.vectors
        bases.append(wide[basis])
        weights.append(candidates.weights[basis])
        vectors.append(wide)
        supports.append(candidates.supports)
        home.append(np.full(len(wide), number))
    everything, places = np.concatenate(supports), np.concatenate(home)
    aligned = Candidates(np.concatenate(vectors), everything, everything.sum(1), blocks[0].tolerance, True)
    return np.concatenate(bases), np.concatenate(weights), aligned, places


def _gap(bases: Array, weights: Array, aligned: Candidates, home: Array, whole: Candidates, mixed: Array) -> Gap:
    """The gap by the aligned vectors and the vectors treated as mixed."""
    rho = int(weights.sum())
    vectors = np.concatenate([aligned.vectors, whole.vectors[mixed]])
    supports = np.concatenate([aligned.supports, whole.supports[mixed]])
    sums = supports.sum(1).astype(float)
    order = np.argsort(sums, kind="stable")
    lightest = Candidates(vectors[order], supports[order], sums[order], whole.tolerance, True).lightest
    if lightest is not None and lightest < rho:
        return Gap(rho, float(lightest - rho), EXACT)
    needed = np.where(_circuits(vectors, bases, whole.tolerance), weights, 0).max(1)
    gap = float((sums - needed)[len(home) :].min(initial=np.inf))
    blocks_of = np.concatenate([home, np.full(int(mixed.sum()), -1)])
    return Gap(rho, min(gap, _pairs(supports, sums, needed, blocks_of, len(home))), EXACT)


def _pairs(supports: Array, sums: Array, needed: Array, home: Array, aligned: int) -> float:
    """Aligned vectors, each with every vector that does not lie in its block."""
    inside = supports.astype(np.float32)
    least, step = np.inf, max(1, _CHUNK // max(len(inside), 1))
    for start in range(0, aligned, step):
        part = slice(start, min(start + step, aligned))
        union = sums[part, None] + sums[None] - inside[part] @ inside.T
        cost = union - np.maximum(needed[part, None], needed[None])
        cost[home[part, None] == home[None]] = np.inf
        least = min(least, float(cost.min(initial=np.inf)))
    return least


def _least_weight(rows: Array, limit: int, tolerance: float) -> int | None:
    """The fewest rows that a nonzero vector moves; 0 where some vector moves none of them."""
    n, d = rows.shape
    if n < d or np.linalg.svd(rows, compute_uv=False)[-1] <= tolerance:
        return 0
    found = pool(rows, limit)
    return None if found is None else int(found.at(tolerance).weights.min(initial=n))


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
        return _circuits(self.vectors, self.vectors[self.basis], self.tolerance)

    @cached_property
    def in_sparsest_bases(self) -> Array | None:
        """Which candidates belong to some sparsest basis: those no heavier than the heaviest they could replace."""
        if self.circuits is None:
            return None
        return np.asarray(self.weights <= np.where(self.circuits, self.weights[self.basis], 0).max(1))


def _circuits(vectors: Array, basis: Array, tolerance: float) -> Array:
    """Which vectors of a basis each vector needs, by its coefficients."""
    sizes = np.abs(np.linalg.solve(basis.T, vectors.T).T)
    return np.asarray(sizes > tolerance * sizes.max(1, keepdims=True))


def pool(matrix: Array, limit: int, rng: np.random.Generator | None = None, floor: float = 0.0) -> Pool | None:
    """The elementary vectors of a matrix (rows, d) with independent columns.

    Parameters
    ----------
    matrix : array (rows, d)
        Whitened matrix, so that lengths of vectors are comparable.
    limit : int
        Largest number of subsets of rows to search.
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
    every = np.concatenate([np.zeros((0, d)), *vectors]), np.concatenate([np.zeros(0), *conditions])
    return _made(matrix, *every, total <= limit)


def subset_count(matrix: Array, floor: float = 0.0) -> int:
    """The number of subsets of rows that :func:`pool` would search."""
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


def hyper_components(members: Array) -> tuple[int, Array]:
    """Components of things (columns) that rows join: how many, and the label of every column in order of appearance."""
    joined = members.astype(np.float32)
    count, labels = connected_components(joined.T @ joined > 0, directed=False)
    return int(count), labels
