"""Base class of the aligners: checks, applies, inverts and scores an affine map from source to target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from ..chunked import ChunkedRows, pass_over
from ..errors import InputError
from ..moments import Moments
from ..representation import Array, Matrix, Representation, as_representation, match_rows
from ..rows import block_rows, in_chunks, map_rows, refuse_non_finite
from .base import AffineMap


class Aligner(TransformerMixin, BaseEstimator, ABC):
    """Base class of the aligners; a subclass computes its map from the moments.

    ``fit(X, y)`` maps the rows of ``X`` (source) onto the rows of ``y`` (target); ``fit_moments`` does the same
    from their :class:`~isorep.Moments`. If widths differ, the narrower side is padded with zeros. For Dask arrays, the
    workers sum the moments and score rows, and ``transform`` returns a Dask array.
    """

    map_: AffineMap

    def fit(self, X: Any, y: Any) -> Self:
        """Fit from paired rows."""
        source, target = paired_arrays(X, y)
        try:
            return self._fit_rows(source, target)
        except InputError:
            _refuse_non_finite(source, target)
            raise

    @abstractmethod
    def fit_moments(self, moments: Moments) -> Self:
        """Fit from the moments of paired rows."""

    def transform(self, X: Any) -> Any:
        """Map rows of the source into the target's space."""
        fitted = self._fitted()
        x = as_representation(X, "X").values
        if x.shape[1] != len(fitted.source_mean):
            raise InputError(f"X has {x.shape[1]} columns and the aligner was fitted with {len(fitted.source_mean)}")
        return _by_rows(lambda rows: fitted.apply(rows)[:, : fitted.target_width], x, fitted.target_width)

    def inverse_transform(self, y: Any) -> Any:
        """Map rows of the target back into the source's space.

        Exact where the map is invertible. If the source is wider than the target, or for a linear map
        of deficient rank, the least-squares inverse is used.
        """
        fitted = self._fitted()
        target = as_representation(y, "y").values
        if target.shape[1] != fitted.target_width:
            raise InputError(f"y has {target.shape[1]} columns and the aligner was fitted with {fitted.target_width}")
        back = np.linalg.pinv(fitted.matrix)

        def mapped_back(rows: Array) -> Array:
            centred = np.zeros((len(rows), len(back)))
            centred[:, : fitted.target_width] = rows.astype(np.float64) - fitted.target_mean
            return np.asarray(centred @ back + fitted.source_mean)

        return _by_rows(mapped_back, target, len(fitted.source_mean))

    def residuals(self, X: Any, y: Any) -> Array:
        """The distance of each mapped row from its target, padded columns included."""
        source, target = paired_arrays(X, y)
        fitted = self._fitted()
        if in_chunks(source, target) is None:
            return fitted.residual_norms(source, target)
        size = block_rows(source.shape[1], target.shape[1])
        norms = np.concatenate(map_rows(lambda start, a, b: fitted.residual_norms(a, b), [source, target], size))
        if not np.isfinite(norms).all():
            _refuse_non_finite(source, target)
        return norms

    def score(self, X: Any, y: Any) -> float:
        """The share of the target's variance that the map explains: 1 is exact, 0 no better than the mean."""
        source, target = paired_arrays(X, y)
        fitted = self._fitted()
        away = in_chunks(source, target)
        if away is None:
            squares, spread = _squares(fitted.residual_norms(source, target), target)
        else:
            *_, (_, _, squares, spread) = pass_over(_SquaresOfChunk(fitted), away, merge=_merged_squares)
            if not np.isfinite(squares + spread):
                _refuse_non_finite(source, target)
        return 1.0 - squares / spread if spread > 0 else float("nan")

    def _fit_rows(self, x: Array, y: Array) -> Self:
        return self.fit_moments(Moments.from_rows(x, y))

    def _fitted(self) -> AffineMap:
        if not hasattr(self, "map_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(X, y) first")
        return self.map_


def _by_rows(function: Callable[[Array], Array], values: Matrix, width: int) -> Any:
    """A function applied to rows: an array, or a lazy Dask array."""
    if isinstance(values, ChunkedRows):
        return values.mapped(function, width, np.float64).array()
    return function(values[:])


def _squares(errors: Array, target: Array) -> tuple[float, float]:
    """Summed squares of errors, and of the target about its mean, in float64."""
    target = target.astype(np.float64)
    return float(errors @ errors), float(((target - target.mean(axis=0)) ** 2).sum())


class _SquaresOfChunk:
    """Number of rows of a chunk, their mean, and the sums of squares."""

    def __init__(self, fitted: AffineMap) -> None:
        self._fitted = fitted

    def __call__(self, start: int, source: Array, target: Array) -> tuple[None, tuple[int, Array, float, float]]:
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are reported at the end
            squares, spread = _squares(self._fitted.residual_norms(source, target), target)
            return None, (len(source), target.mean(axis=0, dtype=np.float64), squares, spread)


def _merged_squares(parts: list[tuple[int, Array, float, float]]) -> tuple[int, Array, float, float]:
    n, mean, squares, spread = parts[0]
    for rows, other, more, apart in parts[1:]:
        gap = other - mean
        spread += apart + float(gap @ gap) * n * rows / (n + rows)
        n, mean, squares = n + rows, mean + gap * (rows / (n + rows)), squares + more
    return n, mean, squares, spread


def _refuse_non_finite(source: Matrix, target: Matrix) -> None:
    for values, name in ((source, "X"), (target, "y")):
        refuse_non_finite(values, name)


def paired_arrays(x: Any, y: Any) -> tuple[Any, Any]:
    """Two arrays whose rows belong together, checked.

    Rows of Dask arrays stay in the workers; values that are not finite are found when the rows are used.
    """
    source, target = as_representation(x, "X"), as_representation(y, "y")
    match_rows(source, target)
    return _finite(source), _finite(target)


def _finite(data: Representation) -> Any:
    if isinstance(data.values, ChunkedRows):
        return data.values
    values = np.asarray(data.values[:])
    if not np.isfinite(values).all():
        refuse_non_finite(values, data.name or "the representation")
    return values
