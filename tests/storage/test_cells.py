"""What is read equals what was written, or is refused with row and column, or is left out by name."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

import isorep
from isorep.representation import reading_notes
from isorep.rows import refuse_non_finite
from isorep.storage import shards
from isorep.storage.naming import NUMBER, Tally, is_number, shown
from isorep.storage.tables import read_table

ROWS = [(f"{0.25 * row - 3:g}", f"{0.5 * row + 0.125:g}", f"g{row % 3}") for row in range(500)]
SPELLINGS = {
    "0.3x": "followed by 'x'",
    '"1,000.5"': "thousands separators",
    "1 000.5": "thousands separators",
    '"0,3"': "a decimal comma",
    "5%": "a percentage",
    "$5": "a currency sign",
    "0x1A": "hexadecimal",
    "1_000": "underscores",
    "１２": "outside of ASCII",
    "−0.3": "outside of ASCII",
    "5 mm": "followed by 'mm'",
    "1.2.3": "not a number,",
    "--": "not a number,",
    "<NA>": "not a number,",
    "True": "not a number,",
    "1e": "followed by 'e'",
}


def csv(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table_with(cell, row=30, rows=500):
    lines = [",".join(cells if place != row else (cells[0], cell, cells[2])) for place, cells in enumerate(ROWS[:rows])]
    return "\n".join(["p,q,label", *lines]) + "\n"


def parquet(folder, columns):
    path = folder / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("row", [0, 1, 30, 199, 200, 201, 499])
def test_one_bad_cell_is_an_error_with_its_place_wherever_it_is(tmp_path, row):
    with pytest.raises(isorep.InputError) as caught:
        isorep.read(csv(tmp_path, table_with("0.3x", row)))
    said = str(caught.value)
    assert f"t.csv: line {row + 2} (row {row}), column 'q': '0.3x' is not a number" in said
    assert "499 of the column's 500 cells are" in said
    assert "\n" not in said


@pytest.mark.parametrize("row", [30, 300])
@pytest.mark.parametrize("cell", SPELLINGS)
def test_a_cell_that_is_almost_a_number_is_said_to_look_like_one(tmp_path, cell, row):
    with pytest.raises(isorep.InputError, match=rf"row {row}\), column 'q'") as caught:
        isorep.read(csv(tmp_path, table_with(cell, row)))
    assert SPELLINGS[cell] in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "number"),
    [(" 0.3 ", 0.3), ("1e5", 1e5), ('"0.25"', 0.25), ("+.5", 0.5), ("5.", 5), ("-7", -7), ("inf", np.inf)]
    + [(missing, np.nan) for missing in ("", "NA", "n/a", "null", "None", "nan", "  ")],
)
@pytest.mark.parametrize("row", [30, 300])
def test_the_neighbouring_legal_cells_are_read(tmp_path, cell, number, row):
    read = isorep.read(csv(tmp_path, table_with(cell, row)))
    assert read.shape == (500, 2)
    np.testing.assert_array_equal(read.values[row, 1], number)
    assert read.left_out == {"label": "text"}
    assert reading_notes(read) == ["left out of t.csv: 'label' (text)"]


def test_a_long_cell_with_control_signs_is_shortened_and_escaped(tmp_path):
    with pytest.raises(isorep.InputError) as caught:
        isorep.read(csv(tmp_path, table_with("\x1b[31m" + "x" * 5000)))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_long_cell_is_looked_at_once(tmp_path):
    """A search that goes back over its digits would take minutes."""
    (tmp_path / "a.csv").write_text(f"a,b\n{'9' * 120_000}x,1.5\n{'9' * 120_000} %x,1.5\n0.5,1.5\n1.5,2.5\n")
    with pytest.raises(isorep.InputError, match=r"row 0.*followed by 'x'"):
        isorep.read(tmp_path / "a.csv")


@pytest.mark.parametrize(("words", "outcome"), [(249, "error"), (250, "error"), (251, "text")])
@pytest.mark.parametrize("words_first", [True, False])
def test_half_of_the_filled_cells_make_a_column_one_of_numbers(tmp_path, words, outcome, words_first):
    cells = ["word"] * words + ["0.5"] * (500 - words) + [""] * 40
    cells = cells if words_first else cells[::-1]
    path = csv(tmp_path, "p,q\n" + "".join(f"1.5,{cell}\n" for cell in cells))
    if outcome == "text":
        assert isorep.read(path).left_out == {"q": "text"}
    else:
        first = cells.index("word")
        with pytest.raises(isorep.InputError, match=rf"row {first}\), column 'q': 'word' is not a number"):
            isorep.read(path)


@pytest.mark.parametrize("cell", ['"1,000.5"', '"0,3"', "5%"])
def test_a_whole_column_in_another_spelling_is_refused_and_not_left_out(tmp_path, cell):
    with pytest.raises(isorep.InputError, match=r"row 0\), column 'q'.*looks like"):
        isorep.read(csv(tmp_path, "p,q\n" + f"1.5,{cell}\n" * 5))
    with pytest.raises(isorep.InputError, match=r"row 0\), column 'q'.*looks like"):
        isorep.read(csv(tmp_path, "q\tw\n" + f"{cell}\tx\n" * 5, "t.tsv"))


def test_a_column_of_words_after_many_missing_cells_is_text(tmp_path):
    read = isorep.read(csv(tmp_path, "p,note\n" + "1.5,\n" * 300 + "1.5,late\n"))
    assert read.left_out == {"note": "text"}
    assert read.shape == (301, 1)


def test_metadata_ids_and_columns_that_are_used_are_free_to_hold_anything(tmp_path):
    path = csv(tmp_path, "id,plate,Metadata_dose,p\n1,1,0.3x,0.5\n2,2,0.4,0.75\n3,3,0.5,1\n")
    read = isorep.read(path, besides=["plate", None, "other.csv::dose"])
    assert read.shape == (3, 1)
    assert read.left_out == {"Metadata_dose": "metadata, by its name"}
    assert isorep.read(path, ids="plate").left_out.keys() == {"id", "Metadata_dose"}
    assert isorep.read(path, key="p").left_out == {}, "the choice was the user's"
    with pytest.raises(isorep.InputError, match=r"Metadata_dose': '0.3x' is not a number"):
        isorep.read(path, key="Metadata_")


def test_columns_beside_feature_columns_are_named(tmp_path):
    read = isorep.read(csv(tmp_path, "feature_0,area,label\n0.5,2.5,a\n1.5,3.5,0.1\n"))
    assert read.left_out == {"area": "not called feature_*", "label": "text"}
    assert repr(read).endswith("no ids, 2 left out)")


@pytest.mark.parametrize("late", [False, True])
def test_flags_are_numbers_and_named_as_converted(tmp_path, late):
    text = "p,on\n" + "0.5,\n" * (300 if late else 0) + "0.5,True\n0.25,false\n"
    read = isorep.read(csv(tmp_path, text))
    np.testing.assert_array_equal(read.values[-2:], [[0.5, 1], [0.25, 0]])
    assert reading_notes(read) == ["converted in t.csv: 'on' (true and false to 1 and 0)"]
    feature = isorep.read(csv(tmp_path, text.replace("p,on", "feature_0,feature_1")))
    np.testing.assert_array_equal(feature.values[-2:], [[0.5, 1], [0.25, 0]])


def test_byte_order_marks_and_carriage_returns_change_nothing(tmp_path):
    plain = isorep.read(csv(tmp_path, table_with("0.25")))
    other = isorep.read(csv(tmp_path, b"\xef\xbb\xbf" + table_with("0.25").replace("\n", "\r\n").encode()))
    np.testing.assert_array_equal(plain.values, other.values)
    assert other.left_out == plain.left_out


def test_decimal_commas_are_legal_in_a_file_with_semicolons_that_has_them_throughout(tmp_path):
    read = isorep.read(csv(tmp_path, 'p;q;label\n0,5;1,25;"a, b"\n1;2,5;c\n'))
    np.testing.assert_array_equal(read.values, [[0.5, 1.25], [1, 2.5]])
    assert read.converted == {"p": "decimal comma", "q": "decimal comma"}
    assert read.left_out == {"label": "text"}
    np.testing.assert_array_equal(isorep.read(csv(tmp_path, "0,5;1,25\n1,5;2,5\n")).values, [[0.5, 1.25], [1.5, 2.5]])
    points = isorep.read(csv(tmp_path, "p;q\n0.5;1.25\n1;2.5\n"))
    np.testing.assert_array_equal(points.values, [[0.5, 1.25], [1, 2.5]])
    assert points.converted == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p;q\n0,5;1,5\n0.5;1\n", "line 3: '0.5' has another decimal mark"),
        ("p;q\n0.5;1\n0,5;1\n", "line 3: '0,5' has another decimal mark"),
        ("p;q\n1,000;2,500\n1,500;1\n", "decimal comma or a thousands separator"),
        ("p;q\n0,5;1.000,5\n0,5;1\n", "'1.000,5' is not a number"),
        ("p;q\n0,5;1,5\n0,7;0,3x\n", "row 1.*'0,3x' is not a number"),
    ],
)
def test_decimal_marks_that_are_not_clear_are_refused(tmp_path, text, said):
    with pytest.raises(isorep.InputError, match=said):
        isorep.read(csv(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c0,0.5,0.75\nc1,1.5,2.5\n", "'c0' is not a number, and '0.5' is not a name"),
        ("0.3x,0.5,0.75\n1.5,1.25,3\n", "'0.3x' is not a number, and '0.5' is not a name"),
        ("a,b,7\n1.5,1.25,3\n", "'a' is not a number, and '7' is not a name"),
        ("3,17,42\n1.5,1.25,3.5\n", "may be a header or a row"),
        ("a,b\n1.5,2\n\n3,4.5\n", "line 3 is blank and rows follow"),
        ("a\n1.5\n\n2.5\n", "line 3 is blank and rows follow"),
        ("\n1.5\n2.5\n", "line 1 is blank and rows follow"),
        ("a,,b\n1.5,2,3\n", "column 1, counted from 0, has no name"),
        ("a,b,\n1.5,2,3\n", "column 2, counted from 0, has no name"),
        ("a,b,\n" + "1.5,2,\n" * 300 + "1.5,2,7\n", "line 302 ends with '7'"),
        ("a,b\n1.5,2\n# a comment\n", "line 3 has 1 cells"),
        ("a,a \n1.5,2\n", "two columns are called 'a'"),
    ],
)
def test_lines_that_would_be_lost_are_errors(tmp_path, text, said):
    with pytest.raises(isorep.InputError, match=said):
        isorep.read(csv(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("0.5,0.75\n1.5,1.25\n", (2, 2)),
        ("-1,0\n1.5,1.25\n", (2, 2)),
        ("1,2,3\n4,5,6\n7.5,8,9\n", (3, 3)),
        ("id,0,1,2\nc0,0.5,1.5,2.5\n", (1, 3)),
        ("label,3,17,42\nc0,0.5,1.5,2.5\n", (1, 3)),
        ("a,b\n1.5,2\n3,4.5\n\n\n", (2, 2)),
        ("a,b,\n1.5,2,\n3,4,\n", (2, 2)),
    ],
)
def test_neighbouring_legal_files_keep_every_line(tmp_path, text, shape):
    assert isorep.read(csv(tmp_path, text)).shape == shape


def test_a_first_line_that_counts_the_columns_is_named(tmp_path):
    read = isorep.read(csv(tmp_path, "0,1\n0.5,0.75\n1.5,1.25\n"))
    assert read.shape == (2, 2)
    assert read.left_out == {"line 1": "a header that counts the columns"}


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_whole_numbers_that_would_be_rounded_are_refused(tmp_path, number):
    said = f"row 1.*column 'q': the whole number {number} cannot be kept exactly"
    with pytest.raises(isorep.InputError, match=said):
        isorep.read(csv(tmp_path, f"p,q\n0.5,1\n0.5,{number}\n"))
    with pytest.raises(isorep.InputError, match=said):
        isorep.read(parquet(tmp_path, {"p": [0.5, 0.5], "q": [1, number]}))
    np.testing.assert_array_equal(
        isorep.read(csv(tmp_path, f"p,q\n1e300,1\n0.5,{2**53}\n")).values, [[1e300, 1], [0.5, 2**53]]
    )


ENTRIES = {
    "decimal128": pa.array([Decimal("1.10"), Decimal("-2.25"), Decimal("0.01")], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("0.1"), Decimal("1e30"), Decimal("-3")], pa.decimal256(60, 20)),
    "bool": pa.array([True, False, True]),
    "dictionary of numbers": pa.array([0.1, 0.2, 0.1]).dictionary_encode(),
    "dictionary of integers": pa.array([1, 2, 1]).dictionary_encode(),
    "dictionary of flags": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([True, False])),
    "float16": pa.array(np.array([0.5, 1.5, 2.5], np.float16)),
    "float32": pa.array([0.1, 0.2, 0.3], pa.float32()),
    "uint8": pa.array([0, 255, 7], pa.uint8()),
    "uint64": pa.array([1, 2**53, 3], pa.uint64()),
    "int64": pa.array([1, -(2**53), 3]),
}
LEFT_OUT = {
    "text": (pa.array(["a", "b", "c"]), "text"),
    "large text": (pa.array(["a", "b", "c"], pa.large_string()), "text"),
    "categories": (pa.array(["a", "b", "a"]).dictionary_encode(), "text"),
    "labels that are whole numbers": (pa.array(["1", "2", "3"]), "text"),
    "empty text": (pa.array(["", None, "NA"]), "text"),
    "timestamp": (pa.array([datetime.datetime(2020, 1, day) for day in (1, 2, 3)]), "timestamp"),
    "date": (pa.array([datetime.date(2020, 1, day) for day in (1, 2, 3)]), "date"),
    "time": (pa.array([1, 2, 3], pa.time32("s")), "time"),
    "duration": (pa.array([1, 2, 3], pa.duration("s")), "duration"),
    "binary": (pa.array([b"a", b"b", b"c"]), "binary"),
    "struct": (pa.array([{"a": 1.5}] * 3), "struct"),
    "list of text": (pa.array([["a"], ["b"], ["c"]]), "list of text"),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_types_that_stand_for_numbers_are_converted(tmp_path, kind):
    entries = ENTRIES[kind]
    read = isorep.read(parquet(tmp_path, {"p": [0.5, 1.5, 2.5], "q": entries}))
    np.testing.assert_array_equal(read.values[:, 1], [float(entry) for entry in entries.to_pylist()])
    assert read.left_out == {}
    is_exact = kind not in ("decimal128", "decimal256", "bool", "dictionary of flags")
    assert (read.converted == {}) == is_exact
    feature = isorep.read(parquet(tmp_path, {"feature_0": [0.5, 1.5, 2.5], "feature_1": entries}))
    np.testing.assert_array_equal(feature.values, read.values)


@pytest.mark.parametrize("kind", [*ENTRIES, "null"])
def test_nulls_are_not_finite_and_found_by_place(tmp_path, kind):
    entries = pa.nulls(3) if kind == "null" else ENTRIES[kind].slice(0, 2)
    held = pa.chunked_array([entries.slice(0, 1), pa.nulls(1, entries.type), entries.slice(1, 1)])
    read = isorep.read(parquet(tmp_path, {"p": [0.5, 1.5, 2.5], "q": held.combine_chunks()}))
    assert np.isnan(read.values[1, 1])
    with pytest.raises(isorep.InputError, match=r"the first at row [01], column 1"):
        refuse_non_finite(read.values, "t.parquet")


def test_a_null_beside_whole_numbers_alone_is_named_by_row(tmp_path):
    with pytest.raises(isorep.InputError, match="row 1, column 'q': the entry is missing"):
        isorep.read(parquet(tmp_path, {"p": [1, 2, 3], "q": pa.array([1, None, 3])}))


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_types_that_are_no_numbers_are_left_out_by_name(tmp_path, kind):
    entries, reason = LEFT_OUT[kind]
    read = isorep.read(parquet(tmp_path, {"p": [0.5, 1.5, 2.5], "q": entries}))
    assert read.shape == (3, 1)
    assert read.left_out == {"q": reason}
    with pytest.raises(isorep.InputError, match="feature_1"):
        isorep.read(parquet(tmp_path, {"feature_0": [0.5, 1.5, 2.5], "feature_1": entries}))


@pytest.mark.parametrize("encode", [False, True])
def test_numbers_in_a_text_column_of_parquet_are_refused(tmp_path, encode):
    cells = pa.array(["0.5", None, "0.75", "0.3x", "1.5"])
    cells = cells.dictionary_encode() if encode else cells
    with pytest.raises(
        isorep.InputError, match=r"row 3, column 'q': '0.3x' is not a number.*3 of the column's 4 cells"
    ):
        isorep.read(parquet(tmp_path, {"p": np.arange(5.0), "q": cells}))
    with pytest.raises(isorep.InputError, match="'q' holds numbers as text"):
        isorep.read(parquet(tmp_path, {"p": np.arange(3.0), "q": cells.slice(0, 3)}))
    assert isorep.read(parquet(tmp_path, {"p": np.arange(5.0), "q": cells}), besides=["q"]).left_out == {}


def test_a_bad_cell_of_a_text_column_is_found_in_a_later_batch(tmp_path, monkeypatch):
    from isorep.storage import parquet as reader

    monkeypatch.setattr(reader, "_LABELS_BATCH", 4)
    cells = ["0.5"] * 10 + ["0.3x"] + ["0.5"] * 3
    with pytest.raises(isorep.InputError, match="row 10, column 'q'"):
        isorep.read(parquet(tmp_path, {"p": np.arange(14.0), "q": cells}))


def test_lists_of_decimals_are_numbers_and_other_columns_are_named(tmp_path):
    lists = pa.array([[Decimal("1.1"), Decimal("2.5")], [Decimal("3"), Decimal("4")]], pa.list_(pa.decimal128(5, 1)))
    read = isorep.read(parquet(tmp_path, {"e": lists, "area": [1.5, 2.5], "label": ["a", "b"]}))
    np.testing.assert_array_equal(read.values, [[1.1, 2.5], [3, 4]])
    assert read.left_out == {"area": "not in the list column", "label": "text"}


def test_the_same_data_frame_is_read_alike_from_csv_and_parquet(tmp_path):
    frame = pd.DataFrame(
        {"p": [0.5, 1.5], "on": [True, False], "n": [3, 4], "label": ["a", "b"], "Metadata_x": [1, 2]},
        index=pd.Index(["r", "s"], name="id"),
    )
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    text, table = (isorep.read(tmp_path / name) for name in ("t.csv", "t.parquet"))
    np.testing.assert_array_equal(text.values, table.values)
    assert text.left_out == table.left_out == {"label": "text", "Metadata_x": "metadata, by its name"}
    assert text.converted == table.converted


def test_arrays_that_were_not_chosen_are_named(tmp_path):
    import h5py
    import zarr

    values, plate = np.eye(3), np.arange(3)
    np.savez(tmp_path / "a.npz", values=values, plate=plate, ids=plate)
    save_file({"values": values, "plate": plate}, tmp_path / "a.safetensors")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"], file["plate"], file["names"] = values, plate, ["a", "b", "c"]
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name, held in (("values", values), ("plate", plate)):
        group.create_array(name, shape=held.shape, dtype=held.dtype)[:] = held
    for name in ("a.npz", "a.safetensors", "a.h5", "a.zarr"):
        read = isorep.read(tmp_path / name)
        assert read.left_out["plate"] == "shape (3,)"
        assert ("names" in read.left_out) == (name == "a.h5")
        assert "ids" not in read.left_out
        assert isorep.read(tmp_path / name, key="values").left_out == {}
        assert "plate" not in isorep.read(tmp_path / name, besides=["plate"]).left_out


def test_other_embeddings_of_anndata_are_named(tmp_path):
    anndata = pytest.importorskip("anndata")
    held = anndata.AnnData(np.eye(3), obsm={"X_pca": np.eye(3)[:, :2]})
    held.write_h5ad(tmp_path / "one.h5ad")
    held.obsm["X_umap"] = np.eye(3)[:, :2]
    held.write_h5ad(tmp_path / "two.h5ad")
    assert isorep.read(tmp_path / "one.h5ad").left_out == {"obsm/X_pca": "another embedding"}
    assert isorep.read(tmp_path / "two.h5ad").left_out.keys() == {"obsm/X_pca", "obsm/X_umap"}
    assert isorep.read(tmp_path / "two.h5ad", key="X_pca").left_out == {}


def test_shards_need_the_same_columns_and_share_their_notes(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    csv(folder, "p,q,label\n0.5,1.5,a\n", "part-1.csv")
    csv(folder, "p,q,note\n2.5,3.5,b\n", "part-2.csv")
    read = isorep.read(folder)
    assert read.shape == (2, 2)
    assert read.left_out == {"label": "text", "note": "text"}
    csv(folder, "q,p\n2.5,3.5\n", "part-2.csv")
    with pytest.raises(isorep.InputError, match=r"column 0 is 'q' in part-2\.csv and 'p' in part-1\.csv"):
        isorep.read(folder)
    assert shards.shard_files(folder)[0].name == "part-1.csv"


def test_factors_may_be_labels_but_not_numbers_with_mistakes(tmp_path):
    path = csv(tmp_path, "chromosome,dose,on\n1,0.5,true\n2,0.25,false\nX,0.3x,true\n")
    with pytest.raises(isorep.InputError, match=r"row 2, column 'dose': '0.3x' is not a number"):
        read_table(path)
    found = read_table(f"{path}::chromosome,on").columns
    assert found["chromosome"].tolist() == ["1", "2", "X"]
    assert found["on"].tolist() == [True, False, True]


def test_latents_are_chosen_as_features_are(tmp_path):
    text = "p,q,k,label\n" + "0.5,1.5,3,a\n" * 3
    found = read_table(csv(tmp_path, text), features=True)
    assert list(found.columns) == ["p", "q", "k"]
    assert found.columns["k"].dtype == np.int64
    assert found.left_out == {"label": "text"}
    with pytest.raises(isorep.InputError, match=r"row 3.*column 'q': '0.3x'"):
        read_table(csv(tmp_path, text + "0.5,0.3x,3,a\n"), features=True)
    dictionary = pa.array([0.5, 0.25]).dictionary_encode()
    factors = read_table(parquet(tmp_path, {"a": [1, 2], "d": dictionary, "e": [[1.0]] * 2}))
    assert factors.columns["d"].tolist() == [0.5, 0.25]
    assert factors.left_out == {"e": "list of numbers"}


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_a_tally_takes_as_numbers_what_python_does_within_ascii(cells):
    tally = Tally("q")
    for row, cell in enumerate(cells):
        tally.add(cell, row)
    filled = [cell for cell in cells if cell.strip().lower() not in ("", "na", "n/a", "null", "none", "nan")]
    numbers = sum(map(is_number, filled))
    if numbers == len(filled):
        assert tally.kind() == NUMBER
    elif 2 * numbers >= len(filled):
        with pytest.raises(isorep.InputError, match="is not a number") as caught:
            tally.kind()
        assert str(caught.value).isprintable()


@given(st.floats(allow_nan=False), st.sampled_from(["{!r}", " {!r}", "{:.3e}", "{:+f}"]))
def test_every_finite_number_as_programs_write_it_is_a_number(number, spelling):
    assert is_number(spelling.format(number))


def test_what_is_shown_is_short_and_printable():
    assert shown("a\x00" * 100).isprintable()
    assert len(shown("x" * 10**6)) < 50
