r"""Number of dimensions: how many principal axes whitening keeps, chosen inside the training batches.

Whitening gives every axis unit variance, noise included. Too few axes lose the signal; too many make ICA and trees work
on noise. The training batches are divided into up to five groups. A linear discriminant learns on the others to tell
perturbed rows from controls and is scored on the left-out group, by batch, for each number of leading axes k. Those k
remain whose score is within one standard error of the best (paired over batches). Of these the one at the noise floor,
the Marchenko-Pastur edge of the spectrum, is chosen, or the smallest if the floor is not among them. Where batches are
too few for this, the axes above the floor are counted. Nothing uses a held-out batch.

Axes are nested, and so are the discriminants: in coordinates that are white on the training rows (a Cholesky factor
keeps the order of the axes), the discriminant is the difference of the class means, whatever k is. One decomposition
per group gives the whole curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from ..moments import merged_without, moments_alone
from ..representation import Array
from ..results import Record, aligned
from ..rows import map_blocks
from .inputs import Column, Task, stratified_folds

AUTO, TENTH, ALL = "auto", "tenth", "all"
INNER, EDGE = "left-out training batches", "Marchenko-Pastur edge"
_ROWS_A_COMPONENT = 10
_MOST = 512
_GROUPS = 5
_RIDGE = 1e-9
_TRACY_WIDOM = 3.27  # its 99.9% point for real data
_DIGITS = 9  # of scores that are compared: last digits differ between processors


@dataclass(frozen=True)
class Point:
    """A number of dimensions: its mean score on left-out training batches, and how many folds chose it."""

    dimensions: int
    auroc: float
    chosen: int


@dataclass(frozen=True)
class Dimensions(Record):
    """How the number of dimensions was chosen.

    Attributes
    ----------
    rule : str
        ``left-out training batches``, ``Marchenko-Pastur edge``, ``a tenth of the rows``, ``all`` or ``given``.
    by_fold : tuple of int
        The number of dimensions of each fold.
    final : int
        The number for the components of all rows.
    curve : tuple of Point
        AUROC of a linear discriminant by number of dimensions, averaged over folds, and how many folds chose it.
    """

    rule: str
    by_fold: tuple[int, ...]
    final: int
    curve: tuple[Point, ...]

    def frame_rows(self) -> list[dict[str, object]]:
        """One row per number of dimensions."""
        return [vars(point) for point in self.curve]

    def table(self) -> str:
        """The curve as text: numbers of dimensions, their scores, and how many folds chose each."""
        head = ["dimensions", *(str(point.dimensions) for point in self.curve)]
        scores = ["AUROC", *(f"{point.auroc:.3f}" for point in self.curve)]
        chosen = ["folds", *(str(point.chosen) if point.chosen else "" for point in self.curve)]
        return aligned([head, scores, chosen])

    def __str__(self) -> str:
        low, high = min(self.by_fold), max(self.by_fold)
        return f"{low} to {high}" if low < high else str(low)


@dataclass(frozen=True)
class Choice:
    """A number of dimensions, the rule that gave it, and scores (one row per batch) of the numbers that were tried."""

    dimensions: int
    rule: str
    tried: tuple[int, ...] = ()
    scores: Array | None = None


def most_dimensions(rows: int, rank: int) -> int:
    """The most components that so many rows can determine: a tenth of them."""
    return min(rank, max(1, rows // _ROWS_A_COMPONENT))


def choose(
    wanted: int | str, rows: Array, spectrum: Array, fitted_rows: int, batch: Array, tasks: Sequence[Task], refit: bool
) -> Choice:
    """The number of leading axes to keep.

    ``rows`` are the training rows on all axes, ``spectrum`` the variances of the axes, ``batch`` and ``tasks`` describe
    the training rows alone. With ``refit`` the axes were fitted on these rows, so they are refitted without each group.
    """
    rank = len(spectrum)
    if wanted == ALL or isinstance(wanted, int | np.integer):
        return Choice(rank if wanted == ALL else min(rank, int(wanted)), str(ALL if wanted == ALL else "given"))
    most = most_dimensions(fitted_rows, rank)
    if wanted == TENTH:
        return Choice(most, "a tenth of the rows")
    floor = max(1, noise_floor(spectrum, fitted_rows))
    tried = candidates(min(most, _MOST), rank)
    scores = inner_scores(rows[:, : tried[-1]].astype(np.float64), batch, tasks, tried, refit)
    if len(scores) < 2:
        return Choice(min(most, floor), EDGE)
    return Choice(best_supported(tried, scores, floor), INNER, tried, scores)


def candidates(most: int, rank: int) -> tuple[int, ...]:
    """Numbers of dimensions to try: two per doubling up to the most that are allowed, and all where they are."""
    steps = [1, *(size for power in range(1, 10) for size in (2**power, 3 * 2 ** (power - 1)))]
    return tuple(sorted({size for size in steps if size <= most} | ({rank} if rank <= most else set())))


def best_supported(tried: Sequence[int], scores: Array, floor: int) -> int:
    """Of the numbers within one standard error of the best, the one at the noise floor, or else the smallest."""
    best = int(np.argmax(np.round(scores.mean(axis=0), _DIGITS)))
    behind = scores[:, [best]] - scores
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(scores))
    good = np.round(behind.mean(axis=0) - error, _DIGITS) <= 0
    at_floor = int(np.argmin(np.abs(np.log(np.array(tried) / floor))))
    found = floor <= tried[-1] and good[at_floor]  # correlated features have no floor that rows could reach
    return tried[at_floor if found else int(np.argmax(good))]


def inner_scores(rows: Array, batch: Array, tasks: Sequence[Task], tried: tuple[int, ...], refit: bool) -> Array:
    """AUROC of the discriminants on left-out training batches: one row per batch, one column per number tried."""
    present, codes = np.unique(batch, return_inverse=True)
    usable = [task for task in tasks if len(task.positives) and len(task.controls)]
    if len(present) < 3 or not usable:
        return np.empty((0, len(tried)))
    column = Column("batch", codes, tuple(map(str, present)))
    group = stratified_folds(column, usable, min(_GROUPS, len(present)), np.random.default_rng(0))[codes]
    moments = [moments_alone(rows[group == number]) for number in range(int(group.max()) + 1)]

    def of_group(at: slice) -> dict[int, list[Array]]:
        number = at.start
        found: dict[int, list[Array]] = {}
        train, test = group != number, group == number
        both = [task for task in usable if task.has_both(train) and task.has_both(test)]
        if both:
            others = merged_without(moments, number)
            mean = others.source_mean
            to_white = _whitener(others.xx / others.n, refit)
        for task in both:
            learnt, truth = task.rows(train)
            step = (rows[learnt[truth]].mean(axis=0) - rows[learnt[~truth]].mean(axis=0)) @ to_white
            tested, truth = task.rows(test)
            predicted = np.cumsum(((rows[tested] - mean) @ to_white) * step, axis=1)[:, np.array(tried) - 1]
            for code in np.unique(codes[tested]):
                here = codes[tested] == code
                if 0 < truth[here].sum() < here.sum():
                    found.setdefault(int(code), []).append(aurocs(predicted[here], truth[here]))
        return found

    found: dict[int, list[Array]] = {}
    for some in map_blocks(of_group, len(moments), 1):
        found |= some  # a batch is in one group
    return np.array([np.mean(found[code], axis=0) for code in sorted(found)]).reshape(-1, len(tried))


def _whitener(covariance: Array, refit: bool) -> Array:
    """A matrix that whitens rows: to principal axes, or in the order of the columns (Cholesky)."""
    ridge = _RIDGE * np.trace(covariance) / len(covariance)
    if refit:
        variances, axes = linalg.eigh(covariance)
        return np.asarray(axes[:, ::-1] / np.sqrt(np.maximum(variances[::-1], ridge)))
    factor = linalg.cholesky(covariance + ridge * np.eye(len(covariance)), lower=True)
    return np.asarray(linalg.solve_triangular(factor, np.eye(len(covariance)), lower=True).T)


def aurocs(predicted: Array, truth: Array) -> Array:
    """AUROC of every column."""
    positives, n = int(truth.sum()), len(truth)
    ranks = stats.rankdata(np.round(predicted, _DIGITS), axis=0)[truth].sum(axis=0)
    return np.asarray((ranks - positives * (positives + 1) / 2) / (positives * (n - positives)))


def noise_floor(spectrum: Array, rows: int) -> int:
    r"""The number of variances above the noise, whose largest is near :math:`\sigma^2(1+\sqrt{d/n})^2`.

    This is the edge of Marchenko & Pastur (1967); noise exceeds it by its fluctuation, in one of 1,000 cases by more
    than allowed here (Johnstone 2001). The noise :math:`\sigma^2` is the mean of the variances that are not above it
    yet, so counting is repeated until no variance is added.
    """
    spectrum = np.sort(np.asarray(spectrum, dtype=np.float64))[::-1]
    above = 0
    while above < len(spectrum) - 1:
        rest = spectrum[above:]
        roots = np.sqrt(max(rows - 1, 1)), np.sqrt(len(rest))
        fluctuation = sum(roots) * sum(1 / root for root in roots) ** (1 / 3)
        more = int((rest > rest.mean() * (sum(roots) ** 2 + _TRACY_WIDOM * fluctuation) / rows).sum())
        if more == 0:
            break
        above += more
    return above


def gathered(choices: Sequence[Choice], final: Choice) -> Dimensions:
    """The choices of all folds as one record."""
    curves: dict[int, list[float]] = {}
    for choice in choices:
        if choice.scores is not None:
            for size, score in zip(choice.tried, choice.scores.mean(axis=0), strict=True):
                curves.setdefault(size, []).append(float(score))
    numbers = tuple(choice.dimensions for choice in choices)
    shared = sorted(size for size, scores in curves.items() if len(scores) == len(choices))
    points = tuple(Point(size, float(np.mean(curves[size])), numbers.count(size)) for size in shared)
    return Dimensions(choices[0].rule, numbers, final.dimensions, points)
