"""Moments add over blocks and folds, and large means cost no digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isorep
from isorep import rows
from isorep.moments import Moments, fold_moments, leave_one_out, merged
from isorep.threads import Crew, allowed_processors, alone_if_small

from .data import mixing


def direct(x, y):
    """The definition, in float64."""
    a, b = x.astype(np.float64), y.astype(np.float64)
    a, b = a - a.mean(0), b - b.mean(0)
    return a.T @ a, a.T @ b, b.T @ b


def assert_equal(moments, x, y, rtol=1e-10):
    for mine, theirs in zip((moments.xx, moments.xy, moments.yy), direct(x, y), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())
    np.testing.assert_allclose(moments.source_mean, x.mean(0, dtype=np.float64), rtol=1e-12, atol=1e-12)
    assert moments.n == len(x)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_moments_of_two_parts_add_to_those_of_the_whole(m, n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(m + n, 3)) + 100, rng.normal(size=(m + n, 2))
    parts = Moments.from_rows(x[:m], y[:m]) + Moments.from_rows(x[m:], y[m:])
    assert_equal(parts, x, y)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_block_size_does_not_matter(rng, monkeypatch, block):
    x, y = rng.normal(size=(300, 5)), rng.normal(size=(300, 4))
    monkeypatch.setattr("isorep.moments.block_rows", lambda *widths: block)
    assert_equal(Moments.from_rows(x, y), x, y)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f8"])
def test_sums_are_taken_in_float64_whatever_the_dtype(rng, dtype):
    x, y = rng.normal(size=(500, 4)).astype(dtype), rng.normal(size=(500, 3)).astype(dtype)
    assert_equal(Moments.from_rows(x, y), x, y)


def test_means_a_million_times_the_spread_do_not_cancel(rng):
    x, y = rng.normal(size=(1000, 4)), rng.normal(size=(1000, 3))
    shifted = Moments.from_rows(x + 1e6, y - 1e6)
    plain = Moments.from_rows(x, y)
    for mine, theirs in ((shifted.xx, plain.xx), (shifted.xy, plain.xy), (shifted.yy, plain.yy)):
        np.testing.assert_allclose(mine, theirs, atol=1e-6 * np.abs(theirs).max())


def test_means_that_drift_from_block_to_block_do_not_cancel(rng, monkeypatch):
    monkeypatch.setattr("isorep.moments.block_rows", lambda *widths: 50)
    x = rng.normal(size=(400, 3)) + 1e5 * np.arange(400)[:, None]
    y = rng.normal(size=(400, 2))
    assert_equal(Moments.from_rows(x, y), x, y)


def test_leaving_a_fold_out_equals_a_fresh_pass_over_the_others(rng):
    x, y = rng.normal(size=(200, 4)) + 1e6, rng.normal(size=(200, 3)) * 5
    folds = rng.integers(0, 4, 200)
    parts = fold_moments(x, y, folds, 4)
    for fold, rest in enumerate(leave_one_out(parts)):
        keep = folds != fold
        assert_equal(rest, x[keep], y[keep], rtol=1e-6)
    assert_equal(merged(parts), x, y, rtol=1e-6)


def test_memory_maps_give_the_same_moments(rng, tmp_path):
    x, y = rng.normal(size=(100, 3)).astype(np.float32), rng.normal(size=(100, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    mapped = isorep.read(tmp_path / "x.npy").values, isorep.read(tmp_path / "y.npy").values
    np.testing.assert_array_equal(Moments.from_rows(*mapped).xy, Moments.from_rows(x, y).xy)


def test_reading_a_copy_on_write_map_keeps_its_changes(rng, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((100, 3)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    mapped[5] = 7
    assert rows.read_rows(mapped, slice(0, 10))[5, 0] == 7
    assert mapped[5, 0] == 7


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((3, 1), np.nan, "source holds 1 NaN value, the first at row 3, column 1"),
        ((4, 0), np.inf, "source holds 1 infinite value, the first at row 4, column 0"),
    ],
)
def test_non_finite_values_are_counted_and_located(rng, place, value, words):
    x = rng.normal(size=(10, 2))
    x[place] = value
    with pytest.raises(isorep.InputError, match=words):
        Moments.from_rows(x, rng.normal(size=(10, 2)))


def test_values_whose_squares_overflow_are_refused(rng):
    with pytest.raises(isorep.InputError, match="squares overflow"):
        Moments.from_rows(1e200 * rng.normal(size=(10, 2)), rng.normal(size=(10, 2)))


def test_threads_keep_the_order_and_pass_errors_on():
    assert rows.map_blocks(lambda part: part.start, 10, 3) == [0, 3, 6, 9]

    def fail(part):
        raise KeyError(part.start)

    with pytest.raises(KeyError):
        rows.map_blocks(fail, 10, 3)


def test_condition_and_rank_are_found_through_bad_scaling(rng):
    from isorep.covariance import factor_covariance

    x = rng.normal(size=(500, 5)) @ mixing(5, 0, condition=100.0)
    units = np.array([1.0, 1e6, 1e-6, 1e3, 1.0])
    x = np.column_stack([x * units, x[:, 0] + x[:, 4], np.full(500, 7.0)])
    moments = Moments.from_rows(x, x[:, :1])
    factor = factor_covariance(moments.xx, moments.n, moments.source_mean, np.finfo(x.dtype).eps, any_scale=True)
    assert factor.rank == 5
    assert factor.constant.tolist() == [False] * 6 + [True]
    centred = x - x.mean(0)
    singular = np.linalg.svd(centred, compute_uv=False)[:5] / np.sqrt(500)
    np.testing.assert_allclose(factor.singular_values, singular, rtol=1e-6)


@pytest.mark.parametrize(
    ("told", "files", "expected"),
    [
        ("0::/box\n", {"box/cpu.max": "150000 100000"}, 2),
        ("0::/box\n", {"box/cpu.max": "max 100000"}, 64),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        (
            "3:cpu,cpuacct:/box\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            3,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ("1:memory:/\n", {"memory/cpu.max": "100000 100000"}, 64),
        ("0::/box\n", {"box/cpu.max": "nonsense"}, 64),
    ],
)
def test_the_quota_of_a_container_limits_threads(told, files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    (tmp_path / "told").write_text(told)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert allowed_processors(tmp_path, tmp_path / "told") == expected
    assert allowed_processors(tmp_path, tmp_path / "missing") == 64


@pytest.mark.parametrize(("products", "alone"), [(2_000 * 64 * 64, True), (2_000 * 128 * 128, False)])
def test_small_passes_do_without_a_crew(products, alone):
    with Crew() as crew:
        usual = crew.size
    with alone_if_small(products), alone_if_small(2**30), Crew() as crew:  # an inner large one changes nothing
        assert crew.size == (1 if alone else usual)
        assert list(crew.stream(abs, [-1, -2, -3])) == [1, 2, 3]
    with Crew() as crew:
        assert crew.size == usual
