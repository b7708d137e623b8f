"""BioAE: latents that are asked to be nonnegative and of low energy."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ..backend import torch
from ..networks import Shape
from .base import PlainAutoencoder, as_unit, cross_entropy


class BioAE(PlainAutoencoder):
    r"""An autoencoder with biological constraints: nonnegative activity and little of it.

    .. math:: \mathrm{BCE}+\lambda_+\,\overline{\max(-z,0)}+\lambda_a\,\overline{z^2}

    with means over images and latents; the energy of weights is the weight decay of the training.
    """

    def __init__(
        self,
        shape: Shape,
        latents: int,
        *,
        network: str = "dense",
        nonnegativity: float = 1.0,
        activity: float = 1e-2,
    ) -> None:
        super().__init__(shape, latents, network=network)
        if not (nonnegativity >= 0 and activity >= 0):
            raise InputError("the weights of nonnegativity and activity must be at least 0")
        self.nonnegativity, self.activity = float(nonnegativity), float(activity)

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and both constraints."""
        images = as_unit(batch)
        latents = self.encoder(images)
        reconstruction = cross_entropy(self.decoder(latents), images)
        negative, energy = torch.relu(-latents).mean(), (latents**2).mean()
        return {
            "loss": reconstruction + self.nonnegativity * negative + self.activity * energy,
            "reconstruction": reconstruction,
            "negative": negative,
            "energy": energy,
        }
