"""The simulator's truth: its near-isometry, its evidence, what batches change and what they do not."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.metrics import roc_auc_score

import isorep
from isorep.datasets import batches, data_folder, simulate_batches


def test_the_map_stretches_no_distance_beyond_its_excess(monkeypatch):
    monkeypatch.setattr(batches, "NOISE", 0.0)
    screen = simulate_batches(batches=3, rows=60, excess=0.4)
    ratio = pdist(screen.values) / pdist(screen.factors)
    assert ratio.min() >= 1 - 1e-9
    assert ratio.max() <= 1.4 + 1e-9
    assert ratio.max() > 1.05  # it does bend


def test_no_score_of_the_true_factors_beats_the_evidence():
    screen = simulate_batches(batches=20, rows=500)
    ceiling = screen.ceiling()
    assert 0.8 < ceiling < 0.95
    moved = screen.factors[:, : screen.affected]
    for score in (moved.sum(1), moved[:, 0], np.tanh(moved).sum(1), (moved > 0.5).sum(1)):
        assert roc_auc_score(screen.perturbed, score) < ceiling + 0.005


def test_gaussian_evidence_is_the_sum_of_the_affected_factors():
    screen = simulate_batches(gaussian=True)
    summed = roc_auc_score(screen.perturbed, screen.factors[:, : screen.affected].sum(1))
    assert screen.ceiling() == pytest.approx(summed, abs=1e-12)


def test_batches_move_technical_factors_and_leave_biological_ones():
    screen = simulate_batches(batches=10, rows=400)
    means = np.array([screen.factors[(screen.batch == j) & ~screen.perturbed].mean(0) for j in range(10)])
    spread = means.std(0)
    assert spread[: screen.biological].max() < 0.25
    assert spread[screen.biological :].min() > 0.5
    shares = np.array([screen.perturbed[screen.batch == j].mean() for j in range(10)])
    assert (shares == 0).sum() == 2
    assert shares.std() > 0.15


def test_a_seed_gives_the_same_screen_and_another_seed_another():
    first, same, other = (simulate_batches(batches=2, rows=20, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.values, same.values)
    assert not np.allclose(first.values, other.values)


@pytest.mark.parametrize("wrong", [{"affected": 0}, {"affected": 9}, {"dimensions": 15}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(isorep.InputError, match="a simulation needs"):
        simulate_batches(**wrong)


def test_the_data_folder_comes_from_the_call_then_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOREP_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    inner = tmp_path / "inner"
    inner.mkdir()
    assert data_folder(inner) == inner
    monkeypatch.setenv("ISOREP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(isorep.InputError, match=r"nowhere \(from ISOREP_DATA\) is not a folder"):
        data_folder()
    monkeypatch.delenv("ISOREP_DATA")
    assert data_folder() is None


def test_batches_may_move_all_factors_or_change_shapes_alone():
    usual = simulate_batches(batches=6, rows=2000)
    same = simulate_batches(batches=6, rows=2000, batch_effect="technical")
    np.testing.assert_array_equal(usual.values, same.values)

    def means(screen, columns):
        return np.array(
            [screen.factors[(screen.batch == code) & ~screen.perturbed][:, columns].mean(0) for code in range(6)]
        )

    biology, technical = slice(0, usual.biological), slice(usual.biological, None)
    assert np.ptp(means(usual, biology), axis=0).max() < 0.3
    assert np.ptp(means(usual, technical), axis=0).min() > 0.5
    assert np.ptp(means(simulate_batches(batches=6, rows=2000, batch_effect="all"), biology), axis=0).min() > 0.5
    shape = simulate_batches(batches=6, rows=2000, batch_effect="shape", batch_shift=1.0)
    assert np.ptp(means(shape, slice(None)), axis=0).max() < 0.3
    for code in range(6):
        held = shape.factors[shape.batch == code][:, technical]
        assert np.allclose(held.std(0), np.sqrt(2), atol=0.15)
        assert all(len(np.unique(np.round(column, 9))) == 2 for column in held.T)
    with pytest.raises(isorep.InputError, match="batch_effect"):
        simulate_batches(batch_effect="none")


def test_every_batch_may_have_the_same_number_of_controls():
    usual = simulate_batches(batches=5, rows=40)
    screen = simulate_batches(batches=5, rows=40, controls=8)
    counts = np.bincount(screen.batch, weights=~screen.perturbed)
    assert counts.tolist() == [8] * 5
    assert len(set(np.bincount(usual.batch, weights=~usual.perturbed))) > 1
    for wrong in (0, 40):
        with pytest.raises(isorep.InputError, match="1 to 39 controls"):
            simulate_batches(batches=5, rows=40, controls=wrong)
