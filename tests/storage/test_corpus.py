"""A part of the corpus of hostile files (``tests/hostile.py``): clear errors alone, and no code of a file is run."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isorep

from .. import hostile


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return hostile.originals(tmp_path_factory.mktemp("sound"))


TABLES = ["csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "gct", "parquet"]
ARRAYS = ["npy", "npz", "packed.npz", "safetensors", "pt", "h5", "h5ad", "zarr", "zarr format 2", "shards"]
OWN = ["model", "map", "checkpoint", "result"]


@pytest.mark.filterwarnings("ignore")  # what libraries say of damaged files
@pytest.mark.parametrize("kind", [*TABLES, *ARRAYS, *OWN])
def test_damaged_files_are_read_or_refused_in_one_sentence(sound, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    original = sound[kind]
    copy = tmp_path / original.name
    (shutil.copytree if original.is_dir() else shutil.copyfile)(original, copy)  # a fit removes its checkpoint
    assert hostile.outcome(kind, copy) == "read"
    parts = sorted(part for part in original.rglob("*") if part.is_file()) if original.is_dir() else [original]
    told = []
    for number, part in enumerate(parts):
        if original.is_dir():
            shutil.copytree(original, copy, dirs_exist_ok=True)
        target = copy / part.relative_to(original) if original.is_dir() else copy
        few = (4, 8) if kind in ("pt", "map", "checkpoint", "h5ad") else (8, 12)
        for damage, data in hostile.damages(part.read_bytes(), number, *few):
            target.write_bytes(data)
            told.append((f"{damage} of {target.name}", hostile.outcome(kind, copy)))
    assert [each for each in told if each[1] not in ("read", "refused")] == []
    assert "refused" in {said for _, said in told}
    assert not (tmp_path / "executed").exists()


@settings(max_examples=60)
@given(data=st.binary(max_size=300), suffix=st.sampled_from(["npy", "npz", "csv", "jsonl", "safetensors", "gct"]))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data, suffix):
    path = tmp_path_factory.mktemp("any") / f"a.{suffix}"
    path.write_bytes(data)
    assert hostile.outcome(suffix, path) in ("read", "refused")


@settings(max_examples=60)
@given(text=st.text("0123456789.,;-+eE\"'\n\r\t nNaAif_#\ufeff", max_size=120), suffix=st.sampled_from(["csv", "tsv"]))
def test_any_table_of_text_is_read_or_refused(tmp_path_factory, text, suffix):
    path = tmp_path_factory.mktemp("any") / f"a.{suffix}"
    path.write_bytes(text.encode())
    assert hostile.outcome(suffix, path) in ("read", "refused")


VALUES = np.array([[0.5, -1.25], [2.0, 3.5], [1e-3, 7.125]])
LEGAL = {
    "byte order mark": "\ufeffa,b\n0.5,-1.25\n2.0,3.5\n1e-3,7.125\n",
    "carriage returns": "a,b\r\n0.5,-1.25\r\n2.0,3.5\r\n1e-3,7.125\r\n",
    "semicolons": "a;b\n0.5;-1.25\n2.0;3.5\n1e-3;7.125\n",
    "decimal commas": "a;b\n0,5;-1,25\n2,0;3,5\n0,001;7,1250\n",
    "all of them": "\ufeffa;b\r\n0,5;-1,25\r\n2,0;3,5\r\n0,001;7,1250\r\n",
    "quotes": '"a","b"\n"0.5","-1.25"\n"2.0","3.5"\n"1e-3","7.125"\n',
    "no last line break": "a,b\n0.5,-1.25\n2.0,3.5\n1e-3,7.125",
}


@pytest.mark.parametrize("kind", LEGAL)
def test_legal_spellings_of_a_table_are_read(tmp_path, kind):
    (tmp_path / "a.csv").write_bytes(LEGAL[kind].encode())
    np.testing.assert_array_equal(isorep.read(tmp_path / "a.csv").values, VALUES)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2"])
def test_orders_of_memory_and_bytes_are_read(tmp_path, order, dtype):
    values = np.asarray(VALUES, dtype, order=order)
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(isorep.read(tmp_path / "a.npy").values[:], values)


def test_dictionary_and_nullable_columns_are_read(tmp_path):
    columns = {
        "a": pa.array(VALUES[:, 0]).dictionary_encode(),
        "b": pa.array([-1.25, None, 7.125]),
        "c": pa.array([1, 2, 3], pa.int16()),
        "d": pa.array([True, False, True]),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    read = isorep.read(tmp_path / "a.parquet")
    wanted = np.column_stack([VALUES[:, 0], [-1.25, np.nan, 7.125], [1, 2, 3], [1, 0, 1]])
    np.testing.assert_array_equal(read.values[:], wanted)


def test_whole_numbers_alone_are_refused_as_values_with_advice(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(12).reshape(4, 3))
    with pytest.raises(isorep.InputError, match="int64"):
        isorep.read(tmp_path / "a.npy")
