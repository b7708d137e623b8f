"""Rows that are paired wrongly are pointed out, and independent rows are not taken for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import isorep
from isorep.pairs import broken_pairing, gamma_height, kolmogorov_distance

from ..data import noisy_pair, rotation

FAST = {"rungs": ("rigid", "linear"), "n_null": 20, "worst_case": False, "diameter": "bound"}
NAMES = ("a", "b")
N = 400


def notes(result):
    return [caveat for caveat in result.caveats if "the pairing looks broken" in caveat]


def walk(rng, n=N, d=4):
    return np.cumsum(rng.normal(size=(n, d)), axis=0)


def slow(rng, n=N, d=4):
    """An autoregression: neighbouring rows are alike, and it does not wander off."""
    rows = rng.normal(size=(n, d))
    for row in range(1, n):
        rows[row] += 0.8 * rows[row - 1]
    return rows


def white(rng, n=N, d=4):
    """Principal components at unit variance, so that all such sides have one spectrum."""
    rows = rng.normal(size=(n, d))
    return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, y: (x[1:], y[:-1]), "with target moved up by 1 row they clearly are"),
        (lambda x, y: (x[:-3], y[3:]), "with target moved down by 3 rows they clearly are"),
        (lambda x, y: (x, y[::-1]), "with the rows of target in reverse order they clearly are"),
    ],
)
def test_shifted_and_reversed_rows_are_pointed_out(change, words):
    x, y = noisy_pair(N, 4, 0.3)
    x, y = change(x, y)
    result = isorep.compare(x.copy(), y.copy(), **FAST)
    assert result.verdict.rung is None
    (found,) = notes(result)
    assert "as given, the rows of source and target are not related beyond chance" in found
    assert words in found


def test_rows_that_are_paired_as_they_should_be_get_no_such_note():
    x, y = noisy_pair(N, 4, 0.3)
    result = isorep.compare(x, y, **FAST)
    assert result.verdict.rung == "rigid"
    assert not notes(result)


@pytest.mark.parametrize("d", [1, 4])
def test_the_same_rows_in_another_order_are_pointed_out(d):
    rng = np.random.default_rng(2)
    x = rng.laplace(size=(N, d))
    y = 3 * rng.permutation(x) @ rotation(d, 1) + 5
    (found,) = notes(isorep.compare(x, y, **FAST))
    assert "as the same rows in another order would: check the order of the rows" in found
    many = isorep.compare_many([y, x @ rotation(d, 3), x], rungs=FAST["rungs"])
    assert "rows of run 1 and run 0 lie at" in notes(many)[0]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=(N, 1)),
        lambda rng: rng.normal(size=(N, 2)),
        lambda rng: rng.normal(size=(N, 30)),
        lambda rng: rng.laplace(size=(N, 4)) * np.arange(1, 5),
        lambda rng: rng.standard_cauchy(size=(N, 3)),
        walk,
        slow,
        white,
        lambda rng: np.eye(5)[rng.permutation(N) % 5],
        lambda rng: np.repeat(rng.normal(size=(40, 3)), N // 40, axis=0) + 0.1 * rng.normal(size=(N, 3)),
    ],
    ids=["column", "plane", "wide", "laplace", "heavy", "walk", "slow", "white", "labels", "groups"],
)
def test_independent_rows_are_not_taken_for_a_broken_pairing(draw, seed):
    rng = np.random.default_rng(100 + seed)
    assert broken_pairing(draw(rng), draw(rng), NAMES, seed) is None


def test_independent_rows_get_no_such_note_from_either_command():
    rng = np.random.default_rng(0)
    runs = [walk(rng) for _ in range(3)]
    assert not notes(isorep.compare(*runs[:2], groups=np.arange(N) // 20, **FAST))
    assert not notes(isorep.compare_many(runs, rungs=FAST["rungs"], groups=np.arange(N) // 20))
    samples = [rng.normal(size=(N, 4)) for _ in range(3)]
    assert not notes(isorep.compare(*samples[:2], **FAST))
    assert not notes(isorep.compare_many(samples, rungs=FAST["rungs"]))


def test_too_few_rows_say_nothing():
    x = np.random.default_rng(0).normal(size=(150, 3))
    assert broken_pairing(x, x[::-1].copy(), NAMES, 0) is None


@given(st.floats(0, 30), st.floats(0.01, 5), st.floats(0.01, 5))
def test_the_gamma_tail_is_that_of_scipy_stats(overlap, mean, variance):
    expected = stats.gamma.logsf(overlap, mean**2 / variance, scale=variance / mean) / np.log(10)
    assert gamma_height(overlap, mean, variance) == pytest.approx(-expected, rel=1e-12, abs=1e-12)


def test_an_overlap_beyond_all_chance_is_infinitely_high():
    assert gamma_height(1e6, 1.0, 0.01) == np.inf


@given(st.lists(st.integers(0, 20), min_size=4, max_size=40), st.lists(st.integers(0, 20), min_size=4, max_size=40))
def test_the_distance_of_distributions_is_that_of_scipy_stats(first, second):
    expected = stats.ks_2samp(first, second, method="asymp").statistic
    assert kolmogorov_distance(np.array(first), np.array(second)) == pytest.approx(expected, abs=1e-12)
