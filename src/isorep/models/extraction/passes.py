"""One batch through a model: what each layer that was asked for gives, and what all layers give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...representation import Array
from ..loading import import_torch, said
from .capturing import capture, first_tensor
from .layers import OUTPUT, hidden_label, leaves_in_order, module_named, number_of_hidden, numbered, parse_layers
from .sources import TRANSFORMER, Source, failure_of, floating_dtype

if TYPE_CHECKING:
    import torch

_WIDE_KINDS = ("values", "images")


@dataclass(frozen=True)
class Layer:
    """A layer that was asked for: a module, or a hidden state by its number."""

    label: str
    hidden: int | None = None


@dataclass(frozen=True)
class LayerShape:
    """A layer, what it gave for one example (without the axis of examples), and the number that also names it."""

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
    """Runs batches on a device; made inside of :func:`.sources.evaluating`."""

    def __init__(self, source: Source, device: Any, key: str | None) -> None:
        self._source, self._device, self._key = source, device, key
        self._dtype = floating_dtype(source.module)
        self.layers: tuple[Layer, ...] = ()
        # A processor is fastest where what passes between the layers stays in its cache.
        self.tokens = 1024 if device.type == "cpu" else 8192

    def choose(self, given: Any, first: Batch) -> None:
        """Find the layers that were asked for; one pass tells the order in which modules are called."""
        found = []
        for item in parse_layers(given, self._source.module):
            if isinstance(item, str) and self._source.kind == TRANSFORMER:
                item = number_of_hidden(item, self._source.module)
            if isinstance(item, str):
                module_named(self._source.module, item)
                self._require_stored(item)
                found.append(Layer(item))
            elif self._source.kind == TRANSFORMER:
                states = self._hidden_count(first)
                label = numbered(item, [hidden_label(place) for place in range(states)], "hidden states")
                found.append(Layer(label, item % states))
            else:
                names = leaves_in_order([name for name, _, _ in self._calls(first)], self._source.module)
                found.append(Layer(numbered(item, names, "modules without children, in the order of their calls,")))
        repeated = [layer.label for place, layer in enumerate(found) if layer in found[:place]]
        if repeated:
            raise InputError(f"layer {repeated[0]!r} is named twice")
        self.layers = tuple(found)

    @contextmanager
    def outputs(self) -> Iterator[Any]:
        """A function from a batch to the outputs of the layers; hooks are removed at the end."""
        hooked = [layer.label for layer in self.layers if layer.hidden is None]
        wants_hidden = len(hooked) < len(self.layers)
        with capture(self._source.module, hooked, key=self._key, to_cpu=False) as seen:

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
        return None if layer.hidden is not None else module_named(self._source.module, layer.label)

    def shapes(self, batch: Batch) -> list[LayerShape]:
        """Every module that a pass calls, in order, with what it gives for one example."""
        rows = len(batch.inputs)
        calls = self._calls(batch)
        numbers = {
            name: place for place, name in enumerate(leaves_in_order([c[0] for c in calls], self._source.module))
        }
        if self._source.kind == TRANSFORMER:
            numbers = {}
        found = [
            LayerShape(name or "output", kind, None if shape is None else _example(shape, rows), numbers.get(name))
            for name, kind, shape in calls
        ]
        if self._source.kind == TRANSFORMER:
            states = getattr(self._forward(batch, hidden=True), "hidden_states", None) or ()
            found += [
                LayerShape(hidden_label(place), "hidden state", _example(tuple(state.shape), rows), place)
                for place, state in enumerate(states)
            ]
        return found

    @property
    def changes_attention(self) -> bool:
        """Whether the model turns to another attention for short inputs, and keeps to it (BigBird)."""
        module = self._source.module
        return hasattr(module, "set_attention_type") and module.config.attention_type == "block_sparse"

    def _reset_attention(self) -> None:
        module = self._source.module
        if self.changes_attention and module.attention_type != module.config.attention_type:
            module.set_attention_type(module.config.attention_type)

    def _require_stored(self, layer: str) -> None:
        """Refuse what comes from weights that the folder does not have."""
        key = self._key if layer == OUTPUT else None
        for name in self._source.made_up:
            if f"{layer}.".startswith(f"{name}.") or key == f"{name.rpartition('.')[2]}_output":
                raise InputError(
                    f"the weights of {self._source.name} have no {name}, so that what {key or layer} gives is random: "
                    "name another layer"
                )

    def _calls(self, batch: Batch) -> list[tuple[str, str, tuple[int, ...] | None]]:
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

        handles = []
        try:
            for name, module in self._source.module.named_modules():
                handles.append(module.register_forward_pre_hook(before(name)))
                handles.append(module.register_forward_hook(after(name)))
            self._forward(batch, hidden=False)
        finally:
            for handle in handles:
                handle.remove()
        return [(name, *calls[name]) for name in dict.fromkeys(begun) if name in calls]

    def _hidden_count(self, batch: Batch) -> int:
        states = getattr(self._forward(batch, hidden=True), "hidden_states", None)
        if not states:
            advice = failure_of(self._source, batch.inputs) or "gives no hidden states: name its layers"
            raise InputError(f"{self._source.name} {advice}")
        return len(states)

    def _forward(self, batch: Batch, *, hidden: bool) -> Any:
        torch = import_torch("extraction")
        inputs = torch.from_numpy(np.ascontiguousarray(batch.inputs))
        if batch.kind in _WIDE_KINDS:
            inputs = inputs.to(self._dtype)  # before it is moved: not every device knows float64
        inputs = inputs.to(self._device)
        try:
            if self._source.kind != TRANSFORMER:
                return self._source.module(inputs)
            self._reset_attention()
            given: dict[str, Any] = {"output_hidden_states": True} if hidden else {}
            if batch.attended is not None:
                given["attention_mask"] = torch.from_numpy(batch.attended.astype(np.int64)).to(self._device)
            if batch.types is not None:
                given["token_type_ids"] = torch.from_numpy(batch.types).to(self._device)
            return self._source.module(**{self._source.takes: inputs}, **given)
        except InputError:
            raise
        except Exception as error:  # the user's model
            what = f"fails on a batch of shape {tuple(inputs.shape)} {inputs.dtype}: {said(error)}"
            advice = failure_of(self._source, batch.inputs)
            raise InputError(
                f"{self._source.name} {what if advice is None else f'{advice} ({said(error)})'}"
            ) from error


def not_examples(layer: Layer, output: torch.Tensor, examples: int) -> str:
    """What is wrong with an output that does not have one entry an example."""
    given = "one example" if examples == 1 else f"{examples} examples"
    return f"layer {layer.label!r} gives {tuple(output.shape)} for {given}: its first axis is not that of examples"


def _once(label: str, taken: dict[str, list[torch.Tensor]]) -> torch.Tensor:
    """The output of a layer that a pass calls exactly once."""
    found = taken[label]
    if not found:
        raise InputError(f"layer {label!r} is not called in a pass: name another")
    if len(found) > 1:
        raise InputError(
            f"layer {label!r} is called {len(found)} times in one pass, so its output is not one: name another"
        )
    return found[0]


def _example(shape: Sequence[int], rows: int) -> tuple[int, ...]:
    return tuple(shape[1:]) if shape and shape[0] == rows else tuple(shape)
