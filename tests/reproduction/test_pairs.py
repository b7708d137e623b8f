"""Pairs of models: held-out rungs, and errors that know that pairs share models."""

import numpy as np
import pytest

from isorep.reproduction.outcomes import all_pairs, claim, concluded, explained, folds_of, held_out, ladder, over_pairs
from isorep.resampling import Interval, Value


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


@pytest.mark.parametrize(
    ("value", "asked", "holds", "rule"),
    [
        (Value(0.0), {"above": 0.0}, False, "above 0.00"),
        (Value(0.0), {"least": 0.0}, True, "at least 0.00"),
        (Value(0.5, 0.1), {"above": 0.0}, True, "above 0.00"),
        (Value(0.5, 0.3), {"above": 0.0}, None, "above 0.00"),
        (Value(0.5, interval=Interval(0.4, 0.6)), {"least": 0.45}, None, "at least 0.45"),
        (Value(0.5, interval=Interval(0.4, 0.6)), {"least": 0.2, "most": 0.7}, True, "at least 0.20 and at most 0.70"),
        (Value(0.5, 0.1), {"most": 0.2}, False, "at most 0.20"),
        (Value(None), {"least": 0.0}, None, "at least 0.00"),
    ],
)
def test_a_claim_holds_by_its_whole_interval_and_says_what_was_asked(value, asked, holds, rule):
    made = claim("it is so", "number", value, **asked)
    assert (made.holds, made.rule) == (holds, rule)
    sentence, reached = concluded([made])
    assert reached is holds
    assert {True: "is seen.", False: "is not seen.", None: "neither shown nor excluded."}[holds] in sentence
