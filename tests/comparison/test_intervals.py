"""Intervals cover what they are of as often as they say, with the variance of the fitted maps."""

import numpy as np
import pytest
from scipy import stats

import isorep

from ..data import noisy_pair

FAST = {"rungs": ("rigid", "linear"), "n_null": 0, "worst_case": False, "diameter": "bound"}


def binomial_range(share, replicates):
    """What a share can look like over replicates: its 99.9 % range."""
    return [end / replicates for end in stats.binom.interval(0.999, replicates, share)]


def coverage(found):
    """How often intervals hold the mean of the estimates: an array (replicate, estimate or end)."""
    truth = found[:, 0].mean()
    return float(np.mean((found[:, 1] <= truth) & (truth <= found[:, 2])))


def replicates(draw, count, **settings):
    found = {"rigid": [], "linear": [], "excess": []}
    for seed in range(count):
        x, y, groups = draw(np.random.default_rng(seed))
        rungs = isorep.compare(x, y, groups=groups, **FAST, **settings).rungs
        for name in ("rigid", "linear"):
            interval = rungs[name].interval
            found[name].append((rungs[name].held_out.mean, interval.low, interval.high))
        over = rungs["rigid"].over_linear
        found["excess"].append((rungs["rigid"].held_out.mean - rungs["linear"].held_out.mean, over.low, over.high))
    return {name: np.array(each) for name, each in found.items()}


def rows(rng):
    shared = rng.normal(size=(200, 5))
    return shared, shared + 0.5 * rng.normal(size=(200, 5)), None


def grouped(rng):
    """Forty groups of two to eight rows, whose errors have much in common."""
    groups = np.repeat(np.arange(40), rng.integers(2, 9, 40))
    x = rng.normal(size=(40, 3))[groups] + 0.5 * rng.normal(size=(len(groups), 3))
    shift = rng.normal(size=(40, 3)) * rng.exponential(size=(40, 1))
    return x, x + 0.7 * shift[groups] + 0.2 * rng.normal(size=x.shape), groups


def test_intervals_of_rows_cover_in_95_of_100_cases():
    found = replicates(rows, 200)
    low, high = binomial_range(0.95, 200)
    for name in ("rigid", "linear"):
        assert low <= coverage(found[name]) <= high, name
    assert coverage(found["excess"]) >= low


def test_intervals_of_groups_cover_too():
    found = replicates(grouped, 100)
    low, _ = binomial_range(0.95, 100)
    for name in ("rigid", "linear"):
        assert coverage(found[name]) >= low, name


def test_maps_of_many_dimensions_widen_the_interval(monkeypatch):
    """Forty dimensions and 200 rows: the error of least squares varies with the rows it is fitted to."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 40))
    y = x + rng.normal(size=x.shape)
    whole = isorep.compare(x, y, **FAST).rungs["linear"].interval
    monkeypatch.setattr("isorep.comparison.ladder.pulled_rungs", lambda *given: [])
    alone = isorep.compare(x, y, **FAST).rungs["linear"].interval  # rows vary, the map is taken as given
    assert whole.high - whole.low > 1.05 * (alone.high - alone.low)


def test_an_interval_holds_its_estimate_and_none_is_there_without_rows_left_out():
    x, y = noisy_pair(100, 3, 0.3)
    for rung in isorep.compare(x, y, n_null=0, worst_case=False).rungs.values():
        assert rung.interval.low < rung.held_out.mean < rung.interval.high
        assert rung.excess.low <= rung.excess.high
    for rung in isorep.compare(x, y, n_null=0, n_boot=0, worst_case=False).rungs.values():
        assert rung.interval is None
        assert rung.excess is None


def test_the_best_rung_exceeds_itself_by_nothing_and_excesses_are_paired():
    x, y = noisy_pair(300, 4, 0.5)
    result = isorep.compare(x, y, **FAST)
    errors = {name: rung.held_out.mean for name, rung in result.rungs.items()}
    best = min(errors, key=errors.get)
    assert result.rungs[best].excess.low == pytest.approx(0, abs=1e-12)
    assert result.rungs[best].excess.high == pytest.approx(0, abs=1e-12)
    other = next(name for name in errors if name != best)
    excess, interval = result.rungs[other].excess, result.rungs[other].interval
    assert excess.low <= errors[other] - errors[best] <= excess.high
    assert excess.high - excess.low < 0.5 * (interval.high - interval.low), "rows that are hard for one are for both"


def test_rows_of_one_group_alone_do_not_tell_how_groups_vary():
    """Rows that occur again in other groups are not scored; what is left may lie in one group, or in a few."""
    rng = np.random.default_rng(0)
    groups, tokens = np.arange(400) // 40, np.arange(400) % 20
    table = rng.normal(size=(60, 3))
    tokens[:40] = 20 + np.arange(40)  # one group of rows that occur once
    x = table[tokens]
    result = isorep.compare(x, x, groups=groups, **FAST | {"n_null": 5})
    assert result.settings["rows_scored"] == 40
    assert all(rung.interval.high == np.inf for rung in result.rungs.values())
    assert result.verdict.rung is None
    assert '"high": null' in result.to_json()
