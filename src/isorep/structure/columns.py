"""Factors and latents as columns: numbers, whole numbers or labels, discrete or continuous by a stated rule.

Factors and latents of the same rows, paired by id or in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..annotated import is_annotated
from ..errors import InputError
from ..representation import Array, Representation, as_representation, notes_on, reading_notes
from ..resampling import group_codes
from ..rows import refuse_non_finite

MOST_VALUES = 64
"""Largest number of distinct values of a floating-point column that may be discrete."""
ROWS_A_VALUE = 10
"""Fewest rows per distinct value of such a column, unless it has two values; latents must also be whole numbers."""
OUTLYING, FEW_ROWS = 10, 0.01
"""Entries so many interquartile ranges beyond the quartiles are outliers, if in fewer than this share of rows."""
LARGEST = 1e120
"""Larger numbers are refused, and numbers below its inverse count as 0: their squares would not be finite, or lost."""
MISSING = ("nan", "<NA>", "NaT", "None", "")


@dataclass(frozen=True, eq=False)
class Column:
    """One factor or latent. ``values`` are numbers; of text, the places of its labels in alphabetical order."""

    name: str
    values: Array
    discrete: bool
    why: str
    labels: tuple[str, ...] | None = None  # of text

    @property
    def text(self) -> bool:
        """Whether the values are labels, whose order has no meaning."""
        return self.labels is not None

    @cached_property
    def codes(self) -> Array:
        """The values as whole numbers from 0, in order."""
        return np.unique(self.values, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def constant(self) -> bool:
        """Whether all rows are equal."""
        return bool(np.all(self.values == self.values[0]))

    def take(self, rows: Array) -> Column:
        """Some rows; the kind of the column does not change."""
        return Column(self.name, self.values[rows], self.discrete, self.why, self.labels)

    def to_dict(self) -> dict[str, Any]:
        """The kind of the column."""
        distinct = len(np.unique(self.values))
        return {"name": self.name, "discrete": self.discrete, "why": self.why, "distinct": distinct}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of the same rows."""

    columns: tuple[Column, ...]
    name: str
    ids: Array | None = None
    reading: tuple[str, ...] = ()  # what was left out of a file, or converted
    text_left_out: tuple[str, ...] = ()  # columns of text in a file of latents

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, index: int) -> Column:
        return self.columns[index]

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def matrix(self) -> Array:
        """The values, a column each."""
        return np.column_stack([column.values for column in self.columns])

    def take(self, rows: Array) -> Columns:
        """Some rows."""
        ids = None if self.ids is None else self.ids[rows]
        return Columns(tuple(column.take(rows) for column in self.columns), self.name, ids)

    def only(self, indices: Iterable[int]) -> Columns:
        """Some columns."""
        return replace(self, columns=tuple(self.columns[index] for index in indices))


def as_columns(data: Any, role: str, discrete: Any = None) -> Columns:
    """Read columns from an array, a data frame, a mapping, a Representation or a file, and determine their kinds.

    Text, booleans and whole numbers are discrete, the last unless more than half of the rows differ; floating-point
    numbers are if they have at most 64 distinct values with 10 rows each on average, or only two. Such latents must
    also be whole numbers: a rotated grid of factors has few distinct values, too. ``discrete`` overrides this: True or
    False for all, one flag per column, or the names of the discrete ones.
    """
    if isinstance(data, Columns):
        return data if discrete is None else _told(data, discrete, role)
    if is_annotated(data):
        data = as_representation(data, role)
    if isinstance(data, str | Path):
        from ..storage.tables import read_table

        table = read_table(data, features=role == "latents")
        vectors, name, ids = table.columns, table.name, table.ids
        notes, left_out = notes_on(table.name, table.left_out, table.converted), table.left_out
    else:
        vectors, name, ids = _taken(data, role)
        notes = reading_notes(data) if isinstance(data, Representation) else []
        left_out = data.left_out if isinstance(data, Representation) else {}
    if not vectors:
        raise InputError(f"{name} has no columns")
    columns = tuple(_column(str(title), values, name, role) for title, values in vectors.items())
    if columns[0].values.shape[0] < 2:
        raise InputError(f"{name} has {columns[0].values.shape[0]} rows: at least 2 are needed")
    told = Columns(columns, name, ids, tuple(notes), tuple(each for each, why in left_out.items() if why == "text"))
    return told if discrete is None else _told(told, discrete, role)


def with_common_labels(a: Columns, b: Columns) -> tuple[Columns, Columns]:
    """The same columns, with one code for the same text on both sides."""
    sides: tuple[list[Column], list[Column]] = ([], [])
    for pair in zip(a, b, strict=True):
        if pair[0].text != pair[1].text:
            raise InputError(f"column {pair[0].name!r} holds text on one side and numbers on the other")
        known = sorted({label for column in pair for label in column.labels or ()})
        for side, column in zip(sides, pair, strict=True):
            if column.labels is not None:
                codes = np.searchsorted(known, column.labels).astype(np.float64)
                column = replace(column, values=codes[column.values.astype(int)], labels=tuple(known))
            side.append(column)
    return replace(a, columns=tuple(sides[0])), replace(b, columns=tuple(sides[1]))


def _taken(data: Any, role: str) -> tuple[dict[str, Array], str, Array | None]:
    """Titles and vectors, the name of the whole, and row ids."""
    if isinstance(data, Representation):
        refuse_non_finite(data.values, data.name or role)
        return _titled(np.asarray(data.values[:]), role), data.name or role, data.ids
    if hasattr(data, "to_numpy") and hasattr(data, "columns"):
        titles = [str(title) for title in data.columns]
        ids = np.asarray(["/".join(map(str, key)) if isinstance(key, tuple) else key for key in data.index])
        return _unique(titles, (np.asarray(data.iloc[:, i]) for i in range(len(titles))), role), role, ids
    if isinstance(data, Mapping):
        return _unique([str(title) for title in data], map(np.asarray, data.values()), role), role, None
    if hasattr(data, "detach"):
        data = data.detach().cpu().numpy()
    if isinstance(data, np.ma.MaskedArray):
        raise InputError(f"{role} is a masked array: fill or drop the masked entries first")
    if type(data).__module__.startswith("scipy.sparse"):
        raise InputError(f"{role} is sparse: turn it into a dense array first (.toarray())")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InputError(f"{role} is not a rectangular array: {error}") from error
    if array.ndim == 1 and len(array):
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{role} has shape {array.shape}: rows and columns are needed")
    return _titled(array, role), role, None


def _titled(array: Array, role: str) -> dict[str, Array]:
    letter = "z" if role == "latents" else "s"
    return {f"{letter}{index}": column for index, column in enumerate(array.T)}


def _unique(titles: Sequence[str], columns: Iterable[Array], role: str) -> dict[str, Array]:
    title, times = Counter(titles).most_common(1)[0] if titles else ("", 0)
    if times > 1:
        raise InputError(f"{role} has two columns called {title!r}")
    return dict(zip(titles, columns, strict=True))


def _column(title: str, given: Array, where: str, role: str) -> Column:
    called, values = f"column {title!r} of {where}", np.asarray(given)
    if values.ndim != 1:
        raise InputError(f"{called} has shape {values.shape} where one entry per row is needed")
    if values.dtype.kind in "cmMV":
        raise InputError(f"{called} holds {values.dtype}, neither numbers nor labels")
    if values.dtype.kind == "O":
        values = _plainer(values, called)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "U":
        _refuse_missing(np.isin(values, MISSING), called)
        labels, codes = np.unique(values, return_inverse=True)
        return Column(title, codes.astype(np.float64), True, "text", tuple(map(str, labels)))
    numbers = _exact(values, called).astype(np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        kind = "NaN" if np.isnan(numbers[row]) else "an infinite value"
        raise InputError(f"{called} holds {kind} at row {row} ({int(bad.sum())} such values in all)")
    sizes = np.abs(numbers)
    if sizes.max(initial=0.0) > LARGEST:
        raise InputError(f"{called} holds {numbers[sizes.argmax()]:.3g}, beyond {LARGEST:g}: rescale it")
    if 0 < sizes.max(initial=0.0) < 1 / LARGEST:
        raise InputError(f"{called} holds nothing beyond {sizes.max():.3g}, below {1 / LARGEST:g}: rescale it")
    return Column(title, np.where(sizes < 1 / LARGEST, 0.0, numbers), *_kind(values, role))


def _refuse_missing(absent: Array, called: str) -> None:
    if absent.any():
        count, first = int(absent.sum()), int(np.argmax(absent))
        raise InputError(f"{called} is missing for {count} rows, the first at row {first}")


def _exact(values: Array, called: str) -> Array:
    """Whole numbers that float64 would merge, counted from the smallest: only their differences matter."""
    if values.dtype.kind not in "iu" or not len(values) or max(abs(int(values.min())), int(values.max())) <= 2**53:
        return values
    if int(values.max()) - int(values.min()) > 2**53:
        raise InputError(f"{called} holds whole numbers that lie too far apart: give them as text")
    return np.asarray(values - values.min())


def _plainer(values: Array, called: str) -> Array:
    """A column of Python objects as booleans, numbers or text."""
    kinds = {type(each) for each in values.tolist()}
    if kinds <= {bool}:
        return values.astype(bool)
    if kinds <= {int} and max(map(abs, values.tolist())) >= 2**63:
        raise InputError(f"{called} holds whole numbers of more than 64 bits: give them as text")
    if kinds <= {int, float, bool}:
        return values.astype(np.int64 if kinds <= {int} else np.float64)
    if not all(issubclass(kind, str) for kind in kinds):
        _refuse_missing(np.array([str(each) in MISSING for each in values.tolist()]), called)
        mixed = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"{called} mixes kinds of values ({mixed}): use numbers or text")
    return values.astype(str)


def _kind(values: Array, role: str) -> tuple[bool, str]:
    if values.dtype.kind == "b":
        return True, "booleans"
    n, distinct = len(values), len(np.unique(values))
    if values.dtype.kind in "iu":
        if 2 * distinct > n and distinct > 2:
            return False, f"whole numbers, {distinct} distinct ones in {n} rows"
        return True, "whole numbers"
    few = distinct <= MOST_VALUES and distinct * ROWS_A_VALUE <= n
    if distinct <= 2 or (few and (role != "latents" or bool(np.all(values == np.rint(values))))):
        return True, f"{distinct} distinct values"
    return False, f"numbers, {distinct} distinct ones in {n} rows" if few else "numbers"


def _told(columns: Columns, discrete: Any, role: str) -> Columns:
    """The same columns with the kinds given by the caller."""
    flags = _flags(columns, discrete, role)
    told = []
    for column, flag in zip(columns, flags, strict=True):
        if column.text and not flag:
            raise InputError(f"column {column.name!r} of {columns.name} holds text, which cannot be continuous")
        told.append(column if flag == column.discrete else replace(column, discrete=flag, why="as told"))
    return replace(columns, columns=tuple(told))


def _flags(columns: Columns, discrete: Any, role: str) -> list[bool]:
    if isinstance(discrete, bool | np.bool_):
        return [bool(discrete) or column.text for column in columns]
    given = [discrete] if isinstance(discrete, str) else discrete
    if isinstance(given, Sequence | np.ndarray):
        if all(isinstance(each, str) for each in given):
            unknown = [each for each in given if each not in columns.names]
            if unknown:
                known = ", ".join(columns.names[:12])
                raise InputError(f"there is no column {unknown[0]!r} in {columns.name}; there are {known}")
            return [column.name in given or column.text for column in columns]
        if len(given) == len(columns) and all(isinstance(each, bool | np.bool_) for each in given):
            return [bool(each) for each in given]
    raise InputError(
        f"which {role} are discrete is said by True, False, one flag for each of {len(columns)} columns, or by names, "
        f"not by {discrete!r}"
    )


def moments_of(x: Array) -> tuple[Array, Array]:
    """Means and standard deviations of columns; of constant ones their value, exactly, and 1.

    The mean of equal numbers may round. A spread of 1e-17 would then inflate rows with a different entry.
    """
    constant = x.min(axis=0) == x.max(axis=0)
    mean = np.where(constant, x[0], x.mean(axis=0))
    return mean, np.where(constant, 1.0, x.std(axis=0))


def standardised(values: Array, by: Array | None = None) -> Array:
    """Columns at mean 0 and standard deviation 1 of these rows, or of the rows ``by``; constant ones are 0."""
    mean, spread = moments_of(values if by is None else by)
    return np.asarray((values - mean) / spread)


def drawn_in(values: Array) -> Array:
    """The column with a few outliers drawn in to where outliers begin; where its quartiles are equal, as it is."""
    low, high = np.quantile(values, [0.25, 0.75])
    least, most = low - OUTLYING * (high - low), high + OUTLYING * (high - low)
    outliers = int(np.sum((values < least) | (values > most)))
    if high > low and 0 < outliers < max(2, FEW_ROWS * len(values)):
        return np.asarray(np.clip(values, least, most))
    return values


def mean_of(values: Mapping[str, float], otherwise: float = 0.0) -> float:
    """The mean over factors or latents, or ``otherwise`` where there are none."""
    return float(np.mean(list(values.values()))) if values else otherwise


def paired(factors: Any, latents: Any, *, discrete_factors: Any = None, discrete_latents: Any = None) -> Pair:
    """Factors and latents of the same rows: joined on ids where both have them, in order otherwise."""
    if any(len(getattr(data, "shape", ())) > 2 for data in (factors, latents)):
        raise InputError("factors and latents have rows and columns; slots of three axes are for slot_identifiability")
    sources, codes = as_columns(factors, "factors", discrete_factors), as_columns(latents, "latents", discrete_latents)
    said = [*sources.reading, *codes.reading]
    text = [column.name for column in codes if column.text]
    if text and not any(column.text for column in sources):
        raise InputError(
            f"latent {text[0]!r} holds text and no factor does: are factors and latents swapped? "
            "score_factors takes (latents, factors), the scores of isorep.structure take (factors, latents)"
        )
    hints = _swapped(sources, codes)
    continuous = not any(column.discrete for column in sources)
    if codes.text_left_out and continuous and (hints or len(sources) > len(codes)):
        raise InputError(
            f"{codes.name} holds text ({codes.text_left_out[0]!r}) and all {len(sources)} factors ({sources.name}) "
            "are continuous: are factors and latents swapped? If not, leave the text out of the latents"
        )
    said += hints
    kept: Array | None = None
    if _share_ids(sources.ids, codes.ids):
        sources, codes, kept, dropped = _joined(sources, codes)
        if dropped:
            said.append(f"{dropped} rows were left out, because their ids are not on both sides")
    elif sources.n != codes.n:
        raise InputError(f"{codes.name} has {codes.n} rows and {sources.name} has {sources.n}, with no ids to join by")
    return Pair(sources, codes, tuple(said), kept)


@dataclass(frozen=True, eq=False)
class Pair:
    """Factors and latents of the same rows; ``rows`` are those of the latents as given, where they were joined."""

    factors: Columns
    latents: Columns
    caveats: tuple[str, ...] = ()
    rows: Array | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.factors.n

    def group_codes(self, groups: Any) -> Array | None:
        """Labels of the latents' rows as whole numbers from 0; joined as they were."""
        if groups is not None and self.rows is not None:
            labels = np.asarray(groups)
            groups = labels[self.rows] if labels.ndim == 1 and len(labels) > int(self.rows.max()) else labels
        return group_codes(groups, self.n)

    def take(self, rows: Array) -> Pair:
        """Some rows of both."""
        return Pair(self.factors.take(rows), self.latents.take(rows))


def _swapped(factors: Columns, latents: Columns) -> list[str]:
    """A hint where factors look like latents, continuous, and latents like factors: few, or mostly discrete."""
    discrete = sum(column.discrete for column in latents)
    if not discrete or any(column.discrete for column in factors):
        return []
    if 2 * discrete <= len(latents) and len(factors) <= len(latents):
        return []
    return [
        f"all {len(factors)} factors ({factors.name}) are continuous and {discrete} of {len(latents)} latents "
        f"({latents.name}) discrete: make sure that factors and latents are not swapped"
    ]


def _joined(a: Columns, b: Columns) -> tuple[Columns, Columns, Array | None, int]:
    left, right = np.asarray(a.ids), np.asarray(b.ids)
    if left.dtype.kind != right.dtype.kind:
        left, right = left.astype(str), right.astype(str)
    for ids, each in ((left, a), (right, b)):
        if len(np.unique(ids)) < len(ids):
            raise InputError(f"{each.name} has duplicate row ids")
    if len(left) == len(right) and bool(np.all(left == right)):
        return a, b, None, 0
    _, rows, others = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    if len(rows) < 2:
        raise InputError(f"{a.name} and {b.name} share {len(rows)} row ids: at least 2 are needed")
    order = np.argsort(others, kind="stable")  # the latents' order
    dropped = max(len(left), len(right)) - len(rows)
    return a.take(rows[order]), b.take(others[order]), others[order], dropped


def _share_ids(left: Array | None, right: Array | None) -> bool:
    """Whether rows can be joined; a running index is no id, unless the other side has it in another order."""
    if left is None or right is None:
        return False
    counting = _counts(left) + _counts(right)
    if counting != 1:
        return counting == 0
    return left.dtype.kind == right.dtype.kind and _counts(np.sort(left)) and _counts(np.sort(right))


def _counts(index: Array) -> bool:
    """Whether an index is the row number."""
    return index.dtype.kind in "iu" and bool(np.array_equal(index, np.arange(len(index))))
