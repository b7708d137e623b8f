"""Splitting a network at a layer: what the layer puts out, and the rest as a function of it.

The layer's output is replaced by a forward hook, so that any module can be split at any submodule that is called once
and returns one tensor. Where other paths lead past the layer (residual connections), the rest also depends on the
input: each example has a rest of its own, with its own input held fixed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Representation
from ..rows import blocks
from .prepare import failed, import_torch

if TYPE_CHECKING:
    import torch
    from torch import nn

BATCH = 256
_JACOBIAN_BYTES = 2**28


@dataclass(frozen=True, eq=False)
class Split:
    """A network split at ``layer``; the rest ends at ``to``, or at the output where that is None."""

    network: nn.Module
    layer: str
    to: str | None

    def rest(self, values: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """The flattened output of the rest where the layer puts out ``values`` for these inputs."""
        caught: list[Any] = []
        layer = self.network.get_submodule(self.layer)
        # A copy, as later layers may work in place.
        hooks = [layer.register_forward_hook(lambda _m, _i, _o: values.clone())]
        if self.to is not None:
            end = self.network.get_submodule(self.to)
            hooks.append(end.register_forward_hook(lambda _m, _i, out: caught.append(out.clone())))
        try:
            found = self.network(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        if self.to is not None:
            found = caught[0]
        return found.reshape(len(values), -1)  # type: ignore[no-any-return]


def require_network(network: Any, what: str) -> nn.Module:
    """A torch module, or the error that says so."""
    torch = import_torch("splitting a network")
    if not isinstance(network, torch.nn.Module):
        raise InputError(f"{what} is a {type(network).__name__}: a torch module is needed")
    return network  # type: ignore[no-any-return]


def in_single(network: nn.Module) -> nn.Module:
    """The network, or a copy in float32 of one in half precision, whose Jacobians would be mostly rounding."""
    import torch

    half = any(each.dtype in (torch.float16, torch.bfloat16) for each in network.parameters())
    return copy.deepcopy(network).float() if half else network


def as_inputs(inputs: Any, network: nn.Module) -> torch.Tensor:
    """Inputs as a tensor on the network's device and in its precision; whole numbers stay whole."""
    import torch

    if isinstance(inputs, Representation):
        inputs = inputs.values[:]
    given = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(np.asarray(inputs))
    if given.dim() == 0 or len(given) < 3:
        raise InputError(f"inputs have shape {tuple(given.shape)}: at least 3 rows are needed")
    if not given.dtype.is_floating_point:
        if given.dtype in (torch.int64, torch.int32, torch.uint8):
            return given.to(next((each.device for each in network.parameters()), given.device))
        raise InputError(f"inputs are of type {given.dtype}: numbers are needed")
    if not bool(torch.isfinite(given).all()):
        raise InputError("inputs hold values that are not finite")
    like = next((each for each in network.parameters() if each.dtype.is_floating_point), None)
    return given if like is None else given.to(device=like.device, dtype=like.dtype)


def default_layers(network: nn.Module, inputs: torch.Tensor) -> tuple[list[str], list[str]]:
    """The layers to split at, in the order of execution, and those that were left out with the reason.

    Children of a ``Sequential``; of any other network, all modules without children. What changes nothing (dropout
    and identities) and what is called several times or returns no single tensor is left out.
    """
    import torch

    plain = (torch.nn.Identity, torch.nn.Dropout, torch.nn.Flatten, torch.nn.Dropout1d, torch.nn.Dropout2d)
    if isinstance(network, torch.nn.Sequential):
        candidates = [name for name, _ in network.named_children()]
    else:
        candidates = [name for name, part in network.named_modules() if name and not any(part.children())]
    named = [name for name in candidates if not isinstance(network.get_submodule(name), plain)]
    calls = _calls(network, inputs[:2], named)
    order = sorted((name for name in named if calls[name]), key=lambda name: calls[name][0][0])
    kept = [name for name in order if _reason(calls[name], 2) is None]
    left = [f"{name}: {_reason(calls[name], 2)}" for name in order if name not in kept]
    return kept, left


def require_layers(network: nn.Module, inputs: torch.Tensor, names: Sequence[str], what: str) -> None:
    """Refuse layers that the network does not have, or that cannot be split at."""
    known = {name for name, _ in network.named_modules() if name}
    for name in names:
        if name not in known:
            raise InputError(f"{what} has no layer {name!r}: it has {', '.join(sorted(known)[:20])}")
    calls = _calls(network, inputs[:2], names)
    for name in names:
        reason = _reason(calls[name], 2)
        if reason is not None:
            raise InputError(f"{what} cannot be split at {name!r}: {reason}")


def layer_outputs(network: nn.Module, inputs: torch.Tensor, names: Sequence[str]) -> tuple[dict[str, Any], Any]:
    """Every layer's output for all inputs, as tensors in their own shape, and the network's output."""
    import torch

    parts: dict[str, list[Any]] = {name: [] for name in names}
    ends = []
    with torch.no_grad():
        for batch in blocks(len(inputs), BATCH):
            with _listening(network, parts):
                ends.append(_tensor(network(inputs[batch])))
    return {name: torch.cat(outputs) for name, outputs in parts.items()}, torch.cat(ends)


def rest_jacobians(split: Split, values: torch.Tensor, inputs: torch.Tensor) -> Iterator[Array]:
    """Jacobians of the rest at each row, (r, outputs, width) in float64, some rows at a time; one pull an output."""
    import torch

    with torch.no_grad():
        outputs = int(split.rest(values[:1], inputs[:1]).shape[1])
    width = int(values[0].numel())
    size = max(1, min(BATCH, _JACOBIAN_BYTES // (8 * outputs * width)))
    for batch in blocks(len(values), size):
        z = values[batch].detach().clone().requires_grad_(True)
        with torch.enable_grad():
            rest = split.rest(z, inputs[batch])
            block = np.zeros((len(z), outputs, width))
            for index in range(outputs if rest.requires_grad else 0):
                total, more = rest[:, index].sum(), index + 1 < outputs
                (pulled,) = torch.autograd.grad(total, z, retain_graph=more, allow_unused=True)
                if pulled is not None:
                    block[:, index] = pulled.reshape(len(z), -1).double().cpu().numpy()
        yield block


def passes_by(split: Split, values: torch.Tensor, inputs: torch.Tensor) -> bool:
    """Whether the rest depends on the input beside the layer's output: a path leads past the layer."""
    import torch

    few = min(len(values), 16)
    with torch.no_grad():
        own = split.rest(values[:few], inputs[:few])
        other = split.rest(values[:few], inputs[:few].flip(0))
    scale = float(own.abs().max()) or 1.0
    return bool((own - other).abs().max() > 1e-5 * scale)


def require_rows(network: nn.Module, inputs: torch.Tensor, what: str) -> None:
    """Refuse a network whose rows influence each other, or that draws at random: its Jacobians mean nothing."""
    import torch

    with torch.no_grad():
        together, again = (_tensor(network(inputs[:3])) for _ in range(2))
        alone = _tensor(network(inputs[:1]))
    scale = float(together.abs().max()) or 1.0
    if not bool((together - again).abs().max() <= 1e-3 * scale):
        raise InputError(f"{what} gives another output for the same inputs when called again: it draws at random")
    if not bool((together[:1] - alone).abs().max() <= 1e-3 * scale):
        raise InputError(f"the output of {what} for a row depends on the other rows of the batch")


def _calls(network: nn.Module, inputs: torch.Tensor, names: Sequence[str]) -> dict[str, list[tuple[int, Any]]]:
    """What each layer returned at each call, with the order of the calls."""
    import torch

    seen: dict[str, list[tuple[int, Any]]] = {name: [] for name in names}
    order = count()
    hooks = [
        network.get_submodule(name).register_forward_hook(
            lambda _m, _i, out, calls=seen[name]: calls.append((next(order), out))
        )
        for name in names
    ]
    try:
        with torch.no_grad():
            _tensor(network(inputs))
    except InputError:
        raise
    except Exception as error:  # whatever the user's network raises
        raise failed(error, f"the network fails on inputs of shape {tuple(inputs.shape[1:])}") from error
    finally:
        for each in hooks:
            each.remove()
    return seen


@contextmanager
def _listening(network: nn.Module, into: dict[str, list[Any]]) -> Iterator[None]:
    hooks = [
        network.get_submodule(name).register_forward_hook(
            lambda _m, _i, out, found=found: found.append(out.detach().clone())
        )
        for name, found in into.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _reason(calls: list[tuple[int, Any]], rows: int) -> str | None:
    """Why a layer cannot be split at; None where it can."""
    import torch

    if len(calls) != 1:
        return f"it is called {len(calls)} times for one input, so its output cannot be replaced by one tensor"
    output = calls[0][1]
    if not isinstance(output, torch.Tensor):
        return f"it returns a {type(output).__name__}, where one tensor is needed"
    if not output.dtype.is_floating_point or output.dim() < 2 or len(output) != rows:
        return f"its output has shape {tuple(output.shape)} for {rows} rows: rows must come first"
    return None


def _tensor(output: Any) -> torch.Tensor:
    import torch

    if not isinstance(output, torch.Tensor):
        raise InputError(f"the network returns a {type(output).__name__}: wrap it so that it returns one tensor")
    return output
