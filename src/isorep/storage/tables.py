"""Columns of any kind from a file: numbers, whole numbers, booleans and text, with their names and row ids.

A representation is floating point; descriptions of its rows (known factors, labels, quantised latents) are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Representation
from . import naming, parquet, text
from .naming import FLAG, METADATA_PREFIX, NUMBER, TEXT, Tally, require_column, require_plausible
from .registry import column, guarded, read, reader, split_key

_CELL_BYTES = 64
_MOST_NUMBERS = 50  # columns besides the features that describe rows; Metadata_* columns are not counted


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """Columns by name, a name for all of them, and row ids where the file has them."""

    columns: dict[str, Array]
    name: str
    ids: Array | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns or arrays that were not taken, and why
    converted: Mapping[str, str] = field(default_factory=dict)  # columns that were taken as numbers, and from what


def read_table(
    path: str | Path, *, ids: str | None = None, features: bool = False, besides: Collection[str] = ()
) -> NamedColumns:
    """Read columns of any kind.

    Parameters
    ----------
    path : str or Path
        Any file that :func:`isorep.read` reads. All columns of a csv or parquet table are read; ``FILE::a,b`` names
        some, also columns of AnnData's obs. Arrays have columns 0, 1, ...
    ids : str, optional
        The column with row ids; default: as for :func:`isorep.read`.
    features : bool
        Read only the columns that :func:`isorep.read` would: ``feature_*`` columns, or the numeric ones.
    besides : collection of str
        Columns of a table that are used otherwise, such as groups: neither taken nor counted as left out.
    """
    file, key = split_key(path, None)
    module = reader(file)
    if module in (text, parquet):
        return guarded(file, _table, module, file, key, ids, features, besides)
    if key is not None and not features and file.suffix.lower() == ".h5ad":
        wanted = _names(key)
        return NamedColumns({name: column(file, name) for name in wanted}, file.name, read(file, ids=ids).ids)
    contents = guarded(file, module.load, file, key, ids)
    values = np.asarray(contents.values[:])
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"{file.name} has shape {values.shape}: rows and columns are needed")
    letter = "z" if features else "s"
    columns = {f"{letter}{number}": values[:, number] for number in range(values.shape[1])}
    return NamedColumns(columns, file.name, contents.ids, contents.left_out)


def _table(
    module: Any, path: Path, key: str | None, ids: str | None, features: bool, besides: Collection[str]
) -> NamedColumns:
    if features:
        return _features(module, path, key, ids, besides)
    names, parse, index, left_out = (_text_columns if module is text else _parquet_columns)(path)
    ids_name = ids or next(iter(index), None) or naming.default_ids_name(names)
    unwanted = {*index, *besides, *([] if ids_name is None else [ids_name])}
    chosen = [name for name in names if name not in unwanted]
    if key is not None:
        chosen, left_out = _names(key), {}
    known = dict.fromkeys(names)
    for name in (*([] if ids_name is None else [ids_name]), *chosen):
        if name not in known:
            require_column(name, names)
    if not chosen:
        raise InputError("there is no column besides row ids")
    parsed = parse(chosen if ids_name is None else [*chosen, ids_name])
    row_ids = None if ids_name is None else parsed[ids_name]
    return NamedColumns({name: parsed[name] for name in chosen}, path.name, row_ids, left_out)


def _features(module: Any, path: Path, key: str | None, ids: str | None, besides: Collection[str]) -> NamedColumns:
    """The columns that :func:`isorep.read` takes from a table, including whole numbers."""
    whole: list[str] = []
    if module is text:
        contents, whole = text.load_columns(path, key, ids, besides)
    else:
        contents = parquet.load(path, key, ids, besides)
    values = np.asarray(contents.values[:])
    names = contents.columns or [f"{contents.part}{number}" for number in range(values.shape[1])]  # of a list column
    columns = {name: values[:, index] for index, name in enumerate(names)}
    for name in whole:
        if np.all(np.rint(columns[name]) == columns[name]) and np.all(np.abs(columns[name]) < naming.EXACT):
            columns[name] = columns[name].astype(np.int64)
    return NamedColumns(columns, path.name, contents.ids, contents.left_out, contents.converted)


def read_obs(path: str | Path, rows: Representation | None = None) -> NamedColumns:
    """Columns that describe the rows of a file, with missing values, and those that cannot be read, with the reason.

    Parameters
    ----------
    path : str or Path
        An AnnData file, whose obs is read; a csv or parquet table; or another file with arrays of one dimension.
        ``FILE::a,b`` names some columns, unless ``rows`` come from the same file.
    rows : Representation, optional
        What :func:`isorep.read` took from the file: its features do not describe the rows.
    """
    file, key = split_key(path, None)
    module = reader(file)
    wanted = None if key is None or rows is not None else _names(key)
    found, left_out, ids = guarded(file, _obs, module, file, rows)
    if wanted is not None:
        for name in wanted:
            require_column(name, list(found))
        found = {name: found[name] for name in wanted}
    return NamedColumns(found, file.name, ids, left_out)


def _obs(module: Any, path: Path, rows: Representation | None) -> tuple[dict[str, Array], dict[str, str], Array | None]:
    if module not in (text, parquet):
        annotated, left_out = module.columns(path) if hasattr(module, "columns") else ({}, {})
        if annotated or left_out:
            return annotated, left_out, column(path, "obs_names")
        others = [] if rows is None or not hasattr(module, "column") else list(rows.left_out)
        return {name: held for name in others for held in _vector(path, name, len(rows or ()))}, {}, None
    names, parse, index, _ = (_text_columns if module is text else _parquet_columns)(path)
    ids_name = next(iter(index), None) or naming.default_ids_name(names)
    features: set[str] = set()
    if rows is not None:  # names that only count the columns are not kept
        features = set(rows.columns or map(str, range(rows.shape[1])))
    unwanted = {*index, *features, *([] if ids_name is None else [ids_name])}
    chosen = [name for name in names if name not in unwanted]
    refused: dict[str, str] = {}
    found = parse(chosen if ids_name is None else [*chosen, ids_name], refused)
    ids = None if ids_name is None else found.pop(ids_name)
    numbers = [name for name in found if found[name].dtype.kind in "fiu" and not name.startswith(METADATA_PREFIX)]
    if len(numbers) > _MOST_NUMBERS:  # another embedding
        refused |= dict.fromkeys(numbers, f"one of {len(numbers)} columns of numbers besides the features")
    return {name: found[name] for name in found if name not in refused}, refused, ids


def _vector(path: Path, name: str, n: int) -> list[Array]:
    """An array of a file, where it has one entry per row."""
    try:
        held = column(path, name)
    except InputError:  # a matrix, which describes no rows
        return []
    return [held] if held.ndim == 1 and len(held) == n else []


def _names(key: str) -> list[str]:
    return [name.strip() for name in key.split(",") if name.strip()]


def _text_columns(path: Path) -> tuple[list[str], Any, list[str], dict[str, str]]:
    """The columns of a text file, and how to parse some."""
    with text._open(path) as table:
        names, comma = list(table.kinds), table.comma
        ids_name = naming.default_ids_name(names)

    def parse(wanted: list[str], refused: dict[str, str] | None = None) -> dict[str, Array]:
        with text._open(path) as table:
            indices = [table.places[name] for name in wanted]
            cells: list[list[str]] = [[] for _ in wanted]
            for count, (_, row) in enumerate(table.rows):
                if count % 4096 == 0:
                    require_plausible(_CELL_BYTES * count * len(wanted), path.stat().st_size, "this table")
                for index, kept in zip(indices, cells, strict=True):
                    kept.append(row[index])
        return {
            name: naming.as_ids(kept) if name == ids_name else _typed(name, kept, comma, refused is not None)
            for name, kept in zip(wanted, cells, strict=True)
        }

    return names, parse, [], {}


def _typed(name: str, cells: list[str], comma: bool, lenient: bool = False) -> Array:
    """Whole numbers, numbers (NaN for what is missing), flags or text; numbers with mistakes in them are refused.

    If ``lenient`` they are text.
    """
    if text.all_whole(cells) and all(map(naming.is_filled, cells)) and max(map(len, cells)) < 19:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    if text.all_whole(cells) and max(map(len, cells)) >= 19:
        return np.array([cell.strip() if naming.is_filled(cell) else "" for cell in cells], dtype=str)  # ids
    tally = Tally(name, comma)
    for row, cell in enumerate(cells):
        tally.add(cell, row)
    try:
        kind = tally.kind(labels=True)
    except InputError:
        if not lenient:
            raise
        kind = TEXT
    if kind == NUMBER and any(map(naming.is_filled, cells)):
        plain = (cell.replace(",", ".") if comma else cell for cell in cells)
        return np.array([float(cell) if naming.is_filled(cell) else np.nan for cell in plain])
    if kind == FLAG and all(map(naming.is_filled, cells)):
        return np.array([naming.FLAGS[cell.strip().lower()] == "1" for cell in cells])
    return np.array([cell.strip() if naming.is_filled(cell) else "" for cell in cells], dtype=str)


def _parquet_columns(path: Path) -> tuple[list[str], Any, list[str], dict[str, str]]:
    file = parquet._open(path)
    schema = file.schema_arrow
    left_out = {
        name: kind for name, kind in parquet.column_kinds(schema).items() if kind.startswith(("list", "struct", "map"))
    }
    names = [name for name in schema.names if name not in left_out]

    def parse(wanted: list[str], refused: dict[str, str] | None = None) -> dict[str, Array]:
        """Columns as arrays; with ``refused`` dates are read too, and what holds neither is collected there."""
        from pyarrow import types

        columns: dict[str, Array] = {}
        for name in wanted:
            stored = schema.field(name).type
            kind = stored.value_type if types.is_dictionary(stored) else stored
            if refused is not None and (types.is_nested(kind) or types.is_time(kind) or types.is_duration(kind)):
                refused[name] = f"it holds {kind}"
                continue
            if types.is_temporal(kind):
                if refused is None:
                    raise InputError(f"column {name!r} holds {kind}, neither numbers nor labels")
                cells = parquet.numbers(path, file, name)
                columns[name] = np.asarray(cells.cast("timestamp[s]", safe=False).to_numpy())
            elif types.is_boolean(kind):
                columns[name] = np.asarray(parquet.numbers(path, file, name).cast(kind).to_numpy())
            elif types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
                columns[name] = np.asarray(parquet.as_numbers(parquet.numbers(path, file, name)).to_numpy())
            else:
                columns[name] = parquet.column(path, name, missing=True)
        return columns

    return names, parse, parquet.saved_index(schema), left_out
