"""Bound as a record: its value, what it says, whether it says anything, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from .._version import __version__
from ..results import Record, aligned

SCHEMA = "isorep.decoder_bounds/1"
GIVEN, MEASURED, NOT_TESTED, VIOLATED = "as given", "measured", "not tested", "violated"
NOT_CONTRADICTED = "not contradicted"
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Assumption:
    """What a bound rests on. ``status``: ``measured``, ``as given``, ``not tested`` or ``violated``.

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

    ``error`` says of which error, ``sup`` or ``rms``. ``chance`` is what holds for any two clouds of these sizes, so
    that a bound of at least as much is ``vacuous``. ``origin`` is ``paper`` for a published result and ``ours`` for
    one whose derivation is in this package. JSON has no infinity, so ``infinite`` says where it is meant.
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
        """Whether the bound says no more than the sizes of the clouds do."""
        return not self.value < self.chance

    @property
    def infinite(self) -> bool:
        """Whether the bound is infinite."""
        return math.isinf(self.value)

    @property
    def untested(self) -> tuple[Assumption, ...]:
        """The assumptions that nothing has looked at."""
        return tuple(assumption for assumption in self.assumptions if assumption.status == NOT_TESTED)

    @property
    def cell(self) -> str:
        """The value in a table of text, marked where it says nothing."""
        return f"{shown(self.value)}{' (vacuous)' if self.vacuous else ''}"

    def __str__(self) -> str:
        return f"{self.name}: {self.error} error ≤ {'vacuous' if self.vacuous else f'{self.value:.4g}'}"


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


def held_against(
    source: str, bound: Bound, measured: float, assumptions: Iterable[Assumption], rounding: float = 0.0
) -> Finding:
    """A bound beside a measured error; where the error is larger, the assumptions that fail are the reason.

    ``assumptions`` are those of the bound with what was seen of each, and ``rounding`` is the error that the precision
    of the rows alone can leave.
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
        return f"It rests on what does not hold: {'; '.join(wrong)}."
    doubtful = [assumption.text for assumption in rests if assumption.status == NOT_TESTED]
    return "Something it rests on does not hold" + (f"; not tested: {'; '.join(doubtful)}." if doubtful else ".")


@dataclass(frozen=True)
class Bounds(Record):
    """All bounds that the constants give, in the units of the diameter.

    Attributes
    ----------
    entries : tuple of Bound
    dimension : int
        The larger width.
    diameter : float
        Of the source.
    defect : float
        By how much a distance may change, in diameters of the source.
    constant : float or None
        Of the stitching map; None where a defect was measured.
    constants : pair of float or None
        Of the two decoders.
    mismatch, mismatch_rms : float
        By how much the outputs differ.
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


def shown(value: float) -> str:
    """A number in four digits; infinity spelt out."""
    return f"{value:.4g}" if math.isfinite(value) else "infinite"
