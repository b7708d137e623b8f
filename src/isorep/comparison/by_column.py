"""Rungs that depend on the columns, where rows are fewer than these: from the rows, without moments of all columns.

Identity and signed permutations are the only groups of the ladder that tell one axis from another. All others are
fitted in the coordinates of the rows' span.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..alignment.base import AffineMap, match_signed
from ..errors import InputError
from ..moments import gap_of_means
from ..representation import Array
from ..row_span import RowSpan
from ..rows import map_blocks
from ..storage.scratch import memory_size
from .null import Refitted, Scene, Splits, refitted_inside
from .residuals import identity_norms, norms_of

BY_COLUMN = ("identity", "signed_permutation")
MATCHED_UNASKED = 4096  # columns up to which they are matched without the signed permutation, where rows are few
_MATRICES = 8  # of all columns, that two matchings side by side hold


def require_memory_of_matching(d_x: int, d_y: int) -> None:
    """Refuse widths whose columns cannot be matched in this machine's memory."""
    needed, there = 8.0 * _MATRICES * max(d_x, d_y) ** 2, memory_size()
    if there and needed > there:
        raise InputError(
            f"{d_x} and {d_y} columns need about {needed / 2**30:.3g} GiB to be matched one to one and this machine "
            f"has {there / 2**30:.3g} GiB: leave signed_permutation out of the rungs, or reduce the width first, for "
            "example by PCA"
        )


@dataclass(frozen=True, eq=False)
class Matched:
    """A signed permutation fitted to some rows: the source's column of each target column, and its sign.

    Scales and means are those of the source, then of the target.
    """

    columns: Array
    signs: Array
    scales: tuple[float, float]
    means: tuple[Array, Array]

    def image(self, rows: Array) -> Array:
        """Rows of the source in the target's order of columns, without the scale."""
        return np.asarray((rows - self.means[0])[:, self.columns] * self.signs)


@dataclass(frozen=True, eq=False)
class RungByColumn:
    """A rung fitted to all rows and without each fold: residual norms (direction, in-sample or held-out, row).

    ``maps`` are the forward ones as maps of coordinates, those of all rows first: they lose what is sent out of the
    target's span. ``matched`` are the signed permutations in the same order.
    """

    norms: Array
    maps: Sequence[AffineMap]
    matched: Sequence[Matched] = ()


class ByColumn:
    """Two sides in their columns, about the means of all rows; the narrower one is padded with zeros."""

    def __init__(self, source: RowSpan, target: RowSpan) -> None:
        self.spans = source, target
        width = max(len(source.mean), len(target.mean))
        self.widths = len(source.mean), len(target.mean)
        self.x, self.y = (np.pad(each.centred, ((0, 0), (0, width - len(each.mean)))) for each in self.spans)
        self._gap = gap_of_means(source.mean, target.mean)

    @cached_property
    def squares(self) -> tuple[Array, Array]:
        """The sum of squares of every column, of source and target."""
        return self.spans[0].squares, self.spans[1].squares

    @cached_property
    def of_all_rows(self) -> Matched:
        """The best signed permutation of all rows."""
        everything = np.arange(len(self.x))
        return self.matched(everything, everything)

    def rung(self, name: str, fold_of: Array, n_folds: int) -> RungByColumn:
        """A rung in both directions."""
        everything, shape = np.arange(len(fold_of)), (2, 2, len(fold_of))
        if name == "identity":
            return RungByColumn(
                np.broadcast_to(self.identity_norms(everything, everything), shape), [self.inside(None)]
            )
        left_out = [np.flatnonzero(fold_of == fold) for fold in range(n_folds)]
        training = [np.setdiff1d(everything, rows) for rows in left_out]

        def fitted(place: slice) -> Matched:
            return self.matched(training[place.start], training[place.start])

        matched = [self.of_all_rows, *map_blocks(fitted, n_folds, 1)]
        norms = np.empty(shape)
        norms[:, 0] = self.norms(matched[0], everything, everything)
        for by, rows in zip(matched[1:], left_out, strict=True):
            norms[:, 1, rows] = self.norms(by, rows, rows)
        return RungByColumn(norms, [self.inside(by) for by in matched], matched)

    def matched(self, x_rows: Array, y_rows: Array) -> Matched:
        """The best signed permutation of paired rows, given by number."""
        x, y = self.x[x_rows], self.y[y_rows]
        means = x.mean(axis=0), y.mean(axis=0)
        x, y = x - means[0], y - means[1]
        columns, signs, overlap = match_signed(x.T @ y)
        squares = float(np.vdot(x, x)), float(np.vdot(y, y))
        scales = tuple(overlap / each if each > 0 else 0.0 for each in squares)
        return Matched(columns, signs, (scales[0], scales[1]), means)

    def norms(self, by: Matched, x_rows: Array, y_rows: Array) -> Array:
        """Residual norms, forward and reverse: one image serves both directions."""
        image, y = by.image(self.x[x_rows]), self.y[y_rows] - by.means[1]
        return np.stack([norms_of(by.scales[0] * image - y), norms_of(image - by.scales[1] * y)])

    def identity_norms(self, x_rows: Array, y_rows: Array) -> Array:
        """The distances of paired rows as they are."""
        return identity_norms(self.x[x_rows], self.y[y_rows], self._gap)

    def cross(self, source: Array, target: Array) -> Array:
        """The cross-moments of some columns of the source with some of the target."""
        return np.asarray(self.x[:, source].T @ self.y[:, target])

    def shared(self, source: Array, target: Array) -> Array:
        """The co-moments of columns of the source with as many columns of the target, one by one."""
        return np.asarray(np.einsum("ij,ij->j", self.x[:, source], self.y[:, target]))

    def squares_by_column(self, matched: Sequence[Matched], fold_of: Array) -> Array:
        """Summed squared errors of every target column, each row by the permutation fitted without its fold."""
        found = np.zeros(self.widths[1])
        for fold, by in enumerate(matched):
            rows = np.flatnonzero(fold_of == fold)
            errors = by.scales[0] * by.image(self.x[rows]) - (self.y[rows] - by.means[1])
            found += np.einsum("ij,ij->j", errors, errors)[: self.widths[1]]
        return found

    def inside(self, by: Matched | None) -> AffineMap:
        """A permutation, or the identity, as a map of coordinates: what it sends out of the target's span is lost."""
        source, target = self.spans
        wide = np.zeros((source.width, len(self._gap)))
        wide[:, : self.widths[0]] = source.axes
        if by is None:
            shift = self._gap[: self.widths[1]] @ target.axes.T
            return AffineMap(wide[:, : self.widths[1]] @ target.axes.T, np.zeros(source.width), shift)
        linear = (wide[:, by.columns] * by.signs)[:, : self.widths[1]] @ target.axes.T
        means = by.means[0][: self.widths[0]] @ source.axes.T, by.means[1][: self.widths[1]] @ target.axes.T
        return AffineMap(linear, *means, by.scales[0])


@dataclass(frozen=True, eq=False)
class RefittedByColumn:
    """Identity and signed permutations under shuffled pairings."""

    columns: ByColumn
    names: Sequence[str]

    def prepared(self, splits: Splits) -> Callable[[Array], dict[str, Array]]:
        """The errors by the partners of the rows."""
        rows, columns = splits.rows, self.columns
        x_radii, y_radii = norms_of(columns.x), norms_of(columns.y)

        def errors(places: Array) -> dict[str, Array]:
            partners = rows[places]
            found, size = {name: np.zeros(2) for name in self.names}, np.zeros(2)
            for _, train, counted in splits.parts:
                here, there = rows[counted], partners[counted]
                size += y_radii[there].sum(), x_radii[here].sum()
                for name in self.names:
                    if name == "identity":
                        found[name] += columns.identity_norms(here, there).sum()
                    else:
                        by = columns.matched(rows[train], partners[train])
                        found[name] += columns.norms(by, here, there).sum(axis=1)
            return {name: total / size for name, total in found.items()}

        return errors


def scenes_of(columns: ByColumn | None, refitted: Refitted) -> list[Scene]:
    """What is refitted to shuffled pairings: from moments and, where these are of coordinates, some rungs by column."""
    if columns is None:
        return [refitted]
    by_column = [name for name in refitted.names if name in BY_COLUMN]
    inside = refitted_inside(
        columns.spans, refitted.training, [name for name in refitted.names if name not in BY_COLUMN]
    )
    return [RefittedByColumn(columns, by_column), inside]
