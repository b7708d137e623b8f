"""Which batches train and test: never split, perturbed rows spread, classes on both sides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isorep
from isorep.deconfounding.inputs import Column, Task, make_splits, stratified_folds

from .screens import screen


def column(codes):
    return Column("plate", codes, tuple(f"p{code}" for code in range(codes.max() + 1)))


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_folds_never_split_a_batch_and_none_is_empty(seed, folds):
    rng = np.random.default_rng(seed)
    n_batches = folds + int(rng.integers(0, 20))
    codes = np.concatenate([np.arange(n_batches), rng.integers(n_batches, size=200)])
    positive = rng.random(len(codes)) < 0.3
    task = Task("drug", None, np.flatnonzero(positive), np.flatnonzero(~positive))
    splits = make_splits(column(codes), [task], "folds", folds, rng)
    assert len(splits) == folds
    for split in splits:
        assert split.test.any()
        assert not set(codes[split.train]) & set(codes[split.test])
    assert np.sum([split.test for split in splits], axis=0).tolist() == [1] * len(codes)


def test_batches_with_perturbed_rows_and_those_with_controls_only_are_spread():
    codes = np.repeat(np.arange(20), 10)
    positive = (codes % 4 == 0) & (np.arange(200) % 2 == 0)  # in five plates of twenty
    task = Task("drug", None, np.flatnonzero(positive), np.flatnonzero(~positive))
    for seed in range(5):
        folds = stratified_folds(column(codes), [task], 5, np.random.default_rng(seed))
        assert np.bincount(folds).tolist() == [4] * 5
        assert sorted(folds[::4].tolist()) == [0, 1, 2, 3, 4]


def test_each_perturbation_is_spread_over_the_same_folds():
    codes = np.repeat(np.arange(12), 10)
    first, second = codes % 3 == 0, codes % 3 == 1
    tasks = [Task(name, None, np.flatnonzero(mask), np.flatnonzero(codes % 3 == 2)) for name, mask in
             (("a", first), ("b", second))]  # fmt: skip
    folds = stratified_folds(column(codes), tasks, 4, np.random.default_rng(0))
    for kind in range(3):
        assert sorted(folds[kind::3].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(("split", "count"), [("folds", 5), ("leave_one_out", 10), ("train_on_one", 10)])
def test_every_split_is_evaluated(split, count):
    x, treated, plate = screen(wells=30)
    folds = count if split == "folds" else None
    asked = {"conditions": ("base", "pca"), "classifiers": "logistic", "mixing": False}
    result = isorep.deconfound(x, treated, plate, split=split, folds=folds, **asked)
    assert len(result.folds) == count
    assert result.mean("auroc", "base").n == 10  # batches
    whole = isorep.deconfound(x, treated, plate, split=split, folds=folds, unit="fold", **asked)
    assert whole.mean("auroc", "base").n == count
    fold = result.folds[0]
    if split == "train_on_one":
        assert (fold.train_rows, fold.test_rows, len(fold.held_out)) == (30, 270, 9)
    else:
        assert fold.test_rows == 300 // count
        assert set(fold.held_out) <= set(plate)


def test_folds_that_lack_a_class_are_left_out_and_told():
    x, treated, plate = screen(wells=30)
    treated = treated & np.isin(plate, ["plate 00", "plate 01"])
    result = isorep.deconfound(x, treated, plate, conditions=("base", "pca"), classifiers="logistic", mixing=False)
    assert result.mean("auroc", "base").n == 2
    assert any("8 folds were left out of a task" in caveat for caveat in result.caveats)
    assert result.data.control_only == 8


def test_seeds_draw_other_folds_and_other_rotations():
    x, treated, plate = screen(wells=30)
    result = isorep.deconfound(
        x, treated, plate, n_seeds=2, conditions=("pca", "pca_rand"), mixing=False, folds=2, n_restarts=0
    )
    assert {score.seed for score in result.scores} == {0, 1}
    assert len({fold.held_out for fold in result.folds}) > 2
    assert result.conditions["pca_rand"].scores["lightgbm"].auroc.n == 10  # batches, each seen twice
    assert not any("share rows" in caveat for caveat in result.caveats)
    asked = {"conditions": ("base", "pca"), "classifiers": "logistic", "mixing": False, "folds": 2, "n_seeds": 2}
    whole = isorep.deconfound(x, treated, plate, unit="fold", **asked)
    assert whole.mean("auroc", "pca").n == 4
    assert any("share rows" in caveat for caveat in whole.caveats)
