r"""Batch corrections of the field: z-scores to controls, sphering, TVN, ComBat, linear regression.

All of them treat a held-out batch as the field does: with its own controls (z-scores, TVN) or with all its rows and no
label (ComBat, regression). Sphering on training controls uses nothing of it. A method that knows which held-out rows
are controls must not show it: controls that were part of their own mean lie nearer to it than other rows, and a
classifier would learn that. So every row is corrected with controls that it is not one of. The controls of a batch are
divided into up to five parts; a row of a part uses the other parts, and so does an equal share of the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from ..representation import Array
from .inputs import Column

_PARTS = 5
_FLAT = 1e-10  # spreads below this share of a column's spread are constant
_TVN_RIDGE = 0.5  # added to covariances of standardised controls
_SPHERE_RIDGE = 1e-6
_SETTLED = 1e-6  # relative change at which ComBat's iterations end
_MOST_STEPS = 10_000


def control_z(values: Array, codes: Array, controls: Array) -> Array:
    """Rows less the mean of their batch's controls, over the standard deviation of these."""
    out = np.empty(values.shape)
    spread = values.std(axis=0, dtype=np.float64)
    for rows, own in apart(codes, controls):
        out[rows] = z_scores(values[rows], values[own], spread)
    return out


def z_scores(rows: Array, controls: Array, spread: Array) -> Array:
    """Standardise rows by controls; a column that is constant in these keeps its unit."""
    mean, deviation = (getattr(controls, name)(axis=0, dtype=np.float64) for name in ("mean", "std"))
    return np.asarray((rows - mean) / np.where(deviation > _FLAT * spread, deviation, 1.0))


def sphered(values: Array, controls: Array) -> Array:
    """Rows in which the chosen controls have unit covariance, each row by controls that it is not one of."""
    out = np.empty(values.shape)
    for rows, own in apart(np.zeros(len(values), dtype=int), controls):
        out[rows] = sphere(values[rows], values[own])
    return out


def sphere(rows: Array, controls: Array) -> Array:
    r"""Centre and whiten rows by controls (ZCA): :math:`(x-\mu)V(\Lambda+\epsilon)^{-1/2}V^\top`.

    :math:`\epsilon` is 1e-6 of the mean variance. Directions in which controls do not vary are left out.
    """
    mean = controls.mean(axis=0, dtype=np.float64)
    centred = controls - mean
    variances, axes = linalg.eigh(centred.T @ centred / max(len(controls) - 1, 1))
    kept = variances > _FLAT * variances[-1]
    scale = 1 / np.sqrt(variances[kept] + _SPHERE_RIDGE * variances.mean())
    return np.asarray((rows - mean) @ ((axes[:, kept] * scale) @ axes[:, kept].T))


def tvn(values: Array, codes: Array, controls: Array) -> Array:
    r"""Typical variation normalisation by batch, after Ando et al. (2017).

    Rows are standardised by the controls of their batch, and these controls are sphered: :math:`x\,(C_b+I/2)^{-1/2}`
    with their covariance :math:`C_b`. A batch has fewer controls than columns, hence the ridge (Celik et al. 2022).
    """
    out, spread, ridge = np.empty(values.shape), values.std(axis=0, dtype=np.float64), _TVN_RIDGE
    for rows, own in apart(codes, controls):
        known = z_scores(values[own], values[own], spread)
        axes, sizes, _ = linalg.svd(known.T, full_matrices=False)
        # In all directions but those of the controls the matrix is the identity over the root of the ridge.
        inner = 1 / np.sqrt(sizes**2 / max(len(own) - 1, 1) + ridge) - 1 / np.sqrt(ridge)
        scores = z_scores(values[rows], values[own], spread)
        out[rows] = scores / np.sqrt(ridge) + (scores @ axes * inner) @ axes.T
    return out


def apart(codes: Array, controls: Array) -> Iterator[tuple[Array, Array]]:
    """For every batch and part of it: rows, and the controls of their batch that they are not among."""
    for code in range(int(codes.max()) + 1):
        mine, others = (np.flatnonzero((codes == code) & kind) for kind in (controls, ~controls))
        parts = min(_PARTS, len(mine))
        # Neighbours on a plate are alike, so parts take every fifth row.
        for part in range(parts):
            taken = np.arange(len(mine)) % parts == part
            yield np.concatenate([mine[taken], others[np.arange(len(others)) % parts == part]]), mine[~taken]


def regressed_out(values: Array, batches: tuple[Column, ...]) -> Array:
    """Residuals of a least-squares fit on indicators of all batch columns; for one column, rows less batch means."""
    if len(batches) == 1:
        codes = batches[0].codes
        means = np.stack([values[codes == code].mean(axis=0, dtype=np.float64) for code in range(codes.max() + 1)])
        return np.asarray(values - means[codes])
    design = np.column_stack([np.eye(column.count)[column.codes] for column in batches])
    return np.asarray(values - design @ np.linalg.lstsq(design, values.astype(np.float64), rcond=None)[0])


def combat(values: Array, codes: Array, *, ddof: int = 1) -> Array:
    r"""ComBat, the parametric empirical Bayes correction (Johnson, Li & Rabinovic 2007), without covariates.

    .. math:: x_{bg}=\alpha_g+\gamma_{bg}+\delta_{bg}\varepsilon_{bg}

    Columns are standardised by their weighted mean and pooled deviation. Shifts :math:`\gamma` of a batch are shrunk
    towards a normal prior over its columns, scales :math:`\delta^2` towards an inverse gamma prior, by turns until they
    settle, and are then taken out. Constant columns stay as they are; a batch of one row has its shift removed only.
    Variances of a batch divide by one less than their number, as in the authors' program; ``ddof=0`` by their number.
    """
    data = np.asarray(values, dtype=np.float64)
    sizes = np.bincount(codes)
    means = np.stack([data[codes == code].mean(axis=0) for code in range(len(sizes))])
    grand = sizes @ means / len(data)
    pooled = np.sqrt(((data - means[codes]) ** 2).mean(axis=0))
    varies = pooled > _FLAT * np.maximum(data.std(axis=0), np.abs(grand))
    out = data.copy()
    scaled = (data[:, varies] - grand[varies]) / pooled[varies]
    for code, size in enumerate(sizes):
        mine = scaled[codes == code]
        if size < 2 or mine.shape[1] < 2:
            shift, scale = mine.mean(axis=0), np.ones(mine.shape[1])
        else:
            shift, scale = _shrunk(mine, ddof)
        out[np.ix_(codes == code, varies)] = (mine - shift) / np.sqrt(scale) * pooled[varies] + grand[varies]
    return out


def _shrunk(rows: Array, ddof: int) -> tuple[Array, Array]:
    """Posterior shift and scale of each column of one batch, given priors estimated over the columns."""
    n, shift, scale = len(rows), rows.mean(axis=0), rows.var(axis=0, ddof=ddof)
    prior, spread = shift.mean(), shift.var(ddof=ddof)
    middle, width = scale.mean(), scale.var(ddof=ddof)
    if width <= 0 or spread <= 0:
        return shift, np.where(scale > 0, scale, 1.0)
    shape, rate = 2 + middle**2 / width, (middle * width + middle**3) / width
    own_shift, own_scale = shift, np.maximum(scale, np.finfo(float).tiny)
    for _ in range(_MOST_STEPS):
        new_shift = (spread * n * shift + own_scale * prior) / (spread * n + own_scale)
        new_scale = (0.5 * ((rows - new_shift) ** 2).sum(axis=0) + rate) / (n / 2 + shape - 1)
        change = max(
            np.max(np.abs(new_shift - own_shift) / np.maximum(np.abs(own_shift), np.finfo(float).tiny)),
            np.max(np.abs(new_scale - own_scale) / own_scale),
        )
        own_shift, own_scale = new_shift, new_scale
        if change < _SETTLED:
            break
    return own_shift, own_scale
