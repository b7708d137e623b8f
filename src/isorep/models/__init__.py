"""Models to compare, and the trainer they are made with.

The small autoencoder of digits needs the core alone; everything else needs torch and loads when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .digits import Autoencoder, load_digit_images, train_autoencoder

if TYPE_CHECKING:
    from ..extraction import Captured, Extraction, capture, extract, list_layers
    from .autoencoders import BioAE, PlainAutoencoder
    from .classifiers import ContrastivePair, EmbeddingClassifier, ResidualClassifier, contrastive_loss, label_loss
    from .corpus import BytePairs
    from .disentangling import QLAE, VQVAE, BetaTCVAE, BetaVAE, benchmark_recipe
    from .gpt import GPT, next_token_loss
    from .language import LogBilinear, noise_contrastive_loss, noise_words, softmax_loss
    from .loop import History
    from .masked import MaskedAutoencoder
    from .orthogonal import OrthogonalAdam, OrthogonalAutoencoder, reconstruction_loss
    from .recipe import EarlyStopping, Group, Recipe, Schedule
    from .slots import AdditiveDecoder, SlotAutoencoder, regroup_slots
    from .spliceai import SpliceAI, encode_dna, find_spliceai, load_spliceai
    from .training import Trained, train, train_many

_HOMES = (
    "..extraction .autoencoders .classifiers .corpus .disentangling .gpt .language .loop .masked "
    ".orthogonal .recipe .slots .spliceai .training"
)

__all__ = [
    "GPT",
    "QLAE",
    "VQVAE",
    "AdditiveDecoder",
    "Autoencoder",
    "BetaTCVAE",
    "BetaVAE",
    "BioAE",
    "BytePairs",
    "Captured",
    "ContrastivePair",
    "EarlyStopping",
    "EmbeddingClassifier",
    "Extraction",
    "Group",
    "History",
    "LogBilinear",
    "MaskedAutoencoder",
    "OrthogonalAdam",
    "OrthogonalAutoencoder",
    "PlainAutoencoder",
    "Recipe",
    "ResidualClassifier",
    "Schedule",
    "SlotAutoencoder",
    "SpliceAI",
    "Trained",
    "benchmark_recipe",
    "capture",
    "contrastive_loss",
    "encode_dna",
    "extract",
    "find_spliceai",
    "label_loss",
    "list_layers",
    "load_digit_images",
    "load_spliceai",
    "next_token_loss",
    "noise_contrastive_loss",
    "noise_words",
    "reconstruction_loss",
    "regroup_slots",
    "softmax_loss",
    "train",
    "train_autoencoder",
    "train_many",
]


def __getattr__(name: str) -> Any:
    for home in _HOMES.split() if name in __all__ else ():
        module = import_module(home, __name__)
        if hasattr(module, name):
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(f"module 'isorep.models' has no attribute {name!r}")
