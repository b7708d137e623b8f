"""Names and colours of the ladder's rungs: the same in every figure."""

from __future__ import annotations

from .figures import Key

NAMES = {"signed_permutation": "signed permutation", "ica": "ICA"}
COLOURS = {"identity": "s0", "signed_permutation": "s1", "rigid": "s2", "linear": "s3", "ica": "s4"}


def rung_name(rung: str) -> str:
    """A rung's name in words."""
    return NAMES.get(rung, rung)


def colour(rung: str) -> str:
    """The class of a rung's colour; it is the same in every figure."""
    return COLOURS.get(rung, "s0")


def legend_of(rungs: list[str], mark: str) -> tuple[Key, ...]:
    """A legend of rungs."""
    return tuple(Key(mark, colour(rung), rung_name(rung)) for rung in rungs)
