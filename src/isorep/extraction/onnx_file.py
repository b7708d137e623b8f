"""ONNX files as modules: every output of a node is a layer that can be captured, and onnxruntime computes it.

An ONNX file is a protocol buffer (ModelProto, https://onnx.ai). Of it only the names of nodes and outputs are read
here. onnxruntime returns outputs of the graph alone; two buffers one after the other are the merged message, so a
layer becomes an output of the graph when a graph that has this output and nothing else is appended to the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..files import visible
from ..models.evaluation import nn, said, torch

_GRAPH, _NODE, _INITIALISER, _OUTPUT = 7, 1, 5, 12  # numbers of fields: of the model, then of its graph
_NODE_OUTPUT, _NODE_KIND, _NAME, _EXTERNAL, _KEY, _VALUE = 2, 4, 1, 13, 1, 2
_TYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32}
_TYPES |= {"uint8": np.uint8, "int8": np.int8}
_LONGEST_KIND, _MOST_NODES = 80, 10**5
_MASK = "attention_mask"
_FILLED = {_MASK: np.ones_like, "token_type_ids": np.zeros_like}
"""Further inputs of language models, which are made from the tokens where no mask is given."""


@dataclass
class Graph:
    """Names in a graph: kinds of nodes by the name of their output, outputs of the graph, files of weights."""

    kinds: dict[str, str] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)


class OnnxModel(nn.Module):
    """An ONNX file as a module of one input; its layers are the outputs of nodes, by their names in the file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._runtime = onnxruntime("an ONNX model")
        self._path, self._stored = path, path.read_bytes()
        self._graph = read_graph(self._stored, path)
        self.returned = self._graph.outputs[0]
        kinds = {kind: type(visible(kind)[:_LONGEST_KIND], (nn.Identity,), {}) for kind in self._graph.kinds.values()}
        for name, kind in self._graph.kinds.items():
            # Names of ONNX have dots, which add_module refuses and which are no levels here.
            self._modules[name] = kinds[kind]()
        digest = hashlib.sha256(self._stored).digest()
        self.register_buffer("contents", torch.frombuffer(bytearray(digest), dtype=torch.uint8))
        self._sessions: dict[tuple[str, ...], Any] = {}
        self._inputs = {each.name: each.type for each in self._session(()).get_inputs()}
        if unknown := [name for name in list(self._inputs)[1:] if name not in _FILLED]:
            raise InputError(
                f"{path} takes {', '.join(self._inputs)}: a model of one input is needed, not {unknown[0]}"
            )

    def forward(self, inputs: Any, kept: Any = None) -> Any:
        """The first output of the graph; layers that are watched by hooks are computed with it.

        Models that take a mask attend to the tokens that are ``kept``; by default to all.
        """
        if inputs.device.type != "cpu":
            raise InputError("ONNX models run on the processor: use --device cpu")
        first = self.returned
        watched = [name for name in self._graph.kinds if self._modules[name]._forward_hooks]  # type: ignore[union-attr]
        names = tuple(dict.fromkeys([*watched, first]))
        found = self._session(names).run(list(names), self._given(inputs.numpy(), kept))
        returned = None
        for name, value in zip(names, found, strict=True):
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                tensor = torch.from_numpy(np.array(value))
                shown = self._modules[name](tensor) if name in watched else tensor  # type: ignore[misc]
                returned = shown if name == first else returned
        return {} if returned is None else {first: returned}

    def _given(self, values: Any, kept: Any) -> dict[str, Any]:
        """All inputs in their types, from the first one and the mask."""
        given = {}
        for place, (name, kind) in enumerate(self._inputs.items()):
            wanted = kind.removeprefix("tensor(").removesuffix(")")
            if wanted not in _TYPES:
                raise InputError(f"{self._path} takes {name} as {kind}, which is not supported")
            made = values if not place else kept if name == _MASK and kept is not None else _FILLED[name](values)
            given[name] = made.astype(_TYPES[wanted])
        return given

    def _session(self, layers: tuple[str, ...]) -> Any:
        """A session that returns these layers; the last one is kept."""
        added = tuple(name for name in layers if name not in self._graph.outputs)
        if added not in self._sessions:
            options = self._runtime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = 4
            if self._graph.files:
                folder = "session.model_external_initializers_file_folder_path"
                options.add_session_config_entry(folder, str(self._path.resolve().parent))
            extra = b"".join(_message(_OUTPUT, _message(_NAME, name.encode())) for name in added)
            try:
                session = self._runtime.InferenceSession(
                    self._stored + (_message(_GRAPH, extra) if added else b""),
                    options,
                    providers=["CPUExecutionProvider"],
                )
            except Exception as error:  # whatever a file makes the library raise
                raise InputError(f"{self._path} cannot be loaded: {said(error)}") from error
            self._sessions = {added: session}
        return self._sessions[added]


def onnxruntime(purpose: str) -> Any:
    """The package, which would report its use to its makers, and leave files behind, unless it is told not to."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return import_extra("onnxruntime", "onnx", purpose)


def read_graph(stored: bytes, path: Path) -> Graph:
    """The names in an ONNX file; one that is damaged, or has weights outside of its folder, is refused."""
    graph = Graph()
    try:
        for number, part in _fields(memoryview(stored)):
            if number == _GRAPH:
                _read_graph(part, graph)
    except (IndexError, UnicodeDecodeError, ValueError, TypeError):
        raise InputError(f"{path} is damaged, or no ONNX model") from None
    if not graph.kinds or not graph.outputs:
        raise InputError(f"{path} is no ONNX model: it has no nodes or no outputs")
    if len(graph.kinds) > _MOST_NODES:
        raise InputError(f"{path} has {len(graph.kinds)} nodes, and up to {_MOST_NODES} are read")
    for name in sorted(graph.files):
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not parts or parts[0] == "/" or ".." in parts or ":" in name:
            raise InputError(f"{path} names weights outside of its folder ({name[:80]!r}), which are not read")
    return graph


def _read_graph(part: memoryview, graph: Graph) -> None:
    for number, inside in _fields(part):
        if number == _NODE:
            held = list(_fields(inside))
            kind = next((_text(each) for key, each in held if key == _NODE_KIND), "")
            for name in (_text(each) for key, each in held if key == _NODE_OUTPUT):
                if name and kind not in ("Constant", "ConstantOfShape"):
                    graph.kinds[name] = kind
        elif number == _OUTPUT:
            graph.outputs.extend(_text(each) for key, each in _fields(inside) if key == _NAME)
        elif number == _INITIALISER:
            for key, each in _fields(inside):
                if key == _EXTERNAL:
                    entry = dict(_fields(each))
                    if _text(entry.get(_KEY, b"")) == "location":
                        graph.files.add(_text(entry.get(_VALUE, b"")))


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Numbers and contents of the fields of a message that have a length; others are passed over."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > end:
                raise ValueError("the message ends early")
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError("there is no such kind of field")
    if at != end:
        raise ValueError("the message ends early")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number is too long")


def _text(part: Any) -> str:
    return bytes(part).decode("utf-8")


def _message(number: int, content: bytes) -> bytes:
    """A field with a length, as it is stored."""
    return _bytes(number << 3 | 2) + _bytes(len(content)) + content


def _bytes(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
