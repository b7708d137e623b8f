"""Measures of batches and labels: public implementations, brute force, and data with and without structure."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from isorep.deconfounding.measures import (
    agreement_across,
    average_precision,
    between_batches,
    chance_precision,
    graph_connectivity,
    mixing,
    predictability,
    replicate_precision,
)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(7)
    batch, label = np.repeat(np.arange(4), 30), rng.integers(0, 5, 120)
    x = rng.normal(size=(120, 6)) + 0.8 * rng.normal(size=(5, 6))[label] + 0.6 * rng.normal(size=(4, 6))[batch]
    return np.round(x, 6), label, batch


def test_public_implementations_give_the_same_values(small):
    """copairs 0.5.5: positives of one label and another batch, negatives control and not, of one batch.

    scib-metrics 0.5.10: principal component regression, and connectivity of the graph of 15 neighbours.
    """
    x, label, batch = small
    assert replicate_precision(x, label, batch, label == 0).value == pytest.approx(0.8451975062632104, abs=1e-9)
    assert between_batches(x, batch).value == pytest.approx(0.2096114307641983, abs=1e-6)  # theirs is in float32
    assert graph_connectivity(x, label).value == pytest.approx(0.9579124579124579, abs=1e-9)


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (1, 4), (2, 3), (3, 3), (4, 1), (3, 0)])
def test_the_chance_of_a_precision_is_the_mean_over_all_rankings(positives, negatives):
    every = [
        average_precision(np.array(ranking[:positives], float), np.array(ranking[positives:], float))
        for ranking in permutations(range(positives + negatives))
    ]
    assert chance_precision(positives, negatives) == pytest.approx(np.mean(every))


def test_controls_come_first_among_equal_similarities():
    assert average_precision(np.ones(2), np.ones(2)) == pytest.approx((1 / 3 + 2 / 4) / 2)


def test_the_variance_between_batches_is_principal_component_regression(small):
    x, _, batch = small
    centred = x - x.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    parts = np.stack([u[batch == code].sum(axis=0) ** 2 / (batch == code).sum() for code in range(4)])
    assert between_batches(x, batch).value == pytest.approx(float(parts.sum(axis=0) @ s**2 / (s**2).sum()))


def test_rows_without_structure_are_at_chance():
    rng = np.random.default_rng(1)
    x, batch, label = rng.normal(size=(1200, 5)), np.repeat(np.arange(6), 200), rng.integers(0, 4, 1200)
    found = mixing(x, batch, label, label > 0, label == 0)
    for measure in (found.batch_variance, found.replicates, found.neighbours, found.connectivity):
        assert abs(measure.value - measure.chance) < 0.05
    assert abs(found.batch_auroc - 0.5) < 0.06
    assert abs(found.batch_forest_auroc - 0.5) < 0.06
    assert found.accepted > 0.9


def test_labels_that_hold_together_across_batches_are_far_above_chance():
    rng = np.random.default_rng(2)
    batch, label = np.repeat(np.arange(6), 100), rng.integers(0, 4, 600)
    x = rng.normal(size=(600, 5)) + 6 * np.eye(4, 5)[label]
    found = mixing(x, batch, label, label > 0, label == 0)
    assert found.replicates.value > 0.98
    assert found.neighbours.value > 0.98 > found.neighbours.chance + 0.6
    assert found.connectivity.value > 0.98 > found.connectivity.chance + 0.1


def test_a_forest_sees_batches_that_no_line_separates():
    rng = np.random.default_rng(3)
    batch = np.repeat(np.arange(4), 250)
    x = rng.normal(size=(1000, 6)) * np.array([0.4, 0.8, 1.4, 2.2])[batch][:, None]
    for code in range(4):  # as normalised per plate: no difference of means is left
        x[batch == code] -= x[batch == code].mean(axis=0)
    found = mixing(x, batch, np.arange(1000) % 2, np.arange(1000) % 2 == 1, np.arange(1000) % 2 == 0)
    assert found.batch_auroc < 0.6
    assert found.batch_forest_auroc > 0.75
    assert found.batch_variance.value == pytest.approx(0, abs=1e-12)


def test_replicates_need_two_batches_and_controls_beside_them():
    rng = np.random.default_rng(4)
    x, batch = rng.normal(size=(60, 3)), np.repeat([0, 1, 2], 20)
    alone = np.where(np.arange(60) % 2, batch + 1, 0)  # every label in one batch
    assert replicate_precision(x, alone, batch, alone == 0) is None
    label = np.arange(60) % 2
    control = (label == 0) & (batch == 2)
    found = replicate_precision(x, label, batch, control)
    assert found.chance == pytest.approx(chance_precision(20, 10))  # only rows of the batch with controls are queries
    assert replicate_precision(x, label, batch, np.zeros(60, bool)) is None


def test_agreement_counts_no_more_neighbours_than_there_are():
    x = np.array([[0.0], [10.0], [0.1], [10.1], [20.0]])
    label, batch = np.array([0, 1, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
    found = agreement_across(x, label, batch)  # label 2 has no row elsewhere, the others one each
    assert found.value == pytest.approx(1.0)
    assert found.chance == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert agreement_across(x[[0, 4]], np.array([0, 1]), np.array([0, 1])) is None


def test_predictability_of_two_batches_is_one_auroc(small):
    x, _, batch = small
    auroc, accuracy = predictability(x, batch // 2, lambda: RandomForestClassifier(20, random_state=0))
    assert 0.5 < auroc <= 1
    assert 0 <= accuracy <= 1
