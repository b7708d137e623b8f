"""Affine maps and the base of all aligners: a map is checked, applied, inverted and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from ..errors import InputError
from ..moments import Moments
from ..representation import Array, Representation, as_representation, match_rows
from ..rows import refuse_non_finite


@dataclass(frozen=True, eq=False)
class AffineMap:
    r"""The map :math:`x\mapsto s\,(x-\mu_x)M+\mu_y`, with ``linear`` :math:`M` of shape (d_x, d_out).

    ``d_out`` exceeds the target's width ``d_y`` when the wider source was matched against a zero-padded target:
    the columns beyond ``d_y`` then ought to be zero, and what they hold counts as error. ``orthogonal`` says that
    :math:`M` is (the upper part of) an orthogonal matrix.
    """

    linear: Array
    source_mean: Array
    target_mean: Array
    scale: float = 1.0
    orthogonal: bool = False

    @property
    def matrix(self) -> Array:
        """The linear part with its scale."""
        return np.asarray(self.scale * self.linear)

    @property
    def target_width(self) -> int:
        """The number of columns of the target."""
        return len(self.target_mean)

    def apply(self, x: Array) -> Array:
        """Map rows into the target's space, padded columns included."""
        mapped: Array = (np.asarray(x, dtype=np.float64) - self.source_mean) @ self.matrix
        mapped[:, : self.target_width] += self.target_mean
        return mapped

    def residual_norms(self, x: Array, y: Array) -> Array:
        """The distance of each mapped row from its target."""
        error = self.apply(x)
        error[:, : self.target_width] -= y
        return np.asarray(np.linalg.norm(error, axis=1))

    def squared_errors(self, rows: Moments) -> Array:
        """Summed squared errors of each target dimension over some rows, from their moments."""
        matrix = self.matrix[:, : self.target_width]
        shift = (rows.target_mean - self.target_mean) - (rows.source_mean - self.source_mean) @ matrix
        return column_errors(matrix, shift, rows.n, rows.xx, rows.xy, np.diagonal(rows.yy))

    def squared_error(self, rows: Moments) -> float:
        """The summed squared error over some rows, padded columns included, from their moments.

        An orthogonal map keeps the norm of the source, so that no product of matrices is needed.
        """
        if not self.orthogonal:
            return float(self.squared_errors(rows).sum())
        overlap = float(np.einsum("ij,ij->", self.linear[:, : self.target_width], rows.xy))
        around = np.trace(rows.yy) - 2 * self.scale * overlap + self.scale**2 * np.trace(rows.xx)
        shift = -self.scale * ((rows.source_mean - self.source_mean) @ self.linear)
        shift[: self.target_width] += rows.target_mean - self.target_mean
        return max(float(around), 0.0) + rows.n * float(shift @ shift)


def column_errors(matrix: Array, shift: Array, n: int, xx: Array, xy: Array, yy: Array) -> Array:
    r"""Summed squared errors of each target column under a linear map, from co-moments of ``n`` rows.

    .. math:: \sum_i(y_{ij}-x_i^\top m_j)^2=Y_{jj}-2m_j^\top C_{\cdot j}+m_j^\top Xm_j+n\,s_j^2

    with ``yy`` the diagonal of :math:`Y` and ``shift`` the error :math:`s` at the rows' mean.
    """
    around = yy + np.einsum("ij,ij->j", matrix, xx @ matrix) - 2 * np.einsum("ij,ij->j", matrix, xy)
    return np.asarray(np.maximum(around, 0) + n * shift**2)


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


def padded(cross: Array) -> Array:
    """A matrix with zero rows or columns besides: a square one."""
    d_x, d_y = cross.shape
    width = max(d_x, d_y)
    return cross if d_x == d_y else np.pad(cross, ((0, width - d_x), (0, width - d_y)))


def fitted_scale(wanted: bool, overlap: float, sums: Array) -> float:
    """The least-squares scale of a mapped source: its overlap with the target over its own sum of squares."""
    if not wanted:
        return 1.0
    squares = float(np.trace(sums))
    return overlap / squares if squares > 0 else 0.0


def _finite(data: Representation) -> Array:
    values = np.asarray(data.values[:])
    if not np.isfinite(values).all():
        refuse_non_finite(values, data.name or "the representation")
    return values


@dataclass(frozen=True)
class Error:
    """Residual norms of one fit: lower is closer."""

    mean: float
    rms: float
    sup: float
    quantiles: dict[str, float]

    def times(self, unit: float) -> Error:
        """The same in other units."""
        quantiles = {level: value * unit for level, value in self.quantiles.items()}
        return Error(self.mean * unit, self.rms * unit, self.sup * unit, quantiles)


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def summarise(residuals: Array, unit: float) -> Error:
    """Mean, RMS, maximum and quantiles of residual norms, in units of ``unit``."""
    scaled = residuals / unit
    levels = np.quantile(scaled, QUANTILES)
    return Error(
        mean=float(scaled.mean()),
        rms=float(np.sqrt(np.mean(scaled**2))),
        sup=float(scaled.max()),
        quantiles={f"{q:g}": float(level) for q, level in zip(QUANTILES, levels, strict=True)},
    )
