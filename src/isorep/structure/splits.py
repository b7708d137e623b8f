"""Splits of rows into training and test rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import FEW_GROUPS, Interval, assign_folds, t_interval
from ..settings import check_counts, check_seed
from .columns import Pair, as_columns, paired, with_common_labels

ROWS = 2500
"""Largest number of random rows for scores that fit models; they learn from four fifths of them."""
KERNEL_ROWS = 1000
"""The same for kernel regressions, whose cost grows with the cube."""
SHARE = 0.2
HALVES = 10
"""Random halves of the rows for an interval."""
FOLDS = 5
"""Folds of cross-validated scores."""
FEWEST = 20
"""Fewest rows for halves and held-out parts."""


def split_pair(
    factors: Any,
    latents: Any,
    test: Any,
    rows: int | None,
    groups: Any,
    discrete_factors: Any,
    discrete_latents: Any,
    random_state: int,
) -> tuple[Pair, Pair]:
    """Training and test rows: the given ones, or a random fifth of rows or groups for testing."""
    check_seed(random_state)
    if rows is not None:
        check_counts(rows=(rows, 4))
    pair = paired(factors, latents, discrete_factors=discrete_factors, discrete_latents=discrete_latents)
    if test is None:
        rng = np.random.default_rng(random_state)
        pair, labels = looked_at(pair, pair.group_codes(groups), rows, rng)
        return parted(pair, held_out(pair.n, labels, rng))
    if not isinstance(test, Sequence) or len(test) != 2:
        raise InputError("test takes the factors and the latents of other rows, as a pair")
    seen, unseen = [], []
    for given, ours, what in zip(test, (pair.factors, pair.latents), ("factors", "latents"), strict=True):
        theirs = as_columns(given, what)
        if len(ours) != len(theirs):
            raise InputError(f"there are {len(ours)} {what} to learn from and {len(theirs)} to be judged on")
        told = as_columns(theirs, what, [column.discrete for column in ours])
        both = with_common_labels(ours, told)
        seen.append(both[0])
        unseen.append(both[1])
    return Pair(seen[0], seen[1]), paired(unseen[0], unseen[1])


def parted(pair: Pair, held: Array) -> tuple[Pair, Pair]:
    """The rows to learn from, and those held out."""
    return pair.take(np.flatnonzero(~held)), pair.take(np.flatnonzero(held))


def looked_at(
    pair: Pair, groups: Array | None, rows: int | None, rng: np.random.Generator
) -> tuple[Pair, Array | None]:
    """A limited number of random rows, with their groups."""
    if rows is None or pair.n <= rows:
        return pair, groups
    kept = some(np.arange(pair.n), rows, rng)
    return pair.take(kept), None if groups is None else recoded(groups[kept])


def recoded(groups: Array) -> Array:
    """Groups as whole numbers from 0 on, none missing."""
    return np.asarray(np.unique(groups, return_inverse=True)[1])


def held_out(n: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """Which rows are held out: about a fifth, at least one, and whole groups."""
    units = n if groups is None else int(groups.max()) + 1
    if units < 2:
        raise InputError("all rows belong to one group, so none can be held out")
    chosen = np.zeros(units, dtype=bool)
    chosen[rng.permutation(units)[: max(1, round(SHARE * units))]] = True
    return chosen if groups is None else chosen[groups]


def half(n: int, groups: Array | None, held: Array | None, rng: np.random.Generator) -> Array:
    """A random half of the rows, or of the groups; of those held out and of the others alike."""
    codes = np.arange(n) if groups is None else groups
    judged = _judged(codes, held)
    chosen = np.zeros(len(judged), dtype=bool)
    for side in (judged, ~judged):
        members = np.flatnonzero(side)
        chosen[rng.permutation(members)[: len(members) // 2]] = True
    return np.flatnonzero(chosen[codes])


def halves_interval(
    value: float, draws: Sequence[float], n: int, groups: Array | None, held: Array | None = None, *, least: float = 0.0
) -> Interval | None:
    r"""The interval of a score from its values on random halves; None where there are too few.

    A statistic of variance :math:`\sigma^2/n` varies by :math:`\sigma^2(1/m-1/n)` over samples of m of the n units, so
    that the spread of the halves is that of the statistic times :math:`\sqrt{m/(n-m)}`. Two variances are estimated,
    from the halves and from the units; the degrees of freedom of Student's quantile account for both. A score on
    held-out units varies mainly with those, so only they are counted as units.
    """
    judged = _judged(np.arange(n) if groups is None else groups, held)
    units = int(judged.sum()) if held is not None else len(judged)
    if len(draws) < 2 or units < 2:
        return None
    drawn = units // 2
    spread = float(np.std(draws, ddof=1)) * np.sqrt(drawn / (units - drawn))
    degrees = 1 / (1 / (len(draws) - 1) + 1 / (units - 1))
    return t_interval(value, spread, 1 + max(1, int(degrees)), least=least, most=1.0)


def few_for_halves(groups: Array | None) -> bool:
    """Whether half of the groups are too few to learn from: the halves' scores would vary more than the whole's."""
    return groups is not None and int(groups.max()) + 1 < 2 * FEW_GROUPS


def _judged(codes: Array, held: Array | None) -> Array:
    """Which units are held out."""
    judged = np.zeros(int(codes.max()) + 1, dtype=bool)
    if held is not None:
        judged[codes[held]] = True
    return judged


def some(rows: Array, most: int, rng: np.random.Generator) -> Array:
    """At most ``most`` of these rows, in order."""
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def kept_folds(fold_of: Array) -> list[int]:
    """The folds that have rows left; an error where there is one alone."""
    kept = np.unique(fold_of).tolist()
    if len(kept) < 2:
        raise InputError("all rows belong to one fold: none are left to learn from")
    return kept  # type: ignore[no-any-return]


def folds_of(n: int, folds: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The fold of each row; fewer folds where there are fewer rows or groups."""
    units = n if groups is None else int(groups.max()) + 1
    most = min(folds, units if groups is not None else n // 2)
    if most < 2:
        raise InputError(f"there are {n} rows in {units} groups: too few to hold any out")
    return assign_folds(n, most, groups, rng)


def cross_validated(
    factors: Any, latents: Any, folds: int, groups: Any, discrete_factors: Any, discrete_latents: Any, random_state: int
) -> tuple[Pair, Array | None]:
    """Columns of the same rows and the group of each, for scores that leave out folds in turn."""
    check_counts(folds=(folds, 2))
    check_seed(random_state)
    pair = paired(factors, latents, discrete_factors=discrete_factors, discrete_latents=discrete_latents)
    return pair, pair.group_codes(groups)
