"""Examples of rows, for pages: texts as they are, images as thumbnails, of the rows that a figure shows only."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError, import_extra
from ..files import require_regular
from ..representation import Array

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
SIDES = (48, 40, 32, 24, 16)
"""Pixels of thumbnails: the first with which all fit."""
MOST_CHARACTERS = 400_000  # of all thumbnails of a page, which must stay below 1.5 MB
LONGEST = 240  # letters of a text


def read_examples(path: str | Path) -> list[str | Path]:
    """Examples as a file or a folder has them, in the order of the rows.

    A folder gives its images by name; a text file one example per line, or one path of an image per line, relative to
    the file.
    """
    path = Path(path)
    if path.is_dir():
        images = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES)
        if not images:
            raise InputError(f"{path} holds no images ({', '.join(SUFFIXES)})")
        return list(images)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    require_regular(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not text: name a text file with one example per row, or a folder") from None
    if lines and all(line.strip().lower().endswith(SUFFIXES) for line in lines):
        return [path.parent / line.strip() for line in lines]
    return list(lines)


def check_examples(examples: Any, n: int) -> Sequence[str | Path] | None:
    """The examples, one for each row of the source as given."""
    if examples is None:
        return None
    given = list(examples)
    if len(given) != n:
        raise InputError(f"examples has {len(given)} entries and the source {n} rows: one is needed for each row")
    images = [each for each in given if isinstance(each, Path)]
    if images:
        _pillow()
    for each in images:
        if not each.exists():
            raise MissingFileError(f"{each} does not exist, and is named as an example")
    return given


def shown_examples(examples: Sequence[str | Path] | None, rows: Array) -> tuple[str, ...]:
    """The examples of these rows as a page keeps them: texts cut to a few words, images as ``data:`` addresses."""
    if examples is None:
        return ()
    chosen = [examples[int(row)] for row in rows]
    if not any(isinstance(each, Path) for each in chosen):
        return tuple(_cut(str(each)) for each in chosen)
    for side in SIDES:
        shown = tuple(_thumbnail(each, side) if isinstance(each, Path) else _cut(str(each)) for each in chosen)
        if sum(map(len, shown)) <= MOST_CHARACTERS:
            break
    return shown


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _pillow() -> Any:
    return import_extra("PIL.Image", "images", "images as examples", "pillow")


def _thumbnail(path: Path, side: int) -> str:
    """A small picture; of a file that is none, its name: the comparison is done, and need not fail for it."""
    if not path.is_file():  # opening a pipe may wait for ever
        return path.name
    try:
        with _pillow().open(path) as image:
            small = image.convert("RGB")
            small.thumbnail((side, side))
    except (OSError, ValueError):
        return path.name
    file = io.BytesIO()
    small.save(file, "JPEG", quality=75)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
