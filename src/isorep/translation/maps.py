r"""Maps from moments: the fit of each kind, and the error of every candidate strength and rank on other moments.

No function here reads rows. The learning curve is the error of the best kind of map from moments when fitted to fewer
pairs.

With :math:`X^\top X=VDV^\top` of the training rows, the ridge map of strength
:math:`\lambda` is :math:`A_\lambda=V(D+\lambda)^{-1}V^\top X^\top Y`, so that one decomposition serves all strengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..alignment.base import AffineMap, partial_rotation, rigid_maps, solve_linear
from ..covariance import factor_covariance, has_few_rows, rank_tolerance, spectrum
from ..moments import Moments, merged
from ..representation import Array
from ..results import Record
from ..rows import map_blocks

MOMENT_MAPS = ("rigid", "linear", "ridge", "low_rank")
"""The kinds of map that second moments determine."""
MAPS = (*MOMENT_MAPS, "cosine", "mlp")
"""The kinds of map, simplest first: of two with about the same error, the first is chosen."""
UNPAIRED = "unpaired"
"""The kind of map that matched components give, without pairs."""

_STRENGTHS = np.logspace(-8, 3, 45)  # of ridge, in units of the mean variance of the old columns
_WEAKER = (1.0, 0.1, 0.01)  # a low-rank map needs less shrinking than a ridge map of full rank
_ALIKE = 1e-3  # relative difference of squared errors that does not justify a higher rank
_RESOLVED = 1e-12  # of the largest eigenvalue: axes that explain less are left out
_RESOLVED_SQUARES = 1e-13  # the same of moments, in which rounding leaves little below
_EXACT = 1e-10  # of the target's variance: errors below it are rounding
_EXACT_RADII = 1e-6  # the same of errors in radii
ENOUGH = 0.05  # relative excess over the error of all pairs that counts as equal
_STILL_HELPS = 0.02  # the smallest gain of a doubling that makes more pairs worthwhile


@dataclass(frozen=True)
class Setting:
    """Hyperparameters: the ridge strength in units of summed squares, the rank, and the width of a hidden layer."""

    strength: float | None = None
    rank: int | None = None
    hidden: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class FittedMap(Record):
    r"""The map :math:`x\mapsto(x-\mu_x)A+\mu_y`, for ``mlp`` with :math:`\max((x-\mu_x)U+b,0)V` added.

    Parameters
    ----------
    kind : str
    matrix : (d_old, d_new) array
        :math:`A`.
    old_mean, new_mean : (d_old,) and (d_new,) arrays
        :math:`\mu_x` and :math:`\mu_y`.
    hidden : tuple of arrays, optional
        :math:`U` of shape (d_old, h), :math:`b` of shape (h,) and :math:`V` of shape (h, d_new).
    norm : float, optional
        The length that outputs are scaled to; default: they keep theirs.
    """

    kind: str
    matrix: Array
    old_mean: Array
    new_mean: Array
    hidden: tuple[Array, Array, Array] | None = None
    norm: float | None = None

    @classmethod
    def from_affine(cls, kind: str, fitted: AffineMap, norm: float | None = None) -> FittedMap:
        """A map from moments, without the columns that pad a narrower target."""
        matrix = fitted.matrix[:, : fitted.target_width]
        return cls(kind, matrix, fitted.source_mean, fitted.target_mean, norm=norm)

    def raw(self, rows: Array) -> Array:
        """Rows under the map, in float64, before their length is set."""
        centred = np.asarray(rows, np.float64) - self.old_mean
        mapped = centred @ self.matrix + self.new_mean
        if self.hidden is not None:
            into, bias, out = self.hidden
            mapped += np.maximum(centred @ into + bias, 0.0) @ out
        return np.asarray(mapped)

    def apply(self, rows: Array) -> Array:
        """Rows under the map, in float64, of the length that the new vectors have, where they have one."""
        mapped = self.raw(rows)
        return mapped if self.norm is None else with_norm(mapped, self.norm)


def with_norm(rows: Array, norm: float) -> Array:
    """Rows scaled to one length; rows of zeros stay zero."""
    lengths = np.linalg.norm(rows, axis=1)
    return np.asarray(rows * (norm / np.where(lengths > 0, lengths, 1.0))[:, None])


class Training:
    """The moments of a training set, and the maps that follow from them.

    ``least_squares`` gives the matrix of least squares where the rows themselves tell it.
    """

    def __init__(self, moments: Moments, rounding: float, least_squares: Callable[[], Array] | None = None) -> None:
        self.moments, self.rounding, self._least_squares = moments, rounding, least_squares

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the old side's co-moments."""
        values, vectors = np.linalg.eigh(self.moments.xx)
        return np.maximum(values, 0.0), vectors

    @cached_property
    def spanned(self) -> tuple[Array, Array]:
        """The part of the spectrum that the rows can span: fewer rows than columns leave zeros alone."""
        sums, n = self.moments.xx, self.moments.n
        values, vectors = spectrum(sums, n) if has_few_rows(n, len(sums)) else self.spectrum
        values = np.maximum(values, 0.0)
        kept = min(len(values), max(1, n - 1))
        return values[-kept:], vectors[:, -kept:]

    @cached_property
    def cross(self) -> Array:
        """The co-moments with the new side, in the coordinates of the eigenvectors that rows span."""
        return np.asarray(self.spanned[1].T @ self.moments.xy)

    def fit(self, kind: str, setting: Setting) -> AffineMap:
        """The map of one kind."""
        if kind == "rigid":
            return self._rigid()
        if kind == "linear":
            return self._affine(self._linear())
        matrix = self._ridge(setting.strength or 0.0)
        if kind == "low_rank":
            axes = self._axes(setting.strength or 0.0)[:, : setting.rank]
            matrix = matrix @ axes @ axes.T
        return self._affine(matrix)

    def ridge_errors(self, held: Moments, strengths: Array) -> Array:
        """Summed squared errors on other rows under every strength: one product of matrices, then O(d²) each."""
        values, vectors = self.spanned
        weights = 1.0 / (values + strengths[:, None])
        overlap = (self.cross * (vectors.T @ held.xy)).sum(axis=1)
        squares = (vectors.T @ held.xx @ vectors) * (self.cross @ self.cross.T)
        dx, dy = self._between(held)
        shift = dy - (weights * (dx @ vectors)) @ self.cross
        around = np.trace(held.yy) - 2 * weights @ overlap + ((weights @ squares) * weights).sum(axis=1)
        return np.asarray(np.maximum(around, 0) + held.n * (shift**2).sum(axis=1))

    def rank_errors(self, held: Moments, strength: float) -> Array:
        """Summed squared errors on other rows for every rank from 0 on, by cumulative sums over axes."""
        axes = self._axes(strength)
        matrix = self._ridge(strength) @ axes
        dx, dy = self._between(held)
        before = dy @ axes
        after = before - dx @ matrix
        explained = 2 * (matrix * (held.xy @ axes)).sum(axis=0) - (matrix * (held.xx @ matrix)).sum(axis=0)
        gains = explained + held.n * (before**2 - after**2)
        without = float(np.trace(held.yy)) + held.n * float(dy @ dy)
        errors = np.maximum(without - np.concatenate([[0.0], np.cumsum(gains)]), 0.0)
        beyond = min(self.moments.xy.shape) + 1 - len(errors)  # ranks that the rows do not reach add nothing
        return np.pad(errors, (0, max(beyond, 0)), mode="edge")

    def _linear(self) -> Array:
        """Least squares; where pairs are not more than columns, the map of least norm."""
        if self._least_squares is not None:
            return self._least_squares()
        if self.moments.n > len(self.moments.xx):
            return solve_linear(self.moments, self.rounding)[0]
        values, vectors = self.spanned
        kept = values > max(rank_tolerance(self.rounding) ** 2, _RESOLVED_SQUARES) * values.max(initial=0.0)
        return np.asarray(vectors[:, kept] @ (self.cross[kept] / values[kept, None]))

    def _rigid(self) -> AffineMap:
        """Procrustes; from a wider side, columns beyond the target's are cut off and the scale is that of the rest.

        Where pairs are not more than columns, directions that they do not determine are mapped to the mean.
        """
        n, cross = self.moments.n, self.moments.xy
        if n <= max(cross.shape):
            turned, overlap = partial_rotation(cross, n)
            return self._affine(turned * self._scale(turned, overlap))
        fitted = rigid_maps(self.moments)[0]
        width = fitted.target_width
        if fitted.linear.shape[1] == width:
            return fitted
        cut = fitted.linear[:, :width]
        return self._affine(cut * self._scale(cut, float((cut * self.moments.xy).sum())))

    def _scale(self, matrix: Array, overlap: float) -> float:
        squares = float((matrix * (self.moments.xx @ matrix)).sum())
        return overlap / squares if squares > 0 else 0.0

    def _ridge(self, strength: float) -> Array:
        values, vectors = self.spanned
        damped = values + strength
        inverse = np.divide(1.0, damped, out=np.zeros_like(damped), where=damped > 0)
        return np.asarray(vectors @ (inverse[:, None] * self.cross))

    def _axes(self, strength: float) -> Array:
        r"""The new side's axes by what the ridge map explains along them, most first.

        Eigenvectors of :math:`Y^\top X(X^\top X+\lambda)^{-1}X^\top Y`: reduced-rank ridge regression (Mukherjee &
        Zhu 2011), which is reduced-rank regression (Izenman 1975) at :math:`\lambda=0`.
        """
        damped = self.spanned[0] + strength
        half = self.cross / np.sqrt(np.where(damped > 0, damped, np.inf))[:, None]
        if half.shape[0] >= half.shape[1]:
            return np.linalg.eigh(half.T @ half)[1][:, ::-1]
        values, turned = np.linalg.eigh(half @ half.T)  # the smaller side is enough: the new one may be far wider
        lengths = np.sqrt(np.where(values > _RESOLVED * values[-1], values, np.inf))
        return np.asarray(((half.T @ turned) / lengths)[:, ::-1])

    def _between(self, held: Moments) -> tuple[Array, Array]:
        mine = self.moments
        return held.source_mean - mine.source_mean, held.target_mean - mine.target_mean

    def _affine(self, matrix: Array) -> AffineMap:
        return AffineMap(matrix, self.moments.source_mean, self.moments.target_mean)


def without_columns(moments: Moments, rounding: float) -> Moments:
    """The moments without columns of the old vectors that hardly vary; the given ones keep them."""
    kept = replace(moments, xx=moments.xx.copy(), xy=moments.xy.copy())
    left_out = factor_covariance(kept.xx, kept.n, kept.source_mean, rounding).left_out
    drop_columns(kept, left_out, kept.source_mean)
    return kept


def drop_columns(moments: Moments, left_out: Array, mean: Array) -> None:
    """Take columns of the old vectors that hardly vary out of the moments, so that no map uses them.

    Least squares would give them huge coefficients, which would amplify noise in other rows.
    """
    moments.xx[left_out], moments.xx[:, left_out] = 0.0, 0.0
    moments.xy[left_out] = 0.0
    # one mean for all, or merging would put the differences of means back
    moments.source_mean = np.where(left_out, mean, moments.source_mean)


def choose(kind: str, sets: Sequence[tuple[Training, Moments]], unit: float) -> tuple[Setting, float]:
    """The setting of least error over pairs of training set and held-out moments, and that summed squared error.

    ``unit`` is the mean of the old side's eigenvalues, which strengths are multiples of. Sets run in parallel.
    """
    if kind in ("rigid", "linear"):
        return Setting(), float(_summed(sets, lambda train, held: _error(train.fit(kind, Setting()), held)))
    strengths = _STRENGTHS * unit
    errors = _summed(sets, lambda train, held: train.ridge_errors(held, strengths))
    strength = float(strengths[int(np.argmin(errors))])
    if kind == "ridge":
        return Setting(strength), float(errors.min())
    return _choose_rank(sets, [strength * weaker for weaker in _WEAKER])


def _choose_rank(sets: Sequence[tuple[Training, Moments]], strengths: Sequence[float]) -> tuple[Setting, float]:
    errors = _summed(sets, lambda train, held: np.stack([train.rank_errors(held, strength) for strength in strengths]))
    errors[:, 0] = np.inf  # rank 0 is no map
    index = int(np.argmin(errors.min(axis=1)))
    spread = sum(float(np.trace(held.yy)) for _, held in sets)
    enough = errors[index].min() * (1 + _ALIKE) + _EXACT * spread
    rank = int(np.argmax(errors[index] <= enough))
    return Setting(strengths[index], rank), float(errors[index, rank])


def _summed(sets: Sequence[tuple[Training, Moments]], errors: Callable[[Training, Moments], Any]) -> Any:
    return sum(map_blocks(lambda one: errors(*sets[one.start]), len(sets), 1))


def best_of(errors: dict[str, float], spread: float) -> str:
    """The kind of least selection error; the simplest among those with about the same error."""
    enough = min(errors.values()) * (1 + _ALIKE) + _EXACT * spread
    return next(kind for kind in MAPS if kind in errors and errors[kind] <= enough)


def _error(fitted: AffineMap, held: Moments) -> float:
    return float(fitted.squared_errors(held).sum())


@dataclass(frozen=True)
class Point:
    """One point of the learning curve: a number of pairs, and the RMS error on the test fold in RMS radii."""

    pairs: int
    error: float


@dataclass(frozen=True)
class Curve:
    """How the error of one kind of map falls with the number of pairs.

    ``enough`` is the smallest number of pairs on the curve from which the error stays within 5% of that of all training
    pairs; None if only all of them reach it, if the mean vector errs as little, or if another kind of map is kept.
    ``gain`` is the share of the error that the last doubling removed.
    """

    kind: str
    points: tuple[Point, ...]
    enough: int | None
    gain: float | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def learning_curve(
    kind: str,
    codes: list[Moments],
    trained_on: Callable[[Moments, int], Training],
    chosen: Setting,
    unit: float,
    radius: float,
    *,
    kept: str,
    related: bool,
) -> Curve:
    """Fit the kind to every prefix of the codes and test it on the last code.

    A smaller set selects its own strength and rank, on the remaining training rows; the full set uses ``chosen``.
    ``trained_on`` makes the training set of so many codes from their moments.
    ``kept`` is the kind of map that the result keeps, and ``related`` is false if the verdict is ``unrelated``.
    """
    *training, test = codes

    def point(size: int) -> Point:
        some, rest = trained_on(merged(training[:size]), size), training[size:]
        setting = choose(kind, [(some, merged(rest))], unit)[0] if rest else chosen
        return Point(some.moments.n, float(np.sqrt(_error(some.fit(kind, setting), test) / test.n)) / radius)

    sizes = [size for size in range(1, len(codes)) if sum(part.n for part in training[:size]) > 1]
    return read_curve(kind, tuple(map_blocks(lambda one: point(sizes[one.start]), len(sizes), 1)), kept, related)


def read_curve(kind: str, points: tuple[Point, ...], kept: str | None = None, related: bool = True) -> Curve:
    """The number of pairs that is enough, and the gain of the last doubling, in words that name the kind of map.

    No number is enough if the mean vector, which needs no pairs, errs within the same 5%, or if the curve is that of
    another map than the one that is ``kept``.
    """
    last, name = points[-1], kind.replace("_", "-")
    useless = not related or not (1 + ENOUGH) * last.error < 1
    other = kept is not None and kept != kind
    enough: int | None = None
    for point in () if useless or other else reversed(points[:-1]):
        if point.error > (1 + ENOUGH) * last.error + _EXACT_RADII:
            break
        enough = point.pairs
    halves = [point for point in points if 1.7 <= last.pairs / point.pairs <= 2.5]
    gain: float | None = None
    if halves:
        half = min(halves, key=lambda point: abs(last.pairs / point.pairs - 2))
        gain = 1 - last.error / max(half.error, _EXACT_RADII) if last.error > _EXACT_RADII else 0.0
    if other:
        told = (
            f"how many pairs the {(kept or '').replace('_', '-')} map needs is not measured: the learning curve is "
            f"that of the {name} map"
        )
    elif useless:
        told = (
            f"how many pairs are enough cannot be told: with all {last.pairs:,} training pairs, the {name} map errs "
            f"{last.error:.3f} RMS radii, and the mean vector about 1"
        )
    elif enough is not None:
        told = (
            f"for the {name} map, {enough:,} pairs are enough for an error within {ENOUGH:.0%} of that of all "
            f"{last.pairs:,} training pairs"
        )
    else:
        told = (
            f"for the {name} map, {last.pairs:,} training pairs are not shown to be enough: the errors of smaller sets "
            f"do not stay within {ENOUGH:.0%} of theirs"
        )
    if gain is not None and not useless and not other:
        more = "would still help" if gain > _STILL_HELPS else "would help little"
        lowered = f"{gain:.0%}" if gain > _STILL_HELPS else f"{max(gain, 0):.1%}"
        told += f"; more {more}, the last doubling lowered the error by {lowered}"
    return Curve(kind, points, enough, gain, f"{told}.")
