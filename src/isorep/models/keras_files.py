"""Networks that Keras has written as HDF5: the layers are read as JSON, the weights as numbers, and no code is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array
from ..storage.hdf5 import h5py

_MOST_LAYERS = 2000
_MOST_TEXT = 2**26
_REFERENCE = 16  # bytes that an attribute holds of a text of any length: its size, and where it lies
_MOST_NUMBERS = 2**27  # in all weights together


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: its kind, what Keras was told about it, and the layers that it takes."""

    name: str
    kind: str
    settings: dict[str, Any]
    inputs: tuple[str, ...]

    def require(self, **wanted: Any) -> None:
        """Refuse a layer with other settings than these; lists and tuples of one entry count as the entry."""
        for key, value in wanted.items():
            found = self.settings.get(key)
            if found != value and found != [value]:
                raise InputError(f"layer {self.name!r} has {key} = {_short(found)} where {_short(value)} is expected")

    def whole(self, key: str, least: int = 1) -> int:
        """A setting that is a whole number, alone or in a list of one."""
        found = self.settings.get(key)
        if isinstance(found, list) and len(found) == 1:
            found = found[0]
        if type(found) is not int or found < least:
            raise InputError(f"layer {self.name!r} has {key} = {_short(found)}, which is no number of at least {least}")
        return found


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
    """Open a file; whatever is wrong with it becomes an :class:`isorep.InputError` that begins with its name."""
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
    """An attribute that is one text; its type is looked at first, because reading damaged ones can crash HDF5."""
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
