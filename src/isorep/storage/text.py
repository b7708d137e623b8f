"""Comma- and tab-separated text, plain or gzipped: parsed once, in blocks."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .naming import (
    EXACT,
    FEATURE_PREFIX,
    FLAG,
    FLAGS,
    NUMBER,
    TEXT,
    Tally,
    as_ids,
    choose_columns,
    default_ids_name,
    inexact,
    is_filled,
    is_number,
    is_whole,
    may_be_thousands,
    not_a_number,
    not_utf8,
    require_column,
    require_plausible,
    shown,
    some,
)
from .registry import Contents, RowStream
from .scratch import spool, unpacked

_SAMPLE_ROWS = 200
_BLOCK_CELLS = 2**21
_LONGEST_LINE = 2**24
_MOST_COLUMNS = 2**20
_SAMPLE_CHARACTERS = 2**25
_NOTHING = "nothing after the last delimiter"
_MOST_COMMENTS = 1000  # lines
_LONGEST_WHOLE = 400  # digits beyond which a whole number is infinite in float64

GAPS = True  # columns may have empty cells


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Parse the numeric columns, and the column of row ids where there is one."""
    contents, whole = load_columns(path, key, ids, besides)
    if contents.columns is not None and len(whole) == len(contents.columns):
        raise InputError(
            f"the columns {some(whole, 3)} hold integers where floating-point values are needed; if these really "
            "are activations and not labels, write them with a decimal point"
        )
    return contents


def load_columns(
    path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()
) -> tuple[Contents, list[str]]:
    """The contents of a table, and which of its columns hold whole numbers or flags as far as the first rows tell."""
    try:
        return _load(path, key, ids, besides, {})
    except _Doubt as doubt:  # the first rows have deceived: look at all of them, and start again
        return _load(path, key, ids, besides, _kinds(path, doubt.names))


def column(path: Path, name: str, missing: bool = False) -> Array:
    """One column, as integers where every entry is one, otherwise as text; ``missing`` allows empty cells."""
    with _open(path) as table:
        require_column(name, table.names)
        index = table.places[name]
        labels = _Labels(path.stat().st_size, name, missing)
        for _, row in table.rows:
            labels.append(row[index])
        return labels.array()


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write a header and one line per row, with enough digits to restore every value exactly."""
    lowered = path.name.lower()
    names = [f"{FEATURE_PREFIX if key is None else key}{index}" for index in range(rows.shape[1])]
    with (
        path.open("wb") as raw,
        _compressed(raw, lowered) as binary,
        io.TextIOWrapper(binary, "utf-8", newline="") as file,
    ):
        writer = csv.writer(file, delimiter="\t" if lowered.endswith((".tsv", ".tsv.gz")) else ",", lineterminator="\n")
        labels = rows.all_labels("id")
        writer.writerow([*labels, *names])
        for here, block in rows.placed():
            cells = block.astype(np.float64).tolist()
            if labels:
                held = [_listed(column[here]) for column in labels.values()]
                cells = [[*each, *row] for *each, row in zip(*held, cells, strict=True)]
            writer.writerows(cells)


def _listed(labels: Any) -> list[Any]:
    """Labels as Python objects; what is missing becomes an empty cell."""
    held = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return ["" if label is None or label != label else label for label in held]


def others(path: Path, besides: Collection[str]) -> dict[str, Array]:
    """The columns of a file besides some, as they are written."""
    with _open(path) as table:
        names = [name for name in table.names if name not in besides]
        places = [table.places[name] for name in names]
        kept: list[_Labels] = [_Labels(path.stat().st_size, name, gaps=True) for name in names]
        for _, row in table.rows:
            for place, labels in zip(places, kept, strict=True):
                labels.append(row[place])
        return {name: labels.array() for name, labels in zip(names, kept, strict=True)}


def _compressed(raw: IO[bytes], lowered: str) -> Any:
    """The stream itself, or gzip without a name and a date, so that the same values give the same bytes."""
    return gzip.GzipFile("", "wb", 6, raw, mtime=0) if lowered.endswith(".gz") else nullcontext(raw)


class _Doubt(Exception):  # noqa: N818  (it is no error yet)
    """A cell is not what the first rows of its column were."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


def _load(
    path: Path, key: str | None, ids: str | None, besides: Collection[str], known: dict[str, str]
) -> tuple[Contents, list[str]]:
    size = path.stat().st_size
    with _open(path) as table:
        ids_name = default_ids_name(table.names) if ids is None else ids
        if ids_name is not None:
            require_column(ids_name, table.names)
        kinds = {name: known.get(name) or kind for name, kind in table.kinds.items()}
        choice = choose_columns(kinds, key, [*besides, *([] if ids_name is None else [ids_name])])
        if not choice.columns:
            _kinds(path, choice.doubtful)
        choice.require()
        chosen, left_out = choice.columns, choice.left_out
        asked = key is not None or chosen[0].startswith(FEATURE_PREFIX)
        row_ids = _Labels(size, ids_name or "")
        parsing = _Parser(table, chosen, choice.doubtful, doubts=not known, asked=asked)
        parsing.flags = [index for index, name in enumerate(chosen) if kinds[name] == FLAG]
        values = spool(parsing.blocks(None if ids_name is None else table.places[ids_name], row_ids), size)
    for tally in parsing.tallies.values():
        tally.kind()
    if parsing.large:
        _refuse_inexact(path, chosen)
    if table.counts and key is None:
        left_out = {f"line {1 + table.comments}": "a header that counts the columns", **left_out}
    if table.comments and key is None:
        left_out = {"line 1" if table.comments == 1 else f"{table.comments} lines": "comments", **left_out}
    converted = dict.fromkeys(chosen, "decimal comma") if parsing.decimals.finished() else {}
    converted |= {chosen[index]: "true and false to 1 and 0" for index in parsing.flags}
    contents = Contents(
        values, None if ids_name is None else row_ids.array(), left_out, converted, columns=tuple(chosen)
    )
    return contents, [name for name in chosen if name in table.whole or kinds[name] == FLAG]


class _Parser:
    """Rows of text on their way to numbers, with what has to be known of all of them in the end."""

    def __init__(self, table: _Table, chosen: list[str], texts: list[str], *, doubts: bool, asked: bool) -> None:
        self._table = table
        self._chosen = chosen
        self._indices = [table.places[name] for name in chosen]
        self._doubts, self._asked = doubts, asked
        self.tallies = {table.places[name]: Tally(name, table.comma) for name in texts}
        self.flags: list[int] = []
        self.decimals = _Decimals()
        self.large = False  # whether some number is so large that a whole one may have been rounded

    def blocks(self, ids_place: int | None, row_ids: _Labels) -> Iterator[Array]:
        """The chosen columns in blocks of rows; ids are collected on the way, and columns of text are counted."""
        table, indices, tallies = self._table, self._indices, list(self.tallies.items())
        step = max(1, _BLOCK_CELLS // max(1, len(indices)))
        everything = indices == list(range(len(table.names)))
        done = 0
        while True:
            values = np.empty((step, len(indices)))
            count = 0
            for line, row in islice(table.rows, step):
                cells = row if everything else [row[index] for index in indices]
                if self.flags or table.comma:
                    cells = self._respelled(cells, line)
                try:
                    if table.lines.odd and not _is_plain("".join(cells)):
                        raise ValueError("Python reads more as numbers than is one here")
                    values[count] = list(map(float, cells))
                except ValueError:
                    values[count] = [self._parse(cell, i, (line, done + count)) for i, cell in enumerate(cells)]
                if ids_place is not None:
                    row_ids.append(row[ids_place])
                for index, tally in tallies:
                    tally.add(row[index], (line, done + count))
                count += 1
            self.large = self.large or bool((np.abs(values[:count]) >= EXACT).any())
            done += count
            if count < step:
                if count:
                    yield values[:count].copy()
                return
            yield values

    def _respelled(self, cells: list[str], line: int) -> list[str]:
        """Cells with flags as digits, and decimal commas as points where the file has them."""
        cells = list(cells)
        for index in self.flags:
            cells[index] = FLAGS.get(cells[index].strip().lower(), cells[index])
        return self.decimals.plain(cells, line) if self._table.comma else cells

    def _parse(self, cell: str, index: int, where: tuple[int, int]) -> float:
        if not is_filled(cell):
            return math.nan
        if is_number(cell):
            return float(cell)
        if self._doubts and (not self._asked or cell.strip().lower() in FLAGS):
            raise _Doubt([*self._chosen, *(tally.name for tally in self.tallies.values())])
        raise InputError(not_a_number(self._chosen[index], where, cell))


class _Decimals:
    """The decimal mark of a file that separates columns by semicolons: one for the whole file."""

    def __init__(self) -> None:
        self._mark = ""
        self._unclear: str | None = None

    def plain(self, cells: list[str], line: int) -> list[str]:
        """The cells of a row with decimal points."""
        for mark in ",.":
            marked = next((cell for cell in cells if mark in cell and is_number(cell, comma=True)), None)
            if marked is None:
                continue
            if self._mark not in ("", mark):
                raise InputError(
                    f"line {line}: {shown(marked)} has another decimal mark than other numbers: use one mark"
                )
            if mark == "," and (self._mark == "" or self._unclear is not None):
                sure = any("," in cell and is_filled(cell) and not may_be_thousands(cell) for cell in cells)
                self._unclear = None if sure else marked
            self._mark = mark
        return [cell.replace(",", ".") for cell in cells] if self._mark == "," else cells

    def finished(self) -> bool:
        """Whether the file has decimal commas; it is refused if they may as well separate thousands."""
        if self._unclear is not None:
            raise InputError(
                f"{shown(self._unclear)} may have a decimal comma or a thousands separator: write numbers with a "
                "decimal point and without separators"
            )
        return self._mark == ","


def _kinds(path: Path, names: list[str]) -> dict[str, str]:
    """What columns hold, by all of their cells."""
    with _open(path) as table:
        tallies = [(table.places[name], Tally(name, table.comma)) for name in names]
        for number, (line, row) in enumerate(table.rows):
            for index, tally in tallies:
                tally.add(row[index], (line, number))
        return {tally.name: tally.kind() for _, tally in tallies}


def _refuse_inexact(path: Path, names: list[str]) -> None:
    """Refuse whole numbers that have been rounded."""
    with _open(path) as table:
        indices = [table.places[name] for name in names]
        for number, (line, row) in enumerate(table.rows):
            for index in indices:
                cell = row[index]
                if 15 < len(cell) < _LONGEST_WHOLE and is_whole(cell) and int(cell) != int(float(cell)):
                    raise inexact(table.names[index], (line, number), int(cell))


@dataclass(frozen=True)
class _Table:
    names: list[str]
    kinds: dict[str, str]  # what the columns hold, as far as the first rows tell
    whole: frozenset[str]  # those of them that hold nothing but integers, as far as the first rows tell
    comma: bool  # whether a comma may mark decimals: the columns are separated by semicolons
    comments: int  # lines before the header that were skipped
    counts: bool  # whether the first line was taken for a header though it holds numbers alone: 0, 1, 2, ...
    rows: Iterator[tuple[int, list[str]]]  # line number and cells, every row as long as the header
    lines: _Lines

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each column: a search in the names of a wide table would take minutes."""
        return {name: place for place, name in enumerate(self.names)}


@contextmanager
def _open(path: Path) -> Iterator[_Table]:
    lowered = path.name.lower()
    reader = None
    with unpacked(path, packed=lowered.endswith(".gz"), newline="") as file:
        try:
            lines = _Lines(file)
            first_line = lines.peek()
            delimiter = "\t" if lowered.endswith((".tsv", ".tsv.gz")) else _comma_or_semicolon(first_line)
            lines.delimiter, comma = delimiter, delimiter == ";"
            lines.skip_comments(first_line)
            reader = csv.reader(lines, delimiter=delimiter)
            numbered = _numbered(reader, lines)
            first = next(numbered, None)
            if first is None:
                raise InputError("there are no rows of data")
            place = 1 + lines.skipped  # of the header
            has_header = _is_header(first[1], comma, place)
            names = [name.strip() for name in first[1]] if has_header else [f"column_{i}" for i in range(len(first[1]))]
            _check_names(names, delimiter, place)
            lines.odd = lines.odd and not has_header
            rows = _rectangular(numbered if has_header else chain([first], numbered), len(names))
            sample = list(islice(rows, max(1, min(_SAMPLE_ROWS, _SAMPLE_CHARACTERS // lines.longest))))
            if not sample:
                raise InputError("there is a header and no row of data")
            if not has_header:
                _refuse_rising(first[1], [row for _, row in sample[1:]], place)
            rows = chain(sample, rows)
            columns = {name: [row[index] for _, row in sample] for index, name in enumerate(names)}
            if names[-1] == "" and len(names) > 1 and not any(map(is_filled, columns[""])):
                columns[_NOTHING] = columns.pop("")
                names[-1] = _NOTHING  # every line ends with a delimiter
                rows = _nothing_last(rows, place)
            _require_names(names, place)
            yield _Table(
                names,
                kinds={name: _kind(cells, comma) for name, cells in columns.items() if name != _NOTHING},
                whole=frozenset(name for name in names if all_whole(columns[name])),
                comma=comma,
                comments=lines.skipped,
                counts=has_header and all(is_number(name) for name in names),
                rows=rows,
                lines=lines,
            )
        except csv.Error as error:
            raise InputError(f"line {reader.line_num + lines.skipped if reader else 1}: {error}") from error
        except UnicodeDecodeError as error:
            raise not_utf8(error) from error


class _Lines:
    """The lines of an untrusted file: none too long, not too many for one row, not too many cells."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._waiting: deque[str] = deque()  # lines that have been looked at, and will still come
        self.skipped = 0
        self.delimiter = ","
        self.in_this_row = 0
        self.longest = 1
        self.odd = False  # whether a line so far had underscores or signs beyond ASCII

    def peek(self) -> str:
        """The first line that is no comment, or the first one where all are."""
        size = 0
        while size < _LONGEST_LINE and len(self._waiting) <= _MOST_COMMENTS:
            self._waiting.append(self._file.readline(_LONGEST_LINE))
            size += len(self._waiting[-1])
            if not self._waiting[-1].startswith("#"):
                return self._waiting[-1] or self._waiting[0]
        return self._waiting[0]

    def skip_comments(self, first: str) -> None:
        """Skip the lines before the first one that begin with #; the last may be the header."""
        if first.startswith("#") or len(self._waiting) < 2:
            return
        self.skipped = len(self._waiting) - 1
        last, line = self._cells(self._waiting[-2]), self._cells(first)
        alike = bool(line) and len(last) == len(line)
        if alike and (self._has_numbers(line) or (_names_columns(last) and self._is_text_below())):
            self.skipped -= 1
        for _ in range(self.skipped):
            self._waiting.popleft()

    def _is_text_below(self) -> bool:
        """Whether the next line, which will still come, has no numbers: the one before it is then no header of them."""
        self._waiting.append(self._file.readline(_LONGEST_LINE))
        return not self._has_numbers(self._cells(self._waiting[-1]))

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error:  # such as settings in one cell that is too long
            return []

    def _has_numbers(self, cells: list[str]) -> bool:
        return any(is_number(cell, self.delimiter == ";") for cell in cells)

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else self._file.readline(_LONGEST_LINE)
        if not line:
            raise StopIteration
        self.in_this_row += len(line)
        self.longest = max(self.longest, self.in_this_row)
        if self.in_this_row >= _LONGEST_LINE:
            raise InputError(f"a line is longer than {_LONGEST_LINE} characters")
        if line.count(self.delimiter) > _MOST_COLUMNS:
            raise InputError(f"a line has more than {_MOST_COLUMNS} cells")
        if not _is_plain(line):
            self.odd = True
        return line


def _names_columns(cells: list[str]) -> bool:
    """Whether a line behind a # looks like names: one word, or cells that do not begin with a space as prose does."""
    first = cells[0].removeprefix("#")
    if len(cells) == 1:
        return first.split() == [first.rstrip()]
    return all(cell and not cell[0].isspace() for cell in (first.strip(), *cells[1:]))


def _is_plain(text: str) -> bool:
    """Whether text holds nothing that Python takes for a part of a number and this module does not."""
    return "_" not in text and text.isascii()


def _comma_or_semicolon(line: str) -> str:
    """What separates the columns of a csv file: a semicolon if commas would make one cell or cut numbers."""
    cells = line.strip().split(";")
    if len(cells) < 2 or (len(next(csv.reader([line]), [])) > 1 and not all(is_number(each, True) for each in cells)):
        return ","
    return ";"


def _numbered(reader: Any, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    blank = 0
    for row in reader:
        lines.in_this_row = 0
        if not row:
            blank = blank or reader.line_num + lines.skipped
        elif blank:
            raise InputError(f"line {blank} is blank and rows follow it: remove it, or write a row of missing values")
        else:
            yield reader.line_num + lines.skipped, row


def _is_header(cells: list[str], comma: bool, line: int) -> bool:
    """Whether a first line names the columns: it holds words, or just counts them as data frames do."""
    filled = [cell.strip() for cell in cells if is_filled(cell)]
    counts = filled == [str(number) for number in range(len(filled))]
    if counts and (len(filled) == len(cells) or not is_filled(cells[0])):
        return True
    words = [cell for cell in filled if not is_number(cell, comma)]
    numbers = [cell for cell in filled if is_number(cell, comma) and any(map(str.isdigit, cell))]
    if not words or not numbers:
        return bool(words)
    if _is_rising(numbers) and (len(numbers) > 2 or numbers in (["0"], ["1"], ["0", "1"], ["1", "2"])):
        return True
    raise InputError(
        f"line {line} is neither a row nor a header: {shown(words[0])} is not a number, and {shown(numbers[0])} is not "
        "a name; correct the row, or give every column a name that is not a number"
    )


def _is_rising(cells: list[str]) -> bool:
    """Whether cells are whole numbers without signs, each larger than the one before."""
    if not all(cell.isascii() and cell.isdigit() and len(cell) < 19 for cell in cells):
        return False
    return all(a < b for a, b in pairwise(map(int, cells)))


def _refuse_rising(first: list[str], others: list[list[str]], line: int) -> None:
    """Refuse a first line that would be a header of column numbers in all likelihood: 3, 17, 42 above decimals."""
    filled = [cell.strip() for cell in first if is_filled(cell)]
    if len(filled) > 2 and _is_rising(filled) and others and not any(all(map(is_whole, row)) for row in others):
        raise InputError(
            f"line {line} begins with {shown(filled[0])} and {shown(filled[1])} and may be a header or a row: give the "
            "columns names that are not numbers, or write the row with decimal points"
        )


_SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas"}


def _check_names(names: list[str], delimiter: str, line: int) -> None:
    if any("\0" in name for name in names):
        raise InputError(f"line {line} has zero bytes, as text in UTF-16 has: save it as UTF-8")
    other = next((sign for sign in _SEPARATORS if sign != delimiter and sign in names[0]), None)
    if len(names) == 1 and other is not None:
        raise InputError(f"the columns seem to be separated by {_SEPARATORS[other]}; this suffix means {delimiter!r}")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two columns are called {shown(name)}")
        seen.add(name)


def _require_names(names: list[str], line: int) -> None:
    """Refuse a column without a name, unless it is the first, where data frames write their index."""
    if "" in names[1:]:
        raise InputError(f"column {names.index('', 1)}, counted from 0, has no name in line {line}")


def _rectangular(numbered: Iterator[tuple[int, list[str]]], width: int) -> Iterator[tuple[int, list[str]]]:
    for line, row in numbered:
        if len(row) != width:
            raise InputError(f"line {line} has {len(row)} cells where {width} are expected: the rows are ragged")
        yield line, row


def _nothing_last(rows: Iterator[tuple[int, list[str]]], header: int) -> Iterator[tuple[int, list[str]]]:
    for line, row in rows:
        if is_filled(row[-1]):
            raise InputError(f"line {line} ends with {shown(row[-1])}, for which line {header} has no name")
        yield line, row


def _kind(cells: list[str], comma: bool) -> str:
    filled = [cell for cell in cells if is_filled(cell)]
    if all(is_number(cell, comma) for cell in filled):
        return NUMBER
    return FLAG if all(cell.strip().lower() in FLAGS for cell in filled) else TEXT


def all_whole(cells: list[str]) -> bool:
    """Whether all filled cells, of which there are some, are written as whole numbers."""
    filled = [cell for cell in cells if is_filled(cell)]
    return bool(filled) and all(map(is_whole, filled))


class _Labels:
    """A column of text that grows row by row, as long as that is plausible for the file."""

    def __init__(self, stored_bytes: int, name: str, gaps: bool = False) -> None:
        self._stored_bytes = stored_bytes
        self._name, self._gaps = name, gaps
        self._cells: list[str] = []
        self._longest = 0

    def append(self, cell: str) -> None:
        if not cell.strip() and not self._gaps:
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
