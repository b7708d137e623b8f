r"""Shuffled pairings: what an index gives when the rows of one side no longer belong to those of the other.

A permutation changes :math:`X^\top PY` and nothing else, so each draw costs one product of what was factored before,
or less: for the kernel indices a few leading axes carry the shape of the null, and its mean and variance over all
:math:`n!` permutations are known in closed form.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..errors import InputError
from ..groups import shuffled_partners
from ..representation import Array
from ..resampling import group_codes
from ..rows import Crew
from .result import PermutationNull, Similarity
from .sides import Pair


class Draws(Protocol):
    """Gives, for each row's new partner, what statistics are computed from."""

    exact: bool
    method: str

    def draw(self, partners: Array) -> Any:
        """The quantity under a shuffled pairing."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """An index of one pair, ready to be shuffled: its value, and how a draw becomes one."""

    name: str
    value: float
    higher_is_closer: bool
    best: float
    details: dict[str, Any]
    source: Callable[[bool], Draws]  # told whether permutations are uniform
    statistic: Callable[[Any], float]
    caveats: tuple[str, ...] = ()


class CrossDraws:
    r""":math:`U_X^\top PU_Y` by one product: exact. Several indices that ask for the same pairing share it."""

    exact = True
    method = "one product of the factored sides a permutation"

    def __init__(self, left: Array, right: Array) -> None:
        self._left, self._right = left, right
        self._last = threading.local()

    def draw(self, partners: Array) -> Array:
        """The cross product with shuffled rows."""
        if getattr(self._last, "partners", None) is not partners:
            moved = np.take(self._right, partners, axis=0, mode="clip")
            self._last.product, self._last.partners = self._left.T @ moved, partners
        found: Array = self._last.product
        return found


def finished(pair: Pair, prepared: Prepared, permutations: int, groups: Any, random_state: int) -> Similarity:
    """One index as a result, with its null where permutations are asked for."""
    labels = checked_permutations(permutations, groups, pair.n, random_state)
    null = None
    if permutations:
        null = null_of(prepared, shuffled([prepared], pair.n, permutations, labels, random_state)[0], labels is None)
    return Similarity(
        prepared.name,
        prepared.value,
        prepared.higher_is_closer,
        prepared.best,
        prepared.details,
        null,
        (*pair.caveats, *prepared.caveats),
    )


def nuclear_norm(cross: Array) -> float:
    """The sum of singular values of a shuffled product.

    From the eigenvalues of its square, which cost a third less; what that loses is of the size of the root of float64's
    rounding, in singular values that are themselves as small.
    """
    cross = cross.astype(np.float64, copy=False)
    square = cross.T @ cross if cross.shape[0] >= cross.shape[1] else cross @ cross.T
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(square), 0.0)).sum())


def shuffled(
    prepared: Sequence[Prepared],
    n: int,
    permutations: int,
    labels: Array | None,
    random_state: int,
    progress: Callable[[int, int], None] | None = None,
) -> Array:
    """Values of every prepared index under the same shuffled pairings: (indices, permutations)."""
    sources: list[Draws] = []
    place: list[int] = []
    for each in prepared:
        source = each.source(labels is None)
        known = [at for at, other in enumerate(sources) if other is source]
        place.append(known[0] if known else len(sources))
        sources += [] if known else [source]
    seeds = np.random.SeedSequence(random_state).spawn(permutations)

    def one(which: slice) -> list[float]:
        partners = draw_partners(n, labels, np.random.default_rng(seeds[which.start]))
        drawn = [source.draw(partners) for source in sources]
        return [each.statistic(drawn[at]) for each, at in zip(prepared, place, strict=True)]

    values = np.empty((len(prepared), permutations))
    with Crew() as crew:
        for done, column in enumerate(crew.stream(one, (slice(i, i + 1) for i in range(permutations)))):
            values[:, done] = column
            if progress:
                progress(done + 1, permutations)
    return values


def checked_permutations(permutations: int, groups: Any, n: int, random_state: int) -> Array | None:
    """Group codes, after the settings of a null were checked."""
    for name, value in (("permutations", permutations), ("random_state", random_state)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise InputError(f"{name} is {value!r} and must be a whole number from 0 on")
    labels = group_codes(groups, n)
    if labels is not None and labels.max() < 1:
        raise InputError("groups holds one group only: there is nothing to shuffle it with")
    return labels


def draw_partners(n: int, labels: Array | None, rng: np.random.Generator) -> Array:
    """For each row the row whose partner it takes: uniform over permutations, or groups shuffled as wholes."""
    return rng.permutation(n) if labels is None else shuffled_partners(n, labels, rng)


def null_of(prepared: Prepared, draws: Array, uniform: bool) -> PermutationNull:
    """Draws as a null with its p-value, the real pairing counted in."""
    source = prepared.source(uniform)
    return PermutationNull(
        draws, p_value(prepared.value, draws, prepared.higher_is_closer), source.exact, source.method
    )


def p_value(value: float, draws: Array, higher_is_closer: bool) -> float:
    """The share of pairings, the real one among them, that are at least as close; ties by rounding count."""
    slack = 1e-12 * max(1.0, abs(value))
    closer = draws >= value - slack if higher_is_closer else draws <= value + slack
    return float((1 + int(closer.sum())) / (1 + len(draws)))
