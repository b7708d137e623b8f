"""One code a row: test fold, selection folds, and training sets of doubling size."""

import numpy as np
import pytest

from isorep import InputError
from isorep.moments import Moments, fold_moments
from isorep.translation.sums import split_rows


def test_prefixes_double_and_the_last_code_tests():
    split = split_rows(10_000, 5, None, np.random.default_rng(0))
    sizes = np.cumsum(np.bincount(split.codes))
    assert (split.n_codes, split.n_shells, len(split.test_rows)) == (12, 8, 2000)
    np.testing.assert_allclose(sizes[1:8] / sizes[:7], 2, rtol=0.1)
    assert sizes[7:].tolist() == [2000, 4000, 6000, 8000, 10_000]


def test_selection_folds_are_sums_of_codes():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    split = split_rows(200, 4, None, rng)
    folds = split.selection_folds(fold_moments(x, y, split.codes, split.n_codes))
    assert [fold.n for fold in folds] == [50, 50, 50]
    first = np.flatnonzero(split.codes < split.n_shells)
    np.testing.assert_allclose(folds[0].xy, Moments.from_rows(x[first], y[first]).xy)


def test_groups_are_never_split():
    rng = np.random.default_rng(0)
    groups = np.unique(rng.integers(60, size=1000), return_inverse=True)[1]
    split = split_rows(1000, 5, groups, rng)
    for group in range(groups.max() + 1):
        assert len(np.unique(split.codes[groups == group])) == 1
    assert (np.bincount(split.codes) > 0).all()


def test_few_rows_and_few_folds():
    split = split_rows(6, 3, None, np.random.default_rng(0))
    assert (split.n_shells, split.n_codes) == (1, 3)
    with pytest.raises(InputError, match="3 groups and 5 folds"):
        split_rows(100, 5, np.arange(100) % 3, np.random.default_rng(0))
