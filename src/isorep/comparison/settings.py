"""What comparisons are asked for, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Representation, as_representation
from ..resampling import group_codes
from ..storage import read
from .fits import RUNGS


def loaded(data: Any, name: str) -> Representation:
    """What was given as a representation: a path is read, anything else is taken as it is."""
    return read(data) if isinstance(data, str | Path) else as_representation(data, name)


def checked_rungs(rungs: Sequence[str]) -> list[str]:
    """The chosen rungs in the order of the ladder."""
    wanted = [rungs] if isinstance(rungs, str) else list(rungs or ())
    unknown = [name for name in wanted if name not in RUNGS]
    if unknown or not wanted:
        raise InputError(f"rungs {', '.join(map(str, unknown)) or 'is empty'}: choose from {', '.join(RUNGS)}")
    return [name for name in RUNGS if name in wanted]


def check_counts(**counts: tuple[Any, int]) -> None:
    """Refuse what is no whole number, or below the least that makes sense."""
    for name, (value, least) in counts.items():
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} is {value!r} and must be a whole number of at least {least}")


def check_tolerance(tolerance: Any) -> None:
    """Refuse what is no number from 0 on."""
    if not isinstance(tolerance, float | int | np.number) or not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance!r} and must not be negative")


def check_seed(random_state: Any) -> None:
    """Refuse what is no whole number that every generator takes."""
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**32:
        raise InputError(f"random_state is {random_state!r} and must be a whole number from 0 to {2**32 - 1}")


def common_codes(labels: Any, n: int, rows: Array | None, name: str) -> Array | None:
    """Labels of the rows as given, as codes of the rows that are used."""
    codes = group_codes(labels, n, name)
    return codes if codes is None or rows is None else group_codes(codes[rows], len(rows), name)
