"""Identity: rows as they are, the first rung."""

from __future__ import annotations

from typing import Self

import numpy as np

from ..moments import Moments
from .base import AffineMap, Aligner


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
        d_x, d_y = moments.xy.shape
        self.map_ = AffineMap(np.eye(d_x, max(d_x, d_y)), np.zeros(d_x), np.zeros(d_y), orthogonal=True)
        return self
