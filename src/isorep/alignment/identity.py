"""Identity: rows as they are, the first rung."""

from __future__ import annotations

from typing import Self

from ..moments import Moments
from .aligner import Aligner
from .base import identity_map


class Identity(Aligner):
    r"""Compare rows as they are: :math:`h=\mathrm{id}`, with nothing fitted.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> float(isorep.Identity().fit(X, X).score(X, X))
    1.0
    """

    def fit_moments(self, moments: Moments) -> Self:
        """Take the widths from the moments; there is nothing else to fit."""
        self.map_ = identity_map(moments)
        return self
