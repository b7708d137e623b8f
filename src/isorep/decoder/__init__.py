"""The geometry of decoders: Jacobians, bi-Lipschitz constants, bounds and certificates."""

from __future__ import annotations

from .bilipschitz import bilipschitz
from .bound import Assumption, Bound, Bounds
from .convexity import Convexity, convexity
from .geometry import Constants, Directions, Geometry, Isometry, Latent, Sample
from .isometric_constant import isometric_constant
from .jacobian import jacobian
from .layers import layers
from .layers_result import LayerGeometry
from .load import load_decoder
from .mechanism import Mechanisms, mechanisms, mechanisms_of
from .model_stitching import stitch_models
from .model_stitching_result import ModelStitching, Outcome
from .near_isometry import bounds
from .pair import DecoderPair, pair
from .singular_values import Extremes, extreme_singular_values, singular_values
from .structural import structural
from .structural_result import Structural
from .theorems import (
    DynamicalIsometry,
    Theorem2,
    dynamical_isometry,
    ica_constant,
    structural_to_statistical,
    theorem2,
    theorem3,
    whitening_constant,
)

__all__ = [
    "Assumption",
    "Bound",
    "Bounds",
    "Constants",
    "Convexity",
    "DecoderPair",
    "Directions",
    "DynamicalIsometry",
    "Extremes",
    "Geometry",
    "Isometry",
    "Latent",
    "LayerGeometry",
    "Mechanisms",
    "ModelStitching",
    "Outcome",
    "Sample",
    "Structural",
    "Theorem2",
    "bilipschitz",
    "bounds",
    "convexity",
    "dynamical_isometry",
    "extreme_singular_values",
    "ica_constant",
    "isometric_constant",
    "jacobian",
    "layers",
    "load_decoder",
    "mechanisms",
    "mechanisms_of",
    "pair",
    "singular_values",
    "stitch_models",
    "structural",
    "structural_to_statistical",
    "theorem2",
    "theorem3",
    "whitening_constant",
]
