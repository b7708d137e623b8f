"""Factoring a covariance from rows: the moments at hand, and a second pass only where they do not resolve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .conditioning import (
    Factor,
    Preconditioner,
    factor_covariance,
    factor_preconditioned,
    preconditioner,
    whitened_again,
)
from .errors import InputError
from .moments import Moments, fold_moments, merged
from .representation import Array, Matrix, rounding_of
from .rows import ProjectedRows

_PRECISE = 1e-5  # relative error of a variance along some direction from which on one more pass corrects it


@dataclass(frozen=True, eq=False)
class SecondPass:
    """The moments of every fold in the preconditioned basis."""

    by: Preconditioner
    folds: list[Moments]


def resolve_source(
    total: Moments, x: Matrix, y: Matrix, folds: Array, n_folds: int, rounding: float | None = None
) -> tuple[Factor, SecondPass | None]:
    """Factor the source's covariance, with a second pass over the rows only if the moments do not resolve it.

    The factor is of the columns that count as dimensions, the second pass of columns of any scale, for least squares.
    """
    arguments = (total.xx, total.n, total.source_mean, rounding_of(x) if rounding is None else rounding)
    factor = factor_covariance(*arguments)
    if factor.resolved:
        return factor, None
    by = preconditioner(*arguments)
    second = SecondPass(by, fold_moments(ProjectedRows(x, total.source_mean, by.basis), y, folds, n_folds))
    whole = merged(second.folds)
    return factor_preconditioned(whole.xx, whole.n, by), second


def resolve_alone(
    moments: Callable[[Array | None, Array | None], Moments], rounding: float, *, any_scale: bool = False
) -> tuple[Moments, Factor]:
    """Moments and factored covariance of one side, wherever its rows lie.

    ``moments(mean, basis)`` makes a pass: over the rows, or over centred rows times a basis. Rows times the factor's
    whitener have unit covariance within 1e-3, whatever the data: where sums in float64 do not give it, a last pass over
    the whitened rows does. Columns of ``any_scale`` count, or only those that vary enough beside the others.
    """
    total = moments(None, None)
    spread = float(np.sqrt(np.trace(total.xx) / max(total.n, 1)))
    if spread > 0 and not 1e-140 < spread < 1e140:
        raise InputError(f"the values of X spread by {spread:.0e}: rescale, their squares leave float64")
    arguments = (total.xx, total.n, total.source_mean, rounding)
    factor = factor_covariance(*arguments, any_scale=any_scale)
    if not factor.resolved:
        by = preconditioner(*arguments)
        second = moments(total.source_mean, by.basis)
        factor = factor_preconditioned(second.xx, second.n, by, any_scale=any_scale)
    if factor.error > _PRECISE:
        white = moments(total.source_mean, factor.whitener)
        factor = whitened_again(factor, white.xx, white.n)
    return total, factor
