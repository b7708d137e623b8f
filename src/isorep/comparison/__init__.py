"""Comparing two runs: the ladder of groups, held out, with intervals, a null and a verdict."""

from .diameters import Diameter, diameter
from .ladder import compare
from .result import Comparison, Direction, Error, Interval, Null, Rung, Side, Verdict
from .rungs import RUNGS
from .statistics import ica_efficiency
from .worst_case import WorstCase, worst_case

__all__ = [
    "RUNGS",
    "Comparison",
    "Diameter",
    "Direction",
    "Error",
    "Interval",
    "Null",
    "Rung",
    "Side",
    "Verdict",
    "WorstCase",
    "compare",
    "diameter",
    "ica_efficiency",
    "worst_case",
]
