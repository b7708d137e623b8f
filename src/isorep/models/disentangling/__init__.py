"""The models of the disentanglement benchmark, their losses and how they are trained."""

from .base import PlainAutoencoder
from .biological import BioAE
from .methods import METHODS, Method, benchmark_recipe, method_named
from .quantised import QLAE, VQVAE
from .variational import BetaTCVAE, BetaVAE

__all__ = [
    "METHODS",
    "QLAE",
    "VQVAE",
    "BetaTCVAE",
    "BetaVAE",
    "BioAE",
    "Method",
    "PlainAutoencoder",
    "benchmark_recipe",
    "method_named",
]
