"""Similarity indices, each with its direction, its chance level and its p-value."""

from __future__ import annotations

from .cca import cca, linear_r2, pwcca, svcca
from .cka import cka
from .layers import BestLayer, LayerMatrix, layers
from .neighbours import mutual_knn
from .null import Similarity
from .procrustes import mcc, procrustes_distance
from .table import INDICES, Similarities, indices

__all__ = [
    "INDICES",
    "BestLayer",
    "LayerMatrix",
    "Similarities",
    "Similarity",
    "cca",
    "cka",
    "indices",
    "layers",
    "linear_r2",
    "mcc",
    "mutual_knn",
    "procrustes_distance",
    "pwcca",
    "svcca",
]
