"""Fitted models in safetensors files: arrays and JSON, nothing to unpickle.

Files are not trusted: facts, types, shapes and values are checked before a model is made from them, and arrays that
exceed the machine's memory are not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..errors import InputError, MissingFileError
from ..files import behind_link, replacing, require_regular, require_short_header, require_writable
from ..representation import Array
from .scratch import memory_size

Facts = dict[str, Any]
Shapes = dict[str, tuple[str, tuple[int | None, ...]]]
"""The type and shape that each array must have, as safetensors spells types; None stands for any size."""

_MOST_BYTES = 2**32  # of arrays, where the amount of memory is unknown


def save_arrays(path: Path, arrays: dict[str, Array], facts: Facts) -> None:
    """Write arrays and facts, completely or not at all."""
    try:
        with replacing(path, apart=True) as temporary:
            save_file(arrays, temporary, metadata={"isorep": json.dumps(facts)})
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be written: {error}") from error


def require_model_path(path: str | Path, inputs: Sequence[str | Path] = (), noun: str = "model") -> Path:
    """The path of a model to write, links followed; invalid paths are refused before any work."""
    path = Path(path)
    if path.suffix.lower() != ".safetensors":
        raise InputError(f"{path} will hold a {noun}, so its name must end in .safetensors")
    path = behind_link(path)
    require_writable(path, inputs=inputs)
    require_regular(path)
    return path


class ModelFile:
    """A file that should hold a model of one format; any other contents are refused with one sentence."""

    def __init__(self, path: str | Path, wanted: str | Sequence[str], noun: str = "model") -> None:
        self.path = Path(path)
        self._wanted, self._noun = [wanted] if isinstance(wanted, str) else list(wanted), noun

    def read(self, check: Callable[[Facts], None], shapes: Callable[[Facts], Shapes]) -> tuple[Facts, dict[str, Array]]:
        """Facts that pass the check, and the arrays that these facts declare."""
        if not self.path.exists():
            raise MissingFileError(f"{self.path} does not exist")
        require_regular(self.path)
        require_short_header(self.path)
        try:
            with safe_open(self.path, "numpy") as file:
                facts = self._facts(file.metadata() or {})
                check(facts)
                self._check_arrays(file, shapes(facts))
                arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            self.refuse(str(error))
        for name, values in arrays.items():
            if not np.isfinite(values).all():
                self.refuse(f"its {name} are not finite")
        return facts, arrays

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error with what is wrong with the file."""
        raise InputError(f"{self.path} is not a {self._noun} that isorep saved, or it is damaged: {reason}")

    def require_counts(self, facts: Facts, *names: str) -> None:
        """Refuse facts that are not whole numbers from 1 on."""
        for name in names:
            if not is_count(facts.get(name)):
                self.refuse(f"its number of {name} is {str(facts.get(name))[:60]!r}")

    def _facts(self, metadata: dict[str, str]) -> Facts:
        try:
            facts = json.loads(metadata.get("isorep", "{}"))
        except (ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict) or facts.get("format") not in self._wanted:
            stated = facts.get("format") if isinstance(facts, dict) else None
            told = f"it says that it is {str(stated)[:60]!r}" if stated else "it does not say that it is one"
            self.refuse(told)
        return facts

    def _check_arrays(self, file: Any, wanted: Shapes) -> None:
        """All arrays are there, of the right type and shape, and small enough; none has been read yet."""
        there = set(file.keys())
        if there != set(wanted):
            missing, odd = sorted(set(wanted) - there), sorted(there - set(wanted))
            self.refuse(f"it lacks {', '.join(missing)}" if missing else f"it also holds {', '.join(odd)[:60]}")
        total = 0
        for name, (wanted_kind, sizes) in wanted.items():
            entry = file.get_slice(name)
            shape, kind = tuple(entry.get_shape()), str(entry.get_dtype())
            if kind != wanted_kind:
                self.refuse(f"its {name} have the type {kind}")
            first = shape[0] if shape else 0
            expected = tuple(first if size is None else size for size in sizes)
            if shape != expected:
                self.refuse(f"its {name} have the shape {shape} and not {expected}")
            total += int(np.prod(shape, dtype=object)) * 8
        if total > (memory_size() // 2 or _MOST_BYTES):
            raise InputError(f"{self.path} holds {total / 2**30:.1f} GiB of arrays, too much for this machine's memory")


def is_count(value: Any) -> bool:
    """Whether a fact is a whole number from 1 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
