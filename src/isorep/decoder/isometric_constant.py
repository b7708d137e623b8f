r"""Isometric-approximation constant and Jung's radius, which depend on the dimension only.

A map :math:`f` on a compact set :math:`A\subset\mathbb R^n` of diameter 1 that changes no distance by more than
:math:`\varepsilon` lies within :math:`c_n\sqrt\varepsilon` of an isometry (Alestalo, Trotsenko & Väisälä 2001). Their
recursion for :math:`c_n` is not used here. The constant of this module comes from a derivation of our own: pick points
:math:`u_1,\dots,u_n` of :math:`A`, each farthest from the span of those before it, at height :math:`h_k`; rotate both
sides so that :math:`u_k` and :math:`f(u_k)` lie in the span of the first :math:`k` axes; and compare inner products
coordinate by coordinate. With :math:`\delta_0=\tfrac32(2+\varepsilon)`,

.. math::
    \rho_1=\delta_0,\quad q_k=\frac{\varepsilon}{h_k^2},\quad s_k=\sqrt{1-\rho_kq_k},\quad
    \kappa_k=\frac{\rho_k}{s_k}\Bigl(1+\frac1{1+s_k}\Bigr),\quad \rho_{k+1}=\rho_k+2\kappa_k+\kappa_k^2q_k

bounds the error of coordinate :math:`k` by :math:`\kappa_k\varepsilon/h_k`. Directions thinner than
:math:`\tau_k\sqrt\varepsilon` are left to the pairwise distances, and above a threshold :math:`\varepsilon^*` the two
clouds are merely aligned by their centres. Every choice of :math:`\varepsilon^*` and :math:`\tau` certifies a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from ..settings import check_counts

MOST_DIMENSIONS = 64
"""Up to here a finite constant is certified."""

# Thresholds found by minimising the certified constant: epsilon*, then tau_2, ..., tau_n.
_CHOSEN = {
    1: (0.15088,),
    2: (0.014722, 4.1766),
    3: (0.0036597, 9.8653, 8.7392),
    4: (0.00095595, 20.383, 19.92, 17.648),
    5: (0.00023985, 41.621, 41.403, 40.489, 35.994),
}
_GROWTH = 2.69


@cache
def isometric_constant(dimension: int) -> float:
    r"""A valid constant :math:`\bar c_n` in :math:`\sup|f-T|\le\bar c_n\sqrt\varepsilon\,\Delta`.

    For up to 5 dimensions the recursion is evaluated at thresholds found by a search; for 6 to 64 at
    :math:`\tau_k=1.151\cdot2^n`, :math:`\varepsilon^*=(1.42/(2.72\cdot2^n))^2`, which certifies :math:`2.69\cdot2^n`.
    Beyond, nothing is certified and the constant is infinite.

    Examples
    --------
    >>> from isorep.decoder import isometric_constant
    >>> round(isometric_constant(2), 2)
    9.59
    """
    check_counts(dimension=(dimension, 1))
    if dimension in _CHOSEN:
        threshold, *thicknesses = _CHOSEN[dimension]
        return certified_constant(dimension, threshold, thicknesses)
    return _GROWTH * 2.0**dimension if dimension <= MOST_DIMENSIONS else math.inf


def certified_constant(dimension: int, threshold: float, thicknesses: Sequence[float]) -> float:
    r"""The constant that a choice of :math:`\varepsilon^*` and :math:`\tau_2,\dots,\tau_n` certifies; infinite if none.

    The largest of three: the thin case stopped at each coordinate, the case without thin directions, and the trivial
    bound for every :math:`\varepsilon\ge\varepsilon^*`.
    """
    start = 1.5 * (2 + threshold)
    rho, squares, worst, q = start, 0.0, 0.0, threshold
    for k in range(dimension):
        if k > 0:
            tau = thicknesses[k - 1]
            thin = tau + math.sqrt(tau**2 + (rho - start) + 2 + threshold)
            worst, q = max(worst, math.sqrt(squares + thin**2)), tau**-2
        if rho * q >= 1:
            return math.inf
        s = math.sqrt(1 - rho * q)
        kappa = rho * (1 + 1 / (1 + s)) / s
        squares += kappa**2 * q
        rho += 2 * kappa + kappa**2 * q
    trivial = jung_radius(dimension) * (2 + threshold) / math.sqrt(threshold)
    return max(worst, math.sqrt(squares), trivial)


def jung_radius(dimension: int) -> float:
    r"""The radius :math:`R_n=\sqrt{n/(2n+2)}` of a ball that holds any set of diameter 1 (Jung's theorem)."""
    return math.sqrt(dimension / (2 * dimension + 2))
