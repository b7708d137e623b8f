"""Numbers from residuals: summaries and ICA efficiency."""

from __future__ import annotations

import numpy as np

from ..representation import Array
from .result import Error

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
LEAST_GAP = 0.1  # share of the permutation's error that rigid must remove for an efficiency to mean anything
BEYOND = 1.005  # prints as more than 100 %


def summarise(residuals: Array, unit: float) -> Error:
    """Mean, RMS, maximum and quantiles of residual norms, in units of ``unit``."""
    scaled = residuals / unit
    levels = np.quantile(scaled, QUANTILES)
    return Error(
        mean=float(scaled.mean()),
        rms=float(np.sqrt(np.mean(scaled**2))),
        sup=float(scaled.max()),
        quantiles={f"{q:g}": float(level) for q, level in zip(QUANTILES, levels, strict=True)},
    )


def ica_efficiency(permutation: float, rigid: float, ica: float) -> float | None:
    """The share of the error between signed permutation and rigid alignment that ICA removes without pairs.

    (perm - ica)/(perm - rigid): it may be negative or exceed one, and is undefined where rigid alignment does not
    improve on the permutation.

    Examples
    --------
    >>> from isorep.comparison import ica_efficiency
    >>> round(ica_efficiency(0.197, 0.109, 0.145), 2)  # MAE, Table 1 of Nelson et al. (2026)
    0.59
    """
    gap = permutation - rigid
    return (permutation - ica) / gap if gap > 0 else None


def told_efficiency(permutation: float, rigid: float, ica: float) -> float | None:
    """The efficiency, or None where rigid improves on the permutation so little that it is a ratio of noise."""
    return ica_efficiency(permutation, rigid, ica) if permutation - rigid >= LEAST_GAP * permutation else None


def efficiency_sentence(efficiency: float) -> str:
    """What an efficiency says; ICA is no rigid motion, and so not bound by what rigid reaches."""
    if efficiency > BEYOND:
        said = (
            "ICA leaves less than rigid, so that this is no share; it brings every component to unit variance, and so "
            "undoes stretches that no rigid motion can"
        )
    elif efficiency < 0:
        said = "ICA leaves more than signed permutation, so that it closes nothing of the gap to rigid"
    else:
        said = "the share of the gap between signed permutation and rigid that ICA closes; pairs only match components"
    return f"ICA efficiency {efficiency:.0%}: {said}"
