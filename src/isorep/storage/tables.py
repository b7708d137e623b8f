"""Columns of any kind from a file: numbers, whole numbers, booleans and text, with their names and row ids.

A representation is floating point; what describes its rows (known factors, labels, quantised latents) is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from . import parquet, text
from .naming import as_ids, as_text, choose_columns, default_ids_name, require_plausible
from .registry import column, guarded, read, reader, split_key

_CELL_BYTES = 64


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """Columns by name, what to call them together, and row ids where the file has them."""

    columns: dict[str, Array]
    name: str
    ids: Array | None = None


def read_table(path: str | Path, *, ids: str | None = None, features: bool = False) -> NamedColumns:
    """Read columns of any kind.

    Parameters
    ----------
    path : str or Path
        Any file that :func:`isorep.read` reads. Of a csv or parquet table all columns are taken; ``FILE::a,b`` names
        some, also columns of AnnData's obs. Arrays have columns 0, 1, ...
    ids : str, optional
        The column with row ids; by default as for :func:`isorep.read`.
    features : bool
        Of a table take only what :func:`isorep.read` would: ``feature_*`` columns, or the numeric ones.
    """
    place, key = split_key(path, None)
    module = reader(place)
    if module in (text, parquet):
        return guarded(place, lambda: _table(module, place, key, ids, features))  # type: ignore[no-any-return]
    if key is not None and not features and place.suffix.lower() == ".h5ad":
        wanted = _names(key)
        return NamedColumns({name: column(place, name) for name in wanted}, place.name, read(place, ids=ids).ids)
    contents = guarded(place, lambda: module.load(place, key, ids))
    values = np.asarray(contents.values[:])
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"{place.name} has shape {values.shape}: rows and columns are needed")
    letter = "z" if features else "s"
    return NamedColumns(
        {f"{letter}{number}": values[:, number] for number in range(values.shape[1])}, place.name, contents.ids
    )


def _table(module: Any, path: Path, key: str | None, ids: str | None, features: bool) -> NamedColumns:
    kinds, parse, index, lists = (_text_columns if module is text else _parquet_columns)(path)
    if ids is not None and ids not in kinds:
        raise InputError(f"there is no column {ids!r}; there are {', '.join(list(kinds)[:12])}")
    ids_name = ids or next(iter(index), None) or default_ids_name(list(kinds))
    names = [name for name in kinds if name != ids_name and name not in index]
    if features:
        chosen, list_column = choose_columns(
            list(kinds), [name for name in names if kinds[name]], lists, key, [ids_name] if ids_name else []
        )
        if list_column is not None:
            found = read(path, key=key, ids=ids)
            values = np.asarray(found.values[:])
            return NamedColumns(
                {f"{list_column}{place}": values[:, place] for place in range(values.shape[1])}, path.name, found.ids
            )
        names = chosen
    elif key is not None:
        wanted = _names(key)
        unknown = [name for name in wanted if name not in kinds]
        if unknown:
            raise InputError(f"there is no column {unknown[0]!r}; there are {', '.join(list(kinds)[:12])}")
        names = wanted
    if not names:
        raise InputError("there is no column besides row ids")
    found_columns = parse(names if ids_name is None else [*names, ids_name])
    row_ids = None if ids_name is None else found_columns[ids_name]
    return NamedColumns({name: found_columns[name] for name in names}, path.name, row_ids)


def _names(key: str) -> list[str]:
    return [name.strip() for name in key.split(",") if name.strip()]


def _text_columns(path: Path) -> tuple[dict[str, bool], Any, list[str], list[str]]:
    """Which columns are numeric as far as can be told, and how to parse some."""
    with text._open(path) as table:
        kinds = {name: name in table.numeric for name in table.names if name != text._NOTHING}
        ids_name = default_ids_name(table.names)

    def parse(names: list[str]) -> dict[str, Array]:
        with text._open(path) as table:
            places = [table.names.index(name) for name in names]
            cells: list[list[str]] = [[] for _ in names]
            for count, (_, row) in enumerate(table.rows):
                if count % 4096 == 0:
                    require_plausible(_CELL_BYTES * count * len(names), path.stat().st_size, "this table")
                for place, kept in zip(places, cells, strict=True):
                    kept.append(row[place])
        return {
            name: as_ids(kept) if name == ids_name else _typed(kept) for name, kept in zip(names, cells, strict=True)
        }

    return kinds, parse, [], []


def _typed(cells: list[str]) -> Array:
    """Whole numbers, numbers (NaN for what is missing) or text."""
    if text._is_whole(cells) and all(map(text._is_filled, cells)) and max(map(len, cells)) < 19:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    if text._is_whole(cells) and max(map(len, cells)) >= 19:
        return np.array([cell.strip() if text._is_filled(cell) else "" for cell in cells], dtype=str)  # ids
    if text._is_numeric(cells) and any(map(text._is_filled, cells)):
        return np.array([float(cell) if text._is_filled(cell) else np.nan for cell in cells])
    flags = {"true": True, "false": False}
    if all(cell.strip().lower() in flags for cell in cells):
        return np.array([flags[cell.strip().lower()] for cell in cells])
    return np.array([cell.strip() if text._is_filled(cell) else "" for cell in cells], dtype=str)


def _parquet_columns(path: Path) -> tuple[dict[str, bool], Any, list[str], list[str]]:
    file = parquet._open(path)
    schema = file.schema_arrow
    numeric, lists = parquet._numeric_and_list_columns(schema)
    kinds = {name: name in numeric for name in schema.names if name not in lists}

    def parse(names: list[str]) -> dict[str, Array]:
        from pyarrow import types

        found: dict[str, Array] = {}
        for name in names:
            cells = file.read(columns=[name]).column(0)
            if types.is_temporal(cells.type):
                raise InputError(f"column {name!r} holds {cells.type}, neither numbers nor labels")
            if types.is_decimal(cells.type):
                cells = cells.cast("float64")
            if types.is_floating(cells.type) or types.is_integer(cells.type) or types.is_boolean(cells.type):
                found[name] = np.asarray(cells.to_numpy())
            else:
                require_plausible(_CELL_BYTES * len(cells), path.stat().st_size, f"column {name!r}")
                words = ["" if cell is None else cell for cell in cells.to_pylist()]
                found[name] = as_text(words, path.stat().st_size, f"column {name!r}")
        return found

    return kinds, parse, parquet._saved_index(schema), lists
