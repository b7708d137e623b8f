"""What happened during a training: losses, learning rates and seconds at every record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..results import plain


@dataclass(frozen=True)
class History:
    """The records of one training.

    Attributes
    ----------
    steps : tuple of int
        Steps done at each record.
    training : tuple of float
        Mean training loss since the record before.
    validation : tuple of float
        Validation loss; empty without validation rows.
    learning_rate : tuple of float
        Of the first group, at the last step before the record.
    seconds : tuple of float
        Since the start, over all runs of an interrupted training. Models that are trained together share it.
    parts : dict of str to tuple of float
        Mean of the other entries of a loss that returns a dict.
    evaluations : tuple of (int, dict)
        What the evaluation hook returned, with the step.
    """

    steps: tuple[int, ...] = ()
    training: tuple[float, ...] = ()
    validation: tuple[float, ...] = ()
    learning_rate: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    parts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    evaluations: tuple[tuple[int, dict[str, Any]], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        told = {name: plain(value) for name, value in vars(self).items()}
        return told | {"evaluations": [{"step": step, "values": values} for step, values in self.evaluations]}


class Log:
    """A history that is being written, with what early stopping needs to know."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._parts: dict[str, list[float]] = {}
        self._evaluations: list[tuple[int, dict[str, Any]]] = []
        self.best: float | None = None
        self.waited = 0
        self.ended: str | None = None

    def record(
        self, step: int, training: float, validation: float | None, rate: float, seconds: float, parts: dict[str, float]
    ) -> None:
        """Add a record."""
        row = (step, training, validation, rate, seconds)
        for name, value in zip(_COLUMNS, row, strict=True):
            if value is not None:
                self._columns[name].append(value)
        for name, value in parts.items():
            self._parts.setdefault(name, []).append(value)

    def evaluation(self, step: int, values: dict[str, Any]) -> None:
        """Add what the hook returned."""
        self._evaluations.append((step, values))

    def improved(self, loss: float, min_delta: float) -> bool:
        """Whether a loss is the best so far by more than ``min_delta``; otherwise one more record was waited."""
        better = self.best is None or loss < self.best - min_delta
        self.best, self.waited = (loss, 0) if better else (self.best, self.waited + 1)
        return better

    def history(self) -> History:
        """The records so far."""
        return History(
            **{name: tuple(values) for name, values in self._columns.items()},
            parts={name: tuple(values) for name, values in self._parts.items()},
            evaluations=tuple(self._evaluations),
        )

    def facts(self) -> dict[str, Any]:
        """Everything as plain data."""
        return self.history().to_dict() | {"best": self.best, "waited": self.waited, "ended": self.ended}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Log:
        """The log again; anything else than what ``facts`` gives is refused."""
        log = cls()
        for name in _COLUMNS:
            log._columns[name] = [_number(value) for value in _list(facts[name])]
        log._columns["steps"] = [int(step) for step in log._columns["steps"]]
        log._parts = {str(name): [_number(value) for value in _list(found)] for name, found in facts["parts"].items()}
        for each in _list(facts["evaluations"]):
            if not isinstance(each["values"], dict):
                raise InputError("an evaluation is not a dict")
            log._evaluations.append((int(each["step"]), each["values"]))
        log.best = None if facts["best"] is None else _number(facts["best"])
        log.waited = int(facts["waited"])
        if facts["ended"] not in (None, *ENDS):
            raise InputError(f"a training does not end as {facts['ended']!r}")
        log.ended = facts["ended"]
        return log


ENDS = ("done", "early", "diverged")
_COLUMNS = ("steps", "training", "validation", "learning_rate", "seconds")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError("a list is missing")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{value!r} is not a number")
    return float(value)
