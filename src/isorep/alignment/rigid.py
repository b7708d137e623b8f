"""Rigid motion (orthogonal Procrustes): rotation or reflection and translation, with one scale where wanted."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..moments import Moments
from ..representation import Array
from .base import AffineMap, Aligner, fitted_scale, padded

_DEAD = 0.02  # share of the columns that may be dead
_RESOLVED = 1e-7  # squares of singular values, relative to the largest, that leave nine digits of a rotation


class Rigid(Aligner):
    r"""Orthogonal Procrustes with a translation and one global scale.

    .. math:: \min_{Q\in O(d),\,s,\,t}\|Y-(sXQ+t)\|_F,\qquad X^\top Y=U\Sigma V^\top,\quad Q^*=UV^\top,\quad
              s^*=\frac{\operatorname{tr}\Sigma}{\|X\|_F^2}

    on centred columns. :math:`Q` may be a reflection: the group is :math:`O(d)`, not :math:`SO(d)`.

    Parameters
    ----------
    scale : bool
        Fit a global scale, as in Table 1 of Nelson et al. (2026). Their Theorem 1 is about ``scale=False``.

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
        u, singular, vt = np.linalg.svd(padded(moments.xy))  # numpy's lets other threads run, scipy's does not
        self.rotation_, self._overlap = np.asarray(u @ vt), float(singular.sum())
        self.scale_ = fitted_scale(self.scale, self._overlap, moments.xx)
        return self._with_map(moments)

    def reversed(self, moments: Moments) -> Rigid:
        """The optimal map from target to source: the transposed rotation, with its own scale."""
        other = Rigid(self.scale)
        other.rotation_ = self.rotation_.T
        other._overlap = self._overlap
        other.scale_ = fitted_scale(self.scale, self._overlap, moments.yy)
        return other._with_map(moments.swapped())

    def _with_map(self, moments: Moments) -> Self:
        linear = self.rotation_[: moments.xy.shape[0]]
        self.map_ = AffineMap(linear, moments.source_mean, moments.target_mean, self.scale_, orthogonal=True)
        return self


def quick_maps(moments: Moments) -> tuple[AffineMap, AffineMap] | None:
    """The rigid maps of a source that is no wider than the target, both ways; None where squares do not resolve them.

    A few dead columns of the source are left where they are: for errors of rows alone that makes no difference.
    """
    quick = quick_polar(moments.xy, dead=_DEAD)
    if quick is None:
        return None
    rotation, overlap = quick
    scales = (fitted_scale(True, overlap, moments.xx), fitted_scale(True, overlap, moments.yy))
    means = (moments.source_mean, moments.target_mean)
    return (
        AffineMap(rotation, *means, scales[0], orthogonal=True),
        AffineMap(rotation.T, *means[::-1], scales[1], orthogonal=True),
    )


def quick_polar(cross: Array, dead: float = 0.0) -> tuple[Array, float] | None:
    r"""The orthonormal factor of a matrix with no more rows than columns, and the sum of its singular values.

    :math:`(CC^\top)^{-1/2}C` costs a quarter of a decomposition. None where squares do not resolve the singular values,
    but for a share of them that may be dead.
    """
    size = float(np.abs(cross).max(initial=0.0))
    if cross.shape[0] > cross.shape[1] or not size > 0:
        return None
    scaled = cross / size  # squares of large values overflow, of small ones vanish
    squares, axes = np.linalg.eigh(scaled @ scaled.T)
    kept = squares > _RESOLVED * squares[-1]
    if (~kept).sum() > dead * len(kept):
        return None
    singular, axes = np.sqrt(squares[kept]), axes[:, kept]
    return np.asarray((axes / singular) @ (axes.T @ scaled)), size * float(singular.sum())
