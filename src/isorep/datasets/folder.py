"""Where the user keeps public data sets, and the sentence for a file that is not there."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InputError, MissingFileError

VARIABLE = "ISOREP_DATA"


def data_folder(given: str | Path | None = None) -> Path | None:
    """The folder of data sets: the one given, else that of the environment variable ISOREP_DATA, else None."""
    named = given if given is not None else os.environ.get(VARIABLE) or None
    if named is None:
        return None
    folder = Path(named)
    if not folder.is_dir():
        source = "" if given is not None else f" (from {VARIABLE})"
        raise InputError(f"{folder}{source} is not a folder: name the folder that holds the data sets")
    return folder


def find_file(folder: Path, subfolder: str, name: str) -> Path | None:
    """A data set's file, plain or gzipped, in its own subfolder or directly in the folder."""
    for place in (folder / subfolder, folder):
        for path in (place / name, place / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def require_file(folder: Path, subfolder: str, name: str, origin: str) -> Path:
    """The same, or an error that says where the file comes from."""
    path = find_file(folder, subfolder, name)
    if path is None:
        raise MissingFileError(f"{folder / subfolder / name} does not exist: it comes from {origin}")
    return path


def read_table(path: Path, wanted: Sequence[str] | None = None) -> tuple[list[str], Iterator[list[str]]]:
    """The header of a csv file, plain or gzipped, and its rows; with ``wanted``, these columns in this order."""
    rows = _rows(path)
    header = next(rows, [])
    if wanted is None:
        return header, rows
    missing = [name for name in wanted if name not in header]
    if missing:
        raise InputError(f"{path.name} has no column {missing[0]!r}; it has {', '.join(header[:12])}")
    places = [header.index(name) for name in wanted]
    return list(wanted), ([row[place] for place in places] for row in rows)


def _rows(path: Path) -> Iterator[list[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            width = None
            for line, row in enumerate(csv.reader(file), start=1):
                width = width or len(row)
                if len(row) != width:
                    raise InputError(f"{path.name} is ragged: line 1 has {width} fields and line {line} has {len(row)}")
                yield row
    except (csv.Error, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path.name} cannot be read as csv: {error}") from None
