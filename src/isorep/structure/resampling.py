r"""How far a score would move on other rows, and what it is where latents and factors have nothing in common.

Intervals come from random halves of the rows, or of the groups. The bootstrap draws rows twice, and a row that is its
own nearest neighbour ruins every estimate from neighbours; halves hold no row twice. For a statistic with variance
:math:`\sigma^2/n` a half drawn without replacement varies around the whole by
:math:`\frac{\sigma^2}{n/2}\bigl(1-\frac{n/2}{n}\bigr)=\sigma^2/n`: as much as the whole itself varies around the truth,
so the standard deviation of the halves needs no factor. They are compared with their own mean, so that a bias which
depends on the number of rows drops out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from ..errors import InputError
from ..groups import shuffled_partners
from ..representation import Array
from ..resampling import Interval
from .families import FAMILIES, LEAST, Task
from .splits import looked_at, recoded

_LEVEL = 0.95
Draws = dict[str, list[float]]


@dataclass(frozen=True)
class Chance:
    """A score under shuffled rows: mean, 5 % and 95 % points, and the share of shuffles that score as high.

    The real pairing is counted in, so that ``p_value`` is never 0.
    """

    mean: float
    low: float
    high: float
    p_value: float
    n: int

    @classmethod
    def of(cls, draws: Sequence[float], value: float) -> Chance:
        """Summarise draws beside the real value."""
        found = np.asarray(draws)
        low, high = np.quantile(found, [0.05, 0.95])
        p_value = (1 + int((found >= value - 1e-12).sum())) / (1 + len(found))
        return cls(float(found.mean()), float(low), float(high), p_value, len(found))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def halves(task: Task, families: Sequence[str], n: int, rng: np.random.Generator, tick: Callable[[], None]) -> Draws:
    """Every score on random halves of the rows, or of the groups; families with intervals of their own are left out."""
    draws: Draws = {}
    wanted = [name for name in families if not FAMILIES[name].own_interval]
    sizes = dict.fromkeys(FAMILIES[name].rows for name in wanted)
    seen = {most: looked_at(task.pair, task.groups, most, np.random.default_rng(task.seed)) for most in sizes}
    for turn in range(n):
        parts = {most: _half(*given, rng) for most, given in seen.items()}
        for name in wanted:
            if turn < FAMILIES[name].draws(n):
                pair, groups = parts[FAMILIES[name].rows]
                with suppress(InputError):  # groups of very unequal size: a half may hold too few rows to hold any out
                    _add(draws, FAMILIES[name].measure(task.on(pair, groups, warm=True), True).values)
        tick()
    return draws


def shuffles(
    task: Task, families: Sequence[str], n: int, rng: np.random.Generator, tick: Callable[[], None]
) -> tuple[Draws, list[Array]]:
    """Every score on shuffled rows, and the normalised mutual information where it was measured."""
    draws: Draws = {}
    tables = []
    for turn in range(n):
        pair = task.pair.shuffled(shuffled_partners(task.pair.n, task.groups, rng))
        for name in (each for each in families if turn < FAMILIES[each].draws(n)):
            found = FAMILIES[name].measure(task.on(pair, task.groups, warm=False), True)
            _add(draws, found.values)
            if name == "infomec":
                tables.append(found.record.nmi)
        tick()
    return draws, tables


def interval_of(name: str, value: float, draws: Sequence[float]) -> Interval:
    """The value give or take Student's quantile times the spread of the halves, within the score's range."""
    reach = float(student.ppf((1 + _LEVEL) / 2, len(draws) - 1) * np.std(draws, ddof=1))
    least = LEAST.get(name, 0.0)
    return Interval(max(value - reach, least), min(value + reach, 1.0), _LEVEL)


def _half(pair: Any, groups: Array | None, rng: np.random.Generator) -> tuple[Any, Array | None]:
    units = pair.n if groups is None else int(groups.max()) + 1
    chosen = np.zeros(units, dtype=bool)
    chosen[rng.permutation(units)[: units // 2]] = True
    rows = np.flatnonzero(chosen if groups is None else chosen[groups])
    return pair.take(rows), None if groups is None else recoded(groups[rows])


def _add(draws: Draws, values: dict[str, float]) -> None:
    for name, value in values.items():
        draws.setdefault(name, []).append(value)
