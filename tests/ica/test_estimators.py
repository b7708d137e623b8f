"""Whitening and ICA: scikit-learn's own checks, recovery, equivariance, canonical form, hard and bad input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import FastICA
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import isorep
from isorep import ICA, Whitening
from isorep.ica import GaussianityWarning, white
from isorep.ica.white import canonical_form
from isorep.storage import scratch

from ..data import mixing, rotation, sources


@parametrize_with_checks([Whitening(), Whitening(kind="zca"), ICA(), ICA(whiten=None)])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


# Whitening ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whitened_data_are_white_at_any_condition_number(dtype):
    x = (sources(20000, 6) @ mixing(6, 0, 1e4)).astype(dtype)
    white = Whitening().fit_transform(x)
    assert white.dtype == dtype
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


def test_zca_is_the_whitening_that_changes_the_data_least(rng):
    x = rng.normal(size=(2000, 5)) @ mixing(5, 1, 100)
    x = np.column_stack([x, x[:, 0]])
    zca, pca = Whitening(kind="zca").fit(x), Whitening().fit(x)
    assert zca.transform(x).shape == (2000, 6)
    np.testing.assert_allclose(zca.components_, zca.components_.T, atol=1e-9)
    projection = pca.components_.T @ pca.mixing_.T
    np.testing.assert_allclose(np.cov(zca.transform(x).T, bias=True), projection, atol=1e-8)
    np.testing.assert_allclose(zca.inverse_transform(zca.transform(x)), x, atol=1e-9)
    centred = x - x.mean(0)
    turned = pca.transform(x) @ rotation(5, 3) @ (pca.mixing_ / np.linalg.norm(pca.mixing_, axis=0)).T
    assert np.linalg.norm(centred - zca.transform(x)) < np.linalg.norm(centred - turned)


def test_an_unknown_kind_is_refused():
    with pytest.raises(isorep.InputError, match="pca, zca"):
        Whitening(kind="cholesky").fit(np.eye(4))


# Recovery and its symmetries ------------------------------------------------------------------------------------


def matched(true, found):
    """Absolute correlation of every true source with its own component."""
    from scipy.optimize import linear_sum_assignment

    d = true.shape[1]
    correlation = np.abs(np.corrcoef(true.T, found.T)[:d, d:])
    rows, columns = linear_sum_assignment(-correlation)
    return correlation[rows, columns]


@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sub_and_super_gaussian_sources_are_recovered(contrast, dtype):
    true = sources(20000, 6)
    x = (true @ mixing(6, 0)).astype(dtype)
    found = ICA(contrast=contrast).fit(x)
    assert matched(true, found.transform(x)).min() > 0.98
    assert found.converged_
    assert found.transform(x).dtype == dtype


def test_many_sources_are_recovered_through_a_bad_mixing():
    true = sources(30000, 60, seed=3)
    x = (true @ mixing(60, 0, 1e3)).astype(np.float32)
    fitted = ICA().fit(x)
    assert matched(true, fitted.transform(x)).min() > 0.99
    assert fitted.converged_
    assert not fitted.gaussian_.any()
    assert not fitted.unsettled_.any()
    assert (np.diff(fitted.path_[:, 0]) >= 0).all()
    assert fitted.path_[-1, 1] == pytest.approx(np.abs(fitted.contrast_).sum(), rel=1e-4)


def test_any_invertible_mixing_gives_the_same_components():
    true = sources(8000, 24)
    first = ICA(tol=1e-7).fit_transform(true @ mixing(24, 0))
    second = ICA(tol=1e-7).fit_transform(true @ mixing(24, 7, 1e3) + 3)
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_single_precision_loses_nothing_at_condition_number_1e4():
    x = sources(20000, 12) @ mixing(12, 0, 1e4)
    double = ICA().fit(x)
    single = ICA().fit(x.astype(np.float32))
    scale = np.abs(double.components_).max(axis=1, keepdims=True)
    np.testing.assert_allclose(single.components_ / scale, double.components_ / scale, atol=1e-3)
    np.testing.assert_allclose(single.transform(x), double.transform(x), atol=5e-3)


def test_neither_blocks_nor_threads_change_the_answer(monkeypatch):
    x = (sources(9000, 20) @ mixing(20, 0)).astype(np.float64)
    usual = ICA().fit(x)
    with threadpool_limits(1):
        alone = ICA().fit(x)
    monkeypatch.setattr(white, "_BLOCK_CELLS", 20 * 300)
    blocked = ICA().fit(x)
    np.testing.assert_allclose(alone.components_, usual.components_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(blocked.components_, usual.components_, rtol=1e-9, atol=1e-9)


def test_components_come_in_canonical_form_and_invert():
    x = sources(8000, 5) @ mixing(5, 0)
    fitted = ICA().fit(x)
    found = fitted.transform(x)
    assert (np.diff(np.abs(fitted.contrast_)) <= 1e-12).all()
    assert ((found**3).mean(axis=0) >= 0).all()
    np.testing.assert_allclose(fitted.skewness_, (found**3).mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(fitted.kurtosis_, (found**4).mean(axis=0) - 3, atol=1e-8)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(5), atol=1e-10)
    np.testing.assert_allclose(fitted.inverse_transform(found), x, atol=1e-10)


@pytest.mark.parametrize("seed", [1, 2, None, np.random.RandomState(5)])
def test_restarts_give_the_same_components(seed):
    x = sources(8000, 18) @ mixing(18, 0)
    np.testing.assert_allclose(ICA(random_state=seed).fit_transform(x), ICA().fit_transform(x), atol=1e-3)


def test_it_agrees_with_scikit_learn_where_that_converges():
    x = sources(10000, 10) @ mixing(10, 0, 3.0)
    theirs = FastICA(whiten="unit-variance", tol=1e-12, max_iter=1000, random_state=0).fit_transform(x)
    ours = ICA(tol=1e-7).fit_transform(x)
    assert matched(theirs, ours).min() > 1 - 1e-6


@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_whitening_it_does_what_scikit_learn_does(contrast):
    x = Whitening().fit_transform(sources(4000, 5) @ mixing(5, 0)) * 1.3
    theirs = FastICA(whiten=False, fun=contrast, tol=1e-8, max_iter=15, random_state=3).fit(x)
    ours = ICA(whiten=None, contrast=contrast, tol=1e-8, max_iter=15, random_state=3).fit(x)
    product = np.abs(ours.components_ @ theirs.components_.T)
    np.testing.assert_allclose(np.sort(product, axis=1)[:, -1], 1, atol=1e-6)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(x)), x, atol=1e-9)
    with pytest.warns(UserWarning, match="n_components=2 is ignored"):
        assert ICA(2, whiten=None).fit_transform(x).shape == x.shape


def test_zca_gives_the_same_components():
    x = sources(6000, 6) @ mixing(6, 0)
    np.testing.assert_allclose(ICA(whiten="zca").fit_transform(x), ICA().fit_transform(x), atol=1e-6)


def test_a_warm_start_from_the_same_data_stays_there():
    x = sources(5000, 5) @ mixing(5, 0)
    cold = ICA().fit(x)
    warm = ICA().fit(x, start=cold.components_)
    assert warm.n_iter_ <= 2
    np.testing.assert_allclose(warm.components_, cold.components_, atol=1e-3)


def test_fitted_transformers_clone_pickle_and_name_their_columns():
    x = sources(2000, 4) @ mixing(4, 0)
    fitted = ICA(3).fit(x)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(x), fitted.transform(x))
    assert not hasattr(clone(fitted), "components_")
    assert list(fitted.get_feature_names_out()) == ["ica0", "ica1", "ica2"]
    frame = ICA(3).set_output(transform="pandas").fit_transform(x)
    assert list(frame.columns) == ["ica0", "ica1", "ica2"]


# Gaussian and hard data -----------------------------------------------------------------------------------------


def test_gaussian_components_are_named_and_the_others_found(rng):
    true = np.column_stack([sources(20000, 12), rng.normal(size=(20000, 6))])
    x = true @ mixing(18, 2)
    with pytest.warns(GaussianityWarning, match="6 of 18"):
        fitted = ICA().fit(x)
    assert fitted.converged_
    found = fitted.transform(x)
    assert fitted.gaussian_.sum() == 6
    assert matched(true[:, :12], found[:, ~fitted.gaussian_]).min() > 0.99
    spanned = np.linalg.lstsq(found[:, fitted.gaussian_], true[:, 12:], rcond=None)[0]
    assert np.corrcoef((found[:, fitted.gaussian_] @ spanned).ravel(), true[:, 12:].ravel())[0, 1] > 0.99
    weak = fitted.conditioning_[np.ix_(fitted.gaussian_, fitted.gaussian_)]
    strong = fitted.conditioning_[np.ix_(~fitted.gaussian_, ~fitted.gaussian_)]
    assert np.median(weak) < 0.2 * np.median(strong)


def test_a_single_gaussian_component_is_determined_by_the_others(rng):
    true = np.column_stack([sources(20000, 5), rng.normal(size=20000)])
    fitted = ICA().fit(true @ mixing(6, 2))
    assert matched(true, fitted.transform(true @ mixing(6, 2))).min() > 0.98


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_clusters_and_shared_scales_end_in_optima_as_good_as_the_fixed_point_s():
    ratios = []
    for seed in range(4):
        x = hard(8000, 24, seed)
        ours = ICA().fit(x)
        assert ours.converged_
        best = max(
            contrast_of(FastICA(whiten="unit-variance", max_iter=300, tol=1e-7, random_state=start).fit_transform(x))
            for start in range(2)
        )
        ratios.append(np.abs(ours.contrast_).sum() / best)
    assert np.median(ratios) > 0.9995
    assert min(ratios) > 0.985


def test_weak_sources_are_found_as_well_as_by_scikit_learn():
    rng = np.random.default_rng(4)
    weak = (rng.normal(size=(20000, 8)) + 0.5 * rng.laplace(size=(20000, 8))) / np.sqrt(1.5)
    true = np.column_stack([sources(20000, 24, seed=4), weak])
    x = (true @ mixing(32, 0, 1e3)).astype(np.float32)
    theirs = FastICA(random_state=0).fit_transform(x.astype(np.float64))
    assert matched(true, ICA().fit_transform(x)).mean() > matched(true, theirs).mean() - 5e-4


def hard(n, d, seed):
    """A quarter of the sources Gaussian, the others with shared scales, and clusters across all of them."""
    rng = np.random.default_rng(seed)
    values = sources(n, d, seed)
    values[:, : d // 4] = rng.normal(size=(n, d // 4))
    values[:, ::3] *= np.exp(0.4 * rng.normal(size=(n, 1)))
    values += 0.7 * rng.normal(size=(6, d))[rng.integers(0, 6, n)]
    return values @ mixing(d, seed)


def contrast_of(found):
    found = (found - found.mean(0)) / found.std(0)
    return np.abs(np.log(np.cosh(found)).mean(0) - 0.37456720749143807).sum()


def test_all_gaussian_data_warn_of_that_and_not_of_convergence(rng):
    with pytest.warns(GaussianityWarning, match="6 of 6"):
        fitted = ICA().fit(rng.normal(size=(5000, 6)))
    assert fitted.converged_


@pytest.mark.filterwarnings("ignore::isorep.ica.GaussianityWarning")
def test_too_few_sweeps_say_so(rng):
    with pytest.warns(UserWarning, match="raise max_iter"):
        assert ICA(max_iter=1).fit(sources(3000, 40) @ mixing(40, 0)).converged_ is False


# Shapes and sources of rows -------------------------------------------------------------------------------------


def test_constant_and_duplicate_columns_are_left_out():
    x = sources(4000, 4) @ mixing(4, 0)
    wide = np.column_stack([x, np.full(4000, 7.0), x[:, 1], 2 * x[:, 0] - x[:, 3]])
    fitted = ICA().fit(wide)
    assert fitted.rank_ == 4
    assert fitted.components_.shape == (4, 7)
    np.testing.assert_allclose(fitted.transform(wide), ICA().fit_transform(x), atol=1e-3)
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(wide)), wide, atol=1e-8)


def test_rank_one_has_one_component(rng):
    x = np.outer(rng.laplace(size=300), [1.0, 2.0, -1.0])
    fitted = ICA().fit(x)
    assert fitted.rank_ == 1
    assert fitted.converged_
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(x)), x, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fewer_rows_than_columns_have_fewer_components(rng):
    x = rng.laplace(size=(12, 30))
    fitted = ICA().fit(x)
    assert fitted.rank_ == 11
    assert np.isfinite(fitted.components_).all()
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(x)), x, atol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 33, 64, 65])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_handful_of_rows_is_fitted_without_nonsense(rng, n):
    fitted = ICA().fit(rng.laplace(size=(n, 2)))
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(fitted.conditioning_).all()


@pytest.mark.filterwarnings("ignore::isorep.ica.GaussianityWarning")
def test_integers_are_taken_as_numbers(rng):
    counts = rng.poisson(3, size=(3000, 3))
    np.testing.assert_array_equal(ICA().fit(counts).components_, ICA().fit(counts.astype(float)).components_)


def test_what_cannot_be_fitted_is_refused_in_a_sentence():
    x = sources(100, 3)
    with pytest.raises(ValueError, match="no variance"):
        ICA().fit(np.ones((10, 3)))
    with pytest.raises(ValueError, match="contains NaN"):
        ICA().fit(np.where(np.arange(3) == 1, np.nan, x))
    with pytest.raises(ValueError, match="rank 3"):
        ICA(4).fit(x)
    with pytest.raises(isorep.InputError, match="logcosh, exp, cube"):
        ICA(contrast="tanh").fit(x)
    with pytest.raises(isorep.InputError, match="pca, zca, None"):
        ICA(whiten=True).fit(x)
    with pytest.raises(isorep.InputError, match="must be positive"):
        ICA(tol=0).fit(x)
    with pytest.raises(isorep.InputError, match="whole number"):
        ICA("mle").fit(x)
    with pytest.raises(isorep.InputError, match="rescale"):
        ICA().fit(1e-160 * x)
    with pytest.raises(isorep.InputError, match=r"start has the shape \(3, 2\)"):
        ICA().fit(x, start=np.ones((3, 2)))
    with pytest.raises(ValueError, match="minimum of 2"):
        ICA().fit(x[:1])


def test_rows_are_read_from_where_they_lie(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("zarr")
    x = (sources(6000, 6) @ mixing(6, 0)).astype(np.float32)
    expected = ICA().fit(x).components_
    for suffix in ("npy", "parquet", "zarr"):
        isorep.write(isorep.Representation(x), tmp_path / f"rows.{suffix}")
        stored = isorep.read(tmp_path / f"rows.{suffix}")
        fitted = ICA().fit(stored)
        np.testing.assert_allclose(fitted.components_, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fitted.transform(stored), x @ expected.T - x.mean(0) @ expected.T, atol=1e-3)
        assert Whitening().fit(stored).rank_ == 6
    with pytest.raises(isorep.InputError, match="5 features, but ICA is expecting 6"):
        fitted.transform(np.lib.format.open_memmap(tmp_path / "five.npy", "w+", np.float32, (4, 5)))


def test_a_memory_map_with_nonsense_is_refused(tmp_path):
    bad = np.lib.format.open_memmap(tmp_path / "bad.npy", "w+", np.float32, (50, 3))
    bad[:] = 1
    bad[7, 2] = np.inf
    with pytest.raises(isorep.InputError, match="row 7, column 2"):
        ICA().fit(bad)
    whole = np.lib.format.open_memmap(tmp_path / "whole.npy", "w+", np.int64, (50, 3))
    with pytest.raises(isorep.InputError, match="int64"):
        ICA().fit(whole)
    deep = np.lib.format.open_memmap(tmp_path / "deep.npy", "w+", np.float32, (5, 3, 2))
    with pytest.raises(isorep.InputError, match="shape"):
        ICA().fit(deep)
    single = np.lib.format.open_memmap(tmp_path / "single.npy", "w+", np.float32, (1, 3))
    with pytest.raises(isorep.InputError, match="at least two rows, and there are 1"):
        ICA().fit(single)


def test_components_are_mapped_back_from_where_they_lie(tmp_path):
    x = (sources(3000, 5) @ mixing(5, 0)).astype(np.float32)
    for fitted in (ICA().fit(x), Whitening().fit(x)):
        found = fitted.transform(x)
        back = fitted.inverse_transform(found)
        assert back.dtype == np.float32
        np.testing.assert_allclose(back, x, atol=1e-4)
        np.testing.assert_array_equal(fitted.inverse_transform(isorep.Representation(found)), back)
        with pytest.raises(isorep.InputError, match="5 components"):
            fitted.inverse_transform(found[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            fitted.inverse_transform(np.full((2, 5), np.nan))
    bad = np.lib.format.open_memmap(tmp_path / "bad.npy", "w+", np.float32, (50, 5))
    bad[3, 3] = np.nan
    with pytest.raises(isorep.InputError, match="1 NaN value, the first at row 3, column 3"):
        fitted.transform(bad)


def test_a_refit_forgets_the_fit_before(tmp_path):
    pandas = pytest.importorskip("pandas")
    x = sources(3000, 5) @ mixing(5, 0)
    fitted = ICA().fit(pandas.DataFrame(x, columns=list("abcde")))
    np.save(tmp_path / "x.npy", x[:, :4])
    fitted.fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.n_features_in_ == 4
    fitted.set_params(whiten=None).fit(x)
    assert not hasattr(fitted, "gaussian_")
    with pytest.raises(isorep.InputError, match="no checkpoint"):
        fitted.fit(x, checkpoint=tmp_path / "fit.checkpoint")


@pytest.mark.filterwarnings("ignore::isorep.ica.GaussianityWarning")
def test_part_gaussian_data_of_few_rows_always_settle():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = np.hstack([rng.laplace(size=(2000, 6)), rng.normal(size=(2000, 4))])
        assert ICA().fit(x).converged_, seed


@pytest.mark.parametrize("shape", [(45, 40), (60, 50)])
def test_hardly_more_rows_than_columns_determine_nothing(shape, rng):
    with pytest.warns(GaussianityWarning):
        assert ICA().fit(rng.normal(size=shape)).gaussian_.all()


def test_a_fit_that_ends_at_a_saddle_does_not_claim_to_have_settled(rng):
    s = rng.uniform(-1, 1, (2000, 2))
    s = np.vstack([s, -s, s * [1, -1], s * [-1, 1]])
    s = np.vstack([s, s[:, ::-1]])
    halfway = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    with pytest.warns(UserWarning, match="raise max_iter"):
        stuck = ICA(max_iter=1).fit(s, start=halfway)
    assert not stuck.converged_
    assert stuck.unsettled_.all()
    assert ICA().fit(s, start=halfway).conditioning_.min() > 0


def test_scratch_space_gives_the_same_answer_and_is_refused_when_there_is_none(monkeypatch):
    x = (sources(6000, 20) @ mixing(20, 0)).astype(np.float32)
    expected = ICA().fit(x).components_
    monkeypatch.setattr(scratch, "WORK_LIMIT", 1000)
    monkeypatch.setattr(scratch, "memory_size", lambda: 0)
    np.testing.assert_array_equal(ICA().fit(x).components_, expected)
    monkeypatch.setattr(scratch, "DISK_RESERVE", 2**62)
    with pytest.raises(isorep.InputError, match="TMPDIR"):
        ICA().fit(x)


def test_many_rows_are_searched_by_a_sample(monkeypatch):
    from isorep.ica import search

    x = (sources(30000, 16) @ mixing(16, 0)).astype(np.float64)
    expected = ICA().fit(x)
    monkeypatch.setattr(search, "ROWS_A_PLANE", 20.0)
    monkeypatch.setattr(search, "LEAST_ROWS", 0)
    sampled = ICA().fit(x)
    np.testing.assert_allclose(sampled.transform(x), expected.transform(x), atol=5e-3)


def _symmetric(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sources without skewness: every row beside its mirror image."""
    grid = np.sqrt(3) * (2 * (np.arange(n) + 0.5) / n - 1)
    half = np.column_stack([rng.permutation(grid) for _ in range(3)])
    return np.vstack([half, -half]), np.array([[3.0, 0.2, 0.1], [0.3, -2.0, 0.2], [0.1, 0.3, -2.5]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_without_skewness_take_the_sign_of_their_largest_loading(dtype, rng):
    sources, mixing = _symmetric(4000, rng)
    rows = sources @ mixing.T
    for turned in (rows, rows[rng.permutation(len(rows))]):
        fitted = ICA(random_state=0).fit(turned.astype(dtype))
        leading = np.abs(fitted.mixing_).argmax(axis=0)
        assert (np.take_along_axis(fitted.mixing_, leading[None], axis=0) > 0).all()


def test_the_canonical_form_does_not_hang_on_last_digits(rng):
    mixing = np.array([[0.1, 3.0, 0.2], [0.2, 0.1, -2.0], [-2.5, 0.2, 0.3]])
    for _ in range(20):
        excess = np.array([0.3, 0.3, 0.3]) + 1e-9 * rng.normal(size=3)
        order, signs = canonical_form(excess, 1e-9 * rng.normal(size=3), mixing + 1e-9 * rng.normal(size=(3, 3)))
        assert order.tolist() == [1, 2, 0]
        assert signs.tolist() == [-1.0, 1.0, -1.0]


def test_the_canonical_form_follows_contrast_and_skewness_where_they_differ():
    mixing = np.array([[0.1, 3.0, 0.2], [0.2, 0.1, -2.0], [-2.5, 0.2, 0.3]])
    order, signs = canonical_form(np.array([0.2, -0.3, 0.2001]), np.array([0.1, -0.2, 1e-3]), mixing)
    assert order.tolist() == [1, 2, 0]
    assert signs.tolist() == [1.0, -1.0, 1.0]
