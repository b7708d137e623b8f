r"""Products of two class-centred heads, in one pass over their rows, however many classes there are.

Each head is taken in its principal axes at unit variance, :math:`W=\sqrt{p}\,G_cV/s`, whose columns are orthonormal but
for rounding. :math:`T=W^\top W` puts right what is left of it, so that the pseudo-inverse
:math:`G_c^+=V s^{-1}T^{-1}W^\top` does not square the condition number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..representation import Array
from ..rows import block_rows, blocks, read_rows
from .inputs import Head
from .spectra import Spectrum


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over classes: ``own`` and ``other`` are the two Gram matrices, ``cross`` target by source.

    ``onto_source`` and ``onto_bias`` are the target's orthonormal columns times the source's centred head and the
    centred difference of the biases.
    """

    own: Array
    other: Array
    cross: Array
    onto_source: Array
    onto_bias: Array
    source_square: float


def head_products(
    source: Head, target: Head, spectra: tuple[Spectrum, Spectrum], shares: Array, bias_gap: Array
) -> Products:
    """One pass over the classes of both heads. ``bias_gap`` is source minus target, centred."""
    here, there = spectra
    r, s = there.rank, here.rank
    own, other, cross = np.zeros((r, r)), np.zeros((s, s)), np.zeros((r, s))
    onto, gap, square = np.zeros((r, source.width)), np.zeros(r), 0.0
    whiteners = (here.axes / here.singular_values, there.axes / there.singular_values)
    for rows in blocks(source.classes, block_rows(source.width, target.width)):
        roots = np.sqrt(shares[rows])[:, None]
        a, b = (
            roots * (read_rows(head.values, rows).astype(np.float64) - each.mean)
            for head, each in ((source, here), (target, there))
        )
        x, y = a @ whiteners[0], b @ whiteners[1]
        own += y.T @ y
        other += x.T @ x
        cross += y.T @ x
        onto += y.T @ a
        gap += y.T @ (roots[:, 0] * bias_gap[rows])
        square += float(np.einsum("ij,ij->", a, a))
    return Products(own, other, cross, onto, gap, square)


def solve_map(products: Products, target: Spectrum) -> tuple[Array, Array, float]:
    """The (M_t, M_s) map, its intercept, and the share of the source's head that the target's cannot express."""
    if target.rank == 0:
        return np.zeros((target.width, products.onto_source.shape[1])), np.zeros(target.width), 1.0
    factor = linalg.cho_factor(products.own)
    solved = linalg.cho_solve(factor, np.column_stack([products.onto_source, products.onto_bias]))
    lifted = target.axes @ (solved / target.singular_values[:, None])
    expressed = float(np.einsum("ij,ij->", products.onto_source, solved[:, :-1]))
    left = 1 - expressed / products.source_square if products.source_square > 0 else 0.0
    return lifted[:, :-1], lifted[:, -1], float(np.clip(left, 0.0, 1.0))


def principal_angles(products: Products) -> Array:
    """Angles between the column spaces of the two centred heads, in radians, smallest first; resolved to 1e-7."""
    if min(products.cross.shape) == 0:
        return np.zeros(0)
    left, right = (np.linalg.cholesky(each) for each in (products.own, products.other))
    turned = linalg.solve_triangular(left, products.cross, lower=True)
    turned = linalg.solve_triangular(right, turned.T, lower=True)
    return np.asarray(np.arccos(np.clip(np.linalg.svd(turned, compute_uv=False), 0.0, 1.0)))
