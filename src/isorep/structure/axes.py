r"""Random axes (Haar rotations): a null for scores that claim aligned axes.

Shuffled rows test whether latents inform about the factors. Scores that claim aligned axes have a second chance level:
the same information in arbitrary axes. The active continuous latents are whitened symmetrically (ZCA of their
correlation matrix, which moves axes least), scored, rotated uniformly at random, and scored again: with
:math:`X=U S V'` the standardised latents, these are :math:`UV'` and :math:`UQV'` (times :math:`\sqrt n`), Q uniform in
the orthogonal group. Discrete latents do not change. For whitened latents that are a random rotation of others, every
p-value is uniform.

Whether one factor is alone in one latent is tested in the same way: :func:`axes_p_values`. There numeric discrete
latents are rotated too, because rounded latents may be rotated ones; the frequency of each value is then restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import ortho_group

from ..representation import Array
from ..resampling import Null, null_of
from .columns import Column, Columns, Pair, drawn_in, standardised
from .families import ALIGNED, FAMILIES, Levels, Task, Tick, known_entropies, outcomes_of
from .infomec import active_latents
from .splits import recoded

METHOD = "random axes"
_PLANE = 45 / 20  # degrees within which random axes of two latents come in one of twenty draws
RANK = 1e-5
"""Directions of the standardised latents with less of the largest spread are rounding."""
NOTABLE = 0.05
"""A cell links a factor and a latent if it exceeds this share of the information in its row and column."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The null of every aligned score under random axes, and for each factor by name the p-value of its own latent.

    A factor has none where the latent that knows most about it holds text, or is the only one. ``planes`` says of
    factors in two latents by what angle these can be told from random ones.
    """

    nulls: dict[str, Null]
    p_values: dict[str, float]
    notes: list[str]
    planes: dict[str, str] = field(default_factory=dict)


class Basis:
    """Latents in whitened axes, to be rotated: active continuous ones; active discrete ones are kept unchanged.

    With ``codes`` numeric discrete ones are rotated as well, and get their values again by rank.
    """

    def __init__(self, latents: Columns, active: Array, codes: bool = False) -> None:
        self._latents = latents.only(np.flatnonzero(active))
        self._turned = [
            index for index, column in enumerate(self._latents) if not (column.text if codes else column.discrete)
        ]
        self.rank = 0
        self.names = tuple(self._latents.names[index] for index in self._turned)
        if self._turned:
            values = np.column_stack([drawn_in(self._latents[index].values) for index in self._turned])
            left, sizes, right = np.linalg.svd(standardised(values), full_matrices=False)
            self.rank = int(np.sum(sizes > RANK * sizes[0]))
            self._left, self._right = left[:, : self.rank] * np.sqrt(len(left)), right[: self.rank]

    def columns(self, turn: Array) -> Columns:
        """The latents in turned axes."""
        values = self._left @ (turn @ self._right)
        columns = list(self._latents)
        for index, each in zip(self._turned, values.T, strict=True):
            old = columns[index]
            columns[index] = Column(old.name, _ranked(each, old) if old.discrete else each, old.discrete, "whitened")
        return replace(self._latents, columns=tuple(columns))

    def turn(self, seed: Sequence[int] | None) -> Array:
        """A rotation drawn uniformly, or none."""
        if seed is None:
            return np.eye(self.rank)
        return np.asarray(ortho_group.rvs(self.rank, random_state=np.random.default_rng(seed)))

    def explained(self, factors: Columns, turns: Iterable[Array]) -> list[Array]:
        """Factors by turned latents, for every turn: squared correlations, or correlation ratios of discrete factors.

        Both are sums of squares of means that turn with the latents, so that no row is looked at twice.
        """
        means = []
        for factor in factors:
            if factor.discrete:
                counts = np.bincount(factor.codes)
                label = factor.codes[:, None] == np.arange(len(counts))
                means.append(label.T @ self._left / np.sqrt(counts[:, None] * len(self._left)))
            else:
                means.append(standardised(drawn_in(factor.values)[:, None]).T @ self._left / len(self._left))
        starts = np.cumsum([0, *(len(each) for each in means[:-1])])
        stacked = np.vstack(means)
        return [np.add.reduceat((stacked @ turn @ self._right) ** 2, starts, axis=0) for turn in turns]


def steps(families: Iterable[str], n: int, pair: Pair) -> int:
    """The number of measurements of :func:`random_axes`."""
    return sum(1 + FAMILIES[name].shuffles(n, pair) for name in _asked(families))


def random_axes(
    task: Task, families: Sequence[str], n: int, rows: dict[str, Array], levels: Levels | None, tick: Tick
) -> Axes:
    """Every aligned score of the whitened latents and of random rotations of them, on the rows that were shuffled."""
    active = active_latents(task.pair.latents, task.threshold)
    nulls: dict[str, Null] = {}
    p_values: dict[str, float] = {}
    planes: dict[str, str] = {}
    asked = [name for name in _asked(families) if name in rows]
    notes = []
    if asked and Basis(task.pair.latents, active).rank < 2:
        notes = ["no random-axes null: fewer than two continuous latents are active"]
    for place, name in enumerate(asked):
        family = FAMILIES[name]
        part = task.pair.take(rows[name])
        if name == "infomec" and levels is not None:
            known = known_entropies(task, rows[name])
            p_values |= _by_code(task, part, active, levels, family.shuffles(n, task.pair), known, planes)
        basis = Basis(part.latents, active)
        if basis.rank < 2:
            continue
        groups = None if task.groups is None else recoded(task.groups[rows[name]])
        same = replace(task, groups=groups, starts=None, explicit=False)
        if name == "infomec":
            same = replace(same, known=known_entropies(task, rows[name]))
        seeds = [None, *((task.seed, place, draw) for draw in range(family.shuffles(n, task.pair)))]
        tasks = [partial(_turned, same, part.factors, basis, seed) for seed in seeds]
        found = [each for each in outcomes_of(family, task, tasks, tick) if each is not None]
        if len(found) < len(tasks):
            continue
        if name == "infomec" and levels is not None:
            for each in found:
                each.values["infom"] = levels.infom(each.record)
            p_values |= _by_factor(same, part, active, levels, seeds, [each.record.nmi for each in found], planes)
        for score in family.outputs:
            if score in ALIGNED:
                observed, *draws = [each.values[score] for each in found]
                nulls[score] = null_of(draws, observed, higher_is_closer=True, method=METHOD)
    return Axes(nulls, p_values, notes, planes)


def axes_p_values(*kinds: Array) -> Array:
    r"""P-value of each factor for having a latent of its own, against random axes.

    Each kind is a statistic, tables by factors: :func:`alone` of information, or of squared correlations. The first
    table is that of the latents, the others those of random axes. A factor's p-value is the larger of two: its own,
    from the better rank of all kinds, and one for all factors together, from the better rank of their standardised
    statistics' means and maxima; ties are broken by the mean of all. In arbitrary axes *any* factor is below 0.05
    in at most one of twenty cases.
    """
    own, together = [], []
    for statistic in kinds:
        spread = statistic.std(axis=0)
        scaled = (statistic - statistic.mean(axis=0)) / np.where(spread > 1e-12, spread, np.inf)
        own.append([_ranks(column) for column in scaled.T])
        together += [_ranks(scaled.mean(axis=1)), _ranks(scaled.max(axis=1))]
    gate = _first(np.array(together))
    return np.array([max(gate, _first(ranks)) for ranks in np.moveaxis(np.array(own), 1, 0)])


def alone(table: Array, least: Array | float = 0.0) -> Array:
    r"""How far each factor is alone in a latent: the product of two shares of its best cell, of its row and column.

    .. math:: \max_j\,N_{ij}^2\Big/\Bigl(\sum_kN_{ik}+c_i\Bigr)\Bigl(\sum_kN_{kj}+c_i\Bigr)

    with c the chance level, without which nearly uninformative latents have large shares.
    """
    best = table.argmax(axis=1)
    cells = table[np.arange(len(table)), best]
    totals = (table.sum(axis=1) + least) * (table.sum(axis=0)[best] + least)
    return np.asarray(np.where(totals > 0, cells**2 / np.where(totals > 0, totals, 1.0), 0.0))


def _ranks(values: Array) -> Array:
    """How many of the values are at least as large as each, up to rounding."""
    return np.asarray((values[None, :] >= values[:, None] - 1e-9).sum(axis=1))


def _first(ranks: Array) -> float:
    """The share of tables whose best rank is as good as that of the first; ranks are statistics by tables."""
    order = ranks.min(axis=0) + ranks.mean(axis=0) / (ranks.shape[1] + 1)
    return float(np.mean(order <= order[0] + 1e-9))


def _by_factor(
    task: Task,
    part: Pair,
    active: Array,
    levels: Levels,
    seeds: Sequence[Sequence[int] | None],
    tables: list[Array],
    planes: dict[str, str],
) -> dict[str, float]:
    """The p-value of each factor with information above chance whose best latent is continuous.

    Latents and factors that share little information with the others are tested once more among themselves: two factors
    that are rotated in a plane are far from random axes of many latents.
    """
    informed = np.where(levels.significant & active, levels.nmi, 0.0)
    factors = np.flatnonzero(informed.max(axis=1) > 0)
    if not len(factors):
        return {}
    whole, sources = Basis(part.latents, active), part.factors.only(factors)
    found = _compared(sources, whole, seeds, [each[factors] for each in tables], levels.least[factors], planes)
    p_values = dict(zip(factors.tolist(), found.tolist(), strict=True))
    continuous = np.array([not column.discrete for column in part.latents])
    for mine, theirs in _linked(informed):
        latents = theirs[continuous[theirs]]
        if len(latents) < 2 or len(latents) == int(np.sum(active & continuous)):
            continue
        basis, sources = Basis(part.latents.only(latents), active[latents]), part.factors.only(mine)
        if basis.rank < 2:
            continue
        same = replace(task, known=None if task.known is None else task.known[mine])
        others = [None, *((task.seed, len(FAMILIES), int(latents[0]), draw) for draw in range(len(tables) - 1))]
        tasks = [partial(_turned, same, sources, basis, seed) for seed in others]
        some = [each.record.nmi for each in outcomes_of(FAMILIES["infomec"], task, tasks, lambda: None) if each]
        found = _compared(sources, basis, others, some, levels.least[mine], planes)
        for index, p in zip(mine.tolist(), found.tolist(), strict=True):
            p_values[index] = max(p_values[index], p)
    best = informed.argmax(axis=1)
    return {part.factors.names[i]: p for i, p in p_values.items() if continuous[best[i]]}


def _by_code(
    task: Task, part: Pair, active: Array, levels: Levels, n: int, known: Array, planes: dict[str, str]
) -> dict[str, float]:
    """The p-value of each factor that is known above chance and best by a discrete latent of numbers."""
    informed = np.where(levels.significant & active, levels.nmi, 0.0)
    numbers = np.array([not column.text for column in part.latents]) & active
    codes = np.array([column.discrete for column in part.latents]) & numbers
    wanted = (informed.max(axis=1) > 0) & codes[informed.argmax(axis=1)]
    everything = (np.flatnonzero(informed.max(axis=1) > 0), np.arange(len(part.latents)))
    p_values: dict[str, float] = {}
    asked: set[tuple[int, ...]] = set()
    for mine, theirs in [everything, *_linked(informed)]:
        latents = theirs[numbers[theirs]]
        if not wanted[mine].any() or tuple(latents) in asked:
            continue
        asked.add(tuple(latents))
        basis, sources = Basis(part.latents.only(latents), active[latents], codes=True), part.factors.only(mine)
        if basis.rank < 2:
            continue
        same = replace(task, groups=None, starts=None, explicit=False, known=known[mine])
        seeds = [None, *((task.seed, 1 + len(FAMILIES), int(latents[0]), draw) for draw in range(n))]
        tasks = [partial(_turned, same, sources, basis, seed) for seed in seeds]
        some = [each.record.nmi for each in outcomes_of(FAMILIES["infomec"], task, tasks, lambda: None) if each]
        for index, p in zip(mine, _compared(sources, basis, seeds, some, levels.least[mine], planes), strict=True):
            if wanted[index]:
                name = part.factors.names[index]
                p_values[name] = max(p_values.get(name, 0.0), float(p))
    return p_values


def _compared(
    factors: Columns,
    basis: Basis,
    seeds: Sequence[Sequence[int] | None],
    tables: Sequence[Array],
    least: Array,
    planes: dict[str, str],
) -> Array:
    explained = basis.explained(factors, map(basis.turn, seeds))
    if basis.rank == 2:
        planes |= dict.fromkeys(factors.names, _resolution(basis.names, explained[0], factors.n))
    return axes_p_values(
        np.array([alone(table, least) for table in tables]), np.array([alone(table) for table in explained])
    )


def _resolution(names: Sequence[str], explained: Array, n: int) -> str:
    r"""What can be told from random axes in a plane.

    Bases of a plane differ by one angle within 45 degrees, so that random ones come within 2.25 degrees in one of
    twenty draws. Latents of squared correlation :math:`R^2` with two factors, the rest noise, leave that angle a
    variance of :math:`(1-R^2)/2nR^2`. A single factor leaves twice as much, and :math:`1/4n` from whitening, which
    turns its latent by half of the correlation with the other.
    """
    r2 = float(np.clip(explained.max(axis=1).mean(), 1e-3, 1 - 1e-6))
    variance = (1 - r2) / (2 * n * r2) if len(explained) > 1 else (1 - r2) / (n * r2) + 1 / (4 * n)
    within = 2 * np.degrees(np.sqrt(variance))
    needed = int(np.ceil(n * (within / _PLANE) ** 2))
    more = f", and about {needed} rows would determine it to ±{_PLANE:.2g}" if needed > n else ""
    named = " and ".join(names) if len(names) == 2 else f"{len(names)} latents"  # copies of others span no more
    return (
        f"{named} span a plane, where random axes come within {_PLANE:.2g} degrees of any others in one of "
        f"twenty draws: only a smaller angle can be told from chance. {n} rows determine it to about "
        f"±{within:.2g} degrees{more}"
    )


def _linked(informed: Array) -> list[tuple[Array, Array]]:
    """Blocks of factors and latents that share information with each other, and little with the rest."""
    known, knows = informed.sum(axis=1, keepdims=True), informed.sum(axis=0, keepdims=True)
    cells = (informed > NOTABLE * known) | (informed > NOTABLE * knows)
    height = len(informed)
    graph = np.block([[np.zeros((height, height)), cells], [cells.T, np.zeros((cells.shape[1],) * 2)]])
    count, labels = connected_components(graph, directed=False)
    sides = [
        (np.flatnonzero(labels[:height] == each), np.flatnonzero(labels[height:] == each)) for each in range(count)
    ]
    return [(mine, theirs) for mine, theirs in sides if len(mine) and len(theirs)]


def _ranked(turned: Array, column: Column) -> Array:
    """A column's values by the rank of turned ones: as many rows have each as before, ties in any order."""
    values = np.empty(len(turned))
    ties = np.random.default_rng(0).permutation(len(turned))
    values[np.lexsort((ties, np.round(turned, 9)))] = np.sort(column.values)
    return values


def _turned(task: Task, factors: Columns, basis: Basis, seed: Sequence[int] | None) -> Task:
    """The factors with the latents in whitened axes, or in axes drawn from a seed."""
    return replace(task, pair=Pair(factors, basis.columns(basis.turn(seed))))


def _asked(families: Iterable[str]) -> list[str]:
    """The families that have an aligned score."""
    return [name for name in families if set(FAMILIES[name].outputs) & set(ALIGNED)]
