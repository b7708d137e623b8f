"""Comma- and tab-separated text, plain or gzipped: parsed once, in blocks."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .naming import FEATURE_PREFIX, as_ids, choose_columns, default_ids_name, require_plausible
from .registry import Contents, RowStream
from .scratch import spool

_SAMPLE_ROWS = 200
_BLOCK_CELLS = 2**21
_LONGEST_LINE = 2**24
_MOST_COLUMNS = 2**20
_SAMPLE_CHARACTERS = 2**25
_NOTHING = "nothing after the last delimiter"
_MISSING = {"", "na", "n/a", "null", "none"}


def load(path: Path, key: str | None, ids: str | None) -> Contents:
    """Parse the numeric columns, and the column of row ids where there is one."""
    with _open(path) as table:
        if ids is not None and ids not in table.names:
            raise InputError(f"there is no column {ids!r}; there are {_some(table.names)}")
        ids_name = default_ids_name(table.names) if ids is None else ids
        chosen, _ = choose_columns(table.names, table.numeric, [], key, [ids_name] if ids_name is not None else [])
        if all(name in table.whole for name in chosen):
            raise InputError(
                f"the columns {_some(chosen, 3)} hold integers where floating-point values are needed; if these really "
                "are activations and not labels, write them with a decimal point"
            )
        places = [table.names.index(name) for name in chosen]
        ids_place = None if ids_name is None else table.names.index(ids_name)
        row_ids = _Labels(path.stat().st_size, ids_name or "")
        values = spool(_blocks(table, places, ids_place, row_ids), path.stat().st_size)
    return Contents(values, None if ids_place is None else row_ids.array())


def column(path: Path, name: str) -> Array:
    """One column, as integers where every entry is one, otherwise as text."""
    with _open(path) as table:
        if name not in table.names:
            raise InputError(f"there is no column {name!r}; there are {_some(table.names)}")
        place = table.names.index(name)
        labels = _Labels(path.stat().st_size, name)
        for _, row in table.rows:
            labels.append(row[place])
        return labels.array()


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write a header and one line a row, with as many digits as bring every value back exactly."""
    lowered = path.name.lower()
    names = [f"{FEATURE_PREFIX if key is None else key}{place}" for place in range(rows.shape[1])]
    with (
        path.open("wb") as raw,
        _compressed(raw, lowered) as binary,
        io.TextIOWrapper(binary, "utf-8", newline="") as file,
    ):
        writer = csv.writer(file, delimiter="\t" if ".tsv" in lowered else ",", lineterminator="\n")
        writer.writerow(names if rows.ids is None else ["id", *names])
        start = 0
        for block in rows.blocks():
            cells = block.astype(np.float64).tolist()
            if rows.ids is not None:
                ids = rows.ids[start : start + len(block)].tolist()
                cells = [[label, *row] for label, row in zip(ids, cells, strict=True)]
            writer.writerows(cells)
            start += len(block)


def _compressed(raw: IO[bytes], lowered: str) -> Any:
    """The stream itself, or gzip without a name and a date, so that the same values give the same bytes."""
    return gzip.GzipFile("", "wb", 6, raw, mtime=0) if lowered.endswith(".gz") else nullcontext(raw)


@dataclass(frozen=True)
class _Table:
    names: list[str]
    numeric: list[str]
    whole: list[str]  # those of them that hold nothing but integers, as far as can be told
    rows: Iterator[tuple[int, list[str]]]  # line number and cells, every row as long as the header


@contextmanager
def _open(path: Path) -> Iterator[_Table]:
    lowered = path.name.lower()
    opener = gzip.open if lowered.endswith(".gz") else open
    delimiter = "\t" if ".tsv" in lowered else ","
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        lines = _Lines(file, delimiter)
        reader = csv.reader(lines, delimiter=delimiter)
        try:
            numbered = _numbered(reader, lines)
            first = next(numbered, None)
            if first is None:
                raise InputError("there are no rows of data")
            has_header = _is_header(first[1])
            names = [name.strip() for name in first[1]] if has_header else [f"column_{i}" for i in range(len(first[1]))]
            _check_names(names, delimiter)
            body = numbered if has_header else chain([first], numbered)
            rows = _rectangular(body, len(names))
            sample = list(islice(rows, max(1, min(_SAMPLE_ROWS, _SAMPLE_CHARACTERS // lines.longest))))
            if not sample:
                raise InputError("there is a header and no row of data")
            columns = {name: [row[place] for _, row in sample] for place, name in enumerate(names)}
            if names[-1] == "" and len(names) > 1 and not any(map(_is_filled, columns[""])):
                names[-1] = _NOTHING  # every line ends with a delimiter
                columns[_NOTHING] = [_NOTHING]
            yield _Table(
                names,
                numeric=[name for name in names if _is_numeric(columns[name])],
                whole=[name for name in names if _is_whole(columns[name])],
                rows=chain(sample, rows),
            )
        except csv.Error as error:
            raise InputError(f"line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise InputError("this is not UTF-8 text") from error


class _Lines:
    """The lines of a file, which may be hostile: none too long, not too many for one row, not too many cells."""

    def __init__(self, file: IO[str], delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self.in_this_row = 0
        self.longest = 1

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(_LONGEST_LINE)
        if not line:
            raise StopIteration
        self.in_this_row += len(line)
        self.longest = max(self.longest, self.in_this_row)
        if self.in_this_row >= _LONGEST_LINE:
            raise InputError(f"a line is longer than {_LONGEST_LINE} characters")
        if line.count(self._delimiter) > _MOST_COLUMNS:
            raise InputError(f"a line has more than {_MOST_COLUMNS} cells")
        return line


def _numbered(reader: Any, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        lines.in_this_row = 0
        if row:
            yield reader.line_num, row


def _is_header(cells: list[str]) -> bool:
    """Whether a first line names the columns: it holds a word, or just counts them as data frames do."""
    filled = [cell.strip() for cell in cells if _is_filled(cell)]
    if filled == [str(place) for place in range(len(filled))] and (
        len(filled) == len(cells) or not _is_filled(cells[0])
    ):
        return True
    return not all(map(_is_number, filled))


def _is_filled(cell: str) -> bool:
    return cell.strip().lower() not in _MISSING


def _check_names(names: list[str], delimiter: str) -> None:
    if len(names) == 1 and ";" in names[0]:
        raise InputError(f"the columns seem to be separated by semicolons; this suffix means {delimiter!r}")
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


def _blocks(table: _Table, places: list[int], ids_place: int | None, row_ids: _Labels) -> Iterator[Array]:
    step = max(1, _BLOCK_CELLS // max(1, len(places)))
    everything = places == list(range(len(table.names)))
    while True:
        values = np.empty((step, len(places)))
        count = 0
        for line, row in islice(table.rows, step):
            cells = row if everything else [row[place] for place in places]
            try:
                values[count] = list(map(float, cells))
            except ValueError:
                parsed = [_parse(cell, line, table.names[place]) for cell, place in zip(cells, places, strict=True)]
                values[count] = parsed
            if ids_place is not None:
                row_ids.append(row[ids_place])
            count += 1
        if count < step:
            if count:
                yield values[:count].copy()
            return
        yield values


class _Labels:
    """A column of text that grows row by row, as long as that is plausible for the file."""

    def __init__(self, stored_bytes: int, name: str) -> None:
        self._stored_bytes = stored_bytes
        self._name = name
        self._cells: list[str] = []
        self._longest = 0

    def append(self, cell: str) -> None:
        if not cell.strip():
            raise InputError(f"column {self._name!r} is empty in row {len(self._cells)}")
        self._cells.append(cell)
        self._longest = max(self._longest, len(cell))
        if len(self._cells) % 4096 == 0:
            self._check()

    def array(self) -> Array:
        self._check()
        return as_ids(self._cells)

    def _check(self) -> None:
        held = len(self._cells) * max(64, 4 * self._longest)  # as Python text, then as an array
        require_plausible(held, self._stored_bytes, f"column {self._name!r}")


def _parse(cell: str, line: int, name: str) -> float:
    if not _is_filled(cell):
        return math.nan
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"line {line}, column {name!r}: {cell[:40]!r} is not a number") from None


def _is_numeric(cells: list[str]) -> bool:
    return all(_is_number(cell) for cell in cells if _is_filled(cell))


def _is_whole(cells: list[str]) -> bool:
    filled = [cell.strip().lstrip("+-") for cell in cells if _is_filled(cell)]
    return bool(filled) and all(cell.isascii() and cell.isdigit() for cell in filled)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_2 as twelve; here it is a name


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
