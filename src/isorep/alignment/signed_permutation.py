"""Signed permutation: dimensions matched one to one, up to sign."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..moments import Moments
from ..representation import Array
from .base import AffineMap, Aligner, fitted_scale, padded


class SignedPermutation(Aligner):
    r"""The best matching of dimensions, with signs and one global scale.

    .. math:: \min_{\pi,\sigma,s}\sum_j\|Y_{\cdot j}-s\,\sigma_jX_{\cdot\pi(j)}\|^2,\qquad
              \pi^*=\arg\max_\pi\sum_j|C_{\pi(j)j}|,\quad C=X^\top Y,\quad s^*=\frac{\sum_j|C_{\pi(j)j}|}{\|X\|_F^2}

    on centred columns. The assignment on the absolute cross-*covariance*, not on correlations, is the exact optimum for
    every scale, because column norms do not change under permutation.

    Parameters
    ----------
    scale : bool
        Fit a global scale, as in Table 1 of Nelson et al. (2026). Without it the group is that of their Definition 1.

    Attributes
    ----------
    permutation_ : (d,) int array
        ``permutation_[j]`` is the source dimension matched to target dimension ``j``, of the zero-padded width.
    signs_ : (d,) array of -1 and 1
    scale_ : float

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> isorep.SignedPermutation().fit(X, -2 * X[:, [2, 0, 1]]).permutation_
    array([2, 0, 1])
    """

    def __init__(self, scale: bool = True) -> None:
        self.scale = scale

    def fit_moments(self, moments: Moments) -> Self:
        """Hungarian assignment on the absolute cross-covariance."""
        cross = padded(moments.xy)
        self.permutation_, self.signs_, overlap = match_signed(cross)
        self.scale_ = fitted_scale(self.scale, overlap, moments.xx)
        return self._with_map(moments)

    def reversed(self, moments: Moments) -> SignedPermutation:
        """The optimal map from target to source: the same matching, read the other way."""
        other = SignedPermutation(self.scale)
        width = len(self.permutation_)
        other.permutation_ = np.argsort(self.permutation_)
        other.signs_ = self.signs_[other.permutation_]
        cross = padded(moments.xy)
        overlap = float(np.abs(cross[self.permutation_, np.arange(width)]).sum())
        other.scale_ = fitted_scale(self.scale, overlap, moments.yy)
        return other._with_map(moments.swapped())

    def _with_map(self, moments: Moments) -> Self:
        width = len(self.permutation_)
        linear = np.zeros((width, width))
        linear[self.permutation_, np.arange(width)] = self.signs_
        linear = linear[: moments.xy.shape[0]]
        self.map_ = AffineMap(linear, moments.source_mean, moments.target_mean, self.scale_, orthogonal=True)
        return self


def match_signed(cross: Array) -> tuple[Array, Array, float]:
    """For each column of ``cross`` its row, the sign, and the sum of matched absolute values.

    ``cross`` has at least as many rows as columns.
    """
    columns, rows = linear_sum_assignment(-np.abs(cross.T))
    matched = cross[rows, columns]
    return rows, np.where(matched >= 0, 1, -1), float(np.abs(matched).sum())
