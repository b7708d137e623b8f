"""Rigid motion (orthogonal Procrustes): rotation or reflection and translation, with an optional scale."""

from __future__ import annotations

from typing import Self

from ..moments import Moments
from ..representation import Array
from .aligner import Aligner
from .base import nearest_rotation, orthogonal_map, padded


class Rigid(Aligner):
    r"""Orthogonal Procrustes with a translation and one global scale.

    .. math:: \min_{Q\in O(d),\,s,\,t}\|Y-(sXQ+t)\|_F,\qquad X^\top Y=U\Sigma V^\top,\quad Q^*=UV^\top,\quad
              s^*=\frac{\operatorname{tr}\Sigma}{\|X\|_F^2}

    on centred columns. :math:`Q` may be a reflection: the group is :math:`O(d)`, not :math:`SO(d)`.

    Parameters
    ----------
    scale : bool
        Fit a global scale, as in Table 1 of Nelson et al. (2026); default: yes. Their Theorem 1 is for ``scale=False``.

    Attributes
    ----------
    rotation_ : (d, d) array
        :math:`Q`, of the zero-padded width.
    scale_ : float

    References
    ----------
    .. [1] Schönemann, P. H. (1966). A generalized solution of the orthogonal Procrustes problem. Psychometrika 31.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> round(isorep.Rigid().fit(X, 3 * X @ [[0, 1], [1, 0]]).scale_, 6)
    3.0
    """

    def __init__(self, scale: bool = True) -> None:
        self.scale = scale

    def fit_moments(self, moments: Moments) -> Self:
        """Singular value decomposition of the cross-covariance."""
        return self._with_rotation(moments, *nearest_rotation(padded(moments.xy), moments.n))

    def reversed(self, moments: Moments) -> Rigid:
        """The optimal map from target to source: the transposed rotation, with its own scale."""
        return Rigid(self.scale)._with_rotation(moments.swapped(), self.rotation_.T, self._overlap)

    def _with_rotation(self, moments: Moments, rotation: Array, overlap: float) -> Self:
        self.rotation_, self._overlap = rotation, overlap
        self.map_ = orthogonal_map(moments, rotation, overlap, scale=self.scale)
        self.scale_ = self.map_.scale
        return self
