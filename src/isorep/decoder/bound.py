"""Bound as a record: its value, formula and explanation, whether it is vacuous, and its assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .._version import __version__
from ..results import Record, aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA = "isorep.decoder_bounds/1"
GIVEN, MEASURED, NOT_TESTED, VIOLATED = "as given", "measured", "not tested", "violated"
NOT_CONTRADICTED = "not contradicted"
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Assumption:
    """An assumption of a bound. ``status``: ``measured``, ``as given``, ``not tested`` or ``violated``.

    ``not contradicted`` is for assumptions on a distribution, which no sample can show. ``evidence`` says what was
    seen, where something was looked at.
    """

    text: str
    status: str
    evidence: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.status}{f': {self.evidence}' if self.evidence else ''})"


@dataclass(frozen=True)
class Bound(Record):
    """One bound on the error of the best rigid motion.

    ``error`` is the kind of error, ``sup`` or ``rms``. ``chance`` is a bound for any two clouds of these sizes; a bound
    of at least as much is ``vacuous``. ``origin`` is ``paper`` for a published result and ``ours`` for one derived in
    this package. JSON has no infinity, so ``infinite`` marks it.
    """

    derived: ClassVar[tuple[str, ...]] = ("vacuous", "infinite")
    name: str
    error: str
    value: float
    chance: float
    formula: str
    explanation: str
    assumptions: tuple[Assumption, ...]
    origin: str = "paper"

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the bound for any two clouds of these sizes."""
        return not self.value < self.chance

    @property
    def infinite(self) -> bool:
        """Whether the bound is infinite."""
        return math.isinf(self.value)

    @property
    def untested(self) -> tuple[Assumption, ...]:
        """The assumptions that were not tested."""
        return tuple(assumption for assumption in self.assumptions if assumption.status == NOT_TESTED)

    @property
    def cell(self) -> str:
        """The value in a table of text, marked if vacuous."""
        return f"{shown(self.value)}{' (vacuous)' if self.vacuous else ''}"

    def __str__(self) -> str:
        return f"{self.name}: {self.error} error ≤ {'vacuous' if self.vacuous else f'{self.value:.4g}'}"


@dataclass(frozen=True)
class Finding:
    """A bound compared with a measured error. ``answer``: ``kept``, ``violated`` or ``vacuous``."""

    source: str
    name: str
    error: str
    bound: float
    measured: float
    answer: str
    why: str


def held_against(
    source: str, bound: Bound, measured: float, assumptions: Iterable[Assumption], rounding: float = 0.0
) -> Finding:
    """A bound compared with a measured error; where the error is larger, the failed assumptions are the reason.

    ``assumptions`` are those of the bound with their evidence, and ``rounding`` is the error that the precision of the
    rows alone can cause.
    """
    answer, why = "vacuous" if bound.vacuous else "kept", ""
    if measured > bound.value * (1 + _ROUNDING) + _ROUNDING + rounding:
        answer, why = VIOLATED, _why(bound, assumptions)
    return Finding(source, bound.name, bound.error, bound.value, measured, answer, why)


def _why(bound: Bound, assumptions: Iterable[Assumption]) -> str:
    texts = {assumption.text for assumption in bound.assumptions}
    rests = [assumption for assumption in assumptions if assumption.text in texts]
    wrong = [str(assumption) for assumption in rests if assumption.status == VIOLATED]
    if wrong:
        return f"Its assumptions do not all hold: {'; '.join(wrong)}."
    doubtful = [assumption.text for assumption in rests if assumption.status == NOT_TESTED]
    return "One of its assumptions does not hold" + (f"; not tested: {'; '.join(doubtful)}." if doubtful else ".")


@dataclass(frozen=True)
class Bounds(Record):
    """All bounds that the constants give, in the units of the diameter.

    Attributes
    ----------
    entries : tuple of Bound
    dimension : int
        The larger width.
    diameter : float
        Diameter of the source.
    defect : float
        Largest change of a distance, in diameters of the source.
    constant : float or None
        Constant of the stitching map; None where a defect was measured.
    constants : pair of float or None
        Constants of the two decoders.
    mismatch, mismatch_rms : float
        Largest and RMS difference of the outputs.
    needed : float
        The stitching constant below which a bound on the root mean square would not be vacuous for equal outputs.
    """

    entries: tuple[Bound, ...]
    dimension: int
    diameter: float
    defect: float
    constant: float | None
    constants: tuple[float, float] | None
    mismatch: float
    mismatch_rms: float
    needed: float

    @property
    def sup(self) -> Bound:
        """The smallest bound on the supremum that needs no assumption on images."""
        return self.smallest("sup")

    @property
    def rms(self) -> Bound:
        """The smallest bound on the root mean square that needs no assumption on images."""
        return self.smallest("rms")

    def smallest(self, error: str) -> Bound:
        """The smallest bound on this error that needs no assumption on images."""
        kept = [bound for bound in self.entries if bound.error == error and not bound.name.endswith("_outside")]
        return min(kept, key=lambda bound: bound.value)

    def __getitem__(self, name: str) -> Bound:
        return {bound.name: bound for bound in self.entries}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a versioned schema; ``sup`` and ``rms`` name the smallest bounds."""
        named = {"sup": self.sup.name, "rms": self.rms.name}
        return {"schema": SCHEMA, "isorep": __version__, **super().to_dict(), **named}

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per bound."""
        return [row for bound in self.entries for row in bound.frame_rows()]

    def table(self) -> str:
        """The bounds as text, smallest of each kind marked with a star."""
        rows: list[tuple[str, ...]] = [("bound", "error", "at most", "chance", "")]
        for bound in self.entries:
            mark = " *" if bound in (self.sup, self.rms) else ""
            said = "vacuous" if bound.vacuous else "says something"
            rows.append((bound.name + mark, bound.error, shown(bound.value), shown(bound.chance), said))
        return aligned(rows, left=(0, 1, 4))

    def __str__(self) -> str:
        rests = dict.fromkeys(str(assumption) for bound in (self.sup, self.rms) for assumption in bound.assumptions)
        return "\n".join([self.table(), "", *(f"rests on: {text}" for text in rests)])


def error_rows(result: Any, titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """Errors that were measured, what the rows certify, and every bound, as rows of supremum, RMS and mean."""
    errors = {
        "held out": result.held_out,
        "in-sample": result.in_sample,
        "held out, with one scale": result.scaled_held_out,
        "in-sample, with one scale": result.scaled_in_sample,
        "held out, linear": result.linear,
    }
    rows: list[dict[str, Any]] = [
        {"kind": "measured", "name": name, "sup": each.sup, "rms": each.rms, "mean": each.mean}
        for name, each in errors.items()
    ]
    if (found := result.certificate) is not None:
        least = {"kind": "best possible", "name": "at least", "sup": found.lower, "rms": found.rms, "mean": None}
        most = {"kind": "best possible", "name": "at most", "sup": found.upper, "rms": found.rms_upper, "mean": None}
        rows += [least, most]
    for key, title in titles.items():
        if (tie := result.bounds.get(key)) is not None:
            kind = "no bound" if key == "mean" else "bound"
            rows.append({"kind": kind, "name": title, "sup": tie.sup.value, "rms": tie.rms.value, "mean": None})
    tie = next(iter(result.bounds.values()))
    chance = {"kind": "chance", "name": "any two clouds", "sup": tie.sup.chance, "rms": tie.rms.chance, "mean": None}
    return [*rows, chance]


def plot_errors(ax: Axes | None, result: Any, width: str) -> Axes:
    """RMS errors in sample and the bounds on them, up to somewhat more than chance."""
    from ..report.plots import Mark, dots

    rows = result.frame_rows()
    chance = next(row["rms"] for row in rows if row["kind"] == "chance")
    marks = []
    for row in rows:
        if row["kind"] == "measured" and row["name"].startswith("in-sample"):
            marks.append(Mark(row["name"], row["rms"], strong=True))
        elif row["kind"] in ("best possible", "bound"):
            marks.append(Mark(f"{row['kind']}: {row['name']}", row["rms"]))
    reference, farthest = (chance, "chance"), 1.5 * chance
    return dots(ax, marks, "RMS error (diameters)", width=width, reference=reference, farthest=farthest)


def shown(value: float) -> str:
    """A number in four digits; infinity spelt out."""
    return f"{value:.4g}" if math.isfinite(value) else "infinite"
