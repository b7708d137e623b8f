"""Checkpoints: the state of a long computation in a safetensors file, arrays and JSON, nothing to unpickle.

A file belongs to one computation: it stores the settings and a fingerprint of the data, and is refused for any other
computation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InputError
from .files import replacing, require_regular, require_short_header, require_writable


def digest(facts: dict[str, Any], arrays: dict[str, Any]) -> str:
    """A hash of facts and arrays: a damaged state would resume to another result without a word."""
    total = blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {tuple(array.shape)} {str(array.dtype).removeprefix('torch.')}".encode())
        if hasattr(array, "detach"):
            flat = array.detach().cpu().contiguous().reshape(-1)
            array = flat.view(import_module("torch").uint8).numpy()
        held: Any = np.ascontiguousarray(array).reshape(-1)
        total.update(memoryview(held).cast("B") if array.size else b"")
    return total.hexdigest()


LONGEST_SHOWN = 60  # characters of two settings that differ


class Checkpoint:
    """A file that is rewritten every few seconds; ``kind`` is the kind of computation, such as ``training``.

    ``library`` is that of the arrays: ``numpy`` or ``torch``.
    """

    def __init__(
        self, path: str | Path, kind: str, belongs: dict[str, Any], seconds: float, library: str = "numpy"
    ) -> None:
        self.path, self._kind, self._seconds, self._library = Path(path), kind, seconds, library
        self._format = f"isorep {kind} checkpoint 2"
        self._belongs = json.loads(json.dumps(belongs))
        self._last = time.monotonic()
        self._resumed = False
        require_writable(self.path)

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Facts and arrays, if there is a file; that of another computation is refused."""
        from safetensors import SafetensorError, safe_open

        require_regular(self.path)
        try:
            require_short_header(self.path)
            with safe_open(self.path, self._library) as file:
                facts = json.loads((file.metadata() or {}).get("isorep", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError:
            return None
        except (SafetensorError, ValueError, RecursionError) as error:
            raise InputError(f"{self.path} is not a checkpoint: {error}") from None
        if not isinstance(facts, dict) or facts.get("format") != self._format:
            raise InputError(f"{self.path} is not a checkpoint of a {self._kind}")
        belongs, state = facts.get("belongs"), facts.get("state")
        if not isinstance(belongs, dict) or not isinstance(state, dict):
            raise self.damaged("its facts are incomplete")
        if facts.get("digest") != digest(state, arrays):
            raise self.damaged("its contents have changed since they were written")
        for name, mine in self._belongs.items():
            if belongs.get(name) != mine:
                other = self._other(name, belongs.get(name), mine)
                raise InputError(f"{self.path} is the checkpoint of {other}: name another file, or remove it")
        self._resumed = True
        return state, arrays

    @contextmanager
    def resuming(self) -> Iterator[None]:
        """Name the file if the computation that was resumed from it fails: anybody may have written the state.

        Other reasons, such as a device that has no memory left, are possible, too.
        """
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if not self._resumed or isinstance(error, InputError):
                raise
            why = " ".join(str(error).split())[:200] or type(error).__name__
            told = f"the {self._kind} that was resumed from {self.path} failed ({why})"
            raise InputError(f"{told}: remove this checkpoint if it is damaged") from error

    def _other(self, name: str, theirs: Any, mine: Any) -> str:
        """The computation that a file belongs to, in words; long settings are not shown."""
        if name == "fingerprint":
            return "other data"
        if len(f"{theirs!r}{mine!r}") > LONGEST_SHOWN:
            return f"a {self._kind} with another {name.replace('_', ' ')}"
        return f"a {self._kind} with {name}={theirs!r}, not {mine!r}"

    def damaged(self, why: object) -> InputError:
        """The error for a file of this computation whose contents do not fit."""
        return InputError(f"{self.path} is a damaged checkpoint ({why}): remove it")

    def due(self) -> bool:
        """Whether the last state is old enough."""
        return time.monotonic() - self._last >= self._seconds

    def save(self, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write the state to a temporary name, then rename; arrays lie in memory, in C order."""
        from safetensors import SafetensorError

        described = {"format": self._format, "belongs": self._belongs, "state": facts}
        text = json.dumps({**described, "digest": digest(json.loads(json.dumps(facts)), arrays)})
        try:
            with replacing(self.path, apart=True) as temporary:
                import_module(f"safetensors.{self._library}").save_file(arrays, temporary, metadata={"isorep": text})
        except SafetensorError as error:  # how safetensors reports a full disk
            raise InputError(f"{self.path} cannot be written: {error}") from error
        self._last = time.monotonic()
