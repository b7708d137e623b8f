"""Null of the ladder: held-out errors of shuffled pairings, and of the real pairing by the same steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..covariance import solve_well_conditioned
from ..moments import Moments
from ..representation import Array, Matrix
from ..resampling import Null, Shuffles, null_of
from ..row_span import RowSpan
from ..rows import Deadline, blocks, read_rows
from ..threads import WIDE_MATRIX, Crew
from .few_rows import FewRows, Norms, Weights, least_norm_weights
from .fits import FittedICA, TrainingSet, fit
from .residuals import Centre, PreparedMaps, identity_norms, norms_of

DRAWS, FEW_DRAWS = 100, 20  # by default, and where so many would take long: then p-values come from a fitted tail
_MOST_WORK = 3e13  # floating-point operations of all draws beyond which they take long: some ten minutes
_USUAL_FOLDS = 5
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


class Scene(Protocol):
    """Some rungs of a pair, whose errors are wanted under many pairings."""

    def prepared(self, splits: Splits) -> Callable[[Array], dict[str, Array]]:
        """The errors by the partners of the rows, with all that no shuffle changes made ready."""


class Splits:
    """The rows that shuffles move; in every split those that are held out, those maps are fitted to, and those scored.

    Rows are numbered among those that take part.
    """

    def __init__(self, shuffles: Shuffles, scoring: Scoring) -> None:
        self.rows = shuffles.rows
        here, folds = scoring.fold_of[self.rows], scoring.folds
        counts = None if scoring.scored is None else scoring.scored[self.rows]
        if counts is None or not counts.any():
            counts = np.ones(len(here), dtype=bool)
        held = [np.flatnonzero(here == fold) for fold in folds]
        self.parts = [
            (rows, np.setdiff1d(np.arange(len(here)), rows), _thinned(rows[counts[rows]], len(folds)))
            for rows in held
            if counts[rows].any() and len(rows) < len(here)
        ]
        self.least = len(here) - max(map(len, held))  # rows that a map is fitted to
        self._place = np.full(shuffles.n, -1)
        self._place[self.rows] = np.arange(len(self.rows))

    def places(self, partners: Array) -> Array:
        """The numbers of partners."""
        return np.asarray(self._place[partners])


def shuffled_errors(
    scenes: Sequence[Scene],
    shuffles: Shuffles,
    scoring: Scoring,
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
    the real pairing is exchangeable with the others. A deadline may leave fewer draws than asked for; None where they
    are too few. After ``enough`` there are no more than the fewest.
    """
    if deadline is not None and deadline.passed:
        return None
    splits = Splits(shuffles, scoring)
    ready = [scene.prepared(splits) for scene in scenes]

    def errors_of(partners: Array) -> dict[str, Array]:
        places = splits.places(partners)
        return {name: error for errors in ready for name, error in errors(places).items()}

    observed = errors_of(shuffles.rows)
    seeds = seed.spawn(n_null)
    draws = {name: np.empty((2, n_null)) for name in observed}

    def one(which: slice) -> dict[str, Array]:
        return errors_of(shuffles.draw(np.random.default_rng(seeds[which.start])))

    count = 0
    if progress:
        progress(0, n_null)
    with Crew() as crew:
        for errors in crew.stream(one, blocks(n_null, 1)):
            for name, each in errors.items():
                draws[name][:, count] = each
            count += 1
            if progress:
                progress(count, n_null)
            if deadline is not None and deadline.passed:
                break
            if enough is not None and enough.passed and count >= FEWEST_DRAWS:
                break
    if count < min(n_null, FEWEST_DRAWS):
        return None
    return ShuffledErrors({name: each[:, :count] for name, each in draws.items()}, observed, shuffles.distinct)


@dataclass(frozen=True, eq=False)
class Refitted:
    """Rungs that are fitted from moments. ``training`` provides roundings and ICAs, which no pairing changes."""

    x: Matrix
    y: Matrix
    centre: Centre
    training: TrainingSet
    names: Sequence[str]

    def prepared(self, splits: Splits) -> Callable[[Array], dict[str, Array]]:
        """The errors by the partners of the rows.

        The narrower side is the source, whose rotation costs less. Products are in the working dtype where training
        sets have more rows than columns. Otherwise they are singular, and only float64 tells rounding from directions
        that vary.
        """
        if self.x.shape[1] > self.y.shape[1]:
            other = self._swapped().prepared(splits)
            return lambda places: {name: error[::-1] for name, error in other(places).items()}
        centre = self.centre
        if splits.least <= max(self.x.shape[1], self.y.shape[1]):
            centre = replace(centre, dtype=np.float64)
        sides = (read_rows(values, splits.rows) for values in (self.x, self.y))
        x, y = (centre.shift(rows, side) for side, rows in enumerate(sides))
        return _Pairings((x, y), splits, centre, self.training, self.names).errors

    def _swapped(self) -> Refitted:
        training, centre = self.training, self.centre
        icas = None if training.icas is None else training.icas[::-1]
        few = None if training.few is None else replace(training.few, spans=training.few.spans[::-1])
        training = replace(training, roundings=training.roundings[::-1], icas=icas, few=few)
        return Refitted(self.y, self.x, Centre(centre.target, centre.source, centre.dtype), training, self.names)


def refitted_inside(spans: tuple[RowSpan, RowSpan], training: TrainingSet, names: Sequence[str]) -> Refitted:
    """Rungs that turn axes, where rows are few: in coordinates, without those that are rounding."""
    axes = [span.above_rounding() for span in spans]
    x, y = (span.rows @ each.T for span, each in zip(spans, axes, strict=True))
    if training.icas is not None:
        source, target = (ica.along(each) for ica, each in zip(training.icas, axes, strict=True))
        training = replace(training, icas=(source, target))
    centre = Centre(np.zeros(x.shape[1]), np.zeros(y.shape[1]), np.float64)
    return Refitted(x, y, centre, training, names)


class _Source:
    """The training rows of the source, and their moments."""

    def __init__(self, rows: Array) -> None:
        self.rows, self.n = rows, len(rows)
        self.mean = rows.mean(axis=0, dtype=np.float64)
        self.xx = _products(rows, rows) - self.n * np.multiply.outer(self.mean, self.mean)


class _Pairings:
    """The rows that take part, about their means, and everything about the source that no shuffle changes."""

    def __init__(
        self, sides: tuple[Array, Array], splits: Splits, centre: Centre, training: TrainingSet, names: Sequence[str]
    ) -> None:
        self._gap, self._training, self._names, self._splits = centre.gap, training, names, splits
        self._x, self._y = sides
        # Rows were shifted already: maps are fitted about the origin.
        self._centre = Centre(np.zeros(self._x.shape[1]), np.zeros(self._y.shape[1]), centre.dtype)
        self._radii = (norms_of(self._x), norms_of(self._y))
        self._sources = [_Source(self._x[train]) for _, train, _ in splits.parts]
        width, rounding = self._x.shape[1], training.roundings[0]
        self._few: list[FewRows | None] = [None] * len(splits.parts)
        self._inverses: list[Array | None] = [None] * len(splits.parts)
        self._products = np.zeros((0, 0))  # of the target's rows, where few determine the maps
        self._weights: list[Array | None] = [None] * len(splits.parts)
        self._by_column: list[Weights | None] = [None, None]
        most = max((len(train) for _, train, _ in splits.parts), default=0)
        if "linear" in names and (training.few is not None or most <= min(width, self._y.shape[1])):
            products = self._x @ self._x.T
            if training.few is not None:
                self._by_column = [partial(_weights_by_column, span, splits.rows) for span in training.few.spans]
            self._weights = [
                least_norm_weights(self._x, products, train, counted, rounding, self._by_column[0])
                for _, train, counted in splits.parts
            ]
            self._products = self._y @ self._y.T
        if self._y.shape[1] > WIDE_MATRIX:
            training = replace(training, icas=_in_dtype(training.icas, centre.dtype))
            self._few = [
                FewRows(self._x[counted], each.mean, each.xx, each.n, training)
                for (_, _, counted), each in zip(splits.parts, self._sources, strict=True)
            ]
        elif "linear" in names:
            self._inverses = [
                solve_well_conditioned(each.xx, np.eye(width), each.n, each.mean, rounding) for each in self._sources
            ]
        self._yy, self._y_sum = _products(self._y, self._y), self._y.sum(axis=0, dtype=np.float64)

    def errors(self, target: Array) -> dict[str, Array]:
        """The held-out error of every rung, forward and reverse, when rows take the targets of these partners."""
        found = {name: np.zeros(2) for name in self._names}
        size = np.zeros(2)
        for (held, train, counted), source, inverse, few, weights in zip(
            self._splits.parts, self._sources, self._inverses, self._few, self._weights, strict=True
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
                if norms is None and name == "linear" and weights is not None:
                    norms = self._of_weights(weights, train, counted, target)
                if norms is None:
                    norms = PreparedMaps(fit([name], training)[name], self._centre).norms(x_held, y_held)
                found[name] += norms[0].sum(), norms[1].sum()
        return {name: total / size for name, total in found.items()}

    def _of_weights(self, weights: Array, train: Array, counted: Array, target: Array) -> Norms:
        """Residual norms of least squares, where few rows determine the maps; ``weights`` are those of the source."""
        x, y = (self._x[train], self._x[counted]), (self._y[target[train]], self._y[target[counted]])
        rounding = self._training.roundings[1]
        there = target[train], target[counted]
        back = least_norm_weights(self._y, self._products, *there, rounding, self._by_column[1])
        means = x[0].mean(axis=0), y[0].mean(axis=0)
        return (
            norms_of(weights @ (y[0] - means[1]) - (y[1] - means[1])),
            norms_of(back @ (x[0] - means[0]) - (x[1] - means[0])),
        )

    def _shuffled_moments(self, held: Array, train: Array, source: _Source) -> Moments:
        """The moments of the training rows: those of the target without the held-out rows, not summed again."""
        n = source.n
        y_held = self._y[held]
        y_mean = (self._y_sum - y_held.sum(axis=0, dtype=np.float64)) / n
        yy = self._yy - _products(y_held, y_held) - n * np.multiply.outer(y_mean, y_mean)
        xy = _products(source.rows, self._y[train]) - n * np.multiply.outer(source.mean, y_mean)
        return Moments(n, source.mean, y_mean, source.xx, xy, yy)


def _weights_by_column(span: RowSpan, rows: Array, train: Array, scored: Array) -> Array:
    """The weights of least squares in which columns of any scale count, as in the ladder; of numbered ``rows``."""
    return span.weights(rows[train], rows[scored])


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
