"""Ticks of logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable

_DIGITS = ((1,), (1, 2, 5), (1, 2, 3, 4, 5, 7))
_ENOUGH = 3


def log_ticks(places: Iterable[float]) -> tuple[tuple[float, str], ...]:
    """Where ticks stand on an axis of base-ten logarithms that holds these places, and what they say.

    They are powers of ten, and other round values where these are fewer than three.

    >>> [text for _, text in log_ticks([0.2, 1.1])]
    ['2', '5', '10']
    """
    held = sorted(places)
    if not held:
        return ()
    powers = range(math.floor(held[0]), math.ceil(held[-1]) + 1)
    inside: list[tuple[float, float]] = []
    for digits in _DIGITS:
        every = [(power + math.log10(digit), digit * 10.0**power) for power in powers for digit in digits]
        inside = [(place, value) for place, value in every if held[0] <= place <= held[-1]]
        if len(inside) >= _ENOUGH:
            break
    if not inside:
        inside = [(held[0], round(10 ** held[0], 2))]
    return tuple((place, f"{value:g}") for place, value in inside)
