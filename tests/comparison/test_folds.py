"""Folds have their share of rows, keep groups whole, and take labels of any kind."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold

from isorep.resampling import assign_folds, group_codes


@given(st.integers(2, 300), st.integers(2, 10), st.integers(0, 10**6))
def test_every_fold_has_its_share_of_rows(n, folds, seed):
    assume(n >= max(folds, 4))
    sizes = np.bincount(assign_folds(n, folds, None, np.random.default_rng(seed)), minlength=folds)
    assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.integers(1, 12), min_size=5, max_size=30), st.integers(0, 10**6))
def test_groups_are_never_split_and_every_fold_has_one(sizes, seed):
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    folds = assign_folds(len(groups), 5, groups, np.random.default_rng(seed))
    assert all(len(np.unique(folds[groups == group])) == 1 for group in range(len(sizes)))
    assert len(np.unique(folds)) == 5


@given(st.sets(st.integers(1, 60), min_size=5, max_size=30), st.integers(2, 5), st.integers(0, 10**6))
def test_groups_of_different_sizes_are_balanced_as_by_scikit_learn(sizes, n_folds, seed):
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), list(sizes)))
    folds = assign_folds(len(groups), n_folds, groups, np.random.default_rng(seed))
    split = GroupKFold(n_folds).split(np.empty((len(groups), 0)), groups=groups)
    for fold, (_, held_out) in enumerate(split):
        np.testing.assert_array_equal(np.flatnonzero(folds == fold), held_out)


def test_labels_of_any_kind_become_codes():
    assert group_codes(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert group_codes(np.array([2.5, 1.5, 2.5]), 3).tolist() == [1, 0, 1]
    assert group_codes(np.array(["x", 1, "x"], object), 3).tolist() == [1, 0, 1]
