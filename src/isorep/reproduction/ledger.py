"""The folder of a run: its config, one file for each finished unit, and what is written at the end."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import finite_json, write_text

CONFIG = "config.json"


class Ledger:
    """A folder that remembers finished units; a run with another config is refused."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = folder
        known = _known_config(folder)
        wanted = json.loads(finite_json(config))
        if known is not None and known != wanted:
            raise InputError(f"{folder} holds a run with {_difference(known, wanted)}: name another folder with --out")
        if known is None and folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty and holds no run: name another folder with --out")
        (folder / "units").mkdir(parents=True, exist_ok=True)
        (folder / "figures").mkdir(exist_ok=True)
        if known is None:
            write_text(folder / CONFIG, finite_json(wanted))

    def finished(self, key: str) -> dict[str, Any] | None:
        """The record of a finished unit."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # damaged from outside, as units are written completely or not at all: it is done again
            return None
        return record if isinstance(record, dict) and record.get("key") == key else None

    def keep(self, key: str, record: dict[str, Any]) -> None:
        """Write a finished unit, completely or not at all."""
        write_text(self._path(key), finite_json(record))

    @contextmanager
    def scratch(self, key: str) -> Iterator[Path]:
        """A folder for the state of a unit: it stays when the unit is interrupted, and goes when it is finished."""
        folder = self.folder / "state" / file_name(key)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        shutil.rmtree(folder)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    def write(self, name: str, text: str) -> Path:
        """Write one of the files that a run ends with."""
        path = self.folder / name
        write_text(path, text)
        return path

    def _path(self, key: str) -> Path:
        return self.folder / "units" / f"{file_name(key)}.json"


def file_name(key: str) -> str:
    """A key as a file name: letters, digits, dots, dashes and underscores stay, the rest becomes dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)


def _known_config(folder: Path) -> dict[str, Any] | None:
    path = folder / CONFIG
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder with --out")
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path} is not the config of a run: name another folder with --out")
    return found


def _difference(known: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first setting that differs, in words."""
    for key in (*wanted, *known):
        if known.get(key) == wanted.get(key):
            continue
        before, now = known.get(key), wanted.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            return _difference(before, now)
        return f"another {key.replace('_', ' ')} ({_spelt(before)}, not {_spelt(now)})"
    return "another config"


def _spelt(value: Any) -> str:
    return "none" if value is None else str(value)
