"""``isorep.translate``: from paired vectors of two models to a map and its loss.

The steps are moments, settings, selection by recall, fits, the test fold, retrieval and the learning curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..ica.unmixing import as_source
from ..pairs import Pair, Repeats, broken_pairing, open_pair, repeats_without_groups
from ..representation import Array, Matrix
from ..resampling import assign_blocks, common_codes, ratio_jackknife, t_interval
from ..rows import Progress, block_rows, equal_rows, map_rows, no_progress, read_rows, select
from ..settings import check_choice, check_counts, check_names, check_seed
from .confidence import cosines, features_of, fit_confidence
from .drift import Reference, calibrated, spread_rows
from .extrapolation import Extrapolation, guessed, recall_within
from .maps import MAPS, MOMENT_MAPS, FittedMap, learning_curve
from .regions import regions
from .relevance import Relevance, given_judgements, measure_relevance, open_queries, read_relevance
from .result import (
    HeldOut,
    MapRecord,
    Translation,
    collect_caveats,
    headline_k,
    judge,
    left_out_caveats,
    unrelated,
)
from .retrieval import (
    METRICS,
    SCENARIOS,
    UNTRANSLATED,
    Retrieval,
    Scenario,
    Searches,
    corpus_size,
    search_rows,
)
from .selection import Chosen, fit_maps, select_maps
from .sums import Sums, split_rows, sum_rows
from .translator import Translator

_EVEN, _MOSTLY = 0.01, 0.99  # new vectors are normalised if this share of them have one length, up to this share of it
_LARGER = (10, 100, 1000)  # stores relative to the sample, for which recall is estimated
_LEAST_TESTED = 2  # pairs in the fold that tests


def translate(
    old: Any,
    new: Any,
    *,
    maps: Sequence[str] | str = "auto",
    scenario: str = "store",
    store_size: int | None = None,
    normalise: bool | None = None,
    folds: int = 5,
    groups: Any = None,
    labels: Any = None,
    join: bool = False,
    at: Sequence[int] = (1, 10, 100),
    metric: str = "cosine",
    queries: Any = None,
    old_queries: Any = None,
    relevance: Any = None,
    n_queries: int = 1000,
    n_corpus: int = 100_000,
    n_boot: int = 1000,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Translation:
    r"""Translate vectors of an old model into the space of a new one, and measure the loss.

    Maps :math:`x\mapsto(x-\mu_x)A+\mu_y` are fitted from the moments of paired rows, or trained on the rows. One fold
    is kept for testing only; on the others, cross-validation from moments alone chooses the strength of ``ridge``,

    .. math:: \min_A\|Y-XA\|_F^2+\lambda\|A\|_F^2,

    and the rank and strength of ``low_rank``. One of them chooses the map with the highest recall, in each of two
    scenarios: native queries search a translated store, or translated queries search native vectors. The test fold then
    gives recall, errors and the learning curve. Where new vectors have one length, translated ones are given it.

    Parameters
    ----------
    old, new : (n, d) arrays, Representations, paths or Dask arrays
        Paired rows: the same items, embedded by both models.
    maps : str or sequence of str
        Kinds of map to try: ``rigid``, ``linear``, ``ridge``, ``low_rank``, ``cosine``, ``mlp``, or ``"all"``. Default
        ``"auto"``: those from moments, and the others, which take longer, where these lose something.
    scenario : {"store", "queries"}
        What will be translated: the store (default), or queries. It chooses the map that is kept and the verdict; both
        scenarios are reported.
    store_size : int, optional
        Number of vectors of the store: recall is estimated for it, and chooses the map. Default: the sample's size.
    normalise : bool, optional
        Whether translated vectors get the length of new ones; default: if new vectors have one length.
    folds : int
        Number of folds, at least 3: one for testing, the others for selection.
    groups : (n,) array, optional
        Label per row: rows with one label (chunks of a document) stay in one fold and are left out together for
        intervals. With ``join``, one label per row of ``old`` as given. Default: rows that are equal on either side
        form a group.
    labels : (n,) array, optional
        Label per row, given as ``groups``: cosine and recall are reported for each label, and labels on which the map
        is significantly worse are named.
    join : bool
        Align by row id; default: raise an error if order or rows differ.
    at : sequence of int
        Numbers of neighbours k for recall and overlap.
    metric : {"cosine", "euclidean", "dot"}
        Metric by which neighbours are ranked; default cosine.
    queries, relevance : Representation or path, and path or dict, optional
        Queries embedded by the new model, with ids, and relevance judgements: nDCG and recall at 10 among the paired
        rows, which need ids, too. A file of judgements has lines of TREC qrels, or of query, document and grade; a dict
        has the grade of each document by query.
    old_queries : Representation or path, optional
        The same queries embedded by the old model, for the scenario ``queries``.
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
    kinds, later = _checked_maps(maps)
    at = _checked_counts(at)
    check_counts(folds=(folds, 3), n_queries=(n_queries, 1), n_corpus=(n_corpus, 2), n_boot=(n_boot, 0))
    if store_size is not None:
        check_counts(store_size=(store_size, 2))
        if store_size <= headline_k(at):
            raise InputError(
                f"store_size is {store_size}, and recall at {headline_k(at)} needs a larger store: name a smaller k"
            )
    check_seed(random_state)
    check_choice("metric", metric, list(METRICS))
    check_choice("scenario", scenario, list(SCENARIOS))
    report = progress or no_progress
    pair, match, given = open_pair(old, new, ("old", "new"), groups, join)
    marks = None if labels is None else _label_names(labels, pair, match.source_rows)
    judged = _checked_judgements(pair, queries, old_queries, relevance)
    seeds = np.random.SeedSequence(random_state).spawn(5)
    for_folds, for_queries, for_boot, for_selection, for_rows = (np.random.default_rng(seed) for seed in seeds)
    repeats = repeats_without_groups((equal_rows(pair.x), equal_rows(pair.y)), folds, None) if given is None else None
    together = given if repeats is None else repeats.groups
    split = split_rows(pair.n, folds, together, for_folds)
    if len(split.test_rows) < _LEAST_TESTED:
        raise InputError(
            f"there are {pair.n} pairs in {folds} folds, and the fold that tests has {len(split.test_rows)}: at least "
            f"{_LEAST_TESTED} are needed"
        )
    widest = max(int(pair.x.shape[1]), int(pair.y.shape[1]))
    searched = corpus_size(len(split.test_rows), n_queries, n_corpus, widest)
    if at[0] >= searched:
        raise InputError(
            f"at is {', '.join(map(str, at))}, and there are {searched} held-out vectors to search: name k below that"
        )
    sums = sum_rows(pair, split, report)
    if not np.trace(sums.training.moments.xx) > 0:
        raise InputError(f"the rows of {pair.names[0]} that maps are fitted to are all identical: no map can be fitted")
    if not np.trace(sums.codes[-1].yy) > 0:
        raise InputError(f"the rows of {pair.names[1]} that test are all identical: no error can be measured on them")
    norm = common_norm(pair.y, normalise)
    search: dict[str, Any] = {
        "at": at,
        "metric": metric,
        "n_queries": n_queries,
        "n_corpus": n_corpus,
        "progress": report,
    }
    chosen = select_maps(
        pair, split, sums, kinds, later, norm, scenario, store_size, search, for_selection, for_rows, report
    )
    best = chosen.best[scenario]
    fitted, kept = fit_maps(pair, split, sums, chosen, scenario, norm, for_rows, report)
    grouped = common_codes(together, pair.n, split.test_rows, "groups")
    blocks = assign_blocks(len(split.test_rows), grouped, for_boot)
    tested = score_maps(pair, split.test_rows, sums, fitted, chosen, best, blocks, report)
    held = tested.held
    if n_boot == 0:
        held = {kind: replace(each, interval=None) for kind, each in held.items()}
    searches = search_rows(pair.x, pair.y, split.test_rows, fitted, rng=for_queries, **search)
    units = None if grouped is None or together is None else len(np.unique(together[searches.queries]))
    records = {
        kind: MapRecord(
            kind,
            chosen.settings[kind],
            chosen.errors[kind],
            held[kind],
            {name: searches.found[name][kind].share for name in SCENARIOS},
        )
        for kind in fitted
    }
    retrieval = _retrieval(pair.names, records, chosen.best, searches, metric, store_size, units, norm, for_queries)
    pairs = {"all": pair.n, "training": sums.training.moments.n, "test": sums.codes[-1].n}
    from_moments = best in MOMENT_MAPS
    facts = {
        "old": pair.names[0],
        "new": pair.names[1],
        "pairs": pair.n if from_moments else pairs["training"],
        "scenario": scenario,
        "held-out error": records[best].held_out.mean,
        "held-out cosine": records[best].held_out.cosine,
        "recall": {str(k): share for k, share in records[best].recalls[scenario].recall.items()},
        "corpus": retrieval.corpus,
        "fingerprints": {"old": as_source(pair.x).fingerprint(), "new": as_source(pair.y).fingerprint()},
        "rounding": sums.rounding,
        "new vectors": tested.new_vectors,
    }
    confidence, calibration = tested.confidence or (None, None)
    curve_kind = best if from_moments else chosen.best_moments
    setting = chosen.settings.get(curve_kind, chosen.start)
    related = not unrelated(records[best], records[best].recalls[scenario], retrieval)
    curve = learning_curve(
        curve_kind,
        sums.codes,
        lambda moments, size: sums.trained_on(moments, range(size)),
        setting,
        sums.unit,
        sums.radius,
        kept=best,
        related=related,
    )
    found = None
    if marks is not None:
        k = headline_k(retrieval.at)
        asked = searches.found[scenario][best].closer < k
        names, codes = marks
        found = regions(names, codes[split.test_rows], tested.cosines, grouped, codes[searches.queries], asked)
    by_user = None if judged is None else judged(split.test_rows, fitted, chosen.best, metric)
    return Translation(
        maps=records,
        best=best,
        scenario=scenario,
        norm=norm,
        retrieval=retrieval,
        curve=curve,
        translator=Translator(
            kept, tested.reference, facts, confidence, sums.whole() if from_moments else None, chosen.settings[best]
        ),
        old=sums.sides[0],
        new=sums.sides[1],
        pairs=pairs,
        settings={
            "maps": list(fitted),
            "scenario": scenario,
            "store_size": None if store_size is None else int(store_size),
            "normalise": normalise,
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
        verdict=retrieval.scenarios[scenario].verdict,
        calibration=calibration,
        regions=found,
        relevance=by_user,
        caveats=(
            *_about_rows(pair, records[best], retrieval, scenario, repeats, random_state),
            *([] if sums.left_out is None else [f"{sums.left_out}; the map leaves them out"]),
            *collect_caveats(
                *sums.sides,
                pairs,
                match,
                together,
                retrieval,
                sums.resolved,
                norm=norm,
                normalise=normalise,
                store_size=store_size,
            ),
            *left_out_caveats(
                retrieval.corpus,
                dropped=[k for k in at if k not in retrieval.at],
                unknown=0 if by_user is None else by_user.unknown,
                unjudged=judged is not None and scenario == "queries" and old_queries is None,
                untried=[kind for kind in later if kind not in records],
            ),
        ),
    )


def _checked_maps(maps: Sequence[str] | str) -> tuple[list[str], list[str]]:
    """The kinds to try, and those to try only where these lose something."""
    if isinstance(maps, str) and maps == "auto":
        return list(MOMENT_MAPS), [kind for kind in MAPS if kind not in MOMENT_MAPS]
    if isinstance(maps, str) and maps == "all":
        return list(MAPS), []
    wanted = check_names("maps", maps, MAPS)
    return [kind for kind in MAPS if kind in wanted], []


def _label_names(labels: Any, pair: Pair, rows: Array | None) -> tuple[Array, Array]:
    """The labels and the label of each common row."""
    codes = common_codes(labels, pair.given, rows, "labels")
    given = np.asarray(labels) if rows is None else np.asarray(labels)[rows]
    if codes is None:  # labels are there, so codes are
        raise InputError("labels is empty")
    names = np.empty(int(codes.max()) + 1, dtype=object)
    names[codes] = given.astype(str)
    return names, codes


def _checked_judgements(
    pair: Pair, queries: Any, old_queries: Any, relevance: Any
) -> Callable[[Array, Mapping[str, FittedMap], Mapping[str, str], str], Relevance] | None:
    """How to measure by judgements and the queries of both models, where they are given."""
    if queries is None and relevance is None and old_queries is None:
        return None
    if queries is None or relevance is None:
        raise InputError("queries of the new model and relevance judgements belong together: give both")
    ids = pair.ids
    if ids is None:
        raise InputError("relevance judgements refer to ids, and neither side has row ids")
    judgements = given_judgements(relevance) if isinstance(relevance, Mapping) else read_relevance(relevance)
    new = open_queries(queries, int(pair.y.shape[1]), "queries")
    old = None if old_queries is None else open_queries(old_queries, int(pair.x.shape[1]), "old_queries")

    def measure(test: Array, fitted: Mapping[str, FittedMap], best: Mapping[str, str], metric: str) -> Relevance:
        kept = {name: fitted[kind] for name, kind in best.items()}
        return measure_relevance(pair.x, pair.y, ids, test, judgements, new, old, kept, metric)

    return measure


def common_norm(y: Matrix, normalise: bool | None) -> float | None:
    """The length of the new vectors, if 99% of them have one length within 1%; or by the caller's choice."""
    if normalise is False:
        return None
    norms = np.linalg.norm(read_rows(y, spread_rows(int(y.shape[0]))).astype(np.float64), axis=1)
    middle = float(np.median(norms))
    even = middle > 0 and float((np.abs(norms - middle) <= _EVEN * middle).mean()) >= _MOSTLY
    if not even and not (normalise and middle > 0):
        return None
    return middle


def _about_rows(
    pair: Pair, best: MapRecord, retrieval: Retrieval, scenario: str, repeats: Repeats | None, seed: int
) -> list[str]:
    """Rows that repeat, and a pairing that looks broken."""
    lost = unrelated(best, best.recalls[scenario], retrieval)
    broken = broken_pairing(pair.x, pair.y, pair.names, seed) if lost else None
    repeated = [] if repeats is None else repeats.notes(pair.names, pair.n)
    return [*filter(None, [broken]), *repeated, *pair.reading]


def _checked_counts(at: Sequence[int]) -> tuple[int, ...]:
    wanted = tuple(at) if isinstance(at, Sequence) else (at,)
    if not wanted or any(not isinstance(k, int | np.integer) or k < 1 for k in wanted):
        raise InputError(f"at is {at!r} and must be whole numbers of at least 1")
    return tuple(sorted({int(k) for k in wanted}))


@dataclass(frozen=True, eq=False)
class Tested:
    """The test fold: errors of every map, the reference for drift, and cosines and confidence of the best map.

    ``new_vectors`` are the scales of the new vectors, for the drift of pairs that are added.
    """

    held: dict[str, HeldOut]
    reference: Reference
    new_vectors: dict[str, float]
    cosines: Array
    confidence: Any


def score_maps(
    pair: Pair,
    rows: Array,
    sums: Sums,
    fitted: Mapping[str, FittedMap],
    chosen: Chosen,
    best: str,
    blocks: Array,
    report: Progress,
) -> Tested:
    """One pass over the test fold.

    ``blocks`` holds the block of each test row that a jackknife leaves out.
    """
    x, y, test, moments = pair.x, pair.y, sums.codes[-1], sums.training.moments
    radius = float(np.sqrt(np.trace(moments.xx) / moments.n))
    reference = Reference(sums.means(moments)[0], sums.whitener(), radius, np.inf, 1.0, 0.0, moments.n, test.n)
    test_mean = sums.means(test)[1]

    def look(start: int, *given: Array) -> list[Array]:
        old, native = (side.astype(np.float64) for side in given)
        columns = [features_of(fitted[best], reference, old)]
        columns += [reference.norms(old), reference.distances(old), np.linalg.norm(native - test_mean, axis=1)]
        for kind, each in fitted.items():
            mapped = each.raw(old)
            columns.append(cosines(mapped, native))
            if kind in chosen.shrunk:
                mean, goal, factor = chosen.shrunk[kind]
                mapped = goal + factor * (each.apply(old) - mean)
            columns.append(np.linalg.norm(mapped - native, axis=1))
        return columns

    size = block_rows(x.shape[1], y.shape[1])
    parts = map_rows(look, [select(x, rows), select(y, rows)], size, progress=partial(report, "test fold"))
    features, norms, distances, radii, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    away, spread = np.bincount(blocks, radii), float(np.trace(test.yy))
    held, directions = {}, dict(zip(fitted, columns[::2], strict=True))
    for kind, errors in zip(fitted, columns[1::2], strict=True):
        total = float(errors @ errors)
        ratio, se = ratio_jackknife(np.bincount(blocks, errors), away)
        held[kind] = HeldOut(
            mean=float(ratio),
            rms=float(np.sqrt(total / test.n)) / sums.radius,
            r2=1 - total / spread if spread > 0 else float("nan"),
            cosine=float(directions[kind].mean()),
            interval=t_interval(float(ratio), float(se), len(away), least=0.0),
        )
    confidence = fit_confidence(features, directions[best], blocks)
    quarter, half, three = np.quantile(radii, [0.25, 0.5, 0.75])
    new_vectors = {
        "radius": float(np.sqrt(np.trace(moments.yy) / moments.n)),
        "distance": float(half),
        "spread": float(np.log(three / quarter) / 1.349) if quarter > 0 else 0.0,
        "mean distance": float(radii.mean()),
    }
    return Tested(held, calibrated(reference, norms, distances), new_vectors, directions[best], confidence)


def _native(searches: Searches, size: int) -> dict[int, float] | None:
    """The recall of native vectors in a store of so many; None beyond the sample."""
    if size > searches.corpus:
        return None
    closer = searches.ceiling.closer
    return {k: recall_within(closer, searches.corpus, size, k) for k in searches.at if k < size}


def _retrieval(
    names: tuple[str, str],
    records: Mapping[str, MapRecord],
    best: Mapping[str, str],
    searches: Searches,
    metric: str,
    store_size: int | None,
    units: int | None,
    norm: float | None,
    rng: np.random.Generator,
) -> Retrieval:
    """Both scenarios: recall of every map, the best map's recall by the size of the store, and the verdict."""
    scenarios, at, corpus = {}, searches.at, searches.corpus
    chance = {k: guessed(searches.twins, corpus, corpus, k) for k in at}
    empty = Retrieval(metric, len(searches.queries), corpus, at, {}, searches.ceiling.share, chance)
    sizes = sorted({corpus, *(times * corpus for times in _LARGER), *([store_size] if store_size else [])})
    for name, found in searches.found.items():
        law = Extrapolation(found[best[name]].closer, corpus, rng, units)
        points = tuple(
            replace(
                law.at(size, at),
                native=_native(searches, size),
                guessing={k: guessed(searches.twins, corpus, size, k) for k in at if k < size},
            )
            for size in sizes
        )
        judged = next(point for point in points if point.size == (store_size or corpus))
        untranslated = found[UNTRANSLATED].share
        verdict = judge(*names, name, records[best[name]], judged, untranslated, empty)
        maps = {kind: each.share for kind, each in found.items() if kind != UNTRANSLATED}
        scenarios[name] = Scenario(best[name], maps, untranslated, points, verdict)
    return replace(empty, scenarios=scenarios)
