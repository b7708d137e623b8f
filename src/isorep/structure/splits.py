"""Which rows models learn from and which they are judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..comparison.settings import check_counts, check_seed
from ..errors import InputError
from ..representation import Array
from ..resampling import assign_folds
from .columns import as_columns, with_common_labels
from .pairs import Pair, paired

ROWS = 2500
"""Scores that fit models look at so many random rows at most; they learn from four fifths of them."""
KERNEL_ROWS = 1000
"""Kernel regressions look at so many: their work grows with the cube."""
SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Given:
    """What a score that holds rows out was asked for, in the order of its arguments."""

    factors: Any
    latents: Any
    test: Any
    rows: int | None
    groups: Any
    discrete_factors: Any
    discrete_latents: Any
    random_state: int


def split_pair(asked: Given) -> tuple[Pair, Pair]:
    """Rows to learn from and rows to be judged on: the given ones, or a random fifth of rows or groups."""
    check_seed(asked.random_state)
    if asked.rows is not None:
        check_counts(rows=(asked.rows, 4))
    kinds = {"discrete_factors": asked.discrete_factors, "discrete_latents": asked.discrete_latents}
    pair = paired(asked.factors, asked.latents, **kinds)
    if asked.test is None:
        labels = pair.group_codes(asked.groups)
        return split(pair, labels, asked.rows, np.random.default_rng(asked.random_state))
    if not isinstance(asked.test, Sequence) or len(asked.test) != 2:
        raise InputError("test takes the factors and the latents of other rows, as a pair")
    seen, unseen = [], []
    for given, ours, what in zip(asked.test, (pair.factors, pair.latents), ("factors", "latents"), strict=True):
        theirs = as_columns(given, what)
        if len(ours) != len(theirs):
            raise InputError(f"there are {len(ours)} {what} to learn from and {len(theirs)} to be judged on")
        told = as_columns(theirs, what, [column.discrete for column in ours])
        both = with_common_labels(ours, told)
        seen.append(both[0])
        unseen.append(both[1])
    return Pair(seen[0], seen[1]), paired(unseen[0], unseen[1])


def split(pair: Pair, groups: Array | None, rows: int | None, rng: np.random.Generator) -> tuple[Pair, Pair]:
    """A random fifth of the rows, or of the groups, is held out; at most so many rows are looked at."""
    pair, groups = looked_at(pair, groups, rows, rng)
    held = held_out(pair.n, groups, rng)
    return pair.take(np.flatnonzero(~held)), pair.take(np.flatnonzero(held))


def looked_at(
    pair: Pair, groups: Array | None, rows: int | None, rng: np.random.Generator
) -> tuple[Pair, Array | None]:
    """At most so many random rows, with their groups."""
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


def some(rows: Array, most: int, rng: np.random.Generator) -> Array:
    """At most so many of these rows, in order."""
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def folds_of(n: int, folds: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The fold of each row; fewer folds where there are fewer rows or groups."""
    units = n if groups is None else int(groups.max()) + 1
    most = min(folds, units if groups is not None else n // 2)
    if most < 2:
        raise InputError(f"there are {n} rows in {units} groups: too few to hold any out")
    return assign_folds(n, most, groups, rng)
