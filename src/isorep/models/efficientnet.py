"""EfficientNet-Lite (Tan and Le 2019, without squeeze and excitation and with ReLU6), built from its released weights.

The shapes of the weights give all widths and kernels; strides are those of the seven stages. Paddings are TensorFlow's
("same"): where an image cannot be padded evenly, the right and the lower edge get one more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .evaluation import first_line, nn, torch

IMAGENET = 1000  # classes
CIFAR10 = (
    (404, 895),  # airplane: airliner, warplane
    (436, 468, 511, 609, 627, 656, 661, 705, 751, 817),  # automobile
    (*range(7, 25), *range(80, 101), *range(127, 147)),  # bird
    tuple(range(281, 286)),  # cat
    (351, 352, 353),  # deer, of which ImageNet has none: antelopes
    tuple(range(151, 269)),  # dog
    (30, 31, 32),  # frog
    (339, 340),  # horse: sorrel, zebra
    (403, 484, 510, 554, 625, 628, 724, 780, 814, 833, 871, 914),  # ship
    (555, 569, 675, 717, 734, 864, 867),  # truck
)
"""Places of ImageNet's classes that are of a kind with each class of CIFAR-10."""

STRIDES = (1, 2, 2, 2, 1, 2, 1)
MEAN, SPREAD = 127 / 255, 128 / 255
_EPSILON = 1e-3


class EfficientNetLite(nn.Module):
    """Class scores of images (n, 3, height, width) in [0, 1]; ``represent`` gives what the classifier reads.

    Parameters
    ----------
    shapes : mapping of str to tuple
        Shapes of the weights by their released names, such as ``_blocks.3._depthwise_conv.weight``.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _convolution(shapes["_conv_stem.weight"], 2), _norm(shapes["_bn0.weight"])
        blocks, stage, width = [], -1, -1
        for place in range(sum(name.endswith("._depthwise_conv.weight") for name in shapes)):
            before = f"_blocks.{place}."
            inside = {name.removeprefix(before): shape for name, shape in shapes.items() if name.startswith(before)}
            first = inside["_project_conv.weight"][0] != width
            width = inside["_project_conv.weight"][0]
            stage += first
            if stage >= len(STRIDES):
                raise InputError(f"the weights have more than the {len(STRIDES)} stages of an EfficientNet")
            blocks.append(_Block(inside, STRIDES[stage] if first else 1))
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = _convolution(shapes["_conv_head.weight"], 1), _norm(shapes["_bn1.weight"])
        self._fc = nn.Linear(shapes["_fc.weight"][1], shapes["_fc.weight"][0])

    def forward(self, images: Any) -> Any:
        """Scores of the classes."""
        return self._fc(self.represent(images))

    def represent(self, images: Any) -> Any:
        """The penultimate layer: the mean over positions."""
        state = _relu6(self._bn0(self._conv_stem((images - MEAN) / SPREAD)))
        for block in self._blocks:
            state = block(state)
        return _relu6(self._bn1(self._conv_head(state))).mean((2, 3))


class _Block(nn.Module):
    """Inverted bottleneck: expand, depthwise, project; added to what came in where the shape allows it."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], stride: int) -> None:
        super().__init__()
        self.wide = "_expand_conv.weight" in shapes
        if self.wide:
            self._expand_conv = _convolution(shapes["_expand_conv.weight"], 1)
            self._bn0 = _norm(shapes["_bn0.weight"])
        self._depthwise_conv = _convolution(shapes["_depthwise_conv.weight"], stride, depthwise=True)
        self._bn1 = _norm(shapes["_bn1.weight"])
        self._project_conv, self._bn2 = _convolution(shapes["_project_conv.weight"], 1), _norm(shapes["_bn2.weight"])
        self.stride = stride

    def forward(self, state: Any) -> Any:
        inner = _relu6(self._bn0(self._expand_conv(state))) if self.wide else state
        inner = _relu6(self._bn1(self._depthwise_conv(inner)))
        inner = self._bn2(self._project_conv(inner))
        return state + inner if self.stride == 1 and inner.shape[1] == state.shape[1] else inner


class _Same(nn.Conv2d):
    """A convolution whose output has as many positions as the input, divided by the stride."""

    def forward(self, input: Any) -> Any:
        sides = []
        for size, kernel, stride in zip(
            reversed(input.shape[2:]), reversed(self.kernel_size), reversed(self.stride), strict=True
        ):
            lacking = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            sides += [lacking // 2, lacking - lacking // 2]
        return super().forward(torch.nn.functional.pad(input, sides))


def load_efficientnet(path: Path, *, seed: int | None = None) -> EfficientNetLite:
    """The network of a released file, for evaluation; with a seed, the same network with random weights."""
    weights = read_weights(path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0 if seed is None else seed)
        try:
            network = EfficientNetLite({name: tuple(value.shape) for name, value in weights.items()})
            if seed is None:
                network.load_state_dict(weights)
        except (KeyError, RuntimeError, TypeError) as error:
            raise InputError(f"{path} holds no EfficientNet-Lite: {first_line(error)}") from None
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # depthwise convolutions: twice as fast
    return network.eval()


def recognised(scores: Array, classes: Array) -> float:
    """The share of images of CIFAR-10 whose class holds the best of ImageNet's scores among ten sets of classes.

    Guessing gives about a tenth: it shows that weights, names and images are read rightly.
    """
    best = np.stack([scores[:, list(places)].max(1) for places in CIFAR10], axis=1)
    return float((best.argmax(1) == classes).mean())


def read_weights(path: Path) -> dict[str, Any]:
    """The tensors of a torch file of either format, read by ``weights_only``; anything else in it is refused."""
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a file makes the library raise
        raise InputError(f"{path} cannot be read by weights_only: {first_line(error)}") from None
    if not isinstance(held, dict) or not all(isinstance(value, torch.Tensor) for value in held.values()):
        raise InputError(f"{path} holds more than a flat dict of tensors")
    return dict(held)


def _convolution(shape: tuple[int, ...], stride: int, *, depthwise: bool = False) -> Any:
    given = shape[0] if depthwise else shape[1]
    return _Same(given, shape[0], shape[2], stride, groups=given if depthwise else 1, bias=False)


def _norm(shape: tuple[int, ...]) -> Any:
    return nn.BatchNorm2d(shape[0], eps=_EPSILON)


def _relu6(state: Any) -> Any:
    return torch.nn.functional.relu6(state)
