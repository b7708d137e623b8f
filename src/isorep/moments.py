r"""Second moments of paired rows, which add over blocks: every aligner but ICA is fitted from them.

For rows :math:`(x_i, y_i)` they are :math:`n`, the means, and the *centred* co-moments
:math:`\sum (x_i-\bar x)(x_i-\bar x)^\top`, :math:`\sum (x_i-\bar x)(y_i-\bar y)^\top` and
:math:`\sum (y_i-\bar y)(y_i-\bar y)^\top`.
They add over row blocks and over folds (Chan, Golub & LeVeque 1983), so one pass gives the moments of every fold,
and leaving a fold out merges the others instead of refitting. Centred sums do not cancel when means are large.

Joint second moments of many runs: one pass over the rows serves all pairs.

For runs :math:`X_1,\dots,X_R` they are the centred co-moments
:math:`C_{ij}=\sum_t(x_{it}-\bar x_i)(x_{jt}-\bar x_j)^\top` with :math:`i\le j`. They add like the moments of a pair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar

import numpy as np

from .chunked import pass_over
from .errors import InputError
from .representation import Array, Matrix
from .rows import block_rows, blocks, in_chunks, read_rows, refuse_non_finite
from .storage.scratch import memory_size
from .threads import Crew


@dataclass(eq=False, repr=False)
class Moments:
    """Second moments of paired rows, in float64.

    Parameters
    ----------
    n : int
        Number of rows.
    source_mean, target_mean : (d_x,) and (d_y,) arrays
    xx, xy, yy : (d_x, d_x), (d_x, d_y), (d_y, d_y) arrays
        Centred co-moments: sums over rows, not divided by ``n``.
    """

    n: int
    source_mean: Array
    target_mean: Array
    xx: Array
    xy: Array
    yy: Array

    def __repr__(self) -> str:
        return f"Moments({self.n} rows, {len(self.source_mean)} and {len(self.target_mean)} columns)"

    @classmethod
    def empty(cls, d_x: int, d_y: int) -> Moments:
        """The moments of no rows: the neutral element of addition."""
        return cls(0, np.zeros(d_x), np.zeros(d_y), np.zeros((d_x, d_x)), np.zeros((d_x, d_y)), np.zeros((d_y, d_y)))

    def blank(self) -> Moments:
        """The moments of no rows, of the same widths."""
        return Moments.empty(len(self.source_mean), len(self.target_mean))

    @classmethod
    def from_rows(cls, x: Matrix, y: Matrix) -> Moments:
        """One pass over paired rows."""
        for values in (x, y):
            if len(getattr(values, "shape", ())) != 2 or values.shape[0] != x.shape[0]:
                raise InputError("moments are taken of two arrays with rows and columns, and as many rows in both")
        return fold_moments(x, y, np.zeros(x.shape[0], dtype=np.intp), 1)[0]

    def __add__(self, other: Moments) -> Moments:
        total = self.blank()
        total.absorb(self)
        total.absorb(other)
        return total

    def absorb(self, other: Moments) -> None:
        """Add other rows' moments to these, in place."""
        if other.n == 0:
            return
        n = self.n + other.n
        dx, dy = other.source_mean - self.source_mean, other.target_mean - self.target_mean
        weight = self.n * other.n / n
        for mine, theirs, left, right in (
            (self.xx, other.xx, dx, dx),
            (self.xy, other.xy, dx, dy),
            (self.yy, other.yy, dy, dy),
        ):
            mine += theirs
            if self.n:
                mine += np.multiply.outer(weight * left, right)
        self.source_mean = self.source_mean + dx * (other.n / n)
        self.target_mean = self.target_mean + dy * (other.n / n)
        self.n = n

    def absorb_rows(self, x: Array, y: Array) -> None:
        """Add paired rows to these moments, in place."""
        m, n = len(x), self.n
        (x_mean, x_rows), (y_mean, y_rows) = (
            about_own_mean(rows, mean, n) for rows, mean in ((x, self.source_mean), (y, self.target_mean))
        )
        with np.errstate(over="ignore", invalid="ignore"):
            self.xx += x_rows.T @ x_rows
            self.xy += x_rows.T @ y_rows
            self.yy += y_rows.T @ y_rows
            self.source_mean = self.source_mean + (x_mean - self.source_mean) * (m / (n + m))
            self.target_mean = self.target_mean + (y_mean - self.target_mean) * (m / (n + m))
        self.n = n + m

    @property
    def offset(self) -> float:
        """The distance of the two means."""
        return distance_of_means(self.source_mean, self.target_mean)

    def swapped(self) -> Moments:
        """The same rows with source and target exchanged; nothing is copied."""
        return Moments(self.n, self.target_mean, self.source_mean, self.yy, self.xy.T, self.xx)


def distance_of_means(source: Array, target: Array) -> float:
    """The distance of two means, the narrower one padded with zeros."""
    return float(np.linalg.norm(gap_of_means(source, target)))


def gap_of_means(source: Array, target: Array) -> Array:
    """Source minus target, the narrower one padded with zeros."""
    apart = np.zeros(max(len(source), len(target)))
    apart[: len(source)] += source
    apart[: len(target)] -= target
    return apart


def fold_moments(
    x: Matrix,
    y: Matrix,
    folds: Array,
    n_folds: int,
    *,
    names: tuple[str, str] = ("source", "target"),
    progress: Callable[[int, int], None] | None = None,
) -> list[Moments]:
    """The moments of every fold, in one pass over the rows.

    ``folds`` holds the fold of each row. Non-finite values are refused with their number and first place.
    """
    n = x.shape[0]
    if progress:
        progress(0, n)
    away = in_chunks(x, y)
    if away is None:
        totals = _fold_sums(x, y, folds, n_folds, progress)
    else:
        function = partial(_chunk_sums, n_folds=n_folds)
        *_, totals = pass_over(function, away, [folds], merge=_merged_folds)
        if progress:
            progress(n, n)
    for total in totals:
        require_finite(total, (x, y), names)
    return totals


def _fold_sums(
    x: Matrix, y: Matrix, folds: Array, n_folds: int, progress: Callable[[int, int], None] | None = None
) -> list[Moments]:
    """The moments of every fold, without a check for finite values."""
    d_x, d_y, n = x.shape[1], y.shape[1], x.shape[0]
    totals = [Moments.empty(d_x, d_y) for _ in range(n_folds)]
    with Crew() if n_folds > 1 else nullcontext() as crew:  # threads share folds, or else a product
        for rows in blocks(n, block_rows(d_x, d_y)):
            x_block, y_block, here = read_rows(x, rows), read_rows(y, rows), folds[rows]
            if crew is None:
                totals[0].absorb_rows(x_block, y_block)
            else:
                absorb = partial(_absorb_fold, totals, x_block, y_block, here)
                deque(crew.stream(absorb, np.unique(here).tolist()), maxlen=0)
            if progress:
                progress(rows.stop, n)
    return totals


def _absorb_fold(totals: Sequence[Moments], x: Array, y: Array, here: Array, fold: int) -> None:
    mine = here == fold
    totals[fold].absorb_rows(x[mine], y[mine])


def _chunk_sums(start: int, x: Array, y: Array, folds: Array, *, n_folds: int) -> tuple[None, list[Moments]]:
    return None, _fold_sums(x, y, folds, n_folds)


def _merged_folds(parts: list[list[Sums]]) -> list[Sums]:
    """Fold by fold, the moments of several chunks together."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [merged(each) for each in zip(*parts, strict=True)]


def moments_alone(x: Matrix, name: str = "X") -> Moments:
    """The moments of one side, as source of an empty target; one pass, one thread per core.

    Non-finite values are refused with their number and first place.
    """
    n, d = x.shape
    away = in_chunks(x)
    if away is not None:
        found: list[Moments]
        *_, found = pass_over(_chunk_alone, away, merge=_merged_folds)
        require_finite(found[0], (x, x), (name, name))
        return found[0]

    def block_moments(rows: slice) -> Moments:
        block = Moments.empty(d, 0)
        values = read_rows(x, rows)
        block.absorb_rows(values, values[:, :0])
        return block

    total = Moments.empty(d, 0)
    with Crew() as crew:
        for block in crew.stream(block_moments, blocks(n, block_rows(d))):
            total.absorb(block)
    require_finite(total, (x, x), (name, name))
    return total


def _chunk_alone(start: int, x: Array) -> tuple[None, list[Moments]]:
    return None, _fold_sums(x, x[:, :0], np.zeros(len(x), dtype=np.intp), 1)


def require_memory(d_x: int, d_y: int, n_folds: int) -> None:
    """Refuse widths whose moments, for every fold and without every fold, exceed this machine's memory."""
    needed = 2.0 * (n_folds + 1) * 8 * (d_x * d_x + d_x * d_y + d_y * d_y)
    there = memory_size()
    if there and needed > there:
        raise InputError(
            f"{d_x} and {d_y} columns need about {needed / 2**30:.0f} GiB for second moments and this machine has "
            f"{there / 2**30:.0f} GiB: reduce the width first, for example by PCA"
        )


class Additive(Protocol):
    """Moments of any kind: they add in place, from nothing."""

    def blank(self) -> Self: ...  # noqa: D102
    def absorb(self, other: Self, /) -> None: ...  # noqa: D102


Sums = TypeVar("Sums", bound=Additive)


def leave_one_out(folds: Sequence[Sums]) -> list[Sums]:
    """For each fold the moments of all the others."""
    return [merged_without(folds, left_out) for left_out in range(len(folds))]


def merged_without(folds: Sequence[Sums], left_out: int) -> Sums:
    """The moments of all folds but one."""
    return merged([*folds[:left_out], *folds[left_out + 1 :]])


def merged(folds: Sequence[Sums]) -> Sums:
    """The moments of all folds together."""
    total = folds[0].blank()
    for moments in folds:
        total.absorb(moments)
    return total


def about_own_mean(rows: Array, mean: Array, n: int) -> tuple[Array, Array]:
    """Rows about their mean, with the row that accounts for its distance from an earlier mean of ``n`` rows.

    Merging co-moments adds a multiple of the outer product of that distance; as one more row it costs no pass. The mean
    is summed about the first row: its error is then relative to the spread, and a constant column has none at all.
    """
    m = len(rows)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported with its place by require_finite
        first = rows[0].astype(np.float64)
        centred = np.empty((m + 1, rows.shape[1]))
        np.subtract(rows, first, out=centred[:m])
        shift = centred[:m].mean(axis=0)
        centred[:m] -= shift
        own = first + shift
        centred[m] = np.sqrt(n * m / (n + m)) * (own - mean)
    return own, centred


def require_finite(total: Moments, pair: tuple[Matrix, Matrix], names: tuple[str, str]) -> None:
    """Refuse rows whose moments are not finite, with the number and first place of what is not."""
    for values, name, mean, squares in (
        (pair[0], names[0], total.source_mean, total.xx),
        (pair[1], names[1], total.target_mean, total.yy),
    ):
        if not (np.isfinite(mean).all() and np.isfinite(np.diagonal(squares)).all()):
            refuse_non_finite(values, name)
            raise InputError(f"{name} holds values so large that their squares overflow: rescale it")


@dataclass(eq=False)
class JointMoments:
    """Centred co-moments of the same rows in many runs, in float64.

    Parameters
    ----------
    n : int
        Number of rows.
    edges : tuple of int
        Run ``i`` has the columns from ``edges[i]`` to ``edges[i + 1]``.
    mean : (D,) array
        Means of all runs, concatenated.
    strips : list of arrays
        Strip ``i`` holds the products of run ``i`` with runs ``i``, ``i + 1``, ...: nothing is held twice. There may be
        fewer strips than runs: then the last runs are only multiplied with the first ones.
    """

    n: int
    edges: tuple[int, ...]
    mean: Array
    strips: list[Array]

    @classmethod
    def empty(cls, edges: tuple[int, ...], strips: int) -> JointMoments:
        """The moments of no rows."""
        width = edges[-1]
        sums = [np.zeros((edges[i + 1] - edges[i], width - edges[i])) for i in range(strips)]
        return cls(0, edges, np.zeros(width), sums)

    def blank(self) -> JointMoments:
        """The moments of no rows, of the same widths."""
        return JointMoments.empty(self.edges, len(self.strips))

    def absorb(self, other: JointMoments) -> None:
        """Add other rows' moments to these, in place."""
        if other.n == 0:
            return
        n = self.n + other.n
        apart = other.mean - self.mean
        weight = self.n * other.n / n
        for i, (mine, theirs) in enumerate(zip(self.strips, other.strips, strict=True)):
            mine += theirs
            if self.n:
                mine += np.multiply.outer(weight * apart[self.columns(i)], apart[self.edges[i] :])
        self.mean = self.mean + apart * (other.n / n)
        self.n = n

    def columns(self, run: int) -> slice:
        """Where the columns of a run lie."""
        return slice(self.edges[run], self.edges[run + 1])

    def block(self, i: int, j: int) -> Array:
        """The co-moments of runs ``i`` and ``j``; a view."""
        if i > j:
            return self.block(j, i).T
        start = self.edges[i]
        return self.strips[i][:, self.edges[j] - start : self.edges[j + 1] - start]

    def spread(self, run: int) -> Array:
        """The sums of squares of a run's columns."""
        return np.diagonal(self.block(run, run))

    def pair(self, i: int, j: int) -> Moments:
        """The moments of one pair of runs; nothing is copied."""
        here, there = (self.mean[self.columns(run)] for run in (i, j))
        return Moments(self.n, here, there, self.block(i, i), self.block(i, j), self.block(j, j))

    def towards(self, run: int, targets: Sequence[int]) -> Moments:
        """The moments of a run with several concatenated others, without those of the others among themselves."""
        cross = np.concatenate([self.block(run, j) for j in targets], axis=1)
        means = np.concatenate([self.mean[self.columns(j)] for j in targets])
        return Moments(self.n, self.mean[self.columns(run)], means, self.block(run, run), cross, np.zeros((0, 0)))


def joint_moments(
    runs: Sequence[Matrix],
    folds: Array,
    n_folds: int,
    *,
    names: Sequence[str],
    strips: int | None = None,
    watch: Callable[[int, slice, Array], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[JointMoments]:
    """The joint moments of every fold, in one pass over the rows of all runs.

    With ``strips`` only the first ``strips`` runs are multiplied with all others. ``watch`` is called with every block
    of rows as it is read, with the run's number and the rows' places. Non-finite values are refused with their number
    and first place.
    """
    kept = len(runs) if strips is None else strips
    n = int(runs[0].shape[0])
    if progress:
        progress(0, n)
    away = in_chunks(*runs)
    if away is None:
        totals = _joint_sums(runs, folds, n_folds, kept, watch, progress)
    else:
        *_, totals = pass_over(partial(_chunk_joint, n_folds=n_folds, kept=kept), away, [folds], merge=_merged_folds)
        if progress:
            progress(n, n)
    for total in totals:
        for run in range(kept):
            require_finite(total.pair(run, run), (runs[run], runs[run]), (names[run], names[run]))
    return totals


def _joint_sums(
    runs: Sequence[Matrix],
    folds: Array,
    n_folds: int,
    kept: int,
    watch: Callable[[int, slice, Array], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[JointMoments]:
    """The joint moments of every fold, without a check for finite values."""
    edges = (0, *np.cumsum([int(run.shape[1]) for run in runs]).tolist())
    totals = [JointMoments.empty(edges, kept) for _ in range(n_folds)]
    n = int(runs[0].shape[0])
    with Crew() as crew:
        for rows in blocks(n, block_rows(edges[-1])):
            _absorb_block(crew, totals, runs, rows, folds[rows], watch)
            if progress:
                progress(rows.stop, n)
    return totals


def _chunk_joint(start: int, *chunks: Array, n_folds: int, kept: int) -> tuple[None, list[JointMoments]]:
    *runs, folds = chunks
    return None, _joint_sums(runs, folds, n_folds, kept)


def _absorb_block(
    crew: Crew,
    totals: list[JointMoments],
    runs: Sequence[Matrix],
    rows: slice,
    folds: Array,
    watch: Callable[[int, slice, Array], None] | None,
) -> None:
    """Add a block of rows: first each run is centred, then each strip multiplied, one task per run in both."""
    parts = {int(fold): np.flatnonzero(folds == fold) for fold in np.unique(folds)}
    every = totals[0].edges[-1]
    centred = {fold: np.empty((len(mine) + 1, every)) for fold, mine in parts.items()}
    means = {fold: np.empty(every) for fold in parts}

    def centre(place: slice) -> None:
        columns = totals[0].columns(place.start)
        values = read_rows(runs[place.start], rows)
        if watch is not None:
            watch(place.start, rows, values)
        for fold, mine in parts.items():
            total = totals[fold]
            means[fold][columns], centred[fold][:, columns] = about_own_mean(values[mine], total.mean[columns], total.n)

    def multiply(place: slice) -> None:
        i = place.start
        columns = totals[0].columns(i)
        width = columns.stop - columns.start
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported with its place in the end
            for fold, values in centred.items():
                left = values[:, columns]
                strip = totals[fold].strips[i]
                strip[:, :width] += left.T @ left  # apart from the rest: a symmetric product takes half the work
                strip[:, width:] += left.T @ values[:, columns.stop :]

    for task, count in ((centre, len(runs)), (multiply, len(totals[0].strips))):
        for _ in crew.stream(task, blocks(count, 1)):
            pass
    for fold, mine in parts.items():
        total = totals[fold]
        with np.errstate(over="ignore", invalid="ignore"):
            total.mean = total.mean + (means[fold] - total.mean) * (len(mine) / (total.n + len(mine)))
        total.n += len(mine)


def require_joint_memory(widths: Sequence[int], n_folds: int) -> None:
    """Refuse widths whose moments, for every fold and without every fold, exceed this machine's memory."""
    total = float(sum(widths))
    needed = (2 * n_folds + 1) * 8 * (total**2 + sum(float(width) ** 2 for width in widths)) / 2
    there = memory_size()
    if there and needed > there:
        raise InputError(
            f"{len(widths)} runs with {int(total)} columns together need about {needed / 2**30:.0f} GiB for second "
            f"moments and this machine has {there / 2**30:.0f} GiB: compare fewer runs at a time, or reduce their "
            "width first, for example by PCA"
        )
