"""Pairs of models: held-out rungs, and errors that know that pairs share models."""

import numpy as np
import pytest

from isorep.reproduction.outcomes import all_pairs, explained, folds_of, held_out, ladder, over_pairs


def test_each_rung_finds_the_maps_of_its_group_and_no_more(rng):
    x = rng.normal(size=(200, 3))
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    shear = np.array([[1.0, 3.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    folds = folds_of(200, 5, 0)
    found = ladder(x, x + 5, folds)
    assert min(found.values()) == pytest.approx(1), "an offset is no difference"
    swapped = ladder(x, x[:, [2, 0, 1]] * [1, -1, 1], folds)
    assert swapped["identity"] < 0.5 < 0.999 < swapped["permutation"]
    turned = ladder(x, x @ turn, folds)
    assert turned["permutation"] < 0.99 < 0.999 < turned["rigid"]
    sheared = ladder(x, x @ shear, folds)
    assert sheared["rigid"] < 0.99 < 0.999 < sheared["linear"]


def test_no_row_is_mapped_by_a_map_that_saw_it(rng):
    x, y = rng.normal(size=(40, 10)), rng.normal(size=(40, 2))
    assert explained(held_out(x, y, folds_of(40, 5, 0)), y) < 0.1, "what is unrelated is not explained"
    assert explained(held_out(x, y, np.arange(40) % 2), y) < 0.1


def test_the_error_of_a_mean_over_pairs_comes_from_models():
    assert over_pairs({}) == (None, None)
    assert over_pairs({(0, 1): 0.5}) == (0.5, None)
    assert over_pairs(dict.fromkeys(all_pairs(4), 0.25)) == (0.25, 0.0)
    odd = {pair: 0.0 if 0 in pair else 1.0 for pair in all_pairs(4)}  # one model of four disagrees with all others
    mean, error = over_pairs(odd)
    without = np.array([1.0, 1 / 3, 1 / 3, 1 / 3])
    assert mean == pytest.approx(0.5)
    assert error == pytest.approx(np.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum()))
    assert error > np.std(list(odd.values()), ddof=1) / np.sqrt(6), "pairs are not independent"
    assert over_pairs({(0, 1): float("nan"), (0, 2): 1.0}) == (1.0, None)
