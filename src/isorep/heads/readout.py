"""Log-probabilities of two models in blocks of rows, from features and heads or from logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix
from ..rows import read_rows, refuse_non_finite
from .inputs import Head


@dataclass(frozen=True, eq=False)
class Readout:
    """A model's logits: features times a head with its biases, or stored as they are."""

    values: Matrix
    head: Array | None
    bias: Array | None
    name: str

    @classmethod
    def of_features(cls, features: Matrix, head: Head) -> Readout:
        """Logits that a head reads from features."""
        rows = head.rows()
        # One vector added to every class changes no probability; without it large offsets cost no digits.
        return cls(features, rows - rows.mean(axis=0), head.bias, head.name)

    @property
    def classes(self) -> int:
        """How many classes."""
        return int(self.values.shape[1] if self.head is None else self.head.shape[0])

    def log_probabilities(self, rows: slice) -> Array:
        """The (rows, classes) logarithms of the softmax, in float64."""
        logits = np.asarray(read_rows(self.values, rows), dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused with its place
            if self.head is not None:
                logits = logits @ self.head.T
            if self.bias is not None:
                logits = logits + self.bias
            logits = logits - logits.max(axis=1, keepdims=True)
        if not np.isfinite(logits).all():
            refuse_non_finite(self.values, self.name)
            raise InputError(f"{self.name} gives logits so large that they leave float64: rescale it")
        with np.errstate(under="ignore"):
            return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class RowFigures:
    """What one pass says about each row: both divergences, total variation, agreement, the spread over classes."""

    kl: Array
    kl_reverse: Array
    total_variation: Array
    agreement: Array
    over_classes: Array

    @classmethod
    def empty(cls, n: int) -> RowFigures:
        """Room for ``n`` rows."""
        return cls(*(np.empty(n) for _ in range(5)))

    def fill(self, rows: slice, p: Array, q: Array) -> None:
        """Put in the figures of some rows, from log-probabilities."""
        apart = p - q
        with np.errstate(under="ignore"):
            first, second = np.exp(p), np.exp(q)
            self.kl[rows] = np.maximum(np.einsum("ij,ij->i", first, apart), 0.0)
            self.kl_reverse[rows] = np.maximum(-np.einsum("ij,ij->i", second, apart), 0.0)
            self.total_variation[rows] = np.abs(first - second).sum(axis=1) / 2
        self.agreement[rows] = p.argmax(axis=1) == q.argmax(axis=1)
        self.over_classes[rows] = apart.std(axis=1)


class LogOdds:
    r"""Sums over rows, unit by unit and class by class, of log-odds :math:`\psi,\psi'` and of their difference.

    From them follow, for any of the units left out, :math:`\operatorname{std}_x[\psi_y-\psi'_y]` and the
    correlation of :math:`\psi_y` with :math:`\psi'_y`. Sums are taken about the mean of the first block, so that they
    do not cancel.
    """

    def __init__(self, units: int, classes: int) -> None:
        self.counts = np.zeros(units)
        self.sums = np.zeros((units, 7, classes))
        self._about: Array | None = None

    def absorb(self, psi: Array, other: Array, units: Array) -> None:
        """Add rows with the unit of each."""
        if self._about is None:
            self._about = np.stack([psi.mean(axis=0), other.mean(axis=0), (psi - other).mean(axis=0)])
        order = np.argsort(units, kind="stable")
        here, starts, counts = np.unique(units[order], return_index=True, return_counts=True)
        self.counts[here] += counts
        a, b = psi - self._about[0], other - self._about[1]
        d = psi - other - self._about[2]
        for place, values in enumerate((a, b, d, a * a, b * b, d * d, a * b)):
            self.sums[here, place] += np.add.reduceat(values[order], starts, axis=0)

    def figures(self, counts: Array) -> tuple[Array, Array, Array]:
        """The standard deviation and mean of the difference, and the standardised distance, class by class.

        ``counts`` says how often each unit is taken.
        """
        n = float(counts @ self.counts)
        a, b, d, aa, bb, dd, ab = (counts @ self.sums.reshape(len(counts), -1)).reshape(7, -1) / n
        spread = np.sqrt(np.maximum(dd - d**2, 0.0))
        about = np.zeros_like(d) if self._about is None else self._about[2]
        va, vb = np.maximum(aa - a**2, 0.0), np.maximum(bb - b**2, 0.0)
        scale = np.sqrt(va * vb)
        rho = np.divide(ab - a * b, scale, out=np.where((va > 0) == (vb > 0), 1.0, 0.0), where=scale > 0)
        return spread, d + about, np.sqrt(np.maximum(2 - 2 * np.clip(rho, -1, 1), 0.0))
