r"""Rank, condition and principal axes of embeddings: class embeddings centred, features centred or not.

All from second moments, as everywhere in this project: unit-variance columns, the rounding of the stored dtype, and a
second, preconditioned pass only where float64 sums do not resolve the smallest directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..covariance import rank_tolerance, resolve_alone
from ..moments import Moments, moments_alone
from ..representation import Array, Matrix, rounding_of
from ..rows import ProjectedRows, block_rows, blocks, map_blocks, read_rows
from ..similarity.frames import decompose_few_rows
from ..threads import Crew


@dataclass(frozen=True, eq=False)
class Spectrum:
    r"""Standard deviations along principal axes, largest first, over the numerical rank.

    ``axes`` is the (d, r) orthonormal basis :math:`V` of the row space, ``constant`` says which columns do not vary.
    """

    width: int
    mean: Array
    singular_values: Array
    axes: Array
    constant: Array
    rounding: float

    @property
    def rank(self) -> int:
        """The number of directions above the rounding of the data."""
        return len(self.singular_values)

    @property
    def condition(self) -> float:
        """Largest over smallest standard deviation over the rank; infinite without any."""
        return float(self.singular_values[0] / self.singular_values[-1]) if self.rank else float("inf")

    @property
    def whitener(self) -> Array:
        """The matrix that gives rows unit covariance in the principal axes."""
        return np.asarray(self.axes / self.singular_values)

    @property
    def resolution(self) -> float:
        """The cosine that rounding alone can give an axis with a direction orthogonal to it."""
        return max(rank_tolerance(self.rounding), 1e-9)

    @property
    def participation(self) -> float:
        r"""Participation ratio: :math:`(\sum\lambda_i)^2/\sum\lambda_i^2`."""
        if not self.rank:
            return 0.0
        variances = (self.singular_values / self.singular_values.max()) ** 2
        return float(variances.sum() ** 2 / (variances**2).sum())


def spectrum(values: Matrix, name: str, *, weights: Array | None = None, centred: bool = True) -> Spectrum:
    """The spectrum of rows about their mean, weighted where asked; or about zero.

    Weights must be positive and sum to one.
    """
    n, d = values.shape
    rounding = rounding_of(values)
    if centred and n <= d:
        mean, _, deviations, axes, constant = decompose_few_rows(values, name, weights, any_scale=True)
        return Spectrum(d, mean, deviations, axes, constant, rounding)
    passes = _plain(values, name, centred) if weights is None else _weighted(values, weights)
    total, factor = resolve_alone(passes, rounding, any_scale=True)
    _, deviations, axes = np.linalg.svd(factor.root, full_matrices=False)
    return Spectrum(d, total.source_mean, deviations, axes.T, factor.constant, rounding)


Passes = Callable[[Array | None, Array | None], Moments]
"""The passes that ``resolve_alone`` asks for: over the rows, or over centred rows times a basis."""


def _plain(values: Matrix, name: str, centred: bool) -> Passes:
    def moments(mean: Array | None, basis: Array | None) -> Moments:
        rows = values if mean is None or basis is None else ProjectedRows(values, mean, basis)
        total = moments_alone(rows, name)
        if not centred:
            total.xx += total.n * np.multiply.outer(total.source_mean, total.source_mean)
            total.source_mean = np.zeros_like(total.source_mean)
        return total

    return moments


def _weighted(values: Matrix, weights: Array) -> Passes:
    n, d = values.shape

    def weighted_sum(rows: slice) -> Array:
        return np.asarray(weights[rows] @ read_rows(values, rows).astype(np.float64))

    about = np.asarray(sum(map_blocks(weighted_sum, n, block_rows(d))))

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
