"""The Gaussian kernel in tiles: what CKA needs of it are sums over pairs of rows, so it is never held for many rows.

Nulls of kernel indices from a few axes: the shape is drawn, the mean and variance are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from ..errors import InputError
from ..representation import Array, Matrix
from ..rows import map_blocks, read_rows
from .frames import Pair, Side
from .null import Draws, Prepared

_HELD_ROWS = 6000  # kernels of so many rows are kept whole for exact nulls: 2 x 144 MB in float32
_LANDMARKS = 512
_MEDIAN_ROWS = 4000
_TILE = 512


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """The Gaussian kernel of one side, as a function of tiles of rows, with its row means."""

    rows: Array
    factor: float
    row_means: Array

    @property
    def mean(self) -> float:
        """The mean of all entries."""
        return float(self.row_means.mean())

    def tile(self, some: slice) -> Array:
        """The kernel of some rows with all."""
        return _gaussian_tile(self.rows[some], self.rows, self.factor)

    @property
    def diagonal(self) -> Array:
        """The diagonal of the centred kernel."""
        return np.asarray(1.0 - 2 * self.row_means + self.mean)


def prepare_gaussian(pair: Pair, debiased: bool, bandwidth: float, exact: bool) -> Prepared:
    """CKA of a pair with Gaussian kernels."""
    k, other = (side.once(("rbf", bandwidth), partial(_kernel, side, bandwidth)) for side in (pair.x, pair.y))
    n = pair.n
    products = pair.once(("rbf", bandwidth), lambda: _tile_products(k, other))
    sums = [_gaussian_sums(each, products[place], n, debiased) for place, each in ((0, k), (2, other))]
    norm = kernel_norm(pair, [each.squares for each in sums], [float(products[0]), float(products[2])])
    value = _aligned(products[1], k, other, n, debiased)

    def source(uniform: bool) -> Draws:
        if n <= _HELD_ROWS or exact or not uniform:
            return pair.once(("held", bandwidth, debiased), lambda: _held(k, other, n, debiased))
        key = ("rbf sketch", bandwidth, debiased)
        return pair.once(key, lambda: _gaussiansketch(k, other, sums, n, debiased))

    return Prepared(
        "cka_rbf_debiased" if debiased else "cka_rbf",
        value / norm,
        True,
        1.0,
        {"kernel": "rbf", "debiased": debiased, "bandwidth": bandwidth},
        source,
        lambda drawn: float(drawn) / norm,
    )


def _kernel(side: Side, bandwidth: float) -> _Gaussian:
    rows = _centred_rows(side.rows, side.frame.mean)
    some = rows if len(rows) <= _MEDIAN_ROWS else rows[np.linspace(0, len(rows) - 1, _MEDIAN_ROWS).astype(np.intp)]
    median = float(np.median(cdist(some, some, "sqeuclidean")))
    if median <= 0:
        raise InputError(f"more than half of all pairs of rows of {side.name} are equal: there is no bandwidth")
    factor = -1.0 / (2 * bandwidth**2 * median)
    n = len(rows)
    means = map_blocks(lambda some: _gaussian_tile(rows[some], rows, factor).mean(axis=1), n, _TILE)
    return _Gaussian(rows, factor, np.concatenate(means))


def _centred_rows(values: Matrix, mean: Array) -> Array:
    """All rows about their mean, in float64 up to some size and float32 beyond."""
    n, d = values.shape
    out = np.empty((n, d), np.float64 if n * d <= 2**24 else np.float32)

    def fill(rows: slice) -> None:
        out[rows] = read_rows(values, rows) - mean

    map_blocks(fill, n, 4 * _TILE)
    return out


def _gaussian_tile(left: Array, right: Array, factor: float) -> Array:
    squares = [np.einsum("ij,ij->i", each, each) for each in (left, right)]
    distances = left @ right.T
    distances *= -2
    distances += squares[0][:, None]
    distances += squares[1]
    np.maximum(distances, 0, out=distances)
    distances *= factor
    np.exp(distances, out=distances)
    return np.asarray(distances)


def _tile_products(k: _Gaussian, other: _Gaussian) -> Array:
    """Sums over all pairs of rows of K², KL and L²; a diagonal is exactly one."""

    def tile(some: slice) -> Array:
        a, b = k.tile(some), other.tile(some)
        return np.array(
            [np.einsum("ij,ij->", left, right, dtype=np.float64) for left, right in ((a, a), (a, b), (b, b))]
        )

    return np.asarray(np.sum(map_blocks(tile, len(k.rows), _TILE), axis=0))


def _aligned(product: float, k: _Gaussian, other: _Gaussian, n: int, debiased: bool) -> float:
    r""":math:`\operatorname{tr}(\tilde K\tilde L)` from the sum of products and the row means."""
    if not debiased:
        return float(product - 2 * n * (k.row_means @ other.row_means) + n * n * k.mean * other.mean)
    rows = [n * each.row_means - 1 for each in (k, other)]  # row sums without the diagonal
    totals = [float(each.sum()) for each in rows]
    cross = float(rows[0] @ rows[1])
    return float(product - n + totals[0] * totals[1] / ((n - 1) * (n - 2)) - 2 * cross / (n - 2))


def _gaussian_sums(k: _Gaussian, product: float, n: int, debiased: bool) -> KernelSums:
    squares = _aligned(product, k, k, n, debiased)
    if debiased:
        return KernelSums(0.0, squares, 0.0)
    return KernelSums(float(k.diagonal.sum()), squares, float(k.diagonal @ k.diagonal))


@dataclass(eq=False)
class _Held:
    """Both centred kernels as they are: exact."""

    left: Array
    right: Array
    exact = True
    method = "the products of all pairs of rows per permutation"

    def draw(self, partners: Array) -> float:
        """The numerator under a shuffled pairing."""
        total = 0.0
        for start in range(0, len(self.left), _TILE):
            some = partners[start : start + _TILE]
            moved = np.take(np.take(self.right, some, axis=0, mode="clip"), partners, axis=1, mode="clip")
            total += float(np.einsum("ij,ij->", self.left[start : start + _TILE], moved, dtype=np.float64))
        return total


def _held(k: _Gaussian, other: _Gaussian, n: int, debiased: bool) -> _Held:
    kept = []
    for each in (k, other):
        whole = np.empty((n, n), np.float32 if n > 1000 else np.float64)
        for start in range(0, n, _TILE):
            some = slice(start, min(start + _TILE, n))
            whole[some] = _centred_tile(each, some, n, debiased)
        kept.append(whole)
    return _Held(kept[0], kept[1])


def _centred_tile(k: _Gaussian, some: slice, n: int, debiased: bool) -> Array:
    tile = k.tile(some).astype(np.float64)
    if not debiased:
        return np.asarray(tile - k.row_means[some, None] - k.row_means + k.mean)
    rows = n * k.row_means - 1
    tile += -rows[some, None] / (n - 2) - rows / (n - 2) + rows.sum() / ((n - 1) * (n - 2))
    tile[np.arange(len(tile)), np.arange(some.start, some.stop)] = 0.0
    return tile


def _gaussiansketch(k: _Gaussian, other: _Gaussian, sums: list[KernelSums], n: int, debiased: bool) -> Draws:
    left, right = (_leading_features(each) for each in (k, other))
    return sketch(left, right, sums[0], sums[1], n, debiased)


def _leading_features(k: _Gaussian) -> Array:
    """Leading axes of the centred kernel, by Nyström's method on rows from all over the data."""
    marks = k.rows[np.linspace(0, len(k.rows) - 1, min(_LANDMARKS, len(k.rows))).astype(np.intp)]
    values, vectors = np.linalg.eigh(_gaussian_tile(marks, marks, k.factor).astype(np.float64))
    kept = values > 1e-8 * values[-1]
    basis = vectors[:, kept] / np.sqrt(values[kept])
    parts = map_blocks(lambda some: _gaussian_tile(k.rows[some], marks, k.factor) @ basis, len(k.rows), 4 * _TILE)
    features = np.concatenate(parts)
    features -= features.mean(axis=0)
    _, axes = np.linalg.eigh(features.T @ features)
    return np.ascontiguousarray(features @ axes[:, ::-1][:, :SKETCH_AXES])


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
