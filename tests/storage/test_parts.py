"""Files that workers read: the rows, ids and notes of ``isorep.read``, from folders, stores and URLs."""

from __future__ import annotations

import numpy as np
import pytest

import isorep
from isorep.chunked import ChunkedRows
from isorep.storage import labels, parts

dask = pytest.importorskip("dask")
fsspec = pytest.importorskip("fsspec")
parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")
zarr = pytest.importorskip("zarr")

N, D = 700, 4
VALUES = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
IDS = np.array([f"row {index}" for index in range(N)])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "_LEAST_CELLS", 100 * D)
    monkeypatch.setattr(parts, "_MOST_CELLS", 100 * D)


def table(rows=slice(None), **more):
    columns = {f"feature_{index}": VALUES[rows, index] for index in range(D)}
    return pyarrow.table({"id": IDS[rows], "plate": np.arange(N)[rows] // 7, **columns, **more})


def save(folder, kind):
    """The same rows as a file or a folder of some kind; its path."""
    if kind == "parquet":
        parquet.write_table(table(), folder / "a.parquet", row_group_size=150)
        return folder / "a.parquet"
    if kind == "lists":
        lists = pyarrow.FixedSizeListArray.from_arrays(VALUES.ravel(), D)
        parquet.write_table(pyarrow.table({"id": IDS, "vector": lists}), folder / "a.parquet", row_group_size=150)
        return folder / "a.parquet"
    if kind == "zarr":
        zarr.create_array(folder / "a.zarr", data=VALUES, chunks=(90, D))
        return folder / "a.zarr"
    if kind in ("npy", "npz", "safetensors", "h5"):
        ids = None if kind in ("npy", "safetensors") else IDS
        isorep.write(isorep.Representation(VALUES, ids=ids), folder / f"a.{kind}")
        return folder / f"a.{kind}"
    shards = folder / "shards"
    shards.mkdir()
    for index, start in enumerate(range(0, N, 200)):
        rows = slice(start, start + 200)
        if kind == "npy shards":
            np.save(shards / f"part-{index}.npy", VALUES[rows])
        else:
            parquet.write_table(table(rows), shards / f"part-{index}.parquet", row_group_size=90)
    return shards


KINDS = ("parquet", "lists", "npy", "npz", "safetensors", "h5", "zarr", "npy shards", "parquet shards")


@pytest.mark.parametrize("kind", KINDS)
def test_workers_read_what_read_reads(tmp_path, kind):
    path = save(tmp_path, kind)
    here, there = isorep.read(path), isorep.read(path, in_chunks=True)
    assert isinstance(there.values, ChunkedRows)
    assert len(there.values.chunks) > 3
    np.testing.assert_array_equal(there.values[:], here.values[:])
    assert (there.shape, there.values.dtype, there.name) == (here.shape, here.values.dtype, here.name)
    assert (there.left_out, there.converted) == (here.left_out, here.converted)
    np.testing.assert_array_equal(there.ids, here.ids)


@pytest.mark.parametrize("kind", ["parquet", "lists", "npy", "zarr", "npy shards", "parquet shards"])
@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_urls_are_read_through_fsspec(tmp_path, kind, in_chunks, scheme):
    path = save(tmp_path, kind)
    url = f"file://{path}"
    if scheme == "memory":
        url = f"memory://{tmp_path.name}/{path.name}"
        fsspec.filesystem("memory").put(str(path), f"/{tmp_path.name}/{path.name}", recursive=True)
    here, there = isorep.read(path), isorep.read(url, in_chunks=in_chunks)
    np.testing.assert_array_equal(there.values[:], here.values[:])
    np.testing.assert_array_equal(there.ids, here.ids)
    assert there.name == here.name


def test_a_url_that_is_none_is_refused():
    with pytest.raises(isorep.InputError, match="is no URL: Invalid IPv6 URL"):
        isorep.read("file://[1/a.npy")


def test_a_key_and_labels_of_a_url(tmp_path):
    path = save(tmp_path, "parquet")
    fsspec.filesystem("memory").put(str(path), f"/{tmp_path.name}/a.parquet")
    url = f"memory://{tmp_path.name}/a.parquet"
    np.testing.assert_array_equal(labels("plate", url), np.arange(N) // 7)
    np.testing.assert_array_equal(isorep.read(f"{url}::feature_").values[:], VALUES)


def test_a_shard_without_rows_is_passed_over(tmp_path):
    folder = save(tmp_path, "npy shards")
    np.save(folder / "part-0a.npy", VALUES[:0])
    for in_chunks in (False, True):
        rows = isorep.read(folder, in_chunks=in_chunks)
        np.testing.assert_array_equal(rows.values[:], VALUES)


def test_what_cannot_be_read_in_parts_is_refused(tmp_path):
    isorep.write(VALUES, tmp_path / "a.csv")
    with pytest.raises(isorep.InputError, match=r"a\.csv: text is parsed from its beginning"):
        isorep.read(tmp_path / "a.csv", in_chunks=True)
    np.savez_compressed(tmp_path / "a.npz", values=VALUES)
    with pytest.raises(isorep.InputError, match=r"a\.npz: it is compressed as a whole"):
        isorep.read(tmp_path / "a.npz", in_chunks=True)


def test_urls_that_are_not_there_or_not_known_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="does not exist"):
        isorep.read("memory://nowhere/a.parquet")
    with pytest.raises(isorep.InputError, match=r"nothing://a\.npy cannot be opened"):
        isorep.read("nothing://a.npy", in_chunks=True)
    fsspec.filesystem("memory").pipe(f"/{tmp_path.name}/a.csv", b"a,b\n1,2\n")
    with pytest.raises(isorep.InputError, match="of URLs parquet, npy and zarr are read"):
        isorep.read(f"memory://{tmp_path.name}/a.csv")
    with pytest.raises(isorep.InputError, match="URLs are read"):
        isorep.write(VALUES, "memory://a.npy")


def test_shards_that_do_not_continue_the_first_are_refused(tmp_path):
    folder = save(tmp_path, "parquet shards")
    other = table(slice(0, 9)).rename_columns(["id", "plate", "feature_1", "feature_0", "feature_2", "feature_3"])
    parquet.write_table(other, folder / "part-9.parquet")
    with pytest.raises(isorep.InputError, match="the same columns in the same order"):
        isorep.read(folder, in_chunks=True)
    parquet.write_table(table(slice(0, 9)).drop_columns(["feature_3"]), folder / "part-9.parquet")
    with pytest.raises(isorep.InputError, match=r"part-9\.parquet has 3 columns"):
        isorep.read(folder, in_chunks=True)
    parquet.write_table(table(slice(0, 9)).drop_columns(["id"]), folder / "part-9.parquet")
    with pytest.raises(isorep.InputError, match=r"part-9\.parquet has none"):
        isorep.read(folder, in_chunks=True)


@pytest.mark.parametrize("kind", ["parquet", "npy shards"])
def test_workers_that_were_started_elsewhere_find_relative_paths(tmp_path, monkeypatch, kind):
    path = save(tmp_path, kind)
    monkeypatch.chdir(tmp_path)
    rows = isorep.read(path.name, in_chunks=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(rows.values[:], VALUES)


def test_a_damaged_part_is_named_with_its_row(tmp_path):
    lists = [VALUES[index].tolist() for index in range(N)]
    lists[650] = lists[650][:2]
    parquet.write_table(pyarrow.table({"vector": lists}), tmp_path / "a.parquet", row_group_size=150)
    rows = isorep.read(tmp_path / "a.parquet", in_chunks=True)
    with pytest.raises(isorep.InputError, match=r"a\.parquet: column 'vector' is ragged: .* row 650 has 2"):
        rows.values[:]
