"""Recurrence: single dimensions and independent components that are reproducible across runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..alignment.base import match_components
from ..moments import JointMoments
from ..representation import Array
from ..results import Record
from ..rows import Deadline
from .fits import UnmixedSide

RECURS = 0.8
"""A component recurs in a run if its absolute correlation with the one matched to it there is at least this."""


@dataclass(frozen=True, eq=False)
class Dimensions(Record):
    """Reproducibility of every dimension of one run in the others.

    ``r2`` is the mean over the other runs of the held-out R² of a linear prediction from each (None without the linear
    rung). ``correlation`` is the mean absolute correlation with the dimension matched by signed permutation on all
    rows, 0 where a narrower run has none left (None for few rows of tens of thousands of columns, without that rung).
    """

    r2: Array | None
    correlation: Array | None


@dataclass(frozen=True, eq=False)
class RunComponents(Record):
    """The independent components of one run in the others.

    ``score`` is the mean absolute correlation with the matched components, 0 where there is none; ``runs`` the number
    of runs in which they are found, including their own; ``gaussian`` marks those indistinguishable from Gaussian.
    """

    score: Array
    runs: Array
    gaussian: Array


@dataclass(frozen=True)
class Family:
    """One component as found in several runs: ``members`` are (run, component), at most one per run.

    ``score`` is the mean absolute correlation of two members.
    """

    members: tuple[tuple[int, int], ...]
    score: float

    @property
    def runs(self) -> int:
        """The number of runs in which it was found."""
        return len(self.members)

    def to_dict(self) -> dict[str, Any]:
        """The fields, and the number of runs."""
        return {**vars(self), "runs": self.runs}


@dataclass(frozen=True, eq=False)
class Components(Record):
    """Recurring independent components, per run and as families across runs, most widespread first."""

    by_run: tuple[RunComponents, ...]
    families: tuple[Family, ...]
    threshold: float

    def recurring(self, runs: int) -> int:
        """The number of families found in at least this many runs."""
        return sum(family.runs >= runs for family in self.families)


@dataclass(frozen=True, eq=False)
class MatchedColumns:
    """Columns of a source and of a target matched by signed permutation, and the co-moments of each two."""

    source: Array
    target: Array
    shared: Array


def dimensions_of(
    matched: Callable[[int, int], MatchedColumns] | None, spreads: Sequence[Array], columns: tuple[Array, ...] | None
) -> tuple[Dimensions, ...]:
    """Per-dimension reproducibility, from the sums of squares of every run's columns and the columns of every two runs.

    ``columns`` are the held-out squared errors (sources, columns) of the linear rung.
    """
    correlation = None if matched is None else _mean_correlations(matched, spreads)
    return tuple(
        Dimensions(
            None if columns is None else _mean_r2(columns[run], spread, run),
            None if correlation is None else correlation[run],
        )
        for run, spread in enumerate(spreads)
    )


def _mean_correlations(matched: Callable[[int, int], MatchedColumns], spreads: Sequence[Array]) -> list[Array]:
    count = len(spreads)
    correlation = [np.zeros(len(spread)) for spread in spreads]
    for i in range(count):
        for j in range(i + 1, count):
            pair = matched(i, j)
            sizes = np.sqrt(np.maximum(spreads[i][pair.source], 0)) * np.sqrt(np.maximum(spreads[j][pair.target], 0))
            shared = np.abs(pair.shared)
            strength = np.divide(shared, sizes, out=np.zeros_like(shared), where=sizes > 0)
            correlation[i][pair.source] += strength / (count - 1)
            correlation[j][pair.target] += strength / (count - 1)
    return correlation


def _mean_r2(errors: Array, spread: Array, run: int) -> Array:
    others = np.delete(errors, run, axis=0).mean(axis=0)
    return np.asarray(1 - np.divide(others, spread, out=np.ones_like(spread), where=spread > 0))


def components_of(total: JointMoments, unmixed: Sequence[UnmixedSide], until: Deadline) -> Components:
    """Match the components of every two runs from their cross-moments, and collect recurring ones."""
    count = len(unmixed)
    sizes = [len(side.whole.components) for side in unmixed]
    matched = [np.zeros((count, size)) for size in sizes]
    partner = [np.full((count, size), -1) for size in sizes]
    correlations: dict[tuple[int, int], Array] = {}
    for i in range(count):
        for j in range(i + 1, count):
            until.leave()
            pair = total.pair(i, j)
            source, target = unmixed[i].whole, unmixed[j].whole
            found = match_components(pair, source.components, target.components)
            here, there = found.source, found.target
            matched[i][j, here] = matched[j][i, there] = np.minimum(found.correlations, 1)
            partner[i][j, here], partner[j][i, there] = there, here
            correlations[i, j] = np.abs(source.components @ pair.xy @ target.components.T) / pair.n
    return Components(
        by_run=tuple(
            RunComponents(
                score=matched[run].sum(axis=0) / (count - 1),
                runs=1 + (matched[run] >= RECURS).sum(axis=0),
                gaussian=np.asarray(unmixed[run].whole.gaussian),
            )
            for run in range(count)
        ),
        families=_families(matched, partner, correlations),
        threshold=RECURS,
    )


def _families(
    matched: list[Array], partner: list[Array], correlations: dict[tuple[int, int], Array]
) -> tuple[Family, ...]:
    """Greedy families: the best-matched component starts a family, and its unassigned matches join."""
    ranked = sorted(
        ((run, k) for run, table in enumerate(matched) for k in range(table.shape[1])),
        key=lambda member: -float(matched[member[0]][:, member[1]].sum()),
    )
    taken: set[tuple[int, int]] = set()
    families = []
    for run, k in ranked:
        if (run, k) in taken:
            continue
        near = [(other, int(partner[run][other, k])) for other in np.flatnonzero(matched[run][:, k] >= RECURS)]
        members = sorted([(run, k), *((int(other), at) for other, at in near if (int(other), at) not in taken)])
        taken.update(members)
        if len(members) > 1:
            families.append(Family(tuple(members), _cohesion(members, correlations)))
    return tuple(sorted(families, key=lambda family: (-family.runs, -family.score)))


def _cohesion(members: list[tuple[int, int]], correlations: dict[tuple[int, int], Array]) -> float:
    pairs = [(a, b) for index, a in enumerate(members) for b in members[index + 1 :]]
    values = [float(correlations[a[0], b[0]][a[1], b[1]]) for a, b in pairs]
    return min(float(np.mean(values)), 1.0)
