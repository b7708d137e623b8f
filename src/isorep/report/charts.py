"""Rungs of the ladder in words and colours: the same in every sentence and figure."""

from __future__ import annotations

NAMES = {"signed_permutation": "signed permutation", "ica": "ICA"}
PHRASES = {
    "identity": "as they are",
    "signed_permutation": "up to a signed permutation of dimensions (with one scale and a translation)",
    "rigid": "up to a rigid motion (rotation or reflection, with one scale and a translation)",
    "linear": "up to a linear map",
    "ica": "once their independent components are matched",
}
"""How a verdict says that two sides agree."""
SHORT_PHRASES = {
    "identity": "as they are",
    "signed_permutation": "up to a signed permutation",
    "rigid": "up to a rigid motion",
    "linear": "up to a linear map",
    "ica": "once independent components are matched",
}
"""The same for headlines."""
COLOURS = {"identity": "s0", "signed_permutation": "s1", "rigid": "s2", "linear": "s3", "ica": "s4"}


def rung_name(rung: str) -> str:
    """A rung's name in words."""
    return NAMES.get(rung, rung)


def colour(rung: str) -> str:
    """The class of a rung's colour; it is the same in every figure."""
    return COLOURS.get(rung, "s0")
