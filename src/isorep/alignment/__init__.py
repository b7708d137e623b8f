"""Aligners: the ladder's groups, each fitted optimally from paired rows or from their moments.

Estimators load on first use (PEP 562): maps from moments need no scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import AffineMap

if TYPE_CHECKING:
    from .aligner import Aligner
    from .ica import ICAAlignment
    from .identity import Identity
    from .linear import Linear
    from .rigid import Rigid
    from .signed_permutation import SignedPermutation

_HOMES = {
    "Aligner": "aligner",
    "ICAAlignment": "ica",
    "Identity": "identity",
    "Linear": "linear",
    "Rigid": "rigid",
    "SignedPermutation": "signed_permutation",
}

__all__ = [
    "AffineMap",
    "Aligner",
    "ICAAlignment",
    "Identity",
    "Linear",
    "Rigid",
    "SignedPermutation",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
