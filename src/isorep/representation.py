"""Representation: one row per example, with optional row ids and name.

Also the check that two representations describe the same examples in the same order, which every comparison of paired
rows requires.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .annotated import dense, is_annotated, opened
from .chunked import ChunkedRows, is_dask
from .errors import InputError
from .files import visible, without_secrets
from .results import cut_inside

Array = NDArray[Any]

_MOST_NAMED = 8


class Matrix(Protocol):
    """Interface of stored values: a shape, a dtype, and row slices that are arrays.

    numpy arrays and memory maps satisfy it, and so do HDF5 and zarr arrays. Dask arrays become
    ``isorep.chunked.ChunkedRows``, which stay in the workers.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> Any: ...  # noqa: D102
    def __getitem__(self, rows: Any, /) -> Any: ...


def rounding_of(values: Matrix) -> float:
    """The relative rounding of stored values: that of their dtype, unless they were stored at a lower precision."""
    stored = getattr(values, "rounding", None)
    return float(np.finfo(values.dtype).eps if stored is None else stored)


class BFloat16Matrix:
    """bfloat16 values as float32, of which they are the upper half of the bits: numpy has no bfloat16."""

    dtype = np.dtype(np.float32)
    rounding = 2.0**-7

    def __init__(self, bits: Array) -> None:
        self._bits = bits
        self.shape = bits.shape

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray((self._bits[rows].astype(np.uint32) << 16).view(np.float32))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Representation:
    """Values of ``n`` examples in ``d`` dimensions, with the examples' ids.

    Parameters
    ----------
    values : (n, d) array or AnnData
        Floating-point values, one row per example. A memory map stays on disk, a Dask array in the workers. Sparse
        matrices become dense if they take at most 1 GiB then. Of AnnData X is taken, or the only entry of obsm.
    ids : (n,) array, optional
        Strings or integers that name the examples; they must be unique.
    name : str, optional
        Name of this representation in tables and errors.
    left_out : mapping
        Columns or arrays of the file that are not among the values, with the reason; set by :func:`isorep.read`.
    converted : mapping
        Columns of the file that were turned into numbers, and from what.
    origin : str
        The file that the values come from, as ``FILE`` or ``FILE::PART``; it tells files of one name apart.
    taken : str
        The part of the file that was taken where none was named, in words.
    columns : sequence of str, optional
        Names of the features: those of AnnData's var or of a table's columns.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> isorep.Representation(np.zeros((4, 2)), ids=["a", "b", "c", "d"], name="seed 0")
    Representation('seed 0', 4 rows x 2 columns, float64, with ids)
    """

    values: Matrix
    ids: Array | None = None
    name: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    converted: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    taken: str = ""
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.name, str):
            object.__setattr__(self, "name", visible(self.name))
        label = self.name or "the representation"
        if is_annotated(self.values):
            self._open_annotated()
        elif self.columns is None and hasattr(self.values, "to_numpy") and hasattr(self.values, "columns"):
            object.__setattr__(self, "columns", _frame_columns(self.values))
        object.__setattr__(self, "values", _checked_values(self.values, label))
        if self.ids is not None:
            object.__setattr__(self, "ids", _checked_ids(self.ids, self.shape[0], label))
        if self.columns is not None:
            object.__setattr__(self, "columns", _checked_columns(self.columns, self.shape[1], label))

    def _open_annotated(self) -> None:
        """Take the default matrix of an AnnData object."""
        found = opened(self.values)
        ids = found.ids if self.ids is None else self.ids
        for name, held in (("values", found.values), ("ids", ids), ("columns", found.columns)):
            object.__setattr__(self, name, held)
        object.__setattr__(self, "left_out", {**found.left_out, **self.left_out})
        object.__setattr__(self, "taken", self.taken or found.taken)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.values.shape
        return int(rows), int(columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        ids = "with ids" if self.ids is not None else "no ids"
        rows, columns = self.shape
        left = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"Representation({self.name!r}, {rows} rows x {columns} columns, {self.values.dtype}, {ids}{left})"


def reading_notes(*representations: Representation) -> list[str]:
    """Sentences that name the columns or arrays which were left out of files, or converted, when they were read.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> a = isorep.Representation(np.eye(2), name="seed0.csv", left_out={"label": "text", "time": "timestamp"})
    >>> reading_notes(a, a)
    ["left out of seed0.csv: 'label' (text), 'time' (timestamp)"]
    """
    said = [f"took {each.taken} of {each.name or 'the representation'}" for each in representations if each.taken]
    for each in representations:
        said += notes_on(each.name or "the representation", each.left_out, each.converted)
    return list(dict.fromkeys(said))


def notes_on(name: str, left_out: Mapping[str, str], converted: Mapping[str, str]) -> list[str]:
    """The sentences about one file: what was left out of it, and what was converted."""
    said = (("left out of", left_out), ("converted in", converted))
    return [f"{words} {name}: {_by_reason(columns)}" for words, columns in said if columns]


def _by_reason(columns: Mapping[str, str]) -> str:
    """Columns with their reasons, grouped by reason, and not too many."""
    parts: dict[str, list[str]] = {}
    for name, reason in columns.items():
        parts.setdefault(reason, []).append(repr(cut_inside(name, 40)))
    said = []
    for reason, names in parts.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        said.append(f"{', '.join(names[:_MOST_NAMED])}{more} ({reason})")
    return ", ".join(said)


def told_apart(names: Sequence[str], origins: Sequence[Any]) -> list[str]:
    """Names that differ: files of one name are told apart by their folders or parts, whatever is left by number.

    Examples
    --------
    >>> told_apart(["flat.npy", "flat.npy"], ["runs/seed0/flat.npy", "runs/seed1/flat.npy"])
    ['seed0/flat.npy', 'seed1/flat.npy']
    """
    split = [without_secrets(str(origin or "")).partition("::") for origin in origins]
    folders = [Path(path).resolve().parts[1:-1] if path else () for path, _, _ in split]
    parts = [f"{name}{mark}{part}" for name, (_, mark, part) in zip(names, split, strict=True)]
    by_folder = [
        ["/".join((*folder[-depth:], name)) for folder, name in zip(folders, names, strict=True)]
        for depth in range(1, 1 + max(map(len, folders), default=0))
    ]
    choices = [list(names), *by_folder, parts]
    best = max(choices, key=lambda told: len(set(told)))
    best = [visible(name) for name in best]
    often, seen = Counter(best), Counter[str]()
    told = []
    for name in best:
        seen[name] += 1
        told.append(name if often[name] == 1 else f"{name} ({seen[name]})")
    return told


def as_representation(data: Any, name: str, key: str | None = None, *, repeated_ids: bool = False) -> Representation:
    """A Representation as it is (named if it has no name), or one made from AnnData or anything array-like.

    ``key`` names the matrix of an AnnData object: ``X``, an entry of obsm, ``layers/NAME`` or ``raw/X``. With
    ``repeated_ids`` names of rows that occur several times get a number.
    """
    ids: Array | None = None
    converted: dict[str, str] = {}
    if is_annotated(data):
        found = opened(data, key)
        ids, converted = numbered_ids(found.ids) if repeated_ids else (found.ids, converted)
        left_out, taken, columns = found.left_out, found.taken, found.columns
        return Representation(found.values, ids, name, left_out, converted, taken=taken, columns=columns)
    if key is not None:
        raise InputError(f"key names a matrix of an AnnData object, and {name} is not one")
    if isinstance(data, Representation):
        return data if data.name else replace(data, name=name)
    if type(data).__module__.startswith("dask.dataframe"):
        raise InputError(f"{name} is a Dask data frame: pass its values, frame.to_dask_array()")
    if hasattr(data, "to_numpy") and hasattr(data, "index"):  # a data frame: its index names the rows
        ids = np.asarray(["/".join(map(str, key)) if isinstance(key, tuple) else key for key in data.index])
        if repeated_ids:
            ids, converted = numbered_ids(ids)
    return Representation(data, ids=ids, name=name, converted=converted)


def numbered_ids(ids: Array) -> tuple[Array, dict[str, str]]:
    """Row ids with a number after those that an earlier row has, as text; and what was done, in words.

    Examples
    --------
    >>> import numpy as np
    >>> numbered_ids(np.array(["a", "b", "a", "a-1"]))
    (array(['a', 'b', 'a-2', 'a-1'], dtype='<U3'), {'row ids': "1 row repeats an earlier id and got a number: 'a-2'"})
    >>> numbered_ids(np.array([3, 4]))
    (array([3, 4]), {})
    """
    if ids.ndim != 1 or len(np.unique(ids)) == len(ids):
        return ids, {}
    texts = ids.astype(str).tolist()
    taken, last = set(texts), Counter[str]()
    seen: set[str] = set()
    repeats = []
    for row, text in enumerate(texts):
        if text in seen:
            while (made := f"{text}-{last[text] + 1}") in taken:
                last[text] += 1
            last[text] += 1
            texts[row] = made
            taken.add(made)
            repeats.append(made)
        seen.add(text)
    some = ", ".join(map(repr, repeats[:2])) + (", ..." if len(repeats) > 2 else "")
    rows = "1 row repeats an earlier id" if len(repeats) == 1 else f"{len(repeats)} rows repeat an earlier id"
    return np.array(texts), {"row ids": f"{rows} and got a number: {some}"}


@dataclass(frozen=True)
class RowMatch:
    """Which rows of two representations belong together; ``None`` stands for all rows in order."""

    source_rows: Array | None = None
    target_rows: Array | None = None
    dropped_from_source: int = 0
    dropped_from_target: int = 0
    half_identified: bool = False  # one side has ids and the other has none to confirm them


def match_rows(source: Representation, target: Representation, *, join: bool = False) -> RowMatch:
    """Check that two representations describe the same rows in the same order, or join them by id.

    Without ``join`` any difference in ids, order or length raises an :class:`~isorep.InputError` that names the
    rows. With it the common ids are kept, in the source's order.
    """
    a, b = source.name or "source", target.name or "target"
    away = [isinstance(side.values, ChunkedRows) for side in (source, target)]
    if away[0] != away[1]:
        raise InputError(
            f"{a if away[0] else b} is a Dask array and {b if away[0] else a} is not: pass two Dask arrays, or compute "
            "the one"
        )
    if source.ids is None or target.ids is None:
        return _match_by_position(source, target, a, b, join)
    left, right = _comparable_ids(source.ids, target.ids)
    if len(left) == len(right) and bool(np.all(left == right)):
        return RowMatch()
    if not join:
        raise InputError(_describe_id_difference(left, right, a, b))
    _, source_rows, target_rows = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    if len(source_rows) == 0:
        raise InputError(f"{a} and {b} share no row id, so there is nothing to join")
    order = np.argsort(source_rows, kind="stable")
    return RowMatch(
        source_rows[order],
        target_rows[order],
        dropped_from_source=len(left) - len(source_rows),
        dropped_from_target=len(right) - len(target_rows),
    )


def _match_by_position(source: Representation, target: Representation, a: str, b: str, join: bool) -> RowMatch:
    without = " and ".join(name for name, rep in ((a, source), (b, target)) if rep.ids is None)
    verb = "have" if " and " in without else "has"
    if join:
        raise InputError(f"cannot join by id: {without} {verb} no row ids")
    if len(source) != len(target):
        longer, shorter = (source, target) if len(source) > len(target) else (target, source)
        raise InputError(
            f"{a} has {len(source)} rows and {b} has {len(target)}: {longer.name} has no partner from row "
            f"{len(shorter)} on, and {without} {verb} no row ids to join by"
        )
    return RowMatch(half_identified=(source.ids is None) != (target.ids is None))


def _comparable_ids(left: Array, right: Array) -> tuple[Array, Array]:
    """Ids of one kind: integers against integers, otherwise both as text."""
    if left.dtype.kind == right.dtype.kind:
        return left, right
    return left.astype(str), right.astype(str)


def _describe_id_difference(left: Array, right: Array, a: str, b: str) -> str:
    only_left, only_right = np.isin(left, right, invert=True), np.isin(right, left, invert=True)
    if not only_left.any() and not only_right.any():
        row = int(np.argmax(left != right))
        return (
            f"{a} and {b} hold the same ids in another order: row {row} is {str(left[row])!r} in {a} and "
            f"{str(right[row])!r} in {b}; join them by id (--join, or join=True)"
        )
    parts = []
    for ids, missing, here, there in ((left, only_left, a, b), (right, only_right, b, a)):
        count = int(missing.sum())
        if count:
            first = int(np.argmax(missing))
            noun = "row" if count == 1 else "rows"
            parts.append(f"{count} {noun} of {here} not in {there} (first: row {first}, {str(ids[first])!r})")
    return (
        f"{a} has {len(left)} rows and {b} has {len(right)}, with different ids: {'; '.join(parts)}; "
        "join them by id (--join, or join=True) to keep the common ones"
    )


def _checked_values(values: Any, label: str) -> Matrix:
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{label} is a masked array: fill or drop the masked entries first")
    values = dense(values, label)
    if not (hasattr(values, "dtype") and hasattr(values, "shape") and isinstance(values.dtype, np.dtype)):
        values = _as_array(values, label)
    _check_kind(values.dtype, label)
    if is_dask(values):
        if len(values.shape) != 2:
            _check_shape(tuple(values.shape), label)
        values = ChunkedRows(values, label)
    _check_shape(tuple(values.shape), label)
    return values  # type: ignore[no-any-return]


def _as_array(values: Any, label: str) -> Any:
    try:
        if hasattr(values, "detach"):  # a torch tensor; numpy has no bfloat16
            values = values.detach().cpu()
            if str(values.dtype) == "torch.bfloat16":
                return BFloat16Matrix(np.asarray(values.float()).view(np.uint32) >> 16)
        if hasattr(values, "to_numpy") and hasattr(values, "columns"):
            return _frame_values(values, label)
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{label} is not a rectangular array of numbers: {error}") from error


def _frame_values(frame: Any, label: str) -> Array:
    """The values of a data frame; nullable columns become floating point with NaN for what is missing."""
    array: Array = np.asarray(frame)
    if array.dtype.kind == "O" and all(getattr(kind, "kind", "O") in "fiu" for kind in frame.dtypes):
        array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def _frame_columns(frame: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns, where they are text."""
    names = list(frame.columns)
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def _checked_columns(given: Any, width: int, label: str) -> tuple[str, ...] | None:
    """Feature names, one per column; None where they only count the columns."""
    names = tuple(str(name) for name in given)
    if len(names) != width:
        raise InputError(f"{label} has {width} columns and {len(names)} names of columns")
    return None if names == tuple(map(str, range(width))) else names


def feature_difference(known: Sequence[str] | None, given: Sequence[str] | None, name: str) -> str | None:
    """The first difference between the feature names of a model and of rows, in a sentence; None without one.

    Rows without names are taken by position, and so are ``feature_0``, ``feature_1``, ... in order, the names that
    files get when their columns have none.

    Examples
    --------
    >>> feature_difference(["area", "mass"], ["mass", "area"], "new.csv")
    "the features of new.csv have another order: column 0 is 'mass' and was 'area'"
    >>> feature_difference(["area", "mass"], ["area", "size"], "new.csv")
    "the features of new.csv are others: column 1 is 'size' and was 'mass'"
    """
    if known is None or given is None:
        return None
    moved = sorted(known) == sorted(given)
    if not moved and (_counts(known) or _counts(given)):
        return None
    for index, (was, now) in enumerate(zip(known, given, strict=False)):
        if was != now:
            told = "have another order" if moved else "are others"
            return f"the features of {name} {told}: column {index} is {now!r} and was {was!r}"
    return None


def _counts(names: Sequence[str]) -> bool:
    return all(name == f"feature_{index}" for index, name in enumerate(names))


def _check_kind(dtype: np.dtype[Any], label: str) -> None:
    if dtype.kind == "f":
        return
    reasons = {
        "b": "holds booleans",
        "i": "holds integers",
        "u": "holds integers",
        "c": "holds complex numbers",
        "O": "holds Python objects (ragged rows, or mixed columns)",
        "V": "is a structured array",
    }
    reason = reasons.get(dtype.kind, "does not hold numbers")
    remedy = (
        "; if these really are activations and not labels, convert them first: values.astype('float32')"
        if dtype.kind in "biu"
        else ""
    )
    raise InputError(f"{label} {reason} ({dtype}) where floating-point values are needed{remedy}")


def _check_shape(shape: tuple[int, ...], label: str) -> None:
    if len(shape) == 2:
        if 0 in shape:
            raise InputError(f"{label} is empty: its shape is {shape}")
        return
    if len(shape) < 2:
        raise InputError(f"{label} has shape {shape}: a representation has rows (examples) and columns (dimensions)")
    pooled = tuple(range(2, len(shape)))
    pool = f"values.mean(axis={pooled if len(pooled) > 1 else pooled[0]})"
    raise InputError(
        f"{label} has shape {shape}, {len(shape)} axes instead of 2: flatten each example with "
        f"values.reshape(len(values), -1), or pool it with {pool}"
    )


def _checked_ids(given: Any, rows: int, label: str) -> Array:
    ids: Array = _as_array(given, f"the ids of {label}")
    if ids.ndim != 1 or len(ids) != rows:
        raise InputError(f"{label} has {rows} rows but its ids have shape {ids.shape}")
    for row, cell in enumerate(ids.tolist() if ids.dtype.kind in "fO" else []):
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            raise InputError(f"{label} has no id in row {row}: it is {cell}")
    if ids.dtype.kind == "S":
        ids = np.char.decode(ids, "utf-8", "replace")
    elif ids.dtype.kind == "f" and np.all(np.mod(ids, 1) == 0):  # 1.0 is the id 1
        ids = ids.astype(np.int64)
    elif ids.dtype.kind not in "iuU" or (ids.dtype.kind == "u" and ids.max(initial=0) >= 2**63):
        ids = ids.astype(str)
    unique, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if len(unique) != len(ids):
        repeated = np.flatnonzero(counts > 1)
        worst = repeated[np.argmin(first[repeated])]
        where = np.flatnonzero(ids == unique[worst])[:2]
        raise InputError(
            f"{label} has duplicate row ids: {str(unique[worst])!r} is on rows {where[0]} and {where[1]} "
            f"(ids that occur more than once: {len(repeated)})"
        )
    return ids.astype(np.int64) if ids.dtype.kind in "iu" else ids
