"""Translation: a map from the vectors of an old model to those of a new one, and what it loses."""

from .curve import Curve, Point
from .drift import Drift, DriftWarning, Reference
from .fitting import translate
from .result import HeldOut, MapRecord, Translation
from .retrieval import Recall, Retrieval
from .solving import MAPS
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
