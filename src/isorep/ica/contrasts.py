r"""Contrasts: functions whose mean over a component measures its distance from Gaussian.

For each, :math:`G`, its derivative :math:`g` and the sums a sweep needs are computed in place, in the dtype of the
block; sums over rows are taken in short runs first and in float64 afterwards, so that float32 loses no precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array

_RUN = 32  # rows summed in the block's own dtype before float64 takes over


@dataclass(frozen=True)
class Contrast:
    r"""One contrast.

    ``apply`` overwrites projections :math:`y` with :math:`g(y)` and returns, for each column, the sums over rows of
    :math:`g'(y)` and of :math:`G(y)`. ``slopes`` returns :math:`g'(y)` itself. ``normal_value`` is
    :math:`\mathbb E\,G` of a standard normal variable, and ``noise`` the variance of :math:`g'(\nu)-g(\nu)\nu` that its
    sample variance does not explain: over the number of rows, that of a Gaussian component's curvature.
    ``reach`` bounds the curvature of the best directions of noise, in units of its root times that of the dimensions.
    ``tails`` is the sign of the curvature of heavy-tailed components.
    """

    name: str
    apply: Callable[[Array, Array], tuple[Array, Array]]
    slopes: Callable[[Array], Array]
    normal_value: float
    noise: float
    reach: float
    tails: float


def contrast_named(name: str) -> Contrast:
    """The contrast of that name."""
    if not isinstance(name, str) or name not in CONTRASTS:
        raise InputError(f"contrast is {name!r}; known are {', '.join(CONTRASTS)}")
    return CONTRASTS[name]


def column_sums(values: Array) -> Array:
    """Sums over rows, in float64 but for short runs."""
    runs, rest = _runs(values)
    return np.asarray(np.add.reduce(runs, axis=0).sum(axis=0, dtype=np.float64) + rest.sum(axis=0, dtype=np.float64))


def column_squares(values: Array) -> Array:
    """Sums of squares over rows, in float64 but for short runs."""
    runs, rest = _runs(values)
    squares = np.einsum("rij,rij->ij", runs, runs).sum(axis=0, dtype=np.float64)
    return np.asarray(squares + np.einsum("ij,ij->j", rest, rest))


def _column_logs(values: Array) -> Array:
    """Sums over rows of the logarithm of values between 1 and 2: products of a run first, as logarithms are slow."""
    runs, rest = _runs(values)
    products = np.multiply.reduce(runs, axis=0)
    return np.asarray(np.log(products).sum(axis=0, dtype=np.float64) + np.log(rest).sum(axis=0, dtype=np.float64))


def _runs(values: Array) -> tuple[Array, Array]:
    """Rows as a stack of short runs, and the remaining rows."""
    each = len(values) // _RUN
    return values[: each * _RUN].reshape(_RUN, each, values.shape[1]), values[each * _RUN :]


def _apply_logcosh(y: Array, scratch: Array) -> tuple[Array, Array]:
    # With p = 1 + exp(-2|y|): log cosh y = |y| + log p - log 2, and tanh|y| = 2/p - 1.
    rows = len(y)
    p = np.abs(y, out=scratch)
    value = column_sums(p) - rows * np.log(2.0)
    p *= -2
    np.exp(p, out=p)
    p += 1
    value += _column_logs(p)
    t = np.divide(2, p, out=p)
    t -= 1
    slope = rows - column_squares(t)
    _take_signs(y, t)
    return slope, value


def _take_signs(y: Array, sizes: Array) -> None:
    """Overwrite y with the sizes, which are not negative, under its own signs: by bits, as copysign is slow."""
    bits = np.dtype(f"u{y.dtype.itemsize}")
    signs = y.view(bits)
    signs &= bits.type(1 << (8 * bits.itemsize - 1))
    signs |= sizes.view(bits)


def _apply_exp(y: Array, scratch: Array) -> tuple[Array, Array]:
    bell = np.multiply(y, y, out=scratch)
    bell *= -0.5
    np.exp(bell, out=bell)
    mass = column_sums(bell)
    y *= bell  # g(y)
    np.sqrt(bell, out=bell)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(y, bell, out=bell, where=bell > 0)  # y exp(-y^2/4): its square is y^2 exp(-y^2/2)
    return mass - column_squares(bell), -mass


def _apply_cube(y: Array, scratch: Array) -> tuple[Array, Array]:
    square = np.multiply(y, y, out=scratch)
    value = column_squares(square) / 4
    slope = 3 * column_sums(square)
    y *= square
    return slope, value


def _slopes_logcosh(y: Array) -> Array:
    t = np.tanh(y)
    return np.asarray(1 - t * t)


def _slopes_exp(y: Array) -> Array:
    square = y * y
    return np.asarray((1 - square) * np.exp(-square / 2))


def _slopes_cube(y: Array) -> Array:
    return np.asarray(3 * y * y)


CONTRASTS = {
    "logcosh": Contrast("logcosh", _apply_logcosh, _slopes_logcosh, 0.37456720749143807, 0.1249390641, 2.0, 1.0),
    "exp": Contrast("exp", _apply_exp, _slopes_exp, -float(np.sqrt(0.5)), 0.3273502692, 2.0, 1.0),
    "cube": Contrast("cube", _apply_cube, _slopes_cube, 0.75, 24.0, 3.0, -1.0),
}
