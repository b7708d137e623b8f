"""Whole numbers that callers give: counts, sizes and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_whole(value: Any, least: int, most: int | None = None) -> bool:
    """Whether this is a whole number between two others; booleans are none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        return False
    return least <= int(value) and (most is None or int(value) <= most)


def are_whole(values: Any, count: int) -> bool:
    """Whether these are so many positive whole numbers."""
    try:
        given = list(values)
    except TypeError:
        return False
    return len(given) == count and all(is_whole(value, 1) for value in given)


def is_seed(value: Any) -> bool:
    """Whether a generator can start from this number."""
    return is_whole(value, 0)
