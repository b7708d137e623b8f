"""Sweeps in torch give what numpy gives."""

import numpy as np
import pytest

import isorep
from isorep import ICA

from ..data import mixing, sources

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-8), (np.float32, 1e-3)])
def test_torch_and_numpy_agree(contrast, dtype, close):
    x = (sources(6000, 18) @ mixing(18, 0)).astype(dtype)
    ours, theirs = (ICA(contrast=contrast, device=device).fit(x) for device in (None, "cpu"))
    np.testing.assert_allclose(theirs.components_, ours.components_, atol=close, rtol=close)
    for name in ("contrast_", "kurtosis_", "skewness_", "uncertainty_", "conditioning_"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), atol=10 * close, rtol=10 * close)


def test_samples_and_projections_stay_on_the_device(monkeypatch):
    from isorep.ica import search

    monkeypatch.setattr(search, "ROWS_A_PLANE", 8.0)
    monkeypatch.setattr(search, "LEAST_ROWS", 0)
    x = sources(9000, 20) @ mixing(20, 0)
    np.testing.assert_allclose(ICA(device="cpu").fit(x).components_, ICA().fit(x).components_, atol=1e-8)


@pytest.mark.filterwarnings("ignore::isorep.GaussianityWarning")
def test_many_dimensions_begin_at_the_same_rows():
    rng = np.random.default_rng(0)
    x = np.hstack([rng.laplace(size=(4000, 4)), rng.normal(size=(4000, 126))])
    ours, theirs = (ICA(device=device).fit(x) for device in (None, "cpu"))
    assert (~ours.gaussian_).sum() == 4
    np.testing.assert_allclose(theirs.components_[:4], ours.components_[:4], atol=1e-3)


def test_a_device_that_is_not_there_is_refused_in_a_sentence():
    with pytest.raises(isorep.InputError, match="device 'nonsense'"):
        ICA(device="nonsense").fit(sources(100, 3))
    with pytest.raises(isorep.InputError, match="device 'meta': it holds no numbers"):
        ICA(device="meta").fit(sources(100, 3))
    if not torch.cuda.is_available():
        with pytest.raises(isorep.InputError, match="device 'cuda'"):
            ICA(device="cuda").fit(sources(100, 3))
