r"""Intervals of held-out errors, from the influence of each row through its residual and through the map it helps fit.

A cross-validated error :math:`T=\sum_k\sum_{i\in k}\|y_i-h_{-k}(x_i)\|` varies with the rows that are scored *and* with
the maps that other rows give. To first order the row :math:`j` moves the error of fold :math:`k` by
:math:`-\langle\partial h,U_k\rangle` with :math:`U_k=\sum_{i\in k}x_i^\top e_i/\|e_i\|`. For least squares
:math:`\partial h=H^{-1}x_j^\top e_j`; for a rotation :math:`Q=UV^\top` of the cross-moments :math:`C=U\Sigma V^\top`

.. math:: \langle\partial Q,U_k\rangle=\Bigl\langle x_j^\top y_j,\;U\,\frac{G-G^\top}{\sigma_a+\sigma_b}V^\top\Bigr
          \rangle,\qquad G=U^\top U_kV,

and its scale moves as well. A jackknife over these influences counts interactions between rows twice (Efron & Stein
1981), one over the rows' own residuals not at all: the mean of the two estimates the variance of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..covariance import Factor
from ..moments import Moments, merged
from ..representation import Array, Matrix
from ..resampling import (
    Interval,
    assign_blocks,
    error_variance,
    influence_rows,
    interval_of,
    jackknife_se,
    ratio_influence,
)
from ..results import least
from ..rows import HeldRows, block_rows, in_chunks, map_blocks, read_rows
from ..threads import WIDE_MATRIX
from .by_column import BY_COLUMN, ByColumn
from .fits import PARTS, fit
from .residuals import Centre, Maps, PreparedMaps, Pulls

if TYPE_CHECKING:
    from .ladder import Ladder

MOST_CELLS = 2**27  # entries of the products kept per fold, beyond which only the rows' own residuals count
_JACKKNIFED = 5  # sets of rows that are left out with all maps refitted


class Ends(NamedTuple):
    """The intervals of one rung: of its error, and of how much it exceeds the best rung's and the linear one's."""

    interval: Interval | None = None
    excess: Interval | None = None
    over_linear: Interval | None = None


def interval_ends(ladder: Ladder, rng: np.random.Generator) -> list[dict[str, Ends]]:
    """Intervals of every rung in both directions: of its held-out mean and of its excess over the best rung."""
    n, labels, scored = ladder.design.pair.n, ladder.design.labels, ladder.design.scored
    blocks, rows = assign_blocks(n, labels, rng), influence_rows(n, labels, rng)
    residuals = ladder.residuals
    through = {name: through_maps(ladder, name, rows) for name in residuals.pulls}
    refitted = {
        name: _without_folds(ladder, name)
        for name in residuals.rungs
        if name not in ("identity", *residuals.pulls, *residuals.spread_by_fit)
    }
    both_ways = []
    for way in range(2):
        radii = residuals.radii[1 - way]
        told = {name: ratio_influence(each[way, 1], radii, scored) for name, each in residuals.rungs.items()}
        size = float((radii if scored is None else radii * scored).sum())
        moved = {name: each[way] / size for name, each in through.items()}
        extra = {
            name: _fit_variance(residuals.spread_by_fit.get(name), refitted.get(name), way, ladder.unit(way))
            for name in told
        }
        best = least({name: float(each[0]) for name, each in told.items()})
        ways = _OneWay(told, moved, extra, blocks, rows, scored)
        both_ways.append(
            {
                name: Ends(
                    ways.interval(name),
                    ways.excess(name, best),
                    ways.excess(name, "linear") if "linear" in told else None,
                )
                for name in told
            }
        )
    return both_ways


class _OneWay(NamedTuple):
    """One direction: ratios with the influence of rows, that through maps, variances of fits, and blocks of rows."""

    told: dict[str, tuple[float, Array]]
    moved: dict[str, Array]
    extra: dict[str, float]
    blocks: Array
    rows: Array | None
    scored: Array | None

    def interval(self, name: str) -> Interval:
        """For the error of a rung."""
        ratio, own = self.told[name]
        variance = error_variance(own, self.moved.get(name), self.blocks, self.rows) + self.extra[name]
        return interval_of(ratio, variance, self.blocks, scored=self.scored)

    def excess(self, name: str, other: str) -> Interval:
        """For how much the error of a rung exceeds that of another, rows paired."""
        (ratio, own), (base, its) = self.told[name], self.told[other]
        both = None
        if name in self.moved or other in self.moved:
            both = np.subtract(self.moved.get(name, 0.0), self.moved.get(other, 0.0))
        variance = error_variance(own - its, both, self.blocks, self.rows)
        variance += self.extra[name] + self.extra[other] if name != other else 0.0
        return interval_of(ratio - base, variance, self.blocks, -np.inf, self.scored)


def _fit_variance(spread: Array | None, refitted: Array | None, way: int, unit: float) -> float:
    """Variance due to refitting a rung, added to that of its rows where maps have no derivative.

    ICA scores every part with two pairs of fits, whose errors differ. For other rungs, such as the signed permutation,
    whose matching may change with the rows, the jackknife over folds is taken with maps refitted and with maps as they
    are: over the same folds, as five of them differ much more among themselves than the two jackknives do. As
    refitting counts interactions of rows twice, half of the difference is added.
    """
    if spread is not None:
        return float(spread[way]) / PARTS / unit**2
    if refitted is None:
        return 0.0
    again, kept = (float(jackknife_se(each, 0.0)) ** 2 for each in refitted[way])
    return max(again - kept, 0.0) / 2


def _without_folds(ladder: Ladder, name: str) -> Array:
    """The error of a rung without each fold (of many folds, of five sets): by direction, refitted or not, fold.

    Refitting changes root mean squares, which moments have, by a ratio; the mean errors are taken to change by the
    same. In thousands of columns decompositions take long: a fold is then scored without each of two others, its
    neighbours in a ring, and the ratio of the others is the mean of these.
    """
    if ladder.columns is not None and name in BY_COLUMN:
        return _jackknives(ladder, name, *_permutations_without_folds(ladder, ladder.columns))
    count = min(ladder.design.n_folds, _JACKKNIFED)
    folds = ladder.moments.folds
    apart = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    wide = max(folds[0].xy.shape) > WIDE_MATRIX
    refitted = (apart == 1) | (apart == count - 1) if wide and name != "signed_permutation" else apart > 0
    if count < len(folds):
        folds = [merged(folds[at::count]) for at in range(count)]
    squares = np.zeros((2, count, count))  # of fold k by maps that have seen neither k nor j
    pairs = [(j, k) for j in range(count) for k in range(j + 1) if j == k or refitted[j, k]]
    if wide and count == len(folds) and ladder.training.second == (None, None):  # maps without a fold have scored it
        pairs = [(j, k) for j, k in pairs if j != k]
        for way in range(2):
            norms = ladder.residuals.rungs[name][way, 1]
            np.fill_diagonal(squares[way], np.bincount(ladder.design.fold_of, norms**2, count))

    dtype, set_of = ladder.moments.centre.dtype if wide else np.float64, ladder.design.fold_of % count

    def score(place: slice) -> None:
        """Maps are made one pair at a time: in many dimensions they fill the memory."""
        j, k = pairs[place.start]
        rest = [fold for at, fold in enumerate(folds) if at not in (j, k)] or folds  # two folds leave none
        training = replace(ladder.training, moments=merged(rest), second=(None, None))
        if training.few is not None:
            training = replace(training, few=replace(training.few, chosen=_rows_without(set_of, j, k)))
        maps = fit([name], training, dtype)[name]
        for left, scored in {(j, k), (k, j)}:
            rows = folds[scored]
            for way, one in enumerate((rows, rows.swapped())):
                squares[way, left, scored] = maps[way].squared_error(one)

    map_blocks(score, len(pairs), 1)
    return _jackknives(ladder, name, squares, refitted)


def _permutations_without_folds(ladder: Ladder, columns: ByColumn) -> tuple[Array, Array]:
    """Squared errors of every fold by signed permutations fitted without it and another one, from rows."""
    design = ladder.design
    count = min(design.n_folds, _JACKKNIFED)
    set_of = design.fold_of % count
    squares = np.zeros((2, count, count))
    pairs = [(j, k) for j in range(count) for k in range(j + (count < design.n_folds))]
    if count == design.n_folds:  # maps without a fold have scored it
        for way, norms in enumerate(ladder.residuals.rungs["signed_permutation"][:, 1]):
            np.fill_diagonal(squares[way], np.bincount(set_of, norms**2, count))

    def score(place: slice) -> None:
        j, k = pairs[place.start]
        rest = _rows_without(set_of, j, k)
        by = columns.matched(rest, rest)
        for left, scored in {(j, k), (k, j)}:
            rows = np.flatnonzero(set_of == scored)
            squares[:, left, scored] = (columns.norms(by, rows, rows) ** 2).sum(axis=1)

    map_blocks(score, len(pairs), 1)
    return squares, ~np.eye(count, dtype=bool)


def _rows_without(set_of: Array, *left_out: int) -> Array:
    """The rows of all sets but two; all rows where there are no others."""
    rest = np.flatnonzero(~np.isin(set_of, left_out))
    return rest if len(rest) else np.arange(len(set_of))


def _jackknives(ladder: Ladder, name: str, squares: Array, refitted: Array) -> Array:
    """The errors without each fold, from squared errors of every fold (last) by maps that saw neither it nor another.

    ``refitted`` marks the pairs of folds whose maps were fitted.
    """
    count = len(refitted)
    errors = np.empty((2, 2, count))
    for way in range(2):
        norms, radii = ladder.residuals.rungs[name][way, 1], ladder.residuals.radii[1 - way]
        sums, sizes = (np.bincount(ladder.design.fold_of % count, each, count) for each in (norms, radii))
        kept = squares[way].diagonal()
        ratios = np.sqrt(np.divide(squares[way], kept, out=np.ones((count, count)), where=kept > 0))
        usual = np.mean(ratios, axis=1, where=refitted, keepdims=True)
        ratios = np.where(refitted, ratios, usual)
        np.fill_diagonal(ratios, 0.0)
        without = np.maximum(sizes.sum() - sizes, 1e-300)
        errors[way] = ratios @ sums / without, (sums.sum() - sums) / without
    return errors


def through_maps(ladder: Ladder, name: str, rows: Array | None) -> Array:
    """Influence of chosen rows (all by default) on a rung's summed held-out errors, through the maps of others."""
    design, moments = ladder.design, ladder.moments
    return map_influence(
        name,
        ladder.residuals.pulls[name],
        np.arange(design.pair.n) if rows is None else rows,
        design.x,
        design.y,
        design.fold_of,
        moments.centre,
        moments.total,
        moments.factors,
        [each[0] for each in ladder.fitted[name].without],
    )


def pulled_rungs(names: Sequence[str], d_x: int, d_y: int, n_folds: int) -> list[str]:
    """The rungs whose maps have a derivative, as far as memory allows."""
    smooth = [name for name in names if name == "linear" or (name == "rigid" and d_x == d_y)]
    return smooth if 4 * n_folds * d_x * d_y <= MOST_CELLS else []


def map_influence(
    name: str,
    pulls: Pulls,
    rows: Array,
    x: Matrix,
    y: Matrix,
    fold_of: Array,
    centre: Centre,
    total: Moments,
    factors: tuple[Factor, Factor],
    maps: Sequence[Maps],
) -> Array:
    """Influence of each chosen row on the summed held-out errors through the maps of other folds: (2, rows)."""
    n_folds = len(maps)
    grow = n_folds / (n_folds - 1)  # training sets are that much smaller than all rows
    weights = [_weights(name, pulls, side, total, factors, maps, grow) for side in range(2)]
    prepared = [PreparedMaps(each, centre) for each in maps]
    found = np.empty((2, len(rows)))
    if in_chunks(x, y) is not None:  # the sample is brought here at once
        x, y = HeldRows(x, rows), HeldRows(y, rows)

    def block(part: slice) -> None:
        mine = rows[part]
        xb, yb = centre.shift(read_rows(x, mine), 0), centre.shift(read_rows(y, mine), 1)
        here = fold_of[mine]
        for fold in np.unique(here):
            which = np.flatnonzero(here == fold)
            xs, ys = xb[which], yb[which]
            errors = prepared[fold].errors(xs, ys)
            for side, (source, target) in enumerate(((xs, ys), (ys, xs))):
                weight, shrink, offset = weights[side][fold]
                moved = source @ weight.astype(source.dtype)
                residual = -errors[side]  # true minus mapped
                if name == "linear":
                    change = np.einsum("ij,ij->i", moved, residual, dtype=np.float64)
                else:
                    change = np.einsum("ij,ij->i", moved, target, dtype=np.float64)
                    change -= shrink * np.einsum("ij,ij->i", source, source, dtype=np.float64)
                change += (residual @ offset.astype(residual.dtype)) * grow / total.n
                found[side, part.start + which] = -change

    map_blocks(block, len(rows), block_rows(x.shape[1], y.shape[1], cells=2**20))
    return found


def _weights(
    name: str,
    pulls: Pulls,
    side: int,
    total: Moments,
    factors: tuple[Factor, Factor],
    maps: Sequence[Maps],
    grow: float,
) -> list[tuple[Array, float, Array]]:
    """Per fold: the weights of a row's product and of its square, and the other folds' pull."""
    products = pulls.products[side].astype(np.float64)
    sums = pulls.sums[side]
    if name == "rigid" and side:  # residuals of the reverse were taken in the rotated frame
        products = np.stack([each @ maps[fold][0].linear.T for fold, each in enumerate(products)])
    others, other_sums = products.sum(axis=0) - products, sums.sum(axis=0) - sums
    if name == "linear":
        whitener = factors[side].whitener
        scale = grow / total.n
        return [
            (scale * (whitener @ (whitener.T @ pull)), 0.0, offset)
            for pull, offset in zip(others, other_sums, strict=True)
        ]
    moments = total if side == 0 else total.swapped()
    u, singular, vt = np.linalg.svd(moments.xy)
    squares = float(np.trace(moments.xx))
    scale = float(singular.sum()) / squares
    apart = np.add.outer(singular, singular)
    inverse = np.divide(1.0, apart, out=np.zeros_like(apart), where=apart > 1e-9 * singular[0])
    found = []
    for pull, offset in zip(others, other_sums, strict=True):
        turned = u.T @ pull @ vt.T
        rotation = u @ vt
        along = float(np.vdot(pull, rotation)) / squares
        weight = scale * (u @ ((turned - turned.T) * inverse) @ vt) + along * rotation
        found.append((grow * weight, grow * scale * along, offset))
    return found
