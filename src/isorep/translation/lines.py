"""JSON lines: new vectors under one name of every object, and all its other names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..files import replacing, require_writable
from ..representation import Array
from ..storage import jsonl
from ..storage.registry import split_key
from .quantised import Change


class JsonLines:
    """A file of JSON objects, one per line."""

    def __init__(self, path: Path, key: str | None) -> None:
        self.name, self._path = path.name, path
        self._key = jsonl.vector_name(path, key)[0]
        self.rows = self._width = 0
        for start, records in jsonl.batches(path):  # all lines are checked before one is written
            width = jsonl.vectors(records, self._key, start).shape[1]
            if start and width != self._width:
                raise InputError(
                    f"{self._key!r} is ragged: row 0 has {self._width} entries and row {start} has {width}"
                )
            self._width, self.rows = width, start + len(records)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where they are known, and the old vectors, block by block."""
        for start, records in jsonl.batches(self._path):
            yield None, jsonl.vectors(records, self._key, start).astype(np.float32)

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors; returns what was written in words."""
        path = split_key(output, None)[0]
        require_writable(path)
        with replacing(path) as temporary, jsonl.opened(temporary, "wt", path.name) as file:
            for start, records in jsonl.batches(self._path):
                new = change(jsonl.vectors(records, self._key, start).astype(np.float32))
                for record, vector in zip(records, new, strict=True):
                    record[self._key] = [float(f"{value:.9g}") for value in vector.tolist()]
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                progress(len(records))
        return f"{self.rows} rows x {width} columns under {self._key!r}, with all that the rows carry"
