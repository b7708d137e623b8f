"""The families of scores that ``score_factors`` knows: how each is measured once, and again on other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..representation import Array
from ..resampling import Interval
from .binned import measure_mig, measure_modularity
from .dci import measure_dci
from .explicitness import measure_explicitness
from .infomec import measure_infomec
from .matching import measure_mcc
from .pairs import Pair
from .regression import R2, kernel_fit, linear_fit, measure_r2
from .separated import measure_sap
from .slots import measure_slots
from .splits import KERNEL_ROWS, ROWS, held_out, looked_at, split

_ROUGH = 1e-4  # tolerance of regressions that are repeated: far below how much replicates differ


@dataclass(eq=False)
class Task:
    """What is measured: columns, groups, and the settings that families share. ``starts`` are kept between calls."""

    pair: Pair
    groups: Array | None
    seed: int
    threshold: str
    n_neighbors: int
    importance: str
    slots: tuple[list[int], list[int]] | None
    starts: dict[str, Array] | None = None

    def on(self, pair: Pair, groups: Array | None, *, warm: bool) -> Task:
        """The same of other rows; warm ones begin where this one ended."""
        starts = dict(self.starts or {}) if warm else None
        return Task(pair, groups, self.seed, self.threshold, self.n_neighbors, self.importance, self.slots, starts)


@dataclass(frozen=True, eq=False)
class Measured:
    """Values by name, the complete record, and intervals that the family knows itself."""

    values: dict[str, float]
    record: Any
    intervals: dict[str, Interval]


@dataclass(frozen=True)
class Family:
    """A family of scores; ``rows`` is the most that it looks at, and ``slow`` ones are measured again half as often."""

    outputs: tuple[str, ...]
    measure: Callable[[Task, bool], Measured]
    rows: int | None = None
    own_interval: bool = False
    slow: bool = False

    def draws(self, n: int) -> int:
        """How often it is measured again where n is asked for."""
        return -(-n // 2) if self.slow else n


def _infomec(task: Task, again: bool) -> Measured:
    if not again and task.starts is None:
        task.starts = {}
    found = measure_infomec(
        task.pair,
        threshold=task.threshold,
        n_neighbors=task.n_neighbors,
        random_state=task.seed,
        tolerance=_ROUGH if again else 1e-5,
        starts=task.starts,
    )
    return Measured({"infom": found.infom, "infoe": found.infoe, "infoc": found.infoc}, found, {})


def _dci(task: Task, again: bool) -> Measured:
    found = measure_dci(*_split(task), importance=task.importance)
    values = {
        "dci_disentanglement": found.disentanglement,
        "dci_completeness": found.completeness,
        "dci_informativeness": found.informativeness,
    }
    return Measured(values, found, {})


def _mig(task: Task, again: bool) -> Measured:
    found = measure_mig(task.pair)
    return Measured({"mig": found.value}, found, {})


def _modularity(task: Task, again: bool) -> Measured:
    found = measure_modularity(task.pair)
    return Measured({"modularity": found.value}, found, {})


def _sap(task: Task, again: bool) -> Measured:
    found = measure_sap(*_split(task))
    return Measured({"sap": found.value}, found, {})


def _explicitness(task: Task, again: bool) -> Measured:
    found = measure_explicitness(*_split(task))
    return Measured({"explicitness": found.value}, found, {})


def _mcc(task: Task, again: bool) -> Measured:
    pearson, spearman = (
        measure_mcc(task.pair, correlation=kind, groups=task.groups, random_state=task.seed)
        for kind in ("pearson", "spearman")
    )
    values = {"mcc": pearson.value, "mcc_held_out": pearson.held_out, "mcc_spearman": spearman.value}
    return Measured(values, pearson, {})


def _linear_r2(task: Task, again: bool) -> Measured:
    found = measure_r2(task.pair, linear_fit, groups=task.groups, random_state=task.seed, interval=not again)
    return _with_interval("linear_r2", found)


def _kernel_r2(task: Task, again: bool) -> Measured:
    pair, groups = looked_at(task.pair, task.groups, KERNEL_ROWS, np.random.default_rng(task.seed))
    found = measure_r2(pair, kernel_fit, groups=groups, random_state=task.seed, interval=not again)
    return _with_interval("kernel_r2", found)


def _slots(task: Task, again: bool) -> Measured:
    true, inferred = task.slots or ([], [])
    pair, groups = looked_at(task.pair, task.groups, KERNEL_ROWS, np.random.default_rng(task.seed))
    held = held_out(pair.n, groups, np.random.default_rng(task.seed))
    found = measure_slots(pair.factors.matrix, pair.latents.matrix, true, inferred, held, rows=None)
    return Measured({"sis": found.value}, found, {})


def _with_interval(name: str, found: R2) -> Measured:
    return Measured({name: found.value}, found, {} if found.interval is None else {name: found.interval})


def _split(task: Task) -> tuple[Pair, Pair]:
    return split(task.pair, task.groups, ROWS, np.random.default_rng(task.seed))


FAMILIES: dict[str, Family] = {
    "infomec": Family(("infom", "infoe", "infoc"), _infomec),
    "dci": Family(("dci_disentanglement", "dci_completeness", "dci_informativeness"), _dci, rows=ROWS, slow=True),
    "mig": Family(("mig",), _mig),
    "sap": Family(("sap",), _sap, rows=ROWS),
    "modularity": Family(("modularity",), _modularity),
    "explicitness": Family(("explicitness",), _explicitness, rows=ROWS),
    "mcc": Family(("mcc", "mcc_held_out", "mcc_spearman"), _mcc),
    "linear_r2": Family(("linear_r2",), _linear_r2, own_interval=True),
    "kernel_r2": Family(("kernel_r2",), _kernel_r2, rows=KERNEL_ROWS, own_interval=True),
    "slots": Family(("sis",), _slots, rows=KERNEL_ROWS),
}
"""Every family, in the order they are shown."""

OUTPUTS = {name: family for family, each in FAMILIES.items() for name in each.outputs}
"""The family of every score."""

LEAST = {"mcc_held_out": -1.0, "sis": -1.0}
"""Scores that may be negative; the others run from 0 to 1."""
