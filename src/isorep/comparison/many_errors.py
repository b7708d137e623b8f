"""Held-out squared errors of every rung for all ordered pairs of runs, from joint moments alone.

One rung of the ladder for all pairs of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from ..alignment.base import AffineMap, column_errors, match_signed, padded, solve_linear
from ..covariance import Factor, Preconditioner, factor_covariance, factor_preconditioned, preconditioner
from ..moments import JointMoments, Moments, distance_of_means, joint_moments, merged, merged_without
from ..pairs import half_variance_share
from ..representation import Array, Matrix, rounding_of
from ..resampling import LEVEL, Null, jackknife_se
from ..results import Record, largest, least
from ..row_span import RowSpan
from ..rows import ProjectedRows, block_rows, blocks, map_blocks, map_rows
from ..threads import Crew
from .by_column import BY_COLUMN, MATCHED_UNASKED, ByColumn
from .fits import FewRows, TrainingSet, UnmixedSide, fit, ica_rung
from .recurrence import MatchedColumns
from .residuals import FittedRung, Maps

Step = Callable[[int, int], None]
Watch = Callable[[tuple[int, int], dict[str, FittedRung], dict[str, Array]], None]  # a pair, its maps and known norms


@dataclass(frozen=True, eq=False)
class Squares:
    """Summed squared errors of one rung, [source, target]: of every fold, and in sample.

    ``columns`` holds, for the linear rung, those of every column: for each target a (sources, columns) array.
    """

    folds: Array
    in_sample: Array
    columns: tuple[Array, ...] | None = None


@dataclass(frozen=True, eq=False)
class Again:
    """The preconditioned second pass over runs that are too ill-conditioned for plain normal equations."""

    position: dict[int, int]
    by: dict[int, Preconditioner]
    folds: list[JointMoments]


def factor_runs(
    total: JointMoments, runs: Sequence[Matrix], folds: Array, n_folds: int, names: Sequence[str]
) -> tuple[list[Factor], Again | None]:
    """Factor every run's covariance, with one second pass for all those that the moments do not resolve."""
    facts = [(total.block(i, i), total.n, total.mean[total.columns(i)], rounding_of(run)) for i, run in enumerate(runs)]
    factors = map_blocks(lambda place: factor_covariance(*facts[place.start]), len(runs), 1)
    unresolved = [i for i, factor in enumerate(factors) if not factor.resolved]
    if not unresolved:
        return factors, None
    by = {i: preconditioner(*facts[i]) for i in unresolved}
    projected = [ProjectedRows(runs[i], facts[i][2], by[i].basis) for i in unresolved]
    labels = [*(names[i] for i in unresolved), *names]
    second = joint_moments([*projected, *runs], folds, n_folds, names=labels, strips=len(unresolved))
    whole = merged(second)
    for position, i in enumerate(unresolved):
        factors[i] = factor_preconditioned(whole.block(position, position), whole.n, by[i])
    return factors, Again({i: position for position, i in enumerate(unresolved)}, by, second)


class AllPairs:
    """The ladder of all pairs: training sets are all rows (place 0) and all but one fold (places 1, 2, ...).

    With ``spans``, where some run has more columns than rows, moments are those of coordinates. ``unmixed`` and
    ``parts``, the joint moments of the parts that ICA is fitted on with the part of each row, are set once there are
    ICAs.
    """

    def __init__(
        self,
        folds: list[JointMoments],
        fold_of: Array,
        rungs: Sequence[str],
        roundings: Sequence[float],
        again: Again | None = None,
        spans: Sequence[RowSpan] | None = None,
    ) -> None:
        self.folds, self.fold_of, self.rungs, self.roundings = folds, fold_of, rungs, roundings
        self.again, self._spans = again, spans
        self._moved = [name for name in rungs if name not in ("linear", "ica") and not (spans and name in BY_COLUMN)]
        self.unmixed: Sequence[UnmixedSide] | None = None
        self.parts: tuple[list[JointMoments], Array] | None = None
        self.training = _training_sets(folds)
        self.total = self.training[0]
        self.count = len(roundings)
        self.spreads = [self.total.spread(run) for run in range(self.count)]
        if spans is not None:
            self.spreads = [span.squares for span in spans]
        self.pairs = [(i, j) for i in range(self.count) for j in range(i + 1, self.count)]
        self._again_training = None if again is None else _training_sets(again.folds)

    def squares(
        self,
        watch: Watch,
        progress: Step | None = None,
        beside: Callable[[], None] | None = None,
    ) -> dict[str, Squares]:
        """The summed squares of every rung but ICA; the linear maps of one source onto all targets are solved together.

        ``watch`` is called with the fitted maps of every pair, and with the residual norms of all rows under the rungs
        that are fitted by column. ``beside`` is single-threaded work, done meanwhile.
        """
        others = [name for name in self.rungs if name not in ("linear", "ica")]
        places = range(len(self.training))
        by_source = [(source, place) for source in range(self.count) for place in places]
        tasks: list[Callable[[], Array]] = [partial(self._pair_errors, others, pair, watch) for pair in self.pairs]
        if "linear" in self.rungs:
            tasks += [partial(self._linear_errors, *task) for task in by_source]
        results: list[Array] = []
        with Crew() as crew, ThreadPoolExecutor(1) as aside:
            other = None if beside is None else aside.submit(beside)
            for errors in crew.stream(lambda task: tasks[task.start](), blocks(len(tasks), 1)):
                results.append(errors)
                if progress:
                    progress(len(results), len(tasks))
            if other is not None:
                other.result()
        squares = self._by_pair(others, results[: len(self.pairs)]) if others else {}
        if "linear" in self.rungs:
            squares["linear"] = self._by_source(by_source, results[len(self.pairs) :])
        return {name: squares[name] for name in self.rungs if name in squares}

    def fitted(self, pair: tuple[int, int]) -> dict[str, FittedRung]:
        """The maps of one pair on all rows and without each fold, for a pass over its rows."""
        i, j = pair
        made: list[dict[str, Maps]] = []
        for place in range(len(self.training)):
            maps = fit(self._moved, self.training_set(i, j, place))
            if "linear" in self.rungs:
                maps["linear"] = (self._linear_map(i, [j], place), self._linear_map(j, [i], place))
            made.append(maps)
        rungs = {name: FittedRung(made[0][name], [[each[name]] for each in made[1:]], self.fold_of) for name in made[0]}
        if self.unmixed is not None and self.parts is not None:
            rungs["ica"] = self.ica_rung(pair, self.unmixed, *self.parts)
        return {name: rungs[name] for name in self.rungs if name in rungs}

    def ica_rung(
        self, pair: tuple[int, int], unmixed: Sequence[UnmixedSide], parts: Sequence[JointMoments], part_of: Array
    ) -> FittedRung:
        """The ICA rung of one pair."""
        i, j = pair
        return ica_rung(self.total.pair(i, j), [part.pair(i, j) for part in parts], part_of, unmixed[i], unmixed[j])

    def training_set(self, i: int, j: int, place: int) -> TrainingSet:
        """What the maps of a pair are fitted from: all rows (place 0), or all but one fold."""
        few = None
        if self._spans is not None:
            few = FewRows((self._spans[i], self._spans[j]), self._chosen(place))
        return TrainingSet(self.training[place].pair(i, j), (self.roundings[i], self.roundings[j]), few=few)

    def _chosen(self, place: int) -> Array:
        """The rows of a training set."""
        return np.flatnonzero(self.fold_of != place - 1)

    def by_column(self, i: int, j: int) -> ByColumn | None:
        """The columns of a pair, where its moments are of coordinates."""
        return None if self._spans is None else ByColumn(self._spans[i], self._spans[j])

    def norms_by_column(self, pair: tuple[int, int]) -> dict[str, Array]:
        """The residual norms of all rows under rungs that depend on columns, where moments are of coordinates."""
        columns = self.by_column(*pair)
        if columns is None:
            return {}
        names = [name for name in self.rungs if name in BY_COLUMN]
        return {name: columns.rung(name, self.fold_of, len(self.folds)).norms for name in names}

    @property
    def matches_columns(self) -> bool:
        """Whether columns are matched on all rows, which may take longer than all else where rows are few."""
        widest = max(len(spread) for spread in self.spreads)
        return self._spans is None or "signed_permutation" in self.rungs or widest <= MATCHED_UNASKED

    def matched_columns(self, i: int, j: int) -> MatchedColumns:
        """The columns of a pair matched by signed permutation on all rows."""
        columns = self.by_column(i, j)
        if columns is None:
            cross = self.total.pair(i, j).xy
            source, (d_x, d_y) = match_signed(padded(cross))[0], cross.shape
        else:
            source, (d_x, d_y) = columns.of_all_rows.columns, columns.widths
        target = np.flatnonzero(source[:d_y] < d_x)
        source = source[target]
        shared = cross[source, target] if columns is None else columns.shared(source, target)
        return MatchedColumns(source, target, shared)

    def _pair_errors(
        self,
        names: Sequence[str],
        pair: tuple[int, int],
        watch: Watch,
    ) -> Array:
        """Squared errors by place, rung and direction: on all rows (place 0), then on each fold left out."""
        fitted, norms = self.fitted(pair), self.norms_by_column(pair)
        watch(pair, fitted, norms)
        found = [_errors({name: fitted[name].whole for name in self._moved}, self.total.pair(*pair))]
        for fold, rows in enumerate(self.folds):
            found.append(_errors({name: fitted[name].without[fold][0] for name in self._moved}, rows.pair(*pair)))
        for name, each in norms.items():
            squares = each**2
            found[0][name] = tuple(squares[:, 0].sum(axis=1))
            for fold in range(len(self.folds)):
                found[1 + fold][name] = tuple(squares[:, 1, self.fold_of == fold].sum(axis=1))
        return np.array([[errors[name] for name in names] for errors in found])

    def _linear_map(self, source: int, targets: Sequence[int], place: int) -> AffineMap:
        moments = self.training[place].towards(source, targets)
        matrix, _ = self._solved(source, targets, place)
        return AffineMap(matrix, moments.source_mean, moments.target_mean)

    def _solved(self, source: int, targets: Sequence[int], place: int) -> tuple[Array, Moments]:
        """Least squares onto several runs at once, and the moments it was solved from."""
        moments, by = self._source_view(self.training, self._again_training, source, targets, place)
        if self._spans is not None:
            chosen = self._chosen(place)
            target = np.hstack([self._spans[run].rows[chosen] for run in targets]) - moments.target_mean
            return self._spans[source].least_squares(chosen, target), moments
        matrix, _ = solve_linear(moments, self.roundings[source], by)
        return matrix, moments

    def _source_view(
        self,
        plain: Sequence[JointMoments],
        again: Sequence[JointMoments] | None,
        source: int,
        targets: Sequence[int],
        place: int,
    ) -> tuple[Moments, Preconditioner | None]:
        """A source's moments with targets: plain, or in the preconditioned basis."""
        if self.again is None or again is None or source not in self.again.position:
            return plain[place].towards(source, targets), None
        behind = len(self.again.position)
        view = again[place].towards(self.again.position[source], [behind + j for j in targets])
        return view, self.again.by[source]

    def _linear_errors(self, source: int, place: int) -> Array:
        """Squared errors of every column of all other runs, predicted from one."""
        targets = [run for run in range(self.count) if run != source]
        matrix, trained = self._solved(source, targets, place)
        if place == 0:
            rows, by = self._source_view(self.training, self._again_training, source, targets, 0)
            yy = self.total
        else:
            again = None if self.again is None else self.again.folds
            rows, by = self._source_view(self.folds, again, source, targets, place - 1)
            yy = self.folds[place - 1]
        if by is not None:  # in the preconditioned basis, where products do not cancel
            matrix = by.inverse @ matrix
        shift = (rows.target_mean - trained.target_mean) - (rows.source_mean - trained.source_mean) @ matrix
        if self._spans is None:
            spread = np.concatenate([yy.spread(run) for run in targets])
            return column_errors(matrix, shift, rows.n, rows.xx, rows.xy, spread)
        found, start = [], 0
        for run in targets:
            axes = self._spans[run].axes
            here = slice(start, start + len(axes))
            spread = np.einsum("ij,ij->j", axes, yy.block(run, run) @ axes)
            towards = matrix[:, here] @ axes, shift[here] @ axes, rows.n, rows.xx, rows.xy[:, here] @ axes, spread
            found.append(column_errors(*towards))
            start = here.stop
        return np.concatenate(found)

    def _by_pair(self, names: Sequence[str], results: Sequence[Array]) -> dict[str, Squares]:
        """Errors by pair into matrices."""
        table = np.zeros((len(names), len(self.training), self.count, self.count))
        for (i, j), errors in zip(self.pairs, results, strict=True):
            table[:, :, i, j], table[:, :, j, i] = errors[..., 0].T, errors[..., 1].T
        return {name: Squares(table[k, 1:], table[k, 0]) for k, name in enumerate(names)}

    def _by_source(self, tasks: Sequence[tuple[int, int]], results: Sequence[Array]) -> Squares:
        """Column errors by task (source, place) into matrices, and summed over folds for every target's columns."""
        table = np.zeros((len(self.training), self.count, self.count))
        held_out = [np.zeros((self.count, len(spread))) for spread in self.spreads]
        for (source, place), errors in zip(tasks, results, strict=True):
            start = 0
            for target in (run for run in range(self.count) if run != source):
                width = held_out[target].shape[1]
                mine = errors[start : start + width]
                table[place, source, target] = mine.sum()
                if place:
                    held_out[target][source] += mine
                start += width
        return Squares(table[1:], table[0], tuple(held_out))


def _training_sets(folds: list[JointMoments]) -> list[JointMoments]:
    """All rows, then all but each fold."""
    return [merged(folds), *map_blocks(lambda fold: merged_without(folds, fold.start), len(folds), 1)]


def _errors(maps: dict[str, Maps], rows: Moments) -> dict[str, tuple[float, float]]:
    """Squared errors of every rung on some rows, forward and reverse."""
    back = rows.swapped()
    return {name: (there.squared_error(rows), again.squared_error(back)) for name, (there, again) in maps.items()}


def half_shares(runs: Sequence[Matrix], means: Sequence[Array], radii: Sequence[float]) -> list[float]:
    """Smallest share of rows that carry half of the variance, per run; second moments do not contain it."""

    def share(values: Matrix, mean: Array, radius: float) -> float:
        def squares(start: int, rows: Array) -> Array:
            apart = (rows - mean) / radius
            return np.asarray(np.einsum("ij,ij->i", apart, apart), dtype=np.float32)  # four bytes for each row

        return half_variance_share(np.concatenate(map_rows(squares, [values], block_rows(values.shape[1]))))

    return [share(*each) for each in zip(runs, means, radii, strict=True)]


@dataclass(frozen=True, eq=False)
class RungMatrix(Record):
    """Held-out errors of one rung: row = source, column = target; lower is closer.

    Errors are means of residual norms in mean distances of the target's rows to their mean, as those of
    :func:`isorep.compare`: 1 is no better than predicting the mean. The diagonal is 0.

    Attributes
    ----------
    error : (R, R) array
        Held out: each row by maps fitted without its fold.
    se : (R, R) array
        Standard error: the jackknife of the ratio over folds.
    upper : (R, R) array
        The upper end of the 95% interval, by Student's quantile.
    in_sample : (R, R) array
        The error of maps fitted to all rows.
    excess : (R, R) array
        The upper end of the 95% interval of the error's excess over the best rung, paired by fold.
    rms, rms_in_sample : (R, R) arrays
        Root mean squares in units of the target's RMS radius; 1 - rms² is the held-out R².
    null, null_low, p_value : (R, R) arrays or None
        The error under shuffled pairings: its mean (chance) and 5th percentile, and the p-value. NaN on the diagonal,
        and for pairs that a time limit left out.
    left_out : (folds, R, R) array
        The error without each fold.
    mean_error, sup : (R, R) arrays or None
        Held-out mean and largest error, in *diameters* of the target; only with ``residuals=True``.
    quantiles : dict of str to (R, R) array, or None
        The same for quantiles.
    """

    name: str
    error: Array
    se: Array
    upper: Array
    excess: Array
    in_sample: Array
    rms: Array
    rms_in_sample: Array
    left_out: Array
    null: Array | None = None
    null_low: Array | None = None
    p_value: Array | None = None
    smallest_p: float | None = None
    mean_error: Array | None = None
    sup: Array | None = None
    quantiles: dict[str, Array] | None = None

    @property
    def mean(self) -> float:
        """The mean error over ordered pairs."""
        return float(self.error[apart(len(self.error))].mean())

    @property
    def max(self) -> float:
        """The error of the worst ordered pair."""
        return float(self.error[apart(len(self.error))].max())

    @property
    def min(self) -> float:
        """The error of the best ordered pair."""
        return float(self.error[apart(len(self.error))].min())

    @property
    def mean_se(self) -> float:
        """The standard error of the mean over ordered pairs: the jackknife over folds."""
        return float(jackknife_se(self.left_out[:, apart(len(self.error))].mean(axis=1), self.mean))

    @property
    def explained(self) -> float:
        """The mean over ordered pairs of the held-out R², the share of a run's variance explained from another."""
        return float(np.mean(1 - self.rms[apart(len(self.rms))] ** 2))

    @property
    def worst(self) -> tuple[int, int]:
        """The worst ordered pair: source and target."""
        return largest({(int(i), int(j)): float(self.error[i, j]) for i, j in np.argwhere(apart(len(self.error)))})

    @property
    def symmetric(self) -> Array:
        """The mean of both directions."""
        return np.asarray((self.error + self.error.T) / 2)

    @property
    def without_chance(self) -> list[tuple[int, int]]:
        """The ordered pairs without a null: all of them, or those that a time limit left out."""
        missing = apart(len(self.error)) if self.null is None else np.isnan(self.null) & apart(len(self.error))
        return [(int(i), int(j)) for i, j in np.argwhere(missing)]

    @property
    def below_null(self) -> Array:
        """Which pairs lie below what shuffled pairings give, by their intervals; none without a null."""
        if self.null_low is None:
            return np.zeros(self.error.shape, dtype=bool)
        with np.errstate(invalid="ignore"):  # the diagonal of the null is NaN
            return np.asarray(self.upper < self.null_low)

    def to_dict(self) -> dict[str, Any]:
        """The matrices and their summaries over ordered pairs; errors in diameters have their own key."""
        apart_from = ("left_out", "excess", "mean_error", "sup", "quantiles")
        told = {key: value for key, value in vars(self).items() if key not in apart_from}
        told |= {key: getattr(self, key) for key in ("mean", "max", "min", "mean_se", "explained")}
        told["excess_over_best"] = self.excess
        if self.sup is not None:
            told["in_diameters"] = {"mean": self.mean_error, "sup": self.sup, "quantiles": self.quantiles}
        return told


@dataclass(frozen=True, eq=False)
class PairErrors:
    """Summed residual norms of one ordered pair by fold, for each rung: held out and in sample.

    ``sizes`` are the summed distances of the target's rows to their mean. ``squares`` are summed squares over all
    folds, held out and in sample, in squares of the target's RMS radius over the same rows.
    """

    held_out: dict[str, Array]
    in_sample: dict[str, Array]
    sizes: Array
    squares: dict[str, tuple[float, float]]

    def ratios(self) -> dict[str, float]:
        """The held-out error of each rung, in mean distances of the target's rows to their mean."""
        return {name: float(each.sum() / self.sizes.sum()) for name, each in self.held_out.items()}

    def beside(self, others: PairErrors) -> PairErrors:
        """These rungs and others of the same pair."""
        return PairErrors(
            self.held_out | others.held_out,
            self.in_sample | others.in_sample,
            self.sizes,
            self.squares | others.squares,
        )


def rung_matrices(
    names: Sequence[str],
    pairs: dict[tuple[int, int], PairErrors],
    count: int,
    squares: dict[str, Squares] | None,
    total: int,
    radii: Array,
    nulls: dict[tuple[int, int], dict[str, Null]],
) -> dict[str, RungMatrix]:
    """The matrices of all rungs. ``squares`` are sums over all rows, where all rows are scored."""
    n_folds = len(next(iter(pairs.values())).sizes)
    reach = float(special.stdtrit(n_folds - 1, (1 + LEVEL) / 2))
    shape = (count, count)
    tables: dict[str, dict[str, Any]] = {
        name: {key: np.zeros(shape) for key in ("error", "se", "upper", "excess", "in_sample", "rms", "rms_in_sample")}
        for name in names
    }
    left_out = {name: np.zeros((n_folds, *shape)) for name in names}
    for (i, j), errors in pairs.items():
        rest = errors.sizes.sum() - errors.sizes
        ratios = errors.ratios()
        best = least(ratios)
        with np.errstate(invalid="ignore"):  # all rows that are scored lie in one fold
            partial = {name: (each.sum() - each) / rest for name, each in errors.held_out.items()}
        for name in names:
            table = tables[name]
            table["error"][i, j] = ratios[name]
            table["se"][i, j] = jackknife_se(partial[name], ratios[name])
            table["upper"][i, j] = ratios[name] + reach * table["se"][i, j]
            gap = ratios[name] - ratios[best]
            table["excess"][i, j] = gap + reach * jackknife_se(partial[name] - partial[best], gap)
            table["in_sample"][i, j] = errors.in_sample[name].sum() / errors.sizes.sum()
            table["rms"][i, j], table["rms_in_sample"][i, j] = np.sqrt(errors.squares[name])
            left_out[name][:, i, j] = partial[name]
    if squares is not None:
        for name, known in squares.items():
            tables[name]["rms"] = np.sqrt(known.folds.sum(axis=0) / total) / radii
            tables[name]["rms_in_sample"] = np.sqrt(known.in_sample / total) / radii
    return {
        name: RungMatrix(name, left_out=left_out[name], **table, **_null_tables(name, nulls, shape))
        for name, table in tables.items()
    }


def _null_tables(name: str, nulls: dict[tuple[int, int], dict[str, Null]], shape: tuple[int, int]) -> dict[str, Any]:
    if not nulls:
        return {}
    tables = {key: np.full(shape, np.nan) for key in ("null", "null_low", "p_value")}
    for pair, by_rung in nulls.items():
        tables["null"][pair] = by_rung[name].mean
        tables["null_low"][pair] = by_rung[name].low
        tables["p_value"][pair] = by_rung[name].p_value
    return tables | {"smallest_p": max(by_rung[name].smallest_p for by_rung in nulls.values())}


def identity_offsets(means: Sequence[Array], n: int, identity: Squares, radii: Sequence[float]) -> Array:
    """For every pair the share of identity's mean squared error that the distance of the means makes up."""
    count = len(radii)
    shares = np.full((count, count), np.nan)
    for i in range(count):
        for j in range(count):
            if i != j:
                square = identity.in_sample[i, j] / n / radii[j] ** 2
                offset = (distance_of_means(means[i], means[j]) / radii[j]) ** 2
                shares[i, j] = min(offset / square, 1.0) if square > 0 else 0.0
    return shares


def apart(count: int) -> Array:
    """The ordered pairs of different runs."""
    return ~np.eye(count, dtype=bool)
