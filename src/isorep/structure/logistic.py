"""Multinomial logistic regression by L-BFGS: without a penalty as InfoE asks for, or with one."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from ..representation import Array
from .columns import Columns
from .scaling import moments_of

_ITERATIONS = 1000
_NOTHING_LEFT = 1e-6  # nats: classes that can be told apart without error have no finite optimum


def design(latents: Columns, statistics: Columns | None = None) -> Any:
    """Latents as regressors: continuous ones standardised (by ``statistics``), discrete ones a column for each value.

    Sparse where discrete latents have many values.
    """
    by = latents if statistics is None else statistics
    parts: list[Any] = []
    for column, other in zip(latents, by, strict=True):
        if column.discrete:
            known = np.unique(other.values)
            parts.append(sparse.csr_matrix((column.values[:, None] == known[None, :]).astype(np.float64)))
        else:
            mean, spread = moments_of(other.values[:, None])
            parts.append((column.values[:, None] - mean) / spread)
    if not any(column.discrete for column in latents):
        return np.hstack(parts)
    if sum(part.shape[1] for part in parts) <= 64:
        return np.hstack([part if isinstance(part, np.ndarray) else part.toarray() for part in parts])
    return sparse.csr_matrix(sparse.hstack(parts))


class Logistic:
    """Class probabilities from regressors; ``strength`` is the weight of a squared penalty, as 1/C in scikit-learn."""

    def __init__(self, *, strength: float = 0.0, balanced: bool = False, tolerance: float = 1e-5) -> None:
        self.strength, self.balanced, self.tolerance = strength, balanced, tolerance

    def fit(self, x: Any, codes: Array, start: Array | None = None) -> Logistic:
        """Minimise the mean log-loss, with balanced classes weighted to count alike."""
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
        found = minimize(
            loss,
            begin.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "gtol": self.tolerance, "ftol": 1e-10},
        )
        self.theta = found.x.reshape(columns + 1, k)
        return self

    def log_probabilities(self, x: Any) -> Array:
        """For each row and class."""
        scores = x @ self.theta[:-1] + self.theta[-1]
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))
