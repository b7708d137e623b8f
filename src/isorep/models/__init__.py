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
    from .disentangling import benchmark_recipe
    from .gpt import GPT, next_token_loss
    from .history import History
    from .language import LogBilinear, noise_contrastive_loss, noise_words, softmax_loss
    from .masked import MaskedAutoencoder
    from .orthogonal import OrthogonalAdam
    from .plain_autoencoder import BioAE, PlainAutoencoder
    from .quantised import QLAE, VQVAE
    from .recipe import EarlyStopping, Group, Recipe, Schedule
    from .slots import AdditiveDecoder, SlotAutoencoder, regroup_slots
    from .spliceai import SpliceAI, encode_dna, find_spliceai, load_spliceai
    from .tokens import BytePairs
    from .training import Trained, train, train_many
    from .vae import BetaTCVAE, BetaVAE

_HOMES = {
    ".extraction": ("Captured", "Extraction", "capture", "extract", "list_layers"),
    "autoencoders": ("OrthogonalAutoencoder", "reconstruction_loss"),
    "classifiers": ("EmbeddingClassifier", "ResidualClassifier", "label_loss"),
    "contrastive": ("ContrastivePair", "contrastive_loss"),
    "disentangling": ("benchmark_recipe",),
    "gpt": ("GPT", "next_token_loss"),
    "history": ("History",),
    "language": ("LogBilinear", "noise_contrastive_loss", "noise_words", "softmax_loss"),
    "masked": ("MaskedAutoencoder",),
    "orthogonal": ("OrthogonalAdam",),
    "plain_autoencoder": ("BioAE", "PlainAutoencoder"),
    "quantised": ("QLAE", "VQVAE"),
    "recipe": ("EarlyStopping", "Group", "Recipe", "Schedule"),
    "slots": ("AdditiveDecoder", "SlotAutoencoder", "regroup_slots"),
    "spliceai": ("SpliceAI", "encode_dna", "find_spliceai", "load_spliceai"),
    "tokens": ("BytePairs",),
    "training": ("Trained", "train", "train_many"),
    "vae": ("BetaTCVAE", "BetaVAE"),
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
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'isorep.models' has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
