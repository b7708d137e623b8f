"""The ICA rung sees no row twice: Gaussian rows, which determine nothing, give it nothing."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import isorep
from isorep.comparison import fits
from isorep.threads import Crew, blas_threads, many_if_wide, one_blas_thread

from ..data import rotation, sources

FAST = {"rungs": ("signed_permutation", "rigid", "linear", "ica"), "n_null": 0, "n_boot": 0, "worst_case": False}
N, D = 900, 6


def pair(shared, noise, rng):
    """Two rotations of shared rows, each with noise of its own."""
    for seed in (11, 12):
        rows = shared @ rotation(D, seed)
        yield rows + noise * rows.std() * rng.normal(size=rows.shape)


def of_random_rotations(x, y, count, rng):
    """The error of ICA's map with whitened components turned at random, matched by pairs all the same."""
    white = [side - side.mean(axis=0) for side in (x, y)]
    white = [np.sqrt(N) * np.linalg.svd(side, full_matrices=False)[0] for side in white]
    target = y - y.mean(axis=0)
    found = []
    for _ in range(count):
        one, other = (side @ np.linalg.qr(rng.normal(size=(D, D)))[0] for side in white)
        correlations = one.T @ other / N
        left, right = linear_sum_assignment(-np.abs(correlations))
        matched = np.empty_like(other)
        matched[:, right] = one[:, left] * np.sign(correlations[left, right])
        mixed = matched @ np.linalg.lstsq(other, target, rcond=None)[0]
        found.append(np.linalg.norm(mixed - target, axis=1).sum() / np.linalg.norm(target, axis=1).sum())
    return np.array(found)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_gaussian_rows_give_ica_no_more_than_random_rotations(spread, noise):
    rng = np.random.default_rng(0)
    x, y = pair(rng.normal(size=(N, D)) * np.geomspace(1, spread, D), noise, rng)
    result = isorep.compare(x, y, **FAST)
    random = of_random_rotations(x, y, 60, rng)
    # held out is the mean of six pairs of fits
    assert abs(result.rungs["ica"].held_out.mean - random.mean()) < 5 * random.std(ddof=1) / np.sqrt(6)
    assert result.ica_efficiency < 0.25
    assert result.rungs["rigid"].held_out.mean < 0.2


def test_wide_gaussian_rows_are_not_identified_by_where_the_search_began():
    """In more dimensions than ICA iterates to the end, what it leaves alone is turned at random."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(1200, 140)) * np.geomspace(1, 0.1, 140)
    result = isorep.compare(wide, wide @ rotation(140, 1), **FAST)
    assert result.rungs["rigid"].held_out.mean < 0.01
    assert result.rungs["ica"].in_sample.mean < 0.2  # the same rows on both sides end in the same place
    assert result.rungs["ica"].held_out.mean > 1.1  # no better than the mean
    assert result.ica_efficiency < 0


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_sources_that_are_not_gaussian_give_it_much(noise):
    rng = np.random.default_rng(0)
    x, y = pair(sources(N, D), noise, rng)
    result = isorep.compare(x, y, **FAST)
    random = of_random_rotations(x, y, 60, rng)
    assert result.rungs["ica"].held_out.mean < 0.6 * random.min()
    assert result.ica_efficiency > 0.6


def test_gaussian_components_are_said_to_be_undetermined_and_others_are_not():
    rng = np.random.default_rng(0)
    words = "are indistinguishable from Gaussian: their directions are not determined"
    gaussian = isorep.compare(*pair(rng.normal(size=(N, D)), 0.0, rng), **FAST)
    (found,) = [caveat for caveat in gaussian.caveats if words in caveat]
    assert "of 6 independent components of each of source and target" in found
    sharp = isorep.compare(*pair(sources(N, D), 0.0, rng), **FAST)
    assert not [caveat for caveat in sharp.caveats if words in caveat]


def test_two_groups_leave_the_rung_out_and_three_do_not():
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(200, 3))
    y = x + 0.1 * rng.normal(size=x.shape)
    two = isorep.compare(x, y, folds=2, groups=np.arange(200) % 2, **FAST)
    assert "ica" not in two.rungs
    words = "the ICA rung was left out: it needs at least 3 groups, because each side is unmixed on its own groups"
    assert words in two.caveats
    three = isorep.compare(x, y, folds=2, groups=np.arange(200) % 3, **FAST)
    assert "ica" in three.rungs
    assert words not in three.caveats
    without = isorep.compare(x, y, folds=2, groups=np.arange(200) % 2, **FAST | {"rungs": ("rigid", "linear")})
    assert words not in without.caveats


def test_wide_rows_are_scored_part_by_part_with_the_same_numbers(monkeypatch):
    rng = np.random.default_rng(5)
    x, y = pair(sources(N, D, seed=4), 0.1, rng)
    settings = FAST | {"n_null": 5}
    at_once = isorep.compare(x, y, **settings)
    for module in ("fits", "ladder", "null"):
        monkeypatch.setattr(f"isorep.comparison.{module}.WIDE_MATRIX", D - 1)
    monkeypatch.setattr("isorep.comparison.intervals.MOST_CELLS", 0)
    monkeypatch.setattr(fits, "few_components", lambda *_, **__: None)  # both have the same ICAs
    by_part = isorep.compare(x, y, **settings)
    for name in ("rigid", "ica"):
        one, other = at_once.rungs[name], by_part.rungs[name]
        for part in ("held_out", "in_sample"):
            assert getattr(one, part).mean == pytest.approx(getattr(other, part).mean, rel=1e-9)
        assert one.null.mean == pytest.approx(other.null.mean, rel=1e-9)
    shown = [each.figures.dimensions.r2["linear"] for each in (at_once, by_part)]
    np.testing.assert_allclose(*shown, atol=1e-5)


def test_wide_matrices_have_all_blas_threads_outside_crews(monkeypatch):
    monkeypatch.setattr("isorep.threads.WIDE_MATRIX", 10)
    available = blas_threads()

    @one_blas_thread
    def seen(columns):
        with many_if_wide(columns):
            outside = blas_threads()
            with Crew() as crew:
                inside = max(crew.stream(lambda _: blas_threads(), range(2)))
        return outside, inside, blas_threads()

    assert seen(11) == (available, 1, 1)
    assert seen(10) == (1, 1, 1)
    assert blas_threads() == available


def test_sweeps_of_a_fit_are_bounded_by_its_work(monkeypatch, rng):
    asked = []

    def recorded(*arguments, max_iter, **rest):
        asked.append(max_iter)
        return unmix_rows(*arguments, max_iter=max_iter, **rest)

    unmix_rows = fits.unmix_rows
    monkeypatch.setattr(fits, "unmix_rows", recorded)
    x = rng.laplace(size=(90, 3))
    isorep.compare(x, x @ rotation(3, 0), rungs=("rigid", "ica"), n_null=0, n_boot=0)
    assert set(asked) == {200}
    asked.clear()
    monkeypatch.setattr(fits, "_ICA_WORK", 50 * 4 * 90 * 3 * 3)
    isorep.compare(x, x @ rotation(3, 0), rungs=("rigid", "ica"), n_null=0, n_boot=0)
    assert sorted(set(asked)) == [50, 150], "a fit to all rows, and to a third of them"
