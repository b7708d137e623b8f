"""Retrieval: do translated queries find their own item, and the neighbours that native queries find?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..alignment import AffineMap
from ..representation import Array, Matrix
from ..rows import Progress, block_rows, read_rows, select, stream_rows
from ..similarity.neighbours import nearest

Preparation = Callable[[Array], Array]

METRICS = {"cosine": "cosine", "euclidean": "euclidean", "dot": "inner_product"}  # and their names in the search
_CORPUS_BYTES = 2**28  # of vectors in memory; the search takes as much again


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
    """Retrieval among native new vectors by queries of the test fold.

    Attributes
    ----------
    maps : dict of str to Recall
        Translated queries, by each map, in the native corpus.
    store : Recall
        Native queries in a corpus translated by the best map.
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
    padded = np.pad(old, ((0, 0), (0, max(width - old.shape[1], 0))))[:, :width]
    searched = {"ceiling": native, "floor": padded}
    searched |= {f"map {name}": _mapped(fitted, old) for name, fitted in maps.items()}
    searched["store"] = native
    items = _corpus(y, corpus, None, prepare, width)
    recalls: dict[str, Recall] = {}
    for step, (name, vectors) in enumerate(searched.items()):
        if name == "store":
            items = _corpus(x, corpus, maps[best], prepare, width)
        near = nearest(prepare(vectors), items, min(max(at) + 1, len(corpus)), metric=METRICS[metric])
        if name == "ceiling":
            wanted = near
        recalls[name] = _recall(near, wanted, own, at)
        progress("retrieval", step + 1, len(searched))
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


def _recall(near: Array, wanted: Array, own: Array, at: Sequence[int]) -> Recall:
    hit = near == own[:, None]
    here, there = _without(near, own), _without(wanted, own)
    overlap = {}
    for k in at:
        shared = [len(np.intersect1d(a[:k], b[:k], assume_unique=True)) for a, b in zip(here, there, strict=True)]
        overlap[k] = float(np.mean(shared)) / k
    return Recall({k: float(hit[:, :k].any(axis=1).mean()) for k in at}, overlap)


def _without(near: Array, own: Array) -> Array:
    """All neighbours but the query's own item; where it is not among them, all but the last."""
    keep = near != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return np.asarray(near[keep].reshape(len(near), -1))


def _corpus(side: Matrix, rows: Array, fitted: AffineMap | None, prepare: Preparation, width: int) -> Array:
    """Rows ready to be searched, translated where a map is given."""
    out = np.empty((len(rows), width), np.float32)

    def ready(start: int, block: Array) -> tuple[int, Array]:
        block = block.astype(np.float64)
        return start, prepare(block if fitted is None else _mapped(fitted, block))

    size = block_rows(*side.shape[1:], width)
    for start, block in stream_rows(ready, [select(side, rows)], size, per_row=width):
        out[start : start + len(block)] = block
    return out


def _preparation(metric: str, native: Array) -> Preparation:
    """Scale rows so that float32 is enough.

    Distances are taken about the mean of some native rows, so that a large mean costs no digits.
    """
    centre = native.mean(axis=0) if metric == "euclidean" else np.zeros(native.shape[1])
    scale = float(np.sqrt(((native - centre) ** 2).sum(axis=1).mean())) or 1.0
    return lambda rows: np.asarray((rows - centre) / scale, np.float32)


def _mapped(fitted: AffineMap, rows: Array) -> Array:
    return fitted.apply(rows)[:, : fitted.target_width]
