"""Nulls of kernel indices from a few axes: the shape is drawn, the mean and variance are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array
from .sides import Pair

SKETCH_AXES = 32  # leading axes that carry the shape of a null


@dataclass(eq=False)
class Sketch:
    """The numerator from a few axes, brought to the mean and variance that all axes have over all permutations."""

    left: Array
    right: Array
    radii: tuple[Array, Array] | None
    debias: Callable[[float, float], float] | None
    shift: float
    scale: float
    exact = False
    method = f"{SKETCH_AXES} leading axes per permutation, brought to the exact mean and variance"

    def draw(self, partners: Array) -> float:
        """The numerator under a shuffled pairing."""
        cross = self.left.T @ np.take(self.right, partners, axis=0, mode="clip")
        found = float(np.vdot(cross, cross))
        if self.radii is not None and self.debias is not None:
            found = self.debias(found, float(self.radii[0] @ self.radii[1][partners]))
        return self.shift + self.scale * found


def sketch(left: Array, right: Array, x: KernelSums, y: KernelSums, n: int, debiased: bool) -> Sketch:
    """A sketch by centred features whose products stand for the kernels with the given sums."""
    radii = [np.einsum("ij,ij->i", each, each, dtype=np.float64) for each in (left, right)]
    own = []
    for features, diagonal in zip((left, right), radii, strict=True):
        gram = features.T.astype(np.float64) @ features
        squares = float(np.vdot(gram, gram))
        if debiased:
            own.append(KernelSums(0.0, debiasing((diagonal, diagonal), n)(squares, float(diagonal @ diagonal)), 0.0))
        else:
            own.append(KernelSums(float(diagonal.sum()), squares, float(diagonal @ diagonal)))
    mean, variance = permutation_moments(x, y, n)
    own_mean, own_variance = permutation_moments(own[0], own[1], n)
    scale = float(np.sqrt(variance / own_variance)) if own_variance > 0 else 0.0
    pair = (radii[0], radii[1]) if debiased else None
    return Sketch(left, right, pair, None if pair is None else debiasing(pair, n), mean - scale * own_mean, scale)


@dataclass(frozen=True)
class KernelSums:
    """Of a symmetric kernel with zero row sums: trace, sum of squares, and sum of squares on the diagonal."""

    trace: float
    squares: float
    diagonal: float


def permutation_moments(k: KernelSums, other: KernelSums, n: int) -> tuple[float, float]:
    r"""Mean and variance of :math:`\operatorname{tr}(KPLP^\top)` over all permutations.

    Closed forms of Kazi-Aoual et al. (1995) for matrices with zero row sums:
    :math:`\mu=\operatorname{tr}K\operatorname{tr}L/(n-1)`.
    """
    mean = k.trace * other.trace / (n - 1)
    first = [(n - 1) * each.squares - each.trace**2 for each in (k, other)]
    second = [n * (n + 1) * each.diagonal - (n - 1) * (each.trace**2 + 2 * each.squares) for each in (k, other)]
    variance = 2 * first[0] * first[1] / ((n - 1) ** 2 * (n + 1) * (n - 2)) + second[0] * second[1] / (
        (n + 1) * n * (n - 1) * (n - 2) * (n - 3)
    )
    return mean, max(variance, 0.0)


def debiasing(radii: tuple[Array, Array], n: int) -> Callable[[float, float], float]:
    r"""The unbiased :math:`\operatorname{tr}(\tilde K\tilde L)` from the biased one and the diagonals' product."""
    total = float(radii[0].sum()) * float(radii[1].sum())

    def unbiased(alignment: float, diagonals: float) -> float:
        return alignment - n / (n - 2) * diagonals + total / ((n - 1) * (n - 2))

    return unbiased


def kernel_norm(pair: Pair, squares: Sequence[float], plain: Sequence[float]) -> float:
    """The product of the norms of two centred kernels; refused where one is rounding beside its ``plain`` squares."""
    for side, square, whole in zip((pair.x, pair.y), squares, plain, strict=True):
        if not square > 1e-12 * whole:
            raise InputError(f"all rows of {side.name} are equally similar by this kernel: CKA is not defined for it")
    return float(np.sqrt(squares[0]) * np.sqrt(squares[1]))
