"""The head map beside least squares on paired features, held out, and the target's head from the regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..alignment import AffineMap
from ..alignment.base import column_errors, summarise
from ..comparison.ladder import Design, Ladder, climb, diameters, measure
from ..errors import InputError
from ..moments import require_memory
from ..pairs import Pair, open_pair
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
from ..rows import Progress, ProjectedRows, block_rows, blocks, map_blocks, read_rows
from .diversity import effective_dimension, seen_share
from .head_map_result import FittedError, HeadMap, HeadPrediction, Plane, Prediction, Regression
from .inputs import Head
from .spectrum import Spectrum, spectrum

_SHOWN = 300  # points of the figure


@dataclass(frozen=True, eq=False)
class Asked:
    """How a map is compared on data."""

    groups: Any
    folds: int
    intervals: bool
    seed: int
    tolerance: float
    report: Progress


class SeenRows(ProjectedRows):
    """Features in the span of the differences of classes; they are as coarse as they were stored."""

    def __init__(self, values: Matrix, basis: Array) -> None:
        super().__init__(values, np.zeros(len(basis)), basis)
        self.rounding = rounding_of(values)


def compare_with_regression(
    found: HeadMap,
    heads: tuple[Head, Head],
    spectra: tuple[Spectrum, Spectrum],
    shares: Array,
    features: Any,
    other_features: Any,
    asked: Asked,
) -> HeadMap:
    """The same map, with what paired features say about it."""
    pair, _, labels = open_pair(features, other_features, ("features", "other features"), asked.groups, False)
    for values, head, name in zip((pair.x, pair.y), heads, pair.names, strict=True):
        if values.shape[1] != head.width:
            raise InputError(f"{name} has {values.shape[1]} columns where {head.name} reads {head.width}")
    dimensions = _dimensions(pair, spectra)
    bases = tuple(None if each.rank == each.width else each.axes for each in spectra)
    pair.x, pair.y = (_seen(values, basis) for values, basis in zip((pair.x, pair.y), bases, strict=True))
    require_memory(pair.x.shape[1], pair.y.shape[1], asked.folds)
    for_folds, for_blocks = (np.random.default_rng(each) for each in np.random.SeedSequence(asked.seed).spawn(2))
    fold_of = assign_folds(pair.n, asked.folds, labels, for_folds)
    design = Design(pair, fold_of, asked.folds, labels, ["linear"], asked.report)
    ladder = climb(design, measure(design), intervals=asked.intervals)
    inside = _inside(found, bases)
    regression = _errors(ladder, inside, asked, for_blocks, dimensions)
    whole = ladder.fitted["linear"].whole
    plane = _plane(ladder, inside, whole[0])
    prediction = _predict_head(heads, spectra, bases, shares, whole, ladder)
    settings = {**found.settings, "groups": None if labels is None else int(labels.max()) + 1, "rows": pair.n}
    return replace(
        found,
        regression=regression,
        head_prediction=prediction,
        figure=plane,
        settings=settings,
    )


def _dimensions(pair: Pair, spectra: tuple[Spectrum, Spectrum]) -> dict[str, Any]:
    """What the classes see of each side's features."""
    sides = [spectrum(values, name, centred=True) for values, name in zip((pair.x, pair.y), pair.names, strict=True)]
    both = list(zip(sides, spectra, strict=True))
    return {
        "effective_dimensions": tuple(effective_dimension(*each) for each in both),
        "seen_shares": tuple(seen_share(*each) for each in both),
    }


def _seen(values: Matrix, basis: Array | None) -> Matrix:
    return values if basis is None else SeenRows(values, basis)


def _inside(found: HeadMap, bases: tuple[Array | None, ...]) -> AffineMap:
    """The head map between the spans of the classes' differences."""
    matrix, intercept = found.coef, found.intercept
    if bases[0] is not None:
        matrix = bases[0].T @ matrix
    if bases[1] is not None:
        matrix, intercept = matrix @ bases[1], intercept @ bases[1]
    return AffineMap(matrix, np.zeros(len(matrix)), intercept)


def _errors(
    ladder: Ladder, inside: AffineMap, asked: Asked, rng: np.random.Generator, dimensions: dict[str, Any]
) -> Regression:
    """Residuals of both maps: the head map has seen no row, the regression none of the row's fold."""
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
    if asked.intervals:
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
        **dimensions,
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
    found = []
    for errors, through, least in parts:
        mean, own = ratio_influence(errors, np.ones(n), None)
        found.append(interval_of(mean, error_variance(own, through, block_of, rows), block_of, least))
    return found


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
    forward, reverse = maps[0].matrix.T, maps[1].matrix.T
    inverses = (np.linalg.pinv(forward, rcond=1e-10), reverse)
    root = ladder.moments.factors[1].root  # of the covariance of the target's features: log-odds are judged with it
    errors, sizes = np.zeros((2, 2)), np.zeros(2)
    for rows in blocks(source.classes, block_rows(source.width, target.width)):
        roots = np.sqrt(shares[rows])[:, None]
        a, b = (
            _inner(roots * (read_rows(head.values, rows).astype(np.float64) - each.mean), basis)
            for head, each, basis in zip(heads, spectra, bases, strict=True)
        )
        sizes += np.sum(b**2), np.sum((b @ root.T) ** 2)
        for place, inverse in enumerate(inverses):
            miss = a @ inverse - b
            errors[place] += np.sum(miss**2), np.sum((miss @ root.T) ** 2)
    shown = 1 - np.divide(errors, sizes, out=np.ones_like(errors), where=sizes > 0)
    singular = np.linalg.svd(forward, compute_uv=False)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else float("inf")
    return HeadPrediction(
        inverse=Prediction(float(shown[0, 0]), float(shown[0, 1])),
        reverse=Prediction(float(shown[1, 0]), float(shown[1, 1])),
        condition=condition,
    )


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
