"""Forward pass of one batch through a model: the outputs of chosen layers, and the shapes of all layers.

Hooks capture the outputs of modules. Layers are chosen by dotted name, or by number.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import hooked, import_torch, said
from ..representation import Array, Representation
from .model import TRANSFORMER, Source, failure_of, floating_dtype

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

_WIDE_KINDS = ("values", "images")
OUTPUT = "output"
HIDDEN = "hidden_"  # and the number of a hidden state from 0, the embeddings


@dataclass(frozen=True)
class Layer:
    """A chosen layer: a module, or a hidden state by its number."""

    label: str
    hidden: int | None = None


@dataclass(frozen=True)
class LayerShape:
    """A layer, its output shape for one example (without the axis of examples), and its number."""

    name: str
    type: str
    shape: tuple[int, ...] | None
    number: int | None = None


@dataclass(frozen=True)
class Batch:
    """Inputs of a pass; ``attended`` and ``kept`` are the masks of sequences with padding, ``types`` their segments."""

    inputs: Array
    kind: str
    attended: Array | None = None
    kept: Array | None = None
    types: Array | None = None


class Passes:
    """Runs batches on a device; made inside of :func:`isorep.models.evaluation.evaluating`."""

    def __init__(self, source: Source, device: Any, key: str | None) -> None:
        self.source, self._device, self._key = source, device, key
        self._dtype = floating_dtype(source.module)
        self.layers: tuple[Layer, ...] = ()
        # A processor is fastest while activations stay in its cache.
        self.tokens = 1024 if device.type == "cpu" else 8192

    def choose(self, given: Any, first: Batch) -> None:
        """Find the chosen layers; one pass gives the order in which modules are called."""
        layers = []
        for item in parse_layers(given, self.source.module, hidden=self.source.kind == TRANSFORMER):
            if isinstance(item, str):
                module_named(self.source.module, item)
                self._require_stored(item)
                layers.append(Layer(item))
            elif self.source.kind == TRANSFORMER:
                states = len(self._hidden_states(first))
                if not states:
                    advice = failure_of(self.source, first.inputs) or "gives no hidden states: name its layers"
                    raise InputError(f"{self.source.name} {advice}")
                label = numbered(item, [f"{HIDDEN}{index}" for index in range(states)], "hidden states")
                layers.append(Layer(label, item % states))
            else:
                names = leaves_in_order([name for name, _, _ in self._calls(first)], self.source.module)
                layers.append(Layer(numbered(item, names, "modules without children, in the order of their calls,")))
        repeated = [layer.label for index, layer in enumerate(layers) if layer in layers[:index]]
        if repeated:
            raise InputError(f"layer {repeated[0]!r} is named twice")
        self.layers = tuple(layers)

    @contextmanager
    def outputs(self) -> Iterator[Any]:
        """A function from a batch to the outputs of the layers; hooks are removed at the end."""
        hooked = [layer.label for layer in self.layers if layer.hidden is None]
        wants_hidden = len(hooked) < len(self.layers)
        with capture(self.source.module, hooked, key=self._key, to_cpu=False) as seen:

            def run(batch: Batch) -> list[torch.Tensor]:
                output = self._forward(batch, hidden=wants_hidden)
                taken = seen.take()
                return [
                    output.hidden_states[layer.hidden] if layer.hidden is not None else _once(layer.label, taken)
                    for layer in self.layers
                ]

            yield run

    def module_of(self, layer: Layer) -> Any:
        """The module that gives a layer; None for a hidden state."""
        return None if layer.hidden is not None else module_named(self.source.module, layer.label)

    def shapes(self, batch: Batch) -> list[LayerShape]:
        """Every module that a pass calls, in order, with its output shape for one example."""
        rows, calls = len(batch.inputs), self._calls(batch)
        leaves = leaves_in_order([name for name, _, _ in calls], self.source.module)
        numbers = {} if self.source.kind == TRANSFORMER else {name: index for index, name in enumerate(leaves)}
        shapes = [
            LayerShape(name or OUTPUT, kind, _example(shape, rows), numbers.get(name)) for name, kind, shape in calls
        ]
        for index, state in enumerate(self._hidden_states(batch) if self.source.kind == TRANSFORMER else ()):
            shapes.append(LayerShape(f"{HIDDEN}{index}", "hidden state", _example(state.shape, rows), index))
        return shapes

    @property
    def changes_attention(self) -> bool:
        """Whether the model permanently switches to another attention for short inputs (BigBird)."""
        module = self.source.module
        return hasattr(module, "set_attention_type") and module.config.attention_type == "block_sparse"

    def places(self, batch: Batch) -> dict[str, int]:
        """The order of the chosen layers in the model: modules as they finish, then hidden states."""
        finished = [name or OUTPUT for name, _, _ in self._calls(batch, finished=True)]
        return {
            layer.label: finished.index(layer.label) if layer.hidden is None else len(finished) + layer.hidden
            for layer in self.layers
        }

    def _require_stored(self, layer: str) -> None:
        """Refuse outputs of weights that the folder does not have."""
        key = self._key if layer == OUTPUT else None
        for name in self.source.made_up:
            if f"{layer}.".startswith(f"{name}.") or key == f"{name.rpartition('.')[2]}_output":
                random = f"so that what {key or layer} gives is random"
                raise InputError(f"the weights of {self.source.name} have no {name}, {random}: name another layer")

    def _calls(self, batch: Batch, *, finished: bool = False) -> list[tuple[str, str, tuple[int, ...] | None]]:
        """The modules that a pass calls, in the order in which they begin, or in which they finish."""
        calls: dict[str, tuple[str, tuple[int, ...] | None]] = {}
        begun: list[str] = []

        def before(name: str) -> Any:
            return lambda module, inputs: begun.append(name)

        def after(name: str) -> Any:
            def note(module: Any, inputs: Any, output: Any) -> None:
                try:
                    shape = tuple(first_tensor(output, name).shape)
                except InputError:
                    shape = None
                calls.setdefault(name, (type(module).__name__, shape))

            return note

        handles = (
            handle
            for name, module in self.source.module.named_modules()
            for handle in (module.register_forward_pre_hook(before(name)), module.register_forward_hook(after(name)))
        )
        with hooked(handles):
            self._forward(batch, hidden=False)
        return [(name, *calls[name]) for name in (calls if finished else dict.fromkeys(begun)) if name in calls]

    def _hidden_states(self, batch: Batch) -> Sequence[torch.Tensor]:
        return getattr(self._forward(batch, hidden=True), "hidden_states", None) or ()

    def _forward(self, batch: Batch, *, hidden: bool) -> Any:
        torch, module = import_torch("extraction"), self.source.module
        inputs = torch.from_numpy(np.ascontiguousarray(batch.inputs))
        if batch.kind in _WIDE_KINDS:
            inputs = inputs.to(self._dtype)  # before it is moved: not every device has float64
        inputs = inputs.to(self._device)
        try:
            if self.source.kind != TRANSFORMER:
                from .onnx_file import OnnxModel

                return module(inputs, batch.kept) if isinstance(module, OnnxModel) else module(inputs)
            if self.changes_attention and module.attention_type != module.config.attention_type:
                module.set_attention_type(module.config.attention_type)
            given: dict[str, Any] = {"output_hidden_states": True} if hidden else {}
            if batch.attended is not None:
                given["attention_mask"] = torch.from_numpy(batch.attended.astype(np.int64)).to(self._device)
            if batch.types is not None:
                given["token_type_ids"] = torch.from_numpy(batch.types).to(self._device)
            return module(**{self.source.takes: inputs}, **given)
        except InputError:
            raise
        except Exception as error:  # the user's model
            what = f"fails on a batch of shape {tuple(inputs.shape)} {inputs.dtype}: {said(error)}"
            advice = failure_of(self.source, batch.inputs)
            raise InputError(f"{self.source.name} {what if advice is None else f'{advice} ({said(error)})'}") from error


def not_examples(layer: Layer, output: torch.Tensor, examples: int) -> str:
    """The problem of an output that does not have one entry per example."""
    given = "one example" if examples == 1 else f"{examples} examples"
    return f"layer {layer.label!r} gives {tuple(output.shape)} for {given}: its first axis is not that of examples"


def _once(label: str, taken: dict[str, list[torch.Tensor]]) -> torch.Tensor:
    """The output of a layer that a pass calls exactly once."""
    outputs = taken[label]
    if len(outputs) != 1:
        times = f"{len(outputs)} times in one pass, so its output is not one" if outputs else "not called in a pass"
        raise InputError(f"layer {label!r} is {'called ' if outputs else ''}{times}: name another")
    return outputs[0]


def _example(shape: Sequence[int] | None, rows: int) -> tuple[int, ...] | None:
    """The shape of what one example gives."""
    return None if shape is None else tuple(shape[1:]) if shape and shape[0] == rows else tuple(shape)


class Captured:
    """Outputs captured by :func:`capture`: for each layer those of all passes, in order.

    ``seen["encoder.3"]`` is a tensor on the CPU, joined over passes along the first axis.
    """

    def __init__(self, layers: Sequence[str]) -> None:
        self._kept: dict[str, list[Tensor]] = {layer: [] for layer in layers}

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers."""
        return tuple(self._kept)

    def __getitem__(self, layer: str) -> Tensor:
        torch = import_torch("capturing a layer")
        if layer not in self._kept:
            raise InputError(f"{layer!r} was not captured; there are {', '.join(self._kept)}")
        parts = self._kept[layer]
        if not parts:
            raise InputError(f"{layer!r} was not called while it was captured")
        joined: Tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        return joined

    def representation(self, layer: str, *, ids: Any = None, name: str | None = None) -> Representation:
        """The rows of a layer, whose output must have rows and columns, as a Representation."""
        return Representation(self[layer], ids=ids, name=name or layer)

    def take(self) -> dict[str, list[Tensor]]:
        """Return the outputs so far, pass by pass, and clear them."""
        found = {layer: list(parts) for layer, parts in self._kept.items()}
        self.clear()
        return found

    def clear(self) -> None:
        """Clear the outputs so far."""
        for parts in self._kept.values():
            parts.clear()

    def keep(self, layer: str, output: Tensor) -> None:
        """Add an output."""
        self._kept[layer].append(output)


@contextmanager
def capture(
    model: nn.Module, layers: str | Sequence[str], *, key: str | None = None, to_cpu: bool = True
) -> Iterator[Captured]:
    """Capture the outputs of some modules during any forward passes.

    The model is not changed, in its mode or gradients; outputs are detached copies. Hooks are removed at the end, also
    after an error.

    Parameters
    ----------
    model : torch.nn.Module
        Any module, or a whole model.
    layers : str or sequence of str
        Dotted names as in ``model.named_modules()``; ``"output"`` is the output of the model itself.
    key : str, optional
        Entry of a module that returns a dict or a named tuple; default: the first tensor.
    to_cpu : bool
        Move outputs to the CPU; default: yes.

    Yields
    ------
    Captured
        ``captured["name"]`` is the module's output, concatenated over passes along the first axis. All of it is in
        memory: :func:`isorep.extract` streams to files instead.

    Examples
    --------
    >>> import torch, isorep.models
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    >>> with isorep.models.capture(model, ["0", "output"]) as seen:
    ...     for batch in torch.zeros(2, 5, 4):
    ...         _ = model(batch)
    >>> seen["0"].shape, seen["output"].shape
    (torch.Size([10, 3]), torch.Size([10, 2]))
    """
    named = [layers] if isinstance(layers, str) else list(layers)
    modules = {layer: module_named(model, layer) for layer in named}
    captured = Captured(named)
    with hooked(module.register_forward_hook(_hook(captured, layer, key, to_cpu)) for layer, module in modules.items()):
        yield captured


def first_tensor(output: Any, layer: str, key: str | None = None) -> Tensor:
    """The tensor of a module's output: itself, the entry named, or the first one of a tuple, list or dict."""
    torch = import_torch("capturing a layer")
    called, kind = "the model" if layer == OUTPUT else f"layer {layer!r}", type(output).__name__
    entries = {"": output} if isinstance(output, torch.Tensor) else _entries(output)
    tensors: dict[str, Tensor] = {name: each for name, each in entries.items() if isinstance(each, torch.Tensor)}
    if key is not None and (key == "" or key not in tensors):
        raise InputError(f"the output of {called} has no tensor {key!r}; it has {', '.join(entries) or f'type {kind}'}")
    if not tensors:
        raise InputError(f"{called} returns {kind}, with no tensor in it: name another layer, or the entry")
    return tensors[key] if key is not None else next(iter(tensors.values()))


def _hook(captured: Captured, layer: str, key: str | None, to_cpu: bool) -> Any:
    def keep(module: Any, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output, layer, key).detach()
        # A later module may work in place on what this one returned, so it is copied now.
        captured.keep(layer, tensor.to("cpu", copy=True) if to_cpu else tensor.clone())

    return keep


def _entries(output: Any) -> dict[str, Any]:
    """The entries of a module's output, by name or number, also from the end."""
    if hasattr(output, "keys"):
        return {str(name): output[name] for name in output.keys()}  # noqa: SIM118
    if not isinstance(output, tuple | list):
        return {}
    numbered = {str(index): output[index] for index in range(-len(output), len(output))}
    return numbered | {name: getattr(output, name) for name in getattr(output, "_fields", ())}


def module_named(model: Any, layer: str) -> Any:
    """A module by its dotted name; ``output`` is the model itself, unless a module is called so."""
    if not isinstance(layer, str):
        raise InputError(f"layers are named by dotted names, not by {layer!r}")
    modules = dict(model.named_modules())
    if layer and layer in modules:
        return modules[layer]
    if layer == OUTPUT:
        return model
    names = [name for name in modules if name]
    near = difflib.get_close_matches(layer, names, n=3, cutoff=0.4)
    near += [name for name in names if name.endswith(f".{layer}") and name not in near][:2]
    listed = f"near are {', '.join(near)}" if near else f"there are {', '.join(names[:8]) or 'none'}"
    raise InputError(f"there is no layer {layer!r}; {listed} (--list-layers shows all)")


def parse_layers(given: Any, model: Any, *, hidden: bool) -> list[str | int]:
    """Names and numbers from one name, one number, a list of them, or text with commas.

    Text that looks like a number is one, unless the model has a module of that name; so does ``hidden_3`` where layers
    are numbered as hidden states.
    """
    items = [given] if isinstance(given, str | int) else list(given)
    modules = {name for name, _ in model.named_modules()}
    number = re.compile(rf"-?[0-9]+|{HIDDEN}[0-9]+" if hidden else "-?[0-9]+")
    layers: list[str | int] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise InputError(f"layers are named by dotted names or numbers, not by {item!r}")
        for part in map(str.strip, str(item).split(",")):
            named = isinstance(item, str) and (part in modules or not number.fullmatch(part))
            layers.append(part if named else int(part.removeprefix(HIDDEN)))
    if not layers or "" in layers:
        raise InputError("layers is empty: name one, such as encoder.3, or number one, such as -1")
    return layers


def numbered(index: int, names: Sequence[str], what: str) -> str:
    """One of the names by its number, also from the end."""
    if not names:
        raise InputError(f"there is no layer {index}: the model calls no modules inside of it; name {OUTPUT!r}")
    if not -len(names) <= index < len(names):
        n = len(names)
        raise InputError(f"there is no layer {index}: {what} are numbered 0 to {n - 1}, or -{n} to -1")
    return names[index]


def leaves_in_order(calls: Sequence[str], model: Any) -> list[str]:
    """The modules without children, in the order in which one pass first calls them."""
    modules = dict(model.named_modules())
    return list(dict.fromkeys(name for name in calls if name and not list(modules[name].children())))
