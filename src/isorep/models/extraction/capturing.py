"""Hooks around a forward pass: the outputs of named modules, kept as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...representation import Representation
from ..loading import import_torch
from .layers import OUTPUT, module_named

if TYPE_CHECKING:
    from torch import Tensor, nn


class Captured:
    """What :func:`capture` has seen: for each layer the outputs of all passes, one after the other.

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
        """The rows of a layer whose output has rows and columns, as something to compare."""
        return Representation(self[layer], ids=ids, name=name or layer)

    def take(self) -> dict[str, list[Tensor]]:
        """The outputs so far, pass by pass, which are then forgotten."""
        found = {layer: list(parts) for layer, parts in self._kept.items()}
        self.clear()
        return found

    def clear(self) -> None:
        """Forget what was seen so far."""
        for parts in self._kept.values():
            parts.clear()

    def keep(self, layer: str, output: Tensor) -> None:
        """Add an output."""
        self._kept[layer].append(output)


@contextmanager
def capture(
    model: nn.Module, layers: str | Sequence[str], *, key: str | None = None, to_cpu: bool = True
) -> Iterator[Captured]:
    """Keep the outputs of some modules during any forward passes.

    The model is left as it is, in its mode, with its gradients; outputs are detached copies. Hooks are removed at the
    end, also after an error.

    Parameters
    ----------
    model : torch.nn.Module
        Any module, or a whole model.
    layers : str or sequence of str
        Dotted names as ``model.named_modules()`` gives them; ``"output"`` is what the model itself returns.
    key : str, optional
        Which entry to take of a module that returns a dict or a named tuple; by default the first tensor.
    to_cpu : bool
        Whether outputs are moved to the CPU.

    Yields
    ------
    Captured
        ``captured["name"]`` is what the module returned, joined over passes along the first axis. All of it is in
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
    handles = []
    try:
        for layer, module in modules.items():
            handles.append(module.register_forward_hook(_hook(captured, layer, key, to_cpu)))
        yield captured
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(output: Any, layer: str, key: str | None = None) -> Tensor:
    """The tensor of a module's output: itself, the entry named, or the first one of a tuple, list or dict."""
    torch = import_torch("capturing a layer")
    if key is not None:
        entry: Tensor | None = _entry(output, key)
        if entry is not None and isinstance(entry, torch.Tensor):
            return entry
        raise InputError(f"the output of {_called(layer)} has no tensor {key!r}; it has {_entries(output)}")
    items = [output] if isinstance(output, torch.Tensor) else _items(output)
    found: Tensor | None = next((item for item in items if isinstance(item, torch.Tensor)), None)
    if found is not None:
        return found
    raise InputError(
        f"{_called(layer)} returns {type(output).__name__}, with no tensor in it: name another layer, or the entry"
    )


def _hook(captured: Captured, layer: str, key: str | None, to_cpu: bool) -> Any:
    def keep(module: Any, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output, layer, key).detach()
        # A later module may work in place on what this one returned, so it is copied now.
        captured.keep(layer, tensor.to("cpu", copy=True) if to_cpu else tensor.clone())

    return keep


def _items(output: Any) -> list[Any]:
    if hasattr(output, "values"):
        return list(output.values())
    return list(output) if isinstance(output, tuple | list) else []


def _entry(output: Any, key: str) -> Any:
    if hasattr(output, "keys"):
        return dict(output).get(key)
    if isinstance(output, tuple | list) and key.lstrip("-").isdigit():
        return output[int(key)] if -len(output) <= int(key) < len(output) else None
    return getattr(output, key, None) if hasattr(output, "_fields") else None


def _entries(output: Any) -> str:
    if hasattr(output, "keys"):
        return ", ".join(map(str, output.keys()))
    return f"{len(output)} entries" if isinstance(output, tuple | list) else f"type {type(output).__name__}"


def _called(layer: str) -> str:
    return "the model" if layer == OUTPUT else f"layer {layer!r}"
