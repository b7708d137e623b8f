"""GCT files (``.gct``, ``.gct.gz``), versions 1.2 and 1.3: samples are columns of the file and rows here.

Line 1 is the version, line 2 the numbers of features, samples and (1.3) of descriptions of each. The header names the
samples; lines that describe them come next (1.3), and then one line per feature.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .naming import as_ids, as_text, is_filled, is_number, not_a_number, require_plausible, shown, some
from .registry import Contents
from .scratch import empty, require_plausible_values, unpacked_bytes

GAPS = True  # descriptions of samples may have missing entries
_VERSIONS = {"#1.2": 2, "#1.3": 4}  # and how many numbers the second line holds
_LONGEST_LINE = 2**26
_LEAST_CELL = 2  # bytes of a value with its separator
_MOST_DEFLATE = 1032  # how many bytes one deflated byte can stand for
_NULL = ("-666", "-666.0", "na", "n/a", "nan")


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Parse the matrix, samples as rows; feature names are those of the file's rows."""
    if key is not None:
        raise InputError(f"a GCT file holds one matrix, so there is no {key!r} in it")
    with _open(path) as table:
        row_ids = as_ids(table.samples) if ids is None else _described(table, ids, missing=False)
        values = empty((len(table.samples), table.features), np.float64)
        names = []
        for index in range(table.features):
            cells = table.line(f"feature {index + 1} of {table.features}")
            names.append(cells[0])
            values[:, index] = table.numbers(cells[table.before :], cells[0])
        rest = next((line for line in table.rest() if line.strip()), None)
        if rest is not None:
            raise InputError(f"line {table.number} goes on after the {table.features} features that line 2 declares")
    return Contents(values, row_ids, columns=tuple(names))


def column(path: Path, name: str, missing: bool = False) -> Array:
    """One description of the samples; ``missing`` allows gaps, as empty text."""
    with _open(path) as table:
        return _described(table, name, missing)


def others(path: Path, besides: Collection[str]) -> dict[str, Array]:
    """All descriptions of the samples."""
    with _open(path) as table:
        return {name: _described(table, name, missing=True) for name in table.descriptions if name not in besides}


def _described(table: _Table, name: str, missing: bool) -> Array:
    if name not in table.descriptions:
        known = some(list(table.descriptions)) or "none (GCT 1.2 has none)"
        raise InputError(f"there is no description {name!r} of samples; there are {known}")
    cells = table.descriptions[name]
    gaps = [not cell.strip() or cell.strip().lower() in _NULL for cell in cells]
    if any(gaps) and not missing:
        first = table.samples[gaps.index(True)]
        raise InputError(f"column {name!r} has {sum(gaps)} missing entries, the first for {first!r}")
    return as_ids(["" if gap else cell.strip() for cell, gap in zip(cells, gaps, strict=True)])


@dataclass
class _Table:
    """A file up to its values: the samples, their descriptions, and the lines that follow."""

    file: IO[str]
    stored: int
    number: int = 0  # of the last line that was read
    features: int = 0
    before: int = 1  # fields before the values
    samples: list[str] = field(default_factory=list)
    descriptions: dict[str, list[str]] = field(default_factory=dict)

    def text(self, what: str) -> str:
        """The next line."""
        line = self.file.readline(_LONGEST_LINE + 1)
        if not line:
            raise InputError(f"it ends after line {self.number}, before {what}: it may be cut off")
        self.number += 1
        if len(line) > _LONGEST_LINE:
            raise InputError(f"line {self.number} has more than {_LONGEST_LINE} characters")
        return line.rstrip("\r\n")

    def line(self, what: str) -> list[str]:
        """The fields of the next line, as many as the header has."""
        cells = self.text(what).split("\t")
        wanted = self.before + len(self.samples)
        if len(cells) != wanted:
            raise InputError(f"line {self.number} ({what}) has {len(cells)} fields instead of {wanted}")
        return cells

    def numbers(self, cells: list[str], feature: str) -> list[float]:
        """The values of one feature."""
        try:
            if not any("_" in cell for cell in cells):
                return list(map(float, cells))
        except ValueError:
            pass  # a missing value, or no number: it is found below
        for sample, cell in zip(self.samples, cells, strict=True):
            if is_filled(cell) and not is_number(cell):
                raise InputError(f"{not_a_number(sample, self.number, cell)} (feature {shown(feature)})")
        return [float(cell) if is_filled(cell) else math.nan for cell in cells]

    def rest(self) -> Iterator[str]:
        """All lines that are left."""
        while line := self.file.readline(_LONGEST_LINE + 1):
            self.number += 1
            yield line


@contextmanager
def _open(path: Path) -> Iterator[_Table]:
    """Read the header, and check what it declares against the size of the file."""
    packed = path.name.lower().endswith(".gz")
    stored = path.stat().st_size
    with path.open("rb") as raw:
        binary: Any = unpacked_bytes(raw) if packed else raw
        file = io.TextIOWrapper(binary, "utf-8-sig", newline="\n")
        table = _Table(file, stored)
        version = table.text("the version").strip()
        if version not in _VERSIONS:
            raise InputError(f"line 1 is {shown(version)} where a GCT file has #1.2 or #1.3")
        sizes, count = table.text("the sizes").split(), _VERSIONS[version]
        if len(sizes) != count or not all(cell.isascii() and cell.isdigit() and len(cell) < 13 for cell in sizes):
            raise InputError(f"line 2 is {shown(' '.join(sizes))} where GCT {version[1:]} has {count} numbers")
        features, samples, described_features, described = [int(cell) for cell in (*sizes, "1", "0")[:4]]
        if features < 1 or samples < 1:
            raise InputError(f"line 2 declares {features} features of {samples} samples: there are no values")
        most = stored * (_MOST_DEFLATE if packed else 1)
        fields = features * samples + described * samples
        if fields * _LEAST_CELL > most + samples + features:
            told = f"line 2 declares {features} features of {samples} samples"
            raise InputError(f"{told}, more than its {stored} bytes can hold: it may be cut off")
        require_plausible_values(features * samples * 8, stored)
        require_plausible(64 * described * samples, stored, "the descriptions of samples")
        table.features, table.before, table.samples = features, 1 + described_features, [""] * samples
        table.samples = [cell.strip() for cell in table.line("the header")[table.before :]]
        as_text(table.samples, stored, "the names of samples")
        for index in range(described):
            cells = table.line(f"description {index + 1} of {described}")
            name = cells[0].strip()
            if name in table.descriptions:
                raise InputError(f"line {table.number}: two descriptions of samples are called {shown(name)}")
            table.descriptions[name] = cells[table.before :]
        yield table
