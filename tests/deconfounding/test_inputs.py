"""Where rows and labels come from, and everything that can be wrong with them: one sentence each."""

import builtins

import numpy as np
import pandas as pd
import pytest

import isorep
from isorep import InputError
from isorep.deconfounding.controls import control_kind
from isorep.deconfounding.reading import _row_numbers, metadata_name

from .screens import screen

X, TREATED, PLATE = screen(wells=30)
QUICK = {"conditions": ("base", "pca"), "classifiers": "logistic", "top": (), "n_restarts": 0, "mixing": False}


def auroc(*arguments, **settings):
    result = isorep.deconfound(*arguments, **QUICK | settings)
    return result.mean("auroc", "base").value


def test_booleans_numbers_strings_and_categories_mean_the_same():
    expected = auroc(X, TREATED, PLATE)
    words = np.where(TREATED, "drug", "DMSO")
    for label in (
        TREATED.astype(int),
        TREATED.astype(float),
        words,
        pd.Categorical(words),
        pd.Series(words),
        list(words),
    ):
        assert auroc(X, label, PLATE) == expected
    assert auroc(X, words, pd.Categorical(PLATE)) == expected
    assert auroc(X, np.where(TREATED, "a", "b"), PLATE, control="b") == expected


def test_many_perturbations_are_one_task_or_one_each():
    words = np.where(TREATED, np.where(np.arange(len(X)) % 2, "a", "b"), "control")
    together = isorep.deconfound(X, words, PLATE, **QUICK)
    assert together.tasks == ("2 values of label",)
    assert together.mean("auroc", "base").value == auroc(X, TREATED, PLATE)
    apart = isorep.deconfound(X, words, PLATE, each=True, **QUICK)
    assert apart.tasks == ("a", "b")
    assert apart.mean("auroc", "base").n == 10  # batches, over which tasks are averaged
    assert apart.mean("auroc", "base", task="a").n == 10
    assert any("share their control rows" in caveat for caveat in apart.caveats)


def test_guides_of_a_gene_count_into_its_standard_error():
    gene = np.where(TREATED, "MTOR", "non-targeting")
    guides = np.where(TREATED, np.where(np.arange(len(X)) % 2, "g1", "g2"), None)  # controls have none
    result = isorep.deconfound(X, gene, PLATE, guides=guides, each=True, folds=5, unit="fold", **QUICK)
    assert result.tasks == ("MTOR",)
    found = result.mean("auroc", "base", task="MTOR")
    assert found.n == 10
    values = [score.auroc for score in result.scores if score.condition == "base"]
    assert found.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(10))
    assert {score.guide for score in result.scores} == {"g1", "g2"}


def test_several_controls_and_perturbations_that_no_fold_can_hold():
    words = np.where(TREATED, "drug", np.where(np.arange(len(X)) % 2, "DMSO", "water")).astype(object)
    words[np.flatnonzero(TREATED & (PLATE == "plate 00"))] = "rare"
    result = isorep.deconfound(X, words, PLATE, control=["DMSO", "water"], each=True, **QUICK)
    assert result.tasks == ("drug",)
    assert result.data.control == ("DMSO", "water")
    assert any("1 tasks were left out" in caveat and "rare" in caveat for caveat in result.caveats)


def test_tables_with_metadata_columns(tmp_path):
    expected = auroc(X, TREATED, PLATE)
    frame = pd.DataFrame(X, columns=[f"Cells_Feature_{place}" for place in range(X.shape[1])])
    frame.insert(0, "Metadata_Plate", PLATE)
    frame.insert(1, "Metadata_control_type", np.where(TREATED, "trt", "negcon"))
    frame["Metadata_well_row"] = np.arange(len(X)) % 8
    frame.to_parquet(tmp_path / "profiles.parquet", index=False)
    frame.to_csv(tmp_path / "profiles.csv", index=False)
    for source in (frame, tmp_path / "profiles.parquet", tmp_path / "profiles.csv"):
        result = isorep.deconfound(source, "Metadata_control_type", "Metadata_Plate", **QUICK)
        assert result.data.columns == X.shape[1]
        assert result.mean("auroc", "base").value == pytest.approx(expected, abs=1e-3)


def test_a_label_that_lies_among_the_numbers_of_a_table_is_no_feature(tmp_path):
    frame = pd.DataFrame(X.astype(float), columns=[f"f{place}" for place in range(X.shape[1])])
    frame["perturbed"] = TREATED.astype(float)
    frame["plate"] = np.unique(PLATE, return_inverse=True)[1].astype(float)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    for source in (frame, tmp_path / "t.parquet"):
        assert isorep.deconfound(source, "perturbed", "plate", **QUICK).data.columns == X.shape[1]


ONE_EACH = np.where(TREATED, "x", "y")
RARE = TREATED & (PLATE == "plate 00")


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        ((X, TREATED, TREATED), {}, "same division of the rows: nothing can separate batch from label"),
        ((X, TREATED, np.where(TREATED, "p1", "p2")), {}, "nothing can separate batch from label"),
        ((X, TREATED, np.zeros(len(X))), {}, "no batch can be held out"),
        ((X, np.ones(len(X)), PLATE), {}, "there is nothing to tell apart"),
        ((X, RARE, PLATE), {}, "lie in one value of batch, 'plate 00'"),
        ((X, TREATED, PLATE), {"folds": 11}, "has 10 values and there are 11 folds"),
        ((X, ONE_EACH, PLATE), {}, "Name it with --control (control= in Python)"),
        ((X, ONE_EACH, PLATE), {"control": "z"}, "control 'z': label holds 'x', 'y'"),
        ((X, ONE_EACH, PLATE), {"control": ["x", "y"]}, "every value of label is named as a control"),
        ((X, TREATED[1:], PLATE), {}, "one label per row is needed: (300,)"),
        ((X, "perturbed", PLATE), {}, "names a column, and the embedding is an array"),
        ((X, np.where(TREATED, 1, np.nan), PLATE), {}, "label has one value only, '1': there is nothing to tell apart"),
        ((X, np.where(TREATED, 1, np.nan), PLATE), {}, "label is missing in"),
        ((X, TREATED, [None] * len(X)), {}, "batch is missing in all 300 rows"),
        ((X,), {}, "label is not given"),
        ((X, TREATED), {}, "batch is not given"),
        ((X, TREATED), {"batch": PLATE, "batch_key": PLATE}, "batch_key is another name for batch"),
        ((X, TREATED, PLATE), {"key": "X_pca"}, "key names a matrix of an AnnData object, and embedding is not one"),
        ((X, TREATED, np.arange(300) % 3), {"folds": 5}, "3 values and there are 5 folds: a batch is never split"),
        ((np.where(np.arange(300)[:, None] == 7, np.nan, X), TREATED, PLATE), {}, "8 NaN values, the first at row 7"),
        ((X, TREATED, {}), {}, "batch is empty"),
        ((X, TREATED, PLATE), {"conditions": ("base", "umap")}, "conditions umap: choose from base, pca"),
        ((X, TREATED, PLATE), {"conditions": ()}, "conditions is empty"),
        ((X, TREATED, PLATE), {"classifiers": "svm"}, "classifiers svm: choose from lightgbm, logistic"),
        ((X, TREATED, PLATE), {"split": "random"}, "split is 'random'"),
        ((X, TREATED, PLATE), {"folds": 1}, "at least 2"),
        ((X, TREATED, PLATE), {"n_seeds": 0}, "at least 1"),
        ((X, TREATED, PLATE), {"n_components": 0}, "n_components is 0"),
        ((X, TREATED, PLATE), {"top": (25,)}, "shares between 0 and 1"),
        ((X, TREATED, PLATE), {"unit": "row"}, "unit is 'row': choose from batch, fold"),
        ((X, TREATED, PLATE), {"split": "leave_one_out", "folds": 5}, "which has as many folds as batches"),
        ((X, TREATED, PLATE), {"n_rotations": 0}, "n_rotations is 0"),
        ((X, TREATED, PLATE), {"batch_limit": 2}, "batch_limit is 2"),
        ((X, TREATED, PLATE), {"random_state": None}, "random_state is None"),
        ((X, TREATED, PLATE), {"fit_on": X[:, :3]}, "fit_on has 3 columns and the embedding has 8"),
        ((X, TREATED, PLATE), {"fit_on": None}, "fit_on is None"),
        ((X, TREATED, PLATE), {"transformers": {"base": None}}, "cannot be called 'base'"),
        ((X, TREATED, PLATE), {"transformers": {"mine": 3}}, "has no fit and transform"),
        (("nowhere.h5ad", "perturbed", "plate"), {}, "does not exist"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, settings, words):
    with pytest.raises(InputError) as caught:
        isorep.deconfound(*arguments, **QUICK | settings)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_guides_must_be_known_for_perturbed_rows():
    guides = np.where(np.arange(len(X)) % 2, "g", None)
    with pytest.raises(InputError, match="guides is missing for perturbed rows"):
        isorep.deconfound(X, TREATED, PLATE, guides=guides, **QUICK)


def test_batches_of_one_class_each_are_allowed_and_told():
    label = np.isin(PLATE, [f"plate {place:02}" for place in range(5)])
    result = isorep.deconfound(X, label, PLATE, **QUICK)
    assert any("effects of the two are confounded" in caveat for caveat in result.caveats)


def test_fewer_rows_than_columns():
    x, treated, plate = screen(wells=10)
    wide = np.concatenate([x, np.random.default_rng(0).normal(size=(100, 112)).astype(np.float32)], axis=1)
    result = isorep.deconfound(wide, treated, plate, **QUICK)
    assert result.conditions["pca"].dimensions <= 9  # a tenth of the 90 training rows
    assert not any("noise is amplified" in caveat for caveat in result.caveats)
    tenth = isorep.deconfound(wide, treated, plate, n_components="tenth", **QUICK)
    assert tenth.conditions["pca"].dimensions == 9
    every = isorep.deconfound(wide, treated, plate, n_components="all", **QUICK)
    assert every.conditions["pca"].dimensions == 89
    assert any("noise is amplified" in caveat for caveat in every.caveats)
    some = isorep.deconfound(wide, treated, plate, n_components=7, **QUICK | {"conditions": "pca", "folds": 2})
    assert some.conditions["pca"].dimensions == 7


@pytest.mark.parametrize(("package", "settings"), [("lightgbm", {"classifiers": "lightgbm"}),
                                                   ("harmonypy", {"conditions": "harmony"})])  # fmt: skip
def test_a_missing_package_names_the_extra(monkeypatch, package, settings):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=rf"{package}: install it with  pip install 'isorep\[bio\]'"):
        isorep.deconfound(X, TREATED, PLATE, **QUICK | settings)
    assert 0.5 < auroc(X, TREATED, PLATE) < 1  # logistic regression needs neither


def test_columns_of_a_data_frame_are_features_only_if_they_are_numbers():
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    frame = frame.assign(label=TREATED, plate=PLATE)
    expected = auroc(frame, "label", "plate")
    day = frame.assign(time=pd.Timestamp("2020-01-01"), note="word")
    result = isorep.deconfound(day, "label", "plate", **QUICK)
    assert result.mean("auroc", "base").value == expected
    assert "left out of embedding: 'time' (timestamp), 'note' (text)" in result.caveats
    flagged = isorep.deconfound(frame.assign(on=np.arange(len(X)) % 2 == 0), "label", "plate", **QUICK)
    assert flagged.data.columns == X.shape[1] + 1
    assert "converted in embedding: 'on' (true and false to 1 and 0)" in flagged.caveats
    text = frame["x0"].astype(str)
    text[30] = "0.3x"
    for column in (text, text.astype("category"), frame["x0"].astype(object).mask(frame.index == 30, "0.3x")):
        with pytest.raises(InputError, match=r"row 30, column 'x0': '0.3x' is not a number"):
            isorep.deconfound(frame.assign(x0=column), "label", "plate", **QUICK)
    assert auroc(frame.assign(x0=frame["x0"].astype(object)), "label", "plate") == expected
    assert auroc(frame.assign(x0=frame["x0"].astype("category")), "label", "plate") == expected


def test_labels_that_are_numbers_in_a_table_are_no_features(tmp_path):
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])])
    frame.assign(label=TREATED.astype(int), plate=PLATE, copy=TREATED.astype(int)).to_csv(tmp_path / "t.csv")
    result = isorep.deconfound(tmp_path / "t.csv", "label", "plate", control="0", **QUICK)
    assert result.data.columns == X.shape[1]
    told = "left out of t.csv: 'copy' (one value per label); they look like metadata, and keep_metadata uses them"
    assert told in result.caveats


def test_rows_without_label_or_batch_are_left_out_and_counted(tmp_path):
    frame = pd.DataFrame(X.astype(float), columns=[f"x{place}" for place in range(X.shape[1])])
    frame = frame.assign(pert=np.where(TREATED, "drug", "DMSO"), plate=PLATE)
    frame.loc[[3, 7], "plate"] = None
    frame.loc[[7, 11, 12], "pert"] = None
    frame.loc[3, "x0"] = np.nan  # of a row that does not count
    note = "left out 4 of 300 rows, the first at row 3: pert is missing in 3, plate is missing in 2"
    expected = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    left = frame.dropna()
    for source in (frame, tmp_path / "t.csv", tmp_path / "t.parquet"):
        result = isorep.deconfound(source, "pert", "plate", **QUICK | {"conditions": ("base", "pca_ica")})
        assert result.caveats[0] == note
        assert result.data.rows == 296
        expected = expected or isorep.deconfound(left.reset_index(drop=True), "pert", "plate", **QUICK)
        assert result.mean("auroc", "base").value == pytest.approx(expected.mean("auroc", "base").value, abs=1e-6)
        rows = {example.row for component in result.components for example in component.highest}
        assert max(rows) > 11  # rows are those of the data
        assert not rows & {3, 7, 11, 12}
    assert not any("left out" in caveat for caveat in expected.caveats)
    frame.loc[20, "x0"] = np.nan
    with pytest.raises(InputError, match=r"1 NaN value.*row 20"):
        isorep.deconfound(frame, "pert", "plate", **QUICK)


def test_batches_of_one_class_are_named_unless_all_are():
    label = TREATED & ~np.isin(PLATE, ["plate 02", "plate 05"])
    result = isorep.deconfound(X, label, PLATE, **QUICK)
    assert "2 of 10 batches have one class only and cannot test alone: plate 02, plate 05" in result.caveats
    assert not any("one class only" in caveat for caveat in isorep.deconfound(X, TREATED, PLATE, **QUICK).caveats)


METADATA = [
    *(
        "Count_Cells",
        "Cells_Count_Nuclei",
        "n_cells",
        "cell_count",
        "Number_Object_Number",
        "Cells_Number_Object_Number",
    ),
    *("ImageNumber", "ObjectNumber", "Location_Center_X", "Cells_Location_Center_Y", "Nuclei_AreaShape_Center_X"),
    *(
        "Cells_Parent_Nuclei",
        "Nuclei_Children_Cells_Count",
        "plate",
        "Plate",
        "well_row",
        "WellID",
        "site",
        "plate_number",
    ),
    *("batch", "batch_id", "index", "id", "total_counts", "n_genes_by_counts", "Metadata_Plate", "TableNumber"),
]
MEASURED = [
    *("Cells_AreaShape_Area", "Cells_Texture_Contrast_DNA_3_00", "Cells_Neighbors_NumberOfNeighbors_Adjacent"),
    *("Cells_AreaShape_BoundingBoxArea", "Nuclei_Intensity_MeanIntensity_ER", "feature_0", "x0", "ID3", "WTAP", "NT5E"),
    "COL1A1",
    *("dim_3", "emb1", "platelets", "wellness", "counter", "TIMELESS", "DAYS9", "CELL1X", "Cells_Correlation_K_DNA_ER"),
]


def test_names_of_metadata_and_of_measurements():
    assert [name for name in METADATA if metadata_name(name) is None] == []
    assert [name for name in MEASURED if metadata_name(name) is not None] == []


def test_columns_that_look_like_metadata_are_left_out_named_and_can_be_kept():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X.astype(float), columns=[f"x{place}" for place in range(X.shape[1])])
    frame = frame.assign(label=TREATED, batch_name=PLATE)
    plain = isorep.deconfound(frame, "label", "batch_name", **QUICK)
    frame.insert(2, "Count_Cells", rng.poisson(50, len(X)).astype(float))
    frame["rising"] = np.cumsum(rng.integers(1, 4, len(X))).astype(float)
    frame["of_plate"] = np.unique(PLATE, return_inverse=True)[1] * 1.5
    frame["leak"] = np.where(TREATED, 0.25, 0.5)
    frame["steps"] = np.arange(len(X)) // 2 * 1.0  # neither rises always nor follows the batch
    result = isorep.deconfound(frame.drop(columns="steps"), "label", "batch_name", **QUICK)
    assert result.caveats[0] == (
        "left out of embedding: 'Count_Cells' (count), 'rising' (row numbers), 'of_plate' (one value per batch_name), "
        "'leak' (one value per label); they look like metadata, and keep_metadata uses them"
    )
    assert result.mean("auroc", "base") == plain.mean("auroc", "base")
    assert result.data.features == tuple(f"x{place}" for place in range(X.shape[1]))
    kept = isorep.deconfound(frame, "label", "batch_name", keep_metadata=True, **QUICK)
    assert kept.data.columns == X.shape[1] + 5
    assert kept.caveats[0].startswith("used, though they look like metadata: 'Count_Cells' (count), 'rising'")
    assert kept.mean("auroc", "base").value > 0.99
    assert "steps" in isorep.deconfound(frame, "label", "batch_name", **QUICK).data.features


def test_numbers_whose_differences_overflow_rise_or_do_not():
    """numpy would warn, and so would the command."""
    large = np.array([-1.7e308, 1.7e308])
    columns = np.column_stack([np.tile(large, 15), np.linspace(-1, 1, 30) * 1.7e308, np.repeat(large, 15)])
    assert _row_numbers(columns).tolist() == [False, True, False]


def test_a_model_takes_rows_as_the_data_hold_them_also_where_columns_were_left_out():
    values = np.column_stack([np.arange(len(X)), X[:, :4], X[:, 4:]]).astype(np.float64)
    result = isorep.deconfound(values, TREATED, PLATE, **QUICK | {"conditions": ("base", "pca_ica")})
    assert result.caveats[0].startswith("left out of embedding: 'column 0' (row numbers)")
    plain = isorep.deconfound(values[:, 1:], TREATED, PLATE, **QUICK | {"conditions": ("base", "pca_ica")})
    np.testing.assert_allclose(result.transform(values), plain.transform(values[:, 1:]))
    changed = values.copy()
    changed[:, 0] = 7
    np.testing.assert_array_equal(result.transform(changed), result.transform(values))
    other = isorep.deconfound(values, TREATED, PLATE, fit_on=values[:200], **QUICK | {"n_components": "all"})
    assert other.conditions["pca"].dimensions == 8


CONTROLS = [
    *("0.1% DMSO", "DMSO 0.1 %", "dmso_0.5%", "DMSO@NA", "DMSO (0.1%)", "DMSO 0.1% v/v", "vehicle", "mock", "EMPTY"),
    *("untreated", "negcon", "ctrl", "NT", "non-targeting", "Non-Targeting_12", "siNeg", "scramble", "scrambled"),
    *("neg_ctrl", "negative control", "siCtrl", "sgNTC", "scrambled siRNA", "mock-treated", "vehicle control"),
]
NO_CONTROLS = [
    *("DMSO-resistant clone", "controlled", "uncontrolled", "NT5E", "SCRIB", "mockingbird", "DMSO + taxol", "treated"),
    *(
        "positive control",
        "poscon",
        "CTRB1",
        "WTAP",
        "negative regulator",
        "0.1%",
        "siTP53",
        "water-soluble drug",
        "NA",
    ),
    *("Empty vector + drug", "medium", "ethanolamine", "mediator", "NTRK1", "untreatable", "", "taxol in DMSO"),
]


def test_names_of_controls_and_their_neighbours():
    assert [name for name in CONTROLS if control_kind(name) is None] == []
    assert [name for name in NO_CONTROLS if control_kind(name) is not None] == []


def test_long_numbers_in_labels_are_looked_at_once():
    """Barcodes and hashes: a search that tries every way to cut their digits would take years."""
    assert control_kind("4c" + "1" * 200 + "b") is None
    assert control_kind("DMSO " + "7 " * 200) == control_kind("DMSO_12") == "vehicle"


@pytest.mark.parametrize("name", ["0.1% DMSO", "siNeg", "EMPTY"])
def test_controls_are_found_by_name(name):
    result = isorep.deconfound(X, np.where(TREATED, "DMSO-resistant clone", name), PLATE, **QUICK)
    assert result.data.control == (name,)


def test_doses_of_one_control_are_controls_together_and_two_kinds_are_asked_about():
    odd = np.arange(len(X)) % 2 == 0
    words = np.where(TREATED, "drug", np.where(odd, "DMSO 0.1%", "DMSO 0.5%"))
    assert isorep.deconfound(X, words, PLATE, **QUICK).data.control == ("DMSO 0.1%", "DMSO 0.5%")
    with pytest.raises(InputError, match=r"these look like controls: 'DMSO' \(\d+ rows\), 'untreated' \(\d+ rows\)"):
        isorep.deconfound(X, np.where(TREATED, "drug", np.where(odd, "DMSO", "untreated")), PLATE, **QUICK)


class Unread:
    """Rows that must not be looked at."""

    shape, dtype = (300, 8), np.dtype("f8")

    def __len__(self):
        return 300

    def __getitem__(self, rows):
        raise AssertionError("rows were read")


@pytest.mark.parametrize(
    ("label", "batch", "words"),
    [
        (ONE_EACH, PLATE, "most frequent of its 2 values are 'y' (212 rows), 'x' (88 rows); in every batch: 'x', 'y'"),
        (TREATED, np.arange(300) % 3, "batch has 3 values and there are 5 folds"),
        (TREATED, np.where(TREATED, "a", "b"), "same division"),
        (TREATED[1:], PLATE, "one label per row"),
    ],
)
def test_what_labels_alone_can_tell_is_told_before_rows_are_read(label, batch, words):
    with pytest.raises(InputError) as caught:
        isorep.deconfound(Unread(), label, batch, **QUICK | {"folds": 5})
    assert words in str(caught.value)


def test_other_rows_to_fit_on_have_the_same_features():
    frame = pd.DataFrame(X.astype(float), columns=list("abcdefgh"))
    described = frame.assign(label=TREATED, batch_name=PLATE)
    result = isorep.deconfound(described, "label", "batch_name", fit_on=frame[:150], **QUICK)
    assert result.data.features == tuple("abcdefgh")
    with pytest.raises(InputError, match="the features of fit_on have another order: column 0 is 'h' and was 'a'"):
        isorep.deconfound(described, "label", "batch_name", fit_on=frame.iloc[:, ::-1], **QUICK)
