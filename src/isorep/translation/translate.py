"""``isorep.translate``: from paired vectors of two models to a map and its loss.

One code per row assigns it to testing, selection or fitting, so that one pass of moments serves all steps.
The steps are moments, selection, fits, the test fold, retrieval and the learning curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..alignment import AffineMap
from ..covariance import Factor, factor_covariance, left_out_sentence
from ..errors import InputError
from ..ica.unmixing import as_source
from ..moments import Moments, fold_moments, leave_one_out, merged, require_memory
from ..pairs import Pair, Repeats, Side, broken_pairing, describe_side, open_pair, repeats_without_groups, rms_radius
from ..representation import Array, Matrix, rounding_of
from ..resampling import assign_blocks, assign_folds, common_codes, ratio_jackknife, t_interval
from ..rows import Progress, block_rows, equal_rows, map_blocks, map_rows, no_progress, select
from ..settings import check_choice, check_counts, check_names, check_seed
from .drift import Reference, calibrated, damped_whitener
from .maps import MAPS, Setting, Training, best_of, choose, learning_curve
from .result import HeldOut, MapRecord, Translation, collect_caveats, judge, unrelated
from .retrieval import METRICS, measure_retrieval
from .translator import Translator


def translate(
    old: Any,
    new: Any,
    *,
    maps: Sequence[str] = MAPS,
    folds: int = 5,
    groups: Any = None,
    join: bool = False,
    at: Sequence[int] = (1, 10, 100),
    metric: str = "cosine",
    n_queries: int = 1000,
    n_corpus: int = 100_000,
    n_boot: int = 1000,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Translation:
    r"""Translate vectors of an old model into the space of a new one, and measure the loss.

    Maps :math:`x\mapsto(x-\mu_x)A+\mu_y` are fitted from the moments of paired rows. One fold is kept for testing
    only; on the others, cross-validation from moments alone chooses the strength of ``ridge``,

    .. math:: \min_A\|Y-XA\|_F^2+\lambda\|A\|_F^2,

    the rank and strength of ``low_rank``, and the best map. The test fold then gives errors, the learning curve, and
    recall: translated queries search native vectors.

    Parameters
    ----------
    old, new : (n, d) arrays, Representations, paths or Dask arrays
        Paired rows: the same items, embedded by both models.
    maps : sequence of str
        Kinds of map to fit; default: all, ``rigid``, ``linear``, ``ridge``, ``low_rank``.
    folds : int
        Number of folds, at least 3: one for testing, the others for selection.
    groups : (n,) array, optional
        Label per row: rows with one label (chunks of a document) stay in one fold and are left out together for
        intervals. With ``join``, one label per row of ``old`` as given. Default: rows that are equal on either side
        form a group.
    join : bool
        Align by row id; default: raise an error if order or rows differ.
    at : sequence of int
        Numbers of neighbours k for recall and overlap.
    metric : {"cosine", "euclidean", "dot"}
        Metric by which neighbours are ranked; default cosine.
    n_queries, n_corpus : int
        Largest numbers of queries (from the test fold) and of vectors to search.
    n_boot : int
        0 switches intervals off. They come from a jackknife over blocks of test rows; other values have no effect.
    random_state : int
        Seed of folds, queries and blocks.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Returns
    -------
    Translation

    References
    ----------
    .. [1] Izenman, A. J. (1975). Reduced-rank regression for the multivariate linear model. J. Multivariate Anal. 5.
    .. [2] Mukherjee, A. & Zhu, J. (2011). Reduced rank ridge regression and its kernel extensions. Stat. Anal. Data
           Min. 4.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> old = rng.normal(size=(1000, 8))
    >>> new = old @ rng.normal(size=(8, 8)) + 0.1 * rng.normal(size=(1000, 8))
    >>> result = isorep.translate(old, new)
    >>> result.best, result.verdict.answer
    ('linear', 'translate')
    """
    wanted, at = check_names("maps", maps, MAPS), _checked_counts(at)
    kinds = [kind for kind in MAPS if kind in wanted]
    check_counts(folds=(folds, 3), n_queries=(n_queries, 1), n_corpus=(n_corpus, 2), n_boot=(n_boot, 0))
    check_seed(random_state)
    check_choice("metric", metric, list(METRICS))
    report = progress or no_progress
    pair, match, given = open_pair(old, new, ("old", "new"), groups, join)
    seeds = np.random.SeedSequence(random_state).spawn(3)
    for_folds, for_queries, for_boot = (np.random.default_rng(seed) for seed in seeds)
    repeats = repeats_without_groups((equal_rows(pair.x), equal_rows(pair.y)), folds, None) if given is None else None
    labels = given if repeats is None else repeats.groups
    split = split_rows(pair.n, folds, labels, for_folds)
    sums = sum_rows(pair, split, report)
    settings, selection_errors, best = select_maps(sums, split, kinds, report)
    fitted, kept = fit_maps(sums, settings, best)
    together = common_codes(labels, pair.n, split.test_rows, "groups")
    blocks = assign_blocks(len(split.test_rows), together, for_boot)
    held, reference = score_maps(pair, split.test_rows, sums, fitted, blocks, report)
    if n_boot == 0:
        held = {kind: replace(each, interval=None) for kind, each in held.items()}
    retrieval = measure_retrieval(
        pair.x,
        pair.y,
        split.test_rows,
        fitted,
        best,
        at=at,
        metric=metric,
        n_queries=n_queries,
        n_corpus=n_corpus,
        rng=for_queries,
        progress=report,
    )
    records = {
        kind: MapRecord(kind, settings[kind], selection_errors[kind], held[kind], retrieval.maps[kind])
        for kind in kinds
    }
    pairs = {"all": pair.n, "training": sums.training.moments.n, "test": sums.codes[-1].n}
    facts = {
        "old": pair.names[0],
        "new": pair.names[1],
        "pairs": pair.n,
        "held-out error": records[best].held_out.mean,
        "recall": {str(k): share for k, share in records[best].recall.recall.items()},
        "corpus": retrieval.corpus,
        "fingerprints": {"old": as_source(pair.x).fingerprint(), "new": as_source(pair.y).fingerprint()},
    }
    return Translation(
        maps=records,
        best=best,
        retrieval=retrieval,
        curve=learning_curve(best, sums.codes, settings[best], sums.unit, sums.radius, sums.training.rounding),
        translator=Translator.from_map(best, kept, reference, facts),
        old=sums.sides[0],
        new=sums.sides[1],
        pairs=pairs,
        settings={
            "maps": list(kinds),
            "folds": int(folds),
            "groups": None if given is None else int(given.max()) + 1,
            "join": bool(join),
            "at": list(at),
            "metric": metric,
            "n_queries": int(n_queries),
            "n_corpus": int(n_corpus),
            "n_boot": int(n_boot),
            "random_state": int(random_state),
            "rows_dropped": [match.dropped_from_source, match.dropped_from_target],
        },
        verdict=judge(*pair.names, records[best], retrieval),
        caveats=(
            *_about_rows(pair, records[best], repeats, random_state),
            *([] if sums.left_out is None else [f"{sums.left_out}; the map leaves them out"]),
            *collect_caveats(*sums.sides, pairs, match, labels, retrieval, sums.resolved),
        ),
    )


def _about_rows(pair: Pair, best: MapRecord, repeats: Repeats | None, seed: int) -> list[str]:
    """Rows that repeat, and a pairing that looks broken."""
    broken = broken_pairing(pair.x, pair.y, pair.names, seed) if unrelated(best) else None
    repeated = [] if repeats is None else repeats.notes(pair.names, pair.n)
    return [*filter(None, [broken]), *repeated, *pair.reading]


def _checked_counts(at: Sequence[int]) -> tuple[int, ...]:
    wanted = tuple(at) if isinstance(at, Sequence) else (at,)
    if not wanted or any(not isinstance(k, int | np.integer) or k < 1 for k in wanted):
        raise InputError(f"at is {at!r} and must be whole numbers of at least 1")
    return tuple(sorted({int(k) for k in wanted}))


_MOST_SHELLS = 8
_LEAST_ROWS = 8  # of the smallest training set that a learning curve shows


@dataclass(frozen=True, eq=False)
class Split:
    """Rows by code. The last code is the test fold; the codes before it, added from the left, are training sets.

    The first selection fold is cut into shells of doubling size, codes 0 to ``n_shells - 1``; each further selection
    fold is one code. Every prefix of the codes is a training set, and the selection folds are sums of codes, too.
    """

    codes: Array
    n_shells: int
    n_codes: int

    @property
    def test_rows(self) -> Array:
        """The test rows, used for neither fitting nor selection, in order."""
        return np.flatnonzero(self.codes == self.n_codes - 1)

    def selection_folds(self, moments: list[Moments]) -> list[Moments]:
        """The folds that strengths, ranks and the kind of map are chosen on."""
        return [merged(moments[: self.n_shells]), *moments[self.n_shells : -1]]


def split_rows(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Split:
    """A test fold, the other folds for selection, and shells of doubling size inside the first of these.

    Groups are kept whole.
    """
    folds = assign_folds(n, n_folds, groups, rng)
    first = np.flatnonzero(folds == 0)
    shell_of = _shells(np.arange(len(first)) if groups is None else groups[first], rng)
    n_shells = int(shell_of.max()) + 1
    codes = folds + n_shells - 1
    codes[first] = shell_of
    return Split(codes, n_shells, n_shells + n_folds - 1)


def _shells(groups: Array, rng: np.random.Generator) -> Array:
    """The shell of each row: the first has one row in 2^k, and each further shell doubles the total.

    A group lies in the shell that its first row falls into.
    """
    m = len(groups)
    doublings = int(np.clip(np.log2(max(m / _LEAST_ROWS, 1)), 0, _MOST_SHELLS - 1))
    ends = m / 2.0 ** np.arange(doublings, -1, -1)
    units, unit_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(units))
    starts = np.empty(len(units))
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    shells = np.searchsorted(ends, starts[unit_of], side="right")
    return np.unique(shells, return_inverse=True)[1]  # a large group may leave a shell empty


@dataclass(frozen=True, eq=False)
class Sums:
    """The moments of every code, from which all maps and choices follow, and the facts about both sides.

    ``resolved`` is true if moments resolve all directions of the old side; ``left_out`` names columns that hardly vary.
    """

    codes: list[Moments]
    total: Moments
    training: Training
    sides: tuple[Side, Side]
    resolved: bool
    left_out: str | None

    @property
    def radius(self) -> float:
        """RMS radius of the new vectors: the unit of errors."""
        return self.sides[1].rms_radius

    @property
    def unit(self) -> float:
        """Mean eigenvalue of the old side's co-moments: the unit of ridge strengths."""
        return float(np.trace(self.training.moments.xx)) / len(self.training.moments.xx)


def sum_rows(pair: Pair, split: Split, report: Progress) -> Sums:
    """One pass over all rows."""
    x, y, n_codes = pair.x, pair.y, split.n_codes
    require_memory(x.shape[1], y.shape[1], n_codes)
    codes = fold_moments(x, y, split.codes, n_codes, names=pair.names, progress=partial(report, "moments"))
    total = merged(codes)
    sides = ((pair.names[0], x, total), (pair.names[1], y, total.swapped()))
    (old, factor), (new, _) = map_blocks(lambda one: _side(*sides[one.start]), 2, 1)
    for moments in (*codes, total):
        _drop_columns(moments, factor.left_out, total.source_mean)
    training = Training(merged(codes[:-1]), rounding_of(x))
    return Sums(codes, total, training, (old, new), factor.resolved, left_out_sentence(factor, pair.names[0]))


def _side(name: str, values: Matrix, total: Moments) -> tuple[Side, Factor]:
    """The facts about one side, the source of the moments."""
    radius = rms_radius(name, total.n, total.source_mean, total.xx)
    factor = factor_covariance(total.xx, total.n, total.source_mean, rounding_of(values))
    return describe_side(name, values, factor, radius), factor


def _drop_columns(moments: Moments, left_out: Array, mean: Array) -> None:
    """Take columns of the old vectors that hardly vary out of the moments, so that no map uses them.

    Least squares would give them huge coefficients, which would amplify noise in other rows.
    """
    moments.xx[left_out], moments.xx[:, left_out] = 0.0, 0.0
    moments.xy[left_out] = 0.0
    # one mean for all, or merging would put the differences of means back
    moments.source_mean = np.where(left_out, mean, moments.source_mean)


def select_maps(
    sums: Sums, split: Split, kinds: Sequence[str], report: Progress
) -> tuple[dict[str, Setting], dict[str, float], str]:
    """The setting of every kind and its RMS error over the selection folds, in radii; and the best kind."""
    folds = split.selection_folds(sums.codes)
    without = [Training(moments, sums.training.rounding) for moments in leave_one_out(folds)]
    settings, errors = {}, {}
    for index, kind in enumerate(kinds):
        settings[kind], errors[kind] = choose(kind, list(zip(without, folds, strict=True)), sums.unit)
        report("selection", index + 1, len(kinds))
    spread = sum(float(np.trace(fold.yy)) for fold in folds)
    rms = {kind: float(np.sqrt(error / sums.training.moments.n)) / sums.radius for kind, error in errors.items()}
    return settings, rms, best_of(errors, spread)


def fit_maps(sums: Sums, settings: Mapping[str, Setting], best: str) -> tuple[dict[str, AffineMap], AffineMap]:
    """Every map fitted to the training rows, and the best one to all rows, in parallel."""
    whole = Training(sums.total, sums.training.rounding)
    wanted = [*((sums.training, kind) for kind in settings), (whole, best)]

    def fit(one: slice) -> AffineMap:
        training, kind = wanted[int(one.start)]
        return training.fit(kind, settings[kind])

    *fitted, kept = map_blocks(fit, len(wanted), 1)
    return dict(zip(settings, fitted, strict=True)), kept


def score_maps(
    pair: Pair, rows: Array, sums: Sums, fitted: Mapping[str, AffineMap], blocks: Array, report: Progress
) -> tuple[dict[str, HeldOut], Reference]:
    """One pass over the test fold: errors and cosines of every map, and the reference for drift.

    ``blocks`` holds the block of each test row that a jackknife leaves out.
    """
    x, y, test, moments = pair.x, pair.y, sums.codes[-1], sums.training.moments
    whitener = damped_whitener(*sums.training.spectrum, moments.n)
    radius = float(np.sqrt(np.trace(moments.xx) / moments.n))
    reference = Reference(moments.source_mean, whitener, radius, np.inf, 1.0, 0.0, moments.n, test.n)
    test_mean = test.target_mean

    def look(start: int, *given: Array) -> list[Array]:
        old, native = (side.astype(np.float64) for side in given)
        columns = [reference.norms(old), reference.distances(old), np.linalg.norm(native - test_mean, axis=1)]
        for each in fitted.values():
            mapped = each.apply(old)[:, : each.target_width]
            columns += [np.linalg.norm(mapped - native, axis=1), _cosines(mapped, native)]
        return columns

    size = block_rows(x.shape[1], y.shape[1])
    parts = map_rows(look, [select(x, rows), select(y, rows)], size, progress=partial(report, "test fold"))
    norms, distances, radii, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    away, spread = np.bincount(blocks, radii), float(np.trace(test.yy))
    held = {}
    for kind, errors, cosines in zip(fitted, columns[::2], columns[1::2], strict=True):
        total = float(errors @ errors)
        ratio, se = ratio_jackknife(np.bincount(blocks, errors), away)
        held[kind] = HeldOut(
            mean=float(ratio),
            rms=float(np.sqrt(total / test.n)) / sums.radius,
            r2=1 - total / spread if spread > 0 else float("nan"),
            cosine=float(cosines.mean()),
            interval=t_interval(float(ratio), float(se), len(away), least=0.0),
        )
    return held, calibrated(reference, norms, distances)


def _cosines(mapped: Array, native: Array) -> Array:
    """Cosines between rows; 0 where one has no length."""
    lengths = np.linalg.norm(mapped, axis=1) * np.linalg.norm(native, axis=1)
    overlap = np.einsum("ij,ij->i", mapped, native)
    return np.asarray(np.divide(overlap, lengths, out=np.zeros_like(overlap), where=lengths > 0))
