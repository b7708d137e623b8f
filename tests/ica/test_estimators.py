"""Whitening and ICA: scikit-learn's own checks, recovery, equivariance, canonical form."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import isorep
from isorep import ICA, Whitening

from ..data import mixing, sources


@parametrize_with_checks([Whitening(), ICA()])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitened_data_are_white_at_any_condition_number(dtype):
    x = (sources(20000, 6) @ mixing(6, 0, 1e4)).astype(dtype)
    white = Whitening().fit_transform(x)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(6), atol=1e-3)


def test_whitening_keeps_the_numerical_rank_and_comes_back(rng):
    x = rng.normal(size=(500, 3))
    x = np.column_stack([x, x[:, 0], np.ones(500)])
    fitted = Whitening().fit(x)
    assert fitted.rank_ == 3
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(x)), x, atol=1e-10)
    with pytest.raises(ValueError, match="rank 3"):
        Whitening(n_components=4).fit(x)
    with pytest.raises(ValueError, match="no variance"):
        Whitening().fit(np.ones((5, 2)))


@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
def test_sub_and_super_gaussian_sources_are_recovered(contrast):
    true = sources(20000, 6)
    found = ICA(contrast=contrast).fit(true @ mixing(6, 0))
    correlations = np.abs(np.corrcoef(true.T, found.transform(true @ mixing(6, 0)).T)[:6, 6:])
    assert (correlations.max(axis=1) > 0.98).all()
    assert found.converged_


def test_any_invertible_mixing_gives_the_same_components():
    true = sources(8000, 5)
    first = ICA().fit_transform(true @ mixing(5, 0))
    second = ICA().fit_transform(true @ mixing(5, 7) + 3)
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_components_come_in_canonical_form_and_invert():
    x = sources(8000, 5) @ mixing(5, 0)
    fitted = ICA().fit(x)
    found = fitted.transform(x)
    assert (np.diff(np.abs(fitted.contrast_)) <= 1e-12).all()
    assert ((found**3).mean(axis=0) >= 0).all()
    np.testing.assert_allclose(fitted.inverse_transform(found), x, atol=1e-10)


def test_a_warm_start_from_the_same_data_stays_there():
    x = sources(5000, 5) @ mixing(5, 0)
    cold = ICA().fit(x)
    warm = ICA().fit(x, start=cold.components_)
    assert warm.n_iter_ <= 3
    np.testing.assert_allclose(warm.components_, cold.components_, atol=1e-3)


def test_rows_can_be_sampled(rng):
    x = sources(20000, 3) @ mixing(3, 0)
    sampled = ICA(max_rows=5000).fit(x)
    full = ICA().fit(x)
    correlation = np.corrcoef(sampled.transform(x).T, full.transform(x).T)[:3, 3:]
    assert np.abs(np.diag(correlation)).min() > 0.99


def test_gaussian_data_do_not_settle_and_say_so_without_a_warning(rng):
    assert ICA(max_iter=5, tol=1e-12).fit(rng.normal(size=(500, 6))).converged_ is False


def test_an_unknown_contrast_is_refused():
    with pytest.raises(isorep.InputError, match="logcosh, exp, cube"):
        ICA(contrast="tanh").fit(np.eye(4))
