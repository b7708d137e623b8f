"""What all aligners share: checking, applying, inverting and scoring an affine map from source to target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from ..errors import InputError
from ..moments import Moments
from ..representation import Array, Representation, as_representation, match_rows
from ..rows import refuse_non_finite
from .base import AffineMap


class Aligner(TransformerMixin, BaseEstimator, ABC):
    """Base of the aligners; a subclass says how its map follows from the moments.

    ``fit(X, y)`` maps the rows of ``X`` (source) onto the rows of ``y`` (target); ``fit_moments`` does the same
    from their :class:`~isorep.Moments`. Different widths are handled by padding the narrower side with zeros.
    """

    map_: AffineMap

    def fit(self, X: Any, y: Any) -> Self:
        """Fit from paired rows."""
        source, target = paired_arrays(X, y)
        return self._fit_rows(source, target)

    @abstractmethod
    def fit_moments(self, moments: Moments) -> Self:
        """Fit from the moments of paired rows."""

    def transform(self, X: Any) -> Array:
        """Map rows of the source into the target's space."""
        fitted = self._fitted()
        x = as_representation(X, "X").values[:]
        if x.shape[1] != len(fitted.source_mean):
            raise InputError(f"X has {x.shape[1]} columns and the aligner was fitted with {len(fitted.source_mean)}")
        return fitted.apply(x)[:, : fitted.target_width]

    def inverse_transform(self, y: Any) -> Array:
        """Map rows of the target back into the source's space.

        Exact where the map is invertible: not when the source is wider than the target, nor for a linear map
        of deficient rank, where the least-squares inverse is taken.
        """
        fitted = self._fitted()
        target = np.asarray(as_representation(y, "y").values[:], dtype=np.float64)
        if target.shape[1] != fitted.target_width:
            raise InputError(f"y has {target.shape[1]} columns and the aligner was fitted with {fitted.target_width}")
        centred = np.zeros((len(target), fitted.matrix.shape[1]))
        centred[:, : fitted.target_width] = target - fitted.target_mean
        return np.asarray(centred @ np.linalg.pinv(fitted.matrix) + fitted.source_mean)

    def residuals(self, X: Any, y: Any) -> Array:
        """The distance of each mapped row from its target, padded columns included."""
        source, target = paired_arrays(X, y)
        return self._fitted().residual_norms(source, target)

    def score(self, X: Any, y: Any) -> float:
        """The share of the target's variance that the map explains: 1 is exact, 0 no better than the mean."""
        source, target = paired_arrays(X, y)
        errors = self._fitted().residual_norms(source, target)
        spread = float(((target - target.mean(axis=0)) ** 2).sum())
        return 1.0 - float(errors @ errors) / spread if spread > 0 else float("nan")

    def _fit_rows(self, x: Array, y: Array) -> Self:
        return self.fit_moments(Moments.from_rows(x, y))

    def _fitted(self) -> AffineMap:
        if not hasattr(self, "map_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(X, y) first")
        return self.map_


def paired_arrays(x: Any, y: Any) -> tuple[Array, Array]:
    """Two arrays whose rows belong together, checked."""
    source, target = as_representation(x, "X"), as_representation(y, "y")
    match_rows(source, target)
    return _finite(source), _finite(target)


def _finite(data: Representation) -> Array:
    values = np.asarray(data.values[:])
    if not np.isfinite(values).all():
        refuse_non_finite(values, data.name or "the representation")
    return values
