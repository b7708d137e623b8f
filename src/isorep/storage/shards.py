"""Shards: a folder of files of one format that hold consecutive rows of one matrix."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import require_plain
from ..representation import Array, Matrix
from .layers import listed_layers
from .lazy import LazyMatrix, release
from .naming import shown
from .registry import Contents, guarded, reader
from .scratch import spool

_OPEN_AT_ONCE = 32
_BLOCK_BYTES = 2**25

GAPS = True  # columns may have missing entries


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Present the shards as one matrix; shards that cannot be read in part are parsed once, into memory or scratch."""
    shards = _Shards(path, key, ids, besides)
    if not shards.parsed:
        return Contents(shards.matrix(), shards.ids(), shards.left_out, shards.converted)
    again = _Shards(path, key, ids, besides, measure=False)
    stored = sum(file.stat().st_size for file in again.files if file.is_file())
    return Contents(spool(again.row_blocks(), stored), again.ids(), again.left_out, again.converted, again.columns)


def column(path: Path, name: str, missing: bool = False) -> Array:
    """One column of all shards; ``missing`` allows gaps, as empty text."""
    files = filled_files(path)
    module = reader(files[0])
    if not hasattr(module, "column"):
        raise InputError(f"its files hold values only, so there is no column {name!r}")
    gaps = (True,) if missing and getattr(module, "GAPS", False) else ()
    return joined_labels([guarded(file, module.column, file, name, *gaps) for file in files])


class _Shards:
    """The files of a folder, opened one by one, and their lengths, dtype and ids."""

    def __init__(
        self, path: Path, key: str | None, ids: str | None, besides: Collection[str], *, measure: bool = True
    ) -> None:
        self.files = filled_files(path)
        self.parsed = False
        self._key = key
        self._ids_name = ids
        self._besides = besides
        self.left_out: dict[str, str] = {}
        self.converted: dict[str, str] = {}
        self.columns: tuple[str, ...] | None = None
        self._lengths: list[int] = []
        self._width = 0
        self._dtypes: list[np.dtype[Any]] = []
        self._ids: list[Array | None] = []
        for file in self.files if measure else ():
            values = self._meet(file)
            if isinstance(values, np.ndarray) and values.size:
                self.parsed = True
                return

    def matrix(self) -> ShardedMatrix:
        """The rows of all shards, left in their files."""
        return ShardedMatrix(self.files, self._lengths, self._width, np.result_type(*self._dtypes), self._open)

    def row_blocks(self) -> Iterator[Array]:
        """The rows of all shards, each read once."""
        for file in self.files:
            values = self._meet(file)
            if values.dtype != self._dtypes[0]:
                raise InputError(
                    f"{file.name} holds {values.dtype} and {self.files[0].name} holds {self._dtypes[0]}: shards that "
                    "have to be parsed need one dtype"
                )
            step = max(1, _BLOCK_BYTES // max(1, self._width * self._dtypes[0].itemsize))
            for start in range(0, len(values), step):
                yield np.array(values[start : start + step])

    def ids(self) -> Array | None:
        """The ids of all shards."""
        held = [ids for ids in self._ids if ids is not None]
        return joined_labels(held) if held else None

    def _open(self, file: Path) -> Any:
        return self._contents(file).values

    def _contents(self, file: Path) -> Contents:
        contents: Contents = guarded(file, reader(file).load, file, self._key, self._ids_name, self._besides)
        return contents

    def _meet(self, file: Path) -> Any:
        """Open a shard and check that it continues the ones before."""
        contents = self._contents(file)
        values, first = contents.values, self.files[0].name
        if len(values.shape) != 2:
            raise InputError(f"{file.name} has shape {tuple(values.shape)}: a representation has rows and columns")
        if self._lengths:
            if values.shape[1] != self._width:
                raise InputError(f"{file.name} has {values.shape[1]} columns and {first} has {self._width}")
            names = zip(contents.columns or (), self.columns or (), strict=True)
            for index, (here, there) in enumerate(names):
                if here != there:
                    raise InputError(
                        f"column {index} is {shown(here)} in {file.name} and {shown(there)} in {first}: shards need "
                        "the same columns in the same order"
                    )
            if values.dtype.kind != self._dtypes[0].kind:
                raise InputError(f"{file.name} holds {values.dtype} and {first} holds {self._dtypes[0]}")
            if (contents.ids is None) != (self._ids[0] is None):
                with_ids, without = (first, file.name) if contents.ids is None else (file.name, first)
                raise InputError(f"{with_ids} has row ids and {without} has none")
        if contents.ids is not None and len(contents.ids) != values.shape[0]:
            raise InputError(f"{file.name} has {values.shape[0]} rows and {len(contents.ids)} ids")
        self.columns = contents.columns
        self.left_out |= contents.left_out
        self.converted |= contents.converted
        self._width = int(values.shape[1])
        self._lengths.append(int(values.shape[0]))
        self._dtypes.append(values.dtype)
        self._ids.append(None if contents.ids is None else np.array(contents.ids))
        return values


class ShardedMatrix(LazyMatrix):
    """Rows of several files as one matrix; few of the files are open at a time."""

    def __init__(self, files: list[Path], lengths: list[int], width: int, dtype: Any, opener: Any) -> None:
        self._files, self.lengths = files, lengths
        self._ends = np.cumsum(lengths)
        super().__init__((int(self._ends[-1]), width), dtype)
        self._part = lru_cache(_OPEN_AT_ONCE)(lambda shard: opener(files[shard]))

    def _slice(self, start: int, stop: int) -> Array:
        pieces = [np.empty((0, self.shape[1]), self.dtype)]
        for shard in range(int(np.searchsorted(self._ends, start, "right")), len(self._files)):
            begin = int(self._ends[shard - 1]) if shard else 0
            if begin >= stop:
                break
            pieces.append(self._read(shard, slice(max(start - begin, 0), stop - begin)))
        return pieces[1] if len(pieces) == 2 else np.concatenate(pieces)

    def _take(self, rows: Array) -> Array:
        taken = np.empty((len(rows), self.shape[1]), self.dtype)
        owners = np.searchsorted(self._ends, rows, "right")
        for shard in np.unique(owners).tolist():
            first, last = np.searchsorted(owners, [shard, shard + 1])
            begin = int(self._ends[shard - 1]) if shard else 0
            taken[first:last] = self._read(shard, rows[first:last] - begin)
        return taken

    def _read(self, shard: int, rows: slice | Array) -> Array:
        part: Matrix = self._part(shard)
        block = np.array(part[rows], dtype=self.dtype)
        release(part)
        return block


def shard_files(path: Path) -> list[Path]:
    """The shards of a folder in natural order: hidden files and markers such as ``_SUCCESS`` are no shards."""
    layers = listed_layers(path)
    if len(layers) > 1:
        raise InputError(
            f"{path} holds {len(layers)} layers, each a matrix of its own: name one, such as "
            f"{next(iter(layers.values()))}"
        )
    files = sorted((file for file in path.iterdir() if not file.name.startswith((".", "_"))), key=_natural)
    if not files:
        raise InputError(f"{path} is a folder without files to read")
    modules = {}
    for file in files:
        require_plain(file, path)
        if file.is_dir() and not file.name.lower().endswith(".zarr"):
            raise InputError(f"{path} is a folder with a folder {file.name} in it: shards lie side by side in one")
        modules[reader(file)] = file.name
    if len(modules) > 1:
        raise InputError(f"{path} is a folder that mixes formats: {' and '.join(list(modules.values())[:2])}")
    return files


def filled_files(path: Path) -> list[Path]:
    """The shards that have rows, where a format tells; one without rows if there is no other."""
    files = shard_files(path)
    has_rows = getattr(reader(files[0]), "has_rows", None)
    return files if has_rows is None else [file for file in files if guarded(file, has_rows, file)] or files[:1]


def _natural(file: Path) -> list[tuple[int, int, str]]:
    """part-2 before part-10."""
    pieces = re.split(r"([0-9]+)", file.name)
    return [(1, int(piece), piece) if piece.isdigit() else (0, 0, piece) for piece in pieces]


def joined_labels(parts: list[Array]) -> Array:
    """Ids of all shards: integers where all are, otherwise text."""
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(str) for part in parts]
    return np.concatenate(parts)
