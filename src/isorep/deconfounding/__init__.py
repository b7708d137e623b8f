"""Deconfounding: do the axes of an embedding that tell biology survive a new batch?"""

from ..results import Verdict
from .classifiers import CLASSIFIERS, PARAMETERS, concentration, hoyer
from .components import Component, Example
from .evaluation import deconfound
from .mixing import Mixing
from .result import (
    Concentration,
    Condition,
    Data,
    Deconfounding,
    Filtered,
    Fold,
    Mean,
    PairedTest,
    Score,
    Summary,
)
from .splits import SPLITS
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
    "Example",
    "Filtered",
    "Fold",
    "Mean",
    "Mixing",
    "PairedTest",
    "Score",
    "Summary",
    "Verdict",
    "concentration",
    "deconfound",
    "hoyer",
]
