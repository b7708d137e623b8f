"""The ICA transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import InputError
from ..representation import Array
from .solver import contrast_excess, rotate
from .whitening import Whitening

CONTRASTS = ("logcosh", "exp", "cube")


class ICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Independent component analysis: whitening, then the rotation to the least Gaussian directions.

    .. math:: s=(x-\bar x)W,\qquad \operatorname{Cov}(s)=I,\qquad
              W\text{ stationary for }\textstyle\sum_j\pm\mathbb E\,G(s_j)

    Components come back in a canonical form, so that two fits of the same data agree: by decreasing distance of
    their contrast from a Gaussian's, each with non-negative skewness.

    Parameters
    ----------
    n_components : int, optional
        By default the numerical rank of the data.
    contrast : {"logcosh", "exp", "cube"}
    random_state : int, RandomState or None
        Draws the rows when ``max_rows`` leaves some out; the fit itself is deterministic.
    tol, max_iter : float, int
        When the fixed-point iteration stops.
    max_rows : int, optional
        Estimate from at most this many rows, drawn at random.
    rounding : float, optional
        As for :class:`Whitening`.

    Attributes
    ----------
    components_ : (k, d) array
        The unmixing matrix: ``(X - mean_) @ components_.T`` are the sources, with unit variance.
    mixing_ : (d, k) array
        The way back: ``S @ mixing_.T + mean_``.
    mean_ : (d,) array
    rank_ : int
        Numerical rank of the data.
    converged_ : bool
    n_iter_ : int
    contrast_ : (k,) array
        Distance of each component's contrast from a Gaussian's.

    References
    ----------
    .. [1] Hyvärinen, A. (1999). Fast and robust fixed-point algorithms for independent component analysis.
           IEEE Transactions on Neural Networks 10.
    .. [2] Cardoso, J.-F. (1989). Source separation using higher order moments. ICASSP.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> S = rng.laplace(size=(5000, 2))
    >>> recovered = isorep.ICA().fit_transform(S @ [[1.0, 0.5], [0.2, 1.0]])
    >>> bool(np.abs(np.corrcoef(S.T, recovered.T)[:2, 2:]).max(axis=1).min() > 0.99)
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        contrast: str = "logcosh",
        random_state: Any = 0,
        *,
        tol: float = 1e-4,
        max_iter: int = 200,
        max_rows: int | None = None,
        rounding: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.contrast = contrast
        self.random_state = random_state
        self.tol = tol
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.rounding = rounding

    def fit(self, X: Any, y: Any = None, *, start: Array | None = None) -> Self:
        """Learn the unmixing.

        ``start`` is an unmixing matrix to begin from, such as the ``components_`` of a fit to similar rows.
        """
        if self.contrast not in CONTRASTS:
            raise InputError(f"contrast is {self.contrast!r}; known are {', '.join(CONTRASTS)}")
        X = validate_data(self, X, dtype=[np.float64, np.float32, np.float16], ensure_min_samples=2)
        if self.max_rows is not None and len(X) > self.max_rows:
            chosen = check_random_state(self.random_state).choice(len(X), self.max_rows, replace=False)
            X = X[np.sort(chosen)]
        whitening = Whitening(self.n_components, rounding=self.rounding).fit(X)
        white = whitening.transform(X)
        rotation = rotate(
            white,
            contrast=self.contrast,
            start=None if start is None else _start_in(whitening, start),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        sources = white @ rotation.matrix.T
        excess = contrast_excess(sources, self.contrast)
        order = np.argsort(-np.abs(excess), kind="stable")
        signs = np.where((sources**3).mean(axis=0) >= 0, 1.0, -1.0)
        canonical = (rotation.matrix * signs[:, None])[order]
        self.mean_ = whitening.mean_
        self.rank_ = whitening.rank_
        self.components_ = canonical @ whitening.components_
        self.mixing_ = whitening.mixing_ @ canonical.T
        self.contrast_ = excess[order]
        self.n_iter_ = rotation.n_iter
        self.converged_ = rotation.converged
        self._n_features_out = len(canonical)
        return self

    def transform(self, X: Any) -> Array:
        """Rows to sources."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32, np.float16], reset=False)
        return np.asarray((X.astype(np.float64) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Array:
        """Sources back to rows."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.mixing_.T + self.mean_)


def _start_in(whitening: Whitening, unmixing: Array) -> Array | None:
    """An unmixing matrix as a rotation of this whitened space; None where the dimensions do not fit."""
    start = np.asarray(unmixing) @ whitening.mixing_
    return start if start.shape[0] == start.shape[1] else None
