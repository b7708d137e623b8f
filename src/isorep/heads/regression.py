"""Head map compared with held-out least squares on paired features, and the target's head from the regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..alignment import AffineMap
from ..alignment.base import Error, column_errors, summarise
from ..comparison.ladder import Design, Ladder, climb, diameters, measure
from ..moments import require_memory
from ..pairs import Pair
from ..representation import Array, Matrix, rounding_of
from ..resampling import (
    Interval,
    assign_blocks,
    assign_folds,
    error_variance,
    influence_rows,
    interval_of,
    ratio_influence,
)
from ..results import Record
from ..rows import Progress, ProjectedRows, block_rows, blocks, map_blocks, read_rows
from .diversity import effective_dimension, seen_share
from .inputs import Head
from .spectrum import Spectrum, spectrum

_SHOWN = 300  # points of the figure


def compare_with_regression(
    mapped: AffineMap,
    heads: tuple[Head, Head],
    spectra: tuple[Spectrum, Spectrum],
    shares: Array,
    pair: Pair,
    labels: Array | None,
    *,
    folds: int,
    intervals: bool,
    random_state: int,
    report: Progress,
) -> tuple[Regression, HeadPrediction, Plane]:
    """Compare the heads' map with a regression on paired features, in the span of the classes' differences."""
    for values, head, name in zip((pair.x, pair.y), heads, pair.names, strict=True):
        head.require_width(values, name)
    sides = [spectrum(values, name) for values, name in zip((pair.x, pair.y), pair.names, strict=True)]
    seen = {
        "effective_dimensions": tuple(map(effective_dimension, sides, spectra)),
        "seen_shares": tuple(map(seen_share, sides, spectra)),
    }
    bases = tuple(None if each.rank == each.width else each.axes for each in spectra)
    pair.x, pair.y = (
        values if basis is None else SeenRows(values, basis)
        for values, basis in zip((pair.x, pair.y), bases, strict=True)
    )
    require_memory(pair.x.shape[1], pair.y.shape[1], folds)
    for_folds, for_blocks = (np.random.default_rng(each) for each in np.random.SeedSequence(random_state).spawn(2))
    fold_of = assign_folds(pair.n, folds, labels, for_folds)
    design = Design(pair, fold_of, folds, labels, ["linear"], report)
    ladder = climb(design, measure(design), intervals=intervals)
    inside = _inside(mapped, bases)
    regression = _errors(ladder, inside, intervals, for_blocks, seen)
    whole = ladder.fitted["linear"].whole
    prediction = _predict_head(heads, spectra, bases, shares, whole, ladder)
    return regression, prediction, _plane(ladder, inside, whole[0])


@dataclass(frozen=True)
class FittedError:
    """Errors of one map in units of the target's diameter, the share of variance explained, and an interval."""

    error: Error
    r2: float
    interval: Interval | None


@dataclass(frozen=True)
class Regression(Record):
    """The head map compared with the held-out regression, in the spans of both heads' class differences.

    ``excess`` is an interval for the head map's mean error above the regression's, rows paired, in diameters;
    ``difference`` the root mean square distance of the two maps' predictions, and ``intercept_gap`` the head map's
    error at the mean, both in RMS radii of the target. ``effective_dimensions`` and ``seen_shares`` are those of source
    and target features in the spans of the classes' differences.
    """

    derived: ClassVar[tuple[str, ...]] = ("share",)
    rows: int
    diameter: float
    head: FittedError
    regression: FittedError
    excess: Interval | None
    head_r2_own_intercept: float
    difference: float
    intercept_gap: float
    effective_dimensions: tuple[int, int]
    seen_shares: tuple[float, float]

    @property
    def share(self) -> float | None:
        """The part of the regression's explained variance that the head map explains; None where there is none."""
        return self.head.r2 / self.regression.r2 if self.regression.r2 > 0 else None


@dataclass(frozen=True)
class Plane:
    """Some rows in the first two principal axes of the target, in its RMS radii: as they are, and under each map."""

    rows: tuple[str, ...]
    target: tuple[tuple[float, float], ...]
    head: tuple[tuple[float, float], ...]
    regression: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Prediction:
    """The share of the target's head that is predicted: of its embeddings, and of their log-odds on the data."""

    r2: float
    log_odds_r2: float


@dataclass(frozen=True)
class HeadPrediction:
    """The target's head predicted from the source's, by the inverse of the regression and by the reverse regression.

    ``condition`` is that of the regression's matrix: by how much its inverse can amplify noise.
    """

    inverse: Prediction
    reverse: Prediction
    condition: float


class SeenRows(ProjectedRows):
    """Features in the span of the differences of classes; they are as coarse as they were stored."""

    def __init__(self, values: Matrix, basis: Array) -> None:
        super().__init__(values, np.zeros(len(basis)), basis)
        self.rounding = rounding_of(values)


def _inside(mapped: AffineMap, bases: tuple[Array | None, ...]) -> AffineMap:
    """The head map between the spans of the classes' differences."""
    matrix = _inner(_inner(mapped.matrix.T, bases[0]).T, bases[1])
    return AffineMap(matrix, np.zeros(len(matrix)), _inner(mapped.target_mean, bases[1]))


def _errors(
    ladder: Ladder, inside: AffineMap, intervals: bool, rng: np.random.Generator, seen: dict[str, Any]
) -> Regression:
    """Residuals of both maps: the head map uses no rows, the regression none of the row's fold."""
    pair, total = ladder.design.pair, ladder.moments.total
    whole = ladder.fitted["linear"].whole[0]
    fitted = ladder.residuals.rungs["linear"][0, 1]
    heads, apart = np.empty(pair.n), np.empty(pair.n)

    def evaluate(rows: slice) -> None:
        x, y = (np.asarray(read_rows(values, rows), dtype=np.float64) for values in (pair.x, pair.y))
        mapped = inside.apply(x)
        heads[rows] = np.linalg.norm(mapped - y, axis=1)
        apart[rows] = np.linalg.norm(mapped - whole.apply(x), axis=1)

    map_blocks(evaluate, pair.n, max(64, block_rows(pair.x.shape[1], pair.y.shape[1]) // 4))
    size = diameters(ladder, "auto")[1]
    spans: list[Interval | None] = [None] * 3
    if intervals:
        spans = [each.times(1 / size.value) for each in _intervals(ladder, heads, fitted, rng)]
    spread = float(np.trace(total.yy))
    around = column_errors(inside.matrix, np.zeros(1), total.n, total.xx, total.xy, np.diagonal(total.yy))
    radius = ladder.moments.rms_radii[1]
    gap = inside.apply(total.source_mean[None])[0] - total.target_mean
    return Regression(
        rows=pair.n,
        diameter=size.value,
        head=FittedError(summarise(heads, size.value), 1 - float(heads @ heads) / spread, spans[0]),
        regression=FittedError(summarise(fitted, size.value), 1 - float(fitted @ fitted) / spread, spans[1]),
        excess=spans[2],
        head_r2_own_intercept=1 - float(around.sum()) / spread,
        difference=float(np.sqrt(np.mean(apart**2)) / radius),
        intercept_gap=float(np.linalg.norm(gap) / radius),
        **seen,
    )


def _intervals(ladder: Ladder, heads: Array, fitted: Array, rng: np.random.Generator) -> list[Interval]:
    """Of the mean errors of the head map and of the regression, and of their difference.

    Heads are given and their map does not vary with the rows; the regression does, and so does its error.
    """
    n = len(heads)
    block_of = assign_blocks(n, ladder.design.labels, rng)
    rows = influence_rows(n, ladder.design.labels, rng)
    moved = ladder.through_maps("linear", rows)[0] / n if ladder.residuals.pulls else None
    parts = (heads, None, 0.0), (fitted, moved, 0.0), (heads - fitted, None if moved is None else -moved, -np.inf)
    spans = []
    for errors, through, least in parts:
        mean, own = ratio_influence(errors, np.ones(n), None)
        spans.append(interval_of(mean, error_variance(own, through, block_of, rows), block_of, least))
    return spans


def _predict_head(
    heads: tuple[Head, Head],
    spectra: tuple[Spectrum, Spectrum],
    bases: tuple[Array | None, ...],
    shares: Array,
    maps: tuple[AffineMap, AffineMap],
    ladder: Ladder,
) -> HeadPrediction:
    """The target's head from the source's, through the inverse of the regression and through its reverse."""
    source, target = heads
    forward = maps[0].matrix.T
    inverses = (np.linalg.pinv(forward, rcond=1e-10), maps[1].matrix.T)
    root = ladder.moments.factors[1].root  # of the covariance of the target's features: log-odds are judged with it
    errors, sizes = np.zeros((2, 2)), np.zeros(2)
    for rows in blocks(source.classes, block_rows(source.width, target.width)):
        roots = np.sqrt(shares[rows])[:, None]
        a, b = (
            _inner(roots * (read_rows(head.values, rows).astype(np.float64) - each.mean), basis)
            for head, each, basis in zip(heads, spectra, bases, strict=True)
        )
        sizes += np.sum(b**2), np.sum((b @ root.T) ** 2)
        for error, inverse in zip(errors, inverses, strict=True):
            miss = a @ inverse - b
            error += np.sum(miss**2), np.sum((miss @ root.T) ** 2)
    explained = 1 - np.divide(errors, sizes, out=np.ones_like(errors), where=sizes > 0)
    singular = np.linalg.svd(forward, compute_uv=False)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else float("inf")
    by_inverse, by_reverse = (Prediction(*each) for each in explained.tolist())
    return HeadPrediction(by_inverse, by_reverse, condition)


def _inner(rows: Array, basis: Array | None) -> Array:
    return rows if basis is None else np.asarray(rows @ basis)


def _plane(ladder: Ladder, inside: AffineMap, fitted: AffineMap) -> Plane:
    """Some rows in the first two principal axes of the target: as they are, from the heads, from the regression."""
    pair, total = ladder.design.pair, ladder.moments.total
    chosen = np.unique(np.linspace(0, pair.n - 1, min(_SHOWN, pair.n)).astype(int))
    x, y = (np.asarray(values[chosen], dtype=np.float64) for values in (pair.x, pair.y))
    axes = np.linalg.eigh(total.yy)[1][:, ::-1][:, :2]
    if axes.shape[1] == 1:
        axes = np.column_stack([axes, np.zeros(len(axes))])
    labels = tuple(str(row if pair.ids is None else pair.ids[row]) for row in chosen)
    shown = (
        (rows - total.target_mean) @ axes / ladder.moments.rms_radii[1]
        for rows in (y, inside.apply(x), fitted.apply(x))
    )
    return Plane(labels, *(tuple(map(tuple, points.tolist())) for points in shown))
