"""Members of tar archives, read one after the other and never extracted to where they want to lie."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from ..errors import InputError


def members(path: Path, wanted: Callable[[str], bool], *, each: int, total: int) -> Iterator[tuple[str, bytes]]:
    """The base names and contents of the regular files that are wanted by their full name.

    Links, folders and devices are passed over. A member larger than ``each`` bytes, or an archive that unpacks to more
    than ``total``, is refused.
    """
    with gzip.open(path, "rb") as packed, tarfile.open(fileobj=_limited(packed, path, total), mode="r|") as archive:
        for member in archive:
            if not member.isreg() or not wanted(member.name):
                continue
            if member.size > each:
                raise InputError(f"{path.name} holds {member.name!r} of {member.size} bytes, more than is published")
            stream = archive.extractfile(member)
            data = b"" if stream is None else stream.read()
            if len(data) != member.size:
                raise InputError(f"{path.name} is truncated in {member.name!r}")
            yield PurePosixPath(member.name).name, data


def _limited(packed: object, path: Path, total: int) -> IO[bytes]:
    return cast("IO[bytes]", _Limited(cast("IO[bytes]", packed), path, total))


class _Limited:
    """A stream that ends in a refusal once it has given so many bytes."""

    def __init__(self, stream: IO[bytes], path: Path, most: int) -> None:
        self._stream = stream
        self._path = path
        self._left = most

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"{self._path.name} unpacks to more than is published: it may be a bomb")
        return data
