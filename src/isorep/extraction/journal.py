"""The working folder of an extraction: rows as they come, and a journal that says how many are certain.

Rows are appended to one plain file a layer. After each stretch of work the files are synchronised and the journal is
replaced; what a killed run has written beyond it is cut off when the run goes on, so no row is there twice.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..files import write_text
from ..representation import Array

_FORMAT = "isorep.extraction/1"
_JOURNAL, _LOCK, _DOCUMENTS, _PLACES, _POSITIONS = "journal.json", "lock", "documents.jsonl", "places", "positions"
Progress = dict[str, int]


class Journal:
    """The state of one extraction; a context that closes its files."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self._settings = json.loads(json.dumps(settings))
        self.done: Progress = {"examples": 0, "rows": 0, "documents": 0, "empty": 0, "cut": 0, "tokens": 0}
        self.layers: dict[str, int] = {}  # widths
        self.resumed = False
        self._files: dict[str, IO[bytes]] = {}
        self._lock: IO[bytes] | None = None

    def open(self, *, restart: bool = False) -> None:
        """Make the folder, or go on with what is in it; that of another extraction is refused."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise InputError(f"{self.folder} is where rows are kept until they are complete: it must be a folder")
        self.folder.mkdir(exist_ok=True)
        self._take_lock()
        path = self.folder / _JOURNAL
        if path.is_file() and not restart:
            self._read(path)
        else:
            for file in self.folder.iterdir():
                if file.name != _LOCK:
                    file.unlink()

    def start(self, layers: dict[str, int], row_bytes: dict[str, int]) -> None:
        """Open the files to append to, cut back to what is certain."""
        if self.resumed and self.layers != layers:
            raise InputError(f"{self.folder} belongs to an extraction of other layers or widths: say --restart")
        self.layers = layers
        sizes = {_values(place): self.done["rows"] * row_bytes[name] for place, name in enumerate(layers)}
        sizes |= {_PLACES: 8 * self.done["rows"], _POSITIONS: 8 * self.done["rows"]}
        for name, size in sizes.items():
            self._files[name] = self._opened(name, size)
        documents = self.folder / _DOCUMENTS
        self._files[_DOCUMENTS] = self._opened(_DOCUMENTS, _bytes_of_lines(documents, self.done["documents"]))

    def append(self, blocks: Sequence[Array], places: Array, positions: Array) -> None:
        """Add rows of all layers, with the place of their document and their position in it."""
        for number, block in enumerate(blocks):
            if len(block) != len(places):
                raise InputError(f"layer {list(self.layers)[number]!r} gives {len(block)} rows and not {len(places)}")
            self._files[_values(number)].write(np.ascontiguousarray(block).data)
        self._files[_PLACES].write(np.ascontiguousarray(places, dtype="<i8").data)
        self._files[_POSITIONS].write(np.ascontiguousarray(positions, dtype="<i8").data)
        self.done["rows"] += len(places)

    def append_documents(self, labels: Sequence[tuple[int | str, int | str | None]]) -> None:
        """Add ids and groups of documents that have rows."""
        text = "".join(json.dumps(label, ensure_ascii=True) + "\n" for label in labels)
        self._files[_DOCUMENTS].write(text.encode("ascii"))
        self.done["documents"] += len(labels)

    def commit(self) -> None:
        """Make certain what was added."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        text = json.dumps(
            {"format": _FORMAT, "settings": self._settings, "layers": self.layers, "done": self.done}, indent=1
        )
        write_text(self.folder / _JOURNAL, text + "\n")

    def values(self, place: int) -> Path:
        """The rows of a layer."""
        return self.folder / _values(place)

    def labels(self) -> tuple[Array, Array, list[tuple[int | str, int | str | None]]]:
        """For each row the place of its document and its position in it; ids and groups of documents."""
        rows = self.done["rows"]
        places, positions = (np.memmap(self.folder / name, "<i8", "r", shape=(rows,)) for name in (_PLACES, _POSITIONS))
        with (self.folder / _DOCUMENTS).open("rb") as file:
            documents = [(label, group) for label, group in map(json.loads, file)]
        return places, positions, documents

    def close(self) -> None:
        """Close all files; the folder stays for the next run to go on with, unless nothing in it is certain."""
        for file in self._files.values():
            file.close()
        self._files = {}
        if self._lock is not None:
            if not (self.folder / _JOURNAL).exists():
                shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.close()
            self._lock = None

    def remove(self) -> None:
        """The work is done: remove the folder."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text("utf-8"))
            settings, done, layers = found["settings"], found["done"], found["layers"]
            known = found["format"] == _FORMAT and set(done) == set(self.done)
            self.done = {name: int(done[name]) for name in self.done} if known else self.done
            self.layers = {str(name): int(width) for name, width in layers.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            known = False
        if not known or not isinstance(settings, dict):
            raise InputError(f"{path} is not the journal of an extraction, or it is damaged: remove {self.folder}")
        for name, mine in self._settings.items():
            if settings.get(name) != mine:
                raise InputError(
                    f"{self.folder} holds an extraction that was stopped, with other {name.replace('_', ' ')} "
                    f"({_short(settings.get(name))} and not {_short(mine)}): say --restart to throw it away, or name "
                    "another output"
                )
        self.resumed = True

    def _opened(self, name: str, size: int) -> IO[bytes]:
        path = self.folder / name
        there = path.stat().st_size if path.exists() else 0
        if there < size:
            raise InputError(f"{path} holds {there} bytes and its journal says {size}: say --restart")
        file = path.open("r+b" if path.exists() else "w+b")
        file.truncate(size)
        file.seek(size)
        return file

    def _take_lock(self) -> None:
        """Keep a second run of the same extraction out, where the system can."""
        self._lock = (self.folder / _LOCK).open("wb")
        with suppress(ModuleNotFoundError):
            import fcntl

            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                self._lock = None
                raise InputError(f"another run is at work in {self.folder}") from None


def _values(place: int) -> str:
    return f"values-{place}"


def _bytes_of_lines(path: Path, lines: int) -> int:
    """How many bytes the first lines of a file take."""
    if lines == 0 or not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(len(line) for _, line in zip(range(lines), file, strict=False))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:20] + "..."
