"""Ladder of one pair, step by step: moments, fits, residuals, components, null, and the records made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..alignment.base import Spans, summarise
from ..covariance import Factor, SecondPass, resolve_source
from ..errors import InputError
from ..moments import Moments, fold_moments, merged, merged_without
from ..pairs import Pair, Side, describe_side, half_variance_share, rms_radius, working_dtype
from ..representation import Array, rounding_of
from ..resampling import Shuffles, assign_folds
from ..rows import Deadline, Progress, read_rows, select
from ..threads import WIDE_MATRIX
from . import figures
from .diameter import Diameter, find_diameter
from .fits import PARTS, TrainingSet, UnmixedSide, fit_all, ica_rung_by_part, paired_sample, unmix
from .intervals import Ends, pulled_rungs, through_maps
from .null import Scoring, ShuffledErrors, null_rows, shuffled_errors
from .residuals import Centre, FittedRung, Residuals, residual_pass, told_efficiency
from .result import Direction, Rung
from .verdict import judge
from .worst_case import certify, sample_claim

_SHORT_WORST_CASE = 2e9  # rows x width^2 up to which the worst case is bracketed unasked


@dataclass(frozen=True, eq=False)
class Design:
    """Design of a comparison: the pair, the rungs, and the rows held out together, shuffled together and scored."""

    pair: Pair
    fold_of: Array
    n_folds: int
    labels: Array | None
    names: Sequence[str]
    report: Progress
    within: Array | None = None
    scored: Array | None = None

    def stage(self, name: str) -> Callable[[int, int], None]:
        """The progress of one stage."""
        return lambda done, total: self.report(name, done, total)

    def kept(self, values: Array) -> Array:
        """The values of the rows that are scored."""
        return values if self.scored is None else np.asarray(values[..., self.scored])

    @property
    def units(self) -> int | None:
        """The number of groups, where rows are grouped."""
        return None if self.labels is None else int(self.labels.max()) + 1

    @property
    def shuffles(self) -> Shuffles:
        """The pairings that chance allows."""
        return Shuffles(self.pair.n, self.labels, self.within)


@dataclass(frozen=True, eq=False)
class PairMoments:
    """The moments of every fold and of all rows; a second pass only for sides that are ill-conditioned."""

    folds: Sequence[Moments]
    total: Moments
    rms_radii: Sequence[float]
    factors: tuple[Factor, Factor]
    second: tuple[SecondPass | None, SecondPass | None]
    centre: Centre
    spans: Spans | None = None  # of all rows, where they are fewer than columns


@dataclass(frozen=True, eq=False)
class Ladder:
    """The rungs of a pair: their maps on all rows and without each fold, and the residuals of every row.

    ``training`` is that of all rows; its ICAs are those that shuffled pairings are scored with. ``unmixed`` says what
    is known of the fits, without their matrices.
    """

    design: Design
    moments: PairMoments
    training: TrainingSet
    fitted: dict[str, FittedRung]
    residuals: Residuals
    unmixed: tuple[UnmixedSide, UnmixedSide] | None = None

    def unit(self, direction: int) -> float:
        """The mean distance of the target's rows to their mean, over the rows that are scored."""
        return float(self.design.kept(self.residuals.radii[1 - direction]).mean())

    def through_maps(self, name: str, rows: Array | None) -> Array:
        """Influence of chosen rows on a rung's summed held-out errors through the maps they help to fit."""
        return through_maps(self, name, rows)


def measure(design: Design) -> PairMoments:
    """One pass over the rows; another for an ill-conditioned side."""
    x, y, fold_of, n_folds = design.pair.x, design.pair.y, design.fold_of, design.n_folds
    folds = fold_moments(x, y, fold_of, n_folds, names=design.pair.names, progress=design.stage("moments"))
    total = merged(folds)
    sides = ((total.source_mean, total.xx), (total.target_mean, total.yy))
    radii = [rms_radius(name, total.n, *side) for name, side in zip(design.pair.names, sides, strict=True)]
    forward = resolve_source(total, x, y, fold_of, n_folds)
    reverse = resolve_source(total.swapped(), y, x, fold_of, n_folds)
    centre = Centre(total.source_mean, total.target_mean, working_dtype((x, y), radii))
    spans = None
    if total.n < max(x.shape[1], y.shape[1]):
        rows = read_rows(x, slice(None)) - total.source_mean, read_rows(y, slice(None)) - total.target_mean
        spans = Spans.of_rows(*rows, (rounding_of(x), rounding_of(y)))
    return PairMoments(folds, total, radii, (forward[0], reverse[0]), (forward[1], reverse[1]), centre, spans)


def climb(design: Design, moments: PairMoments, *, intervals: bool = True) -> Ladder:
    """Every rung but ICA: fitted from moments on all rows and without each fold, then one pass for all residuals."""
    whole = training_set(design, moments)
    without = [partial(training_set, design, moments, fold) for fold in range(design.n_folds)]
    names = [name for name in design.names if name != "ica"]
    widths = design.pair.x.shape[1], design.pair.y.shape[1]
    pulled = pulled_rungs(names, *widths, design.n_folds) if intervals else []
    alone = max(widths) > WIDE_MATRIX and not pulled  # maps serve the residuals alone
    dtype = moments.centre.dtype if alone else np.float64
    maps = fit_all(names, [lambda: whole, *without], design.stage("fits"), dtype)
    fitted = {name: FittedRung(maps[0][name], [[each[name]] for each in maps[1:]], design.fold_of) for name in names}
    residuals = residual_pass(
        design.pair.x,
        design.pair.y,
        moments.centre,
        fitted,
        scored=design.scored,
        pulled=pulled,
        progress=design.stage("residuals"),
    )
    if alone:
        fitted = {name: rung.for_figures() for name, rung in fitted.items()}
    for radii, name in zip(residuals.radii, design.pair.names, strict=True):
        if not design.kept(radii).any():
            raise InputError(f"all rows of {name} that can be scored are identical: there is nothing to compare")
    return Ladder(design, moments, whole, fitted, residuals)


def training_set(design: Design, moments: PairMoments, left_out: int | None = None) -> TrainingSet:
    """All rows, or all but those of a fold."""
    seconds = [
        None
        if each is None
        else (each, merged(each.folds) if left_out is None else merged_without(each.folds, left_out))
        for each in moments.second
    ]
    return TrainingSet(
        moments.total if left_out is None else merged_without(moments.folds, left_out),
        (rounding_of(design.pair.x), rounding_of(design.pair.y)),
        (seconds[0], seconds[1]),
        spans=moments.spans,
    )


def with_components(ladder: Ladder, seed: int, rng: np.random.Generator, deadline: Deadline) -> Ladder:
    """The ladder with the ICA rung: each side unmixed on all rows and on each of three parts, then one more pass."""
    design, x, y = ladder.design, ladder.design.pair.x, ladder.design.pair.y
    part_of = assign_folds(design.pair.n, PARTS, design.labels, rng)
    source, target = unmix((x, y), part_of, seed, rng, design.report, deadline)
    rows = paired_sample(design.pair.n, rng)
    parts = fold_moments(select(x, rows), select(y, rows), part_of if rows is None else part_of[rows], PARTS)
    errors, spreads = np.empty((2, 2, design.pair.n)), []
    for of_part, rung in ica_rung_by_part(ladder.moments.total, parts, part_of, source, target):
        scored = residual_pass(select(x, of_part), select(y, of_part), ladder.moments.centre, {"ica": rung})
        errors[:, :, slice(None) if of_part is None else of_part] = scored.rungs["ica"]
        spreads.append(scored.spread_by_fit["ica"])
    fitted = FittedRung(rung.whole, (), part_of)  # shuffled pairings and figures need no other maps
    residuals = ladder.residuals
    return replace(
        ladder,
        fitted=ladder.fitted | {"ica": fitted},
        residuals=replace(
            residuals,
            rungs=residuals.rungs | {"ica": errors},
            spread_by_fit=residuals.spread_by_fit | {"ica": np.mean(spreads, axis=0)},
        ),
        training=replace(ladder.training, icas=(source.parts[0], target.parts[1])),
        unmixed=(source.without_matrices(), target.without_matrices()),
    )


def chance(ladder: Ladder, n_null: int, seed: np.random.SeedSequence, deadline: Deadline) -> ShuffledErrors | None:
    """Held-out errors under shuffled pairings; None without any."""
    if n_null == 0:
        return None
    design, x, y = ladder.design, ladder.design.pair.x, ladder.design.pair.y
    thin, draw = seed.spawn(2)
    return shuffled_errors(
        x,
        y,
        null_rows(design.shuffles, x.shape[1], y.shape[1], np.random.default_rng(thin)),
        Scoring(design.fold_of, design.scored, design.units),
        ladder.moments.centre,
        ladder.training,
        list(ladder.fitted),
        n_null,
        draw,
        deadline=deadline,
        progress=design.stage("null"),
    )


def diameters(ladder: Ladder, search: str) -> tuple[Diameter, Diameter]:
    """The diameters of source and target."""
    design, moments = ladder.design, ladder.moments
    sides = ((design.pair.x, moments.total.source_mean), (design.pair.y, moments.total.target_mean))
    source, target = (
        find_diameter(values, mean, radius, search, design.stage("diameter"))
        for (values, mean), radius in zip(sides, moments.rms_radii, strict=True)
    )
    return source, target


def directions(
    ladder: Ladder,
    sizes: tuple[Diameter, Diameter],
    null: ShuffledErrors | None,
    ends: Sequence[dict[str, Ends]] | None,
    tolerance: float,
    *,
    tail: bool = False,
) -> tuple[Direction, Direction]:
    """Residuals into records, source onto target and the reverse.

    There are intervals only with their ends. P-values are counted, or come from a fitted tail.
    """
    design = ladder.design
    scored = None if design.scored is None else int(design.scored.sum())
    widths = (design.pair.x.shape[1], design.pair.y.shape[1])
    records = []
    for way in range(2):
        source, target = design.pair.names if way == 0 else design.pair.names[::-1]
        size = sizes[1 - way]
        rungs = _rungs(ladder, way, size.value, null, None if ends is None else ends[way], tail)
        narrower_target = widths[way] > widths[1 - way]
        records.append(
            Direction(
                source=source,
                target=target,
                rungs=rungs,
                diameter=size,
                baseline=ladder.unit(way) / size.value,
                ica_efficiency=_efficiency(rungs, "held_out", narrower_target),
                ica_efficiency_in_sample=_efficiency(rungs, "in_sample", narrower_target),
                verdict=judge(rungs, tolerance, source, target, scored),
                identity_offset=_identity_offset(ladder),
            )
        )
    return records[0], records[1]


def _rungs(
    ladder: Ladder, way: int, diameter: float, null: ShuffledErrors | None, ends: dict[str, Ends] | None, tail: bool
) -> dict[str, Rung]:
    unit, kept = ladder.unit(way), ladder.design.kept
    radii = kept(ladder.residuals.radii[1 - way])
    middle, spread = float(np.median(radii)), float(np.sqrt(np.mean(radii**2)))
    rungs = {}
    for name, errors in ladder.residuals.rungs.items():
        held, inside = (kept(errors[way, which]) for which in (1, 0))
        held_out = summarise(held, unit)
        mine = Ends() if ends is None else ends[name]
        rungs[name] = Rung(
            name=name,
            held_out=held_out,
            in_sample=summarise(inside, unit),
            interval=mine.interval,
            excess=mine.excess,
            over_linear=mine.over_linear,
            null=None if null is None else null.null(name, way, tail=tail),
            unit=unit,
            explained=1 - (held_out.rms * unit / spread) ** 2,
            median=float(np.median(held)) / middle if middle > 0 else float("nan"),
            diameter=diameter,
        )
    return rungs


def _efficiency(rungs: dict[str, Rung], which: str, narrower_target: bool) -> float | None:
    """None where a rung is missing, where ICA drops sources that the padded rigid map carries, and without a gap."""
    if narrower_target or not {"signed_permutation", "rigid", "ica"} <= set(rungs):
        return None
    return told_efficiency(*(getattr(rungs[name], which).mean for name in ("signed_permutation", "rigid", "ica")))


def _identity_offset(ladder: Ladder) -> float | None:
    """The share of identity's mean squared error that the distance of the means makes up; in both directions."""
    if "identity" not in ladder.fitted:
        return None
    unit = ladder.moments.rms_radii[1]
    square = float(np.mean((ladder.residuals.rungs["identity"][0, 0] / unit) ** 2))
    return min((ladder.moments.total.offset / unit) ** 2 / square, 1.0) if square > 0 else 0.0


def side_of(ladder: Ladder, index: int) -> Side:
    """The facts about one representation."""
    pair, moments = ladder.design.pair, ladder.moments
    share = half_variance_share(ladder.residuals.radii[index] ** 2)
    return describe_side(
        pair.names[index], (pair.x, pair.y)[index], moments.factors[index], moments.rms_radii[index], share
    )


def wants_worst_case(design: Design, asked: bool | None) -> bool:
    """Whether to bracket the largest error: if asked, or if it takes seconds."""
    width = max(design.pair.x.shape[1], design.pair.y.shape[1])
    return design.pair.n * float(width) ** 2 <= _SHORT_WORST_CASE if asked is None else asked


def bracket(ladder: Ladder, sizes: tuple[Diameter, Diameter], seed: int, deadline: Deadline) -> dict[str, Any]:
    """Certificates for rigid motions without and with a scale, and a bound for new examples from the largest error."""
    design = ladder.design
    certificates = certify(
        design.pair.x,
        design.pair.y,
        ladder.moments.total,
        sizes[0].value,
        scales=(False, True),
        ids=design.pair.ids,
        seed=seed,
        unit=sizes[1].value,
        deadline=deadline,
        progress=design.stage("worst case"),
    )
    told: dict[str, Any] = dict(zip(("rigid", "rigid_with_scale"), certificates, strict=True))
    if "rigid" in ladder.fitted:
        errors = design.kept(ladder.residuals.rungs["rigid"][0, 1]) / sizes[1].value
        told["sample"] = sample_claim(errors, _fewest_units_in_a_fold(design))
    return told


def _fewest_units_in_a_fold(design: Design) -> int:
    """Number of rows, or groups, in the smallest fold."""
    if design.labels is None:
        return int(np.bincount(design.fold_of, minlength=design.n_folds).min())
    return min(len(np.unique(design.labels[design.fold_of == fold])) for fold in range(design.n_folds))


def figures_of(
    ladder: Ladder,
    direction: Direction,
    seed: int,
    classes: Array | None = None,
    examples: Callable[[Array], tuple[str, ...]] = lambda rows: (),
) -> figures.Figures:
    """The data behind the figures of the source mapped onto the target."""
    design, total = ladder.design, ladder.moments.total
    shown = direction.verdict.rung or ("rigid" if "rigid" in ladder.fitted else list(ladder.fitted)[-1])
    maps = {
        name: [each[0][0] for each in rung.without]
        for name, rung in ladder.fitted.items()
        if name not in ("identity", "ica")  # ICA has seen other parts of the rows
    }
    nulls = {name: rung.null.mean for name, rung in direction.rungs.items() if rung.null}
    residuals = {name: design.kept(each[0, 1]) for name, each in ladder.residuals.rungs.items()}
    whole = {name: rung.whole[0] for name, rung in ladder.fitted.items()}
    pair, unit = design.pair, direction.diameter.value
    errors = {name: each[0, 1] / ladder.unit(0) for name, each in ladder.residuals.rungs.items()}
    facts = figures.RowFacts(pair.ids, classes, examples, errors, design.scored)
    return figures.Figures(
        scatter=figures.scatter(pair.x, pair.y, total, whole, shown, unit, facts, seed),
        matching=figures.matching(total),
        dimensions=figures.reproducibility(ladder.moments.folds, maps),
        residuals=figures.residual_histogram(residuals, ladder.unit(0), nulls),
    )
