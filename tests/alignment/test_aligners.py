"""Each aligner is optimal in its group, exact without noise, and indifferent to what its group removes."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import isorep
from isorep import ICAAlignment, Identity, Linear, Moments, Rigid, SignedPermutation
from isorep.alignment import base
from isorep.alignment.base import nearest_rotation

from ..data import mixing, noisy_pair, rotation, signed_permutation, sources

ALIGNERS = [Identity(), SignedPermutation(), Rigid(), Linear(), ICAAlignment()]


def member(aligner, d, seed):
    """A random element of the aligner's group, as a function of rows."""
    shift = np.random.default_rng(seed).normal(size=d)
    if isinstance(aligner, Identity):
        return lambda x: x
    if isinstance(aligner, SignedPermutation):
        return lambda x: 2.5 * x @ signed_permutation(d, seed) + shift
    if isinstance(aligner, Rigid):
        return lambda x: 0.3 * x @ rotation(d, seed) + shift
    return lambda x: x @ mixing(d, seed) + shift


@pytest.mark.parametrize("aligner", ALIGNERS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_recovery_without_noise(aligner, seed):
    x = sources(4000, 5)
    y = member(aligner, 5, seed)(x)
    fitted = clone(aligner).fit(x, y)
    np.testing.assert_allclose(fitted.transform(x), y, atol=1e-6)
    np.testing.assert_allclose(fitted.inverse_transform(y), x, atol=1e-6)
    assert fitted.score(x, y) == pytest.approx(1.0)


@pytest.mark.parametrize("aligner", ALIGNERS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("seed", [2, 3])
def test_error_is_unchanged_under_the_group_on_the_source_and_rigid_motions_of_the_target(aligner, seed):
    x, y = noisy_pair(3000, 4, 0.2)
    plain = clone(aligner).fit(x, y).residuals(x, y)
    moved_x = member(aligner, 4, seed)(x)
    np.testing.assert_allclose(clone(aligner).fit(moved_x, y).residuals(moved_x, y), plain, atol=2e-3)
    if isinstance(aligner, Rigid | Linear | ICAAlignment):
        moved_y = y @ rotation(4, seed) + 3
        np.testing.assert_allclose(clone(aligner).fit(x, moved_y).residuals(x, moved_y), plain, atol=2e-3)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
def test_mean_square_error_falls_along_the_ladder_also_for_other_widths(seed, d_x, d_y):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, d_x)), rng.normal(size=(40, d_y))
    errors = [np.mean(aligner.fit(x, y).residuals(x, y) ** 2) for aligner in ALIGNERS[:4]]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(errors))


@given(st.integers(0, 10**6))
def test_signed_permutation_beats_every_other_one(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(30, 3)) * [1, 5, 0.2], rng.normal(size=(30, 3)) * [3, 0.1, 1]
    best = np.mean(SignedPermutation().fit(x, y).residuals(x, y) ** 2)
    x, y = x - x.mean(0), y - y.mean(0)
    for order in itertools.permutations(range(3)):
        for signs in itertools.product([-1, 1], repeat=3):
            moved = x[:, order] * signs
            scale = max((moved * y).sum() / (x**2).sum(), 0)
            assert best <= ((y - scale * moved) ** 2).sum() / 30 + 1e-9


def test_rigid_agrees_with_scipy_and_may_reflect(rng):
    from scipy.linalg import orthogonal_procrustes

    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 4))
    fitted = Rigid(scale=False).fit(x, y)
    expected, _ = orthogonal_procrustes(x - x.mean(0), y - y.mean(0))
    np.testing.assert_allclose(fitted.rotation_, expected, atol=1e-10)
    mirror = np.diag([1.0, 1.0, -1.0])
    assert Rigid().fit(x[:, :3], x[:, :3] @ mirror).residuals(x[:, :3], x[:, :3] @ mirror).max() < 1e-12


def test_rigid_error_without_scale_is_the_closed_form(rng):
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 4))
    fitted = Rigid(scale=False).fit(x, y)
    a, b = x - x.mean(0), y - y.mean(0)
    nuclear = np.linalg.svd(a.T @ b, compute_uv=False).sum()
    expected = (a**2).sum() + (b**2).sum() - 2 * nuclear
    assert (fitted.residuals(x, y) ** 2).sum() == pytest.approx(expected)


@pytest.mark.parametrize("aligner", [SignedPermutation(), Rigid(), SignedPermutation(False), Rigid(False)])
@pytest.mark.parametrize("widths", [(4, 4), (3, 5), (5, 3)])
def test_the_reverse_of_an_isometry_is_the_fit_the_other_way(rng, aligner, widths):
    x, y = rng.normal(size=(60, widths[0])), rng.normal(size=(60, widths[1]))
    moments = Moments.from_rows(x, y)
    forward = clone(aligner).fit_moments(moments)
    np.testing.assert_allclose(
        forward.reversed(moments).residuals(y, x), clone(aligner).fit(y, x).residuals(y, x), atol=1e-10
    )


@pytest.mark.parametrize("aligner", ALIGNERS[:4], ids=lambda a: type(a).__name__)
def test_moments_and_rows_give_the_same_fit(rng, aligner):
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(60, 4))
    from_rows, from_moments = clone(aligner).fit(x, y), clone(aligner).fit_moments(Moments.from_rows(x, y))
    np.testing.assert_allclose(from_rows.transform(x), from_moments.transform(x), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_agrees_with_lstsq_on_full_rank_data(rng, dtype):
    x, y = rng.normal(size=(200, 6)).astype(dtype), rng.normal(size=(200, 3)).astype(dtype)
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(200)]), y, rcond=None)[0]
    fitted = Linear().fit(x, y)
    np.testing.assert_allclose(fitted.coef_, expected[:-1], atol=1e-5)
    np.testing.assert_allclose(fitted.intercept_, expected[-1], atol=1e-5)


def test_linear_on_dependent_and_constant_columns_is_the_solution_of_least_norm(rng):
    x = rng.normal(size=(200, 4))
    x = np.column_stack([x, x[:, 0], x[:, 1] - x[:, 2], np.full(200, 1e3)])
    y = rng.normal(size=(200, 3))
    fitted = Linear().fit(x, y)
    assert fitted.rank_ == 4
    expected = np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=1e-10)[0]
    np.testing.assert_allclose(fitted.coef_, expected, atol=1e-8)


def test_linear_with_fewer_rows_than_columns_interpolates_with_least_norm(rng):
    x, y = rng.normal(size=(10, 30)), rng.normal(size=(10, 2))
    fitted = Linear().fit(x, y)
    assert fitted.rank_ == 9
    assert fitted.residuals(x, y).max() < 1e-8
    expected = np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=1e-10)[0]
    np.testing.assert_allclose(fitted.coef_, expected, atol=1e-8)


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8, 1e10])
def test_linear_survives_condition_numbers_that_normal_equations_do_not(condition):
    shared = sources(2000, 6)
    x, y = shared @ mixing(6, 0, condition), shared @ mixing(6, 5)
    fitted = Linear().fit(x, y)
    assert fitted.rank_ == 6
    assert fitted.residuals(x, y).max() < 1e-15 * condition * 1e3 + 1e-9


def test_float32_rounding_is_not_mistaken_for_a_dimension(rng):
    low_rank = rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 10))
    assert Linear().fit(low_rank.astype(np.float32), rng.normal(size=(5000, 2))).rank_ == 4


def test_ica_needs_pairs_only_for_a_signed_permutation():
    shared = sources(5000, 4)
    x, y = shared @ mixing(4, 0), shared @ mixing(4, 3)
    fitted = ICAAlignment().fit(x, y)
    assert sorted(fitted.matched_source_) == [0, 1, 2, 3]
    assert fitted.correlations_.min() > 0.999
    with pytest.raises(isorep.InputError, match="do not determine"):
        ICAAlignment().fit_moments(Moments.from_rows(x, y))


def test_a_shrunk_component_has_its_least_squares_scale(rng):
    shared = sources(5000, 3)
    noise = np.array([0.0, 1.0, 2.0]) * sources(5000, 3)[rng.permutation(5000)]
    x, y = shared @ mixing(3, 0), (shared + noise) @ mixing(3, 3)
    plain, shrunk = (ICAAlignment(shrink=shrink).fit(x, y) for shrink in (False, True))
    there, here = shrunk.target_ica_.transform(y), shrunk.source_ica_.transform(x)
    mapped = shrunk.target_ica_.transform(shrunk.transform(x))
    for a, b in zip(shrunk.matched_source_, shrunk.matched_target_, strict=True):
        slope = (here[:, a] @ there[:, b]) / (here[:, a] @ here[:, a])
        np.testing.assert_allclose(mapped[:, b], slope * here[:, a], atol=1e-6)
    lost = [np.square(y - each.transform(x)).sum() for each in (plain, shrunk)]
    assert lost[1] < 0.9 * lost[0]
    back = [each.reversed(Moments.from_rows(x, y)) for each in (plain, shrunk)]
    assert np.square(x - back[1].transform(y)).sum() < np.square(x - back[0].transform(y)).sum()


@pytest.mark.parametrize("widths", [(6, 4), (4, 6)])
def test_ica_matches_what_two_widths_have_in_common(widths):
    shared = sources(6000, 6)
    x, y = shared[:, : widths[0]] @ mixing(widths[0], 0), shared[:, : widths[1]] @ mixing(widths[1], 3)
    fitted = ICAAlignment().fit(x, y)
    assert len(fitted.correlations_) == 4
    assert fitted.correlations_.min() > 0.99


@pytest.mark.parametrize("aligner", ALIGNERS, ids=lambda a: type(a).__name__)
@pytest.mark.filterwarnings("ignore::isorep.ica.GaussianityWarning")
def test_widths_are_checked_and_transform_has_the_targets_width(rng, aligner):
    x, y = sources(300, 4), rng.normal(size=(300, 3))
    fitted = clone(aligner).fit(x, y)
    assert fitted.transform(x).shape == (300, 3)
    assert fitted.inverse_transform(y).shape == (300, 4)
    with pytest.raises(isorep.InputError, match="4"):
        fitted.transform(x[:, :2])
    with pytest.raises(isorep.InputError, match="3"):
        fitted.inverse_transform(x)


@pytest.mark.parametrize("aligner", ALIGNERS, ids=lambda a: type(a).__name__)
def test_aligners_behave_like_estimators(rng, aligner):
    with pytest.raises(NotFittedError):
        clone(aligner).transform(np.eye(3))
    x = sources(200, 3)
    fitted = pickle.loads(pickle.dumps(clone(aligner).fit(x, x)))
    np.testing.assert_allclose(fitted.transform(x), x, atol=1e-6)


@pytest.mark.parametrize("aligner", ALIGNERS, ids=lambda a: type(a).__name__)
def test_aligners_refuse_what_compare_refuses(rng, aligner):
    x = rng.normal(size=(10, 2))
    bad = x.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3, column 1"):
        clone(aligner).fit(bad, x)
    with pytest.raises(ValueError, match="10 rows"):
        clone(aligner).fit(x, x[:7])


@pytest.mark.parametrize("smallest", [1e-1, 1e-8])
def test_rotations_by_squares_are_those_of_a_decomposition(smallest, monkeypatch):
    """Thousands of columns are rotated by squares where these resolve them; otherwise by a decomposition."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)) * np.geomspace(1, smallest, 5)
    moments = Moments.from_rows(
        x, x @ np.linalg.qr(rng.normal(size=(5, 5)))[0] + 0.1 * smallest * rng.normal(size=x.shape)
    )
    plain = base.rigid_maps(moments)
    monkeypatch.setattr(base, "WIDE_MATRIX", 0)
    squared = base.rigid_maps(moments)
    for mine, other in zip(squared, plain, strict=True):
        np.testing.assert_allclose(mine.matrix, other.matrix, atol=1e-7)
    assert (base.quick_polar(moments.xy, resolved=1e-9) is None) == (smallest < 1e-4)


def test_directions_that_no_row_determines_are_turned_as_near_to_a_guess_as_they_can_be(rng):
    x, y = rng.normal(size=(8, 12)), rng.normal(size=(8, 12))
    cross, guess = x.T @ y, rotation(12, 3)
    found, overlap = nearest_rotation(cross, guess=guess)
    np.testing.assert_allclose(found @ found.T, np.eye(12), atol=1e-12)
    assert overlap == pytest.approx(np.linalg.svd(cross, compute_uv=False).sum())
    assert np.vdot(found, cross) == pytest.approx(overlap)
    # Any other rotation that is as near to the cross-moments differs from it among the directions outside of the rows.
    left, right = (np.linalg.svd(rows)[2][8:] for rows in (x, y))
    assert np.vdot(found, guess) > max(
        np.vdot(found + left.T @ (rotation(4, seed) - left @ found @ right.T) @ right, guess) for seed in range(50)
    )
    again, _ = nearest_rotation(cross * (1 + 1e-15), guess=guess)
    np.testing.assert_allclose(again, found, atol=1e-9)


def test_the_rotation_of_few_rows_is_one_and_as_good_as_that_of_a_full_decomposition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 60)), rng.normal(size=(20, 60))
    cross = (x - x.mean(axis=0)).T @ (y - y.mean(axis=0))
    for found, overlap in (nearest_rotation(cross, 20), nearest_rotation(cross)):
        np.testing.assert_allclose(found @ found.T, np.eye(60), atol=1e-12)
        assert overlap == pytest.approx(np.linalg.svd(cross, compute_uv=False).sum())
        assert np.vdot(found, cross) == pytest.approx(overlap)
