"""ICA alignment: independent components of each side, matched one to one by a signed permutation."""

from __future__ import annotations

from typing import Self

from sklearn.base import clone

from ..errors import InputError
from ..ica import ICA
from ..moments import Moments
from ..representation import Array
from .aligner import Aligner
from .base import ComponentMatch, component_map, match_components


class ICAAlignment(Aligner):
    r"""ICA on each side alone, components matched by signed permutation, mapped back into the target's space.

    .. math:: \hat Y=S_X\,\Pi\,A_Y+\bar y=(X-\bar x)\,W_X\,\Pi\,W_Y^{-1}+\bar y

    Only the signed permutation :math:`\Pi` uses the pairing: it maximises the sum of matched absolute correlations
    :math:`|S_X^\top S_Y|`. The result lies in the target's space, so its error is comparable with the other rungs'.

    Parameters
    ----------
    ica : ICA, optional
        Settings of the two fits; cloned, not changed. Default: ``ICA()``.
    shrink : bool
        Whether each matched component has its least-squares scale, as the rigid map has one. Default: unit variance is
        mapped onto unit variance, as published.

    Attributes
    ----------
    source_ica_, target_ica_ : ICA
    matched_source_, matched_target_ : (k,) int arrays
        Indices of the matched components, in the source and in the target.
    signs_ : (k,) array of -1 and 1
    correlations_ : (k,) array
        Absolute correlation of each matched pair of components.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> S = np.random.default_rng(0).laplace(size=(5000, 2))
    >>> X, Y = S @ [[1.0, 0.5], [0.2, 1.0]], S @ [[0.0, 3.0], [1.0, 1.0]]
    >>> isorep.ICAAlignment().fit(X, Y).score(X, Y) > 0.999
    True
    """

    def __init__(self, ica: ICA | None = None, shrink: bool = False) -> None:
        self.ica = ica
        self.shrink = shrink

    def fit_moments(self, moments: Moments, source_ica: ICA | None = None, target_ica: ICA | None = None) -> Self:
        """Match the components of two fitted ICAs, given the moments of the paired rows."""
        if source_ica is None or target_ica is None:
            raise InputError("second moments do not determine independent components: pass source_ica and target_ica")
        match = match_components(moments, source_ica.components_, target_ica.components_)
        return self._with_match(moments, source_ica, target_ica, match)

    def reversed(self, moments: Moments) -> ICAAlignment:
        """The map from target to source, with the same matching of components."""
        match = ComponentMatch(self.matched_target_, self.matched_source_, self.signs_, self.correlations_)
        back = ICAAlignment(self.ica, self.shrink)
        return back._with_match(moments.swapped(), self.target_ica_, self.source_ica_, match)

    def _with_match(self, moments: Moments, source: ICA, target: ICA, match: ComponentMatch) -> Self:
        self.source_ica_, self.target_ica_ = source, target
        self.matched_source_, self.matched_target_ = match.source, match.target
        self.signs_, self.correlations_ = match.signs, match.correlations
        self.map_ = component_map(moments, source.components_, target.mixing_, match, shrink=self.shrink)
        return self

    def _fit_rows(self, x: Array, y: Array) -> Self:
        template = self.ica or ICA()
        return self.fit_moments(Moments.from_rows(x, y), clone(template).fit(x), clone(template).fit(y))
