"""``isorep.compare_many``: all pairs of several representations, a consensus, recurring components and outliers.

Caveats are sentences, most important first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..alignment.base import QUANTILES, summarise
from ..covariance import Factor
from ..errors import InputError
from ..moments import joint_moments, merged, require_joint_memory
from ..pairs import Repeats, broken_pairing, describe_side, hold_out, require_like_sizes, rms_radius, working_dtype
from ..representation import Array, Matrix, rounding_of
from ..resampling import Null, Shuffles, assign_folds, least_training_rows
from ..results import decimals
from ..row_span import RowSpan
from ..rows import Deadline, Progress, equal_rows, no_progress, read_rows, select
from ..settings import MOST_DRAWS, check_counts, check_seed, check_tolerance
from ..threads import Crew, one_blas_thread
from .by_column import require_memory_of_matching, scenes_of
from .caveats import (
    about_classes,
    about_components,
    about_copies,
    about_dimensions,
    about_left_out,
    about_offset,
    about_sides,
    about_size,
    about_time,
    about_units,
)
from .consensus import Consensus, find_consensus
from .diameter import Diameter, find_diameter
from .fits import PARTS, RUNGS, UnmixedSide, checked_rungs, paired_sample, unmix
from .many_errors import AllPairs, PairErrors, factor_runs, half_shares, identity_offsets, rung_matrices
from .many_inputs import Runs, gather
from .many_result import Ensemble
from .many_verdict import LEAST_RUNS, cluster, find_outliers, judge_ensemble, pair_rungs
from .null import Refitted, Scoring, shuffled_errors
from .recurrence import Components, components_of, dimensions_of
from .residuals import Centre, FittedRung, residual_pass
from .stages import ICA_SHARE, NULL_SHARE, Preview, Stopwatch, as_deadline
from .verdict import TOLERANCE

FEW_DRAWS = 100  # below which p-values come from a fitted tail
MOST_ROWS = 6000  # whose residual norms are taken for every pair
NULL_ROWS, NULL_ROWS_PER_DIMENSION = 4000, 10  # that shuffles move


@one_blas_thread
def compare_many(
    runs: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    folds: int = 5,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    names: Sequence[str] | None = None,
    n_null: int = 20,
    tolerance: float = TOLERANCE,
    residuals: bool = False,
    time_limit: float | Deadline | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
    preview: Preview | None = None,
) -> Ensemble:
    r"""Compare many runs: do they share one representation, up to which transformation, and which are outliers?

    For every group :math:`H` of the ladder and all ordered pairs of runs the best :math:`h\in H` is fitted without each
    fold, and its held-out error

    .. math:: \hat\epsilon_{ij}=\frac{\sum_t\|x_{jt}-h(x_{it})\|}{\sum_t\|x_{jt}-\bar x_j\|}

    is that of :func:`isorep.compare`. Maps come from the joint second moments of all runs: one pass over the
    rows serves all pairs. Lower is closer, and 1 is no better than predicting the mean. Norms are averaged over at most
    6,000 rows, the same for all pairs.

    Parameters
    ----------
    runs : list of (n, d) arrays, Representations, paths or Dask arrays, or a dict of them by name
        The same examples in the same order; widths may differ.
    rungs : sequence of str
        Rungs to fit; default: all, ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``.
    folds : int
        Number of cross-validation folds.
    groups : (n,) array, optional
        Label per row: rows with one label stay in one fold and are shuffled as a block. With ``join``, one label per
        row of the first run as given. Default: rows that are equal in any run form a group.
    within : (n,) array, optional
        Class per row: rows are shuffled within classes only, so that chance includes what the classes explain.
    join : bool
        Align by row id, keeping the rows that all runs have; default: raise an error if order or rows differ.
    names : sequence of str, optional
        Names of the runs; default: their own names.
    n_null : int
        Number of shuffled pairings per pair of runs; 0 switches the null and the verdicts off. P-values are counted
        from 100 draws on; with fewer they come from a fitted tail (Pearson III).
    tolerance : float
        Largest excess over the best rung's error at which a smaller rung still suffices, in mean distances to the mean,
        as for :func:`isorep.compare`.
    residuals : bool
        Also compute mean, largest error and quantiles, in diameters of the target; takes one pass over the rows of
        every pair. Default: no.
    time_limit : float, optional
        Seconds to spend. Errors of every rung but ICA are always computed; ICA, the null and ``residuals`` only as far
        as time allows. ``left_out`` lists what was skipped. Results then depend on the machine. A
        :class:`isorep.rows.Deadline` can also be stopped from outside.
    random_state : int
        Seed of the folds, the null and the rows that ICA samples; folds are those of :func:`isorep.compare`.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.
    preview : callable, optional
        Called with the mean held-out error over all pairs of every rung but ICA, as soon as they are known.

    Returns
    -------
    Ensemble

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(500, 4))
    >>> turned = [X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(4)]
    >>> noisy = [run + 0.1 * rng.normal(size=run.shape) for run in turned]
    >>> isorep.compare_many(noisy).verdict.rung
    'rigid'
    """
    wanted = checked_rungs(rungs)
    check_counts(folds=(folds, 2), n_null=(n_null, 0, MOST_DRAWS))
    check_tolerance(tolerance)
    check_seed(random_state)
    deadline, watch = as_deadline(time_limit), Stopwatch()
    with watch("reading"):
        gathered = gather(runs, names, groups, join, within)
        require_joint_memory([min(width, gathered.n) for width in gathered.widths], folds)
        if "signed_permutation" in wanted:
            require_memory_of_matching(*sorted(gathered.widths)[-2:])
        design = design_of(gathered, wanted, folds, random_state, progress or no_progress)
    result, background = ensemble(design, tolerance, residuals, n_null, deadline, watch, preview)
    settings = {
        "rungs": list(result.rungs),
        "folds": int(folds),
        "groups": None if gathered.labels is None else int(gathered.labels.max()) + 1,
        "within": None if gathered.within is None else int(gathered.within.max()) + 1,
        "join": bool(join),
        "n_null": background.draws,
        "tolerance": float(tolerance),
        "residuals": result.diameters is not None,
        "time_limit": deadline.seconds,
        "stopped": deadline.stopped,
        "random_state": int(random_state),
        "rows_used": gathered.n,
        "rows_scored": len(design.rows),
        "rows_dropped": list(gathered.dropped),
    }
    result = replace(result, settings=settings, left_out=watch.told(), seconds=watch.seconds)
    caveats = collect_caveats(result, design, background)
    few = about_size(gathered.n, max(gathered.widths), folds)
    if few:
        warnings.warn(few[0], stacklevel=2)
    return replace(result, caveats=tuple(caveats))


@dataclass(frozen=True, eq=False)
class ManyDesign:
    """Design of a comparison: the runs, the rungs, and the rows held out together, shuffled together and scored."""

    runs: Runs
    rungs: list[str]
    n_folds: int
    seed: int
    report: Progress
    labels: Array | None
    fold_of: Array
    repeats: Repeats
    rows: Array  # whose residual norms are taken: those that are scored, or enough of them
    spans: Sequence[RowSpan] | None  # of the runs, where rows are fewer than the columns of some
    for_ica: np.random.Generator
    for_null: np.random.SeedSequence

    def stage(self, name: str) -> Any:
        """The progress of one stage."""
        return lambda done, total: self.report(name, done, total)

    @property
    def values(self) -> Sequence[Matrix]:
        """The rows of every run as most rungs take them: in their columns, or in coordinates of their span."""
        return self.runs.values if self.spans is None else [span.rows for span in self.spans]

    @property
    def shuffles(self) -> Shuffles:
        """The pairings that chance allows."""
        return Shuffles(self.runs.n, self.labels, self.runs.within)


def design_of(runs: Runs, rungs: list[str], n_folds: int, seed: int, report: Progress) -> ManyDesign:
    """Folds and scored rows, from the seeds of :func:`isorep.compare`, so that the folds are the same."""
    seeds = np.random.SeedSequence(seed).spawn(4)
    for_folds, for_ica, _, for_rows = (np.random.default_rng(each) for each in seeds)
    codes = tuple(equal_rows(values) for values in runs.values)
    labels, fold_of, repeats = hold_out(codes, runs.labels, n_folds, runs.within, for_folds)
    if labels is not None and int(labels.max()) + 1 < PARTS:
        rungs = [name for name in rungs if name != "ica"]
    rows = np.arange(runs.n) if repeats.scored is None else np.flatnonzero(repeats.scored)
    if len(rows) > MOST_ROWS:
        rows = np.sort(for_rows.choice(rows, MOST_ROWS, replace=False))
    least, spans = least_training_rows(fold_of), None
    if least <= max(runs.widths):
        spans = [RowSpan.of(values, name, least) for values, name in zip(runs.values, runs.names, strict=True)]
    return ManyDesign(runs, rungs, n_folds, seed, report, labels, fold_of, repeats, rows, spans, for_ica, seeds[2])


@dataclass(frozen=True, eq=False)
class Background:
    """How the runs were factored, which took a second pass, their ICAs, and the fewest draws of any null."""

    factors: Sequence[Factor]
    again: Sequence[str]
    unmixed: Sequence[UnmixedSide] | None
    draws: int


def ensemble(
    design: ManyDesign,
    tolerance: float,
    residuals: bool,
    n_null: int,
    deadline: Deadline,
    watch: Stopwatch,
    preview: Preview | None,
) -> tuple[Ensemble, Background]:
    """Everything but settings and caveats: moments, fits and errors of every pair, recurrence, and the null."""
    names, values, spans = design.runs.names, design.values, design.spans
    with watch("ladder"):
        folds = joint_moments(values, design.fold_of, design.n_folds, names=names, progress=design.stage("moments"))
        total = merged(folds)
        centres = [total.mean[total.columns(run)] for run in range(len(names))]
        means = centres if spans is None else [span.mean for span in spans]
        sizes = [float(np.trace(total.block(run, run))) for run in range(len(names))]
        each_run = zip(names, means, sizes, strict=True)
        radii = [rms_radius(name, total.n, mean, size) for name, mean, size in each_run]
        require_like_sizes(names, radii)
        roundings = [rounding_of(each) for each in design.runs.values]
        if spans is None:
            factors, again = factor_runs(total, values, design.fold_of, design.n_folds, names)
        else:
            factors, again = [span.factor for span in spans], None
        pairs = AllPairs(folds, design.fold_of, design.rungs, roundings, again, spans)
        consensus: list[Consensus] = []
        scored = Scorer(values, design.rows, design.fold_of, design.n_folds, centres, radii)

        def agree() -> None:
            found = find_consensus(total, names, radii)
            consensus.append(found if spans is None else found.in_columns(spans))

        squares = pairs.squares(scored.watch, design.stage("fits"), beside=agree)
        if preview is not None:
            preview(scored.means())
        dimensions = dimensions_of(
            pairs.matched_columns if pairs.matches_columns else None,
            pairs.spreads,
            squares["linear"].columns if "linear" in squares else None,
        )
        shares = half_shares(design.runs.values, means, radii)
        sides = tuple(map(describe_side, names, design.runs.values, factors, radii, shares))
    components: Components | None = None
    with watch("independent components", deadline):
        if "ica" in design.rungs:
            until = deadline.share(ICA_SHARE) if len(design.rungs) > 1 else Deadline()
            components = with_components(design, pairs, scored, until)
    rungs = [name for name in design.rungs if name != "ica" or components is not None]
    with watch("null"):
        nulls, draws = nulls_of(design, rungs, n_null, pairs, scored, deadline.share(NULL_SHARE))
        missing = n_null * len(pairs.pairs) - sum(draws)
        if missing:
            none = draws.count(0)
            watch.left_out["null"] = f"{missing} of {n_null * len(pairs.pairs)} shuffled pairings" + (
                f" ({none} of {len(pairs.pairs)} pairs of runs have no chance level)" if none else ""
            )
    distances: dict[str, dict[str, Any]] = {}
    diameters: tuple[Diameter, ...] | None = None
    if residuals:
        with watch("residuals", deadline):
            distances, diameters = residual_distances(design, rungs, pairs, centres, radii, deadline)
    with watch("verdict"):
        known = squares if design.repeats.scored is None else None
        matrices = rung_matrices(rungs, scored.errors, len(names), known, total.n, np.array(radii), nulls)
        matrices = {name: replace(matrix, **distances.get(name, {})) for name, matrix in matrices.items()}
        outliers = find_outliers(matrices, names)
        verdicts = pair_rungs(matrices, tolerance, design.repeats.count_scored)
        result = Ensemble(
            runs=sides,
            rungs=matrices,
            verdict=judge_ensemble(matrices, verdicts, names, outliers, design.repeats.count_scored),
            verdicts=verdicts,
            outliers=outliers,
            clustering=cluster(matrices),
            consensus=consensus[0],
            dimensions=dimensions,
            components=components,
            diameters=diameters,
            identity_offset=identity_offsets(means, total.n, squares["identity"], radii)
            if "identity" in squares
            else None,
        )
    second = [names[run] for run in (again.position if again else ())]
    return result, Background(factors, second, pairs.unmixed, min(filter(None, draws), default=0))


def with_components(design: ManyDesign, pairs: AllPairs, scored: Scorer, until: Deadline) -> Components:
    """The ICA rung of every pair, and the components that recur: every run unmixed, on all rows and on three parts."""
    runs = design.runs
    part_of = assign_folds(runs.n, PARTS, design.labels, design.for_ica)
    unmixed = unmix(runs.values, part_of, design.seed, design.for_ica, design.report, until, design.spans)
    rows = paired_sample(runs.n, design.for_ica)
    chosen = [select(values, rows) for values in design.values]
    here = part_of if rows is None else part_of[rows]
    parts = joint_moments(chosen, here, PARTS, names=runs.names)

    def errors_of(pair: tuple[int, int]) -> dict[tuple[int, int], PairErrors]:
        until.leave()
        return scored.errors_of(pair, {"ica": pairs.ica_rung(pair, unmixed, parts, part_of)})

    with Crew() as crew:
        found = list(crew.stream(errors_of, pairs.pairs))
    components = components_of(pairs.total, unmixed, until)
    for errors in found:  # all pairs or none
        scored.add(errors)
    pairs.unmixed, pairs.parts = unmixed, (parts, part_of)
    return components


def nulls_of(
    design: ManyDesign, rungs: Sequence[str], n_null: int, pairs: AllPairs, scored: Scorer, until: Deadline
) -> tuple[dict[tuple[int, int], dict[str, Null]], list[int]]:
    """The null of every pair, from shuffles of its own, and the number of them for each unordered pair.

    Where fewer than a hundred pairings are drawn, p-values come from a fitted tail. Nearly dependent columns take
    no second pass here, which if anything lowers the null. Pairs share the time until a deadline: each one draws the
    fewest pairings that say something, and more while its share lasts. Those that come too late have no null.
    """
    nulls: dict[tuple[int, int], dict[str, Null]] = {}
    counts = [0] * len(pairs.pairs)
    if not n_null:
        return nulls, counts
    shuffles = design.shuffles
    units = None if design.labels is None else int(design.labels.max()) + 1
    scoring = Scoring(design.fold_of, design.repeats.scored, units)
    seeds = design.for_null.spawn(len(pairs.pairs))
    for done, ((i, j), seed) in enumerate(zip(pairs.pairs, seeds, strict=True)):
        if until.passed:
            break
        x, y = design.values[i], design.values[j]
        thin, draw = seed.spawn(2)
        most = max(NULL_ROWS, NULL_ROWS_PER_DIMENSION * max(x.shape[1], y.shape[1]))
        training = pairs.training_set(i, j, 0)
        if pairs.unmixed is not None:
            training = replace(training, icas=(pairs.unmixed[i].parts[0], pairs.unmixed[j].parts[1]))
        drawn = shuffled_errors(
            scenes_of(pairs.by_column(i, j), Refitted(x, y, scored.centre(i, j), training, rungs)),
            shuffles.thinned(most, np.random.default_rng(thin)),
            scoring,
            n_null,
            draw,
            deadline=until,
            enough=until.share(1 / (len(counts) - done)),
            progress=partial(_draws_of_pair, design.stage("null"), done * n_null, len(counts) * n_null),
        )
        if drawn is None:
            break
        counts[done] = drawn.count
        for direction, pair in enumerate(((i, j), (j, i))):
            nulls[pair] = {name: drawn.null(name, direction, tail=drawn.count < FEW_DRAWS) for name in rungs}
        design.report("null", (done + 1) * n_null, len(counts) * n_null)
    return nulls, counts


def _draws_of_pair(report: Callable[[int, int], None], before: int, total: int, done: int, _: int) -> None:
    report(before + done, total)


def residual_distances(
    design: ManyDesign,
    rungs: Sequence[str],
    pairs: AllPairs,
    centres: Sequence[Array],
    radii: Sequence[float],
    until: Deadline,
) -> tuple[dict[str, dict[str, Any]], tuple[Diameter, ...]]:
    """Mean, largest error and quantiles of every rung, by one pass over the rows of every pair; and the units."""
    values, count = design.values, len(radii)
    until.leave()
    units = tuple(find_diameter(each, centres[run], radii[run], "auto") for run, each in enumerate(values))
    levels = [f"{q:g}" for q in QUANTILES]
    tables = {
        name: {
            "mean_error": np.zeros((count, count)),
            "sup": np.zeros((count, count)),
            "quantiles": {level: np.zeros((count, count)) for level in levels},
        }
        for name in rungs
    }
    kept = slice(None) if design.repeats.scored is None else design.repeats.scored
    for done, (i, j) in enumerate(pairs.pairs):
        until.leave()
        dtype = working_dtype((values[i], values[j]), (radii[i], radii[j]))
        passed = residual_pass(values[i], values[j], Centre(centres[i], centres[j], dtype), pairs.fitted((i, j)))
        for name, norms in {**passed.rungs, **pairs.norms_by_column((i, j))}.items():
            for direction, (source, target) in enumerate(((i, j), (j, i))):
                error = summarise(norms[direction, 1][kept], units[target].value)
                mine: dict[str, Any] = tables[name]
                mine["mean_error"][source, target], mine["sup"][source, target] = error.mean, error.sup
                for level in levels:
                    mine["quantiles"][level][source, target] = error.quantiles[level]
        design.report("residuals", done + 1, len(pairs.pairs))
    return tables, units


class Scorer:
    """Residual norms of chosen rows under the maps of every pair, summed by fold."""

    def __init__(
        self,
        runs: Sequence[Matrix],
        rows: Array,
        fold_of: Array,
        n_folds: int,
        centres: Sequence[Array],
        radii: Sequence[float],
    ) -> None:
        self._runs = [read_rows(run, rows) for run in runs]
        self._rows, self._folds, self._n_folds = rows, fold_of[rows], n_folds
        self._centres, self._radii = centres, radii
        self.errors: dict[tuple[int, int], PairErrors] = {}

    def centre(self, i: int, j: int) -> Centre:
        """What the rows of a pair are shifted by."""
        dtype = working_dtype((self._runs[i], self._runs[j]), (self._radii[i], self._radii[j]))
        return Centre(self._centres[i], self._centres[j], dtype)

    def watch(self, pair: tuple[int, int], fitted: dict[str, FittedRung], norms: dict[str, Array]) -> None:
        """Score the maps of a pair; norms of all rows are those that are known."""
        self.add(self.errors_of(pair, fitted, norms))

    def add(self, errors: dict[tuple[int, int], PairErrors]) -> None:
        """Keep errors beside those of other rungs of the same pairs."""
        for pair, each in errors.items():
            self.errors[pair] = self.errors[pair].beside(each) if pair in self.errors else each

    def means(self) -> dict[str, float]:
        """The mean held-out error of every rung over the ordered pairs."""
        ratios = [each.ratios() for each in self.errors.values()]
        return {name: float(np.mean([each[name] for each in ratios])) for name in ratios[0]}

    def errors_of(
        self, pair: tuple[int, int], fitted: dict[str, FittedRung], norms: dict[str, Array] | None = None
    ) -> dict[tuple[int, int], PairErrors]:
        """The errors of a pair under its maps, in both directions."""
        found: dict[tuple[int, int], PairErrors] = {}
        i, j = pair
        here = {name: replace(rung, part_of=rung.part_of[self._rows]) for name, rung in fitted.items()}
        passed = residual_pass(self._runs[i], self._runs[j], self.centre(i, j), here)
        rungs = passed.rungs | {name: each[:, :, self._rows] for name, each in (norms or {}).items()}
        for direction, (source, target) in enumerate(((i, j), (j, i))):
            radii = passed.radii[1 - direction]
            size = float(radii @ radii)
            if not size > 0:
                raise InputError("all rows that can be scored are identical in one of the runs")
            found[source, target] = PairErrors(
                held_out={name: self._by_fold(each[direction, 1]) for name, each in rungs.items()},
                in_sample={name: self._by_fold(each[direction, 0]) for name, each in rungs.items()},
                sizes=self._by_fold(radii),
                squares={
                    name: (
                        float(each[direction, 1] @ each[direction, 1]) / size,
                        float(each[direction, 0] @ each[direction, 0]) / size,
                    )
                    for name, each in rungs.items()
                },
            )
        return found

    def _by_fold(self, values: Array) -> Array:
        return np.bincount(self._folds, values, self._n_folds)


def collect_caveats(result: Ensemble, design: ManyDesign, background: Background) -> list[str]:
    """All caveats that apply."""
    sides, runs = result.runs, design.runs
    seed = result.settings["random_state"]
    return [
        *about_time(result.left_out, result.settings["stopped"]),
        *about_size(
            sides[0].rows,
            max(side.columns for side in sides),
            result.settings["folds"],
            sorted(side.rank for side in sides)[-2],
        ),
        *_about_pairing(result, runs),
        *_about_rows(runs, len(design.rows), design.repeats.scored is not None),
        *runs.reading,
        *design.repeats.notes(runs.names, runs.n),
        *about_copies(runs.names, runs.values, sides, seed, design.labels),
        *about_units(design.labels, design.shuffles, result.settings["n_null"], runs.labels is not None),
        *about_classes(result.settings["within"]),
        *_about_offset(result),
        *about_sides(sides, [side.name in background.again for side in sides]),
        *about_left_out(sides, background.factors),
        *about_dimensions(sides, _median_r2(result)),
        *_about_widths(result),
        *([] if background.unmixed is None else about_components(sides, background.unmixed)),
        *_about_ensemble(result),
    ]


def _about_pairing(result: Ensemble, runs: Runs) -> list[str]:
    """Of the first run that no other is related to: whether another order of its rows would help."""
    if any(rung.without_chance for rung in result.rungs.values()):
        return []
    related = np.any([rung.below_null | rung.below_null.T for rung in result.rungs.values()], axis=0)
    for run in np.flatnonzero(~related.any(axis=1)):
        other = 0 if run else 1
        said = broken_pairing(
            runs.values[other],
            runs.values[run],
            (runs.names[other], runs.names[run]),
            result.settings["random_state"],
        )
        if said is not None:
            return [said]
    return []


def _median_r2(result: Ensemble) -> str:
    known = [each.r2 for each in result.dimensions if each.r2 is not None]
    if not known:
        return ""
    median = float(np.median(np.concatenate(known)))
    return f"the median R² per column of the target, linear map, is {decimals(median, 2)}"


def _about_rows(runs: Runs, scored: int, repeated: bool) -> list[str]:
    said = []
    if runs.joined:
        lost = ", ".join(f"{count} from {name}" for name, count in zip(runs.names, runs.dropped, strict=True) if count)
        said.append(f"joined by id: {runs.n} rows are in all runs; dropped: {lost or 'none'}")
    if runs.half_identified:
        said.append("rows are paired by position: some runs have no row ids, so the pairing is unconfirmed")
    if scored < runs.n and not repeated:
        said.append(f"maps are fitted to all {runs.n} rows; mean errors are those of {scored} rows, drawn at random")
    return said


def _about_offset(result: Ensemble) -> list[str]:
    if result.identity_offset is None:
        return []
    apart = ~np.eye(len(result.runs), dtype=bool)
    return about_offset(result.identity_offset[apart].tolist(), result.rungs["identity"].rms[apart].tolist())


def _about_widths(result: Ensemble) -> list[str]:
    widths = sorted({side.columns for side in result.runs})
    if len(widths) == 1:
        return []
    return [
        f"widths differ ({', '.join(map(str, widths))}): narrower runs are padded with zeros for identity, signed "
        "permutation, rigid and the consensus"
    ]


def _about_ensemble(result: Ensemble) -> list[str]:
    said = []
    bounded = [side.name for side, size in zip(result.runs, result.diameters or (), strict=False) if not size.exact]
    if bounded:
        said.append(
            f"the diameters of {', '.join(bounded)} are the largest distances that were found, not proven to be the "
            "largest: errors in diameters may be overstated"
        )
    if not result.consensus.converged:
        said.append(f"the consensus was still improving after {result.consensus.sweeps} sweeps")
    if len(result.runs) < LEAST_RUNS:
        said.append(f"outliers cannot be detected with {len(result.runs)} runs: at least {LEAST_RUNS} are needed")
    return said
