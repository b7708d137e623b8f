"""Moments of paired rows by code, and the split of rows into testing, selection and fitting that codes stand for.

One code per row, so that one pass of moments serves all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ..alignment.base import AffineMap
from ..covariance import Factor, factor_covariance, left_out_sentence
from ..errors import InputError
from ..moments import Moments, fold_moments, merged, require_memory
from ..pairs import Pair, Side, describe_side, rms_radius
from ..representation import Array, rounding_of
from ..resampling import assign_folds
from ..row_span import RowSpan, spans_of_few
from ..rows import Progress, map_blocks
from .drift import damped_whitener
from .maps import FittedMap, Setting, Training, drop_columns

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

    @property
    def least_training_rows(self) -> int:
        """The rows of the smallest training set of the selection."""
        sizes = np.bincount(np.maximum(self.codes, self.n_shells - 1))[self.n_shells - 1 : -1]
        return int(sizes.sum() - sizes.max())

    def selection_folds(self, moments: list[Moments]) -> list[Moments]:
        """The folds that strengths, ranks and the kind of map are chosen on."""
        return [merged(moments[: self.n_shells]), *moments[self.n_shells : -1]]

    def codes_without(self, fold: int) -> list[int]:
        """The codes of all selection folds but one."""
        left_out = range(self.n_shells) if fold == 0 else [self.n_shells + fold - 1]
        return [code for code in range(self.n_codes - 1) if code not in left_out]


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

    Where columns outnumber pairs, moments are of coordinates in the ``spans`` of the rows. ``resolved`` is true if
    moments resolve all directions of the old side; ``left_out`` names columns that hardly vary, which are in ``whole``
    alone: pairs that are added later may let them vary.
    """

    split: Split
    codes: list[Moments]
    total: Moments
    sides: tuple[Side, Side]
    resolved: bool
    left_out: str | None
    rounding: float
    whole: Callable[[], Moments]
    spans: tuple[RowSpan, RowSpan] | None = None

    @property
    def radius(self) -> float:
        """RMS radius of the new vectors: the unit of errors."""
        return self.sides[1].rms_radius

    @property
    def unit(self) -> float:
        """Mean eigenvalue of the old side's co-moments: the unit of ridge strengths."""
        return float(np.trace(self.training.moments.xx)) / self.sides[0].columns

    @cached_property
    def training(self) -> Training:
        """All pairs that are not tested."""
        return self.trained_on(merged(self.codes[:-1]), range(len(self.codes) - 1))

    def trained_on(self, moments: Moments, codes: Iterable[int]) -> Training:
        """The training set of some codes, whose moments are given."""
        if self.spans is None:
            return Training(moments, self.rounding)
        old, new = self.spans
        rows = np.flatnonzero(np.isin(self.split.codes, list(codes)))
        return Training(
            moments, self.rounding, lambda: old.least_squares(rows, new.rows[rows] - new.rows[rows].mean(axis=0))
        )

    def fitted(self, kind: str, training: Training, setting: Setting, norm: float | None) -> FittedMap:
        """The map of one kind, between the columns of both sides."""
        found = training.fit(kind, setting)
        if self.spans is not None:
            old, new = self.spans
            linear = new.in_columns(old.in_columns(found.linear[:, : found.target_width].T).T)
            found = AffineMap(linear, *self.means(training.moments), found.scale)
        return FittedMap.from_affine(kind, found, norm)

    def means(self, moments: Moments) -> tuple[Array, Array]:
        """The means of some pairs, by column."""
        given = moments.source_mean, moments.target_mean
        if self.spans is None:
            return given
        old, new = (span.mean + span.in_columns(mean[None])[0] for span, mean in zip(self.spans, given, strict=True))
        return old, new

    def whitener(self) -> Array:
        """The damped whitener of the old side's training rows, by column."""
        values, vectors = self.training.spectrum
        if self.spans is not None:
            vectors = self.spans[0].in_columns(vectors.T).T
        return damped_whitener(values, vectors, self.training.moments.n)


def sum_rows(pair: Pair, split: Split, report: Progress) -> Sums:
    """One pass over all rows."""
    x, y, progress = pair.x, pair.y, partial(report, "moments")
    least = split.least_training_rows
    few = least <= max(int(x.shape[1]), int(y.shape[1]))
    require_memory(x.shape[1], y.shape[1], 1 if few else split.n_codes)  # few pairs leave maps and a whitener
    spans = spans_of_few(x, y, pair.names, least)
    if spans is not None:
        return _sum_few(pair, split, spans, progress)
    codes = fold_moments(x, y, split.codes, split.n_codes, names=pair.names, progress=progress)
    total = merged(codes)
    sides = ((pair.names[0], x, total), (pair.names[1], y, total.swapped()))

    def described(one: slice) -> tuple[Side, Factor]:
        name, values, moments = sides[one.start]
        radius = _radius(name, moments.n, moments.source_mean, float(np.trace(moments.xx)))
        factor = factor_covariance(moments.xx, moments.n, moments.source_mean, rounding_of(values))
        return describe_side(name, values, factor, radius), factor

    (old, factor), (new, _) = map_blocks(described, 2, 1)
    whole = replace(total, xx=total.xx.copy(), xy=total.xy.copy()) if factor.left_out.any() else total
    for moments in (*codes, total):
        drop_columns(moments, factor.left_out, total.source_mean)
    left_out = left_out_sentence(factor, pair.names[0])
    return Sums(split, codes, total, (old, new), factor.resolved, left_out, rounding_of(x), lambda: whole)


def _sum_few(pair: Pair, split: Split, spans: tuple[RowSpan, RowSpan], progress: Callable[[int, int], None]) -> Sums:
    """The same of pairs that columns outnumber."""
    names = pair.names
    codes = fold_moments(spans[0].rows, spans[1].rows, split.codes, split.n_codes, names=names, progress=progress)
    radii = [
        _radius(name, pair.n, span.mean, float(span.squares.sum())) for name, span in zip(names, spans, strict=True)
    ]
    given = zip(names, (pair.x, pair.y), spans, radii, strict=True)
    old, new = (describe_side(name, values, span.factor, radius) for name, values, span, radius in given)

    def whole() -> Moments:
        x, y = (span.centred for span in spans)
        return Moments(pair.n, spans[0].mean, spans[1].mean, x.T @ x, x.T @ y, y.T @ y)

    factor = spans[0].factor
    inside = spans[0].without(factor.left_out), spans[1]
    if factor.left_out.any():
        codes = fold_moments(inside[0].rows, inside[1].rows, split.codes, split.n_codes)
    left_out = left_out_sentence(factor, names[0])
    return Sums(split, codes, merged(codes), (old, new), factor.resolved, left_out, rounding_of(pair.x), whole, inside)


def _radius(name: str, n: int, mean: Array, squares: float) -> float:
    """The RMS radius of one side, whose sizes are checked."""
    radius = rms_radius(name, n, mean, squares)
    size = max(radius, float(np.abs(mean).max()))
    if not 1e-36 < size < 5e37:
        raise InputError(f"the values of {name} have a size of {size:.0e}: rescale, vectors are searched in float32")
    return radius
