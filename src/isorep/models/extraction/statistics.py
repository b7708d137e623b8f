r"""What a layer's rows are like, from one pass over them in blocks.

The effective rank is the participation ratio :math:`(\operatorname{tr} C)^2 / \operatorname{tr} C^2` of the covariance
:math:`C`: the number of dimensions over which variance would be spread evenly to look the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...moments import Moments
from ...representation import Array
from ...storage.lazy import release

_SAMPLE = 20_000
_WIDEST = 4096
_CELLS = 2**20


@dataclass(frozen=True)
class LayerStatistics:
    """Basic figures of a layer; ``constant`` units never change, and of these ``dead`` ones are always 0."""

    mean_norm: float
    largest: float
    constant: int
    dead: int
    effective_rank: float | None


def describe(values: Array) -> LayerStatistics:
    """One pass over all rows, and moments of at most 20,000 of them, evenly spaced."""
    rows, columns = values.shape
    step = max(1, _CELLS // columns)
    least, most = np.full(columns, np.inf), np.full(columns, -np.inf)
    norms = 0.0
    for start in range(0, rows, step):
        block = np.asarray(values[start : start + step], dtype=np.float64)
        release(values)
        norms += float(np.sqrt(np.einsum("ij,ij->i", block, block)).sum())
        np.minimum(least, block.min(axis=0), out=least)
        np.maximum(most, block.max(axis=0), out=most)
    still = least == most
    return LayerStatistics(
        mean_norm=norms / rows,
        largest=float(max(most.max(), -least.min())),
        constant=int(still.sum()),
        dead=int((still & (most == 0)).sum()),
        effective_rank=_effective_rank(values, step),
    )


def _effective_rank(values: Array, step: int) -> float | None:
    rows, columns = values.shape
    if rows < 2 or columns > _WIDEST:
        return None
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(np.int64))
    moments = Moments.empty(columns, 0)
    for start in range(0, len(chosen), step):
        block = np.asarray(values[chosen[start : start + step]], dtype=np.float64)
        moments.absorb_rows(block, block[:, :0])
    release(values)
    total, squares = float(np.trace(moments.xx)), float(np.einsum("ij,ij->", moments.xx, moments.xx))
    return total**2 / squares if squares > 0 else 0.0
