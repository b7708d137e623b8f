"""Settings as callers give them, checked before any work: a refusal names the setting, its value and what it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import InputError


def check_counts(**counts: tuple[Any, int]) -> None:
    """Refuse what is no whole number, or below the least that makes sense."""
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} is {value!r} and must be a whole number of at least {least}")


def check_tolerance(tolerance: Any) -> None:
    """Refuse what is no number from 0 on."""
    if not isinstance(tolerance, float | int | np.number) or not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance!r} and must not be negative")


def check_seed(random_state: Any) -> None:
    """Refuse what is no whole number that every generator takes."""
    if isinstance(random_state, bool) or not (isinstance(random_state, int | np.integer) and 0 <= random_state < 2**32):
        raise InputError(f"random_state is {random_state!r} and must be a whole number from 0 to {2**32 - 1}")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}: choose from {', '.join(map(str, choices))}")
