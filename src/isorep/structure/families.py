"""The families of scores that ``score_factors`` knows: how each is measured once, and again on other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..representation import Array
from .binned import measure_mig, measure_modularity
from .dci import measure_dci
from .explicitness import measure_explicitness
from .infomec import measure_infomec
from .matching import measure_mcc
from .pairs import Pair
from .regression import kernel_fit, linear_fit, measure_r2
from .separated import measure_sap
from .slots import measure_slots
from .splits import KERNEL_ROWS, ROWS, few_for_halves, held_out, looked_at, parted

NULL_ROWS = 10_000
"""Chance levels and p-values look at so many random rows at most."""
FEW_SHUFFLES = 20
"""Slow families are measured on so many shuffles, unless many more are asked for."""
_ROUGH = 1e-4  # tolerance of regressions that are repeated: far below how much replicates differ


@dataclass(eq=False)
class Task:
    """What is measured: columns, groups, and the settings that families share.

    ``held`` says which rows are held out, and ``fold_of`` in which fold, where that was decided before; ``starts`` are
    kept between calls.
    """

    pair: Pair
    groups: Array | None
    seed: int
    threshold: str
    n_neighbors: int
    importance: str
    slots: tuple[list[int], list[int]] | None
    starts: dict[str, Array] | None = None
    held: Array | None = None
    fold_of: Array | None = None

    def on(
        self,
        pair: Pair,
        groups: Array | None,
        *,
        warm: bool = False,
        held: Array | None = None,
        fold_of: Array | None = None,
    ) -> Task:
        """The same of other rows; warm ones begin where this one ended."""
        starts = dict(self.starts or {}) if warm else None
        return replace(self, pair=pair, groups=groups, starts=starts, held=held, fold_of=fold_of)


@dataclass(frozen=True, eq=False)
class Measured:
    """Values by name, and the complete record."""

    values: dict[str, float]
    record: Any


@dataclass(frozen=True)
class Family:
    """A family of scores.

    ``rows`` is the most that it looks at, ``null_rows`` the most that are shuffled; ``splits`` ones hold a fifth out,
    and ``slow`` ones are measured again less often. Intervals of ``blocks`` ones leave out blocks of rows: plug-in
    estimates of information are so biased that half of the rows say little about the spread of all. ``folds`` ones are
    cross-validated, and leave out groups, each row in its fold, where half of the groups are too few to learn from.
    """

    outputs: tuple[str, ...]
    measure: Callable[[Task, bool], Measured]
    rows: int | None = None
    null_rows: int = NULL_ROWS
    splits: bool = False
    slow: bool = False
    blocks: bool = False
    folds: bool = False

    def leaves_out_blocks(self, groups: Array | None) -> bool:
        """Whether intervals leave out blocks of these rows, and not halves."""
        return self.blocks or (self.folds and few_for_halves(groups))

    def halves(self, n: int) -> int:
        """How many halves are measured where n are asked for."""
        return -(-n // 2) if self.slow else n

    def shuffles(self, n: int) -> int:
        """How many shuffles are measured where n are asked for."""
        return min(n, max(FEW_SHUFFLES, n // 5)) if self.slow else n


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
    return Measured({"infom": found.infom, "infoe": found.infoe, "infoc": found.infoc}, found)


def _dci(task: Task, again: bool) -> Measured:
    found = measure_dci(*_split(task), importance=task.importance)
    values = {
        "dci_disentanglement": found.disentanglement,
        "dci_completeness": found.completeness,
        "dci_informativeness": found.informativeness,
    }
    return Measured(values, found)


def _mig(task: Task, again: bool) -> Measured:
    found = measure_mig(task.pair)
    return Measured({"mig": found.value}, found)


def _modularity(task: Task, again: bool) -> Measured:
    found = measure_modularity(task.pair)
    return Measured({"modularity": found.value}, found)


def _sap(task: Task, again: bool) -> Measured:
    found = measure_sap(*_split(task))
    return Measured({"sap": found.value}, found)


def _explicitness(task: Task, again: bool) -> Measured:
    found = measure_explicitness(*_split(task))
    return Measured({"explicitness": found.value}, found)


def _mcc(task: Task, again: bool) -> Measured:
    pearson, spearman = (
        measure_mcc(task.pair, correlation=kind, groups=task.groups, random_state=task.seed, fold_of=task.fold_of)
        for kind in ("pearson", "spearman")
    )
    values = {"mcc": pearson.value, "mcc_held_out": pearson.held_out, "mcc_spearman": spearman.value}
    return Measured(values, pearson)


def _linear_r2(task: Task, again: bool) -> Measured:
    found = measure_r2(task.pair, linear_fit, groups=task.groups, random_state=task.seed, fold_of=task.fold_of)
    return Measured({"linear_r2": found.value}, found)


def _kernel_r2(task: Task, again: bool) -> Measured:
    pair, groups = looked_at(task.pair, task.groups, KERNEL_ROWS, np.random.default_rng(task.seed))
    found = measure_r2(pair, kernel_fit, groups=groups, random_state=task.seed, fold_of=task.fold_of)
    return Measured({"kernel_r2": found.value}, found)


def _slots(task: Task, again: bool) -> Measured:
    true, inferred = task.slots or ([], [])
    pair, held = roles(task, KERNEL_ROWS)
    found = measure_slots(pair.factors.matrix, pair.latents.matrix, true, inferred, held, rows=None)
    return Measured({"sis": found.value}, found)


def _split(task: Task) -> tuple[Pair, Pair]:
    return parted(*roles(task, ROWS))


def roles(task: Task, rows: int | None) -> tuple[Pair, Array]:
    """The rows that a family which holds rows out looks at, and which of them are held out."""
    if task.held is not None:
        return task.pair, task.held
    rng = np.random.default_rng(task.seed)
    pair, groups = looked_at(task.pair, task.groups, rows, rng)
    return pair, held_out(pair.n, groups, rng)


FAMILIES: dict[str, Family] = {
    "infomec": Family(("infom", "infoe", "infoc"), _infomec, null_rows=ROWS),
    "dci": Family(
        ("dci_disentanglement", "dci_completeness", "dci_informativeness"),
        _dci,
        rows=ROWS,
        null_rows=KERNEL_ROWS,
        splits=True,
        slow=True,
    ),
    "mig": Family(("mig",), _mig, blocks=True),
    "sap": Family(("sap",), _sap, rows=ROWS, null_rows=KERNEL_ROWS, splits=True),
    "modularity": Family(("modularity",), _modularity, blocks=True),
    "explicitness": Family(("explicitness",), _explicitness, rows=ROWS, null_rows=KERNEL_ROWS, splits=True),
    "mcc": Family(("mcc", "mcc_held_out", "mcc_spearman"), _mcc, folds=True),
    "linear_r2": Family(("linear_r2",), _linear_r2, folds=True),
    "kernel_r2": Family(("kernel_r2",), _kernel_r2, rows=KERNEL_ROWS, null_rows=KERNEL_ROWS // 2, folds=True),
    "slots": Family(("sis",), _slots, rows=KERNEL_ROWS, null_rows=KERNEL_ROWS // 2, splits=True),
}
"""Every family, in the order they are shown."""

OUTPUTS = {name: family for family, each in FAMILIES.items() for name in each.outputs}
"""The family of every score."""

LEAST = {"mcc_held_out": -1.0, "sis": -1.0}
"""Scores that may be negative; the others run from 0 to 1."""
