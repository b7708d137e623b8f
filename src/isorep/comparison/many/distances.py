"""How far the rows of every run lie from its mean: what second moments do not hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...representation import Array, Matrix
from ...rows import block_rows, map_blocks, read_rows
from ..sides import half_variance_share


class Distances:
    """Squared distances of all rows from the mean of their run, in squared RMS radii: four bytes each."""

    def __init__(self, means: Sequence[Array], radii: Sequence[float], n: int) -> None:
        self._means, self._radii = means, radii
        self._squares = np.empty((len(radii), n), dtype=np.float32)

    def watch(self, run: int, rows: slice, values: Array) -> None:
        """Take a block of rows that was read anyway."""
        apart = (values - self._means[run]) / self._radii[run]
        self._squares[run, rows] = np.einsum("ij,ij->i", apart, apart)

    def read(self, runs: Sequence[Matrix]) -> None:
        """A pass over the rows, where no other one is left to watch."""
        for run, values in enumerate(runs):

            def block(rows: slice, run: int = run, values: Matrix = values) -> None:
                self.watch(run, rows, read_rows(values, rows))

            map_blocks(block, values.shape[0], block_rows(values.shape[1]))

    def half_shares(self) -> list[float]:
        """Of every run, the smallest share of rows that carry half of the variance."""
        return [half_variance_share(squares) for squares in self._squares]
