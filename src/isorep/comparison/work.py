"""The stages of one comparison: moments, fits, residuals, null, and the records made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..alignment.base import summarise
from ..covariance import resolve_source
from ..errors import InputError
from ..ica import ICA
from ..moments import fold_moments, leave_one_out, merged
from ..pairs import Pair, Side, describe_side, half_variance_share, rms_radius, working_dtype
from ..representation import Array, rounding_of
from ..resampling import (
    Interval,
    Shuffles,
    assign_blocks,
    assign_folds,
    error_variance,
    influence_rows,
    interval_of,
    jackknife_se,
    ratio_influence,
)
from ..rows import Progress, select
from . import figures
from .diameter import Diameter, find_diameter
from .fits import PARTS, TrainingSet, UnmixedSide, fit_all, ica_rung, paired_sample, unmix
from .influence import map_influence, pulled_rungs
from .null import ShuffledErrors, null_rows, shuffled_errors
from .residuals import Centre, FittedRung, residual_pass, told_efficiency
from .result import Direction, Rung
from .verdict import judge
from .worst_case import certify, sample_claim

_JACKKNIFED = 5  # sets of rows that are left out with all maps refitted
_SHORT_WORST_CASE = 2e9  # rows x width^2 up to which the worst case is bracketed unasked


class Ends(NamedTuple):
    """The intervals of one rung: of its error, and of how much it exceeds the best rung's and the linear one's."""

    interval: Interval | None = None
    excess: Interval | None = None
    over_linear: Interval | None = None


class Work:
    """The stages of one comparison, in order: each leaves what the next ones need."""

    def __init__(
        self,
        pair: Pair,
        fold_of: Array,
        n_folds: int,
        labels: Array | None,
        names: Sequence[str],
        report: Progress,
        *,
        within: Array | None = None,
        scored: Array | None = None,
    ) -> None:
        self.pair, self.fold_of, self.n_folds, self.labels = pair, fold_of, n_folds, labels
        self.names, self.report, self.within, self.scored = names, report, within, scored
        self.unmixed: tuple[UnmixedSide, UnmixedSide] | None = None
        self._ica: FittedRung | None = None
        self._refitted: dict[str, Array] = {}

    def measure(self) -> None:
        """One pass: the moments of every fold; a second only for an ill-conditioned side."""
        x, y = self.pair.x, self.pair.y
        self.folds = fold_moments(
            x, y, self.fold_of, self.n_folds, names=self.pair.names, progress=self._stage("moments")
        )
        self.total = merged(self.folds)
        sides = ((self.total.source_mean, self.total.xx), (self.total.target_mean, self.total.yy))
        self.rms_radii = [
            rms_radius(name, self.total.n, *side) for name, side in zip(self.pair.names, sides, strict=True)
        ]
        forward = resolve_source(self.total, x, y, self.fold_of, self.n_folds)
        reverse = resolve_source(self.total.swapped(), y, x, self.fold_of, self.n_folds)
        self.factors, self.second = (forward[0], reverse[0]), (forward[1], reverse[1])
        work = working_dtype((x, y), self.rms_radii)
        self.centre = Centre(self.total.source_mean, self.total.target_mean, work)

    @property
    def took_second_pass(self) -> tuple[bool, bool]:
        """Which sides were too ill-conditioned for plain normal equations."""
        return self.second[0] is not None, self.second[1] is not None

    def unmix(self, template: ICA, rng: np.random.Generator) -> None:
        """ICA of each side: on all rows, and on each of three parts."""
        done, of = 0, 2 * (PARTS + 1)

        def step() -> None:
            nonlocal done
            done += 1
            self.report("independent components", done, of)

        x, y = self.pair.x, self.pair.y
        part_of = assign_folds(self.pair.n, PARTS, self.labels, rng)
        source, target = (unmix(each, part_of, template, rng, step) for each in (x, y))
        self.unmixed = (source, target)
        rows = paired_sample(self.pair.n, rng)
        parts = fold_moments(select(x, rows), select(y, rows), part_of if rows is None else part_of[rows], PARTS)
        self._ica = ica_rung(self.total, parts, part_of, source, target)

    def fit(self) -> None:
        """Every rung on all rows and without each fold, from moments."""
        without = leave_one_out(self.folds)
        seconds = [None if each is None else [merged(each.folds), *leave_one_out(each.folds)] for each in self.second]
        self.training = []
        roundings = (rounding_of(self.pair.x), rounding_of(self.pair.y))
        for place, moments in enumerate([self.total, *without]):
            parts = [
                None if each is None or ready is None else (each, ready[place])
                for each, ready in zip(self.second, seconds, strict=True)
            ]
            self.training.append(TrainingSet(moments, roundings, (parts[0], parts[1])))
        paired = [name for name in self.names if name != "ica"]
        fitted = fit_all(paired, self.training, self._stage("fits"))
        self.fitted = {
            name: FittedRung(fitted[0][name], [[each[name]] for each in fitted[1:]], self.fold_of) for name in paired
        }
        if self._ica is not None:
            self.fitted["ica"] = self._ica

    def evaluate(self, intervals: bool = True) -> None:
        """One more pass: the residuals of every rung, in both directions."""
        d_x, d_y = self.pair.x.shape[1], self.pair.y.shape[1]
        self.residuals = residual_pass(
            self.pair.x,
            self.pair.y,
            self.centre,
            self.fitted,
            scored=self.scored,
            pulled=pulled_rungs(self.names, d_x, d_y, self.n_folds) if intervals else (),
            progress=self._stage("residuals"),
        )
        for radii, name in zip(self.residuals.radii, self.pair.names, strict=True):
            if not (radii if self.scored is None else radii[self.scored]).any():
                raise InputError(f"all rows of {name} that can be scored are identical: there is nothing to compare")

    def diameters(self, search: str) -> tuple[Diameter, Diameter]:
        """The diameters of source and target."""
        sides = ((self.pair.x, self.total.source_mean), (self.pair.y, self.total.target_mean))
        found = [
            find_diameter(values, mean, radius, search, self._stage("diameter"))
            for (values, mean), radius in zip(sides, self.rms_radii, strict=True)
        ]
        return found[0], found[1]

    def null(self, n_null: int, seed: np.random.SeedSequence) -> ShuffledErrors | None:
        """Held-out errors under shuffled pairings."""
        self.shuffles = Shuffles(self.pair.n, self.labels, self.within)
        if n_null == 0:
            return None
        x, y = self.pair.x, self.pair.y
        thin, draw = seed.spawn(2)
        icas = None if self.unmixed is None else (self.unmixed[0].parts[0], self.unmixed[1].parts[1])
        return shuffled_errors(
            x,
            y,
            null_rows(self.shuffles, x.shape[1], y.shape[1], np.random.default_rng(thin)),
            self.fold_of,
            self.centre,
            replace(self.training[0], icas=icas),
            self.names,
            n_null,
            draw,
            units=None if self.labels is None else int(self.labels.max()) + 1,
            scored=self.scored,
            progress=self._stage("null"),
        )

    def directions(
        self,
        diameters: tuple[Diameter, Diameter],
        null: ShuffledErrors | None,
        intervals: bool,
        rng: np.random.Generator,
        tolerance: float,
    ) -> list[Direction]:
        """Residuals into records, source onto target and the reverse."""
        found: list[Direction] = []
        reach = self._intervals(rng) if intervals else None
        scored = None if self.scored is None else int(self.scored.sum())
        for place in range(2):
            source, target = self.pair.names if place == 0 else self.pair.names[::-1]
            size = diameters[1 - place]
            rungs = self._rungs(place, size.value, null, None if reach is None else reach[place])
            widths = (self.pair.x.shape[1], self.pair.y.shape[1])
            narrower_target = widths[place] > widths[1 - place]
            found.append(
                Direction(
                    source=source,
                    target=target,
                    rungs=rungs,
                    diameter=size,
                    baseline=self._unit(place) / size.value,
                    ica_efficiency=_efficiency(rungs, "held_out", narrower_target),
                    ica_efficiency_in_sample=_efficiency(rungs, "in_sample", narrower_target),
                    verdict=judge(rungs, tolerance, source, target, scored),
                    identity_offset=self._identity_offset(),
                )
            )
        return found

    def _unit(self, place: int) -> float:
        """The mean distance of the target's rows to their mean, over the rows that are scored."""
        return float(self._kept(self.residuals.radii[1 - place]).mean())

    def _kept(self, values: Array) -> Array:
        return values if self.scored is None else np.asarray(values[..., self.scored])

    def _identity_offset(self) -> float | None:
        """The share of identity's mean squared error that the distance of the means makes up; in both directions."""
        if "identity" not in self.names:
            return None
        unit = self.rms_radii[1]
        square = float(np.mean((self.residuals.rungs["identity"][0, 0] / unit) ** 2))
        return min((self.total.offset / unit) ** 2 / square, 1.0) if square > 0 else 0.0

    def _intervals(self, rng: np.random.Generator) -> list[dict[str, Ends]]:
        """Of every rung in both directions, for its held-out mean and for its excess over the best rung."""
        n = self.pair.n
        blocks = assign_blocks(n, self.labels, rng)
        rows = influence_rows(n, self.labels, rng)
        through = {name: self.through_maps(name, rows) for name in self.residuals.pulls}
        found = []
        for place in range(2):
            radii = self.residuals.radii[1 - place]
            told = {
                name: ratio_influence(each[place, 1], radii, self.scored) for name, each in self.residuals.rungs.items()
            }
            size = float((radii if self.scored is None else radii * self.scored).sum())
            moved = {name: each[place] / size for name, each in through.items()}
            best = min(told, key=lambda name: told[name][0])

            extra = {name: self._fit_variance(name, place) for name in told}

            def beyond(
                name: str,
                other: str,
                told: Any = told,
                moved: dict[str, Array] = moved,
                extra: dict[str, float] = extra,
            ) -> Interval:
                (ratio, own), (base, its) = told[name], told[other]
                both = None
                if name in moved or other in moved:
                    both = np.subtract(moved.get(name, 0.0), moved.get(other, 0.0))
                variance = error_variance(own - its, both, blocks, rows)
                variance += extra[name] + extra[other] if name != other else 0.0
                return interval_of(ratio - base, variance, blocks, -np.inf, self.scored)

            ends = {
                name: Ends(
                    interval_of(
                        ratio,
                        error_variance(own, moved.get(name), blocks, rows) + extra[name],
                        blocks,
                        scored=self.scored,
                    ),
                    beyond(name, best),
                    beyond(name, "linear") if "linear" in told else None,
                )
                for name, (ratio, own) in told.items()
            }
            found.append(ends)
        return found

    def _fit_variance(self, name: str, place: int) -> float:
        """What other fits of a rung would add to the variance of its rows, where maps have no derivative.

        ICA scores every part with two pairs of fits, whose errors differ. For other rungs, such as the signed
        permutation, whose matching may change with the rows, the jackknife over folds is taken with maps refitted and
        with maps as they are: over the same folds, as five of them differ much more among themselves than the two
        jackknives do. As refitting counts interactions of rows twice, half of the difference is added.
        """
        spread = self.residuals.spread_by_fit.get(name)
        if spread is not None:
            return float(spread[place]) / PARTS / self._unit(place) ** 2
        if name == "identity" or name in self.residuals.pulls:
            return 0.0
        refitted, kept = (float(jackknife_se(each, 0.0)) ** 2 for each in self._without_folds(name)[place])
        return max(refitted - kept, 0.0) / 2

    def _without_folds(self, name: str) -> Array:
        """The error of a rung without each fold (of many folds, of five sets): by direction, refitted or not, fold.

        Refitting changes root mean squares, which moments have, by a ratio; the mean errors are taken to change by
        the same.
        """
        if name not in self._refitted:
            count = min(self.n_folds, _JACKKNIFED)
            folds = [merged(self.folds[at::count]) for at in range(count)]
            squares = np.zeros((2, count, count))  # of fold k by maps that have seen neither k nor j
            pairs = [(j, k) for j in range(count) for k in range(j + 1)]
            training = [
                merged([fold for at, fold in enumerate(folds) if at not in pair] or folds) for pair in pairs
            ]  # of two folds nothing is left without both: all rows stand for them
            sets = [replace(self.training[0], moments=each, second=(None, None)) for each in training]
            for (j, k), maps in zip(pairs, fit_all([name], sets), strict=True):
                for left, scored in {(j, k), (k, j)}:
                    rows = folds[scored]
                    for place, one in enumerate((rows, rows.swapped())):
                        squares[place, left, scored] = maps[name][place].squared_error(one)
            found = np.empty((2, 2, count))
            for place in range(2):
                errors, radii = self.residuals.rungs[name][place, 1], self.residuals.radii[1 - place]
                sums, sizes = (np.bincount(self.fold_of % count, each, count) for each in (errors, radii))
                kept = squares[place].diagonal()
                ratios = np.sqrt(np.divide(squares[place], kept, out=np.ones((count, count)), where=kept > 0))
                np.fill_diagonal(ratios, 0.0)
                without = np.maximum(sizes.sum() - sizes, 1e-300)
                found[place] = ratios @ sums / without, (sums.sum() - sums) / without
            self._refitted[name] = found
        return self._refitted[name]

    def through_maps(self, name: str, rows: Array | None) -> Array:
        """By how much chosen rows (all by default) move a rung's summed held-out errors through the maps of others."""
        return map_influence(
            name,
            self.residuals.pulls[name],
            np.arange(self.pair.n) if rows is None else rows,
            self.pair.x,
            self.pair.y,
            self.fold_of,
            self.centre,
            self.total,
            self.factors,
            [each[0] for each in self.fitted[name].without],
        )

    def _rungs(
        self,
        place: int,
        diameter: float,
        null: ShuffledErrors | None,
        ends: dict[str, Ends] | None,
    ) -> dict[str, Rung]:
        unit = self._unit(place)
        radii = self._kept(self.residuals.radii[1 - place])
        middle, spread = float(np.median(radii)), float(np.sqrt(np.mean(radii**2)))
        found = {}
        for name, each in self.residuals.rungs.items():
            held, inside = (self._kept(each[place, which]) for which in (1, 0))
            held_out = summarise(held, unit)
            mine = Ends() if ends is None else ends[name]
            found[name] = Rung(
                name=name,
                held_out=held_out,
                in_sample=summarise(inside, unit),
                interval=mine.interval,
                excess=mine.excess,
                over_linear=mine.over_linear,
                null=None if null is None else null.null(name, place),
                unit=unit,
                explained=1 - (held_out.rms * unit / spread) ** 2,
                median=float(np.median(held)) / middle if middle > 0 else float("nan"),
                diameter=diameter,
            )
        return found

    def side(self, place: int) -> Side:
        """The facts about one representation."""
        values = (self.pair.x, self.pair.y)[place]
        share = half_variance_share(self.residuals.radii[place] ** 2)
        return describe_side(self.pair.names[place], values, self.factors[place], self.rms_radii[place], share)

    def wants_worst_case(self, asked: bool | None) -> bool:
        """Whether to bracket the largest error: if asked, or if it takes seconds."""
        width = max(self.pair.x.shape[1], self.pair.y.shape[1])
        return self.pair.n * float(width) ** 2 <= _SHORT_WORST_CASE if asked is None else asked

    def worst_case(self, diameters: tuple[Diameter, Diameter], seed: int) -> dict[str, Any]:
        """Certificates for rigid motions without and with a scale, and what the sample's largest error can claim."""
        found: dict[str, Any] = {}
        for name, scale in (("rigid", False), ("rigid_with_scale", True)):
            certificate = certify(
                self.pair.x,
                self.pair.y,
                self.total,
                diameters[0].value,
                scale=scale,
                ids=self.pair.ids,
                seed=seed,
                unit=diameters[1].value,
            )
            found[name] = certificate
            self.report("worst case", len(found), 2)
        if "rigid" in self.names:
            found["sample"] = sample_claim(
                self._kept(self.residuals.rungs["rigid"][0, 1]) / diameters[1].value, self._fewest_units_in_a_fold()
            )
        return found

    def _fewest_units_in_a_fold(self) -> int:
        """Rows, or groups, that the smallest fold has to say something about its map."""
        if self.labels is None:
            return int(np.bincount(self.fold_of, minlength=self.n_folds).min())
        return min(len(np.unique(self.labels[self.fold_of == fold])) for fold in range(self.n_folds))

    def figures(self, direction: Direction, seed: int) -> figures.Figures:
        """The data behind the figures of the source mapped onto the target."""
        shown = direction.verdict.rung or ("rigid" if "rigid" in self.names else self.names[-1])
        unit = direction.diameter.value
        maps = {
            name: [maps[0][0] for maps in rung.without]
            for name, rung in self.fitted.items()
            if name not in ("identity", "ica")  # ICA has seen other parts of the rows
        }
        nulls = {name: rung.null.mean for name, rung in direction.rungs.items() if rung.null}
        residuals = {name: self._kept(each[0, 1]) for name, each in self.residuals.rungs.items()}
        return figures.Figures(
            scatter=figures.scatter(
                self.pair.x, self.pair.y, self.total, self.fitted[shown].whole[0], shown, unit, self.pair.ids, seed
            ),
            matching=figures.matching(self.total),
            dimensions=figures.reproducibility(self.folds, maps),
            residuals=figures.residual_histogram(residuals, self._unit(0), nulls),
        )

    def _stage(self, name: str) -> Any:
        return lambda done, total: self.report(name, done, total)


def _efficiency(rungs: dict[str, Rung], which: str, narrower_target: bool) -> float | None:
    """None where a rung is missing, where ICA drops sources that the padded rigid map carries, and without a gap."""
    if narrower_target or not {"signed_permutation", "rigid", "ica"} <= set(rungs):
        return None
    return told_efficiency(*(getattr(rungs[name], which).mean for name in ("signed_permutation", "rigid", "ica")))
