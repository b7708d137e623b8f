r"""Rank, condition and least squares from second moments, safely.

Columns are first scaled to unit variance, so that units do not matter. A covariance squares the condition
number: in float64 it shows directions down to about 1e-7 of the largest. Where float64 data may hold smaller ones,
a second pass over rows in a preconditioned basis (as in CholeskyQR2, Yamamoto et al. 2015) shows them down to
1e-12; it does the work of a QR of the rows in the same additive form. Directions below the rounding of the
stored dtype are noise, and count as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from .representation import Array

_RESOLVED = 1e-9  # eigenvalue of a unit-diagonal covariance, relative to the largest, that float64 sums still resolve
_FLOOR = 1e-13
_NOISE_FACTOR = 4.0
_COARSE = 1e-10  # rounding above which data have no directions that float64 sums could miss


@dataclass(frozen=True, eq=False)
class Factor:
    r"""A covariance :math:`\Sigma=F^\top F` in factored form: ``root`` is the (r, d) matrix :math:`F`.

    ``local`` whitens rows in the coordinates whose moments were factored: the centred columns themselves, or their
    image under the ``basis`` of a :class:`Preconditioner`.
    """

    root: Array
    local: Array
    basis: Array | None
    constant: Array
    resolved: bool

    @property
    def whitener(self) -> Array:
        """The (d, r) matrix that gives centred rows unit covariance."""
        return self.local if self.basis is None else np.asarray(self.basis @ self.local)

    @property
    def rank(self) -> int:
        """How many directions rise above the rounding of the data."""
        return int(self.root.shape[0])

    @cached_property
    def singular_values(self) -> Array:
        """Standard deviations along the principal axes, largest first."""
        values: Array = linalg.svdvals(self.root) if self.rank else np.zeros(0)
        return values

    @property
    def condition(self) -> float:
        """Largest over smallest standard deviation along principal axes, over the numerical rank."""
        values = self.singular_values
        return float(values[0] / values[-1]) if len(values) and values[-1] > 0 else float("inf")


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """The change of basis of the second pass: centred rows times ``basis`` are nearly white."""

    basis: Array
    inverse: Array
    constant: Array
    noise: Array


def rank_tolerance(rounding: float) -> float:
    """Singular values below this share of the largest are rounding, for unit-variance columns stored that coarsely."""
    if rounding <= _COARSE:
        return 1e-12
    return (16 if rounding < 1e-4 else 2) * rounding


def factor_covariance(sums: Array, n: int, mean: Array, rounding: float) -> Factor:
    """Factor the covariance given by centred co-moments ``sums`` of ``n`` rows.

    ``rounding`` is the relative rounding of the stored values; with a large mean it makes noise of that size.
    """
    scale, constant, noise = _columns(sums, n, mean, rounding)
    inverse = _inverse(scale)
    values, vectors = linalg.eigh(sums * np.multiply.outer(inverse, inverse) / max(n, 1))
    top = max(values[-1], 0.0)
    keep = values > max(rank_tolerance(rounding) ** 2, _FLOOR * 10) * top
    keep &= values > _noise_along(inverse[:, None] * vectors, noise)
    expected = min(len(scale) - int(constant.sum()), n - 1)
    resolved = rounding > _COARSE or int((values > _RESOLVED * top).sum()) >= expected
    root_values = np.sqrt(values[keep])
    return Factor(
        root=(vectors[:, keep] * root_values).T * scale,
        local=inverse[:, None] * vectors[:, keep] / root_values,
        basis=None,
        constant=constant,
        resolved=bool(resolved),
    )


def preconditioner(sums: Array, n: int, mean: Array, rounding: float) -> Preconditioner:
    """The basis for a second pass where :func:`factor_covariance` is not resolved."""
    scale, constant, noise = _columns(sums, n, mean, rounding)
    inverse = _inverse(scale)
    values, vectors = linalg.eigh(sums * np.multiply.outer(inverse, inverse) / max(n, 1))
    root_values = np.sqrt(np.maximum(values, _FLOOR * values[-1]))
    return Preconditioner(
        basis=inverse[:, None] * vectors / root_values,
        inverse=(vectors * root_values).T * scale,
        constant=constant,
        noise=noise,
    )


def factor_preconditioned(sums: Array, n: int, by: Preconditioner) -> Factor:
    """Factor the covariance of the original rows from the co-moments of the preconditioned ones."""
    values, vectors = linalg.eigh(sums / max(n, 1))
    keep = values > rank_tolerance(0.0) ** 2 / _FLOOR * max(values[-1], 0.0)
    keep &= values > _noise_along(by.basis @ vectors, by.noise)
    root_values = np.sqrt(values[keep])
    return Factor(
        root=(vectors[:, keep] * root_values).T @ by.inverse,
        local=vectors[:, keep] / root_values,
        basis=by.basis,
        constant=by.constant,
        resolved=True,
    )


def least_squares(factor: Factor, cross: Array, n: int) -> Array:
    """The (d_x, d_y) map of least squares; of least norm where the rows do not determine it.

    ``cross`` holds the co-moments with the target of the source in the factored coordinates.
    """
    scores = factor.local.T @ cross / max(n, 1)
    if factor.rank == factor.root.shape[1]:
        return np.asarray(factor.whitener @ scores)
    return np.asarray(linalg.lstsq(factor.root, scores, cond=np.finfo(float).eps)[0])


def solve_well_conditioned(sums: Array, cross: Array, n: int, mean: Array, rounding: float) -> Array | None:
    """Least squares by the normal equations, or None where the condition number does not allow it."""
    scale, constant, noise = _columns(sums, n, mean, rounding)
    if constant.any() or n <= len(scale):
        return None
    inverse = 1.0 / scale
    correlation = sums * np.multiply.outer(inverse, inverse) / n
    norm = float(np.abs(correlation).sum(axis=0).max())
    triangle, info = lapack.dpotrf(correlation, lower=0)
    smallest = max(_RESOLVED, _NOISE_FACTOR * float(np.max(noise * inverse)) ** 2, rank_tolerance(rounding) ** 2)
    if info != 0 or lapack.dpocon(triangle, norm, uplo="U")[0] < smallest:
        return None
    scores = inverse[:, None] * cross / n
    # numpy's solvers let other threads run, scipy's Cholesky solver does not. Many targets at once share an inverse.
    many = cross.shape[1] > 2 * len(scale)
    solved = np.linalg.inv(correlation) @ scores if many else np.linalg.solve(correlation, scores)
    return np.asarray(inverse[:, None] * solved)


def _columns(sums: Array, n: int, mean: Array, rounding: float) -> tuple[Array, Array, Array]:
    """Standard deviations of the columns (0 for constant ones), which are constant, and the noise of rounding."""
    scale = np.sqrt(np.maximum(np.diagonal(sums), 0.0) / max(n, 1))
    noise = rounding * np.abs(mean)
    constant = scale <= noise
    return np.where(constant, 0.0, scale), constant, noise


def _noise_along(directions: Array, noise: Array) -> Array:
    """The variance that rounding about a large mean may make in each direction (columns)."""
    return np.asarray(_NOISE_FACTOR * (directions**2).T @ noise**2)


def _inverse(scale: Array) -> Array:
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
