"""Correctness where the right answer is known: planted factors, noise, and figures worked out by hand."""

import math

import numpy as np
import pytest

import isorep
from isorep.deconfounding import PARAMETERS, concentration, hoyer
from isorep.deconfounding.measures import accepted_share, mixing
from isorep.ica.associations import explained, information
from isorep.resampling import haar

from .screens import screen


@pytest.fixture(scope="module")
def planted():
    x, treated, plate = screen(n_batches=16, wells=100, dimensions=16, effect=1.0)
    return isorep.deconfound(
        x, treated, plate, conditions=("base", "pca", "pca_ica", "pca_rand"), n_restarts=2, n_components="all"
    )


def test_ica_beats_base_whitening_and_a_random_rotation_on_unseen_batches(planted):
    assert planted.verdict.answer == "helps"
    for test in planted.tests[:3]:
        assert test.condition == "pca_ica"
        assert test.difference > 0
        assert test.interval.low <= test.difference <= test.interval.high
        assert test.pairs == 16
        assert test.better + test.worse <= 16
    assert planted.tests[0].difference > 0.02
    assert planted.tests[0].corrected is None
    assert f"better in {planted.tests[0].better} of 16 batches" in planted.verdict.sentence


def test_components_tell_biology_from_batch(planted):
    biology = [c for c in planted.components if c.label_r2 > 0.05]
    batch = [c for c in planted.components if c.batch_driven]
    assert len(biology) == 2
    assert len(batch) == 3
    assert all(c.batch_r2["batch"] < 0.05 and c.recurs for c in biology)
    assert all(c.label_r2 < 0.02 and c.batch_r2["batch"] > 0.4 for c in batch)
    assert all(c.label_information > 0.02 > c.batch_information["batch"] - 0.05 for c in biology)


@pytest.mark.parametrize("role", ["batch", "label"])
def test_a_component_that_only_spreads_more_in_some_batches_is_batch_driven(role):
    rng = np.random.default_rng(3)
    batch, label = np.repeat(np.arange(8), 100), rng.random(800) < 0.5
    sources = rng.laplace(size=(800, 4))
    sources[:, 0] *= np.where(batch % 2 == 0 if role == "batch" else label, 3.0, 0.5)
    x = sources @ rng.normal(size=(4, 4))
    result = isorep.deconfound(x, label, batch, n_restarts=0, n_components="all", classifiers="logistic", mixing=False)
    driven = [each.number for each in result.components if each.batch_driven]
    if role == "label":
        assert driven == []
    else:
        (number,) = driven
        assert abs(np.corrcoef(result.transform(x)[:, number], sources[:, 0])[0, 1]) > 0.95
        assert result.components[number].batch_r2["batch"] < 0.1 < result.components[number].by_batch()


def test_the_filter_keeps_the_signal_and_hides_the_batches(planted):
    assert planted.filtered.dropped == 3
    assert planted.filtered.auroc.value > planted.conditions["base"].scores["lightgbm"].auroc.value
    before = planted.conditions["pca_ica"].mixing
    assert planted.filtered.mixing.batch_auroc < before.batch_auroc - 0.2
    assert planted.filtered.mixing.accepted > before.accepted + 0.3


def test_rows_at_the_ends_of_a_component_are_its_largest_and_smallest(planted):
    x, _, _ = screen(n_batches=16, wells=100, dimensions=16, effect=1.0)
    sources = planted.transform(x)
    for component in planted.components[:3]:
        column = sources[:, component.number]
        assert [example.row for example in component.highest] == np.argsort(-column)[:5].tolist()
        assert [example.row for example in component.lowest] == np.argsort(column)[:5].tolist()


def test_without_any_effect_no_condition_predicts():
    x, _, plate = screen(effect=0.0)
    label = np.random.default_rng(1).random(len(x)) < 0.4
    result = isorep.deconfound(x, label, plate, n_restarts=0, mixing=False)
    for condition in result.conditions.values():
        for summary in condition.scores.values():
            assert abs(summary.auroc.value - 0.5) < 0.08
    assert result.verdict.answer == "not shown"


def test_hoyer_by_hand():
    assert hoyer([1, 1, 1, 1]) == pytest.approx(0)
    assert hoyer([0, 0, 7, 0]) == pytest.approx(1)
    assert hoyer([0.5, 0.5, 0, 0]) == pytest.approx((2 - math.sqrt(2)) / (2 - 1))
    assert hoyer([0.5, 0.5, 0, 0]) == pytest.approx(hoyer([3, 3, 0, 0]))
    assert hoyer([0, 0]) is None
    assert hoyer([1]) is None


def test_concentration_by_hand():
    assert concentration(0.8, 0.65) == pytest.approx((0.5, 0.8 / 0.65 - 1, 0.3))
    assert math.isnan(concentration(0.5, 0.4)[0])
    assert concentration(0.7, 0.7) == pytest.approx((0, 0, 0))


def test_the_classifier_has_the_published_parameters():
    published = {
        "is_unbalance": True, "learning_rate": 0.05, "num_leaves": 31, "feature_fraction": 0.6,
        "reg_alpha": 5.0, "reg_lambda": 1.0, "min_gain_to_split": 0.8, "min_data_in_leaf": 30,
    }  # fmt: skip
    assert {name: PARAMETERS[name] for name in published} == published


def test_concentration_refits_on_the_most_important_features():
    x, treated, plate = screen(effect=2.0, batch_effect=0.0)
    result = isorep.deconfound(
        x,
        treated,
        plate,
        top=(0.25, 0.5),
        n_restarts=0,
        conditions="pca_ica",
        n_components="all",
        classifiers="lightgbm",
        mixing=False,
    )
    found = result.conditions["pca_ica"].scores["lightgbm"].concentration
    assert set(found) == {"0.25", "0.5"}
    assert found["0.25"].top.value > 0.8  # two of eight components carry the effect
    assert found["0.25"].rest.value < 0.65
    assert found["0.25"].share.value > 0.5
    for score in result.scores:
        top, rest = score.parts["0.25"]
        assert score.metric("gini@0.25") == pytest.approx(2 * (top - rest))
    assert result.mean("top@0.5", "pca_ica").n == 10


def test_explained_variance_and_information_of_a_class_are_known():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 5000)
    values = np.stack([codes - 0.5 + 0.5 * rng.normal(size=10_000), rng.normal(size=10_000)], axis=1)
    assert explained(values, codes) == pytest.approx([0.5, 0], abs=0.02)
    assert explained(values, rng.integers(500, size=10_000)).max() < 0.02  # chance is taken off
    certain = codes * 5 + np.arange(10_000) % 5
    assert information(certain, codes) == pytest.approx(math.log(2), abs=1e-3)
    assert information(rng.integers(10, size=10_000), codes) < 1e-3


def test_mixed_batches_are_accepted_and_separate_ones_are_not():
    rng = np.random.default_rng(0)
    codes = np.arange(1200) % 4
    x = rng.normal(size=(1200, 3))
    assert accepted_share(x, codes) > 0.85
    assert accepted_share(x + 20 * codes[:, None], codes) == 0
    label = codes < 2
    about = codes, label, label, ~label
    together, apart = mixing(x, *about), mixing(x + 20 * codes[:, None], *about)
    assert together.batch_auroc == pytest.approx(0.5, abs=0.07)
    assert together.batch_accuracy == pytest.approx(together.batch_chance, abs=0.07)
    assert apart.batch_auroc > 0.99
    assert apart.batch_silhouette > 0.8 > together.batch_silhouette + 0.7


def test_random_rotations_are_orthogonal_and_uniform():
    rng = np.random.default_rng(0)
    drawn = np.stack([haar(3, rng) for _ in range(2000)])
    assert np.allclose(drawn @ drawn.transpose(0, 2, 1), np.eye(3))
    assert np.abs(drawn.mean(axis=0)).max() < 0.05  # without the signs of R's diagonal this would be 0.3
    assert (drawn**2).mean(axis=0) == pytest.approx(np.full((3, 3), 1 / 3), abs=0.03)
