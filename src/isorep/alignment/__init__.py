"""Aligners: the ladder's groups, each fitted optimally from paired rows or from their moments."""

from __future__ import annotations

from .base import AffineMap, Aligner
from .ica import ICAAlignment
from .identity import Identity
from .linear import Linear
from .rigid import Rigid
from .signed_permutation import SignedPermutation

__all__ = [
    "AffineMap",
    "Aligner",
    "ICAAlignment",
    "Identity",
    "Linear",
    "Rigid",
    "SignedPermutation",
]
