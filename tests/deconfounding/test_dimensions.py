"""The number of dimensions: the noise floor, the curve, and that held-out batches have no part in it."""

import numpy as np
import pytest

import isorep
from isorep.datasets import simulate_batches
from isorep.deconfounding.dimensions import best_supported, candidates, inner_scores, most_dimensions, noise_floor
from isorep.deconfounding.inputs import Task

QUICK = {"classifiers": "logistic", "n_restarts": 0, "conditions": ("base", "pca_ica"), "mixing": False}


def noisy(seed=0, **settings):
    screen = simulate_batches(batches=8, rows=100, dimensions=120, random_state=seed, **settings)
    noise = np.random.default_rng([seed, 1]).normal(size=screen.values.shape)
    return screen.values + 0.3 * noise, screen.perturbed, screen.batch


@pytest.fixture(scope="module")
def chosen():
    return isorep.deconfound(*noisy(), **QUICK)


def test_noise_is_left_out_and_the_curve_shows_why(chosen):
    found = chosen.dimensions
    assert all(12 <= number <= 24 for number in (*found.by_fold, found.final))  # 16 factors
    assert found.rule == "left-out training batches"
    curve = {point.dimensions: point.auroc for point in found.curve}
    assert curve[16] > curve[2] + 0.05
    assert curve[16] > curve[max(curve)]
    assert sum(point.chosen for point in found.curve) == len(found.by_fold)
    assert list(found.to_frame().columns) == ["dimensions", "auroc", "chosen"]
    assert chosen.to_dict()["dimensions"]["by_fold"] == list(found.by_fold)
    assert "chosen on left-out training batches" in str(chosen)
    tenth = isorep.deconfound(*noisy(), **QUICK | {"n_components": "tenth"})
    assert tenth.dimensions.by_fold[0] > 50
    assert tenth.dimensions.curve == ()
    assert chosen.mean("auroc", "pca_ica").value > tenth.mean("auroc", "pca_ica").value


def test_the_choice_does_not_depend_on_the_seed_nor_on_the_order_of_rows(chosen):
    again = isorep.deconfound(*noisy(), random_state=7, **QUICK)
    assert again.dimensions == chosen.dimensions
    order = np.random.default_rng(0).permutation(800)
    turned = isorep.deconfound(*(each[order] for each in noisy()), **QUICK)
    assert turned.dimensions.by_fold == chosen.dimensions.by_fold


def test_one_training_batch_counts_axes_above_the_noise():
    result = isorep.deconfound(*noisy(shift=2.0), split="train_on_one", **QUICK)
    assert result.dimensions.rule == "Marchenko-Pastur edge"
    assert max(result.dimensions.by_fold) <= 10  # a tenth of 100 rows
    assert any("too few training batches to choose" in caveat for caveat in result.caveats)


def test_the_floor_counts_factors_and_nothing_in_noise():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(1000, 80))
    assert noise_floor(np.linalg.eigvalsh(np.cov(noise.T)), 1000) == 0
    signal = noise + 2 * rng.normal(size=(1000, 6)) @ np.linalg.qr(rng.normal(size=(80, 6)))[0].T
    assert noise_floor(np.linalg.eigvalsh(np.cov(signal.T)), 1000) == 6


def test_of_equal_scores_the_floor_is_taken_or_the_smallest():
    scores = np.array([[0.5, 0.8, 0.8, 0.8], [0.5, 0.9, 0.9, 0.9], [0.6, 0.7, 0.7, 0.7]])
    assert best_supported((2, 8, 16, 32), scores, 15) == 16
    assert best_supported((2, 8, 16, 32), scores, 2) == 8  # the floor itself is worse than the best
    assert best_supported((2, 8, 16, 32), scores, 200) == 8  # no floor in reach
    assert candidates(10, 50) == (1, 2, 3, 4, 6, 8)
    assert candidates(10, 10) == (1, 2, 3, 4, 6, 8, 10)
    assert most_dimensions(55, 50) == 5


@pytest.mark.parametrize("refit", [True, False])
def test_a_left_out_group_does_not_reach_the_discriminants_of_the_others(refit):
    """Moments of the others are merged, never a difference of sums, which a giant row or a large mean would cancel."""
    rng = np.random.default_rng(2)
    batch, treated = np.repeat(np.arange(5), 40), np.tile([False, True], 100)
    rows = rng.normal(size=(200, 4)) + 1.5 * treated[:, None] * np.array([1, 0.5, 0, 0])
    task = Task("treated", None, np.flatnonzero(treated), np.flatnonzero(~treated))
    usual = inner_scores(rows, batch, [task], (1, 2, 4), refit)
    assert usual.min() > 0.6
    np.testing.assert_allclose(inner_scores(rows + 1e8, batch, [task], (1, 2, 4), refit), usual, atol=0.02)
    giant = rows.copy()
    giant[7, 2] = 1e12
    with_giant = inner_scores(giant, batch, [task], (1, 2, 4), refit)
    assert np.isfinite(with_giant).all()
    assert (
        abs(with_giant[0] - usual[0]).max() < 0.06
    )  # its own batch is judged by the other rows, all but one as before
