"""Recipe of a training, as plain settings: groups of parameters, learning rates, clipping, when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from ..errors import InputError
from ..results import plain
from ..settings import check_choice, check_counts

KINDS = ("constant", "cosine", "linear", "step")


@dataclass(frozen=True)
class Schedule:
    r"""The learning rate over the steps, as a factor of each group's own.

    Parameters
    ----------
    kind : {"constant", "cosine", "linear", "step"}
        ``cosine`` and ``linear`` fall to ``floor`` at the last step, ``step`` is multiplied at each milestone.
    warmup : int
        Steps over which the rate first rises linearly.
    start : float
        The share of all steps after which ``cosine`` and ``linear`` begin to fall.
    floor : float
        The factor at the end.
    milestones : tuple of float
        Shares of all steps at which ``step`` multiplies by ``factor``.
    factor : float

    Examples
    --------
    >>> [Schedule("step", milestones=(0.5,)).at(step, 10) for step in (4, 5)]
    [1.0, 0.1]
    """

    kind: str = "constant"
    warmup: int = 0
    start: float = 0.0
    floor: float = 0.0
    milestones: tuple[float, ...] = (0.5,)
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_choice("schedule", self.kind, KINDS)
        if self.warmup < 0 or not 0 <= self.start < 1 or not 0 <= self.floor <= 1:
            raise InputError("a schedule has warmup >= 0, start from 0 to below 1 and floor from 0 to 1")

    def at(self, step: int, total: int) -> float:
        """The factor of a step, counted from zero, of so many."""
        rise = min(1.0, (step + 1) / (self.warmup + 1)) if self.warmup else 1.0
        if self.kind == "step":
            return rise * self.factor ** sum(step >= share * total for share in self.milestones)
        begin = max(self.warmup, self.start * total)
        if self.kind == "constant" or step < begin:
            return rise
        done = (step - begin) / max(total - begin, 1)
        left = 0.5 * (1 + math.cos(math.pi * done)) if self.kind == "cosine" else 1 - done
        return rise * (self.floor + (1 - self.floor) * left)


@dataclass(frozen=True)
class Group:
    """Parameters with the same optimiser settings.

    Parameters
    ----------
    optimiser : str or callable
        ``adam``, ``adamw``, ``sgd``, ``rmsprop``, ``orthogonal_adam`` (see
        :class:`isorep.models.orthogonal.OrthogonalAdam`), or ``factory(parameters, lr=..., **options)``.
    learning_rate : float
        Peak learning rate; the schedule multiplies it.
    names : tuple of str
        Patterns such as ``"*.bias"``. Each parameter belongs to the first group with a pattern that fits its name.
    options : mapping
        Further arguments of the optimiser, such as ``{"weight_decay": 0.1}``.
    clip_norm : float, optional
        The gradient's norm over the group's parameters of one model is at most this.
    clip_value : float, optional
        Each entry of the gradient is at most this in size.
    """

    optimiser: str | Callable[..., Any] = "adam"
    learning_rate: float = 1e-3
    names: tuple[str, ...] = ("*",)
    options: Mapping[str, Any] = field(default_factory=dict)
    clip_norm: float | None = None
    clip_value: float | None = None

    def __post_init__(self) -> None:
        for what in ("learning_rate", "clip_norm", "clip_value"):
            value = getattr(self, what)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{what} is {value}: it must be above zero")

    def holds(self, name: str) -> bool:
        """Whether a parameter of that name fits one of the patterns."""
        return any(fnmatchcase(name, pattern) for pattern in self.names)


@dataclass(frozen=True)
class EarlyStopping:
    """Stop a model when its loss has not fallen by more than ``min_delta`` for ``patience`` records in a row.

    ``on`` is the ``training`` loss, averaged since the last record, or the ``validation`` loss. With ``restore`` the
    weights of the best record are given back, otherwise those of the last step.
    """

    patience: int = 50
    min_delta: float = 0.0
    on: str = "training"
    restore: bool = False

    def __post_init__(self) -> None:
        if self.patience < 1 or not self.min_delta >= 0:
            raise InputError("early stopping has a patience of at least 1 and min_delta of at least 0")
        check_choice("on", self.on, ("training", "validation"))


@dataclass(frozen=True)
class Recipe:
    """Everything about a training that is not the model, the data, the loss or the seed.

    Parameters
    ----------
    epochs, steps : int
        Largest number of epochs or of steps; one of the two.
    batch : int, optional
        Rows of a step, drawn without replacement within an epoch (the last step of an epoch takes what is left); by
        default all rows at once.
    groups : Group or tuple of Group
        Optimiser settings of parameters; default: Adam for all.
    schedule : Schedule
    stop : EarlyStopping, optional
    record_every : int, optional
        Steps between records (loss, validation, early stopping); default: one epoch.
    """

    epochs: int | None = None
    steps: int | None = None
    batch: int | None = None
    groups: Group | tuple[Group, ...] = (Group(),)
    schedule: Schedule = Schedule()
    stop: EarlyStopping | None = None
    record_every: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.groups, Group):
            object.__setattr__(self, "groups", (self.groups,))
        if (self.epochs is None) == (self.steps is None):
            raise InputError("a recipe has either epochs or steps")
        counts = {name: getattr(self, name) for name in ("epochs", "steps", "batch", "record_every")}
        check_counts(**{name: (value, 1) for name, value in counts.items() if value is not None})

    def steps_an_epoch(self, rows: int) -> int:
        """The number of steps per epoch."""
        return 1 if self.batch is None else -(-rows // self.batch)

    def all_steps(self, rows: int) -> int:
        """The largest number of steps."""
        return self.steps if self.steps is not None else int(self.epochs or 0) * self.steps_an_epoch(rows)

    def facts(self) -> dict[str, Any]:
        """The settings as plain data; a checkpoint must have the same."""
        groups = [
            plain(group)
            | {
                "optimiser": group.optimiser if isinstance(group.optimiser, str) else spelt(group.optimiser),
                "options": {name: repr(value) for name, value in sorted(group.options.items())},
            }
            for group in self.all_groups
        ]
        told: dict[str, Any] = plain(replace(self, groups=()))
        return told | {"groups": groups}

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The groups, also where one was given."""
        return self.groups if isinstance(self.groups, tuple) else (self.groups,)


def spelt(function: Any) -> str:
    """The full name of a function."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
