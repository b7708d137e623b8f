"""Checkpoint of a fit: its state in a file, so that an interrupted fit can resume with the same result.

The file is safetensors: arrays and JSON, nothing to unpickle. It belongs to one fit of one data set: it stores a
fingerprint of the rows and the settings, and is refused for any other fit.

Arrays are loaded in C order. A fit must therefore hold them in C order as well: BLAS may round a product of the same
numbers differently in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint as StateFile
from ..representation import Array
from ..results import plain
from .white import WhiteRows

Report = Callable[[float, float, float], None]  # sweeps done, contrast, share of the work remaining


@dataclass(frozen=True, eq=False)
class FitState:
    """A state from which a fit can resume."""

    stage: str
    arrays: dict[str, Array]
    facts: dict[str, Any]


class Keeper:
    """Base class of checkpoints, which stores nothing."""

    def load(self) -> FitState | None:
        """The last saved state, if any."""
        return None

    def due(self) -> bool:
        """Whether it is time to save a state again."""
        return False

    def save(self, kept: FitState) -> None:
        """Save a state."""

    def resuming(self) -> AbstractContextManager[None]:
        """Refuse a state with which the fit fails."""
        return nullcontext()


class Ledger:
    """Number of sweeps, the contrast reached, and the progress callback."""

    def __init__(self, rows: WhiteRows, limit: float, report: Report | None = None) -> None:
        self.limit, self._report = limit, report
        self._cells = float(rows.n) * rows.width**2
        self.spent = 0.0
        self.path: list[tuple[float, float]] = []

    def pay(self, rows: WhiteRows, directions: int) -> None:
        """Count a sweep by its share of a full one."""
        self.spent += rows.n * rows.width * directions / self._cells

    def note(self, contrast: float, left: float) -> None:
        """Record the contrast and the share of the work remaining: 1 at the start, 0 at the end."""
        self.path.append((self.spent, contrast))
        if self._report:
            self._report(self.spent, contrast, left)

    @property
    def exhausted(self) -> bool:
        """Whether the limit has been reached."""
        return self.spent >= self.limit

    def facts(self) -> dict[str, Any]:
        """The contents of a checkpoint."""
        return {"spent": self.spent, "path": self.path}

    def restore(self, facts: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.spent, self.path = float(facts["spent"]), [(at, value) for at, value in facts["path"]]


class _Held(dict[str, Any]):
    """What a file holds by name; what is missing makes it a damaged one."""

    def __init__(self, held: dict[str, Any], file: StateFile) -> None:
        super().__init__(held)
        self._file = file

    def __missing__(self, name: str) -> Any:
        raise self._file.damaged(f"it has no {name!r}")


class Checkpoint(Keeper):
    """The state of a fit in a file, written again every few seconds."""

    def __init__(self, path: str | Path, belongs: dict[str, Any], seconds: float = 5.0) -> None:
        self._file = StateFile(path, "fit", plain(belongs), seconds)
        self.path = self._file.path
        self.whitening: dict[str, Array] = {}

    def load(self) -> FitState | None:
        """The state in the file, if there is one; a file of another fit or of other data is refused."""
        kept = self._file.load()
        if kept is None:
            return None
        facts, arrays = kept
        if not {"stage", "facts"} <= facts.keys() or not isinstance(facts["facts"], dict):
            raise self._file.damaged("its facts are incomplete")
        arrays = {name: np.array(values, order="C") for name, values in arrays.items()}
        self.whitening = {
            name.partition(".")[2]: arrays.pop(name) for name in list(arrays) if name.startswith("white.")
        }
        return FitState(facts["stage"], _Held(arrays, self._file), _Held(facts["facts"], self._file))

    def resuming(self) -> AbstractContextManager[None]:
        """Refuse the file if the fit that was resumed from it fails."""
        return self._file.resuming()

    def due(self) -> bool:
        """Whether the last state is old enough."""
        return self._file.due()

    def save(self, kept: FitState) -> None:
        """Write the state to a temporary name, then rename."""
        arrays = kept.arrays | {f"white.{name}": values for name, values in self.whitening.items()}
        tensors = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
        self._file.save({"stage": kept.stage, "facts": kept.facts}, tensors)

    def remove(self) -> None:
        """Remove the file after the fit."""
        self.path.unlink(missing_ok=True)
