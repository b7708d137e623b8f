"""Ladder of one pair, step by step: moments, fits, residuals, components, null, and the records made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..alignment.base import match_signed, padded, summarise
from ..covariance import Factor, SecondPass, resolve_source
from ..errors import InputError
from ..moments import Moments, distance_of_means, fold_moments, merged, merged_without
from ..pairs import Pair, Side, describe_side, half_variance_share, require_like_sizes, rms_radius, working_dtype
from ..representation import Array, Matrix, rounding_of
from ..resampling import Shuffles, assign_folds
from ..row_span import RowSpan
from ..rows import Deadline, Progress, select
from ..threads import WIDE_MATRIX
from . import figures
from .by_column import BY_COLUMN, MATCHED_UNASKED, ByColumn, Matched, scenes_of
from .diameter import Diameter, find_diameter
from .fits import PARTS, FewRows, TrainingSet, UnmixedSide, fit_all, ica_rung_by_part, paired_sample, unmix
from .intervals import Ends, pulled_rungs, through_maps
from .null import Refitted, Scoring, ShuffledErrors, null_rows, shuffled_errors
from .residuals import Centre, FittedRung, Residuals, residual_pass, told_efficiency
from .result import Direction, Rung
from .verdict import judge
from .worst_case import certify, sample_claim

_SHORT_WORST_CASE = 2e9  # rows x width^2 up to which the worst case is bracketed unasked


@dataclass(frozen=True, eq=False)
class Design:
    """Design of a comparison: the pair, the rungs, and the rows held out together, shuffled together and scored.

    ``x`` and ``y`` are the rows as most rungs take them: those of the pair or, where columns outnumber them, in the
    coordinates of their ``spans``.
    """

    pair: Pair
    fold_of: Array
    n_folds: int
    labels: Array | None
    names: Sequence[str]
    report: Progress
    within: Array | None = None
    scored: Array | None = None
    spans: tuple[RowSpan, RowSpan] | None = None

    @property
    def x(self) -> Matrix:
        """The rows of the source, in their columns or in coordinates."""
        return self.pair.x if self.spans is None else self.spans[0].rows

    @property
    def y(self) -> Matrix:
        """The rows of the target."""
        return self.pair.y if self.spans is None else self.spans[1].rows

    @property
    def widths(self) -> tuple[int, int]:
        """The numbers of columns, or of coordinates."""
        return int(self.x.shape[1]), int(self.y.shape[1])

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
    """The moments of every fold and of all rows, of columns or of coordinates; ``means`` are those of the columns.

    There is a second pass only for sides that are ill-conditioned.
    """

    folds: Sequence[Moments]
    total: Moments
    means: tuple[Array, Array]
    rms_radii: Sequence[float]
    factors: tuple[Factor, Factor]
    second: tuple[SecondPass | None, SecondPass | None]
    centre: Centre


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
    columns: ByColumn | None = None  # where most rungs are fitted in coordinates
    permutations: Sequence[Matched] = ()  # there, of all rows, then without each fold

    def unit(self, direction: int) -> float:
        """The mean distance of the target's rows to their mean, over the rows that are scored."""
        return float(self.design.kept(self.residuals.radii[1 - direction]).mean())

    def through_maps(self, name: str, rows: Array | None) -> Array:
        """Influence of chosen rows on a rung's summed held-out errors through the maps they help to fit."""
        return through_maps(self, name, rows)


def measure(design: Design) -> PairMoments:
    """One pass over the rows; another for an ill-conditioned side."""
    fold_of, n_folds, spans = design.fold_of, design.n_folds, design.spans
    x, y = design.x, design.y
    folds = fold_moments(x, y, fold_of, n_folds, names=design.pair.names, progress=design.stage("moments"))
    total = merged(folds)
    means = (total.source_mean, total.target_mean) if spans is None else (spans[0].mean, spans[1].mean)
    sides = zip(design.pair.names, means, (total.xx, total.yy), strict=True)
    radii = [rms_radius(name, total.n, mean, float(np.trace(sums))) for name, mean, sums in sides]
    require_like_sizes(design.pair.names, radii)
    centre = Centre(total.source_mean, total.target_mean, working_dtype((x, y), radii))
    if spans is not None:
        return PairMoments(folds, total, means, radii, (spans[0].factor, spans[1].factor), (None, None), centre)
    forward = resolve_source(total, x, y, fold_of, n_folds)
    reverse = resolve_source(total.swapped(), y, x, fold_of, n_folds)
    return PairMoments(folds, total, means, radii, (forward[0], reverse[0]), (forward[1], reverse[1]), centre)


def climb(design: Design, moments: PairMoments, *, intervals: bool = True) -> Ladder:
    """Every rung but ICA: fitted from moments on all rows and without each fold, then one pass for all residuals."""
    whole = training_set(design, moments)
    without = [partial(training_set, design, moments, fold) for fold in range(design.n_folds)]
    few = design.spans is not None
    names = [name for name in design.names if name != "ica" and not (few and name in BY_COLUMN)]
    pulled = pulled_rungs(names, *design.widths, design.n_folds) if intervals else []
    alone = max(design.widths) > WIDE_MATRIX and not pulled  # maps serve the residuals alone
    dtype = moments.centre.dtype if alone else np.float64
    maps = fit_all(names, [lambda: whole, *without], design.stage("fits"), dtype)
    fitted = {name: FittedRung(maps[0][name], [[each[name]] for each in maps[1:]], design.fold_of) for name in names}
    residuals = residual_pass(
        design.x,
        design.y,
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
    ladder = Ladder(design, moments, whole, fitted, residuals)
    return ladder if design.spans is None else _with_columns(ladder, design.spans)


def _with_columns(ladder: Ladder, spans: tuple[RowSpan, RowSpan]) -> Ladder:
    """The ladder with the rungs that depend on the columns, where the others are fitted in coordinates."""
    design, columns = ladder.design, ByColumn(*spans)
    norms, fitted = dict(ladder.residuals.rungs), dict(ladder.fitted)
    permutations: Sequence[Matched] = ()
    for name in BY_COLUMN:
        if name in design.names:
            rung = columns.rung(name, design.fold_of, design.n_folds)
            whole, *without = [(each, each) for each in rung.maps]  # figures need the forward maps alone
            norms[name] = rung.norms
            fitted[name] = FittedRung(whole, [[each] for each in without], design.fold_of)
            permutations = rung.matched or permutations
    names = [name for name in design.names if name in norms]
    return replace(
        ladder,
        fitted={name: fitted[name] for name in names},
        residuals=replace(ladder.residuals, rungs={name: norms[name] for name in names}),
        columns=columns,
        permutations=permutations,
    )


def training_set(design: Design, moments: PairMoments, left_out: int | None = None) -> TrainingSet:
    """All rows, or all but those of a fold."""
    seconds = [
        None
        if each is None
        else (each, merged(each.folds) if left_out is None else merged_without(each.folds, left_out))
        for each in moments.second
    ]
    few = None
    if design.spans is not None:
        few = FewRows(design.spans, np.flatnonzero(design.fold_of != (-1 if left_out is None else left_out)))
    return TrainingSet(
        moments.total if left_out is None else merged_without(moments.folds, left_out),
        (rounding_of(design.pair.x), rounding_of(design.pair.y)),
        (seconds[0], seconds[1]),
        few=few,
    )


def with_components(ladder: Ladder, seed: int, rng: np.random.Generator, deadline: Deadline) -> Ladder:
    """The ladder with the ICA rung: each side unmixed on all rows and on each of three parts, then one more pass."""
    design, x, y = ladder.design, ladder.design.x, ladder.design.y
    part_of = assign_folds(design.pair.n, PARTS, design.labels, rng)
    source, target = unmix((design.pair.x, design.pair.y), part_of, seed, rng, design.report, deadline, design.spans)
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
    design = ladder.design
    thin, draw = seed.spawn(2)
    widths = (int(design.pair.x.shape[1]), int(design.pair.y.shape[1]))
    refitted = Refitted(design.x, design.y, ladder.moments.centre, ladder.training, list(ladder.fitted))
    return shuffled_errors(
        scenes_of(ladder.columns, refitted),
        null_rows(design.shuffles, *widths, np.random.default_rng(thin)),
        Scoring(design.fold_of, design.scored, design.units),
        n_null,
        draw,
        deadline=deadline,
        progress=design.stage("null"),
    )


def diameters(ladder: Ladder, search: str) -> tuple[Diameter, Diameter]:
    """The diameters of source and target."""
    design, moments = ladder.design, ladder.moments
    sides = ((design.x, moments.total.source_mean), (design.y, moments.total.target_mean))
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
    return min((distance_of_means(*ladder.moments.means) / unit) ** 2 / square, 1.0) if square > 0 else 0.0


def side_of(ladder: Ladder, index: int) -> Side:
    """The facts about one representation."""
    pair, moments = ladder.design.pair, ladder.moments
    share = half_variance_share(ladder.residuals.radii[index] ** 2)
    return describe_side(
        pair.names[index], (pair.x, pair.y)[index], moments.factors[index], moments.rms_radii[index], share
    )


def wants_worst_case(design: Design, asked: bool | None) -> bool:
    """Whether to bracket the largest error: if asked, or if it takes seconds."""
    width = max(design.widths)
    return design.pair.n * float(width) ** 2 <= _SHORT_WORST_CASE if asked is None else asked


def bracket(ladder: Ladder, sizes: tuple[Diameter, Diameter], seed: int, deadline: Deadline) -> dict[str, Any]:
    """Certificates for rigid motions without and with a scale, and a bound for new examples from the largest error."""
    design = ladder.design
    certificates = certify(
        design.x,
        design.y,
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
    design, total, columns = ladder.design, ladder.moments.total, ladder.columns
    shown = direction.verdict.rung or ("rigid" if "rigid" in ladder.fitted else list(ladder.fitted)[-1])
    nulls = {name: rung.null.mean for name, rung in direction.rungs.items() if rung.null}
    residuals = {name: design.kept(each[0, 1]) for name, each in ladder.residuals.rungs.items()}
    whole = {name: rung.whole[0] for name, rung in ladder.fitted.items()}
    pair, unit = design.pair, direction.diameter.value
    errors = {name: each[0, 1] / ladder.unit(0) for name, each in ladder.residuals.rungs.items()}
    facts = figures.RowFacts(pair.ids, classes, examples, errors, design.scored)
    inside = None if columns is None else columns.inside(None)
    return figures.Figures(
        scatter=figures.scatter(design.x, design.y, total, whole, shown, unit, facts, seed, inside),
        matching=_matching(ladder),
        dimensions=figures.reproducibility(_errors_by_column(ladder), squares_of_columns(ladder)[1]),
        residuals=figures.residual_histogram(residuals, ladder.unit(0), nulls),
    )


def _matching(ladder: Ladder) -> figures.Matching | None:
    """The matched dimensions; None where their matching would take longer than all else."""
    total, columns = ladder.moments.total, ladder.columns
    if columns is None:
        matched, cross = match_signed(padded(total.xy))[0], lambda source, target: total.xy[np.ix_(source, target)]
    elif ladder.permutations or max(columns.widths) <= MATCHED_UNASKED:
        matched, cross = columns.of_all_rows.columns, columns.cross
    else:
        return None
    return figures.matching(matched, squares_of_columns(ladder), cross)


def squares_of_columns(ladder: Ladder) -> tuple[Array, Array]:
    """The sum of squares of every column about its mean, of source and target."""
    total = ladder.moments.total
    return (np.diagonal(total.xx), np.diagonal(total.yy)) if ladder.columns is None else ladder.columns.squares


def _errors_by_column(ladder: Ladder) -> dict[str, Array]:
    """The held-out squared errors of every column of the target; not those of ICA, which has seen other parts."""
    design, folds = ladder.design, ladder.moments.folds
    found = {}
    for name, rung in ladder.fitted.items():
        maps = [each[0][0] for each in rung.without]
        if name in ("identity", "ica"):
            continue
        if design.spans is None or ladder.columns is None:
            found[name] = figures.errors_by_column(folds, maps)
        elif name in BY_COLUMN:
            found[name] = ladder.columns.squares_by_column(ladder.permutations[1:], design.fold_of)
        else:
            found[name] = figures.errors_by_column(folds, maps, design.spans[1].axes)
    return found
