r"""Sparsity and concentration: do classifiers lean on few features?

Split fractions :math:`s` (how often each feature is split on, summing to one) are sparse where trees lean on few
features (Hoyer 2004),

.. math:: \mathrm{Hoyer}(s)=\frac{\sqrt d-\|s\|_1/\|s\|_2}{\sqrt d-1},

0 for equal use and 1 for a single feature. Concentration compares a classifier on the most important share k of the
features, of AUROC :math:`a`, with one on the rest, of AUROC :math:`b`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_ABOVE_CHANCE = 0.51  # below this AUROC there is no signal to take shares of


def hoyer(fractions: Any) -> float | None:
    """Hoyer sparsity of non-negative use counts or fractions; None where nothing is used, or for one feature.

    Examples
    --------
    >>> from isorep.deconfounding import hoyer
    >>> hoyer([0, 3, 0, 0]), hoyer([1, 1, 1, 1])
    (1.0, 0.0)
    """
    used = np.asarray(fractions, dtype=float)
    root, norm = math.sqrt(len(used)), float(np.linalg.norm(used))
    if norm == 0 or len(used) < 2:
        return None
    return float((root - used.sum() / norm) / (root - 1))


def concentration(top: float, rest: float) -> tuple[float, float, float]:
    r"""Share, ratio and Gini of two AUROCs: :math:`\frac{a-b}{a-1/2}`, :math:`\frac ab-1`, :math:`2(a-b)`.

    The share, of the signal above chance, is not a number where the top features are no better than chance.

    Examples
    --------
    >>> from isorep.deconfounding import concentration
    >>> [round(value, 3) for value in concentration(0.75, 0.6)]
    [0.6, 0.25, 0.3]
    """
    share = (top - rest) / (top - 0.5) if top > _ABOVE_CHANCE else math.nan
    return share, top / rest - 1 if rest > 0 else math.nan, 2 * (top - rest)
