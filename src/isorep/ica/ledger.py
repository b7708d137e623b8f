"""What a fit has cost and reached so far, and where it can be taken up again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..representation import Array
from .white import WhiteRows

Report = Callable[[float, float, float], None]  # sweeps paid, contrast, share of the way still to go


@dataclass(frozen=True, eq=False)
class Kept:
    """A state to go on from."""

    stage: str
    arrays: dict[str, Array]
    facts: dict[str, Any]


class Keeper:
    """Keeps nothing; the checkpoint of a file does."""

    def load(self) -> Kept | None:
        """The state kept last, if any."""
        return None

    def due(self) -> bool:
        """Whether it is time to keep a state again."""
        return False

    def save(self, kept: Kept) -> None:
        """Keep a state."""


class Ledger:
    """Sweeps paid for, the contrast reached by them, and whom to tell."""

    def __init__(self, rows: WhiteRows, limit: float, report: Report | None = None) -> None:
        self.limit, self._report = limit, report
        self._cells = float(rows.n) * rows.width**2
        self.spent = 0.0
        self.path: list[tuple[float, float]] = []

    def pay(self, rows: WhiteRows, directions: int) -> None:
        """Count a sweep by its share of a full one."""
        self.spent += rows.n * rows.width * directions / self._cells

    def note(self, contrast: float, left: float) -> None:
        """Record the contrast, and the share of the way that is left: 1 at the start, 0 at the end."""
        self.path.append((self.spent, contrast))
        if self._report:
            self._report(self.spent, contrast, left)

    @property
    def exhausted(self) -> bool:
        """Whether the limit has been reached."""
        return self.spent >= self.limit

    def facts(self) -> dict[str, Any]:
        """What a checkpoint has to hold."""
        return {"spent": self.spent, "path": self.path}

    def restore(self, facts: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.spent, self.path = float(facts["spent"]), [(at, value) for at, value in facts["path"]]
