"""The certificate brackets the true optimum, found here by brute force on small cases."""

import itertools
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

import isorep
from isorep.comparison.worst_case import CLOSE, _Pairs, _smallest_distortion, certify, sample_claim, worst_case
from isorep.moments import Moments
from isorep.rows import Deadline

from ..data import noisy_pair, rotation

worst_case_room = sys.modules["isorep.comparison.worst_case"]  # the package has a function of this name


def smallest_ball(points):
    """Radius of the smallest circle around points in the plane: through two or three of them."""
    best = np.inf
    centres = [(a + b) / 2 for a, b in itertools.combinations(points, 2)]
    for a, b, c in itertools.combinations(points, 3):
        matrix = 2 * np.array([b - a, c - a])
        if abs(np.linalg.det(matrix)) > 1e-12:
            centres.append(np.linalg.solve(matrix, [b @ b - a @ a, c @ c - a @ a]))
    for centre in centres:
        best = min(best, np.linalg.norm(points - centre, axis=1).max())
    return best


def best_in_the_plane(x, y):
    """The smallest largest error over all isometries of the plane, on a fine grid of angles."""
    best = np.inf
    for mirror in (1.0, -1.0):
        for angle in np.linspace(0, 2 * np.pi, 361):
            c, s = np.cos(angle), np.sin(angle)
            best = min(best, smallest_ball(y - (x * [1, mirror]) @ np.array([[c, s], [-s, c]])))
    return best


@given(st.integers(0, 10**6), st.integers(3, 6))
def test_the_bracket_holds_the_optimum_in_the_plane(seed, n):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = x @ rotation(2, seed) + 0.3 * rng.normal(size=(n, 2))
    found = worst_case(x, y)
    optimum = best_in_the_plane(x, y)
    assert found.lower <= optimum + 1e-9
    assert found.upper >= optimum - 0.02 * pdist(x).max()  # the grid's own step
    assert found.upper <= found.least_squares_sup + 1e-12


@given(st.integers(0, 10**6), st.integers(2, 30), st.booleans())
def test_the_bracket_holds_the_optimum_on_the_line(seed, n, scale):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    y = 1.3 * x + 0.2 * rng.normal(size=(n, 1))
    scales = np.linspace(0, 4, 4001) if scale else [1.0]
    optimum = min(np.ptp(y - sign * s * x) / 2 for sign in (1, -1) for s in scales)
    found = worst_case(x, y, scale=scale)
    assert found.lower <= optimum + 1e-9
    assert found.upper >= optimum - (2e-3 * np.ptp(x) if scale else 1e-9)


def test_the_tent_is_solved_where_distances_alone_say_little():
    """A midpoint lifted by h: the optimum is h/2, and half the distance distortion only about h squared."""
    h = 0.05
    flat = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    tent = np.array([[0.0, 0.0], [0.5, h], [1.0, 0.0]])
    found = worst_case(flat, tent)
    assert found.lower == pytest.approx(h / 2, rel=2e-3)
    assert found.upper == pytest.approx(h / 2, rel=2e-3)
    assert found.closed
    assert found.distortion / 2 < 1.1 * h**2
    assert found.lower_by == "weighted Procrustes"


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("widths", [(6, 6), (3, 6), (6, 3)])
def test_larger_clouds_are_bracketed_tightly_and_the_map_is_judged_on_all_rows(scale, widths):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 6))
    y = np.tanh(x @ rotation(6, 1) / 2) * 2 + 0.05 * rng.normal(size=x.shape)
    found = worst_case(x[:, : widths[0]], y[:, : widths[1]], scale=scale)
    assert 0 < found.lower <= found.upper <= found.least_squares_sup
    assert found.upper < 1.05 * found.lower


def test_a_gap_that_the_nonconvex_group_leaves_is_shown_as_one(rng):
    """Unrelated clouds: weak duality has a gap there, and the bracket stays open instead of pretending."""
    found = worst_case(rng.normal(size=(40, 2)), rng.normal(size=(40, 2)))
    assert found.lower < found.upper
    assert not found.closed


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_the_rms_bound_is_the_nuclear_norm_of_the_difference_of_gram_matrices(seed, d_x, d_y):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(12, d_x)), rng.normal(size=(12, d_y))
    found = worst_case(x, y)
    a, b = x - x.mean(0), y - y.mean(0)
    nuclear = np.linalg.svd(b @ b.T - a @ a.T, compute_uv=False).sum() / 12
    assert found.rms_upper == pytest.approx(np.sqrt(nuclear), rel=1e-5)
    residuals = isorep.Rigid(scale=False).fit(x, y).residuals(x, y)
    assert found.rms == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-6)
    assert found.rms <= found.rms_upper + 1e-9


def test_the_distortion_and_the_defect_are_those_of_all_pairs_of_a_small_cloud(rng):
    x, y = noisy_pair(50, 3, 0.2)
    y = y / 1.7
    found = worst_case(x, y)
    largest = np.abs(pdist(y) - pdist(x)).max()
    assert found.distortion == pytest.approx(largest)
    assert found.near_isometry_defect == pytest.approx(largest / pdist(x).max())


def test_an_isometry_has_a_worst_case_of_zero():
    x = np.random.default_rng(0).normal(size=(200, 4))
    found = worst_case(x, x @ rotation(4, 3) + 7)
    assert found.upper < 1e-9
    assert found.near_isometry_defect < 1e-9
    assert found.rms_upper < 1e-5


@pytest.mark.parametrize("size", [1.0, 1e12, 1e15])
def test_rounding_is_never_certified_as_a_distance(rng, size):
    x = rng.normal(size=(300, 5))
    x[7] *= size
    assert worst_case(x, x).lower == 0


@pytest.mark.parametrize("turn", [np.eye(3), np.eye(3)[::-1], 2 * np.eye(3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_hot_rows_that_fit_exactly_are_certified(turn, dtype):
    """Errors are rounding, and differ by many orders of magnitude between the steps of the weighted fits."""
    x = np.eye(3, dtype=dtype)[np.arange(60) % 3]
    result = isorep.compare(x, (x @ turn).astype(dtype), n_null=2)
    scaled = result.worst_case["rigid_with_scale"]
    assert 0 <= scaled.lower <= scaled.upper < 1e-5


def test_the_worst_rows_are_named_by_id(rng):
    x = rng.normal(size=(100, 3))
    y = x @ rotation(3, 0)
    y[42] += 2
    names = [f"cell {i}" for i in range(100)]
    found = worst_case(isorep.Representation(x, names), y)
    assert found.worst_rows[0].id == "cell 42"
    assert found.worst_rows[0].row == 42
    assert worst_case(x, y).worst_rows[0].id is None


def test_bad_calls_are_refused(rng):
    with pytest.raises(isorep.InputError, match="2 rows"):
        worst_case(np.ones((1, 2)), np.ones((1, 2)))
    with pytest.raises(isorep.InputError, match="identical"):
        worst_case(np.ones((5, 2)), rng.normal(size=(5, 2)))


def test_a_seed_that_is_none_is_refused(rng):
    x = rng.normal(size=(10, 2))
    for seed in (-1, "a"):
        with pytest.raises(isorep.InputError, match="random_state"):
            worst_case(x, x, random_state=seed)


def test_a_sample_claims_what_it_can(rng):
    """Errors uniform on [0, 1]: the largest of N exceeds the claimed quantile in 95 % of samples, no less."""
    claim = sample_claim(rng.uniform(size=59), 59)
    assert claim.quantile == pytest.approx(0.05 ** (1 / 59))
    covered = rng.uniform(size=(20000, 59)).max(axis=1) >= claim.quantile
    assert covered.mean() == pytest.approx(0.95, abs=0.01)
    assert "95%" in claim.sentence


def test_compare_carries_both_certificates_in_diameters_and_to_json():
    x, y = noisy_pair(300, 3, 0.2)
    result = isorep.compare(x, y, n_null=2, n_boot=50)
    unit = result.diameter.value
    direct = worst_case(x, y, scale=True)
    scaled = result.worst_case["rigid_with_scale"]
    assert max(scaled.lower, direct.lower / unit) <= min(scaled.upper, direct.upper / unit), "both hold the optimum"
    assert scaled.upper == pytest.approx(direct.upper / unit, rel=2 * CLOSE)
    assert scaled.lower <= scaled.upper < result.rungs["rigid"].in_sample.sup + 1e-9
    assert result.worst_case["rigid"].upper > scaled.upper, "the runs differ in scale"
    data = json.loads(result.to_json())["worst_case"]
    assert data["rigid"]["worst_rows"][0]["error"] > 0
    assert data["sample"]["rows"] == 60
    grouped = isorep.compare(x, y, n_null=0, n_boot=0, groups=np.arange(300) // 10)
    assert grouped.worst_case["sample"].rows == 6


@pytest.mark.parametrize("seed", range(3))
def test_the_second_bracket_is_no_wider_for_starting_from_the_rows_of_the_first(seed):
    """Weights of the first bracket would keep it open: they have all but left out rows that a scale needs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(4, size=(4000, 12))
    y = 1.3 * x @ np.linalg.qr(rng.normal(size=(12, 12)))[0] + 0.3 * rng.standard_t(4, size=(4000, 12))
    size = isorep.diameter(x).value
    both = certify(x, y, Moments.from_rows(x, y), size, scales=(False, True), ids=None, seed=0)
    alone = worst_case(x, y, scale=True)
    assert max(both[1].lower, alone.lower) <= min(both[1].upper, alone.upper), "both hold the optimum"
    assert both[1].upper / both[1].lower <= alone.upper / alone.lower + 5e-3


def test_the_worst_case_is_left_out_where_it_would_be_long_unless_asked(monkeypatch):
    monkeypatch.setattr("isorep.comparison.ladder._SHORT_WORST_CASE", 0)
    x, y = noisy_pair(100, 3, 0.2)
    settings = {"n_null": 0, "n_boot": 0, "rungs": ("rigid", "linear")}
    assert isorep.compare(x, y, **settings).worst_case is None
    assert isorep.compare(x, y, **settings, worst_case=True).worst_case is not None
    assert isorep.compare(x[:, :2], y, n_null=0, n_boot=0, worst_case=False).worst_case is None


def test_memory_maps_are_certified_as_arrays_are(tmp_path):
    x, y = noisy_pair(500, 4, 0.2)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    mapped = worst_case(isorep.read(tmp_path / "x.npy"), isorep.read(tmp_path / "y.npy"))
    assert mapped.upper == pytest.approx(worst_case(x, y).upper)


@pytest.mark.parametrize("seed", range(5))
def test_no_scale_undercuts_the_distortion_with_a_scale(seed):
    """The value is the smallest over all scales, from below, and a fine grid of scales comes close to it."""
    rng = np.random.default_rng(seed)
    source = rng.gamma(2.0, size=400)
    pairs = _Pairs(source, np.abs(0.3 * 10**seed * source + 0.1 * 10**seed * rng.normal(size=400)), 400, 400)
    told = _smallest_distortion(pairs, scale=True)
    reached = [np.abs(pairs.target - s * source).max() for s in np.linspace(0, 1.0 * 10**seed, 4001)]
    assert told <= min(reached) * (1 + 1e-12)
    assert told >= 0.99 * min(reached)


def test_the_figure_shows_the_bounds_and_distances_only_without_a_scale(rng):
    from matplotlib.figure import Figure

    x = rng.normal(size=(60, 3))
    for scale, rows in ((False, 3), (True, 2)):
        found = isorep.worst_case(x, np.tanh(x), scale=scale)
        axes = found.plot_scores(Figure().subplots())
        names = [each.get_text() for each in axes.get_yticklabels()]
        assert names == ["least squares", "best possible", "at least, by distances"][:rows]
        assert axes.get_xlim()[1] >= found.least_squares_sup
    assert isorep.worst_case(x, x).plot_scores(Figure().subplots()).get_xlim()[0] == 0  # where all of them are 0


@pytest.mark.parametrize("widths", [(30, 30), (30, 4), (4, 30), (30, 25)])
def test_more_columns_than_rows_are_bracketed_as_in_the_coordinates_of_their_span(widths):
    """12 rows in a few dimensions, and the same rows turned into many: no distance changes, so no bound does."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 4)), rng.normal(size=(12, 4))
    wide = [rows @ rotation(width, 1)[:4, :] for rows, width in zip((x, y), widths, strict=True)]
    for scale in (False, True):
        few, many = worst_case(x, y, scale=scale), worst_case(*wide, scale=scale)
        assert max(few.lower, many.lower) <= min(few.upper, many.upper) * (1 + 1e-9)
        assert many.least_squares_sup == pytest.approx(few.least_squares_sup, rel=1e-6)
        assert many.rms == pytest.approx(few.rms, rel=1e-6)


class Looks(Deadline):
    """A deadline that passes after some looks at it."""

    def __init__(self, count):
        super().__init__()
        self.left = count

    @property
    def passed(self):
        self.left -= 1
        return self.left < 0


def test_the_weighted_fits_look_at_the_deadline_in_every_step_and_the_bracket_holds(monkeypatch):
    x, y = noisy_pair(600, 4, 0.1)
    fits = []
    fit = worst_case_room._weighted_fit
    monkeypatch.setattr(worst_case_room, "_weighted_fit", lambda *given: (fits.append(given), fit(*given))[1])
    moments, size = Moments.from_rows(x, y), pdist(x).max()
    whole = certify(x, y, moments, size, scales=(False, True), ids=None, seed=0)
    needed = len(fits)
    for looks in (0, 1, 5):
        fits.clear()
        cut = certify(x, y, moments, size, scales=(False, True), ids=None, seed=0, deadline=Looks(looks))
        assert len(fits) <= looks + 1 < needed
        for part, best in zip(cut, whole, strict=True):
            assert (part.complete, best.complete) == (False, True)
            assert part.lower <= best.upper
            assert best.lower <= part.upper <= part.least_squares_sup


def test_distances_are_measured_as_far_as_time_allows():
    x, y = noisy_pair(30_000, 2, 0.1)
    moments, size = Moments.from_rows(x, y), 1.0
    whole, cut = (
        certify(x, y, moments, size, scales=[False], ids=None, seed=0, deadline=Looks(looks))[0] for looks in (10**6, 0)
    )
    assert 0 < cut.pairs_checked < whole.pairs_checked
    assert (cut.complete, whole.complete) == (False, True)
    assert 0 < cut.distortion <= whole.distortion
