r"""DCI: disentanglement, completeness and informativeness (Eastwood and Williams 2018), from feature importances.

Gradient boosting grows depth-3 trees with the importance of every column, as scikit-learn's classic one does. Columns
are cut into bins, and all trees of a stage (one per class) grow together: the sums of every bin, node and class are one
sparse product. A split is the one that lowers the squared error of the residuals most, and its importance is by how
much; leaves take one Newton step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax

from ..representation import Array
from ..results import Record
from ..settings import check_choice
from .columns import Column, Pair, mean_of, moments_of, standardised
from .splits import ROWS, split_pair

IMPORTANCES = ("binned", "trees", "lasso")
STAGES, DEPTH, RATE = 100, 3, 0.1
BINS = 64
_LEAST_GAIN = 1e-12
_TINY = 1e-11  # what public code adds before it takes logarithms


@dataclass(frozen=True, eq=False)
class DCI(Record):
    """The result of :func:`dci`; higher is better, 1 is best.

    ``importances`` is latents by factors, each column summing to 1; ``informativeness`` is that on held-out rows,
    ``informativeness_train`` that on training rows.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    informativeness_train: float
    importances: Array
    factors: tuple[str, ...]
    latents: tuple[str, ...]


def dci(
    factors: Any,
    latents: Any,
    *,
    importance: str = "binned",
    test: Any = None,
    rows: int | None = ROWS,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> DCI:
    r"""DCI: disentanglement, completeness and informativeness of latents with respect to known factors.

    A model predicts each factor from all latents; :math:`R_{ji}` is the importance of latent j to factor i. With
    entropies to the base of the number of entries,

    .. math::
        D=\sum_j\frac{\sum_iR_{ji}}{\sum R}\,\bigl(1-H(R_{j\cdot}/\textstyle\sum_iR_{ji})\bigr),\qquad
        C=\sum_i\frac{\sum_jR_{ji}}{\sum R}\,\bigl(1-H(R_{\cdot i}/\textstyle\sum_jR_{ji})\bigr),

    and informativeness is the mean held-out accuracy (discrete factors) or R², at least 0 (continuous ones). Constant
    factors are left out. With one factor D is 1, with one latent C is 1; if no latent has any importance, both are 0.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    importance : {"binned", "trees", "lasso"}
        Source of importances: boosted trees on latents cut into 64 bins (default); scikit-learn's gradient boosting,
        which disentanglement_lib uses and which takes about ten times as long; or the absolute coefficients of a lasso
        on standardised latents.
    test : (factors, latents), optional
        Test rows; default: a random fifth is held out.
    rows : int or None
        Largest number of rows to use, of which a fifth is held out; None for all. Ignored if ``test`` is given.
    groups : (n,) array, optional
        Group per row; rows of a group are held out together.
    discrete_factors, discrete_latents
        As for :func:`infomec`.
    random_state : int
        Seed of the split.

    References
    ----------
    .. [1] Eastwood, C., Williams, C. K. I. (2018). A framework for the quantitative evaluation of disentangled
           representations. ICLR.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(3, size=(400, 2))
    >>> found = isorep.structure.dci(s, s + 0.01 * rng.normal(size=(400, 2)))
    >>> found.disentanglement > 0.99, found.informativeness
    (True, 1.0)
    """
    check_choice("importance", importance, IMPORTANCES)
    given = (factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state)
    return measure_dci(*split_pair(*given), importance=importance)


def measure_dci(train: Pair, test: Pair, *, importance: str = "binned") -> DCI:
    """DCI of columns that were checked and split."""
    x, other = train.latents.matrix, test.latents.matrix
    importances, seen, unseen = np.zeros((len(train.latents), len(train.factors))), {}, {}
    for index, (factor, judged) in enumerate(zip(train.factors, test.factors, strict=True)):
        if not factor.constant:
            importances[:, index], before, after = _IMPORTANCE[importance](x, factor, other)
            seen[factor.name], unseen[factor.name] = _right(factor, before), _right(judged, after)
    kept = importances[:, [not factor.constant for factor in train.factors]]
    return DCI(
        disentanglement=_concentrated(kept),
        completeness=_concentrated(kept.T),
        informativeness=mean_of(unseen),
        informativeness_train=mean_of(seen),
        importances=importances,
        factors=train.factors.names,
        latents=train.latents.names,
    )


def _concentrated(table: Array) -> float:
    """How far each row is concentrated on one entry, rows weighted by their sums."""
    total = float(table.sum())
    if not total > 0:
        return 0.0
    if table.shape[1] == 1:
        return 1.0
    shares = table + _TINY
    shares = shares / shares.sum(axis=1, keepdims=True)
    each = 1 + np.sum(shares * np.log(shares), axis=1) / np.log(table.shape[1])
    return float(each @ table.sum(axis=1) / total)


def _right(factor: Column, predicted: Array) -> float:
    """The share of labels that are right, or R² and at least 0."""
    if factor.discrete:
        return float(np.mean(predicted == factor.values))
    spread = float(np.sum((factor.values - factor.values.mean()) ** 2))
    error = float(np.sum((factor.values - predicted) ** 2))
    return max(0.0, 1 - error / spread) if spread > 0 else 0.0


def _binned(x: Array, factor: Column, other: Array) -> tuple[Array, Array, Array]:
    model = BoostedTrees(classify=factor.discrete).fit(x, factor.values)
    return model.importances, model.predict(x), model.predict(other)


def _trees(x: Array, factor: Column, other: Array) -> tuple[Array, Array, Array]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    if factor.discrete:
        labels, codes = np.unique(factor.values, return_inverse=True)  # labels with decimals pass for numbers there
        classifier: Any = GradientBoostingClassifier(random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # many labels are no reason to take them for numbers
            classifier.fit(x, codes)
        return np.abs(classifier.feature_importances_), labels[classifier.predict(x)], labels[classifier.predict(other)]
    centre, spread = (float(each[0]) for each in moments_of(factor.values[:, None]))  # no trees of tiny targets grow
    model: Any = GradientBoostingRegressor(random_state=0)
    model.fit(x, (factor.values - centre) / spread)
    before, after = (model.predict(rows) * spread + centre for rows in (x, other))
    return np.abs(model.feature_importances_), before, after


def _lasso(x: Array, factor: Column, other: Array) -> tuple[Array, Array, Array]:
    """Coefficients summed over an indicator for each label, with the penalty that a held-out fifth prefers."""
    standard, elsewhere = standardised(x), standardised(other, x)
    labels = np.unique(factor.values)
    targets = (factor.values[:, None] == labels).astype(float) if factor.discrete else factor.values[:, None]
    centre = targets.mean(axis=0)
    coefficients = _lasso_coefficients(standard, targets - centre)
    before, after = standard @ coefficients + centre, elsewhere @ coefficients + centre
    weights = np.abs(coefficients).sum(axis=1)
    if weights.sum() > 0:
        weights = weights / weights.sum()
    if factor.discrete:
        return weights, labels[before.argmax(axis=1)], labels[after.argmax(axis=1)]
    return weights, before[:, 0], after[:, 0]


def _lasso_coefficients(x: Array, targets: Array) -> Array:
    from sklearn.linear_model import lasso_path

    held = np.arange(len(x)) % 5 == 4
    learn = ~held if held.any() else np.ones(len(x), dtype=bool)
    judged = held if held.any() else learn
    coefficients = []
    for target in targets.T:
        most = float(np.abs(x.T @ target).max()) / len(x)
        if most == 0:
            coefficients.append(np.zeros(x.shape[1]))
            continue
        alphas = most * np.geomspace(1, 1e-3, 15)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # paths of nearly dependent latents stop early, close to the optimum
            _, paths, _ = lasso_path(x[learn], target[learn], alphas=alphas)
            errors = ((target[judged, None] - x[judged] @ paths) ** 2).sum(axis=0)
            best = alphas[int(errors.argmin())]
            _, whole, _ = lasso_path(x, target, alphas=alphas[alphas >= best])
        coefficients.append(whole[:, -1])
    return np.column_stack(coefficients)


_IMPORTANCE = {"binned": _binned, "trees": _trees, "lasso": _lasso}


class Bins:
    """Columns cut at the midpoints between values, or between quantiles where there are too many.

    Bins are counted over all columns: ``starts`` is the first of each column, ``owner`` the column of each bin.
    """

    def __init__(self, x: Array) -> None:
        self.edges = []
        for column in x.T:
            values = np.unique(column)
            if len(values) > BINS:
                values = np.unique(np.quantile(column, np.linspace(0, 1, BINS), method="inverted_cdf"))
            self.edges.append((values[1:] + values[:-1]) / 2)
        sizes = [len(each) + 1 for each in self.edges]
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self.owner = np.repeat(np.arange(len(sizes)), sizes)

    def codes(self, x: Array) -> Array:
        """The bin of every entry, counted over all columns."""
        bins = [np.searchsorted(edges, column) for edges, column in zip(self.edges, x.T, strict=True)]
        return np.asarray(np.column_stack(bins) + self.starts)


class BoostedTrees:
    """Boosted trees for labels (``classify``) or numbers, with the importance of every column."""

    def __init__(self, *, classify: bool) -> None:
        self.classify = classify

    def fit(self, x: Array, y: Array) -> BoostedTrees:
        """Grow all trees; ``importances`` then sum to 1, or are all 0 where nothing could be split."""
        n, d = x.shape
        self.bins = Bins(x)
        codes = self.bins.codes(x)
        width = len(self.bins.owner)
        flat = sparse.csr_matrix((np.ones(n * d), (codes.ravel(), np.repeat(np.arange(n), d))), shape=(width, n))
        targets, raw = self._begin(y)
        self.trees: list[tuple[list[Array], Array]] = []
        gains = np.zeros(d)
        for _ in range(STAGES):
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
        """Targets, one column per tree of a stage, and the initial predictions."""
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
        return np.asarray(expit(raw) if raw.shape[1] == 1 else softmax(raw, axis=1))

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
        index = (leaves * trees + np.arange(trees)).ravel()

        def summed(values: Array) -> Array:
            return np.bincount(index, values.ravel(), minlength=2**DEPTH * trees).reshape(-1, trees)

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
    left_sums = (flat @ weights).reshape(width, 2, parents, trees).transpose(1, 2, 0, 3)
    children = []
    for whole, part in zip((sums, counts), left_sums, strict=True):
        both = np.empty((2 * parents, width, trees))
        both[0::2], both[1::2] = part, whole - part
        children.append(both)
    return children[0], children[1]
