"""Where factors and latents come from, which are discrete, and which rows belong together."""

import json

import numpy as np
import pandas as pd
import pytest

import isorep
from isorep import structure
from isorep.storage.tables import read_table
from isorep.structure.columns import as_columns, paired

from .worlds import rooms


@pytest.mark.parametrize(
    ("values", "discrete", "why"),
    [
        (["a", "b"] * 50, True, "text"),
        ([True, False] * 50, True, "booleans"),
        (list(range(20)) * 5, True, "whole numbers"),
        (list(range(100)), False, "whole numbers, 100 distinct ones in 100 rows"),
        ([0.5, 1.5] * 50, True, "2 distinct values"),
        ([0.5, 1.5, 2.5, 3.5] * 25, True, "4 distinct values"),
        (np.linspace(0, 1, 100).tolist(), False, "numbers"),
        (np.repeat(np.linspace(0, 1, 20), 5).tolist(), False, "numbers"),
        ([0.25] * 100, True, "1 distinct values"),
    ],
)
def test_the_kind_of_a_column_follows_a_rule(values, discrete, why):
    column = as_columns({"x": values}, "factors")[0]
    assert (column.discrete, column.why) == (discrete, why)


def test_the_rule_can_be_overruled():
    data = {"a": [0, 1] * 30, "b": np.linspace(0, 1, 60), "c": ["x", "y"] * 30}
    assert [column.discrete for column in as_columns(data, "factors")] == [True, False, True]
    assert [column.discrete for column in as_columns(data, "factors", ["c"])] == [False, False, True]
    assert [column.discrete for column in as_columns(data, "factors", [True, True, True])] == [True] * 3
    assert as_columns(data, "factors", True)[1].why == "as told"
    with pytest.raises(isorep.InputError, match="holds text, which cannot be continuous"):
        as_columns(data, "factors", [True, True, False])
    assert [column.discrete for column in as_columns(data, "factors", ["a"])] == [True, False, True]


class Tensor:
    """What a torch tensor offers."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values


def test_arrays_frames_mappings_representations_and_tensors_are_the_same():
    _, z = rooms(50)
    frame = pd.DataFrame(z, columns=["a", "b", "c", "d"])
    expected = as_columns(z, "latents").matrix
    for data in (z.tolist(), frame, {name: frame[name] for name in frame}, isorep.Representation(z), z.astype(">f8")):
        assert np.array_equal(as_columns(data, "latents").matrix, expected)
    assert as_columns(frame, "latents").names == ("a", "b", "c", "d")
    assert as_columns(z, "latents").names == ("z0", "z1", "z2", "z3")
    assert np.array_equal(as_columns(Tensor(z), "latents").matrix, expected)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.ma.masked_array(np.zeros((4, 2)), mask=True), "masked"),
        ([[1, 2], [3]], "not a rectangular array"),
        ({"a": np.array([1, "x", 2], dtype=object)}, "mixes kinds of values"),
        ({"a": [1, None, 2]}, "is missing for 1 rows, the first at row 1"),
        ({"a": np.array(["x", "nan"])}, "is missing for 1 rows"),
        ({"a": np.zeros((3, 2))}, "where one entry per row is needed"),
        ({"a": np.array(["2020-01-01"], dtype="M8[D]")}, "neither numbers nor labels"),
        ({}, "has no columns"),
        (np.zeros((3, 0)), "rows and columns are needed"),
        (pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]), "two columns called 'a'"),
    ],
)
def test_what_is_no_table_is_refused(data, words):
    with pytest.raises(isorep.InputError, match=words):
        as_columns(data, "factors")


def test_rows_are_joined_on_ids_where_both_sides_have_them(rng):
    ids = [f"cell {i}" for i in range(40)]
    s = pd.DataFrame({"kind": rng.integers(2, size=40)}, index=ids)
    z = isorep.Representation(rng.normal(size=(30, 2)), ids=ids[5:35][::-1])
    pair = paired(s, z)
    assert pair.n == 30
    assert pair.factors[0].values.tolist() == s["kind"].to_numpy()[5:35][::-1].tolist()
    assert "10 rows were left out" in pair.caveats[0]
    groups = np.arange(30)
    assert np.array_equal(pair.group_codes(groups), groups)
    with pytest.raises(isorep.InputError, match="share 0 row ids"):
        paired(s, isorep.Representation(rng.normal(size=(3, 2)), ids=["x", "y", "z"]))


def test_groups_follow_their_rows_when_rows_are_joined(rng):
    z = pd.DataFrame(rng.normal(size=(20, 2)), index=[f"r{i}" for i in range(20)])
    s = pd.DataFrame({"kind": rng.integers(2, size=10)}, index=[f"r{i}" for i in range(10, 20)])
    groups = np.repeat(["a", "b", "c", "d"], 5)
    assert paired(s, z).group_codes(groups).tolist() == [0] * 5 + [1] * 5


def test_text_labels_keep_their_codes_on_other_rows(rng):
    labels = np.array(["b", "c", "a"])[rng.integers(3, size=300)]
    code = {"a": 0.0, "b": 1.0, "c": 2.0}
    z = np.array([code[each] for each in labels])[:, None] + 0.01 * rng.normal(size=(300, 1))
    other = np.where(np.arange(100) % 2, "c", "b")
    z_other = np.array([code[each] for each in other])[:, None]
    found = structure.dci({"label": labels}, z, test=({"label": other}, z_other))
    assert found.informativeness > 0.99


def test_a_discrete_latent_beside_a_continuous_factor_is_said_aloud(rng):
    pair = paired(rng.normal(size=(60, 2)), rng.integers(3, size=(60, 2)))
    assert "make sure that factors and latents are not swapped" in pair.caveats[0]


def test_many_continuous_factors_beside_few_latents_that_are_partly_discrete_look_swapped(rng):
    few = {"shape": rng.integers(3, size=60), "size": rng.normal(size=60)}
    many = rng.normal(size=(60, 5))
    assert "all 5 factors" in paired(many, few).caveats[0]
    assert "1 of 2 latents" in paired(many, few).caveats[0]
    assert paired(few, many).caveats == ()
    assert paired(many[:, :2], few).caveats == ()


# Files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    factors, z = rooms(60)
    frame = pd.DataFrame(factors)
    frame.insert(0, "id", [f"im{i}" for i in range(60)])
    return frame, z, tmp_path


def kinds(found):
    return {name: values.dtype.kind for name, values in found.columns.items()}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_tables_keep_the_kinds_of_their_columns(table, suffix):
    frame, _, folder = table
    path = folder / f"factors{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in suffix else ",")
    found = read_table(path)
    assert kinds(found) == {"shape": "U", "lit": "b", "size": "i", "hue": "f"}
    assert found.ids.tolist()[:2] == ["im0", "im1"]
    assert found.columns["size"].tolist() == frame["size"].tolist()
    assert found.columns["hue"] == pytest.approx(frame["hue"])
    assert list(read_table(f"{path}::size,shape").columns) == ["size", "shape"]
    assert list(read_table(path, features=True).columns) == ["lit", "size", "hue"]
    with pytest.raises(isorep.InputError, match="there is no column 'color'"):
        read_table(f"{path}::color")
    with pytest.raises(isorep.InputError, match="there is no column 'name'"):
        read_table(path, ids="name")


def test_arrays_of_any_kind_are_read_and_nothing_is_unpickled(table):
    folder = table[2]
    np.save(folder / "labels.npy", np.arange(60) % 3)
    np.savez(folder / "both.npz", codes=np.arange(120).reshape(60, 2) % 4, ids=np.arange(60))
    np.save(folder / "words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save(folder / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    assert kinds(read_table(folder / "labels.npy")) == {"s0": "i"}
    assert read_table(folder / "both.npz").ids.tolist() == list(range(60))
    assert kinds(read_table(folder / "words.npy")) == {"s0": "U", "s1": "U"}
    with pytest.raises(isorep.InputError, match="pickled"):
        read_table(folder / "objects.npy")
    np.save(folder / "cube.npy", np.zeros((3, 2, 2)))
    with pytest.raises(isorep.InputError, match="rows and columns are needed"):
        read_table(folder / "cube.npy")


def test_lists_in_parquet_and_obs_columns_of_anndata_are_found(table):
    pytest.importorskip("pyarrow")
    anndata = pytest.importorskip("anndata")
    frame, z, folder = table
    pd.DataFrame({"id": frame["id"], "embedding": list(z)}).to_parquet(folder / "z.parquet")
    found = read_table(folder / "z.parquet", features=True)
    assert list(found.columns) == ["embedding0", "embedding1", "embedding2", "embedding3"]
    obs = frame.set_index("id")[["shape", "size"]].astype({"shape": "category"})
    anndata.AnnData(X=z, obs=obs).write_h5ad(folder / "a.h5ad")
    columns = read_table(f"{folder / 'a.h5ad'}::shape,size")
    assert columns.columns["shape"].tolist() == frame["shape"].tolist()
    assert columns.ids.tolist()[:2] == ["im0", "im1"]


def test_missing_cells_are_refused_with_their_row(table):
    frame, z, folder = table
    frame.loc[7, "hue"] = np.nan
    frame.loc[9, "shape"] = None
    frame.to_csv(folder / "f.csv", index=False)
    with pytest.raises(isorep.InputError, match=r"'hue' of f\.csv holds NaN at row 7"):
        structure.mig(f"{folder / 'f.csv'}::hue,size", z)
    with pytest.raises(isorep.InputError, match=r"'shape' of f\.csv is missing for 1 rows, the first at row 9"):
        structure.mig(f"{folder / 'f.csv'}::shape", z)


def test_files_score_as_arrays_do(table):
    frame, z, folder = table
    frame.to_csv(folder / "f.csv", index=False)
    pd.DataFrame(z, index=frame["id"]).add_prefix("feature_").iloc[::-1].to_csv(folder / "z.csv", index_label="id")
    options = {"scores": ["infomec", "mcc"], "ladder": False, "n_null": 0, "n_resamples": 0}
    one = isorep.score_factors(folder / "z.csv", folder / "f.csv", **options)
    other = isorep.score_factors(z[::-1], frame.drop(columns="id").iloc[::-1].reset_index(drop=True), **options)
    assert json.loads(one.to_json())["scores"] == json.loads(other.to_json())["scores"]


def test_a_shuffled_index_is_joined_with_one_that_counts(rng):
    pandas = pytest.importorskip("pandas")
    factors = pandas.DataFrame({"size": rng.normal(size=50)})
    latents = pandas.DataFrame({"z": factors["size"].to_numpy()})
    for one, other in ((factors.sample(frac=1, random_state=0), latents), (factors, latents.sample(frac=1))):
        assert isorep.structure.mcc(one, other).value > 0.999
    part = factors[factors["size"] > 0]  # an index with gaps beside one that counts: in order
    assert isorep.structure.mcc(part, latents.iloc[part.index].reset_index(drop=True)).value > 0.999
    with pytest.raises(isorep.InputError, match="with no ids to join by"):
        isorep.structure.mcc(factors, latents.iloc[:-1])


def test_whole_numbers_that_float64_would_merge_keep_apart():
    for values in (2**60 + np.arange(40) % 4, np.arange(40, dtype=np.uint64) % 4 + 2**63):
        column = as_columns({"id": values}, "factors")[0]
        assert column.discrete
        assert np.array_equal(column.values, np.arange(40) % 4)
    for values in ([0, 2**62], np.array([2**70, 1], dtype=object)):
        with pytest.raises(isorep.InputError, match="give them as text"):
            as_columns({"id": values}, "factors")


def test_columns_too_large_or_too_small_are_refused(rng):
    s = rng.normal(size=(40, 2))
    for scale in (1e125, 1e200):
        with pytest.raises(isorep.InputError, match=r"column 'z0' of latents holds .* beyond 1e\+120: rescale it"):
            isorep.structure.mcc(s, s * scale)
    with pytest.raises(isorep.InputError, match=r"column 'z0' of latents holds nothing beyond .*, below 1e-120"):
        isorep.structure.infomec(s, s * 1e-310)
    for a, b in ((1e110, 1e-110), (1e119, 1e119), (1e-110, 1e-110)):
        found = isorep.score_factors(s * a, s * b, n_resamples=0, n_null=0)
        assert [round(found[name].value, 6) for name in ("mcc", "linear_r2", "infoe")] == [1, 1, 1]
        assert min(found["dci_disentanglement"].value, found["sap"].value) > 0.9


def test_decimals_are_numbers_dates_are_refused_and_long_digits_are_labels(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from datetime import date
    from decimal import Decimal

    table = {"d": [Decimal("1.5"), Decimal("2.5")] * 4, "day": [date(2020, 1, 1)] * 8}
    parquet.write_table(pyarrow.table(table), tmp_path / "f.parquet")
    assert as_columns(f"{tmp_path}/f.parquet::d", "factors")[0].values.tolist() == [1.5, 2.5] * 4
    with pytest.raises(isorep.InputError, match=r"column 'day' holds .*, neither numbers nor labels"):
        as_columns(tmp_path / "f.parquet", "factors")
    (tmp_path / "f.csv").write_text("id2,x\n" + "".join(f"1234567890123456789{i % 2},{i}\n" for i in range(8)))
    assert as_columns(tmp_path / "f.csv", "factors")[0].labels == ("12345678901234567890", "12345678901234567891")


def test_columns_left_out_of_a_file_of_latents_are_named_in_the_result(tmp_path):
    values = np.random.default_rng(0).normal(size=(200, 2))
    path = tmp_path / "latents.csv"
    rows = "\n".join(f"{a},{b},word{place % 3}" for place, (a, b) in enumerate(values))
    path.write_text(f"one,two,word\n{rows}\n")
    said = isorep.structure.infomec(values, path).caveats
    assert "left out of latents.csv: 'word' (text)" in said
    assert not any("left out of" in caveat for caveat in isorep.structure.infomec(values, values).caveats)
