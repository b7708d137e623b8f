"""Content and style of several views of the same examples: the block that they share, and what changes.

Every view is whitened in its leading principal directions. Components come from generalised canonical correlation
analysis (:mod:`isorep.blocks.maxvar`), and their correlations are held out. A component counts as shared if its
correlation exceeds the *largest* one of at least 95% of shuffled pairings: the maximum over all components makes up for
their number (Westfall & Young 1993), so that unrelated views share nothing with probability 0.95.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison import RUNGS, Comparison, compare
from ..comparison.many_inputs import Runs, gather
from ..errors import InputError
from ..moments import joint_moments
from ..pairs import Repeats, broken_pairing, hold_out
from ..representation import Array, Matrix, Representation
from ..resampling import (
    BLOCKS,
    FEW_GROUPS,
    MOST_GROUP_BLOCKS,
    Interval,
    Null,
    Shuffles,
    assign_blocks,
    jackknife_se,
    null_of,
    t_interval,
)
from ..rows import Progress, ProjectedRows, blocks, equal_rows, no_progress, read_rows
from ..settings import MOST_DRAWS, check_counts, check_seed
from ..similarity.frames import Frame, frame_of
from ..storage import loaded
from ..threads import Crew, one_blas_thread
from .maxvar import correlations, directions, held_out_products, products, scatter_of, scatter_of_rows
from .result import FOUND, Blocks, Component, Rerun, View

ROWS_PER_DIRECTION = 10
MOST_DIRECTIONS = 400  # of all views together
LEAST_ROWS = 20
LEAST_DRAWS = 19  # fewer give no p-value of 0.05
NULL_ROWS, NULL_ROWS_PER_DIRECTION = 10_000, 25  # that shuffles move


@one_blas_thread
def content_style(
    views: Any,
    *,
    reruns: Sequence[Any] = (),
    components: int | None = None,
    least: float = 0.0,
    folds: int = 5,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    n_null: int = 100,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Blocks:
    r"""Find which subspace several views of the same examples share (content), and which changes (style).

    Views are augmentations, batches, donors or modalities: row :math:`i` is the same example in each. The leading
    directions of each view are whitened, and generalised canonical correlation analysis (MAXVAR) finds one variate per
    view and component. The correlation of a component is

    .. math:: \rho_k=\min_v\operatorname{corr}\Big(a_{vk}^\top z_v,\ \sum_{w\ne v}a_{wk}^\top z_w\Big)

    on held-out rows; for two views it is the canonical correlation. A component counts as shared if it exceeds the
    largest correlation of shuffled pairings, at p <= 0.05.

    Parameters
    ----------
    views : list of (n, d) arrays, Representations or paths, or a dict of them by name
        At least two views of the same examples, in the same order; widths may differ.
    reruns : list of lists of views, optional
        The views of other training runs, for the same examples: the content of the first run is compared with that of
        each, and so is its style.
    components : int, optional
        Number of leading principal directions per view that are examined. Default: all, as long as there are 10 rows
        per direction and at most 400 directions, of all views together.
    least : float
        Smallest held-out correlation that counts as shared, where chance is smaller. Default 0: chance decides.
    folds : int
        Number of cross-validation folds; default 5.
    groups : (n,) array, optional
        Label per row: rows with one label stay in one fold, are left out together for intervals, and are shuffled as a
        block.
    within : (n,) array, optional
        Class per row: rows are shuffled within classes only, so that chance includes what the classes explain.
    join : bool
        Align by row id, keeping the rows that all views have; default: raise an error if order or rows differ.
    n_null : int
        Number of shuffled pairings, at least 19; default 100.
    random_state : int
        Seed of folds, blocks and shuffles; default 0.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Returns
    -------
    Blocks

    References
    ----------
    .. [1] Kettenring, J. R. (1971). Canonical analysis of several sets of variables. Biometrika 58.
    .. [2] von Kügelgen, J. et al. (2021). Self-supervised learning with data augmentations provably isolates content
           from style. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> content, A, B = rng.normal(size=(500, 2)), rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    >>> views = [np.hstack([content, rng.normal(size=(500, 3))]) @ mix for mix in (A, B)]
    >>> isorep.blocks.content_style(views).dimension
    2
    """
    check_counts(folds=(folds, 2), n_null=(n_null, LEAST_DRAWS, MOST_DRAWS))
    check_seed(random_state)
    if components is not None:
        check_counts(components=(components, 1))
    if not isinstance(least, float | int) or not 0 <= least < 1:
        raise InputError(f"least is {least!r} and must be a correlation from 0 to below 1")
    report = progress or no_progress
    opened, counts = _opened(views, reruns, groups, join, within)
    if opened.n < LEAST_ROWS:
        raise InputError(f"there are {opened.n} rows: content and style need at least {LEAST_ROWS}")
    ends = np.cumsum([0, *counts])
    found = []
    for number, (start, stop) in enumerate(pairwise(ends)):
        stage = "" if number == 0 else f", rerun {number}"
        part = replace(opened, names=opened.names[start:stop], values=opened.values[start:stop])
        found.append(_Search(part, folds, components, int(random_state), report, stage).found(n_null, float(least)))
    again = tuple(
        _rerun(found[0], each, number, opened, folds, random_state) for number, each in enumerate(found[1:], 1)
    )
    caveats = list(found[0].caveats)
    for number, (each, rerun) in enumerate(zip(found[1:], again, strict=True), 1):
        further = [*each.caveats, *(() if rerun.content is None else rerun.content.caveats)]
        caveats += [f"rerun {number}: {caveat}" for caveat in further if caveat not in opened.reading]
    result = replace(found[0], reruns=again, caveats=tuple(dict.fromkeys(caveats)))
    settings = {
        "folds": int(folds),
        "groups": None if opened.labels is None else int(opened.labels.max()) + 1,
        "within": None if opened.within is None else int(opened.within.max()) + 1,
        "join": bool(join),
        "components": components,
        "least": float(least),
        "n_null": int(n_null),
        "random_state": int(random_state),
        "rows_dropped": list(opened.dropped),
    }
    return replace(result, settings=settings)


def _opened(views: Any, reruns: Sequence[Any], groups: Any, join: bool, within: Any) -> tuple[Runs, list[int]]:
    """All views of all runs on their common rows, and how many views each run has."""
    if isinstance(reruns, str | Path | Mapping) or getattr(reruns, "ndim", 3) < 3:
        raise InputError("reruns are lists of views, one list for each further training run")
    every = [_listed(views, "")]
    every += [_listed(run, f"rerun {number} ") for number, run in enumerate(reruns, 1)]
    flat = [view for run in every for view in run]
    return gather(flat, None, groups, join, within), [len(run) for run in every]


def _listed(views: Any, before: str) -> list[Representation]:
    """The views of one run, read and named; one view alone is refused."""
    single = isinstance(views, str | Path | Representation) or getattr(views, "ndim", 3) < 3
    given = [views] if single else list(views.values() if isinstance(views, Mapping) else views)
    if len(given) < 2:
        which = "" if not before else f" for {before.strip()}"
        raise InputError(
            f"{len(given) or 'no'} view was given{which}: content is what at least two views of the same examples share"
        )
    read = [loaded(view, f"{before}view {number}") for number, view in enumerate(given, 1)]
    if isinstance(views, Mapping):
        read = [replace(view, name=f"{before}{name}") for view, name in zip(read, views, strict=True)]
    return read


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for the shared block of one run's views."""

    views: Runs
    n_folds: int
    components: int | None
    seed: int
    report: Progress
    stage: str

    @cached_property
    def generators(self) -> list[np.random.Generator]:
        """For folds, blocks, the rows that are shuffled, and the pairing check."""
        return [np.random.default_rng(each) for each in np.random.SeedSequence(self.seed).spawn(4)]

    @cached_property
    def codes(self) -> tuple[Array, ...]:
        """For every view a number per row, the same for equal rows."""
        return tuple(equal_rows(values) for values in self.views.values)

    @cached_property
    def design(self) -> tuple[Array | None, Array, Repeats]:
        """Rows that move as one, the fold of each row, and how repeated rows are treated."""
        return hold_out(self.codes, self.views.labels, self.n_folds, self.views.within, self.generators[0])

    @cached_property
    def frames(self) -> list[Frame]:
        """The principal frame of every view."""
        return [frame_of(values, name) for values, name in zip(self.views.values, self.views.names, strict=True)]

    @cached_property
    def kept(self) -> list[int]:
        """The number of directions of every view that are examined."""
        count = len(self.frames)
        room = min(MOST_DIRECTIONS, self.views.n // ROWS_PER_DIRECTION)
        if self.components is not None:
            return [min(self.components, frame.rank) for frame in self.frames]
        kept = [0] * count
        for done, view in enumerate(np.argsort([frame.rank for frame in self.frames], kind="stable")):
            kept[view] = max(1, min(self.frames[view].rank, (room - sum(kept)) // (count - done)))
        return kept

    @cached_property
    def whiteners(self) -> list[Array]:
        """For every view the (d, r) matrix that whitens its centred rows."""
        return [_whitener(frame)[:, :most] for frame, most in zip(self.frames, self.kept, strict=True)]

    @cached_property
    def white(self) -> list[Matrix]:
        """The white rows of every view, computed when read."""
        rows: list[Matrix] = []
        for values, frame, whitener in zip(self.views.values, self.frames, self.whiteners, strict=True):
            rows.append(ProjectedRows(values, frame.mean, whitener))
        return rows

    def found(self, n_null: int, least: float) -> Blocks:
        """The shared block, its dimension, and the directions of content and style."""
        labels, fold_of, repeats = self.design
        parts, fold_of_part, scored = self._parts(labels, fold_of, repeats.scored)
        self.report(f"moments{self.stage}", 0, 1)
        scatter = scatter_of(joint_moments(self.white, parts, int(parts.max()) + 1, names=self.views.names))
        self.report(f"moments{self.stage}", 1, 1)
        few = all(int(each.max()) + 1 < LEAST_ROWS for each in self.codes)
        if few and (different := np.unique(np.stack(self.codes), axis=1).shape[1]) < LEAST_ROWS:
            raise InputError(
                f"{different} of {self.views.n} rows differ from all earlier ones: content and style need at least "
                f"{LEAST_ROWS}"
            )
        held_out = held_out_products(scatter, fold_of_part, scored)
        n, _, sums = scatter.merged(np.arange(len(scatter.counts)))
        fitted = directions(n, sums, scatter.views, scatter.components)
        in_sample = correlations(products(sums, scatter.views, fitted))
        by_view = correlations(held_out.sum(axis=0))
        intervals = _intervals(held_out[scored], scatter.counts[scored], by_view.min(axis=1))
        chance, p_values, shuffles = self._chance(labels, fold_of, repeats.scored, n_null, scatter.edges)
        decided = chance.smallest_p <= FOUND
        estimates = by_view.min(axis=1)
        limit = max(float(np.quantile(chance.draws, 1 - FOUND, method="higher")), least)
        # Where groups are cut to equal sizes, p-values are those of some rows: the correlation of all must be as high.
        shared = decided & (p_values <= FOUND) & (estimates >= limit)
        found = tuple(
            Component(
                k + 1,
                bool(shared[k]),
                float(estimates[k]),
                intervals[k],
                float(in_sample[k].min()),
                float(p_values[k]),
                tuple(map(float, by_view[k])),
            )
            for k in range(len(estimates))
        )
        dimension = int(shared.sum())
        reaching = [each.interval.high > limit for each in found]
        span = (
            min(dimension, sum(each.interval.low > limit for each in found)),
            max(dimension, next((place for place, each in enumerate(reaching) if not each), len(reaching))),
        )
        views = self._views([each[:, shared] for each in fitted])
        result = Blocks(
            names=self.views.names,
            rows=self.views.n,
            dimension=dimension if decided else None,
            dimension_interval=span if decided else None,
            chance_reaches=limit,
            chance=chance,
            components=found,
            views=views,
            ids=self.views.ids,
            content=self._content(views),
            styles=tuple(
                view.style(read_rows(values, slice(None)))
                for view, values in zip(views, self.views.values, strict=True)
            ),
        )
        return replace(result, caveats=tuple(self._caveats(result, labels, repeats, shuffles, n_null)))

    def _parts(self, labels: Array | None, fold_of: Array, scored: Array | None) -> tuple[Array, Array, Array]:
        """Blocks of rows inside folds, which intervals leave out: of every row, and fold and use of every block."""
        most = max(2, (BLOCKS if labels is None else MOST_GROUP_BLOCKS) // self.n_folds)
        parts = np.empty(self.views.n, dtype=np.intp)
        folds: list[int] = []
        used: list[bool] = []
        for fold in range(self.n_folds):
            for use in (True, False):
                mine = fold_of == fold
                mine &= (np.ones_like(mine) if scored is None else scored) == use
                if not mine.any():
                    continue
                codes = None if labels is None else np.unique(labels[mine], return_inverse=True)[1]
                block = assign_blocks(int(mine.sum()), codes, self.generators[1], most)
                parts[mine] = block + len(folds)
                count = int(block.max()) + 1
                folds += [fold] * count
                used += [use] * count
        return parts, np.array(folds), np.array(used)

    def _chance(
        self, labels: Array | None, fold_of: Array, scored: Array | None, n_null: int, edges: tuple[int, ...]
    ) -> tuple[Null, Array, Shuffles]:
        """The largest held-out correlation of shuffled pairings, and every component's p-value against it."""
        most = max(NULL_ROWS, NULL_ROWS_PER_DIRECTION * edges[-1])
        shuffles = Shuffles(self.views.n, labels, self.views.within).thinned(most, self.generators[2])
        # Rows are ordered by fold, those that are scored first, so that every part is a slice.
        codes = 2 * fold_of[shuffles.rows] + (0 if scored is None else ~scored[shuffles.rows])
        order = np.argsort(codes, kind="stable")
        kinds, starts = np.unique(codes[order], return_index=True)
        parts = [slice(*ends) for ends in zip(starts, [*starts[1:], len(order)], strict=True)]
        folds, use = kinds // 2, kinds % 2 == 0
        if len(np.unique(folds)) < 2 or not use.any():
            raise InputError("the rows that can change places lie in one fold: there are too few groups for a null")
        rows = [np.asarray(read_rows(view, shuffles.rows), dtype=np.float64)[order] for view in self.white]
        place = np.empty(self.views.n, dtype=np.intp)
        place[shuffles.rows[order]] = np.arange(len(order))
        seeds = np.random.SeedSequence([self.seed, 1]).spawn(n_null)

        def held_out(turn: int) -> Array:
            moved = rows
            if turn:
                rng = np.random.default_rng(seeds[turn - 1])
                moved = [rows[0], *(each[place[shuffles.draw(rng)[order]]] for each in rows[1:])]
            scatter = scatter_of_rows(np.concatenate(moved, axis=1), parts, edges)
            return np.asarray(correlations(held_out_products(scatter, folds, use).sum(axis=0)).min(axis=1))

        values = []
        with Crew() as crew:
            for done, each in enumerate(crew.stream(lambda turn: held_out(turn.start), blocks(1 + n_null, 1))):
                values.append(each)
                self.report(f"shuffled pairings{self.stage}", done, n_null)
        draws = np.array([each.max() for each in values[1:]])
        nulls = [null_of(draws, float(each), higher_is_closer=True, distinct=shuffles.distinct) for each in values[0]]
        return max(nulls, key=lambda each: each.observed), np.array([each.p_value for each in nulls]), shuffles

    def _views(self, found: Sequence[Array]) -> tuple[View, ...]:
        """Content and style of every view: directions in its own coordinates, and their shares of the variance."""
        views = []
        for name, frame, whitener, most, shared in zip(
            self.views.names, self.frames, self.whiteners, self.kept, found, strict=True
        ):
            basis = np.linalg.qr(shared, mode="complete")[0]
            inside, outside = np.split(basis, [shared.shape[1]], axis=1)
            scales = frame.singular_values[:most]
            spread = float(frame.square_norm)
            content = float(((inside.T * scales) ** 2).sum()) / spread
            style = outside.T * scales
            turn, sizes, _ = np.linalg.svd(style, full_matrices=False)
            views.append(
                View(
                    name=name,
                    columns=frame.width,
                    rank=frame.rank,
                    examined=most,
                    content_share=content,
                    style_share=float((style**2).sum()) / spread,
                    mean=frame.mean,
                    content_map=whitener @ shared,
                    style_map=whitener @ (outside @ turn * (sizes / np.sqrt(frame.n))),
                )
            )
        return tuple(views)

    def _content(self, views: Sequence[View]) -> Array:
        """The mean of the views' content variates."""
        total = np.zeros((self.views.n, views[0].content_map.shape[1]))
        for view, values in zip(views, self.views.values, strict=True):
            total += view.content(read_rows(values, slice(None)))
        return np.asarray(total / len(views))

    def _caveats(
        self, result: Blocks, labels: Array | None, repeats: Repeats, shuffles: Shuffles, n_null: int
    ) -> list[str]:
        said = list(self.views.reading)
        if self.views.joined:
            said.append(f"joined by id: {self.views.n} rows that all views have")
        if self.views.half_identified:
            said.append("rows are paired by position: not all views have row ids, so the pairing is unconfirmed")
        if result.dimension == 0:
            for name, values in zip(self.views.names[1:], self.views.values[1:], strict=True):
                pair = (self.views.names[0], name)
                said += filter(None, [broken_pairing(self.views.values[0], values, pair, self.seed)])
        for view in result.views:
            if view.examined < view.rank:
                said.append(
                    f"{view.examined} of {view.rank} directions of {view.name} are examined, which hold "
                    f"{view.content_share + view.style_share:.1%} of its variance"
                    + (": pass components to examine more" if self.components is None else "")
                )
        if result.dimension and result.dimension == len(result.components) < min(view.rank for view in result.views):
            said.append("every examined component is shared: there may be more among the directions left out")
        said += repeats.notes(self.views.names, self.views.n)
        if labels is not None and int(labels.max()) + 1 < FEW_GROUPS and repeats.groups is None:
            said.append(f"intervals and chance are from {int(labels.max()) + 1} groups: they are only approximate")
        return [*said, *shuffles.notes(n_null)]


def _whitener(frame: Frame) -> Array:
    """The (d, r) matrix to white coordinates of unit variance."""
    scaled = frame.axes / frame.singular_values if frame.whitener is None else frame.whitener
    return np.asarray(scaled * np.sqrt(frame.n))


def _intervals(held_out: Array, sizes: Array, estimates: Array) -> list[Interval]:
    """Jackknife intervals of every component's correlation, blocks of held-out rows left out one at a time."""
    left_out = correlations(held_out.sum(axis=0) - held_out).min(axis=-1)
    errors = jackknife_se(left_out, estimates, sizes)
    return [
        t_interval(float(each), float(error), len(sizes), least=-1.0, most=1.0)
        for each, error in zip(estimates, errors, strict=True)
    ]


def _rerun(first: Blocks, other: Blocks, number: int, rows: Runs, folds: int, seed: int) -> Rerun:
    """Content and style of another training run, compared with the first one's."""

    def compared(source: Array, target: Array, what: str, rungs: Sequence[str] = RUNGS) -> Comparison | None:
        if not source.shape[1] or not target.shape[1]:
            return None
        sides = (
            Representation(source, name=f"{what} of the first run"),
            Representation(target, name=f"{what} of rerun {number}"),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the same sentences are among its caveats
            return compare(*sides, rungs=rungs, groups=rows.labels, within=rows.within, folds=folds, random_state=seed)

    styles = [np.concatenate(each.styles, axis=1) for each in (first, other)]
    return Rerun(
        names=other.names,
        dimension=other.dimension,
        dimension_interval=other.dimension_interval,
        content=compared(first.content, other.content, "content"),
        style=compared(styles[0], styles[1], "style", [rung for rung in RUNGS if rung != "ica"]),
    )
