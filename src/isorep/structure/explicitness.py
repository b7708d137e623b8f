r"""Explicitness (Ridgeway and Mozer 2018): linear separability of every label of a factor, from all latents.

Multinomial logistic regression by L-BFGS: without a penalty, for InfoE, or with one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import rankdata

from ..representation import Array
from ..results import Record
from .columns import Columns, Pair, mean_of, standardised
from .splits import ROWS, split_pair


@dataclass(frozen=True, eq=False)
class Explicitness(Record):
    """The result of :func:`explicitness`: the mean AUROC over factors on unseen rows, 0.5 by chance."""

    value: float
    train: float
    factors: dict[str, float]


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

    Latents are standardised and the regression has scikit-learn's default penalty. A continuous factor is split into
    two labels at its median. Constant factors are left out, as are labels that are missing among the test rows.

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
    given = (factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state)
    return measure_explicitness(*split_pair(*given))


def measure_explicitness(train: Pair, test: Pair) -> Explicitness:
    """Explicitness of columns that were checked and split."""
    x, other = (standardised(each.latents.matrix, train.latents.matrix) for each in (train, test))
    seen, unseen = {}, {}
    for factor, judged in zip(train.factors, test.factors, strict=True):
        if factor.constant:
            continue
        cut = None if factor.discrete else float(np.median(factor.values))
        both = (factor.values, judged.values)
        labels, theirs = both if cut is None else ((values > cut).astype(float) for values in both)
        model = Logistic(strength=1.0).fit(x, labels)
        seen[factor.name] = _auroc(model.log_probabilities(x), labels, model.classes)
        unseen[factor.name] = _auroc(model.log_probabilities(other), theirs, model.classes)
    return Explicitness(mean_of(unseen, 0.5), mean_of(seen, 0.5), unseen)


def _auroc(scores: Array, labels: Array, classes: Array) -> float:
    """Mean over labels of the probability that a row with it scores above one without; 0.5 where undefined."""
    areas = []
    for column, label in zip(scores.T, classes, strict=True):
        mine = labels == label
        count = int(mine.sum())
        if 0 < count < len(labels):
            above = rankdata(column)[mine].sum() - count * (count + 1) / 2
            areas.append(above / (count * (len(labels) - count)))
    return float(np.mean(areas)) if areas else 0.5


_ITERATIONS = 1000
_NOTHING_LEFT = 1e-6  # nats: classes that can be separated without error have no finite optimum


def design(latents: Columns) -> Any:
    """Latents as regressors: continuous ones standardised, discrete ones a column for each value.

    Sparse where discrete latents have many values.
    """
    parts: list[Any] = []
    for column in latents:
        if column.discrete:
            indicators = column.values[:, None] == np.unique(column.values)
            parts.append(sparse.csr_matrix(indicators.astype(np.float64)))
        else:
            parts.append(standardised(column.values[:, None]))
    if sum(part.shape[1] for part in parts) > 64 and any(column.discrete for column in latents):
        return sparse.csr_matrix(sparse.hstack(parts))
    return np.hstack([part if isinstance(part, np.ndarray) else part.toarray() for part in parts])


class Logistic:
    """Class probabilities from regressors; ``strength`` is the weight of a squared penalty, as 1/C in scikit-learn."""

    def __init__(self, *, strength: float = 0.0, balanced: bool = False, tolerance: float = 1e-5) -> None:
        self.strength, self.balanced, self.tolerance = strength, balanced, tolerance

    def fit(self, x: Any, codes: Array, start: Array | None = None) -> Logistic:
        """Minimise the mean log-loss, with equal total weight per class if ``balanced``."""
        self.classes, labels = np.unique(codes, return_inverse=True)
        n, k = x.shape[0], len(self.classes)
        counts = np.bincount(labels)
        weights = (n / (k * counts))[labels] / n if self.balanced else np.full(n, 1 / n)
        rows, columns = np.arange(n), x.shape[1]
        penalty = self.strength / n

        def loss(flat: Array) -> tuple[float, Array]:
            theta = flat.reshape(columns + 1, k)
            scores = x @ theta[:-1] + theta[-1]
            scores -= scores.max(axis=1, keepdims=True)
            own = scores[rows, labels]
            residual = np.exp(scores, out=scores)
            total = residual.sum(axis=1)
            value = float(weights @ (np.log(total) - own))
            residual /= total[:, None]
            residual[rows, labels] -= 1
            residual *= weights[:, None]
            gradient = np.vstack([x.T @ residual, residual.sum(axis=0)])
            if penalty:
                value += 0.5 * penalty * float(np.sum(theta[:-1] ** 2))
                gradient[:-1] += penalty * theta[:-1]
            if value < _NOTHING_LEFT:
                gradient = np.zeros_like(gradient)
            return value, gradient.ravel()

        shape = (columns + 1, k)
        begin = np.zeros(shape) if start is None or start.shape != shape else start
        optimum = minimize(
            loss,
            begin.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "gtol": self.tolerance, "ftol": 1e-10},
        )
        self.theta = optimum.x.reshape(columns + 1, k)
        return self

    def log_probabilities(self, x: Any) -> Array:
        """For each row and class."""
        scores = x @ self.theta[:-1] + self.theta[-1]
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))
