"""Crafted files of the hostile corpus: bombs, pickles, path tricks, odd types, and names and ids with control codes."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_ODD = (
    "a\nverdict: forged",
    "\x1b[2J\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "\u202egnp.",
    "",
    "x" * 70_000,
)
_ROWS = 12


def crafted(folder: Path, seed: int) -> Iterator[tuple[str, str, Path]]:
    """Every crafted file, one after the other: its kind (``crafted``), what it tries and its path."""
    rows = np.random.default_rng(seed).laplace(size=(_ROWS, 3))
    for told, name, make in _all(rows):
        path = folder / name
        make(path)
        yield "crafted", f"{told} ({name})", path
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


Made = Iterator[tuple[str, str, Callable[[Path], None]]]


def _all(rows: Any) -> Made:
    yield from _bombs()
    yield from _pickles(rows)
    yield from _paths(rows)
    yield from _hdf5_types(rows)
    yield from _parquet_types()
    yield from _names(rows)
    yield from _numbers(rows)


def zeros(size: int, piece: int = 2**26) -> bytes:
    """A raw deflate stream of many zeros, made from repetitions of one piece."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    repeated = packer.compress(bytes(piece)) + packer.flush(zlib.Z_FULL_FLUSH)
    return repeated * (size // piece) + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def _npy(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue()


def _bombs() -> Made:
    def zipped(path: Path) -> None:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
            archive.open("z.npy", "w", force_zip64=True) as file,
        ):
            file.write(_npy((2**24, 16)))
            for _ in range(32):
                file.write(bytes(2**26))

    def nested(path: Path) -> None:
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("z.npy", _npy((4, 3)) + bytes(96))
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(2000):
                archive.writestr(f"{number}.npy", inner.getvalue())

    def same_place(path: Path) -> None:
        """Many names for one member: more than the file holds."""
        data = _npy((2**16, 16)) + bytes(2**23)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("z0.npy", data)
            first = archive.infolist()[0]
            for number in range(1, 5000):
                again = zipfile.ZipInfo(f"z{number}.npy")
                for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                    setattr(again, name, getattr(first, name))
                archive.filelist.append(again)
                archive.NameToInfo[again.filename] = again

    def line(path: Path) -> None:
        path.write_bytes(gzip.compress(b"a,b\n1.5," + b"1" * 2**26) + gzip.compress(b"1" * 2**26) * 20)

    def rows(path: Path) -> None:
        path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(b"1.5,1\n" * 2**20) * 6)

    def objects(path: Path) -> None:
        path.write_bytes(gzip.compress(b'{"id": 1, "vector": [') + gzip.compress(b"1.5," * 2**22) * 20)

    def cells(path: Path) -> None:
        path.write_bytes(b",".join([b"c"] * 2**20) + b"\n" + b",".join([b"1.5"] * 2**20) + b"\n")

    def gct(path: Path) -> None:
        path.write_bytes(b"#1.3\n1000000000\t1000000000\t0\t0\nid\ta\nx\t1.5\n")

    def header(path: Path) -> None:
        path.write_bytes((2**62).to_bytes(8, "little") + b"{}")

    def many(path: Path) -> None:
        path.write_bytes(_npy((2**40, 2**20)) + bytes(64))

    yield "deflate bomb", "bomb.npz", zipped
    yield "archives in an archive", "nested.npz", nested
    yield "members that share their bytes", "shared.npz", same_place
    yield "an endless line", "line.csv.gz", line
    yield "rows without end", "rows.csv.gz", rows
    yield "an endless object", "object.jsonl.gz", objects
    yield "a million columns", "wide.csv", cells
    yield "10^18 cells declared", "large.gct", gct
    yield "a header of 2^62 bytes", "header.safetensors", header
    yield "8 EiB declared", "many.npy", many


_ATTACK = b"\x80\x04cposix\nsystem\n(S'touch executed'\ntR."


def _pickles(rows: Any) -> Made:
    def objects(path: Path) -> None:
        path.write_bytes(_npy((3, 3), "|O") + _ATTACK)

    def member(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("z.npy", _npy((3, 3), "|O") + _ATTACK)

    def torch_archive(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", _ATTACK)
            archive.writestr("archive/version", "3\n")
            archive.writestr("archive/data/0", rows.tobytes())

    def codec(path: Path) -> None:
        import zarr

        zarr.create_array(path, data=rows)
        told = json.loads((path / "zarr.json").read_text())
        told["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
        (path / "zarr.json").write_text(json.dumps(told))
        (path / "c" / "0" / "0").write_bytes(_ATTACK)

    yield "pickled objects", "objects.npy", objects
    yield "pickled objects", "objects.npz", member
    yield "code in a torch file", "code.pt", torch_archive
    yield "code in a legacy torch file", "legacy.pth", lambda path: path.write_bytes(_ATTACK) and None
    yield "pickle as a codec", "pickle.zarr", codec


def _paths(rows: Any) -> Made:
    def member(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("../escaped.npy", "/tmp/escaped.npy", "a/../../escaped.npy"):
                archive.writestr(name, _npy(rows.shape) + rows.tobytes())

    def tensor(path: Path) -> None:
        data = rows.tobytes()
        head = json.dumps({"../escaped": {"dtype": "F64", "shape": list(rows.shape), "data_offsets": [0, len(data)]}})
        path.write_bytes(len(head).to_bytes(8, "little") + head.encode() + data)

    def round_about(path: Path) -> None:
        path.mkdir()
        (path / "part-0.npy").symlink_to(path / "part-1.npy")
        (path / "part-1.npy").symlink_to(path / "part-0.npy")

    def itself(path: Path) -> None:
        path.mkdir()
        (path / "again").symlink_to(path)

    def device(path: Path) -> None:
        path.symlink_to("/dev/zero")

    def outside(path: Path) -> None:
        import h5py

        with h5py.File(path, "w") as file:
            file["z"] = h5py.ExternalLink("/etc/passwd", "/z")
            file["y"] = h5py.SoftLink("/../../etc")
            file.create_dataset("x", (12, 3), "f8", external=[("/etc/passwd", 0, 288)])

    yield "members outside of the folder", "escape.npz", member
    yield "a tensor named ..", "escape.safetensors", tensor
    yield "links in a circle", "circle", round_about
    yield "a folder in itself", "itself", itself
    yield "a device", "device.npy", device
    yield "a device", "device.csv", device
    yield "links to other files", "links.h5", outside


def _hdf5_types(rows: Any) -> Made:
    import h5py

    def one(name: str, shape: tuple[int, ...], dtype: Any) -> tuple[str, str, Callable[[Path], None]]:
        def make(path: Path) -> None:
            with h5py.File(path, "w") as file:
                file.create_dataset("z", shape, dtype)
                file["ids"] = np.arange(_ROWS)

        return f"type {name}", f"{name}.h5", make

    kinds = {
        "compound": np.dtype([("a", "f8"), ("b", "i4")]),
        "enum": h5py.enum_dtype({"A": 1, "B": 2}),
        "reference": h5py.ref_dtype,
        "region": h5py.regionref_dtype,
        "vlen": h5py.vlen_dtype(np.float64),
        "text": h5py.string_dtype(),
        "bytes": np.dtype("S7"),
        "opaque": h5py.opaque_dtype(np.dtype("M8[us]")),
        "array": np.dtype(("f8", (2, 2))),
        "complex": np.dtype("c16"),
        "bool": np.dtype("?"),
        "long double": np.dtype("g"),
        "half": np.dtype("f2"),
    }
    for name, kind in kinds.items():
        yield one(name, (_ROWS, 3), kind)
        yield one(f"{name} of no rows", (0, 3), kind)
        yield one(f"{name} of one number", (), kind)

    def null(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["z"] = h5py.Empty("f8")

    def named(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["z"] = np.dtype("f8")  # a type, not a dataset

    def odd_ids(path: Path) -> None:
        with h5py.File(path, "w") as file:
            file["z"] = rows
            file.create_dataset("ids", (_ROWS,), h5py.vlen_dtype(np.int32))

    def bfloat(path: Path) -> None:
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_fields(15, 7, 8, 0, 7)
        kind.set_size(2)
        with h5py.File(path, "w") as file:
            space = h5py.h5s.create_simple((_ROWS, 3))
            h5py.h5d.create(file.id, b"z", kind, space)

    yield "an empty dataset", "null.h5", null
    yield "a type without data", "named.h5", named
    yield "ids of lists", "odd_ids.h5", odd_ids
    yield "a floating-point type of its own", "bfloat.h5", bfloat


def _parquet_types() -> Made:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = pa.array(np.linspace(0, 1, _ROWS))
    columns = {
        "dictionary": numbers.dictionary_encode(),
        "nulls": pa.array([None] * _ROWS),
        "nulls of a type": pa.array([None] * _ROWS, pa.float64()),
        "decimal": pa.array(range(_ROWS), pa.decimal128(38, 2)),
        "wide decimal": pa.array(range(_ROWS), pa.decimal256(76, 10)),
        "half": numbers.cast(pa.float32()).cast(pa.float16()),
        "timestamp": pa.array(range(_ROWS), pa.timestamp("ns", "UTC")),
        "duration": pa.array(range(_ROWS), pa.duration("ms")),
        "struct": pa.array([{"a": 1.5, "b": [1]}] * _ROWS),
        "map": pa.array([[("k", 1.5)]] * _ROWS, pa.map_(pa.string(), pa.float64())),
        "lists of lists": pa.array([[[1.5]]] * _ROWS),
        "ragged lists": pa.array([[1.5] * (row % 3) for row in range(_ROWS)]),
        "lists with nulls": pa.array([[1.5, None, 2.0]] * _ROWS),
        "null lists": pa.array([[1.5, 2.0], None] * (_ROWS // 2)),
        "fixed lists": pa.array([[1.5, 2.5]] * _ROWS, pa.list_(pa.float32(), 2)),
        "binary": pa.array([b"\xff\x00"] * _ROWS),
        "large text": pa.array(["1.5"] * _ROWS, pa.large_string()),
        "unsigned": pa.array([2**64 - 1] * _ROWS, pa.uint64()),
        "run ends": None,
    }
    for name, column in columns.items():
        if column is None:
            continue

        def make(path: Path, column: Any = column) -> None:
            pq.write_table(pa.table({"feature_0": column, "feature_1": numbers}), path)

        def alone(path: Path, column: Any = column) -> None:
            pq.write_table(pa.table({"x": column}), path)

        yield f"{name} beside numbers", f"{name}.parquet", make
        yield f"{name} alone", f"{name}.parquet", alone

    def twice(path: Path) -> None:
        pq.write_table(pa.table([numbers, numbers], names=["a", "a"]), path)

    def no_columns(path: Path) -> None:
        pq.write_table(pa.table({}), path)

    def no_rows(path: Path) -> None:
        pq.write_table(pa.table({"a": pa.array([], pa.float64())}), path)

    yield "one name twice", "twice.parquet", twice
    yield "no columns", "columns.parquet", no_columns
    yield "no rows", "rows.parquet", no_rows


def _names(rows: Any) -> Made:
    import h5py
    import pyarrow as pa
    import pyarrow.parquet as pq

    import isorep

    for number, odd in enumerate(_ODD):
        ids = np.array([f"{odd}{row}" for row in range(_ROWS)])
        for suffix in ("csv", "tsv", "jsonl", "parquet", "h5", "h5ad", "zarr", "npz"):

            def with_ids(path: Path, ids: Any = ids) -> None:
                isorep.write(isorep.Representation(rows, ids), path)

            yield f"ids {odd[:20]!r}", f"ids{number}.{suffix}", with_ids

        def columns(path: Path, odd: str = odd) -> None:
            pq.write_table(pa.table(list(rows.T), names=[f"{odd}{column}" for column in range(3)]), path)

        def quoted(path: Path, odd: str = odd) -> None:
            names = ",".join('"' + f"{odd}{column}".replace('"', '""') + '"' for column in range(3))
            path.write_text("\n".join([names, *(",".join(map(str, row)) for row in rows.tolist())]), newline="")

        def members(path: Path, odd: str = odd) -> None:
            with zipfile.ZipFile(path, "w") as archive:
                for name in (odd[:6000], f"{odd[:6000]} again"):
                    archive.writestr(f"{name}.npy", _npy(rows.shape) + rows.tobytes())

        def datasets(path: Path, odd: str = odd) -> None:
            with h5py.File(path, "w") as file:
                for name in ("x", "y"):
                    file[(odd.replace("/", "|") or "z") + name] = rows

        def tensors(path: Path, odd: str = odd) -> None:
            size = rows.nbytes
            told = {"dtype": "F64", "shape": list(rows.shape)}
            head = json.dumps(
                {f"{odd}{n}": {**told, "data_offsets": [n * size, (n + 1) * size]} for n in range(2)}
            ).encode()
            path.write_bytes(len(head).to_bytes(8, "little") + head + rows.tobytes() * 2)

        yield f"columns {odd[:20]!r}", f"columns{number}.parquet", columns
        yield f"columns {odd[:20]!r}", f"columns{number}.csv", quoted
        yield f"arrays {odd[:20]!r}", f"arrays{number}.npz", members
        yield f"arrays {odd[:20]!r}", f"arrays{number}.h5", datasets
        yield f"arrays {odd[:20]!r}", f"arrays{number}.safetensors", tensors


def _numbers(rows: Any) -> Made:
    texts = {
        "digits without end": "1." + "3" * 100_000,
        "an exponent without end": "1e" + "9" * 1000,
        "a subnormal": "4.9e-324",
        "a large whole number": "9" * 400,
        "an underscore": "1_000",
        "digits of another script": "\u0661\u0662",
        "a null byte": "1.5\x00",
        "a quote that stays open": '"1.5',
    }
    for told, cell in texts.items():
        for suffix, mark in (("csv", ","), ("tsv", "\t")):

            def table(path: Path, cell: str = cell, mark: str = mark) -> None:
                lines = [mark.join(["a", "b"]), *(mark.join(["0.5", cell]) for _ in range(_ROWS))]
                path.write_text("\n".join(lines))

            yield told, f"cells.{suffix}", table

        def lines(path: Path, cell: str = cell) -> None:
            path.write_text("\n".join(f'{{"id": {row}, "vector": [0.5, {cell}]}}' for row in range(_ROWS)))

        yield told, "cells.jsonl", lines
