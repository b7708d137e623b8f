"""``isorep.read``: from a path to a Representation, by suffix; and the interfaces of readers and writers."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from ..annotated import is_annotated
from ..chunked import ChunkedRows
from ..errors import InputError, MissingFileError
from ..files import visible
from ..representation import Array, Matrix, Representation, as_representation, numbered_ids
from ..results import cut_inside
from .lazy import held_if_small, release
from .remote import as_path, is_url

# Suffix -> module of this package. A module offers load(path, key, ids, besides), save(path, rows, key) and, where
# files carry more than values, column(path, name).
_FAMILIES = {
    ".npy": "npy",
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".csv": "text",
    ".csv.gz": "text",
    ".tsv": "text",
    ".tsv.gz": "text",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".gct": "gct",
    ".gct.gz": "gct",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".h5ad": "hdf5",
    ".zarr": "zarr",
    ".pt": "torch_files",
    ".pth": "torch_files",
}
Result = TypeVar("Result")
_ZARR_METADATA = ("zarr.json", ".zarray", ".zgroup")
_BLOCK_BYTES = 2**25


@dataclass(frozen=True)
class Contents:
    """Contents of a file: values, row ids where there are any, and columns left out or converted."""

    values: Any
    ids: Array | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns or arrays that were not taken, and why
    converted: Mapping[str, str] = field(default_factory=dict)  # columns that were taken as numbers, and from what
    columns: tuple[str, ...] | None = None  # the names of a table's columns, or of AnnData's variables
    part: str = ""  # the name of the array or tensor in the file
    taken: str = ""  # the same in words, where it was not named


class Labels(Protocol):
    """One label per row, such as integers or text: an array, or an object that gives slices of one."""

    @property
    def dtype(self) -> Any: ...  # noqa: D102
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Any: ...


@dataclass(frozen=True)
class RowStream:
    """Input of a writer: the rows in blocks, and their ids and further labels to be written."""

    values: Matrix
    ids: Array | None  # parquet and zarr write them in slices, so anything like Labels will do there
    dtype: np.dtype[Any]  # little-endian floating point
    labels: Mapping[str, Labels] = field(default_factory=dict)  # tables, zarr and h5ad store them with the ids

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.values.shape
        return int(rows), int(columns)

    def blocks(self, multiple: int = 1) -> Iterator[Array]:
        """Consecutive row blocks in C order; all but the last have a multiple of that many rows.

        While one block is written the next is made ready, so that reading, computing and writing overlap.
        """
        rows, columns = self.shape
        # The rows of a Dask array are asked for several blocks at a time, so that all workers are busy.
        bytes_at_once = _BLOCK_BYTES * (8 if isinstance(self.values, ChunkedRows) else 1)
        step = max(1, bytes_at_once // (columns * self.dtype.itemsize * multiple)) * multiple

        def made(start: int) -> Array:
            block = np.ascontiguousarray(self.values[start : min(start + step, rows)], dtype=self.dtype)
            return np.array(block) if isinstance(block, np.memmap) else block  # its pages are given back

        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(made, 0)
            for start in range(step, rows + step, step):
                block = coming.result()
                release(self.values)
                if start < rows:
                    coming = ahead.submit(made, start)
                yield block

    def placed(self, multiple: int = 1) -> Iterator[tuple[slice, Array]]:
        """The same blocks with the rows that they are."""
        start = 0
        for block in self.blocks(multiple):
            yield slice(start, start + len(block)), block
            start += len(block)

    def fill(self, target: Any, multiple: int = 1) -> None:
        """Write all rows into an array of the same shape."""
        for rows, block in self.placed(multiple):
            target[rows] = block

    def all_labels(self, ids: str) -> dict[str, Labels]:
        """Further labels, after the row ids where there are any, under the name that a format has for them."""
        return ({} if self.ids is None else {ids: self.ids}) | dict(self.labels)


def is_zarr(path: Path) -> bool:
    """Whether a folder is a zarr array or group."""
    return any((path / name).is_file() for name in _ZARR_METADATA)


def read(
    path: Any,
    *,
    key: str | None = None,
    ids: str | None = None,
    name: str | None = None,
    besides: Collection[str | None] = (),
    in_chunks: bool = False,
    repeated_ids: bool = False,
) -> Representation:
    """Read a representation from a file; large values stay in the file where possible.

    Parameters
    ----------
    path : str, Path or AnnData
        A ``.npy``, ``.npz``, ``.safetensors``, ``.pt``, ``.csv``, ``.tsv``, ``.gct``, ``.jsonl`` (also ``.gz``),
        ``.parquet``, ``.h5``, ``.h5ad`` or ``.zarr`` file, or a folder of such files with consecutive rows.
        ``file::key`` names the key as well. Also the URL of a parquet file, an npy array or a zarr store, or of a
        folder of them, that fsspec can open (``s3://``, ``gs://``, ``memory://``, ``file://``).
    key : str, optional
        Part of the file: the array of an npz, HDF5 or zarr file, the tensor of a safetensors or torch file, the matrix
        of AnnData (``X``, an obsm entry by its name, ``layers/NAME`` or ``raw/X``), the list column of a parquet file,
        or a prefix of the columns of a table. Default: the only one in the file; in AnnData X, or the only obsm entry
        if there is no X; in a table the ``feature_*`` columns, else the one list column, else every numeric column that
        is not ``Metadata_*``.
    ids : str, optional
        The array or tensor, or the column of a table or of AnnData's obs, with the row ids. Default: ``ids`` or
        ``id`` where the file has one, or the index a data frame was saved with; in AnnData obs_names.
    name : str, optional
        Name of the representation; default: the file's name.
    besides : collection of str
        Columns that are used otherwise, such as groups and labels: not features, and not counted as left out. The part
        before ``::`` in a name, and None, are ignored.
    in_chunks : bool
        Process the rows in the workers of the current Dask cluster: only headers and ids are read here. The workers
        must have access to the same paths. Not for text or files compressed as a whole. Default: no.
    repeated_ids : bool
        Accept row ids that occur several times, as obs_names may: a number is added to all but the first. Default:
        they are an error, since rows cannot be paired by them.

    Returns
    -------
    Representation
        Its ``left_out`` and ``converted`` name the columns or arrays that were left out or converted, its ``columns``
        the features where they have names. Arrays
        of npy, uncompressed npz, safetensors and torch files are read at once up to 64 MiB. Above, and in HDF5 and
        zarr, rows are read when they are needed. The other formats are parsed once, in blocks, into memory or
        (above 256 MiB) into a scratch file.

    Examples
    --------
    >>> import numpy as np, isorep, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.savez(folder / "run.npz", latents=np.eye(3), ids=["a", "b", "c"])
    >>> isorep.read(folder / "run.npz")
    Representation('run.npz', 3 rows x 3 columns, float64, with ids)
    """
    if is_annotated(path):
        return _read_object(path, key, ids, name, repeated_ids)
    path, key = split_key(path, key)
    module = import_module(".parts", __package__) if in_chunks else reader(path)
    used = {each.rpartition("::")[2] for each in besides if each is not None}
    contents = _named(guarded(path, module.load, path, key, ids, used), key)
    left_out = {each: reason for each, reason in contents.left_out.items() if each not in used}
    origin = f"{path}::{contents.part}" if contents.part else str(path)
    row_ids = contents.ids
    numbered: dict[str, str] = {}
    if repeated_ids and row_ids is not None:
        row_ids, numbered = numbered_ids(np.asarray(row_ids))
    converted = dict(contents.converted) | numbered
    described = (name or path.name, left_out, converted, origin, contents.taken, contents.columns)
    return guarded(path, Representation, guarded(path, held_if_small, contents.values), row_ids, *described)


def _read_object(data: Any, key: str | None, ids: str | None, name: str | None, repeated_ids: bool) -> Representation:
    """The matrix of an AnnData object in memory."""
    if ids is None:
        return as_representation(data, name or "AnnData", key, repeated_ids=repeated_ids)
    if ids not in data.obs.columns:
        raise InputError(f"there is no column {ids!r} in obs; there are {', '.join(map(str, data.obs.columns[:12]))}")
    representation = as_representation(data, name or "AnnData", key, repeated_ids=True)
    row_ids = np.asarray(data.obs[ids])
    numbered: dict[str, str] = {}
    if repeated_ids:
        row_ids, numbered = numbered_ids(row_ids)
    return replace(representation, ids=row_ids, converted=numbered)


def column(path: str | Path, name: str, *, missing: bool = False) -> Array:
    """One named column (table, AnnData) or one-dimensional array (the other formats) of a file: groups, labels, ids.

    Missing entries are refused, or with ``missing`` given as empty text.
    """
    path, _ = split_key(path, None)
    module = reader(path)
    if not hasattr(module, "column"):
        raise InputError(f"{path.name} holds values only, so it has no column {name!r}")
    gaps = missing and getattr(module, "GAPS", False)
    entries: Array = guarded(path, *((module.column, path, name, True) if gaps else (module.column, path, name)))
    return entries


def labels(where: str, source: str | Path, *, missing: bool = False) -> Array:
    """Labels of rows from a column of the source, from ``file::column``, or from an npy file of one dimension.

    Missing entries are refused, or with ``missing`` given as empty text.
    """
    path, name = split_key(where, None)
    if name is not None:
        return column(path, name, missing=missing)
    if not path.exists():
        if any(where.lower().endswith(suffix) for suffix in _FAMILIES):
            raise MissingFileError(f"{where} does not exist")
        return column(source, where, missing=missing)
    module = reader(path)
    if not hasattr(module, "vector"):
        raise InputError(f"{path.name} may hold several columns: name one as {path.name}::COLUMN")
    vector: Array = guarded(path, module.vector, path)
    return vector


def suffixes() -> list[str]:
    """The suffixes that can be read."""
    return list(_FAMILIES)


def _named(contents: Contents, key: str | None) -> Contents:
    """Contents with the name of their part where the user gave it, so that parts of one file can be told apart."""
    return contents if contents.part or key is None else replace(contents, part=key)


def split_key(path: str | Path, key: str | None) -> tuple[Path, str | None]:
    """``file::key`` as a path and a key."""
    text = str(path)
    if "::" in text and (is_url(text) or not Path(text).exists()):
        whole, pieces = text, text.split("::")
        ends = range(1, len(pieces))  # a key may hold the mark itself: the first path that is there is the file
        split = next((end for end in ends if not is_url(whole) and _there("::".join(pieces[:end]))), len(pieces) - 1)
        text, inner = "::".join(pieces[:split]), "::".join(pieces[split:])
        key = key or inner
    if not text.strip():  # a variable of the shell that is not set; as a path it would be the current folder
        raise InputError("the name of a file is empty")
    return as_path(text), key


def _there(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # a name that is too long
        return False


def family(path: Path, verb: str = "read") -> Any:
    """The module for a suffix."""
    lowered = path.name.lower()
    matching = [suffix for suffix in _FAMILIES if lowered.endswith(suffix)]
    if not matching:
        suffix = "".join(path.suffixes[-1:]) or "no suffix"
        raise InputError(f"{path.name}: cannot {verb} {suffix}; known are {', '.join(_FAMILIES)}")
    return import_module(f".{_FAMILIES[max(matching, key=len)]}", __package__)


def reader(path: Path) -> Any:
    """The module that reads a file or folder that exists."""
    try:
        there = path.exists()
    except OSError as error:
        raise InputError(f"{str(path)[:60]}... cannot be looked up: {error.strerror}") from error
    if not there:
        raise MissingFileError(f"{path} does not exist")
    if path.is_dir():
        store = path.name.lower().endswith(".zarr") or is_zarr(path)
        return import_module(f".{'zarr' if store else 'shards'}", __package__)
    if is_url(path) and not path.name.lower().endswith((".npy", ".parquet", ".pq")):
        raise InputError(f"{path}: of URLs parquet, npy and zarr are read, and folders of these")
    if not path.is_file():
        raise InputError(f"{path.name} is not a regular file")
    if not is_url(path) and not os.access(path, os.R_OK):  # some libraries would call it damaged
        raise InputError(f"{path.name} cannot be read: {os.strerror(errno.EACCES)}")
    if path.stat().st_size == 0:
        family(path)
        raise InputError(f"{path.name} is empty (0 bytes)")
    return family(path)


def guarded(path: Path, action: Callable[..., Result], *arguments: Any) -> Result:
    """Run a reader on an untrusted file: any exception becomes one sentence about the file."""
    try:
        return action(*arguments)
    except InputError as error:
        text = str(error)
        plain = cut_inside(visible(text), _LONGEST_SENTENCE)  # names in the file may hold anything
        if path.name in text and plain == text:
            raise
        raise InputError(plain if path.name in text else f"{path.name}: {plain}") from error
    except MemoryError as error:
        raise InputError(f"{path.name} cannot be read: there is not enough memory for it") from error
    except OSError as error:
        if error.errno not in _NOT_DAMAGED:
            raise _damaged(path, error) from error
        raise InputError(f"{path.name} cannot be read: {os.strerror(error.errno)}") from error
    except Exception as error:
        raise _damaged(path, error) from error


_LONGEST_SENTENCE = 1500

# What the system says of a disk, of rights or of limits: the file itself may be sound.
_NOT_DAMAGED = (
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ESTALE,
)


def _damaged(path: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return InputError(f"{path.name} cannot be read, it may be damaged: {reason}")


def loaded(data: Any, name: str) -> Representation:
    """A representation from a path, which is read, or from anything else as it is."""
    return read(data) if isinstance(data, str | Path) else as_representation(data, name)
