"""The stages of one comparison: moments, fits, residuals, null, and the records made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..ica import ICA
from ..moments import fold_moments, leave_one_out, merged
from ..representation import Array, Matrix, Representation, RowMatch, match_rows, rounding_of
from ..resampling import group_codes
from ..resolution import resolve_source
from ..rows import Progress, select
from . import figures
from .diameters import Diameter, find_diameter
from .null import NullDraws, draw_null
from .residuals import Centre, FittedRung, residual_pass
from .result import Direction, Null, Rung, Side
from .rungs import TrainingSet, UnmixedSide, fit_all, unmix
from .settings import loaded
from .sides import describe_side, half_variance_share, rms_radius, working_dtype
from .statistics import bootstrap, summarise, told_efficiency
from .verdict import judge
from .worst_case import certify, row_ids, sample_claim

_SHORT_WORST_CASE = 2e9  # rows x width^2 up to which the worst case is bracketed unasked


class Pair:
    """Two representations reduced to their common rows."""

    def __init__(self, source: Representation, target: Representation, match: RowMatch) -> None:
        self.x: Matrix = select(source.values, match.source_rows)
        self.y: Matrix = select(target.values, match.target_rows)
        self.names = (source.name or "source", target.name or "target")
        self.n = int(self.x.shape[0])
        ids = row_ids(source, target)
        rows = match.source_rows if source.ids is not None else match.target_rows
        self.ids = ids if ids is None or rows is None else ids[rows]


def open_pair(
    source: Any, target: Any, roles: tuple[str, str], groups: Any, join: bool
) -> tuple[Pair, RowMatch, Array | None]:
    """Two sides as given, read and matched row by row; how they matched, and the groups of the common rows."""
    a, b = (loaded(data, role) for data, role in zip((source, target), roles, strict=True))
    if a.name == b.name:
        a, b = (replace(side, name=f"{side.name} ({role})") for side, role in zip((a, b), roles, strict=True))
    match = match_rows(a, b, join=join)
    labels = group_codes(groups, len(a))
    if labels is not None and match.source_rows is not None:
        labels = group_codes(labels[match.source_rows], len(match.source_rows))
    return Pair(a, b, match), match, labels


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
    ) -> None:
        self.pair, self.fold_of, self.n_folds, self.labels = pair, fold_of, n_folds, labels
        self.names, self.report = names, report
        self.unmixed: tuple[UnmixedSide, UnmixedSide] | None = None

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
        """ICA of each side, on all rows and without each fold."""
        done, of = 0, 2 * (self.n_folds + 1)

        def step() -> None:
            nonlocal done
            done += 1
            self.report("independent components", done, of)

        sides = [unmix(each, self.fold_of, self.n_folds, template, rng, step) for each in (self.pair.x, self.pair.y)]
        self.unmixed = (sides[0], sides[1])

    def fit(self) -> None:
        """Every rung on all rows and without each fold, from moments."""
        without = leave_one_out(self.folds)
        seconds = [None if each is None else [merged(each.folds), *leave_one_out(each.folds)] for each in self.second]
        self.training = []
        for place, moments in enumerate([self.total, *without]):
            parts = [
                None if each is None or ready is None else (each, ready[place])
                for each, ready in zip(self.second, seconds, strict=True)
            ]
            icas = None
            if self.unmixed is not None:
                source, target = ([side.whole, *side.without][place] for side in self.unmixed)
                icas = (source, target)
            self.training.append(
                TrainingSet(moments, (rounding_of(self.pair.x), rounding_of(self.pair.y)), (parts[0], parts[1]), icas)
            )
        fitted = fit_all(self.names, self.training, self._stage("fits"))
        self.fitted = {name: FittedRung(fitted[0][name], [each[name] for each in fitted[1:]]) for name in self.names}

    def evaluate(self) -> None:
        """One more pass: the residuals of every rung, in both directions."""
        self.residuals = residual_pass(
            self.pair.x, self.pair.y, self.fold_of, self.centre, self.fitted, self._stage("residuals")
        )

    def diameters(self, search: str) -> tuple[Diameter, Diameter]:
        """The diameters of source and target."""
        sides = ((self.pair.x, self.total.source_mean), (self.pair.y, self.total.target_mean))
        found = [
            find_diameter(values, mean, radius, search, self._stage("diameter"))
            for (values, mean), radius in zip(sides, self.rms_radii, strict=True)
        ]
        return found[0], found[1]

    def null(self, n_null: int, rng: np.random.Generator) -> NullDraws | None:
        """Held-out errors under shuffled pairings."""
        if n_null == 0:
            return None
        return draw_null(
            self.pair.x,
            self.pair.y,
            self.fold_of,
            self.labels,
            self.folds,
            self.training[1:],
            self.centre,
            self.residuals.radii,
            self.names,
            n_null,
            rng,
            self._stage("null"),
        )

    def directions(
        self,
        diameters: tuple[Diameter, Diameter],
        null: NullDraws | None,
        n_boot: int,
        rng: np.random.Generator,
        tolerance: float,
    ) -> list[Direction]:
        """Residuals into records, source onto target and the reverse."""
        result = []
        for place, draws in enumerate((null.forward, null.reverse) if null else (None, None)):
            source, target = self.pair.names if place == 0 else self.pair.names[::-1]
            size = diameters[1 - place]
            rungs = self._rungs(place, size.value, draws, n_boot, rng)
            widths = (self.pair.x.shape[1], self.pair.y.shape[1])
            narrower_target = widths[place] > widths[1 - place]
            result.append(
                Direction(
                    source=source,
                    target=target,
                    rungs=rungs,
                    diameter=size,
                    baseline=float(self.residuals.radii[1 - place].mean() / size.value),
                    ica_efficiency=_efficiency(rungs, "held_out", narrower_target),
                    ica_efficiency_in_sample=_efficiency(rungs, "in_sample", narrower_target),
                    verdict=judge(rungs, tolerance, source, target),
                    identity_offset=self._identity_offset(),
                )
            )
        return result

    def _identity_offset(self) -> float | None:
        """The share of identity's mean squared error that the distance of the means makes up; in both directions."""
        if "identity" not in self.names:
            return None
        unit = self.rms_radii[1]
        square = float(np.mean((self.residuals.rungs["identity"][0, 0] / unit) ** 2))
        return min((self.total.offset / unit) ** 2 / square, 1.0) if square > 0 else 0.0

    def _rungs(
        self,
        place: int,
        unit: float,
        draws: dict[str, Array] | None,
        n_boot: int,
        rng: np.random.Generator,
    ) -> dict[str, Rung]:
        residuals = {name: each[place] for name, each in self.residuals.rungs.items()}
        scaled = {name: each[1] / unit for name, each in residuals.items()}
        intervals, excess = bootstrap(scaled, "linear", self.labels, n_boot, rng) if n_boot else ({}, {})
        return {
            name: Rung(
                name=name,
                held_out=(held_out := summarise(each[1], unit)),
                in_sample=summarise(each[0], unit),
                interval=intervals.get(name),
                excess=excess.get(name),
                null=None if draws is None else _null(draws[name] / unit, held_out.mean),
                unit=unit,
                explained=1 - (held_out.rms * unit / self.rms_radii[1 - place]) ** 2,
            )
            for name, each in residuals.items()
        }

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
                self.residuals.rungs["rigid"][0, 1] / diameters[1].value, self._fewest_units_in_a_fold()
            )
        return found

    def _fewest_units_in_a_fold(self) -> int:
        """Rows, or groups, that the smallest fold has to say something about its map."""
        if self.labels is None:
            return int(np.bincount(self.fold_of, minlength=self.n_folds).min())
        return min(len(np.unique(self.labels[self.fold_of == fold])) for fold in range(self.n_folds))

    def figures(self, direction: Direction, seed: int) -> dict[str, Any]:
        """The data behind the figures of the source mapped onto the target."""
        shown = direction.verdict.rung or ("rigid" if "rigid" in self.names else self.names[-1])
        unit = direction.diameter.value
        maps = {name: [maps[0] for maps in rung.without] for name, rung in self.fitted.items() if name != "identity"}
        nulls = {name: rung.null.mean for name, rung in direction.rungs.items() if rung.null}
        residuals = {name: each[0, 1] for name, each in self.residuals.rungs.items()}
        return {
            "scatter": figures.scatter(
                self.pair.x, self.pair.y, self.total, self.fitted[shown].whole[0], shown, unit, self.pair.ids, seed
            ),
            "matching": figures.matching(self.total),
            "dimensions": figures.reproducibility(self.folds, maps) if maps else None,
            "residuals": figures.residual_histogram(residuals, unit, nulls),
        }

    def _stage(self, name: str) -> Any:
        return lambda done, total: self.report(name, done, total)


def _efficiency(rungs: dict[str, Rung], which: str, narrower_target: bool) -> float | None:
    """None where a rung is missing, where ICA drops sources that the padded rigid map carries, and without a gap."""
    if narrower_target or not {"signed_permutation", "rigid", "ica"} <= set(rungs):
        return None
    return told_efficiency(*(getattr(rungs[name], which).mean for name in ("signed_permutation", "rigid", "ica")))


def _null(draws: Array, observed: float) -> Null:
    low, high = np.quantile(draws, 0.05, method="lower"), np.quantile(draws, 0.95, method="higher")
    p_value = (1 + int((draws <= observed).sum())) / (1 + len(draws))
    return Null(float(draws.mean()), float(low), float(high), p_value, len(draws))
