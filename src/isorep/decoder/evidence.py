"""Evidence from a sample for and against each assumption of Theorem 1: supports, outputs, folds, kinks, suprema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bound import MEASURED, NOT_TESTED, VIOLATED, Assumption
from .distances import Chords, Mismatch
from .near_isometry import CHORDS, CONVEX, EQUAL, FOLDS, INJECTIVE, SMOOTH, SUPREMUM

_EQUAL = 1e-6  # share of the outputs' spread up to which they count as equal
_SLACK = 1e-6
_FOLDED = 3.0  # a chord between neighbours that is so many times shorter than the least stretch belongs to a fold


@dataclass(frozen=True)
class Evidence:
    """Evidence on one map: extreme singular values over ``rows`` rows, kinks, chords, holes in the support.

    ``convexity`` is the answer of :func:`isorep.decoder.convexity`, and ``kinks`` names steps without a derivative;
    None where they were not searched for. ``estimated`` is the source of singular values that are not from Jacobians.
    """

    smallest: float
    largest: float
    rows: int
    chords: Chords | None
    kinks: tuple[str, ...] | None = ()
    convexity: str = "blind"
    estimated: str = ""

    @classmethod
    def of(cls, geometry: Any, chords: Chords | None) -> Evidence:
        """From what :func:`isorep.decoder.bilipschitz` found."""
        return cls(
            float(np.min(geometry.smallest)),
            float(np.max(geometry.largest)),
            len(geometry.local),
            chords,
            tuple(geometry.data["kinks"]),
            "blind" if geometry.convexity is None else geometry.convexity.answer,
        )


def assumptions_of(sides: Sequence[Evidence], apart: Mismatch | None) -> tuple[Assumption, ...]:
    """The assumptions of Theorem 1 with the sample's evidence on each; ``apart`` is None where widths differ."""
    answers = [side.convexity for side in sides]
    convex = VIOLATED if "holes" in answers else MEASURED if set(answers) == {"none seen"} else NOT_TESTED
    differ = "outputs have different widths"
    if apart is not None:
        differ = (
            f"they differ by {apart.rms:.3g} (RMS), {apart.largest:.3g} at most; their spread is {apart.spread:.3g}"
        )
    return (
        Assumption(CONVEX, convex, f"holes between samples: {' and '.join(answers)}"),
        Assumption(EQUAL, VIOLATED if apart is None or apart.share > _EQUAL else MEASURED, differ),
        _injective(sides),
        _smooth(sides),
        *_chords(sides),
        _supremum(sides),
    )


def _injective(sides: Sequence[Evidence]) -> Assumption:
    least = min(side.smallest for side in sides)
    collide = any(side.chords is not None and side.chords.collide for side in sides)
    said = f"the least singular value is {least:.3g}" + ("; distant latents have one output" if collide else "")
    if least == 0 or collide:
        return Assumption(INJECTIVE, VIOLATED, said)
    seen = all(side.chords is not None for side in sides)
    return Assumption(INJECTIVE, MEASURED if seen else NOT_TESTED, said)


def _smooth(sides: Sequence[Evidence]) -> Assumption:
    kinks = sorted({kink for side in sides for kink in side.kinks or ()})
    looked = all(side.kinks is not None for side in sides)
    said = f"kinks: {', '.join(kinks)}" if kinks else "kinks: none seen" if looked else ""
    return Assumption(SMOOTH, VIOLATED if kinks else NOT_TESTED, said)


def _chords(sides: Sequence[Evidence]) -> list[Assumption]:
    """That the lower constants hold for chords, and the weaker one that short chords join near latents."""
    known = [(side, side.chords) for side in sides if side.chords is not None and side.chords.pairs]
    if len(known) < len(sides):
        return [Assumption(CHORDS, NOT_TESTED), Assumption(FOLDS, NOT_TESTED)]
    ratio = max(side.smallest / seen.shortest if seen.shortest > 0 else math.inf for side, seen in known)
    said = f"least singular value over the shortest of {sum(seen.pairs for _, seen in known)} chords: {ratio:.3g}"
    hold = ratio <= 1 + _SLACK
    folded = [
        seen.meeting
        for side, seen in known
        if seen.meeting is not None
        and side.smallest * seen.meeting[1] > _FOLDED * seen.meeting[0]
        and side.smallest > _FOLDED * seen.shortest
    ]
    status, why = (MEASURED, "") if hold else (NOT_TESTED, "")
    if folded:
        chord, latent = max(folded, key=lambda each: each[1] / each[0] if each[0] > 0 else math.inf)
        status = VIOLATED
        why = f"outputs {chord:.3g} apart, no farther than neighbours, come from latents {latent:.3g} apart"
    return [Assumption(CHORDS, MEASURED if hold else VIOLATED, said), Assumption(FOLDS, status, why)]


def _supremum(sides: Sequence[Evidence]) -> Assumption:
    rows = min(side.rows for side in sides)
    said = list(dict.fromkeys(side.estimated for side in sides if side.estimated))
    over = [side for side in sides if side.chords is not None and side.chords.pairs]
    over = [side for side in over if side.chords is not None and side.chords.longest > side.largest * (1 + _SLACK)]
    if over:
        worst = max(over, key=lambda side: side.chords.longest / side.largest if side.chords and side.largest else 0)
        longest = 0.0 if worst.chords is None else worst.chords.longest
        said.append(f"a chord is stretched by {longest:.4g}, and the largest singular value is {worst.largest:.4g}")
        return Assumption(SUPREMUM, VIOLATED, "; ".join(said))
    if not said:
        said.append(
            f"with 95% confidence at most {1 - 0.05 ** (1 / rows):.2g} of new latents exceed the largest of {rows}"
        )
    return Assumption(SUPREMUM, NOT_TESTED, "; ".join(said))
