"""Similarity indices, each with its direction, its chance level and its p-value."""

from .canonical import cca, linear_r2, pwcca, svcca
from .kernels import cka
from .layers import BestLayer, LayerMatrix, layers
from .neighbours import mutual_knn
from .result import Similarity
from .shapes import mcc, procrustes_distance
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
