"""HDF5 files, including AnnData's ``.h5ad``, sliced lazily; links to other files are not followed.

Compressed chunks are checked before they are unpacked: HDF5 and zarr unpack without a limit.
"""

from __future__ import annotations

import itertools
import math
import shutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..representation import Array
from . import tree
from .examine import examine
from .naming import as_text, require_plausible, require_vector
from .registry import Contents, RowStream
from .scratch import MEMORY_LIMIT

_BRIDGE = 2**16
_MOST_NODES = 2 * 10**4
_DEEPEST = 64  # groups in each other: to walk through them takes the square of their number

GAPS = True  # columns may have missing entries


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Open one dataset, and read the dataset of row ids where there is one."""
    return tree.load_tree(HDF5Tree(path), key, ids)


def column(path: Path, name: str, missing: bool = False) -> Array:
    """A one-dimensional dataset, or a column of an AnnData object."""
    return tree.column_of_tree(HDF5Tree(path), name, missing)


def columns(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The columns of obs of an AnnData object, and those that are not read; none of any other file."""
    held = HDF5Tree(path)
    return tree.columns(held) if tree.is_annotated(held) else ({}, {})


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write the datasets ``values`` and ``ids``; an ``.h5ad`` file holds the values as an entry of obsm."""
    with writing(path, "w") as (file, check):
        if path.suffix.lower() == ".h5ad":
            _save_annotated(file, rows, key or "X_isorep", check)
            return
        _write_values(file, key or "values", rows, check)
        if rows.ids is not None:
            _write_labels(file, "ids", rows.ids)


def _save_annotated(file: Any, rows: RowStream, key: str, check: Callable[[], None]) -> None:
    """An AnnData object without X and var: obs_names, and one entry of obsm."""
    _encode(file, "anndata", "0.1.0")
    for group in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
        _encode(file.create_group(group), "dict", "0.1.0")
    names = np.arange(rows.shape[0]) if rows.ids is None else rows.ids
    for frame, index in (("obs", names.astype(str)), ("var", np.array([], dtype=str))):
        group = file.create_group(frame)
        _encode(group, "dataframe", "0.2.0")
        group.attrs["_index"] = "_index"
        labels = rows.labels if frame == "obs" else {}
        order = np.array(list(labels), dtype=object) if labels else np.array([], dtype=np.float64)  # as anndata does
        group.attrs["column-order"] = order
        _encode(_write_labels(group, "_index", index), "string-array", "0.2.0")
        for name, held in labels.items():
            _write_column(group, name, held[0 : rows.shape[0]])
    _encode(_write_values(file["obsm"], key.removeprefix("obsm/"), rows, check), "array", "0.2.0")


def _write_column(group: Any, name: str, cells: Any) -> None:
    """A column of obs: numbers and flags as they are, anything else as text; what is missing is empty."""
    held = np.asarray(cells)
    if "/" in name or name in (".", ".."):
        raise InputError(f"column {name!r} cannot be a column of obs: its name has a slash, or is a dot")
    if held.dtype.kind in "iufb":
        _encode(group.create_dataset(name, data=held), "array", "0.2.0")
    else:
        texts = np.array(["" if cell is None else str(cell) for cell in held.tolist()], dtype=str)
        _encode(_write_labels(group, name, texts), "string-array", "0.2.0")


def copy_with(source: Path, path: Path, rows: RowStream, key: str, beside: Mapping[str, Mapping[str, Array]]) -> None:
    """Copy an ``.h5ad`` file with one more entry of obsm, and further arrays in groups such as ``varm``."""
    shutil.copyfile(source, path)
    with writing(path, "r+") as (file, check):
        for group in ("obsm", *beside):
            parent = file
            for part in group.split("/"):
                if part not in parent:
                    _encode(parent.create_group(part), "dict", "0.1.0")
                parent = parent[part]
        if key in file["obsm"]:
            del file["obsm"][key]
        _encode(_write_values(file["obsm"], key, rows, check), "array", "0.2.0")
        for group, arrays in beside.items():
            for name, held in arrays.items():
                if name in file[group]:
                    del file[group][name]
                _encode(file[group].create_dataset(name, data=held), "array", "0.2.0")


def others(path: Path, besides: Collection[str]) -> dict[str, Array]:
    """The columns of an AnnData file's obs."""
    held = HDF5Tree(path)
    if not tree.is_annotated(held):
        return {}
    index = str(held.attributes("obs").get("_index", "_index"))
    named = [str(name) for name in held.attributes("obs").get("column-order", held.names("obs"))]
    return {
        name: tree.column_of_tree(held, name, True) for name in named if name not in (index, "__categories", *besides)
    }


def _encode(node: Any, kind: str, version: str) -> None:
    node.attrs["encoding-type"] = kind
    node.attrs["encoding-version"] = version


def _write_values(group: Any, name: str, rows: RowStream, check: Callable[[], None]) -> Any:
    dataset = group.create_dataset(name, rows.shape, rows.dtype)
    for place, block in rows.placed():
        dataset[place] = block
        check()
    return dataset


def _write_labels(group: Any, name: str, labels: Array) -> Any:
    """Write integers as they are and text as UTF-8."""
    if labels.dtype.kind in "iu":
        return group.create_dataset(name, data=labels)
    return group.create_dataset(name, data=labels.astype(object), dtype=h5py().string_dtype())


@contextmanager
def writing(path: Path, mode: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """An HDF5 file to write, and a function that raises if a write has failed.

    HDF5 itself may end the process where a write fails, as on a full disk, so it is not told: the error is raised by
    the function, or after the file has been closed.
    """
    with path.open("r+b" if mode == "r+" else "w+b", buffering=0) as raw:
        sink = _Sink(raw)
        try:
            with h5py().File(sink, mode) as file:
                yield file, sink.check
        except Exception:
            sink.check()  # what HDF5 makes of a write that was lost
            raise
        sink.check()


class _Sink:
    """A file whose writes never fail: from the first error on, which is kept, they go to memory."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._error: BaseException | None = None
        self._held: list[tuple[int, bytes]] = []
        self.read, self.seek, self.tell, self.flush = raw.read, raw.seek, raw.tell, raw.flush

    def check(self) -> None:
        """Raise the error that was kept."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        """Write all bytes at the place that was sought."""
        place, view = self._raw.tell(), memoryview(data).cast("B")
        self._unless_lost(self._write_all, view)
        if self._error is not None:
            self._held.append((place, bytes(view)))
        return len(view)

    def truncate(self, size: int) -> int:
        """Set the size of the file."""
        self._unless_lost(self._raw.truncate, size)
        return size

    def readinto(self, buffer: Any) -> int:
        """Read at the place that was sought, as HDF5 does with parts that it has written before."""
        place, view = self._raw.tell(), memoryview(buffer).cast("B")
        count = int(self._raw.readinto(view))
        if self._error is None:
            return count
        view[count:] = bytes(len(view) - count)
        for start, data in self._held:
            first, last = max(start, place), min(start + len(data), place + len(view))
            if first < last:
                view[first - place : last - place] = data[first - start : last - start]
        return len(view)

    def _write_all(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += self._raw.write(view[done:])

    def _unless_lost(self, action: Callable[[Any], Any], argument: Any) -> None:
        try:
            if self._error is None:
                action(argument)
        except BaseException as error:  # an interrupt too: it is raised when HDF5 has done its part
            self._error = error


def h5py() -> Any:
    """The package, which is optional."""
    return import_extra("h5py", "io", "HDF5")


class HDF5Tree(tree.Tree):
    """The datasets and groups of a file, which stays open while one of its arrays is in use."""

    noun = "dataset"

    def __init__(self, path: Path, *, examined: bool = False) -> None:
        self.path, self.bridge = path, _BRIDGE
        self._h5py = h5py()
        if not examined:
            examine(path)
        self.group, self.array = self._h5py.Group, self._h5py.Dataset
        self._file = self._h5py.File(path, "r")

    def attributes(self, name: str) -> Mapping[str, Any]:
        """The attributes of a node."""
        node = self._node(name)
        return {} if node is None else {key: _plain(node.attrs, key) for key in node.attrs if key in _READ_ATTRIBUTES}

    def chunks(self, name: str) -> tuple[int, ...] | None:
        """The chunks of a dataset; None where it lies in one piece."""
        chunks = self._array(name).chunks
        return None if chunks is None else tuple(int(size) for size in chunks)

    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shapes of all datasets, and the kinds of their dtypes."""
        shapes: dict[str, tuple[tuple[int, ...], str]] = {}
        pending: list[tuple[str, Any]] = [("", self._file)]
        seen = {self._file.id}
        while pending:
            before, group = pending.pop()
            names = sorted(group.keys())
            if len(shapes) + len(names) > _MOST_NODES or before.count("/") > _DEEPEST:
                raise InputError(
                    f"it has more than {_MOST_NODES} datasets, or more than {_DEEPEST} groups in each other"
                )
            for name in names:
                if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
                    continue  # not followed
                node = group[name]
                if isinstance(node, self._h5py.Dataset):
                    shapes[f"{before}{name}"] = tuple(node.shape or ()), node.dtype.kind
                elif isinstance(node, self._h5py.Group) and node.id not in seen:
                    seen.add(node.id)
                    pending.append((f"{before}{name}/", node))
        return dict(sorted(shapes.items()))

    def vector(self, name: str) -> Array:
        """A one-dimensional dataset, as numbers or text."""
        dataset = self._array(name)
        require_vector({name: tuple(dataset.shape)}, name, "dataset")
        stored = self.path.stat().st_size
        require_plausible(dataset.size * max(16, dataset.dtype.itemsize), stored, f"dataset {name!r}")
        checked = CheckedDataset(dataset)
        checked.check(0, len(dataset))
        if self._h5py.check_string_dtype(dataset.dtype) is not None:
            try:  # many writers call UTF-8 ASCII
                return as_text(dataset.asstr("utf-8")[:], stored, f"dataset {name!r}")
            except UnicodeDecodeError as error:
                raise InputError(f"dataset {name!r} holds text that is not UTF-8") from error
        if dataset.dtype.kind not in "fiub":
            raise InputError(f"dataset {name!r} holds {dataset.dtype}, which is neither numbers nor text")
        return checked[0 : len(dataset)]

    def checked(self, name: str) -> CheckedDataset:
        """A dataset whose chunks are checked before they are unpacked."""
        return CheckedDataset(self._array(name))

    def _checked(self, array: Any) -> CheckedDataset:
        return CheckedDataset(array)

    def _array(self, name: str) -> Any:
        node = super()._array(name)
        if node.is_virtual or node.external:
            raise InputError(f"dataset {name!r} lies in other files, which are not followed: copy it into one file")
        return node

    def _node(self, name: str) -> Any:
        node = self._file
        for part in filter(None, name.split("/")):
            link = node.get(part, getlink=True) if isinstance(node, self._h5py.Group) else None
            if link is None:
                return None
            if not isinstance(link, self._h5py.HardLink):
                raise InputError(f"{name!r} is a link to another place, which is not followed")
            node = node[part]
        return node


_LISTS = ("shape", "h5sparse_shape", "column-order")
_READ_ATTRIBUTES = ("encoding-type", "_index", *_LISTS)


def _plain(attributes: Any, key: str) -> str | list[Any]:
    value = attributes[key]
    if key in _LISTS:
        return [
            each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in np.ravel(value).tolist()
        ]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


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
    def stored_bytes(self, enough: int) -> int:
        """The bytes that the array takes in its file or folder; counting may stop once there are ``enough``."""

    @abstractmethod
    def _check_chunk(self, position: tuple[int, ...]) -> None:
        """Check the chunk at a place of the grid, where there is one."""


def bomb(position: tuple[int, ...], size: int) -> InputError:
    """The refusal of a chunk that unpacks to more than its size."""
    return InputError(f"chunk {position} unpacks to more than its {size} bytes: it may be a bomb")


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
    return True  # no real chunk has so many streams


class CheckedDataset(CheckedChunks):
    """An HDF5 dataset."""

    def __init__(self, dataset: Any) -> None:
        self._packing = _packing(dataset)
        super().__init__(dataset, dataset.chunks if self._packing else None)
        stored = dataset.dtype.itemsize if dataset.dtype.kind != "O" else _REFERENCE
        self._size = math.prod(dataset.chunks or ()) * stored

    def stored_bytes(self, enough: int) -> int:
        """The bytes of the dataset in the file."""
        return int(self._stored.id.get_storage_size())

    def _check_chunk(self, position: tuple[int, ...]) -> None:
        corner = tuple(step * index for step, index in zip(self._stored.chunks, position, strict=True))
        info = self._stored.id.get_chunk_info_by_coord(corner)
        if info.byte_offset is None:
            return  # never written: it is read as the fill value
        if info.size > self._size + SLACK:
            raise bomb(position, self._size)
        if self._packing == _LZF:
            if info.size * _MOST_LZF > MEMORY_LIMIT:
                raise InputError(f"chunk {position} takes {info.size} bytes: save it with gzip, or in smaller chunks")
        elif info.size * MOST_DEFLATE > MEMORY_LIMIT and inflates_beyond(
            self._stored.id.read_direct_chunk(corner)[1], self._size + SLACK
        ):
            raise bomb(position, self._size)


_REFERENCE = 16  # bytes in place of a text, which lies elsewhere
_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF = 1, 2, 3, 32000
_MOST_LZF = 100


def _packing(dataset: Any) -> int | None:
    """The one filter that compresses, if there is one."""
    if dataset.chunks is None:
        return None
    settings = dataset.id.get_create_plist()
    filters = [int(settings.get_filter(index)[0]) for index in range(settings.get_nfilters())]
    unknown = [code for code in filters if code not in (_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF)]
    if unknown:
        raise InputError(f"it is packed with HDF5 filter {unknown[0]}, which is not read: save it with gzip or plain")
    packing = [code for code in filters if code in (_DEFLATE, _LZF)]
    if len(packing) > 1:
        raise InputError("it is compressed more than once, which is refused")
    return packing[0] if packing else None
