"""The state of a training in a file: tensors and JSON in one safetensors file, nothing to unpickle."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import replacing, require_writable
from .torch_tools import torch

_FORMAT = "isorep training checkpoint 1"


class Checkpoint:
    """A file that is written again every few seconds, and that belongs to one training of one data set."""

    def __init__(self, path: str | Path, belongs: dict[str, Any], seconds: float) -> None:
        self.path, self._seconds = Path(path), seconds
        self._belongs = json.loads(json.dumps(belongs))
        self._last = time.monotonic()
        require_writable(self.path)

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Facts and tensors, if there is a file; that of another training is refused."""
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, "pt") as file:
                facts = json.loads((file.metadata() or {}).get("isorep", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, ValueError, RecursionError) as error:
            raise InputError(f"{self.path} is not a checkpoint: {error}") from None
        if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
            raise InputError(f"{self.path} is not a checkpoint of a training")
        belongs, state = facts.get("belongs"), facts.get("state")
        if not isinstance(belongs, dict) or not isinstance(state, dict):
            raise self.damaged("its facts are incomplete")
        for name, mine in self._belongs.items():
            if belongs.get(name) != mine:
                raise InputError(
                    f"{self.path} is the checkpoint of a training with another {name.replace('_', ' ')}: "
                    "name another file, or remove it"
                )
        return state, tensors

    def damaged(self, why: object) -> InputError:
        """The error for a file that says it belongs here and does not fit."""
        return InputError(f"{self.path} is a damaged checkpoint ({why}): remove it")

    def due(self) -> bool:
        """Whether the last state is old enough."""
        return time.monotonic() - self._last >= self._seconds

    def save(self, facts: dict[str, Any], tensors: dict[str, Any]) -> None:
        """Write the state to a temporary name, then rename."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        text = json.dumps({"format": _FORMAT, "belongs": self._belongs, "state": facts})
        plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        try:
            with replacing(self.path) as temporary:
                save_file(plain, temporary, metadata={"isorep": text})
        except SafetensorError as error:  # how safetensors reports a full disk
            raise InputError(f"{self.path} cannot be written: {error}") from error
        self._last = time.monotonic()


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
