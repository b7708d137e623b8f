"""Verdict on many runs: the rung of each pair, outlier runs, and clusters of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..report.charts import PHRASES
from ..representation import Array
from ..results import Record, decimals, largest, significant
from .many_errors import RungMatrix
from .result import Verdict
from .verdict import (
    LEAST_SCORED,
    WITHOUT_LINEAR,
    WITHOUT_NULL,
    agrees,
    suffices,
    too_few_scored,
)

OUTLIES, BEYOND = 3.5, 0.2  # robust standard deviations and share of the ensemble's median; both must be exceeded
LEAST_RUNS = 4  # with fewer no run can be called an outlier: there is no majority to differ from
CONSISTENT = 1.4826  # median absolute deviation to standard deviation, for normal values
_ROUNDING = 1e-6  # what the rounding of moments can make of runs that are the same
REFERENCES = ("rigid", "linear", "signed_permutation", "ica")


@dataclass(frozen=True)
class Outlier:
    """A run far from the others: its median error to them, and the median of all runs' medians."""

    run: str
    error: float
    typical: float
    sentence: str


@dataclass(frozen=True, eq=False)
class Clustering(Record):
    """Runs by average linkage on the symmetrised error of a rung.

    ``order`` puts near runs side by side; ``linkage`` is scipy's: for each step the two clusters joined, the error at
    which, and how many runs they hold.
    """

    rung: str
    order: tuple[int, ...]
    linkage: Array


def reference_rung(rungs: dict[str, RungMatrix]) -> str:
    """The rung that outliers and clusters are judged by: rigid where there is one."""
    return next((name for name in REFERENCES if name in rungs), next(iter(rungs)))


def cluster(rungs: dict[str, RungMatrix]) -> Clustering:
    """The order and the tree of the runs."""
    name = reference_rung(rungs)
    from scipy.cluster import hierarchy  # slow to load, and two runs need none of it
    from scipy.spatial.distance import squareform

    tree = hierarchy.linkage(squareform(rungs[name].symmetric, checks=False), "average", optimal_ordering=True)
    return Clustering(name, tuple(int(run) for run in hierarchy.leaves_list(tree)), tree)


def find_outliers(rungs: dict[str, RungMatrix], names: Sequence[str]) -> tuple[Outlier, ...]:
    """Runs whose median error to the others exceeds the ensemble's median by 3.5 robust deviations and by 20%."""
    name = reference_rung(rungs)
    errors = rungs[name].symmetric
    count = len(names)
    if count < LEAST_RUNS:
        return ()
    medians = np.array([np.median(np.delete(errors[run], run)) for run in range(count)])
    typical = float(np.median(medians))
    spread = CONSISTENT * float(np.median(np.abs(medians - typical)))
    limit = max(typical + OUTLIES * spread, (1 + BEYOND) * typical)
    return tuple(
        Outlier(
            names[run],
            float(medians[run]),
            typical,
            f"{names[run]} is an outlier: its median {name} error to the other runs is {significant(medians[run])} "
            f"(typical: {significant(typical)}).",
        )
        for run in range(count)
        if medians[run] > max(limit, _ROUNDING)
    )


def pair_rungs(
    rungs: dict[str, RungMatrix], tolerance: float, scored: int | None = None
) -> tuple[tuple[str | None, ...], ...]:
    """For every ordered pair the smallest rung that suffices, by the rule of :mod:`isorep.comparison.verdict`."""
    count = len(next(iter(rungs.values())).error)
    found: list[list[str | None]] = [[None] * count for _ in range(count)]
    if "linear" not in rungs or rungs["linear"].null is None or (scored is not None and scored < LEAST_SCORED):
        return tuple(map(tuple, found))
    for name, rung in reversed(list(rungs.items())):
        chance = rung.null_low
        if chance is None:
            continue
        for i in range(count):
            for j in range(count):
                if i != j and suffices(rung.upper[i, j], chance[i, j], rung.excess[i, j], tolerance):
                    found[i][j] = name
    return tuple(map(tuple, found))


def judge_ensemble(
    rungs: dict[str, RungMatrix],
    pairs: tuple[tuple[str | None, ...], ...],
    names: Sequence[str],
    outliers: Sequence[Outlier],
    scored: int | None = None,
) -> Verdict:
    """The smallest rung that explains every pair of runs, excluding outliers, and a sentence."""
    if "linear" not in rungs:
        return Verdict(None, WITHOUT_LINEAR)
    if rungs["linear"].null is None:
        return Verdict(None, WITHOUT_NULL)
    if scored is not None and scored < LEAST_SCORED:
        return Verdict(None, too_few_scored(scored))
    apart = {outlier.run for outlier in outliers}
    core = [run for run, name in enumerate(names) if name not in apart]
    ordered = [(i, j) for i in core for j in core if i != j]
    without = sum(pair in ordered for pair in rungs["linear"].without_chance)
    if without:
        return Verdict(None, without_some_nulls(without, len(ordered)))
    reached = [pairs[i][j] for i, j in ordered]
    ladder = list(rungs)
    explained = [name for name in reached if name is not None]
    who = _who(len(core), len(apart))
    aside = "".join(f" {outlier.sentence}" for outlier in outliers)
    if len(explained) < len(reached):
        left = _left(rungs["linear"], ordered, names)
        lost = len(reached) - len(explained)
        if not explained:
            what = f"No rung explains any pair of {_among(len(core), len(apart))}."
        else:
            what = f"{who} do not all agree: {lost} of the {len(reached)} ordered pairs are not explained by any rung."
        return Verdict(None, f"{what} Linear maps: {left}.{aside}")
    rung = max(explained, key=ladder.index)
    matrix = rungs[rung]
    left = _left(matrix, ordered, names)
    close = all(agrees(float(matrix.error[pair]), 1 - float(matrix.rms[pair]) ** 2) for pair in ordered)
    less = _need_less(explained, rung, ladder)
    said = "agree" if close else "are partly related,"
    return Verdict(rung, f"{who} {said} {PHRASES[rung]}.{less} {left[0].upper()}{left[1:]}.{aside}")


def without_some_nulls(count: int, of: int) -> str:
    """Why there is no verdict where a time limit left the null of some ordered pairs out."""
    return f"No verdict: {count} of {of} ordered pairs have no chance level, so that chance cannot be ruled out."


def _need_less(explained: list[str], rung: str, ladder: list[str]) -> str:
    """How many pairs a smaller rung explains as well."""
    less = [name for name in explained if name != rung]
    if not less:
        return ""
    largest = max(less, key=ladder.index)
    return f" {len(less)} of the {len(explained)} ordered pairs need no more than the {largest} rung."


def _among(count: int, apart: int) -> str:
    return f"the other {count} runs" if apart else f"the {'two' if count == 2 else count} runs"


def _who(count: int, apart: int) -> str:
    if apart:
        return f"{count} of the {count + apart} runs"
    return "The two runs" if count == 2 else f"All {count} runs"


def _left(rung: RungMatrix, ordered: list[tuple[int, int]], names: Sequence[str]) -> str:
    errors = {pair: float(rung.error[pair]) for pair in ordered}
    i, j = largest(errors)
    mean = float(np.mean(list(errors.values())))
    chance = (
        "" if rung.null is None else f"chance {significant(float(np.mean([rung.null[pair] for pair in ordered])))}; "
    )
    r2 = decimals(float(np.mean([1 - rung.rms[pair] ** 2 for pair in ordered])), 3)
    return (
        f"mean held-out error {significant(mean)} mean distances to the mean, R² {r2} ({chance}worst pair "
        f"{significant(errors[i, j])}, {names[i]} -> {names[j]})"
    )
