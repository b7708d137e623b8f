"""Mutual information: scikit-learn's numbers without its trees, and a count of neighbours by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.metrics import mutual_info_score

from isorep.structure.columns import as_columns
from isorep.structure.mutual_information import (
    Line,
    discrete_information,
    entropy,
    information,
    mixed_information,
)


def standard(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def by_scikit_learn(factors, latents, k):
    discrete = np.array([column.discrete for column in latents])
    columns = np.where(discrete, latents.matrix, standard(latents.matrix))
    rows = []
    for factor in factors:
        estimate = mutual_info_classif if factor.discrete else mutual_info_regression
        target = factor.codes if factor.discrete else standard(factor.values)
        rows.append(estimate(columns, target, discrete_features=discrete, n_neighbors=k, random_state=0))
    return np.array(rows)


@pytest.mark.parametrize("k", [3, 10])
def test_every_pair_of_kinds_equals_scikit_learn(rng, k):
    n = 600
    labels = rng.integers(4, size=n)
    factors = as_columns({"label": labels, "number": rng.normal(size=n) + labels}, "factors")
    latents = as_columns(
        {
            "near": labels + rng.normal(size=n),
            "noise": rng.normal(size=n),
            "ties": np.maximum(rng.normal(size=n), 0),
            "coarse": labels // 2,
        },
        "latents",
    )
    found = information(factors, latents, n_neighbors=k).mutual
    assert np.allclose(found, by_scikit_learn(factors, latents, k), rtol=0, atol=1e-6)


def test_a_continuous_factor_is_measured_against_what_it_knows_about_itself(rng):
    values = rng.normal(size=500)
    factors = as_columns(values, "factors")
    found = information(factors, as_columns(np.column_stack([values, rng.normal(size=500)]), "latents"))
    itself = mutual_info_regression(standard(values)[:, None], standard(values), n_neighbors=10, random_state=0)
    assert found.entropies[0] == pytest.approx(itself[0], abs=0.02)
    assert found.normalised[0] == pytest.approx([1.0, 0.0], abs=0.02)


@given(
    st.lists(st.floats(-5, 5).map(lambda x: round(x, 2)), min_size=12, max_size=60),
    st.integers(1, 5),
    st.integers(0, 10_000),
)
def test_neighbours_are_those_counted_by_hand(values, k, seed):
    rng = np.random.default_rng(seed)
    x = np.array(values) + 1e-9 * rng.normal(size=len(values))
    labels = rng.integers(3, size=len(x))
    terms = []
    kept = [i for i in range(len(x)) if (labels == labels[i]).sum() > 1]
    for i in kept:
        same = np.abs(x[labels == labels[i]] - x[i])
        here = min(k, len(same) - 1)
        radius = np.sort(same)[here]
        nearer = sum(abs(x[j] - x[i]) < radius for j in kept) if radius > 0 else sum(x[j] == x[i] for j in kept)
        terms.append(digamma(here) - digamma(len(same)) - digamma(nearer))
    expected = max(0.0, digamma(len(kept)) + np.mean(terms)) if kept else 0.0
    assert mixed_information(Line.of(x), labels, k) == pytest.approx(expected, abs=1e-9)


def test_labels_that_occur_once_are_left_out_as_scikit_learn_does(rng):
    labels = np.concatenate([np.repeat([0, 1], 100), [2, 3, 4]])
    x = rng.normal(size=203) + labels
    found = information(as_columns(labels, "factors"), as_columns(x, "latents")).mutual[0, 0]
    other = mutual_info_classif(standard(x)[:, None], labels, n_neighbors=10, random_state=0)[0]
    assert found == pytest.approx(other, abs=1e-6)
    assert mixed_information(Line.of(x), np.arange(203)) == 0


@given(st.integers(2, 40), st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_plug_in_information_is_scikit_learn_s(n, k, m, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(k, size=n), rng.integers(m, size=n)
    assert discrete_information(a, b) == pytest.approx(mutual_info_score(a, b), abs=1e-9)
    assert entropy(a) == pytest.approx(mutual_info_score(a, a), abs=1e-9)
