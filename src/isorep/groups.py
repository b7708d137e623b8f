"""Rows that belong together: labels of any kind as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InputError
from .representation import Array


def group_codes(groups: Any, n: int) -> Array | None:
    """Group labels of any kind as integers from 0."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != n:
        raise InputError(f"groups has shape {labels.shape} where one label a row is needed: ({n},)")
    missing = [place for place, label in enumerate(labels.tolist()) if _is_missing(label)]
    if missing:
        raise InputError(f"groups is missing for {len(missing)} rows, the first at row {missing[0]}")
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def _is_missing(label: Any) -> bool:
    """None, NaN, and what pandas takes for missing."""
    return label is None or str(label) in ("nan", "<NA>", "NaT")
