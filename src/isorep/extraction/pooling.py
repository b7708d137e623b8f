"""From a layer's output to rows: each position a row, or pooled over positions, or flattened.

Outputs of three axes are sequences (examples, positions, channels), those of four and more are maps
(examples, channels, positions...), as convolutions make them; ``channels`` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..models.evaluation import import_torch
from ..settings import check_choice

if TYPE_CHECKING:
    import torch

POOLS = ("mean", "max", "first", "last", "token", "flatten")
CHANNELS = ("auto", "first", "last")
_CHANNELS_FIRST = (
    "Conv1d",
    "ConvTranspose1d",
    "LazyConv1d",
    "BatchNorm1d",
    "InstanceNorm1d",
    "MaxPool1d",
    "AvgPool1d",
    "LPPool1d",
    "AdaptiveAvgPool1d",
    "AdaptiveMaxPool1d",
)
_CHANNELS_LAST = ("Linear", "LayerNorm", "Embedding", "RNN", "LSTM", "GRU", "MultiheadAttention")


@dataclass(frozen=True)
class Pooled:
    """Rows of one batch, and how many positions of each example they are; pooled ones are one each."""

    rows: torch.Tensor
    counts: tuple[int, ...]


def require_pool(pool: str, channels: str) -> None:
    """Refuse a way of pooling that is not known."""
    check_choice("pool", pool, POOLS)
    check_choice("channels", channels, CHANNELS)


def channels_first(module: Any, axes: int, channels: str) -> bool:
    """Whether the second axis of a layer's output holds channels."""
    if channels != "auto":
        return channels == "first"
    return axes >= 4 or type(module).__name__ in _CHANNELS_FIRST


def ambiguous(model: Any, module: Any, axes: int, channels: str) -> bool:
    """Whether a layer of three axes may have its channels first, as the convolutions of its model have."""
    if channels != "auto" or axes != 3 or type(module).__name__ in (*_CHANNELS_FIRST, *_CHANNELS_LAST):
        return False
    return any(type(each).__name__ in _CHANNELS_FIRST for each in model.modules())


def pooled(output: torch.Tensor, pool: str, first: bool, mask: torch.Tensor | None, layer: str) -> Pooled:
    """Rows of one batch; ``mask`` tells real positions of sequences from padding."""
    torch = import_torch("extraction")
    if output.dim() < 2:
        raise InputError(f"layer {layer!r} gives {tuple(output.shape)}: one row an example is needed")
    n = len(output)
    if output.layout != torch.strided:
        raise InputError(f"layer {layer!r} gives a sparse tensor: name another layer")
    if not output.is_floating_point():
        raise InputError(f"layer {layer!r} gives {output.dtype}, not floating-point values")
    if output.dim() == 2:
        return Pooled(output, (1,) * n)
    if mask is not None and (first or output.dim() != 3 or output.shape[1] != mask.shape[1]):
        if pool == "flatten" and bool(mask.all()):
            mask = None
        else:
            raise InputError(
                f"layer {layer!r} gives {tuple(output.shape)}, which are not the {mask.shape[1]} positions of the input"
            )
    if pool == "flatten":
        if mask is not None and not bool(mask.all()):
            raise InputError(f"layer {layer!r} cannot be flattened: sequences differ in length")
        return Pooled(output.reshape(n, -1), (1,) * n)
    sequences = output.flatten(2).transpose(1, 2) if first else output.flatten(1, -2)
    real = torch.ones(sequences.shape[:2], dtype=torch.bool, device=output.device) if mask is None else mask.bool()
    lengths = real.sum(dim=1)
    if pool == "token":
        return Pooled(sequences[real], tuple(lengths.tolist()))
    return Pooled(_reduced(sequences, real, pool), (1,) * n)


def _reduced(sequences: torch.Tensor, real: torch.Tensor, pool: str) -> torch.Tensor:
    torch = import_torch("extraction")
    lengths = real.sum(dim=1)
    if pool == "max":
        return sequences.masked_fill(~real[..., None], -torch.inf).amax(dim=1)
    if pool == "mean":
        # Half precision sums of long sequences lose digits, so sums are taken in float32 at least.
        wide = torch.promote_types(sequences.dtype, torch.float32)
        total = (sequences.to(wide) * real[..., None]).sum(dim=1)
        return total / lengths[:, None]
    each = torch.arange(len(sequences), device=sequences.device)
    places = real.int().argmax(dim=1) if pool == "first" else real.shape[1] - 1 - real.flip(1).int().argmax(dim=1)
    return sequences[each, places]
