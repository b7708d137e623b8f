r"""Bounds of near-isometries: a-priori bounds on the distance of two representations up to a rigid motion.

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
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..settings import check_counts
from .bound import GIVEN, MEASURED, NOT_TESTED, VIOLATED, Assumption, Bound, Bounds
from .isometric_constant import isometric_constant, jung_radius
from .stitching import Stitching, positive, stitched

CONVEX = "both supports are convex, so that local constants hold for all pairs"
INJECTIVE = "both decoders are injective"
SMOOTH = "both decoders are continuously differentiable"
EQUAL = "both models give equal outputs"
SUPREMUM = "the constants hold everywhere: the largest of a sample is a lower estimate of the supremum"
CHORDS = "the lower constants hold for chords: no image folds back on itself, and no lower value was missed"
FOLDS = "short chords join near latents: no image folds back on itself until it meets itself"
IMAGE = "the outputs of the first model lie in the image of the second decoder"
MISMATCH = "the outputs of the two models differ by no more than the mismatch"
SMALL = "the defect is at most 1: L at most 0.414 if both decoders have the same constant"
DISTORTION = "no distance between two rows changes by more than the defect"


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
    r"""Bound the error of the best rigid motion between two representations: Theorem 1 and its consequences.

    With :math:`\varepsilon=(1+L)^2-1=2L+L^2` (two constants: :math:`\lambda_1\lambda_2-1`), :math:`D` the dimension
    and :math:`\Delta` the diameter, the bound on the supremum is the smallest of

    .. math:: c_D\sqrt\varepsilon\,\Delta\ (\varepsilon\le1),\qquad
              \bigl(\eta+\sqrt{2\varepsilon+4\eta}\bigr)\Delta,\qquad R_D(2+\varepsilon)\Delta

    with :math:`\eta=(2D)^{1/4}\sqrt{\varepsilon+\varepsilon^2/2}`, and that on the root mean square the smallest of

    .. math:: \eta\Delta,\qquad \Bigl(\tfrac12\sqrt{2D}\,(\lambda'^2-1)\Bigr)^{1/2}
              \bigl(\mathbb E\|x-x'\|^4\bigr)^{1/4},\qquad R_D\sqrt{1+(1+\varepsilon)^2}\,\Delta.

    Parameters
    ----------
    first, second : Geometry, optional
        Results of :func:`isorep.decoder.bilipschitz` for the decoder of the source, and of the target; one alone is
        used for both.
    dimension : int or pair of int
        Number of latents; a pair where the widths differ. Not needed with a geometry.
    constant : float or pair
        The bi-Lipschitz constant :math:`\lambda=1+L\ge1` of both decoders, or of each.
    excess : float or pair
        The same as :math:`L\ge0`.
    defect : float
        In place of constants: a measured near-isometry defect,
        :math:`\max_{ij}|\|y_i-y_j\|-\|x_i-x_j\||/\Delta(X)`.
    diameter, target_diameter : float
        Diameter of the source, and of the target where known.
    radii : pair of float, optional
        RMS distances from the mean of both sides, which give the chance level of the RMS error.
    spread : float, optional
        :math:`(\mathbb E\|x-x'\|^4)^{1/4}` over pairs of source rows, for the bound that needs no diameter.
    mismatch, mismatch_rms : float
        Largest difference of the two models' outputs, and its root mean square.
    c_d : float, optional
        Constant :math:`c_D` of isometric approximation; default: :func:`isometric_constant`.

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
    sizes = Sizes(
        _widths(dimension, first, second),
        positive("diameter", diameter),
        None if target_diameter is None else positive("target_diameter", target_diameter),
        None if radii is None else _two(radii),
        None if spread is None else positive("spread", spread),
    )
    known = None if c_d is None else positive("c_d", c_d)
    if tie.mismatch_rms > 0 and tie.mismatch == 0 and target_diameter is None:
        raise InputError("mismatch_rms alone bounds no diameter: pass mismatch= or target_diameter= as well")
    rests = assumptions(tie)
    every = [*sup_bounds(tie, sizes, known, rests), *rms_bounds(tie, sizes, rests)]
    if tie.mismatch > 0 or tie.mismatch_rms > 0:
        every += outside_the_root(tie, sizes, known)
    return Bounds(
        entries=tuple(every),
        dimension=sizes.dimension,
        diameter=sizes.diameter,
        defect=tie.distortion(sizes.diameter, sizes.target) / sizes.diameter,
        constant=tie.constant,
        constants=tie.constants,
        mismatch=tie.mismatch,
        mismatch_rms=tie.mismatch_rms,
        needed=sizes.needed(),
    )


@dataclass(frozen=True)
class Sizes:
    """The sizes of the two clouds."""

    widths: tuple[int, int]
    diameter: float
    target: float | None
    radii: tuple[float, float] | None
    spread: float | None

    @property
    def dimension(self) -> int:
        """The larger width."""
        return max(self.widths)

    @property
    def smaller(self) -> float:
        """The smaller diameter: a near-isometry is one in both directions."""
        return min(self.diameter, self.target or self.diameter)

    def other(self, distortion: float) -> float:
        """At most the diameter of the target."""
        return self.target if self.target is not None else self.diameter + distortion

    def chance_sup(self) -> float:
        """A bound for any two clouds of these diameters."""
        return jung_radius(self.dimension) * (self.diameter + (self.target or self.diameter))

    def chance_rms(self) -> float:
        """The root mean square error of a random rotation, or the most it can be."""
        if self.radii is not None:
            return math.hypot(*self.radii)
        return jung_radius(self.dimension) * math.hypot(self.diameter, self.target or self.diameter)

    def needed(self) -> float:
        r"""The stitching constant at which the smaller bound on the root mean square reaches chance.

        Both are :math:`\sqrt{\mathrm{rank}}\,(\lambda'^2-1)/2` times a squared size, of the diameter or of the spread.
        """
        size = min(self.smaller, self.spread or self.smaller)
        return math.sqrt(1 + 2 * self.chance_rms() ** 2 / (math.sqrt(sum(self.widths)) * size**2))


FORMULAS = {
    "theorem_1": ("c_D √ε Δ", "Isometric approximation with c_D = {constant} and ε = {epsilon:.4g}{beyond}"),
    "sup_polynomial": (
        "(η + √(2ε + 4η)) Δ",
        "A contraction maps every row within ηΔ of its target, η = {eta:.4g}, and its orthogonal factor is near it.",
    ),
    "sup_trivial": (
        "R_D (Δ + Δ')",
        "Both clouds lie in balls of Jung's radius: centres aligned, for any pairing.",
    ),
    "rms": (
        "(2D)^¼ √(ε + ε²/2) Δ",
        "The Gram matrices differ by at most {half:.4g} and in rank by at most {rank}; Powers-Størmer.",
    ),
    "rms_diameter_free": (
        "(½ √(2D) (λ'² − 1))^½ (E|x − x'|⁴)^¼",
        "As above, with each distance in units of its own length, so that no outlier dominates.",
    ),
    "rms_trivial": (
        "√(r² + r'²)",
        "Means aligned, a rotation or its negative: their squared errors average to r² + r'².",
    ),
}
"""The formula of every bound, and the sentence that explains it."""


def sup_bounds(tie: Stitching, sizes: Sizes, c_d: float | None, rests: tuple[Assumption, ...]) -> list[Bound]:
    """Bounds on the supremum."""
    d, delta = sizes.dimension, sizes.smaller
    distortion = tie.distortion(sizes.diameter, sizes.target)
    epsilon = distortion / delta
    known = isometric_constant(d) if c_d is None else c_d
    within = Assumption(SMALL, MEASURED if epsilon <= 1 else VIOLATED)
    lemma = 0.0 if epsilon == 0 else known * math.sqrt(epsilon) * delta if epsilon <= 1 else math.inf
    eta = float(sum(sizes.widths) ** 0.25) * math.sqrt(epsilon + epsilon * epsilon / 2)
    trivial = jung_radius(d) * (sizes.diameter + sizes.other(distortion))
    origin = "paper" if tie.mismatch == 0 and tie.alike else "ours"
    numbers = {
        "constant": f"{known:.4g}" if math.isfinite(known) else "infinite beyond 64 dimensions",
        "epsilon": epsilon,
        "beyond": "." if epsilon <= 1 else ": the theorem does not apply for ε above 1.",
        "eta": eta,
    }
    chance = sizes.chance_sup()
    return [
        Bound(name, "sup", value, chance, FORMULAS[name][0], FORMULAS[name][1].format(**numbers), on, by)
        for name, value, on, by in (
            ("theorem_1", lemma, (*rests, within), origin),
            ("sup_polynomial", (eta + math.sqrt(2 * epsilon + 4 * eta)) * delta, rests, "ours"),
            ("sup_trivial", trivial, () if sizes.target is not None else rests, "ours"),
        )
    ]


def rms_bounds(tie: Stitching, sizes: Sizes, rests: tuple[Assumption, ...]) -> list[Bound]:
    """Bounds on the root mean square."""
    rank, other = sum(sizes.widths), sizes.other(tie.distortion(sizes.diameter, sizes.target))
    # |d_Y^2 - d_X^2| = |d_Y - d_X| (d_Y + d_X): the first factor in the mean square over pairs, the second at most.
    half = (sizes.diameter + other) / 2 * tie.distortion(sizes.diameter, sizes.target, rms=True)
    square = None if sizes.spread is None else tie.square_distortion(sizes.spread, sizes.diameter)
    values = {"rms": math.sqrt(math.sqrt(rank) * half)}
    if square is not None:
        values["rms_diameter_free"] = math.sqrt(math.sqrt(rank) * square / 2)
    values["rms_trivial"] = replace(sizes, target=other).chance_rms()
    on = dict.fromkeys(values, rests)
    if sizes.radii is not None or sizes.target is not None:
        on["rms_trivial"] = ()
    chance, numbers = sizes.chance_rms(), {"half": half, "rank": rank}
    return [
        Bound(name, "rms", value, chance, FORMULAS[name][0], FORMULAS[name][1].format(**numbers), on[name], "ours")
        for name, value in values.items()
    ]


def outside_the_root(tie: Stitching, sizes: Sizes, c_d: float | None) -> list[Bound]:
    """The bounds for equal outputs, plus the shift of a target row due to the mismatch."""
    without = replace(tie, mismatch=0.0, mismatch_rms=0.0)
    inherited = [Assumption(IMAGE, NOT_TESTED) if each.text == EQUAL else each for each in assumptions(without)]
    rests = (*inherited, Assumption(CHORDS, NOT_TESTED), Assumption(MISMATCH, MEASURED))
    # The exact stitching is another cloud than the target: its diameter is not known.
    plain = Sizes(sizes.widths, sizes.diameter, None, None, None)
    said = "The mismatch shifts each row by at most itself times the decoder's inverse constant, outside the root."
    bounds_of = {
        "sup": (sup_bounds(without, plain, c_d, ()), tie.mismatch, sizes.chance_sup()),
        "rms": (rms_bounds(without, plain, ()), tie.mismatch_rms, sizes.chance_rms()),
    }
    outside = []
    for error, (inside, mismatch, chance) in bounds_of.items():
        best = min(inside, key=lambda bound: bound.value)
        if mismatch > 0:
            value, formula = best.value + tie.inverse * mismatch, f"{best.formula} + β m"
            outside.append(Bound(f"{error}_outside", error, value, chance, formula, said, rests, "ours"))
    return outside


def assumptions(tie: Stitching) -> tuple[Assumption, ...]:
    """The assumptions of all bounds from these constants."""
    if tie.measured_defect is not None:
        return (Assumption(DISTORTION, MEASURED),)
    # Between the images of two segments the inverse must be continuous: an image that meets itself is cut anywhere.
    outputs = [Assumption(EQUAL, NOT_TESTED), Assumption(FOLDS, NOT_TESTED)]
    if tie.mismatch > 0 or tie.mismatch_rms > 0:
        outputs = [Assumption(MISMATCH, MEASURED), Assumption(CHORDS, NOT_TESTED)]
    shape = [Assumption(text, NOT_TESTED) for text in (CONVEX, INJECTIVE, SMOOTH)]
    return (*shape, *outputs, Assumption(SUPREMUM, NOT_TESTED if tie.sampled else GIVEN))


def _widths(dimension: int | tuple[int, int] | None, first: Any, second: Any) -> tuple[int, int]:
    if dimension is None:
        known = [getattr(side, "data", {}).get("latents") for side in (first, first if second is None else second)]
        named = [width for width in known if isinstance(width, int)]
        if len(named) < 2:
            raise InputError("dimension is missing: name the number of latents")
        return named[0], named[1]
    pair = tuple(dimension) if isinstance(dimension, Sequence) else (dimension, dimension)
    if len(pair) != 2:
        raise InputError(f"dimension is {dimension!r} and must be one number, or one of each side")
    for width in pair:
        check_counts(dimension=(width, 1))
    return int(pair[0]), int(pair[1])


def _two(radii: Any) -> tuple[float, float]:
    if not hasattr(radii, "__len__") or len(radii) != 2:
        raise InputError(f"radii is {radii!r} and must be two numbers, one of each side")
    return positive("radii", radii[0]), positive("radii", radii[1])
