"""What all models of the benchmark share: an encoder, a decoder, and the loss of a reconstruction.

BioAE: latents that are asked to be nonnegative and of low energy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..errors import InputError
from .networks import Shape, make_networks
from .torch_tools import nn, torch

Prepare = Callable[[Any, Any], Any]


class PlainAutoencoder(nn.Module):
    r"""An autoencoder without anything else: the mean sigmoid cross-entropy of pixels is its loss.

    Its weight decay, which is a setting of the training, is what keeps its decoder well conditioned. Other models of
    the benchmark are subclasses that add to the loss or change what lies between encoder and decoder.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the images.
    latents : int
        How many latents are scored; the benchmark takes twice the number of factors.
    network : {"dense", "light", "published"}
        As in :func:`isorep.models.networks.make_networks`.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import PlainAutoencoder
    >>> model = PlainAutoencoder((3, 8, 8), latents=4)
    >>> images = torch.rand(5, 3, 8, 8)
    >>> model.encode(images).shape, model.decode(model.encode(images)).shape
    (torch.Size([5, 4]), torch.Size([5, 3, 8, 8]))
    """

    outputs: ClassVar[int] = 1
    """Numbers of the encoder for each latent."""
    inputs: ClassVar[int] = 1
    """Numbers of the decoder for each latent."""
    discrete: ClassVar[bool] = False
    """Whether what is scored takes few values."""
    has_axes: ClassVar[bool] = True
    """Whether latents are numbers that can be mixed, as ICA does; codes of a codebook cannot."""

    def __init__(self, shape: Shape, latents: int, *, network: str = "dense") -> None:
        super().__init__()
        if latents < 1:
            raise InputError(f"there are {latents} latents: at least 1 is needed")
        self.shape, self.latents = tuple(shape), int(latents)
        self.encoder, self.decoder = make_networks(
            network, shape, outputs=self.outputs * latents, latents=self.inputs * latents
        )

    def encode(self, images: Any) -> Any:
        """What is scored, one row an image."""
        return self.encoder(as_unit(images))

    def decode(self, latents: Any) -> Any:
        """Images in [0, 1] for latents as ``encode`` gives them."""
        return torch.sigmoid(self.decoder(latents))

    def losses(self, batch: Any) -> dict[str, Any]:
        """The loss of a batch and its parts; the trainer's ``loss`` is this function of the class."""
        images = as_unit(batch)
        return {"loss": cross_entropy(self.decoder(self.encoder(images)), images)}

    @classmethod
    def prepare(cls, latents: int) -> Prepare | None:
        """What the trainer draws for a batch of a model with so many latents; None where nothing is random."""
        return None

    @property
    def pixels(self) -> int:
        """Numbers of an image, the paper's D."""
        channels, height, width = self.shape
        return int(channels * height * width)


def cross_entropy(logits: Any, images: Any) -> Any:
    """Sigmoid cross-entropy of pixels in [0, 1], mean over pixels and images."""
    return nn.functional.binary_cross_entropy_with_logits(logits, images)


def as_unit(images: Any) -> Any:
    """Pixels as floating-point numbers in [0, 1]; whole numbers are bytes."""
    return images if images.is_floating_point() else images.to(torch.get_default_dtype()) / 255


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
