"""Which layer of a Keras file is which part of SpliceAI: found by how they are connected, not by their names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..errors import InputError
from ..representation import Array
from .keras_files import KerasFile, Layer

_KINDS = ("Activation", "Add", "BatchNormalization", "Conv1D", "Cropping1D", "InputLayer")
_LETTERS = 4


@dataclass(frozen=True)
class Block:
    """The layers of a residual block."""

    norms: tuple[Layer, Layer]
    convolutions: tuple[Layer, Layer]


@dataclass(frozen=True)
class Plan:
    """The layers of a file by the parts they play, and the sizes that follow."""

    stem: Layer
    stages: tuple[tuple[Block, ...], ...]
    skips: tuple[Layer, ...]
    head: Layer
    channels: int
    widths: tuple[int, ...]
    dilations: tuple[int, ...]
    classes: int
    crop: int
    epsilon: float

    def weights(self, file: KerasFile) -> dict[str, Array]:
        """All weights under the names that :class:`isorep.models.SpliceAI` has for them."""
        wide = self.channels
        found = _convolved(file, "stem", self.stem, 1, _LETTERS, wide)
        for number, blocks in enumerate(self.stages):
            for place, block in enumerate(blocks):
                inner = f"stages.{number}.{place}.inner"
                for half in (0, 1):
                    found |= _normed(file, f"{inner}.{3 * half}", block.norms[half], wide)
                    convolution = block.convolutions[half]
                    found |= _convolved(file, f"{inner}.{3 * half + 2}", convolution, self.widths[number], wide, wide)
        for number, skip in enumerate(self.skips):
            found |= _convolved(file, f"skips.{number}", skip, 1, wide, wide)
        return found | _convolved(file, "head", self.head, 1, wide, self.classes)


def read_plan(file: KerasFile) -> Plan:
    """Go from the output to the input; what is not SpliceAI, in some size, is refused."""
    walk = _Walk(file)
    head = walk.convolution(file.output, padding="valid", activation="softmax", kernel_size=1)
    crop = walk.take(walk.only(head), "Cropping1D")
    skips = _skips(walk, walk.only(crop))
    ends = [walk.only(skip) for skip in skips]
    stages = [_stage(walk, end, start) for start, end in pairwise(ends)]
    stem = walk.convolution(ends[0], padding="valid", activation="linear", kernel_size=1)
    walk.take(walk.only(stem), "InputLayer").require(batch_input_shape=[None, None, _LETTERS])
    walk.finish()
    sizes = [_size(blocks) for blocks in stages]
    if len({len(blocks) for blocks in stages}) != 1:
        raise InputError(f"stages have {', '.join(str(len(blocks)) for blocks in stages)} blocks, not one number")
    return Plan(
        stem=stem,
        stages=tuple(stages),
        skips=tuple(skips),
        head=head,
        channels=stem.whole("filters"),
        widths=tuple(width for width, _ in sizes),
        dilations=tuple(dilation for _, dilation in sizes),
        classes=head.whole("filters"),
        crop=_cropped(crop),
        epsilon=_epsilon(stages),
    )


class _Walk:
    """Takes layers from a file, each one once."""

    def __init__(self, file: KerasFile) -> None:
        self._layers, self._left = file.layers, set(file.layers)
        for layer in self._layers.values():
            if layer.kind not in _KINDS:
                raise InputError(
                    f"layer {layer.name!r} is a {layer.kind}: known are {', '.join(_KINDS)}, and code in a file is "
                    "not run"
                )

    def kind(self, name: str) -> str:
        """The kind of a layer, which must exist."""
        if name not in self._layers:
            raise InputError(f"there is no layer {name!r}, which another one takes")
        return self._layers[name].kind

    def take(self, name: str, kind: str) -> Layer:
        """A layer of this kind that has no part yet."""
        if self.kind(name) != kind:
            raise InputError(f"layer {name!r} is a {self.kind(name)} where SpliceAI has a {kind}")
        if name not in self._left:
            raise InputError(f"layer {name!r} has two places in the network")
        self._left.discard(name)
        return self._layers[name]

    def convolution(self, name: str, **settings: object) -> Layer:
        """A convolution that moves by one position and has a bias."""
        layer = self.take(name, "Conv1D")
        layer.require(strides=1, use_bias=True, **settings)
        if layer.settings.get("data_format", "channels_last") != "channels_last":
            raise InputError(f"layer {name!r} does not have its channels last")
        return layer

    def only(self, layer: Layer) -> str:
        """The one input of a layer."""
        if len(layer.inputs) != 1:
            raise InputError(f"layer {layer.name!r} takes {len(layer.inputs)} inputs where SpliceAI's takes one")
        return layer.inputs[0]

    def added(self, name: str) -> tuple[str, str]:
        """The two inputs of a sum."""
        layer = self.take(name, "Add")
        if len(layer.inputs) != 2:
            raise InputError(f"layer {name!r} adds {len(layer.inputs)} inputs where SpliceAI's adds two")
        return layer.inputs[0], layer.inputs[1]

    def finish(self) -> None:
        """Refuse layers that have no part."""
        if self._left:
            raise InputError(f"layer {min(self._left)!r} has no place in SpliceAI")


def _skips(walk: _Walk, name: str) -> list[Layer]:
    """The convolutions of the running sum, the stem's first."""
    found = []
    while walk.kind(name) == "Add":
        name, skip = walk.added(name)
        found.append(skip)
    if not found:
        raise InputError(f"layer {name!r} is no sum: there is no stage")
    names = [name, *reversed(found)]
    return [walk.convolution(each, padding="valid", activation="linear", kernel_size=1) for each in names]


def _stage(walk: _Walk, end: str, start: str) -> tuple[Block, ...]:
    """The blocks between two skips."""
    found: list[Block] = []
    while end != start:
        inner, before = walk.added(end)
        second = walk.convolution(inner, padding="same", activation="linear")
        between, name = _opened(walk, walk.only(second))
        first = walk.convolution(name, padding="same", activation="linear")
        opening, origin = _opened(walk, walk.only(first))
        if origin != before:
            raise InputError(f"layer {end!r} does not add to what its block starts from")
        found.append(Block((opening, between), (first, second)))
        end = before
    if not found:
        raise InputError(f"no block leads to layer {end!r}")
    return tuple(reversed(found))


def _opened(walk: _Walk, name: str) -> tuple[Layer, str]:
    """The batch norm before a ReLU, and what it takes."""
    unit = walk.take(name, "Activation")
    unit.require(activation="relu")
    norm = walk.take(walk.only(unit), "BatchNormalization")
    norm.require(axis=-1, scale=True, center=True)
    return norm, walk.only(norm)


def _size(blocks: tuple[Block, ...]) -> tuple[int, int]:
    """Width and dilation of a stage."""
    layers = [layer for block in blocks for layer in block.convolutions]
    sizes = {(layer.whole("kernel_size"), layer.whole("dilation_rate")) for layer in layers}
    if len(sizes) != 1 or next(iter(sizes))[0] % 2 == 0:
        raise InputError(f"the stage of layer {layers[0].name!r} has widths that are even, or more than one size")
    return sizes.pop()


def _cropped(layer: Layer) -> int:
    sides = layer.settings.get("cropping")
    if not (isinstance(sides, list) and len(sides) == 2 and all(type(side) is int for side in sides)):
        raise InputError(f"layer {layer.name!r} does not say how much it cuts off at both ends")
    if sides[0] != sides[1] or not 0 <= sides[0] <= 10**6:
        raise InputError(f"layer {layer.name!r} cuts off {sides[0]} and {sides[1]} positions, not the same number")
    return int(sides[0])


def _epsilon(stages: list[tuple[Block, ...]]) -> float:
    value, *others = [norm.settings.get("epsilon") for blocks in stages for block in blocks for norm in block.norms]
    if not isinstance(value, float) or not 0 < value < 1 or any(other != value for other in others):
        raise InputError("the batch norms do not have one epsilon between 0 and 1")
    return value


def _convolved(file: KerasFile, name: str, layer: Layer, width: int, before: int, after: int) -> dict[str, Array]:
    layer.require(filters=after)
    kernel = file.weights(layer.name, "kernel", (width, before, after))
    return {
        f"{name}.weight": kernel.transpose(2, 1, 0).copy(),
        f"{name}.bias": file.weights(layer.name, "bias", (after,)),
    }


def _normed(file: KerasFile, name: str, layer: Layer, wide: int) -> dict[str, Array]:
    names = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
    found = {f"{name}.{ours}": file.weights(layer.name, theirs, (wide,)) for ours, theirs in names.items()}
    if (found[f"{name}.running_var"] < 0).any():
        raise InputError(f"layer {layer.name!r} has negative variances")
    return found
