r"""Shuffled pairings: the permutation null of the similarity indices.

Pairings are drawn by :mod:`isorep.resampling`: rows, or whole groups of rows, change places, all over the data or
within classes. Where groups differ in size only some rows take part, and everything that a null is compared with -
means, frames, kernels, neighbours - is computed from these rows alone.

A permutation changes :math:`X^\top PY` and nothing else, so each draw costs one product of the factored sides,
or less: for the kernel indices a few leading axes carry the shape of the null, and its mean and variance over all
:math:`n!` permutations are known in closed form.

:class:`Similarity` is the result of one index: its value, its direction and its null.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import FEW_GROUPS, Null, Shuffles, group_codes, null_of
from ..results import Record, decimals, plain
from ..rows import Progress, blocks, no_progress
from ..settings import MOST_DRAWS, check_counts, check_seed
from ..threads import Crew
from .frames import Pair, Side

_TILE = 512  # rows of a matrix that are moved at once
_LEAST_ROWS = 4  # enough for every index
_FORCED = {False: 1e-9, True: 1e-5}  # distance from the best value that is rounding, in double and single precision
_CONSTANT = {False: 1e-9, True: 1e-6}  # relative difference of two values that is rounding


@dataclass(frozen=True, eq=False)
class Draws:
    """Source of draws: ``draw`` gives the statistics' input for each row's new partner."""

    draw: Callable[[Array], Any]
    method: str = "one product of the factored sides per permutation"
    exact: bool = True


Source = Callable[[bool], Draws]
"""Makes draws, given whether permutations are uniform."""


@dataclass(frozen=True, eq=False)
class PreparedIndex:
    """An index of one pair, ready to be shuffled: its value, and how a draw becomes one.

    ``forced`` is the reason why every pairing of these rows gives the best value, where this follows from the ranks.
    """

    name: str
    value: float
    details: dict[str, Any]
    source: Source
    statistic: Callable[[Any], float]
    caveats: tuple[str, ...] = ()
    forced: str = ""
    higher_is_closer: bool = True
    best: float = 1.0


Prepare = Callable[[Pair], PreparedIndex]


class UndefinedIndexError(InputError):
    """An index that these rows do not define, such as a correlation with a constant."""


def cross_draws(left: Array, right: Array) -> Draws:
    r""":math:`U_X^\top PU_Y` by one product. Several indices that ask for the same pairing share it."""
    last = threading.local()

    def draw(partners: Array) -> Any:
        if getattr(last, "partners", None) is not partners:
            moved = np.take(right, partners, axis=0, mode="clip")
            last.product, last.partners = left.T @ moved, partners
        return last.product

    return Draws(draw)


def moved_product(left: Array, right: Array, partners: Array) -> float:
    """The sum of products of two (n, n) matrices, the second with its rows and columns moved, in tiles."""
    total = 0.0
    for rows in blocks(len(left), _TILE):
        moved = np.take(np.take(right, partners[rows], axis=0, mode="clip"), partners, axis=1, mode="clip")
        total += float(np.einsum("ij,ij->", left[rows], moved, dtype=np.float64))
    return total


def finished(
    pair: Pair, prepare: Prepare, permutations: int, groups: Any, within: Any, random_state: int
) -> Similarity:
    """One index as a result, with its null if permutations are requested."""
    pairings = plan(pair.n, permutations, groups, within, random_state)
    (similarity,), pairings = similarities(pair, [prepare], pairings)
    return replace(similarity, caveats=tuple(dict.fromkeys([*pair.caveats, *pairings.notes, *similarity.caveats])))


def similarities(
    pair: Pair,
    prepares: Sequence[Prepare],
    pairings: Pairings,
    report: Progress = no_progress,
    undefined: dict[int, str] | None = None,
) -> tuple[list[Similarity], Pairings]:
    """Indices with their nulls and caveats; and the pairings, copies of rows kept together.

    Indices that the rows do not define are an error, or go to ``undefined``: their place, and why.
    """
    prepared: list[PreparedIndex] = []
    for place, prepare in enumerate(prepares):
        report("indices", place, len(prepares))
        try:
            prepared.append(prepare(pair))
        except UndefinedIndexError as error:
            if undefined is None:
                raise
            undefined[place] = str(error)
    report("indices", len(prepares), len(prepares))
    if undefined:
        prepares = [prepare for place, prepare in enumerate(prepares) if place not in undefined]
        if not prepares:
            raise UndefinedIndexError(next(iter(undefined.values())))
    nulls: list[tuple[Null | None, str]] = [(None, each.forced) for each in prepared]
    if pairings.permutations:
        pairings = pairings.keeping_copies([pair.x], [pair.y])
        nulls = list(pairings.nulls(prepared, [pair] * len(prepared), prepares, report)[0])
    classes = pairings.classes if pairings.permutations else None
    results = []
    for each, (null, why) in zip(prepared, nulls, strict=True):
        said = (*each.caveats, why) if why else each.caveats
        results.append(
            Similarity(each.name, each.value, each.higher_is_closer, each.best, each.details, null, said, classes)
        )
    return results, pairings


def nuclear_norm(cross: Array) -> float:
    """The sum of singular values of a shuffled product.

    Computed from the eigenvalues of its square, which cost a third less. The loss of precision is of the size of the
    root of float64's rounding, in singular values that are as small.
    """
    cross = cross.astype(np.float64, copy=False)
    square = cross.T @ cross if cross.shape[0] >= cross.shape[1] else cross @ cross.T
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(square), 0.0)).sum())


def plan(n: int, permutations: int, groups: Any, within: Any, random_state: int) -> Pairings:
    """The requested pairings, after a check of their settings."""
    check_counts(permutations=(permutations, 0, MOST_DRAWS))
    check_seed(random_state)
    labels, classes = group_codes(groups, n), group_codes(within, n, "within")
    if labels is not None and labels.max() < 1:
        raise InputError("groups holds one group only: there is nothing to shuffle it with")
    return Pairings(n, int(permutations), labels, classes, int(random_state))


@dataclass(frozen=True, eq=False)
class Pairings:
    """Shuffled pairings of ``n`` rows: how many, of what, and which rows take part."""

    n: int
    permutations: int
    labels: Array | None
    within: Array | None
    random_state: int
    copies: tuple[str, ...] = ()  # caveats about repeated rows

    @cached_property
    def shuffles(self) -> Shuffles:
        """Where partners are drawn from."""
        shuffles = Shuffles(self.n, self.labels, self.within)
        if not shuffles.complete and len(shuffles.rows) < _LEAST_ROWS:
            raise InputError(
                f"only {len(shuffles.rows)} rows can change places inside groups and classes of these sizes: at least "
                f"{_LEAST_ROWS} are needed for a null"
            )
        return shuffles

    @property
    def uniform(self) -> bool:
        """Whether every permutation of the rows is as likely."""
        return self.labels is None and self.within is None

    @property
    def groups(self) -> int | None:
        """The number of groups."""
        return None if self.labels is None else int(self.labels.max()) + 1

    @property
    def classes(self) -> int | None:
        """The number of classes that are shuffled by themselves."""
        return None if self.within is None else int(self.within.max()) + 1

    @property
    def settings(self) -> dict[str, Any]:
        """What is shuffled and how often, as plain data; copies that move together count as groups."""
        return {
            "permutations": self.permutations,
            "groups": self.groups,
            "within": self.classes,
            "random_state": self.random_state,
        }

    @property
    def smallest_p(self) -> float:
        """The smallest possible p-value."""
        return max(1 / (1 + self.permutations), 1 / self.shuffles.distinct)

    @property
    def notes(self) -> list[str]:
        """Caveats about the nulls."""
        if not self.permutations:
            return []
        said = list(self.copies)
        if self.groups is not None and self.groups < FEW_GROUPS:
            said.append(f"chance is estimated by shuffling {self.groups} groups as blocks")
        said += self.shuffles.notes(self.permutations)
        if not self.shuffles.complete:
            said.append("chance and corrected values are computed from those rows only; the plain value uses all rows")
        return said

    def keeping_copies(self, xs: Sequence[Side], ys: Sequence[Side]) -> Pairings:
        """The same, with rows that are copies of each other on both sides shuffled together, if no groups are given."""
        if self.labels is not None:
            return self
        codes, said = copies(xs, ys)
        if codes is None:
            return replace(self, copies=tuple(said))
        if self.within is not None:
            codes = np.unique(np.stack([codes, self.within]), axis=1, return_inverse=True)[1].ravel()
        if codes.max() < 1:
            raise InputError("all rows are copies of each other on both sides: there is nothing to shuffle")
        return replace(self, labels=codes, copies=tuple(said))

    def part(self, pair: Pair) -> Pair:
        """The pair of the rows that take part."""
        return pair if self.shuffles.complete else pair.cut(self.shuffles.rows)

    def nulls(
        self, prepared: Sequence[PreparedIndex], pairs: Sequence[Pair], prepares: Sequence[Prepare], report: Progress
    ) -> tuple[list[tuple[Null, str]], Array]:
        """The null of every index, with the reason where it is uninformative; and the underlying values.

        Values are those of the rows that take part, the real pairing first: (indices, 1 + permutations).
        """
        parts = [self.part(pair) for pair in pairs]
        shuffled = [
            whole if part is pair else prepare(part)
            for whole, pair, part, prepare in zip(prepared, pairs, parts, prepares, strict=True)
        ]
        values = self.draw(shuffled, report)
        return [
            self.null(each, row[0], row[1:], part.single)
            for each, row, part in zip(shuffled, values, parts, strict=True)
        ], values

    def draw(self, prepared: Sequence[PreparedIndex], report: Progress) -> Array:
        """Every index of the real pairing, first, and of the same shuffled ones: (indices, 1 + permutations).

        The real pairing goes through the same arithmetic, so that a draw that repeats it equals it to the last digit;
        sketched draws are the exception.
        """
        sources = [each.source(self.uniform) for each in prepared]
        distinct = {id(source): source for source in sources}
        shuffles = self.shuffles
        position = np.zeros(self.n, dtype=np.intp)
        position[shuffles.rows] = np.arange(len(shuffles.rows))
        seeds = np.random.SeedSequence(self.random_state).spawn(self.permutations)

        def column(turn: slice) -> list[float]:
            partners = np.arange(len(shuffles.rows))
            if turn.start:
                partners = shuffles.draw(np.random.default_rng(seeds[turn.start - 1]))
                partners = partners if shuffles.complete else position[partners]
            drawn = {key: source.draw(partners) for key, source in distinct.items()}
            return [each.statistic(drawn[id(source)]) for each, source in zip(prepared, sources, strict=True)]

        values = np.empty((len(prepared), 1 + self.permutations))
        with Crew() as crew:
            for done, drawn in enumerate(crew.stream(column, blocks(1 + self.permutations, 1))):
                values[:, done] = drawn
                if done:
                    report("permutations", done, self.permutations)
        for row, each, source in zip(values, prepared, sources, strict=True):
            row[0] = row[0] if source.exact else each.value
        return values

    def null(self, prepared: PreparedIndex, observed: float, draws: Array, single: bool) -> tuple[Null, str]:
        """Draws as a null; without a p-value, and with the reason, where every pairing gives the same value."""
        source = prepared.source(self.uniform)
        null = null_of(
            draws,
            observed,
            higher_is_closer=prepared.higher_is_closer,
            distinct=self.shuffles.distinct,
            exact=source.exact,
            method=source.method if self.uniform else f"{source.method}; {self._moved} shuffled",
        )
        null = replace(null, observed=prepared.value)
        why = uninformative(prepared, observed, draws, single)
        return (replace(null, p_value=float("nan"), smallest_p=float("nan")) if why else null), why

    @property
    def _moved(self) -> str:
        moved = "rows" if self.labels is None else f"{self.groups} groups as blocks"
        return moved if self.within is None else f"{moved} within {self.classes} classes"


def uninformative(prepared: PreparedIndex, observed: float, draws: Array, single: bool) -> str:
    """Why a null is uninformative, if every pairing gives the same value; ``single`` where rounding is float32's."""
    everything = np.append(draws, observed)
    if prepared.forced:
        return f"{prepared.forced}: {prepared.name} has no p-value and no corrected value"
    forced = np.abs(everything - prepared.best).max() <= _FORCED[single]
    if not forced and np.abs(draws - observed).max() > _CONSTANT[single] * abs(observed):
        return ""
    return (
        f"all {len(draws)} shuffled pairings give the value of the real one: {prepared.name} has no p-value and no "
        "corrected value"
    )


def copies(xs: Sequence[Side], ys: Sequence[Side]) -> tuple[Array | None, list[str]]:
    """Codes of rows that are copies of each other on both sides, and caveats about repeated rows.

    Copies that are paired with copies are one unit that was stored several times, and move together. Where both sides
    have few distinct rows, copies also coincide by chance: rows count as stored several times if the pairs of rows that
    are equal on both sides are at least twice as many as expected by chance, and nearly all repeats are joint repeats.
    With several layers, the two that share most copies decide.
    """
    repeating = [[side for side in sides if side.values is not None and side.repeats] for sides in (xs, ys)]
    if not any(repeating):
        return None, []
    chosen: tuple[Array, str] | None = None
    fewest = xs[0].n
    for x in repeating[0]:
        for y in repeating[1]:
            joint = _stored_several_times(x.codes, y.codes)
            if joint is not None and joint.max() + 1 < fewest:
                fewest, chosen = int(joint.max()) + 1, (joint, f"{x.name} and {y.name}")
    if chosen is not None:
        return chosen[0], [
            f"{xs[0].n - fewest} rows equal an earlier row in both {chosen[1]}: copies are shuffled together, as "
            f"{fewest} groups"
        ]
    return None, [
        f"{side.repeats} rows of {side.name} equal an earlier row and are shuffled one by one: if they were not drawn "
        "independently, pass groups"
        for side in {id(side): side for sides in repeating for side in sides}.values()
    ]


def _stored_several_times(x: Array, y: Array) -> Array | None:
    """Codes of rows that are equal on both sides, unless they are so by chance."""
    joint = np.unique(x * (int(y.max()) + 1) + y, return_inverse=True)[1]
    n = len(x)
    equal = [float((sizes * (sizes - 1.0)).sum()) for sizes in (np.bincount(codes) for codes in (x, y, joint))]
    by_chance = equal[0] * equal[1] / (n * (n - 1))
    kinds = [int(codes.max()) + 1 for codes in (x, y, joint)]
    if equal[2] == 0 or equal[2] < 2 * by_chance or 0.9 * kinds[2] > max(kinds[:2]):
        return None
    return np.asarray(joint)


@dataclass(frozen=True, eq=False)
class Similarity(Record):
    """One index between two representations.

    Attributes
    ----------
    name : str
    value : float
    higher_is_closer : bool
        False for distances.
    best : float
        The value of a representation with itself.
    details : dict
        Further results of the index, such as canonical correlations or the components kept.
    null : Null or None
        The index of shuffled pairings; None without permutations. Groups of unequal size are truncated before they
        change places: ``null.observed`` is then the index of the remaining rows, and ``value`` that of all rows.
    caveats : tuple of str
        Limits of this number.
    within : int or None
        Number of classes within which rows were shuffled; None without classes.
    """

    name: str
    value: float
    higher_is_closer: bool
    best: float
    details: dict[str, Any] = field(default_factory=dict)
    null: Null | None = None
    caveats: tuple[str, ...] = ()
    within: int | None = None

    @property
    def p_value(self) -> float | None:
        """The p-value: the share of pairings, including the real one, that are as close; None without a null.

        nan where every pairing gives the same value.
        """
        return None if self.null is None else self.null.p_value

    @property
    def corrected(self) -> float | None:
        """The index on a scale from chance (0) to a perfect match (1); None without a null.

        ``(null.observed - null.mean) / (best - null.mean)``: negative where chance is closer; nan where chance is a
        perfect match, and where every pairing gives the same value.
        """
        if self.null is None:
            return None
        if not np.isfinite(self.null.p_value):
            return float("nan")
        return corrected(self.null.observed, self.null.mean, self.best, self.higher_is_closer)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        closer = "higher is closer" if self.higher_is_closer else "lower is closer"
        text = f"{self.name} {self.value:.4f} ({closer})"
        if self.null is not None:
            chance = "chance" if self.within is None else "chance within classes"
            text += f", {chance} {self.null.mean:.4f}, corrected {shown(self.corrected)}, p {p_shown(self.null)}"
        return text

    def _in_short(self) -> str:
        return str(self)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row: the value, chance with its 95% range, the corrected value and the p-value."""
        null = self.null
        return [
            {
                "index": self.name,
                "value": self.value,
                "of_rows_used": None if null is None else null.observed,
                "chance": None if null is None else null.mean,
                "chance_low": None if null is None else null.quantile(0.025),
                "chance_high": None if null is None else null.quantile(0.975),
                "corrected": self.corrected,
                "p_value": self.p_value,
                "higher_is_closer": self.higher_is_closer,
            }
        ]

    def to_dict(self) -> dict[str, Any]:
        """The fields, and the corrected value."""
        null = None if self.null is None else self.null.to_dict() | {"sd": self.null.std}
        told: dict[str, Any] = plain({**vars(self), "corrected": self.corrected, "null": null})
        return told


def corrected(value: float, chance: float, best: float, higher_is_closer: bool) -> float:
    """A value on a scale from chance (0) to the best one (1); nan where chance reaches the best one."""
    sign = 1.0 if higher_is_closer else -1.0
    gap = sign * (best - chance)
    return sign * (value - chance) / gap if gap > 1e-12 else float("nan")


def shown(value: float | None) -> str:
    """Four decimals, never minus zero, and a dash for what is not there."""
    return decimals(value)


def p_shown(null: Null) -> str:
    """A p-value with its relation: "= 0.02", "<= 0.005" for the smallest one possible, "-" where there is none."""
    text = null.p_text
    return text if text == "-" or text.startswith("<=") else f"= {text}"
