r"""Confidence: the cosine between a translated vector and its native one, predicted without the native one.

The features are the logarithms of the output's length before it is set, of the whitened norm of the old vector and of
its distance from the training mean; for ``mlp`` also the cosine between the affine part and the whole output. Cosines
are regressed on these features and their squares, on test rows, which the map was not fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..representation import Array
from ..results import Record
from .drift import Reference
from .maps import FittedMap

LEAST_ROWS = 60  # of a test fold that a confidence is fitted to
_BINS = 10
_RIDGE = 1e-3
_FARTHEST = 4.0  # standard deviations at which a feature is cut off: no prediction follows a parabola out of the data
_TELLS = 0.1  # correlation from which on the confidence separates vectors


@dataclass(frozen=True, eq=False)
class Confidence(Record):
    """A regression of cosines: ``centre`` and ``scale`` of each feature, ``weights``, and the range of predictions."""

    centre: Array
    scale: Array
    weights: Array
    low: float
    high: float

    def predict(self, features: Array) -> Array:
        """The predicted cosine of each row."""
        return np.asarray(np.clip(_design(features, self.centre, self.scale) @ self.weights, self.low, self.high))


@dataclass(frozen=True)
class Calibration:
    """How predicted cosines compare with those of held-out rows, by tenths of the rows from the least confident on.

    Each half of the test fold is predicted from the other half. ``correlation`` is Spearman's.
    """

    rows: int
    correlation: float
    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def tells(self) -> bool:
        """Whether the confidence separates vectors at all."""
        return bool(self.correlation >= max(_TELLS, 3 / np.sqrt(self.rows)))


def features_of(fitted: FittedMap, reference: Reference, old: Array) -> Array:
    """The features of some rows, in float64."""
    least = np.finfo(float).tiny
    raw = fitted.raw(old)
    length = np.linalg.norm(raw, axis=1)
    columns = [np.log(np.maximum(each, least)) for each in (length, reference.norms(old), reference.distances(old))]
    if fitted.hidden is not None:
        affine = (old - fitted.old_mean) @ fitted.matrix + fitted.new_mean
        columns.append(cosines(affine, raw))
    return np.stack(columns, axis=1)


def fit_confidence(features: Array, measured: Array, blocks: Array) -> tuple[Confidence, Calibration] | None:
    """The regression on all rows, and its check between halves; None for too few rows.

    ``blocks`` holds a number per row; rows with one number lie in the same half.
    """
    if len(measured) < LEAST_ROWS or len(np.unique(blocks)) < 2:
        return None
    half = blocks % 2 == 0
    if min(half.sum(), (~half).sum()) < LEAST_ROWS // 3:
        return None
    predicted = np.empty(len(measured))
    for part in (half, ~half):
        predicted[part] = _fitted(features[~part], measured[~part]).predict(features[part])
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, _BINS)
    calibration = Calibration(
        rows=len(measured),
        correlation=_rank_correlation(predicted, measured),
        predicted=tuple(float(predicted[part].mean()) for part in parts),
        measured=tuple(float(measured[part].mean()) for part in parts),
    )
    return _fitted(features, measured), calibration


def cosines(mapped: Array, native: Array) -> Array:
    """Cosines between rows; 0 where one has no length."""
    lengths = np.linalg.norm(mapped, axis=1) * np.linalg.norm(native, axis=1)
    overlap = np.einsum("ij,ij->i", mapped, native)
    return np.asarray(np.divide(overlap, lengths, out=np.zeros_like(overlap), where=lengths > 0))


def _fitted(features: Array, measured: Array) -> Confidence:
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9 * np.maximum(np.abs(centre), 1), scale, 1.0)
    design = _design(features, centre, scale)
    penalty = _RIDGE * len(design) * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ measured)
    return Confidence(centre, scale, weights, float(measured.min()), float(measured.max()))


def _design(features: Array, centre: Array, scale: Array) -> Array:
    standard = np.clip((features - centre) / scale, -_FARTHEST, _FARTHEST)
    return np.concatenate([np.ones((len(features), 1)), standard, standard**2], axis=1)


def _rank_correlation(a: Array, b: Array) -> float:
    from scipy.stats import rankdata

    first, second = (each - each.mean() for each in (rankdata(a), rankdata(b)))
    spread = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / spread if spread > 0 else 0.0
