"""Mechanistic independence: factors distinguished by how they act on the outputs, not by their distribution.

The losses live in :mod:`isorep.decoder.mechanism.losses`, which needs torch.
"""

from __future__ import annotations

from .mechanisms import mechanisms, mechanisms_of
from .near import Leakage, NearFactors, Split
from .result import (
    Check,
    Criterion,
    Evidence,
    FactorLevel,
    Factors,
    Implication,
    Irreducibility,
    Level,
    Mechanisms,
    SparsityCondition,
    Theorem,
)

__all__ = [
    "Check",
    "Criterion",
    "Evidence",
    "FactorLevel",
    "Factors",
    "Implication",
    "Irreducibility",
    "Leakage",
    "Level",
    "Mechanisms",
    "NearFactors",
    "SparsityCondition",
    "Split",
    "Theorem",
    "mechanisms",
    "mechanisms_of",
]
