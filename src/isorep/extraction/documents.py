"""Documents: lines of a file, files of a folder, records of jsonl or parquet.

Documents are cut into windows of tokens for a model, and batched by length.

A document longer than the context is cut into consecutive windows, without overlap; each gets the special
tokens that the tokenizer adds to a text, while token ids are used as they are. All windows of a document
belong to it.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import import_torch, said
from ..representation import Array
from ..storage import parquet
from ..storage.registry import guarded
from .passes import Batch

_LONGEST = 2**28  # bytes of one line or file
_IDS = ("id", "ids")


@dataclass(frozen=True)
class Document:
    """A text (or the ids of its tokens) with its id, and the group it belongs to where that is not itself."""

    id: int | str
    content: Any
    group: int | str | None = None


class Documents(ABC):
    """Documents that are read one by one."""

    kind = "text"
    name: str
    count: int | None = None
    paths: tuple[Path, ...] = ()
    told: str = ""
    notes: tuple[str, ...] = ()
    has_groups = False

    @abstractmethod
    def _all(self) -> Iterator[Document]:
        """Every document from the first on."""

    def __iter__(self) -> Iterator[Document]:
        seen: set[str] = set()
        for number, document in enumerate(islice(self._all(), self.count)):
            if str(document.id) in seen:
                raise InputError(f"{self.name}: document {number} has the id {document.id!r}, as an earlier one has")
            seen.add(str(document.id))
            yield document


class Texts(Documents):
    """A list of texts, numbered from 0."""

    def __init__(self, texts: list[str]) -> None:
        self.name, self.count, self._texts = "texts", len(texts), texts
        digest = hashlib.sha256()
        for text in texts:
            digest.update(f"{len(text)} ".encode() + text.encode("utf-8", "surrogatepass"))
        self.told = digest.hexdigest()

    def _all(self) -> Iterator[Document]:
        return (Document(number, text) for number, text in enumerate(self._texts))


class TextFile(Documents):
    """One document per line, numbered from 0; empty lines count."""

    def __init__(self, path: Path) -> None:
        self.name, self.paths = path.name, (path,)
        self.count = sum(1 for _ in _lines(path))

    def _all(self) -> Iterator[Document]:
        return (Document(number, line) for number, line in enumerate(_lines(self.paths[0])))


class TextFolder(Documents):
    """One document per ``.txt`` file, named by its path in the folder."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.name, self.count, self.paths, self._folder = folder.name, len(files), tuple(files), folder

    def _all(self) -> Iterator[Document]:
        for path in self.paths:
            if path.stat().st_size > _LONGEST:
                raise InputError(f"{path} takes more than {_LONGEST} bytes, too much for one document")
            yield Document(path.relative_to(self._folder).as_posix(), _decoded(path.read_bytes(), path.name))


class Records(Documents):
    """Records with a field of text, and fields of ids and groups where they are named."""

    has_groups = True

    def __init__(self, path: Path, text: str, ids: str | None, group: str | None) -> None:
        self.name, self.paths = path.name, (path,)
        self.told = f"{text} {ids} {group}"
        self._text, self._ids, self._group = text, ids, group

    @abstractmethod
    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The location and the fields of each record."""

    def _all(self) -> Iterator[Document]:
        ids = self._ids
        for number, (where, record) in enumerate(self._records()):
            if not isinstance(record.get(self._text), str):
                raise InputError(f"{where} has no text {self._text!r}")
            if number == 0 and ids is None:
                ids = next((name for name in _IDS if name in record), None)
            label = number if ids is None else _label(record.get(ids), where, ids)
            group = None if self._group is None else _label(record.get(self._group), where, self._group)
            yield Document(label, record[self._text], group)


class JsonLines(Records):
    """One JSON object per line."""

    def __init__(self, path: Path, text: str, ids: str | None, group: str | None) -> None:
        super().__init__(path, text, ids, group)
        self.count = sum(1 for line in _lines(path) if line.strip())

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, line in enumerate(_lines(self.paths[0]), start=1):
            if line.strip():
                where = f"{self.name}: line {number}"
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    raise InputError(f"{where} is not JSON") from None
                yield where, record if isinstance(record, dict) else {}


class ParquetTexts(Records):
    """A column of text of a parquet file, with the columns of ids and groups; a text that is missing is empty."""

    def __init__(self, path: Path, text: str, ids: str | None, group: str | None) -> None:
        file = _parquet(path)
        names = file.schema_arrow.names
        super().__init__(path, text, ids or next((name for name in _IDS if name in names), None), group)
        self.count = file.metadata.num_rows
        for name in (self._ids, group):
            if name is not None and name not in names:
                raise InputError(f"{path.name} has no column {name!r}; there are {', '.join(names[:12])}")

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        wanted = dict.fromkeys(name for name in (self._text, self._ids, self._group) if name is not None)
        batches = _parquet(self.paths[0]).iter_batches(batch_size=1024, columns=list(wanted))
        for number, record in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches)):
            text = record[self._text]
            yield f"{self.name}: row {number}", {**record, self._text: "" if text is None else text}


def holds_text(path: Path, name: str) -> bool:
    """Whether a parquet file has a column of text of that name."""
    from pyarrow import types

    schema = _parquet(path).schema_arrow
    kind = schema.field(name).type if name in schema.names else None
    kind = kind.value_type if kind is not None and types.is_dictionary(kind) else kind
    return kind is not None and bool(types.is_string(kind) or types.is_large_string(kind))


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), start=1):
            if len(line) == _LONGEST and not line.endswith(b"\n"):
                raise InputError(f"{path.name}: line {number} takes more than {_LONGEST} bytes")
            yield _decoded(line, f"{path.name}: line {number}").rstrip("\r\n")


def _decoded(text: bytes, where: str) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8: {error.reason} at byte {error.start}") from None


def _label(value: Any, where: str, name: str) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise InputError(f"{where} has no id or group in {name!r}")
    return value


def _parquet(path: Path) -> Any:
    return guarded(path, parquet.open_file, path)


@dataclass(frozen=True)
class Window:
    """Some tokens of a document; ``kept`` marks those that may become rows, ``types`` are their segments."""

    document: int  # its place among those that are read together
    tokens: Array
    kept: Array
    types: Array | None = None


@dataclass(frozen=True)
class Around:
    """Special tokens before and after a text, and the segments of all three where they are not the first."""

    before: list[int]
    after: list[int]
    types: tuple[list[int], int, list[int]] | None = None


class Cutter:
    """Cuts documents into windows."""

    def __init__(self, tokenizer: Any, context: int | None, *, special: bool = True, truncate: bool = False) -> None:
        self._tokenizer, self._context, self._special, self._truncate = tokenizer, context, special, truncate

    def windows(self, place: int, content: Any) -> list[Window]:
        """The windows of a document; none of an empty one."""
        tokens = self._tokens(content)
        if not tokens:
            return []
        around = self._around if isinstance(content, str) else Around([], [])
        room = self._context - len(around.before) - len(around.after) if self._context else len(tokens)
        starts = range(0, len(tokens), room)[: 1 if self._truncate else None]
        return [self._window(place, tokens[start : start + room], around) for start in starts]

    def _tokens(self, content: Any) -> list[int]:
        if not isinstance(content, str) or not content.strip():
            return [] if isinstance(content, str) else list(content)
        try:
            return list(self._tokenizer(content, add_special_tokens=False, verbose=False)["input_ids"])
        except Exception as error:  # whatever a stranger's tokenizer raises
            raise InputError(f"the tokenizer fails on {content[:40]!r}: {said(error)}") from error

    @cached_property
    def _around(self) -> Around:
        around = _special_tokens(self._tokenizer)
        count = len(around.before) + len(around.after)
        if self._context is not None and self._context <= count:
            raise InputError(f"a context of {self._context} tokens has no room beside {count} special tokens")
        return around

    def _window(self, place: int, tokens: Sequence[int], around: Around) -> Window:
        whole = np.array([*around.before, *tokens, *around.after], dtype=np.int64)
        kept = np.ones(len(whole), dtype=bool)
        if not self._special:
            kept[: len(around.before)] = False
            kept[len(whole) - len(around.after) :] = False
        if around.types is None:
            return Window(place, whole, kept)
        before, inside, after = around.types
        return Window(place, whole, kept, np.array([*before, *([inside] * len(tokens)), *after], dtype=np.int64))


def batches(windows: Sequence[Window], size: int | None, tokens: int, *, equal: bool = False) -> Iterator[list[int]]:
    """Indices of windows per batch: those of about one length together, the longest first.

    A batch has ``size`` of them, or else as many as have this number of tokens; with ``equal`` all have one length.
    """
    order = sorted(range(len(windows)), key=lambda place: -len(windows[place].tokens))
    while order:
        longest = len(windows[order[0]].tokens)
        take = size or max(1, tokens // longest)
        if equal:
            take = min(take, sum(len(windows[place].tokens) == longest for place in order))
        yield order[:take]
        order = order[take:]


def padded(windows: Sequence[Window], pad: int) -> Batch:
    """Token ids with padding after them, the mask of what is attended to, and that of what is kept."""
    torch = import_torch("extraction")

    def filled(rows: Iterator[Any], filling: int = 0) -> Array:
        parts = [torch.from_numpy(row) for row in rows]
        return np.asarray(torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=filling))

    tokens = filled((window.tokens for window in windows), pad)
    real = filled(np.ones(len(window.tokens), dtype=bool) for window in windows)
    kept = filled(window.kept for window in windows)
    types = None if windows[0].types is None else filled(window.types for window in windows)
    return Batch(tokens, "tokens", real, kept, types)


def _special_tokens(tokenizer: Any) -> Around:
    """The special tokens that a tokenizer puts before and after a text."""
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    found = tokenizer("a")
    whole, types = found["input_ids"], found.get("token_type_ids") or []
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain and plain:
            stop = start + len(plain)
            segments = (types[:start], types[start], types[stop:]) if any(types) else None
            return Around(whole[:start], whole[stop:], segments)
    raise InputError("the tokenizer does not put its special tokens around a text: give token ids instead")
