"""Autoencoders with quantised latents: VQ-VAE with one codebook, and QLAE with a few values for each latent."""

from __future__ import annotations

import math
from typing import Any

from ..errors import InputError
from .networks import Shape
from .plain_autoencoder import PlainAutoencoder, as_unit, cross_entropy
from .torch_tools import nn, torch

CODE_WIDTH = 64


class VQVAE(PlainAutoencoder):
    r"""Each latent is the nearest of the codes of a common codebook; which one it is, is scored.

    .. math:: \mathrm{BCE}+\overline{(\mathrm{sg}(z)-e)^2}+\kappa\,\overline{(z-\mathrm{sg}(e))^2}

    Gradients of the reconstruction pass straight through the choice of the code.
    """

    outputs = inputs = CODE_WIDTH
    discrete = True
    has_axes = False

    def __init__(
        self, shape: Shape, latents: int, *, network: str = "dense", codes: int = 512, commitment: float = 0.25
    ) -> None:
        super().__init__(shape, latents, network=network)
        if codes < 2 or not commitment >= 0:
            raise InputError("a codebook has at least 2 codes, and the weight of the commitment is at least 0")
        self.commitment = float(commitment)
        most = math.sqrt(3 / CODE_WIDTH)  # of variance 1 / CODE_WIDTH: codes have about unit length
        self.codebook = nn.Parameter(torch.empty(codes, CODE_WIDTH).uniform_(-most, most))

    def encode(self, images: Any) -> Any:
        """The number of the nearest code, for each latent."""
        return nearest_code(self._tokens(as_unit(images)), self.codebook)

    def decode(self, latents: Any) -> Any:
        """Images for numbers of codes."""
        codes = latents.to(torch.int64)
        if codes.numel() and not (int(codes.min()) >= 0 and int(codes.max()) < len(self.codebook)):
            wrong = int(codes.min()) if int(codes.min()) < 0 else int(codes.max())
            raise InputError(f"a codebook of {len(self.codebook)} has no code {wrong}")
        return torch.sigmoid(self.decoder(self.codebook[codes].flatten(1)))

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and both distances between tokens and codes."""
        images = as_unit(batch)
        tokens = self._tokens(images)
        codes = self.codebook[nearest_code(tokens, self.codebook)]
        reconstruction = cross_entropy(self.decoder(straight_through(tokens, codes).flatten(1)), images)
        quantisation, commitment = distances(tokens, codes)
        return {
            "loss": reconstruction + quantisation + self.commitment * commitment,
            "reconstruction": reconstruction,
            "quantisation": quantisation.detach(),
        }

    def _tokens(self, images: Any) -> Any:
        return self.encoder(images).unflatten(-1, (self.latents, CODE_WIDTH))


class QLAE(PlainAutoencoder):
    r"""Each latent is a number, set to the nearest of a few values that are learnt for it alone.

    .. math:: \mathrm{BCE}+\lambda_q\,\overline{(\mathrm{sg}(z)-v)^2}+\lambda_c\,\overline{(z-\mathrm{sg}(v))^2}

    The values are scored. A strong weight decay is part of the method.
    """

    discrete = True

    def __init__(
        self,
        shape: Shape,
        latents: int,
        *,
        network: str = "dense",
        values: int = 10,
        quantisation: float = 0.01,
        commitment: float = 0.01,
    ) -> None:
        super().__init__(shape, latents, network=network)
        if values < 2 or not (quantisation >= 0 and commitment >= 0):
            raise InputError("a latent has at least 2 values, and weights of the loss are at least 0")
        self.quantisation, self.commitment = float(quantisation), float(commitment)
        self.codebook = nn.Parameter(torch.linspace(-0.5, 0.5, values).repeat(latents, 1))

    def encode(self, images: Any) -> Any:
        """The value of each latent."""
        return nearest_value(self.encoder(as_unit(images)), self.codebook)

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and the distance between numbers and values."""
        images = as_unit(batch)
        numbers = self.encoder(images)
        values = nearest_value(numbers, self.codebook)
        reconstruction = cross_entropy(self.decoder(straight_through(numbers, values)), images)
        quantisation, commitment = distances(numbers, values)
        return {
            "loss": reconstruction + self.quantisation * quantisation + self.commitment * commitment,
            "reconstruction": reconstruction,
            "quantisation": quantisation.detach(),
        }


def nearest_code(tokens: Any, codebook: Any) -> Any:
    """Which code is nearest to each token: tokens (..., width), codebook (codes, width)."""
    squares = (codebook**2).sum(-1) - 2 * tokens @ codebook.mT  # less the token's own square, the same for all codes
    return squares.detach().argmin(-1)


def nearest_value(numbers: Any, codebook: Any) -> Any:
    """The nearest value of its own for each number: numbers (rows, latents), codebook (latents, values)."""
    places = (numbers[..., None] - codebook).detach().abs().argmin(-1, keepdim=True)
    return torch.gather(codebook.expand(*numbers.shape, -1), -1, places)[..., 0]


def straight_through(given: Any, quantised: Any) -> Any:
    """Quantised on the way forward, given as far as gradients are concerned."""
    return given + (quantised - given).detach()


def distances(given: Any, quantised: Any) -> tuple[Any, Any]:
    """Mean squared distances that move the quantised side alone, and the given side alone."""
    return ((given.detach() - quantised) ** 2).mean(), ((given - quantised.detach()) ** 2).mean()
