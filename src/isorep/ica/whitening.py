"""Whitening from float64 moments, at the numerical rank of the data."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..conditioning import principal, sentence_on_columns
from ..errors import InputError
from ..representation import Array
from ..resolution import resolve_alone
from .linear import apply_affine
from .sources import Source, as_source, open_components, open_rows


class Whitening(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Centre, rotate to principal axes and scale each to unit variance.

    .. math:: z=(x-\bar x)\,V\Lambda^{-1/2},\qquad \operatorname{Cov}(x)=V\Lambda V^\top

    The covariance is summed in float64 whatever the input's dtype, and only directions that rise above the rounding of
    that dtype are kept: constant and duplicate columns are a normal case. Columns that vary by no more than 1e-4 of the
    median column are left out, as released models have dead ones, unless ``standardise`` says that units differ.
    Whitened training rows have unit covariance within 1e-3, whatever their columns. Arrays, memory maps,
    representations read from files and Dask arrays are all taken, and never copied as a whole.

    Parameters
    ----------
    n_components : int, optional
        Keep this many leading axes; by default the numerical rank.
    kind : {"pca", "zca"}
        Whether to stay in principal axes or to rotate back, :math:`z=(x-\bar x)V\Lambda^{-1/2}V^\top`: the whitening
        that changes the data least and has a component for every column.
    rounding : float, optional
        The relative rounding of the values, if they were once stored coarser than they are now (bfloat16: ``2**-7``).
    standardise : bool
        For columns in different units, such as measured features: every column that varies by more than the rounding
        of its values counts, and principal axes are those of columns with unit variance. By default false.

    Attributes
    ----------
    components_ : (k, d) array
        Rows times its transpose whiten centred data.
    mixing_ : (d, k) array
        The way back.
    mean_ : (d,) array
    rank_ : int
        Numerical rank of the training data.
    singular_values_ : (k,) array
        Standard deviations along the principal axes that were kept.
    left_out_columns_ : int array
        The columns that do not count: constant ones, and those that hardly vary beside the others.
    left_out_spreads_ : array
        Their standard deviations; 0 for constant ones.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 10.0, 0.0])
    >>> Z = isorep.Whitening().fit_transform(X)
    >>> bool(np.allclose(np.cov(Z.T, bias=True), np.eye(2)))
    True
    """

    mean_: Array
    components_: Array
    mixing_: Array
    singular_values_: Array
    rank_: int
    left_out_columns_: Array
    left_out_spreads_: Array

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kind: str = "pca",
        rounding: float | None = None,
        standardise: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kind = kind
        self.rounding = rounding
        self.standardise = standardise

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn mean and axes."""
        self.fit_source(as_source(open_rows(self, X, reset=True)))
        left_out = columns_left_out(self, "X")
        if left_out is not None:
            warnings.warn(left_out, UserWarning, stacklevel=2)
        return self

    def fit_source(self, source: Source) -> Self:
        """Learn mean and axes of rows that have been checked."""
        if self.kind not in ("pca", "zca"):
            raise InputError(f"kind is {self.kind!r}; known are pca, zca")
        rounding = source.rounding if self.rounding is None else self.rounding
        total, factor = resolve_alone(source.moments, rounding, any_scale=bool(self.standardise))
        if total.n < 2:
            raise InputError("one row has no variance: there is nothing to whiten")
        if factor.rank == 0:
            raise InputError("X has no variance: all rows are identical")
        units = np.where(factor.spread > 0, factor.spread, 1.0) if self.standardise else np.ones(len(factor.spread))
        components, mixing, deviations, axes = principal(factor, units)
        kept: Any = factor.rank if self.n_components is None else self.n_components
        if isinstance(kept, bool) or not isinstance(kept, int | np.integer):
            raise InputError(f"n_components={kept!r} is not a whole number")
        if not 1 <= kept <= factor.rank:
            raise InputError(f"n_components={kept} is not between 1 and the data's numerical rank {factor.rank}")
        axes = axes[:kept]
        self.mean_ = total.source_mean
        self.rank_ = factor.rank
        self.singular_values_ = deviations[:kept]
        self.components_ = components[:kept]
        self.mixing_ = mixing[:, :kept]
        self.left_out_columns_ = np.flatnonzero(factor.constant | factor.left_out)
        self.left_out_spreads_ = factor.spread[self.left_out_columns_]
        if self.kind == "zca":
            self.components_ = axes.T @ self.components_
            self.mixing_ = self.mixing_ @ axes
        self._n_features_out = len(self.components_)
        return self

    def transform(self, X: Any) -> Any:
        """Whiten rows; float32 stays float32."""
        check_is_fitted(self)
        return apply_affine(open_rows(self, X, reset=False), self.components_.T, before=self.mean_)

    def inverse_transform(self, X: Any) -> Any:
        """Map whitened rows back."""
        check_is_fitted(self)
        return apply_affine(open_components(self, X), self.mixing_.T, after=self.mean_)


def columns_left_out(fitted: Any, name: str) -> str | None:
    """A sentence on the columns that vary, but too little to count for a fitted estimator; None without any.

    Estimators pickled by earlier versions do not list them.
    """
    if not hasattr(fitted, "left_out_columns_"):
        return None
    varies = fitted.left_out_spreads_ > 0
    titles = getattr(fitted, "feature_names_in_", None)
    said = sentence_on_columns(fitted.left_out_columns_[varies], fitted.left_out_spreads_[varies], name, titles)
    return None if said is None else f"{said}; if their units differ from the others', standardise"
