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
