"""Rows to train on, and the rows of each step: a stateless function of seed and step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from .evaluation import torch

_MASK = 2**64 - 1
INITIAL, ORDER, NOISE, MEASURE = range(4)
"""Purposes of random numbers: weights, order of rows, the loss, validation."""


class Rows:
    """A tensor, or a tuple, list or dict of tensors, with one row per example."""

    def __init__(self, data: Any, device: Any, name: str = "data") -> None:
        self.tensors = _map(lambda part: _placed(part, device, name), data)
        parts = _parts(self.tensors)
        if not parts:
            raise InputError(f"{name} holds no tensor")
        counts = {int(part.shape[0]) for part in parts}
        if len(counts) > 1:
            raise InputError(f"the parts of {name} have {' and '.join(map(str, sorted(counts)))} rows: give equal ones")
        self.count = counts.pop()
        if self.count < 1:
            raise InputError(f"{name} has no rows")

    def __getitem__(self, rows: Any) -> Any:
        return _map(lambda part: part[rows], self.tensors)

    def fingerprint(self) -> str:
        """A digest of shapes, types and up to 4096 rows: whether a checkpoint is of the same data."""
        digest = hashlib.blake2b(digest_size=16)
        places = np.unique(np.linspace(0, self.count - 1, 4096).astype(np.int64))
        for part in _parts(self.tensors):
            digest.update(f"{tuple(part.shape)} {part.dtype}".encode())
            sample = part[torch.from_numpy(places).to(part.device)].cpu().contiguous()
            digest.update(sample.view(torch.uint8).numpy().tobytes() if sample.numel() else b"")
        return digest.hexdigest()


class Order:
    """The rows of each of several models at a step."""

    def __init__(self, rows: int, batch: int | None) -> None:
        self._rows, self._batch = rows, batch
        self.whole = batch is None or batch >= rows
        self.an_epoch = 1 if self.whole else -(-rows // int(batch or 1))
        self._known: dict[int, tuple[int, Any]] = {}

    def at(self, seeds: Sequence[int], step: int) -> Any:
        """Row numbers, one line per model."""
        epoch, place = divmod(step, self.an_epoch)
        size = self._batch or self._rows
        return torch.stack([self._epoch(seed, epoch)[place * size : (place + 1) * size] for seed in seeds])

    def _epoch(self, seed: int, epoch: int) -> Any:
        known = self._known.get(seed)
        if known is None or known[0] != epoch:
            shuffled = torch.randperm(self._rows, generator=generator(seed, ORDER, epoch))
            self._known[seed] = known = (epoch, shuffled)
        return known[1]


def generator(seed: int, purpose: int, place: int = 0, device: Any = "cpu") -> Any:
    """A source of random numbers that depends on these numbers alone."""
    return torch.Generator(device=device).manual_seed(mixed(seed, purpose, place))


def mixed(*numbers: int) -> int:
    """One seed of many numbers (the finaliser of splitmix64, folded over them)."""
    state = 0
    for number in numbers:
        state = (state + (number & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1


def stacked(batches: Sequence[Any]) -> Any:
    """Batches of the same structure, one under the other in a new first dimension."""
    first = batches[0]
    if isinstance(first, dict):
        return {name: stacked([batch[name] for batch in batches]) for name in first}
    if isinstance(first, tuple | list):
        return type(first)(stacked([batch[place] for batch in batches]) for place in range(len(first)))
    return torch.stack(list(batches))


def _map(function: Any, data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _map(function, part) for name, part in data.items()}
    if isinstance(data, tuple | list):
        return type(data)(_map(function, part) for part in data)
    return function(data)


def _parts(data: Any) -> list[Any]:
    found: list[Any] = []
    _map(found.append, data)
    return found


def _placed(part: Any, device: Any, name: str) -> Any:
    if not isinstance(part, np.ndarray | torch.Tensor):
        raise InputError(f"{name} holds {type(part).__name__} where an array or a tensor is needed")
    if isinstance(part, np.ndarray):
        if part.dtype.kind not in "fiub":
            raise InputError(f"{name} holds {part.dtype} where numbers are needed")
        part = torch.from_numpy(np.ascontiguousarray(part))
    if part.dim() < 1:
        raise InputError(f"{name} is a single number where rows are needed")
    if part.is_floating_point() and not bool(torch.isfinite(part).all()):
        raise InputError(f"{name} holds values that are not finite")
    return part.detach().to(device)
