"""Reproductions of published experiments, each at three scales, compared with the published numbers."""

from __future__ import annotations

from .experiment import (
    EXPERIMENTS,
    Chart,
    Claim,
    Experiment,
    Line,
    Mark,
    Plan,
    Row,
    Run,
    Summary,
    Table,
    Unit,
    experiment_named,
)
from .runner import Reproduction, reproduce

__all__ = [
    "EXPERIMENTS",
    "Chart",
    "Claim",
    "Experiment",
    "Line",
    "Mark",
    "Plan",
    "Reproduction",
    "Row",
    "Run",
    "Summary",
    "Table",
    "Unit",
    "experiment_named",
    "reproduce",
]
