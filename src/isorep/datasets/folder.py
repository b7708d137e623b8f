"""Data folder: the user's folder of public data sets, and the error for missing files.

Members of tar archives are read in order and never extracted to their own paths.
"""

from __future__ import annotations

import csv
import gzip
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ..errors import InputError, MissingFileError
from ..settings import check_choice

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
    for parent in (folder / subfolder, folder):
        for path in (parent / name, parent / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def require_file(folder: Path, subfolder: str, name: str, origin: str) -> Path:
    """The same, or an error that names the source of the file."""
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
    indices = [header.index(name) for name in wanted]
    return list(wanted), ([row[index] for index in indices] for row in rows)


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


def members(path: Path, wanted: Callable[[str], bool], *, each: int, total: int) -> Iterator[tuple[str, bytes]]:
    """The base names and contents of the regular files that are wanted by their full name.

    Links, folders and devices are passed over. A member larger than ``each`` bytes, or an archive that unpacks to more
    than ``total``, is refused.
    """
    with _LimitedGzip(path, total) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            if not member.isreg() or not wanted(member.name):
                continue
            if member.size > each:
                raise InputError(f"{path.name} holds {member.name!r} of {member.size} bytes, more than is published")
            stream = archive.extractfile(member)
            data = b"" if stream is None else stream.read()
            if len(data) != member.size:
                raise InputError(f"{path.name} is truncated in {member.name!r}")
            yield PurePosixPath(member.name).name, data


class _LimitedGzip(gzip.GzipFile):
    """A gzipped file that raises an error beyond a number of bytes."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path, "rb")
        self._path, self._most = path, most

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._most -= len(data)
        if self._most < 0:
            raise InputError(f"{self._path.name} unpacks to more than is published: it may be a bomb")
        return data


def parts_of(part: str) -> list[str]:
    """The parts that are meant: training, test or both."""
    check_choice("part", part, ("train", "test", "both"))
    return [each for each in ("train", "test") if part in (each, "both")]
