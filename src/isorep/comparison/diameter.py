"""Diameter of a set of rows: exact where affordable, otherwise bounded from both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix, as_representation
from ..rows import HeldRows, block_rows, in_chunks, map_blocks, map_rows, read_rows, refuse_non_finite
from ..settings import check_choice

SEARCHES = ("auto", "exact", "bound")
BUDGET = 5e11  # floating-point operations that an exact search may take by default: some seconds on two cores
_TILE = 1024
_HELD_BYTES = 512 * 2**20
_STARTS = 32
_ROUNDS = 6
_REFINED = 2**16


@dataclass(frozen=True)
class Diameter:
    """The largest distance between two rows; to float32 rounding where very many pairs tie.

    ``value`` is the unit of normalised errors: the diameter itself where ``exact``, otherwise ``lower``, the largest
    distance that was found, so that errors are overstated rather than understated.
    """

    value: float
    lower: float
    upper: float
    exact: bool
    rows: tuple[int, int]


def diameter(values: Any, *, search: str = "auto", progress: Callable[[int, int], None] | None = None) -> Diameter:
    r"""The diameter :math:`\Delta=\max_{ij}\|y_i-y_j\|` of the rows.

    Only rows far from the mean :math:`c` matter: a pair cannot exceed a known distance :math:`L` unless
    :math:`\|y_i-c\|+\|y_j-c\|>L`. Rows are sorted by that norm, a good :math:`L` is found by walking from
    farthest row to farthest row, and the remaining candidates are searched in tiles, in bounded memory.

    Parameters
    ----------
    values : (n, d) array, Representation, memory map or Dask array
        The rows.
    search : {"auto", "exact", "bound"}
        ``"exact"`` always finishes the search, ``"bound"`` never starts it, ``"auto"`` searches only when fast.
    progress : callable, optional
        Called with the number of finished tiles and the total.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> isorep.diameter(np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])).value
    5.0
    """
    check_choice("search", search, SEARCHES)
    matrix = as_representation(values, "values").values
    return find_diameter(matrix, *_centre_and_size(matrix), search, progress)


def find_diameter(
    matrix: Matrix, centre: Array, size: float, search: str, progress: Callable[[int, int], None] | None = None
) -> Diameter:
    """The diameter of rows whose mean and size (their spread, or largest entry) are known."""
    cloud = _Cloud(matrix, centre, size)
    longest, pair = cloud.walk()
    norms = cloud.norms[cloud.order]
    upper = float(norms[0] + norms[min(1, len(norms) - 1)])
    candidates = _count_candidates(norms, longest)
    work = _tile_work(norms[:candidates], longest) * 2.0 * matrix.shape[1]
    if search == "bound" or (search == "auto" and work > BUDGET):
        exact = upper <= longest * (1 + 1e-12)
        return Diameter(longest, longest, max(longest, upper), exact, pair)
    longest, pair = cloud.search(candidates, longest, pair, progress)
    return Diameter(longest, longest, longest, True, pair)


class _Shift:
    """Rows about a centre, in the dtype of the centre."""

    def __init__(self, centre: Array) -> None:
        self._centre = centre

    def __call__(self, rows: Array) -> Array:
        return np.asarray(np.subtract(rows, self._centre, dtype=self._centre.dtype))


class _Cloud:
    """Rows about their mean, with their norms."""

    def __init__(self, values: Matrix, centre: Array, size: float) -> None:
        self.values = values
        n, d = values.shape
        self.size = block_rows(d)
        if not (size == 0 or 1e-140 < size < 1e140):
            raise InputError(f"the values are of size {size:.0e}: rescale them, their squares leave float64")
        # float32 tiles are twice as fast; pairs near the maximum are measured again in float64.
        wide = values.dtype.itemsize >= 8 or not 1e-12 < size < 1e12
        self.work: Any = np.float64 if wide and (float(n) * n * d < 1e10 or values.dtype.itemsize < 8) else np.float32
        # Any centre will do: one that float32 represents lets float32 rows be shifted as they are.
        self.centre = centre.astype(np.float64 if wide else np.float32)
        shift = _Shift(self.centre)
        self.norms = np.concatenate(map_rows(lambda start, rows: _norms(shift(rows)), [values], self.size))
        self.order = np.argsort(-self.norms, kind="stable")
        self.unit = float(self.norms[self.order[0]]) or 1.0
        self.slack = 1e-5 if self.work == np.float32 else 1e-12
        self.lock = Lock()

    def _centred(self, rows: slice | Array) -> Array:
        """Rows about the centre, in the dtype of the centre."""
        return _Shift(self.centre)(read_rows(self.values, rows))

    def distances(self, left: Array, right: Array) -> Array:
        """Distances between rows given by index, pair by pair, in float64."""
        pair = (read_rows(self.values, rows).astype(np.float64) for rows in (left, right))
        return _norms(next(pair) - next(pair))

    def walk(self) -> tuple[float, tuple[int, int]]:
        """A large distance: from the outermost rows to their farthest rows, and from there again."""
        best, pair = 0.0, (0, 0)
        seen: set[int] = set()
        starts = self.order[:_STARTS]
        for _ in range(_ROUNDS):
            starts = np.array([row for row in starts.tolist() if row not in seen], dtype=np.intp)
            if len(starts) == 0:
                break
            seen.update(starts.tolist())
            farthest = self._farthest(starts)
            lengths = self.distances(starts, farthest)
            longest = int(np.argmax(lengths))
            if lengths[longest] <= best:
                break
            best = float(lengths[longest])
            low, high = sorted((int(starts[longest]), int(farthest[longest])))
            pair = (low, high)
            starts = farthest[np.argsort(-lengths, kind="stable")]
            starts = starts[np.sort(np.unique(starts, return_index=True)[1])]
        return best, pair

    def _farthest(self, starts: Array) -> Array:
        points, shift, unit = (self._centred(starts) / self.unit).astype(self.work), _Shift(self.centre), self.unit

        def scan(start: int, rows: Array) -> tuple[Array, Array]:
            # Squared distances but for the start's own norm, which does not change the farthest row.
            centred = shift(rows)
            squares = (_norms(centred) ** 2 / unit)[:, None] - 2 * (centred @ points.T)
            where = np.argmax(squares, axis=0)
            return squares[where, np.arange(len(where))], where + start

        parts = map_rows(scan, [self.values], self.size)
        squares = np.stack([part[0] for part in parts])
        places = np.stack([part[1] for part in parts])
        return np.asarray(places[np.argmax(squares, axis=0), np.arange(len(starts))])

    def _augmented(self, rows: slice | Array, *, left: bool) -> Array:
        """Rows whose products, left with right, are squared distances in units of the largest norm."""
        centred = self._centred(rows) / self.unit
        d = centred.shape[1]
        result = np.empty((len(centred), d + 2), self.work)
        squares = np.einsum("ij,ij->i", centred, centred)
        result[:, :d] = -2 * centred if left else centred
        result[:, d] = squares if left else 1
        result[:, d + 1] = 1 if left else squares
        return result

    def search(
        self, candidates: int, best: float, pair: tuple[int, int], progress: Callable[[int, int], None] | None
    ) -> tuple[float, tuple[int, int]]:
        """Search all pairs of candidates that can beat ``best``."""
        rows = self.order[:candidates]
        norms = self.norms[rows]
        tiles = -(-candidates // _TILE)
        width = self.values.shape[1] + 2
        held = None
        if candidates * width * np.dtype(self.work).itemsize <= _HELD_BYTES:
            if in_chunks(self.values) is not None:  # brought here once
                self.values = HeldRows(self.values, rows)
            held = self._augmented(rows, left=False)
        state: dict[str, Any] = {"best": best, "pair": pair}

        def right_tile(tile: int) -> Array:
            span = slice(tile * _TILE, (tile + 1) * _TILE)
            return self._augmented(rows[span], left=False) if held is None else held[span]

        def search_row(row: slice) -> None:
            i = row.start
            left = self._augmented(rows[i * _TILE : (i + 1) * _TILE], left=True)
            for j in range(i, tiles):
                if norms[i * _TILE] + norms[j * _TILE] <= state["best"]:
                    break  # norms fall: no later tile can do better
                squares = left @ right_tile(j).T
                threshold = (state["best"] / self.unit) ** 2 * (1 - self.slack)
                if squares.max() > threshold:
                    self._refine(squares, threshold, rows[i * _TILE :], rows[j * _TILE :], state)

        map_blocks(search_row, tiles, 1, progress=progress)
        return state["best"], state["pair"]

    def _refine(self, squares: Array, threshold: float, left: Array, right: Array, state: dict[str, Any]) -> None:
        near = np.flatnonzero(squares > max(threshold, float(squares.max()) * (1 - self.slack)))
        if len(near) > _REFINED:  # with so many ties the longest in the working dtype suffice
            near = near[np.argpartition(-squares.ravel()[near], _REFINED)[:_REFINED]]
        i, j = np.unravel_index(near, squares.shape)
        lengths = self.distances(left[i], right[j])
        longest = int(np.argmax(lengths))
        with self.lock:
            if lengths[longest] > state["best"]:
                low, high = sorted((int(left[i[longest]]), int(right[j[longest]])))
                state["best"], state["pair"] = float(lengths[longest]), (low, high)


def _centre_and_size(values: Matrix) -> tuple[Array, float]:
    """The mean of the rows and their largest entry."""

    def measure(start: int, block: Array) -> tuple[Array, float]:
        with np.errstate(over="ignore", invalid="ignore"):
            return block.sum(axis=0, dtype=np.float64), float(max(block.max(), -block.min()))

    n, d = values.shape
    sums, largest = zip(*map_rows(measure, [values], block_rows(d)), strict=True)
    if not np.isfinite(sums).all():
        refuse_non_finite(values, "the array")
    return np.sum(sums, axis=0) / n, max(largest)


def _norms(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)), dtype=np.float64)


def _count_candidates(norms: Array, best: float) -> int:
    """How many of the falling norms can take part in a pair longer than ``best``."""
    return int(np.searchsorted(-norms, norms[0] - best, side="left")) if len(norms) else 0


def _tile_work(norms: Array, best: float) -> float:
    """Number of pairs in the tiles that the search would visit."""
    if len(norms) == 0:
        return 0.0
    partners = np.searchsorted(-norms, norms[::_TILE] - best, side="left")
    own = np.arange(len(partners)) * _TILE
    return float(np.maximum(partners - own, 0).sum()) * _TILE
