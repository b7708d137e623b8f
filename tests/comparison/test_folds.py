"""Folds keep groups whole; shuffled pairings never stay inside a group."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from isorep.comparison.folds import assign_folds, shuffled_partners

from isorep.groups import group_codes


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


@given(st.integers(2, 200), st.integers(0, 10**6))
def test_a_shuffled_pairing_is_a_permutation_without_fixed_points(n, seed):
    partners = shuffled_partners(n, None, np.random.default_rng(seed))
    assert sorted(partners) == list(range(n))
    assert (partners != np.arange(n)).all()


@given(st.lists(st.integers(1, 9), min_size=2, max_size=40), st.integers(0, 10**6))
def test_every_group_takes_the_targets_of_other_groups_and_no_more_of_them_than_needed(sizes, seed):
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    partners = shuffled_partners(len(groups), groups, np.random.default_rng(seed))
    taken = groups[partners]
    assert (taken != groups).all()
    for group, size in enumerate(sizes):
        found = np.unique(taken[groups == group])
        assert len(found) == 1 or sum(sizes[other] for other in found) - max(sizes[other] for other in found) < size


def test_a_giant_group_takes_the_rows_of_many_small_ones(rng):
    groups = np.repeat(np.arange(61), [300] + [5] * 60)
    partners = shuffled_partners(600, groups, rng)
    giant = partners[groups == 0]
    assert len(np.unique(giant)) == 300


def test_groups_of_one_size_exchange_all_their_rows(rng):
    groups = rng.permutation(np.repeat(np.arange(30), 4))
    assert sorted(shuffled_partners(120, groups, rng)) == list(range(120))


def test_labels_of_any_kind_become_codes():
    assert group_codes(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert group_codes(np.array([2.5, 1.5, 2.5]), 3).tolist() == [1, 0, 1]
    assert group_codes(np.array(["x", 1, "x"], object), 3).tolist() == [1, 0, 1]
