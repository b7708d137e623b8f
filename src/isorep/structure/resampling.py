r"""How far a score would move on other rows, and what it is where latents and factors have nothing in common.

Intervals come from random halves of the rows, or of the groups. The bootstrap draws rows twice, and a row that is its
own nearest neighbour ruins every estimate from neighbours; halves hold no row twice. They are compared with their own
mean, so that a bias which depends on the number of rows drops out. Rows that are held out stay so in every half.

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
from ..resampling import Interval, Null, Shuffles, null_of
from ..rows import Crew, blocks
from .columns import Columns
from .families import FAMILIES, LEAST, Family, Measured, Task, roles
from .pairs import Pair
from .splits import half, halves_interval, looked_at, recoded

Tick = Callable[[], None]


def intervals_by_halves(
    task: Task, measured: dict[str, Measured], n: int, rng: np.random.Generator, tick: Tick
) -> dict[str, Interval]:
    """The interval of every score that can have one, from random halves of the rows that its family looked at."""
    found: dict[str, Interval] = {}
    for name, whole in measured.items():
        family = FAMILIES[name]
        pair, groups = looked_at(task.pair, task.groups, family.rows, np.random.default_rng(task.seed))
        held = roles(task, family.rows)[1] if family.splits else None
        parts = [half(pair.n, groups, held, rng) for _ in range(family.halves(n))]
        draws = [each for each in _measured(family, _Halves(task, pair, groups, held, parts), tick) if each]
        for score, value in whole.values.items():
            values = [each.values[score] for each in draws]
            span = halves_interval(value, values, pair.n, groups, held, least=LEAST.get(score, 0.0))
            if span is not None:
                found[score] = span
    return found


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
class _Halves:
    """Tasks of some of the rows, made when they are asked for."""

    task: Task
    pair: Pair
    groups: Array | None
    held: Array | None
    parts: list[Array]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, place: int) -> Task:
        rows = self.parts[place]
        groups = None if self.groups is None else recoded(self.groups[rows])
        return self.task.on(
            self.pair.take(rows), groups, warm=True, held=None if self.held is None else self.held[rows]
        )


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


def _measured(family: Family, tasks: _Halves | _Pairings, tick: Tick) -> Iterator[Measured | None]:
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
