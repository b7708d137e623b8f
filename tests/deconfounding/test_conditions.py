"""Conditions: what they do to rows, what they are fitted on, and that they never see the label."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import isorep
from isorep import InputError
from isorep.deconfounding.corrections import regressed_out
from isorep.deconfounding.inputs import Column
from isorep.deconfounding.transforms import Transforms
from isorep.ica import Whitening
from isorep.ica.whitening import quietly

from .screens import screen

X, TREATED, PLATE = screen(wells=30)
NAMES, CODES = np.unique(PLATE, return_inverse=True)
QUICK = {"classifiers": "logistic", "top": (), "n_restarts": 0, "mixing": False}


def transforms(fitted=X):
    batch = Column("plate", CODES, tuple(NAMES))
    return Transforms(X, fitted, np.ones(len(X), bool), quietly(Whitening(), fitted), (batch,), ~TREATED, {})


def test_the_rotations_share_one_whitened_space():
    made = transforms()
    white = made("pca")
    assert np.cov(white.T, bias=True) == pytest.approx(np.eye(8), abs=1e-4)
    for name in ("pca_ica", "pca_rand"):
        turned = made(name)
        assert np.cov(turned.T, bias=True) == pytest.approx(np.eye(8), abs=1e-3)
        assert np.linalg.norm(turned, axis=1) == pytest.approx(np.linalg.norm(white, axis=1), rel=1e-3)
    assert np.array_equal(made("base"), X)
    assert not np.allclose(made("pca_rand"), made("pca_rand", 1))


def test_a_linear_classifier_does_not_tell_rotations_apart_and_that_is_said():
    result = isorep.deconfound(X, TREATED, PLATE, conditions=("pca", "pca_ica", "pca_rand"), **QUICK)
    values = [result.mean("auroc", name).value for name in result.conditions]
    assert values == pytest.approx([values[0]] * 3, abs=2e-3)
    assert any("invariant to rotations" in caveat for caveat in result.caveats)


def test_centring_takes_batch_means_away_and_harmony_mixes_batches():
    plate = Column("plate", CODES, tuple(NAMES))
    assert np.abs(regressed_out(X, (plate,))[CODES == 3].mean(axis=0)).max() < 1e-5
    result = isorep.deconfound(
        X, TREATED, PLATE, conditions=("base", "centred", "harmony"), folds=2, **QUICK | {"mixing": True}
    )
    mixed = {name: condition.mixing.accepted for name, condition in result.conditions.items()}
    assert mixed["base"] < mixed["harmony"]
    assert mixed["base"] < mixed["centred"]
    assert mixed["centred"] > 0.9
    assert [condition.uses for condition in result.conditions.values()] == [None, "rows", "rows"]
    assert "+ uses the rows of the held-out batch without labels" in str(result)
    assert "* uses" not in str(result)


def test_ica_without_whitening_is_a_rotation_up_to_scale():
    found = transforms()("ica_base")
    distances = [np.linalg.norm(rows[1:] - rows[:-1], axis=1) for rows in (found, X)]
    ratio = distances[0] / distances[1]
    assert ratio == pytest.approx(np.full(len(ratio), ratio[0]), rel=1e-3)


def test_any_scikit_learn_transformer_is_a_condition_and_is_not_changed():
    given = {"scaled": StandardScaler(), "three": PCA(3)}
    result = isorep.deconfound(X, TREATED, PLATE, conditions="base", transformers=given, **QUICK)
    assert list(result.conditions) == ["base", "scaled", "three"]
    assert result.conditions["three"].dimensions == 3
    assert not hasattr(given["scaled"], "mean_")
    assert result.mean("auroc", "scaled").value == pytest.approx(result.mean("auroc", "base").value, abs=0.01)
    assert len(result.tests) == 3  # all pairs
    assert result.verdict.answer == "not asked"


def test_a_transformer_that_fails_is_named():
    with pytest.raises(InputError, match="the transformer 'wide' failed"):
        isorep.deconfound(X, TREATED, PLATE, conditions=(), transformers={"wide": PCA(99)}, **QUICK)


class Seen(StandardScaler):
    """Remembers the rows it was fitted on, and whether it was given labels."""

    rows: list = []

    def fit(self, X, y=None):
        Seen.rows.append((np.array(X), y))
        return super().fit(X)


@pytest.mark.parametrize("fit_on", ["train", "all", "other"])
def test_transforms_are_fitted_on_the_rows_that_were_asked_for_and_without_labels(fit_on):
    Seen.rows = []
    other = X[::3] + 1
    result = isorep.deconfound(
        X, TREATED, PLATE, conditions=(), transformers={"seen": Seen()}, fit_on=other if fit_on == "other" else fit_on,
        **QUICK,
    )  # fmt: skip
    assert all(label is None for _, label in Seen.rows)
    for (rows, _), fold in zip(Seen.rows, result.folds, strict=False):
        expected = {"train": X[~np.isin(PLATE, fold.held_out)], "all": X, "other": other}[fit_on]
        assert np.array_equal(rows, expected)
    assert result.settings["fit_on"] == {"other": "other rows"}.get(fit_on, fit_on)


def test_held_out_rows_do_not_move_transforms_fitted_on_training_batches():
    """Every space of a fold is the same whatever the held-out rows are, and so is the number of dimensions."""
    moved = X.copy()
    moved[PLATE == "plate 03"] = 5 * moved[PLATE == "plate 03"][:, ::-1] + 3
    for names in (("base", "pca_ica"),):
        first, second = (isorep.deconfound(rows, TREATED, PLATE, conditions=names, **QUICK) for rows in (X, moved))
        fold = next(place for place, fold in enumerate(first.folds) if fold.held_out == ("plate 03",))
        assert first.dimensions.by_fold[fold] == second.dimensions.by_fold[fold]


@pytest.mark.parametrize("fit_on", ["all", "file"])
def test_ica_fitted_on_all_or_on_other_rows(fit_on, tmp_path):
    other, _, _ = screen(wells=60)
    np.save(tmp_path / "patches.npy", other)
    where = "all" if fit_on == "all" else tmp_path / "patches.npy"
    result = isorep.deconfound(X, TREATED, PLATE, conditions=("base", "pca_ica"), fit_on=where, **QUICK)
    rows = X if fit_on == "all" else other
    assert np.allclose(result.model.mean_, rows.mean(axis=0), atol=1e-4)
    said = any("including held-out batches" in caveat for caveat in result.caveats)
    assert said == (fit_on == "all")


def test_the_same_input_and_seed_give_the_same_result_and_another_seed_other_folds():
    settings = {"n_restarts": 2, "top": (0.25,), "conditions": ("base", "pca_ica", "pca_rand"), "folds": 3}
    first, again, other = (isorep.deconfound(X, TREATED, PLATE, random_state=seed, **settings) for seed in (0, 0, 1))
    left, right, third = (json.loads(result.to_json()) for result in (first, again, other))
    for found in (left, right, third):
        assert found.pop("seconds").keys() == {"dimensions", "transforms", "classifiers", "mixing", "components"}
    assert left == right
    assert left["schema"] == "isorep.deconfound/2"
    assert left["folds"] != third["folds"]
    assert str(first) == str(again)


def test_several_batch_columns_are_read_and_the_first_is_held_out():
    week = np.array([int(name[-2:]) // 2 for name in PLATE])
    result = isorep.deconfound(
        X, TREATED, {"week": week, "plate": PLATE}, conditions=("base", "pca_ica"), folds=5, **QUICK
    )
    assert result.data.batch == ("week", "plate")
    assert all(set(component.batch_r2) == {"week", "plate"} for component in result.components)
    assert {name for fold in result.folds for name in fold.held_out} == {"0", "1", "2", "3", "4"}


def test_the_result_prints_and_answers_questions():
    result = isorep.deconfound(X, TREATED, PLATE, folds=2, n_restarts=0, top=(0.25,), classifiers="lightgbm")
    text = str(result)
    for words in ("PCA+Rand", "conc@0.25", "corrected", "verdict: ICA", "batch-driven", "note: ", "z-score *"):
        assert words in text
    assert result.mean("hoyer", "base").n == 10  # one for each held-out batch
    for metric, condition in (("auroc", "umap"), ("f1", "base")):
        with pytest.raises(InputError):
            result.mean(metric, condition)
    kept = sum(not component.batch_driven for component in result.components)
    assert result.transform(X, filtered=True).shape == (300, kept)
    bare = isorep.deconfound(X, TREATED, PLATE, conditions="base", **QUICK)
    with pytest.raises(InputError, match="pca_ica was not asked for"):
        bare.transform(X)
    assert bare.components == ()
    assert bare.filtered is None


def test_columns_that_hardly_vary_do_not_count_and_are_named():
    dead = np.column_stack([X, 1e-6 * np.random.default_rng(0).normal(size=len(X))])
    assert quietly(Whitening(), dead).rank_ == quietly(Whitening(), X).rank_ == 8
    for conditions in (("base", "pca_ica"), ("base", "pca")):
        result = isorep.deconfound(dead, TREATED, PLATE, conditions=conditions, folds=2, **QUICK)
        assert sum("1 column of embedding hardly varies" in caveat for caveat in result.caveats) == 1


class ByBatch(StandardScaler):
    """Takes away batch means of controls, which it is given."""

    def fit(self, X, y=None, batch=None):
        assert len(batch) == len(X)
        return super().fit(X)

    def transform(self, X, batch=None, controls=None):
        assert controls.dtype == bool
        return np.vstack([row - X[controls & (batch == each)].mean(axis=0) for row, each in zip(X, batch, strict=True)])


def test_a_transformer_gets_batch_and_controls_where_it_takes_them():
    result = isorep.deconfound(X, TREATED, PLATE, conditions="base", transformers={"mine": ByBatch()}, **QUICK)
    assert result.conditions["mine"].uses == "controls"
    assert result.conditions["base"].uses is None
    with pytest.raises(InputError, match="asks for batch, unknown for other rows"):
        isorep.deconfound(X, TREATED, PLATE, conditions="base", transformers={"mine": ByBatch()}, fit_on=X, **QUICK)


def test_all_conditions_are_those_that_the_data_allow():
    result = isorep.deconfound(X, TREATED, PLATE, conditions="all", folds=2, **QUICK)
    assert {"control_z", "tvn", "sphere", "combat", "regress_out", "harmony", "pca"} < set(result.conditions)
    against = {(test.condition, test.against) for test in result.tests}
    assert {("pca_ica", "combat"), ("combat", "base"), ("control_z", "base")} < against
    assert [test.primary for test in result.tests].index(True) == 0
    bare = np.where(PLATE == "plate 03", True, TREATED)  # a plate without controls
    default = isorep.deconfound(X, bare, PLATE, folds=2, **QUICK)
    assert "control_z" not in default.conditions
    every = isorep.deconfound(X, bare, PLATE, conditions="all", folds=2, **QUICK)
    assert any("z-score and TVN were left out: 1 batches have fewer" in caveat for caveat in every.caveats)
    with pytest.raises(InputError, match="control_z needs 3 controls in every batch, and 1 of 10 batches have fewer"):
        isorep.deconfound(X, bare, PLATE, conditions=("base", "control_z"), folds=2, **QUICK)


def test_rotations_add_their_spread_to_the_error():
    asked = {"conditions": ("base", "pca_ica", "pca_rand"), "classifiers": "lightgbm", "n_restarts": 0, "mixing": False}
    one, three = (isorep.deconfound(X, TREATED, PLATE, n_rotations=n, **asked) for n in (1, 3))
    turned = [score for score in three.scores if score.condition == "pca_rand"]
    assert {score.rotation for score in turned} == {0, 1, 2}
    assert [score for score in turned if score.rotation == 0] == [
        score for score in one.scores if score.condition == "pca_rand"
    ]
    by_batch = [np.mean([s.auroc for s in turned if s.batch == name]) for name in NAMES]
    found = three.mean("auroc", "pca_rand")
    assert found.value == pytest.approx(np.mean(by_batch))
    assert found.error > np.std(by_batch, ddof=1) / np.sqrt(10)
