"""Translation: a map from the vectors of an old model to those of a new one, and its loss in retrieval."""

from __future__ import annotations

from .confidence import Calibration, Confidence
from .drift import Drift, DriftWarning, Reference
from .extrapolation import Extrapolation, StoreRecall
from .maps import MAPS, Curve, FittedMap, Point
from .regions import Region
from .relevance import Judged, Relevance
from .result import HeldOut, MapRecord, Translation
from .retrieval import SCENARIOS, Recall, Retrieval, Scenario
from .translate import translate
from .translator import Translator
from .unpaired import Match, PairCheck, UnpairedTranslation, translate_unpaired

__all__ = [
    "MAPS",
    "SCENARIOS",
    "Calibration",
    "Confidence",
    "Curve",
    "Drift",
    "DriftWarning",
    "Extrapolation",
    "FittedMap",
    "HeldOut",
    "Judged",
    "MapRecord",
    "Match",
    "PairCheck",
    "Point",
    "Recall",
    "Reference",
    "Region",
    "Relevance",
    "Retrieval",
    "Scenario",
    "StoreRecall",
    "Translation",
    "Translator",
    "UnpairedTranslation",
    "translate",
    "translate_unpaired",
]
