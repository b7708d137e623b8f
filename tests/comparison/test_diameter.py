"""The diameter is that of the brute-force search, and its bounds hold."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

import isorep

from ..data import rotation

diameters = import_module("isorep.comparison.diameter")


@given(st.integers(2, 60), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from(["normal", "heavy", "ties"]))
def test_exact_search_equals_brute_force_and_bounds_hold(n, d, seed, kind):
    rng = np.random.default_rng(seed)
    x = rng.standard_cauchy((n, d)) if kind == "heavy" else rng.normal(size=(n, d))
    if kind == "ties":
        x = np.sign(x)
    true = pdist(x).max()
    found = isorep.diameter(x, search="exact")
    assert found.value == pytest.approx(true, rel=1e-9, abs=1e-12)
    assert found.exact
    bound = isorep.diameter(x, search="bound")
    assert bound.lower <= true * (1 + 1e-9)
    assert bound.upper >= true * (1 - 1e-9)
    i, j = found.rows
    assert np.linalg.norm(x[i] - x[j]) == pytest.approx(found.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("heavy", [False, True])
def test_many_tiles_in_bounded_memory(rng, monkeypatch, dtype, shift, heavy):
    if dtype == np.float16:
        shift /= 100  # about a thousand, float16 does not resolve a spread of one
    monkeypatch.setattr(diameters, "_TILE", 64)
    monkeypatch.setattr(diameters, "_HELD_BYTES", 0)
    x = rng.normal(size=(1500, 8))
    if heavy:
        x[::100] *= 5
    x = (x + shift).astype(dtype)
    assert isorep.diameter(x, search="exact").value == pytest.approx(pdist(x.astype(np.float64)).max(), rel=1e-6)


def test_a_long_search_is_replaced_by_the_bound_and_says_so(rng, monkeypatch):
    monkeypatch.setattr(diameters, "BUDGET", 1e3)
    x = rng.normal(size=(500, 5))
    found = isorep.diameter(x)
    assert not found.exact
    assert found.value == found.lower <= pdist(x).max() <= found.upper
    result = isorep.compare(x, x @ rotation(5, 0), n_null=0, n_boot=0, rungs=("rigid",))
    assert any("lies between" in caveat for caveat in result.caveats)


def test_pruning_visits_few_rows_of_a_heavy_tailed_cloud(rng):
    x = rng.normal(size=(5000, 20))
    x[:50] *= 5
    cloud = diameters._Cloud(x, x.mean(0), 1.0)
    best, _ = cloud.walk()
    assert diameters._count_candidates(cloud.norms[cloud.order], best) <= 60


def test_memory_maps_and_bad_calls(rng, tmp_path):
    x = rng.normal(size=(200, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    assert isorep.diameter(isorep.read(tmp_path / "x.npy")).value == pytest.approx(
        pdist(x.astype(float)).max(), rel=1e-6
    )
    with pytest.raises(isorep.InputError, match="auto, exact, bound"):
        isorep.diameter(x, search="fast")
    x[3, 1] = np.inf
    with pytest.raises(isorep.InputError, match="1 infinite value, the first at row 3, column 1"):
        isorep.diameter(x)


def test_identical_rows_have_diameter_zero():
    assert isorep.diameter(np.full((5, 2), 3.0)).value == 0
