"""Checkpoints of trainings: tensors by the prefix of their names, checked before they are used."""

from __future__ import annotations

from typing import Any

from ..checkpoint import Checkpoint
from ..errors import InputError
from .torch_tools import torch

__all__ = ["Checkpoint", "fitting", "part_of"]


def part_of(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def fitting(found: dict[str, Any], like: dict[str, Any], device: Any, count: int | None = None) -> dict[str, Any]:
    """Tensors that have the names, types and shapes of others (with ``count`` as their first size); else an error."""
    if set(found) != set(like):
        raise InputError("it holds other tensors")
    for name, value in found.items():
        shape = like[name].shape if count is None else torch.Size((count, *like[name].shape[1:]))
        if value.shape != shape or value.dtype != like[name].dtype:
            raise InputError(f"{name!r} has another shape or type")
    return {name: value.to(device) for name, value in found.items()}
