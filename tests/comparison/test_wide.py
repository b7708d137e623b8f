"""Thousands of columns take other steps with the same results; here the width from which they do is lowered."""

import numpy as np
import pytest

import isorep
from isorep.comparison import fits
from isorep.resampling import haar, quick_haar

from ..data import rotation, sources

RUNGS = ("signed_permutation", "rigid", "linear", "ica")
N, D = 900, 6


@pytest.fixture
def lower(monkeypatch):
    """Lower the width of wide matrices; no influences are kept, as of thousands of columns."""

    def to(width):
        for module in ("threads", "covariance", "alignment.base"):
            monkeypatch.setattr(f"isorep.{module}.WIDE_MATRIX", width)
        for module in ("fits", "ladder", "null", "intervals"):
            monkeypatch.setattr(f"isorep.comparison.{module}.WIDE_MATRIX", width)

    monkeypatch.setattr("isorep.comparison.intervals.MOST_CELLS", 0)
    return to


def runs(widths, dtype=np.float64):
    rng = np.random.default_rng(3)
    shared = sources(N, D, seed=4) * np.geomspace(1, 0.2, D)
    return [
        ((shared @ rotation(D, seed))[:, :width] + 0.1 * rng.normal(size=(N, width))).astype(dtype)
        for seed, width in enumerate(widths)
    ]


@pytest.mark.parametrize("widths", [(6, 6), (5, 6), (6, 5)])
def test_shuffled_pairings_are_scored_without_maps_with_the_same_numbers(widths, lower, monkeypatch):
    monkeypatch.setattr(fits, "few_components", lambda *_, **__: None)  # both have the same ICAs
    settings = {"rungs": RUNGS, "n_null": 6, "n_boot": 0, "worst_case": False}
    plain = isorep.compare(*runs(widths), **settings)
    lower(4)
    wide = isorep.compare(*runs(widths), **settings)
    for direction in ("forward", "reverse"):
        for name in RUNGS:
            one, other = (getattr(each, direction).rungs[name].null for each in (plain, wide))
            assert one.mean == pytest.approx(other.mean, rel=1e-7)
            assert one.p_value == other.p_value


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_and_intervals_of_three_folds_are_the_same(dtype, lower):
    """Among three folds all are neighbours, so none of their pairs is left out."""
    settings = {"rungs": RUNGS[:3], "n_null": 0, "folds": 3, "worst_case": False}
    plain = isorep.compare(*runs((6, 6), dtype), **settings)
    lower(4)
    wide = isorep.compare(*runs((6, 6), dtype), **settings)
    digits = 1e-4 if dtype == np.float32 else 1e-8
    for name in RUNGS[:3]:
        one, other = plain.rungs[name], wide.rungs[name]
        assert one.held_out.mean == pytest.approx(other.held_out.mean, rel=1e-6)
        assert one.interval.high - one.interval.low == pytest.approx(other.interval.high - other.interval.low, digits)
    assert plain.source.condition == pytest.approx(wide.source.condition, rel=1e-6)
    assert plain.source.rank == wide.source.rank


def test_intervals_of_a_ring_of_folds_are_about_those_of_all_pairs(lower):
    settings = {"rungs": ("rigid", "linear"), "n_null": 0, "worst_case": False}
    plain = isorep.compare(*runs((6, 6)), **settings)
    lower(4)
    wide = isorep.compare(*runs((6, 6)), **settings)
    for name in ("rigid", "linear"):
        one, other = plain.rungs[name].interval, wide.rungs[name].interval
        assert 0.7 < (one.high - one.low) / (other.high - other.low) < 1.4


def test_too_few_rows_are_whitened_and_rotated_at_random():
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(90, 60)) * np.geomspace(1, 0.05, 60) @ rotation(60, 1) + 3.0
    one, same, other = (fits._undetermined(x, 1e-16, np.random.default_rng(seed)) for seed in (0, 0, 1))
    np.testing.assert_allclose(one.components @ np.cov(x.T, bias=True) @ one.components.T, np.eye(60), atol=1e-9)
    np.testing.assert_allclose(one.components @ one.mixing, np.eye(60), atol=1e-9)
    np.testing.assert_array_equal(one.components, same.components)
    assert one.gaussian.all()
    # Independent rotations of 60 dimensions: cosines spread by the root of a sixtieth.
    between = one.components @ other.mixing
    assert np.sqrt(np.mean(between**2)) == pytest.approx(60**-0.5)
    assert np.abs(between).max() < 0.8
    x[:, 3] = 1.0
    assert fits._undetermined(x, 1e-16, rng) is None


@pytest.mark.filterwarnings("ignore:only 480 rows")
def test_rows_too_few_for_components_score_like_random_rotations(lower):
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(480, 130)) * np.geomspace(1, 0.1, 130)
    settings = {"rungs": ("rigid", "ica"), "n_null": 0, "n_boot": 0, "worst_case": False}
    plain = isorep.compare(x, x @ rotation(130, 1), **settings).rungs["ica"]
    lower(100)
    wide = isorep.compare(x, x @ rotation(130, 1), **settings).rungs["ica"]
    assert wide.held_out.mean == pytest.approx(plain.held_out.mean, rel=0.05)
    assert wide.held_out.mean > 1


def test_random_rotations_by_cholesky_factors_are_those_of_qr(monkeypatch):
    one, other = haar(40, np.random.default_rng(0)), quick_haar(40, np.random.default_rng(0))
    np.testing.assert_allclose(one, other, atol=1e-9)
    np.testing.assert_allclose(other @ other.T, np.eye(40), atol=1e-12)

    def singular(_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "cholesky", singular)
    np.testing.assert_array_equal(one, quick_haar(40, np.random.default_rng(0)))
