"""Sensitivity views of a pair: the ladder without few outlying rows, or with all dimensions at unit variance.

Errors are distances, so a few outlying rows, or a few dimensions with most of the variance, can set all of them. In
that case the ladder is repeated without those rows, or after standardising, and both results are reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..pairs import MOST, Pair, Side
from ..representation import Array, Representation, RowMatch
from ..resampling import least_training_rows
from ..row_span import spans_of_few
from ..rows import Deadline, no_progress, read_rows
from .fits import RUNGS
from .intervals import interval_ends
from .ladder import Design, Ladder, chance, climb, diameters, directions, measure, side_of, squares_of_columns
from .result import Comparison, Verdict, View

FEW_ROWS = 0.02  # share of rows with half of the variance, below which the ladder is repeated without them
FEW_DIRECTIONS = 0.05  # share of the dimensions that carry 90% of the variance, below which they dominate
_ROWS = 20_000
_SHUFFLES = 40


def views_of(ladder: Ladder, result: Comparison, tolerance: float, seed: int, deadline: Deadline) -> tuple[View, ...]:
    """The views that these data require; usually none. A deadline leaves them all."""
    found = []
    outlying = outlying_rows(ladder.residuals.radii)
    if outlying.any() and ladder.design.pair.n - int(outlying.sum()) >= 10 * ladder.design.n_folds:
        count = int(outlying.sum())
        said = f"without the {f'{count} rows that carry' if count > 1 else 'row that carries'} half of the variance"
        found.append(_view(ladder, "without_outlying_rows", said, ~outlying, None, tolerance, seed, deadline))
    sides = dominated((result.source, result.target))
    if sides:
        both = zip((result.source, result.target), squares_of_columns(ladder), strict=True)
        # Standardising columns can hide a rotation, so it is done only where single columns dominate.
        if few_columns([each for side, each in both if side in sides]):
            said, bases = "with all columns at unit variance", [_standardiser(ladder, side) for side in range(2)]
        elif ladder.design.pair.n >= 5 * max(result.source.columns, result.target.columns):
            said, bases = (
                "with all principal directions at unit variance",
                [_whitener(ladder, side) for side in range(2)],
            )
        else:
            return tuple(each for each in found if each is not None)
        found.append(_view(ladder, "at_unit_variance", said, None, bases, tolerance, seed, deadline))
    return tuple(each for each in found if each is not None)


def dominated(sides: Sequence[Side]) -> list[Side]:
    """The sides in which few directions carry most of the variance."""
    return [
        side
        for side in sides
        if side.directions_for_most is not None
        and side.rank >= 4
        and side.directions_for_most <= max(1, FEW_DIRECTIONS * side.rank)
    ]


def outlying_rows(radii: Array) -> Array:
    """The rows that carry half of the variance of either side, where they are few."""
    chosen = np.zeros(radii.shape[1], dtype=bool)
    for each in radii:
        order = np.argsort(-each, kind="stable")
        carried = np.cumsum(each[order] ** 2, dtype=np.float64)
        count = int(np.searchsorted(carried, carried[-1] / 2)) + 1
        if count <= FEW_ROWS * len(each):
            chosen[order[:count]] = True
    return chosen


def few_columns(squares: Sequence[Array]) -> bool:
    """Whether single columns, not directions across them, carry most of the variance, from their sums of squares."""
    for each in squares:
        spread = np.sort(each)[::-1]
        total = float(spread.sum())
        count = int(np.searchsorted(np.cumsum(spread), MOST * total)) + 1
        if count > max(1, FEW_DIRECTIONS * len(spread)):
            return False
    return True


def qualified(verdict: Verdict, views: Sequence[View], reverse: bool = False) -> Verdict:
    """The verdict, qualified where a view gives a different one."""
    rungs = [(view, view.reverse_rung if reverse else view.rung) for view in views]
    differing = [(view, rung) for view, rung in rungs if _differs(view, rung, verdict.rung)]
    if not differing or verdict.sentence.startswith("No verdict"):
        return verdict
    told = " ".join(
        f"{view.sentence[0].upper()}{view.sentence[1:]} the verdict changes: "
        f"{'no rung suffices' if rung is None else f'the smallest rung that suffices is {rung}'}."
        for view, rung in differing
    )
    what = {"without_outlying_rows": "Few rows decide this.", "at_unit_variance": "Few dimensions decide this."}
    reason = " ".join(what[view.name] for view, _ in differing)
    return Verdict(verdict.rung, f"{verdict.sentence} {reason} {told}", f"{reason} {told}")


def _differs(view: View, rung: str | None, told: str | None) -> bool:
    """Whether a view changes the verdict: unit variance undoes stretches, so a smaller rung there is no change."""
    if rung is None or told is None or view.name != "at_unit_variance":
        return rung != told
    return RUNGS.index(rung) > RUNGS.index(told)


def _view(
    ladder: Ladder,
    name: str,
    said: str,
    rows: Array | None,
    bases: Sequence[tuple[Array, Array]] | None,
    tolerance: float,
    seed: int,
    deadline: Deadline,
) -> View | None:
    """The ladder, without ICA, of the modified rows."""
    chosen = np.arange(ladder.design.pair.n) if rows is None else np.flatnonzero(rows)
    rng = np.random.default_rng([seed, 71])
    if len(chosen) > _ROWS:
        chosen = np.sort(rng.choice(chosen, _ROWS, replace=False))
    sides = [
        np.asarray(read_rows(values, chosen), dtype=np.float64)
        for values in (ladder.design.pair.x, ladder.design.pair.y)
    ]
    if bases is not None:
        sides = [
            (values - mean) * basis if basis.ndim == 1 else (values - mean) @ basis
            for values, (mean, basis) in zip(sides, bases, strict=True)
        ]
    fold_of = ladder.design.fold_of[chosen]
    labels, within, scored = (
        None if each is None else each[chosen]
        for each in (ladder.design.labels, ladder.design.within, ladder.design.scored)
    )
    if any(not np.ptp(side, axis=0).any() for side in sides) or len(np.unique(fold_of)) < ladder.design.n_folds:
        return None
    pair = Pair(
        Representation(sides[0], name=ladder.design.pair.names[0]),
        Representation(sides[1], name=ladder.design.pair.names[1]),
        RowMatch(None, None, 0, 0, False),
    )
    labels = None if labels is None else np.unique(labels, return_inverse=True)[1]
    names = [rung for rung in ladder.design.names if rung != "ica"]
    spans = spans_of_few(pair.x, pair.y, pair.names, least_training_rows(fold_of))
    design = Design(pair, fold_of, ladder.design.n_folds, labels, names, no_progress, within, scored, spans)
    deadline.leave()
    again = climb(design, measure(design))
    ends = interval_ends(again, rng)
    null = chance(again, _SHUFFLES, np.random.SeedSequence([seed, 73]), deadline)
    deadline.leave()
    forward, reverse = directions(again, diameters(again, "bound"), null, ends, tolerance)
    return View(
        name=name,
        sentence=said,
        rung=forward.verdict.rung,
        reverse_rung=reverse.verdict.rung,
        errors={rung: record.held_out.mean for rung, record in forward.rungs.items()},
        explained={rung: float(record.explained or 0.0) for rung, record in forward.rungs.items()},
    )


def _standardiser(ladder: Ladder, side: int) -> tuple[Array, Array]:
    """The means of the columns, and what each is multiplied by."""
    spread = np.sqrt(squares_of_columns(ladder)[side] / ladder.moments.total.n)
    left_out = np.zeros(len(spread), dtype=bool)
    left_out[list(side_of(ladder, side).left_out_columns)] = True
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=(spread > 0) & ~left_out)
    return ladder.moments.means[side], scale


def _whitener(ladder: Ladder, side: int) -> tuple[Array, Array]:
    """Symmetric whitening of the columns, which moves axes least; rows are many."""
    total, spans = ladder.moments.total, ladder.design.spans
    sums = total.yy if side else total.xx
    if spans is not None:  # one large group leaves few rows to train on, and moments are those of coordinates
        sums = spans[side].centred.T @ spans[side].centred
    values, vectors = np.linalg.eigh(sums / total.n)
    kept = values > 1e-10 * values[-1]
    return ladder.moments.means[side], np.asarray((vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T)
