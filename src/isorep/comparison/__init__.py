"""Comparing runs: the ladder of groups, held out, with a null and a verdict, for two runs or many.

Many runs of the same examples: all pairs, a consensus, and recurring dimensions and components.
"""

from __future__ import annotations

from ..alignment.base import Error
from ..pairs import Side
from ..resampling import Interval, Null
from .compare import compare
from .consensus import Consensus
from .diameter import Diameter, diameter
from .fits import RUNGS
from .layers import LayerComparison, compare_layers
from .many import compare_many
from .many_errors import RungMatrix
from .many_result import Ensemble
from .many_verdict import Clustering, Outlier
from .recurrence import Components, Dimensions, Family, RunComponents
from .residuals import ica_efficiency
from .result import Comparison, Direction, Rung, Verdict, View
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
    "LayerComparison",
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
    "compare_layers",
    "compare_many",
    "diameter",
    "ica_efficiency",
    "worst_case",
]
