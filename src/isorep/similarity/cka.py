r"""Centred kernel alignment (CKA): linear or Gaussian, as published or debiased.

Both kernels enter through the alignment, the squares and the diagonals of their centred matrices, from which the
unbiased estimates follow. The Gaussian kernel is computed in tiles: CKA needs only sums over pairs of rows, so that
the kernel of many rows is never held in memory.

Nulls are drawn from a few leading axes where all would cost too much, and rescaled to the exact mean and variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ..errors import InputError
from ..representation import Array
from ..rows import blocks, map_blocks, read_rows
from ..settings import check_choice
from ..threads import one_blas_thread
from .cca import cross_source
from .frames import Pair, Side, paired
from .null import Draws, PreparedIndex, Similarity, UndefinedIndexError, finished, moved_product

KERNELS = ("linear", "rbf")
SKETCH_AXES = 32  # leading axes that carry the shape of a null
_HELD_ROWS = 6000  # kernels of so many rows are kept whole for exact nulls: 2 x 144 MB in float32
_LANDMARKS = 512
_MEDIAN_ROWS = 4000
_TILE = 512
_REAL = slice(None)  # the partners of the real pairing


@one_blas_thread
def cka(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "linear",
    debiased: bool = False,
    bandwidth: float = 0.5,
    exact: bool = False,
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Centred kernel alignment (CKA).

    .. math:: \frac{\operatorname{tr}\tilde K\tilde L}{\sqrt{\operatorname{tr}\tilde K^2\operatorname{tr}\tilde L^2}},
              \qquad\text{linear: }\frac{\|X_c^\top Y_c\|_F^2}{\|X_c^\top X_c\|_F\,\|Y_c^\top Y_c\|_F}

    Invariant to translation, scale and orthogonal maps.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows; for the biased linear kernel also their Moments as ``X`` alone.
    kernel : {"linear", "rbf"}
        Inner products of rows (default), or a Gaussian of their distances.
    debiased : bool
        Use the unbiased estimate of each term (Song et al. 2012), which may be negative. The biased index is high for
        unrelated wide representations of few rows. Default: no.
    bandwidth : float
        Bandwidth of the Gaussian kernel, in multiples of the median distance between rows of the same side.
    exact : bool
        Compute every draw of the null from all dimensions. Default: a null over all permutations is drawn from the
        leading axes and rescaled to its mean and variance, which are known exactly.
    permutations, groups, within, random_state
        As for :func:`cca`; with groups or classes every draw is exact.

    References
    ----------
    .. [1] Kornblith, S., Norouzi, M., Lee, H., Hinton, G. (2019). Similarity of neural network representations
           revisited. ICML.
    .. [2] Song, L., Smola, A., Gretton, A., Bedo, J., Borgwardt, K. (2012). Feature selection via dependence
           maximization. JMLR 13.
    .. [3] Kazi-Aoual, F., Hitier, S., Sabatier, R., Lebreton, J.-D. (1995). Refined approximations to permutation tests
           for multivariate inference. Computational Statistics & Data Analysis 20.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> round(isorep.similarity.cka(X, 3 * X @ [[0, 1], [1, 0]]).value, 6)
    1.0
    """
    prepare = partial(prepare_cka, kernel=kernel, debiased=debiased, bandwidth=bandwidth, exact=exact)
    return finished(paired(X, Y), prepare, permutations, groups, within, random_state)


def prepare_cka(
    pair: Pair, *, kernel: str = "linear", debiased: bool = False, bandwidth: float = 0.5, exact: bool = False
) -> PreparedIndex:
    """CKA of a pair."""
    check_choice("kernel", kernel, KERNELS)
    if not (isinstance(bandwidth, float | int) and bandwidth > 0):
        raise InputError(f"bandwidth is {bandwidth!r} and must be positive")
    if debiased and pair.n < 4:
        raise InputError(f"the debiased estimate needs at least 4 rows, not {pair.n}")
    kernels = _linear(pair) if kernel == "linear" else _gaussian(pair, float(bandwidth))
    estimate: Estimate = _biased
    squares = list(kernels.squares)
    if debiased:
        diagonals = kernels.diagonals()
        estimate = debiasing(*diagonals)
        squares = [debiasing(each, each)(square, _REAL) for each, square in zip(diagonals, squares, strict=True)]
    for side, square, whole in zip((pair.x, pair.y), squares, kernels.uncentred, strict=True):
        if not square > 1e-12 * whole:
            raise UndefinedIndexError(
                f"all rows of {side.name} are equally similar by this kernel: CKA is not defined for it"
            )
    norm = float(np.sqrt(squares[0]) * np.sqrt(squares[1]))

    def source(uniform: bool) -> Draws:
        whole = exact or not uniform or kernels.small
        key = ("cka", kernel, bandwidth, debiased, whole)
        return pair.once(key, lambda: kernels.draws(estimate) if whole else sketch(kernels, pair.n, debiased))

    details = {"kernel": kernel, "debiased": debiased} | ({"bandwidth": float(bandwidth)} if kernel == "rbf" else {})
    name = "cka" + ("_rbf" if kernel == "rbf" else "") + ("_debiased" if debiased else "")
    value = estimate(kernels.alignment, _REAL) / norm
    return PreparedIndex(name, value, details, source, lambda drawn: float(drawn) / norm)


Estimate = Callable[[float, Any], float]
r"""The numerator from the biased :math:`\operatorname{tr}(\tilde K\tilde L)` and each row's partner."""


def _biased(alignment: float, partners: Any) -> float:
    return alignment


def debiasing(left: Array, right: Array) -> Estimate:
    """The unbiased numerator of kernels with these diagonals."""
    n = len(left)
    total = float(left.sum()) * float(right.sum())

    def unbiased(alignment: float, partners: Any) -> float:
        return alignment - n / (n - 2) * float(left @ right[partners]) + total / ((n - 1) * (n - 2))

    return unbiased


@dataclass(frozen=True, eq=False)
class Kernels:
    """Two centred kernels: their alignment and squares, both biased, their squares before centring, and diagonals.

    ``draws`` gives the numerator of shuffled pairings from all dimensions, ``features`` the leading axes of both sides;
    ``small`` is true where the first costs no more.
    """

    alignment: float
    squares: Sequence[float]
    uncentred: Sequence[float]
    diagonals: Callable[[], list[Array]]
    draws: Callable[[Estimate], Draws]
    features: Callable[[], list[Array]]
    small: bool


def _linear(pair: Pair) -> Kernels:
    sides = (pair.x, pair.y)
    # The index has no unit, and fourth powers of large or small values leave the range of numbers.
    units = [float(side.frame.singular_values.max(initial=0.0)) or 1.0 for side in sides]
    singular = [side.frame.singular_values / unit for side, unit in zip(sides, units, strict=True)]
    weights = [each**2 for each in singular]
    squares = [float((each**2).sum()) for each in weights]

    def alignment(cross: Array) -> float:
        return float(weights[0] @ np.square(cross, dtype=np.float64) @ weights[1])

    def draws(estimate: Estimate) -> Draws:
        cross = cross_source(pair)(True)
        return Draws(lambda partners: estimate(alignment(cross.draw(partners)), partners))

    def features() -> list[Array]:
        leading = (
            side.scores()[:, :SKETCH_AXES] * each[:SKETCH_AXES] for side, each in zip(sides, singular, strict=True)
        )
        return [np.ascontiguousarray(each) for each in leading]

    def diagonals() -> list[Array]:
        return [side.square_radii / unit / unit for side, unit in zip(sides, units, strict=True)]

    small = min(map(len, weights)) <= SKETCH_AXES
    return Kernels(alignment(pair.cross), squares, squares, diagonals, draws, features, small)


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

    @property
    def diagonal(self) -> Array:
        """The diagonal of the centred kernel."""
        return np.asarray(1.0 - 2 * self.row_means + self.mean)

    def tile(self, some: slice) -> Array:
        """The kernel of some rows with all."""
        return _gaussian_tile(self.rows[some], self.rows, self.factor)

    def centred(self) -> Array:
        """The whole centred kernel, in float32 where there are many rows."""
        n = len(self.rows)
        whole = np.empty((n, n), np.float32 if n > 1000 else np.float64)
        for some in blocks(n, _TILE):
            whole[some] = self.tile(some) - self.row_means[some, None] - self.row_means + self.mean
        return whole


def _gaussian(pair: Pair, bandwidth: float) -> Kernels:
    sides = [side.once(("rbf", bandwidth), partial(_kernel, side, bandwidth)) for side in (pair.x, pair.y)]
    k, other = sides
    products = pair.once(("rbf", bandwidth), lambda: _tile_products(k, other))
    ours, both, theirs = (
        _centred_product(product, *each, pair.n)
        for product, each in zip(products, ((k, k), (k, other), (other, other)), strict=True)
    )

    def draws(estimate: Estimate) -> Draws:
        left, right = pair.once(("centred", bandwidth), lambda: (k.centred(), other.centred()))

        def draw(partners: Array) -> float:
            return estimate(moved_product(left, right, partners), partners)

        return Draws(draw, "the products of all pairs of rows per permutation")

    return Kernels(
        both,
        (ours, theirs),
        (products[0], products[2]),
        lambda: [each.diagonal for each in sides],
        draws,
        lambda: [_leading_features(each) for each in sides],
        pair.n <= _HELD_ROWS,
    )


def _kernel(side: Side, bandwidth: float) -> _Gaussian:
    given = side.near_rows
    n, d = given.shape
    rows = np.empty((n, d), np.float64 if n * d <= 2**24 else np.float32)

    mean = side.frame.mean

    def centre(some: slice) -> None:
        rows[some] = read_rows(given, some) - mean

    map_blocks(centre, n, 4 * _TILE)
    some = rows if n <= _MEDIAN_ROWS else rows[np.linspace(0, n - 1, _MEDIAN_ROWS).astype(np.intp)]
    median = float(np.median(cdist(some, some, "sqeuclidean")))
    if median <= 0:
        raise UndefinedIndexError(
            f"more than half of all pairs of rows of {side.name} are equal: there is no bandwidth"
        )
    factor = -1.0 / (2 * bandwidth**2 * median)
    means = map_blocks(lambda some: _gaussian_tile(rows[some], rows, factor).mean(axis=1), n, _TILE)
    return _Gaussian(rows, factor, np.concatenate(means))


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


def _centred_product(product: float, k: _Gaussian, other: _Gaussian, n: int) -> float:
    r""":math:`\operatorname{tr}(\tilde K\tilde L)` from the sum of products and the row means."""
    return float(product - 2 * n * (k.row_means @ other.row_means) + n * n * k.mean * other.mean)


def _leading_features(k: _Gaussian) -> Array:
    """Leading axes of the centred kernel, by Nyström's method on evenly spread rows."""
    marks = k.rows[np.linspace(0, len(k.rows) - 1, min(_LANDMARKS, len(k.rows))).astype(np.intp)]
    values, vectors = np.linalg.eigh(_gaussian_tile(marks, marks, k.factor).astype(np.float64))
    kept = values > 1e-8 * values[-1]
    basis = vectors[:, kept] / np.sqrt(values[kept])
    parts = map_blocks(lambda some: _gaussian_tile(k.rows[some], marks, k.factor) @ basis, len(k.rows), 4 * _TILE)
    features = np.concatenate(parts)
    features -= features.mean(axis=0)
    _, axes = np.linalg.eigh(features.T @ features)
    return np.ascontiguousarray(features @ axes[:, ::-1][:, :SKETCH_AXES])


def sketch(kernels: Kernels, n: int, debiased: bool) -> Draws:
    """The numerator from a few axes, rescaled to the mean and variance of all axes over all permutations."""
    left, right = kernels.features()
    radii = [np.einsum("ij,ij->i", each, each, dtype=np.float64) for each in (left, right)]
    grams = (each.T.astype(np.float64) @ each for each in (left, right))
    own = [float(np.vdot(gram, gram)) for gram in grams]
    moments = []
    for squares, diagonals in ((kernels.squares, kernels.diagonals()), (own, radii)):
        sums = [kernel_sums(*each, debiased) for each in zip(squares, diagonals, strict=True)]
        moments.append(permutation_moments(sums[0], sums[1], n))
    (mean, variance), (own_mean, own_variance) = moments
    scale = float(np.sqrt(variance / own_variance)) if own_variance > 0 else 0.0
    estimate = debiasing(*radii) if debiased else _biased

    def draw(partners: Array) -> float:
        cross = left.T @ np.take(right, partners, axis=0, mode="clip")
        return mean + scale * (estimate(float(np.vdot(cross, cross)), partners) - own_mean)

    return Draws(draw, f"{SKETCH_AXES} leading axes per permutation, brought to the exact mean and variance", False)


@dataclass(frozen=True)
class KernelSums:
    """Trace, sum of squares, and sum of squares on the diagonal of a symmetric kernel with zero row sums."""

    trace: float
    squares: float
    diagonal: float


def kernel_sums(squares: float, diagonal: Array, debiased: bool) -> KernelSums:
    """The sums of a centred kernel; of a debiased one, whose diagonal is zero."""
    if debiased:
        return KernelSums(0.0, debiasing(diagonal, diagonal)(squares, _REAL), 0.0)
    return KernelSums(float(diagonal.sum()), squares, float(diagonal @ diagonal))


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
