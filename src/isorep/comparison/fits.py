"""Fits of every rung in both directions, from moments; ICA of each side alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any
from zlib import crc32

import numpy as np
from scipy import linalg

from ..alignment.base import (
    AffineMap,
    component_map,
    identity_map,
    match_components,
    rigid_maps,
    signed_permutation_maps,
    solve_linear,
)
from ..covariance import SecondPass, triangular_root
from ..errors import InputError
from ..ica.contrasts import contrast_named
from ..ica.few import few_components
from ..ica.newton import ROWS_A_DIMENSION
from ..ica.search import WIDE
from ..ica.unmixing import FLOATS, as_source, whiten
from ..ica.unmixing import unmix as unmix_rows
from ..moments import Moments, merged_without, moments_alone
from ..representation import Array, Matrix, rounding_of
from ..resampling import haar, quick_haar
from ..row_span import RowSpan
from ..rows import Deadline, Progress, map_blocks, read_rows
from ..threads import WIDE_MATRIX, Crew
from .residuals import FittedRung, Maps

MATCHED_ROWS = 20_000  # pairs that components are matched on
ICA_CELLS = 2**26  # rows x columns that an ICA fit of the ladder may hold in float64: 512 MiB
_ICA_WORK = 3e13  # floating-point operations of one fit: of thousands of columns it ends before it has converged
_ICA_SWEEPS = (20, 200)  # at the least and at the most
_ICA_TOL = 1e-3  # radians: sampling lets directions stray by far more
_FEW_ROWS = 24  # per column, up to which hardly any component can be distinguished from noise
_TELLING = 16  # rows by which runs are told apart
_SIDE_BY_SIDE = 2**24  # rows x columns of a run up to which fits to all its rows run at once with others


@dataclass(frozen=True, eq=False)
class FewRows:
    """The spans of both sides, and the rows that maps are fitted to."""

    spans: tuple[RowSpan, RowSpan]
    chosen: Array

    def linear(self) -> Maps:
        """The maps of least squares."""
        x, y = (span.rows[self.chosen] for span in self.spans)
        means = x.mean(axis=0), y.mean(axis=0)
        there = self.spans[0].least_squares(self.chosen, y - means[1])
        back = self.spans[1].least_squares(self.chosen, x - means[0])
        return AffineMap(there, *means), AffineMap(back, *means[::-1])


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Input of the rungs' fits: the moments of some rows, with their rounding and ICAs."""

    moments: Moments
    roundings: tuple[float, float]
    second: tuple[tuple[SecondPass, Moments] | None, tuple[SecondPass, Moments] | None] = (None, None)
    icas: tuple[FittedICA, FittedICA] | None = None
    inverse: Array | None = None  # of the source's moments, where many pairings share it
    quick: bool = False  # for errors of rows alone: rigid maps need not be complete rotations
    few: FewRows | None = None  # where moments are of coordinates


@cache
def any_turn(width: int) -> Array:
    """The rotation of what few rows leave undetermined: one that is drawn, as rounding must not choose the true one.

    It is its own inverse, so that exchanging the sides exchanges the directions of the comparison.
    """
    turn = haar(width, np.random.default_rng(0))
    return np.asarray(turn * np.where(np.arange(width) % 2, -1.0, 1.0) @ turn.T)


def fit_all(
    names: Sequence[str],
    training: Sequence[Callable[[], TrainingSet]],
    progress: Callable[[int, int], None] | None = None,
    dtype: Any = np.float64,
) -> list[dict[str, Maps]]:
    """For each training set the maps source -> target and target -> source of every rung.

    Sets are made when their turn comes, and matrices kept in this dtype: in many dimensions they fill the memory.
    """

    def fitted(place: slice) -> dict[str, Maps]:
        return fit(names, training[place.start](), dtype)

    return map_blocks(fitted, len(training), 1, progress=progress)


def fit(names: Sequence[str], training: TrainingSet, dtype: Any = np.float64) -> dict[str, Maps]:
    """The maps source -> target and target -> source of every rung, from one training set."""
    return {name: _in_dtype(_FITS[name](training), dtype) for name in names}


def _in_dtype(maps: Maps, dtype: Any) -> Maps:
    forward, reverse = maps
    if forward.linear.dtype == dtype:
        return maps
    there = forward.linear.astype(dtype)
    inverse = forward.orthogonal and there.shape[0] == there.shape[1]
    return replace(forward, linear=there), replace(reverse, linear=there.T if inverse else reverse.linear.astype(dtype))


def _identity(training: TrainingSet) -> Maps:
    return identity_map(training.moments), identity_map(training.moments.swapped())


def _signed_permutation(training: TrainingSet) -> Maps:
    return signed_permutation_maps(training.moments)


def _rigid(training: TrainingSet) -> Maps:
    guess = None if training.few is None else any_turn(max(training.moments.xy.shape))
    return rigid_maps(training.moments, quick=training.quick, guess=guess)


def _linear(training: TrainingSet) -> Maps:
    if training.few is not None:
        return training.few.linear()
    maps = []
    for side, moments in enumerate((training.moments, training.moments.swapped())):
        second = training.second[side]
        if side == 0 and training.inverse is not None:
            matrix = training.inverse @ moments.xy
        elif second is None:
            matrix, _ = solve_linear(moments, training.roundings[side])
        else:
            matrix, _ = solve_linear(second[1], training.roundings[side], second[0].by)
        maps.append(AffineMap(matrix, moments.source_mean, moments.target_mean))
    return maps[0], maps[1]


def _ica(training: TrainingSet) -> Maps:
    if training.icas is None:
        raise ValueError("the ICA rung needs two fitted ICAs")
    return _ica_maps(training.moments, *training.icas)


_FITS: dict[str, Callable[[TrainingSet], Maps]] = {
    "identity": _identity,
    "signed_permutation": _signed_permutation,
    "rigid": _rigid,
    "linear": _linear,
    "ica": _ica,
}
RUNGS = tuple(_FITS)
"""The rungs in the order of the ladder, smallest group first."""


PARTS = 3  # of the rows: one for the source's ICA, one for the target's, one to score


@dataclass(frozen=True, eq=False)
class FittedICA:
    """An ICA as the ladder uses it: both matrices, which components may be Gaussian, and whether the fit converged."""

    components: Array
    mixing: Array
    gaussian: Array
    converged: bool

    def along(self, axes: Array) -> FittedICA:
        """The same in the coordinates of orthonormal axes that span the rows."""
        return replace(self, components=self.components @ axes.T, mixing=axes @ self.mixing)


@dataclass(frozen=True, eq=False)
class UnmixedSide:
    """The ICAs of one side: of all rows, and of each part of them, every one from its own start."""

    whole: FittedICA
    parts: list[FittedICA]
    rows_used: int

    def without_matrices(self) -> UnmixedSide:
        """What is told of the fits, without their matrices: in thousands of columns these take gigabytes."""
        whole, *parts = (replace(each, components=np.zeros((0, 0)), mixing=np.zeros((0, 0))) for each in self.fits)
        return replace(self, whole=whole, parts=parts)

    def along(self, axes: Array) -> UnmixedSide:
        """The same in the coordinates of orthonormal axes that span the rows."""
        whole, *parts = (each.along(axes) for each in self.fits)
        return replace(self, whole=whole, parts=parts)

    @property
    def fits(self) -> list[FittedICA]:
        """That of all rows, then those of the parts."""
        return [self.whole, *self.parts]

    @property
    def gaussian(self) -> int:
        """Number of components, fitted to all rows, that are indistinguishable from Gaussian."""
        return int(self.whole.gaussian.sum())

    @property
    def gaussian_in_parts(self) -> list[int]:
        """The same of each part of the rows."""
        return [int(part.gaussian.sum()) for part in self.parts]

    @property
    def lost_in_parts(self) -> float:
        """Number of components that all rows determine and a part of the rows, in the median, does not."""
        return float(np.median(self.gaussian_in_parts)) - self.gaussian

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return all(each.converged for each in self.fits)


def unmix(
    runs: Sequence[Matrix],
    part_of: Array,
    seed: int,
    rng: np.random.Generator,
    report: Progress,
    deadline: Deadline,
    spans: Sequence[RowSpan] | None = None,
) -> list[UnmixedSide]:
    """ICA of every run: of all rows, and of each part of them alone; in coordinates where there are spans.

    In many dimensions ICA leaves components that are indistinguishable from Gaussian where its search began. In fits to
    parts they are rotated at random: otherwise they would follow moments that all runs share, and Gaussian rows would
    look identified.
    """
    given = runs
    axes = [] if spans is None else [span.above_rounding() for span in spans]
    if spans is not None:
        runs = [span.rows @ each.T for span, each in zip(spans, axes, strict=True)]
    chosen = [_ica_rows(values, rng) for values in runs]
    jobs: list[tuple[int, int | None]] = [(run, None) for run in range(len(runs))]
    jobs += [(run, part) for run in range(len(runs)) for part in range(PARTS)]
    # Large fits fill the memory, so they come first and one by one; the others leave a core idle unless they run side
    # by side.
    widths = [values.shape[1] for values in runs]
    large = [
        (run, part)
        for run, part in jobs
        if widths[run] > WIDE_MATRIX or (part is None and chosen[run].size * widths[run] > _SIDE_BY_SIDE)
    ]

    shares = dict.fromkeys(jobs, 0.0)

    def tell(job: tuple[int, int | None], share: float) -> None:
        shares[job] = max(share, shares[job])
        report("independent components", int(100 * sum(shares.values())), 100 * len(jobs))

    def fitted(job: tuple[int, int | None]) -> FittedICA:
        run, part = job
        rows = chosen[run] if part is None else chosen[run][part_of[chosen[run]] == part]
        values = runs[run]
        everything = len(rows) == values.shape[0]
        if everything and values.dtype in FLOATS:  # the passes read a file themselves
            return _fitted_ica(values, rounding_of(values), seed, deadline, partial(tell, job))
        sample = read_rows(values, slice(None) if everything else rows)
        as_given = sample if spans is None else read_rows(given[run], rows)  # coordinates of equal rows may differ
        if len(sample) < 2 or not (as_given != as_given[0]).any():  # differences of float16 may overflow
            return _no_components(values.shape[1])
        sample = sample if sample.dtype in FLOATS else sample.astype(np.float64)
        if part is None:
            return _fitted_ica(sample, rounding_of(values), seed, deadline, partial(tell, job))
        # The rows as given decide, and not the order of the runs.
        mark = read_rows(given[run], rows[:_TELLING])
        mark = mark if mark.dtype in FLOATS else mark.astype(np.float64)
        turns = np.random.default_rng([seed, part, crc32(mark.tobytes())])
        if sample.shape[1] > WIDE_MATRIX and len(sample) < ROWS_A_DIMENSION * sample.shape[1]:
            deadline.leave()
            unknown = _undetermined(sample, rounding_of(values), turns)
            if unknown is not None:
                return unknown
        ica = _fitted_ica(sample, rounding_of(values), seed, deadline, partial(tell, job))
        return ica if len(ica.components) <= WIDE else _undetermined_turned(ica, turns)

    fits: dict[tuple[int, int | None], FittedICA] = {}

    def keep(job: tuple[int, int | None], ica: FittedICA) -> None:
        fits[job] = ica
        tell(job, 1.0)

    report("independent components", 0, 100 * len(jobs))
    for job in large:
        keep(job, fitted(job))
    others = [job for job in jobs if job not in fits]
    with Crew() as crew:
        for job, ica in zip(others, crew.stream(fitted, others), strict=True):
            keep(job, ica)
    sides = [
        UnmixedSide(fits[run, None], [fits[run, part] for part in range(PARTS)], len(chosen[run]))
        for run in range(len(runs))
    ]
    return sides if spans is None else [side.along(each.T) for side, each in zip(sides, axes, strict=True)]


def _no_components(d: int) -> FittedICA:
    """The fit where all rows are the same: only the mean is predicted."""
    return FittedICA(np.zeros((0, d)), np.zeros((d, 0)), np.zeros(0, dtype=bool), True)


def _ica_rows(values: Matrix, rng: np.random.Generator) -> Array:
    """The rows that a run's components are estimated from: all of them, or as many as memory allows."""
    n, most = values.shape[0], max(ICA_CELLS // values.shape[1], 2)
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _undetermined(rows: Array, rounding: float, rng: np.random.Generator) -> FittedICA | None:
    """The fit of so few rows that they determine no component: any whitening, rotated at random.

    A triangular one costs least. None where not all directions count.
    """
    moments = moments_alone(rows)
    triangle = triangular_root(moments.xx, moments.n, moments.source_mean, rounding)
    if triangle is None:
        return None
    root, dtype = triangle[0], np.float64 if rows.dtype == np.float64 else np.float32
    del moments
    rotation = quick_haar(len(root), rng)
    components = linalg.solve_triangular(root, rotation.T, check_finite=False).T.astype(dtype)
    return FittedICA(components, (root.T @ rotation.T).astype(dtype), np.ones(len(root), dtype=bool), True)


def _undetermined_turned(ica: FittedICA, rng: np.random.Generator) -> FittedICA:
    """The fit with its components that are indistinguishable from Gaussian rotated at random among themselves."""
    free = np.flatnonzero(ica.gaussian)
    rotation = haar(len(free), rng)
    components, mixing = ica.components.copy(), ica.mixing.copy()
    components[free] = rotation @ components[free]
    mixing[:, free] = mixing[:, free] @ rotation.T
    return replace(ica, components=components, mixing=mixing)


def paired_sample(n: int, rng: np.random.Generator) -> Array | None:
    """The rows that components are matched on: all of them (None), or enough of them."""
    return None if n <= MATCHED_ROWS else np.sort(rng.choice(n, MATCHED_ROWS, replace=False))


def ica_rung(
    whole: Moments, parts: Sequence[Moments], part_of: Array, source: UnmixedSide, target: UnmixedSide
) -> FittedRung:
    """The ICA rung: rows of a part are scored by ICAs of the other two parts, one for each side, then exchanged.

    The two sides' ICAs are fitted to disjoint rows and share no sampling noise: on Gaussian rows, which determine
    nothing, they agree no more than two random rotations do. Pairs serve only to match components. The maps fitted on
    all rows are those of published tables.
    """
    without = [_maps_without(parts, part, source, target) for part in range(PARTS)]
    return FittedRung(_ica_maps(whole, source.whole, target.whole), without, part_of)


def ica_rung_by_part(
    whole: Moments, parts: Sequence[Moments], part_of: Array, source: UnmixedSide, target: UnmixedSide
) -> Iterator[tuple[Array | None, FittedRung]]:
    """The ICA rung for the rows that it scores: for all (None), or one part after the other.

    In thousands of columns the maps of all parts take gigabytes.
    """
    if max(whole.xx.shape[0], whole.yy.shape[0]) <= WIDE_MATRIX:
        yield None, ica_rung(whole, parts, part_of, source, target)
        return
    maps = _ica_maps(whole, source.whole, target.whole)
    for part in range(PARTS):
        rows = np.flatnonzero(part_of == part)
        yield rows, FittedRung(maps, [_maps_without(parts, part, source, target)], np.zeros(len(rows), dtype=int))


def _maps_without(parts: Sequence[Moments], part: int, source: UnmixedSide, target: UnmixedSide) -> list[Maps]:
    first, second = (other for other in range(PARTS) if other != part)
    training = merged_without(parts, part)
    return [_ica_maps(training, source.parts[a], target.parts[b]) for a, b in ((first, second), (second, first))]


def _ica_maps(training: Moments, source: FittedICA, target: FittedICA) -> Maps:
    training = replace(training, xy=training.xy.astype(source.components.dtype, copy=False))
    match = match_components(training, source.components, target.components)
    return (
        component_map(training, source.components, target.mixing, match),
        component_map(training.swapped(), target.components, source.mixing, match.swapped()),
    )


def _fitted_ica(
    rows: Matrix, rounding: float, seed: int, deadline: Deadline, tell: Callable[[float], None]
) -> FittedICA:
    """The ICA of some rows; the comparison's caveats report convergence and Gaussian components.

    With few rows per column, and in thousands of columns, a search follows only where more than a few components can
    be determined.
    """
    deadline.leave()
    source, contrast = as_source(rows), contrast_named("logcosh")
    whitening = whiten(source, rounding=rounding)
    n, d = (int(size) for size in rows.shape)
    sweeps = int(np.clip(_ICA_WORK / (4 * n * d**2), *_ICA_SWEEPS))

    def report(spent: float, contrast: float, left: float) -> None:
        deadline.leave()
        tell(1 - left)

    if d > WIDE_MATRIX or (d > WIDE and n < _FEW_ROWS * d):
        few = few_components(source, whitening, contrast, seed, tol=_ICA_TOL, max_iter=sweeps, report=report)
        deadline.leave()
        if few is not None:
            gaussian = np.arange(len(few.matrix)) >= few.count
            unmixing, mixing = few.matrix @ whitening.components_, whitening.mixing_ @ few.matrix.T
            return FittedICA(unmixing, mixing, gaussian, few.converged)
    state = np.random.RandomState(seed)
    found = unmix_rows(source, whitening, contrast, state, tol=_ICA_TOL, max_iter=sweeps, report=report)
    return FittedICA(found.components_, found.mixing_, found.gaussian_, bool(found.converged_))


def checked_rungs(rungs: Sequence[str]) -> list[str]:
    """The chosen rungs in the order of the ladder."""
    wanted = [rungs] if isinstance(rungs, str) else list(rungs or ())
    unknown = [name for name in wanted if name not in RUNGS]
    if unknown or not wanted:
        raise InputError(f"rungs {', '.join(map(str, unknown)) or 'is empty'}: choose from {', '.join(RUNGS)}")
    return [name for name in RUNGS if name in wanted]
