"""Bounds for a pair of clouds whose distances are known to be nearly the same: what they rest on and what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .bound import GIVEN, MEASURED, NOT_TESTED, VIOLATED, Assumption, Bound
from .isometric_constant import isometric_constant, jung_radius
from .stitching import Stitching

CONVEX = "both supports are convex, so that what holds locally holds for all pairs"
INJECTIVE = "both decoders are injective"
SMOOTH = "both decoders are continuously differentiable"
EQUAL = "both models give equal outputs"
SUPREMUM = "the constants hold everywhere: the largest of a sample is a lower estimate of the supremum"
CHORDS = "the lower constants hold for chords: no image folds back on itself"
IMAGE = "the outputs of the first model lie in the image of the second decoder"
MISMATCH = "the outputs of the two models differ by no more than the mismatch"
SMALL = "the defect is at most 1: L at most 0.414 for two decoders alike"
DISTORTION = "no distance between two rows changes by more than the defect"


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
        """A near-isometry is one in both directions: the smaller diameter serves."""
        return min(self.diameter, self.target or self.diameter)

    def other(self, distortion: float) -> float:
        """At most the diameter of the target."""
        return self.target if self.target is not None else self.diameter + distortion

    def chance_sup(self) -> float:
        """What holds for any two clouds of these diameters."""
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


def sup_bounds(tie: Stitching, sizes: Sizes, c_d: float | None, rests: tuple[Assumption, ...]) -> list[Bound]:
    """Bounds on the supremum."""
    d, delta = sizes.dimension, sizes.smaller
    distortion = tie.distortion(sizes.diameter, sizes.target)
    epsilon, chance = distortion / delta, sizes.chance_sup()
    known = isometric_constant(d) if c_d is None else float(c_d)
    within = Assumption(
        "the defect is at most 1: L at most 0.414 for two decoders alike", MEASURED if epsilon <= 1 else VIOLATED
    )
    lemma = 0.0 if epsilon == 0 else known * math.sqrt(epsilon) * delta if epsilon <= 1 else math.inf
    eta = _eta(epsilon, sum(sizes.widths))
    polynomial = (eta + math.sqrt(2 * epsilon + 4 * eta)) * delta
    trivial = jung_radius(d) * (sizes.diameter + sizes.other(distortion))
    constant = f"{known:.4g}" if math.isfinite(known) else "infinite beyond 64 dimensions"
    return [
        Bound(
            "theorem_1",
            "sup",
            lemma,
            chance,
            "c_D √ε Δ",
            f"Isometric approximation with c_D = {constant} and ε = {epsilon:.4g}"
            + ("." if epsilon <= 1 else ": the theorem says nothing for ε above 1."),
            (*rests, within),
            "paper" if tie.mismatch == 0 and tie.alike else "ours",
        ),
        Bound(
            "sup_polynomial",
            "sup",
            polynomial,
            chance,
            "(η + √(2ε + 4η)) Δ",
            f"A contraction serves every row within ηΔ, η = {eta:.4g}, and its orthogonal factor is near it.",
            rests,
            "ours",
        ),
        Bound(
            "sup_trivial",
            "sup",
            trivial,
            chance,
            "R_D (Δ + Δ')",
            "Both clouds lie in balls of Jung's radius: centre on centre, whatever the pairing.",
            () if sizes.target is not None else rests,
            "ours",
        ),
    ]


def rms_bounds(tie: Stitching, sizes: Sizes, rests: tuple[Assumption, ...]) -> list[Bound]:
    """Bounds on the root mean square."""
    distortion = tie.distortion(sizes.diameter, sizes.target)
    chance, rank = sizes.chance_rms(), sum(sizes.widths)
    # |d_Y^2 - d_X^2| = |d_Y - d_X| (d_Y + d_X): the first factor in the mean square over pairs, the second at most.
    half = (sizes.diameter + sizes.other(distortion)) / 2 * tie.mean_distortion(sizes.diameter, sizes.target)
    found = [
        Bound(
            "rms",
            "rms",
            math.sqrt(math.sqrt(rank) * half),
            chance,
            "(2D)^¼ √(ε + ε²/2) Δ",
            f"The Gram matrices differ by at most {half:.4g} and in rank by at most {rank}; Powers-Størmer.",
            rests,
            "ours",
        )
    ]
    square = None if sizes.spread is None else tie.square_distortion(sizes.spread, sizes.diameter)
    if square is not None:
        found.append(
            Bound(
                "rms_diameter_free",
                "rms",
                math.sqrt(math.sqrt(rank) * square / 2),
                chance,
                "(½ √(2D) (λ'² − 1))^½ (E|x − x'|⁴)^¼",
                "As above, with each distance by its own length, so that no outlier sets it.",
                rests,
                "ours",
            )
        )
    found.append(
        Bound(
            "rms_trivial",
            "rms",
            math.hypot(*sizes.radii)
            if sizes.radii is not None
            else jung_radius(sizes.dimension) * math.hypot(sizes.diameter, sizes.other(distortion)),
            chance,
            "√(r² + r'²)",
            "Mean on mean, a rotation or its negative: their squared errors average to r² + r'².",
            () if sizes.radii is not None or sizes.target is not None else rests,
            "ours",
        )
    )
    return found


def outside_the_root(tie: Stitching, sizes: Sizes, c_d: float | None) -> list[Bound]:
    """The bounds for equal outputs, plus what the mismatch moves a row of the target by."""
    without, lower = tie.without_mismatch(), tie.inverse
    inherited = [Assumption(IMAGE, NOT_TESTED) if each.text == EQUAL else each for each in assumptions(without)]
    rests = (*inherited, Assumption(CHORDS, NOT_TESTED), Assumption(MISMATCH, MEASURED))
    # The exact stitching is another cloud than the target: its diameter is not known.
    plain = Sizes(sizes.widths, sizes.diameter, None, None, None)
    best_sup = min(sup_bounds(without, plain, c_d, ()), key=lambda bound: bound.value)
    best_rms = min(rms_bounds(without, plain, ()), key=lambda bound: bound.value)
    said = "The mismatch moves each row by at most its decoder's lower constant times itself, outside the root."
    return [
        Bound(
            f"{error}_outside",
            error,
            best.value + lower * size,
            chance,
            f"{best.formula} + β m",
            said,
            rests,
            "ours",
        )
        for error, best, size, chance in (
            ("sup", best_sup, tie.mismatch, sizes.chance_sup()),
            ("rms", best_rms, tie.mismatch_rms, sizes.chance_rms()),
        )
        if size > 0
    ]


def assumptions(tie: Stitching) -> tuple[Assumption, ...]:
    """What all bounds from these constants rest on."""
    if tie.measured_defect is not None:
        return (Assumption(DISTORTION, MEASURED),)
    mismatched = tie.mismatch > 0 or tie.mismatch_rms > 0
    outputs = (
        (Assumption(MISMATCH, MEASURED), Assumption(CHORDS, NOT_TESTED))
        if mismatched
        else (Assumption(EQUAL, NOT_TESTED),)
    )
    return (
        Assumption(CONVEX, NOT_TESTED),
        Assumption(INJECTIVE, NOT_TESTED),
        Assumption(SMOOTH, NOT_TESTED),
        *outputs,
        Assumption(SUPREMUM, NOT_TESTED if tie.sampled else GIVEN),
    )


def _eta(epsilon: float, rank: int) -> float:
    return float(rank**0.25) * math.sqrt(epsilon + epsilon * epsilon / 2)
