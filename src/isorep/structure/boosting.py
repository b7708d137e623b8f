r"""Gradient boosting of depth-3 trees with the importance of every column, as scikit-learn's classic one grows them.

Columns are cut into bins, and all trees of a stage (one a class) grow together: the sums of every bin, node and class
are one sparse product. A split is the one that lowers the squared error of the residuals most, and its importance is by
how much; leaves take one Newton step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from ..representation import Array
from .columns import moments_of

STAGES, DEPTH, RATE = 100, 3, 0.1
BINS = 64
_LEAST_GAIN = 1e-12


@dataclass(eq=False)
class Bins:
    """Columns cut at the midpoints between values, or between quantiles where there are too many."""

    edges: list[Array]
    starts: Array = field(init=False)
    owner: Array = field(init=False)  # the column of each bin

    def __post_init__(self) -> None:
        sizes = [len(each) + 1 for each in self.edges]
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self.owner = np.repeat(np.arange(len(sizes)), sizes)

    @classmethod
    def of(cls, x: Array, most: int = BINS) -> Bins:
        """Find the bins of these rows."""
        edges = []
        for column in x.T:
            values = np.unique(column)
            if len(values) > most:
                values = np.unique(np.quantile(column, np.linspace(0, 1, most), method="inverted_cdf"))
            edges.append((values[1:] + values[:-1]) / 2)
        return cls(edges)

    def codes(self, x: Array) -> Array:
        """The bin of every entry, counted over all columns."""
        found = [np.searchsorted(edges, column) for edges, column in zip(self.edges, x.T, strict=True)]
        return np.asarray(np.column_stack(found) + self.starts)


class Boosted:
    """Boosted trees for labels (``classify``) or numbers."""

    def __init__(self, *, classify: bool, stages: int = STAGES) -> None:
        self.classify, self.stages = classify, stages

    def fit(self, x: Array, y: Array) -> Boosted:
        """Grow all trees; ``importances`` then sum to 1, or are all 0 where nothing could be split."""
        n, d = x.shape
        self.bins = Bins.of(x)
        codes = self.bins.codes(x)
        width = len(self.bins.owner)
        flat = sparse.csr_matrix((np.ones(n * d), (codes.ravel(), np.repeat(np.arange(n), d))), shape=(width, n))
        targets, raw = self._begin(y)
        self.trees: list[tuple[list[Array], Array]] = []
        gains = np.zeros(d)
        for _ in range(self.stages):
            residuals = targets - self._expected(raw)
            splits, leaves = self._grow(flat, codes, residuals, gains)
            values = self._leaf_values(residuals, leaves)
            raw += RATE * np.take_along_axis(values, leaves, axis=0)
            self.trees.append((splits, values))
        total = gains.sum()
        self.importances = gains / total if total > 0 else gains
        return self

    def predict(self, x: Array) -> Array:
        """The likeliest label, or the number."""
        codes = self.bins.codes(x)
        raw = np.repeat(self.start[None, :], len(x), axis=0)
        for splits, values in self.trees:
            leaves = np.zeros(raw.shape, dtype=np.intp)
            for best in splits:
                leaves = _descend(codes, self.bins, best, leaves)
            raw += RATE * np.take_along_axis(values, leaves, axis=0)
        if not self.classify:
            return np.asarray(raw[:, 0] * self.spread + self.centre)
        if len(self.classes) == 2:
            return np.asarray(self.classes[(raw[:, 0] > 0).astype(int)])
        return np.asarray(self.classes[raw.argmax(axis=1)])

    def _begin(self, y: Array) -> tuple[Array, Array]:
        """Targets, one column a tree of a stage, and the predictions that the first stage improves."""
        if not self.classify:
            self.centre, self.spread = (each[0] for each in moments_of(y[:, None].astype(np.float64)))
            self.start = np.zeros(1)
            targets = (y[:, None] - self.centre) / self.spread  # gains are compared with a least one, without a unit
        else:
            self.classes, labels = np.unique(y, return_inverse=True)
            shares = np.bincount(labels) / len(y)
            if len(self.classes) == 2:
                targets = labels[:, None].astype(np.float64)
                self.start = np.log(shares[1:] / shares[:1])
            else:
                targets = (labels[:, None] == np.arange(len(self.classes))).astype(np.float64)
                self.start = np.log(shares)
        return targets, np.repeat(self.start[None, :], len(y), axis=0)

    def _expected(self, raw: Array) -> Array:
        if not self.classify:
            return raw
        if raw.shape[1] == 1:
            return np.asarray(1 / (1 + np.exp(-raw)))
        shifted = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def _grow(self, flat: sparse.csr_matrix, codes: Array, residuals: Array, gains: Array) -> tuple[list[Array], Array]:
        """The splits of every level (a bin for each node and tree, -1 for none) and the leaf of each row and tree."""
        n, trees = residuals.shape
        nodes = np.zeros((n, trees), dtype=np.intp)
        sums = (flat @ residuals)[None]
        counts = np.repeat(np.asarray(flat.sum(axis=1)).reshape(1, -1, 1), trees, axis=2)
        splits = []
        for level in range(DEPTH):
            best, gain = self._best(sums, counts)
            splits.append(best)
            split = best >= 0
            np.add.at(gains, self.bins.owner[best[split]], gain[split])
            nodes = _descend(codes, self.bins, best, nodes)
            if level < DEPTH - 1:
                sums, counts = _children(flat, nodes, residuals, sums, counts)
        return splits, nodes

    def _best(self, sums: Array, counts: Array) -> tuple[Array, Array]:
        """The best split of every node and tree: sums and counts are by node, bin and tree."""
        starts = self.bins.starts
        left_sum, left_count = (np.cumsum(each, axis=1) for each in (sums, counts))
        for each in (left_sum, left_count):
            before = np.concatenate([np.zeros_like(each[:, :1]), each[:, starts[1:] - 1]], axis=1)
            each -= before[:, self.bins.owner]
        ends = np.append(starts[1:], len(self.bins.owner)) - 1
        total_sum, total_count = left_sum[:, ends[:1]], left_count[:, ends[:1]]
        right_count = total_count - left_count
        possible = (left_count > 0) & (right_count > 0)
        score = left_sum**2 / np.maximum(left_count, 1) + (total_sum - left_sum) ** 2 / np.maximum(right_count, 1)
        score -= total_sum**2 / np.maximum(total_count, 1)
        score[~possible] = -1.0
        best = score.argmax(axis=1)
        gain = np.take_along_axis(score, best[:, None], axis=1)[:, 0]
        return np.where(gain > _LEAST_GAIN, best, -1), gain

    def _leaf_values(self, residuals: Array, leaves: Array) -> Array:
        trees = residuals.shape[1]
        place = (leaves * trees + np.arange(trees)).ravel()

        def summed(values: Array) -> Array:
            return np.bincount(place, values.ravel(), minlength=2**DEPTH * trees).reshape(-1, trees)

        top = summed(residuals)
        if not self.classify:
            return np.asarray(top / np.maximum(summed(np.ones_like(residuals)), 1))
        size = np.abs(residuals)
        below = summed(size * (1 - size))
        factor = 1.0 if trees == 1 else (trees - 1) / trees
        return np.where(below > 1e-150, factor * top / np.maximum(below, 1e-150), 0.0)


def _descend(codes: Array, bins: Bins, best: Array, nodes: Array) -> Array:
    """From each row's node to the child on its side of the split; without a split to the left."""
    trees = nodes.shape[1]
    split = best[nodes, np.arange(trees)]
    here = codes[np.arange(len(codes))[:, None], bins.owner[np.maximum(split, 0)]]
    return np.asarray(2 * nodes + ((split >= 0) & (here > split)))


def _children(
    flat: sparse.csr_matrix, nodes: Array, residuals: Array, sums: Array, counts: Array
) -> tuple[Array, Array]:
    """Sums and counts of the next level: of left children by a product, of right ones by difference."""
    parents, width, trees = sums.shape
    left = (nodes[:, None, :] == 2 * np.arange(parents)[None, :, None]).reshape(len(nodes), -1)
    weights = np.hstack([left * np.tile(residuals, (1, parents)), left])
    found = (flat @ weights).reshape(width, 2, parents, trees).transpose(1, 2, 0, 3)
    children = []
    for whole, part in zip((sums, counts), found, strict=True):
        both = np.empty((2 * parents, width, trees))
        both[0::2], both[1::2] = part, whole - part
        children.append(both)
    return children[0], children[1]
