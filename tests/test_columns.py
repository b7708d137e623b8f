"""Which columns count as dimensions: dead ones are left out and named, maps keep what is small but real."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isorep
from isorep import covariance
from isorep.covariance import (
    HARDLY,
    factor_covariance,
    hardly_vary,
    least_squares,
    left_out_sentence,
    narrow_root,
    resolve_alone,
    resolve_source,
)
from isorep.moments import Moments, moments_alone
from isorep.representation import rounding_of
from isorep.rows import ProjectedRows

from .data import mixing

DEAD = [1e-33, 1e-12, 1e-7, 9e-6]


def factored(x, **kind):
    """As whitening does it: with further passes where they are needed."""

    def moments(mean, basis):
        return moments_alone(x if mean is None else ProjectedRows(x, mean, basis))

    return resolve_alone(moments, rounding_of(x), **kind)[1]


def with_dead(rng, n, alive, dead, dtype, mean=0.0):
    """Well-conditioned columns, then independent noise at these shares of their spread."""
    values = rng.normal(size=(n, alive)) @ mixing(alive, 0, 10.0)
    values *= 0.05 / np.median(values.std(axis=0))
    noise = rng.normal(size=(n, len(dead))) * 0.05 * np.array(dead)
    return (np.column_stack([values, noise]) + mean).astype(dtype)


# The rule ------------------------------------------------------------------------------------------------------


def left_out(spreads):
    spreads = np.asarray(spreads, dtype=float)
    return np.flatnonzero(hardly_vary(spreads, spreads == 0)).tolist()


def test_a_column_counts_from_a_ten_thousandth_of_the_median_on():
    assert left_out([1.0, 1.0, 1.0, 2e-4, 0.9e-4]) == [4]
    assert left_out([1.0]) == left_out([1e-30]) == left_out([3.0] * 7) == left_out([]) == left_out([0.0, 0.0]) == []


def test_of_two_columns_the_larger_is_the_measure():
    assert left_out([1e-5, 1.0]) == [0]
    assert left_out([1e-3, 1.0]) == []


def test_half_of_the_columns_may_be_dead():
    assert left_out([1e-7, 1.0, 1e-33, 0.5, 9e-6, 2.0]) == [0, 2, 4]


def test_constant_columns_are_no_part_of_the_median():
    assert left_out([0.0] * 9 + [1e-9, 1.0]) == [9]


def test_a_few_columns_of_very_large_spread_leave_no_other_out():
    assert left_out([1e9, 1e7] + [1.0] * 6) == []


@given(st.lists(st.floats(-33, 9), min_size=1, max_size=12))
def test_taking_the_columns_left_out_away_changes_nothing(exponents):
    spreads = 10.0 ** np.array(exponents)
    gone = hardly_vary(spreads, np.zeros(len(spreads), bool))
    kept = spreads[~gone]
    assert len(kept) >= 1
    assert not hardly_vary(kept, np.zeros(len(kept), bool)).any()
    if gone.any():
        assert spreads[gone].max() <= HARDLY * np.sort(kept)[len(kept) // 2]


@given(st.lists(st.floats(-33, 9), min_size=1, max_size=12), st.floats(-20, 20))
def test_the_rule_has_no_unit(exponents, unit):
    spreads, constant = 2.0 ** np.round(exponents), np.zeros(len(exponents), bool)
    np.testing.assert_array_equal(hardly_vary(spreads, constant), hardly_vary(spreads * 2.0 ** round(unit), constant))


# Rank and condition --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [0.0, 10.0])
@pytest.mark.parametrize("n", [400, 9])
def test_dead_columns_do_not_count(rng, dtype, mean, n):
    x = with_dead(rng, n, 12, DEAD, dtype, mean)
    x[:, 3] = 0.25
    factor, alone = factored(x), factored(np.ascontiguousarray(x[:, :12]))
    assert factor.rank == alone.rank == min(11, n - 1)
    assert factor.condition == pytest.approx(alone.condition, rel=1e-6)
    assert not (factor.constant & factor.left_out).any()
    assert np.flatnonzero(factor.constant | factor.left_out).tolist() == [3, 12, 13, 14, 15]
    varies = np.flatnonzero(factor.left_out)
    np.testing.assert_allclose(factor.spread[varies], x[:, varies].std(axis=0, dtype=np.float64), rtol=0.01)


def test_rounding_noise_about_a_large_mean_is_constant(rng):
    x = rng.normal(size=(500, 3)).astype(np.float32)
    x[:, 1] = np.float32(1000) + rng.choice([0, 1], size=500).astype(np.float32) * np.spacing(np.float32(1000))
    factor = factored(x)
    assert factor.rank == 2
    assert factor.constant.tolist() == [False, True, False]
    assert factored(x, any_scale=True).rank == 2


@pytest.mark.parametrize("value", [0.1, 1e-20, 3e7])
def test_a_constant_column_is_constant_however_many_rows_there_are(rng, value):
    x = np.column_stack([rng.normal(size=(30000, 1)), np.full(30000, value)])
    assert factored(x).constant.tolist() == [False, True]
    assert moments_alone(x).xx[1, 1] == 0


def test_columns_of_any_scale_count_where_units_differ(rng):
    x = rng.normal(size=(300, 6)) * np.array([1e-33, 1e9, 1.0, 1e-6, 1e-12, 30.0])
    assert factored(x, any_scale=True).rank == 6
    assert factored(x).rank == 3


def test_spreads_whose_squares_leave_float64_are_no_columns(rng):
    x = rng.normal(size=(50, 3)) * np.array([1.0, 1e-160, 1.0])
    for any_scale in (False, True):
        assert factored(x, any_scale=any_scale).constant.tolist() == [False, True, False]


def test_a_second_pass_leaves_the_same_columns_out(rng):
    x = rng.normal(size=(300, 5))
    x[:, 4] = x[:, 0] + 1e-9 * x[:, 4]
    x = np.column_stack([x, 1e-6 * rng.normal(size=300), 1e-8 * x[:, 1]])
    factor = factored(x)
    assert factor.rank == 5
    assert np.flatnonzero(factor.left_out).tolist() == [5, 6]
    centred = x[:, :5] - x[:, :5].mean(axis=0)
    np.testing.assert_allclose(
        factor.singular_values, np.linalg.svd(centred, compute_uv=False) / np.sqrt(300), rtol=1e-4
    )
    np.testing.assert_allclose(np.cov((centred @ factor.whitener[:5]).T, bias=True), np.eye(5), atol=1e-4)


@pytest.mark.parametrize("apart", [1.0, 1e-9])
def test_comparisons_describe_dimensions_and_fit_maps_with_every_column(rng, apart):
    x = np.column_stack([rng.normal(size=(300, 4)), 1e-6 * rng.normal(size=(300, 1))])
    x[:, 3] = x[:, 0] + apart * x[:, 3]  # moments alone do not resolve 1e-9
    y = x / x.std(axis=0)
    factor, second = resolve_source(Moments.from_rows(x, y), x, y, np.zeros(300, np.intp), 1)
    assert (factor.rank, second is None) == (4, apart == 1)
    assert np.flatnonzero(factor.left_out).tolist() == [4]
    result = isorep.compare(x, y, rungs=("linear",), n_boot=0, n_null=0)
    assert (result.source.rank, result.target.rank) == (4, 5)
    assert result.rungs["linear"].held_out.rms < 1e-9
    many = isorep.compare_many({"x": x, "y": y}, rungs=("linear",), n_null=0)
    assert [run.rank for run in many.runs] == [4, 5]
    assert many.rungs["linear"].rms.max() < 1e-6


# The sentence --------------------------------------------------------------------------------------------------


def test_the_sentence_names_columns_and_spreads(rng):
    x = with_dead(rng, 200, 6, [1e-7, 1e-33], np.float64)
    factor = factored(x)
    said = left_out_sentence(factor, "a.npy")
    assert said.startswith(
        "2 columns of a.npy hardly vary (spread below 1e-4 of the median column's) and do not count as dimensions: 6 ("
    )
    assert f"6 ({x[:, 6].std():.1g}), 7 ({x[:, 7].std():.1g})" in said
    assert "depth (" in left_out_sentence(factor, "a.npy", [*"abcdef", "depth", "h"])
    one = left_out_sentence(factored(x[:, :7]), "b")
    assert one.startswith("1 column of b hardly varies")
    assert "does not count as a dimension: 6 (" in one
    assert left_out_sentence(factored(x[:, :6]), "b") is None


def test_a_long_list_is_cut(rng):
    x = with_dead(rng, 200, 14, [1e-7] * 13, np.float64)
    assert left_out_sentence(factored(x), "b").endswith(") and 3 more")


# Linear maps ---------------------------------------------------------------------------------------------------


def exact(x, y):
    """The error of a linear map relative to the target's columns."""
    fitted = isorep.Linear().fit(x, y)
    return (np.abs(fitted.transform(x) - y).max(axis=0) / y.std(axis=0)).max(), fitted


@pytest.mark.parametrize("unit", [1e-6, 1e-12, 1e-20, 1e8])
@pytest.mark.parametrize("beside", ["nothing", "a constant", "a duplicate", "both"])
def test_maps_are_recovered_exactly_from_columns_in_different_units(rng, unit, beside):
    x = rng.normal(size=(200, 4)) * np.array([1.0, unit, 1.0, unit])
    y = (x / np.array([1.0, unit, 1.0, unit])) @ rng.normal(size=(4, 3)) + 5
    if beside in ("a constant", "both"):
        x = np.column_stack([x, np.full(200, 7.0)])
    if beside in ("a duplicate", "both"):
        x = np.column_stack([x, x[:, 0]])
    error, fitted = exact(x, y)
    assert error < 1e-9
    assert fitted.rank_ == 4


def test_maps_are_recovered_from_small_columns_of_float32(rng):
    x = (rng.normal(size=(200, 3)) * np.array([1.0, 1e-6, 1e-30])).astype(np.float32)
    y = x.astype(np.float64) / x.std(axis=0, dtype=np.float64) @ rng.normal(size=(3, 2))
    error, fitted = exact(x, y)
    assert error < 1e-5
    assert fitted.rank_ == 3


def test_maps_between_heads_keep_columns_of_any_scale(rng):
    g, f, units = rng.normal(size=(40, 3)), rng.normal(size=(50, 3)), np.array([1.0, 1e6, 1.0])
    found = isorep.heads.head_map(g, g / units).transform(f)
    np.testing.assert_allclose(found, f * units, rtol=1e-6)


# Canonical correlations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_dead_column_is_no_canonical_direction(rng, n, dtype):
    x = with_dead(rng, n, 16 if n < 16 else 6, [1e-33, 1e-7, 9e-6], dtype)
    width = x.shape[1] - 3
    y = (x[:, :width] @ rng.normal(size=(width, width)) + 0.01 * rng.normal(size=(n, width))).astype(dtype)
    alive = np.ascontiguousarray(x[:, :width])
    for index in (isorep.similarity.cca, isorep.similarity.pwcca, isorep.similarity.svcca):
        assert float(index(x, y)) == pytest.approx(float(index(alive, y)), abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([np.float32, np.float64]), st.integers(1, 6), st.integers(1, 6))
def test_dead_columns_never_change_the_rank(seed, dtype, alive, dead):
    rng = np.random.default_rng(seed)
    dead = min(alive, dead)
    x = with_dead(rng, 60, alive, 10.0 ** rng.uniform(-33, -6, dead), dtype)
    shuffled = np.ascontiguousarray(x[:, rng.permutation(alive + dead)])
    assert factored(shuffled).rank == factored(np.ascontiguousarray(x[:, :alive])).rank == alive


@pytest.mark.parametrize("smallest", [1e-2, 1e-5])
def test_principal_axes_by_squares_are_those_of_a_decomposition(smallest, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) * np.geomspace(1, smallest, 6) @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    factor = covariance.factor_covariance(400 * np.cov(x.T, bias=True), 400, x.mean(axis=0), 1e-16)
    plain = covariance.principal(factor, np.ones(6))
    monkeypatch.setattr(covariance, "WIDE_MATRIX", 0)
    squared = covariance.principal(factor, np.ones(6))
    np.testing.assert_allclose(squared[2], plain[2], rtol=1e-8)
    np.testing.assert_allclose(squared[1] @ squared[0], np.eye(6), atol=1e-8)
    for mine, other in ((squared[0], plain[0]), (squared[1].T, plain[1].T), (squared[3], plain[3])):
        signs = np.sign(np.einsum("ij,ij->i", mine, other))
        np.testing.assert_allclose(mine * signs[:, None], other, rtol=1e-5, atol=1e-7 * np.abs(other).max())


@pytest.mark.parametrize("case", ["plain", "constant", "dead", "dependent"])
def test_triangular_roots_are_taken_only_where_all_directions_count(case, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) * np.geomspace(1, 1e-2, 6) @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 5.0
    if case == "constant":
        x[:, 2] = 1.0
    elif case == "dead":
        x[:, 2] *= 1e-9
    elif case == "dependent":
        x[:, 2] = x[:, 1] + 1e-12 * x[:, 3]
    sums = 400 * np.cov(x.T, bias=True)
    assert (covariance.triangular_root(sums, 400, x.mean(axis=0), 1e-16) is None) == (case != "plain")
    plain = covariance.factor_covariance(sums, 400, x.mean(axis=0), 1e-16)
    monkeypatch.setattr(covariance, "WIDE_MATRIX", 0)
    quick = covariance.factor_covariance(sums, 400, x.mean(axis=0), 1e-16)
    assert (quick.rank, quick.resolved) == (plain.rank, plain.resolved)
    np.testing.assert_array_equal(quick.left_out, plain.left_out)
    np.testing.assert_array_equal(quick.constant, plain.constant)
    np.testing.assert_allclose(quick.singular_values, plain.singular_values, rtol=1e-7)
    np.testing.assert_allclose(quick.root.T @ quick.root, plain.root.T @ plain.root, atol=1e-9)
    np.testing.assert_allclose(quick.whitener.T @ sums @ quick.whitener / 400, np.eye(quick.rank), atol=1e-6)


@pytest.mark.parametrize("fall", [0, -4])
def test_few_rows_of_many_columns_have_the_spectrum_of_a_full_decomposition(fall):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 30)) * np.logspace(0, fall, 30) @ np.linalg.qr(rng.normal(size=(90, 30)))[0].T
    rows -= rows.mean(axis=0)
    sums = rows.T @ rows
    root = narrow_root(sums, 30)
    assert root.shape[1] in (29, 30)  # centred rows; one more may be rounding
    np.testing.assert_allclose(root @ root.T, sums, atol=1e-13 * sums.max())
    assert narrow_root(sums, 60) is None
    factor = factor_covariance(sums, 30, np.zeros(90), 1e-16)
    assert factor.rank == 29
    np.testing.assert_allclose(factor.root.T @ factor.root, sums / 30, atol=1e-12 * sums.max())
    np.testing.assert_allclose(factor.root @ factor.whitener, np.eye(29), atol=1e-6)
    target = rows @ rng.normal(size=(90, 2))
    np.testing.assert_allclose(rows @ least_squares(factor, rows.T @ target, 30), target, atol=1e-6)
