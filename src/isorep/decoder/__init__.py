"""The geometry of decoders: Jacobians, bi-Lipschitz constants, bounds and certificates."""

from .bilipschitz import bilipschitz
from .bound import Assumption, Bound, Bounds
from .bounds import bounds
from .constants import isometric_constant
from .convexity import Convexity, convexity
from .extremes import Extremes, extreme_singular_values
from .geometry import Constants, Directions, Geometry, Isometry, Latent, Sample
from .jacobians import jacobian
from .layers import layers
from .layers_result import LayerGeometry
from .lemmas import (
    DynamicalIsometry,
    Theorem2,
    dynamical_isometry,
    ica_constant,
    structural_to_statistical,
    theorem2,
    theorem3,
    whitening_constant,
)
from .loading import load_decoder
from .mechanism import Mechanisms, mechanisms, mechanisms_of
from .pair import pair
from .pair_result import DecoderPair
from .singular import singular_values

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
    "Sample",
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
    "structural_to_statistical",
    "theorem2",
    "theorem3",
    "whitening_constant",
]
