"""Theorem 1 on a pair of decoders: measured errors and bounds as records, which assumptions hold, and the sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..alignment.base import Error
from ..comparison import Comparison, WorstCase
from ..resampling import Null
from ..results import Record, Written, aligned
from .bound import MEASURED, NOT_TESTED, VIOLATED, Assumption, Bound, Bounds, shown
from .distances import Chords, Mismatch, RigidErrors
from .geometry import Geometry
from .near_isometry import CHORDS, CONVEX, EQUAL, INJECTIVE, SMOOTH, SUPREMUM
from .theorems import Conditioning

SCHEMA = "isorep.decoder_pair/1"
TITLES = {
    "equal_outputs": "decoders, equal outputs",
    "with_mismatch": "decoders, with the mismatch",
    "chords": "chords, with the mismatch",
    "defect": "measured defect",
    "mean": "mean singular values (no bound)",
    "scaled": "decoders, one scale free",
}
"""The bounds by what they come from: ``mean`` is what means of singular values would give, which bound nothing."""


@dataclass(frozen=True)
class DecoderSide(Record):
    """One decoder: its sizes, its local constants, and the ratios of its chords to latent distances."""

    derived: ClassVar[tuple[str, ...]] = ("infinite",)
    name: str
    rows: int
    latents: int
    outputs: int
    constant: float
    mean_constant: float
    similarity_constant: float
    largest: float
    smallest: float
    chord_largest: float
    chord_smallest: float
    diameter: float

    @property
    def infinite(self) -> bool:
        """Whether the constant is infinite; JSON has no infinity, so it says where one is meant."""
        return math.isinf(self.constant)


@dataclass(frozen=True)
class Finding:
    """A bound held against what was measured. ``answer``: ``kept``, ``violated`` or ``vacuous``."""

    source: str
    name: str
    error: str
    bound: float
    measured: float
    answer: str
    why: str


@dataclass(frozen=True)
class DecoderPair(Written):
    """The result of :func:`isorep.decoder.pair`; errors and bounds in diameters of the second model's latents.

    Attributes
    ----------
    held_out, in_sample : Error
        Of the least-squares rigid motion without a scale.
    scaled_held_out, scaled_in_sample, linear : Error
        With one scale, and of a linear map held out.
    certificate, scaled_certificate : WorstCase
        What the rows alone certify about the best rigid motion.
    bounds : dict of str to Bounds
        ``equal_outputs``, ``with_mismatch``, ``chords``, ``defect``, ``scaled``; ``mean`` bounds nothing.
    mismatch : Mismatch or None
        In units of the outputs.
    findings : tuple of Finding
    assumptions : tuple of Assumption
    """

    schema: ClassVar[str] = SCHEMA
    page_by: ClassVar[str] = "decoder.pair_page:page"
    derived: ClassVar[tuple[str, ...]] = ("violated",)
    first: DecoderSide
    second: DecoderSide
    unit: float
    held_out: Error
    in_sample: Error
    scaled_held_out: Error
    scaled_in_sample: Error
    linear: Error
    null: Null | None
    certificate: WorstCase | None
    scaled_certificate: WorstCase | None
    mismatch: Mismatch | None
    bounds: dict[str, Bounds]
    ica: Conditioning | None
    assumptions: tuple[Assumption, ...]
    findings: tuple[Finding, ...]
    sentence: str
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def violated(self) -> bool:
        """Whether what was measured exceeds a bound."""
        return any(finding.answer == "violated" for finding in self.findings)

    def table(self) -> str:
        """Measured errors, certificates and bounds under each other."""
        rows = [
            ("rigid, no scale", "sup", "rms", "mean"),
            ("measured, held out", *_cells(self.held_out)),
            ("measured, in sample", *_cells(self.in_sample)),
        ]
        if (certified := self.certificate) is not None:
            rows.append(("best possible, at least", shown(certified.lower), shown(certified.rms), ""))
            rows.append(("best possible, at most", shown(certified.upper), shown(certified.rms_upper), ""))
        for key, title in TITLES.items():
            if key in self.bounds and key != "scaled":
                tie = self.bounds[key]
                rows.append((title if key == "mean" else f"bound: {title}", tie.sup.cell, tie.rms.cell, ""))
        chance = self.bounds["equal_outputs"]
        rows.append(("chance", shown(chance.sup.chance), shown(chance.rms.chance), ""))
        if (scaled := self.bounds.get("scaled")) is not None:
            rows.append(("with one scale, in sample", *_cells(self.scaled_in_sample)))
            rows.append(("bound: with one scale", scaled.sup.cell, scaled.rms.cell, ""))
        return aligned(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        unit = {"unit": f"diameters of {self.second.name}'s latents, lower is closer", "diameter": self.unit}
        return super().to_dict() | unit

    def __str__(self) -> str:
        parts = [self.table(), "", self.sentence]
        if self.ica is not None:
            parts.append(self.ica.sentence)
        parts += [f"assumption: {assumption}" for assumption in self.assumptions]
        return "\n".join([*parts, *(f"note: {caveat}" for caveat in self.caveats)])


def _cells(error: Error) -> tuple[str, str, str]:
    return shown(error.sup), shown(error.rms), shown(error.mean)


_EQUAL = 1e-6  # share of the outputs' spread up to which they count as equal
_ROUNDING = 1e-9


def assumptions_of(
    geometries: list[Geometry], seen: tuple[Chords, Chords], apart: Mismatch | None
) -> tuple[Assumption, ...]:
    """The assumptions of Theorem 1 with what the sample says about each."""
    return (
        _convex(geometries),
        _equal(apart),
        _injective(geometries, seen),
        _smooth(geometries),
        _chords(geometries, seen),
        _supremum(geometries),
    )


def findings_of(
    ties: dict[str, Bounds],
    compared: Comparison,
    errors: RigidErrors,
    assumptions: tuple[Assumption, ...],
    rounding: float,
) -> tuple[Finding, ...]:
    """Each bound beside what was measured: kept, violated or vacuous.

    ``rounding`` is the error, in diameters, that the precision of the latents alone can leave.
    """
    return tuple(
        _finding(source, bound, measured, assumptions, rounding)
        for source, bounds in ties.items()
        for error in ("sup", "rms")
        if source != "mean" and (measured := _measured(source, error, compared, errors)) is not None
        for bound in (bounds.smallest(error), *_others(bounds, error))
    )


def sentence_of(
    ties: dict[str, Bounds], errors: RigidErrors, findings: tuple[Finding, ...], names: tuple[str, str]
) -> str:
    """The answer: is a bound violated, and if not, does any say something."""
    broken = [finding for finding in findings if finding.answer == "violated"]
    tie = ties["equal_outputs"]
    constant = "infinite" if tie.constant is None or math.isinf(tie.constant) else f"{tie.constant:.3g}"
    if broken:
        first = broken[0]
        return (
            f"A bound is violated: {TITLES[first.source]}, {first.error} error at most {first.bound:.4g} diameters, "
            f"and {first.measured:.4g} is measured. {first.why}"
        )
    measured = f"between {names[0]} and {names[1]} a rigid motion leaves {errors.in_sample.rms:.4f} diameters"
    plain, differing = tie.rms, ties.get("with_mismatch", tie).rms
    if plain.vacuous:
        return (
            f"No bound is violated, and none from the decoders says anything: {measured} in the root mean square; the "
            f"stitching constant is {constant}, and in {tie.dimension} dimensions it would have to be below "
            f"{tie.needed:.3g}."
        )
    said = f"No bound is violated: {measured} in the root mean square, and the decoders, with a stitching constant of "
    if differing.vacuous:
        return (
            f"{said}{constant}, would allow {plain.value:.4f} if their outputs were equal. Allowing for outputs that "
            "differ as these do, the bound is vacuous."
        )
    return f"{said}{constant}, allow at most {differing.value:.4f}."


def caveats_of(
    geometries: list[Geometry],
    compared: Comparison,
    apart: Mismatch | None,
    paired: int,
    rows: int,
    names: tuple[str, str],
) -> tuple[str, ...]:
    """What to keep in mind."""
    said = [f"{name}: {caveat}" for name, side in zip(names, geometries, strict=True) for caveat in side.caveats]
    widths = [int(side.data["latents"]) for side in geometries]
    if widths[0] != widths[1]:
        said.append(
            f"the latents have {widths[0]} and {widths[1]} dimensions: no continuous one-to-one map joins convex sets "
            "with inner points in both, so Theorem 1 cannot apply; errors and bounds are those of the padded clouds"
        )
    if apart is None:
        said.append("the outputs have different widths: there is no mismatch to measure, and Theorem 1 cannot apply")
    if paired < rows:
        said.append(f"chords and all distances were compared on {paired} of {rows} rows: their extremes are estimates")
    said += compared.caveats
    return tuple(dict.fromkeys(said))


def _others(bounds: Bounds, error: str) -> list[Bound]:
    """The bounds on an error beside the smallest that needs no assumption on images."""
    return [each for each in bounds.entries if each.error == error and each.name != bounds.smallest(error).name]


def _measured(source: str, error: str, compared: Comparison, errors: RigidErrors) -> float | None:
    """What a bound is held against: the certified lower end of the supremum, the exact in-sample root mean square."""
    if compared.worst_case is None:
        return None
    certificate = compared.worst_case["rigid_with_scale" if source == "scaled" else "rigid"]
    if error == "sup":
        return float(certificate.lower)
    return compared.rungs["rigid"].in_diameters.in_sample.rms if source == "scaled" else errors.in_sample.rms


def _finding(
    source: str, bound: Bound, measured: float, assumptions: tuple[Assumption, ...], rounding: float
) -> Finding:
    if measured > bound.value * (1 + _ROUNDING) + _ROUNDING + rounding:
        answer, why = "violated", _why(bound, assumptions)
    elif bound.vacuous:
        answer, why = "vacuous", "It says no more than the sizes of the clouds do."
    else:
        answer, why = "kept", ""
    return Finding(source, bound.name, bound.error, bound.value, measured, answer, why)


def _why(bound: Bound, assumptions: tuple[Assumption, ...]) -> str:
    texts = {assumption.text for assumption in bound.assumptions}
    rests = [assumption for assumption in assumptions if assumption.text in texts]
    wrong = [str(assumption) for assumption in rests if assumption.status == VIOLATED]
    if wrong:
        return f"It rests on what does not hold: {'; '.join(wrong)}."
    doubtful = [assumption.text for assumption in rests if assumption.status == NOT_TESTED]
    return "Something it rests on does not hold" + (f"; not tested: {'; '.join(doubtful)}." if doubtful else ".")


def _convex(geometries: list[Geometry]) -> Assumption:
    answers = ["blind" if side.convexity is None else side.convexity.answer for side in geometries]
    evidence = "first: {}. second: {}.".format(*answers)
    if "holes" in answers:
        return Assumption(CONVEX, VIOLATED, f"holes between samples; {evidence}")
    return Assumption(CONVEX, MEASURED if set(answers) == {"none seen"} else NOT_TESTED, evidence)


def _equal(apart: Mismatch | None) -> Assumption:
    if apart is None:
        return Assumption(EQUAL, VIOLATED, "outputs have different widths")
    said = (
        f"they differ by {apart.rms:.3g} in the root mean square and {apart.largest:.3g} at most; their spread is "
        f"{apart.spread:.3g}"
    )
    return Assumption(EQUAL, MEASURED if apart.share <= _EQUAL else VIOLATED, said)


def _injective(geometries: list[Geometry], seen: tuple[Chords, Chords]) -> Assumption:
    least = [min(float(np.min(side.smallest)), each.smallest) for side, each in zip(geometries, seen, strict=True)]
    if min(least) <= 0:
        return Assumption(INJECTIVE, VIOLATED, "a direction is lost, or two latents share their output")
    return Assumption(INJECTIVE, MEASURED, f"not falsified: no stretch below {min(least):.3g}")


def _smooth(geometries: list[Geometry]) -> Assumption:
    kinks = sorted({kink for side in geometries for kink in side.data.get("kinks", [])})
    if kinks:
        return Assumption(SMOOTH, VIOLATED, f"kinks by {', '.join(kinks)}: Jacobians exist almost everywhere only")
    return Assumption(SMOOTH, NOT_TESTED, "no kinked operation was seen")


def _chords(geometries: list[Geometry], seen: tuple[Chords, Chords]) -> Assumption:
    worst = max(
        float(np.min(side.smallest)) / each.smallest if each.smallest > 0 else math.inf
        for side, each in zip(geometries, seen, strict=True)
    )
    if worst > 1 + 1e-6:
        said = f"the shortest chord is {worst:.3g} times shorter than the Jacobians allow"
        return Assumption(CHORDS, VIOLATED, said)
    return Assumption(CHORDS, MEASURED, f"no chord of {sum(each.pairs for each in seen)} is shorter than they allow")


def _supremum(geometries: list[Geometry]) -> Assumption:
    rows = min(len(side.local) for side in geometries)
    said = (
        f"with 95 % confidence a new latent exceeds the largest of {rows} with a probability of at most "
        f"{1 - 0.05 ** (1 / rows):.2g}"
    )
    return Assumption(SUPREMUM, NOT_TESTED, said)
