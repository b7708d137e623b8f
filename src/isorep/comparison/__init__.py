"""Comparing runs: the ladder of groups, held out, with a null and a verdict, for two runs or many."""

from ..resampling import Interval, Null
from .diameters import Diameter, diameter
from .ladder import compare
from .many import (
    Clustering,
    Components,
    Consensus,
    Dimensions,
    Ensemble,
    Family,
    Outlier,
    RunComponents,
    RungMatrix,
    compare_many,
)
from .result import Comparison, Direction, Error, Rung, Side, Verdict, View
from .rungs import RUNGS
from .statistics import ica_efficiency
from .worst_case import WorstCase, worst_case

__all__ = [
    "RUNGS",
    "Clustering",
    "Comparison",
    "Components",
    "Consensus",
    "Diameter",
    "Dimensions",
    "Direction",
    "Ensemble",
    "Error",
    "Family",
    "Interval",
    "Null",
    "Outlier",
    "RunComponents",
    "Rung",
    "RungMatrix",
    "Side",
    "Verdict",
    "View",
    "WorstCase",
    "compare",
    "compare_many",
    "diameter",
    "ica_efficiency",
    "worst_case",
]
