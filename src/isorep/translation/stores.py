"""Embedding stores: rows that carry ids, text and other columns beside their vector, translated with all they carry.

Tables and JSON lines are streamed, quantised vectors are translated and quantised again, and FAISS indexes, LanceDB
tables, Qdrant collections and tables of PostgreSQL with pgvector are read and written by their own clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..files import replacing, without_secrets
from ..representation import Array, Representation
from ..rows import Progress, no_progress, refuse_non_finite
from ..storage import jsonl, parquet, read, shards
from ..storage.registry import guarded, reader, split_key
from ..storage.remote import is_url
from ..storage.write import require_plain_ids
from .databases import PostgresTable, QdrantCollection
from .drift import spread_rows
from .indexes import FaissIndex
from .lines import JsonLines, holds_integers
from .quantised import SCALES, QuantisedArrays, quantised_arrays, scale_for
from .rewriting import Block, Store, Task
from .tables import LanceTable, ParquetStore
from .translator import Translator, require_output, writes_folder

ADDRESSES = ("qdrant", "lancedb", "pgvector")
_QUANTISED = ("npz", "parquet", "jsonl")


def open_store(
    source: str | Path, output: str | Path, scale: str | None = None, ids: str | None = None
) -> Store | None:
    """The store that a path or address names, if it has rows that carry more and the output is of the same kind.

    None where only vectors and ids are to be written: :func:`isorep.write` does that. ``ids`` names the column that
    names rows, which must exist.
    """
    store = _opened(str(source), str(output), scale, ids)
    if store is not None and not store.rows:
        raise InputError(f"{store.name}: there are no rows of data")
    if store is None and scale is not None:
        raise InputError(
            "--scale is for int8 vectors of npz, parquet and jsonl files, or of LanceDB, that are written to the same "
            "kind of file"
        )
    return store


def require_plain(option: str, source: str, output: str, scale: str | None) -> None:
    """Refuse an option that is for plain vectors where the source can only be translated as a store."""
    for address in (source, output):
        if kind_of(address) in (*ADDRESSES, "faiss"):
            raise InputError(f"{option} is for files of vectors and ids: leave it out for {without_secrets(address)}")
    if scale is not None:
        raise InputError(f"{option} and --scale exclude each other: int8 vectors are kept with all their rows carry")
    path, key = split_key(source, None)
    if not is_url(path) and reader(path) in (jsonl, shards):
        first = shards.shard_files(path)[0] if path.is_dir() else path
        if kind_of(first.name) == "jsonl":
            guarded(first, _refuse_integers, first, key)


def _opened(source: str, output: str, scale: str | None, ids: str | None) -> Store | None:
    kind, there = kind_of(source), kind_of(output)
    if kind in ADDRESSES or there in ADDRESSES:
        if kind != there:
            raise InputError(
                f"{without_secrets(source)} and {without_secrets(output)} are different kinds of store: both must be "
                f"{kind or there}: addresses"
            )
        if kind == "lancedb":
            return LanceTable(source, scale, ids)
    if kind in ("qdrant", "pgvector", "faiss") and scale is not None:
        raise InputError(f"--scale is for integer vectors, which {kind} does not hold")
    if kind in ("qdrant", "faiss") and ids is not None:
        raise InputError(f"rows of {without_secrets(source)} have ids of their own: leave out --ids")
    if kind == "qdrant":
        return QdrantCollection(source)
    if kind == "pgvector":
        return PostgresTable(source, ids)
    path, key = split_key(source, None)
    if is_url(path):
        return None
    if kind == "faiss":
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist")
        if there != "faiss":
            raise InputError(f"{path.name} is written to a FAISS index: name a .faiss or .index file")
        return guarded(path, FaissIndex, path)
    if kind is None and not path.is_dir():
        return None
    module = reader(path)  # refuses what is not there
    if path.is_dir():
        return _folder(path, key, output, scale, ids) if module is shards else None
    return guarded(path, _file, path, key, output, scale, ids)


def _file(path: Path, key: str | None, output: str, scale: str | None, ids: str | None) -> Store | None:
    """A parquet, jsonl or npz file as a store."""
    kind, there = kind_of(path.name), kind_of(output)
    if kind == "npz":
        return quantised_arrays(path, key, scale, output, ids)
    if kind != there:
        if kind == "jsonl":
            _refuse_integers(path, key)
        return None
    return ParquetStore(path, key, scale, ids) if kind == "parquet" else JsonLines(path, key, scale, ids)


def _refuse_integers(path: Path, key: str | None) -> None:
    """Refuse JSON lines with integers, which as plain numbers would be translated without their scale."""
    if holds_integers(path, key):
        raise InputError(f"int8 vectors of {path.name} are written to a jsonl file, with their scale (--scale)")


def _folder(path: Path, key: str | None, output: str, scale: str | None, ids: str | None) -> Store | None:
    """A folder of shards that carry more, which becomes a folder again; None for other ones."""
    files = shards.shard_files(path)
    kind = kind_of(files[0].name)
    if kind not in _QUANTISED:
        return None
    if not writes_folder(output):
        if kind == "jsonl":
            guarded(files[0], _refuse_integers, files[0], key)
        return None
    require_output(path, output)
    opened = [guarded(file, _file, file, key, file.name, scale, ids) for file in files]
    found = [store for store in opened if store is not None]
    filled = next((store for store in found if isinstance(store, ParquetStore) and store.rows), None)
    for store in found:
        if filled and isinstance(store, ParquetStore) and not store.rows and store.vectors != filled.vectors:
            raise InputError(f"{store.name} has no rows, and not the columns of {filled.name}: leave it out")
    return Shards(path, files, found) if len(found) == len(files) else None


class Shards:
    """A folder of parquet, jsonl or quantised npz files, which keep what their rows carry."""

    def __init__(self, path: Path, files: list[Path], stores: list[Store]) -> None:
        self.name, self._files, self._stores = path.name, files, stores
        self.rows = sum(store.rows for store in stores)
        self.one_scale = any(store.one_scale for store in stores)

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors of all files, block by block; with ids if these are wanted and known."""
        for store in self._stores:
            yield from store.blocks(named)

    def write(self, output: str, task: Task) -> str:
        """Write files of the same names to a folder, which appears when it is complete."""
        said = ""
        with replacing(Path(output), folder=True) as temporary:
            for file, store in zip(self._files, self._stores, strict=True):
                said = store.write(str(temporary / file.name), task)
        size = f"{self.rows} rows x {task.width} columns in {len(self._files)} files"
        return f"{size}, the last of them: {said}" if len(self._files) > 1 else said


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a store tells before anything is written.

    ``sample`` has rows from all over the store; ``scale`` is that of new integers, where all rows share one. Cosines
    and ids are there where the confidence was wanted; ``note`` says why there are no ids although the store has some.
    """

    sample: Array
    scale: float | None
    cosines: Array | None
    ids: Array | None
    note: str


def survey(
    translator: Translator,
    store: Store,
    *,
    confidence: bool = False,
    ids: str | None = None,
    progress: Progress = no_progress,
) -> Survey:
    """Read a store once: refuse rows that cannot be translated, draw a sample, and find its scale and confidence.

    ``ids`` is the column of ids if the user named one: its ids must be there and differ.
    """
    chosen, start, largest = spread_rows(store.rows), 0, 0.0
    sample, cosines, names = [], [], []
    for some, vectors in store.blocks(named=confidence):
        rows = Representation(vectors, name=store.name)
        translated = translator.translated(rows)  # refuses another width
        if not np.isfinite(vectors).all():
            refuse_non_finite(vectors, store.name, start)
        stop = start + len(vectors)
        first, last = np.searchsorted(chosen, [start, stop])
        sample.append(vectors[chosen[first:last] - start])
        if confidence:
            cosines.append(translator.confidence(rows))
            names.append(some)
        if store.one_scale:
            largest = max(largest, float(np.abs(translated.values[:]).max(initial=0.0)))
        start = stop
        progress("checking", min(start, store.rows), store.rows)
    found, note = _unique_ids(names, ids)
    return Survey(
        np.concatenate(sample),
        scale_for(largest) if store.one_scale else None,
        np.concatenate(cosines) if confidence else None,
        found,
        note,
    )


def _unique_ids(parts: list[Array | None], wanted: str | None) -> tuple[Array | None, str]:
    """Ids of all rows, or why there are none; those that the user named must name rows."""
    held = [part for part in parts if part is not None]
    if not held:
        return None, ""
    if len(held) < len(parts):
        return None, "some rows have no id, so the confidence has none"
    found = shards.joined_labels(held)
    try:
        Representation(np.zeros((len(found), 1)), found, repr(wanted))  # refuses ids that occur twice
        if found.dtype.kind == "U":
            require_plain_ids(found)
    except InputError:
        if wanted is not None:
            raise
        return None, "some ids occur twice or cannot be kept, so the confidence has none"
    return found, ""


def translate_store(
    translator: Translator,
    store: Store,
    output: str,
    progress: Progress = no_progress,
    *,
    surveyed: Survey | None = None,
) -> str:
    """Write a store with translated vectors, and everything else as it is; returns what was written in words."""
    done = 0
    if surveyed is None and store.one_scale:
        surveyed = survey(translator, store)

    def change(vectors: Array) -> Array:
        rows = Representation(vectors, name=store.name)
        return np.asarray(translator.translated(rows).values[:])

    def told(count: int) -> None:
        nonlocal done
        done += count
        progress("translating", done, store.rows)

    scale = None if surveyed is None else surveyed.scale
    return store.write(output, Task(len(translator.new_mean), change, told, scale))


def read_vectors(
    path: str | Path,
    *,
    ids: str | None = None,
    scale: str | None = None,
    besides: Sequence[str | None] = (),
    **more: Any,
) -> Representation:
    """Vectors to fit a map to, as :func:`isorep.read` reads them; int8 ones with their scale become float32.

    ``scale`` names the scale of integers: an array of an npz file, a column of a parquet file, a name of JSON lines, or
    a number.
    """
    file, key = split_key(path, None)
    kind = kind_of(str(path))
    store: _Quantised | None = None
    if not is_url(file) and kind in _QUANTISED and file.is_file():
        used = [name.rpartition("::")[2] for name in besides if name]
        openers: dict[str, Callable[[], _Quantised | None]] = {
            "npz": lambda: quantised_arrays(file, key, scale, None, ids),
            "parquet": lambda: _integer_lists(file, key, ids, scale, used),
            "jsonl": lambda: JsonLines(file, key, scale, ids) if holds_integers(file, key) else None,
        }
        store = guarded(file, openers[kind])
    if store is None:
        return read(path, ids=ids, besides=besides, **more)
    store.required = True
    blocks: list[Block] = guarded(file, list, store.blocks(named=True))
    names = [some for some, _ in blocks if some is not None]
    note = {"scale": store.note} if isinstance(store, QuantisedArrays) and store.note else {}
    found = shards.joined_labels(names) if names else None
    values = np.concatenate([vectors for _, vectors in blocks])
    return Representation(values, found, file.name, converted=note, origin=str(path))


_Quantised = QuantisedArrays | ParquetStore | JsonLines


def _integer_lists(
    path: Path, key: str | None, ids: str | None, scale: str | None, besides: list[str]
) -> ParquetStore | None:
    """A parquet file whose vectors are lists of int8; None for others."""
    table = parquet.describe(path, key, ids, [*besides, *([scale] if scale else SCALES)])
    if table.list_column is None:
        return None
    from pyarrow import types

    kind = parquet.open_file(path).schema_arrow.field(table.list_column).type.value_type
    return ParquetStore(path, table.list_column, scale, ids) if types.is_int8(kind) else None


def kind_of(address: str) -> str | None:
    """The kind of store that an address or the suffix of a path names."""
    scheme = address.partition(":")[0]
    if scheme in ADDRESSES:
        return scheme
    lowered = split_key(address, None)[0].name.lower()
    endings = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".npz": "npz"}
    endings |= {".faiss": "faiss", ".index": "faiss"}
    return next((kind for ending, kind in endings.items() if lowered.endswith(ending)), None)
