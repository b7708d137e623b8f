"""Where rows and labels come from, and everything that can be wrong with them: one sentence each."""

import builtins

import numpy as np
import pandas as pd
import pytest

import isorep
from isorep import InputError

from .screens import screen

X, TREATED, PLATE = screen(wells=30)
QUICK = {"conditions": ("base", "pca"), "classifiers": "logistic", "top": (), "n_restarts": 0}


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
        ((X, ONE_EACH, PLATE), {}, "Name it with control="),
        ((X, ONE_EACH, PLATE), {"control": "z"}, "control 'z': label holds 'x', 'y'"),
        ((X, ONE_EACH, PLATE), {"control": ["x", "y"]}, "every value of label is named as a control"),
        ((X, TREATED[1:], PLATE), {}, "one label per row is needed: (300,)"),
        ((X, "perturbed", PLATE), {}, "names a column, and the embedding is an array"),
        ((X, np.where(TREATED, 1, np.nan), PLATE), {}, "label is missing for"),
        ((X, TREATED, [None, *PLATE[1:]]), {}, "batch is missing for 1 rows, the first at row 0"),
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
    assert "left out of t.csv: 1 columns that repeat label or batch" in result.caveats
