"""A fit's state in a file, so that it can be interrupted and taken up again to the same answer.

The file is safetensors: arrays and JSON, nothing to unpickle. It belongs to one fit of one data set: a fingerprint of
the rows and the settings are kept in it, and anything else is refused.

Arrays come back in C order. A fit must therefore hold them in C order as well: BLAS may round a product of the same
numbers differently in another order.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..errors import InputError
from ..files import replacing, require_writable
from ..representation import Array
from .ledger import Keeper, Kept

_FORMAT = "isorep ica checkpoint 1"


class Checkpoint(Keeper):
    """The state of a fit in a file, written again every few seconds."""

    def __init__(self, path: str | Path, belongs: dict[str, Any], seconds: float = 5.0) -> None:
        self.path, self._belongs, self._seconds = Path(path), json.loads(json.dumps(belongs, default=_plain)), seconds
        self._last = time.monotonic()
        self.whitening: dict[str, Array] = {}
        require_writable(self.path)

    def load(self) -> Kept | None:
        """The state in the file, if there is one; a file of another fit or of other data is refused."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, "numpy") as file:
                facts = json.loads((file.metadata() or {}).get("isorep", "{}"))
                arrays = {name: np.array(file.get_tensor(name), order="C") for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, ValueError) as error:
            raise InputError(f"{self.path} is not a checkpoint: {error}") from None
        if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
            raise InputError(f"{self.path} is not a checkpoint of an ICA fit")
        belongs = facts.get("belongs")
        if not isinstance(belongs, dict) or not {"stage", "state"} <= facts.keys():
            raise InputError(f"{self.path} is a damaged checkpoint: remove it")
        for name, mine in self._belongs.items():
            theirs = belongs.get(name)
            if theirs != mine:
                what = "other data" if name == "fingerprint" else f"a fit with {name}={theirs!r}, not {mine!r}"
                raise InputError(f"{self.path} is the checkpoint of {what}: name another file, or remove it")
        self.whitening = {
            name.partition(".")[2]: arrays.pop(name) for name in list(arrays) if name.startswith("white.")
        }
        return Kept(facts["stage"], arrays, facts["state"])

    def due(self) -> bool:
        """Whether the last state is old enough."""
        return time.monotonic() - self._last >= self._seconds

    def save(self, kept: Kept) -> None:
        """Write the state to a temporary name, then rename."""
        facts = {"format": _FORMAT, "belongs": self._belongs, "stage": kept.stage, "state": kept.facts}
        arrays = kept.arrays | {f"white.{name}": values for name, values in self.whitening.items()}
        tensors = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
        try:
            with replacing(self.path) as temporary:
                save_file(tensors, temporary, metadata={"isorep": json.dumps(facts)})
        except SafetensorError as error:  # how safetensors reports a full disk
            raise InputError(f"{self.path} cannot be written: {error}") from error
        self._last = time.monotonic()

    def remove(self) -> None:
        """The fit is done."""
        self.path.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"a checkpoint cannot hold the setting {value!r}")
