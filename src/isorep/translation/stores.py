"""Embedding stores: rows that carry ids, text and other columns beside their vector, translated with all they carry.

Tables and JSON lines are streamed, quantised vectors are translated and quantised again, and FAISS indexes, LanceDB
tables, Qdrant collections and tables of PostgreSQL with pgvector are read and written by their own clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import InputError, MissingFileError
from ..files import without_secrets
from ..representation import Array, Representation
from ..rows import Progress, no_progress
from ..storage import parquet, read
from ..storage.registry import guarded, reader, split_key
from ..storage.remote import is_url
from .databases import PostgresTable, QdrantCollection
from .indexes import FaissIndex
from .lines import JsonLines
from .quantised import Change, QuantisedArrays, quantised_arrays
from .tables import LanceTable, ParquetStore
from .translator import Translator

ADDRESSES = ("qdrant", "lancedb", "pgvector")


class Store(Protocol):
    """A store that is translated with everything its rows carry."""

    name: str
    rows: int

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where the store has ids of its own, and the old vectors, block by block."""

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors, completely or not at all; returns what was written in words."""


def open_store(source: str | Path, output: str | Path, scale: str | None = None) -> Store | None:
    """The store that a path or address names, if it has rows that carry more and the output is of the same kind.

    None where only vectors and ids are to be written: :func:`isorep.write` does that.
    """
    kind, there = _kind(str(source)), _kind(str(output))
    if kind in ADDRESSES or there in ADDRESSES:
        if kind != there:
            raise InputError(
                f"{without_secrets(str(source))} and {without_secrets(str(output))} are different kinds of store: both "
                f"must be {kind or there}: addresses"
            )
        if kind == "lancedb":
            return LanceTable(str(source), scale)
        if scale is not None:
            raise InputError(f"--scale is for integer vectors, which {kind} does not hold")
        return QdrantCollection(str(source)) if kind == "qdrant" else PostgresTable(str(source))
    path, key = split_key(source, None)
    if kind is None or is_url(path):
        if scale is not None:
            raise InputError("--scale is for parquet, LanceDB and npz files with integer vectors")
        return None
    if kind == "faiss":
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist")
        if there != "faiss":
            raise InputError(f"{path.name} is written to a FAISS index: name a .faiss or .index file")
        return guarded(path, FaissIndex, path)
    reader(path)  # refuses what is not there
    if path.is_dir():
        return None
    if kind == "npz":
        return guarded(path, quantised_arrays, path, key, scale, str(output))
    if kind != there:
        return None
    opened: dict[str, Callable[[], Store]] = {
        "parquet": lambda: ParquetStore(path, key, scale),
        "jsonl": lambda: JsonLines(path, key),
    }
    return guarded(path, opened[kind])


def store_confidence(translator: Translator, store: Store) -> tuple[Array | None, Array]:
    """The ids of a store, where it has ids of its own, and the predicted cosine of every row, in its order."""
    ids, found = [], []
    for some, vectors in store.blocks():
        if some is not None:
            ids.append(some)
        found.append(translator.confidence(Representation(vectors, name=store.name)))
    return np.concatenate(ids) if ids else None, np.concatenate(found)


def read_vectors(
    path: str | Path,
    *,
    ids: str | None = None,
    scale: str | None = None,
    besides: Sequence[str | None] = (),
    **more: Any,
) -> Representation:
    """Vectors to fit a map to, as :func:`isorep.read` reads them; int8 ones with their scale become float32.

    ``scale`` names the scale of integers: an array of an npz file, a column of a parquet file, or a number.
    """
    file, key = split_key(path, None)
    kind = _kind(str(path))
    store: QuantisedArrays | ParquetStore | None = None
    if not is_url(file) and kind in ("npz", "parquet") and file.is_file():
        if kind == "npz":
            store = guarded(file, quantised_arrays, file, key, scale, None)
        else:
            store = guarded(
                file, _integer_lists, file, key, ids, scale, [name.rpartition("::")[2] for name in besides if name]
            )
    if store is None:
        return read(path, ids=ids, besides=besides, **more)
    values = np.concatenate([vectors for _, vectors in store.blocks()])
    return Representation(values, guarded(file, store.names, ids), file.name, origin=str(path))


def _integer_lists(
    path: Path, key: str | None, ids: str | None, scale: str | None, besides: list[str]
) -> ParquetStore | None:
    """A parquet file whose vectors are lists of int8; None for others."""
    table = parquet.describe(path, key, ids, [*besides, *([scale] if scale else ["scale", "scales"])])
    if table.list_column is None:
        return None
    from pyarrow import types

    kind = parquet.open_file(path).schema_arrow.field(table.list_column).type.value_type
    return ParquetStore(path, table.list_column, scale) if types.is_int8(kind) else None


def translate_store(translator: Translator, store: Store, output: str, progress: Progress = no_progress) -> str:
    """Write a store with translated vectors, and everything else as it is; returns what was written in words."""
    done = 0

    def change(vectors: Array) -> Array:
        rows = Representation(vectors, name=store.name)
        return np.asarray(translator.translated(rows).values[:])

    def told(count: int) -> None:
        nonlocal done
        done += count
        progress("translating", done, store.rows)

    return store.write(output, len(translator.new_mean), change, told)


def _kind(address: str) -> str | None:
    scheme = address.partition(":")[0]
    if scheme in ADDRESSES:
        return scheme
    lowered = split_key(address, None)[0].name.lower()
    endings = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".npz": "npz"}
    endings |= {".faiss": "faiss", ".index": "faiss"}
    return next((kind for ending, kind in endings.items() if lowered.endswith(ending)), None)
