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
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..files import write_text
from ..representation import Array

_FORMAT = "isorep.extraction/1"
_JOURNAL, _LOCK, _DOCUMENTS, _OWNERS, _POSITIONS = "journal.json", "lock", "documents.jsonl", "places", "positions"


class Journal:
    """The state of one extraction: which rows of which layers are certain."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self._settings = json.loads(json.dumps(settings))
        self.done = {"examples": 0, "rows": 0, "documents": 0, "empty": 0, "cut": 0, "tokens": 0}
        self.layers: dict[str, int] = {}  # widths
        self.resumed = False
        self._files: dict[str, IO[bytes]] = {}
        self._lock: IO[bytes] | None = None

    def open(self, layers: dict[str, int], itemsize: int, *, restart: bool = False) -> None:
        """Make the folder, or go on with what is in it, cut back to what is certain; that of others is refused.

        ``layers`` are widths, and ``itemsize`` are bytes of a number.
        """
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
        if self.resumed and self.layers != layers:
            raise InputError(f"{self.folder} belongs to an extraction of other layers or widths: say --restart")
        self.layers = layers
        sizes = {f"values-{index}": width * itemsize for index, width in enumerate(layers.values())}
        sizes |= {_OWNERS: 8, _POSITIONS: 8}
        self._files = {name: self._opened(name, self.done["rows"] * size) for name, size in sizes.items()}
        self._files[_DOCUMENTS] = self._opened(_DOCUMENTS, self._document_bytes())

    def append(self, blocks: Sequence[Array], owners: Array, positions: Array) -> None:
        """Add rows of all layers, with the number of their document and their position in it."""
        for index, (name, block) in enumerate(zip(self.layers, blocks, strict=True)):
            if len(block) != len(owners):
                raise InputError(f"layer {name!r} gives {len(block)} rows and not {len(owners)}")
            self._files[f"values-{index}"].write(np.ascontiguousarray(block).data)
        self._files[_OWNERS].write(np.ascontiguousarray(owners, dtype="<i8").data)
        self._files[_POSITIONS].write(np.ascontiguousarray(positions, dtype="<i8").data)
        self.done["rows"] += len(owners)

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
        state = {"format": _FORMAT, "settings": self._settings, "layers": self.layers, "done": self.done}
        write_text(self.folder / _JOURNAL, json.dumps(state, indent=1) + "\n")

    def values(self, index: int) -> Path:
        """The rows of a layer."""
        return self.folder / f"values-{index}"

    def labels(self) -> tuple[Array, Array, list[tuple[int | str, int | str | None]]]:
        """For each row the number of its document and its position in it; ids and groups of documents."""
        rows = self.done["rows"]
        owners, positions = (np.memmap(self.folder / name, "<i8", "r", shape=(rows,)) for name in (_OWNERS, _POSITIONS))
        with (self.folder / _DOCUMENTS).open("rb") as file:
            documents = [(label, group) for label, group in map(json.loads, file)]
        return owners, positions, documents

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
            state = json.loads(path.read_text("utf-8"))
            settings = dict(state["settings"])
            known = state["format"] == _FORMAT and set(state["done"]) == set(self.done)
            self.done = {name: int(state["done"][name]) for name in self.done}
            self.layers = {str(name): int(width) for name, width in state["layers"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            known = False
        if not known:
            raise InputError(f"{path} is not the journal of an extraction, or it is damaged: remove {self.folder}")
        for name, mine in self._settings.items():
            if settings.get(name) != mine:
                other = f"other {name.replace('_', ' ')} ({_short(settings.get(name))} and not {_short(mine)})"
                advice = "say --restart to throw it away, or name another output"
                raise InputError(f"{self.folder} holds an extraction that was stopped, with {other}: {advice}")
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

    def _document_bytes(self) -> int:
        """How many bytes the lines of documents that are certain take."""
        path = self.folder / _DOCUMENTS
        if not path.exists():
            return self.done["documents"]  # more than the nothing that is there, where there should be something
        with path.open("rb") as file:
            return sum(map(len, islice(file, self.done["documents"])))

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


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:20] + "..."
