"""Figures as data: what a report draws, small enough to travel in the result's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..alignment.base import AffineMap, column_errors, match_signed, padded
from ..moments import Moments
from ..representation import Array, Matrix
from ..results import Record
from ..rows import read_rows

SCATTER_ROWS = 400
MATCHED_DIMENSIONS = 48
BINS = 40
LEAST_R2 = -9.0


@dataclass(frozen=True, eq=False)
class Plane(Record):
    """Sampled rows on the target's principal plane: the target, and the source before and after alignment by a rung.

    Coordinates are (rows, 2) arrays in units of the target's diameter. Before alignment the source is centred and
    brought to the target's RMS radius, and its first dimensions stand for the target's. ``explained`` are the shares
    of the target's variance along the two axes, ``rows`` the ids or numbers of the rows.
    """

    rung: str
    explained: Array
    rows: tuple[str, ...]
    target: Array
    before: Array
    after: Array


@dataclass(frozen=True, eq=False)
class Matching(Record):
    """Correlations of the target's dimensions (rows) with the source's, each beside its match, best matched first.

    Only the target's dimensions of largest variance are shown, so many of all.
    """

    source_dims: Array
    target_dims: Array
    correlations: Array
    shown: int
    of: int


@dataclass(frozen=True, eq=False)
class Reproducibility(Record):
    """The held-out R² of every dimension of the target under each rung, and the dimensions from the best on.

    ``order`` is by the linear rung, or by the first without that one.
    """

    order: Array
    r2: dict[str, Array]

    @property
    def reference(self) -> str:
        """The rung that gives the order."""
        return "linear" if "linear" in self.r2 else next(iter(self.r2))


@dataclass(frozen=True, eq=False)
class ResidualCounts(Record):
    """Held-out errors of rows counted in common bins, and the mean error under shuffled pairings, for each rung.

    ``edges`` and means are in mean distances of the target's rows to their mean.
    """

    edges: Array
    counts: dict[str, Array]
    null_mean: dict[str, float]


@dataclass(frozen=True, eq=False)
class Figures(Record):
    """What the figures of the source mapped onto the target are drawn from."""

    scatter: Plane
    matching: Matching
    dimensions: Reproducibility | None
    residuals: ResidualCounts


def scatter(
    x: Matrix, y: Matrix, total: Moments, fitted: AffineMap, rung: str, unit: float, ids: Array | None, seed: int
) -> Plane:
    """A sample of the rows on the target's principal plane."""
    n, d_y = y.shape
    variances, axes = linalg.eigh(total.yy, subset_by_index=[max(d_y - 2, 0), d_y - 1])
    variances, axes = variances[::-1], axes[:, ::-1]
    if d_y == 1:  # a line: the second axis of the plane is empty
        variances, axes = np.append(variances, 0.0), np.array([[1.0, 0.0]])
    chosen = np.sort(np.random.default_rng(seed).choice(n, min(SCATTER_ROWS, n), replace=False))
    x_rows, y_rows = (read_rows(values, chosen).astype(np.float64) for values in (x, y))
    before = np.zeros((len(chosen), max(x_rows.shape[1], d_y)))
    before[:, : x_rows.shape[1]] = x_rows - total.source_mean
    ratio = np.sqrt(np.trace(total.yy) / np.trace(total.xx))
    clouds = (
        y_rows - total.target_mean,
        ratio * before[:, :d_y],
        fitted.apply(x_rows)[:, :d_y] - total.target_mean,
    )
    names = tuple(str(row) if ids is None else str(ids[row]) for row in chosen)
    return Plane(rung, variances / np.trace(total.yy), names, *(cloud @ axes / unit for cloud in clouds))


def matching(total: Moments) -> Matching:
    """The dimensions matched by signed permutation."""
    matched, _, _ = match_signed(padded(total.xy))
    d_x, d_y = total.xy.shape
    spread_x, spread_y = (np.sqrt(np.maximum(np.diagonal(sums), 0)) for sums in (total.xx, total.yy))
    scale = np.multiply.outer(spread_x, spread_y)
    correlations = np.divide(total.xy, scale, out=np.zeros_like(total.xy), where=scale > 0)
    partnered = np.array([j for j in range(d_y) if matched[j] < d_x], dtype=np.intp)
    shown = partnered[np.argsort(-spread_y[partnered], kind="stable")[:MATCHED_DIMENSIONS]]
    quality = np.abs(correlations[matched[shown], shown])
    shown = shown[np.argsort(-quality, kind="stable")]
    return Matching(matched[shown], shown, correlations[np.ix_(matched[shown], shown)].T, len(shown), d_y)


def reproducibility(folds: Sequence[Moments], maps: Mapping[str, Sequence[AffineMap]]) -> Reproducibility | None:
    """The held-out R² of dimensions, from the moments of the folds alone; None without maps."""
    d_y = folds[0].xy.shape[1]
    n = sum(fold.n for fold in folds)
    mean = sum((fold.n / n * fold.target_mean for fold in folds), np.zeros(d_y))
    spread = sum((np.diagonal(fold.yy) + fold.n * (fold.target_mean - mean) ** 2 for fold in folds), np.zeros(d_y))
    r2 = {}
    for name, without in maps.items():
        errors = sum((fitted.squared_errors(fold) for fold, fitted in zip(folds, without, strict=True)), np.zeros(d_y))
        # Far below 0 a dimension is as lost as it can be, and a figure could not show it.
        r2[name] = np.maximum(1 - np.divide(errors, spread, out=np.ones_like(errors), where=spread > 0), LEAST_R2)
    if not r2:
        return None
    unordered = Reproducibility(np.arange(d_y), r2)
    return Reproducibility(np.argsort(-r2[unordered.reference], kind="stable"), r2)


def principal_r2(folds: Sequence[Moments], maps: Sequence[AffineMap], yy: Array) -> Array:
    """The held-out R² along every principal direction of the target, whatever basis its columns are in."""
    variances, axes = linalg.eigh(yy)
    kept = variances > 1e-10 * max(float(variances[-1]), 0.0)
    variances, axes = variances[kept], axes[:, kept]
    errors = np.zeros(len(variances))
    for rows, fitted in zip(folds, maps, strict=True):
        matrix = fitted.matrix[:, : fitted.target_width]
        shift = (rows.target_mean - fitted.target_mean) - (rows.source_mean - fitted.source_mean) @ matrix
        spread = np.einsum("ij,ij->j", axes, rows.yy @ axes)
        errors += column_errors(matrix @ axes, shift @ axes, rows.n, rows.xx, rows.xy @ axes, spread)
    return np.asarray(1 - errors / variances)


def residual_histogram(residuals: Mapping[str, Array], unit: float, null_means: dict[str, float]) -> ResidualCounts:
    """Counts of held-out residual norms in common bins, in multiples of the unit."""
    top = max(float(each.max()) for each in residuals.values()) / unit
    edges = np.linspace(0, top or 1.0, BINS + 1)
    return ResidualCounts(
        edges, {name: np.histogram(each / unit, edges)[0] for name, each in residuals.items()}, null_means
    )
