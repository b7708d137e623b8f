"""Retrieval: do translated queries find their own item, and the neighbours that native queries find?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..alignment import AffineMap
from ..representation import Array, Matrix
from ..rows import Progress, block_rows, blocks, map_blocks, read_rows

Preparation = Callable[[Array], Array]

METRICS = ("cosine", "euclidean", "dot")
_QUERIES_AT_ONCE = 128
_CORPUS_AT_ONCE = 8192
_CORPUS_BYTES = 2**28  # of native vectors in memory; translated ones take as much again


@dataclass(frozen=True)
class Recall:
    """Shares from 0 to 1 by number of neighbours k, higher is better.

    ``recall``: the query's own item is among the k nearest. ``overlap``: of the k items nearest to the native query,
    those among the k nearest here; the query's own item is left out of both.
    """

    recall: dict[int, float]
    overlap: dict[int, float]


@dataclass(frozen=True)
class Retrieval:
    """What is found among native new vectors by queries of the test fold.

    Attributes
    ----------
    maps : dict of str to Recall
        Queries translated by each map, the corpus native.
    store : Recall
        The other way round, by the best map: the corpus translated, queries native.
    ceiling : Recall
        Native queries.
    floor : Recall
        Old vectors as they are; where widths differ, padded with zeros or cut.
    chance : dict of int to float
        The recall of guessing.
    """

    metric: str
    queries: int
    corpus: int
    at: tuple[int, ...]
    maps: dict[str, Recall]
    store: Recall
    ceiling: Recall
    floor: Recall
    chance: dict[int, float]


def measure_retrieval(
    x: Matrix,
    y: Matrix,
    test: Array,
    maps: Mapping[str, AffineMap],
    best: str,
    *,
    at: Sequence[int],
    metric: str,
    n_queries: int,
    n_corpus: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Retrieval:
    """Search a sample of the paired rows, which holds the queries' own items, in bounded memory."""
    n, width = y.shape
    queries = np.sort(rng.choice(test, min(n_queries, len(test)), replace=False))
    most = max(min(n_corpus, n, _CORPUS_BYTES // (4 * width)), len(queries))
    others = np.setdiff1d(np.arange(n), queries, assume_unique=True)
    corpus = np.sort(np.concatenate([queries, rng.choice(others, most - len(queries), replace=False)]))
    own = np.searchsorted(corpus, queries)
    at = tuple(k for k in at if k < len(corpus)) or (1,)
    old, native = (read_rows(side, queries).astype(np.float64) for side in (x, y))
    prepare = _preparation(metric, native)
    searched = {"ceiling": native, "floor": _fitted_width(old, width)}
    searched |= {f"map {name}": _mapped(fitted, old) for name, fitted in maps.items()}
    done, steps = 0, len(searched) + 1

    def search(given: Array, items: Array) -> Array:
        nonlocal done
        found = nearest(prepare(given), items, max(at) + 1, metric)
        done += 1
        progress("retrieval", done, steps)
        return found

    items = _corpus(y, corpus, None, prepare, width)
    found = {name: search(given, items) for name, given in searched.items()}
    del items
    found["store"] = search(native, _corpus(x, corpus, maps[best], prepare, width))
    wanted = found["ceiling"]
    recalls = {name: _recall(rows, wanted, own, at) for name, rows in found.items()}
    return Retrieval(
        metric=metric,
        queries=len(queries),
        corpus=len(corpus),
        at=at,
        maps={name: recalls[f"map {name}"] for name in maps},
        store=recalls["store"],
        ceiling=recalls["ceiling"],
        floor=recalls["floor"],
        chance={k: k / len(corpus) for k in at},
    )


def nearest(queries: Array, corpus: Array, k: int, metric: str) -> Array:
    """The rows of the corpus nearest to each query, best first; both are prepared for the metric, in float32."""
    k = min(k, len(corpus))
    lengths = (corpus**2).sum(axis=1) / 2 if metric == "euclidean" else None

    def search(rows: slice) -> Array:
        some = queries[rows]
        scores, places = np.empty((len(some), 0), np.float32), np.empty((len(some), 0), np.intp)
        for part in blocks(len(corpus), _CORPUS_AT_ONCE):
            here = some @ corpus[part].T
            if lengths is not None:
                here -= lengths[part]
            top = _largest(here, k)
            scores = np.concatenate([scores, np.take_along_axis(here, top, axis=1)], axis=1)
            places = np.concatenate([places, top + part.start], axis=1)
            if scores.shape[1] > k:
                top = _largest(scores, k)
                scores, places = np.take_along_axis(scores, top, axis=1), np.take_along_axis(places, top, axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(places, order, axis=1)

    return np.concatenate(map_blocks(search, len(queries), _QUERIES_AT_ONCE))


def _recall(found: Array, wanted: Array, own: Array, at: Sequence[int]) -> Recall:
    hit = found == own[:, None]
    recall = {k: float(hit[:, :k].any(axis=1).mean()) for k in at}
    here, there = _without(found, own), _without(wanted, own)
    overlap = {}
    for k in at:
        shared = [len(np.intersect1d(a[:k], b[:k], assume_unique=True)) for a, b in zip(here, there, strict=True)]
        overlap[k] = float(np.mean(shared)) / k
    return Recall(recall, overlap)


def _without(found: Array, own: Array) -> Array:
    """All neighbours but the query's own item; where it is not among them, all but the last."""
    keep = found != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return np.asarray(found[keep].reshape(len(found), -1))


def _corpus(
    side: Matrix, rows: Array, fitted: AffineMap | None, prepare: Callable[[Array], Array], width: int
) -> Array:
    """Rows ready to be searched, translated where a map is given."""
    out = np.empty((len(rows), width), np.float32)
    for part in blocks(len(rows), block_rows(*side.shape[1:], width)):
        block = read_rows(side, rows[part]).astype(np.float64)
        out[part] = prepare(block if fitted is None else _mapped(fitted, block))
    return out


def _preparation(metric: str, native: Array) -> Preparation:
    """Makes rows whose float32 products rank neighbours: of unit length for the cosine, otherwise of one scale.

    Distances are taken about the mean of some native rows, where a large mean does not drown them.
    """
    centre = native.mean(axis=0) if metric == "euclidean" else np.zeros(native.shape[1])
    scale = float(np.sqrt(((native - centre) ** 2).sum(axis=1).mean())) or 1.0

    def prepare(rows: Array) -> Array:
        size = np.linalg.norm(rows, axis=1, keepdims=True) if metric == "cosine" else np.full((len(rows), 1), scale)
        return np.asarray(np.divide(rows - centre, size, out=np.zeros_like(rows), where=size > 0), np.float32)

    return prepare


def _mapped(fitted: AffineMap, rows: Array) -> Array:
    return fitted.apply(rows)[:, : fitted.target_width]


def _fitted_width(rows: Array, width: int) -> Array:
    """Rows padded with zeros, or cut, to another width."""
    out = np.zeros((len(rows), width))
    out[:, : rows.shape[1]] = rows[:, :width]
    return out


def _largest(scores: Array, k: int) -> Array:
    """The places of the k largest scores of each row, in any order; all where there are fewer."""
    if scores.shape[1] <= k:
        return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    return np.asarray(np.argpartition(scores, -k, axis=1)[:, -k:])
