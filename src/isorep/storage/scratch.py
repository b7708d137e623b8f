"""Scratch file for values that cannot be memory-mapped: text, compressed or columnar files.

They are parsed once, block by block. Small ones are kept in memory; those beyond ``MEMORY_LIMIT`` go to a
nameless scratch file that is mapped and removed with the array. ``TMPDIR`` chooses its disk.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from ..representation import Array

MEMORY_LIMIT = 256 * 2**20
WORK_LIMIT = 2**30  # bytes of an intermediate result that always stay in memory
DISK_RESERVE = 256 * 2**20
BOMB_RATIO = 500
_TEXT_RATIO = BOMB_RATIO // 2  # a number takes about half as many bytes as text, if it repeats
_FREE_TEXT = 2**25  # bytes of unpacked text that are read however well they were packed
_PIECE = 2**20


def spool(blocks: Iterable[Array], stored_bytes: int, *, expected_bytes: int | None = None) -> Array:
    """Stack row blocks into one array, in memory or in a scratch file, depending on its size.

    Values that unpack to very much more than the bytes they were stored in are refused: no real ones do.
    """
    if expected_bytes is not None and expected_bytes > MEMORY_LIMIT:
        _require_disk(expected_bytes)
        require_plausible_values(expected_bytes, stored_bytes)
    held: list[Array] = []
    held_bytes = 0
    source = iter(blocks)
    for block in source:
        held.append(block)
        held_bytes += block.nbytes
        if held_bytes > MEMORY_LIMIT:
            return _spool_to_disk(held, source, stored_bytes)
    if not held:
        raise InputError("there are no rows of data")
    return held[0] if len(held) == 1 else np.concatenate(held)


def empty(shape: tuple[int, int], dtype: Any) -> Array:
    """An array to fill: in memory if it is small relative to the machine's memory, otherwise in a scratch file."""
    dtype = np.dtype(dtype)
    wanted = shape[0] * shape[1] * dtype.itemsize
    if wanted <= max(WORK_LIMIT, memory_size() // 32):
        return np.empty(shape, dtype)
    _require_disk(wanted)
    with tempfile.TemporaryFile(prefix="isorep-") as file:
        return mapped_to_fill(file, shape, dtype)


def mapped_to_fill(file: Any, shape: tuple[int, int], dtype: Any) -> Array:
    """Map a new file to fill it; its room is taken now, since a disk that fills up later ends the process (SIGBUS)."""
    wanted = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if wanted and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, wanted)
    return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


def memory_size() -> int:
    """Bytes of memory of this machine; 0 where unknown."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 0
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))


def _spool_to_disk(held: list[Array], rest: Iterable[Array], stored_bytes: int) -> Array:
    dtype, columns = held[0].dtype, held[0].shape[1]
    rows = 0
    # The file outlives this function: the memory map below keeps its storage until the array is dropped.
    with tempfile.TemporaryFile(prefix="isorep-") as file:
        while held:
            rows += _append(file, held.pop(0), dtype)
        for block in rest:
            rows += _append(file, block, dtype)
            require_plausible_values(rows * columns * dtype.itemsize, stored_bytes)
        file.flush()
        return np.memmap(file, dtype=dtype, mode="r", shape=(rows, columns))


def _append(file: Any, block: Array, dtype: np.dtype[Any]) -> int:
    _require_disk(block.nbytes)
    np.ascontiguousarray(block, dtype=dtype).tofile(file)
    return len(block)


def require_plausible_values(unpacked: int, stored: int) -> None:
    """Refuse values that unpack to very much more than the bytes they were stored in."""
    if unpacked > MEMORY_LIMIT and unpacked > BOMB_RATIO * stored:
        raise InputError(f"{stored} bytes unpack to {unpacked} or more: it may be a bomb, real values do not repeat so")


@contextmanager
def unpacked(path: Path, *, packed: bool, newline: str | None = None) -> Iterator[IO[str]]:
    """The text of a file, plain or gzipped."""
    with (
        path.open("rb") as raw,
        io.TextIOWrapper(unpacked_bytes(raw) if packed else raw, "utf-8-sig", newline=newline) as file,
    ):
        yield file


def unpacked_bytes(file: IO[bytes]) -> gzip.GzipFile:
    """The bytes of a gzipped text, which is refused if it unpacks to very much more than it takes.

    It is unpacked once to count them: that takes a small part of the time in which rows of text are read.
    """
    stored, text = os.fstat(file.fileno()).st_size, 0
    with gzip.GzipFile(fileobj=file, mode="rb") as counted:
        while size := len(counted.read(_PIECE)):
            text += size
            if text > _FREE_TEXT and text > _TEXT_RATIO * stored:
                told = f"{stored} bytes unpack to {text} or more"
                raise InputError(f"{told}: it may be a bomb, real tables do not repeat so")
    file.seek(0)
    return gzip.GzipFile(fileobj=file, mode="rb")


def _require_disk(wanted: int) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if wanted + DISK_RESERVE > free:
        raise InputError(
            f"{sized(wanted)} of scratch space are needed, {sized(DISK_RESERVE)} must stay free, and {folder} has "
            f"{sized(free)}: set TMPDIR to a larger disk"
        )


def sized(count: int) -> str:
    """Bytes in a unit in which they are at least 1, such as ``1.5 MiB``."""
    power = min(max(count.bit_length() - 1, 0) // 10, 3)
    return f"{count / 2 ** (10 * power):.1f} {('', 'KiB', 'MiB', 'GiB')[power]}" if power else f"{count} bytes"
