r"""Folds, shuffles, nulls and intervals: everything that is held out, permuted or resampled.

**Shuffles.** Rows of a group (tokens of a document, frames of a film, wells of a plate) may depend on each other in any
way, so only whole groups are exchangeable when two sides are independent. A shuffle pairs every group with
one group of its stratum, uniformly over permutations, rows in their order. Groups of a stratum have similar sizes and
are cut to the smallest of them, in the observed pairing and in the shuffled ones alike: the p-value is then exact
for any dependence inside groups (THEORY, Fisher's randomisation test).

**Intervals.** Blocks of rows (or of groups) are left out one at a time, the estimate is computed without them, and
Student's quantile with one degree of freedom less than blocks gives the interval (delete-block jackknife; Busing,
Meijer & van der Leeden 1999 for blocks of unequal size). No row is repeated, so statistics that repeats would inflate
(R², canonical correlations, neighbours) can be treated as well, and an estimate lies inside its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, special

from .errors import InputError
from .representation import Array
from .results import Record

LEVEL = 0.95
BLOCKS = 25  # blocks of rows that a jackknife leaves out one at a time
MOST_GROUP_BLOCKS = 50
FEW_GROUPS = 20  # fewer than this, and intervals over groups are only approximate
_STRATUM = 5  # groups that exchange partners, at least
_FAR_SMALLER = 0.2  # of the largest, and a group starts a stratum of its own, though the last one has fewer than five
_SIMILAR = 0.8  # size of the smallest group of a stratum relative to the largest, where there are enough groups
_MOMENTS_ENOUGH = 20  # draws from which on a tail may be fitted


# Groups and folds


def group_codes(groups: Any, n: int, name: str = "groups") -> Array | None:
    """Labels of any kind as integers from 0."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != n:
        raise InputError(f"{name} has shape {labels.shape} where one label per row is needed: ({n},)")
    missing = [row for row, label in enumerate(labels.tolist()) if _is_missing(label)]
    if missing:
        raise InputError(f"{name} is missing for {len(missing)} rows, the first at row {missing[0]}")
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def common_codes(labels: Any, n: int, rows: Array | None, name: str) -> Array | None:
    """Labels of the rows as given, as codes of the rows that are used."""
    codes = group_codes(labels, n, name)
    return codes if codes is None or rows is None else group_codes(codes[rows], len(rows), name)


def _is_missing(label: Any) -> bool:
    """None, NaN, and what pandas takes for missing."""
    return label is None or str(label) in ("nan", "<NA>", "NaT")


def assign_folds(n: int, n_folds: int, groups: Array | None, rng: np.random.Generator) -> Array:
    """The fold of each row: at random, or whole groups balanced over the folds."""
    if n < n_folds:
        raise InputError(f"there are {n} rows and {n_folds} folds: a fold needs at least one row")
    folds = np.empty(n, dtype=np.intp)
    if groups is None:
        folds[rng.permutation(n)] = np.arange(n) % n_folds
        return _with_training_rows(folds)
    n_groups = int(groups.max()) + 1
    if n_groups < n_folds:
        most = f"use at most {n_groups} folds" if n_groups > 1 else "at least two groups are needed"
        raise InputError(f"there are {n_groups} groups and {n_folds} folds: {most}, because a group is never split")
    numbers = rng.permutation(n_groups)[groups]  # groups of equal size are taken in a random order
    sizes, loads = np.bincount(numbers, minlength=n_groups), np.zeros(n_folds)
    fold_of = np.empty(n_groups, dtype=np.intp)
    for group in np.argsort(sizes, kind="stable")[::-1]:  # the largest first, each to the fold with the fewest rows
        fold_of[group] = np.argmin(loads)
        loads[fold_of[group]] += sizes[group]
    return _with_training_rows(fold_of[numbers])


def _with_training_rows(folds: Array) -> Array:
    left = least_training_rows(folds)
    if left < 2:
        raise InputError(f"without the largest fold {left} row is left to fit on: at least 2 are needed")
    return folds


def least_training_rows(folds: Array) -> int:
    """The number of rows without the largest fold."""
    return len(folds) - int(np.bincount(folds).max())


# Shuffles


class Shuffles:
    """Pairings of rows as they would be if the two sides were independent.

    Parameters
    ----------
    n : int
        Number of rows.
    groups : (n,) int array, optional
        Group codes of rows, from :func:`group_codes`: rows of a group move together.
    within : (n,) int array, optional
        Codes of classes: rows, or groups, get partners of their own class only, so that what the classes explain is
        part of chance. A group must lie inside one class.

    Attributes
    ----------
    rows : (m,) int array
        The rows that take part, in ascending order: all of them, unless groups differ in size or a class has one unit.
        A p-value compares the observed pairing of *these rows* with shuffled ones.
    distinct : float
        Number of different pairings; infinite beyond float64.
    """

    def __init__(self, n: int, groups: Array | None = None, within: Array | None = None) -> None:
        self.n = n
        self._left_out = "a row that is alone in its class cannot change places"
        if groups is not None:
            self._left_out = "groups that change places are cut to equal sizes, those without a partner are left out"
        if groups is None:
            strata = [np.arange(n)] if within is None else _members(within)
            self._strata = [rows[:, None] for rows in strata if len(rows) > 1]
        else:
            self._strata = _group_strata(groups, within)
        if not self._strata:
            raise InputError(
                "nothing can be shuffled: "
                + ("each class of within" if within is not None else "groups")
                + " holds a single unit"
            )
        self._settle()

    def _settle(self) -> None:
        """What follows from the strata."""
        self.rows: Array = np.sort(np.concatenate([stratum.ravel() for stratum in self._strata]))
        self.distinct = float(_exp(sum(math.lgamma(len(stratum) + 1) for stratum in self._strata)))
        self._place = np.full(self.n, -1)
        self._place[self.rows] = np.arange(len(self.rows))

    @property
    def complete(self) -> bool:
        """Whether all rows take part."""
        return len(self.rows) == self.n

    def draw(self, rng: np.random.Generator) -> Array:
        """For each of ``rows`` the row whose partner it takes: uniform over permutations, fixed points allowed."""
        partners = np.empty(len(self.rows), dtype=np.intp)
        for stratum in self._strata:
            partners[self._place[stratum]] = stratum[rng.permutation(len(stratum))]
        return partners

    def thinned(self, most: int, rng: np.random.Generator) -> Shuffles:
        """The same pairings of a random part of the rows, about ``most`` of them; itself where there are fewer.

        Groups lose rows, the same places in every group of a stratum, before groups are left out: the number of groups
        is what determines p-values.
        """
        if len(self.rows) <= most:
            return self
        share = most / len(self.rows)
        part = Shuffles.__new__(Shuffles)
        part.n = self.n
        part._left_out = "a random part of them is shuffled"
        part._strata = [_thinner(stratum, share, rng) for stratum in self._strata]
        part._settle()
        return part

    def notes(self, draws: int) -> list[str]:
        """Caveats about p-values from these pairings."""
        said = []
        if not self.complete:
            said.append(f"p-values compare {len(self.rows)} of {self.n} rows: {self._left_out}")
        if self.distinct < draws + 1:
            said.append(
                f"there are only {self.distinct:.0f} different ways to shuffle these rows: no p-value can be below "
                f"{1 / self.distinct:.2g}"
            )
        return said


def _thinner(stratum: Array, share: float, rng: np.random.Generator) -> Array:
    """A share of the cells of a (groups, rows) array: as many groups as that allows, with fewer rows each."""
    groups, length = stratum.shape
    rows = math.ceil(share * length)
    units = min(groups, max(2, round(share * groups * length / rows)))
    places = np.sort(rng.permutation(length)[:rows])
    return np.asarray(stratum[np.sort(rng.permutation(groups)[:units])][:, places])


def _members(codes: Array) -> list[Array]:
    """The rows of each code, in their order."""
    return np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])


def _group_strata(groups: Array, within: Array | None) -> list[Array]:
    """Strata as (groups, rows) arrays: groups of similar size, cut to the smallest of them."""
    members = _members(groups)
    if within is None:
        classes = [members]
    else:
        kinds = [np.unique(within[rows]) for rows in members]
        mixed = next((group for group, kind in enumerate(kinds) if len(kind) > 1), None)
        if mixed is not None:
            raise InputError(
                f"rows of one group have different labels in within (group number {mixed}): groups are shuffled as "
                "wholes inside a class, so that each must lie in one"
            )
        by_class: dict[int, list[Array]] = {}
        for rows, kind in zip(members, kinds, strict=True):
            by_class.setdefault(int(kind[0]), []).append(rows)
        classes = list(by_class.values())
    return [stratum for each in classes for stratum in _strata_of(each)]


def _strata_of(members: Sequence[Array]) -> list[Array]:
    """Cut one list of groups into strata, from the largest group on.

    A stratum takes groups while they are at least 0.8 of its largest, and at least five, unless that would cut large
    groups to a fifth. The last groups, too few for a
    stratum of their own, are the smallest ones: they are left out, unless they are all there is.
    """
    if len(members) < 2:
        return []
    ordered = sorted(members, key=len, reverse=True)
    strata: list[list[Array]] = [[]]
    for rows in ordered:
        current = strata[-1]
        share = len(rows) / len(current[0]) if current else 1.0
        if (len(current) >= _STRATUM and share < _SIMILAR) or (len(current) > 1 and share < _FAR_SMALLER):
            strata.append([])
        strata[-1].append(rows)
    if len(strata) > 1 and len(strata[-1]) < _STRATUM:
        strata.pop()
    return [np.stack([rows[: len(stratum[-1])] for rows in stratum]) for stratum in strata]


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


# Nulls


@dataclass(frozen=True, eq=False)
class Null(Record):
    """A statistic under shuffled pairings, and where the observed one lies among them.

    Attributes
    ----------
    draws : (n,) array
        The statistic of every shuffled pairing.
    observed : float
        The statistic of the real pairing, of the same rows.
    p_value : float
        The share of pairings, the real one among them, that are at least as close.
    smallest_p : float
        The smallest possible ``p_value``, given the number of draws and of distinct pairings.
    exact : bool
        Whether every draw is the statistic itself; otherwise ``method`` describes the approximation.
    """

    draws: Array
    observed: float
    p_value: float
    smallest_p: float
    exact: bool = True
    method: str = "shuffled pairings"

    @property
    def n(self) -> int:
        """The number of draws."""
        return len(self.draws)

    @property
    def mean(self) -> float:
        """The chance level."""
        return float(np.mean(self.draws))

    @property
    def std(self) -> float:
        """The standard deviation of the draws."""
        return float(np.std(self.draws, ddof=1)) if self.n > 1 else float("nan")

    @property
    def low(self) -> float:
        """The 5th percentile."""
        return float(np.quantile(self.draws, 0.05, method="lower"))

    @property
    def high(self) -> float:
        """The 95th percentile."""
        return float(np.quantile(self.draws, 0.95, method="higher"))

    def quantile(self, level: float) -> float:
        """A quantile of the draws."""
        return float(np.quantile(self.draws, level))

    @property
    def p_text(self) -> str:
        """The p-value as it is printed: the smallest possible one as a bound."""
        return p_text(self.p_value, self.smallest_p)

    @property
    def range_95(self) -> tuple[float, float]:
        """The 2.5th and the 97.5th percentile of the draws: the range that 95% of shuffled pairings lie in."""
        return self.quantile(0.025), self.quantile(0.975)

    def times(self, unit: float) -> Null:
        """The same in other units."""
        return Null(self.draws * unit, self.observed * unit, self.p_value, self.smallest_p, self.exact, self.method)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "range_95": self.range_95,
            "observed": self.observed,
            "p_value": self.p_value,
            "smallest_p": self.smallest_p,
            "n": self.n,
            "exact": self.exact,
            "method": self.method,
        }


def null_of(
    draws: Any,
    observed: float,
    *,
    higher_is_closer: bool,
    distinct: float = math.inf,
    tail: bool = False,
    exact: bool = True,
    method: str = "shuffled pairings",
) -> Null:
    """Draws as a null with its p-value, the real pairing counted in.

    Draws that equal the observed value up to rounding count as at least as close. With ``tail`` the p-value comes from
    a Pearson III distribution with the draws' first three moments, for statistics of which few can be drawn.
    """
    values = np.asarray(draws, dtype=np.float64)
    if not (np.isfinite(observed) and np.isfinite(values).all()):
        return Null(values, float(observed), float("nan"), float("nan"), exact, method)
    floor = 1.0 / distinct
    if tail:
        p, method = _tail_p(values, observed, higher_is_closer), "Pearson III tail of shuffled pairings"
        smallest = max(floor, _SMALLEST_TAIL)
        return Null(values, float(observed), max(p, smallest), smallest, exact, method)
    slack = 1e-9 * max(float(np.std(values)), 1e-3 * abs(observed), 1e-300)
    closer = values >= observed - slack if higher_is_closer else values <= observed + slack
    smallest = max(floor, 1 / (1 + len(values)))
    p = (1 + int(closer.sum())) / (1 + len(values))
    return Null(values, float(observed), max(p, floor), smallest, exact, method)


_SMALLEST_TAIL = 1e-3  # the smallest p-value of a tail fitted to few draws
_NEARLY_NORMAL = 1.6e-5  # skewness below which a gamma's shape is too large to compute its tail


def _tail_p(values: Array, observed: float, higher_is_closer: bool) -> float:
    """The upper tail of a Pearson III distribution fitted to draws, never below Student's for as many draws.

    Moments of few draws are themselves uncertain: Student's tail accounts for that, and the skewness counts only where
    it makes the tail heavier.
    """
    sign = 1.0 if higher_is_closer else -1.0
    n = len(values)
    spread = float(np.std(values, ddof=1)) if n >= _MOMENTS_ENOUGH else 0.0
    if not spread > 0:
        return (1 + int((sign * values >= sign * observed).sum())) / (1 + n)
    z = sign * (observed - float(np.mean(values))) / (spread * math.sqrt(1 + 1 / n))
    student = float(special.stdtr(n - 1, -z))
    skew = sign * skewness(values)
    return student if math.isnan(skew) else max(student, pearson3_tail(z, min(max(skew, -1.5), 1.5)))


def skewness(values: Array) -> float:
    r"""The adjusted Fisher-Pearson skewness of at least three values; NaN where they differ by rounding alone.

    .. math:: G_1=\frac{\sqrt{n(n-1)}}{n-2}\,\frac{m_3}{m_2^{3/2}}
    """
    n, mean = len(values), float(np.mean(values))
    second, third = (float(np.mean((values - mean) ** power)) for power in (2, 3))
    if second <= (float(np.finfo(np.float64).eps) * mean) ** 2:
        return math.nan
    return float(math.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5)


def pearson3_tail(z: float, skew: float) -> float:
    """The upper tail of Pearson III at mean 0 and variance 1: of a shifted gamma, mirrored for negative skewness."""
    if abs(skew) < _NEARLY_NORMAL:
        return float(special.ndtr(-z))
    shape = 4 / skew**2
    tail = special.gammaincc if skew > 0 else special.gammainc
    return float(tail(shape, max(shape + 2 * z / skew, 0.0)))


def p_text(p: float, smallest: float) -> str:
    """A p-value as it is printed: one that cannot be smaller as a bound."""
    if not math.isfinite(p):
        return "-"
    return f"<= {p:.2g}" if p <= smallest * (1 + 1e-9) else f"{p:.2g}"


# Intervals


@dataclass(frozen=True)
class Interval:
    """A 95% interval for an estimate: by the jackknife over blocks, unless stated otherwise."""

    low: float
    high: float
    level: float = LEVEL

    def times(self, unit: float) -> Interval:
        """The same in other units."""
        return Interval(self.low * unit, self.high * unit, self.level)


@dataclass(frozen=True)
class Value:
    """A number with its standard error or its interval; any of them may be unknown.

    It prints as its number (``.2f``), with its error (``.2f±``), or as a share in per cent (``%``).

    >>> f"{Value(0.25, 0.02):.2f±}", f"{Value(0.25, 0.02):%}", f"{Value(None):.2f}"
    ('0.25 ± 0.02', '25.0 ± 2.0 %', 'unknown')
    """

    mean: float | None
    error: float | None = None
    interval: Interval | None = None

    def __format__(self, form: str) -> str:
        if self.mean is None:
            return "unknown"
        share, times = form == "%", 100 if form == "%" else 1
        number, _, _ = (".1f±" if share else form).partition("±")
        text = format(times * self.mean, number)
        if self.error is not None and (share or form.endswith("±")):
            text += f" ± {format(times * self.error, number)}"
        return text.replace("-", "−") + (" %" if share else "")

    def __sub__(self, other: Value) -> Value:
        """The difference of independent numbers: errors add up in squares."""
        if self.mean is None or other.mean is None:
            return Value(None)
        known = [each.error for each in (self, other) if each.error is not None]
        return Value(self.mean - other.mean, math.hypot(*known) if known else None)

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The interval, or two standard errors on each side; the number itself where neither is known."""
        if self.interval is not None:
            return self.interval.low, self.interval.high
        if self.mean is None:
            return None, None
        return self.mean - 2 * (self.error or 0.0), self.mean + 2 * (self.error or 0.0)


def assign_blocks(n: int, groups: Array | None, rng: np.random.Generator, most: int | None = None) -> Array:
    """The block of each row: rows at random, or whole groups, that a jackknife leaves out together.

    Twenty-five blocks of rows, or as many blocks as groups up to fifty; more groups are pooled at random.
    """
    codes = np.arange(n) if groups is None else groups
    units = int(codes.max()) + 1
    count = min(most or (BLOCKS if groups is None else MOST_GROUP_BLOCKS), units)
    if groups is not None and units <= count:
        return codes
    sizes = np.bincount(codes)
    order = np.lexsort((rng.permutation(units), -sizes))  # large groups first, dealt forth and back: even blocks
    turn = np.arange(units) % (2 * count)
    block = np.empty(units, dtype=np.intp)
    block[order] = np.where(turn < count, turn, 2 * count - 1 - turn)
    return np.asarray(block[codes])


def jackknife_se(left_out: Array, estimate: Array | float, sizes: Array | None = None) -> Array:
    """The standard error of an estimate from its values without each block (first axis).

    ``sizes`` are the numbers of rows of the blocks, where they differ.
    """
    left_out = np.asarray(left_out, dtype=np.float64)
    count = len(left_out)
    if sizes is None or np.ptp(sizes) == 0:
        centre = left_out.mean(axis=0)
        return np.asarray(np.sqrt((count - 1) / count * ((left_out - centre) ** 2).sum(axis=0)))
    weight = np.asarray(sizes.sum() / sizes, dtype=np.float64).reshape(-1, *(1,) * (left_out.ndim - 1))
    pseudo = weight * np.asarray(estimate) - (weight - 1) * left_out
    centre = count * np.asarray(estimate) - ((1 - 1 / weight) * left_out).sum(axis=0)
    return np.asarray(np.sqrt(((pseudo - centre) ** 2 / (weight - 1)).mean(axis=0)))


def t_interval(
    estimate: float,
    se: float,
    blocks: int,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    level: float = LEVEL,
) -> Interval:
    """The estimate give or take Student's quantile of its standard error, within what the quantity can be."""
    reach = float(special.stdtrit(max(blocks - 1, 1), (1 + level) / 2)) * se
    return Interval(min(max(estimate - reach, least), estimate), max(min(estimate + reach, most), estimate), level)


def wilson(share: float, n: int, level: float = LEVEL) -> Interval:
    r"""Wilson's interval of a binomial share.

    .. math:: \frac{p+\frac{z^2}{2n}\pm z\sqrt{\frac{p(1-p)}n+\frac{z^2}{4n^2}}}{1+\frac{z^2}n}

    Examples
    --------
    >>> found = wilson(0.5, 100)
    >>> round(found.low, 3), round(found.high, 3)
    (0.404, 0.596)
    """
    z = float(special.ndtri((1 + level) / 2))
    middle, scale = share + z * z / (2 * n), 1 + z * z / n
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(max((middle - reach) / scale, 0.0), min((middle + reach) / scale, 1.0), level)


def jackknife(
    statistic: Callable[[Array], float],
    blocks: Array,
    estimate: float,
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> Interval:
    """The jackknife interval of a statistic of rows: ``statistic(kept)`` with a mask of the rows kept.

    Blocks come from :func:`assign_blocks`. The interval is centred at ``estimate``.
    """
    count = int(blocks.max()) + 1
    left_out = np.array([statistic(blocks != block) for block in range(count)])
    se = jackknife_se(left_out, estimate, np.bincount(blocks))
    return t_interval(estimate, float(se), count, least=least, most=most)


def ratio_jackknife(above: Array, below: Array) -> tuple[Array, Array]:
    """A ratio of sums and its standard error, from the sums of every block (first axis)."""
    above, below = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    estimate = above.sum(axis=0) / below.sum(axis=0)
    left_out = (above.sum(axis=0) - above) / (below.sum(axis=0) - below)
    return estimate, jackknife_se(left_out, estimate)


# Errors of fitted maps: the influence of every row, by its own residual and by the map that it helps to fit

MOST_ROWS = 20_000  # whose influence on the maps is computed; others are assumed to be like them


def influence_rows(n: int, groups: Array | None, rng: np.random.Generator) -> Array | None:
    """The rows whose influence is computed: all of them (None), or a random part of them in whole groups."""
    if n <= MOST_ROWS:
        return None
    codes = np.arange(n) if groups is None else groups
    order = rng.permutation(int(codes.max()) + 1)
    enough = int(np.searchsorted(np.cumsum(np.bincount(codes)[order]), MOST_ROWS)) + 1
    return np.flatnonzero(np.isin(codes, order[:enough]))


def error_variance(own: Array, through_map: Array | None, blocks: Array, rows: Array | None = None) -> float:
    """The variance of a summed error, from the influence of every row on it.

    ``own`` holds the influence by the rows' own residuals; ``through_map`` that by the fitted maps, of the chosen
    ``rows`` only (all of them by default).
    """
    plain = _block_variance(own, blocks)
    if through_map is None:
        return plain
    if rows is None:
        full = _block_variance(own + through_map, blocks)
    else:
        mine = own[rows]
        more = _block_variance(mine + through_map, blocks[rows]) - _block_variance(mine, blocks[rows])
        full = max(plain + more * len(own) / len(rows), 0.0)
    return (plain + full) / 2


def _block_variance(influence: Array, blocks: Array) -> float:
    count = int(blocks.max()) + 1
    sums = np.bincount(blocks, influence, count)
    return float(count / (count - 1) * ((sums - sums.mean()) ** 2).sum())


def ratio_influence(errors: Array, radii: Array, scored: Array | None) -> tuple[float, Array]:
    """The mean error in mean distances to the mean, and the influence of every row's own residual on it."""
    if scored is not None:
        errors, radii = errors * scored, radii * scored
    size = float(radii.sum())
    ratio = float(errors.sum()) / size
    return ratio, (errors - ratio * radii) / size


def interval_of(
    estimate: float, variance: float, blocks: Array, least: float = 0.0, scored: Array | None = None
) -> Interval:
    """Student's interval for an estimate whose variance came from so many blocks: those with rows that are scored."""
    count = int(blocks.max()) + 1
    told = count if scored is None else len(np.unique(blocks[scored]))
    if told < 2:  # one block does not tell how blocks vary
        return Interval(least, float("inf"))
    variance *= (told / (told - 1)) / (count / (count - 1))
    return t_interval(estimate, float(np.sqrt(variance)), told, least=least)


def haar(dimension: int, rng: np.random.Generator) -> Array:
    """A rotation or reflection drawn uniformly: Q of a Gaussian matrix, R's diagonal made positive (Mezzadri 2007)."""
    q, r = np.linalg.qr(rng.normal(size=(dimension, dimension)))
    return np.asarray(q * np.sign(np.diagonal(r)))


def quick_haar(dimension: int, rng: np.random.Generator) -> Array:
    """The same by Cholesky factors, of thousands of dimensions in half the time.

    The second factor corrects the first, whose error grows with the squared condition number. A Gaussian matrix is
    rarely so close to singular that there is no first one.
    """
    given = rng.normal(size=(dimension, dimension))
    q = given
    try:
        for _ in range(2):
            triangle = np.linalg.cholesky(q.T @ q)  # R is its transpose, with a positive diagonal
            q = linalg.solve_triangular(triangle, q.T, lower=True, check_finite=False).T
    except np.linalg.LinAlgError:
        q, r = np.linalg.qr(given)
        q = q * np.sign(np.diagonal(r))
    return np.asarray(q)
