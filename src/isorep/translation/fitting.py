"""``isorep.translate``: from paired vectors of two models to a map, and to what it loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..comparison.pairing import broken_pairing
from ..comparison.repeats import Repeats, repeats_without_groups
from ..comparison.settings import check_counts, check_seed
from ..comparison.stages import Pair, open_pair
from ..errors import InputError
from ..ica.sources import as_source
from ..resampling import equal_rows
from ..rows import Progress, no_progress
from .curve import learning_curve
from .result import MapRecord, Translation
from .retrieval import check_metric, measure_retrieval
from .solving import MAPS
from .splits import split_rows
from .stages import Work
from .translator import Translator
from .verdict import collect_caveats, judge, unrelated


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
    kinds, at = _checked_maps(maps), _checked_counts(at)
    check_counts(folds=(folds, 3), n_queries=(n_queries, 1), n_corpus=(n_corpus, 2), n_boot=(n_boot, 0))
    check_seed(random_state)
    check_metric(metric)
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


def _checked_maps(maps: Sequence[str]) -> list[str]:
    wanted = [maps] if isinstance(maps, str) else list(maps or ())
    unknown = [name for name in wanted if name not in MAPS]
    if unknown or not wanted:
        raise InputError(f"maps {', '.join(map(str, unknown)) or 'is empty'}: choose from {', '.join(MAPS)}")
    return [name for name in MAPS if name in wanted]


def _checked_counts(at: Sequence[int]) -> tuple[int, ...]:
    wanted = tuple(at) if isinstance(at, Sequence) else (at,)
    if not wanted or any(not isinstance(k, int | np.integer) or k < 1 for k in wanted):
        raise InputError(f"at is {at!r} and must be whole numbers of at least 1")
    return tuple(sorted({int(k) for k in wanted}))
