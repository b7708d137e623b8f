"""FAISS indexes: their vectors are read back, and an index of the same kind is built of the new ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..files import replacing, require_writable
from ..representation import Array
from ..rows import blocks as blocks_of
from ..storage.registry import split_key
from .rewriting import CELLS, Block, Task

_PER_LIST = 39  # vectors for which FAISS places a centroid without a warning
_TRAINED = 256  # vectors per list that FAISS uses of those that it is given


class FaissIndex:
    """A FAISS index whose vectors can be read back: flat, HNSW or IVF with flat storage, also with ids."""

    one_scale = False

    def __init__(self, path: Path) -> None:
        faiss = import_extra("faiss", "stores", "a FAISS index", "faiss-cpu")
        self.name = path.name
        try:
            with _no_larger_than(path, faiss):
                index = self._owner = faiss.read_index(str(path))
        except (RuntimeError, MemoryError) as error:
            raise InputError(f"{path.name} is not a FAISS index: {str(error)[:120]}") from error
        self._ids: Array | None = None
        self._map_kind: Any = None
        if isinstance(index, faiss.IndexIDMap):
            self._ids = faiss.vector_to_array(index.id_map).copy()
            self._map_kind = type(index)
            index = faiss.downcast_index(index.index)
        self._index, self._faiss = index, faiss
        kinds = (faiss.IndexFlat, faiss.IndexHNSWFlat, faiss.IndexIVFFlat)
        if not isinstance(index, kinds) or isinstance(index, faiss.IndexIVFFlatDedup):
            known = "flat, HNSW and IVF indexes with flat storage"
            raise InputError(
                f"{path.name} is a {type(index).__name__}: {known} keep the vectors that can be translated"
            )
        if not index.ntotal:
            raise InputError(f"{path.name} holds no vectors")
        self.rows = int(index.ntotal)
        self._lists: _InvertedLists | None = None
        if isinstance(index, faiss.IndexIVFFlat):
            if isinstance(faiss.downcast_InvertedLists(index.invlists), faiss.OnDiskInvertedLists):
                raise InputError(f"{path.name} names another file for its vectors, which is not followed")
            self._lists = _InvertedLists(faiss, index)
            inner = self._lists.ids
            if len(inner) != self.rows:
                raise InputError(f"{path.name} is damaged: it declares {self.rows} vectors and holds {len(inner)}")
            if self._ids is not None and not (inner.min() >= 0 and inner.max() < len(self._ids)):
                raise InputError(f"{path.name} is damaged: its lists name vectors that its table of ids does not have")
            self._ids = inner if self._ids is None else self._ids[inner]

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, block by block; with ids if these are wanted and known."""
        for rows in blocks_of(self.rows, max(1, CELLS // self._index.d)):
            ids = None if self._ids is None or not named else self._ids[rows]
            yield ids, self._part(np.arange(rows.start, rows.stop))

    def write(self, output: str, task: Task) -> str:
        """Write an index of the same kind of new vectors."""
        path = split_key(output, None)[0]
        require_writable(path)
        faiss, old = self._faiss, self._index
        said = ""
        if isinstance(old, faiss.IndexHNSWFlat):
            new = faiss.IndexHNSWFlat(task.width, old.hnsw.nb_neighbors(1), old.metric_type)
            new.storage.metric_arg = old.storage.metric_arg
            new.hnsw.efConstruction, new.hnsw.efSearch = old.hnsw.efConstruction, old.hnsw.efSearch
        elif self._lists is not None:
            new, said = self._trained(task)
        else:
            new = faiss.IndexFlat(task.width, old.metric_type)
        new.metric_arg = old.metric_arg  # the power of Lp
        whole = new if self._map_kind is None else self._map_kind(new)
        step = max(1, CELLS // max(task.width, old.d))
        for rows in blocks_of(self.rows, step):
            vectors = self._new(np.arange(rows.start, rows.stop), task)
            if self._ids is None:
                whole.add(vectors)
            else:
                whole.add_with_ids(vectors, self._ids[rows])
            task.told(len(vectors))
        with replacing(path) as temporary:
            try:
                faiss.write_index(whole, str(temporary))
            except RuntimeError as error:  # whose last brackets hold what the system said
                reason = re.findall(r"\(([^()]+)\)", str(error))[-1:] or ["FAISS names no reason"]
                raise InputError(f"{path} cannot be written: {reason[0]}") from error
        with_ids = " with ids" if self._ids is not None else ""
        return f"{self.rows} rows x {task.width} columns, {type(new).__name__}{with_ids}{said}"

    def _trained(self, task: Task) -> tuple[Any, str]:
        """An empty IVF index with lists for new vectors, and what there is to say of them."""
        faiss, old, lists = self._faiss, self._index, self._index.nlist
        said = ""
        if self.rows < lists:
            lists = max(1, self.rows // _PER_LIST)
            said = f", {lists} lists instead of {old.nlist} because there are fewer vectors than that"
        quantiser = faiss.IndexFlat(task.width, old.metric_type)
        quantiser.metric_arg = old.quantizer.metric_arg
        new = faiss.IndexIVFFlat(quantiser, task.width, lists, old.metric_type)
        new.nprobe = min(old.nprobe, lists)
        spread = np.unique(np.linspace(0, self.rows - 1, min(self.rows, _TRAINED * lists)).astype(np.int64))
        vectors = self._new(spread, task)
        if not np.isfinite(np.einsum("ij,ij->i", vectors, vectors)).all():  # FAISS would end the process
            raise InputError(f"{self.name} holds vectors so large that their distances overflow in float32")
        new.train(vectors)
        return new, said

    def _new(self, rows: Array, task: Task) -> Array:
        return np.ascontiguousarray(task.change(self._part(rows)), np.float32)

    def _part(self, rows: Array) -> Array:
        if self._lists is not None:
            return self._lists.vectors(rows)
        return np.asarray(self._index.reconstruct_n(int(rows[0]), len(rows)))


@contextmanager
def _no_larger_than(path: Path, faiss: Any) -> Iterator[None]:
    """Let FAISS allocate no more for a part of an index than its file has; older versions know no limit."""
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):
        yield
        return
    before = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(path.stat().st_size)
    try:
        yield
    finally:
        faiss.set_deserialization_vector_byte_limit(before)


class _InvertedLists:
    """Vectors of an IVF index by their ids in ascending order, whatever ids they were added with."""

    def __init__(self, faiss: Any, index: Any) -> None:
        held = index.invlists
        sizes = np.array([held.list_size(number) for number in range(index.nlist)], np.int64)
        ids = [np.empty(0, np.int64)]
        self._vectors: list[Array] = []
        for number, size in enumerate(sizes.tolist()):
            codes = faiss.rev_swig_ptr(held.get_codes(number), size * index.code_size) if size else np.empty(0, "u1")
            self._vectors.append(codes.view(np.float32).reshape(size, index.d))
            if size:
                ids.append(faiss.rev_swig_ptr(held.get_ids(number), size).copy())
        joined = np.concatenate(ids)
        order = np.argsort(joined, kind="stable")
        self.ids = joined[order]
        self._owners = np.repeat(np.arange(index.nlist), sizes)[order]
        self._places = (np.arange(len(joined)) - np.repeat(np.cumsum(sizes) - sizes, sizes))[order]
        self._width = index.d

    def vectors(self, rows: Array) -> Array:
        """The vectors of some rows."""
        owners, places = self._owners[rows], self._places[rows]
        found = np.empty((len(rows), self._width), np.float32)
        by_owner = np.argsort(owners, kind="stable")
        for part in np.split(by_owner, np.flatnonzero(np.diff(owners[by_owner])) + 1):
            found[part] = self._vectors[owners[part[0]]][places[part]]
        return found
