"""Models to compare, and the trainer they are made with.

The small autoencoder of digits needs the core alone; everything else needs torch and loads when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .digits import Autoencoder, load_digit_images, train_autoencoder

if TYPE_CHECKING:
    from ..extraction import Captured, Extraction, capture, extract, list_layers
    from .autoencoders import OrthogonalAutoencoder, reconstruction_loss
    from .classifiers import EmbeddingClassifier, ResidualClassifier, label_loss
    from .contrastive import ContrastivePair, contrastive_loss
    from .disentangling import QLAE, VQVAE, BetaTCVAE, BetaVAE, BioAE, PlainAutoencoder, benchmark_recipe
    from .gpt import GPT, next_token_loss
    from .history import History
    from .language import LogBilinear, noise_contrastive_loss, noise_words, softmax_loss
    from .masked import MaskedAutoencoder
    from .orthogonal import OrthogonalAdam
    from .recipe import EarlyStopping, Group, Recipe, Schedule
    from .slots import AdditiveDecoder, SlotAutoencoder, regroup_slots
    from .spliceai import SpliceAI, encode_dna, find_spliceai, load_spliceai
    from .tokens import BytePairs
    from .training import Trained, train, train_many

_HOMES = {
    "AdditiveDecoder": "slots",
    "BetaTCVAE": "disentangling",
    "BetaVAE": "disentangling",
    "BioAE": "disentangling",
    "BytePairs": "tokens",
    "ContrastivePair": "contrastive",
    "EarlyStopping": "recipe",
    "EmbeddingClassifier": "classifiers",
    "GPT": "gpt",
    "Group": "recipe",
    "Extraction": ".extraction",
    "History": "history",
    "LogBilinear": "language",
    "MaskedAutoencoder": "masked",
    "OrthogonalAdam": "orthogonal",
    "OrthogonalAutoencoder": "autoencoders",
    "PlainAutoencoder": "disentangling",
    "QLAE": "disentangling",
    "Recipe": "recipe",
    "ResidualClassifier": "classifiers",
    "Schedule": "recipe",
    "SlotAutoencoder": "slots",
    "SpliceAI": "spliceai",
    "Trained": "training",
    "VQVAE": "disentangling",
    "benchmark_recipe": "disentangling",
    "Captured": ".extraction",
    "capture": ".extraction",
    "extract": ".extraction",
    "encode_dna": "spliceai",
    "find_spliceai": "spliceai",
    "load_spliceai": "spliceai",
    "label_loss": "classifiers",
    "next_token_loss": "gpt",
    "noise_contrastive_loss": "language",
    "noise_words": "language",
    "contrastive_loss": "contrastive",
    "reconstruction_loss": "autoencoders",
    "regroup_slots": "slots",
    "softmax_loss": "language",
    "list_layers": ".extraction",
    "train": "training",
    "train_many": "training",
}

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
    if name not in _HOMES:
        raise AttributeError(f"module 'isorep.models' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
