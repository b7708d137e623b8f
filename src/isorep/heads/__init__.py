"""Heads of models: whether features are identified by them, the map that two heads predict, and how close they are."""

from __future__ import annotations

from .closeness import closeness
from .closeness_result import Closeness, Divergence, LogOddsDistance, RepresentationDistances
from .diversity import diversity
from .diversity_result import ClassDiversity, Diversity, FeatureDiversity, Pairs
from .examine import Heads, examine
from .head_map import head_map
from .head_map_result import FittedError, HeadMap, HeadPrediction, Prediction, Regression

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
