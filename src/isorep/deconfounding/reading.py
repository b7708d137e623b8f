"""Reading of a deconfounding: label, batches and guides first, which decide whether there is anything to test.

The embedding is read after them. Rows without a label or batch are left out, and so are columns that look like metadata
(counts, positions, row numbers, columns that repeat the batch); notes name both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from ..annotated import entries_of, is_annotated
from ..errors import InputError
from ..ica.associations import named_columns, obs_of_file
from ..representation import (
    Array,
    Matrix,
    Representation,
    as_representation,
    feature_difference,
    notes_on,
    reading_notes,
)
from ..rows import refuse_non_finite
from ..storage import labels as stored_labels
from ..storage import loaded, read
from ..storage.naming import FLAG, NUMBER, TEXT, Tally, choose_columns, not_a_number
from ..storage.registry import split_key
from .controls import as_label, control_values
from .inputs import Column, Inputs, refuse_confounded

MISSING = ("", "nan", "<NA>", "NaT", "None")
_ANNOTATED = (".h5ad", ".zarr")
_DOUBLE_CELLS = 2**25  # float64 values beyond this are held as float32: 200,000 x 384 would take 600 MB
_LEAST_ROWS = 20  # from which a column can be recognised as row numbers
_LEAST_GROUP = 3  # rows of a batch from which equal values in it are no accident
_COLUMNS, _FEW = 64, 50  # columns and rows that are looked at first
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class Described:
    """The columns that describe the rows; a code of -1 stands for a missing entry."""

    label: Column
    batches: tuple[Column, ...]
    guides: Column | None

    @property
    def batch(self) -> Column:
        """The batches that are held out."""
        return self.batches[0]

    @property
    def known(self) -> Array:
        """Which rows have a label and all batches."""
        return np.asarray(np.all([column.codes >= 0 for column in (self.label, *self.batches)], axis=0))

    def of(self, rows: Array) -> Described:
        """The same for some rows."""
        guides = None if self.guides is None else _some_rows(self.guides, rows)
        return Described(_some_rows(self.label, rows), tuple(_some_rows(each, rows) for each in self.batches), guides)


_LARGEST = 1e15  # size of an entry


def open_inputs(
    embedding: Any,
    label: Any,
    batch: Any,
    guides: Any,
    key: str | None,
    *,
    control: Any = None,
    folds: int | None = None,
    keep_metadata: bool = False,
) -> Inputs:
    """Read and check everything that describes the rows, then the rows themselves."""
    several = _several(batch)
    named = [each for each in (label, *several.values(), guides) if isinstance(each, str)]
    described = Described(
        _column(embedding, label, "label"),
        tuple(_column(embedding, each, name) for name, each in several.items()),
        None if guides is None else _column(embedding, guides, "guides"),
    )
    columns = [described.label, *described.batches, *([] if described.guides is None else [described.guides])]
    n = len(embedding) if hasattr(embedding, "__len__") and not isinstance(embedding, str | Path) else None
    data, place = None, None
    if n is None and len({len(column.codes) for column in columns}) > 1:
        data, place = _representation(embedding, key, named)
        n = len(data)
    for column in columns:
        if n is not None and len(column.codes) != n:
            given = column.codes.shape
            raise InputError(f"{column.title} has shape {given} where one label per row is needed: ({n},)")
    described, keep, notes = _without_missing(described)
    try:
        refuse_confounded(described)
        controls = control_values(described.label, control, described.batch)
        _require_batches(described.batch, folds)
    except InputError as error:
        raise InputError("; ".join([str(error), *notes])) from None  # rows that were left out may be the reason
    notes += _one_class(described, controls)
    if data is None:
        data, place = _representation(embedding, key, named)
    if len(data) != len(keep):
        title, shape = columns[0].title, f"({len(keep)},)"
        raise InputError(f"{title} has shape {shape} where one label per row is needed: ({len(data)},)")
    rows = np.flatnonzero(keep)
    obs, unread = _obs(embedding, data)
    inputs = _with_values(data, place, described, rows, [*notes, *unread], keep_metadata)
    return replace(inputs, obs={title: np.asarray(values)[rows] for title, values in obs.items()})


def _obs(embedding: Any, data: Representation) -> tuple[dict[str, Any], list[str]]:
    """Every column that describes the rows: those of obs, or of the table besides the features."""
    if isinstance(embedding, str | Path):
        return obs_of_file(embedding, data)
    if not is_annotated(embedding) and not hasattr(embedding, "iloc"):
        return {}, []
    features = () if is_annotated(embedding) else data.columns or tuple(map(str, range(data.shape[1])))
    return {name: held for name, held in named_columns(embedding).items() if name not in features}, []


def _with_values(
    data: Representation,
    place: str | None,
    described: Described,
    rows: Array,
    notes: list[str],
    keep_metadata: bool,
) -> Inputs:
    """The inputs with their values in memory."""
    name = data.name or "embedding"
    values = _in_memory(data.values)
    left = len(rows) < len(values)
    doubtful = _metadata(values, rows, data.columns, described)
    kept = np.ones(values.shape[1], dtype=bool)
    if doubtful:
        titles = data.columns or tuple(f"column {index}" for index in range(values.shape[1]))
        told = notes_on(name, {titles[index]: why for index, why in doubtful.items()}, {})[0]
        if keep_metadata:
            notes.append(f"used, though they look like metadata: {told.partition(': ')[2]}")
        else:
            notes.append(f"{told}; they look like metadata, and keep_metadata uses them")
            kept[list(doubtful)] = False
    if not kept.any():
        raise InputError(f"every column of {name} looks like metadata: keep_metadata=True uses them")
    if not (left or not kept.all()):
        refuse_non_finite(values, name)
    elif not np.isfinite(values[rows][:, kept]).all():
        wanted = np.zeros_like(values)
        wanted[np.ix_(rows, np.flatnonzero(kept))] = values[np.ix_(rows, np.flatnonzero(kept))]
        refuse_non_finite(wanted, name)  # with the number of the row in the data
    _refuse_extreme(values[rows][:, kept], name)
    if place is not None and _are_counts(values[rows][:, kept]):
        notes.append(f"{place} holds whole numbers only, as raw counts do: normalise and log-transform counts first")
    means = np.nan_to_num(values.mean(axis=0, dtype=np.float64))
    return Inputs(
        values=np.ascontiguousarray(values[rows][:, kept]) if left or not kept.all() else values,
        ids=data.ids[rows] if left and data.ids is not None else data.ids,
        name=name,
        notes=(*notes, *reading_notes(data)),
        place=place,
        label=described.label,
        batches=described.batches,
        guides=described.guides,
        total=len(values),
        rows=rows,
        kept=kept,
        means=means,
        features=data.columns,
    )


def _refuse_extreme(values: Array, name: str) -> None:
    """Refuse values whose squares leave float32, in which forests and distances are computed."""
    peak = float(np.abs(values).max(initial=0.0))
    if peak > _LARGEST:
        raise InputError(f"{name} holds {peak:.3g}, beyond {_LARGEST:g}: rescale it, or remove rows that are outliers")
    if 0 < peak < 1 / _LARGEST:
        raise InputError(f"{name} holds nothing beyond {peak:.3g}, below {1 / _LARGEST:g}: rescale it")


def open_column(embedding: Any, given: Any, title: str, inputs: Inputs) -> Column:
    """A further column of the rows that are used, in which labels may be missing."""
    column = _column(embedding, given, title)
    if len(column.codes) != inputs.total:
        raise InputError(
            f"{column.title} has shape {column.codes.shape} where one label per row is needed: ({inputs.total},)"
        )
    return _some_rows(column, inputs.rows)


def open_rows(rows: Any, inputs: Inputs, key: str | None = None) -> Array:
    """Other rows to fit transforms on, with the columns of the embedding."""
    annotated = is_annotated(rows)
    data = as_representation(rows, "fit_on", key or inputs.place) if annotated else loaded(rows, "fit_on")
    wanted = len(inputs.kept)
    if data.shape[1] != wanted:
        raise InputError(f"fit_on has {data.shape[1]} columns and the embedding has {wanted}")
    difference = feature_difference(inputs.features, data.columns, "fit_on")
    if difference is not None:
        raise InputError(difference)
    values = _in_memory(data.values)
    values = values if inputs.kept.all() else np.ascontiguousarray(values[:, inputs.kept])
    refuse_non_finite(values, data.name or "fit_on")
    return values


def _require_batches(batch: Column, folds: int | None) -> None:
    """Refuse fewer batches than folds, before anything is read."""
    if folds is not None and batch.count < folds:
        told = f"{batch.title} has {batch.count} values and there are {folds} folds"
        raise InputError(f"{told}: a batch is never split, so lower folds")


def _without_missing(described: Described) -> tuple[Described, Array, list[str]]:
    """The rows that have a label and all batches, and a note on the others."""
    keep = described.known
    if keep.all():
        return described, keep, []
    columns = {column.title: column for column in (described.label, *described.batches)}
    counts = {title: int(np.count_nonzero(column.codes < 0)) for title, column in columns.items()}
    parts = ", ".join(f"{title} is missing in {count}" for title, count in counts.items() if count)
    left = int(np.count_nonzero(~keep))
    if left == len(keep):
        raise InputError(f"no row has both label and batch: {parts} of {len(keep)} rows")
    first = int(np.argmax(~keep))
    note = f"left out {left} of {len(keep)} rows, the first at row {first}: {parts}"
    return described.of(keep), keep, [note]


def _some_rows(column: Column, rows: Array) -> Column:
    """A column of some rows, with the labels that are left."""
    codes = column.codes[rows]
    present, inverse = np.unique(codes[codes >= 0], return_inverse=True)
    left = np.full(len(codes), -1)
    left[codes >= 0] = inverse
    return Column(column.title, left, tuple(column.names[code] for code in present))


def _one_class(described: Described, controls: tuple[str, ...]) -> list[str]:
    """A note on batches with controls alone or perturbed rows alone, unless all are such."""
    label, batch = described.label, described.batch
    control = np.isin(np.array(label.names), controls)[label.codes]
    sides = [np.bincount(batch.codes[rows], minlength=batch.count) > 0 for rows in (control, ~control)]
    alone = np.flatnonzero(sides[0] != sides[1])
    if len(alone) in (0, batch.count):
        return []
    named = ", ".join(batch.names[code] for code in alone[:_MOST_NAMED])
    more = f" and {len(alone) - _MOST_NAMED} more" if len(alone) > _MOST_NAMED else ""
    verb = "has" if len(alone) == 1 else "have"
    return [f"{len(alone)} of {batch.count} batches {verb} one class only and cannot test alone: {named}{more}"]


def _representation(embedding: Any, key: str | None, named: Sequence[str]) -> tuple[Representation, str | None]:
    if isinstance(embedding, str | Path):
        path, named_key = split_key(embedding, key)
        data = read(path, key=named_key, besides=named, repeated_ids=True)
        place = data.origin.rpartition("::")[2] if path.suffix.lower() in _ANNOTATED and "::" in data.origin else None
        return data, None if place is None else place.removeprefix("obsm/")
    if is_annotated(embedding):
        place = entries_of(embedding).choose(key).removeprefix("obsm/")
        return as_representation(embedding, "AnnData", key, repeated_ids=True), place
    if hasattr(embedding, "columns") and hasattr(embedding, "select_dtypes"):
        return _frame(embedding, key, named), None
    return as_representation(embedding, "embedding", key, repeated_ids=True), None


def _frame(frame: Any, key: str | None, named: Sequence[str]) -> Representation:
    """The columns of a data frame that are features, by the rule of :func:`isorep.read` for tables."""
    names = [str(name) for name in frame.columns]
    repeated = [name for index, name in enumerate(names) if name in names[:index]]
    if repeated:
        raise InputError(f"two columns of the data frame are called {repeated[0]!r}")
    kinds = {name: _frame_kind(frame.iloc[:, index]) for index, name in enumerate(names)}
    choice = choose_columns(kinds, key, named)
    for index, name in enumerate(names):
        if name in choice.doubtful or (name in choice.columns and kinds[name] == TEXT):
            tally = Tally(name)
            for row, cell in enumerate(frame.iloc[:, index]):
                tally.add(str(cell), row)
            tally.kind(typed=True)
            if name in choice.columns:
                raise InputError(not_a_number(name, *(tally.first or (0, str(frame.iloc[0, index])))))
    choice.require()
    features = frame.iloc[:, [index for index, name in enumerate(names) if name in choice.columns]].astype(float)
    flags = {name: "true and false to 1 and 0" for name in choice.columns if kinds[name] == FLAG}
    data = as_representation(features, "embedding", repeated_ids=True)
    return replace(data, left_out=choice.left_out, converted=flags | dict(data.converted))


def _frame_kind(column: Any) -> str:
    """The kind of a data frame's column: numbers, flags, text, or its type in a word."""
    dtype = getattr(getattr(column.dtype, "categories", None), "dtype", column.dtype)
    kind = getattr(dtype, "kind", "O")
    if kind == "O" and all(isinstance(cell, Number) for cell in column.dropna()):
        return NUMBER  # decimals and other numbers that are Python objects
    return {"f": NUMBER, "i": NUMBER, "u": NUMBER, "b": FLAG, "M": "timestamp", "m": "duration"}.get(kind, TEXT)


def _several(batch: Any) -> dict[str, Any]:
    """Batch columns by name; the first is held out."""
    names = [batch] if isinstance(batch, str) else batch
    if isinstance(batch, Mapping):
        if not batch:
            raise InputError("batch is empty: name at least one column of batches")
        return {str(name): column for name, column in batch.items()}
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return {name: name for name in names}
    return {"batch": batch}


def _column(source: Any, given: Any, title: str) -> Column:
    """A column of the source by its name, or labels as they are given."""
    if given is None:
        raise InputError(f"{title} is not given: name a column, or pass one {title} per row")
    if isinstance(given, str):
        title = given
        if isinstance(source, str | Path):
            given = stored_labels(given, source, missing=True)
        elif is_annotated(source) or hasattr(source, "columns"):
            frame = source.obs if is_annotated(source) else source
            if given not in frame.columns:
                shown = ", ".join(map(str, list(frame.columns)[:12])) or "none"
                where = "obs" if is_annotated(source) else "the data frame"
                raise InputError(f"there is no column {given!r} in {where}; there are {shown}")
            given = frame[given]
        else:
            raise InputError(f"{given!r} names a column, and the embedding is an array: pass the labels themselves")
    labels = np.asarray(given, dtype=object)
    if labels.ndim != 1:
        raise InputError(f"{title} has shape {labels.shape} where one label per row is needed")
    texts = np.array([as_label(label) for label in labels.tolist()], dtype=str)
    absent = np.isin(np.char.strip(texts), MISSING) if len(texts) else np.zeros(0, dtype=bool)
    if absent.all():
        raise InputError(f"{title} is missing in all {len(texts)} rows")
    codes = np.full(len(texts), -1)
    names, codes[~absent] = np.unique(texts[~absent], return_inverse=True)
    return Column(title, codes, tuple(names.tolist()))


def _in_memory(values: Matrix) -> Array:
    rows = np.asarray(values[:])
    if (rows.dtype.itemsize > 4 and rows.size > _DOUBLE_CELLS) or rows.dtype.itemsize < 4:
        rows = rows.astype(np.float32)
    return rows


_THING = (
    r"plate|well|site|field|row|col|column|batch|run|lane|slide|donor|patient|subject|sample|replicate|passage|week|day|"
    r"date|time|timestamp|dose|concentration|index|idx|id|uid|barcode|image|object|table|cell|fov|tile"
)
_NUMBER_OF = r"(?:n|num|number|no|nr)"
_COUNTED = r"(?:cells?|nuclei|nucleus|objects?|genes|counts|umis?|reads)"
_BY_NAME = {
    "count": rf"(?:\w+_)?count_\w+|{_NUMBER_OF}_?(?:of_)?{_COUNTED}(?:_by_counts)?|{_COUNTED}_?counts?|total_counts|"
    r"(?:\w+_)?children_\w+_count",
    "position": r"(?:\w+_)?location_\w+|(?:\w+_)?areashape_center_[xyz]|"
    r"(?:\w+_)?areashape_boundingbox(?:minimum|maximum)_[xyz]",
    "number or id": r"(?:\w+_)?number_object_number|(?:\w+_)?(?:object|image|table|parent|group)_?(?:number|index)|"
    r"(?:\w+_)?parent_\w+|metadata[_.]\w+|"
    rf"(?:{_THING})(?:[_ .]?(?:id|ids|number|no|num|nr|idx|index|code|row|col|column|position|x|y))?",
}
_METADATA_NAMES = {why: re.compile(pattern, re.IGNORECASE) for why, pattern in _BY_NAME.items()}


def metadata_name(name: str) -> str | None:
    """What a feature's name says it is, if that is metadata and no measurement.

    Examples
    --------
    >>> metadata_name("Cells_Location_Center_X"), metadata_name("Cells_Texture_Contrast_DNA_3_00")
    ('position', None)
    """
    return next((why for why, pattern in _METADATA_NAMES.items() if pattern.fullmatch(name.strip())), None)


def _metadata(values: Array, rows: Array, names: tuple[str, ...] | None, described: Described) -> dict[int, str]:
    """The columns that look like metadata, and why: by name, or by their values."""
    found = {index: why for index, name in enumerate(names or ()) if (why := metadata_name(name)) is not None}
    for index in np.flatnonzero(_row_numbers(values)):
        found.setdefault(int(index), "row numbers")
    for column in (described.label, *described.batches):
        for index in np.flatnonzero(_follows(values, rows, column.codes)):
            found[int(index)] = f"one value per {column.title}"
    return dict(sorted(found.items()))


def _row_numbers(values: Array) -> Array:
    """Which columns number the rows: whole numbers that always rise, or always fall."""
    if len(values) < _LEAST_ROWS:
        return np.zeros(values.shape[1], dtype=bool)
    candidates = _rise(values[:_LEAST_ROWS])
    for index in np.flatnonzero(candidates):
        candidates[index] = _rise(values[:, [index]])[0]
    return candidates


def _are_counts(values: Array) -> bool:
    """Whether all values are whole, none is negative and some are above 1."""
    return all(
        bool((some >= 0).all() and (some == np.rint(some)).all() and (some > 1).any())
        for some in (values[:_FEW], values)  # a few rows nearly always decide
    )


def _rise(values: Array) -> Array:
    exact = values.astype(np.float64)
    before, after = exact[:-1], exact[1:]  # compared, since differences may overflow
    return np.asarray(
        (exact == np.rint(exact)).all(axis=0) & ((after > before).all(axis=0) | (after < before).all(axis=0))
    )


def _follows(values: Array, rows: Array, codes: Array) -> Array:
    """Which columns have one value per class and differ between classes, among classes of several rows."""
    found = np.zeros(values.shape[1], dtype=bool)
    large = np.flatnonzero(np.bincount(codes)[codes] >= _LEAST_GROUP)
    if len(np.unique(codes[large])) < 2:
        return found
    order = large[np.argsort(codes[large], kind="stable")]
    starts, order = np.flatnonzero(np.diff(codes[order], prepend=-1)), rows[order]
    few = values[order[: min(starts[1], _FEW)]]  # few columns have one value even in a part of the first class
    candidates = np.flatnonzero((few == few[0]).all(axis=0))
    for start in range(0, len(candidates), _COLUMNS):
        some = candidates[start : start + _COLUMNS]
        block = values[np.ix_(order, some)]
        low, high = np.minimum.reduceat(block, starts), np.maximum.reduceat(block, starts)
        found[some] = (low == high).all(axis=0) & (low != low[0]).any(axis=0)
    return found
