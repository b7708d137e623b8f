"""Heads of models: identifiability of features, the map that two heads predict, and closeness in distribution."""

from __future__ import annotations

from .closeness import Closeness, Divergence, LogOddsDistance, RepresentationDistances, closeness
from .diversity import ClassDiversity, Diversity, FeatureDiversity, Pairs, diversity
from .examine import Heads, examine
from .head_map import HeadMap, head_map
from .regression import FittedError, HeadPrediction, Prediction, Regression

__all__ = [
    "ClassDiversity",
    "Closeness",
    "Divergence",
    "Diversity",
    "FeatureDiversity",
    "FittedError",
    "HeadMap",
    "HeadPrediction",
    "Heads",
    "LogOddsDistance",
    "Pairs",
    "Prediction",
    "Regression",
    "RepresentationDistances",
    "closeness",
    "diversity",
    "examine",
    "head_map",
]
