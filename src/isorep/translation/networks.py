r"""Maps trained on rows: an affine map on the cosine loss, and a residual MLP with one hidden layer.

Least squares spends its freedom on lengths, which cosine search ignores. The ``cosine`` map minimises
:math:`1-\cos(xA+b,y)` by L-BFGS from the ridge solution. The ``mlp`` adds a hidden layer of rectified units to that
map (Adam; Kingma & Ba 2015, with decoupled decay of the weights; Loshchilov & Hutter 2019), which starts at zero
output, so that training starts from the affine map. Targets that are not normalised are fitted by squared error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..representation import Array, Matrix
from ..rows import read_rows
from .maps import FittedMap

MOST_ROWS = 50_000  # rows that a map is trained on
MOST_CELLS = 2**26  # of these rows on both sides, in float32
_ITERATIONS = 60  # of L-BFGS
_WIDTH = 1024  # hidden units, at most
_ROWS_PER_UNIT = 8
_BATCH = 256
_EPOCHS = 40
_WORK = 1.2e12  # floating-point operations of a training, at most
_RATE, _DECAY = 1e-3, 1.0
_WARM = 100  # steps
_EMPTY = 1e-12  # of the mean variance: directions that vary less are left out


def training_rows(x: Matrix, y: Matrix, rows: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A sample of paired rows in memory, in float32: all of them where they are few."""
    most = min(MOST_ROWS, max(MOST_CELLS // (x.shape[1] + y.shape[1]), 1))
    chosen = rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
    return read_rows(x, chosen).astype(np.float32), read_rows(y, chosen).astype(np.float32)


def hidden_units(n: int) -> int:
    """The width of the hidden layer for so many pairs."""
    return int(np.clip(n // _ROWS_PER_UNIT, 16, _WIDTH))


def fit_cosine(x: Array, y: Array, start: FittedMap, norm: float | None) -> FittedMap:
    """The affine map of least mean cosine distance, from the map ``start``."""
    from scipy.optimize import minimize

    whitener, inside, target = _prepared(x, start, y)
    ones = np.ones((len(inside), 1), np.float32)
    inputs = np.concatenate([inside, ones], axis=1)
    first = np.concatenate([_unwhitened(start.matrix, whitener), start.new_mean[None]])
    scale = float(np.sqrt(np.mean(first[-1] ** 2) + np.mean(first[:-1] ** 2))) or 1.0
    unit = _unit_rows(target)

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(first.shape).astype(np.float32)
        value, gradient = _cosine_loss(inputs @ weights, unit)
        return value, (inputs.T @ gradient).astype(np.float64).ravel()

    found = minimize(loss, (first / scale).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS})
    weights = found.x.reshape(first.shape) * scale
    fitted = FittedMap("cosine", whitener @ weights[:-1], start.old_mean, weights[-1], norm=norm)
    return fitted if norm is not None else _scaled(fitted, x, y)


def fit_mlp(x: Array, y: Array, start: FittedMap, norm: float | None, seed: int) -> FittedMap:
    """A residual MLP, from the affine map ``start``: by the cosine loss where the target is normalised.

    The order of batches and the first weights come from the seed; the sums are numpy's.
    """
    rng = np.random.default_rng(seed)
    whitener, inside, target = _prepared(x, start, y)
    n, rank = inside.shape
    width, out = hidden_units(n), target.shape[1]
    loss: Callable[[Array, Array], tuple[float, Array]]
    if norm is None:
        largest = np.abs(target).max(initial=0.0) or np.float32(1.0)  # squares of float32 overflow from 1e19 on
        apart = target / largest
        apart -= apart.mean(axis=0)
        unit_length = float(largest) * float(np.sqrt((apart**2).sum(axis=1).mean())) or 1.0
        goal, loss = (target / np.float32(unit_length)).astype(np.float32), _squared_loss
    else:
        unit_length = norm
        goal, loss = _unit_rows(target), _cosine_loss
    into = rng.normal(size=(rank, width)) * np.sqrt(2 / max(rank, 1))
    first = [_unwhitened(start.matrix, whitener) / unit_length, start.new_mean / unit_length, into, np.zeros(width)]
    weights = [np.ascontiguousarray(each, np.float32) for each in (*first, np.zeros((width, out)))]
    _descend(weights, inside, goal, loss, rng)
    matrix, mean, into, bias, outward = (each.astype(np.float64) for each in weights)
    hidden = (whitener @ into, bias, unit_length * outward)
    return FittedMap("mlp", unit_length * whitener @ matrix, start.old_mean, unit_length * mean, hidden, norm)


def _descend(
    weights: list[Array],
    inside: Array,
    goal: Array,
    loss: Callable[[Array, Array], tuple[float, Array]],
    rng: np.random.Generator,
) -> None:
    """Adam in place: batches of random rows, a rate that warms up and falls to zero along a cosine."""
    n = len(inside)
    batch = min(_BATCH, n)
    matrix, _, into, _, outward = weights
    work = 6 * batch * (matrix.size + into.size + outward.size)
    steps = int(np.clip(_EPOCHS * n // batch, 1, max(_WORK // work, 1)))
    means, squares = ([np.zeros_like(each) for each in weights] for _ in range(2))
    order, place = rng.permutation(n), 0
    for step in range(1, steps + 1):
        if place + batch > n:
            order, place = rng.permutation(n), 0
        rows = order[place : place + batch]
        place += batch
        here = inside[rows]
        active = np.maximum(here @ weights[2] + weights[3], 0)
        outer = loss(here @ weights[0] + weights[1] + active @ weights[4], goal[rows])[1]
        inner = (outer @ weights[4].T) * (active > 0)
        gradients = [here.T @ outer, outer.sum(axis=0), here.T @ inner, inner.sum(axis=0), active.T @ outer]
        rate = _RATE * min(1.0, step / _WARM) * 0.5 * (1 + np.cos(np.pi * step / steps))
        for place_of, gradient in enumerate(gradients):
            mean, square = means[place_of], squares[place_of]
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient * gradient - square)
            size = np.sqrt(square / np.float32(1 - 0.999**step)) + np.float32(1e-8)
            weights[place_of] -= np.float32(rate / (1 - 0.9**step)) * mean / size
            if place_of in (2, 4):
                weights[place_of] *= np.float32(1 - rate * _DECAY)


def _cosine_loss(mapped: Array, unit: Array) -> tuple[float, Array]:
    """The mean of one minus the cosine with rows of unit length, and its gradient."""
    lengths = np.maximum(np.linalg.norm(mapped, axis=1, keepdims=True), np.float32(1e-20))
    directions = mapped / lengths
    cosines = np.einsum("ij,ij->i", directions, unit)[:, None]
    gradient = (cosines * directions - unit) / (lengths * np.float32(len(mapped)))
    return float(1 - cosines.mean(dtype=np.float64)), gradient


def _squared_loss(mapped: Array, goal: Array) -> tuple[float, Array]:
    apart = mapped - goal
    return float((apart**2).sum(axis=1, dtype=np.float64).mean() / 2), apart / np.float32(len(mapped))


def _prepared(x: Array, start: FittedMap, y: Array) -> tuple[Array, Array, Array]:
    """A whitener of the old rows, the whitened rows and the new ones; columns that the start ignores are left out."""
    centred = x.astype(np.float64) - start.old_mean
    centred[:, ~start.matrix.any(axis=1)] = 0.0
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = values > _EMPTY * max(float(values[-1]), np.finfo(float).tiny)
    whitener = vectors[:, kept] / np.sqrt(values[kept] + 1e-3 * values[kept].mean())
    return whitener, (centred @ whitener).astype(np.float32), y


def _unwhitened(matrix: Array, whitener: Array) -> Array:
    """The matrix that acts on whitened rows as the given one does on rows."""
    return np.asarray(np.linalg.lstsq(whitener, matrix, rcond=None)[0])


def _unit_rows(rows: Array) -> Array:
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)  # squares of float32 overflow from 1e19 on
    rows = rows / np.where(largest > 0, largest, 1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _scaled(fitted: FittedMap, x: Array, y: Array) -> FittedMap:
    """The same directions with lengths that fit the new vectors best, by one factor."""
    mapped = fitted.raw(x)
    squares = float((mapped**2).sum())
    factor = float((mapped * y).sum()) / squares if squares > 0 else 1.0
    return FittedMap(fitted.kind, factor * fitted.matrix, fitted.old_mean, factor * fitted.new_mean)
