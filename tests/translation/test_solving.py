"""Maps from moments: what they recover, what they choose, and that choosing from moments is choosing from rows."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from isorep.moments import Moments, leave_one_out
from isorep.translation.maps import _STRENGTHS, MAPS, Setting, Training, best_of, choose

from ..data import rotation, sources


def pair(n=600, d_x=12, d_y=9, rank=None, noise=0.3, seed=0, mean=5.0):
    rng = np.random.default_rng(seed)
    x = sources(n, d_x, seed) @ rotation(d_x, seed) * np.geomspace(1, 0.1, d_x) + mean
    matrix = rng.normal(size=(d_x, d_y))
    if rank is not None:
        matrix = rng.normal(size=(d_x, rank)) @ rng.normal(size=(rank, d_y))
    return x, (x - mean) @ matrix + noise * rng.normal(size=(n, d_y)) - 2


def training(x, y):
    return Training(Moments.from_rows(x, y), np.finfo(float).eps)


def errors_on_rows(fitted, x, y):
    return float(((fitted.apply(x)[:, : y.shape[1]] - y) ** 2).sum())


@pytest.mark.parametrize(("d_x", "d_y"), [(7, 7), (9, 5), (5, 9)])
def test_a_map_of_each_kind_is_recovered_without_noise(d_x, d_y):
    x, y = pair(400, d_x, d_y, noise=0.0)
    train, other = training(x[:300], y[:300]), Moments.from_rows(x[300:], y[300:])
    scale = float(np.trace(other.yy))
    for kind in ("linear", "ridge", "low_rank"):
        setting, error = choose(kind, [(train, other)], float(np.trace(train.moments.xx)) / d_x)
        assert error < 1e-9 * scale, kind
        assert errors_on_rows(train.fit(kind, setting), x[300:], y[300:]) < 1e-9 * scale, kind


@pytest.mark.parametrize(("d_x", "d_y"), [(6, 6), (4, 6)])
def test_a_rotation_with_scale_is_recovered_also_into_a_wider_space(d_x, d_y):
    x = sources(300, d_x)
    y = 2.5 * np.pad(x, ((0, 0), (0, d_y - d_x))) @ rotation(d_y, 3) + 1
    fitted = training(x, y).fit("rigid", Setting())
    np.testing.assert_allclose(fitted.apply(x), y, atol=1e-9)


def test_a_rotation_into_a_narrower_space_keeps_the_scale_of_what_is_left():
    x = np.random.default_rng(0).normal(size=(400, 8))
    x = np.linalg.qr(x - x.mean(0))[0]  # exactly white, where the optimum has a closed form
    y = 3 * (x @ rotation(8, 1))[:, :4]
    fitted = training(x, y).fit("rigid", Setting())
    assert fitted.matrix.shape == (8, 4)
    np.testing.assert_allclose(fitted.apply(x), y, atol=1e-6)


def test_ridge_is_scikit_learns():
    x, y = pair(80, 12, 9)
    for strength in (0.01, 3.0, 500.0):
        fitted = training(x, y).fit("ridge", Setting(strength))
        other = Ridge(alpha=strength, solver="svd").fit(x, y)
        np.testing.assert_allclose(fitted.apply(x), other.predict(x), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("n", "d_x", "d_y"), [(9, 12, 9), (60, 12, 9), (60, 9, 20)])
def test_errors_of_all_strengths_and_ranks_are_those_of_brute_force_on_rows(n, d_x, d_y):
    x, y = pair(n + 50, d_x, d_y)
    train = training(x[:n], y[:n])
    held, rows = Moments.from_rows(x[n:], y[n:]), (x[n:], y[n:])
    strengths = np.array([1e-3, 0.5, 20.0])
    expected = [errors_on_rows(train.fit("ridge", Setting(strength)), *rows) for strength in strengths]
    np.testing.assert_allclose(train.ridge_errors(held, strengths), expected, rtol=1e-8)
    for strength in strengths:
        found = train.rank_errors(held, strength)
        expected = [errors_on_rows(train.fit("low_rank", Setting(strength, rank)), *rows) for rank in range(1, 10)]
        np.testing.assert_allclose(found[1:], expected, rtol=1e-8)
        assert found[0] == pytest.approx(float(((y[n:] - y[:n].mean(0)) ** 2).sum()))


def test_cross_validation_from_moments_chooses_what_refitting_on_rows_would():
    x, y = pair(90, 30, 8, noise=1.0)
    parts = np.array_split(np.arange(90), 3)
    folds = [Moments.from_rows(x[part], y[part]) for part in parts]
    sets = [(Training(moments, 1e-16), fold) for moments, fold in zip(leave_one_out(folds), folds, strict=True)]
    setting, error = choose("ridge", sets, 1.0)
    by_hand = []
    for strength in _STRENGTHS:
        total = 0.0
        for part in parts:
            rest = np.setdiff1d(np.arange(90), part)
            fitted = Ridge(alpha=strength, solver="svd").fit(x[rest], y[rest])
            total += float(((fitted.predict(x[part]) - y[part]) ** 2).sum())
        by_hand.append(total)
    assert setting.strength == _STRENGTHS[int(np.argmin(by_hand))]
    assert error == pytest.approx(min(by_hand), rel=1e-6)


def test_ridge_beats_the_linear_map_where_pairs_are_as_few_as_dimensions():
    x, y = pair(2000, 40, 20, noise=1.0)
    train, held = training(x[:44], y[:44]), Moments.from_rows(x[1000:], y[1000:])
    errors = {kind: choose(kind, [(train, held)], 1.0)[1] for kind in MAPS}
    assert errors["ridge"] < 0.7 * errors["linear"]
    assert best_of(errors, float(np.trace(held.yy))) != "linear"


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_low_rank_map_finds_the_rank(rank):
    x, y = pair(1500, 16, 12, rank=rank, noise=0.2)
    train, held = training(x[:700], y[:700]), Moments.from_rows(x[700:], y[700:])
    setting, error = choose("low_rank", [(train, held)], 1.0)
    assert setting.rank == rank
    assert error <= choose("linear", [(train, held)], 1.0)[1]


def test_of_maps_that_err_alike_the_simplest_is_taken():
    assert best_of({"ridge": 1.0, "linear": 1.0005, "low_rank": 0.9999}, 10.0) == "linear"
    assert best_of({"rigid": 2.0, "linear": 1.1, "ridge": 1.0}, 10.0) == "ridge"
    assert best_of({"rigid": 1e-12, "linear": 1e-16}, 10.0) == "rigid"


def test_constant_columns_and_fewer_rows_than_dimensions_are_a_normal_case():
    x, y = pair(300, 12, 9)
    x[:, 4] = 7.0
    y[:, 2] = -1.0
    train, held = training(x[:8], y[:8]), Moments.from_rows(x[8:], y[8:])
    for kind in MAPS:
        setting, error = choose(kind, [(train, held)], 1.0)
        fitted = train.fit(kind, setting)
        assert np.isfinite(fitted.matrix).all(), kind
        assert error == pytest.approx(errors_on_rows(fitted, x[8:], y[8:]), rel=1e-6), kind


def test_without_ridge_the_low_rank_map_is_reduced_rank_regression():
    x, y = pair(200, 10, 7)
    centred, target = x - x.mean(0), y - y.mean(0)
    least_squares = np.linalg.lstsq(centred, target, rcond=None)[0]
    axes = np.linalg.svd(centred @ least_squares)[2][:3]
    fitted = training(x, y).fit("low_rank", Setting(0.0, 3))
    np.testing.assert_allclose(fitted.matrix, least_squares @ axes.T @ axes, atol=1e-8)
