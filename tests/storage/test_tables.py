"""Tables as people save them: headers that count, missing cells, index levels, labels, delimiters."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isorep
from isorep.storage import labels

GROUPS = "plate,a\n,1.5\n"


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("index", [True, False])
def test_a_header_that_only_counts_the_columns_is_no_row(rng, tmp_path, index):
    values = rng.normal(size=(20, 6))
    pd.DataFrame(values).to_csv(tmp_path / "t.csv", index=index)
    read = isorep.read(tmp_path / "t.csv")
    np.testing.assert_array_equal(read.values[:], values)


def test_a_first_row_with_a_missing_cell_stays_a_row(tmp_path):
    read = isorep.read(write(tmp_path, "1.0,,3.0\n4,5,6.5\n7,8,9\n"))
    assert read.shape == (3, 3)
    assert read.ids is None
    assert np.isnan(read.values[0, 1])


@pytest.mark.parametrize("rows", ["1.5,\n" * 5, "1.5,\n" * 250 + "2.5,3.5\n" * 5])
def test_a_feature_column_is_never_lost_because_cells_are_missing(tmp_path, rows):
    read = isorep.read(write(tmp_path, "feature_0,feature_1\n" + rows))
    assert read.shape[1] == 2
    with pytest.raises(isorep.InputError, match="the first at row 0, column 1"):
        isorep.compare(read, np.random.default_rng(0).normal(size=read.shape), n_null=0, n_boot=0)


def test_a_feature_column_that_is_no_number_is_an_error_that_names_it(tmp_path):
    with pytest.raises(isorep.InputError, match=r"line 2 \(row 0\), column 'feature_1': 'x' is not a number"):
        isorep.read(write(tmp_path, "feature_0,feature_1\n1.5,x\n"))
    pq.write_table(pa.table({"feature_0": [1.5], "feature_1": ["x"]}), tmp_path / "t.parquet")
    with pytest.raises(isorep.InputError, match="row 0, column 'feature_1': 'x' is not a number"):
        isorep.read(tmp_path / "t.parquet")


def test_a_table_of_integers_is_refused_as_an_array_of_integers_is(tmp_path):
    with pytest.raises(isorep.InputError, match="hold integers"):
        isorep.read(write(tmp_path, "a,b\n1,2\n3,-4\n"))


def test_delimiters_that_do_not_fit_are_explained(tmp_path):
    with pytest.raises(isorep.InputError, match="semicolons"):
        isorep.read(write(tmp_path, "a;b\n1.5;2.5\n", "t.tsv"))
    with pytest.raises(isorep.InputError, match="tabs"):
        isorep.read(write(tmp_path, "a\tb\n1.5\t2.5\n"))
    read = isorep.read(write(tmp_path, "a,b,\n1.5,2,\n3,4,\n"))
    np.testing.assert_array_equal(read.values[:], [[1.5, 2], [3, 4]])


def test_the_levels_of_an_index_are_ids_and_no_features(rng, tmp_path):
    index = pd.MultiIndex.from_product([["p1", "p2"], [1, 2]], names=["plate", "well"])
    frame = pd.DataFrame(rng.normal(size=(4, 2)), index=index, columns=["u", "v"])
    frame.to_parquet(tmp_path / "t.parquet")
    read = isorep.read(tmp_path / "t.parquet")
    assert read.shape == (4, 2)
    assert read.ids.tolist() == ["p1/1", "p1/2", "p2/1", "p2/2"]
    assert isorep.Representation(frame.to_numpy(), ids=read.ids).ids.tolist() == read.ids.tolist()
    from isorep.representation import as_representation

    assert as_representation(frame, "frame").ids.tolist() == read.ids.tolist()


def test_nullable_columns_of_a_data_frame_are_numbers():
    from isorep.representation import as_representation

    frame = pd.DataFrame({"a": pd.array([1.5, None], "Float64"), "b": pd.array([2, 3], "Int64")})
    values = as_representation(frame, "frame").values
    assert values.dtype == np.float64
    assert np.isnan(values[1, 0])


def test_ids_of_different_kinds_mean_the_same():
    x = np.array([[0.0], [1.0]])
    assert isorep.Representation(x, np.array([1.0, 2.0])).ids.tolist() == [1, 2]
    assert isorep.Representation(x, np.array([b"a", b"b"])).ids.tolist() == ["a", "b"]
    large = np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64)
    assert isorep.Representation(x, large).ids.tolist() == [str(2**63 + 1), str(2**63 + 2)]


def test_missing_ids_and_groups_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="column 'id' is empty in row 1"):
        isorep.read(write(tmp_path, "id,a\nx,1.5\n,2.5\n"))
    with pytest.raises(isorep.InputError, match="column 'plate' is empty in row 0"):
        labels(f"{write(tmp_path, GROUPS)}::plate", "unused.npy")


def test_groups_come_from_files_and_columns(tmp_path):
    np.save(tmp_path / "groups.npy", np.array(["a", "b"]))
    np.save(tmp_path / "values.npy", np.zeros((2, 2)))
    assert labels(str(tmp_path / "groups.npy"), "unused").tolist() == ["a", "b"]
    path = write(tmp_path, "plate,a\np,1.5\nq,2.5\n")
    assert labels("plate", path).tolist() == ["p", "q"]
    with pytest.raises(isorep.InputError, match="one entry per row"):
        labels(str(tmp_path / "values.npy"), path)
    with pytest.raises(isorep.InputError, match=r"missing\.npy does not exist"):
        labels("missing.npy", path)
    with pytest.raises(isorep.InputError, match=r"t\.csv::COLUMN"):
        labels(str(path), path)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "groups.npy").read_bytes()[:20])
    with pytest.raises(isorep.InputError, match=r"cut\.npy"):
        labels(str(tmp_path / "cut.npy"), path)
