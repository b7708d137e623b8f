r"""Blocks in an orthonormal basis of what each of them moves: scale and basis inside a block drop out.

For every block :math:`J_i=Q_iR_i`. Whatever invertible map acts inside a block, the range of :math:`Q_i` stays, so row
norms of :math:`Q_i` and supports of the vectors in its range are facts about the block and not about its coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...representation import Array


@dataclass(frozen=True, eq=False)
class Frame:
    """One sample: the whitened blocks side by side, where each stands, and how far the numbers can be trusted.

    ``noise`` is the relative error of whitened entries. ``unwhiten`` maps whitened coordinates to latent ones (None
    where some block has less than full rank, of which the moved directions are kept).
    """

    values: Array
    places: tuple[slice, ...]
    noise: float
    deficient: tuple[bool, ...]
    smallest: float
    unwhiten: Array | None

    @property
    def full_rank(self) -> bool:
        """Whether every direction moves something, and no two blocks move the outputs alike."""
        return not any(self.deficient) and self.smallest > 10 * self.noise * np.sqrt(len(self.values))

    def block(self, place: int) -> Array:
        """The whitened columns of a block."""
        return np.asarray(self.values[:, self.places[place]])

    def weights(self) -> Array:
        """How strongly a block moves an output: row norms (outputs, K), the largest of every block being 1."""
        norms = np.stack([np.linalg.norm(self.values[:, place], axis=1) for place in self.places], axis=1)
        largest = norms.max(0, initial=0.0)
        return np.asarray(norms / np.where(largest > 0, largest, 1.0))


def balanced_units(jacobians: Array, latents: Array, noise: float) -> Array:
    """Powers of two, one a latent, in which all latents move the outputs by about as much.

    Latents may come in units that lie apart by many orders, and verdicts must not hang on these. What a latent moves
    over its whole spread has no units: where that is rounding beside the others it stays as small as it is.
    """
    sizes = np.abs(jacobians).max((0, 1))
    spread = latents.std(0)
    spread = spread if spread.any() else np.ones_like(spread)
    effects = sizes * spread
    most = float(effects.max())
    if most == 0:
        return np.ones_like(sizes)
    moves = (sizes > 0) & ((spread == 0) | (effects > noise * most))
    units = np.where(moves, 1 / np.where(sizes > 0, sizes, 1.0), np.where(spread > 0, spread, 1.0) / most)
    exponents = np.round(np.log2(units))
    return np.asarray(np.exp2(exponents - exponents[0]) if np.ptp(exponents) else np.ones_like(sizes))


def frame(jacobian: Array, blocks: Sequence[Array], noise: float) -> Frame:
    """The frame of one Jacobian (outputs, d), in float64."""
    n, d = jacobian.shape
    parts, places, deficient, worst, start = [], [], [], 1.0, 0
    unwhiten: Array | None = np.zeros((d, d))
    for block in blocks:
        columns = np.asarray(jacobian[:, block], dtype=np.float64)
        left, values, right = np.linalg.svd(columns, full_matrices=False)
        largest = values[0] if len(values) else 0.0
        kept = int((values > 10 * noise * np.sqrt(n) * largest).sum()) if largest > 0 else 0
        deficient.append(kept < len(block))
        if kept:
            worst = max(worst, largest / values[kept - 1])
        if kept < len(block):
            unwhiten = None
        elif unwhiten is not None:
            unwhiten[np.ix_(block, np.arange(start, start + kept))] = right.T / values
        parts.append(left[:, :kept])
        places.append(slice(start, start + kept))
        start += kept
    values = np.concatenate(parts, axis=1)
    smallest = 0.0
    if 0 < start <= n:
        smallest = float(np.linalg.svd(values, compute_uv=False)[-1])
    return Frame(values, tuple(places), noise * worst, tuple(deficient), smallest, unwhiten)
