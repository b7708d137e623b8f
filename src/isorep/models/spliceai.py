"""SpliceAI (Jaganathan et al. 2019): splice sites from DNA, five trainings of one network, read without Keras.

Which layer of a Keras file is which part of SpliceAI: found by how they are connected, not by their names.

Networks that Keras has written as HDF5: the layers are read as JSON, the weights as numbers, and no code is run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array
from ..storage.hdf5 import h5py
from .evaluation import nn, torch

VARIABLE = "ISOREP_SPLICEAI"
CLASSES = ("neither", "acceptor", "donor")
LICENCE = (
    "The SpliceAI models are the work of Jaganathan et al. (Cell 176, 2019) and no part of isorep. The package "
    "spliceai 1.3.1 states GPLv3 in its metadata and carries no licence file; the authors' repository says that the "
    "source code is under GPLv3 and the models are under CC BY NC 4.0, for academic and non-commercial use."
)
_HOW = f"pip install --no-deps spliceai==1.3.1, or name the folder of its h5 files in {VARIABLE}"
_LETTERS = b"ACGT"


class SpliceAI(nn.Module):
    """Probabilities of splice sites for every position of a DNA sequence.

    A convolution of width 1 opens the stem; every stage adds blocks of two dilated convolutions to it, each after a
    batch norm and a ReLU. A convolution of width 1 leads from the stem and from the end of every stage to one sum, the
    representation; the head makes three classes of it, position by position. The defaults are SpliceAI-10k.

    Parameters
    ----------
    channels : int
        Channels of the stem, the blocks and the representation.
    widths, dilations : sequence of int
        Widths and dilations of the convolutions of each stage; widths are odd.
    blocks : int
        Blocks per stage.
    classes : int
        Neither, acceptor, donor.
    crop : int, optional
        Positions that are cut off at either end; default: those whose receptive field extends beyond it.
    epsilon : float
        Epsilon of the batch norms.
    """

    def __init__(
        self,
        *,
        channels: int = 32,
        widths: Sequence[int] = (11, 11, 21, 41),
        dilations: Sequence[int] = (1, 4, 10, 25),
        blocks: int = 4,
        classes: int = 3,
        crop: int | None = None,
        epsilon: float = 1e-3,
    ) -> None:
        super().__init__()
        if len(widths) != len(dilations) or any(width % 2 == 0 for width in widths):
            raise InputError("every stage has one dilation and one width, which is odd")
        reach = sum(blocks * (width - 1) * dilation for width, dilation in zip(widths, dilations, strict=True))
        self.crop = reach if crop is None else int(crop)
        self.stem = nn.Conv1d(len(_LETTERS), channels, 1)
        self.stages = nn.ModuleList(
            nn.Sequential(*(_Block(channels, width, dilation, epsilon) for _ in range(blocks)))
            for width, dilation in zip(widths, dilations, strict=True)
        )
        self.skips = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(len(widths) + 1))
        self.head = nn.Conv1d(channels, classes, 1)

    def forward(self, dna: Any) -> Any:
        """Probabilities (n, 3, length - 2 crop) of :func:`encode_dna`'s (n, 4, length)."""
        return torch.softmax(self.head(self.represent(dna)), 1)

    def represent(self, dna: Any) -> Any:
        """The input of the head: (n, channels, length - 2 crop)."""
        return self.combine(self.depths(dna))

    def depths(self, dna: Any) -> list[Any]:
        """The stem and the end of every stage, cropped as the output is."""
        if dna.ndim != 3 or dna.shape[1] != len(_LETTERS) or dna.shape[2] <= 2 * self.crop:
            wanted = f"(n, 4, length) is expected, longer than the {2 * self.crop} positions that are cut off"
            raise InputError(f"DNA of shape {tuple(dna.shape)} was given where {wanted}")
        states = [self.stem(dna)]
        for stage in self.stages:
            states.append(stage(states[-1]))
        return [each[..., self.crop : each.shape[-1] - self.crop] for each in states]

    def combine(self, depths: Sequence[Any]) -> Any:
        """The representation, from what :meth:`depths` gives."""
        return sum(skip(state) for skip, state in zip(self.skips, depths, strict=True))


class _Block(nn.Module):
    """Twice batch norm, ReLU and a dilated convolution, added to what came in."""

    def __init__(self, channels: int, width: int, dilation: int, epsilon: float) -> None:
        super().__init__()
        parts: list[Any] = []
        for _ in range(2):
            convolution = nn.Conv1d(channels, channels, width, dilation=dilation, padding=dilation * (width - 1) // 2)
            parts += [nn.BatchNorm1d(channels, eps=epsilon), nn.ReLU(), convolution]
        self.inner = nn.Sequential(*parts)

    def forward(self, state: Any) -> Any:
        return state + self.inner(state)


def load_spliceai(path: str | Path | None = None) -> list[SpliceAI]:
    """The members of the ensemble, from the h5 files that its authors have published.

    The network is taken from what the file says about its layers, which must be those of SpliceAI in some size, and all
    weights are checked for shape and finiteness. Nothing of the file is run, and Keras is not needed.

    The models are no part of isorep. The package ``spliceai`` 1.3.1 states GPLv3 in its metadata and carries no licence
    file. The authors' repository puts the source code under GPLv3 and the models under CC BY NC 4.0, for academic and
    non-commercial use.

    Parameters
    ----------
    path : path, optional
        One h5 file, or a folder of them; by default that of the environment variable ``ISOREP_SPLICEAI``, else the
        models of the installed package ``spliceai``, which is found and not imported
        (``pip install --no-deps spliceai==1.3.1``).

    Returns
    -------
    list of SpliceAI
        In the order of the files' numbers, for evaluation.
    """
    return [_read(each) for each in find_spliceai(path)]


def find_spliceai(path: str | Path | None = None) -> list[Path]:
    """The h5 files that :func:`load_spliceai` reads; if there are none, the error explains how to get them."""
    folder = path if path is not None else os.environ.get(VARIABLE) or None
    if folder is None:
        spec = find_spec("spliceai")  # looks for the package and does not import it: that would need Keras
        homes = [] if spec is None else list(spec.submodule_search_locations or ())
        if not homes:
            raise MissingFileError(f"the SpliceAI models are not here: {_HOW}")
        folder = Path(homes[0]) / "models"
    if Path(folder).is_file():
        return [Path(folder)]
    files = sorted(Path(folder).glob("*.h5"), key=lambda each: (len(each.name), each.name))
    if not files:
        raise MissingFileError(f"there are no h5 files in {folder}: {_HOW}")
    return files


def encode_dna(sequences: str | Sequence[str]) -> Any:
    """One-hot letters (n, 4, length) in the order A, C, G, T; N is zero everywhere, and case does not matter."""
    listed = [sequences] if isinstance(sequences, str) else list(sequences)
    if not listed or not all(isinstance(each, str) for each in listed) or len({len(each) for each in listed}) > 1:
        raise InputError("DNA is a string, or several of one length")
    codes = np.full(256, 255, dtype=np.uint8)
    for index, letter in enumerate(_LETTERS + b"N"):
        codes[[letter, letter + 32]] = index  # also in lower case
    rows = []
    for number, text in enumerate(listed):
        read = codes[np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8)]
        if (wrong := np.flatnonzero(read == 255)).size:
            raise InputError(f"sequence {number} has {text[wrong[0]]!r} at {wrong[0]}: known are A, C, G, T and N")
        rows.append(np.eye(len(_LETTERS) + 1, len(_LETTERS), dtype=np.float32)[read].T)
    return torch.from_numpy(np.stack(rows))


def _read(path: Path) -> SpliceAI:
    weights: dict[str, Array] = {}
    with open_keras(path) as file:
        sizes, layers = read_plan(file)
        for name, layer in layers.items():
            weights |= _weights(file, name, layer, sizes)
    with torch.device("meta"):  # no weights are drawn, so that the caller's random numbers stay as they are
        model = SpliceAI(**sizes)
    counts = {name: torch.tensor(0) for name in model.state_dict() if name.endswith("num_batches_tracked")}
    model.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()} | counts, assign=True)
    return model.eval().requires_grad_(False)


_NORM = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
_KINDS = ("Activation", "Add", "BatchNormalization", "Conv1D", "Cropping1D", "InputLayer")

Block = tuple["Layer", "Layer", "Layer", "Layer"]
"""The layers of a residual block that have weights: batch norm, convolution, batch norm, convolution."""


def read_plan(file: KerasFile) -> tuple[dict[str, Any], dict[str, Layer]]:
    """Arguments of SpliceAI, and layers by the names of its modules, from the output to the input.

    What is not SpliceAI, in some size, is refused.
    """
    walk = _Walk(file)
    head = walk.convolution(file.output, activation="softmax")
    crop = walk.take(walk.only(head), "Cropping1D")
    skips = _skips(walk, walk.only(crop))
    ends = [walk.only(skip) for skip in skips]
    stages = [_stage(walk, end, start) for start, end in pairwise(ends)]
    stem = walk.convolution(ends[0])
    walk.take(walk.only(stem), "InputLayer").require(batch_input_shape=[None, None, len(_LETTERS)])
    walk.finish()
    if len({len(blocks) for blocks in stages}) != 1:
        raise InputError(f"stages have {', '.join(str(len(blocks)) for blocks in stages)} blocks, not one number")
    widths, dilations = zip(*map(_size, stages), strict=True)
    sizes = {
        "channels": stem.whole("filters"),
        "widths": widths,
        "dilations": dilations,
        "blocks": len(stages[0]),
        "classes": head.whole("filters"),
        "crop": _cropped(crop),
        "epsilon": _epsilon(stages),
    }
    layers = {"stem": stem, "head": head} | {f"skips.{number}": skip for number, skip in enumerate(skips)}
    for number, blocks in enumerate(stages):
        for index, block in enumerate(blocks):
            places = (0, 2, 3, 5)  # a ReLU, without weights, follows each batch norm
            layers |= {f"stages.{number}.{index}.inner.{at}": layer for at, layer in zip(places, block, strict=True)}
    return sizes, layers


class _Walk:
    """Reads layers from a file, each one once."""

    def __init__(self, file: KerasFile) -> None:
        self._layers, self._left = file.layers, set(file.layers)
        for name, layer in self._layers.items():
            if layer.kind not in _KINDS:
                raise InputError(f"layer {name!r} is a {layer.kind}: SpliceAI has none, and code in a file is not run")

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

    def convolution(self, name: str, *, wide: bool = False, activation: str = "linear") -> Layer:
        """A convolution that moves by one position and has a bias; if not ``wide``, it sees one position."""
        layer = self.take(name, "Conv1D")
        size = {"padding": "same"} if wide else {"padding": "valid", "kernel_size": 1}
        layer.require(strides=1, use_bias=True, activation=activation, **size)
        if layer.settings.get("data_format", "channels_last") != "channels_last":
            raise InputError(f"layer {name!r} does not have its channels last")
        return layer

    def only(self, layer: Layer, count: int = 1, verb: str = "takes") -> str:
        """The first input of a layer that has ``count`` inputs, one by default."""
        if len(layer.inputs) != count:
            raise InputError(f"layer {layer.name!r} {verb} {len(layer.inputs)} inputs where SpliceAI's {verb} {count}")
        return layer.inputs[0]

    def added(self, name: str) -> tuple[str, str]:
        """The two inputs of a sum."""
        layer = self.take(name, "Add")
        return self.only(layer, 2, "adds"), layer.inputs[1]

    def finish(self) -> None:
        """Refuse layers that have no part."""
        if self._left:
            raise InputError(f"layer {min(self._left)!r} has no place in SpliceAI")


def _skips(walk: _Walk, name: str) -> list[Layer]:
    """The convolutions of the running sum, the stem's first."""
    skips = []
    while walk.kind(name) == "Add":
        name, skip = walk.added(name)
        skips.append(skip)
    if not skips:
        raise InputError(f"layer {name!r} is no sum: there is no stage")
    return [walk.convolution(each) for each in (name, *reversed(skips))]


def _stage(walk: _Walk, end: str, start: str) -> tuple[Block, ...]:
    """The blocks between two skips."""
    blocks: list[Block] = []
    while end != start:
        inner, before = walk.added(end)
        second = walk.convolution(inner, wide=True)
        between, name = _opened(walk, walk.only(second))
        first = walk.convolution(name, wide=True)
        opening, origin = _opened(walk, walk.only(first))
        if origin != before:
            raise InputError(f"layer {end!r} does not add to what its block starts from")
        blocks.append((opening, first, between, second))
        end = before
    if not blocks:
        raise InputError(f"no block leads to layer {end!r}")
    return tuple(reversed(blocks))


def _opened(walk: _Walk, name: str) -> tuple[Layer, str]:
    """The batch norm before a ReLU, and what it takes."""
    unit = walk.take(name, "Activation")
    unit.require(activation="relu")
    norm = walk.take(walk.only(unit), "BatchNormalization")
    norm.require(axis=-1, scale=True, center=True)
    return norm, walk.only(norm)


def _size(blocks: tuple[Block, ...]) -> tuple[int, int]:
    """Width and dilation of a stage."""
    layers = [layer for block in blocks for layer in block[1::2]]
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
    value, *others = [norm.settings.get("epsilon") for blocks in stages for block in blocks for norm in block[::2]]
    if not isinstance(value, float) or not 0 < value < 1 or any(other != value for other in others):
        raise InputError("the batch norms do not have one epsilon between 0 and 1")
    return value


def _weights(file: KerasFile, name: str, layer: Layer, sizes: dict[str, Any]) -> dict[str, Array]:
    """Weights of a layer, under the names that :class:`SpliceAI` has for them."""
    channels = sizes["channels"]
    if layer.kind == "BatchNormalization":
        arrays = {f"{name}.{ours}": file.weights(layer.name, theirs, (channels,)) for ours, theirs in _NORM.items()}
        if (arrays[f"{name}.running_var"] < 0).any():
            raise InputError(f"layer {layer.name!r} has negative variances")
        return arrays
    before, after = len(_LETTERS) if name == "stem" else channels, sizes["classes"] if name == "head" else channels
    layer.require(filters=after)
    kernel = file.weights(layer.name, "kernel", (layer.whole("kernel_size"), before, after))
    bias = file.weights(layer.name, "bias", (after,))
    return {f"{name}.weight": kernel.transpose(2, 1, 0).copy(), f"{name}.bias": bias}


_MOST_LAYERS = 2000
_MOST_TEXT = 2**26
_REFERENCE = 16  # bytes that an attribute holds of a text of any length: its size, and where it lies
_MOST_NUMBERS = 2**27  # in all weights together


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: its kind, its Keras settings, and its input layers."""

    name: str
    kind: str
    settings: dict[str, Any]
    inputs: tuple[str, ...]

    def require(self, **wanted: Any) -> None:
        """Refuse a layer with other settings than these; lists and tuples of one entry count as the entry."""
        for key, value in wanted.items():
            setting = self.settings.get(key)
            if setting != value and setting != [value]:
                raise InputError(f"layer {self.name!r} has {key} = {_short(setting)} where {_short(value)} is expected")

    def whole(self, key: str, least: int = 1) -> int:
        """A setting that is a whole number, alone or in a list of one."""
        setting = self.settings.get(key)
        if isinstance(setting, list) and len(setting) == 1:
            setting = setting[0]
        if type(setting) is not int or setting < least:
            raise InputError(
                f"layer {self.name!r} has {key} = {_short(setting)}, which is no number of at least {least}"
            )
        return setting


class KerasFile:
    """The layers of a network and their weights; use it as :func:`open_keras` gives it."""

    def __init__(self, name: str, file: Any) -> None:
        self.name, self._file, self._read = name, file, 0
        self._graph = _graph(file)
        self.layers = {layer.name: layer for layer in map(_layer, self._graph["layers"])}
        if len(self.layers) != len(self._graph["layers"]):
            raise InputError("two layers have the same name")

    @property
    def output(self) -> str:
        """The name of the layer that is the network's only output."""
        outputs = self._graph.get("output_layers")
        if not (isinstance(outputs, list) and len(outputs) == 1 and _is_node(outputs[0])):
            raise InputError("the network does not have exactly one output")
        return str(outputs[0][0])

    def weights(self, layer: str, name: str, shape: tuple[int, ...]) -> Array:
        """One array of a layer's weights, which must have this shape and be finite."""
        where = f"model_weights/{layer}/{layer}/{name}:0"
        node = self._file
        for part in ("model_weights", layer, layer, f"{name}:0"):
            link = node.get(part, getlink=True) if isinstance(node, h5py().Group) else None
            if not isinstance(link, h5py().HardLink):
                raise InputError(f"there is no dataset {where}")
            node = node[part]
        if not isinstance(node, h5py().Dataset) or node.is_virtual or node.external:
            raise InputError(f"{where} is no dataset of this file")
        if node.shape != shape or node.dtype.kind != "f":
            raise InputError(f"{where} is {node.dtype} of shape {node.shape} where floats of {shape} are expected")
        self._read += node.size
        if self._read > _MOST_NUMBERS:
            raise InputError(f"up to {where} there are more than the {_MOST_NUMBERS} numbers that are read")
        values = np.asarray(node[()], dtype=np.float32)
        if not np.isfinite(values).all():
            raise InputError(f"{where} holds values that are not finite")
        return values


@contextmanager
def open_keras(path: str | Path) -> Iterator[KerasFile]:
    """Open a file; any problem becomes an :class:`isorep.InputError` that begins with its name."""
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"there is no file {path}")
    library = h5py()
    try:
        with library.File(path, "r") as file:
            yield KerasFile(path.name, file)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except (OSError, RuntimeError, KeyError, ValueError) as error:  # all of which h5py raises for damaged files
        raise InputError(f"{path.name} cannot be read as HDF5 ({_short(str(error))})") from None


def _graph(file: Any) -> dict[str, Any]:
    """The part of ``model_config`` that lists layers."""
    text = _text(file, b"model_config")
    if text is None:
        raise InputError("there is no attribute model_config: it holds weights alone, or is no Keras file")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("model_config is not JSON") from None
    graph = config.get("config") if isinstance(config, dict) else None
    if not isinstance(graph, dict) or not isinstance(graph.get("layers"), list) or not graph["layers"]:
        raise InputError("model_config lists no layers")
    if (count := len(graph["layers"])) > _MOST_LAYERS:
        raise InputError(f"model_config lists {count} layers, more than the {_MOST_LAYERS} that are read")
    return graph


def _text(file: Any, name: bytes) -> str | None:
    """An attribute that is one text; its type is checked first, because reading damaged ones can crash HDF5."""
    attributes = h5py().h5a
    if not attributes.exists(file.id, name):
        return None
    stored = attributes.open(file.id, name)
    kind = stored.get_type()
    if not isinstance(kind, h5py().h5t.TypeStringID) or stored.shape != ():
        return None
    wanted = _REFERENCE if kind.is_variable_str() else kind.get_size()
    if stored.get_storage_size() != wanted or wanted > _MOST_TEXT:
        return None
    value = file.attrs[name.decode()]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _layer(record: Any) -> Layer:
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in ("name", "class_name")):
        raise InputError("model_config has a layer without a name or a class")
    name, settings, nodes = record["name"], record.get("config"), record.get("inbound_nodes")
    if not isinstance(settings, dict) or not isinstance(nodes, list):
        raise InputError(f"layer {_short(name)} has no settings or no inputs in model_config")
    if len(nodes) > 1 or not all(isinstance(node, list) and all(map(_is_node, node)) for node in nodes):
        raise InputError(f"layer {_short(name)} is used more than once, or its inputs are not a list of layers")
    return Layer(name, record["class_name"], settings, tuple(each[0] for node in nodes for each in node))


def _is_node(entry: Any) -> bool:
    """Whether it names an output of a layer, as Keras does: name, use of the layer, place among its outputs."""
    return isinstance(entry, list) and len(entry) >= 3 and isinstance(entry[0], str) and entry[1:3] == [0, 0]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
