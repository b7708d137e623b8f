r"""Journal and files of an extraction: rows in order, then names, ids and groups.

Rows are appended to one plain file per layer. After each block of work the files are synchronised and the journal is
replaced; anything a killed run has written beyond it is cut off when the run resumes, so that no row is duplicated.
Files are written completely or not at all.

Statistics of a layer's rows come from one pass over them in blocks. The effective rank is the participation ratio
:math:`(\operatorname{tr} C)^2 / \operatorname{tr} C^2` of the covariance :math:`C`: the number of dimensions over which
variance would be spread evenly to look the same.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ..errors import InputError
from ..files import alone_in, replacing, require_plain, resolved, write_text
from ..moments import Moments
from ..representation import Array
from ..settings import check_choice
from ..storage.layers import GROUP, beside
from ..storage.lazy import release
from ..storage.npy import write_array
from ..storage.registry import RowStream
from ..storage.write import require_plain_ids, require_target, write_rows

_FORMAT = "isorep.extraction/1"
_JOURNAL, _DOCUMENTS, _OWNERS, _POSITIONS = "journal.json", "documents.jsonl", "places", "positions"


class Journal:
    """The state of one extraction: which rows of which layers are committed."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self._settings = json.loads(json.dumps(settings))
        self.done = {"examples": 0, "rows": 0, "documents": 0, "empty": 0, "cut": 0, "tokens": 0}
        self.layers: dict[str, int] = {}  # widths
        self.resumed = False
        self._files: dict[str, IO[bytes]] = {}
        self._lock = ExitStack()
        self._opened_here = False

    def open(self, layers: dict[str, int], itemsize: int, *, restart: bool = False) -> None:
        """Create the folder, or resume from it, truncated to committed rows; folders of other runs are refused.

        ``layers`` are widths, and ``itemsize`` are bytes of a number.
        """
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise InputError(f"{self.folder} is where rows are kept until they are complete: it must be a folder")
        self._lock.enter_context(alone_in(self.folder))
        self._opened_here = True
        path = self.folder / _JOURNAL
        for file in self.folder.iterdir():
            require_plain(file, self.folder)
        if path.is_file() and not restart:
            self._read(path)
        else:
            for file in self.folder.iterdir():
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
            self._write(f"values-{index}", np.ascontiguousarray(block).data)
        self._write(_OWNERS, np.ascontiguousarray(owners, dtype="<i8").data)
        self._write(_POSITIONS, np.ascontiguousarray(positions, dtype="<i8").data)
        self.done["rows"] += len(owners)

    def append_documents(self, labels: Sequence[tuple[int | str, int | str | None]]) -> None:
        """Add ids and groups of documents that have rows."""
        text = "".join(json.dumps(label, ensure_ascii=True) + "\n" for label in labels)
        self._write(_DOCUMENTS, text.encode("ascii"))
        self.done["documents"] += len(labels)

    def commit(self) -> None:
        """Commit the added rows."""
        for name, file in self._files.items():
            with self._named(name):
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
        try:
            with (self.folder / _DOCUMENTS).open("rb") as file:
                documents = [(label, group) for label, group in map(json.loads, file)]
        except (ValueError, TypeError, RecursionError):
            documents = []
        sound = all(isinstance(label, int | str) and isinstance(group, int | str | None) for label, group in documents)
        if not sound or not 0 <= owners.min() <= owners.max() < len(documents):
            raise InputError(f"{self.folder} is damaged: its rows or their documents are not those of an extraction")
        return owners, positions, documents

    def close(self) -> None:
        """Close all files; the folder is kept for the next run to resume, unless nothing was committed."""
        self._close(keep=(self.folder / _JOURNAL).exists())

    def remove(self) -> None:
        """Close all files, and remove the folder after the work is done."""
        self._close(keep=False)

    def _close(self, *, keep: bool) -> None:
        for file in self._files.values():
            with suppress(OSError):  # rows that were not committed, on a full disk
                file.close()
        self._files = {}
        if self._opened_here and not keep:  # before the lock ends: another run may begin then
            (self.folder / _JOURNAL).unlink(missing_ok=True)  # first: without rows it would be a damaged one
            shutil.rmtree(self.folder, ignore_errors=True)
        self._opened_here = False
        self._lock.close()

    def _write(self, name: str, data: Any) -> None:
        with self._named(name):
            self._files[name].write(data)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Errors of a disk name the file."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), str(self.folder / name)) from error

    def _read(self, path: Path) -> None:
        try:
            state = json.loads(path.read_text("utf-8"))
            settings = dict(state["settings"])
            known = state["format"] == _FORMAT and set(state["done"]) == set(self.done)
            self.done = {name: int(state["done"][name]) for name in self.done}
            self.layers = {str(name): int(width) for name, width in state["layers"].items()}
            known = known and min(self.done.values()) >= 0
        except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
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
        """Bytes of the committed lines of documents."""
        path = self.folder / _DOCUMENTS
        if not path.exists():
            return self.done["documents"]  # more than the nothing that is there, where there should be something
        with path.open("rb") as file:
            return sum(map(len, islice(file, self.done["documents"])))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:20] + "..."


FORMATS = ("parquet", "zarr", "npy")
_SUFFIXES = (".parquet", ".pq", ".zarr", ".npy")
_STEP = 2**16


class RowLabels:
    """Ids or groups of rows, made slice by slice from those of documents."""

    def __init__(self, labels: Array, owners: Array, positions: Array | None = None) -> None:
        self._labels, self._owners, self._positions = labels, owners, positions
        longest = labels.dtype.itemsize // 4 if labels.dtype.kind == "U" else 20
        self.dtype = labels.dtype if positions is None else np.dtype(f"<U{longest + 21}")

    def __len__(self) -> int:
        return len(self._owners)

    def __getitem__(self, rows: slice) -> Array:
        labels: Array = self._labels[np.asarray(self._owners[rows])]
        if self._positions is None:
            return labels
        named = zip(labels.tolist(), np.asarray(self._positions[rows]).tolist(), strict=True)
        return np.array([f"{label}:{position}" for label, position in named], dtype=self.dtype)


def row_labels(journal_labels: tuple[Array, Array, list[Any]], *, tokens: bool) -> tuple[RowLabels, RowLabels | None]:
    """Ids of rows, and their groups: the document of a token, or the groups that the data name."""
    owners, positions, documents = journal_labels
    names = _column([label for label, _ in documents])
    given = [group for _, group in documents]
    grouped = any(group is not None for group in given)
    groups = RowLabels(_column(given) if grouped else names, owners) if grouped or tokens else None
    return RowLabels(names, owners, positions if tokens else None), groups


def targets(output: str | Path, format: str | None, layers: Sequence[str]) -> dict[str, Path]:
    """The file of each layer: by a pattern with ``{layer}``, in a folder, or one file for one layer."""
    text = str(output)
    if format is not None:
        check_choice("format", format, FORMATS)
    path = Path(output)
    names = {layer: layer.replace("/", "_") for layer in layers}
    if "{layer}" in text:
        found = {layer: Path(text.replace("{layer}", name)) for layer, name in names.items()}
    elif not path.name.lower().endswith(_SUFFIXES) and (text.endswith("/") or path.is_dir() or path.suffix == ""):
        found = {layer: path / f"{name}.{format or FORMATS[0]}" for layer, name in names.items()}
    elif len(layers) == 1:
        found = {layers[0]: path}
    else:
        raise InputError(f"{len(layers)} layers do not fit into {path}: name a folder, or a pattern with {{layer}}")
    for target in found.values():
        if not target.name.lower().endswith(_SUFFIXES):
            raise InputError(f"{target} cannot be written: features go to {', '.join(_SUFFIXES)}")
        if format is not None and not target.name.lower().endswith((f".{format}", ".pq")):
            raise InputError(f"{target} is not named as {format}")
        target.parent.mkdir(parents=True, exist_ok=True)
        require_target(target)
    return found


def working_folder(output: str | Path, files: Sequence[Path]) -> Path:
    """The working folder for incomplete rows: a hidden folder next to the output."""
    name = Path(str(output).replace("{layer}", "layer")).name
    is_folder = not name.lower().endswith(_SUFFIXES)
    return files[0].parent / f".{'features' if is_folder else name}.extracting"


def is_folder_of_layers(output: str | Path, files: Sequence[Path]) -> bool:
    """Whether layers go to a folder under their own names, so that its list can name them."""
    path = Path(output)
    return {file.parent for file in files} == ({path.parent} if path.name.startswith("{layer}.") else {path})


def require_apart(files: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse to overwrite an input."""
    places = set(map(resolved, inputs))
    for file in files:
        if resolved(file) in places:
            raise InputError(f"{file} is an input: name another file to write")


def save(target: Path, values: Array, ids: RowLabels, groups: RowLabels | None) -> None:
    """Write one layer; npy holds values only, so its ids and groups go to files next to it."""
    if not target.name.lower().endswith(".npy"):
        extra = {} if groups is None else {GROUP: groups}
        write_rows(RowStream(values, cast(Array, ids), values.dtype, extra), target)
        return
    if ids.dtype.kind == "U" and ids.dtype.itemsize > 4 * 1024:
        raise InputError("ids of more than 1000 characters do not go beside an npy file: write parquet")
    for path, labels in ((beside(target, "ids"), ids), (beside(target, GROUP), groups)):
        if labels is not None:
            with replacing(path) as temporary, temporary.open("wb") as file:
                blocks = (labels[slice(start, start + _STEP)] for start in range(0, len(labels), _STEP))
                write_array(file, (len(labels),), labels.dtype, blocks)
    write_rows(RowStream(values, None, values.dtype), target)


def _column(labels: Sequence[int | str]) -> Array:
    """Whole numbers where all are, otherwise text."""
    if all(isinstance(label, int) and abs(label) < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    texts = np.array([str(label) for label in labels], dtype=str)
    require_plain_ids(texts)
    return texts


_SAMPLE = 20_000
_WIDEST = 4096
_CELLS = 2**20


def describe(values: Array) -> dict[str, Any]:
    """Basic statistics of a layer: one pass over all rows, and moments of at most 20,000 evenly spaced ones.

    ``constant`` units never change, and of these ``dead`` ones are always 0.
    """
    rows, columns = values.shape
    step = max(1, _CELLS // columns)
    least, most = np.full(columns, np.inf), np.full(columns, -np.inf)
    norms = 0.0
    for start in range(0, rows, step):
        block = np.asarray(values[start : start + step], dtype=np.float64)
        release(values)
        norms += float(np.sqrt(np.einsum("ij,ij->i", block, block)).sum())
        np.minimum(least, block.min(axis=0), out=least)
        np.maximum(most, block.max(axis=0), out=most)
    still = least == most
    return {
        "mean_norm": norms / rows,
        "largest": float(max(most.max(), -least.min())),
        "constant": int(still.sum()),
        "dead": int((still & (most == 0)).sum()),
        "effective_rank": _effective_rank(values, step),
    }


def _effective_rank(values: Array, step: int) -> float | None:
    rows, columns = values.shape
    if rows < 2 or columns > _WIDEST:
        return None
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(np.int64))
    moments = Moments.empty(columns, 0)
    for start in range(0, len(chosen), step):
        block = np.asarray(values[chosen[start : start + step]], dtype=np.float64)
        moments.absorb_rows(block, block[:, :0])
    release(values)
    total, squares = float(np.trace(moments.xx)), float(np.einsum("ij,ij->", moments.xx, moments.xx))
    return total**2 / squares if squares > 0 else 0.0
