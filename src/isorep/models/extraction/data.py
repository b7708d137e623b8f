"""What goes into a model: rows of an array, images or documents, found by what a path holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, MissingFileError
from ...representation import Array
from ...storage import suffixes
from ...storage.registry import split_key
from .arrays import ArrayRows, ImageFiles, Rows, stored_rows
from .texts import Document, Documents, JsonLines, ParquetTexts, TextFile, TextFolder, Texts, holds_text

INPUTS = ("auto", "values", "tokens", "images", "text")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_PIECES, _PIECE = 64, 2**14


def open_data(
    data: Any,
    *,
    kind: str = "auto",
    text_field: str = "text",
    id_field: str | None = None,
    group_field: str | None = None,
    limit: int | None = None,
    pixels: dict[str, Any] | None = None,
) -> Rows | Documents:
    """The examples of a file, a folder, an array or a list of texts, with ids and groups where there are any."""
    if kind not in INPUTS:
        raise InputError(f"input is {kind!r}; known are {', '.join(INPUTS)}")
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}: at least one example is needed")
    if isinstance(data, list | tuple) and data and all(isinstance(item, str) for item in data):
        return _limited(Texts(list(data)), limit)
    if not isinstance(data, str | Path):
        return _limited(ArrayRows(_as_array(data), "data", kind=kind, pixels=pixels or {}), limit)
    path, key = split_key(data, None)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    fields = (text_field if key is None else key, id_field, group_field)
    opened = _folder(path, key, kind, pixels or {}) if path.is_dir() else _file(path, key, kind, fields, pixels or {})
    if group_field is not None and not opened.has_groups:
        raise InputError(f"{path.name} has no fields, so there is no group {group_field!r} in it")
    return _limited(opened, limit)


def _folder(path: Path, key: str | None, kind: str, pixels: dict[str, Any]) -> Rows | Documents:
    if path.name.lower().endswith(".zarr"):
        return stored_rows(path, key, kind, pixels)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    texts = [file for file in files if file.suffix.lower() == ".txt"]
    images = [file for file in files if file.suffix.lower() in IMAGES]
    if kind == "auto" and texts and images:
        raise InputError(f"{path} holds both texts and images: say which with --input text or --input images")
    if texts and kind in ("auto", "text"):
        return TextFolder(path, texts)
    if images and kind in ("auto", "images"):
        return ImageFiles(path, images, pixels)
    if kind in ("auto", "values", "tokens") and any(file.name.endswith(tuple(suffixes())) for file in files):
        return stored_rows(path, key, kind, pixels)
    raise InputError(f"{path} holds no .txt files and no images ({', '.join(IMAGES)})")


def _file(
    path: Path, key: str | None, kind: str, fields: tuple[str, str | None, str | None], pixels: dict[str, Any]
) -> Rows | Documents:
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty (0 bytes)")
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return JsonLines(path, *fields)
    if suffix in (".parquet", ".pq") and kind in ("auto", "text") and holds_text(path, fields[0]):
        return ParquetTexts(path, *fields)
    if suffix in (".txt", ".text") or (kind == "text" and suffix not in suffixes()):
        return TextFile(path)
    if kind == "text":
        raise InputError(f"{path.name} holds no texts: a text file, a folder of .txt files, jsonl or parquet does")
    return stored_rows(path, key, kind, pixels)


def _limited(opened: Rows | Documents, limit: int | None) -> Rows | Documents:
    if limit is not None and (opened.count is None or opened.count > limit):
        opened.count = limit
    if opened.count == 0:
        raise InputError(f"{opened.name} holds no examples")
    return opened


def _as_array(data: Any) -> Array:
    if hasattr(data, "detach"):
        data = data.detach().cpu()
        data = (data.float() if str(data.dtype) == "torch.bfloat16" else data).numpy()  # numpy knows no bfloat16
    try:
        return np.asarray(data) if not isinstance(data, np.ndarray) else data
    except ValueError as error:
        raise InputError(f"the data are not a rectangular array: {error}") from None


class TokenRows(Documents):
    """Token ids of an array, without padding at either end, as documents."""

    kind = "tokens"

    def __init__(self, rows: Rows, pad: int | None) -> None:
        self.rows, self._pad = rows, pad
        self.name, self.count, self.paths, self.told = rows.name, rows.count, rows.paths, rows.told

    def _all(self) -> Iterator[Document]:
        for start in range(0, self.rows.count, 256):
            stop = min(start + 256, self.rows.count)
            for label, tokens in zip(self.rows.ids(start, stop), self.rows.read(start, stop), strict=True):
                real = np.flatnonzero(tokens != self._pad) if self._pad is not None else np.arange(len(tokens))
                yield Document(label, tokens[real[0] : real[-1] + 1] if len(real) else tokens[:0])


def file_fingerprint(path: Path) -> str:
    """A hash of a file's size and of pieces of it, evenly spaced: all of a small one."""
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    step = max(_PIECE, size // _PIECES)
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(start)
            found.update(file.read(_PIECE))
        file.seek(max(0, size - _PIECE))
        found.update(file.read(_PIECE))
    return found.hexdigest()


def data_fingerprint(opened: Rows | Documents) -> str:
    """A hash that tells other data: of the files they come from, or of evenly spaced rows of an array or store."""
    found = hashlib.sha256(opened.told.encode())
    for path in opened.paths:
        if path.is_file() and len(opened.paths) == 1:
            found.update(file_fingerprint(path).encode())
        else:
            found.update(f"{path.name} {path.stat().st_size};".encode())
    rows = opened.rows if isinstance(opened, TokenRows) else opened
    if isinstance(rows, Rows) and not any(path.is_file() for path in rows.paths):
        for row in np.linspace(0, rows.count - 1, _PIECES).astype(int):
            found.update(np.ascontiguousarray(rows.read(row, row + 1)).tobytes())
    return found.hexdigest()
