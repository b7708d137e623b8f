"""Object stores: paths such as ``s3://bucket/run.parquet`` or ``memory://run.npy``, through fsspec.

A remote path offers the few methods of :class:`pathlib.Path` that readers use. Nothing is copied: parquet files and npy
arrays are read by ranges of bytes, zarr stores chunk by chunk. ``file://`` URLs are plain paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TypeGuard
from urllib.parse import unquote, urlsplit

import numpy as np

from ..errors import InputError, import_extra
from ..representation import Array


def is_remote(path: Any) -> TypeGuard[RemotePath]:
    """Whether a path is not on this machine."""
    return isinstance(path, RemotePath)


def is_url(path: Any) -> bool:
    """Whether a path is a URL."""
    return isinstance(path, RemotePath) or (isinstance(path, str) and "://" in path)


def as_path(text: str) -> Any:
    """A local path, or a remote one."""
    if not is_url(text):
        return Path(text)
    scheme, _, rest = text.partition("://")
    if scheme in ("file", "local"):
        try:
            return Path(unquote(urlsplit(f"file://{rest}").path))
        except ValueError as error:
            raise InputError(f"{text} is no URL: {error}") from error
    return RemotePath(text)


def address(path: Any) -> str:
    """The address of a path for the workers of a cluster, which may run in other folders."""
    return str(path if is_remote(path) else path.absolute())


class RemotePath:
    """A file or folder of an object store."""

    parents: tuple[Any, ...] = ()

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    @cached_property
    def _place(self) -> tuple[Any, str]:
        fsspec = import_extra("fsspec", "dask", f"the URL {self.url}")
        try:
            system, inner = fsspec.core.url_to_fs(self.url)
        except (ValueError, ImportError) as error:  # an unknown scheme, or a package that is not installed
            raise InputError(f"{self.url} cannot be opened: {error}") from error
        return system, inner

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath, (self.url,)

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """From the last dot on."""
        return Path(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """Everything from a dot on, dot by dot."""
        return Path(self.name).suffixes

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return Path(self.name).stem

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.url}/{name}" if name else self.url)

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"RemotePath({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def resolve(self) -> RemotePath:
        """Itself: there are no links."""
        return self

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return bool(self._asked("exists"))

    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self._asked("isfile"))

    def is_dir(self) -> bool:
        """Whether there is a folder."""
        return bool(self._asked("isdir"))

    def is_symlink(self) -> bool:
        """Never: there are no links."""
        return False

    def stat(self) -> Any:
        """The size of a file."""
        return SimpleNamespace(st_size=int(self._asked("size") or 0))

    def iterdir(self) -> Iterator[RemotePath]:
        """The contents of a folder."""
        for inner in self._asked("ls", detail=False):
            yield self / str(inner).rstrip("/").rpartition("/")[2]

    def files(self) -> list[str]:
        """The names of all files in a folder and below, from the folder on."""
        start = len(self._place[1].rstrip("/")) + 1
        return [str(inner)[start:] for inner in self._asked("find")]

    def open(self, mode: str = "rb") -> IO[bytes]:
        """A file to read."""
        opened: IO[bytes] = self._asked("open", mode)
        return opened

    def read_text(self, encoding: str = "utf-8") -> str:
        """The text of a small file."""
        with self.open() as file:
            return file.read().decode(encoding)

    def store(self) -> Any:
        """A zarr store."""
        zarr = import_extra("zarr", "io", "zarr")
        return zarr.storage.FsspecStore.from_url(self.url, read_only=True)

    def _asked(self, what: str, *arguments: Any, **options: Any) -> Any:
        system, inner = self._place
        try:
            return getattr(system, what)(inner, *arguments, **options)
        except FileNotFoundError:
            raise
        except Exception as error:  # stores raise what they like: no permission, no network
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise InputError(f"{self.url} cannot be reached: {reason}") from error


class RemoteArray:
    """An npy array in an object store: row slices are ranges of bytes."""

    def __init__(self, path: RemotePath, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> None:
        self._path, self._offset = path, offset
        self.shape, self.dtype = shape, dtype

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        width = int(np.prod(self.shape[1:]))
        row_bytes = width * self.dtype.itemsize
        with self._path.open() as file:
            file.seek(self._offset + start * row_bytes)
            data = file.read((stop - start) * row_bytes)
        if len(data) != (stop - start) * row_bytes:
            raise InputError("the file is truncated")
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:])
