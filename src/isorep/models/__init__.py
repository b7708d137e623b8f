"""Models to compare, and the trainer they are made with.

The small autoencoder of digits needs the core alone; everything else needs torch and loads when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .digits import Autoencoder, load_digit_images, train_autoencoder

if TYPE_CHECKING:
    from .autoencoders import OrthogonalAutoencoder, reconstruction_loss
    from .disentangling import QLAE, VQVAE, BetaTCVAE, BetaVAE, BioAE, PlainAutoencoder, benchmark_recipe
    from .history import History
    from .masked import MaskedAutoencoder
    from .orthogonal import OrthogonalAdam
    from .recipe import EarlyStopping, Group, Recipe, Schedule
    from .regrouping import regroup_slots
    from .slots import AdditiveDecoder, SlotAutoencoder
    from .training import Trained, train, train_many

_HOMES = {
    "AdditiveDecoder": "slots",
    "BetaTCVAE": "disentangling",
    "BetaVAE": "disentangling",
    "BioAE": "disentangling",
    "EarlyStopping": "recipe",
    "Group": "recipe",
    "History": "history",
    "MaskedAutoencoder": "masked",
    "OrthogonalAdam": "orthogonal",
    "OrthogonalAutoencoder": "autoencoders",
    "PlainAutoencoder": "disentangling",
    "QLAE": "disentangling",
    "Recipe": "recipe",
    "Schedule": "recipe",
    "SlotAutoencoder": "slots",
    "Trained": "training",
    "VQVAE": "disentangling",
    "benchmark_recipe": "disentangling",
    "reconstruction_loss": "autoencoders",
    "regroup_slots": "regrouping",
    "train": "training",
    "train_many": "training",
}

__all__ = [
    "QLAE",
    "VQVAE",
    "AdditiveDecoder",
    "Autoencoder",
    "BetaTCVAE",
    "BetaVAE",
    "BioAE",
    "EarlyStopping",
    "Group",
    "History",
    "MaskedAutoencoder",
    "OrthogonalAdam",
    "OrthogonalAutoencoder",
    "PlainAutoencoder",
    "Recipe",
    "Schedule",
    "SlotAutoencoder",
    "Trained",
    "benchmark_recipe",
    "load_digit_images",
    "reconstruction_loss",
    "regroup_slots",
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
