"""What is to be deconfounded: an embedding with label, batches and guides of its rows, wherever they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix, Representation, as_representation, reading_notes
from ..rows import refuse_non_finite
from ..storage import labels as stored_labels
from ..storage import read
from ..storage.cells import FLAG, NUMBER, TEXT, Tally, not_a_number
from ..storage.hdf5 import HDF5Tree
from ..storage.naming import choose_columns
from ..storage.registry import guarded, split_key

_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
_DOUBLE_CELLS = 2**25  # float64 values beyond this are held as float32: 200,000 x 384 would take 600 MB
MISSING = ("nan", "<NA>", "NaT", "None")


@dataclass(frozen=True, eq=False)
class Column:
    """Text labels of rows: ``codes`` count into ``names``, and -1 stands for a missing one."""

    title: str
    codes: Array
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many different labels there are."""
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Values in memory and the columns that describe their rows; the first batch column is the one held out."""

    values: Array
    ids: Array | None
    name: str
    notes: tuple[str, ...]  # what was left out or converted in reading
    place: str | None  # the obsm entry of an AnnData object, or X
    label: Column
    batches: tuple[Column, ...]
    guides: Column | None

    @property
    def batch(self) -> Column:
        """The batches that are held out."""
        return self.batches[0]


def open_inputs(embedding: Any, label: Any, batch: Any, guides: Any, key: str | None) -> Inputs:
    """Read and check everything that describes the rows."""
    named = [each for each in (label, *_several(batch).values(), guides) if isinstance(each, str)]
    data, place = _representation(embedding, key, named)
    n = len(data)
    label_column = _column(embedding, label, "label", n)
    batch_columns = tuple(_column(embedding, each, name, n) for name, each in _several(batch).items())
    guide_column = None if guides is None else _column(embedding, guides, "guides", n, missing=True)
    values = _in_memory(data.values)
    notes = reading_notes(data)
    if isinstance(embedding, str | Path) and str(embedding).partition("::")[0].lower().endswith(_TABLES):
        same = _same(values, [stored_labels(name, embedding) for name in named])
        if same.any():
            notes.append(f"left out of {data.name}: {int(same.sum())} columns that repeat label or batch")
            values = values[:, ~same]
    refuse_non_finite(values, data.name or "the embedding")
    name = data.name or "embedding"
    return Inputs(values, data.ids, name, tuple(notes), place, label_column, batch_columns, guide_column)


def open_rows(rows: Any, columns: int) -> Array:
    """Other rows to fit transforms on."""
    data = read(rows) if isinstance(rows, str | Path) else as_representation(rows, "fit_on")
    if data.shape[1] != columns:
        raise InputError(f"fit_on has {data.shape[1]} columns and the embedding has {columns}")
    values = _in_memory(data.values)
    refuse_non_finite(values, data.name or "fit_on")
    return values


def as_label(value: Any) -> str:
    """A label as text: 1.0 and 1 are the same one, also where a file keeps them as text."""
    text = str(value)
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text


def is_annotated(data: Any) -> bool:
    """Whether something is an AnnData object, without importing anndata."""
    return all(hasattr(data, part) for part in ("obs", "obsm", "obs_names", "uns"))


def embedding_of(data: Any, key: str | None) -> tuple[Any, str]:
    """An entry of obsm, or X, by the rule of :func:`isorep.read`: by default the only entry there is, otherwise X."""
    entries = list(data.obsm.keys())
    place = key or (entries[0] if len(entries) == 1 else "X")
    place = place.removeprefix("obsm/")
    if place != "X" and place not in entries:
        raise InputError(f"there is no {place!r} in obsm; it has {', '.join(entries[:12]) or 'no entries'}")
    values = data.X if place == "X" else data.obsm[place]
    if values is None or hasattr(values, "toarray") or "Sparse" in type(values).__name__:
        what = "empty" if values is None else "sparse"
        raise InputError(
            f"{place} is {what}: name an entry of obsm with key=; it has {', '.join(entries[:12]) or 'none'}"
        )
    return values, place


def _representation(embedding: Any, key: str | None, named: Sequence[str]) -> tuple[Representation, str | None]:
    if isinstance(embedding, str | Path):
        path, named_key = split_key(embedding, key)
        place = _stored_place(path, named_key) if path.suffix.lower() == ".h5ad" and path.is_file() else None
        return read(path, key=named_key, besides=named), place
    if is_annotated(embedding):
        values, place = embedding_of(embedding, key)
        values = values.to_numpy() if hasattr(values, "to_numpy") else values
        others = [] if key else [entry for entry in ("X", *embedding.obsm.keys()) if entry != place]
        left_out = {entry: "another embedding" for entry in others if entry != "X" or embedding.X is not None}
        names = np.asarray(embedding.obs_names).astype(str)
        return Representation(values, ids=names, name=place, left_out=left_out), place
    if hasattr(embedding, "columns") and hasattr(embedding, "select_dtypes"):
        return _frame(embedding, key, named), None
    return as_representation(embedding, "embedding"), None


def _frame(frame: Any, key: str | None, named: Sequence[str]) -> Representation:
    """The columns of a data frame that are features, by the rule of :func:`isorep.read` for tables."""
    names = [str(name) for name in frame.columns]
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise InputError(f"two columns of the data frame are called {repeated[0]!r}")
    kinds = {name: _frame_kind(frame.iloc[:, place]) for place, name in enumerate(names)}
    choice = choose_columns(kinds, key, named)
    for place, name in enumerate(names):
        if name in choice.doubtful or (name in choice.columns and kinds[name] == TEXT):
            tally = Tally(name)
            for row, cell in enumerate(frame.iloc[:, place]):
                tally.add(str(cell), row)
            tally.kind(typed=True)
            if name in choice.columns:
                raise InputError(not_a_number(name, *(tally.first or (0, str(frame.iloc[0, place])))))
    choice.require()
    places = [place for place, name in enumerate(names) if name in choice.columns]
    flags = {name: "true and false to 1 and 0" for name in choice.columns if kinds[name] == FLAG}
    return replace(
        as_representation(frame.iloc[:, places].astype(float), "embedding"), left_out=choice.left_out, converted=flags
    )


def _frame_kind(column: Any) -> str:
    """What a column of a data frame holds: numbers, flags, text, or its type in a word."""
    dtype = getattr(getattr(column.dtype, "categories", None), "dtype", column.dtype)
    kind = getattr(dtype, "kind", "O")
    if kind == "O" and all(isinstance(cell, Number) for cell in column.dropna()):
        return NUMBER  # decimals and other numbers that are Python objects
    return {"f": NUMBER, "i": NUMBER, "u": NUMBER, "b": FLAG, "M": "timestamp", "m": "duration"}.get(kind, TEXT)


def _stored_place(path: Path, key: str | None) -> str:
    """The part of a file that :func:`isorep.read` takes, by name: with components in it the default is another."""
    if key is not None:
        return key.removeprefix("obsm/")
    entries: list[str] = guarded(path, lambda: HDF5Tree(path).names("obsm"))
    return entries[0] if len(entries) == 1 else "X"


def _several(batch: Any) -> dict[str, Any]:
    """Batch columns by name; the first is held out."""
    if isinstance(batch, Mapping):
        found = {str(name): column for name, column in batch.items()}
    elif isinstance(batch, str):
        found = {batch: batch}
    elif isinstance(batch, list | tuple) and batch and all(isinstance(each, str) for each in batch):
        found = {each: each for each in batch}
    else:
        found = {"batch": batch}
    if not found:
        raise InputError("batch is empty: name at least one column of batches")
    return found


def _column(source: Any, given: Any, title: str, n: int, *, missing: bool = False) -> Column:
    """A column of the source by its name, or labels as they are given."""
    if isinstance(given, str):
        title = given
        if isinstance(source, str | Path):
            given = stored_labels(given, source)
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
    if labels.ndim != 1 or len(labels) != n:
        raise InputError(f"{title} has shape {labels.shape} where one label per row is needed: ({n},)")
    texts = np.array([as_label(label) for label in labels.tolist()], dtype=str)
    absent = np.isin(texts, MISSING)
    if absent.any() and not missing:
        count, first = int(absent.sum()), int(np.argmax(absent))
        raise InputError(f"{title} is missing for {count} rows, the first at row {first}: leave those rows out first")
    names, codes = np.unique(texts, return_inverse=True)
    if absent.any():
        kept = ~np.isin(names, MISSING)
        codes = np.where(kept[codes], (np.cumsum(kept) - 1)[codes], -1)
        names = names[kept]
    return Column(title, codes, tuple(names.tolist()))


def _in_memory(values: Matrix) -> Array:
    rows = np.asarray(values[:])
    if (rows.dtype.itemsize > 4 and rows.size > _DOUBLE_CELLS) or rows.dtype.itemsize < 4:
        rows = rows.astype(np.float32)
    return rows


def _same(values: Array, columns: list[Array]) -> Array:
    """Which columns are the labels themselves: a table may hold them once more, as numbers."""
    numbers = [found for found in map(_numbers, columns) if found is not None]
    same = [any(np.array_equal(values[:, place], column) for column in numbers) for place in range(values.shape[1])]
    if all(same):
        raise InputError("the table holds no column of numbers besides label and batch")
    return np.array(same)


def _numbers(labels: Array) -> Array | None:
    """Labels as numbers, if they are."""
    try:
        return np.asarray(labels).astype(np.float64)
    except ValueError:
        return None
