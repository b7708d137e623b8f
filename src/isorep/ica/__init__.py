"""Whitening and independent component analysis as scikit-learn transformers, and reproducibility of components.

Names load on first use (PEP 562): the functions behind the estimators, in ``unmixing``, need no scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cards import Card, Cards, component_cards
    from .curvature import Plane
    from .estimator import ICA, GaussianityWarning
    from .refits import Stability, stability
    from .summary import summarise
    from .whitening import Whitening

_HOMES = {
    "ICA": "estimator",
    "Card": "cards",
    "Cards": "cards",
    "GaussianityWarning": "estimator",
    "Plane": "curvature",
    "Stability": "refits",
    "Whitening": "whitening",
    "component_cards": "cards",
    "stability": "refits",
    "summarise": "summary",
}

__all__ = [
    "ICA",
    "Card",
    "Cards",
    "GaussianityWarning",
    "Plane",
    "Stability",
    "Whitening",
    "component_cards",
    "stability",
    "summarise",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
