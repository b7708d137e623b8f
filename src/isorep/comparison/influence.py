r"""How far one row moves a held-out error: by its own residual, and by the map that it helps to fit.

A cross-validated error :math:`T=\sum_k\sum_{i\in k}\|y_i-h_{-k}(x_i)\|` varies with the rows that are scored *and* with
the maps that other rows give. To first order the row :math:`j` moves the error of fold :math:`k` by
:math:`-\langle\partial h,U_k\rangle` with :math:`U_k=\sum_{i\in k}x_i^\top e_i/\|e_i\|`. For least squares
:math:`\partial h=H^{-1}x_j^\top e_j`; for a rotation :math:`Q=UV^\top` of the cross-moments :math:`C=U\Sigma V^\top`

.. math:: \langle\partial Q,U_k\rangle=\Bigl\langle x_j^\top y_j,\;U\,\frac{G-G^\top}{\sigma_a+\sigma_b}V^\top\Bigr
          \rangle,\qquad G=U^\top U_kV,

and its scale moves as well. A jackknife over these influences counts interactions between rows twice (Efron & Stein
1981), one over the rows' own residuals not at all: the mean of the two variances is what the error varies by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..covariance import Factor
from ..moments import Moments
from ..representation import Array, Matrix
from ..rows import block_rows, map_blocks, read_rows
from .residuals import Centre, Maps, PreparedMaps, Pulls

MOST_CELLS = 2**27  # of the products that are kept per fold, beyond which only the rows' own residuals count


def pulled_rungs(names: Sequence[str], d_x: int, d_y: int, n_folds: int) -> list[str]:
    """The rungs whose maps have a derivative, as far as memory allows."""
    smooth = [name for name in names if name == "linear" or (name == "rigid" and d_x == d_y)]
    return smooth if 4 * n_folds * d_x * d_y <= MOST_CELLS else []


def map_influence(
    name: str,
    pulls: Pulls,
    rows: Array,
    x: Matrix,
    y: Matrix,
    fold_of: Array,
    centre: Centre,
    total: Moments,
    factors: tuple[Factor, Factor],
    maps: Sequence[Maps],
) -> Array:
    """For chosen rows, by how much each moves the summed held-out errors through the maps of other folds: (2, rows)."""
    n_folds = len(maps)
    grow = n_folds / (n_folds - 1)  # training sets are that much smaller than all rows
    weights = [_weights(name, pulls, side, total, factors, maps, grow) for side in range(2)]
    prepared = [PreparedMaps(each, centre) for each in maps]
    found = np.empty((2, len(rows)))

    def block(part: slice) -> None:
        mine = rows[part]
        xb, yb = centre.shift(read_rows(x, mine), 0), centre.shift(read_rows(y, mine), 1)
        here = fold_of[mine]
        for fold in np.unique(here):
            which = np.flatnonzero(here == fold)
            xs, ys = xb[which], yb[which]
            errors = prepared[fold].errors(xs, ys)
            for side, (source, target) in enumerate(((xs, ys), (ys, xs))):
                weight, shrink, offset = weights[side][fold]
                moved = source @ weight.astype(source.dtype)
                residual = -errors[side]  # true minus mapped
                if name == "linear":
                    change = np.einsum("ij,ij->i", moved, residual, dtype=np.float64)
                else:
                    change = np.einsum("ij,ij->i", moved, target, dtype=np.float64)
                    change -= shrink * np.einsum("ij,ij->i", source, source, dtype=np.float64)
                change += (residual @ offset.astype(residual.dtype)) * grow / total.n
                found[side, part.start + which] = -change

    map_blocks(block, len(rows), block_rows(x.shape[1], y.shape[1], cells=2**20))
    return found


def _weights(
    name: str,
    pulls: Pulls,
    side: int,
    total: Moments,
    factors: tuple[Factor, Factor],
    maps: Sequence[Maps],
    grow: float,
) -> list[tuple[Array, float, Array]]:
    """Per fold: what a row's product is weighed with, how much its square counts, and the other folds' pull."""
    products = pulls.products[side].astype(np.float64)
    sums = pulls.sums[side]
    if name == "rigid" and side:  # residuals of the reverse were taken in the rotated frame
        products = np.stack([each @ maps[fold][0].linear.T for fold, each in enumerate(products)])
    others, other_sums = products.sum(axis=0) - products, sums.sum(axis=0) - sums
    if name == "linear":
        whitener = factors[side].whitener
        scale = grow / total.n
        return [
            (scale * (whitener @ (whitener.T @ pull)), 0.0, offset)
            for pull, offset in zip(others, other_sums, strict=True)
        ]
    moments = total if side == 0 else total.swapped()
    u, singular, vt = np.linalg.svd(moments.xy)
    squares = float(np.trace(moments.xx))
    scale = float(singular.sum()) / squares
    apart = np.add.outer(singular, singular)
    inverse = np.divide(1.0, apart, out=np.zeros_like(apart), where=apart > 1e-9 * singular[0])
    found = []
    for pull, offset in zip(others, other_sums, strict=True):
        turned = u.T @ pull @ vt.T
        rotation = u @ vt
        along = float(np.vdot(pull, rotation)) / squares
        weight = scale * (u @ ((turned - turned.T) * inverse) @ vt) + along * rotation
        found.append((grow * weight, grow * scale * along, offset))
    return found
