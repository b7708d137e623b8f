"""FAISS indexes: their vectors are read back, and an index of the same kind is built of the new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError, import_extra
from ..files import replacing, require_writable
from ..representation import Array
from ..rows import blocks as blocks_of
from ..storage.registry import split_key
from .quantised import CELLS, Change


class FaissIndex:
    """A FAISS index whose vectors can be read back: flat, HNSW or IVF with flat storage, also with ids."""

    def __init__(self, path: Path) -> None:
        faiss = import_extra("faiss", "stores", "a FAISS index", "faiss-cpu")
        self.name = path.name
        try:
            index = self._owner = faiss.read_index(str(path))
        except RuntimeError as error:
            raise InputError(f"{path.name} is not a FAISS index: {str(error)[:120]}") from error
        self._ids = None
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
        if isinstance(index, faiss.IndexIVFFlat):
            index.make_direct_map()
        self.rows = int(index.ntotal)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where they are known, and the old vectors, block by block."""
        for rows in blocks_of(self.rows, max(1, CELLS // self._index.d)):
            yield None if self._ids is None else self._ids[rows], self._part(rows.start, rows.stop)

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors; returns what was written in words."""
        path = split_key(output, None)[0]
        require_writable(path)
        faiss, old = self._faiss, self._index
        if isinstance(old, faiss.IndexHNSWFlat):
            new = faiss.IndexHNSWFlat(width, old.hnsw.nb_neighbors(1), old.metric_type)
            new.hnsw.efConstruction, new.hnsw.efSearch = old.hnsw.efConstruction, old.hnsw.efSearch
        elif isinstance(old, faiss.IndexIVFFlat):
            quantiser = faiss.IndexFlat(width, old.metric_type)
            new = faiss.IndexIVFFlat(quantiser, width, old.nlist, old.metric_type)
            new.nprobe = old.nprobe
            new.train(np.ascontiguousarray(change(self._part(0, min(self.rows, 256 * old.nlist))), np.float32))
        else:
            new = faiss.IndexFlat(width, old.metric_type)
        whole = new if self._ids is None else self._map_kind(new)
        step = max(1, CELLS // max(width, old.d))
        for start in range(0, self.rows, step):
            stop = min(start + step, self.rows)
            vectors = np.ascontiguousarray(change(self._part(start, stop)), np.float32)
            if self._ids is None:
                whole.add(vectors)
            else:
                whole.add_with_ids(vectors, self._ids[start:stop])
            progress(stop - start)
        kind = type(new).__name__
        with replacing(path) as temporary:
            faiss.write_index(whole, str(temporary))
        return f"{self.rows} rows x {width} columns, {kind}{' with ids' if self._ids is not None else ''}"

    def _part(self, start: int, stop: int) -> Array:
        return np.asarray(self._index.reconstruct_n(start, stop - start))
