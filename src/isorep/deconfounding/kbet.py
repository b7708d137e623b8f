"""kBET, silhouettes and predictability of batches: how separable batches are in a space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, silhouette_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..representation import Array
from ..similarity.neighbours import nearest

MOST_ROWS, MOST_BATCHES = 5000, 20
_LEAST_ROWS = 10  # of a batch: fewer can be neither learnt nor found in a neighbourhood
_NEIGHBOURS = (10, 100)
_LEVEL = 0.05


@dataclass(frozen=True)
class Mixing:
    """Batch structure on a sample of rows.

    Attributes
    ----------
    batch_auroc, batch_accuracy : float
        AUROC and accuracy of a linear classifier of the batch, trained on every other row; chance is 0.5 and
        ``batch_chance``.
    batch_chance : float
        The share of the largest batch.
    batch_silhouette, label_silhouette : float
        Silhouettes from -1 to 1; high where rows of a batch, or of a class, are separated from the others.
    accepted : float
        The share of neighbourhoods whose batch proportions a chi-square test accepts (kBET): 0.95 if mixed.
    rows, batches : int
        The size of the sample.
    """

    batch_auroc: float
    batch_accuracy: float
    batch_chance: float
    batch_silhouette: float
    label_silhouette: float
    accepted: float
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


def mixing(values: Array, batch: Array, positive: Array) -> Mixing:
    """All measures for the sampled rows; batches are recoded from 0."""
    codes = np.unique(batch, return_inverse=True)[1]
    auroc, accuracy = _predictability(values, codes)
    both = len(np.unique(positive)) == 2
    return Mixing(
        batch_auroc=auroc,
        batch_accuracy=accuracy,
        batch_chance=float(np.bincount(codes).max() / len(codes)),
        batch_silhouette=float(silhouette_score(values, codes)),
        label_silhouette=float(silhouette_score(values, positive)) if both else float("nan"),
        accepted=accepted_share(values, codes),
        rows=len(codes),
        batches=int(codes.max()) + 1,
    )


def accepted_share(values: Array, codes: Array) -> float:
    r"""The share of rows whose nearest neighbours hold batches in the proportions of all rows (after kBET).

    :math:`\chi^2=\sum_b(o_b-kp_b)^2/(kp_b)` against its distribution with one degree of freedom less than batches.
    """
    n = len(codes)
    expected = np.bincount(codes) / n
    k = min(int(np.clip(n * expected.mean(), *_NEIGHBOURS)), n - 1)
    near = codes[nearest(values, values, k, metric="euclidean", itself=False)]
    observed = np.stack([(near == code).sum(axis=1) for code in range(len(expected))], axis=1)
    statistic = ((observed - k * expected) ** 2 / (k * expected)).sum(axis=1)
    return float(np.mean(stats.chi2.sf(statistic, len(expected) - 1) > _LEVEL))


def _predictability(values: Array, codes: Array) -> tuple[float, float]:
    """AUROC (each batch against the others, on average) and accuracy on every second row of each batch."""
    order = np.argsort(codes, kind="stable")
    train, test = np.sort(order[::2]), np.sort(order[1::2])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(values[train], codes[train])
    chances = model.predict_proba(values[test])
    accuracy = float(np.mean(model.classes_[chances.argmax(axis=1)] == codes[test]))
    scores = chances[:, 1] if chances.shape[1] == 2 else chances
    return float(roc_auc_score(codes[test], scores, multi_class="ovr")), accuracy
