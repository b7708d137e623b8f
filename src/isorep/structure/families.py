r"""The families of scores that ``score_factors`` knows: how each is measured once, and again on other rows.

How far a score would move on other rows, and what it is where latents and factors have nothing in common.

Intervals come from random halves of the rows, or of the groups. The bootstrap draws rows twice, and a row that is its
own nearest neighbour ruins every estimate from neighbours; halves hold no row twice. They are compared with their own
mean, so that a bias which depends on the number of rows drops out. Rows that are held out stay so in every half.
Scores from binned information leave out one block of rows at a time instead: their bias changes too much in a half.
So do cross-validated scores of fewer than 40 groups, because half of those are too few to learn from; folds stay.

Chance levels and p-values come from shuffled pairings (:class:`isorep.resampling.Shuffles`). The observed score that a
p-value compares is measured as the shuffled ones are: on the same rows, with the same splits and tolerances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import Interval, Null, Shuffles, assign_blocks, jackknife_se, null_of, t_interval
from ..rows import Crew, blocks
from .columns import Columns, Pair
from .dci import measure_dci
from .explicitness import measure_explicitness
from .infomec import measure_infomec
from .mcc import measure_mcc
from .mig import measure_mig, measure_modularity
from .r2 import kernel_fit, linear_fit, measure_r2
from .sap import measure_sap
from .slots import measure_slots
from .splits import (
    FOLDS,
    KERNEL_ROWS,
    ROWS,
    few_for_halves,
    folds_of,
    half,
    halves_interval,
    held_out,
    looked_at,
    parted,
    recoded,
)

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

Tick = Callable[[], None]


def intervals(
    task: Task, measured: dict[str, Measured], n: int, rng: np.random.Generator, tick: Tick
) -> dict[str, Interval]:
    """The interval of every score that can have one, from halves or blocks of the rows that its family looked at."""
    found: dict[str, Interval] = {}
    for name, whole in measured.items():
        family = FAMILIES[name]
        least = {score: LEAST.get(score, 0.0) for score in whole.values}
        pair, groups = looked_at(task.pair, task.groups, family.rows, np.random.default_rng(task.seed))
        if family.leaves_out_blocks(groups):
            block_of = assign_blocks(pair.n, groups, rng)
            sizes = np.bincount(block_of)
            parts = [np.flatnonzero(block_of != block) for block in range(len(sizes))]
            fold_of = folds_of(pair.n, FOLDS, groups, np.random.default_rng(task.seed)) if family.folds else None
            left = _Parts(task, pair, groups, None, parts, fold_of)
            kept = [each for each in _measured(family, left, tick) if each]
            for score, value in whole.values.items() if len(kept) == len(sizes) else ():
                se = jackknife_se(np.array([each.values[score] for each in kept]), value, sizes)
                found[score] = t_interval(value, float(se), len(sizes), least=least[score], most=1.0)
            continue
        held = roles(task, family.rows)[1] if family.splits else None
        parts = [half(pair.n, groups, held, rng) for _ in range(family.halves(n))]
        draws = [each for each in _measured(family, _Parts(task, pair, groups, held, parts), tick) if each]
        for score, value in whole.values.items():
            values = [each.values[score] for each in draws]
            span = halves_interval(value, values, pair.n, groups, held, least=least[score])
            if span is not None:
                found[score] = span
    return found


def interval_steps(task: Task, families: Sequence[str], n: int) -> int:
    """How many measurements :func:`intervals` takes."""
    blocks = int(assign_blocks(task.pair.n, task.groups, np.random.default_rng(0)).max()) + 1
    each = [FAMILIES[name] for name in families]
    return sum(blocks if family.leaves_out_blocks(task.groups) else family.halves(n) for family in each)


@dataclass(frozen=True, eq=False)
class Chances:
    """The null of every score, the normalised mutual information of every shuffle, and what a reader should know."""

    nulls: dict[str, Null]
    tables: list[Array]
    notes: list[str]


def chances(task: Task, families: Sequence[str], n: int, rng: np.random.Generator, tick: Tick) -> Chances:
    """Every score on shuffled pairings of the rows that take part, beside the same rows in their real pairing."""
    nulls: dict[str, Null] = {}
    tables: list[Array] = []
    without: list[str] = []
    fewer: dict[int, list[str]] = {}
    shuffles = Shuffles(task.pair.n, task.groups)
    for name in families:
        family = FAMILIES[name]
        some = shuffles.thinned(family.null_rows, rng)
        latents = task.pair.latents.take(some.rows)
        groups = None if task.groups is None else recoded(task.groups[some.rows])
        partners = [some.rows, *(some.draw(rng) for _ in range(family.shuffles(n)))]
        observed, *drawn = _measured(family, _Pairings(task, latents, groups, partners), tick)
        draws = [each for each in drawn if each is not None]
        if observed is None or len(draws) < len(drawn):
            without.append(name)
            continue
        if len(some.rows) < len(shuffles.rows):
            fewer.setdefault(len(some.rows), []).append(name)
        for score, value in observed.values.items():
            values = np.array([each.values[score] for each in draws])
            nulls[score] = null_of(values, value, higher_is_closer=True, distinct=some.distinct)
        if name == "infomec":
            tables = [each.record.nmi for each in draws]
    notes = shuffles.notes(n)
    notes += [f"chance and p of {', '.join(names)} are those of {rows} random rows" for rows, names in fewer.items()]
    if without:
        notes.append(f"{', '.join(without)} have no chance level: too few rows can change places")
    return Chances(nulls, tables, notes)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Tasks of some of the rows, made when they are asked for."""

    task: Task
    pair: Pair
    groups: Array | None
    held: Array | None
    parts: list[Array]
    fold_of: Array | None = None

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, place: int) -> Task:
        rows = self.parts[place]
        groups = None if self.groups is None else recoded(self.groups[rows])
        held, fold_of = (None if each is None else each[rows] for each in (self.held, self.fold_of))
        return self.task.on(self.pair.take(rows), groups, warm=True, held=held, fold_of=fold_of)


@dataclass(frozen=True, eq=False)
class _Pairings:
    """Tasks of the same latents with factors of other rows, made when they are asked for."""

    task: Task
    latents: Columns
    groups: Array | None
    partners: list[Array]

    def __len__(self) -> int:
        return len(self.partners)

    def __getitem__(self, place: int) -> Task:
        return self.task.on(Pair(self.task.pair.factors.take(self.partners[place]), self.latents), self.groups)


def _measured(family: Family, tasks: _Parts | _Pairings, tick: Tick) -> Iterator[Measured | None]:
    """What a family finds in each task, one thread a core; None where rows are too few to hold any out."""

    def measure(place: slice) -> Measured | None:
        with suppress(InputError):
            return family.measure(tasks[place.start], True)
        return None

    turns = blocks(len(tasks), 1)
    if tasks.task.importance == "lasso":  # it silences warnings, which threads cannot do apart from each other
        for turn in turns:
            yield measure(turn)
            tick()
        return
    with Crew() as crew:
        for found in crew.stream(measure, turns):
            yield found
            tick()
