"""Moments of paired rows by code, and the split of rows into testing, selection and fitting that codes stand for.

One code per row, so that one pass of moments serves all steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..covariance import Factor, factor_covariance, left_out_sentence
from ..errors import InputError
from ..moments import Moments, fold_moments, merged, require_memory
from ..pairs import Pair, Side, describe_side, rms_radius
from ..representation import Array, Matrix, rounding_of
from ..resampling import assign_folds
from ..rows import Progress, map_blocks
from .maps import Training, drop_columns

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
        """The test rows, used for neither fitting nor selection, in order."""
        return np.flatnonzero(self.codes == self.n_codes - 1)

    def selection_folds(self, moments: list[Moments]) -> list[Moments]:
        """The folds that strengths, ranks and the kind of map are chosen on."""
        return [merged(moments[: self.n_shells]), *moments[self.n_shells : -1]]


def split_rows(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Split:
    """A test fold, the other folds for selection, and shells of doubling size inside the first of these.

    Groups are kept whole.
    """
    folds = assign_folds(n, n_folds, groups, rng)
    first = np.flatnonzero(folds == 0)
    shell_of = _shells(np.arange(len(first)) if groups is None else groups[first], rng)
    n_shells = int(shell_of.max()) + 1
    codes = folds + n_shells - 1
    codes[first] = shell_of
    return Split(codes, n_shells, n_shells + n_folds - 1)


def _shells(groups: Array, rng: np.random.Generator) -> Array:
    """The shell of each row: the first has one row in 2^k, and each further shell doubles the total.

    A group lies in the shell that its first row falls into.
    """
    m = len(groups)
    doublings = int(np.clip(np.log2(max(m / _LEAST_ROWS, 1)), 0, _MOST_SHELLS - 1))
    ends = m / 2.0 ** np.arange(doublings, -1, -1)
    units, unit_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(units))
    starts = np.empty(len(units))
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    shells = np.searchsorted(ends, starts[unit_of], side="right")
    return np.unique(shells, return_inverse=True)[1]  # a large group may leave a shell empty


@dataclass(frozen=True, eq=False)
class Sums:
    """The moments of every code, from which all maps and choices follow, and the facts about both sides.

    ``resolved`` is true if moments resolve all directions of the old side; ``left_out`` names columns that hardly vary,
    which are in ``whole`` alone: pairs that are added later may let them vary.
    """

    codes: list[Moments]
    total: Moments
    whole: Moments
    training: Training
    sides: tuple[Side, Side]
    resolved: bool
    left_out: str | None

    @property
    def radius(self) -> float:
        """RMS radius of the new vectors: the unit of errors."""
        return self.sides[1].rms_radius

    @property
    def unit(self) -> float:
        """Mean eigenvalue of the old side's co-moments: the unit of ridge strengths."""
        return float(np.trace(self.training.moments.xx)) / len(self.training.moments.xx)


def sum_rows(pair: Pair, split: Split, report: Progress) -> Sums:
    """One pass over all rows."""
    x, y, n_codes = pair.x, pair.y, split.n_codes
    require_memory(x.shape[1], y.shape[1], n_codes)
    codes = fold_moments(x, y, split.codes, n_codes, names=pair.names, progress=partial(report, "moments"))
    total = merged(codes)
    sides = ((pair.names[0], x, total), (pair.names[1], y, total.swapped()))
    (old, factor), (new, _) = map_blocks(lambda one: _side(*sides[one.start]), 2, 1)
    whole = replace(total, xx=total.xx.copy(), xy=total.xy.copy()) if factor.left_out.any() else total
    for moments in (*codes, total):
        drop_columns(moments, factor.left_out, total.source_mean)
    training = Training(merged(codes[:-1]), rounding_of(x))
    return Sums(codes, total, whole, training, (old, new), factor.resolved, left_out_sentence(factor, pair.names[0]))


def _side(name: str, values: Matrix, total: Moments) -> tuple[Side, Factor]:
    """The facts about one side, the source of the moments."""
    radius = rms_radius(name, total.n, total.source_mean, total.xx)
    size = max(radius, float(np.abs(total.source_mean).max()))
    if not 1e-36 < size < 5e37:
        raise InputError(f"the values of {name} have a size of {size:.0e}: rescale, vectors are searched in float32")
    factor = factor_covariance(total.xx, total.n, total.source_mean, rounding_of(values))
    return describe_side(name, values, factor, radius), factor
