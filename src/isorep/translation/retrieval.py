"""Retrieval in two scenarios: the store is translated and queries are native, or queries are translated.

Do queries find their own item, and the neighbours that native queries find in a native store?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..representation import Array, Matrix
from ..results import Verdict
from ..rows import Progress, block_rows, equal_rows, map_blocks, read_rows, select, stream_rows
from ..similarity.neighbours import nearest
from .extrapolation import StoreRecall
from .maps import FittedMap

Preparation = Callable[[Array], Array]

METRICS = {"cosine": "cosine", "euclidean": "euclidean", "dot": "inner_product"}  # and their names in the search
SCENARIOS = ("store", "queries")
"""What is translated: the stored vectors, searched by queries of the new model; or queries of the old model."""
UNTRANSLATED = "untranslated"
_CORPUS_BYTES = 2**28  # of vectors in memory; the search takes as much again
_LEAST_DEPTH = 17  # neighbours that are searched for, at least
_SCORES = 2**22  # at a time
_FAR = 1e8  # what lies farther out, in RMS radii, is cut off there, so that squares stay finite


@dataclass(frozen=True)
class Recall:
    """Shares from 0 to 1 by number of neighbours k, higher is better.

    ``recall``: the query's own item, or one with the same new vector, is among the k nearest. ``overlap``: of the k
    items nearest to the native query, those among the k nearest here; the query's own item is left out of both.
    """

    recall: dict[int, float]
    overlap: dict[int, float]


@dataclass(frozen=True)
class Scenario:
    """Retrieval in one scenario.

    Attributes
    ----------
    best : str
        The map that this scenario chose, on selection folds.
    maps : dict of str to Recall
        Retrieval with each map, on the test fold.
    untranslated : Recall
        Old vectors as they are; where widths differ, padded with zeros or cut.
    sizes : tuple of StoreRecall
        Recall of the best map by the size of the store: measured at the sample's, estimated beyond.
    verdict : Verdict
    """

    best: str
    maps: dict[str, Recall]
    untranslated: Recall
    sizes: tuple[StoreRecall, ...]
    verdict: Verdict


@dataclass(frozen=True)
class Retrieval:
    """Retrieval by queries of the test fold.

    Attributes
    ----------
    scenarios : dict of str to Scenario
        ``store``: native queries search translated vectors. ``queries``: translated queries search native vectors.
    ceiling : Recall
        Native queries in native vectors.
    chance : dict of int to float
        The recall of guessing: the share of queries of whose items with their own new vector one is among k drawn
        ones. Where no new vectors repeat, that is k by the number of vectors.
    """

    metric: str
    queries: int
    corpus: int
    at: tuple[int, ...]
    scenarios: dict[str, Scenario]
    ceiling: Recall
    chance: dict[int, float]


@dataclass(frozen=True, eq=False)
class Found:
    """What queries of one kind found: shares, and for each query the number of all items closer than its own.

    Of items with the query's own new vector, the nearest counts as its own. For untranslated vectors the count ends at
    the depth of the search.
    """

    share: Recall
    closer: Array


@dataclass(frozen=True, eq=False)
class Searches:
    """All searches by one set of queries in one set of items; ``found`` is by scenario, then by map.

    ``twins`` is the number of items with the new vector of each query, its own item included.
    """

    queries: Array
    corpus: int
    at: tuple[int, ...]
    ceiling: Found
    twins: Array
    found: dict[str, dict[str, Found]] = field(default_factory=dict)


def search_rows(
    x: Matrix,
    y: Matrix,
    rows: Array,
    maps: Mapping[str, FittedMap],
    *,
    at: Sequence[int],
    metric: str,
    n_queries: int,
    n_corpus: int,
    rng: np.random.Generator,
    progress: Progress,
    stage: str = "retrieval",
) -> Searches:
    """Search a sample of held-out rows, which holds the queries' own items, in bounded memory.

    No map was fitted to ``rows``: a store that holds training rows, translated better than others, would mislead.
    """
    width = y.shape[1]
    queries = np.sort(rng.choice(rows, min(n_queries, len(rows)), replace=False))
    most = corpus_size(len(rows), n_queries, n_corpus, max(width, x.shape[1]))
    others = np.setdiff1d(rows, queries, assume_unique=True)
    corpus = np.sort(np.concatenate([queries, rng.choice(others, most - len(queries), replace=False)]))
    own = np.searchsorted(corpus, queries)
    at = tuple(k for k in at if k < len(corpus)) or (1,)  # a fold that selects may be smaller than the one that tests
    depth = min(max(*at, _LEAST_DEPTH) + 1, len(corpus))
    old, native = (read_rows(side, queries).astype(np.float64) for side in (x, y))
    prepare = _preparation(metric, native)
    steps, done = 2 + 2 * len(maps), 0

    items = _read(y, corpus, width, prepare)
    same = equal_rows(items)
    wanted = nearest(prepare(native), items, depth, metric=METRICS[metric])

    def look(name: str, vectors: Array, items: Array, near: Array | None = None) -> Found:
        near = nearest(vectors, items, depth, metric=METRICS[metric]) if near is None else near
        found = _found(near, wanted, own, same, at)
        missed = np.flatnonzero(found.closer >= depth)
        if len(missed) and name != UNTRANSLATED:  # of untranslated vectors only the shares are reported
            found.closer[missed] = _count_closer(vectors[missed], items, own[missed], same, metric, depth)
        return found

    ceiling = look("native", prepare(native), items, wanted)
    found: dict[str, dict[str, Found]] = {name: {} for name in SCENARIOS}
    padded = _fitting(old, width)
    for name, vectors in ({UNTRANSLATED: padded} | {kind: each.apply(old) for kind, each in maps.items()}).items():
        found["queries"][name] = look(name, prepare(vectors), items)
        done += 1
        progress(stage, done, steps)
    stored, out = _read(x, corpus, x.shape[1], None), items
    for name in (UNTRANSLATED, *maps):

        def fill(rows: slice, name: str = name) -> None:
            block = stored[rows].astype(np.float64)
            out[rows] = prepare(_fitting(block, width) if name == UNTRANSLATED else maps[name].apply(block))

        map_blocks(fill, len(corpus), block_rows(width, x.shape[1], cells=2**20))
        found["store"][name] = look(name, prepare(native), out)
        done += 1
        progress(stage, done, steps)
    return Searches(queries, len(corpus), at, ceiling, np.bincount(same)[same[own]], found)


def corpus_size(rows: int, n_queries: int, n_corpus: int, width: int) -> int:
    """The number of vectors that are searched: as many as wanted and memory allows, and the queries' own items."""
    return max(min(n_corpus, rows, _CORPUS_BYTES // (4 * width)), min(n_queries, rows))


def _count_closer(vectors: Array, items: Array, own: Array, same: Array, metric: str, least: int) -> Array:
    """For queries whose own item is not among the ``least`` nearest: the number of items that are closer than it.

    Items as far as the own one are closer in a random share of cases: a map that gives all of them one vector finds
    nothing.
    """
    offsets = np.zeros(len(items), items.dtype)
    if metric == "cosine":
        vectors, items = (_directions(rows) for rows in (vectors, items))
    else:
        vectors, items = (np.clip(rows, -_FAR, _FAR) for rows in (vectors, items))
    if metric == "euclidean":
        offsets = np.einsum("ij,ij->i", items, items) / 2
    chance = np.random.default_rng(0).random(len(vectors))
    closer = np.empty(len(vectors), np.intp)

    def count(part: slice) -> None:
        scores = vectors[part] @ items.T - offsets
        ours = same == same[own[part]][:, None]
        best = np.where(ours, scores, -np.inf).max(axis=1, keepdims=True)
        before, level = ((scores > best) & ~ours).sum(axis=1), ((scores == best) & ~ours).sum(axis=1)
        closer[part] = before + np.floor(chance[part] * (level + 1))

    map_blocks(count, len(vectors), max(1, _SCORES // len(items)))
    return np.maximum(closer, least)


def _directions(rows: Array) -> Array:
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return np.asarray(rows / np.where(squares > 0, np.sqrt(squares), 1.0)[:, None], np.float32)


def _found(near: Array, wanted: Array, own: Array, same: Array, at: Sequence[int]) -> Found:
    """Shares, and the place of the first item with the query's own new vector; the depth where there is none."""
    hit = same[near] == same[own][:, None]
    closer = np.where(hit.any(axis=1), hit.argmax(axis=1), near.shape[1])
    here, there = _without(near, own), _without(wanted, own)
    overlap = {}
    for k in at:
        shared = [len(np.intersect1d(a[:k], b[:k], assume_unique=True)) for a, b in zip(here, there, strict=True)]
        overlap[k] = float(np.mean(shared)) / k
    return Found(Recall({k: float((closer < k).mean()) for k in at}, overlap), closer)


def _without(near: Array, own: Array) -> Array:
    """All neighbours but the query's own item; where it is not among them, all but the last."""
    keep = near != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return np.asarray(near[keep].reshape(len(near), -1))


def _read(side: Matrix, rows: Array, width: int, prepare: Preparation | None) -> Array:
    """Rows in memory, in float32, ready to be searched where that is asked for."""
    out = np.empty((len(rows), width), np.float32)

    def ready(start: int, block: Array) -> tuple[int, Array]:
        return start, block if prepare is None else prepare(block.astype(np.float64))

    for start, block in stream_rows(ready, [select(side, rows)], block_rows(side.shape[1], width), per_row=width):
        out[start : start + len(block)] = block
    return out


def _fitting(old: Array, width: int) -> Array:
    """Old vectors as they are, padded with zeros or cut to the new width."""
    return np.pad(old, ((0, 0), (0, max(width - old.shape[1], 0))))[:, :width]


def _preparation(metric: str, native: Array) -> Preparation:
    """Scale rows so that float32 is enough.

    Distances are taken about the mean of some native rows, so that a large mean costs no digits.
    """
    centre = native.mean(axis=0) if metric == "euclidean" else np.zeros(native.shape[1])
    scale = float(np.sqrt(((native - centre) ** 2).sum(axis=1).mean())) or 1.0
    return lambda rows: np.asarray((rows - centre) / scale, np.float32)
