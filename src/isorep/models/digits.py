"""Autoencoder of handwritten digits on scikit-learn alone: two seeds of it make a pair to compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPRegressor

from ..representation import Array


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """A trained autoencoder; ``losses`` has one entry per epoch (half the mean squared error per pixel)."""

    network: MLPRegressor
    losses: tuple[float, ...]

    def encode(self, images: Array) -> Array:
        """The latents: the input of the bottleneck, before its tanh."""
        hidden = np.tanh(images @ self.network.coefs_[0] + self.network.intercepts_[0])
        return np.asarray(hidden @ self.network.coefs_[1] + self.network.intercepts_[1])


def load_digit_images() -> Array:
    """The 1,797 8 x 8 images that come with scikit-learn, flattened, in [0, 1]."""
    return np.asarray(load_digits().data / 16.0)


def train_autoencoder(
    images: Array,
    *,
    latents: int = 5,
    hidden: int = 64,
    epochs: int = 100,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Autoencoder:
    """Train pixels -> hidden -> latents -> hidden -> pixels with tanh units and Adam."""
    network = MLPRegressor(
        hidden_layer_sizes=(hidden, latents, hidden),
        activation="tanh",
        batch_size=64,
        learning_rate_init=3e-3,
        random_state=seed,
    )
    losses = []
    for epoch in range(epochs):
        network.partial_fit(images, images)
        losses.append(float(network.loss_))
        if progress:
            progress(epoch + 1, losses[-1])
    return Autoencoder(network, tuple(losses))
