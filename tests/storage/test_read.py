"""Every format gives back what was stored, with its ids."""

import gzip
import struct
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

import isorep
from isorep.storage import column, lazy, scratch

VALUES = np.random.default_rng(0).normal(size=(7, 3))
IDS = np.array([f"cell {i}" for i in range(7)])


def write(folder, kind, values=VALUES, ids=IDS):
    path = folder / f"run.{kind}"
    frame = pd.DataFrame(values, columns=[f"feature_{j}" for j in range(values.shape[1])])
    if kind == "npy":
        np.save(path, values)
    elif kind == "npz":
        np.savez(path, latents=values, ids=ids)
    elif kind == "compressed.npz":
        np.savez_compressed(path, latents=values, ids=ids)
    elif kind == "safetensors":
        save_file({"latents": values, "ids": np.arange(len(values))}, path)
    elif kind in ("csv", "csv.gz"):
        frame.assign(id=ids, Metadata_plate=1, note="text").to_csv(path, index=False)
    elif kind == "tsv":
        frame.assign(id=ids).to_csv(path, index=False, sep="\t")
    elif kind == "parquet":
        frame.assign(id=ids, Metadata_plate=1, other=2.0).to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed.npz", "safetensors", "csv", "csv.gz", "tsv", "parquet"])
def test_values_and_ids_come_back(tmp_path, kind):
    read = isorep.read(write(tmp_path, kind))
    np.testing.assert_array_equal(read.values[:], VALUES)
    assert read.name == f"run.{kind}"
    if kind == "npy":
        assert read.ids is None
    elif kind == "safetensors":
        np.testing.assert_array_equal(read.ids, np.arange(7))
    else:
        np.testing.assert_array_equal(read.ids, IDS)


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_large_plain_arrays_stay_in_their_file(tmp_path, kind, monkeypatch):
    assert isinstance(isorep.read(write(tmp_path, kind)).values, np.ndarray)
    monkeypatch.setattr(lazy, "HELD_BYTES", 50)
    values = isorep.read(write(tmp_path, kind)).values
    assert isinstance(values, lazy.PlainMatrix)
    np.testing.assert_array_equal(values[:], VALUES)
    np.testing.assert_array_equal(values[[5, 0, 5]], VALUES[[5, 0, 5]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.save, "savez", "compressed"])
def test_dtypes_and_memory_orders(tmp_path, dtype, order, save):
    values = np.asarray(VALUES, dtype=dtype, order=order)
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    if save is np.save:
        np.save(path, values)
    elif save == "savez":
        np.savez(path, values)
    else:
        np.savez_compressed(path, values)
    read = isorep.read(path)
    np.testing.assert_array_equal(np.asarray(read.values[2:5]), values[2:5])
    assert read.values.dtype == values.dtype


def test_bfloat16_tensors_read_as_float32(tmp_path):
    bits = (VALUES.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    header = b'{"z":{"dtype":"BF16","shape":[7,3],"data_offsets":[0,42]}}'
    path = tmp_path / "z.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bits.tobytes())
    read = isorep.read(path)
    assert read.values.dtype == np.float32
    np.testing.assert_allclose(read.values[1:4], VALUES[1:4], rtol=1e-2)


def test_large_text_and_tables_go_to_scratch_not_to_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MEMORY_LIMIT", 50)
    for kind in ("csv", "parquet", "compressed.npz"):
        read = isorep.read(write(tmp_path, kind))
        assert isinstance(read.values, np.memmap), kind
        np.testing.assert_array_equal(read.values[:], VALUES)


def test_scratch_that_does_not_fit_the_disk_is_refused_before_it_is_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MEMORY_LIMIT", 50)
    monkeypatch.setattr(scratch, "DISK_RESERVE", 2**62)
    with pytest.raises(isorep.InputError, match="TMPDIR"):
        isorep.read(write(tmp_path, "parquet"))


@pytest.mark.parametrize("listed", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.float64())])
def test_one_list_column_is_the_representation(tmp_path, listed):
    table = pa.table({"label": [1] * 7, "embedding": pa.array(VALUES.tolist(), listed), "id": IDS.tolist()})
    pq.write_table(table, tmp_path / "e.parquet")
    read = isorep.read(tmp_path / "e.parquet")
    np.testing.assert_allclose(read.values[:], VALUES, rtol=1e-6)
    assert read.ids[3] == "cell 3"


def test_without_feature_columns_all_numeric_ones_but_metadata_are_taken(tmp_path):
    frame = pd.DataFrame({"Metadata_well": [1.0, 2.0], "area": [0.5, 0.25], "count": [3, 4], "name": ["p", "q"]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        np.testing.assert_array_equal(isorep.read(tmp_path / name).values[:], [[0.5, 3.0], [0.25, 4.0]])


def test_the_index_of_a_data_frame_is_ids_and_never_a_feature(tmp_path):
    frame = pd.DataFrame(VALUES, columns=list("pqr"), index=pd.Index(IDS, name="cell"))
    frame.to_parquet(tmp_path / "named.parquet")
    frame.rename_axis(None).to_parquet(tmp_path / "unnamed.parquet")
    frame.rename_axis(None).to_csv(tmp_path / "unnamed.csv")
    for name in ("named.parquet", "unnamed.parquet", "unnamed.csv"):
        read = isorep.read(tmp_path / name)
        assert read.shape == (7, 3), name
        np.testing.assert_array_equal(read.ids, IDS)


def test_a_key_or_double_colon_picks_the_array(tmp_path):
    np.savez(tmp_path / "two.npz", first=VALUES, second=2 * VALUES)
    np.testing.assert_array_equal(isorep.read(tmp_path / "two.npz", key="second").values[:], 2 * VALUES)
    np.testing.assert_array_equal(isorep.read(f"{tmp_path}/two.npz::second").values[:], 2 * VALUES)
    with pytest.raises(isorep.InputError, match=r"several arrays could be meant \(first \(7, 3\), second"):
        isorep.read(tmp_path / "two.npz")
    with pytest.raises(isorep.InputError, match="no array 'third'"):
        isorep.read(tmp_path / "two.npz", key="third")


def test_a_key_picks_columns_by_prefix(tmp_path):
    pd.DataFrame({"z_0": [1.0, 2.0], "z_1": [3.0, 4.0], "w": [5.0, 6.0]}).to_csv(tmp_path / "t.csv", index=False)
    assert isorep.read(tmp_path / "t.csv", key="z_").shape == (2, 2)


def test_a_named_column_gives_the_ids(tmp_path):
    frame = pd.DataFrame({"well": ["a", "b"], "p": [1.0, 2.0], "plate": [7, 8]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        read = isorep.read(tmp_path / name, ids="well")
        assert read.ids.tolist() == ["a", "b"]
        by_plate = isorep.read(tmp_path / name, ids="plate")
        assert by_plate.ids.tolist() == [7, 8]
        assert by_plate.shape == (2, 1), "the id column is not a feature"
        assert column(tmp_path / name, "well").tolist() == ["a", "b"]
        with pytest.raises(isorep.InputError, match="no column 'nowhere'"):
            isorep.read(tmp_path / name, ids="nowhere")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_leading_comments_are_skipped_and_a_header_behind_a_hash_is_none(tmp_path, end):
    def written(name, *lines):
        (tmp_path / name).write_text(end.join(lines) + end, newline="")
        return tmp_path / name

    for lines in (
        ["# exported by a tool", "# a, b, c and more", "id,a,b", "r1,1.5,2.5", "r2,3.5,4.5"],
        ["# made by, numpy", "# id,a,b", "r1,1.5,2.5", "r2,3.5,4.5"],
        ["# one", "1.5,2.5", "3.5,4.5"],
    ):
        found = isorep.read(written("a.csv", *lines))
        np.testing.assert_array_equal(np.asarray(found.values), [[1.5, 2.5], [3.5, 4.5]])
        assert "comments" in found.left_out.values()
    whole = isorep.read(written("b.tsv", "# a\tb", "1.5\t2.5", "3.5\t4.5"))
    np.testing.assert_array_equal(np.asarray(whole.values), [[1.5, 2.5], [3.5, 4.5]])
    assert "comments" not in whole.left_out.values()
    for place, lines in (
        (4, ["# one", "# two", "a,b", "1.5"]),
        (3, ["# one", "# two", "a,2.5", "1.5,3.5"]),
        (6, ["# one", "# two", "a,b", "1.5,2.5", "2.5,2.5", "x,3.5"]),
    ):
        with pytest.raises(isorep.InputError, match=f"line {place} "):
            isorep.read(written("c.csv", *lines))


@pytest.mark.parametrize(
    ("text", "name", "labels"),
    [
        ("##version 1\n#id\tsex\tsite\nHG1\tM\tA\nHG2\tF\tB\n", "sex", ["M", "F"]),
        ("# id\tsite\nHG1\tA\nHG2\tB\n", "site", ["A", "B"]),
        ("#label\na\nb\n", "#label", ["a", "b"]),
        ("# label\nname\nb\nc\n", "name", ["b", "c"]),
        ("#label\nname\n1\n2\n", "name", [1, 2]),
        ("#made by a tool\nname\nb\n", "name", ["b"]),
        ("# made\tby a tool\nname\nb\n", "name", ["b"]),
        ("#id\tsite\nname\tplace\nHG1\t7\n", "name", ["HG1"]),
        ("#id\tsite\nHG1\tA\n", "site", ["A"]),
    ],
)
def test_a_header_behind_a_hash_above_text_loses_no_row(tmp_path, text, name, labels):
    (tmp_path / "a.tsv").write_text(text)
    assert column(tmp_path / "a.tsv", name).tolist() == labels


@pytest.mark.parametrize("comment", ["#made by x, on Monday", f"# {{{'x' * 200_000}}}"])
def test_prose_above_a_header_of_text_is_a_comment(tmp_path, comment):
    (tmp_path / "a.csv").write_text(f"{comment}\nname,place\nHG1,A\nHG2,B\n")
    assert column(tmp_path / "a.csv", "place").tolist() == ["A", "B"]
    (tmp_path / "a.csv").write_text(f"{comment}\n\nname,place\nHG1,A\n")
    with pytest.raises(isorep.InputError, match="line 2 is blank"):
        column(tmp_path / "a.csv", "place")


def test_text_of_comments_alone_has_no_rows(tmp_path):
    for text in ("# one\n", "# one\n# two\n", "#" * 70_000):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(isorep.InputError):
            isorep.read(tmp_path / "a.csv")


def test_text_without_a_header(tmp_path):
    np.savetxt(tmp_path / "plain.csv", VALUES, delimiter=",", fmt="%.17g")
    np.testing.assert_array_equal(isorep.read(tmp_path / "plain.csv").values[:], VALUES)


def test_missing_cells_become_nan_and_are_found_by_compare(tmp_path):
    (tmp_path / "a.csv").write_text("p,q\n1.5,2\n3,\n5,6\nNA,8\n")
    read = isorep.read(tmp_path / "a.csv")
    assert np.isnan(read.values[1, 1])
    with pytest.raises(isorep.InputError, match=r"2 NaN values, the first at row 1, column 1"):
        isorep.compare(read, np.random.default_rng(0).normal(size=(4, 2)), folds=2)


HOSTILE = {
    "empty.npy": b"",
    "noise.npy": b"not an array at all",
    "pickle.npy": b"\x80\x04\x95\x0b",
    "short.npy": None,
    "negative.npy": None,
    "object.npy": None,
    "noise.npz": b"PK\x03\x04 but not really",
    "noise.safetensors": b"\xff" * 40,
    "long_header.safetensors": struct.pack("<Q", 2**60) + b"{}",
    "noise.parquet": b"PAR1 nothing PAR1",
    "binary.csv": bytes(range(128, 256)) * 20,
    "ragged.csv": b"a,b\n1,2\n3\n",
    "words.csv": b"a,b\nx,y\n",
    "late_word.csv": b"a,b\n" + b"1,2\n" * 300 + b"1,oops\n",
    "header_only.csv": b"a,b\n",
    "noise.csv.gz": b"\x1f\x8b garbage",
    "cut.csv.gz": gzip.compress(b"a,b\n" + b"1.5,2.5\n" * 4000)[:-20],
    "twice.csv": b"a,a\n1,2\n",
    "values.xyz": b"1 2 3",
    "nosuffix": b"1 2 3",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_with_one_sentence_about_the_file(tmp_path, name):
    path = tmp_path / name
    content = HOSTILE[name]
    if name == "short.npy":
        np.save(path, VALUES)
        content = path.read_bytes()[:-10]
    elif name == "negative.npy":
        np.save(path, VALUES)
        content = path.read_bytes().replace(b"(7, 3)", b"(-7,3)")
    elif name == "object.npy":
        np.save(path, np.array([[1, None]], object), allow_pickle=True)
        content = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(isorep.InputError) as caught:
        isorep.read(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_npz_member_that_lies_about_its_size_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    data = (tmp_path / "a.npy").read_bytes().replace(b"(7, 3)", b"(9, 9)")
    with zipfile.ZipFile(tmp_path / "lying.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", data)
    with pytest.raises(isorep.InputError, match="another size"):
        isorep.read(tmp_path / "lying.npz")


def test_pickled_members_of_an_npz_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", values=VALUES, ids=np.array(["a"] * 7, object))
    with pytest.raises(isorep.InputError, match="pickled"):
        isorep.read(tmp_path / "a.npz")


def test_ragged_and_missing_lists_are_named_by_row(tmp_path):
    pq.write_table(pa.table({"e": [[1.0, 2.0], [3.0], [4.0, 5.0]]}), tmp_path / "r.parquet")
    with pytest.raises(isorep.InputError, match="ragged: row 0 has 2 entries and row 1 has 1"):
        isorep.read(tmp_path / "r.parquet")
    pq.write_table(pa.table({"e": [[1.0, 2.0], None]}), tmp_path / "m.parquet")
    with pytest.raises(isorep.InputError, match="row 1 of column 'e' is missing"):
        isorep.read(tmp_path / "m.parquet")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npy does not exist"):
        isorep.read(tmp_path / "nowhere.npy")
    with pytest.raises(isorep.InputError, match="is a folder"):
        isorep.read(tmp_path)


def test_integers_in_a_table_of_integers_only_are_refused(tmp_path):
    pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(isorep.InputError, match="integers"):
        isorep.read(tmp_path / "t.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    import sys

    path = write(tmp_path, "parquet")
    for module in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(isorep.InputError, match=r"pip install 'isorep\[io\]'"):
        isorep.read(path)


def test_parts_of_one_file_are_told_apart_by_their_names(tmp_path):
    import anndata

    rows = np.random.default_rng(0).normal(size=(40, 3))
    anndata.AnnData(rows, obsm={"X_pca": rows, "X_other": 2 * rows}).write_h5ad(tmp_path / "cells.h5ad")
    result = isorep.compare(*(f"{tmp_path}/cells.h5ad::{name}" for name in ("X_pca", "X_other")), n_null=0)
    assert (result.source.name, result.target.name) == ("cells.h5ad::obsm/X_pca", "cells.h5ad::obsm/X_other")


@pytest.mark.parametrize("name", ["", " ", "::key"])
def test_an_empty_name_is_not_the_current_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((3, 2)))
    with pytest.raises(isorep.InputError, match="empty"):
        isorep.read(name)
    assert len(isorep.read(".")) == 3


@pytest.mark.parametrize(
    ("name", "text", "encoding", "said"),
    [
        ("a.tsv", "a,b\n1,2\n3,4\n", "utf-8", "separated by commas"),
        ("a.csv", "a\tb\n1\t2\n3\t4\n", "utf-8", "separated by tabs"),
        ("a.csv", "a,b\n1,2\n3,4\n", "utf-16-le", "UTF-16"),
        ("a.tsv", "a\tb\n1\t2\n3\t4\n", "utf-16-le", "UTF-16"),
    ],
)
def test_text_of_another_separator_or_encoding_is_called_so(tmp_path, name, text, encoding, said):
    (tmp_path / name).write_bytes(text.encode(encoding))
    with pytest.raises(isorep.InputError, match=said):
        isorep.read(tmp_path / name)
