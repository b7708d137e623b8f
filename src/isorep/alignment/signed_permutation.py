"""Signed permutation: dimensions matched one to one, up to sign."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..moments import Moments
from ..representation import Array
from .aligner import Aligner
from .base import match_signed, orthogonal_map, padded, signed_matrix


class SignedPermutation(Aligner):
    r"""The best matching of dimensions, with signs and one global scale.

    .. math:: \min_{\pi,\sigma,s}\sum_j\|Y_{\cdot j}-s\,\sigma_jX_{\cdot\pi(j)}\|^2,\qquad
              \pi^*=\arg\max_\pi\sum_j|C_{\pi(j)j}|,\quad C=X^\top Y,\quad s^*=\frac{\sum_j|C_{\pi(j)j}|}{\|X\|_F^2}

    on centred columns. The assignment on the absolute cross-*covariance*, not on correlations, is the exact optimum for
    every scale, because column norms do not change under permutation.

    Parameters
    ----------
    scale : bool
        Fit a global scale, as in Table 1 of Nelson et al. (2026); default: yes. Their Definition 1 has ``scale=False``.

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
        return self._with_matching(moments, *match_signed(padded(moments.xy)))

    def reversed(self, moments: Moments) -> SignedPermutation:
        """The optimal map from target to source, with the same matching."""
        back = np.argsort(self.permutation_)
        overlap = float(np.abs(padded(moments.xy)[self.permutation_, np.arange(len(back))]).sum())
        return SignedPermutation(self.scale)._with_matching(moments.swapped(), back, self.signs_[back], overlap)

    def _with_matching(self, moments: Moments, permutation: Array, signs: Array, overlap: float) -> Self:
        self.permutation_, self.signs_ = permutation, signs
        self.map_ = orthogonal_map(moments, signed_matrix(permutation, signs), overlap, scale=self.scale)
        self.scale_ = self.map_.scale
        return self
