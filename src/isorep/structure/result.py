"""Result of scoring against factors, as small frozen records that print, tabulate and serialise themselves.

From numbers to words: which factor has a latent of its own, which are mixed, split or lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..comparison import Comparison
from ..representation import Array
from ..resampling import Interval, Null
from ..results import Record, ResultRecord, Verdict, aligned, plain
from .columns import Pair

LEAST = 0.05
"""Normalised mutual information below this is nothing, whatever chance gives."""
MOST = 2 / 3
"""A latent is a factor's own if it holds this share of what latents know about it, and knows little else."""
STATES = {
    "split": "split over several latents",
    "mixed": "in a latent with other factors",
    "mixed and split": "split over latents with other factors in them",
    "lost": "in no latent above chance",
}
_NAMED = 4


@dataclass(frozen=True)
class Score(Record):
    """One score: higher is better, 1 is best.

    ``value`` is that of all rows and ``interval`` says how far it moves on other rows. ``chance`` is what shuffled rows
    give; ``chance.observed`` is the score of the very rows that were shuffled, which its p-value compares with them.
    """

    derived: ClassVar[tuple[str, ...]] = ("corrected",)
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


@dataclass(frozen=True, eq=False)
class Information(Record):
    """Normalised mutual information, factors by latents; ``chance`` is what the best latent of a factor reaches."""

    nmi: Array
    active: Array
    chance: Array
    factors: tuple[str, ...]
    latents: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FactorScores(ResultRecord):
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

    schema: ClassVar[str] = "isorep.structure/1"
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


@dataclass(frozen=True)
class FactorReading:
    """What became of a factor: ``captured``, ``split``, ``mixed``, ``mixed and split``, ``lost`` or ``constant``.

    ``latent`` knows most about it (``nmi``), ``share`` of what all latents know together, and ``purity`` is the share
    that this factor has in what the latent knows.
    """

    name: str
    state: str
    latent: str | None
    nmi: float
    chance: float
    share: float
    purity: float
    latents: tuple[str, ...]
    explicitness: float | None
    sentence: str


@dataclass(frozen=True)
class LatentReading:
    """What a latent is about: ``pure``, ``mixed``, ``uninformative`` or ``inactive``."""

    name: str
    state: str
    factor: str | None
    nmi: float
    purity: float
    factors: tuple[str, ...]


def chance_levels(tables: Sequence[Array], factors: int) -> Array:
    """For each factor what the best of all latents reaches in 95 % of shuffles, and at least the least that counts."""
    if not tables:
        return np.full(factors, LEAST)
    best = np.array([table.max(axis=1) for table in tables])
    return np.asarray(np.maximum(np.quantile(best, 0.95, axis=0), LEAST))


def read_factors(
    pair: Pair, nmi: Array, active: Array, chance: Array, explicitness: dict[str, float]
) -> tuple[FactorReading, ...]:
    """What became of every factor; only information above chance counts."""
    known = _above(nmi, active, chance)
    factors = []
    for index, factor in enumerate(pair.factors):
        row = known[index]
        best = int(row.argmax()) if row.max() > 0 else int(nmi[index].argmax())
        holders = tuple(pair.latents.names[j] for j in np.argsort(-row) if row[j] > 0)
        share = float(row[best] / row.sum()) if holders else 0.0
        purity = float(row[best] / known[:, best].sum()) if holders else 0.0
        split, mixed = share < MOST, purity < MOST
        if factor.constant:
            state, said = "constant", f"{factor.name} is constant"
        elif not holders:
            state, said = "lost", f"{factor.name} is lost: no latent informs about it above chance"
        else:
            state = "mixed and split" if split and mixed else "split" if split else "mixed" if mixed else "captured"
            said = f"{factor.name} is " + (f"split over {_listed(holders)}" if split else f"captured by {holders[0]}")
            others = [pair.factors.names[i] for i in np.argsort(-known[:, best]) if known[i, best] > 0 and i != index]
            if mixed and split:
                said += f", where {_listed(others)} {'is' if len(others) == 1 else 'are'} too"
            elif mixed:
                said += f" together with {_listed(others)}"
        factors.append(
            FactorReading(
                name=factor.name,
                state=state,
                latent=pair.latents.names[best] if holders else None,
                nmi=float(nmi[index, best]),
                chance=float(chance[index]),
                share=share,
                purity=purity,
                latents=holders,
                explicitness=explicitness.get(factor.name),
                sentence=said,
            )
        )
    return tuple(factors)


def read_latents(pair: Pair, nmi: Array, active: Array, chance: Array) -> tuple[LatentReading, ...]:
    """What every latent is about."""
    known = _above(nmi, active, chance)
    latents = []
    for index, name in enumerate(pair.latents.names):
        column = known[:, index]
        best = int(nmi[:, index].argmax())
        about = tuple(pair.factors.names[i] for i in np.argsort(-column) if column[i] > 0)
        purity = float(column[best] / column.sum()) if about else 0.0
        state = "pure" if purity >= MOST else "mixed"
        if not about:
            state = "uninformative" if active[index] else "inactive"
        factor = pair.factors.names[best] if about else None
        latents.append(LatentReading(name, state, factor, float(nmi[best, index]), purity, about))
    return tuple(latents)


def judge(factors: Sequence[FactorReading]) -> Verdict:
    """All factors captured, some, or none."""
    asked = [each for each in factors if each.state != "constant"]
    if not asked:
        return Verdict("not recovered", "No factor varies, so there is nothing to recover.")
    captured = [f"{each.name} {each.latent}" for each in asked if each.state == "captured"]
    answer = "recovered" if len(captured) == len(asked) else "partly" if captured else "not recovered"
    if len(asked) == 1:
        opening = f"The factor has {'a' if captured else 'no'} latent of its own"
    elif answer == "recovered":
        opening = f"All {len(asked)} factors have a latent of their own"
    elif answer == "partly":
        have = "has a latent of its own" if len(captured) == 1 else "have a latent of their own"
        opening = f"{len(captured)} of {len(asked)} factors {have}"
    else:
        opening = f"None of {len(asked)} factors has a latent of its own"
    said = [f"{opening} ({_listed(captured)})" if captured else opening]
    for state, words in STATES.items():
        names = [each.name for each in asked if each.state == state]
        if names:
            said.append(f"{words}: {_listed(names)}")
    return Verdict(answer, "; ".join(said) + ".")


def _above(nmi: Array, active: Array, chance: Array) -> Array:
    return np.where((nmi > chance[:, None]) & active[None, :], nmi, 0.0)


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_NAMED])
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
