"""Controls of the ICA rung: known answers for shared, unrelated and Gaussian sources."""

import numpy as np
import pytest

from isorep import diameter
from isorep.reproduction.ica_controls import CONTROLS, ica_controls


def sides(kind, n=3000, d=4, seed=0):
    """Two runs: of the same sources, of unrelated ones, of Gaussian ones, or of sources with noise of their own."""
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal if kind == "gaussian" else rng.laplace
    sources = draw(size=(n, d))
    other = rng.laplace(size=(n, d)) if kind == "unrelated" else sources
    noise = 1.0 if kind == "noisy" else 0.0
    x, y = (side + noise * rng.laplace(size=(n, d)) for side in (sources, other))
    return x @ rng.normal(size=(d, d)), y @ rng.normal(size=(d, d))


def measured(kind, groups=None):
    x, y = sides(kind)
    found = ica_controls(x, y, groups, seed=0)
    alone = [float(np.linalg.norm(side - side.mean(0), axis=1).mean() / diameter(side).value) for side in (y, x)]
    return found, alone


def test_components_that_both_sides_share_are_found_and_need_no_scale():
    found, alone = measured("shared", groups=np.arange(3000) // 3)
    for way, mean in zip(found["ways"], alone, strict=True):
        assert set(way) == set(CONTROLS)
        assert max(way["ica"], way["one_scale"], way["shrunk"]) < 0.25 * mean
        assert way["turned"] > 2 * way["shrunk"]
    assert found["gaussian"] == [0, 0]
    assert found["correlation"] > 0.99


def test_unrelated_sides_are_worse_than_the_mean_at_unit_variance_and_like_the_mean_with_scales():
    found, alone = measured("unrelated")
    for way, mean in zip(found["ways"], alone, strict=True):
        assert way["ica"] > 1.2 * mean
        assert way["one_scale"] == pytest.approx(mean, rel=0.03)
        assert way["shrunk"] == pytest.approx(mean, rel=0.03)


def test_gaussian_sources_are_found_no_better_than_by_random_rotations():
    found, _ = measured("gaussian")
    for way in found["ways"]:
        assert way["shrunk"] > 0.6 * way["turned"]
    assert sum(found["gaussian"]) > 0
    assert found["correlation"] < 0.95


def test_a_scale_per_component_is_no_worse_than_none_where_sides_have_noise_of_their_own():
    for way in measured("noisy")[0]["ways"]:
        assert way["shrunk"] < way["one_scale"] * 1.02 < way["ica"]


def test_directions_of_little_variance_that_are_not_shared_hide_those_that_are():
    rng = np.random.default_rng(3)
    shared = rng.laplace(size=(4000, 3))
    sides = []
    for _ in range(2):  # functions of the shared sources that are each side's own, of hardly any variance
        own = np.maximum(shared @ rng.normal(size=(3, 9)), 0) ** 2
        sides.append(np.hstack([shared @ np.linalg.qr(rng.normal(size=(3, 3)))[0], 0.004 * own]))
    found = ica_controls(*sides, None, seed=0)
    assert found["leading"] == [3, 3]
    for way in found["ways"]:
        assert way["leading_shrunk"] < 0.5 * way["shrunk"]
        assert way["leading_shrunk"] < 0.5 * way["leading_turned"]
    assert found["leading_correlation"] > found["correlation"] + 0.1
