"""What scoring against factors found, as small frozen records that print, tabulate and serialise themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..comparison import Comparison
from ..representation import Array
from ..resampling import Interval, Null
from ..results import Record, Verdict, Written, aligned, plain
from .states import FactorReading, LatentReading

SCHEMA = "isorep.structure/1"


@dataclass(frozen=True)
class Score(Record):
    """One score: higher is better, 1 is best.

    ``value`` is that of all rows and ``interval`` says how far it moves on other rows. ``chance`` is what shuffled rows
    give; ``chance.observed`` is the score of the very rows that were shuffled, which its p-value compares with them.
    """

    name: str
    value: float
    interval: Interval | None = None
    chance: Null | None = None

    @property
    def corrected(self) -> float | None:
        """The score on a scale from chance (0) to the best (1), both of the rows that were shuffled.

        None without a null or where chance is the best.
        """
        if self.chance is None or not self.chance.mean < 1 - 1e-12:
            return None
        return (self.chance.observed - self.chance.mean) / (1 - self.chance.mean)

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the score corrected for chance."""
        return super().to_dict() | {"corrected": self.corrected}


@dataclass(frozen=True, eq=False)
class Information(Record):
    """Normalised mutual information, factors by latents; ``chance`` is what the best latent of a factor reaches."""

    nmi: Array
    active: Array
    chance: Array
    factors: tuple[str, ...]
    latents: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FactorScores(Written):
    """The result of :func:`isorep.score_factors`.

    Attributes
    ----------
    scores : dict of str to Score
        Every score with its interval and its chance level; also as ``result["infom"]``.
    information : Information or None
        The matrix of normalised mutual information behind InfoMEC.
    factors : tuple of FactorReading
        Which factors are captured, mixed, split or lost, and in which latents.
    latents : tuple of LatentReading
        What each latent is about.
    verdict : Verdict
        Its answer is ``recovered``, ``partly`` or ``not recovered``.
    ladder : Comparison or None
        Up to which group latents equal the factors.
    records : dict of str to object
        The complete result of each family, such as ``records["dci"].importances``.
    columns : dict
        Of ``factors`` and ``latents``: which are discrete, and by which rule.
    caveats : tuple of str
    """

    schema: ClassVar[str] = SCHEMA
    page_by: ClassVar[str] = "structure.page:page"
    scores: dict[str, Score]
    information: Information | None
    factors: tuple[FactorReading, ...]
    latents: tuple[LatentReading, ...]
    verdict: Verdict
    names: tuple[str, str]
    rows: int
    columns: dict[str, Any]
    settings: dict[str, Any]
    ladder: Comparison | None = None
    records: dict[str, Any] = field(default_factory=dict, repr=False)
    seconds: dict[str, float] = field(default_factory=dict, repr=False)
    caveats: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def table(self) -> str:
        """One line per score: its value, interval, what chance gives, and the score corrected for chance."""
        rows = [("score", "value", "95 % interval", "chance", "95 % of chance", "corrected", "p")]
        for score in self.scores.values():
            span = "-" if score.interval is None else f"{score.interval.low:.3f} to {score.interval.high:.3f}"
            chance = score.chance
            null = ("-", "-", "-", "-")
            if chance is not None:
                corrected = "-" if score.corrected is None else f"{score.corrected:.3f}"
                null = (f"{chance.mean:.3f}", f"{chance.high:.3f}", corrected, chance.p_text)
            rows.append((score.name, f"{score.value:.4f}", span, *null))
        return aligned(rows)

    def factor_table(self) -> str:
        """One line a factor: what became of it, its latent, and by how much."""
        rows = [("factor", "state", "latent", "NMI", "share", "purity", "explicitness")]
        for each in self.factors:
            explicit = "-" if each.explicitness is None else f"{each.explicitness:.3f}"
            numbers = (f"{each.nmi:.3f}", f"{each.share:.2f}", f"{each.purity:.2f}", explicit)
            rows.append((each.name, each.state, each.latent or "-", *numbers))
        return aligned(rows, left=(0, 1, 2))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        more = {
            "names": {"latents": self.names[0], "factors": self.names[1]},
            "unit": "scores run to 1, higher is better; mutual information over the entropy of the factor",
        }
        if self.ladder is not None:
            more["ladder"] = {
                "verdict": plain(self.ladder.verdict),
                "unit": "mean distances of the standardised factors to their mean, lower is closer",
                "rungs": plain(self.ladder.rungs),
                "caveats": list(self.ladder.caveats),
            }
        return super().to_dict() | more

    def __str__(self) -> str:
        parts = [self.table()]
        if self.factors:
            parts += ["", self.factor_table()]
        parts += ["", f"verdict: {self.verdict}"]
        if self.ladder is not None:
            parts.append(f"ladder: {self.ladder.verdict}")
        parts += [f"note: {caveat}" for caveat in self.caveats]
        return "\n".join(parts)


def finite(value: float) -> float:
    """A guard: scores are numbers for every legal input."""
    if not np.isfinite(value):
        raise ArithmeticError(f"a score came out as {value}")
    return float(value)
