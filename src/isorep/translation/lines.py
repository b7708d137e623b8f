"""JSON lines: new vectors under one name of every object, int8 with their scale, and all its other names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import replacing, require_writable
from ..representation import Array
from ..storage import jsonl
from ..storage.naming import as_ids
from ..storage.registry import split_key
from .quantised import SCALES, encoded, is_positive
from .rewriting import Block, Task, default_ids, guarded_each, labels

_LEAST, _MOST = -128, 127  # of int8


def holds_integers(path: Path, key: str | None) -> bool:
    """Whether vectors are lists of integers, by the first lines."""
    name = jsonl.vector_name(path, key)[0]
    return _are_integers(next(jsonl.batches(path))[1], name)


def _are_integers(records: list[dict[str, Any]], name: str) -> bool:
    return all(type(value) is int for record in records for value in record.get(name) or [0.0])


class JsonLines:
    """A file of JSON objects, one per line."""

    def __init__(self, path: Path, key: str | None, scale: str | None = None, ids: str | None = None) -> None:
        self.name, self._path = path.name, path
        self._key, names = jsonl.vector_name(path, key)
        first = next(jsonl.batches(path))[1]
        self._width = jsonl.vectors(first, self._key, 0).shape[1]
        if ids is not None and ids not in names:
            raise InputError(f"row 0 has no {ids!r} for ids; there are {', '.join(names)[:200]}")
        self._ids, self.required = ids or default_ids(names), ids is not None
        self._scale: str | float | None = None
        self.integer = _are_integers(first, self._key)
        if self.integer:
            named = scale or next((name for name in SCALES if name in names), None)
            if named is None or (named not in names and not is_positive(named)):
                raise InputError(f"{self._key!r} holds integers: name their scale with --scale, a name or a number")
            self._scale = named if named in names else float(named)
        elif scale is not None:
            raise InputError(f"{self._key!r} holds decimals: --scale is for integers")
        self.one_scale = isinstance(self._scale, float)
        self.rows = jsonl.count(path)

    def _vectors(self, records: list[dict[str, Any]], start: int) -> Array:
        """The vectors of some lines, decoded."""
        found = jsonl.vectors(records, self._key, start)
        if found.shape[1] != self._width:
            raise InputError(
                f"{self._key!r} is ragged: row 0 has {self._width} entries and row {start} has {found.shape[1]}"
            )
        if not self.integer:
            return found.astype(np.float32)
        for row, record in enumerate(records, start):
            if not all(type(value) is int and _LEAST <= value <= _MOST for value in record[self._key]):
                raise InputError(f"row {row} has other numbers than int8 under {self._key!r}, where row 0 has integers")
        if isinstance(self._scale, float):
            return np.asarray(found.astype(np.float32) * np.float32(self._scale))
        return np.asarray(found.astype(np.float32) * self._factors(records, start)[:, None])

    def _factors(self, records: list[dict[str, Any]], start: int) -> Array:
        factors = [record.get(str(self._scale)) for record in records]
        for row, factor in enumerate(factors, start):
            if type(factor) not in (int, float) or not 0 < factor < np.inf:  # type: ignore[operator]
                raise InputError(f"row {row} has no positive number under {self._scale!r}, where its scale should be")
        return np.array(factors, np.float32)

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, decoded, block by block; with ids if these are wanted and known."""

        def made() -> Iterator[Block]:
            for start, records in jsonl.batches(self._path):
                ids = None
                if named and self._ids is not None:
                    ids = labels([record.get(self._ids) for record in records], self._ids, start, self.required)
                yield None if ids is None else as_ids(ids), self._vectors(records, start)

        return guarded_each(self._path, made())

    def write(self, output: str, task: Task) -> str:
        """Write all objects, with new vectors."""
        path = split_key(output, None)[0]
        require_writable(path)
        with replacing(path) as temporary, jsonl.opened(temporary, "wt", path.name) as file:
            for start, lines in jsonl.texts(self._path):
                vectors = task.change(self._vectors(jsonl.records_of(lines, start), start))
                news = self._texts(vectors, task.scale)
                file.writelines(
                    jsonl.replaced(line, new, row)
                    for row, (line, new) in enumerate(zip(lines, news, strict=True), start)
                )
                task.told(len(lines))
        how = ""
        if self.integer:
            how = ", int8 with a scale per row" if task.scale is None else f", int8 with the scale {task.scale:.4g}"
        return f"{self.rows} rows x {task.width} columns under {self._key!r}{how}, with all that the rows carry"

    def _texts(self, vectors: Array, scale: float | None) -> list[dict[str, str]]:
        """What changes in each object: the text of its vector, and of its scale where each has one."""
        if not self.integer:
            return [{self._key: json.dumps([_short(value) for value in vector])} for vector in vectors.tolist()]
        integers, scales = encoded(vectors, scale)
        news = [{self._key: json.dumps(vector)} for vector in integers.tolist()]
        if scales is not None:
            for new, factor in zip(news, scales.tolist(), strict=True):
                new[str(self._scale)] = json.dumps(_short(factor))
        return news


def _short(value: float) -> float:
    """A number with all digits of float32 and no more."""
    return float(f"{value:.9g}")
