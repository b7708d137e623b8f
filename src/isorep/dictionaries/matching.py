"""Matching atoms: best matches both ways, and one-to-one matching with a bound on its distance from the optimum.

One pass over blocks of the similarity matrix finds the best match of every atom, both ways, and the nearest candidates
of every source atom; the matrix itself is never held. One-to-one matching is solved on the candidates (Jonker &
Volgenant, sparse). Prices of linear programming duality then bound the optimum over *all* pairs: pairs that the
candidates lack and that could improve the matching are added, and it is solved again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..assignment import best_assignment
from ..representation import Array
from ..rows import blocks
from ..threads import Crew

CANDIDATES = 16
"""Nearest target atoms that are kept for every source atom."""
DENSE = 2**20
"""Pairs of atoms up to which the whole matrix is assigned, which is exact."""
_BLOCK_BYTES = 2**25
_CHUNK = 64
_ROUNDS = 4
CLOSE = 1e-4
"""Mean similarity that a matching of candidates may lack to the optimum before it is solved again with more pairs."""
_PRICE_STEPS = 500
ROUNDING = 1e-6  # of a similarity in float32


@dataclass(frozen=True, eq=False)
class BestMatches:
    """For every source atom the target atom with the largest similarity, and the other way round.

    ``candidates`` are the nearest target atoms of every source atom, in no order; empty where none were asked for.
    """

    target: Array
    similarity: Array
    source: Array
    reverse_similarity: Array
    candidates: Array
    values: Array


@dataclass(frozen=True, eq=False)
class OneToOne:
    """A matching: ``partner`` is the target atom of every source atom, -1 where it has none.

    ``gap`` is an upper bound on what the sum of similarities lacks to the optimum over all matchings.
    """

    partner: Array
    similarity: Array
    gap: float


def best_matches(source: Array, target: Array, *, signed: bool = True, keep: int = 0) -> BestMatches:
    """Best matches of unit vectors both ways, in one pass over blocks of their products."""
    n, m = len(source), len(target)
    keep = min(keep, m)
    padded = _padded(target)
    found: list[tuple[Array, ...]] = []
    top, place = np.full(m, -np.inf, dtype=np.float32), np.zeros(m, dtype=np.int64)

    def measured(rows: slice) -> tuple[Array, ...]:
        block = _block(source[rows], padded, signed)
        block[:, m:] = -np.inf
        best = block.argmax(axis=1)
        highest = block[:, :m].max(axis=0)
        with_place = np.flatnonzero(highest > top)  # a look at columns that may still rise; checked again below
        where = block[:, with_place].argmax(axis=0) + rows.start
        chosen, values = _largest(block, keep)
        return best, np.take_along_axis(block, best[:, None], axis=1)[:, 0], highest, with_place, where, chosen, values

    with Crew() as crew:
        for result in crew.stream(measured, blocks(n, block_atoms(m))):
            best, similarity, highest, with_place, where, chosen, values = result
            higher = highest[with_place] > top[with_place]
            place[with_place[higher]], top[with_place[higher]] = where[higher], highest[with_place[higher]]
            found.append((best, similarity, chosen, values))
    best, similarity, chosen, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return BestMatches(best, _clipped(similarity), place, _clipped(top), chosen, _clipped(values))


def _padded(target: Array) -> Array:
    """Target atoms in float32, with zero rows up to a whole number of chunks."""
    padded = np.zeros((-(-len(target) // _CHUNK) * _CHUNK, target.shape[1]), dtype=np.float32)
    padded[: len(target)] = target
    return padded


def _block(source: Array, padded: Array, signed: bool) -> Array:
    block: Array = np.asarray(source, dtype=np.float32) @ padded.T
    return block if signed else np.abs(block, out=block)


def block_atoms(targets: int) -> int:
    """Source atoms per block of products."""
    return max(64, _BLOCK_BYTES // (4 * max(targets, 1)))


def _largest(block: Array, keep: int) -> tuple[Array, Array]:
    """Places and values of the ``keep`` largest entries of every row.

    They lie in the ``keep`` chunks with the largest maxima, so most of a row is only looked at for these.
    """
    if keep == 0:
        return np.zeros((len(block), 0), dtype=np.int64), np.zeros((len(block), 0), dtype=np.float32)
    rows, width = block.shape
    chunks = width // _CHUNK
    inside = np.arange(_CHUNK)
    if chunks > 2 * keep:
        maxima = block.reshape(rows, chunks, _CHUNK).max(axis=2)
        highest = np.argpartition(maxima, chunks - keep, axis=1)[:, chunks - keep :]
        places = (highest[:, :, None] * _CHUNK + inside).reshape(rows, -1)
        values = np.take_along_axis(block, places, axis=1)
    else:
        places, values = np.broadcast_to(np.arange(width), block.shape), block
    last = values.shape[1] - keep
    order = np.argpartition(values, last, axis=1)[:, last:]
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(values, order, axis=1)


def _clipped(values: Array) -> Array:
    return np.asarray(np.clip(values, -1.0, 1.0), dtype=np.float64)


def one_to_one(
    source: Array, target: Array, *, signed: bool = True, found: BestMatches | None = None, proven: bool = True
) -> OneToOne:
    """Match atoms one to one so that the sum of similarities is largest; negative ones count as no match.

    Up to ``DENSE`` pairs this is exact. Above, candidates are matched (those in ``found``, where they are given), and
    with ``proven`` the gap is bounded over all pairs and narrowed; without it the gap is NaN.
    """
    if len(source) * len(target) <= DENSE:
        weights = np.maximum(_products(source, target, signed), 0.0)
        rows, columns = best_assignment(weights)
        return _matching(len(source), rows, columns, weights[rows, columns], 0.0)
    if found is None:
        found = best_matches(source, target, signed=signed, keep=CANDIDATES)
    n, m = len(source), len(target)
    edges = _Edges(np.repeat(np.arange(n), found.candidates.shape[1]), found.candidates.ravel(), found.values.ravel())
    ceiling = found.values.min(axis=1)  # no pair outside of the candidates is more similar
    partner = edges.solved(n, m)
    gap = np.nan
    for turn in range(_ROUNDS if proven else 0):
        prices = edges.prices(partner, n, m)
        gains = edges.gains(prices, n)
        open_rows = np.flatnonzero(ceiling > gains + ROUNDING)
        best, missing = _better(source, target, prices, open_rows, signed)
        bound = float(prices.sum() + gains.sum() + np.maximum(best.max(axis=1) - gains[open_rows], 0).sum())
        gap = max(bound - edges.value(partner), 0.0)
        new = best > gains[open_rows, None] + ROUNDING
        if turn == _ROUNDS - 1 or gap <= CLOSE * min(n, m) or not new.any():
            break
        rows = np.broadcast_to(open_rows[:, None], best.shape)[new]
        edges = edges.with_more(rows, missing[new], best[new] + prices[missing[new]])
        partner = edges.solved(n, m)
    matched = np.flatnonzero(partner >= 0)
    similarity = np.einsum("ij,ij->i", source[matched].astype(np.float64), target[partner[matched]].astype(np.float64))
    return _matching(n, matched, partner[matched], _clipped(similarity if signed else np.abs(similarity)), gap)


def _products(source: Array, target: Array, signed: bool) -> Array:
    products = np.asarray(source, dtype=np.float64) @ np.asarray(target, dtype=np.float64).T
    return np.clip(products if signed else np.abs(products), -1.0, 1.0)


def _matching(n: int, rows: Array, columns: Array, values: Array, gap: float) -> OneToOne:
    partner, similarity = np.full(n, -1, dtype=np.int64), np.zeros(n)
    kept = values > 0
    partner[rows[kept]], similarity[rows[kept]] = columns[kept], values[kept]
    return OneToOne(partner, similarity, gap)


@dataclass(frozen=True, eq=False)
class _Edges:
    """Pairs that may be matched, with their weights; pairs of negative weight are left out."""

    rows: Array
    columns: Array
    weights: Array

    def __post_init__(self) -> None:
        positive = self.weights > 0
        for name in ("rows", "columns", "weights"):
            object.__setattr__(self, name, getattr(self, name)[positive])

    def with_more(self, rows: Array, columns: Array, weights: Array) -> _Edges:
        """The same and further pairs, each once."""
        parts = ((self.rows, rows), (self.columns, columns), (self.weights, weights))
        rows, columns, weights = (np.concatenate(both) for both in parts)
        _, first = np.unique(rows * (columns.max() + 1) + columns, return_index=True)
        return _Edges(rows[first], columns[first], weights[first])

    def solved(self, n: int, m: int) -> Array:
        """The matching of largest weight: the column of every row, -1 for none.

        Every row has a column of its own that stands for no match, so that a full matching exists.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import min_weight_full_bipartite_matching

        rows = np.concatenate([self.rows, np.arange(n)])
        columns = np.concatenate([self.columns, m + np.arange(n)])
        costs = np.concatenate([2.0 - self.weights, np.full(n, 2.0)])  # explicit zeros would be no edges
        chosen = min_weight_full_bipartite_matching(csr_matrix((costs, (rows, columns)), shape=(n, m + n)))[1]
        return np.where(chosen < m, chosen, -1)

    def value(self, partner: Array) -> float:
        """The sum of weights of a matching."""
        return float(self.weights[partner[self.rows] == self.columns].sum())

    def prices(self, partner: Array, n: int, m: int) -> Array:
        """Prices of columns under which every row has its best bargain: a fixed point, reached from zero.

        Any prices from zero on give a valid bound, so that it does no harm where steps are limited.
        """
        own = np.zeros(n)
        matched = partner[self.rows] == self.columns
        own[self.rows[matched]] = self.weights[matched]
        prices = np.zeros(m + 1)  # the last is that of no match, and stays 0
        others = np.flatnonzero(~matched)
        others = others[np.argsort(self.columns[others], kind="stable")]  # one stretch per column
        rows, weights = self.rows[others], self.weights[others]
        columns, starts = np.unique(self.columns[others], return_index=True)
        for _ in range(_PRICE_STEPS if len(others) else 0):
            gains = np.maximum(own - prices[partner], 0.0)
            wanted = np.maximum.reduceat(weights - gains[rows], starts)
            rises = wanted > prices[columns] + ROUNDING
            if not rises.any():
                break
            prices[columns[rises]] = wanted[rises]
        return prices[:m]

    def gains(self, prices: Array, n: int) -> Array:
        """The best bargain of every row among the pairs; no match is worth 0."""
        gains = np.zeros(n)
        np.maximum.at(gains, self.rows, self.weights - prices[self.columns])
        return gains


def _better(source: Array, target: Array, prices: Array, rows: Array, signed: bool) -> tuple[Array, Array]:
    """The best bargains of some rows over all columns, a few for each, and their columns."""
    m = len(target)
    keep = min(4, m)
    if len(rows) == 0:
        return np.zeros((0, keep)), np.zeros((0, keep), dtype=np.int64)
    padded = _padded(target)
    cost = np.concatenate([prices, np.full(len(padded) - m, np.inf)]).astype(np.float32)

    def measured(part: slice) -> tuple[Array, Array]:
        block = _block(source[rows[part]], padded, signed)
        block -= cost
        places, values = _largest(block, keep)
        return values.astype(np.float64), places

    with Crew() as crew:
        found = list(crew.stream(measured, blocks(len(rows), block_atoms(m))))
    return np.concatenate([values for values, _ in found]), np.concatenate([places for _, places in found])
