r"""Explicitness (Ridgeway and Mozer 2018): can every label of a factor be told linearly from all latents?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..representation import Array
from .columns import Columns
from .logistic import Logistic
from .pairs import Pair
from .scaling import moments_of
from .splits import ROWS, Given, split_pair


@dataclass(frozen=True, eq=False)
class Explicitness:
    """The result of :func:`explicitness`: the mean AUROC over factors on unseen rows, 0.5 by chance."""

    value: float
    train: float
    factors: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def explicitness(
    factors: Any,
    latents: Any,
    *,
    test: Any = None,
    rows: int | None = ROWS,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> Explicitness:
    """Mean area under the ROC curve of a logistic regression from all latents, over labels and factors.

    Latents are standardised and the regression has scikit-learn's default penalty. A continuous factor stands with two
    labels, above its median or not. Constant factors are left out, and labels that are missing among the judged rows.

    Parameters
    ----------
    factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state
        As for :func:`dci`.

    References
    ----------
    .. [1] Ridgeway, K., Mozer, M. C. (2018). Learning deep disentangled embeddings with the F-statistic loss. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).integers(2, size=(300, 2))
    >>> isorep.structure.explicitness(s, s[:, ::-1]).value
    1.0
    """
    given = Given(factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state)
    return measure_explicitness(*split_pair(given))


def measure_explicitness(train: Pair, test: Pair) -> Explicitness:
    """Explicitness of columns that were checked and split."""
    x, other = _standard(train.latents, train.latents), _standard(test.latents, train.latents)
    seen, unseen = {}, {}
    for factor, judged in zip(train.factors, test.factors, strict=True):
        if factor.constant:
            continue
        cut = None if factor.discrete else float(np.median(factor.values))
        labels = factor.values if cut is None else (factor.values > cut).astype(float)
        theirs = judged.values if cut is None else (judged.values > cut).astype(float)
        model = Logistic(strength=1.0).fit(x, labels)
        seen[factor.name] = _auroc(model.log_probabilities(x), labels, model.classes)
        unseen[factor.name] = _auroc(model.log_probabilities(other), theirs, model.classes)
    return Explicitness(_mean(unseen), _mean(seen), unseen)


def _standard(latents: Columns, by: Columns) -> Array:
    mean, spread = moments_of(by.matrix)
    return np.asarray((latents.matrix - mean) / spread)


def _auroc(scores: Array, labels: Array, classes: Array) -> float:
    """Mean over labels of the chance that a row with it scores above one without; 0.5 where none can be judged."""
    found = []
    for column, label in zip(scores.T, classes, strict=True):
        mine = labels == label
        count = int(mine.sum())
        if 0 < count < len(labels):
            above = rankdata(column)[mine].sum() - count * (count + 1) / 2
            found.append(above / (count * (len(labels) - count)))
    return float(np.mean(found)) if found else 0.5


def _mean(values: dict[str, float]) -> float:
    return float(np.mean(list(values.values()))) if values else 0.5
