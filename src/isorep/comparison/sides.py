"""The facts about one side of a comparison, from its moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..covariance import Factor
from ..errors import InputError
from ..representation import Array, Matrix
from . import figures
from .result import Side

MOST = 0.9  # share of the variance that few directions may carry


def rms_radius(name: str, n: int, mean: Array, sums: Array) -> float:
    r"""The root mean square distance from the mean, :math:`\sqrt{\operatorname{tr}\operatorname{Cov}}`.

    Rows that are all the same, and spreads whose squares leave float64, are refused.
    """
    if not np.trace(sums) > (np.finfo(float).eps * np.linalg.norm(mean)) ** 2 * n:
        raise InputError(f"all rows of {name} are identical, as far as float64 can tell: there is no diameter")
    radius = float(np.sqrt(np.trace(sums) / n))
    if not 1e-140 < radius < 1e140:
        raise InputError(f"the values of {name} spread by {radius:.0e}: rescale, their squares leave float64")
    return radius


def working_dtype(sides: Sequence[Matrix], radii: Sequence[float]) -> Any:
    """float32 where all sides are stored no finer, unless squares of such values would leave its range."""
    plain = all(1e-12 < radius < 1e12 for radius in radii)
    return np.float32 if plain and max(side.dtype.itemsize for side in sides) <= 4 else np.float64


def half_variance_share(squares: Array) -> float:
    """The smallest share of rows that carry half of the variance, from their squared distances from the mean."""
    carried = np.cumsum(np.sort(squares)[::-1], dtype=np.float64)
    return float((np.searchsorted(carried, carried[-1] / 2) + 1) / len(squares))


def _directions_for(singular_values: Array, share: float) -> int | None:
    """How many principal directions carry this share of the variance."""
    if not len(singular_values):
        return None
    carried = np.cumsum(singular_values**2)
    return int(np.searchsorted(carried, share * carried[-1] * (1 - 1e-12))) + 1


def describe_side(name: str, values: Matrix, factor: Factor, radius: float, half_share: float | None = None) -> Side:
    """Sizes, rank, condition and spectrum."""
    return Side(
        name=name,
        rows=int(values.shape[0]),
        columns=int(values.shape[1]),
        dtype=str(values.dtype),
        rank=factor.rank,
        condition=factor.condition,
        constant_columns=int(factor.constant.sum()),
        rms_radius=radius,
        spectrum=tuple(factor.singular_values[: figures.SPECTRUM].tolist()),
        half_variance_share=half_share,
        left_out_columns=tuple(np.flatnonzero(factor.left_out).tolist()),
        directions_for_most=_directions_for(factor.singular_values, MOST),
    )
