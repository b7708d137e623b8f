"""Models to compare, and the trainer they are made with.

The small autoencoder of digits needs the core only; everything else needs torch and loads on first use.
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
    from .gpt import GPT, MaskedAutoencoder, next_token_loss
    from .joint_embedding import (
        Encoder,
        IdentifiableVAE,
        autoencoder_loss,
        diet_loss,
        infonce_loss,
        ivae_loss,
        lejepa_loss,
        sigreg,
        vicreg_loss,
    )
    from .language import LogBilinear, noise_contrastive_loss, noise_words, softmax_loss
    from .loop import History
    from .orthogonal import OrthogonalAdam, OrthogonalAutoencoder, reconstruction_loss
    from .recipe import EarlyStopping, Group, Recipe, Schedule
    from .slots import AdditiveDecoder, SlotAutoencoder, regroup_slots
    from .sparse_autoencoders import SparseAutoencoder, train_sparse_autoencoders
    from .spliceai import SpliceAI, encode_dna, find_spliceai, load_spliceai
    from .training import Trained, train, train_many

_HOMES = (
    "..extraction .autoencoders .classifiers .corpus .disentangling .gpt .joint_embedding .language .loop "
    ".orthogonal .recipe .slots .sparse_autoencoders .spliceai .training"
)

__all__ = ["Autoencoder", "load_digit_images", "train_autoencoder"]
__all__ += ["Captured", "Extraction", "capture", "extract", "list_layers"]
__all__ += ["BioAE", "PlainAutoencoder"]
__all__ += ["ContrastivePair", "EmbeddingClassifier", "ResidualClassifier", "contrastive_loss", "label_loss"]
__all__ += ["BytePairs"]
__all__ += ["QLAE", "VQVAE", "BetaTCVAE", "BetaVAE", "benchmark_recipe"]
__all__ += ["GPT", "MaskedAutoencoder", "next_token_loss"]
__all__ += ["Encoder", "IdentifiableVAE", "autoencoder_loss", "diet_loss", "infonce_loss", "ivae_loss"]
__all__ += ["lejepa_loss", "sigreg", "vicreg_loss"]
__all__ += ["LogBilinear", "noise_contrastive_loss", "noise_words", "softmax_loss"]
__all__ += ["History"]
__all__ += ["OrthogonalAdam", "OrthogonalAutoencoder", "reconstruction_loss"]
__all__ += ["EarlyStopping", "Group", "Recipe", "Schedule"]
__all__ += ["AdditiveDecoder", "SlotAutoencoder", "regroup_slots"]
__all__ += ["SparseAutoencoder", "train_sparse_autoencoders"]
__all__ += ["SpliceAI", "encode_dna", "find_spliceai", "load_spliceai"]
__all__ += ["Trained", "train", "train_many"]


def __getattr__(name: str) -> Any:
    for home in _HOMES.split() if name in __all__ else ():
        module = import_module(home, __name__)
        if hasattr(module, name):
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(f"module 'isorep.models' has no attribute {name!r}")
