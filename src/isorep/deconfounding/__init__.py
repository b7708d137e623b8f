"""Deconfounding: separate biology from batch effects in an embedding, tested on held-out batches."""

from __future__ import annotations

from ..ica.cards import Example
from ..results import Verdict
from .classifiers import CLASSIFIERS, PARAMETERS, concentration, hoyer
from .components import Component
from .deconfound import deconfound
from .dimensions import Dimensions, Point
from .inputs import SPLITS
from .measures import Mixing
from .result import Concentration, Condition, Data, Deconfounding, Filtered, Fold, Mean, PairedTest, Score, Summary
from .transforms import CONDITIONS

__all__ = [
    "CLASSIFIERS",
    "CONDITIONS",
    "PARAMETERS",
    "SPLITS",
    "Component",
    "Concentration",
    "Condition",
    "Data",
    "Deconfounding",
    "Dimensions",
    "Example",
    "Filtered",
    "Fold",
    "Mean",
    "Mixing",
    "PairedTest",
    "Point",
    "Score",
    "Summary",
    "Verdict",
    "concentration",
    "deconfound",
    "hoyer",
]
