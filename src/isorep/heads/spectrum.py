r"""Rank, condition and principal axes of embeddings: class embeddings centred, features centred or not.

All from second moments, as everywhere in this project: unit-variance columns, the rounding of the stored dtype, and a
second, preconditioned pass only where float64 sums do not resolve the smallest directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..covariance import rank_tolerance, resolve_alone
from ..errors import InputError
from ..moments import Moments, moments_alone
from ..representation import Array, Matrix, rounding_of
from ..rows import Crew, ProjectedRows, block_rows, blocks, map_blocks, read_rows


@dataclass(frozen=True, eq=False)
class Spectrum:
    r"""Standard deviations along principal axes, largest first, over the numerical rank.

    ``axes`` is the (d, r) orthonormal basis :math:`V` of the row space, ``constant`` says which columns do not vary.
    """

    n: int
    width: int
    mean: Array
    singular_values: Array
    axes: Array
    constant: Array
    rounding: float

    @property
    def rank(self) -> int:
        """How many directions rise above the rounding of the data."""
        return len(self.singular_values)

    @property
    def condition(self) -> float:
        """Largest over smallest standard deviation over the rank; infinite without any."""
        return float(self.singular_values[0] / self.singular_values[-1]) if self.rank else float("inf")

    @property
    def whitener(self) -> Array:
        """What gives rows unit covariance in the principal axes."""
        return np.asarray(self.axes / self.singular_values)

    @property
    def resolution(self) -> float:
        """The cosine that an axis may have with a direction it is orthogonal to, for rounding alone."""
        return max(rank_tolerance(self.rounding), 1e-9)

    @property
    def participation(self) -> float:
        r"""How many directions carry the variance: :math:`(\sum\lambda_i)^2/\sum\lambda_i^2`."""
        variances = self.singular_values**2
        return float(variances.sum() ** 2 / (variances**2).sum()) if self.rank else 0.0


def spectrum(values: Matrix, name: str, *, weights: Array | None = None, centred: bool = True) -> Spectrum:
    """The spectrum of rows about their mean, weighted where asked; or about zero.

    Weights must be positive and sum to one.
    """
    n, d = values.shape
    if centred and n <= d:
        return _of_few_rows(values, name, weights)
    rounding = rounding_of(values)
    passes = _plain(values, name, centred) if weights is None else _weighted(values, weights)
    total, factor = resolve_alone(passes, rounding, any_scale=True)
    mean = total.source_mean
    if factor.rank == 0:
        return Spectrum(n, d, mean, np.zeros(0), np.zeros((d, 0)), factor.constant, rounding)
    _, found, axes = linalg.svd(factor.root, full_matrices=False)
    return Spectrum(n, d, mean, found, axes.T, factor.constant, rounding)


Passes = Callable[[Array | None, Array | None], Moments]
"""The passes that ``resolve_alone`` asks for: over the rows, or over centred rows times a basis."""


def _plain(values: Matrix, name: str, centred: bool) -> Passes:
    def moments(mean: Array | None, basis: Array | None) -> Moments:
        rows = values if mean is None or basis is None else ProjectedRows(values, mean, basis)
        found = moments_alone(rows, name)
        if not centred:
            found.xx += found.n * np.multiply.outer(found.source_mean, found.source_mean)
            found.source_mean = np.zeros_like(found.source_mean)
        return found

    return moments


def _weighted(values: Matrix, weights: Array) -> Passes:
    n, d = values.shape
    about = _weighted_mean(values, weights)

    def moments(mean: Array | None, basis: Array | None) -> Moments:
        def part(rows: slice) -> Array:
            block = read_rows(values, rows).astype(np.float64) - about
            block *= np.sqrt(weights[rows])[:, None]
            block = block if basis is None else block @ basis
            return np.asarray(block.T @ block)

        sums: Array = np.zeros((d, d))
        with Crew() as crew:
            for each in crew.stream(part, blocks(n, block_rows(d))):
                sums += each
        # The mean only says how large rounding may be: that of the rows before they were centred.
        return Moments(n, about, np.zeros(0), n * sums, np.zeros((d, 0)), np.zeros((0, 0)))

    return moments


def _weighted_mean(values: Matrix, weights: Array) -> Array:
    def part(rows: slice) -> Array:
        return np.asarray(weights[rows] @ read_rows(values, rows).astype(np.float64))

    return np.asarray(sum(map_blocks(part, values.shape[0], block_rows(values.shape[1]))))


def _of_few_rows(values: Matrix, name: str, weights: Array | None) -> Spectrum:
    """Fewer rows than columns: a decomposition of the rows, without a (d, d) matrix."""
    rows = np.asarray(read_rows(values, slice(None)), dtype=np.float64)
    n, d = rows.shape
    shares = np.full(n, 1 / n) if weights is None else weights
    with np.errstate(over="ignore", invalid="ignore"):
        mean = shares @ rows
        rows = np.sqrt(shares)[:, None] * (rows - mean)
        size = float(np.abs(rows).max())
    if not size < 1e140:
        raise InputError(f"{name} holds values so large that their squares overflow: rescale it")
    rounding = rounding_of(values)
    spread, noise = np.linalg.norm(rows, axis=0), rounding * np.abs(mean)
    constant = spread <= noise
    inverse = np.divide(1.0, spread, out=np.zeros(d), where=~constant)
    left, scaled, _ = linalg.svd(rows * inverse, full_matrices=False, check_finite=False)
    least = max(max(n, d) * np.finfo(float).eps, rank_tolerance(rounding)) * scaled[0]
    kept = scaled > max(least, 2 * float(np.linalg.norm(noise * inverse)))
    kept &= np.arange(n) < n - 1
    if not kept.any():
        return Spectrum(n, d, mean, np.zeros(0), np.zeros((d, 0)), constant, rounding)
    _, found, axes = linalg.svd(left[:, kept].T @ (rows * ~constant), full_matrices=False, check_finite=False)
    return Spectrum(n, d, mean, found, axes.T, constant, rounding)
