"""Selection of settings by cross-validated error and of the kind of map by recall, and the fits of all chosen maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..moments import leave_one_out
from ..pairs import Pair
from ..representation import Array
from ..rows import Progress, block_rows, map_blocks, map_rows, select
from .extrapolation import Extrapolation, recall_within
from .maps import MAPS, MOMENT_MAPS, FittedMap, Setting, best_of, choose
from .networks import fit_cosine, fit_mlp, training_rows
from .result import headline_k, is_enough
from .retrieval import SCENARIOS, UNTRANSLATED, Found, Searches, search_rows
from .sums import Split, Sums

_WIDTHS = 3.92  # standard errors in a 95% interval
_CLOSE = 0.005  # recall on the selection fold that counts as equal


@dataclass(frozen=True, eq=False)
class Chosen:
    """What the selection folds chose.

    ``settings`` and ``errors`` (RMS, in radii) are by kind, ``best`` is the kind of each scenario and ``best_moments``
    that of least error among maps from moments; ``start`` is the setting of the ridge map that training starts from.
    ``shrunk`` holds, for maps trained on rows, the mean output, the mean
    of the new vectors and the factor by which outputs deviate least from native vectors.
    """

    settings: dict[str, Setting]
    errors: dict[str, float]
    best: dict[str, str]
    best_moments: str
    start: Setting
    shrunk: dict[str, tuple[Array, Array, float]]


def select_maps(
    pair: Pair,
    split: Split,
    sums: Sums,
    kinds: Sequence[str],
    later: Sequence[str],
    norm: float | None,
    scenario: str,
    store_size: int | None,
    search: Mapping[str, Any],
    for_queries: np.random.Generator,
    for_rows: np.random.Generator,
    report: Progress,
) -> Chosen:
    """Settings by cross-validated error; the kind by recall on the last selection fold, then by error.

    Kinds in ``later`` are tried if the best of the others would lose something.
    """
    folds = split.selection_folds(sums.codes)
    without = [sums.trained_on(moments, split.codes_without(fold)) for fold, moments in enumerate(leave_one_out(folds))]
    sets = list(zip(without, folds, strict=True))
    settings, errors = {}, {}
    from_moments = [kind for kind in MOMENT_MAPS if kind in kinds or kind == "ridge"]  # others start from ridge
    for index, kind in enumerate(from_moments):
        settings[kind], errors[kind] = choose(kind, sets, sums.unit)
        report("selection", index + 1, len(from_moments))
    n, spread = sums.training.moments.n, sum(float(np.trace(fold.yy)) for fold in folds)
    held = np.flatnonzero(split.codes == split.n_codes - 2)
    last = without[-1]
    ridge = sums.fitted("ridge", last, settings["ridge"], norm)
    shrunk: dict[str, tuple[Array, Array, float]] = {}
    closer: dict[str, dict[str, Found]] = {name: {} for name in SCENARIOS}
    state = for_queries.bit_generator.state

    def look(some: Sequence[str]) -> Searches:
        fitted = {}
        for kind in some:
            if kind in MOMENT_MAPS:
                fitted[kind] = sums.fitted(kind, last, settings[kind], norm)
                continue
            rows = np.flatnonzero(split.codes < split.n_codes - 2)
            fitted[kind] = trained(kind, pair, rows, ridge, norm, for_rows, report)
            hidden = fitted[kind].hidden
            settings[kind] = Setting(hidden=None if hidden is None else len(hidden[1]))
            own, shrunk[kind] = _shrunk_error(fitted[kind], pair, held)
            by_ridge = _squared_error(ridge, pair, held)
            errors[kind] = errors["ridge"] * own / by_ridge if by_ridge > 0 else own * n
        for_queries.bit_generator.state = state  # the same queries for all kinds
        found = search_rows(pair.x, pair.y, held, fitted, rng=for_queries, stage="selection by recall", **search)
        for name in SCENARIOS:
            closer[name] |= {kind: each for kind, each in found.found[name].items() if kind != UNTRANSLATED}
        return found

    def pick(found: Searches) -> dict[str, str]:
        size, k = store_size or found.corpus, headline_k(found.at)
        return {
            name: _best_kind({kind: each.closer for kind, each in by.items()}, errors, spread, found.corpus, size, k)
            for name, by in closer.items()
        }

    found = look(list(kinds))
    best = pick(found)
    if later:
        mine, k = closer[scenario][best[scenario]], headline_k(found.at)
        size = store_size or found.corpus
        share = Extrapolation(mine.closer, found.corpus, np.random.default_rng(0)).at(size, (k,)).recall[k]
        more = [kind for kind in later if norm is not None or kind != "cosine" or search["metric"] == "cosine"]
        native = recall_within(found.ceiling.closer, found.corpus, size, k)
        if not is_enough(share, native, mine.share.overlap[k]) and len(held) > 1:
            best = pick(look(more))
    rms = {kind: float(np.sqrt(error / n)) / sums.radius for kind, error in errors.items()}
    of_moments = {kind: errors[kind] for kind in from_moments if kind in kinds} or {"ridge": errors["ridge"]}
    tried = {kind: settings[kind] for kind in MAPS if kind in closer["store"]}
    return Chosen(tried, rms, best, best_of(of_moments, spread), settings["ridge"], shrunk)


def _best_kind(
    closer: Mapping[str, Array], errors: Mapping[str, float], spread: float, corpus: int, size: int, k: int
) -> str:
    """The kind of least error among those whose recall at k, in a store of the given size, is about the highest.

    That is within the standard error of the highest one, and at least 0.005.
    """
    found = {
        kind: Extrapolation(each, corpus, np.random.default_rng(0)).at(size, (k,)) for kind, each in closer.items()
    }
    top = max(found.values(), key=lambda each: each.recall[k])
    enough = top.recall[k] - max(_CLOSE, (top.high[k] - top.low[k]) / _WIDTHS)
    return best_of({kind: errors[kind] for kind, each in found.items() if each.recall[k] >= enough}, spread)


def trained(
    kind: str,
    pair: Pair,
    rows: Array,
    start: FittedMap,
    norm: float | None,
    rng: np.random.Generator,
    report: Progress,
) -> FittedMap:
    """A map trained on rows, from the ridge map."""
    stage = f"training {kind}"
    report(stage, 0, 1)
    x, y = training_rows(pair.x, pair.y, rows, rng)
    if kind == "cosine":
        fitted = fit_cosine(x, y, start, norm)
    else:
        fitted = fit_mlp(x, y, start, norm, int(rng.integers(2**31)))
    report(stage, 1, 1)
    return fitted


def _squared_error(fitted: FittedMap, pair: Pair, rows: Array) -> float:
    """The mean squared error before lengths are set."""

    def look(start: int, *given: Array) -> float:
        old, native = (side.astype(np.float64) for side in given)
        return float(((fitted.raw(old) - native) ** 2).sum())

    size = block_rows(pair.x.shape[1], pair.y.shape[1])
    return sum(map_rows(look, [select(pair.x, rows), select(pair.y, rows)], size)) / len(rows)


def _shrunk_error(fitted: FittedMap, pair: Pair, rows: Array) -> tuple[float, tuple[Array, Array, float]]:
    """The mean squared error of outputs shrunk towards their mean, and the means and factor that do it.

    A map that is trained on directions errs by its lengths; one factor makes its error comparable with least squares.
    """

    def look(start: int, *given: Array) -> tuple[Any, ...]:
        old, native = (side.astype(np.float64) for side in given)
        out = fitted.apply(old)
        squares = (float((out**2).sum()), float((out * native).sum()), float((native**2).sum()))
        return out.sum(axis=0), native.sum(axis=0), *squares

    size = block_rows(pair.x.shape[1], pair.y.shape[1])
    parts = map_rows(look, [select(pair.x, rows), select(pair.y, rows)], size)
    n = len(rows)
    mean, goal = (np.sum([part[place] for part in parts], axis=0) / n for place in (0, 1))
    own, cross, native = (sum(part[place] for part in parts) / n for place in (2, 3, 4))
    spread, shared, whole = own - float(mean @ mean), cross - float(mean @ goal), native - float(goal @ goal)
    factor = shared / spread if spread > 0 else 0.0
    return max(whole - factor * shared, 0.0), (mean, goal, factor)


def fit_maps(
    pair: Pair,
    split: Split,
    sums: Sums,
    chosen: Chosen,
    scenario: str,
    norm: float | None,
    rng: np.random.Generator,
    report: Progress,
) -> tuple[dict[str, FittedMap], FittedMap]:
    """Every map fitted to the training rows; and the one to keep, from moments of all rows where it is from moments."""
    best, settings = chosen.best[scenario], chosen.settings
    kinds = [kind for kind in settings if kind in MOMENT_MAPS]
    whole = sums.trained_on(sums.total, range(split.n_codes))
    wanted = [*((sums.training, kind) for kind in kinds), *([(whole, best)] if best in kinds else [])]

    def fit(one: slice) -> FittedMap:
        training, kind = wanted[int(one.start)]
        return sums.fitted(kind, training, settings[kind], norm)

    done = map_blocks(fit, len(wanted), 1)
    fitted = dict(zip(kinds, done, strict=False))
    rows = np.flatnonzero(split.codes < split.n_codes - 1)
    others = [kind for kind in settings if kind not in MOMENT_MAPS]
    if others:
        start = sums.fitted("ridge", sums.training, chosen.start, norm)
        for kind in others:
            fitted[kind] = trained(kind, pair, rows, start, norm, rng, report)
    return fitted, done[-1] if best in kinds else fitted[best]
