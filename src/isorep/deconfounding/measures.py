"""Measures of the field: how well batches mix in a space, and how well labels hold together across batches.

References
----------
.. [1] Büttner, M. et al. (2019). A test metric for assessing single-cell RNA-seq batch correction. Nat. Methods 16.
.. [2] Luecken, M. D. et al. (2022). Benchmarking atlas-level data integration in single-cell genomics. Nat. Methods 19.
.. [3] Kalinin, A. A. et al. (2025). A versatile information retrieval framework for evaluating profile strength and
       similarity. Nat. Communications 16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.sparse.csgraph import connected_components
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, silhouette_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..representation import Array
from ..similarity.neighbours import nearest

MOST_ROWS, MOST_BATCHES = 5000, 20
_LEAST_ROWS = 10  # of a batch: fewer can be neither learnt nor found in a neighbourhood
_NEIGHBOURS = (10, 100)  # of kBET, which takes as many as a batch has rows
_ACROSS, _GRAPH = 10, 15  # neighbours in other batches, and in the graph of labels
_LEVEL = 0.05
_SHUFFLES = 5  # of labels, for the chance level of connectivity
_TREES = 100


@dataclass(frozen=True)
class Measure:
    """A measure beside its chance level: what rows without any structure would get."""

    value: float
    chance: float


@dataclass(frozen=True)
class Mixing:
    """Batches and labels on a sample of rows in one space.

    Attributes
    ----------
    batch_auroc, batch_forest_auroc : float
        AUROC of a linear classifier and of a random forest of the batch, trained on every other row; chance is 0.5.
    batch_accuracy : float
        Accuracy of the linear classifier; chance is ``batch_chance``.
    batch_chance : float
        The share of the largest batch.
    batch_variance : Measure
        The share of all variance that lies between batches: principal component regression over all components.
    accepted : float
        The share of neighbourhoods whose batch proportions a chi-square test accepts (kBET): 0.95 if mixed.
    batch_silhouette, label_silhouette : float
        Silhouettes from -1 to 1; high where rows of a batch, or perturbed and control rows, are separated.
    replicates : Measure or None
        Mean average precision of replicates: rows with one label in other batches, ranked by cosine similarity among
        the controls of the row's own batch. None without replicates in two batches.
    neighbours : Measure or None
        Share of the nearest neighbours in other batches that have the row's label, at most 10 and no more than there
        are; labels count equally. None where no label occurs in two batches.
    connectivity : Measure
        The share of a label's rows in the largest part that is connected in the graph of 15 nearest neighbours; labels
        count equally.
    rows, batches : int
        The size of the sample.
    """

    batch_auroc: float
    batch_forest_auroc: float
    batch_accuracy: float
    batch_chance: float
    batch_variance: Measure
    accepted: float
    batch_silhouette: float
    label_silhouette: float
    replicates: Measure | None
    neighbours: Measure | None
    connectivity: Measure
    rows: int
    batches: int


def sample_rows(batch: Array, rng: np.random.Generator) -> Array | None:
    """At most 5,000 rows of at most 20 batches, the same share of each; None if there are not two large enough."""
    sizes = np.bincount(batch)
    large = np.flatnonzero(sizes >= _LEAST_ROWS)
    if len(large) < 2:
        return None
    chosen = np.sort(rng.permutation(large)[:MOST_BATCHES])
    share = min(1.0, MOST_ROWS / sizes[chosen].sum())
    parts = []
    for code in chosen:
        rows = np.flatnonzero(batch == code)
        parts.append(rng.permutation(rows)[: max(_LEAST_ROWS, int(share * len(rows)))])
    return np.sort(np.concatenate(parts))


def mixing(values: Array, batch: Array, label: Array, positive: Array, control: Array) -> Mixing:
    """All measures for the sampled rows; ``positive`` and ``control`` say which rows are perturbed and controls."""
    codes, labels = (np.unique(each, return_inverse=True)[1] for each in (batch, label))
    auroc, accuracy = predictability(values, codes, _linear)
    both = len(np.unique(positive)) == 2
    return Mixing(
        batch_auroc=auroc,
        batch_forest_auroc=forest_auroc(values, batch),
        batch_accuracy=accuracy,
        batch_chance=float(np.bincount(codes).max() / len(codes)),
        batch_variance=between_batches(values, codes),
        accepted=accepted_share(values, codes),
        batch_silhouette=float(silhouette_score(values, codes)),
        label_silhouette=float(silhouette_score(values, positive)) if both else float("nan"),
        replicates=replicate_precision(values, labels, codes, control),
        neighbours=agreement_across(values, labels, codes),
        connectivity=graph_connectivity(values, labels),
        rows=len(codes),
        batches=int(codes.max()) + 1,
    )


# Batches --------------------------------------------------------------------------------------------------------


def predictability(values: Array, codes: Array, model: Callable[[], Any]) -> tuple[float, float]:
    """AUROC (each batch against the others, on average) and accuracy on every second row of each batch."""
    order = np.argsort(codes, kind="stable")
    train, test = np.sort(order[::2]), np.sort(order[1::2])
    fitted = model().fit(values[train], codes[train])
    chances = fitted.predict_proba(values[test])
    accuracy = float(np.mean(fitted.classes_[chances.argmax(axis=1)] == codes[test]))
    scores = chances[:, 1] if chances.shape[1] == 2 else chances
    return float(roc_auc_score(codes[test], scores, multi_class="ovr")), accuracy


def forest_auroc(values: Array, batch: Array) -> float:
    """The AUROC of a random forest of the batch, which depends on the axes."""
    return predictability(values, np.unique(batch, return_inverse=True)[1], _forest)[0]


def _linear() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))


def _forest() -> Any:
    return RandomForestClassifier(_TREES, min_samples_leaf=2, random_state=0)


def between_batches(values: Array, codes: Array) -> Measure:
    r"""The share of variance between batches, :math:`\sum_b n_b\|\bar x_b-\bar x\|^2/\sum_i\|x_i-\bar x\|^2`.

    It equals principal component regression [2]_ over all components: each component's :math:`R^2` on the batch,
    weighted by its variance. Random batches get :math:`(b-1)/(n-1)`.
    """
    n, sizes = len(codes), np.bincount(codes)
    centred = np.asarray(values, np.float64) - np.mean(values, axis=0, dtype=np.float64)
    members = sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(len(sizes), n))
    between = float((np.asarray(members @ centred) ** 2 / sizes[:, None]).sum())
    total = float(np.einsum("ij,ij->", centred, centred))
    return Measure(between / total if total > 0 else 0.0, (len(sizes) - 1) / (n - 1))


def accepted_share(values: Array, codes: Array) -> float:
    r"""The share of rows whose nearest neighbours hold batches in the proportions of all rows (after kBET [1]_).

    :math:`\chi^2=\sum_b(o_b-kp_b)^2/(kp_b)` against its distribution with one degree of freedom less than batches.
    """
    n = len(codes)
    expected = np.bincount(codes) / n
    k = min(int(np.clip(n * expected.mean(), *_NEIGHBOURS)), n - 1)
    near = codes[nearest(values, values, k, metric="euclidean", itself=False)]
    observed = np.stack([(near == code).sum(axis=1) for code in range(len(expected))], axis=1)
    statistic = ((observed - k * expected) ** 2 / (k * expected)).sum(axis=1)
    return float(np.mean(stats.chi2.sf(statistic, len(expected) - 1) > _LEVEL))


# Labels ---------------------------------------------------------------------------------------------------------


def replicate_precision(values: Array, label: Array, batch: Array, control: Array) -> Measure | None:
    """Mean average precision of replicates across batches among controls (as copairs [3]_), and by random ranking.

    For each perturbed row, rows with its label in other batches are to rank before the controls of its own batch, by
    cosine similarity; among equal similarities controls come first. Precisions are averaged over rows, then labels.
    """
    unit = np.asarray(values, np.float64)
    norms = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = np.divide(unit, norms, out=np.zeros_like(unit), where=norms > 0)
    controls = {code: np.flatnonzero(control & (batch == code)) for code in np.unique(batch)}
    means, chances = [], []
    for each in np.unique(label[~control]):
        rows = np.flatnonzero((label == each) & ~control)
        likeness = unit[rows] @ unit[rows].T
        found = []
        for place, row in enumerate(rows):
            others, negatives = batch[rows] != batch[row], controls[batch[row]]
            if others.any() and len(negatives):
                ranked = average_precision(likeness[place, others], unit[negatives] @ unit[row])
                found.append((ranked, chance_precision(int(others.sum()), len(negatives))))
        if found:
            means.append(np.mean([ranked for ranked, _ in found]))
            chances.append(np.mean([chance for _, chance in found]))
    return Measure(float(np.mean(means)), float(np.mean(chances))) if means else None


def average_precision(positives: Array, negatives: Array) -> float:
    """The mean, over positives, of the share of positives among everything that scores as high."""
    ahead = np.sort(positives)[::-1]
    better = len(negatives) - np.searchsorted(np.sort(negatives), ahead, "left")
    place = np.arange(1, len(ahead) + 1)
    return float(np.mean(place / (place + better)))


def chance_precision(positives: int, negatives: int) -> float:
    r"""The expected average precision of a random ranking of m positives among M.

    :math:`\frac1M\left[H_M+\frac{m-1}{M-1}(M-H_M)\right]` with :math:`H_M=\sum_{k\le M}1/k`.
    """
    total = positives + negatives
    harmonic = float(np.sum(1 / np.arange(1, total + 1)))
    again = (positives - 1) / (total - 1) if total > 1 else 0.0
    return (harmonic + again * (total - harmonic)) / total


def agreement_across(values: Array, label: Array, batch: Array) -> Measure | None:
    """The share of nearest neighbours in other batches with a row's label; labels count equally."""
    shares, chances = np.full(len(label), np.nan), np.full(len(label), np.nan)
    for code in np.unique(batch):
        rows, others = np.flatnonzero(batch == code), np.flatnonzero(batch != code)
        near = nearest(values[rows], values[others], min(_ACROSS, len(others)), metric="euclidean")
        same = label[others[near]] == label[rows][:, None]
        there = np.bincount(label[others], minlength=int(label.max()) + 1)[label[rows]]
        counted = np.minimum(there, near.shape[1])
        within = np.arange(near.shape[1]) < counted[:, None]
        known = counted > 0
        shares[rows[known]] = (same & within).sum(axis=1)[known] / counted[known]
        chances[rows[known]] = there[known] / len(others)
    known = ~np.isnan(shares)
    if not known.any():
        return None
    return Measure(*(_mean_of_labels(each[known], label[known]) for each in (shares, chances)))


def graph_connectivity(values: Array, label: Array) -> Measure:
    """The share of a label's rows in its largest part connected by nearest neighbours [2]_, and with labels shuffled.

    Parts are strongly connected, as in scib-metrics: rows that reach each other along neighbours of their label.
    """
    n = len(label)
    near = nearest(values, values, min(_GRAPH, n - 1), metric="euclidean", itself=False)
    k = near.shape[1]
    graph = sparse.csr_array((np.ones(n * k, np.int8), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    rng = np.random.default_rng(0)
    shuffled = [_connected(graph, rng.permutation(label)) for _ in range(_SHUFFLES)]
    return Measure(_connected(graph, label), float(np.mean(shuffled)))


def _connected(graph: sparse.csr_array, label: Array) -> float:
    shares = []
    for code in np.unique(label):
        rows = np.flatnonzero(label == code)
        parts = connected_components(graph[rows][:, rows], connection="strong")[1]
        shares.append(np.bincount(parts).max() / len(rows))
    return float(np.mean(shares))


def _mean_of_labels(values: Array, label: Array) -> float:
    codes = np.unique(label, return_inverse=True)[1]
    return float(np.mean(np.bincount(codes, values) / np.bincount(codes)))
