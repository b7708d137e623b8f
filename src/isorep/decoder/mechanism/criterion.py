"""One criterion: what it says at every tolerance and by every way to look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...results import Record

HOLDS, FAILS, UNDECIDED, DEPENDS = "holds", "fails", "undecided", "depends on the tolerance"


@dataclass(frozen=True)
class Level:
    """A criterion at one tolerance, over all samples.

    ``share`` of the samples satisfy it and ``decided`` of them could be decided; ``worst`` is the measure at the worst
    sample, ``sample``. ``method`` says how it was found.
    """

    tolerance: float
    state: str
    share: float
    decided: float
    worst: float | None
    sample: int | None
    method: str
    note: str = ""


@dataclass(frozen=True)
class Evidence(Record):
    """One way to look at a criterion, at every tolerance."""

    derived: ClassVar[tuple[str, ...]] = ("state",)
    method: str
    levels: tuple[Level, ...]
    note: str = ""

    @property
    def state(self) -> str:
        """``holds`` or ``fails`` where every tolerance that decides says so."""
        return together([level.state for level in self.levels])


@dataclass(frozen=True)
class Irreducibility(Record):
    """Whether a block cannot be split further in the sense of a criterion (or is separable), at every tolerance.

    ``share`` is that of the samples at which it is so, at the strictest tolerance that decides.
    """

    derived: ClassVar[tuple[str, ...]] = ("state",)
    block: int
    states: tuple[str, ...]
    share: float
    note: str = ""

    @property
    def state(self) -> str:
        """That of all tolerances which decide, where they agree."""
        decided = {state for state in self.states if state != UNDECIDED}
        return UNDECIDED if not decided else decided.pop() if len(decided) == 1 else DEPENDS


@dataclass(frozen=True)
class Criterion(Record):
    """One type of mechanistic independence.

    Attributes
    ----------
    name : str
        ``D``, ``M``, ``S``, ``H2`` or ``H3``.
    measure : str
        What ``worst`` is in every level, with its direction.
    evidence : tuple of Evidence
        One way, or for H_n derivatives and swaps.
    irreducible : tuple of Irreducibility
    separable : tuple of Irreducibility
        Of every block, for H_n from derivatives; empty elsewhere.
    """

    derived: ClassVar[tuple[str, ...]] = ("state", "holds_at")
    name: str
    measure: str
    evidence: tuple[Evidence, ...]
    irreducible: tuple[Irreducibility, ...] = ()
    separable: tuple[Irreducibility, ...] = ()

    @property
    def state(self) -> str:
        """``holds``, ``fails``, ``depends on the tolerance`` or ``undecided``; evidence against outweighs the rest."""
        found = [evidence.state for evidence in self.evidence if evidence.levels]
        if FAILS in found:
            return FAILS
        if DEPENDS in found:
            return DEPENDS
        return HOLDS if HOLDS in found else UNDECIDED

    @property
    def holds_at(self) -> tuple[float, ...]:
        """The tolerances at which it holds by all evidence that decides."""
        found: dict[float, list[str]] = {}
        for evidence in self.evidence:
            for level in evidence.levels:
                found.setdefault(level.tolerance, []).append(level.state)
        return tuple(tolerance for tolerance, states in found.items() if together(states) == HOLDS)

    def way(self, method: str) -> Evidence | None:
        """The evidence of one kind: ``derivatives`` or ``swaps`` for H_n."""
        return next((evidence for evidence in self.evidence if evidence.method == method), None)

    def __str__(self) -> str:
        return f"Type {self.name} {self.state}"


def together(states: Sequence[str]) -> str:
    """One state of many: that of all which decide, ``undecided`` where none does."""
    decided = {state for state in states if state in (HOLDS, FAILS)}
    if len(decided) > 1:
        return DEPENDS
    return decided.pop() if decided else UNDECIDED


def level(
    tolerance: float, holds: Sequence[bool | None], worst: Any, *, largest: bool, method: str, note: str = ""
) -> Level:
    """A criterion at one tolerance from what each sample says (None: undecided) and its measure there."""
    states = np.array([-1 if each is None else int(each) for each in holds])
    measures = np.asarray(worst, dtype=float)
    state = FAILS if (states == 0).any() else HOLDS if (states == 1).all() else UNDECIDED
    known = np.flatnonzero(~np.isnan(measures))
    place = None
    if len(known):
        place = int(known[measures[known].argmax() if largest else measures[known].argmin()])
    return Level(
        float(tolerance),
        state,
        float((states == 1).mean()),
        float((states >= 0).mean()),
        None if place is None else float(measures[place]),
        place,
        method,
        note,
    )


def withdrawn(criterion: Criterion, tolerance: float, method: str | None, reason: str) -> Criterion:
    """The criterion with one level set to undecided, and why."""
    ways = []
    for evidence in criterion.evidence:
        levels = tuple(
            replace(each, state=UNDECIDED, note=reason)
            if each.tolerance == tolerance and method in (None, evidence.method)
            else each
            for each in evidence.levels
        )
        ways.append(replace(evidence, levels=levels))
    return replace(criterion, evidence=tuple(ways))
