"""Arrays in compressed chunks, each looked at before it is unpacked: HDF5 and zarr unpack without a limit."""

from __future__ import annotations

import itertools
import math
import zlib
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .scratch import MEMORY_LIMIT

SLACK = 2**16  # what packing may add to a chunk that does not compress
_MOST_STREAMS = 1000
MOST_DEFLATE = 1032  # how many bytes one deflated byte can stand for


class CheckedChunks(ABC):
    """An array that is sliced by rows; every chunk is checked before it is first read."""

    def __init__(self, stored: Any, chunks: tuple[int, ...] | None) -> None:
        self._stored = stored
        self.shape = tuple(stored.shape)
        self.dtype = stored.dtype
        self._chunks = chunks
        self._checked: set[int] = set()

    def __getitem__(self, rows: slice) -> Array:
        self.check(rows.start, rows.stop)
        return np.asarray(self._stored[rows])

    def check(self, start: int, stop: int) -> None:
        """Refuse these rows if one of their chunks would unpack to more than its size."""
        if self._chunks is None or stop <= start:
            return
        across = [range(-(-size // step)) for size, step in zip(self.shape[1:], self._chunks[1:], strict=True)]
        for band in range(start // self._chunks[0], (stop - 1) // self._chunks[0] + 1):
            if band not in self._checked:
                for rest in itertools.product(*across):
                    self._check_chunk((band, *rest))
                self._checked.add(band)

    @abstractmethod
    def _check_chunk(self, place: tuple[int, ...]) -> None:
        """Check the chunk at a place of the grid, where there is one."""


def bomb(place: tuple[int, ...], size: int) -> InputError:
    """The refusal of a chunk that unpacks to more than its size."""
    return InputError(f"chunk {place} unpacks to more than its {size} bytes: it may be a bomb")


def inflates_beyond(packed: bytes, most: int) -> bool:
    """Whether deflated data, one stream or several, unpack to more than so many bytes."""
    if len(packed) * MOST_DEFLATE <= most:
        return False
    total = 0
    for _ in range(_MOST_STREAMS):
        unpacker = zlib.decompressobj(47)  # zlib or gzip
        try:
            total += len(unpacker.decompress(packed, most - total + 1))
        except zlib.error:
            return False  # damaged, which its reader says better
        packed = unpacker.unused_data
        if total > most or not packed:
            return total > most
    return True  # nobody packs a chunk into so many streams


class CheckedDataset(CheckedChunks):
    """An HDF5 dataset."""

    def __init__(self, dataset: Any) -> None:
        self._packing = _packing(dataset)
        super().__init__(dataset, dataset.chunks if self._packing else None)
        self._size = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize

    def _check_chunk(self, place: tuple[int, ...]) -> None:
        corner = tuple(step * index for step, index in zip(self._stored.chunks, place, strict=True))
        info = self._stored.id.get_chunk_info_by_coord(corner)
        if info.byte_offset is None:
            return  # never written: it is read as the fill value
        if info.size > self._size + SLACK:
            raise bomb(place, self._size)
        if self._packing == _LZF:
            if info.size * _MOST_LZF > MEMORY_LIMIT:
                raise InputError(f"chunk {place} takes {info.size} bytes: save it with gzip, or in smaller chunks")
        elif info.size * MOST_DEFLATE > MEMORY_LIMIT and inflates_beyond(
            self._stored.id.read_direct_chunk(corner)[1], self._size + SLACK
        ):
            raise bomb(place, self._size)


_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF = 1, 2, 3, 32000
_MOST_LZF = 100


def _packing(dataset: Any) -> int | None:
    """The one filter that compresses, if there is one."""
    if dataset.chunks is None:
        return None
    settings = dataset.id.get_create_plist()
    filters = [int(settings.get_filter(place)[0]) for place in range(settings.get_nfilters())]
    unknown = [code for code in filters if code not in (_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF)]
    if unknown:
        raise InputError(f"it is packed with HDF5 filter {unknown[0]}, which is not read: save it with gzip or plain")
    packing = [code for code in filters if code in (_DEFLATE, _LZF)]
    if len(packing) > 1:
        raise InputError("it is compressed more than once, which is refused")
    return packing[0] if packing else None
