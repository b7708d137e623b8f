"""The data behind a report's figures, small enough to travel in the result's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import linalg

from ..alignment import AffineMap, SignedPermutation
from ..alignment.base import column_errors
from ..moments import Moments
from ..representation import Array, Matrix
from ..rows import read_rows

SCATTER_ROWS = 400
MATCHED_DIMENSIONS = 48
BINS = 40


def scatter(
    x: Matrix, y: Matrix, total: Moments, fitted: AffineMap, rung: str, unit: float, ids: Array | None, seed: int
) -> dict[str, Any]:
    """Sampled rows on the target's principal plane: the target, and the source before and after alignment.

    Coordinates are in units of the target's diameter. Before alignment the source is centred and brought to the
    target's RMS radius, and its first dimensions stand for the target's.
    """
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
    clouds = {
        "target": y_rows - total.target_mean,
        "before": ratio * before[:, :d_y],
        "after": fitted.apply(x_rows)[:, :d_y] - total.target_mean,
    }
    return {
        "rung": rung,
        "explained": _rounded(variances / np.trace(total.yy)),
        "rows": [str(row) if ids is None else str(ids[row]) for row in chosen],
        **{name: _rounded(cloud @ axes / unit) for name, cloud in clouds.items()},
    }


def matching(total: Moments) -> dict[str, Any]:
    """Correlations of the target's dimensions with the source's, each beside its match, best matched first.

    Only the target's dimensions of largest variance are shown.
    """
    matched = SignedPermutation().fit_moments(total).permutation_
    d_x, d_y = total.xy.shape
    spread_x, spread_y = (np.sqrt(np.maximum(np.diagonal(sums), 0)) for sums in (total.xx, total.yy))
    scale = np.multiply.outer(spread_x, spread_y)
    correlations = np.divide(total.xy, scale, out=np.zeros_like(total.xy), where=scale > 0)
    partnered = np.array([j for j in range(d_y) if matched[j] < d_x], dtype=np.intp)
    shown = partnered[np.argsort(-spread_y[partnered], kind="stable")[:MATCHED_DIMENSIONS]]
    quality = np.abs(correlations[matched[shown], shown])
    shown = shown[np.argsort(-quality, kind="stable")]
    return {
        "source_dims": matched[shown].tolist(),
        "target_dims": shown.tolist(),
        "correlations": _rounded(correlations[np.ix_(matched[shown], shown)].T, 3),
        "shown": len(shown),
        "of": d_y,
    }


def reproducibility(folds: Sequence[Moments], maps: Mapping[str, Sequence[AffineMap]]) -> dict[str, Any]:
    """The held-out R² of every dimension of the target under each rung, from the moments of the folds alone."""
    d_y = folds[0].xy.shape[1]
    n = sum(fold.n for fold in folds)
    mean = sum((fold.n / n * fold.target_mean for fold in folds), np.zeros(d_y))
    spread = sum((np.diagonal(fold.yy) + fold.n * (fold.target_mean - mean) ** 2 for fold in folds), np.zeros(d_y))
    r2 = {}
    for name, without in maps.items():
        errors = sum((fitted.squared_errors(fold) for fold, fitted in zip(folds, without, strict=True)), np.zeros(d_y))
        r2[name] = 1 - np.divide(errors, spread, out=np.ones_like(errors), where=spread > 0)
    reference = r2.get("linear", next(iter(r2.values())))
    return {
        "order": np.argsort(-reference, kind="stable").tolist(),
        "r2": {name: _rounded(np.maximum(values, -9.0), 4) for name, values in r2.items()},
    }


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


def residual_histogram(residuals: dict[str, Array], unit: float, null_means: dict[str, float]) -> dict[str, Any]:
    """Counts of held-out residual norms in common bins, in units of the target's diameter."""
    top = max(float(each.max()) for each in residuals.values()) / unit
    edges = np.linspace(0, top or 1.0, BINS + 1)
    return {
        "edges": _rounded(edges, 6),
        "counts": {name: np.histogram(each / unit, edges)[0].tolist() for name, each in residuals.items()},
        "null_mean": null_means,
    }


def _rounded(values: Array, digits: int = 5) -> list[Any]:
    rounded: list[Any] = np.round(values, digits).tolist()
    return rounded
