"""Autoencoders of images: published convolutions with a style decoder, small spatial and dense ones, and their loss.

BioAE: latents that are penalised to be nonnegative and of low energy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from ..errors import InputError
from ..settings import check_choice, check_counts
from .evaluation import nn, torch

Shape = tuple[int, int, int]
"""Channels, height and width."""

Prepare = Callable[[Any, Any], Any]

KINDS = ("published", "light", "spatial", "dense")
SHRINKS = 16  # factor by which the published convolutions shrink an image, in each direction
_KERNELS, _STRIDES = (3, 3, 4), (1, 1, 2)
_STAGES = (1, 2, 4, 8)  # channels of each stage, in widths
_LIGHT = 8
_SPATIAL = 32  # channels of the spatial network
_DARKEST = 0.02  # of the mean image, whose logits the spatial decoder starts from
_DENSE = (256, 256)


class PlainAutoencoder(nn.Module):
    r"""Plain autoencoder, whose loss is the mean sigmoid cross-entropy of pixels.

    Its weight decay, which is a setting of the training, is what keeps its decoder well conditioned. Other models of
    the benchmark are subclasses that add to the loss or change what lies between encoder and decoder.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the images.
    latents : int
        Number of latents that are scored; the benchmark uses twice the number of factors.
    network : {"dense", "spatial", "light", "published"}
        As in :func:`isorep.models.autoencoders.make_networks`.

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
    """Whether the scored latents take few values."""
    has_axes: ClassVar[bool] = True
    """Whether latents are numbers that can be mixed, as ICA does; codes of a codebook cannot."""

    def __init__(self, shape: Shape, latents: int, *, network: str = "dense") -> None:
        super().__init__()
        check_counts(latents=(latents, 1))
        self.shape, self.latents = tuple(shape), int(latents)
        self.encoder, self.decoder = make_networks(
            network, shape, outputs=self.outputs * latents, latents=self.inputs * latents
        )

    def encode(self, images: Any) -> Any:
        """The latents that are scored, one row per image."""
        return self.encoder(as_unit(images))

    def decode(self, latents: Any) -> Any:
        """Images in [0, 1] for latents as ``encode`` gives them."""
        return torch.sigmoid(self.decoder(latents))

    def losses(self, batch: Any) -> dict[str, Any]:
        """The loss of a batch and its parts; the trainer's ``loss`` is this function of the class."""
        images = as_unit(batch)
        return {"loss": cross_entropy(self.decoder(self.encoder(images)), images)}

    def start_from(self, mean: Any, spread: float) -> None:
        """Let a spatial network start from the mean image and the spread of pixels about it, both in [0, 1]."""
        if isinstance(self.encoder, SpatialEncoder):
            image = torch.as_tensor(mean, dtype=torch.get_default_dtype())
            self.encoder.mean.copy_(image)
            self.encoder.spread.fill_(spread)
            with torch.no_grad():
                self.decoder.bias.copy_(torch.logit(image.clamp(_DARKEST, 1 - _DARKEST)))

    @classmethod
    def prepare(cls, latents: int) -> Prepare | None:
        """The trainer's random draws for a batch of a model with ``latents`` latents; None where nothing is random."""
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


def make_networks(kind: str, shape: Shape, *, outputs: int, latents: int) -> tuple[Any, Any]:
    """An encoder from images to ``outputs`` numbers, and a decoder from ``latents`` numbers to logits of pixels.

    Parameters
    ----------
    kind : {"published", "light", "spatial", "dense"}
        Twelve blocks of convolutions with 32 to 256 channels and a style decoder; the same with a quarter of the
        channels; four convolutions with a spatial softmax and a broadcast decoder, which find objects within minutes on
        a laptop; or fully connected layers with two hidden ones of 256, for small images.
    shape : tuple of int
        Channels, height and width.
    outputs, latents : int
        Numbers that the encoder gives, and that the decoder takes.
    """
    if len(shape) != 3 or min(shape) < 1:
        raise InputError(f"images have channels, height and width, not the shape {tuple(shape)}")
    check_choice("network", kind, KINDS)
    if kind == "dense":
        return DenseEncoder(shape, outputs), DenseDecoder(latents, shape)
    if kind == "spatial":
        return SpatialEncoder(shape, outputs), SpatialDecoder(latents, shape)
    width = 32 if kind == "published" else _LIGHT
    return ConvEncoder(shape, outputs, width), StyleDecoder(latents, shape, width)


class ConvEncoder(nn.Module):
    """Twelve blocks (convolution, affine instance norm, LeakyReLU 0.2), then two hidden layers and a linear head."""

    def __init__(self, shape: Shape, outputs: int, width: int = 32) -> None:
        super().__init__()
        channels, height, low = _start_of(shape)
        blocks: list[Any] = []
        for stage in _STAGES:
            for kernel, stride in zip(_KERNELS, _STRIDES, strict=True):
                blocks += [
                    nn.Conv2d(channels, stage * width, kernel, stride, padding=1, bias=False),
                    nn.InstanceNorm2d(stage * width, eps=1e-6, affine=True),
                    nn.LeakyReLU(0.2),
                ]
                channels = stage * width
        self.blocks = nn.Sequential(*blocks)
        self.head = dense((channels * height * low, 8 * width, 8 * width, outputs))

    def forward(self, images: Any) -> Any:
        """Images to numbers."""
        return self.head(self.blocks(images).flatten(1))


class StyleDecoder(nn.Module):
    """A learnt constant that twelve blocks enlarge; the latents scale and shift every channel of a block.

    A block is a transposed convolution, LeakyReLU 0.2, an instance norm and x * scale(w) + shift(w), where w are two
    hidden layers of the latents, and scale and shift are rectified linear functions of w.
    """

    def __init__(self, latents: int, shape: Shape, width: int = 32) -> None:
        super().__init__()
        _, height, low = _start_of(shape)
        channels = _STAGES[-1] * width
        self.mapping = nn.Sequential(dense((latents, 8 * width, 8 * width)), nn.ReLU())
        self.constant = nn.Parameter(torch.full((channels, height, low), 0.1))
        blocks = []
        for stage in reversed(_STAGES):
            for kernel, stride in zip(_KERNELS, _STRIDES, strict=True):
                blocks.append(_StyleBlock(channels, stage * width, kernel, stride, 8 * width))
                channels = stage * width
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.Conv2d(channels, shape[0], 3, padding=1, bias=False)

    def forward(self, latents: Any) -> Any:
        """Latents to logits of pixels."""
        style = self.mapping(latents)
        drawn = self.constant.expand(len(latents), *self.constant.shape)
        for block in self.blocks:
            drawn = block(drawn, style)
        return self.last(drawn)


class SpatialEncoder(nn.Module):
    """Convolutions of mean-centred images, then the position and value of each channel (spatial softmax).

    Half of the last channels are maps of attention: the mean place under their softmax (Finn et al. 2016, spatial
    softmax), and what the other half shows there and on average, go through a hidden layer.
    """

    mean: Any
    spread: Any

    def __init__(self, shape: Shape, outputs: int, width: int = _SPATIAL) -> None:
        super().__init__()
        channels, height, low = shape
        if height % 4 or low % 4 or min(height, low) < 16:
            sides = f"images whose sides are multiples of 4 from 16 on, not {height} x {low}"
            raise InputError(f"the spatial network needs {sides}: resize them, or take the dense network")
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("spread", torch.ones(1))
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels + 2, width // 2, 4, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width // 2, width, 4, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 1),
        )
        self.head = dense((4 * width, 4 * width, outputs))

    def forward(self, images: Any) -> Any:
        """Images to numbers."""
        shown = self.convolutions(_with_places((images - self.mean) / self.spread))
        where, what = (each.flatten(2) for each in shown.chunk(2, dim=1))
        attention = torch.softmax(where, dim=-1)
        places = _places(shown).flatten(1)
        seen = [attention @ places[0], attention @ places[1], (attention * what).sum(-1), what.mean(-1)]
        return self.head(torch.cat(seen, dim=1))


class SpatialDecoder(nn.Module):
    """Latents concatenated with the coordinates of every place, and enlarging convolutions (Watters et al. 2019)."""

    def __init__(self, latents: int, shape: Shape, width: int = _SPATIAL) -> None:
        super().__init__()
        self.sides = shape[1] // 4, shape[2] // 4
        self.convolutions = nn.Sequential(
            nn.Conv2d(latents + 2, 2 * width, 1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 1),
            nn.ReLU(),
            nn.Conv2d(2 * width, width, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, width // 2, 4, 2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(width // 2, shape[0], 4, 2, padding=1),
        )
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, latents: Any) -> Any:
        """Latents to logits of pixels."""
        return self.convolutions(_with_places(latents[..., None, None].expand(*latents.shape, *self.sides))) + self.bias


def _places(images: Any) -> Any:
    """Two images of the coordinates of pixels, from -1 to 1."""
    down, across = (torch.linspace(-1, 1, side, dtype=images.dtype, device=images.device) for side in images.shape[-2:])
    return torch.stack(torch.meshgrid(down, across, indexing="ij"))


def _with_places(images: Any) -> Any:
    places = _places(images)
    return torch.cat([images, places.expand(*images.shape[:-3], *places.shape)], dim=-3)


class DenseEncoder(nn.Module):
    """Fully connected layers with ReLU between them."""

    def __init__(self, shape: Shape, outputs: int, hidden: Sequence[int] = _DENSE) -> None:
        super().__init__()
        self.layers = dense((shape[0] * shape[1] * shape[2], *hidden, outputs))

    def forward(self, images: Any) -> Any:
        """Images to numbers."""
        return self.layers(images.flatten(1))


class DenseDecoder(nn.Module):
    """Fully connected layers with ReLU between them, to the logits of an image."""

    def __init__(self, latents: int, shape: Shape, hidden: Sequence[int] = _DENSE) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.layers = dense((latents, *reversed(hidden), shape[0] * shape[1] * shape[2]))

    def forward(self, latents: Any) -> Any:
        """Latents to logits of pixels."""
        return self.layers(latents).reshape(-1, *self.shape)


def dense(widths: Sequence[int]) -> Any:
    """Linear layers with ReLU between them."""
    layers: list[Any] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class _StyleBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, style: int) -> None:
        super().__init__()
        self.convolution = nn.ConvTranspose2d(inputs, outputs, kernel, stride, padding=1, bias=False)
        self.norm = nn.InstanceNorm2d(outputs, eps=1e-6)
        self.style = nn.Linear(style, 2 * outputs)

    def forward(self, drawn: Any, style: Any) -> Any:
        drawn = self.norm(nn.functional.leaky_relu(self.convolution(drawn), 0.2))
        scale, shift = torch.relu(self.style(style))[..., None, None].chunk(2, dim=1)
        return drawn * scale + shift


def _start_of(shape: Shape) -> tuple[int, int, int]:
    """Channels, height and width after the convolutions."""
    channels, height, width = shape
    if height % SHRINKS or width % SHRINKS or min(height, width) < 2 * SHRINKS:
        sides = f"images whose sides are multiples of {SHRINKS} from {2 * SHRINKS} on, not {height} x {width}"
        raise InputError(f"the published convolutions need {sides}: resize them, or take the dense network")
    return channels, height // SHRINKS, width // SHRINKS
