"""Files that lie, explode or would run code are refused with one sentence, in less than 1 GB of memory."""

import contextlib
import gzip
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import google_crc32c
import h5py
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import zarr
import zarr.codecs

import isorep
from isorep.storage import column, examine, jsonl, layers, parquet, scratch

GIGABYTE = 10**9
VALUES = np.random.default_rng(0).normal(size=(200, 3))

# A process that has imported what readers need, and forks one for every file.
READ = """
import importlib, json, os, pkgutil, re, sys
import h5py, numpy, pyarrow.parquet, zarr
import isorep.storage
for each in pkgutil.iter_modules(isorep.storage.__path__, "isorep.storage."):
    importlib.import_module(each.name)
for line in sys.stdin:
    path, before = json.loads(line)
    if os.fork():
        print(json.dumps({"status": os.wait()[1]}), flush=True)
        continue
    exec(before)
    try:
        isorep.read(path)
        said = "read"
    except isorep.InputError as error:
        said = str(error)
    # Not getrusage: its maximum is inherited from the process that started this one.
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
    print(json.dumps({"sentence": said, "peak": peak}), flush=True)
    sys.exit()
"""
READERS = []


@pytest.fixture(scope="module", autouse=True)
def _reader():
    yield
    while READERS:
        READERS.pop().communicate()


def refusal(path, before=""):
    """Read a file in a process of its own: the sentence it is refused with."""
    if not READERS:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        READERS.append(subprocess.Popen([sys.executable, "-c", READ], text=True, **pipes))
    print(json.dumps([str(path), before]), file=READERS[0].stdin, flush=True)
    found = {}
    while "status" not in found:
        found |= json.loads(READERS[0].stdout.readline())
    assert found["status"] == 0
    sentence, peak = found["sentence"], found["peak"]
    assert "\n" not in sentence
    assert peak < GIGABYTE, f"{peak / 1e6:.0f} MB"
    assert sentence.startswith(Path(path).name) or str(path) in sentence
    return sentence


def zeros(size, piece=2**26):
    """A raw deflate stream of many zeros, made from repetitions of one piece."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    repeated = packer.compress(bytes(piece)) + packer.flush(zlib.Z_FULL_FLUSH)
    return repeated * (size // piece) + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def bomb(path, arrays):
    """An npz archive with consistent headers whose members expand a thousandfold."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (shape, dtype) in arrays.items():
            header = io.BytesIO()
            description = {"descr": dtype, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(header, description)
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            lead = packer.compress(header.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH)
            data = int(np.prod(shape)) * np.dtype(dtype).itemsize
            info = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(info, lead + zeros(data))
            info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, len(header.getvalue()) + data
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:  # the local headers said: stored
        for info in archive.infolist():
            struct.pack_into("<H", raw, info.header_offset + 8, zipfile.ZIP_DEFLATED)
    path.write_bytes(raw)
    return path


def test_an_npz_that_expands_beyond_the_disk_is_refused_before_it_fills_it(tmp_path):
    path = bomb(tmp_path / "bomb.npz", {"z": ((2**20, 3 * 2**8), "<f4")})
    assert path.stat().st_size < 10**7
    assert "TMPDIR" in refusal(path, "from isorep.storage import scratch; scratch.DISK_RESERVE = 2**62")


def test_values_that_expand_a_thousandfold_are_refused_however_large_the_disk(tmp_path):
    path = bomb(tmp_path / "bomb.npz", {"z": ((2**20, 3 * 2**8), "<f4")})
    assert "it may be a bomb" in refusal(path)


def test_rows_of_text_that_expand_a_thousandfold_are_refused(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(b"1.5,1\n" * 2**20) * 6)
    assert "it may be a bomb" in refusal(path)


def test_ids_that_expand_a_thousandfold_are_refused(tmp_path):
    path = bomb(tmp_path / "bomb.npz", {"z": ((2**27, 1), "<f2"), "ids": ((2**27,), "<i8")})
    assert "too much for row ids" in refusal(path)


@pytest.mark.parametrize(
    ("name", "head", "row"), [("a.csv.gz", b"a,b\n", b"1.5,1\n"), ("a.jsonl.gz", b"", b'{"v": [1.5]}\n')]
)
def test_text_that_expands_a_thousandfold_is_refused_before_it_is_parsed_for_minutes(
    tmp_path, monkeypatch, name, head, row
):
    monkeypatch.setattr(scratch, "_FREE_TEXT", 2**16)
    path = tmp_path / name
    path.write_bytes(gzip.compress(head + row * 2**17))
    with monkeypatch.context() as guarded:
        guarded.setattr(scratch.io, "TextIOWrapper", None)  # none of it is read as text
        with pytest.raises(isorep.InputError, match=r"unpack to \d+ or more: it may be a bomb"):
            isorep.read(path)
    path.write_bytes(gzip.compress(head + row * 2**10))
    assert isorep.read(path).shape[0] == 2**10


LIFTED = "from isorep.storage import scratch; scratch._TEXT_RATIO = 10**9"  # these files test what comes after it


def test_an_endless_line_is_refused(tmp_path):
    path = tmp_path / "line.csv.gz"
    path.write_bytes(gzip.compress(b"1" * 2**26) * 30)
    assert "a line is longer than" in refusal(path, LIFTED)


def test_a_row_that_goes_on_over_endless_lines_is_refused(tmp_path):
    path = tmp_path / "row.csv.gz"
    path.write_bytes(gzip.compress(b'a,"b\n') + gzip.compress(b'",1,"\n' * 2**22) * 40)
    assert "a line is longer than" in refusal(path, LIFTED)


def test_a_line_of_too_many_cells_is_refused(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_bytes(b",".join([b"1"] * (2**20 + 2)) + b"\n")
    assert "cells" in refusal(path)


def test_wide_lines_are_not_held_while_looking_at_the_columns(tmp_path):
    path = tmp_path / "wide.csv.gz"
    line = b",".join([b"10"] * 10**6) + b"\n"
    path.write_bytes(gzip.compress(b"a" + line.replace(b"10", b"")) + gzip.compress(line) * 300)
    assert "two columns are called" in refusal(path, LIFTED)


def test_endless_rows_with_ids_are_refused(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"id,z\n") + gzip.compress(b"same,1.5\n" * 2**20) * 10)
    sentence = refusal(path, f"{LIFTED}; from isorep.storage import naming; naming._LABELS_BYTES = 2**23")
    assert "column 'id' unpacks to" in sentence


def test_a_header_that_declares_a_trillion_rows_is_refused(tmp_path):
    path = tmp_path / "lying.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 768)})
        file.write(bytes(1000))
    assert "truncated" in refusal(path)


class Attack:
    """Unpickling it creates a file."""

    def __init__(self, proof):
        self.proof = proof

    def __reduce__(self):
        return Path.touch, (self.proof,)


@pytest.mark.parametrize(
    "name", ["zip.pt", "dict.pth", "bare.pt", "old.pt", "object.npy", "object.npz", "store.zarr", "filter.zarr"]
)
def test_pickles_are_never_executed(tmp_path, name):
    proof, path = tmp_path / "executed", tmp_path / name
    attack = Attack(proof)
    if name == "zip.pt":
        torch.save(attack, path)
    elif name == "dict.pth":
        torch.save({"z": torch.tensor(VALUES), "ids": attack}, path)
    elif name == "bare.pt":
        path.write_bytes(pickle.dumps(attack))
    elif name == "old.pt":
        torch.save(attack, path, _use_new_zipfile_serialization=False)
    elif name == "object.npy":
        np.save(path, np.array([[attack]], dtype=object), allow_pickle=True)
    elif name == "object.npz":
        np.savez(path, z=VALUES, ids=np.array([attack] * 200, dtype=object))
    elif name == "store.zarr":
        pickling_store(path, attack)
    else:
        isorep.write(VALUES, path)
        (path / "zarr.json").unlink()
        array = {"zarr_format": 2, "shape": [1, 1], "chunks": [1, 1], "dtype": "<f8", "order": "C", "fill_value": None}
        (path / ".zarray").write_text(json.dumps({**array, "compressor": None, "filters": [{"id": "pickle"}]}))
        (path / "0.0").write_bytes(pickle.dumps(attack))
    refusal(path)
    assert not proof.exists()
    if name != "bare.pt":
        return
    with path.open("rb") as file:
        pickle.load(file)
    assert proof.exists(), "the attack works where nobody guards"


def pickling_store(path, attack):
    """A zarr store of format 2 whose ids are packed with the codec that unpickles."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.create_array("z", data=VALUES)
    (path / "ids").mkdir()
    array = {"zarr_format": 2, "shape": [200], "chunks": [200], "dtype": "|O", "order": "C", "fill_value": None}
    (path / "ids" / ".zarray").write_text(json.dumps({**array, "compressor": None, "filters": [{"id": "pickle"}]}))
    (path / "ids" / "0").write_bytes(pickle.dumps([attack] * 200 + ["|O", (200,)]))


def test_a_compressed_torch_archive_is_refused(tmp_path):
    torch.save(torch.tensor(VALUES), tmp_path / "good.pt")
    with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(tmp_path / "bad.pt", "w", 8) as bad:
        for info in good.infolist():
            bad.writestr(info.filename, good.read(info))
    assert "compressed" in refusal(tmp_path / "bad.pt")


def test_a_tensor_that_stores_less_than_it_declares_is_refused(tmp_path):
    torch.save(torch.zeros(1).expand(10**9, 768), tmp_path / "expanded.pt")
    assert "stores fewer numbers" in refusal(tmp_path / "expanded.pt")


@pytest.mark.parametrize("suffix", ["h5", "h5ad", "parquet", "pt", "npz", "safetensors"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_truncated_files_are_refused(tmp_path, suffix, share):
    path = tmp_path / f"cut.{suffix}"
    isorep.write(isorep.Representation(VALUES, np.arange(200)), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(isorep.InputError, match=path.name) as caught:
        isorep.read(path)
    assert "\n" not in str(caught.value)
    if share == 0.5:
        refusal(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**12, 3]}}}, "smaller chunks"),
        ({"shape": [10, 10**12]}, "one row takes"),
        ({"shape": [10**12, 10**6]}, "one row is cut into"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}}, ""),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [-5, 3]}}}, ""),
        ({"shape": [-10, 3]}, ""),
        ({"data_type": "object"}, ""),
        ({"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}, ""),
        ({"node_type": "nonsense"}, ""),
    ],
)
def test_absurd_zarr_metadata_are_refused(tmp_path, change, words):
    path = tmp_path / "absurd.zarr"
    isorep.write(VALUES, path)
    metadata = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps({**metadata, **change}))
    sentence = refusal(path)
    assert sentence != "read"
    assert words in sentence


def zstd(size, *, frames, pledged):
    """zstd data of many zeros, in one frame that does not say how many or in several that do."""
    if pledged:
        return numcodecs.Zstd().encode(bytes(size // frames)) * frames
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(frames):
            stream.write(bytes(size // frames))
    return sink.getvalue().to_pybytes()


def test_a_blosc_chunk_that_claims_more_bytes_than_it_has_is_refused(tmp_path):
    """The unpacker believes the length in the header, and reads other memory."""
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(40, 2), dtype="f8", chunks=(40, 2), compressors=zarr.codecs.BloscCodec()
    )
    array[:] = np.arange(80.0).reshape(40, 2)
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0"
    packed = bytearray(chunk.read_bytes())
    np.testing.assert_array_equal(np.asarray(isorep.read(tmp_path / "a.zarr").values), array[:])
    packed[12:24] = (2**30).to_bytes(4, "little") + 2 * (2**29).to_bytes(4, "little")
    for damaged in (packed, packed[:12]):
        chunk.write_bytes(damaged)
        with pytest.raises(isorep.InputError, match=r"chunk \(0, 0\) is damaged: it is shorter than it says"):
            np.asarray(isorep.read(tmp_path / "a.zarr").values[:])


@pytest.mark.parametrize(
    ("zarr_format", "codec"),
    [
        *((each, codec) for each in (2, 3) for codec in ("none", "gzip", "blosc", "zstd")),
        (2, "lz4"),
        (3, "zstd crc32c"),
    ],
)
def test_zarr_chunks_that_declare_many_texts_are_refused(tmp_path, zarr_format, codec):
    """Four bytes that say how many texts there are: room is made for that many."""
    path, name = tmp_path / "a.zarr", codec.split()[0]
    if zarr_format == 2:
        packing = None if name == "none" else numcodecs.get_codec({"id": name})
    else:
        known = {"gzip": zarr.codecs.GzipCodec, "blosc": zarr.codecs.BloscCodec, "zstd": zarr.codecs.ZstdCodec}
        packing = [] if name == "none" else [known[name]()]
        packing += [zarr.codecs.Crc32cCodec()] if "crc32c" in codec else []
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    group.create_array("values", shape=VALUES.shape, dtype="f4")[:] = VALUES
    ids = group.create_array("ids", shape=(len(VALUES),), dtype=str, compressors=packing)
    ids[:] = np.array([f"row {row}" for row in range(len(VALUES))], object)
    assert isorep.read(path).ids[1] == "row 1"
    chunk = path / "ids" / ("0" if zarr_format == 2 else "c/0")
    unpacked = bytearray(chunk.read_bytes()[: -4 if "crc32c" in codec else None])
    if name != "none":
        unpacked = bytearray(numcodecs.get_codec({"id": name}).decode(bytes(unpacked)))
    unpacked[:4] = (2**31).to_bytes(4, "little")
    packed = bytes(unpacked) if name == "none" else bytes(numcodecs.get_codec({"id": name}).encode(bytes(unpacked)))
    if "crc32c" in codec:
        packed = bytes(numcodecs.get_codec({"id": "crc32c"}).encode(packed))
    chunk.write_bytes(packed)
    with pytest.raises(isorep.InputError, match=rf"chunk \(0,\) declares more than its {len(VALUES)} texts"):
        isorep.read(path)


@pytest.mark.parametrize(
    "filters", [["zstd", "crc32"], ["zstd", "shuffle"], ["gzip", "delta"], ["zstd", "crc32c at the start"]]
)
def test_zarr_codecs_after_the_compressor_are_refused(tmp_path, filters):
    """Behind them the size that a chunk unpacks to could not be told from its file."""
    settings = {"delta": {"dtype": "<f8"}, "crc32c at the start": {"id": "crc32c", "location": "start"}}
    array = {"zarr_format": 2, "shape": [3, 2], "chunks": [3, 2], "dtype": "<f8", "order": "C", "fill_value": None}
    (tmp_path / "a.zarr").mkdir()
    packing = [{"id": name} | settings.get(name, {}) for name in filters]
    (tmp_path / "a.zarr" / ".zarray").write_text(json.dumps({**array, "compressor": None, "filters": packing}))
    with pytest.raises(isorep.InputError, match="in this order, which is refused"):
        isorep.read(tmp_path / "a.zarr")


@pytest.mark.parametrize("kind", ["gzip", "zstd stream", "zstd frames", "zstd in a shard", "blosc", "ids"])
def test_zarr_chunks_that_unpack_to_more_than_they_declare_are_refused(tmp_path, kind):
    path = tmp_path / "bomb.zarr"
    many = 2**31
    options = {"shape": (1000, 8), "dtype": "f8", "chunks": (500, 8)}
    codec = {"gzip": zarr.codecs.GzipCodec(), "blosc": zarr.codecs.BloscCodec()}.get(kind, zarr.codecs.ZstdCodec())
    if kind == "ids":
        isorep.write(isorep.Representation(VALUES, np.array([f"{i}a" for i in range(200)])), path)
        (path / "ids" / "c" / "0").write_bytes(zstd(many, frames=32, pledged=True))
    elif kind == "zstd in a shard":
        zarr.create_array(path, **options, shards=(1000, 8), compressors=codec)[:] = 1.0
        packed = zstd(many, frames=32, pledged=True)
        index = struct.pack("<4Q", 0, len(packed), 2**64 - 1, 2**64 - 1)
        checksum = struct.pack("<I", google_crc32c.value(index))
        (path / "c" / "0" / "0").write_bytes(packed + index + checksum)
    else:
        zarr.create_array(path, **options, compressors=codec)[:] = 1.0
        packed = {
            "gzip": lambda: gzip.compress(bytes(2**26)) * 32,
            "zstd stream": lambda: zstd(many, frames=32, pledged=False),
            "zstd frames": lambda: zstd(many, frames=32, pledged=True),
            "blosc": lambda: numcodecs.Blosc("zstd").encode(bytes(2**30)),
        }[kind]()
        (path / "c" / "1" / "0").write_bytes(packed)
    assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 10**7
    assert "it may be a bomb" in refusal(path)


@pytest.mark.parametrize("values", [np.zeros((4000, 64)), np.random.default_rng(0).normal(size=(4000, 64))])
@pytest.mark.parametrize("codec", ["GzipCodec", "ZstdCodec", "BloscCodec"])
@pytest.mark.parametrize("shards", [None, (2000, 64)])
def test_zarr_chunks_that_are_honest_are_read(tmp_path, values, codec, shards):
    compressor = getattr(zarr.codecs, codec)()
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=values.shape, dtype="f8", chunks=(1000, 64), shards=shards, compressors=compressor
    )
    array[:] = values
    np.testing.assert_array_equal(np.asarray(isorep.read(tmp_path / "a.zarr").values), values)


def test_zstd_frames_that_do_not_say_their_size_are_read(tmp_path):
    isorep.write(VALUES, tmp_path / "a.zarr")
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(VALUES.tobytes())
    (tmp_path / "a.zarr" / "c" / "0" / "0").write_bytes(sink.getvalue())
    np.testing.assert_array_equal(np.asarray(isorep.read(tmp_path / "a.zarr").values), VALUES)


def test_damaged_chunks_are_found_and_named(tmp_path):
    isorep.write(VALUES, tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "c" / "0" / "0").write_bytes(b"noise")
    with pytest.raises(isorep.InputError, match=r"a\.zarr: rows 0 to .* cannot be read, the file may be damaged"):
        isorep.read(tmp_path / "a.zarr")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(isorep.InputError, match=r"empty\.zarr.*not a zarr store"):
        isorep.read(tmp_path / "empty.zarr")


def test_hdf5_chunks_that_fill_the_memory_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("z", (2**20, 2**9), "f8", chunks=(2**19, 2**9), compression="gzip")
    assert "smaller chunks" in refusal(tmp_path / "a.h5")


@pytest.mark.parametrize("chunks", [(1000, 1000), None])
@pytest.mark.parametrize("suffix", ["h5", "zarr"])
def test_arrays_that_declare_terabytes_and_hold_nothing_are_refused(tmp_path, suffix, chunks):
    path, shape = tmp_path / f"a.{suffix}", (10**9, 1000)
    if suffix == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("z", shape, "f4", chunks=chunks)
    else:
        zarr.create_array(path, shape=shape, dtype="f4", chunks=chunks or (10**4, 1000))
    assert "it may be a bomb" in refusal(path)


def test_zeros_that_compress_well_and_are_not_many_are_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("z", (10**6, 8), "f4", chunks=(10**4, 8), compression="gzip")
    assert isorep.read(tmp_path / "a.h5").shape == (10**6, 8)


def test_groups_inside_of_thousands_of_groups_are_refused_and_a_few_are_read(tmp_path):
    for depth in (60, 3000):
        with h5py.File(tmp_path / f"{depth}.h5", "w") as file:
            file.create_dataset("/".join(["g"] * depth + ["z"]), data=VALUES)
            file["again"] = file["g"]  # a second name of the same group
            file["g/round"] = file["g"]  # a circle
    np.testing.assert_array_equal(isorep.read(tmp_path / "60.h5").values[:], VALUES)
    assert "groups in each other" in refusal(tmp_path / "3000.h5")


CHILDREN = {
    "crash": "import os, sys; sys.stdin.readline(); os.abort()",
    "hang": "from isorep.storage import examine; examine._SECONDS = 1; "
    "examine._look = lambda path: [0 for _ in iter(int, 1)]; examine.serve()",
    "wait": "import sys, time; sys.stdin.readline(); time.sleep(1000)",
    "memory": "from isorep.storage import examine; examine._look = lambda path: bytearray(2**31); examine.serve()",
}


@pytest.mark.parametrize("kind", CHILDREN)
def test_hdf5_files_on_which_the_library_crashes_or_hangs_are_refused(tmp_path, kind, monkeypatch):
    first, second = tmp_path / "a.h5", tmp_path / "b.h5"
    for path in (first, second):
        isorep.write(VALUES, path)
    real = examine._started

    def broken():
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", CHILDREN[kind]]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, text=True, env=environment, **pipes)

    examine._CHILD.end()
    monkeypatch.setattr(examine, "_started", broken)
    monkeypatch.setattr(examine, "_PATIENCE", 2)
    if kind == "memory":  # the child survives it, and the reader has its own checks
        np.testing.assert_array_equal(isorep.read(first).values[:], VALUES)
    else:
        with pytest.raises(isorep.InputError, match=r"a\.h5: the HDF5 library crashed on it, or took too long"):
            isorep.read(first)
    examine._CHILD.end()
    monkeypatch.setattr(examine, "_started", real)
    monkeypatch.setattr(examine, "_PATIENCE", 60)
    np.testing.assert_array_equal(isorep.read(second).values[:], VALUES)


@pytest.mark.timeout(300)  # a search for each name among all others takes far longer
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_of_very_many_columns_are_read(tmp_path, kind):
    names = [f"c{column}" for column in range(60_000 if kind == "csv" else 8_000)]
    values = np.random.default_rng(0).normal(size=(3, len(names)))
    path = tmp_path / f"wide.{kind}"
    if kind == "csv":
        path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in values.tolist())]))
    else:
        pq.write_table(pa.table(list(values.T), names=names), path)
    read = isorep.read(path)
    np.testing.assert_array_equal(read.values[:], values)
    assert read.columns == tuple(names)


@pytest.mark.parametrize("where", ["values", "ids"])
def test_hdf5_chunks_that_unpack_to_more_than_they_declare_are_refused(tmp_path, where):
    path = tmp_path / "bomb.h5"
    shapes = {"values": (10**6, 4), "ids": (10**6,)}
    with h5py.File(path, "w") as file:
        for name, shape in shapes.items():
            dataset = file.create_dataset(name, shape, "f8" if name == "values" else "i8", chunks=shape, compression=9)
            if name == where:
                packed = b"\x78\xda" + zeros(2**31) + bytes(4)
                dataset.id.write_direct_chunk((0,) * len(shape), packed)
    assert path.stat().st_size < 10**7
    assert "it may be a bomb" in refusal(path)


def test_hdf5_chunks_that_are_large_and_honest_are_read(tmp_path):
    noise = np.random.default_rng(0).normal(size=(30000, 20))
    for packing in ("gzip", "lzf", None):
        path = tmp_path / f"{packing}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("z", data=noise, chunks=(9000, 20), compression=packing, shuffle=True, fletcher32=True)
        read = isorep.read(path).values
        np.testing.assert_array_equal(np.asarray(read), noise)


@pytest.mark.parametrize("length", [0x3C3C3C3C, 0x7FFFFFFF, 0xFFFFFFFF])
def test_hdf5_texts_that_declare_gigabytes_are_refused(tmp_path, length):
    """The library makes room for as many bytes as a reference to a text says."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["values"] = VALUES
        ids = file.create_dataset("ids", data=[f"row {row}" for row in range(len(VALUES))], dtype=h5py.string_dtype())
        place = ids.id.get_offset() + 16 * 150
    assert isorep.read(path).ids[150] == "row 150"
    with path.open("r+b") as raw:
        raw.seek(place)
        raw.write(length.to_bytes(4, "little"))
    assert "a text in it is too long" in refusal(path)


@pytest.mark.parametrize("error", [MemoryError(), OSError("Can't read data (memory allocation failed for chunk)")])
def test_texts_that_are_long_together_are_examined_in_parts(monkeypatch, error):
    """Documents are legal: only a single text that does not fit into the memory is refused."""
    monkeypatch.setattr(examine, "_limit_memory", lambda *_: None)

    class Dataset:
        shape = (50_000,)
        longest = None

        def __init__(self):
            self.read = np.zeros(self.shape, bool)

        def __getitem__(self, rows):
            if rows.stop - rows.start > 3000 or (self.longest is not None and rows.start <= self.longest < rows.stop):
                raise error
            self.read[rows] = True

    dataset = Dataset()
    tree = SimpleNamespace(checked=lambda _: dataset, chunks=lambda _: None)
    examine._texts(tree, "ids")
    assert dataset.read.all()
    dataset.longest = 30_001
    with pytest.raises(examine._LongTextError):
        examine._texts(tree, "ids")


def test_large_chunks_of_packed_texts_are_read_from_hdf5(tmp_path):
    names = [f"cell {row:>9}" for row in range(200_000)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"] = np.zeros((len(names), 1))
        options = {"dtype": h5py.string_dtype(), "chunks": (len(names),), "compression": "gzip"}
        file.create_dataset("ids", (len(names),), **options)[:] = names
    assert list(isorep.read(tmp_path / "a.h5").ids[-2:]) == names[-2:]


def test_hdf5_filters_that_are_not_known_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("z", data=VALUES, chunks=(20, 3), scaleoffset=3)
    with pytest.raises(isorep.InputError, match="packed with HDF5 filter 6"):
        isorep.read(tmp_path / "a.h5")


def test_hdf5_does_not_look_into_other_files(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["z"] = VALUES
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["z"] = h5py.ExternalLink("secret.h5", "/z")
        file["soft"] = h5py.SoftLink("/z")
    for key in (None, "z", "soft"):
        with pytest.raises(isorep.InputError, match="no array"):
            isorep.read(tmp_path / "link.h5", key=key)
    with pytest.raises(isorep.InputError, match="not followed"):
        column(tmp_path / "link.h5", "z")
    (tmp_path / "raw").write_bytes(bytes(480))
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("z", (20, 3), "f8", external=[(str(tmp_path / "raw"), 0, 480)])
    with pytest.raises(isorep.InputError, match="not followed"):
        isorep.read(tmp_path / "external.h5")
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((200, 3), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "z", (200, 3))
        file.create_virtual_dataset("z", layout)
    with pytest.raises(isorep.InputError, match="not followed"):
        isorep.read(tmp_path / "virtual.h5")


def test_long_text_that_repeats_is_refused_as_ids(tmp_path):
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**5, "i4")), pa.array(["x" * 10**6]))
    pq.write_table(pa.table({"feature_0": np.zeros(10**5), "id": words}), tmp_path / "a.parquet")
    assert "too much for row ids" in refusal(tmp_path / "a.parquet")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["z"] = np.zeros((10**5, 1))
        file.create_dataset("ids", (10**5,), h5py.string_dtype())[0] = "x" * 10**6
    assert "too much for row ids" in refusal(tmp_path / "a.h5")


def test_lists_that_fill_the_memory_are_refused(tmp_path):
    lists = pa.ListArray.from_arrays(pa.array([0, 10**8], "i4"), pa.array(np.zeros(10**8, "f4")))
    pq.write_table(pa.table({"e": lists}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 10**7
    assert "the lists of column 'e' have more than" in refusal(tmp_path / "a.parquet")


def test_folders_that_are_not_one_matrix_are_refused(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    np.save(folder / "part-0.npy", VALUES)
    np.savez(folder / "part-1.npz", VALUES)
    assert "mixes formats: part-0.npy and part-1.npz" in refusal(folder)
    (folder / "part-1.npz").unlink()
    np.save(folder / "part-1.npy", VALUES[:, :2])
    assert "part-1.npy has 2 columns and part-0.npy has 3" in refusal(folder)
    np.save(folder / "part-1.npy", np.ones((4, 3), int))
    assert "part-1.npy holds int64 and part-0.npy holds float64" in refusal(folder)
    np.save(folder / "part-1.npy", VALUES[0])
    assert "part-1.npy has shape (3,)" in refusal(folder)
    (folder / "part-1.npy").write_bytes(b"")
    assert "part-1.npy is empty" in refusal(folder)
    (folder / "part-1.npy").unlink()
    (folder / "notes.txt").write_text("read me")
    assert "notes.txt: cannot read .txt" in refusal(folder)
    (folder / "notes.txt").unlink()
    (folder / "more").mkdir()
    assert "with a folder more in it" in refusal(folder)


def test_shards_with_and_without_ids_are_refused(tmp_path):
    isorep.write(isorep.Representation(VALUES, np.arange(200)), tmp_path / "0.npz")
    isorep.write(VALUES, tmp_path / "1.npz")
    with pytest.raises(isorep.InputError, match=r"0\.npz has row ids and 1\.npz has none"):
        isorep.read(tmp_path)
    isorep.write(isorep.Representation(VALUES, np.arange(200)), tmp_path / "1.npz")
    with pytest.raises(isorep.InputError, match="duplicate row ids"):
        isorep.read(tmp_path)


def replaced_by(path, what, outside):
    """Move a file or folder away, and put a link to it, to a device or a pipe in its place."""
    path.rename(outside)
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"device": Path("/dev/zero"), "link": outside}[what])


@pytest.mark.parametrize("what", ["link", "device", "pipe"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("place", ["chunk", "metadata", "array in a group"])
def test_stores_hold_regular_files_alone(tmp_path, what, zarr_format, place):
    path, chunk, metadata = tmp_path / "a.zarr", "0.0" if zarr_format == 2 else "c/0/0", ".zattrs"
    if place == "array in a group":
        zarr.open_group(path, mode="w", zarr_format=zarr_format).create_array("z", data=VALUES)
        replaced = path / "z"
    else:
        zarr.create_array(path, data=VALUES, zarr_format=zarr_format)
        metadata = ".zattrs" if zarr_format == 2 else "zarr.json"
        replaced = path / (chunk if place == "chunk" else metadata)
    assert np.array_equal(isorep.read(path).values[:], VALUES)
    replaced_by(replaced, what, tmp_path / "outside")
    if (what, place) in (("device", "array in a group"), ("pipe", "array in a group")):
        assert "no array" in refusal(path)  # it is no group member for zarr either, and is never opened
    else:
        assert re.search("is a link|not a regular file|not a zarr store", refusal(path))


def test_a_linked_folder_of_chunks_is_refused(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=VALUES)
    replaced_by(tmp_path / "a.zarr" / "c", "link", tmp_path / "outside")
    assert "a.zarr: c is a link inside a folder, which is not followed" in refusal(tmp_path / "a.zarr")


@pytest.mark.parametrize("what", ["link", "device", "pipe"])
def test_folders_of_shards_and_of_layers_hold_regular_files_alone(tmp_path, what):
    for name in ("shards", "layers"):
        (tmp_path / name).mkdir()
        for part in range(2):
            np.save(tmp_path / name / f"part-{part}.npy", VALUES)
    files = {f"l{part}": tmp_path / "layers" / f"part-{part}.npy" for part in range(2)}
    layers.write_list(files, {"l0": 0, "l1": 1})
    assert layers.open_layers(tmp_path / "layers").read("l1")[0].shape == VALUES.shape
    for name in ("shards", "layers"):
        replaced_by(tmp_path / name / "part-1.npy", what, tmp_path / f"{name} outside")
    words = r"part-1\.npy is (a link|not a regular file)"
    assert re.search(words, refusal(tmp_path / "shards"))
    for named in (None, ["l1"], ["part-1"]):
        with pytest.raises(isorep.InputError, match=words):
            layers.open_layers(tmp_path / "layers", named)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_absent_chunks_are_noted_with_what_they_are_read_as(tmp_path, zarr_format):
    chunks = {"chunks": (50, 3), "fill_value": 1.5}
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=zarr_format)
    for array in (
        zarr.create_array(tmp_path / "a.zarr", shape=VALUES.shape, dtype="f8", zarr_format=zarr_format, **chunks),
        group.create_array("z", shape=VALUES.shape, dtype="f8", **chunks),
    ):
        array[:] = VALUES
    for path, name in ((tmp_path / "a.zarr", "a.zarr"), (tmp_path / "g.zarr", "g.zarr::z")):
        assert isorep.read(path).converted == {}
        inner = path / "z" if "::" in name else path
        (inner / ("1.0" if zarr_format == 2 else "c/1/0")).unlink()
        (inner / "7.0").write_bytes(b"")  # no chunk of this array
        found = isorep.read(path)
        assert found.converted == {name: "1 of 4 chunks absent, read as 1.5"}
        np.testing.assert_array_equal(found.values[50:100], np.full((50, 3), 1.5))


def test_absent_chunks_of_one_shard_among_several_are_noted(tmp_path):
    for part in range(2):
        zarr.create_array(tmp_path / f"part-{part}.zarr", data=VALUES, chunks=(50, 3), shards=(100, 3))
    (tmp_path / "part-1.zarr" / "c" / "0" / "0").unlink()
    assert isorep.read(tmp_path).converted == {"part-1.zarr": "1 of 2 shards absent, read as 0.0"}


def test_a_store_that_declares_endless_chunks_is_not_counted_through(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(2**60, 3), chunks=(1, 3), dtype="f8")
    assert "bomb" in refusal(tmp_path / "a.zarr")


def npy_with(header, version=2):
    """An npy stream with a header of its own."""
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<I", len(header)) + header + VALUES.tobytes()


def test_numpys_advice_to_unpickle_is_not_passed_on(tmp_path):
    plain = b"{'descr': '<f8', 'fortran_order': False, 'shape': (200, 3)}"
    (tmp_path / "a.npy").write_bytes(npy_with(plain + b" " * 20_000))
    said = refusal(tmp_path / "a.npy")
    assert "its header has 20059 bytes, and one of up to 10000 is read" in said
    assert "pickle" not in said
    (tmp_path / "b.npy").write_bytes(npy_with(plain + b" " * 9000))
    assert isorep.read(tmp_path / "b.npy").shape == VALUES.shape


@pytest.mark.parametrize("kind", ["|S0", "|V0", "<U0"])
def test_entries_of_no_bytes_are_no_numbers(tmp_path, kind):
    (tmp_path / "a.npy").write_bytes(
        npy_with(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (9999999999, 3)}}".encode())
    )
    assert "not numbers" in refusal(tmp_path / "a.npy")


def test_an_encrypted_archive_is_called_so(tmp_path):
    np.savez(tmp_path / "a.npz", z=VALUES)
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    raw[raw.find(b"PK\x03\x04") + 6] |= 1
    raw[raw.find(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.npz").write_bytes(raw)
    assert refusal(tmp_path / "a.npz") == "a.npz: array 'z' is encrypted, which is not read"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for factor in (1, 2):
            made = io.BytesIO()
            np.save(made, VALUES * factor)
            archive.writestr("z.npy", made.getvalue())
    assert refusal(tmp_path / "a.npz") == "a.npz: two arrays are called 'z'"
    one = f'"z": {{"dtype": "F64", "shape": [200, 3], "data_offsets": [0, {VALUES.nbytes}]}}'
    head = f"{{{one}, {one}}}".encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + VALUES.tobytes())
    assert "'z' twice" in refusal(tmp_path / "a.safetensors")


def test_ids_in_hdf5_are_utf8_also_if_called_ascii(tmp_path):
    def with_ids(path, first):
        with h5py.File(path, "w") as file:
            file["z"] = VALUES
            ids = np.array([first, *(b"r%d" % row for row in range(199))], "S8")
            file.create_dataset("ids", data=ids, dtype=h5py.string_dtype("ascii", 8))

    with_ids(tmp_path / "a.h5", "\u00e9".encode())
    assert isorep.read(tmp_path / "a.h5").ids[0] == "\u00e9"
    with_ids(tmp_path / "b.h5", b"\xff")
    assert refusal(tmp_path / "b.h5") == "b.h5: dataset 'ids' holds text that is not UTF-8"


@pytest.mark.parametrize(
    ("digits", "words"), [(5000, "row 0 holds a whole number of more than 4300 digits"), (400, "float64")]
)
def test_endless_whole_numbers_in_json_lines_are_named(tmp_path, digits, words):
    (tmp_path / "a.jsonl").write_text(f'{{"id": 1, "vector": [{"9" * digits}, 2]}}\n')
    said = refusal(tmp_path / "a.jsonl")
    assert words in said
    assert "set_int_max_str_digits" not in said


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_text_in_utf16_is_named(tmp_path, name):
    text = '{"vector": [1, 2]}\n' if "jsonl" in name else "a,b\n1,2\n"
    data = text.encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert "UTF-16" in refusal(tmp_path / name)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([[1]] * 200, "column 'id' holds list<.*>, which cannot be row ids"),
        ([{"a": 1}] * 200, "column 'id' holds struct<.*>, which cannot be row ids"),
        (np.r_[np.nan, np.arange(199.0)], "column 'id' has 1 missing entries"),
        (np.r_[np.nan, np.arange(199.0)].astype(np.float16), "column 'id' has 1 missing entries"),
    ],
)
def test_ids_that_are_lists_or_no_numbers_are_refused(tmp_path, ids, words):
    pq.write_table(pa.table({"id": pa.array(ids), "f": VALUES[:, 0], "g": VALUES[:, 1]}), tmp_path / "a.parquet")
    assert re.search(words, refusal(tmp_path / "a.parquet"))


def test_an_id_that_is_no_number_is_refused(tmp_path):
    ids = np.r_[0.5, np.nan, np.arange(198.0)]
    np.savez(tmp_path / "a.npz", z=VALUES, ids=ids)
    assert "a.npz has no id in row 1: it is nan" in refusal(tmp_path / "a.npz")
    with pytest.raises(isorep.InputError, match="has no id in row 0: it is None"):
        isorep.Representation(VALUES[:2], ids=np.array([None, "a"], dtype=object))
    lines = [json.dumps({"id": label, "vector": [1.0, 2.0]}) for label in (0.5, float("nan"))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert "row 1 has no number or text under 'id'" in refusal(tmp_path / "a.jsonl")


def test_members_that_numpy_would_not_pack_so_are_refused_before_they_are_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_BZIP2) as archive, archive.open("z.npy", "w") as file:
        np.lib.format.write_array(file, VALUES)
    assert "array 'z' is not compressed the way numpy does" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("what", ["tensors", "metadata"])
def test_a_header_that_fills_the_memory_is_refused(tmp_path, what):
    entry = {"tensors": '"%d":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}', "metadata": '"%d":"%d"'}[what]
    entries = ",".join(entry.replace("%d", str(number)) for number in range(10**6))
    header = f"{{{entries}}}" if what == "tensors" else f'{{"__metadata__":{{{entries}}}}}'
    text = header.encode().ljust(2**25)
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    assert "its header has" in refusal(tmp_path / "a.safetensors")
    with pytest.raises(isorep.InputError, match="its header has"):
        isorep.ICA.load(tmp_path / "a.safetensors")


def test_lines_of_json_are_held_by_their_length_as_well_as_their_number(tmp_path, monkeypatch):
    monkeypatch.setattr("isorep.storage.jsonl._LONGEST_LINE", 1000)
    lines = [json.dumps({"vector": [row / 2], "text": "x" * (300 if row % 20 < 10 else 3)}) for row in range(100)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    held = list(jsonl.texts(tmp_path / "a.jsonl"))
    assert [line.rstrip("\n") for _, some in held for line in some] == lines
    assert [start for start, _ in held] == np.cumsum([0, *(len(some) for _, some in held)])[:-1].tolist()
    assert max(sum(map(len, some)) for _, some in held) <= 1000
    np.testing.assert_array_equal(isorep.read(tmp_path / "a.jsonl").values[:, 0], np.arange(100) / 2)


@pytest.mark.parametrize("suffix", ["jsonl", "h5"])
def test_one_long_id_among_short_ones_is_refused(tmp_path, suffix):
    ids = ["x" * 10**6, *(f"r{row}" for row in range(199))]
    if suffix == "h5":
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["z"] = VALUES
            file["ids"] = ids
    else:
        rows = zip(ids, VALUES.tolist(), strict=True)
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": each, "vector": row}) + "\n" for each, row in rows))
    assert "too much for row ids" in refusal(tmp_path / f"a.{suffix}")


def test_ids_beyond_64_bits_are_text(tmp_path):
    lines = [json.dumps({"id": 10**30 + row, "vector": [row / 2]}) for row in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert list(isorep.read(tmp_path / "a.jsonl").ids) == [str(10**30 + row) for row in range(3)]
    assert list(column(tmp_path / "a.jsonl", "id")) == [str(10**30 + row) for row in range(3)]


def test_a_torch_file_that_asks_for_a_buffer_of_any_size_is_refused(tmp_path):
    program = b"\x80\x02cbuiltins\nbytearray\n(J\x00\x00\x00\x7ftR."
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", "3\n")
    assert "it holds a bytearray" in refusal(tmp_path / "a.pt")


def test_dicts_that_hold_one_another_many_times_are_refused(tmp_path):
    held = {"a": torch.zeros(2, 3)}
    for _ in range(12):
        held = {str(name): held for name in range(10)}
    torch.save(held, tmp_path / "a.pt")
    assert "entries in dicts inside of each other" in refusal(tmp_path / "a.pt")
    torch.save({"a.b": torch.zeros(4, 3), "a": {"b": torch.ones(2, 3)}}, tmp_path / "a.pt")
    assert "two tensors are called 'a.b'" in refusal(tmp_path / "a.pt")


def test_parquet_of_endless_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("isorep.storage.parquet._MOST_COLUMNS", 2)
    pq.write_table(pa.table(dict(zip("abc", VALUES.T, strict=True))), tmp_path / "a.parquet")
    with pytest.raises(isorep.InputError, match="it has 3 columns, and up to 2 are read"):
        isorep.read(tmp_path / "a.parquet")
    monkeypatch.setattr("isorep.storage.parquet._LONGEST_FOOTER", 100)
    with pytest.raises(isorep.InputError, match="its footer has"):
        isorep.read(tmp_path / "a.parquet")


def test_metadata_of_pandas_without_an_index_are_read(tmp_path):
    table = pa.table(dict(zip("abc", VALUES.T, strict=True))).replace_schema_metadata({b"pandas": b'{"columns": []}'})
    pq.write_table(table, tmp_path / "a.parquet")
    np.testing.assert_array_equal(isorep.read(tmp_path / "a.parquet").values, VALUES)


def test_entries_of_columns_are_counted_in_one_pass(tmp_path):
    held = {"a": [[1, 2], [3], []], "b": ["x", "y", None], "c": [{"d": 1, "e": 2}] * 3}
    pq.write_table(pa.table(held), tmp_path / "a.parquet", row_group_size=2)
    assert parquet._entries(pq.ParquetFile(tmp_path / "a.parquet").metadata) == {"a": 4, "b": 3, "c": 6}


@pytest.mark.parametrize("said", [b"[]", b'{"index_columns": null}', b"[" * 10**5, b"\xff"])
def test_a_damaged_index_of_pandas_is_named(tmp_path, said):
    table = pa.table(dict(zip("abc", VALUES.T, strict=True))).replace_schema_metadata({b"pandas": said})
    pq.write_table(table, tmp_path / "a.parquet")
    assert "what pandas wrote about its index is damaged" in refusal(tmp_path / "a.parquet")


def test_metadata_of_zarr_that_fill_the_memory_are_refused(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=VALUES)
    path = tmp_path / "a.zarr" / "zarr.json"
    told = json.loads(path.read_text())
    kind = {"name": "raw_bytes", "configuration": {"length_bytes": 2 * 10**9}}
    path.write_text(json.dumps(told | {"data_type": kind, "fill_value": ""}))
    assert "it declares entries of 2000000000 bytes" in refusal(tmp_path / "a.zarr")
    path.write_text(json.dumps(told).ljust(2**24 + 1))
    assert "its zarr.json takes more than" in refusal(tmp_path / "a.zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_attributes_of_zarr_may_tell_of_any_type(tmp_path, version):
    said = {"dtype": "float32 of run 20261119", "data_type": {"run": 99999999}}
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version, attributes=said)
    group.create_array("values", data=VALUES).attrs.update(said)
    np.testing.assert_array_equal(isorep.read(tmp_path / "a.zarr").values[:], VALUES)


@pytest.mark.filterwarnings("ignore:The data type")  # what zarr says to those who write
def test_advice_of_zarr_to_writers_is_not_passed_on(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("z", data=VALUES)
    group.create_array("ids", data=np.array([f"r{row}" for row in range(len(VALUES))]))
    with warnings.catch_warnings(action="error"):
        assert isorep.read(tmp_path / "a.zarr").ids[7] == "r7"


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
def test_codes_and_columns_of_other_shapes_are_named(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    isorep.write(VALUES, tmp_path / "a.h5ad")
    if suffix == "zarr":
        import anndata

        anndata.read_h5ad(tmp_path / "a.h5ad").write_zarr(path)
    with contextlib.ExitStack() as closing:
        if suffix == "h5ad":
            obs = closing.enter_context(h5py.File(path, "r+"))["obs"]
        else:
            obs = zarr.open_group(path, mode="r+", use_consolidated=False)["obs"]
        make = "create_dataset" if suffix == "h5ad" else "create_array"
        getattr(obs, make)("wide", data=np.zeros((200, 2)))
        for name, held in (("codes", np.zeros(200)), ("categories", np.arange(2.0))):
            getattr(obs.require_group("c"), make)(name, data=held)
    with pytest.raises(isorep.InputError, match="obs/c has codes of type float64, not whole numbers"):
        column(path, "c")
    with pytest.raises(isorep.InputError, match=r"'obs/wide' has shape \(200, 2\) where one entry per row is needed"):
        column(path, "wide")
