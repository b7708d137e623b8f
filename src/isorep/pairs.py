"""Pairs of representations: two sides on their common rows, the facts about each, and rows paired wrongly or repeated.

Wrongly paired rows are the most common mistake; they are searched for where a pairing is at chance. Tokens of one type,
augmented copies or duplicated records put the same source row into training and test rows: a map then reproduces its
training rows, and two unrelated embedding tables seem to agree. Equal rows are therefore never both fitted to and
scored, and near-copies cause a caveat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from .covariance import Factor, or_tiny
from .errors import InputError
from .representation import Array, Matrix, Representation, RowMatch, match_rows, reading_notes, told_apart
from .resampling import assign_folds, common_codes
from .rows import equal_rows, kept_by_workers, read_rows, select
from .storage import loaded

SPECTRUM = 1000  # singular values that are kept with a side


class Pair:
    """Two representations reduced to their common rows."""

    def __init__(self, source: Representation, target: Representation, match: RowMatch) -> None:
        self.x: Matrix = select(source.values, match.source_rows)
        self.y: Matrix = select(target.values, match.target_rows)
        self.names = (source.name or "source", target.name or "target")
        self.n, self.given = int(self.x.shape[0]), len(source)
        self.reading = reading_notes(source, target)
        ids = row_ids(source, target)
        rows = match.source_rows if source.ids is not None else match.target_rows
        self.ids = ids if ids is None or rows is None else ids[rows]


def open_pair(
    source: Any, target: Any, roles: tuple[str, str], groups: Any, join: bool
) -> tuple[Pair, RowMatch, Array | None]:
    """Two sides as given, read and matched row by row; how they matched, and the groups of the common rows."""
    a, b = (loaded(data, role) for data, role in zip((source, target), roles, strict=True))
    a, b = distinct(a, b, roles)
    match = match_rows(a, b, join=join)
    a, b = kept_by_workers(a, b)
    return Pair(a, b, match), match, common_codes(groups, len(a), match.source_rows, "groups")


def distinct(a: Representation, b: Representation, roles: tuple[str, str]) -> tuple[Representation, Representation]:
    """Both sides under names that differ: by folder or part where they come from files, otherwise by role."""
    if a.name != b.name:
        return a, b
    names = told_apart([str(a.name), str(b.name)], [a.origin, b.origin])
    if a.origin == b.origin:
        names = [f"{side.name} ({role})" for side, role in zip((a, b), roles, strict=True)]
    return replace(a, name=names[0]), replace(b, name=names[1])


def row_ids(source: Representation, target: Representation) -> Array | None:
    """The ids of paired rows, from whichever side has them."""
    return source.ids if source.ids is not None else target.ids


@dataclass(frozen=True)
class Side:
    """Facts about one of the two representations.

    ``half_variance_share`` is the smallest share of the rows that carry half of the variance; None if rows were not
    read. ``directions_for_most`` is the number of principal directions that carry 90% of the variance;
    ``left_out_columns`` hardly vary and do not count as dimensions.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    rank: int
    condition: float
    constant_columns: int
    rms_radius: float
    spectrum: tuple[float, ...] = ()
    half_variance_share: float | None = None
    left_out_columns: tuple[int, ...] = ()
    directions_for_most: int | None = None


MOST = 0.9  # share of the variance that few directions may carry


def rms_radius(name: str, n: int, mean: Array, squares: float) -> float:
    r"""The root mean square distance from the mean, :math:`\sqrt{\operatorname{tr}\operatorname{Cov}}`.

    ``squares`` is the sum of squared distances. Rows that are all the same, and spreads whose squares leave float64,
    are refused.
    """
    if not squares > (np.finfo(float).eps * np.linalg.norm(mean)) ** 2 * n:
        told = f"all rows of {name} are identical, as far as float64 can tell{or_tiny(mean)}"
        raise InputError(f"{told}: there is no diameter")
    radius = float(np.sqrt(squares / n))
    if not 1e-140 < radius < 1e140:
        raise InputError(f"the values of {name} spread by {radius:.0e}: rescale, their squares leave float64")
    return radius


def require_like_sizes(names: Sequence[str], radii: Sequence[float]) -> None:
    """Refuse sides of so different RMS radii that squares of the scales between them leave float64."""
    least, most = int(np.argmin(radii)), int(np.argmax(radii))
    ratio = radii[most] / radii[least]
    if not ratio < 1e140:
        told = f"the values of {names[most]} spread {ratio:.0e} times as far as those of {names[least]}"
        raise InputError(f"{told}: rescale one of them, squares of such a ratio leave float64")


def working_dtype(sides: Sequence[Matrix], radii: Sequence[float]) -> Any:
    """float32 where all sides are stored no finer, unless squares of such values would leave its range."""
    plain = all(1e-12 < radius < 1e12 for radius in radii)
    return np.float32 if plain and max(side.dtype.itemsize for side in sides) <= 4 else np.float64


def half_variance_share(squares: Array) -> float:
    """The smallest share of rows that carry half of the variance, from their squared distances from the mean."""
    carried = np.cumsum(np.sort(squares)[::-1], dtype=np.float64)
    return float((np.searchsorted(carried, carried[-1] / 2) + 1) / len(squares))


def _directions_for(singular_values: Array, share: float) -> int | None:
    """The number of principal directions that carry this share of the variance."""
    if not len(singular_values):
        return None
    carried = np.cumsum(singular_values**2)
    return int(np.searchsorted(carried, share * carried[-1] * (1 - 1e-12))) + 1


def describe_side(name: str, values: Matrix, factor: Factor, radius: float, half_share: float | None = None) -> Side:
    """Sizes, rank, condition and spectrum."""
    return Side(
        name=name,
        rows=int(values.shape[0]),
        columns=int(values.shape[1]),
        dtype=str(values.dtype),
        rank=factor.rank,
        condition=factor.condition,
        constant_columns=int(factor.constant.sum()),
        rms_radius=radius,
        spectrum=tuple(factor.singular_values[:SPECTRUM].tolist()),
        half_variance_share=half_share,
        left_out_columns=tuple(np.flatnonzero(factor.left_out).tolist()),
        directions_for_most=_directions_for(factor.singular_values, MOST),
    )


# Another pairing that would agree

SHIFTS = 20  # rows by which one side may be off, in either direction
_ROWS = 4000  # used
_LEAST_ROWS = 200  # fewer do not determine chance
_DRAWS = 100
_CLEAR = 1e-7  # the share of chance that may lie above what a shift gives
_SAME = 0.2  # of what independent samples of one distribution differ by, below which two sides hold the same rows


def broken_pairing(x: Matrix, y: Matrix, names: tuple[str, str], seed: int) -> str | None:
    """A sentence if another pairing of the rows would agree where the given one does not; None otherwise."""
    n = min(x.shape[0], y.shape[0])
    if n < _LEAST_ROWS:
        return None
    rng = np.random.default_rng(seed)
    most = min(SHIFTS, n // 5)
    # Consecutive rows, so that shifted ones are at hand.
    start = int(rng.integers(0, n - min(n, _ROWS) + 1))
    rows = slice(start, start + min(n, _ROWS))
    a, b = (_whitened(np.asarray(read_rows(values, rows), dtype=np.float64)) for values in (x, y))
    # Rows far apart, in their order, so that chance holds what neighbouring rows share.
    far = np.arange(2 * most, len(b) - 2 * most)
    steps = rng.choice(far, min(_DRAWS, len(far)), replace=False)
    chance = np.array([_overlap(a, np.roll(b, step, axis=0)) for step in steps])
    mean, variance = float(chance.mean()), max(float(chance.var(ddof=1)), 1e-30)

    def height(left: Array, right: Array) -> float:
        return gamma_height(_overlap(left, right) * (len(a) / len(left)), mean, variance)

    clear = -np.log10(_CLEAR)
    given = height(a, b)
    tried = {f"the rows of {names[1]} in reverse order": height(a, b[::-1])}
    for step in range(1, most + 1):
        rows_word = "row" if step == 1 else "rows"
        tried[f"{names[1]} moved up by {step} {rows_word}"] = height(a[:-step], b[step:])
        tried[f"{names[1]} moved down by {step} {rows_word}"] = height(a[step:], b[:-step])
    name, best = max(tried.items(), key=lambda entry: entry[1])
    if best > clear and best > 3 * given:
        return (
            f"the pairing looks broken: as given, the rows of {names[0]} and {names[1]} are not related beyond "
            f"chance; with {name} they clearly are: check that both hold the same examples in the same order"
        )
    if n <= _ROWS and given < clear and _same_rows(x, y):
        return (
            f"the pairing looks broken: whitened, the rows of {names[0]} and {names[1]} lie at the same distances from "
            "their mean, as the same rows in another order would: check the order of the rows"
        )
    return None


def gamma_height(overlap: float, mean: float, variance: float) -> float:
    """Minus the decimal logarithm of the probability that chance is as high, by a gamma tail."""
    with np.errstate(divide="ignore"):  # beyond the smallest number it is infinite
        return -float(np.log10(special.gammaincc(mean**2 / variance, overlap * mean / variance)))


def _whitened(rows: Array) -> Array:
    """Rows about their mean in leading principal directions, each at unit norm: few, so that chance is small."""
    centred = rows - rows.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    kept = min(int((singular > 1e-6 * max(singular[0], 1e-300)).sum()), 20, len(rows) // 10)
    return np.asarray(left[:, : max(kept, 1)])


def _overlap(a: Array, b: Array) -> float:
    """The summed squared canonical correlations of two sets of orthonormal columns."""
    return float(np.linalg.norm(a.T @ b) ** 2)


def _same_rows(x: Matrix, y: Matrix) -> bool:
    """Whether the leverages of two sides are as similar as those of the same rows in another order.

    Leverages are invariant to invertible linear maps, so that only another order can separate those of equal rows.
    Independent samples of one distribution differ by about the root of two over the number of rows (Kolmogorov).
    """
    first, second = (_leverages(np.asarray(values[:], dtype=np.float64)) for values in (x, y))
    if first is None or second is None:
        return False
    return bool(kolmogorov_distance(first, second) < _SAME * np.sqrt(2 / x.shape[0]))


def kolmogorov_distance(first: Array, second: Array) -> float:
    """The largest difference of two samples' distribution functions."""
    every = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(sample), every, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def _leverages(rows: Array) -> Array | None:
    """Squared norms of whitened rows; None where uninformative, as for few rows or few different ones."""
    left, singular, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    rank = int((singular > 1e-6 * max(float(singular[0]), 1e-300)).sum())
    leverages = np.einsum("ij,ij->i", left[:, :rank], left[:, :rank])
    if not 0 < rank <= len(rows) // 4 or len(np.unique(leverages.round(9))) < len(rows) // 2:
        return None
    return np.asarray(leverages.round(12))


# Repeated rows

LEAST_UNITS = 20  # fewest sets of equal rows for folds, shuffles and intervals
_LARGEST = 0.5  # share of rows that the largest set may hold
_TYPICAL = 100_000  # distances that the typical one is the median of
_PROBED, _AMONG = 500, 5000  # rows whose neighbours are searched, and among which
_COPY, _CLOSER = 0.1, 0.25  # of the median distance, and of the distance to the tenth neighbour
_COMMON = 0.05  # share of rows with a near-copy that causes a caveat


@dataclass(frozen=True, eq=False)
class Repeats:
    """Equal rows of either side, and their treatment.

    Attributes
    ----------
    counts : tuple of int
        Number of rows of each side that equal an earlier row of it.
    groups : (n,) int array or None
        Sets of rows that are equal on either side, which move as one; None where nothing repeats, where groups were
        given, and where the sets are too few.
    scored : (n,) bool array or None
        With groups: rows that do not occur again in another fold; None for all.
    held : int or None
        The side whose equal rows make up ``groups``, where those of all sides leave too few sets.
    instead_of_groups : bool
        Whether groups were given that could not be kept whole.
    """

    counts: tuple[int, ...]
    groups: Array | None = None
    scored: Array | None = None
    held: int | None = None
    instead_of_groups: bool = False

    @property
    def count_scored(self) -> int | None:
        """The number of rows that are scored; None for all."""
        return None if self.scored is None else int(self.scored.sum())

    def notes(self, names: Sequence[str], n: int) -> list[str]:
        """Caveats about equal rows."""
        repeated = [side for side, count in enumerate(self.counts) if count]
        if not repeated:
            return []
        told = {side: f"{self.counts[side]} of {n} rows of {names[side]} equal an earlier row" for side in repeated}
        listed = " and ".join(told.values())
        if self.groups is not None:
            units = int(self.groups.max()) + 1
            here = listed if self.held is None else told.pop(self.held)
            said = [f"{here}: equal rows are held out and shuffled together, as {units} sets"]
            if self.instead_of_groups:
                said[0] += "; groups are not kept whole, since hardly any row could be scored with them"
            return said if self.held is None or not told else [*said, f"{' and '.join(told.values())}: {_TOO_FEW}"]
        if self.scored is not None:
            return [
                f"{listed}: {int(self.scored.sum())} rows are scored, those that do not occur again among the rows "
                "that maps are fitted to"
            ]
        return [f"{listed}: {_TOO_FEW}"]


_TOO_FEW = "too few distinct rows to hold out equal rows together, so maps were fitted to them"


def hold_out(
    codes: Sequence[Array], groups: Array | None, folds: int, within: Array | None, rng: np.random.Generator
) -> tuple[Array | None, Array, Repeats]:
    """Which rows move as one, the fold of each row, and the treatment of repeated rows.

    Without groups equal rows are the units. With groups rows that occur again in another fold are not scored; where
    that leaves hardly any, equal rows are the units after all, and groups are not kept whole.
    """
    n = len(codes[0])
    alone = repeats_without_groups(codes, folds, within)
    if groups is None:
        return alone.groups, assign_folds(n, folds, alone.groups, rng), alone
    fold_of = assign_folds(n, folds, groups, rng)
    repeats = repeats_across_folds(codes, fold_of)
    if repeats.scored is None or int(repeats.scored.sum()) >= LEAST_UNITS:
        return groups, fold_of, repeats
    if alone.groups is None:
        return groups, fold_of, repeats if repeats.scored.any() else Repeats(repeats.counts)
    return alone.groups, assign_folds(n, folds, alone.groups, rng), replace(alone, instead_of_groups=True)


def repeats_without_groups(codes: Sequence[Array], folds: int, within: Array | None) -> Repeats:
    """Equal rows as groups: those equal on either side, or on one side where that leaves too few sets.

    With classes, equal rows of different classes stay apart, since sets are shuffled inside a class.
    """
    n = len(codes[0])
    counts = _counts(codes)
    if not any(counts):
        return Repeats(counts)
    for side, groups in enumerate((_joined(codes), *codes), start=-1):
        if within is not None:
            groups = np.unique(np.stack([groups, within]), axis=1, return_inverse=True)[1]
        units = int(groups.max()) + 1
        if max(LEAST_UNITS, folds) <= units < n and np.bincount(groups).max() <= _LARGEST * n:
            return Repeats(counts, np.asarray(groups), held=None if side < 0 else side)
    return Repeats(counts)


def repeats_across_folds(codes: Sequence[Array], fold_of: Array) -> Repeats:
    """With groups given: which rows occur again in another fold, on either side."""
    again = np.zeros(len(fold_of), dtype=bool)
    for side in codes:
        first, last = np.full(len(fold_of), len(fold_of)), np.full(len(fold_of), -1)
        np.minimum.at(first, side, fold_of)
        np.maximum.at(last, side, fold_of)
        again |= (first != last)[side]
    return Repeats(_counts(codes), scored=~again if again.any() else None)


def _counts(codes: Sequence[Array]) -> tuple[int, ...]:
    return tuple(len(each) - int(each.max()) - 1 for each in codes)


def _joined(codes: Sequence[Array]) -> Array:
    """Rows that are connected by being equal on any side."""
    from scipy.sparse import coo_array  # slow to load, and most pairs repeat no rows
    from scipy.sparse.csgraph import connected_components

    n = len(codes[0])
    starts = np.cumsum([n, *(int(each.max()) + 1 for each in codes)])
    rows = np.tile(np.arange(n), len(codes))
    sets = np.concatenate([each + start for each, start in zip(codes, starts[:-1], strict=True)])
    links = coo_array((np.ones(len(rows)), (rows, sets)), shape=(int(starts[-1]),) * 2)
    parts = connected_components(links, directed=False)[1][:n]
    return np.asarray(np.unique(parts, return_inverse=True)[1])


def near_copies(
    values: Matrix, directions: float, rng: np.random.Generator, labels: Array | None = None
) -> float | None:
    """The share of rows whose nearest neighbour is a near-copy, beyond the share expected by chance.

    A near-copy lies within a tenth of the median distance, and four times nearer than the tenth neighbour. Rows that
    fill a space of ``directions`` dimensions have such neighbours by chance, which is subtracted. Equal rows and rows
    of one group do not count as neighbours here: they are never both fitted to and scored.
    """
    n = values.shape[0]
    if n < 50:
        return None
    among = np.sort(rng.permutation(n)[:_AMONG])
    rows = np.asarray(read_rows(values, among), dtype=np.float64)
    probed = rows[: min(_PROBED, len(rows))]
    squares = np.einsum("ij,ij->i", rows, rows)
    apart = squares[: len(probed), None] - 2 * probed @ rows.T + squares
    for codes in (equal_rows(rows), None if labels is None else labels[among]):
        if codes is not None:
            apart[codes[: len(probed), None] == codes] = np.inf
    finite = np.isfinite(apart)
    if finite.sum(axis=1).min() < 10:
        return None
    floor = 1e-12 * float(squares.max())
    known = apart[finite]
    typical = float(np.sqrt(np.median(known[:: 1 + len(known) // _TYPICAL])))
    nearest = np.sqrt(np.maximum(apart.min(axis=1), floor))
    near = np.flatnonzero(nearest < _COPY * typical)
    tenth = np.sqrt(np.maximum(np.partition(apart[near], 9, axis=1)[:, 9], floor))
    copies = int((nearest[near] < _CLOSER * tenth).sum())
    expected = 1 - (1 - _CLOSER ** max(directions, 1.0)) ** 9
    share = copies / len(probed)
    return share if share > _COMMON + 3 * expected else None
