"""Translation: a map from the vectors of an old model to those of a new one, and its loss in retrieval."""

from __future__ import annotations

from .drift import Drift, DriftWarning, Reference
from .maps import MAPS, Curve, Point
from .result import HeldOut, MapRecord, Translation
from .retrieval import Recall, Retrieval
from .translate import translate
from .translator import Translator

__all__ = [
    "MAPS",
    "Curve",
    "Drift",
    "DriftWarning",
    "HeldOut",
    "MapRecord",
    "Point",
    "Recall",
    "Reference",
    "Retrieval",
    "Translation",
    "Translator",
    "translate",
]
