r"""``isorep.decoder.bounds``: how far two representations can be apart up to a rigid motion, before looking at them.

**From decoders to the stitching map.** Two models with equal outputs, :math:`g_1(x)=g_2(y)`, are tied by
:math:`y=h(x)`, :math:`h=g_2^{-1}\circ g_1`. A segment between two source latents has an image under :math:`g_1` of at
most :math:`\sigma_1^{\max}` times its length, and its preimage under :math:`g_2` is at most
:math:`1/\sigma_2^{\min}` times as long again; convex supports make both directions so. Hence, for all pairs,

.. math:: \frac{\sigma_1^{\min}}{\sigma_2^{\max}}\,\|x-x'\|\ \le\ \|y-y'\|\ \le\
          \frac{\sigma_1^{\max}}{\sigma_2^{\min}}\,\|x-x'\|,

and with :math:`\lambda_i=\max(\sigma_i^{\max},1/\sigma_i^{\min})` both factors lie in
:math:`[1/\lambda_1\lambda_2,\lambda_1\lambda_2]`. Theorem 1 of Nelson et al. (2026) takes one
:math:`\lambda=1+L` for all decoders, which gives :math:`\lambda^2-1=2L+L^2`; the product is sharper than the square of
the larger one.

**From the stitching map to isometries.** No distance changes by more than :math:`E=\varepsilon\Delta`. Then there is
an isometry within :math:`c_D\sqrt\varepsilon\,\Delta` everywhere (Lemma A.4), and within
:math:`(d_x+d_y)^{1/4}\sqrt{\varepsilon+\varepsilon^2/2}\,\Delta` in the root mean square.

**Outputs that differ** (ours). With :math:`m_i=\|g_1(x_i)-g_2(y_i)\|`, :math:`\alpha` the most a decoder stretches a
chord and :math:`\beta` the most its inverse does,

.. math:: \|y_i-y_j\|\le\beta_2\|g_2(y_i)-g_2(y_j)\|\le\beta_2\bigl(\alpha_1\|x_i-x_j\|+m_i+m_j\bigr),

and the same with the sides exchanged, so that

.. math:: -\Bigl(1-\frac1{\alpha_2\beta_1}\Bigr)\|x_i-x_j\|-\frac{m_i+m_j}{\alpha_2}\ \le\
          \|y_i-y_j\|-\|x_i-x_j\|\ \le\ (\alpha_1\beta_2-1)\|x_i-x_j\|+\beta_2(m_i+m_j).

Under the assumptions of Theorem 1 :math:`\alpha\le\sigma^{\max}` holds, but :math:`\beta\le1/\sigma^{\min}` is one
more: an image may fold back on itself, and then short chords belong to long paths. Where instead the outputs of the
first model lie in the image of the second decoder, :math:`z_i=g_2^{-1}(g_1(x_i))` is an exact stitching and
:math:`\|y_i-z_i\|\le\beta_2m_i`, so that the mismatch adds :math:`\beta_2m` outside the root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .bound import Bounds
from .isometric_constant import is_dimension
from .near_isometry import Sizes, assumptions, outside_the_root, rms_bounds, sup_bounds
from .stitching import stitched


def bounds(
    first: Any = None,
    second: Any = None,
    *,
    dimension: int | tuple[int, int] | None = None,
    constant: float | Sequence[float] | None = None,
    excess: float | Sequence[float] | None = None,
    defect: float | None = None,
    diameter: float = 1.0,
    target_diameter: float | None = None,
    radii: tuple[float, float] | None = None,
    spread: float | None = None,
    mismatch: float = 0.0,
    mismatch_rms: float | None = None,
    c_d: float | None = None,
) -> Bounds:
    r"""Bounds on the error of the best rigid motion between two representations: Theorem 1, and what follows from it.

    With :math:`\varepsilon=(1+L)^2-1=2L+L^2` (two constants: :math:`\lambda_1\lambda_2-1`), :math:`D` the dimension
    and :math:`\Delta` the diameter, the smallest of these is the answer for the supremum,

    .. math:: c_D\sqrt\varepsilon\,\Delta\ (\varepsilon\le1),\qquad
              \bigl(\eta+\sqrt{2\varepsilon+4\eta}\bigr)\Delta,\qquad R_D(2+\varepsilon)\Delta

    with :math:`\eta=(2D)^{1/4}\sqrt{\varepsilon+\varepsilon^2/2}`, and the smallest of these for the root mean square:

    .. math:: \eta\Delta,\qquad \Bigl(\tfrac12\sqrt{2D}\,(\lambda'^2-1)\Bigr)^{1/2}
              \bigl(\mathbb E\|x-x'\|^4\bigr)^{1/4},\qquad R_D\sqrt{1+(1+\varepsilon)^2}\,\Delta.

    Parameters
    ----------
    first, second : Geometry, optional
        What :func:`isorep.decoder.bilipschitz` found for the decoder of the source, and of the target; one alone
        stands for both.
    dimension : int or pair of int
        Of the latents; a pair where the widths differ. Not needed with a geometry that knows it.
    constant : float or pair
        The bi-Lipschitz constant :math:`\lambda=1+L\ge1` of both decoders, or of each.
    excess : float or pair
        The same as :math:`L\ge0`.
    defect : float
        In place of constants: a measured near-isometry defect,
        :math:`\max_{ij}|\|y_i-y_j\|-\|x_i-x_j\||/\Delta(X)`.
    diameter, target_diameter : float
        Of the source, and of the target where it is known.
    radii : pair of float, optional
        Root mean square distances from the mean of both sides: chance level of the root mean square error.
    spread : float, optional
        :math:`(\mathbb E\|x-x'\|^4)^{1/4}` over pairs of source rows, for the bound that needs no diameter.
    mismatch, mismatch_rms : float
        The largest difference of the two models' outputs, and its root mean square.
    c_d : float, optional
        Another constant :math:`c_D` of isometric approximation.

    Returns
    -------
    Bounds

    Examples
    --------
    >>> import isorep
    >>> found = isorep.decoder.bounds(excess=0.001, dimension=3)
    >>> round(found.sup.value, 2), round(found.rms.value, 3), found.sup.vacuous
    (0.6, 0.07, False)
    """
    tie = stitched(first, second, constant, excess, defect, mismatch, mismatch_rms)
    widths = _widths(dimension, first, second)
    sizes = Sizes(
        widths,
        _positive("diameter", diameter),
        None if target_diameter is None else _positive("target_diameter", target_diameter),
        None if radii is None else _two(radii),
        None if spread is None else _positive("spread", spread),
    )
    if c_d is not None:
        _positive("c_d", c_d)
    if tie.mismatch_rms > 0 and tie.mismatch == 0 and target_diameter is None:
        raise InputError("mismatch_rms alone bounds no diameter: pass mismatch= or target_diameter= as well")
    rests = assumptions(tie)
    found = [*sup_bounds(tie, sizes, c_d, rests), *rms_bounds(tie, sizes, rests)]
    if tie.mismatch > 0 or tie.mismatch_rms > 0:
        found += outside_the_root(tie, sizes, c_d)
    return Bounds(
        entries=tuple(found),
        dimension=sizes.dimension,
        diameter=sizes.diameter,
        defect=tie.distortion(sizes.diameter, sizes.target) / sizes.diameter,
        constant=tie.constant,
        constants=tie.constants,
        mismatch=tie.mismatch,
        mismatch_rms=tie.mismatch_rms,
        needed=sizes.needed(),
    )


def _widths(dimension: int | tuple[int, int] | None, first: Any, second: Any) -> tuple[int, int]:
    if dimension is None:
        known = [getattr(side, "data", {}).get("latents") for side in (first, first if second is None else second)]
        named = [width for width in known if isinstance(width, int)]
        if len(named) < 2:
            raise InputError("dimension is missing: name the number of latents")
        return named[0], named[1]
    pair = tuple(dimension) if isinstance(dimension, Sequence) else (dimension, dimension)
    if len(pair) != 2 or not all(is_dimension(width) for width in pair):
        raise InputError(f"dimension is {dimension!r} and must be a whole number from 1 on, or two of them")
    return int(pair[0]), int(pair[1])


def _two(radii: Any) -> tuple[float, float]:
    if not hasattr(radii, "__len__") or len(radii) != 2:
        raise InputError(f"radii is {radii!r} and must be two numbers, one of each side")
    return _positive("radii", radii[0]), _positive("radii", radii[1])


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"{name} is {value!r} and must be a positive number")
    return number
