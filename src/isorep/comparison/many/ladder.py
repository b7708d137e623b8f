"""Held-out squared errors of every rung for all ordered pairs of runs, from joint moments alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...alignment import AffineMap
from ...alignment.base import column_errors
from ...alignment.linear import solve
from ...conditioning import Factor, Preconditioner, factor_covariance, factor_preconditioned, preconditioner
from ...moments import Moments, merged, merged_without
from ...representation import Array, Matrix, rounding_of
from ...rows import Crew, ProjectedRows, blocks, map_blocks
from ..residuals import FittedRung, Maps
from ..rungs import TrainingSet, UnmixedSide, fit, ica_rung
from .joint import JointMoments, joint_moments

Step = Callable[[int, int], None]


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

    place: dict[int, int]
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
    for place, i in enumerate(unresolved):
        factors[i] = factor_preconditioned(whole.block(place, place), whole.n, by[i])
    return factors, Again({i: place for place, i in enumerate(unresolved)}, by, second)


class AllPairs:
    """The ladder of all pairs: training sets are all rows (place 0) and all but one fold (places 1, 2, ...).

    ``parts`` are the joint moments of the parts that ICA is fitted on, with the part of each row.
    """

    def __init__(
        self,
        folds: list[JointMoments],
        fold_of: Array,
        rungs: Sequence[str],
        roundings: Sequence[float],
        unmixed: Sequence[UnmixedSide] | None = None,
        parts: tuple[list[JointMoments], Array] | None = None,
        again: Again | None = None,
    ) -> None:
        self.folds, self.fold_of, self.rungs, self.roundings = folds, fold_of, rungs, roundings
        self.unmixed, self.parts, self.again = unmixed, parts, again
        self.training = _training_sets(folds)
        self.total = self.training[0]
        self.count = len(roundings)
        self.pairs = [(i, j) for i in range(self.count) for j in range(i + 1, self.count)]
        self._again_training = None if again is None else _training_sets(again.folds)

    def squares(
        self,
        watch: Callable[[tuple[int, int], dict[str, FittedRung]], None],
        progress: Step | None = None,
        beside: Callable[[], None] | None = None,
    ) -> dict[str, Squares]:
        """The summed squares of every rung but ICA; the linear maps of one source onto all targets are solved together.

        ``watch`` is shown the fitted maps of every pair. ``beside`` is other work of one thread, done at the same time.
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
        found = self._by_pair(others, results[: len(self.pairs)]) if others else {}
        if "linear" in self.rungs:
            found["linear"] = self._by_source(by_source, results[len(self.pairs) :])
        return {name: found[name] for name in self.rungs if name in found}

    def fitted(self, pair: tuple[int, int]) -> dict[str, FittedRung]:
        """The maps of one pair on all rows and without each fold, for a pass over its rows."""
        i, j = pair
        others = [name for name in self.rungs if name not in ("linear", "ica")]
        made: list[dict[str, Maps]] = []
        for place in range(len(self.training)):
            found = fit(others, self.training_set(i, j, place))
            if "linear" in self.rungs:
                found["linear"] = (self._linear_map(i, [j], place), self._linear_map(j, [i], place))
            made.append(found)
        rungs = {name: FittedRung(made[0][name], [[each[name]] for each in made[1:]], self.fold_of) for name in made[0]}
        if self.unmixed is not None and self.parts is not None:
            moments, part_of = self.parts
            parts = [part.pair(i, j) for part in moments]
            rungs["ica"] = ica_rung(self.total.pair(i, j), parts, part_of, self.unmixed[i], self.unmixed[j])
        return {name: rungs[name] for name in self.rungs}

    def training_set(self, i: int, j: int, place: int) -> TrainingSet:
        """What the maps of a pair are fitted from: all rows (place 0), or all but one fold."""
        return TrainingSet(self.training[place].pair(i, j), (self.roundings[i], self.roundings[j]))

    def _pair_errors(
        self,
        names: Sequence[str],
        pair: tuple[int, int],
        watch: Callable[[tuple[int, int], dict[str, FittedRung]], None],
    ) -> Array:
        """Squared errors by place, rung and direction: on all rows (place 0), then on each fold left out."""
        fitted = self.fitted(pair)
        watch(pair, fitted)
        found = [_errors({name: fitted[name].whole for name in names}, self.total.pair(*pair))]
        for fold, rows in enumerate(self.folds):
            found.append(_errors({name: fitted[name].without[fold][0] for name in names}, rows.pair(*pair)))
        return np.array([[errors[name] for name in names] for errors in found])

    def _linear_map(self, source: int, targets: Sequence[int], place: int) -> AffineMap:
        moments = self.training[place].towards(source, targets)
        matrix, _ = self._solved(source, targets, place)
        return AffineMap(matrix, moments.source_mean, moments.target_mean)

    def _solved(self, source: int, targets: Sequence[int], place: int) -> tuple[Array, Moments]:
        """Least squares onto several runs at once, and the moments it was solved from."""
        moments, by = self._source_view(self.training, self._again_training, source, targets, place)
        matrix, _ = solve(moments, self.roundings[source], by)
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
        if self.again is None or again is None or source not in self.again.place:
            return plain[place].towards(source, targets), None
        behind = len(self.again.place)
        view = again[place].towards(self.again.place[source], [behind + j for j in targets])
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
        spread = np.concatenate([yy.spread(run) for run in targets])
        return column_errors(matrix, shift, rows.n, rows.xx, rows.xy, spread)

    def _by_pair(self, names: Sequence[str], results: Sequence[Array]) -> dict[str, Squares]:
        """Errors by pair into matrices."""
        table = np.zeros((len(names), len(self.training), self.count, self.count))
        for (i, j), errors in zip(self.pairs, results, strict=True):
            table[:, :, i, j], table[:, :, j, i] = errors[..., 0].T, errors[..., 1].T
        return {name: Squares(table[k, 1:], table[k, 0]) for k, name in enumerate(names)}

    def _by_source(self, tasks: Sequence[tuple[int, int]], results: Sequence[Array]) -> Squares:
        """Column errors by task (source, place) into matrices, and summed over folds for every target's columns."""
        table = np.zeros((len(self.training), self.count, self.count))
        held_out = [np.zeros((self.count, len(self.total.spread(run)))) for run in range(self.count)]
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
