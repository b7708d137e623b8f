"""numpy ``.npy`` files: read by position, never unpickled. Also the header reading that npz members share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .lazy import PlainMatrix, StoredMatrix
from .registry import Contents, RowStream
from .remote import RemoteArray, RemotePath, is_remote

_BRIDGE = 2**20  # bytes that are cheaper to read than to skip
_LONGEST_HEADER = 10_000  # which is numpy's limit too


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Open the array of an npy file; ids may be another npy file, here or in its folder."""
    if key is not None:
        raise InputError(f"an npy file holds one array without names, so key {key!r} cannot be found in it")
    labels = None if ids is None else _labels(path, ids)
    with path.open("rb") as file:
        header = read_header(file)
    if is_remote(path):
        return Contents(_remote(path, header), labels)
    return Contents(open_array(path, header, 0, path.stat().st_size), labels)


def _labels(path: Path, ids: str) -> Array:
    """The row ids in a file of their own."""
    if not ids.lower().endswith(".npy"):
        raise InputError(
            f"an npy file holds one array without names, so ids {ids!r} cannot be found in it: name an npy file of ids"
        )
    places = [Path(ids)] if is_remote(path) else [Path(ids), path.parent / ids]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(f"there is no file {ids!r} of ids")
    return vector(found)


def _remote(path: RemotePath, header: Header) -> Any:
    """An array in an object store, whose rows are read on demand."""
    _require_whole(header, path.stat().st_size)
    if header.fortran_order or len(header.shape) < 2:
        raise InputError("its columns lie one after the other: save it in C order, with rows one after the other")
    return StoredMatrix(RemoteArray(path, header.shape, header.dtype, header.offset), path.name, None, _BRIDGE)


def vector(path: Path) -> Array:
    """An array of one dimension."""
    with path.open("rb") as file:
        header = read_header(file)
    if len(header.shape) != 1:
        raise InputError(f"the array has shape {header.shape} where one entry per row is needed")
    if is_remote(path):
        _require_whole(header, path.stat().st_size)
        return RemoteArray(path, header.shape, header.dtype, header.offset)[:]
    return np.asarray(open_array(path, header, 0, path.stat().st_size))


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write the array; an npy file cannot hold ids."""
    if key is not None:
        raise InputError(f"an npy file holds one array without names, so it cannot be called {key!r}")
    with path.open("wb") as file:
        write_array(file, rows.shape, rows.dtype, rows.blocks())


def write_array(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[Array]) -> None:
    """Write an npy stream block by block."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype=dtype).data)


@dataclass(frozen=True)
class Header:
    """What the header of an npy stream declares, and where its data start."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def data_bytes(self) -> int:
        """The size of the data that the header declares."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read and check the header of an npy stream."""
    lead = file.read(8)
    if lead[:6] != b"\x93NUMPY":
        what = "a pickle, which is refused" if lead[:1] == b"\x80" else "not an npy array"
        raise InputError(f"the data are {what}: save with numpy.save(path, values, allow_pickle=False)")
    size = int.from_bytes(file.read(2 if lead[6:7] == b"\x01" else 4), "little")
    if size > _LONGEST_HEADER:
        raise InputError(f"its header has {size} bytes, and one of up to {_LONGEST_HEADER} is read: save it again")
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    elif version in ((2, 0), (3, 0)):
        shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise InputError(f"npy format version {version} is not known")
    if dtype.hasobject:
        raise InputError("the array holds pickled Python objects, which are refused: save a plain float array")
    if dtype.itemsize == 0:
        raise InputError(f"the array holds entries of no bytes ({dtype}), not numbers")
    if any(size < 0 for size in shape):
        raise InputError(f"the header declares an impossible shape {shape}")
    return Header(tuple(int(size) for size in shape), fortran_order, dtype, file.tell())


def open_array(path: Path, header: Header, start: int, available: int) -> Any:
    """The data of an npy stream that begins at byte ``start`` of a file, which stay in the file."""
    _require_whole(header, available)
    if header.data_bytes == 0:
        return np.empty(header.shape, header.dtype)
    shape = header.shape or (1,)
    matrix = PlainMatrix(path, shape, header.dtype, start + header.offset, by_columns=header.fortran_order)
    return matrix if header.shape else matrix[0]


def _require_whole(header: Header, available: int) -> None:
    if header.offset + header.data_bytes > available:
        raise InputError(
            f"the file is truncated: its header declares {header.shape} {header.dtype}, "
            f"{header.data_bytes} bytes, and {max(available - header.offset, 0)} are there"
        )


def exactly(stream: IO[bytes], size: int, what: str = "file") -> bytes:
    """So many bytes of a stream."""
    data = stream.read(size)
    if len(data) != size:
        raise InputError(f"the {what} is truncated")
    return data
