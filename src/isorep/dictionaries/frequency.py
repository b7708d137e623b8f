"""Recurrence against frequency: shares of atoms that recur in bins of how often they are active, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..representation import Array
from ..resampling import Interval, wilson
from ..results import Record

BINS = 10
LEAST = 20
"""Atoms per bin, at least; fewer bins are made of fewer atoms."""


@dataclass(frozen=True)
class Bin:
    """Atoms of similar frequency: its range and median, their number, the share that recurs, and that by chance."""

    low: float
    high: float
    frequency: float
    atoms: int
    share: float
    interval: Interval
    chance: float | None


@dataclass(frozen=True, eq=False)
class Curve(Record):
    """Recurrence of one dictionary's atoms against their frequency, rare atoms first."""

    name: str
    bins: tuple[Bin, ...]


def curve_of(name: str, frequency: Array, recurs: Array, by_chance: Array) -> Curve:
    """Bins of nearly as many atoms each, cut between different frequencies.

    ``by_chance`` holds how often each atom recurred by chance, and in how many draws it was looked at.
    """
    order = np.argsort(frequency, kind="stable")
    count = int(np.clip(len(order) // LEAST, 1, BINS))
    cuts = np.quantile(frequency, np.linspace(0, 1, count + 1)[1:-1])
    place = np.searchsorted(cuts, frequency, side="right")
    bins = []
    for each in np.unique(place):
        inside = np.flatnonzero(place == each)
        hits, looked = by_chance[:, inside].sum(axis=1)
        share = float(recurs[inside].mean())
        bins.append(
            Bin(
                low=float(frequency[inside].min()),
                high=float(frequency[inside].max()),
                frequency=float(np.median(frequency[inside])),
                atoms=len(inside),
                share=share,
                interval=wilson(share, len(inside)),
                chance=float(hits / looked) if looked else None,
            )
        )
    return Curve(name, tuple(bins))
