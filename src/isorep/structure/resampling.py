r"""How far a score would move on other rows, and what it is where latents and factors have nothing in common.

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
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import Interval, Null, Shuffles, assign_blocks, jackknife_se, null_of, t_interval
from ..rows import Crew, blocks
from .columns import Columns
from .families import FAMILIES, LEAST, Family, Measured, Task, roles
from .pairs import Pair
from .splits import FOLDS, folds_of, half, halves_interval, looked_at, recoded

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
