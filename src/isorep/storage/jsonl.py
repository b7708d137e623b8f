"""JSON lines: one object per line, with a vector under one of its names."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .naming import as_ids, as_text, default_ids_name, not_utf8, require_plausible
from .registry import Contents, RowStream
from .scratch import spool, unpacked

BATCH = 1024  # lines at a time, at most
_LONGEST_LINE = 2**24
_NAME = "vector"


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Read the vectors, and the row ids where there are any."""
    name, names = vector_name(path, key)
    ids_name = ids if ids is not None else default_ids_name(names)
    labels: list[Any] = []

    def blocks() -> Iterator[Array]:
        for start, records in batches(path):
            if ids_name is not None:
                labels.extend(_label(record, ids_name, start + row) for row, record in enumerate(records))
                require_plausible(64 * len(labels), path.stat().st_size, f"the ids {ids_name!r}")
            yield vectors(records, name, start)

    values = spool(blocks(), path.stat().st_size)
    left_out = {each: "not a vector" for each in names if each not in (name, ids_name)}
    return Contents(values, None if ids_name is None else _as_ids(labels, path), left_out, part=name)


def column(path: Path, name: str) -> Array:
    """One value per line: groups, labels, ids."""
    found = [_label(record, name, start + row) for start, some in batches(path) for row, record in enumerate(some)]
    if all(type(each) is int and abs(each) < 2**63 for each in found):
        return np.array(found, np.int64)
    return as_text(map(str, found), path.stat().st_size, f"the entries {name!r}")


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write one object per row, with its id and its vector."""
    with opened(path, "wt") as file:
        for here, block in rows.placed():
            ids = [None] * len(block) if rows.ids is None else rows.ids[here].tolist()
            for label, vector in zip(ids, block.tolist(), strict=True):
                record = ({} if label is None else {"id": label}) | {key or _NAME: vector}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def batches(path: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Objects of consecutive lines, with the number of the first."""
    for start, lines in texts(path):
        yield start, records_of(lines, start)


def texts(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Consecutive lines as they are, with the number of the first; fewer at a time if they are long."""
    held: list[str] = []
    row = characters = 0
    for line in _lines(path):
        if held and (len(held) == BATCH or characters + len(line) > _LONGEST_LINE):
            yield row - len(held), held
            held, characters = [], 0
        held.append(line)
        characters += len(line)
        row += 1
    if held:
        yield row - len(held), held
    if not row:
        raise InputError("there are no rows of data")


def records_of(lines: list[str], start: int) -> list[dict[str, Any]]:
    """The objects of some lines, of which the first is row ``start``."""
    return [_record(line, row) for row, line in enumerate(lines, start)]


def replaced(line: str, new: dict[str, str], row: int) -> str:
    """A line with other values under some names of its object.

    Everything else keeps its text: digits, escapes, names that occur twice, and numbers beyond float64.
    """
    pieces, done = [], 0
    left = set(new)
    place = line.index("{") + 1
    while line[place := _BEFORE_NAME.match(line, place).end()] != "}":  # type: ignore[union-attr]
        name, place = _DECODER.raw_decode(line, place)
        start = _BEFORE_VALUE.match(line, place).end()  # type: ignore[union-attr]
        _, place = _DECODER.raw_decode(line, start)
        if name in new:
            if name not in left:
                raise InputError(f"row {row} has {name!r} twice")
            left.remove(name)
            pieces += [line[done:start], new[name]]
            done = place
    return "".join([*pieces, line[done:].rstrip("\n"), "\n"])


_DECODER = json.JSONDecoder()
_BEFORE_NAME, _BEFORE_VALUE = re.compile(r"[\s,]*"), re.compile(r"[\s:]*")


def count(path: Path) -> int:
    """The number of objects; their lines are not parsed."""
    return sum(1 for _ in _lines(path))


def _lines(path: Path) -> Iterator[str]:
    """Lines that are not blank."""
    number = 0
    try:
        with opened(path, "rt") as file:
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) >= _LONGEST_LINE:
                    raise InputError(f"line {number} is longer than {_LONGEST_LINE} characters")
                if line.strip():
                    yield line
    except UnicodeDecodeError as error:
        raise not_utf8(error) from error


def vector_name(path: Path, key: str | None) -> tuple[str, list[str]]:
    """The name of the vectors, from the first line, and all of its names."""
    _, records = next(batches(path))
    first = records[0]
    lists = [name for name, value in first.items() if _is_vector(value)]
    if key is not None:
        if key not in first:
            raise InputError(f"row 0 has no {key!r}; there are {', '.join(map(str, first))[:200] or 'no names'}")
        return key, list(first)
    if len(lists) != 1:
        found = f"several lists of numbers ({', '.join(lists)})" if lists else "no list of numbers"
        raise InputError(f"row 0 has {found}: name the vectors as FILE::NAME")
    return lists[0], list(first)


def vectors(records: list[dict[str, Any]], name: str, start: int) -> Array:
    """The vectors of some rows in float64."""
    width = None
    for row, record in enumerate(records, start=start):
        value: Any = record.get(name)
        if not _is_vector(value):
            raise InputError(f"row {row} has no list of numbers under {name!r}")
        width = len(value) if width is None else width
        if len(value) != width:
            raise InputError(f"{name!r} is ragged: row {start} has {width} entries and row {row} has {len(value)}")
    try:
        return np.array([record[name] for record in records], np.float64)
    except OverflowError as error:
        raise InputError(f"{name!r} holds a whole number beyond float64, in row {start} or later") from error


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) in (int, float) for each in value)


def _record(line: str, row: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"row {row} is not JSON: {str(error)[:120]}") from error
    except ValueError as error:
        raise InputError(
            f"row {row} holds a whole number of more than {sys.get_int_max_str_digits()} digits"
        ) from error
    if not isinstance(record, dict):
        raise InputError(f"row {row} is not a JSON object")
    return record


def _label(record: dict[str, Any], name: str, row: int) -> Any:
    value = record.get(name)
    if type(value) not in (int, str, float, bool) or value != value:
        raise InputError(f"row {row} has no number or text under {name!r}")
    return value


def _as_ids(labels: list[Any], path: Path) -> Array:
    """Labels as whole numbers if all are, and fit into 64 bits; otherwise as text."""
    if all(type(each) is int and abs(each) < 2**63 for each in labels):
        return np.array(labels, np.int64)
    return as_ids(as_text(labels, path.stat().st_size, "the text of ids"))


def opened(path: Path, mode: str, name: str | None = None) -> Any:
    """A text file, compressed where its name, or ``name``, says so."""
    packed = (name or path.name).lower().endswith(".gz")
    if mode == "rt":
        return unpacked(path, packed=packed)
    return (gzip.open if packed else open)(path, mode, encoding="utf-8")
