r"""Principal frame of one side: centred rows as :math:`X_c=U\,\mathrm{diag}(s)\,V^\top`, at their numerical rank.

Every linear index of two sides follows from their frames and :math:`C=U_X^\top U_Y`: the canonical
correlations are its singular values, :math:`X^\top Y=V_XS_X\,C\,S_YV_Y^\top`. Under a permutation of rows only
:math:`C` changes.

Results that depend on one side alone are computed once and shared by all indices and pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy import linalg

from ..covariance import Factor, factor_covariance, hardly_vary, or_tiny, rank_tolerance, resolve_alone
from ..errors import InputError
from ..moments import Moments, fold_moments, moments_alone, require_memory
from ..representation import Array, Matrix, Representation, as_representation, match_rows, reading_notes, rounding_of
from ..resampling import common_codes
from ..rows import (
    ProjectedRows,
    block_rows,
    brought_here,
    equal_rows,
    in_chunks,
    kept_by_workers,
    map_rows,
    read_rows,
    refuse_non_finite,
    select,
    stream_rows,
)
from ..storage.scratch import empty

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Frame:
    r"""Rows in principal coordinates.

    ``whitener`` is the (d, r) matrix with :math:`U=X_cW`; where rows are fewer than columns ``left`` is :math:`U`.
    """

    n: int
    mean: Array
    singular_values: Array
    axes: Array
    whitener: Array | None = None
    left: Array | None = None

    @property
    def rank(self) -> int:
        """The number of directions that vary."""
        return len(self.singular_values)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.mean)

    @cached_property
    def root(self) -> Array:
        """The (r, d) matrix that takes scores back to centred rows."""
        return np.asarray(self.singular_values[:, None] * self.axes.T)

    @cached_property
    def inverse_spread(self) -> Array:
        """One over the standard deviation of each column, 0 for a constant one."""
        spread = np.linalg.norm(self.root, axis=0) / np.sqrt(self.n)
        varies = spread > 8 * np.finfo(float).eps * np.maximum(np.abs(self.mean), spread.max())
        return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=varies))

    @property
    def square_norm(self) -> float:
        """The sum of squares of the centred rows."""
        return float((self.singular_values**2).sum())

    def scores(self, values: Matrix | None, dtype: type = np.float64) -> Array:
        """The (n, r) orthonormal columns :math:`U`, one pass over the rows."""
        if self.left is not None:
            return self.left.astype(dtype)
        if self.whitener is None or values is None:
            raise InputError("second moments hold no rows to shuffle: a null needs the two arrays")
        out = empty((self.n, self.rank), dtype)
        by = _Scores(self.mean, self.whitener, dtype)
        for start, block in stream_rows(by, [values], block_rows(self.width, cells=2**20), per_row=self.rank):
            out[start : start + len(block)] = block
        return out

    def rows(self, values: Matrix | None) -> Matrix:
        """The rows of :math:`U`, in float64, computed when read."""
        if self.left is not None:
            return self.left
        if self.whitener is None or values is None:
            raise InputError("second moments hold no rows to shuffle: a null needs the two arrays")
        return ProjectedRows(values, self.mean, self.whitener)

    def standardised(self) -> Frame:
        """The frame of the same rows with every column scaled to unit variance; constant columns are left out."""
        turn, values, axes = np.linalg.svd(self.root * self.inverse_spread, full_matrices=False)
        return Frame(
            self.n,
            self.mean,
            values,
            axes.T,
            None if self.whitener is None else self.whitener @ turn,
            None if self.left is None else self.left @ turn,
        )

    def components_for(self, variance: float) -> int:
        """Number of leading directions that hold this share of the variance, including ties with the last one.

        Directions of equal variance have no order: rounding alone would decide which of them comes first.
        """
        shares = np.cumsum(self.singular_values**2) / self.square_norm
        last = min(int(np.searchsorted(shares, variance - 1e-12)), self.rank - 1)
        return int((self.singular_values >= (1 - 1e-9) * self.singular_values[last]).sum())


class _Scores:
    """A block of rows in principal coordinates, with its place."""

    def __init__(self, mean: Array, whitener: Array, dtype: type) -> None:
        self._mean, self._whitener, self._dtype = mean, whitener, dtype

    def __call__(self, start: int, rows: Array) -> tuple[int, Array]:
        scores = (rows.astype(np.float64) - self._mean) @ self._whitener
        return start, scores.astype(self._dtype, copy=False)


def frame_of(values: Matrix, name: str) -> Frame:
    """The frame of stored rows: from moments where rows outnumber columns, otherwise from the rows themselves."""
    n, d = values.shape
    if n <= d:
        mean, left, deviations, axes, _ = decompose_few_rows(values, name)
        _require_variation(len(deviations), name, mean)
        _require_range(deviations, name)
        return Frame(n, mean, deviations * np.sqrt(n), axes, left=left)

    def moments(mean: Array | None, basis: Array | None) -> Moments:
        rows = values if mean is None or basis is None else ProjectedRows(values, mean, basis)
        return moments_alone(rows, name)

    total, factor = resolve_alone(moments, rounding_of(values))
    return frame_of_factor(factor, total.n, total.source_mean, name)


def frame_of_factor(factor: Factor, n: int, mean: Array, name: str) -> Frame:
    """Principal axes of a factored covariance."""
    _require_variation(factor.rank, name, mean)
    turn, values, axes = np.linalg.svd(factor.root, full_matrices=False)
    _require_range(values, name)
    return Frame(n, mean, values * np.sqrt(n), axes.T, factor.whitener @ turn / np.sqrt(n))


def _require_range(deviations: Array, name: str) -> None:
    """Refuse spreads whose fourth powers, which indices are made of, leave float64."""
    largest = float(deviations.max())
    if not 1e-70 < largest < 1e70:
        raise InputError(f"the values of {name} spread by {largest:.0e}: rescale, their fourth powers leave float64")


def decompose_few_rows(
    values: Matrix, name: str, weights: Array | None = None, *, any_scale: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    """Fewer rows than columns: a decomposition of the rows, without a (d, d) matrix.

    The mean, left singular vectors, standard deviations along axes, the axes, and which columns do not vary. Weights
    sum to one. With ``any_scale`` all varying columns count, otherwise only those that vary enough.
    """
    rows = np.asarray(read_rows(values, slice(None)), dtype=np.float64)
    if not np.isfinite(rows).all():
        refuse_non_finite(values, name)
    n, d = rows.shape
    shares = np.full(n, 1 / n) if weights is None else weights
    with np.errstate(over="ignore", invalid="ignore"):
        mean = shares @ rows
        rows = np.sqrt(shares)[:, None] * (rows - mean)
        size = float(np.abs(rows).max())
    if not size < 1e140:
        raise InputError(f"{name} holds values so large that their squares overflow: rescale it")
    # As for moments, columns are scaled to one size before small values count as zero.
    rounding = rounding_of(values)
    spread, noise = np.linalg.norm(rows, axis=0), rounding * np.abs(mean)
    constant = spread <= noise
    varies = ~constant if any_scale else ~(constant | hardly_vary(spread, constant))
    inverse = np.divide(1.0, spread, out=np.zeros(d), where=varies)
    left, singular, _ = linalg.svd(rows * inverse, full_matrices=False, check_finite=False)
    least = max(max(n, d) * np.finfo(float).eps, rank_tolerance(rounding)) * singular[0]
    kept = (singular > max(least, 2 * float(np.linalg.norm(noise * inverse)))) & (np.arange(n) < n - 1)
    left = left[:, kept]
    turn, deviations, axes = np.linalg.svd(left.T @ (rows * varies), full_matrices=False)
    return mean, left @ turn, deviations, axes.T, constant


def _require_variation(rank: int, name: str, mean: Array) -> None:
    if rank == 0:
        told = f"all rows of {name} are identical, as far as their precision tells{or_tiny(mean)}"
        raise InputError(f"{told}: nothing can be compared")


_SMALL = 2**17  # scores of at most so many cells are shuffled in float64: float32 would save nothing


class Memo:
    """Cache of intermediate results that several indices share."""

    def once(self, key: Any, find: Callable[[], Answer]) -> Answer:
        """The cached result, computed on first use."""
        answers: dict[Any, Any] = self.__dict__.setdefault("_answers", {})
        if key not in answers:
            answers[key] = find()
        answer: Answer = answers[key]
        return answer


class Side(Memo):
    """One representation with its cached results."""

    def __init__(self, values: Matrix | None, name: str, n: int) -> None:
        self.values, self.name, self.n = values, name, n

    @property
    def rows(self) -> Matrix:
        """The stored rows; refused where there are only moments."""
        if self.values is None:
            raise InputError("second moments do not hold what this needs: pass the two arrays")
        return self.values

    @cached_property
    def finite_rows(self) -> Matrix:
        """The stored rows, after a check that all values are finite."""
        refuse_non_finite(self.rows, self.name)
        return self.rows

    @cached_property
    def near_rows(self) -> Matrix:
        """The finite rows in local memory, for indices over all pairs of rows."""
        return brought_here(self.finite_rows)

    @cached_property
    def codes(self) -> Array:
        """For each row a number that equal rows share."""
        return equal_rows(self.finite_rows)

    @property
    def repeats(self) -> int:
        """The number of rows that equal an earlier one."""
        return self.n - int(self.codes.max()) - 1

    def cut(self, rows: Array) -> Side:
        """Some rows alone; the same ones each time."""
        name = f"{self.name} (the rows that are shuffled)"
        return self.once("cut", lambda: Side(select(self.rows, rows), name, len(rows)))

    @cached_property
    def frame(self) -> Frame:
        """The principal frame; set from joint moments where these resolve it."""
        return frame_of(self.rows, self.name)

    @cached_property
    def standard_frame(self) -> Frame:
        """The frame of the rows with columns at unit variance."""
        return self.frame.standardised()

    def scores(self, kind: str = "frame") -> Array:
        """Rows in their principal frame, to be shuffled: in float32 where there are many."""
        frame = self.frame if kind == "frame" else self.standard_frame
        small = frame.n * frame.rank <= _SMALL
        dtype: type = np.float64 if small else np.float32
        return self.once(("scores", kind), lambda: frame.scores(self.values, dtype))

    @cached_property
    def square_radii(self) -> Array:
        """The squared distance of each row from the mean."""
        mean = self.frame.mean

        def squares(start: int, rows: Array) -> Array:
            centred = rows.astype(np.float64) - mean
            return np.asarray(np.einsum("ij,ij->i", centred, centred))

        size = block_rows(self.rows.shape[1], cells=2**20)
        return np.concatenate(map_rows(squares, [self.rows], size))


@dataclass(eq=False)
class Pair(Memo):
    """Two sides with paired rows."""

    x: Side
    y: Side
    moments: Moments | None = None
    caveats: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.x.n

    @property
    def single(self) -> bool:
        """Whether values are rounded as float32 is, where they are stored or where they are shuffled."""
        sides = [side for side in (self.x, self.y) if side.values is not None]
        return any(rounding_of(side.rows) > 1e-10 or side.n * side.rows.shape[1] > _SMALL for side in sides)

    def cut(self, rows: Array) -> Pair:
        """Some rows alone."""
        return self.once("cut", lambda: Pair(self.x.cut(rows), self.y.cut(rows)))

    @cached_property
    def cross(self) -> Array:
        r""":math:`C=U_X^\top U_Y`, from moments where these resolve both sides."""
        a, b = self.x.frame, self.y.frame
        if self.moments is not None and a.whitener is not None and b.whitener is not None:
            return np.asarray(a.whitener.T @ self.moments.xy @ b.whitener)
        return _product(self.x, self.y)

    def column_correlations(self, cross: Array) -> Array:
        """The (d_x, d_y) correlations of columns, from a cross product of the frames; constant ones have none."""
        left, right = self.once(
            "unit columns",
            lambda: [each.root * each.inverse_spread / np.sqrt(each.n) for each in (self.x.frame, self.y.frame)],
        )
        return np.asarray(left.T @ cross @ right)

    @cached_property
    def standard_cross(self) -> Array:
        """The same between the frames of standardised columns."""
        turns = []
        for side in (self.x, self.y):
            plain, standard = side.frame, side.standard_frame
            turns.append((plain.root * plain.inverse_spread) @ standard.axes / standard.singular_values)
        return np.asarray(turns[0].T @ self.cross @ turns[1])


def _product(x: Side, y: Side) -> Array:
    """The cross product of two sides in their frames, block by block in float64."""
    frames = (x.frame, y.frame)
    sides = [
        frame.rows(None if frame.left is not None else each.rows) for frame, each in zip(frames, (x, y), strict=True)
    ]
    if in_chunks(sides[0]) is None or in_chunks(sides[1]) is None:  # few rows, of which one side has more columns
        sides = [brought_here(each) for each in sides]
    size = block_rows(*(max(frame.rank, frame.width) for frame in frames), cells=2**20)
    parts = map_rows(lambda start, left, right: np.asarray(left.T @ right), sides, size)
    return np.asarray(sum(parts[1:], parts[0]))


def paired(x: Any, y: Any = None, *, moments: bool = True) -> Pair:
    """Two arrays or representations with paired rows, or their moments, made ready for every index.

    ``moments=False`` postpones the pass for moments until a frame is needed.
    """
    if isinstance(x, Moments):
        if y is not None:
            raise InputError("moments hold both sides: pass them alone")
        return _from_moments(x)
    if y is None:
        raise InputError("an index compares two sides: pass X and Y, or their Moments")
    a, b = as_representation(x, "X"), as_representation(y, "Y")
    match = match_rows(a, b)
    a, b = kept_by_workers(a, b)
    names = (a.name or "X", b.name or "Y")
    n = len(a)
    if n < 3:
        raise InputError(f"{names[0]} and {names[1]} have {n} rows: at least 3 are needed")
    pair = Pair(Side(a.values, names[0], n), Side(b.values, names[1], n))
    pair.caveats.extend(reading_notes(a, b))
    if match.half_identified:
        pair.caveats.append("rows are paired by position: only one side has row ids, so the pairing is unconfirmed")
    if moments and n > max(a.shape[1], b.shape[1]):
        require_memory(a.shape[1], b.shape[1], 1)
        joint = fold_moments(a.values, b.values, np.zeros(n, dtype=np.intp), 1, names=names)[0]
        _use_moments(pair, joint, (rounding_of(a.values), rounding_of(b.values)))
    return pair


def joined(
    sources: Sequence[Representation], targets: Sequence[Representation], *labels: Any
) -> tuple[list[Representation], list[Representation], list[Any], str]:
    """Layers of two sides on their common rows, by id; the labels of these rows, given for the source's, and a note."""
    for side in (sources, targets):
        for other in side[1:]:
            match_rows(side[0], other)
    match = match_rows(sources[0], targets[0], join=True)
    if match.source_rows is None or match.target_rows is None:
        return list(sources), list(targets), list(labels), ""
    chosen = [
        [replace(each, values=select(each.values, rows), ids=np.asarray(each.ids)[rows]) for each in side]
        for side, rows in ((sources, match.source_rows), (targets, match.target_rows))
    ]
    codes = [common_codes(each, len(sources[0]), match.source_rows, "groups") for each in labels]
    note = (
        f"joined by id: {len(match.source_rows)} common rows, {match.dropped_from_source} dropped from "
        f"{sources[0].name} and {match.dropped_from_target} from {targets[0].name}"
    )
    return chosen[0], chosen[1], codes, note


def _from_moments(moments: Moments) -> Pair:
    if moments.n < 3:
        raise InputError(f"these are the moments of {moments.n} rows: at least 3 are needed")
    pair = Pair(Side(None, "X", moments.n), Side(None, "Y", moments.n))
    _use_moments(pair, moments, (float(np.finfo(np.float64).eps),) * 2)
    return pair


def _use_moments(pair: Pair, moments: Moments, roundings: tuple[float, float]) -> None:
    """Take the frame of each side that joint moments resolve from these, and of one that has no rows."""
    means, sums = (moments.source_mean, moments.target_mean), (moments.xx, moments.yy)
    resolved = []
    for side, mean, each, rounding in zip((pair.x, pair.y), means, sums, roundings, strict=True):
        factor = factor_covariance(each, moments.n, mean, rounding)
        resolved.append(factor.resolved or side.values is None)
        if resolved[-1]:
            side.frame = frame_of_factor(factor, moments.n, mean, side.name)
    pair.moments = moments if all(resolved) else None
