"""What all stores share: the interface of a store, the task of writing one anew, and ids, batches and addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import InputError
from ..files import require_plain, without_secrets
from ..representation import Array
from ..storage.naming import IDS_NAMES, as_text
from ..storage.registry import Result, guarded

Change = Callable[[Array], Array]
"""From old vectors in float to new ones."""

Block = tuple[Array | None, Array]
"""The ids of some rows, where they are known and wanted, and their old vectors."""

CELLS = 2**21  # of vectors in a batch


@dataclass(frozen=True)
class Task:
    """How a store is written anew: the new width, the map of its vectors, and whom to tell of rows that are done.

    ``scale`` is that of all new integers, where a store has one scale for all rows.
    """

    width: int
    change: Change
    told: Callable[[int], None]
    scale: float | None = None


class Store(Protocol):
    """A store that is translated with everything its rows carry."""

    name: str
    rows: int
    one_scale: bool

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, block by block; with ids if these are wanted and known."""

    def write(self, output: str, task: Task) -> str:
        """Write the store with new vectors, completely or not at all; returns what was written in words."""


def default_ids(names: list[str]) -> str | None:
    """The column of ids that needs no naming."""
    return next((name for name in IDS_NAMES if name in names), None)


def labels(cells: list[Any], name: str, start: int, required: bool) -> Array | None:
    """Ids of some rows, integers or text; None where one is missing, which is refused if the user named the column."""
    for row, cell in enumerate(cells, start):
        if cell is None or isinstance(cell, list | dict):
            if required:
                raise InputError(f"row {row} has no id under {name!r}")
            return None
    if all(type(cell) is int and abs(cell) < 2**63 for cell in cells):
        return np.array(cells, np.int64)
    return as_text(cells, 0, f"the text of ids in {name!r}")


def guarded_each(path: Path, items: Iterator[Result]) -> Iterator[Result]:
    """Items that are read from a file: what fails becomes one sentence about the file."""
    while (item := guarded(path, next, items, None)) is not None:
        yield item


def address_of(address: str) -> tuple[str, str]:
    """The place and the name of a table or collection: ``KIND:PLACE::NAME``."""
    place, mark, name = address.partition(":")[2].rpartition("::")
    if not mark or not place or not name:
        raise InputError(f"{without_secrets(address)} should name a place and a table or collection: KIND:PLACE::NAME")
    return place, name


def require_folder(place: str, address: str, inner: str, holds: str = "") -> None:
    """Refuse a source in a folder that does not exist, or lacks a file: a client would create both.

    Links, pipes and devices in its ``inner`` folder are refused too: a client would follow or wait for them.
    """
    if "://" in place:
        return
    folder = Path(place)
    if not (folder / holds).exists():
        raise InputError(f"{address} does not exist: {place} is no folder of such a store")
    for each in (folder / holds, folder / inner, *(folder / inner).rglob("*")):
        require_plain(each, folder)
