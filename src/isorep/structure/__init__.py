"""Scores of latents against known factors: are the features the true factors?"""

from __future__ import annotations

from ..resampling import Null
from ..results import Verdict
from .columns import Column, Columns
from .dci import DCI, IMPORTANCES, dci
from .explicitness import Explicitness, explicitness
from .families import FAMILIES, OUTPUTS
from .infomec import THRESHOLDS, InfoMEC, infomec
from .mcc import MCC, mcc
from .mig import MIG, Modularity, mig, modularity
from .r2 import R2, kernel_r2, ladder, linear_r2
from .result import FactorReading, FactorScores, Information, LatentReading, Score
from .sap import SAP, sap
from .scores import score_factors
from .slots import SlotIdentifiability, slot_identifiability
from .stress import PERTURBATIONS, Perturbation, Stress, perturb, stress

__all__ = [
    "DCI",
    "FAMILIES",
    "IMPORTANCES",
    "MCC",
    "MIG",
    "OUTPUTS",
    "PERTURBATIONS",
    "R2",
    "SAP",
    "THRESHOLDS",
    "Column",
    "Columns",
    "Explicitness",
    "FactorReading",
    "FactorScores",
    "InfoMEC",
    "Information",
    "LatentReading",
    "Modularity",
    "Null",
    "Perturbation",
    "Score",
    "SlotIdentifiability",
    "Stress",
    "Verdict",
    "dci",
    "explicitness",
    "infomec",
    "kernel_r2",
    "ladder",
    "linear_r2",
    "mcc",
    "mig",
    "modularity",
    "perturb",
    "sap",
    "score_factors",
    "slot_identifiability",
    "stress",
]
