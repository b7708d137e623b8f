"""Comparing many runs of the same examples: all pairs, a consensus, and what recurs."""

from .consensus import Consensus
from .entry import compare_many
from .judgement import Clustering, Outlier
from .records import RungMatrix
from .recurrence import Components, Dimensions, Family, RunComponents
from .result import Ensemble

__all__ = [
    "Clustering",
    "Components",
    "Consensus",
    "Dimensions",
    "Ensemble",
    "Family",
    "Outlier",
    "RunComponents",
    "RungMatrix",
    "compare_many",
]
