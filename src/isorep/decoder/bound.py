"""A bound as a record: its value, what it says, whether it says anything, and what it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .._version import __version__
from ..results import aligned

SCHEMA = "isorep.decoder_bounds/1"
GIVEN = "as given"
MEASURED = "measured"
NOT_TESTED = "not tested"
VIOLATED = "violated"


@dataclass(frozen=True)
class Assumption:
    """What a bound rests on. ``status``: ``measured``, ``as given``, ``not tested`` or ``violated``.

    ``evidence`` says what was seen, where something was looked at.
    """

    text: str
    status: str
    evidence: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.status}{f': {self.evidence}' if self.evidence else ''})"


@dataclass(frozen=True)
class Bound:
    """One bound on the error of the best rigid motion.

    ``error`` says of which error, ``sup`` or ``rms``. ``chance`` is what holds for any two clouds of these sizes, so
    that a bound of at least as much is ``vacuous``. ``origin`` is ``paper`` for a published result and ``ours`` for
    one whose derivation is in this package.
    """

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
    def untested(self) -> tuple[Assumption, ...]:
        """The assumptions that nothing has looked at."""
        return tuple(entry for entry in self.assumptions if entry.status == NOT_TESTED)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; JSON has no infinity, so a flag says where it is meant."""
        return {
            **asdict(self),
            "assumptions": [asdict(entry) for entry in self.assumptions],
            "vacuous": self.vacuous,
            "infinite": math.isinf(self.value),
        }

    def __str__(self) -> str:
        said = "vacuous" if self.vacuous else f"{self.value:.4g}"
        return f"{self.name}: {self.error} error ≤ {said}"


@dataclass(frozen=True)
class Bounds:
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
        return self._smallest("sup")

    @property
    def rms(self) -> Bound:
        """The smallest bound on the root mean square that needs no assumption on images."""
        return self._smallest("rms")

    def __getitem__(self, name: str) -> Bound:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def _smallest(self, error: str) -> Bound:
        kept = [entry for entry in self.entries if entry.error == error and not entry.name.endswith("_outside")]
        return min(kept, key=lambda entry: entry.value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a versioned schema."""
        return {
            "schema": SCHEMA,
            "isorep": __version__,
            "dimension": self.dimension,
            "diameter": self.diameter,
            "defect": self.defect,
            "constant": self.constant,
            "constants": None if self.constants is None else list(self.constants),
            "mismatch": self.mismatch,
            "mismatch_rms": self.mismatch_rms,
            "needed": self.needed,
            "sup": self.sup.name,
            "rms": self.rms.name,
            "entries": [entry.to_dict() for entry in self.entries],
        }

    def table(self) -> str:
        """The bounds as text, smallest of each kind marked with a star."""
        return aligned([HEADINGS, *self.rows()], left=(0, 1, 4))

    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table."""
        best = {self.sup.name, self.rms.name}
        rows: list[tuple[str, ...]] = []
        for entry in self.entries:
            mark = " *" if entry.name in best else ""
            said = "vacuous" if entry.vacuous else "says something"
            rows.append((entry.name + mark, entry.error, shown(entry.value), shown(entry.chance), said))
        return rows

    def __str__(self) -> str:
        rests = dict.fromkeys(str(entry) for bound in (self.sup, self.rms) for entry in bound.assumptions)
        return "\n".join([self.table(), "", *(f"rests on: {text}" for text in rests)])


HEADINGS = ("bound", "error", "at most", "chance", "")


def shown(value: float) -> str:
    """A number in four digits; infinity spelt out."""
    return f"{value:.4g}" if math.isfinite(value) else "infinite"
