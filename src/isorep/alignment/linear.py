"""Linear map: least squares with an intercept."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..covariance import resolve_source
from ..moments import Moments
from ..representation import Array, rounding_of
from .aligner import Aligner
from .base import AffineMap, solve_linear


class Linear(Aligner):
    r"""Least squares with an intercept and no ridge.

    .. math:: \min_{A,\,b}\|Y-XA-\mathbf 1b^\top\|_F

    Solved from second moments. Where the source's condition number makes normal equations unsafe, ``fit`` makes a
    second, preconditioned pass over the rows; where the rows do not determine the map, the minimum-norm map is used.
    Columns of any scale count if they vary by more than their rounding, because a linear map can rescale them.

    Attributes
    ----------
    coef_ : (d_x, d_y) array
        :math:`A`; rows are mapped as ``X @ coef_ + intercept_``.
    intercept_ : (d_y,) array
    rank_ : int
        Numerical rank of the source, independent of the scale of its columns.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> A = [[1.0, 2.0], [3.0, 1.0]]
    >>> isorep.Linear().fit(X, X @ A + 3).coef_.round(6)
    array([[1., 2.],
           [3., 1.]])
    """

    def fit_moments(self, moments: Moments) -> Self:
        """Least squares from the moments alone, which resolve directions down to 1e-6 of the largest."""
        return self._with_map(moments, *solve_linear(moments, float(np.finfo(np.float64).eps)))

    def _fit_rows(self, x: Array, y: Array) -> Self:
        moments = Moments.from_rows(x, y)
        _, second = resolve_source(moments, x, y, np.zeros(len(x), dtype=np.intp), 1)
        if second is None:
            return self._with_map(moments, *solve_linear(moments, rounding_of(x)))
        return self._with_map(moments, *solve_linear(second.folds[0], rounding_of(x), second.by))

    def _with_map(self, moments: Moments, matrix: Array, rank: int) -> Self:
        self.coef_ = matrix
        self.intercept_ = moments.target_mean - moments.source_mean @ matrix
        self.rank_ = rank
        self.map_ = AffineMap(matrix, moments.source_mean, moments.target_mean)
        return self
