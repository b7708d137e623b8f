"""Held-out errors of a few rows without their maps, for shuffled pairings.

A map of 4,096 columns takes several products of whole matrices. The images of a few hundred rows are the same numbers,
and need only products of these rows with one matrix after another. Where maps are fitted to no more rows than columns,
those of least squares need no decomposition either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..alignment.base import fitted_scale, match_components, rotated_rows
from ..covariance import rank_tolerance, solve_well_conditioned
from ..moments import Moments
from ..representation import Array
from .fits import FittedICA, TrainingSet
from .residuals import norms_of

Norms = tuple[Array, Array]  # source onto target, and the reverse
Weights = Callable[[Array, Array], Array]  # of training rows' targets in the images of other rows
_INDEPENDENT = 1e-9  # reciprocal condition of products of rows down to which their inverse has seven digits


class FewRows:
    """The rows that are scored, and what no shuffle changes about their images: the source's part of least squares."""

    def __init__(self, x: Array, mean: Array, sums: Array, n: int, training: TrainingSet) -> None:
        self._x = x - mean
        self._training = training
        self._reach = solve_well_conditioned(sums, self._x.T, n, mean, training.roundings[0])

    def norms(self, name: str, y: Array, moments: Moments) -> Norms | None:
        """Residual norms of a rung whose map is fitted to these moments; None where a map must be made."""
        y = y - moments.target_mean
        if name == "rigid":
            return _rigid(self._x, y, moments)
        if name == "linear" and self._reach is not None:
            return _linear(self._x, y, self._reach, moments, self._training.roundings[1])
        if name == "ica" and self._training.icas is not None:
            return _ica(self._x, y, moments, *self._training.icas)
        return None


def least_norm_weights(
    rows: Array, products: Array, train: Array, scored: Array, rounding: float, by_column: Weights | None
) -> Array:
    """The weights of training rows' targets in the images of other rows under least squares, by the map of least norm.

    Where training rows are independent the map passes through all of them, and the ``products`` of rows with each other
    tell the weights. Otherwise ``by_column`` gives them, where these rows are coordinates of columns.
    """
    if len(train) <= rows.shape[1]:
        among = products[np.ix_(train, train)]
        whole = np.trace(among)
        to_mean = among.mean(axis=0)
        of_mean = to_mean.mean()
        among = among - to_mean - to_mean[:, None] + of_mean
        squares = np.trace(among)  # few digits of them are left where the rows are far from the origin
        among += squares / len(train) ** 2  # along the mean, where centred rows have no products
        inverse = _sound_inverse(among, max(_INDEPENDENT, rank_tolerance(rounding) ** 2))
        if inverse is not None and squares > _INDEPENDENT * whole:
            across = products[np.ix_(scored, train)]
            return np.asarray((across - across.mean(axis=1, keepdims=True) - to_mean + of_mean) @ inverse)
    if by_column is not None:
        return by_column(train, scored)
    fitted = rows[train]
    mean = fitted.mean(axis=0)
    left, values, right = np.linalg.svd(fitted - mean, full_matrices=False)
    keep = values > rank_tolerance(rounding) * values.max(initial=0.0)
    keep[len(train) - 1 :] = False  # rows about their mean
    return np.asarray(((rows[scored] - mean) @ right[keep].T / values[keep]) @ left[:, keep].T)


def _sound_inverse(matrix: Array, least: float) -> Array | None:
    """The inverse of a matrix with a reciprocal condition above the least one; None of others."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    condition = float(np.abs(matrix).sum(axis=0).max() * np.abs(inverse).sum(axis=0).max())
    return inverse if condition <= 1 / least else None


def _rigid(x: Array, y: Array, moments: Moments) -> Norms | None:
    found = rotated_rows(x, moments)
    if found is None:
        return None
    mapped, overlap = found
    scale, back = fitted_scale(True, overlap, moments.xx), fitted_scale(True, overlap, moments.yy)
    return norms_of(scale * mapped - y), norms_of(mapped - back * y)  # one image serves both directions


def _linear(x: Array, y: Array, reach: Array, moments: Moments, rounding: float) -> Norms | None:
    back = solve_well_conditioned(moments.yy, y.T, moments.n, moments.target_mean, rounding)
    if back is None:
        return None
    return norms_of(reach.T @ moments.xy - y), norms_of(back.T @ moments.xy.T - x)


def _ica(x: Array, y: Array, moments: Moments, source: FittedICA, target: FittedICA) -> Norms:
    x, y, cross = (each.astype(source.components.dtype, copy=False) for each in (x, y, moments.xy))
    match = match_components(replace(moments, xy=cross), source.components, target.components)
    signs = match.signs.astype(cross.dtype)
    here = (x @ source.components.T)[:, match.source] * signs
    there = (y @ target.components.T)[:, match.target] * signs
    return (
        norms_of(here @ target.mixing.T[match.target] - y),
        norms_of(there @ source.mixing.T[match.source] - x),
    )
