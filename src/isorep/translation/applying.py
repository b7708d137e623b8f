"""Translating files: looked at before anything is written, streamed, and written completely or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..files import replacing
from ..representation import Representation
from ..rows import Crew, Progress, no_progress
from ..storage import read, shards, write
from ..storage.registry import reader, split_key, suffixes
from ..storage.writing import require_target
from .translator import Translator


@dataclass(frozen=True)
class Source:
    """What is to be translated: one file, or the files of a folder, as one matrix of rows."""

    path: str
    rows: Representation
    ids: str | None


def open_source(path: str | Path, ids: str | None = None) -> Source:
    """Open a file of any format, or a folder of shards."""
    return Source(str(path), read(path, ids=ids), ids)


def writes_folder(output: str | Path) -> bool:
    """Whether an output will be a folder with a file for each file of the input: its name has no known suffix."""
    path, key = split_key(output, None)
    return key is None and not path.name.lower().endswith(tuple(suffixes()))


def require_output(source: str | Path, output: str | Path) -> None:
    """Refuse an output that cannot be written, before any work is done for it."""
    if not writes_folder(output):
        require_target(output)
        return
    folder, path = split_key(source, None)[0], Path(output)
    if reader(folder) is not shards:
        require_target(output)  # refuses it by its suffix
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} exists and is not an empty folder: name another one for the translated files")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{path.parent} is not a folder, so {path.name} cannot be written there")


def translate_files(
    translator: Translator,
    source: Source,
    output: str | Path,
    *,
    drop_ids: bool = False,
    progress: Progress = no_progress,
) -> Representation:
    """Write the translated rows to one file, or file by file to a folder; what was written comes back, unread.

    Reading, products and writing overlap; memory stays at a few blocks.
    """
    with Crew() as crew:
        if not writes_folder(output):
            result = translator.translated(
                source.rows, crew=crew, progress=lambda done, total: progress("translating", done, total)
            )
            write(result, output, drop_ids=drop_ids)
            return result
        folder, key = split_key(source.path, None)
        files = shards.shard_files(folder)
        with replacing(Path(output), folder=True) as temporary:
            for place, file in enumerate(files):
                rows = translator.translated(read(file, key=key, ids=source.ids), crew=crew)
                write(rows, temporary / file.name, drop_ids=drop_ids)
                progress("translating files", place + 1, len(files))
        return translator.translated(source.rows)


def has_ids(result: Representation, output: str | Path, drop_ids: bool) -> bool:
    """Whether what was written holds row ids: an npy file has no place for them."""
    if result.ids is None or drop_ids:
        return False
    path = split_key(output, None)[0]
    names = [file.name for file in path.iterdir()] if writes_folder(output) else [path.name]
    return not names[0].lower().endswith(".npy")
