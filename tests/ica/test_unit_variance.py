"""Sources have unit variance whatever the columns, and columns that do not count are named."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isorep
from isorep import ICA, Whitening
from isorep.errors import InputError
from isorep.ica import summarise
from isorep.ica.model import load_model, model_facts, save_model
from isorep.storage.model_files import save_arrays

from ..data import mixing, sources

TOLERANCE = 1e-3
FLOATS = st.sampled_from([np.float32, np.float64])


def fitted(estimator, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator.fit(x)


def covariance_error(estimator, x):
    found = np.asarray(estimator.transform(x), np.float64)
    assert np.isfinite(found).all()
    return np.abs(np.cov(found.T, bias=True).reshape(found.shape[1], -1) - np.eye(found.shape[1])).max()


def embeddings(n=600, alive=8, dead=(1e-33, 1e-7, 9e-6), dtype=np.float32, seed=0):
    """Rows such as released models give, the dead columns last."""
    rng = np.random.default_rng(seed)
    values = 0.05 * sources(n, alive, seed) @ mixing(alive, seed + 1, 5.0)
    return np.column_stack([values, 0.05 * np.array(dead) * rng.normal(size=(n, len(dead)))]).astype(dtype)


@st.composite
def hostile(draw):
    """Columns of any scale, constant, equal, nearly equal, with a large mean; few rows or many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype, n, d = draw(FLOATS), draw(st.sampled_from([2, 3, 7, 60, 300])), draw(st.integers(1, 7))
    x = rng.laplace(size=(n, d))
    if draw(st.booleans()):
        x = x @ mixing(d, 0, 10.0 ** draw(st.floats(0, 11)))
    exponents = st.floats(-33, 9) if draw(st.booleans()) else st.floats(-6, 2)
    x = x * 10.0 ** np.array(draw(st.lists(exponents, min_size=d, max_size=d)))
    for column in range(d):
        kind = draw(st.sampled_from(["as it is", "as it is", "constant", "equal", "nearly equal", "large mean"]))
        other = int(rng.integers(d))
        if kind == "constant":
            x[:, column] = x[0, column]
        elif kind == "equal":
            x[:, column] = x[:, other]
        elif kind == "nearly equal":
            x[:, column] = x[:, other] * (1 + 10.0 ** rng.uniform(-17, -3) * rng.normal(size=n))
        elif kind == "large mean":
            x[:, column] += 10.0 ** rng.uniform(0, 15) * x[:, column].std()
    with np.errstate(under="ignore"):
        return x.astype(dtype)


@settings(max_examples=150, deadline=None)
@given(hostile(), st.booleans(), st.booleans())
def test_sources_have_unit_variance_whatever_the_columns(x, standardise, rotated):
    estimator = ICA(standardise=standardise, max_iter=30) if rotated else Whitening(standardise=standardise)
    eps = np.finfo(x.dtype).eps
    if (np.ptp(x, axis=0) <= 2 * eps * np.abs(x).max(axis=0)).all():
        with pytest.raises(InputError, match="no variance"):
            fitted(estimator, x)
        return
    try:
        fitted(estimator, x)
    except InputError:  # hardly more than that: rounding about a large mean
        assert (x.std(axis=0, dtype=np.float64) <= 10 * eps * np.abs(x).max(axis=0)).all()
        return
    assert covariance_error(estimator, x) < TOLERANCE
    assert not estimator.components_[:, estimator.left_out_columns_].any()
    round_trip = estimator.components_ @ estimator.mixing_
    np.testing.assert_allclose(round_trip, np.eye(len(round_trip)), atol=TOLERANCE)
    if standardise:
        assert not estimator.left_out_spreads_.any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(500, 12), (9, 12)])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_dead_columns_are_left_out_and_named(dtype, shape, mean):
    x = embeddings(shape[0], shape[1], dtype=np.float64)
    x[:, 2] = 0.3
    x = (x + mean).astype(dtype)
    ica = fitted(ICA(), x)
    assert ica.rank_ == min(11, shape[0] - 1)
    assert ica.left_out_columns_.tolist() == [2, 12, 13, 14]
    assert ica.left_out_spreads_[0] == 0
    assert (ica.left_out_spreads_ < 1e-4 * np.median(x.std(axis=0, dtype=np.float64))).all()
    assert covariance_error(ica, x) < TOLERANCE
    alone = fitted(ICA(), np.ascontiguousarray(x[:, [0, 1, *range(3, 12)]]))
    np.testing.assert_allclose(ica.singular_values_, alone.singular_values_, rtol=1e-6)


def test_sources_do_not_depend_on_dead_columns():
    x = embeddings(4000, 6, dtype=np.float64)
    with_dead, without = fitted(ICA(), x), fitted(ICA(), np.ascontiguousarray(x[:, :6]))
    np.testing.assert_allclose(with_dead.transform(x), without.transform(x[:, :6]), atol=1e-3)
    back = with_dead.inverse_transform(with_dead.transform(x))
    np.testing.assert_allclose(back[:, :6], x[:, :6], atol=1e-9)
    np.testing.assert_allclose(back[:, 6:], np.broadcast_to(x[:, 6:].mean(axis=0), (4000, 3)), atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_in_different_units_all_count_when_standardised(dtype):
    true = sources(5000, 6)
    units = np.array([1e-6, 1.0, 1e9, 1e3, 1e-3, 30.0])
    x = ((true @ mixing(6, 3, 5.0)) * units).astype(dtype)
    ica = fitted(ICA(standardise=True), x)
    assert ica.rank_ == 6
    assert len(ica.left_out_columns_) == 0
    found = np.abs(np.corrcoef(true.T, ica.transform(x).T)[:6, 6:])
    assert found.max(axis=1).min() > 0.99
    assert covariance_error(ica, x) < TOLERANCE
    assert fitted(ICA(), x).rank_ < 6


def test_axes_of_standardised_columns_do_not_depend_on_units():
    x = sources(3000, 5) @ mixing(5, 3, 5.0)
    units = np.array([1e-6, 1.0, 1e9, 1e3, 1e-3])
    plain, scaled = (Whitening(3, standardise=True).fit(each) for each in (x, x * units))
    np.testing.assert_allclose(plain.singular_values_, scaled.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(plain.transform(x)), np.abs(scaled.transform(x * units)), atol=1e-6)
    correlation = np.linalg.eigvalsh(np.corrcoef(x.T))[::-1]
    np.testing.assert_allclose(plain.singular_values_**2, correlation[:3], rtol=1e-9)
    zca = Whitening(kind="zca", standardise=True).fit(x * units)
    np.testing.assert_allclose(np.cov(zca.transform(x * units).T, bias=True), np.eye(5), atol=1e-6)
    np.testing.assert_allclose(zca.inverse_transform(zca.transform(x * units)), x * units, rtol=1e-6)


def test_a_fit_warns_of_columns_that_hardly_vary():
    x = embeddings(dtype=np.float64)
    for estimator in (ICA(), Whitening()):
        with pytest.warns(UserWarning, match=r"3 columns of X hardly vary .*: 8 \(5e-35\), 9 \(.*standardise"):
            estimator.fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Whitening(standardise=True).fit(x)
        Whitening().fit(np.column_stack([x[:, :8], np.ones(len(x))]))


def test_without_whitening_there_is_nothing_to_standardise():
    with pytest.raises(InputError, match="standardise belongs to whitening"):
        ICA(whiten=None, standardise=True).fit(embeddings())


def test_storage_makes_no_difference(tmp_path):
    da = pytest.importorskip("dask.array")
    x = embeddings(3000, 8)
    np.save(tmp_path / "x.npy", x)
    ways = {
        "array": x,
        "memory map": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "file": isorep.read(tmp_path / "x.npy"),
        "dask": da.from_array(x, chunks=(701, -1)),
    }
    for rows in ways.values():
        ica = fitted(ICA(), rows)
        assert ica.left_out_columns_.tolist() == [8, 9, 10]
        assert covariance_error(ica, rows) < TOLERANCE


def test_refits_leave_the_same_columns_out(tmp_path):
    x = embeddings(1500, 4, dtype=np.float64)
    found = isorep.stability(x, 3)
    assert found.comes_back.all()
    assert found.ica.rank_ == 4
    assert any("3 columns of X hardly vary" in said for said in found.caveats)
    assert found.to_dict()["left_out"]["columns"] == [4, 5, 6]
    units = np.array([1e-6, 1.0, 1e9, 1.0])
    mixed = isorep.stability(x[:, :4] * units, 3, ica=ICA(standardise=True))
    assert mixed.comes_back.all()
    assert mixed.ica.rank_ == 4
    fewer = isorep.stability(x[:, :4] * units, 3, ica=ICA(n_components=2, standardise=True))
    assert (fewer.correlations <= 1).all()
    assert fewer.correlations.max() > 0.5


def test_the_summary_names_columns_by_their_titles():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(embeddings(dtype=np.float64), columns=[f"f{place}" for place in range(11)])
    said = summarise(fitted(ICA(), x), name="a.npy", rows=600)
    assert said["left_out"]["columns"] == [8, 9, 10]
    assert sum("3 columns of a.npy hardly vary" in each and "f8 (5e-35)" in each for each in said["caveats"]) == 1
    assert not any("directions vary" in each for each in said["caveats"])


def test_a_model_keeps_what_was_left_out(tmp_path):
    path = tmp_path / "m.safetensors"
    ica = fitted(ICA(), embeddings())
    ica.save(path)
    again = load_model(path)
    np.testing.assert_array_equal(again.left_out_columns_, ica.left_out_columns_)
    np.testing.assert_array_equal(again.left_out_spreads_, ica.left_out_spreads_)
    assert again.standardise is False
    fitted(ICA(standardise=True), embeddings(dead=())).save(path)
    assert load_model(path).standardise is True


def older(path, ica, **changes):
    """A file as it was written before columns were listed."""
    from safetensors.numpy import load_file

    save_model(ica, path)
    facts, arrays = model_facts(path), load_file(path)
    del facts["left_out"], facts["settings"]["standardise"]
    save_arrays(path, arrays, facts | changes)


def test_models_of_earlier_versions_can_be_read(tmp_path):
    path, x = tmp_path / "m.safetensors", embeddings(dead=())
    x[:, 3] = 1
    ica = fitted(ICA(), x)
    older(path, ica)
    again = load_model(path)
    assert again.get_params() == ica.get_params()
    assert again.left_out_columns_.tolist() == [3]
    np.testing.assert_array_equal(again.transform(x), ica.transform(x))


@pytest.mark.parametrize(
    "left_out", [[[0], []], [[99], [0.0]], [["a"], [0.0]], [[1], [-1.0]], [[1], ["x"]], 3, [[True], [1.0]]]
)
def test_a_damaged_list_of_columns_is_refused(tmp_path, left_out):
    path = tmp_path / "m.safetensors"
    older(path, fitted(ICA(), embeddings(dead=())), left_out=left_out)
    with pytest.raises(InputError, match="left out does not fit"):
        load_model(path)
