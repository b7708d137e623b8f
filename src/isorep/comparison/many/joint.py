r"""The second moments of many runs side by side: one pass over the rows serves all pairs.

For runs :math:`X_1,\dots,X_R` they are the centred co-moments
:math:`C_{ij}=\sum_t(x_{it}-\bar x_i)(x_{jt}-\bar x_j)^\top` with :math:`i\le j`. They add like the moments of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ...moments import Moments, about_own_mean, require_finite
from ...representation import Array, Matrix
from ...rows import Crew, block_rows, blocks, read_rows
from ...storage.scratch import memory_size


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
        Of all runs, side by side.
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
        """The moments of a run with several others side by side, without those of the others among themselves."""
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

    With ``strips`` only the first so many runs are multiplied with all others. ``watch`` is shown every block of rows
    as it is read, with the run's number and the rows' places. Non-finite values are refused with their number and
    first place.
    """
    edges = (0, *np.cumsum([int(run.shape[1]) for run in runs]).tolist())
    kept = len(runs) if strips is None else strips
    totals = [JointMoments.empty(edges, kept) for _ in range(n_folds)]
    n = int(runs[0].shape[0])
    with Crew() as crew:
        for rows in blocks(n, block_rows(edges[-1])):
            _absorb_block(crew, totals, runs, rows, folds[rows], watch)
            if progress:
                progress(rows.stop, n)
    for total in totals:
        for place in range(kept):
            require_finite(total.pair(place, place), (runs[place], runs[place]), (names[place], names[place]))
    return totals


def _absorb_block(
    crew: Crew,
    totals: list[JointMoments],
    runs: Sequence[Matrix],
    rows: slice,
    folds: Array,
    watch: Callable[[int, slice, Array], None] | None,
) -> None:
    """Add a block of rows: first each run is centred, then each strip multiplied, one task a run in both."""
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
