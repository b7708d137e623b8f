"""Null of the ladder: held-out errors of shuffled pairings, and of the real pairing by the same steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..alignment.base import row_axes
from ..covariance import solve_well_conditioned
from ..moments import Moments
from ..representation import Array, Matrix
from ..resampling import Null, Shuffles, null_of
from ..rows import Deadline, blocks, read_rows
from ..threads import WIDE_MATRIX, Crew
from .few_rows import FewRows
from .fits import FittedICA, TrainingSet, fit
from .residuals import Centre, PreparedMaps, identity_norms, norms_of

DRAWS, FEW_DRAWS = 100, 20  # by default, and where so many would take long: then p-values come from a fitted tail
_MOST_WORK = 3e13  # floating-point operations of all draws beyond which they take long: some ten minutes
_USUAL_FOLDS = 5
_BY_COLUMN = ("identity", "signed_permutation")  # rungs that depend on the axes
LEAST_ROWS = 4000  # rows that shuffles move, where there are as many, and
ROWS_PER_DIMENSION = 20  # this many per dimension, if that is more
FEW_UNITS = (
    200  # rows, or groups, up to which every fold of a shuffled pairing is scored; of more some rows of one fold
)
FEWEST_DRAWS = 10  # that say something, where a deadline cuts them short
SCORED_ROWS = 500  # of the fold: the spread of the null is that of its maps


@dataclass(frozen=True, eq=False)
class Scoring:
    """The fold of each row, the rows whose errors count (None for all), and the number of groups, if there are any."""

    fold_of: Array
    scored: Array | None = None
    units: int | None = None

    @property
    def folds(self) -> range:
        """The folds that are held out in turn: one is enough where rows, or groups, are many."""
        n_folds = int(self.fold_of.max()) + 1
        few = self.scored is not None or (self.units or len(self.fold_of)) <= FEW_UNITS
        return range(n_folds if few else 1)


@dataclass(frozen=True, eq=False)
class ShuffledErrors:
    """Held-out errors of every rung under shuffled pairings, in mean distances to the mean, and of the real one.

    ``draws`` holds (2, n) arrays, forward and reverse; ``observed`` (2,) arrays.
    """

    draws: dict[str, Array]
    observed: dict[str, Array]
    distinct: float

    @property
    def count(self) -> int:
        """The number of draws."""
        return int(next(iter(self.draws.values())).shape[1])

    def null(self, rung: str, direction: int, tail: bool = False) -> Null:
        """The null of one rung."""
        observed, draws = float(self.observed[rung][direction]), self.draws[rung][direction]
        return null_of(draws, observed, higher_is_closer=False, distinct=self.distinct, tail=tail)


def null_rows(shuffles: Shuffles, d_x: int, d_y: int, rng: np.random.Generator) -> Shuffles:
    """The shuffles that are drawn: of all rows that take part, or of enough of them to fit maps of this width."""
    return shuffles.thinned(max(LEAST_ROWS, ROWS_PER_DIMENSION * max(d_x, d_y)), rng)


def default_draws(n: int, d_x: int, d_y: int) -> int:
    """Default number of shuffled pairings: fewer where columns are so many that each takes seconds."""
    d = float(max(d_x, d_y))
    rows = min(n, max(LEAST_ROWS, ROWS_PER_DIMENSION * d))
    work = 2 * rows * d**2 + 20 * d**3 + 30 * min(d, rows) ** 3  # products, two assignments, decompositions
    work *= _USUAL_FOLDS if n <= FEW_UNITS else 1
    return DRAWS if DRAWS * work <= _MOST_WORK else FEW_DRAWS


def shuffled_errors(
    x: Matrix,
    y: Matrix,
    shuffles: Shuffles,
    scoring: Scoring,
    centre: Centre,
    training: TrainingSet,
    names: Sequence[str],
    n_null: int,
    seed: np.random.SeedSequence,
    *,
    deadline: Deadline | None = None,
    enough: Deadline | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ShuffledErrors | None:
    """Refit and score every rung on shuffled pairings and, by the same steps, on the real one.

    The statistic of a pairing is the summed error of held-out rows over their summed distance to the mean. Where
    rows are many, one fold is held out per pairing, and some of its rows are scored: always the same places, so that
    the real pairing is exchangeable with the others. ``training`` provides roundings and ICAs, which do not depend on
    the pairing. A deadline may leave fewer draws than asked for; None where they are too few. After ``enough`` there
    are no more than the fewest.
    """
    turned = x.shape[1] > y.shape[1]  # the narrower side is the source, whose rotation costs less
    if turned:
        x, y, centre = y, x, Centre(centre.target, centre.source, centre.dtype)
        icas = None if training.icas is None else training.icas[::-1]
        training = replace(training, roundings=training.roundings[::-1], icas=icas)
    if deadline is not None and deadline.passed:
        return None
    scenes = _scenes(x, y, shuffles, scoring, centre, training, names)

    def errors_of(partners: Array) -> dict[str, Array]:
        return {name: error for scene in scenes for name, error in scene.errors(partners).items()}

    observed = errors_of(shuffles.rows)
    seeds = seed.spawn(n_null)
    draws = {name: np.empty((2, n_null)) for name in names}

    def one(which: slice) -> dict[str, Array]:
        return errors_of(shuffles.draw(np.random.default_rng(seeds[which.start])))

    count = 0
    if progress:
        progress(0, n_null)
    with Crew() as crew:
        for errors in crew.stream(one, blocks(n_null, 1)):
            for name in names:
                draws[name][:, count] = errors[name]
            count += 1
            if progress:
                progress(count, n_null)
            if deadline is not None and deadline.passed:
                break
            if enough is not None and enough.passed and count >= FEWEST_DRAWS:
                break
    if count < min(n_null, FEWEST_DRAWS):
        return None
    draws = {name: each[:, :count] for name, each in draws.items()}
    if turned:
        draws = {name: each[::-1] for name, each in draws.items()}
        observed = {name: each[::-1] for name, each in observed.items()}
    return ShuffledErrors(draws, observed, shuffles.distinct)


def _scenes(
    x: Matrix,
    y: Matrix,
    shuffles: Shuffles,
    scoring: Scoring,
    centre: Centre,
    training: TrainingSet,
    names: Sequence[str],
) -> list[_Scene]:
    """All rungs in the columns as they are; where columns outnumber rows, those that turn axes within the rows' span.

    Rotations of either side leave their errors as they are, and outside the span there are no rows.

    Products are in the working dtype where training sets have more rows than columns. Otherwise they are singular, and
    only float64 tells rounding from directions that vary.
    """
    here = scoring.fold_of[shuffles.rows]
    smallest = len(here) - int(np.bincount(here)[list(scoring.folds)].max())
    if smallest <= max(x.shape[1], y.shape[1]):
        centre = replace(centre, dtype=np.float64)
    sides = centre.shift(read_rows(x, shuffles.rows), 0), centre.shift(read_rows(y, shuffles.rows), 1)
    turning = [name for name in names if name not in _BY_COLUMN]
    if not turning or max(side.shape[1] for side in sides) <= len(shuffles.rows):
        return [_Scene(sides, shuffles, scoring, centre, training, names)]
    by_column = [name for name in names if name in _BY_COLUMN]
    training = replace(training, spans=None)  # rows will have the coordinates of their span
    scenes = [_Scene(sides, shuffles, scoring, centre, training, by_column)] if by_column else []
    pairs = zip(sides, training.roundings, strict=True)
    spans = [row_axes(side, rounding).astype(side.dtype) for side, rounding in pairs]
    sides = (sides[0] @ spans[0].T, sides[1] @ spans[1].T)
    if training.icas is not None:
        source, target = (
            replace(ica, components=ica.components @ axes.T, mixing=axes @ ica.mixing)
            for ica, axes in zip(training.icas, spans, strict=True)
        )
        training = replace(training, icas=(source, target))
    return [*scenes, _Scene(sides, shuffles, scoring, centre, training, turning)]


class _Source:
    """The training rows of the source, and their moments."""

    def __init__(self, rows: Array) -> None:
        self.rows, self.n = rows, len(rows)
        self.mean = rows.mean(axis=0, dtype=np.float64)
        self.xx = _products(rows, rows) - self.n * np.multiply.outer(self.mean, self.mean)


class _Scene:
    """The rows that take part, and everything about the source that no shuffle changes."""

    def __init__(
        self,
        sides: tuple[Array, Array],
        shuffles: Shuffles,
        scoring: Scoring,
        centre: Centre,
        training: TrainingSet,
        names: Sequence[str],
    ) -> None:
        self._gap, self._training, self._names = centre.gap, training, names
        self._x, self._y = sides
        # Rows were shifted already: maps are fitted about the origin.
        self._centre = Centre(np.zeros(self._x.shape[1]), np.zeros(self._y.shape[1]), centre.dtype)
        self._radii = (norms_of(self._x), norms_of(self._y))
        self._place = np.full(shuffles.n, -1)
        self._place[shuffles.rows] = np.arange(len(shuffles.rows))
        here, folds = scoring.fold_of[shuffles.rows], scoring.folds
        held = [np.flatnonzero(here == fold) for fold in folds]
        counts = None if scoring.scored is None else scoring.scored[shuffles.rows]
        if counts is None or not counts.any():
            counts = np.ones(len(here), dtype=bool)
        self._splits = [
            (rows, np.setdiff1d(np.arange(len(here)), rows), _thinned(rows[counts[rows]], len(folds)))
            for rows in held
            if counts[rows].any() and len(rows) < len(here)
        ]
        self._sources = [_Source(self._x[train]) for _, train, _ in self._splits]
        width, rounding = self._x.shape[1], training.roundings[0]
        self._few: list[FewRows | None] = [None] * len(self._splits)
        self._inverses: list[Array | None] = [None] * len(self._splits)
        if self._y.shape[1] > WIDE_MATRIX:
            training = replace(training, icas=_in_dtype(training.icas, centre.dtype))
            self._few = [
                FewRows(self._x[counted], each.mean, each.xx, each.n, training)
                for (_, _, counted), each in zip(self._splits, self._sources, strict=True)
            ]
        elif "linear" in names:
            self._inverses = [
                solve_well_conditioned(each.xx, np.eye(width), each.n, each.mean, rounding) for each in self._sources
            ]
        self._yy, self._y_sum = _products(self._y, self._y), self._y.sum(axis=0, dtype=np.float64)

    def errors(self, partners: Array) -> dict[str, Array]:
        """The held-out error of every rung, forward and reverse, when rows take the targets of these partners."""
        target = self._place[partners]
        found = {name: np.zeros(2) for name in self._names}
        size = np.zeros(2)
        for (held, train, counted), source, inverse, few in zip(
            self._splits, self._sources, self._inverses, self._few, strict=True
        ):
            x_held, y_held = self._x[counted], self._y[target[counted]]
            size += self._radii[1][target[counted]].sum(), self._radii[0][counted].sum()
            moments = self._shuffled_moments(target[held], target[train], source)
            training = replace(self._training, moments=moments, second=(None, None), inverse=inverse, quick=True)
            for name in self._names:
                if name == "identity":
                    found[name] += identity_norms(x_held, y_held, self._gap).sum()
                    continue
                norms = None if few is None else few.norms(name, y_held, moments)
                if norms is None:
                    norms = PreparedMaps(fit([name], training)[name], self._centre).norms(x_held, y_held)
                found[name] += norms[0].sum(), norms[1].sum()
        return {name: total / size for name, total in found.items()}

    def _shuffled_moments(self, held: Array, train: Array, source: _Source) -> Moments:
        """The moments of the training rows: those of the target without the held-out rows, not summed again."""
        n = source.n
        y_held = self._y[held]
        y_mean = (self._y_sum - y_held.sum(axis=0, dtype=np.float64)) / n
        yy = self._yy - _products(y_held, y_held) - n * np.multiply.outer(y_mean, y_mean)
        xy = _products(source.rows, self._y[train]) - n * np.multiply.outer(source.mean, y_mean)
        return Moments(n, source.mean, y_mean, source.xx, xy, yy)


def _in_dtype(icas: tuple[FittedICA, FittedICA] | None, dtype: Any) -> tuple[FittedICA, FittedICA] | None:
    """ICAs in the working dtype, which halves their products."""
    if icas is None:
        return None
    source, target = (
        replace(ica, components=ica.components.astype(dtype), mixing=ica.mixing.astype(dtype)) for ica in icas
    )
    return source, target


def _thinned(rows: Array, folds: int) -> Array:
    """Rows to score: all of them where every fold is scored, some of one fold."""
    most = SCORED_ROWS if folds == 1 else len(rows)
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def _products(left: Array, right: Array) -> Array:
    """Cross products in the working dtype, as float64."""
    return np.asarray(left.T @ right, dtype=np.float64)
