"""Whitening from float64 moments, at the numerical rank of the data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import InputError
from ..moments import Moments
from ..representation import Array
from ..resolution import resolve_source


class Whitening(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Centre, rotate to principal axes and scale each to unit variance.

    .. math:: z=(x-\bar x)\,V\Lambda^{-1/2},\qquad \operatorname{Cov}(x)=V\Lambda V^\top

    The covariance is summed in float64 whatever the input's dtype, and only directions that rise above the rounding of
    that dtype are kept: constant and duplicate columns are a normal case.

    Parameters
    ----------
    n_components : int, optional
        Keep this many leading axes; by default the numerical rank.
    rounding : float, optional
        The relative rounding of the values, if they were once stored coarser than they are now (bfloat16: ``2**-7``).

    Attributes
    ----------
    components_ : (rank, d) array
        Rows times its transpose whiten centred data.
    mixing_ : (d, rank) array
        The way back.
    mean_ : (d,) array
    rank_ : int
        Numerical rank of the training data.
    singular_values_ : (rank,) array
        Standard deviations along the principal axes.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 10.0, 0.0])
    >>> Z = isorep.Whitening().fit_transform(X)
    >>> bool(np.allclose(np.cov(Z.T, bias=True), np.eye(2)))
    True
    """

    def __init__(self, n_components: int | None = None, *, rounding: float | None = None) -> None:
        self.n_components = n_components
        self.rounding = rounding

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn mean and axes."""
        X = validate_data(self, X, dtype=[np.float64, np.float32, np.float16], ensure_min_samples=2)
        moments = Moments.from_rows(X, X[:, :0])
        factor, _ = resolve_source(moments, X, X[:, :0], np.zeros(len(X), dtype=np.intp), 1, self.rounding)
        if factor.rank == 0:
            raise InputError("X has no variance: all rows are identical")
        _, deviations, axes = linalg.svd(factor.root, full_matrices=False)
        kept = factor.rank if self.n_components is None else self.n_components
        if not 1 <= kept <= factor.rank:
            raise InputError(f"n_components={kept} is not between 1 and the data's numerical rank {factor.rank}")
        self.mean_ = moments.source_mean
        self.rank_ = factor.rank
        self.singular_values_ = deviations[:kept]
        self.components_ = axes[:kept] / deviations[:kept, None]
        self.mixing_ = (axes[:kept] * deviations[:kept, None]).T
        self._n_features_out = kept
        return self

    def transform(self, X: Any) -> Array:
        """Whiten rows."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32, np.float16], reset=False)
        return np.asarray((X.astype(np.float64) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Array:
        """Map whitened rows back."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.mixing_.T + self.mean_)
