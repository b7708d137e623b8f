"""Recall in stores of other sizes: against the truth of simulated stores, inside and outside the assumed law."""

import numpy as np
import pytest

from isorep.translation.extrapolation import Extrapolation, guessed


def counts(rates, size, rng):
    return rng.binomial(size - 1, rates)


@pytest.mark.parametrize(("centre", "spread"), [(-9.0, 2.0), (-6.0, 1.0), (-12.0, 3.0)])
def test_the_true_recall_lies_in_the_interval_where_the_law_holds(centre, spread):
    rng = np.random.default_rng(0)
    rates = np.exp(np.minimum(centre + spread * rng.normal(size=1000), -0.01))
    law = Extrapolation(counts(rates, 2000, rng), 2000, rng)
    for size in (20_000, 200_000):
        truth = (counts(rates, size, rng) < 10).mean()
        found = law.at(size, (1, 10))
        assert found.recall[10] == pytest.approx(truth, abs=0.05)
        assert found.low[10] - 0.02 <= truth <= found.high[10] + 0.02


@pytest.mark.parametrize("seed", range(3))
def test_vectors_with_noise_are_extrapolated_fifteenfold(seed):
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(15_000, 24))
    queries = items[:600] + 1.3 * rng.normal(size=(600, 24))
    items, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (items, queries))
    scores = queries @ items.T
    own = scores[np.arange(600), np.arange(600)]
    closer = (scores[:, :1000] > own[:, None]).sum(axis=1)
    truth = ((scores > own[:, None]).sum(axis=1) < 10).mean()
    found = Extrapolation(closer, 1000, rng).at(15_000, (10,))
    assert (closer < 10).mean() > truth + 0.1  # recall at the sample's size is no estimate
    assert found.recall[10] == pytest.approx(truth, abs=0.06)
    assert found.low[10] <= truth <= found.high[10]


def test_at_the_size_of_the_sample_it_is_the_measured_recall():
    closer = np.random.default_rng(0).poisson(3, size=300)
    found = Extrapolation(closer, 500, np.random.default_rng(0)).at(500, (1, 5))
    assert found.measured
    assert found.recall == {1: (closer < 1).mean(), 5: (closer < 5).mean()}


def test_perfect_and_hopeless_retrieval_have_honest_intervals():
    rng = np.random.default_rng(0)
    perfect = Extrapolation(np.zeros(500, int), 1000, rng)
    near, far = perfect.at(2000, (10,)), perfect.at(10**8, (10,))
    assert near.low[10] > 0.97
    assert far.low[10] < near.low[10]
    assert far.high[10] > 0.5
    hopeless = Extrapolation(np.full(500, 100), 1000, rng).at(10**6, (10,))
    assert hopeless.high[10] < 0.1


def test_fewer_independent_queries_widen_the_interval():
    closer = np.random.default_rng(0).poisson(np.exp(np.random.default_rng(1).normal(size=400)))
    alone, grouped = (
        Extrapolation(closer, 500, np.random.default_rng(0), units).at(5000, (10,)) for units in (None, 20)
    )
    assert grouped.high[10] - grouped.low[10] > alone.high[10] - alone.low[10]


def test_tiny_samples_are_no_reason_to_fail():
    for closer, size in (([0], 2), ([1], 2), ([0, 1, 2], 3)):
        found = Extrapolation(np.array(closer), size, np.random.default_rng(0)).at(10**6, (1,))
        assert 0 <= found.low[1] <= found.recall[1] <= found.high[1] <= 1


@pytest.mark.parametrize(("size", "k"), [(5, 1), (50, 1), (50, 10), (300, 10), (499, 10)])
def test_a_smaller_store_is_a_random_part_of_the_sample(size, k):
    rng = np.random.default_rng(0)
    closer = rng.choice([0, 1, 5, 30, 200, 499], 400)
    kept = [rng.permutation(499)[: size - 1] < number for number in np.repeat(closer, 25)]
    truth = (np.array([each.sum() for each in kept]) < k).mean()
    found = Extrapolation(closer, 500, rng).at(size, (k,))
    assert found.recall[k] == pytest.approx(truth, abs=0.02)
    assert found.low[k] < found.recall[k] < found.high[k]
    assert not found.measured


def test_k_beyond_the_store_is_left_out():
    law = Extrapolation(np.arange(30), 100, np.random.default_rng(0))
    assert set(law.at(10, (1, 9, 10, 50)).recall) == {1, 9}


def test_measured_recall_has_the_interval_of_a_share():
    few, many = (Extrapolation(np.zeros(n, int), 1000, np.random.default_rng(0)).at(1000, (10,)) for n in (16, 1600))
    assert few.low[10] == pytest.approx(16 / (16 + 1.96**2))
    assert many.low[10] > 0.99


@pytest.mark.parametrize(("size", "k"), [(200, 1), (200, 10), (1000, 10)])
def test_guessing_finds_any_item_with_the_vector_of_the_query(size, k):
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1, 2, 3], (size // 2, size // 4, size // 5, size // 20))
    sample = np.repeat([0, 1, 2, 3], (100, 50, 40, 10))
    queries = np.tile(sample, 100)
    hits = [(rng.choice(kinds, k, replace=False) == kind).any() for kind in queries]
    assert guessed(np.bincount(sample)[sample], 200, size, k) == pytest.approx(np.mean(hits), abs=0.02)


def test_guessing_among_items_that_do_not_repeat_finds_k_of_them():
    for size, k in ((300, 1), (300, 10), (20, 10), (7, 7), (10**9, 10)):
        assert guessed(np.ones(50, int), 50, size, k) == pytest.approx(k / size, rel=1e-6)
