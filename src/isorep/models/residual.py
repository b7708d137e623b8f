"""A small residual network that names the class of an image, with its penultimate layer as a representation."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .backend import nn
from .disentangling.base import as_unit
from .networks import Shape

_STAGES = (1, 2, 4)  # channels of each stage, in widths; each but the first halves the image
_CHANNELS_OF_A_GROUP = 8


class ResidualClassifier(nn.Module):
    r"""Three stages of residual blocks, the mean over all places, and one linear layer to the classes.

    A block is :math:`x\mapsto\mathrm{ReLU}(x+c_2(\mathrm{ReLU}(c_1(x))))`, each c a 3 x 3 convolution with a group norm
    after it, which unlike a batch norm gives an image the same code whatever else is in its batch.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the images.
    classes : int
    width : int
        Channels of the first stage; ``represent`` has four times as many numbers.
    blocks : int
        Residual blocks of a stage.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import ResidualClassifier
    >>> network = ResidualClassifier((3, 16, 16), classes=10, width=8)
    >>> images = torch.rand(5, 3, 16, 16)
    >>> network(images).shape, network.represent(images).shape
    (torch.Size([5, 10]), torch.Size([5, 32]))
    """

    def __init__(self, shape: Shape, classes: int, *, width: int = 16, blocks: int = 1) -> None:
        super().__init__()
        for name, value, least in (("classes", classes, 2), ("width", width, 1), ("blocks", blocks, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}: it must be a whole number of at least {least}")
        channels, height, low = shape
        smallest = 2 ** (len(_STAGES) - 1)
        if min(height, low) < smallest:
            raise InputError(f"images of {height} x {low} are too small: sides of at least {smallest} are needed")
        parts: list[Any] = [_convolution(channels, width, 1), nn.ReLU()]
        channels = width
        for place, stage in enumerate(_STAGES):
            for block in range(blocks):
                stride = 2 if place and not block else 1
                parts.append(_Residual(channels, stage * width, stride))
                channels = stage * width
        self.shape, self.classes = tuple(shape), classes
        self.stages = nn.Sequential(*parts)
        self.head = nn.Linear(channels, classes)

    def represent(self, images: Any) -> Any:
        """The penultimate layer, one row an image."""
        return self.stages(as_unit(images) - 0.5).mean((-2, -1))

    def forward(self, images: Any) -> Any:
        """Logits of the classes."""
        return self.head(self.represent(images))


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(inputs, outputs, stride), _convolution(outputs, outputs, 1)
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, values: Any) -> Any:
        inner = self.second(nn.functional.relu(self.first(values)))
        return nn.functional.relu(self.skip(values) + inner)


def _convolution(inputs: int, outputs: int, stride: int) -> Any:
    groups = outputs // _CHANNELS_OF_A_GROUP if outputs % _CHANNELS_OF_A_GROUP == 0 else 1
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.GroupNorm(max(groups, 1), outputs)
    )
