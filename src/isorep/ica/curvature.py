r"""Curvature of the contrast around a fit: how well the rows determine every plane of two components.

In the plane of components :math:`i,j` the second variation of :math:`\sum_jc_j\,\mathbb E\,G(y_j)` is the mean over
rows of

.. math:: \tfrac12\{c_i[g'(y_i)y_j^2-g(y_i)y_i]+c_j[g'(y_j)y_i^2-g(y_j)y_j]\}

Two passes give that mean, its standard error and the noise of the angle, for all planes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..representation import Array, Matrix
from ..rows import block_rows, blocks, read_rows
from ..threads import Crew
from .contrasts import Contrast, contrast_named
from .estimator import ICA
from .white import Sums, add
from .whitening import transformed

MOST_FOR_HESSIAN = 40  # components: beyond, the Hessian has more than 780 rows
_STRETCH = 1e-4  # change of scale for a finite difference
_CERTAIN = 3.0  # standard errors within which a curvature counts as zero


@dataclass(frozen=True, eq=False)
class Curvature:
    """Curvature of the planes of a fit; all matrices are of components by components.

    ``planes`` holds the second variation, ``error`` its standard error, ``angle`` the sampling error of a plane's
    rotation, in radians and at most an eighth of a circle. ``radius`` is the largest norm of a whitened row, and
    ``smallest`` the least eigenvalue of the whole Hessian, None where it was not assembled.
    """

    planes: Array
    error: Array
    angle: Array
    radius: float
    smallest: float | None


@dataclass(frozen=True)
class Constants:
    r"""Worst-case constants of the perturbation lemma: very loose, for diagnosis only.

    Whitened rows that move by :math:`\epsilon` move the rotation by at most :math:`\kappa\epsilon`,
    :math:`\kappa=(C_2B+\sqrt k\,C_1)/\gamma`. ``gamma`` is the least eigenvalue of the Hessian where ``exact``,
    otherwise the least curvature of a plane, an upper bound. ``kappa`` is None at a saddle.
    """

    gamma: float | None
    exact: bool
    C1: float
    C2: float
    B: float
    kappa: float | None
    saddle: bool


@dataclass(frozen=True)
class Plane:
    """A weak plane: two components that may rotate into each other.

    ``curvature`` is the second variation of the contrast in their plane, ``error`` its standard error; ``expected`` and
    ``observed`` are angles in radians: the sampling error at that curvature, and the root mean square over refits;
    both are None for a single fit.
    """

    first: int
    second: int
    curvature: float
    error: float
    expected: float | None = None
    observed: float | None = None


def curvature(rows: Matrix, ica: ICA) -> Curvature:
    """Curvature of a fit's contrast on these rows, with its noise."""
    contrast = contrast_named(ica.contrast)
    k, d = ica.components_.shape
    n = int(rows.shape[0])

    def means(of_block: Callable[[Array], Sums]) -> Iterator[Array]:
        def part(where: slice) -> Sums:
            return of_block(transformed(read_rows(rows, where), ica.components_.T, ica.mean_))

        with Crew() as crew:
            total = add(crew.stream(part, blocks(n, block_rows(k, d, cells=2**20))))
        return (sums / n for sums in total)

    norms: list[float] = []
    slope, product, square, stretch = means(lambda y: _single(y, contrast, norms))
    alpha = slope - product  # the curvature of each component against Gaussian noise
    signs = np.where(alpha >= 0, 1.0, -1.0)
    mean, own, crossed, cross, *third = means(lambda y: _double(y, contrast, slope, stretch))
    planes = (signs[:, None] * mean + signs * mean.T) / 2
    spread = (own + own.T + 2 * np.multiply.outer(signs, signs) * crossed) / 4 - planes**2
    noise = np.maximum(square - product**2, 0)
    angle = np.sqrt((noise[:, None] + noise[None, :]) / n) / np.maximum(2 * planes, 1e-300)
    for matrix, diagonal in ((planes, np.abs(alpha)), (spread, 0), (angle, 0)):
        np.fill_diagonal(matrix, diagonal)
    smallest = float(linalg.eigvalsh(hessian(third[0], cross, signs))[0]) if third and k > 1 else None
    error, radius = np.sqrt(np.maximum(spread, 0) / n), float(np.sqrt(max(norms)))
    return Curvature(planes, error, np.minimum(angle, np.pi / 4), radius, smallest)


def hessian(third: Array, product: Array, signs: Array) -> Array:
    r"""Second variation of the contrast along all pairs of rotations, one row for each plane ``i < j``.

    Along :math:`e^{t\Omega}`, with :math:`\Omega` skew, it is
    :math:`\sum_jc_j\{\mathbb E\,g'(y_j)(\Omega y)_j^2+\mathbb E\,g(y_j)(\Omega^2y)_j\}`; ``third`` holds
    :math:`\mathbb E\,g'(y_j)y_ay_b` and ``product`` :math:`\mathbb E\,g(y_j)y_a`. Planes have unit norm.
    """
    k = len(signs)
    first, second = np.triu_indices(k, 1)
    basis = np.zeros((len(first), k, k))
    here = np.arange(len(first))
    basis[here, first, second], basis[here, second, first] = np.sqrt(0.5), -np.sqrt(0.5)
    total = np.zeros((len(first), len(first)))
    for j in range(k):
        total += signs[j] * (basis[:, j] @ third[j] @ basis[:, j].T)
    weighted = np.swapaxes(basis, 1, 2) @ (signs[:, None] * product)
    bent = weighted.reshape(len(first), -1) @ basis.reshape(len(first), -1).T
    return np.asarray(total + (bent + bent.T) / 2)


def constants(bent: Curvature, contrast: str) -> Constants:
    """The constants of the perturbation lemma at a fit."""
    k = len(bent.planes)
    first, second = np.triu_indices(k, 1)
    heights, error = bent.planes[first, second], bent.error[first, second]
    bounds = {"logcosh": (1.0, 1.0), "exp": (float(np.exp(-0.5)), 1.0), "cube": (bent.radius**3, 3 * bent.radius**2)}
    steepest, bend = bounds[contrast]
    gamma = bent.smallest if bent.smallest is not None else (float(heights.min()) if k > 1 else None)
    kappa = (bend * bent.radius + float(np.sqrt(k)) * steepest) / gamma if gamma is not None and gamma > 0 else None
    saddle = bool((heights < -_CERTAIN * error).any())
    return Constants(gamma, bent.smallest is not None, steepest, bend, bent.radius, kappa, saddle)


def weak_planes(planes: Array, error: Array, gaussian: Array) -> Array:
    """Pairs of components that may rotate into each other, the least certain first.

    Their curvature is within three standard errors of zero, or both are indistinguishable from Gaussian.
    """
    first, second = np.triu_indices(len(planes), 1)
    heights = planes[first, second]
    ratio = heights / np.maximum(error[first, second], 1e-300)
    weak = np.flatnonzero((ratio < _CERTAIN) | (gaussian[first] & gaussian[second]))
    weak = weak[np.argsort(ratio[weak], kind="stable")]
    return np.stack([first[weak], second[weak]], axis=1)


def _single(y: Array, contrast: Contrast, norms: list[float]) -> Sums:
    r"""Sums of a block for single components; the largest squared norm of a row goes to the list.

    In turn of :math:`g'(y)`, :math:`g(y)y`, :math:`g(y)^2`, and of how the difference of the first two follows the
    logarithm of the component's scale.
    """
    slopes, g = _derivatives(y, contrast)
    own, square = g * y, y * y
    bend = (contrast.slopes(y * (1 + _STRETCH)) - contrast.slopes(y * (1 - _STRETCH))) / (2 * _STRETCH)
    norms.append(float(square.sum(axis=1).max()))
    return [each.sum(axis=0) for each in (slopes, own, g * g, bend - slopes * square - own)]


def _double(y: Array, contrast: Contrast, slope: Array, stretch: Array) -> Sums:
    r"""Sums of a block for pairs, of :math:`T_{ij}=g'(y_i)y_j^2-g(y_i)y_i`, of its square and of :math:`T_{ij}T_{ji}`.

    The part that depends on the scale of the two components is removed, as whitening fixes the means of their squares
    at one: the mean does not change, and the remaining variance is that of a whitened sample.
    """
    slopes, g = _derivatives(y, contrast)
    square = y * y - 1
    left = slopes - slope
    alone = slopes - g * y - stretch / 2 * square
    mean = left.T @ square + alone.sum(axis=0)[:, None]
    own = (left**2).T @ square**2 + 2 * (left * alone).T @ square + (alone**2).sum(axis=0)[:, None]
    both, across = left * square, left.T @ (alone * square)
    sums = [mean, own, both.T @ both + across + across.T + alone.T @ alone, g.T @ y]
    if y.shape[1] <= MOST_FOR_HESSIAN:
        sums.append(np.stack([(each[:, None] * y).T @ y for each in slopes.T]))
    return sums


def _derivatives(y: Array, contrast: Contrast) -> tuple[Array, Array]:
    slopes = contrast.slopes(y)
    g = y.copy()
    contrast.apply(g, np.empty_like(g))
    return slopes, g
