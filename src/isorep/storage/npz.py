"""numpy ``.npz`` archives: members stored plain stay in the file, compressed ones unpacked in blocks."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .naming import choose_named, require_plausible, require_vector
from .npy import Header, exactly, open_array, read_header, write_array
from .registry import Contents, RowStream
from .scratch import spool

DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What reading a zip archive raises that is damaged, encrypted, or packed in a way that Python does not know."""
_BLOCK_BYTES = 2**24


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Read one array of an archive, and the array of row ids where there is one."""
    with _open(path) as archive:
        headers = {name: _header(archive, info) for name, info in _members(archive).items()}
        shapes = {name: header.shape for name, header in headers.items()}
        name, ids_name, left_out = choose_named(shapes, key, ids, "array")
        if ids_name in headers and headers[ids_name].shape != headers[name].shape[:1]:
            raise InputError(f"array {name!r} has shape {headers[name].shape} and its ids {headers[ids_name].shape}")
        row_ids = None if ids_name is None else _vector(path, archive, headers, ids_name)
        values = _read(path, archive, name, headers[name])
    return Contents(values, row_ids, left_out, part=name)


def column(path: Path, name: str) -> Array:
    """A one-dimensional array of an archive."""
    with _open(path) as archive:
        headers = {member: _header(archive, info) for member, info in _members(archive).items()}
        return _vector(path, archive, headers, name)


def peek(path: Path, name: str) -> Header:
    """The header of one array of an archive; no other member is read."""
    with _open(path) as archive:
        return _header(archive, _named(archive, name))


def array(path: Path, name: str) -> Any:
    """One array of an archive, left in the file or unpacked in blocks; no other member is read."""
    with _open(path) as archive:
        return _read(path, archive, name, _header(archive, _named(archive, name)))


def flat_blocks(path: Path, name: str) -> Iterator[Array]:
    """The entries of one array of an archive in blocks, as columns, in the order they are stored in."""
    with _open(path) as archive:
        info = _named(archive, name)
        header = _header(archive, info)
        with archive.open(info) as stream:
            stream.read(header.offset)
            yield from _flat_blocks(stream, header)


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write the arrays ``values`` and ``ids``, stored plain so that they can be read in part."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with _member(archive, key or "values") as stream:
            write_array(stream, rows.shape, rows.dtype, rows.blocks())
        if rows.ids is not None:
            with _member(archive, "ids") as stream:
                write_array(stream, rows.ids.shape, rows.ids.dtype, [rows.ids])


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)  # a fixed date: the same bytes again


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"this is not a complete npz (zip) archive: {error}") from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    found = {info.filename[:-4]: info for info in members}
    if len(found) < len(members):
        names = Counter(info.filename[:-4] for info in members)
        raise InputError(f"two arrays are called {names.most_common(1)[0][0]!r}")
    return found


def _named(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    members = _members(archive)
    if name not in members:
        raise InputError(f"there is no array {name!r}; there are {', '.join(members) or 'none'}")
    return members[name]


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    if info.flag_bits & 1:
        raise InputError(f"array {info.filename[:-4]!r} is encrypted, which is not read")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked without a limit
        raise InputError(f"array {info.filename[:-4]!r} is not compressed the way numpy does: save it again")
    with archive.open(info) as stream:
        try:
            header = read_header(stream)
        except InputError as error:
            raise InputError(f"array {info.filename[:-4]!r}: {error}") from error
    if header.offset + header.data_bytes != info.file_size:
        raise InputError(
            f"array {info.filename[:-4]!r} declares {header.shape} {header.dtype} and its member has another size"
        )
    return header


def _vector(path: Path, archive: zipfile.ZipFile, headers: dict[str, Header], name: str) -> Array:
    require_vector({member: header.shape for member, header in headers.items()}, name, "array")
    header = headers[name]
    require_plausible(header.data_bytes, archive.getinfo(f"{name}.npy").compress_size, f"array {name!r}")
    return np.asarray(_read(path, archive, name, header))


def _read(path: Path, archive: zipfile.ZipFile, name: str, header: Header) -> Any:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
        return open_array(path, header, _data_start(path, info), info.file_size)
    with archive.open(info) as stream:
        stream.read(header.offset)
        if header.data_bytes == 0:
            return np.empty(header.shape, header.dtype)
        flat = spool(_flat_blocks(stream, header), info.compress_size, expected_bytes=header.data_bytes)
        return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after its local header, whose extra field may differ from the directory's."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
        if len(local) < 30 or local[:4] != b"PK\x03\x04":
            raise InputError("the archive's directory points to no member")
        name_length, extra_length = struct.unpack("<HH", local[26:30])
    return int(info.header_offset + 30 + name_length + extra_length)


def _flat_blocks(stream: IO[bytes], header: Header) -> Iterator[Array]:
    """The entries in the order they are stored in, as one column: rows and columns are a view of them."""
    entries = math.prod(header.shape)
    step = max(1, _BLOCK_BYTES // header.dtype.itemsize)
    for start in range(0, entries, step):
        count = min(step, entries - start)
        data = exactly(stream, count * header.dtype.itemsize, "archive")
        yield np.frombuffer(data, header.dtype).reshape(count, 1)
