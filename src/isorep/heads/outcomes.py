"""Outcomes of a head, row by row: logits from features, and divergences of two models' distributions by family.

Softmax and contrastive heads give one of K outcomes, Bernoulli heads K independent labels, Gaussian ones K numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from ..errors import InputError
from ..representation import Array, Matrix
from ..rows import read_rows, refuse_non_finite
from .families import Family
from .inputs import Head, checked_vector

ROW_QUANTITIES = {"kl": np.inf, "kl_reverse": np.inf, "total_variation": 1.0, "agreement": 1.0}
"""The quantities of each row, and their largest possible values."""


@dataclass(frozen=True, eq=False)
class Readout:
    """A model's logits: features times a head with its biases, or stored as they are."""

    values: Matrix
    head: Array | None
    bias: Array | None
    name: str

    @classmethod
    def of(cls, values: Matrix, head: Head | None, name: str, family: Family) -> Readout:
        """Logits as they are, or those that a head reads from features."""
        if head is None:
            return cls(values, None, None, name)
        head.require_width(values, name)
        rows = head.rows()
        if family.centred:
            # One vector added to every class changes no probability; without it large offsets cost no digits.
            rows = rows - rows.mean(axis=0)
        return cls(values, rows, head.bias, head.name)

    @property
    def classes(self) -> int:
        """How many classes."""
        return int(self.values.shape[1] if self.head is None else self.head.shape[0])

    def logits(self, rows: slice) -> Array:
        """The (rows, classes) logits or means, in float64."""
        logits = np.asarray(read_rows(self.values, rows), dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused with its place
            if self.head is not None:
                logits = logits @ self.head.T
            if self.bias is not None:
                logits = logits + self.bias
        if not np.isfinite(logits).all():
            refuse_non_finite(self.values, self.name)
            raise InputError(f"{self.name} gives logits so large that they leave float64: rescale it")
        return logits


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How the outcomes of a family are compared: the class of log-odds, and one over the noise of each output."""

    family: Family
    reference: int | None
    roots: Array

    def compared(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """The figures of each row, and the log-odds, logits or means of both models."""
        if self.family.name == "gaussian":
            a, b = a * self.roots, b * self.roots
            return _gaussian_figures(a, b), a, b
        if not self.family.centred:
            return _label_figures(a, b), a, b
        p, q = _log_softmax(a), _log_softmax(b)
        figures = _row_figures(p, q)
        for each in (p, q):
            each -= each.mean(axis=1, keepdims=True) if self.reference is None else each[:, [self.reference]].copy()
        return figures, p, q


def noise_roots(precisions: Any, outputs: int) -> Array:
    """One over the standard deviation of each output's noise."""
    given = checked_vector(precisions, outputs, "precisions")
    if given is None:
        return np.ones(outputs)
    if (given < 0).any() or not given.any():
        raise InputError(
            f"the precision of output {int(np.argmin(given))} is {given.min():g}: give some above 0, and none below"
        )
    return np.asarray(np.sqrt(given))


def _log_softmax(logits: Array) -> Array:
    logits = logits - logits.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def _row_figures(p: Array, q: Array) -> Array:
    """Quantities of each row in their order, and the spread of the difference over classes; from logarithms."""
    apart = p - q
    with np.errstate(under="ignore"):
        first, second = np.exp(p), np.exp(q)
        kl, reverse = (np.einsum("ij,ij->i", *each) for each in ((first, apart), (second, -apart)))
        variation = np.abs(first - second).sum(axis=1) / 2
    agree = p.argmax(axis=1) == q.argmax(axis=1)
    return np.stack([np.maximum(kl, 0.0), np.maximum(reverse, 0.0), variation, agree, apart.std(axis=1)])


def _label_figures(a: Array, b: Array) -> Array:
    """Those of independent labels with these logits: divergences are sums over labels, the others means."""
    with np.errstate(under="ignore"):
        first, second = special.expit(a), special.expit(b)
        # log sigma(-t) = -log(1 + exp(t)): KL of one label is p (a - b) - softplus(a) + softplus(b).
        soft = np.logaddexp(0.0, a) - np.logaddexp(0.0, b)
        kl, reverse = (first * (a - b) - soft).sum(axis=1), (second * (b - a) + soft).sum(axis=1)
    agree = ((a > 0) == (b > 0)).mean(axis=1)
    variation = np.abs(first - second).mean(axis=1)
    root = np.sqrt(np.mean((a - b) ** 2, axis=1))
    return np.stack([np.maximum(kl, 0.0), np.maximum(reverse, 0.0), variation, agree, root])


def _gaussian_figures(a: Array, b: Array) -> Array:
    """Those of two Gaussians with these means and unit noise: both divergences are half the squared distance."""
    squares = np.sum((a - b) ** 2, axis=1)
    variation = special.erf(np.sqrt(squares / 8))  # 2 Phi(distance / 2) - 1
    return np.stack([squares / 2, squares / 2, variation, np.zeros(len(a)), np.sqrt(squares / a.shape[1])])
