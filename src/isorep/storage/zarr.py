"""zarr stores (a ``.zarr`` folder), formats 2 and 3, sliced where they lie.

What the codecs of a zarr array may do: turn bytes into numbers or text, and not into far more than declared.

What a store on this machine may hold: regular files and folders. A chunk that is a pipe would be waited for, a device
read without end.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..files import require_plain
from ..representation import Array
from . import tree as hierarchy
from .hdf5 import CheckedChunks, bomb, inflates_beyond
from .naming import as_text, require_plausible, require_vector
from .registry import Contents, Labels, RowStream, is_zarr
from .remote import is_remote

_BRIDGE = 2**20
_CHUNK_BYTES = 2**22
_CHUNK_LABELS = 2**16
_MOST_METADATA = 2**24  # bytes; parsed they take some twenty times as many
_LONGEST_ENTRY = 2**24
_DEEPEST = 64  # groups in each other
_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")

GAPS = True  # columns may have missing entries


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Open the array, or one array of the group, and read the array of row ids where there is one."""
    tree = ZarrTree(path)
    if tree.shape("") is None:
        contents = hierarchy.load_tree(tree, key, ids)
        return replace(contents, converted=dict(contents.converted) | tree.absent)
    for option, given in (("key", key), ("ids", ids)):
        if given is not None:
            raise InputError(f"it is one zarr array without names, so {option} {given!r} cannot be found in it")
    return Contents(tree.matrix(""), converted=tree.absent)


def column(path: Path, name: str, missing: bool = False) -> Array:
    """A one-dimensional array of a group, or a column of an AnnData object."""
    tree = ZarrTree(path)
    if tree.shape("") is not None:
        raise InputError(f"it is one zarr array, so it has no column {name!r}")
    return hierarchy.column_of_tree(tree, name, missing)


def columns(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The columns of obs of an AnnData object, and those that are not read; none of any other file."""
    held = ZarrTree(path)
    return hierarchy.columns(held) if hierarchy.is_annotated(held) else ({}, {})


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write one array; with ids, labels or a key, a group with the arrays ``values``, ``ids`` and one a label."""
    zarr = _zarr()
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    chunk_rows = min(rows.shape[0], max(1, _CHUNK_BYTES // row_bytes))
    layout = {"shape": rows.shape, "dtype": rows.dtype, "chunks": (chunk_rows, rows.shape[1])}
    labels = rows.all_labels("ids")
    if not labels and key is None:
        values = zarr.create_array(path, overwrite=True, **layout)
    else:
        group = zarr.open_group(path, mode="w")
        values = group.create_array(key or "values", **layout)
        for name, held in labels.items():
            _save_labels(group, name, held)
    rows.fill(values, multiple=chunk_rows)


def _save_labels(group: Any, name: str, labels: Labels) -> None:
    text = labels.dtype.kind not in "iufb"
    step = min(len(labels), _CHUNK_LABELS)
    kind = "string" if text else labels.dtype
    array = group.create_array(name, shape=(len(labels),), dtype=kind, chunks=(max(step, 1),))
    for start in range(0, len(labels), _CHUNK_LABELS):
        block = np.asarray(labels[start : start + _CHUNK_LABELS])
        if text:  # what is missing is empty
            block = np.array(["" if cell is None else str(cell) for cell in block.tolist()], dtype=object)
        array[start : start + len(block)] = block


def _zarr() -> Any:
    return import_extra("zarr", "io", "zarr")


def _store(path: Path) -> Any:
    return path.store() if is_remote(path) else path


class ZarrTree(hierarchy.Tree):
    """The arrays and groups of a store."""

    noun = "array"
    bridge = _BRIDGE

    def __init__(self, path: Path) -> None:
        if not is_zarr(path):
            raise InputError("this is not a zarr store: it has no zarr.json, .zarray or .zgroup")
        self.path = path
        self.absent: dict[str, str] = {}  # arrays with chunks that are not there, and what these are read as
        if isinstance(path, Path):
            _require_plain_nodes(path)
        zarr = _zarr()
        self.group, self.array = zarr.Group, zarr.Array
        with _quiet():
            if _is_array(path):
                self._root = zarr.open_array(_store(path), mode="r")
            else:  # a consolidated copy of the metadata could say other things than the arrays' own
                self._root = zarr.open_group(_store(path), mode="r", use_consolidated=False)

    def attributes(self, name: str) -> Mapping[str, Any]:
        """The attributes of a node."""
        node = self._node(name)
        return {} if node is None else node.attrs.asdict()

    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shapes of all arrays, and the kinds of their dtypes."""
        with _quiet():
            members = self._root.members(max_depth=_DEEPEST)
        arrays = [(name, node) for name, node in members if isinstance(node, self.array)]
        return {name: (tuple(node.shape), node.dtype.kind) for name, node in arrays}

    def vector(self, name: str) -> Array:
        """A one-dimensional array, as numbers or text."""
        array = self._array(name)
        require_vector({name: tuple(array.shape)}, name, "array")
        stored = int(array.nbytes_stored())
        require_plausible(array.size * max(16, array.dtype.itemsize), stored, f"array {name!r}")
        values = self._checked(array)[0 : array.shape[0]]
        return values if values.dtype.kind in "fiub" else as_text(values, stored, f"array {name!r}")

    def _checked(self, array: Any) -> CheckedArray:
        with _quiet():
            checked = CheckedArray(array, self.path)
        absent = checked.absent()
        if absent:
            self.absent["::".join(filter(None, (self.path.name, array.path)))] = absent
        return checked

    def _node(self, name: str) -> Any:
        name = name.strip("/")
        if not name:
            return self._root
        if not isinstance(self._root, self.group) or ".." in name.split("/"):
            return None
        with _quiet():
            return self._root.get(name)


@contextmanager
def _quiet() -> Iterator[None]:
    """What zarr warns of, types that have no specification yet, is for those who write."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _require_plain_nodes(root: Path) -> None:
    """Refuse links, pipes and devices in place of groups, arrays and their metadata; chunks are looked at when read.

    Also metadata that would fill the memory: zarr makes a fill value of the size that they declare.
    """
    pending = [root]
    while pending:
        folder = pending.pop()
        for name in _METADATA:
            require_plain(folder / name, root)
            if name != ".zmetadata" and (folder / name).is_file():  # that copy is not read
                described = _described(folder / name)
                if name in (".zarray", "zarr.json"):  # attributes may say anything
                    _require_small(described)
        if not (folder / ".zarray").is_file() and is_zarr(folder):  # may be a group, which holds further ones
            folders = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
            pending.extend(folder / name for name in folders)
            for name in folders:
                require_plain(folder / name, root)


def _is_array(path: Path) -> bool:
    """Whether the root of a store is an array and not a group."""
    metadata = path / "zarr.json"
    if not metadata.is_file():
        return (path / ".zarray").is_file()
    return _described(metadata).get("node_type") == "array"


def _described(metadata: Path) -> dict[str, Any]:
    """The metadata of an array or a group."""
    if metadata.stat().st_size > _MOST_METADATA:
        raise InputError(f"its {metadata.name} takes more than {_MOST_METADATA} bytes")
    described = json.loads(metadata.read_text("utf-8"))
    return described if isinstance(described, dict) else {}


def _require_small(described: Mapping[str, Any]) -> None:
    """Refuse an array whose entries are texts or bytes of an absurd length, as its type says."""
    kind = json.dumps(described.get("data_type", described.get("dtype")))
    longest = max(map(int, re.findall("[0-9]{1,18}", kind)), default=0)
    if longest > _LONGEST_ENTRY:
        raise InputError(f"it declares entries of {longest} bytes or characters")


# A codec is code that a file chooses: numcodecs has one that unpickles.
_COMPRESSORS = {"blosc", "zstd", "gzip", "zlib", "lz4"}
_OTHERS = {"bytes", "transpose", "endian", "shuffle", "bitround", "delta", "vlen-utf8", "vlen-bytes", "crc32c", "crc32"}
_TEXTS = {"vlen-utf8", "vlen-bytes"}
_SUM = "crc32c"  # four bytes after the others
_SHARDS = "sharding_indexed"
_MOST_CHUNKS_IN_A_SHARD = 2**20
_ZSTD_BLOCK = 2**17
_TEXT_BYTES = 2**28


class CheckedArray(CheckedChunks):
    """A zarr array in a folder."""

    def __init__(self, array: Any, root: Path) -> None:
        metadata = array.metadata.to_dict()
        codecs = list(_codecs(metadata))
        self._shard = codecs.pop()[1] if codecs and codecs[-1][0] == _SHARDS else None
        codecs.extend(_codecs(self._shard or {}))
        names = [name for name, _ in codecs]
        unknown = set(names) - _COMPRESSORS - _OTHERS
        if unknown:
            raise InputError(f"the array is packed with {', '.join(sorted(unknown))}, which is refused")
        compressors = [name for name in names if name in _COMPRESSORS]
        if len(compressors) > 1:
            raise InputError("the array is compressed more than once, which is refused")
        self._compressor = compressors[0] if compressors else None
        self._summed = names[-1:] == [_SUM]
        self._holds_text = bool(_TEXTS & set(names))
        # What a chunk unpacks to is told from its file, so nothing may come between the two but a sum at the end.
        packing = names[: -1 if self._summed else None]
        last = packing.index(self._compressor) if self._compressor else len(packing)
        texts = [place for place, name in enumerate(packing) if name in _TEXTS]
        if packing[last + 1 :] or (texts and texts[0] + 1 < last) or any("location" in each for _, each in codecs):
            raise InputError(f"the array is packed with {', '.join(names)} in this order, which is refused")
        self._root, self._folder = root, root / array.path
        self._key = array.metadata.encode_chunk_key
        nominal = math.prod(array.chunks) * array.dtype.itemsize
        self._most = 4 * nominal + 2**20 if array.dtype.kind in "fiub" else _TEXT_BYTES
        self._in_a_chunk = math.prod(array.chunks)
        self._in_a_shard = math.prod(array.shards or array.chunks) // self._in_a_chunk
        if self._in_a_shard > _MOST_CHUNKS_IN_A_SHARD:
            raise InputError(f"it declares shards of {array.shards} with chunks of {array.chunks}")
        super().__init__(array, array.shards or array.chunks)

    def stored_bytes(self, enough: int) -> int:
        """The bytes of the files of the array, its metadata among them."""
        total, pending = 0, [self._folder]
        while pending and total < enough:
            for entry in pending.pop().iterdir():
                if entry.is_symlink():
                    continue
                if entry.is_dir():
                    pending.append(entry)
                else:
                    total += entry.stat().st_size
        return total

    def absent(self) -> str:
        """How many chunks have no file, and what they are read as; nothing if all are there.

        Writers leave out chunks that hold the fill value alone, so this is no error. The files are listed, and not
        looked up one by one: a folder may declare any number of chunks.
        """
        grid = tuple(-(-size // step) for size, step in zip(self.shape, self._chunks or (), strict=True))
        total = math.prod(grid)
        there = sum(self._is_chunk(name, grid) for name in self._files())
        if there >= total:
            return ""
        fill = self._stored.fill_value
        noun = "chunks" if self._shard is None else "shards"
        told = "its fill value" if fill is None else repr(fill.item() if isinstance(fill, np.generic) else fill)
        return f"{total - there} of {total} {noun} absent, read as {told}"

    def _files(self) -> Iterator[str]:
        """The names of all files of the array, from its folder on."""
        if is_remote(self._folder):
            yield from self._folder.files()
            return
        for place, _, names in os.walk(self._folder):
            inner = os.path.relpath(place, self._folder).replace(os.sep, "/")
            yield from names if inner == "." else (f"{inner}/{name}" for name in names)

    def _is_chunk(self, name: str, grid: tuple[int, ...]) -> bool:
        place = tuple(int(digits) for digits in re.findall("[0-9]{1,18}", name))
        inside = len(place) == len(grid) and all(index < size for index, size in zip(place, grid, strict=True))
        return inside and bool(self._key(place) == name)

    def _check_chunk(self, place: tuple[int, ...]) -> None:
        path = self._folder / self._key(place)
        require_plain(path, self._root)
        if not path.is_file():
            return  # never written: it is read as the fill value, which a note says
        with path.open("rb") as file:
            for offset, size in self._pieces(file, path.stat().st_size):
                if size > self._most:
                    raise bomb(place, self._most)
                file.seek(offset)
                packed = file.read(size) if self._compressor or self._holds_text else b""
                packed = packed[: -4 if self._summed else None]
                if self._compressor == "blosc" and not _is_whole_blosc(packed):
                    raise InputError(f"chunk {place} is damaged: it is shorter than it says")
                if self._compressor and _unpacks_beyond(self._compressor, packed, self._most):
                    raise bomb(place, self._most)
                if self._holds_text and _texts_in(self._compressor, packed) > self._in_a_chunk:
                    raise InputError(f"chunk {place} declares more than its {self._in_a_chunk} texts")

    def _pieces(self, file: Any, size: int) -> Iterator[tuple[int, int]]:
        """Where the chunks of a file lie: the file itself, or what the index of a shard says."""
        if self._shard is None:
            yield 0, size
            return
        packing = {entry.get("name") for entry in self._shard.get("index_codecs", [])}
        if not packing <= {"bytes", "crc32c"}:
            raise InputError(f"the index of its shards is packed with {packing}, which is refused")
        index_bytes = 16 * self._in_a_shard
        whole = index_bytes + (4 if "crc32c" in packing else 0)
        file.seek(0 if self._shard.get("index_location") == "start" else max(0, size - whole))
        index = file.read(index_bytes)
        if len(index) < index_bytes:
            raise InputError("a shard is shorter than its index")
        for offset, length in np.frombuffer(index, "<u8").reshape(-1, 2).tolist():
            if offset + length <= size:  # what was never written points far beyond the end
                yield offset, length


def _codecs(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names and settings of the codecs of an array, or inside a shard, in the order in which they pack."""
    for entry in (*_listed(metadata.get("filters")), metadata.get("compressor"), *_listed(metadata.get("codecs"))):
        if isinstance(entry, Mapping):
            settings = entry.get("configuration") or {key: value for key, value in entry.items() if key != "id"}
            yield str(entry.get("id", entry.get("name"))).removeprefix("numcodecs."), settings
        elif entry is not None:
            yield str(getattr(entry, "codec_id", entry)), getattr(entry, "get_config", dict)()


def _listed(entries: Any) -> list[Any]:
    return list(entries) if isinstance(entries, list | tuple) else []


def _texts_in(compressor: str | None, packed: bytes) -> int:
    """How many texts a chunk declares, which the unpacker believes."""
    if compressor is not None:
        from numcodecs.registry import get_codec

        packed = bytes(get_codec({"id": compressor}).decode(packed))
    return int.from_bytes(packed[:4], "little")


def _is_whole_blosc(packed: bytes) -> bool:
    """Whether a chunk has all bytes that its header declares: the unpacker reads up to there without asking."""
    return 16 <= int.from_bytes(packed[12:16], "little") <= len(packed)


def _unpacks_beyond(compressor: str, packed: bytes, most: int) -> bool:
    if compressor in ("gzip", "zlib"):
        return inflates_beyond(packed, most)
    if compressor == "zstd":
        return _zstd_bytes(packed) > most
    declared = packed[4:8] if compressor == "blosc" else packed[:4]  # which the unpacker holds them to
    return int.from_bytes(declared, "little") > most


def _zstd_bytes(packed: bytes) -> int:
    """At most how many bytes zstd frames unpack to (RFC 8878): what they declare, otherwise a sum over their blocks."""
    total = offset = 0
    while offset + 8 < len(packed):
        magic = int.from_bytes(packed[offset : offset + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame to skip
            offset += 8 + int.from_bytes(packed[offset + 4 : offset + 8], "little")
            continue
        if magic != 0xFD2FB528:
            break
        descriptor = packed[offset + 4]
        single, size_flag = bool(descriptor & 32), descriptor >> 6
        offset += 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
        size_bytes = (1 if single else 0, 2, 4, 8)[size_flag]
        declared = int.from_bytes(packed[offset : offset + size_bytes], "little") + (256 if size_flag == 1 else 0)
        offset += size_bytes
        in_blocks, last = 0, False
        while not last and offset + 3 <= len(packed):
            block = int.from_bytes(packed[offset : offset + 3], "little")
            last, kind, size = bool(block & 1), (block >> 1) & 3, block >> 3
            in_blocks += size if kind < 2 else _ZSTD_BLOCK
            offset += 3 + (1 if kind == 1 else size)
        offset += 4 if descriptor & 4 else 0
        total += declared if size_bytes else in_blocks
    return total
