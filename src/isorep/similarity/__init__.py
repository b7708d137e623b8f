"""Similarity indices, each with its direction, its chance level and its p-value."""

from __future__ import annotations

from .cca import cca, linear_r2, pwcca, svcca
from .cka import cka
from .layers import BestLayer, LayerMatrix, layers
from .matching import one_to_one, soft_matching
from .neighbours import mutual_knn
from .null import Similarity
from .procrustes import bures_distance, mcc, procrustes_distance
from .rsa import NoiseCeiling, noise_ceiling, rsa
from .table import INDICES, Similarities, indices

__all__ = [
    "INDICES",
    "BestLayer",
    "LayerMatrix",
    "NoiseCeiling",
    "Similarities",
    "Similarity",
    "bures_distance",
    "cca",
    "cka",
    "indices",
    "layers",
    "linear_r2",
    "mcc",
    "mutual_knn",
    "noise_ceiling",
    "one_to_one",
    "procrustes_distance",
    "pwcca",
    "rsa",
    "soft_matching",
    "svcca",
]
