"""Mutual nearest neighbours (mutual kNN), in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..representation import Array, Matrix
from ..rows import block_rows, blocks, equal_rows, map_blocks, read_rows, select
from ..settings import check_choice, check_counts
from .frames import Pair, Side, paired
from .null import Draws, PreparedIndex, Similarity, finished

METRICS = ("cosine", "euclidean", "inner_product")
_TILE_CELLS = 2**24  # scores of a tile of queries with the whole corpus: 64 MB in float32
_STRIDES = 64  # scores that share a maximum
_PLAIN, _FAR = 30, 1e15  # power of two beyond which rows are scaled, and multiple of it beyond which none lies
_TIES = 0  # seed of the order in which copies count as near, where the two sides need orders of their own


def mutual_knn(
    X: Any,
    Y: Any,
    *,
    k: int = 10,
    metric: str = "cosine",
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Mutual kNN: the mean share of a row's ``k`` nearest neighbours that are the same on both sides.

    .. math:: \frac1n\sum_i\frac{|N^X_k(i)\cap N^Y_k(i)|}{k}

    with the row itself left out. The null is exact and needs no search: shuffling renames neighbours.

    Copies of a row are equally near. If the same rows are copies on both sides, ties are broken by row order; otherwise
    those of ``Y`` are broken at random, so that the order alone produces no agreement.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows.
    k : int
        Number of neighbours per row; default 10.
    metric : {"cosine", "euclidean", "inner_product"}
        Metric of the neighbours; default ``"cosine"``, as in Huh et al. (2024).
    permutations, groups, within, random_state
        As for :func:`cca`.

    References
    ----------
    .. [1] Huh, M., Cheung, B., Wang, T., Isola, P. (2024). The Platonic representation hypothesis. ICML.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> isorep.similarity.mutual_knn(X, 2 * X).value
    1.0
    """
    pair = paired(X, Y, moments=False)

    def prepare(each: Pair) -> PreparedIndex:
        return prepare_mutual_knn(each, k=k if each is pair else min(k, each.n - 1), metric=metric)

    return finished(pair, prepare, permutations, groups, within, random_state)


def prepare_mutual_knn(pair: Pair, *, k: int = 10, metric: str = "cosine") -> PreparedIndex:
    """Mutual nearest neighbours of a pair."""
    check_choice("metric", metric, METRICS)
    check_counts(k=(k, 1, pair.n - 1))
    near = [
        _neighbours(pair.x, int(k), metric, None),
        _neighbours(pair.y, int(k), metric, None if _same_copies(pair) else _TIES),
    ]

    def draw(partners: Array) -> float:
        return _shared(partners[near[0]], near[1][partners])  # rows change their names

    draws = pair.once(("knn", k, metric), lambda: Draws(draw, "neighbours renamed per permutation"))
    return PreparedIndex("mutual_knn", _shared(*near), {"k": int(k), "metric": metric}, lambda uniform: draws, float)


def nearest(
    queries: Matrix,
    corpus: Matrix,
    k: int,
    *,
    metric: str = "cosine",
    itself: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Array:
    """For each query the ``k`` nearest rows of a corpus, nearest first: an (n, k) array of row numbers.

    The largest of all scores are among those groups of scores whose maxima are largest, so a pass of maxima over the
    scores leaves a few hundred candidates per row. With ``itself=False`` queries are the corpus, and a row is not its
    own neighbour.
    """
    check_choice("metric", metric, METRICS)
    held, mean, scale, offsets = _ready(corpus, metric)
    n, m = int(queries.shape[0]), len(held)
    size = int(np.clip(_TILE_CELLS // m, 16, 2048))
    neighbours = np.empty((n, k), dtype=np.intp)

    def search(rows: slice) -> None:
        mine = _brought(read_rows(queries, rows), mean, scale, metric, held.dtype) if itself else held[rows]
        scores = mine @ held.T
        if offsets is not None:
            scores -= offsets
        if not itself:
            scores[np.arange(len(mine)), np.arange(rows.start, rows.stop)] = -np.inf
        neighbours[rows] = _largest(scores, k)

    map_blocks(search, n, size, progress=progress)
    return neighbours


def _largest(scores: Array, k: int) -> Array:
    """The places of the ``k`` largest scores of each row, largest first."""
    rows, m = scores.shape
    groups = m // _STRIDES
    if groups < 4 * k:
        return _sorted(scores, np.argpartition(-scores, k - 1, axis=1)[:, :k])
    whole = groups * _STRIDES
    maxima = scores[:, :whole].reshape(rows, _STRIDES, groups).max(axis=1)
    chosen = np.argpartition(-maxima, k - 1, axis=1)[:, :k]
    columns = (chosen[:, :, None] + groups * np.arange(_STRIDES)).reshape(rows, -1)
    rest = np.broadcast_to(np.arange(whole, m), (rows, m - whole))
    columns = np.concatenate([columns, rest], axis=1)
    candidates = np.take_along_axis(scores, columns, axis=1)
    best = np.argpartition(-candidates, k - 1, axis=1)[:, :k]
    return _sorted(scores, np.take_along_axis(columns, best, axis=1))


def _sorted(scores: Array, columns: Array) -> Array:
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(columns, order, axis=1))


def _ready(corpus: Matrix, metric: str) -> tuple[Array, Array, float, Array | None]:
    """The corpus in memory, its shift and scale, and what to subtract from scores: half a squared norm for distances.

    Ranks change with neither shift nor scale. A scale other than 1 is taken only where squares would leave float32.
    """
    n, d = corpus.shape
    held = np.empty((n, d), np.float64 if np.dtype(corpus.dtype).itemsize >= 8 and n * d <= 2**24 else np.float32)
    mean, scale = np.zeros(d), 1.0
    if metric != "cosine":
        few = np.asarray(corpus[: min(n, 4096)], np.float64)
        if metric == "euclidean":  # distances do not change, and large means no longer cost digits
            mean = few.mean(axis=0)
        middle = float(np.median(np.abs(few - mean).max(axis=1)))
        exponent = int(np.frexp(middle)[1]) if middle > 0 else 0
        scale = float(np.exp2(np.clip(-exponent, -1000, 1000))) if abs(exponent) > _PLAIN else 1.0

    def fill(rows: slice) -> None:
        held[rows] = _brought(read_rows(corpus, rows), mean, scale, metric, held.dtype)

    map_blocks(fill, n, block_rows(d, cells=2**20))
    return held, mean, scale, np.einsum("ij,ij->i", held, held) / 2 if metric == "euclidean" else None


def _brought(rows: Array, mean: Array, scale: float, metric: str, dtype: Any) -> Array:
    """Rows as scores take them; what lies extremely far out stays far, and its square stays finite."""
    values = _unit(np.asarray(rows, np.float64) - mean, metric)
    if metric != "cosine":
        most = _FAR if dtype == np.float32 else _FAR**8
        values = np.clip(values if scale == 1.0 else values * scale, -most, most)
    return np.asarray(values, dtype)


def _unit(rows: Array, metric: str) -> Array:
    if metric != "cosine":
        return rows
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.where(norms > 0, norms, 1)[:, None])


def _neighbours(side: Side, k: int, metric: str, ties: int | None) -> Array:
    """The neighbours of every row; copies in the order of the rows, or in a random one with the seed ``ties``.

    Rows are searched in the order of their hashes: where two are equally near, their values decide and not their place,
    which is the same on the other side.
    """
    codes = _near_codes(side, metric)
    repeated = int(codes.max()) + 1 < side.n
    ties = ties if repeated else None

    def find() -> Array:
        first = np.unique(codes, return_index=True)[1]
        kinds = select(side.near_rows, first)
        if repeated:
            order = np.arange(side.n) if ties is None else np.random.default_rng(ties).permutation(side.n)
            near = nearest(kinds, kinds, min(k + 1, len(first)), metric=metric)
            return _with_copies(near, codes, order[np.argsort(codes[order], kind="stable")], k)
        neighbours = np.empty((side.n, k), dtype=np.intp)
        neighbours[first] = first[nearest(kinds, kinds, k, metric=metric, itself=False)]
        return neighbours

    return side.once(("neighbours", k, metric, ties), find)


def _near_codes(side: Side, metric: str) -> Array:
    """For each row a number, equal for rows that are identical under this metric."""
    if metric != "cosine":
        return side.codes
    return side.once("directions", lambda: equal_rows(_ready(side.near_rows, metric)[0]))


def _same_copies(pair: Pair) -> bool:
    """Whether rows that equal each other on one side do so on the other."""
    x, y = pair.x.codes, pair.y.codes
    joint = len(np.unique(x * (int(y.max()) + 1) + y))
    return joint == int(x.max()) + 1 == int(y.max()) + 1


def _with_copies(near: Array, codes: Array, members: Array, k: int) -> Array:
    """Neighbours of rows from those of distinct rows, each replaced by its ``members`` in order."""
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    upto = np.cumsum(sizes[near], axis=1)
    table = np.empty((len(near), k + 1), dtype=np.intp)
    for rank in range(k + 1):
        at = (upto <= rank).sum(axis=1)[:, None]
        which = np.take_along_axis(near, at, axis=1)[:, 0]
        before = np.take_along_axis(upto, at, axis=1)[:, 0] - sizes[which]
        table[:, rank] = members[starts[which] + rank - before]
    rows = table[codes]
    others = np.argsort(rows == np.arange(len(codes))[:, None], axis=1, kind="stable")[:, :k]
    return np.asarray(np.take_along_axis(rows, others, axis=1))


def _shared(left: Array, right: Array) -> float:
    """The mean share of entries that rows have in common."""
    n, k = left.shape
    size = max(1, 2**22 // (k * k))
    total = 0
    for some in blocks(n, size):
        total += int((left[some, :, None] == right[some, None, :]).sum())
    return float(total / (n * k))
