"""Are two neural representations the same, and up to what?

Public names load on first use (PEP 562), so ``import isorep`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .alignment import ICAAlignment, Identity, Linear, Rigid, SignedPermutation
    from .comparison import (
        Comparison,
        Ensemble,
        LayerComparison,
        compare,
        compare_layers,
        compare_many,
        diameter,
        worst_case,
    )
    from .deconfounding import Deconfounding, deconfound
    from .disentangling import Disentanglement, disentangle
    from .errors import InputError
    from .extraction import Extraction, extract
    from .ica import ICA, GaussianityWarning, Stability, Whitening, stability
    from .moments import Moments
    from .representation import Representation
    from .storage import read, write
    from .structure import FactorScores, score_factors
    from .translation import DriftWarning, Translation, Translator, UnpairedTranslation, translate, translate_unpaired

_HOMES = {
    "Representation": "representation",
    "InputError": "errors",
    "read": "storage",
    "write": "storage",
    "Moments": "moments",
    "Whitening": "ica",
    "ICA": "ica",
    "GaussianityWarning": "ica",
    "Stability": "ica",
    "stability": "ica",
    "Identity": "alignment",
    "SignedPermutation": "alignment",
    "Rigid": "alignment",
    "Linear": "alignment",
    "ICAAlignment": "alignment",
    "Comparison": "comparison",
    "compare": "comparison",
    "LayerComparison": "comparison",
    "compare_layers": "comparison",
    "Ensemble": "comparison",
    "compare_many": "comparison",
    "diameter": "comparison",
    "worst_case": "comparison",
    "deconfound": "deconfounding",
    "Deconfounding": "deconfounding",
    "disentangle": "disentangling",
    "Disentanglement": "disentangling",
    "extract": "extraction",
    "Extraction": "extraction",
    "score_factors": "structure",
    "FactorScores": "structure",
    "translate": "translation",
    "translate_unpaired": "translation",
    "UnpairedTranslation": "translation",
    "Translation": "translation",
    "Translator": "translation",
    "DriftWarning": "translation",
}

_ROOMS = ("blocks", "datasets", "decoder", "dictionaries", "disentangling", "heads", "similarity", "structure")

__all__ = [
    "ICA",
    "Comparison",
    "Deconfounding",
    "Disentanglement",
    "DriftWarning",
    "Ensemble",
    "Extraction",
    "FactorScores",
    "GaussianityWarning",
    "ICAAlignment",
    "Identity",
    "InputError",
    "LayerComparison",
    "Linear",
    "Moments",
    "Representation",
    "Rigid",
    "SignedPermutation",
    "Stability",
    "Translation",
    "Translator",
    "UnpairedTranslation",
    "Whitening",
    "__version__",
    "blocks",
    "compare",
    "compare_layers",
    "compare_many",
    "datasets",
    "decoder",
    "deconfound",
    "diameter",
    "dictionaries",
    "disentangle",
    "disentangling",
    "extract",
    "heads",
    "read",
    "score_factors",
    "similarity",
    "stability",
    "structure",
    "translate",
    "translate_unpaired",
    "worst_case",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'isorep' has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
