"""Folders of layers: one file per layer of a model, all of the same rows, with ids and groups.

``isorep extract`` writes such folders, each with a list of its layers in the order of the model. The list distinguishes
them from folders of shards, whose files are the rows of one matrix; its name begins with a character that shards lack.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import require_plain, write_text
from ..representation import Array, Representation
from .registry import column, is_zarr, labels, read

LIST, GROUP = "_layers.json", "group"
_FORMAT = "isorep.layer_files/1"
_MOST_BYTES = 2**24


@dataclass(frozen=True)
class LayerFolder:
    """The files of layers in a folder, in the order of the model; ``name`` is the name of the folder."""

    path: Path
    files: dict[str, Path]

    @property
    def name(self) -> str:
        """The folder's own name, also where it is the current one."""
        return self.path.resolve().name

    def read(self, layer: str, **reading: Any) -> tuple[Representation, Array | None]:
        """One layer with its ids, named by folder and layer, and the groups of its rows where they have any."""
        return read_layer(self.files[layer], f"{self.name}/{layer}", **reading)


def open_layers(path: str | Path, names: Sequence[str] | None = None) -> LayerFolder:
    """The layers of a folder: those that its list names, or the given ones, also by the names of their files.

    A folder without a list needs names.
    """
    folder = Path(path)
    if not folder.is_dir() or is_zarr(folder):
        raise InputError(f"{folder} is not a folder of layers: name one that isorep extract wrote")
    listed = listed_layers(folder)
    if names is None:
        if not listed:
            why = "and none of the files in it is there" if holds_layers(folder) else "as isorep extract writes one"
            raise InputError(
                f"{folder} has {'a' if holds_layers(folder) else 'no'} list of layers, {why}: name its files"
            )
        return LayerFolder(folder, listed)
    if len(set(names)) < len(names) or not names:
        raise InputError(f"layers are different names, at least one, and not {', '.join(names) or 'none'}")
    return LayerFolder(folder, {name: listed.get(name) or _file_called(folder, name, listed) for name in names})


def holds_layers(path: str | Path) -> bool:
    """Whether a path is a folder with a list of its layers."""
    return (Path(path) / LIST).is_file()


def listed_layers(folder: Path) -> dict[str, Path]:
    """The files that a folder's list names and that are still there, in the order of the model."""
    found = {name: folder / file for name, (_, file) in _entries(folder).items() if (folder / file).exists()}
    for file in found.values():
        require_plain(file, folder)
    return found


def write_list(files: dict[str, Path], places: dict[str, int]) -> None:
    """Add layers to the list of a folder, ordered by their places in the model."""
    folder = next(iter(files.values())).parent
    known = {name: entry for name, entry in _entries(folder).items() if (folder / entry[1]).exists()}
    known |= {name: (places[name], file.name) for name, file in files.items()}
    layers = [
        {"name": name, "file": known[name][1], "place": known[name][0]}
        for name in sorted(known, key=lambda name: known[name])
    ]
    write_text(folder / LIST, json.dumps({"format": _FORMAT, "layers": layers}, indent=1) + "\n")


def read_layer(file: Path, name: str, **reading: Any) -> tuple[Representation, Array | None]:
    """A layer's rows with their ids, and their groups where they have any; ``reading`` goes to :func:`isorep.read`."""
    found = read(file, name=name, **reading)
    if _plain(file):
        for what in (GROUP, "ids"):
            require_plain(beside(file, what), file.parent)
    grouped = beside(file, GROUP).is_file() if _plain(file) else GROUP in found.left_out
    left_out = {each: why for each, why in found.left_out.items() if each != GROUP}
    ids = labels(str(beside(file, "ids")), file) if _plain(file) and beside(file, "ids").is_file() else found.ids
    return replace(found, ids=ids, left_out=left_out), row_groups(file) if grouped else None


def row_groups(file: Path) -> Array:
    """The groups of a layer's rows: a column of its file, or the file next to it."""
    return labels(str(beside(file, GROUP)), file) if _plain(file) else column(file, GROUP)


def beside(file: Path, what: str) -> Path:
    """The file of ids or groups next to an npy file, which holds values only."""
    return file.with_name(f"{file.name[: -len('.npy')]}.{what}.npy")


def _plain(file: Path) -> bool:
    return file.name.lower().endswith(".npy")


def _file_called(folder: Path, name: str, listed: dict[str, Path]) -> Path:
    """The one file with this name, with or without its suffix."""
    found = sorted(each for each in folder.iterdir() if name in (each.name, each.stem) and each.name != LIST)
    if len(found) != 1:
        there = f"; there are {', '.join(list(listed)[:12])}" if listed else ""
        raise InputError(f"{folder} holds {'no file' if not found else f'{len(found)} files'} called {name!r}{there}")
    require_plain(found[0], folder)
    return found[0]


def _entries(folder: Path) -> dict[str, tuple[int, str]]:
    """Place and file of every layer in a folder's list; none without a list."""
    path = folder / LIST
    if not path.is_file():
        return {}
    require_plain(path, folder)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError
        held = json.loads(path.read_text("utf-8"))
        found = {str(each["name"]): (int(each["place"]), str(each["file"])) for each in held["layers"]}
        if held["format"] != _FORMAT or any(Path(file).name != file for _, file in found.values()):
            raise ValueError
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is not a list of layers, or it is damaged: remove it, or extract again") from None
    return found
