"""Which rows test, which choose and which fit: one code a row, so that one pass of moments serves every question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..moments import Moments, merged
from ..representation import Array
from ..resampling import assign_folds

_MOST_SHELLS = 8
_LEAST_ROWS = 8  # of the smallest training set that a learning curve shows


@dataclass(frozen=True, eq=False)
class Split:
    """Rows by code. The last code is the test fold; the codes before it, added from the left, are training sets.

    The first selection fold is cut into shells of doubling size, codes 0 to ``n_shells - 1``; each further selection
    fold is one code. Every prefix of the codes is a training set, and the selection folds are sums of codes, too.
    """

    codes: Array
    n_shells: int
    n_codes: int

    @property
    def test_rows(self) -> Array:
        """The rows that nothing is fitted to or chosen by, in order."""
        return np.flatnonzero(self.codes == self.n_codes - 1)

    def selection_folds(self, moments: list[Moments]) -> list[Moments]:
        """The folds that strengths, ranks and the kind of map are chosen on."""
        return [merged(moments[: self.n_shells]), *moments[self.n_shells : -1]]


def split_rows(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Split:
    """A test fold, the other folds for selection, and shells of doubling size inside the first of these.

    Groups are kept whole.
    """
    if n_folds < 3:
        raise InputError(f"folds is {n_folds}: one tests and at least two choose, so 3 are needed")
    folds = assign_folds(n, n_folds, groups, rng)
    first = np.flatnonzero(folds == 0)
    shell_of = _shells(len(first), None if groups is None else groups[first], rng)
    n_shells = int(shell_of.max()) + 1
    codes = folds + n_shells - 1
    codes[first] = shell_of
    return Split(codes, n_shells, n_shells + n_folds - 1)


def _shells(m: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The shell of each of ``m`` rows: the first ends where a row in 2^k does, each further one doubles what is there.

    A group lies in the shell that its first row falls into.
    """
    doublings = int(np.clip(np.log2(max(m / _LEAST_ROWS, 1)), 0, _MOST_SHELLS - 1))
    ends = m / 2.0 ** np.arange(doublings, -1, -1)
    if groups is None:
        place = np.empty(m)
        place[rng.permutation(m)] = np.arange(m)
    else:
        units, unit_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        order = rng.permutation(len(units))
        starts = np.empty(len(units))
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        place = starts[unit_of]
    shells = np.searchsorted(ends, place, side="right")
    return np.unique(shells, return_inverse=True)[1]  # a large group may leave a shell empty
