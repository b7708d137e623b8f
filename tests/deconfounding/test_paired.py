"""Sign flips: p by hand, an interval that agrees with p, and a verdict that says what both say."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isorep
from isorep.deconfounding.paired import compared, holm, least_p, sign_flips, student
from isorep.deconfounding.result import judge

from .screens import screen

RNG = np.random.default_rng(0)


@given(st.lists(st.integers(-30, 40), min_size=6, max_size=10))
def test_p_counts_all_signs_and_the_interval_excludes_zero_exactly_where_p_is_small(values):
    differences = np.array(values) / 100
    p, interval = sign_flips(differences, RNG)
    signs = np.array(list(product((-1, 1), repeat=len(values))))
    assert p == pytest.approx(np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9))
    assert (p <= 0.05) == (interval.low > 1e-9 or interval.high < -1e-9)
    for inside in (interval.low + 1e-6, interval.high - 1e-6):
        assert interval.high - interval.low < 2e-6 or sign_flips(differences - inside, RNG)[0] > 0.05
    for outside in (interval.low - 1e-6, interval.high + 1e-6):
        assert sign_flips(differences - outside, RNG)[0] <= 0.05


def test_more_than_twenty_pairs_are_drawn_and_agree_as_well():
    for seed in range(20):
        differences = np.random.default_rng(seed).normal(0.4, 1, size=30)
        p, interval = sign_flips(differences, np.random.default_rng(0))
        assert (p <= 0.05) == (not interval.low <= 0 <= interval.high)
    assert least_p(30) == 1 / 20_001
    assert (least_p(20), least_p(6), least_p(5)) == (2.0**-19, 2.0**-5, None)


def test_five_pairs_have_counts_and_an_interval_and_no_p():
    found = compared(np.array([0.1, 0.2, 0.3, 0.2, 0.0]), 0.25, RNG)
    assert (found.p_value, found.better, found.worse, found.pairs, found.shown) == (None, 4, 0, 5, False)
    assert found.interval == student(np.array([0.1, 0.2, 0.3, 0.2, 0.0]), 0.25)
    assert student(np.array([0.1, 0.2, 0.3]), 0.25).high - 0.2 == pytest.approx(4.302653 * 0.1 * np.sqrt(1 / 3 + 1 / 4))
    assert compared(np.array([0.1]), 0.25, RNG).interval is None
    assert compared(np.full(6, 0.1), 0.25, RNG).shown
    assert not compared(np.full(6, 1e-12), 0.25, RNG).shown  # rounding is no difference


def test_holm_by_hand():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.fixture(scope="module")
def small():
    x, treated, plate = screen(n_batches=6, wells=40)
    return isorep.deconfound(x, treated, plate, n_restarts=0, mixing=False, conditions=("base", "pca_ica"))


def said(result, p, difference, second=None):
    other = (replace(result.second_opinions[0], **second),) if second else ()
    test = replace(result.tests[0], p_value=p, difference=difference)
    return judge(result.conditions, (test,), other, "lightgbm", "batch")


def test_the_verdict_follows_the_primary_p_alone_and_names_a_classifier_that_disagrees(small):
    assert said(small, 0.03, 0.1).answer == "helps"
    assert said(small, 0.03, -0.1).answer == "hurts"
    assert said(small, 0.06, 0.1).answer == "not shown"
    both = said(small, 0.03, 0.1, {"p_value": 0.03, "difference": -0.1}).sentence
    assert "Logistic regression disagrees: with it ICA hurts" in both
    assert "Logistic regression agrees" in said(small, 0.03, 0.1, {"p_value": 0.03, "difference": 0.2}).sentence
    unsure = said(small, 0.03, 0.1, {"p_value": 0.5, "difference": 0.2}).sentence
    assert "With logistic regression it is not shown" in unsure
    assert "agrees" not in said(small, 0.5, 0.1, {"p_value": 0.5, "difference": 0.2}).sentence


def test_below_six_batches_there_is_no_verdict_by_p_and_with_six_there_is(small):
    assert small.verdict.answer in ("helps", "hurts", "not shown")
    x, treated, plate = screen(n_batches=4, wells=40)
    quick = {"n_restarts": 0, "mixing": False, "conditions": ("base", "pca_ica"), "classifiers": "logistic"}
    few = isorep.deconfound(x, treated, plate, **quick)
    assert few.verdict.answer == "too few batches"
    assert "4 batches cannot decide whether ICA helps (6 can)" in few.verdict.sentence
    assert " p " not in few.verdict.sentence
    assert "of 4 batches" in few.verdict.sentence
    assert all(test.p_value is None and test.corrected is None for test in few.tests)
    assert "folds" not in few.verdict.sentence


@pytest.mark.parametrize(
    ("n", "kind", "folds"), [(6, "leave_one_out", 6), (20, "leave_one_out", 20), (24, "folds", 10)]
)
def test_batches_are_left_out_singly_up_to_twenty_and_pairs_are_batches(n, kind, folds):
    x, treated, plate = screen(n_batches=n, wells=20)
    result = isorep.deconfound(x, treated, plate, conditions=("base", "pca"), classifiers="logistic", mixing=False)
    assert (result.settings["split"], len(result.folds)) == (kind, folds)
    assert {test.pairs for test in result.tests} == {n}


def test_without_an_effect_a_verdict_is_rare_and_with_a_strong_one_it_is_reached():
    quick = {
        "n_restarts": 0,
        "n_examples": 0,
        "mixing": False,
        "conditions": ("base", "pca_ica"),
        "classifiers": "logistic",
    }
    reached = 0
    for seed in range(24):
        x, _, plate = screen(n_batches=8, wells=20, dimensions=7, seed=seed)
        label = np.random.default_rng([9, seed]).random(len(x)) < 0.5
        reached += isorep.deconfound(x, label, plate, **quick).verdict.answer != "not shown"
    assert reached <= 4  # 1.2 of 24 are expected, and more than 4 come by chance in 6 of 1000 trials
    x, treated, plate = screen(n_batches=12, wells=60, dimensions=16, effect=1.2)
    noisy = np.column_stack([x, np.random.default_rng(0).normal(0, 0.5, size=(len(x), 100)).astype(np.float32)])
    assert isorep.deconfound(noisy, treated, plate, **quick | {"classifiers": "lightgbm"}).verdict.answer == "helps"


def test_intervals_of_two_batches_stay_within_what_scores_can_differ_by():
    rng = np.random.default_rng(0)
    wide = compared(np.array([-0.3, 0.4]), 1.0, rng).interval
    assert (wide.low, wide.high) == (-1.0, 1.0)
    narrow = compared(np.array([0.1, 0.1001]), 1.0, rng).interval
    assert -1.0 < narrow.low < 0.1 < narrow.high < 1.0
