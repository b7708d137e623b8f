"""Mechanistic independence: factors told apart by how they act on the outputs, whatever their distribution.

The losses live in :mod:`isorep.decoder.mechanism.losses`, which needs torch.
"""

from __future__ import annotations

from .criterion import Criterion, Evidence, Irreducibility, Level
from .mechanisms import mechanisms, mechanisms_of
from .result import Check, FactorLevel, Factors, Implication, Mechanisms, SparsityCondition, Theorem

__all__ = [
    "Check",
    "Criterion",
    "Evidence",
    "FactorLevel",
    "Factors",
    "Implication",
    "Irreducibility",
    "Level",
    "Mechanisms",
    "SparsityCondition",
    "Theorem",
    "mechanisms",
    "mechanisms_of",
]
