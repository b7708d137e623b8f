"""Cases that are easy to get wrong: scales, means, coarse storage, bad conditioning, degenerate folds."""

import struct

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import isorep

from ..data import mixing, noisy_pair, rotation, sources

FAST = {"n_null": 5, "n_boot": 50, "worst_case": False}


def save_bfloat16(path, values):
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    end = bits.nbytes
    header = f'{{"z":{{"dtype":"BF16","shape":{list(values.shape)},"data_offsets":[0,{end}]}}}}'.encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bits.tobytes())


def test_the_rounding_of_bfloat16_is_not_taken_for_dimensions(rng, tmp_path):
    values = sources(2000, 4) @ rng.normal(size=(4, 10))
    save_bfloat16(tmp_path / "z.safetensors", values)
    result = isorep.compare(tmp_path / "z.safetensors", values.astype(np.float32), **FAST)
    assert result.source.rank == 4
    assert result.rungs["ica"].in_sample.mean < 0.1
    assert result.rungs["ica"].held_out.mean < 0.2
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(values).to(torch.bfloat16)
    assert isorep.compare(tensor, values, **FAST).source.rank == 4


@pytest.mark.parametrize(("dtype", "mean"), [(np.float64, 1e6), (np.float64, 1e7), (np.float32, 1e3)])
def test_dependent_columns_about_a_large_mean(rng, dtype, mean):
    z = rng.normal(size=(300, 6))
    x = (np.column_stack([z, z[:, 0] + z[:, 1]]) + mean).astype(dtype)
    y = z @ rotation(6, 0) + 0.1 * rng.normal(size=(300, 6))
    result = isorep.compare(x, y, **FAST)
    assert result.source.rank == 6
    plain = isorep.compare(z, y, **FAST)
    assert result.rungs["linear"].held_out.mean == pytest.approx(plain.rungs["linear"].held_out.mean, rel=2e-2)


@pytest.mark.parametrize("condition", [1e7, 1e9, 1e11])
def test_ica_and_linear_follow_to_condition_numbers_beyond_the_reach_of_a_covariance(condition):
    shared = sources(4000, 5)
    result = isorep.compare(shared @ mixing(5, 0, condition), shared @ rotation(5, 3), **FAST)
    assert result.source.rank == 5
    assert result.rungs["linear"].held_out.mean < 1e-3
    assert result.rungs["ica"].in_sample.mean < 5e-3
    assert result.rungs["ica"].held_out.mean < 0.1


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, 1e-25), (np.float32, 1e-23), (np.float32, 1e20), (np.float64, 1e-100), (float, 1e100)],
)
def test_scales_at_the_edge_of_the_dtype_change_nothing(dtype, scale):
    x, y = noisy_pair(200, 3, 0.2)
    plain = isorep.compare(x, y, **FAST)
    scaled = isorep.compare((x * scale).astype(dtype), (y * scale).astype(dtype), **FAST)
    for name in ("rigid", "linear"):
        assert scaled.rungs[name].held_out.mean == pytest.approx(plain.rungs[name].held_out.mean, rel=1e-4)
        assert scaled.rungs[name].null.mean == pytest.approx(plain.rungs[name].null.mean, rel=1e-4)
        assert scaled.rungs[name].interval.high == pytest.approx(plain.rungs[name].interval.high, rel=1e-4)
    assert scaled.diameter.value == pytest.approx(plain.diameter.value * scale, rel=1e-5)


def test_scales_beyond_float64_squares_are_refused():
    x, y = noisy_pair(50, 3, 0.2)
    for scale in (1e-150, 1e150):
        with pytest.raises(isorep.InputError, match="squares"):
            isorep.compare(x * scale, y)
        with pytest.raises(isorep.InputError, match="squares"):
            isorep.diameter(x * scale)


@pytest.mark.parametrize(("n", "d"), [(200, 6), (20, 30)])
def test_sides_whose_ratio_of_sizes_has_no_square_are_refused(n, d):
    x, y = noisy_pair(n, d, 0.2)
    small, large, words = x * 1e-130, y * 1e130, "the values of {} spread .e.260 times as far as those of {}: rescale"
    for sides, names in (((small, large), ("target", "source")), ((large, small), ("source", "target"))):
        with pytest.raises(isorep.InputError, match=words.format(*names)):
            isorep.compare(*sides)
    with pytest.raises(isorep.InputError, match=words.format("run 1", "run 0")):
        isorep.compare_many([small, large, y])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_diameter_among_many_near_ties(rng, dtype):
    x = (np.eye(8)[rng.integers(0, 8, 3000)] + 1e-6 * rng.normal(size=(3000, 8))).astype(dtype)
    tolerance = 1e-12 if dtype is np.float64 else 1e-7
    assert isorep.diameter(x, search="exact").value == pytest.approx(pdist(x.astype(float)).max(), rel=tolerance)


def test_an_efficiency_of_rounding_errors_is_none():
    x = np.random.default_rng(2).normal(size=(60, 3))
    assert isorep.compare(x.astype(np.float16), x, **FAST).ica_efficiency is None


def test_a_weak_relation_is_called_one_in_part():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 4))
    verdict = isorep.compare(x, 0.3 * x + rng.normal(size=x.shape), **FAST).verdict
    assert verdict.rung is not None
    assert verdict.sentence.startswith("source and target are partly related, ")


def test_a_side_that_is_constant_outside_one_fold_is_compared():
    x = np.zeros((200, 3))
    x[7] = [1, 2, 3]
    result = isorep.compare(x, np.random.default_rng(0).normal(size=(200, 3)), **FAST)
    assert np.isfinite(result.rungs["ica"].held_out.mean)
    assert result.verdict.rung is None


def test_an_undetermined_rotation_is_said_to_be_one(rng):
    with pytest.warns(UserWarning, match="only 30 rows"):
        result = isorep.compare(rng.normal(size=(30, 60)), rng.normal(size=(30, 60)), **FAST)
    assert any("rotation is undetermined" in caveat for caveat in result.caveats)


@pytest.mark.parametrize(
    "settings",
    [
        {"tolerance": "a"},
        {"tolerance": None},
        {"rungs": None},
        {"groups": [1, 2]},
        {"folds": 2.5},
        {"n_null": 10**9},
        {"n_boot": 10**30},
    ],
)
def test_settings_of_the_wrong_kind_are_value_errors(settings):
    x, y = noisy_pair(50, 3, 0.2)
    with pytest.raises(ValueError, match=next(iter(settings))):
        isorep.compare(x, y, **settings)


def test_moments_of_what_is_no_pair_of_arrays_are_refused():
    for pair in (([[1.0]], [[1.0]]), (np.zeros(3), np.zeros(3)), (np.zeros((3, 1)), np.zeros((4, 1)))):
        with pytest.raises(isorep.InputError, match="rows and columns"):
            isorep.Moments.from_rows(*pair)
