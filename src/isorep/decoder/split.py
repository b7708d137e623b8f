"""Network split at a layer: the layer's output, and the rest as a function of it.

The layer's output is replaced by a forward hook, so that any module can be split at any submodule that is called once
and returns one tensor. Where other paths lead past the layer (residual connections), the rest also depends on the
input: each example has a rest of its own, with its own input held fixed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import first_line, hooked, import_torch, known_to_torch
from ..representation import Array, Representation
from ..rows import blocks
from .prepare import KINKS, require_alike

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
        caught: dict[str, list[Any]] = {} if self.to is None else {self.to: []}
        # A copy, as later layers may work in place.
        replaced = self.network.get_submodule(self.layer).register_forward_hook(lambda _m, _i, _o: values.clone())
        with hooked([replaced]), _listening(self.network, caught):
            output = self.network(inputs)
        end = output if self.to is None else caught[self.to][0]
        return end.reshape(len(values), -1)  # type: ignore[no-any-return]


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
    given = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(known_to_torch(np.asarray(inputs)))
    if given.dim() == 0 or len(given) < 3:
        raise InputError(f"inputs have shape {tuple(given.shape)}: at least 3 rows are needed")
    floating = given.dtype.is_floating_point
    if not floating and given.dtype not in (torch.int64, torch.int32, torch.uint8):
        raise InputError(f"inputs are of type {given.dtype}: numbers are needed")
    if not bool(torch.isfinite(given).all()):
        raise InputError("inputs hold values that are not finite")
    like = next((each for each in network.parameters() if each.dtype.is_floating_point), given)
    return given.to(device=like.device, dtype=like.dtype if floating else given.dtype)


def default_layers(network: nn.Module, inputs: torch.Tensor) -> tuple[list[str], list[str]]:
    """The layers to split at, in the order of execution, and those that were left out with the reason.

    Children of a ``Sequential``; of any other network, all modules without children. Modules without effect (dropout
    and identities) and modules that are called several times or do not return a single tensor are left out.
    """
    import torch

    plain = (torch.nn.Identity, torch.nn.Dropout, torch.nn.Flatten, torch.nn.Dropout1d, torch.nn.Dropout2d)
    if isinstance(network, torch.nn.Sequential):
        candidates = [name for name, _ in network.named_children()]
    else:
        candidates = [name for name, part in network.named_modules() if name and not any(part.children())]
    named = [name for name in candidates if not isinstance(network.get_submodule(name), plain)]
    reasons = _reasons(network, inputs[:2], named)
    left_out = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    return [name for name, reason in reasons.items() if not reason], left_out


def require_layers(network: nn.Module, inputs: torch.Tensor, names: Sequence[str], what: str) -> None:
    """Refuse layers that the network does not have, or that cannot be split at."""
    known = {name for name, _ in network.named_modules() if name}
    for name in names:
        if name not in known:
            raise InputError(f"{what} has no layer {name!r}: it has {', '.join(sorted(known)[:20])}")
    reasons = _reasons(network, inputs[:2], names)
    for name in names:
        if reason := reasons.get(name, "it is not called"):
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
    """Jacobians of the rest at each row, (r, outputs, width) in float64, some rows at a time; one pull per output."""
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
    """Whether the rest depends on the input other than through the layer: a path leads past the layer."""
    import torch

    few = min(len(values), 16)
    with torch.no_grad():
        own = split.rest(values[:few], inputs[:few])
        other = split.rest(values[:few], inputs[:few].flip(0))
    scale = float(own.abs().max()) or 1.0
    return bool((own - other).abs().max() > 1e-5 * scale)


def kinks_of(split: Split, values: torch.Tensor, inputs: torch.Tensor) -> tuple[str, ...]:
    """The steps of the rest that have no derivative somewhere, also those on paths past the layer."""
    import torch

    with torch.enable_grad():
        end = split.rest(values[:1].detach().clone().requires_grad_(True), inputs[:1])
    operators = {operator.replace("_", ""): kink for kink, names in KINKS.items() for operator in names}
    found, seen, ahead = set(), set(), [end.grad_fn]
    while ahead:
        step = ahead.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        ahead += [before for before, _ in step.next_functions]
        found.add(operators.get(step.name().split("Backward")[0].replace("_", "").lower(), ""))
    return tuple(sorted(found - {""}))


def require_rows(network: nn.Module, inputs: torch.Tensor, what: str) -> None:
    """Refuse a network whose rows influence each other, or whose output is random: its Jacobians are meaningless."""
    import torch

    with torch.no_grad():
        together, again, alone = (_tensor(network(inputs[:rows])) for rows in (3, 3, 1))
    require_alike(together, again, alone, what)


def _reasons(network: nn.Module, inputs: torch.Tensor, names: Sequence[str]) -> dict[str, str]:
    """Why each layer that is called cannot be split at, in the order of execution; empty where it can."""
    import torch

    calls: dict[str, list[Any]] = {}
    handles = (
        network.get_submodule(name).register_forward_hook(
            lambda _m, _i, out, name=name: calls.setdefault(name, []).append(out)
        )
        for name in names
    )
    with torch.no_grad(), hooked(handles):
        try:
            output = network(inputs)
        except Exception as error:  # whatever the user's network raises
            said = f"the network fails on inputs of shape {tuple(inputs.shape[1:])}"
            raise InputError(f"{said}: {first_line(error)}") from error
    _tensor(output)
    return {name: _reason(outputs, len(inputs)) for name, outputs in calls.items()}


def _listening(network: nn.Module, into: dict[str, list[Any]]) -> AbstractContextManager[None]:
    """Keep a copy of each layer's output, also of steps that work in place."""
    return hooked(
        network.get_submodule(name).register_forward_hook(
            lambda _m, _i, out, outputs=outputs: outputs.append(out.clone())
        )
        for name, outputs in into.items()
    )


def _reason(outputs: list[Any], rows: int) -> str:
    """Why a layer with these outputs, one per call, cannot be split at; empty where it can."""
    import torch

    output = outputs[0]
    if len(outputs) > 1:
        return f"it is called {len(outputs)} times for one input, so its output cannot be replaced by one tensor"
    if not isinstance(output, torch.Tensor):
        return f"it returns a {type(output).__name__}, where one tensor is needed"
    if not output.dtype.is_floating_point or output.dim() < 2 or len(output) != rows:
        return f"its output has shape {tuple(output.shape)} for {rows} rows: rows must come first"
    return ""


def _tensor(output: Any) -> torch.Tensor:
    import torch

    if not isinstance(output, torch.Tensor):
        raise InputError(f"the network returns a {type(output).__name__}: wrap it so that it returns one tensor")
    return output
