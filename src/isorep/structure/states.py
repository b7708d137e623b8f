"""From numbers to words: which factor has a latent of its own, which are mixed, split or lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..representation import Array
from ..results import Verdict
from .columns import Pair

LEAST = 0.05
"""Normalised mutual information below this is nothing, whatever chance gives."""
MOST = 2 / 3
"""A latent is a factor's own if it holds this share of what latents know about it, and knows little else."""
_NAMED = 4


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
    return tuple(_factor(pair, known, nmi, chance, place, explicitness) for place in range(len(pair.factors)))


def read_latents(pair: Pair, nmi: Array, active: Array, chance: Array) -> tuple[LatentReading, ...]:
    """What every latent is about."""
    known = _above(nmi, active, chance)
    readings = []
    for place, name in enumerate(pair.latents.names):
        column = known[:, place]
        best = int(nmi[:, place].argmax())
        about = tuple(pair.factors.names[i] for i in np.argsort(-column) if column[i] > 0)
        purity = float(column[best] / column.sum()) if column.sum() > 0 else 0.0
        if not active[place]:
            state = "inactive"
        elif not about:
            state = "uninformative"
        else:
            state = "pure" if purity >= MOST else "mixed"
        factor = pair.factors.names[best] if about else None
        readings.append(LatentReading(name, state, factor, float(nmi[best, place]), purity, about))
    return tuple(readings)


def judge(readings: Sequence[FactorReading]) -> Verdict:
    """All factors captured, some, or none."""
    asked = [reading for reading in readings if reading.state != "constant"]
    if not asked:
        return Verdict("not recovered", "No factor varies, so there is nothing to recover.")
    kinds = {
        state: [reading for reading in asked if reading.state == state]
        for state in ("captured", "split", "mixed", "mixed and split", "lost")
    }
    captured = kinds["captured"]
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
    said = [opening + (f" ({_listed([f'{each.name} {each.latent}' for each in captured])})" if captured else "")]
    for state, words in (
        ("split", "split over several latents"),
        ("mixed", "in a latent with other factors"),
        ("mixed and split", "split over latents with other factors in them"),
        ("lost", "in no latent above chance"),
    ):
        if kinds[state]:
            said.append(f"{words}: {_listed([reading.name for reading in kinds[state]])}")
    return Verdict(answer, "; ".join(said) + ".")


def _above(nmi: Array, active: Array, chance: Array) -> Array:
    return np.where((nmi > chance[:, None]) & active[None, :], nmi, 0.0)


def _factor(
    pair: Pair, known: Array, nmi: Array, chance: Array, place: int, explicitness: dict[str, float]
) -> FactorReading:
    factor = pair.factors[place]
    row = known[place]
    best = int(row.argmax()) if row.max() > 0 else int(nmi[place].argmax())
    names = pair.latents.names
    holders = tuple(names[j] for j in np.argsort(-row) if row[j] > 0)
    share = float(row[best] / row.sum()) if row.sum() > 0 else 0.0
    purity = float(row[best] / known[:, best].sum()) if row[best] > 0 else 0.0
    if factor.constant:
        state, said = "constant", f"{factor.name} is constant"
    elif not holders:
        state, said = "lost", f"{factor.name} is lost: no latent informs about it above chance"
    else:
        split, mixed = share < MOST, purity < MOST
        state = "mixed and split" if split and mixed else "split" if split else "mixed" if mixed else "captured"
        others = [pair.factors.names[i] for i in np.argsort(-known[:, best]) if known[i, best] > 0 and i != place]
        said = f"{factor.name} is captured by {names[best]}"
        if split:
            said = f"{factor.name} is split over {_listed(holders)}"
        if mixed:
            said += f"{', where ' if split else ' together with '}{_listed(others)}"
            said += f" {'is' if len(others) == 1 else 'are'} too" if split else ""
    return FactorReading(
        name=factor.name,
        state=state,
        latent=names[best] if holders else None,
        nmi=float(nmi[place, best]),
        chance=float(chance[place]),
        share=share,
        purity=purity,
        latents=holders,
        explicitness=explicitness.get(factor.name),
        sentence=said,
    )


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_NAMED])
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
