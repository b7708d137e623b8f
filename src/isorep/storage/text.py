"""Comma- and tab-separated text, plain or gzipped: parsed once, in blocks."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import InputError
from ..representation import Array
from .naming import choose_columns, default_ids_name
from .registry import Contents
from .scratch import spool

_SAMPLE_ROWS = 200
_BLOCK_CELLS = 2**21
_LONGEST_LINE = 2**24
_MISSING = {"", "na", "n/a", "null", "none"}


def load(path: Path, key: str | None, ids: str | None) -> Contents:
    """Parse the numeric columns, and the column of row ids where there is one."""
    with _open(path) as table:
        if ids is not None and ids not in table.names:
            raise InputError(f"there is no column {ids!r}; there are {_some(table.names)}")
        ids_name = default_ids_name(table.names) if ids is None else ids
        chosen, _ = choose_columns(table.numeric, [], key, ids_name)
        places = [table.names.index(name) for name in chosen]
        ids_place = None if ids_name is None else table.names.index(ids_name)
        row_ids: list[str] = []
        values = spool(_blocks(table, places, ids_place, row_ids))
    return Contents(values, None if ids_place is None else _as_ids(row_ids))


def column(path: Path, name: str) -> Array:
    """One column, as integers where every entry is one, otherwise as text."""
    with _open(path) as table:
        if name not in table.names:
            raise InputError(f"there is no column {name!r}; there are {_some(table.names)}")
        place = table.names.index(name)
        return _as_ids([row[place] for _, row in table.rows])


@dataclass(frozen=True)
class _Table:
    names: list[str]
    numeric: list[str]
    rows: Iterator[tuple[int, list[str]]]  # line number and cells, every row as long as the header


@contextmanager
def _open(path: Path) -> Iterator[_Table]:
    lowered = path.name.lower()
    opener = gzip.open if lowered.endswith(".gz") else open
    delimiter = "\t" if ".tsv" in lowered else ","
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_lines(file), delimiter=delimiter)
        try:
            numbered = ((reader.line_num, row) for row in reader if row)
            first = next(numbered, None)
            if first is None:
                raise InputError("there are no rows of data")
            has_header = not all(_is_number(cell) for cell in first[1])
            names = [name.strip() for name in first[1]] if has_header else [f"column_{i}" for i in range(len(first[1]))]
            _check_names(names)
            body = numbered if has_header else chain([first], numbered)
            rows = _rectangular(body, len(names))
            sample = list(islice(rows, _SAMPLE_ROWS))
            if not sample:
                raise InputError("there is a header and no row of data")
            numeric = [name for place, name in enumerate(names) if _is_numeric([row[place] for _, row in sample])]
            yield _Table(names, numeric, chain(sample, rows))
        except csv.Error as error:
            raise InputError(f"line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise InputError("this is not UTF-8 text") from error


def _lines(file: IO[str]) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise InputError(f"a line is longer than {_LONGEST_LINE} characters")
        yield line


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two columns are called {name!r}")
        seen.add(name)


def _rectangular(numbered: Iterator[tuple[int, list[str]]], width: int) -> Iterator[tuple[int, list[str]]]:
    for line, row in numbered:
        if len(row) != width:
            raise InputError(f"line {line} has {len(row)} cells where {width} are expected: the rows are ragged")
        yield line, row


def _blocks(table: _Table, places: list[int], ids_place: int | None, row_ids: list[str]) -> Iterator[Array]:
    step = max(1, _BLOCK_CELLS // max(1, len(places)))
    everything = places == list(range(len(table.names)))
    while block := list(islice(table.rows, step)):
        values = np.empty((len(block), len(places)))
        for i, (line, row) in enumerate(block):
            cells = row if everything else [row[place] for place in places]
            try:
                values[i] = list(map(float, cells))
            except ValueError:
                values[i] = [_parse(cell, line, table.names[place]) for cell, place in zip(cells, places, strict=True)]
            if ids_place is not None:
                row_ids.append(row[ids_place])
        yield values


def _parse(cell: str, line: int, name: str) -> float:
    if cell.strip().lower() in _MISSING:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"line {line}, column {name!r}: {cell[:40]!r} is not a number") from None


def _is_numeric(cells: list[str]) -> bool:
    filled = [cell for cell in cells if cell.strip().lower() not in _MISSING]
    return bool(filled) and all(_is_number(cell) for cell in filled)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_2 as twelve; here it is a name


def _as_ids(cells: list[str]) -> Array:
    if all(cell.isascii() and cell.isdigit() and (cell == "0" or cell[0] != "0") and len(cell) < 19 for cell in cells):
        return np.array(cells, dtype=np.int64)
    return np.array(cells, dtype=str)


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
