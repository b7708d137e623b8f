"""Settings of callers, checked before any work: errors name the setting, its value and the allowed values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .errors import InputError

MOST_DRAWS = 10**6  # shuffles, halves and rotations: their results are held in memory
_MOST = 10**12


def check_counts(**counts: tuple[Any, int] | tuple[Any, int, int]) -> None:
    """Refuse what is no whole number, or below the least that makes sense, or above the most, 10^12 by default."""
    for name, (value, least, *most) in counts.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not least <= value <= (most[0] if most else _MOST):
            below = not most and not (whole and value > _MOST)
            limits = f"of at least {least}" if below else f"from {least} to {most[0] if most else _MOST}"
            raise InputError(f"{name} is {value!r} and must be a whole number {limits}")


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


def check_names(name: str, given: str | Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that were given, one or several; refuse unknown ones, and none at all."""
    wanted = [given] if isinstance(given, str) else list(given or ())
    known = list(known)
    unknown = [str(each) for each in wanted if each not in known]
    if unknown or not wanted:
        raise InputError(f"{name} {', '.join(unknown) or 'is empty'}: choose from {', '.join(known)}")
    return wanted


def one_name(own: Any, alias: Any, name: str, other: str) -> Any:
    """A setting that goes by two names: the value of the one that was given; both at once are refused."""
    if own is not None and alias is not None:
        raise InputError(f"{other} is another name for {name}, and both are given: give one")
    return alias if own is None else own
