"""Models to compare: for now a small autoencoder that needs the core alone."""

from .digits import Autoencoder, load_digit_images, train_autoencoder

__all__ = ["Autoencoder", "load_digit_images", "train_autoencoder"]
