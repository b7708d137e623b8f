"""``isorep.translate``: from paired vectors of two models to a map, and to what it loses.

Which rows test, which choose and which fit: one code a row, so that one pass of moments serves every question.

The stages of one translation: moments, selection, the test fold, and the map that is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..alignment import AffineMap
from ..covariance import factor_covariance, left_out_sentence
from ..errors import InputError
from ..ica.whitening import as_source
from ..moments import Moments, fold_moments, leave_one_out, merged, require_memory
from ..pairs import Pair, Repeats, Side, broken_pairing, describe_side, open_pair, repeats_without_groups, rms_radius
from ..representation import Array, rounding_of
from ..resampling import assign_blocks, assign_folds, equal_rows, group_codes, ratio_jackknife, t_interval
from ..rows import Progress, block_rows, map_blocks, no_progress, read_rows
from ..settings import check_choice, check_counts, check_names, check_seed
from .drift import Reference, calibrated, damped_whitener
from .learning_curve import learning_curve
from .maps import MAPS, Setting, Training, best_of, choose
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
    r"""Can vectors of an old model be translated to a new one's, and what is lost?

    Maps :math:`x\mapsto(x-\mu_x)A+\mu_y` are fitted from the moments of paired rows. One fold tests and is used for
    nothing else; on the others, cross-validation from moments alone chooses the strength of ``ridge``,

    .. math:: \min_A\|Y-XA\|_F^2+\lambda\|A\|_F^2,

    the rank and strength of ``low_rank``, and the best map. The test fold then gives errors, the learning curve, and
    recall: translated queries search native vectors.

    Parameters
    ----------
    old, new : (n, d) arrays, Representations or paths
        Paired rows: the same items, embedded by both models.
    maps : sequence of str
        Which of ``rigid``, ``linear``, ``ridge``, ``low_rank``.
    folds : int
        Number of folds, at least 3: one tests, the others choose.
    groups : (n,) array, optional
        Rows that belong together (chunks of a document): they are kept in one fold and left out together for
        intervals. With ``join`` one label per row of ``old`` as given. By default rows that are equal on either side
        belong together.
    join : bool
        Align by row id instead of refusing another order or other rows.
    at : sequence of int
        The numbers of neighbours k of recall and overlap.
    metric : {"cosine", "euclidean", "dot"}
        How neighbours are ranked.
    n_queries, n_corpus : int
        At most so many queries (of the test fold) and vectors to search.
    n_boot : int
        0 switches intervals off. They come from a jackknife over blocks of test rows, which draws nothing.
    random_state : int
        Seed of folds, queries and blocks.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

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
    check_choice("metric", metric, METRICS)
    report = progress or no_progress
    pair, match, given = open_pair(old, new, ("old", "new"), groups, join)
    seeds = np.random.SeedSequence(random_state).spawn(3)
    for_folds, for_queries, for_boot = (np.random.default_rng(seed) for seed in seeds)
    codes = equal_rows(pair.x), equal_rows(pair.y)
    repeats = repeats_without_groups(codes, folds, None) if given is None else None
    labels = given if repeats is None else repeats.groups
    split = split_rows(pair.n, folds, labels, for_folds)
    work = Work(pair, split, report)
    settings, selection_errors, best = work.select(kinds)
    fitted, kept = work.fit(settings, best)
    held, reference = work.test(fitted, labels, n_boot > 0, for_boot)
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
    curve = learning_curve(best, work.codes, settings[best], work.unit, work.radius, work.rounding)
    pairs = {"all": pair.n, "training": work.training.moments.n, "test": work.codes[-1].n}
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
        curve=curve,
        translator=Translator.from_map(best, kept, reference, facts),
        old=work.sides[0],
        new=work.sides[1],
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
            *([] if work.left_out is None else [f"{work.left_out}; the map leaves them out"]),
            *collect_caveats(*work.sides, pairs, match, labels, retrieval, work.resolved),
        ),
    )


def _about_rows(pair: Pair, best: MapRecord, repeats: Repeats | None, seed: int) -> list[str]:
    """Rows that repeat, and a pairing that looks broken."""
    said = [*([] if repeats is None else repeats.notes(pair.names, pair.n)), *pair.reading]
    if unrelated(best):
        broken = broken_pairing(pair.x, pair.y, pair.names, seed)
        said = [*([] if broken is None else [broken]), *said]
    return said


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
        """The rows that nothing is fitted to or chosen by, in order."""
        return np.flatnonzero(self.codes == self.n_codes - 1)

    def selection_folds(self, moments: list[Moments]) -> list[Moments]:
        """The folds that strengths, ranks and the kind of map are chosen on."""
        return [merged(moments[: self.n_shells]), *moments[self.n_shells : -1]]


def split_rows(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Split:
    """A test fold, the other folds for selection, and shells of doubling size inside the first of these.

    Groups are kept whole.
    """
    if n_folds < 3:
        raise InputError(f"folds is {n_folds}: one tests and at least two choose, so 3 are needed")
    folds = assign_folds(n, n_folds, groups, rng)
    first = np.flatnonzero(folds == 0)
    shell_of = _shells(len(first), None if groups is None else groups[first], rng)
    n_shells = int(shell_of.max()) + 1
    codes = folds + n_shells - 1
    codes[first] = shell_of
    return Split(codes, n_shells, n_shells + n_folds - 1)


def _shells(m: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The shell of each of ``m`` rows: the first ends where a row in 2^k does, each further one doubles what is there.

    A group lies in the shell that its first row falls into.
    """
    doublings = int(np.clip(np.log2(max(m / _LEAST_ROWS, 1)), 0, _MOST_SHELLS - 1))
    ends = m / 2.0 ** np.arange(doublings, -1, -1)
    if groups is None:
        place = np.empty(m)
        place[rng.permutation(m)] = np.arange(m)
    else:
        units, unit_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        order = rng.permutation(len(units))
        starts = np.empty(len(units))
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        place = starts[unit_of]
    shells = np.searchsorted(ends, place, side="right")
    return np.unique(shells, return_inverse=True)[1]  # a large group may leave a shell empty


class Work:
    """One pass over the rows gives the moments of every code; all maps and choices follow from these."""

    def __init__(self, pair: Pair, split: Split, report: Progress) -> None:
        self.pair, self.split, self.report = pair, split, report
        require_memory(pair.x.shape[1], pair.y.shape[1], split.n_codes)
        self.codes = fold_moments(
            pair.x, pair.y, split.codes, split.n_codes, names=pair.names, progress=self._stage("moments")
        )
        self.rounding = rounding_of(pair.x)
        self.total = merged(self.codes)
        (old, self.resolved), (new, _) = map_blocks(lambda one: self._side(one.start), 2, 1)
        self.left_out = self._drop_dead_columns()
        self.training = Training(merged(self.codes[:-1]), self.rounding)
        self.sides = old, new
        self.radius = new.rms_radius
        self.unit = float(np.trace(self.training.moments.xx)) / pair.x.shape[1]

    def _drop_dead_columns(self) -> str | None:
        """Take columns of the old vectors that hardly vary out of the moments, so that no map uses them.

        Least squares would give them huge coefficients, and what is noise here may be larger noise in a store.
        """
        total = self.total
        factor = factor_covariance(total.xx, total.n, total.source_mean, self.rounding)
        for moments in (*self.codes, total):
            moments.xx[factor.left_out], moments.xx[:, factor.left_out] = 0.0, 0.0
            moments.xy[factor.left_out] = 0.0
            # one mean for all, or merging would put the differences of means back
            moments.source_mean = np.where(factor.left_out, total.source_mean, moments.source_mean)
        return left_out_sentence(factor, self.pair.names[0])

    def select(self, kinds: Sequence[str]) -> tuple[dict[str, Setting], dict[str, float], str]:
        """The setting of every kind and its RMS error over the selection folds, in radii; and the best kind."""
        folds = self.split.selection_folds(self.codes)
        without = [Training(moments, self.rounding) for moments in leave_one_out(folds)]
        settings, errors = {}, {}
        for place, kind in enumerate(kinds):
            settings[kind], errors[kind] = choose(kind, list(zip(without, folds, strict=True)), self.unit)
            self.report("selection", place + 1, len(kinds))
        spread = sum(float(np.trace(fold.yy)) for fold in folds)
        rms = {kind: float(np.sqrt(error / self.training.moments.n)) / self.radius for kind, error in errors.items()}
        return settings, rms, best_of(errors, spread)

    def test(
        self, fitted: Mapping[str, AffineMap], labels: Array | None, intervals: bool, rng: np.random.Generator
    ) -> tuple[dict[str, HeldOut], Reference]:
        """One pass over the test fold: errors and cosines of every map, and what drift is measured against."""
        rows, test = self.split.test_rows, self.codes[-1]
        x, y = self.pair.x, self.pair.y
        moments = self.training.moments
        whitener = damped_whitener(*self.training.spectrum, moments.n)
        radius = float(np.sqrt(np.trace(moments.xx) / moments.n))
        reference = Reference(moments.source_mean, whitener, radius, np.inf, 1.0, 0.0, moments.n, test.n)

        def look(part: slice) -> list[Array]:
            old, native = (read_rows(side, rows[part]).astype(np.float64) for side in (x, y))
            found = [reference.norms(old), reference.distances(old), np.linalg.norm(native - test.target_mean, axis=1)]
            for each in fitted.values():
                mapped = each.apply(old)[:, : each.target_width]
                found += [np.linalg.norm(mapped - native, axis=1), _cosines(mapped, native)]
            return found

        parts = map_blocks(look, len(rows), block_rows(x.shape[1], y.shape[1]), progress=self._stage("test fold"))
        norms, distances, radii, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        errors = dict(zip(fitted, columns[::2], strict=True))
        cosines = dict(zip(fitted, columns[1::2], strict=True))
        together = None if labels is None else group_codes(labels[rows], len(rows))
        blocks = assign_blocks(len(rows), together, rng)
        away, spread = np.bincount(blocks, radii), float(np.trace(test.yy))
        held = {}
        for kind, norm in errors.items():
            total = float(norm @ norm)
            ratio, se = ratio_jackknife(np.bincount(blocks, norm), away)
            held[kind] = HeldOut(
                mean=float(ratio),
                rms=float(np.sqrt(total / test.n)) / self.radius,
                r2=1 - total / spread if spread > 0 else float("nan"),
                cosine=float(cosines[kind].mean()),
                interval=t_interval(float(ratio), float(se), len(away), least=0.0) if intervals else None,
            )
        return held, calibrated(reference, norms, distances)

    def fit(self, settings: Mapping[str, Setting], best: str) -> tuple[dict[str, AffineMap], AffineMap]:
        """Every map fitted to the training rows, and the best one to all rows, one a core."""
        whole = Training(self.total, self.rounding)
        wanted = [(self.training, kind) for kind in settings] + [(whole, best)]
        *fitted, kept = map_blocks(
            lambda one: wanted[one.start][0].fit(wanted[one.start][1], settings[wanted[one.start][1]]), len(wanted), 1
        )
        return dict(zip(settings, fitted, strict=True)), kept

    def _side(self, which: int) -> tuple[Side, bool]:
        """The facts about one side, and whether its moments resolve all its directions."""
        values, name = (self.pair.x, self.pair.y)[which], self.pair.names[which]
        total = self.total if which == 0 else self.total.swapped()
        radius = rms_radius(name, total.n, total.source_mean, total.xx)
        factor = factor_covariance(total.xx, total.n, total.source_mean, rounding_of(values))
        return describe_side(name, values, factor, radius), factor.resolved

    def _stage(self, name: str) -> Any:
        return lambda done, total: self.report(name, done, total)


def _cosines(mapped: Array, native: Array) -> Array:
    """Cosines between rows; 0 where one has no length."""
    lengths = np.linalg.norm(mapped, axis=1) * np.linalg.norm(native, axis=1)
    overlap = np.einsum("ij,ij->i", mapped, native)
    return np.asarray(np.divide(overlap, lengths, out=np.zeros_like(overlap), where=lengths > 0))
