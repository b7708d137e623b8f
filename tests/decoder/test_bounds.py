"""Bounds hold for every near-isometry that is thrown at them, and say when they say nothing."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

import isorep
from isorep.decoder import Bounds, bounds, isometric_constant
from isorep.decoder.distances import quartic_spread
from isorep.decoder.isometric_constant import certified_constant, jung_radius
from isorep.decoder.stitching import stitched

from .clouds import KINDS, chords, defect, near_isometry, procrustes_rms, rotation, within

ROUNDING = 1e-7
pairs = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(1, 6), st.floats(-6, -0.3).map(lambda p: 10.0**p)
)


def holds(x, y, entry, size):
    """Whether the best rigid motion keeps to a bound, up to rounding."""
    bound = entry.value * (1 + ROUNDING) + ROUNDING * size
    return procrustes_rms(x, y) <= bound if entry.error == "rms" else within(x, y, bound)


# The constant of isometric approximation --------------------------------------------------------------------------


def test_the_table_of_constants_is_what_the_recursion_gives():
    table = {1: 2.77, 2: 9.59, 3: 20.3, 4: 41.1, 5: 83.4}
    for dimension, printed in table.items():
        assert printed - 0.11 < isometric_constant(dimension) <= printed


def closed_form_constant(dimension):
    """The recursion at the closed-form thresholds that certify the growth law."""
    thickness = 1.151 * 2.0**dimension
    return certified_constant(dimension, (1.42 / (2.72 * 2.0**dimension)) ** 2, [thickness] * (dimension - 1))


@pytest.mark.parametrize("dimension", range(6, 65))
def test_the_growth_law_is_certified_by_evaluation(dimension):
    assert closed_form_constant(dimension) <= isometric_constant(dimension) == 2.69 * 2.0**dimension


def test_beyond_sixty_four_dimensions_nothing_is_certified():
    assert closed_form_constant(80) > 2.69 * 2.0**80
    assert isometric_constant(65) == math.inf


def test_thresholds_that_are_too_thin_certify_nothing():
    assert certified_constant(2, 0.01, [0.1]) == math.inf


@given(st.integers(2, 5), st.floats(1e-6, 0.9), st.lists(st.floats(0.5, 1e4), min_size=4, max_size=4))
def test_no_thresholds_certify_less_than_the_tent_needs(dimension, threshold, thicknesses):
    assert certified_constant(dimension, threshold, thicknesses) >= 0.5


def test_the_published_numbers_of_the_polynomial_bound():
    for epsilon, printed in ((1e-2, 1.36), (1e-3, 0.69), (1e-4, 0.365)):
        found = bounds(constant=(1 + epsilon, 1), dimension=32)
        assert found["sup_polynomial"].value == pytest.approx(printed, abs=0.005)
    assert bounds(constant=(1.01, 1), dimension=32)["sup_trivial"].value == pytest.approx(1.40, abs=0.02)


@pytest.mark.parametrize(("dimension", "crossing"), [(2, 7.6e-3), (3, 3e-4), (5, 1e-6)])
def test_where_the_polynomial_bound_takes_over(dimension, crossing):
    for epsilon, polynomial in ((crossing * 1.5, True), (crossing / 1.5, False)):
        found = bounds(constant=(1 + epsilon, 1), dimension=dimension)
        assert (found["sup_polynomial"].value < found["theorem_1"].value) is polynomial


# Near-isometries --------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(pairs)
def test_no_near_isometry_violates_a_bound_from_its_defect(pair):
    x, y = near_isometry(*pair)
    epsilon, delta = defect(x, y)
    assume(delta > 1e-9)
    found = bounds(defect=epsilon, dimension=x.shape[1], diameter=delta)
    sharper = bounds(defect=epsilon, dimension=x.shape[1], diameter=delta, target_diameter=pdist(y).max())
    for entry in (*found.entries, *sharper.entries):
        assert holds(x, y, entry, delta), entry.name
    assert sharper.sup.value <= found.sup.value * (1 + 1e-12)


@settings(max_examples=60)
@given(pairs)
def test_the_gram_matrices_lie_between_the_error_and_its_bound(pair):
    x, y = near_isometry(*pair)
    epsilon, delta = defect(x, y)
    gram = [each @ each.T / len(x) for each in (x - x.mean(axis=0), y - y.mean(axis=0))]
    nuclear = np.sqrt(np.linalg.norm(gram[1] - gram[0], "nuc"))
    assert procrustes_rms(x, y) <= nuclear + 1e-6 * delta
    assert nuclear <= bounds(defect=epsilon, dimension=x.shape[1], diameter=delta)["rms"].value + 1e-6 * delta


@settings(max_examples=60)
@given(pairs)
def test_the_bound_without_a_diameter_holds_for_bilipschitz_maps(pair):
    x, y = near_isometry(*pair)
    low, high = chords(x, y)
    assume(low > 1e-6)
    distances = squareform(pdist(x))
    tie = SimpleNamespace(smallest=low, largest=high)
    flat = SimpleNamespace(smallest=1.0, largest=1.0)
    found = bounds(
        tie, flat, dimension=x.shape[1], diameter=distances.max(), spread=float(np.mean(distances**4) ** 0.25)
    )
    assert procrustes_rms(x, y) <= found["rms_diameter_free"].value + 1e-6 * distances.max()


@pytest.mark.parametrize("shape", [(40, 3), (7, 20), (2, 1)])
def test_the_spread_needs_no_pairs(shape):
    x = np.random.default_rng(7).exponential(size=shape) + 5
    assert quartic_spread(x) == pytest.approx((squareform(pdist(x)) ** 4).mean() ** 0.25)


def test_the_contraction_of_the_polynomial_bound_is_near_its_orthogonal_factor():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        for _ in range(50):
            m = rng.normal(size=(d, d))
            m /= np.linalg.norm(m, 2) * rng.uniform(1, 2)
            u, _, vt = np.linalg.svd(m)
            v = rng.normal(size=d)
            assert np.sum((m @ v - u @ vt @ v) ** 2) <= v @ v - np.sum((m @ v) ** 2) + 1e-12


def test_different_widths_count_both():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (80, 2))
    y = np.column_stack([x, 0.1 * np.sin(3 * x[:, 0])]) @ rotation(rng, 3)
    epsilon, delta = defect(x, y)
    found = bounds(defect=epsilon, dimension=(2, 3), diameter=delta)
    assert found.dimension == 3
    assert procrustes_rms(x, y) <= found["rms"].value < bounds(defect=epsilon, dimension=3, diameter=delta)["rms"].value


# Decoders ---------------------------------------------------------------------------------------------------------


def rolled(latents, radius=0.35):
    """A flat sheet rolled up: an isometry along the sheet whose chords get short, as the image nearly closes."""
    turn = latents[:, 0] / radius
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn), latents[:, 1:]])


def inner_bump(size, turn):
    """A diffeomorphism of the unit disc that is a rotation at its rim: both supports are the disc, hence convex."""

    def apply(x):
        lift = np.maximum(1 - (x**2).sum(axis=1), 0) ** 2
        return (x + size * lift[:, None] * np.array([1.0, -0.5])) @ turn

    return apply


def singular_values(function, points, step=1e-6):
    columns = [
        (function(points + step * axis) - function(points - step * axis)) / (2 * step)
        for axis in np.eye(points.shape[1])
    ]
    return np.linalg.svd(np.stack(columns, axis=2), compute_uv=False)


def disc(n, rng):
    points = rng.normal(size=(n, 2))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * np.sqrt(rng.uniform(size=(n, 1)))


@pytest.mark.parametrize("size", [0.01, 0.05, 0.2, 0.4])
def test_the_stitching_constant_is_the_product_and_theorem_1_holds(size):
    rng = np.random.default_rng(2)
    first_map, second_map = inner_bump(size, rotation(rng, 2)), inner_bump(-size / 3, np.eye(2))
    grid = disc(4000, rng)
    z = disc(300, rng)
    x, y = first_map(z), second_map(z)  # equal outputs: both decoders undo their map and roll the disc up
    geometries, constants = [], []
    for each in (first_map, second_map):
        values = 1 / singular_values(each, grid)  # of the inverse, and rolling up changes nothing
        geometries.append(SimpleNamespace(smallest=values.min(), largest=values.max()))
        constants.append(max(values.max(), 1 / values.min()))
    low, high = chords(x, y)
    product = constants[0] * constants[1]
    assert 1 / product <= low <= high <= product
    sharp = bounds(*geometries, dimension=2, diameter=2.0)
    plain = bounds(constant=constants, dimension=2, diameter=2.0)
    square = bounds(constant=max(constants), dimension=2, diameter=2.0)
    assert sharp.defect <= plain.defect * (1 + 1e-12) < square.defect
    epsilon, delta = defect(x, y)
    assert epsilon * delta <= 2 * sharp.defect
    for found in (sharp, plain, square):
        for entry in found.entries:
            assert holds(x, y, entry, delta), entry.name


def test_theorem_1_as_printed_with_one_constant():
    excess, dimension = 0.03, 2
    found = bounds(excess=excess, dimension=dimension, diameter=3.0)
    assert found.defect == pytest.approx(2 * excess + excess**2)
    expected = isometric_constant(2) * math.sqrt(2 * excess + excess**2) * 3.0
    assert found["theorem_1"].value == pytest.approx(expected)
    assert found["theorem_1"].origin == "paper"
    assert bounds(constant=1.03, dimension=2, diameter=3.0) == found


# Outputs that differ ----------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(pairs, st.floats(0, 0.5), st.floats(0.3, 3), st.integers(0, 2**31))
def test_a_mismatch_of_outputs_enters_as_derived(pair, noise, scale, seed):
    rng = np.random.default_rng(seed)
    x, y = near_isometry(*pair)
    d = x.shape[1]
    wide = rng.normal(size=(d, d + 2))
    wide = np.linalg.svd(wide, full_matrices=False)[2]
    u = np.tanh(0.3 * x @ wide) * scale + x @ wide
    v = u + noise * rng.uniform(-1, 1, u.shape) * rng.uniform(size=(len(u), 1)) ** 3
    mismatch = np.linalg.norm(u - v, axis=1)
    (low1, high1), (low2, high2) = chords(x, u), chords(y, v)
    assume(min(low1, low2) > 1e-6)
    first, second = (SimpleNamespace(smallest=low, largest=high) for low, high in ((low1, high1), (low2, high2)))
    before, after = pdist(x), pdist(y)
    both = np.add.outer(mismatch, mismatch)[np.triu_indices(len(x), 1)]
    slack = 1e-9 * (before + after) + 1e-12
    assert (after <= high1 / low2 * before + both / low2 + slack).all()
    assert (after >= low1 / high2 * before - both / high2 - slack).all()
    sizes = {
        "dimension": d,
        "diameter": before.max(),
        "mismatch": mismatch.max(),
        "mismatch_rms": np.sqrt((mismatch**2).mean()),
        "spread": float((2 * (before**4).sum() / len(x) ** 2) ** 0.25),
    }
    for known in ({}, {"target_diameter": after.max()}):
        found = bounds(first, second, **sizes, **known)
        assert np.abs(after - before).max() <= found.defect * before.max() * (1 + 1e-9)
        plain = bounds(constant=(max(high1, 1 / low1), max(high2, 1 / low2)), **sizes, **known)
        for entry in (*found.entries, *plain.entries):
            assert entry.name.endswith("_outside") or holds(x, y, entry, before.max()), entry.name


@pytest.mark.parametrize(
    ("first", "second", "largest"), [(1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (3.0, 2.0, 4.0), (0.7, 0.2, 0.6)]
)
def test_two_clusters_attain_what_a_mismatch_is_allowed_to_do(first, second, largest):
    # Decoders that only scale; the outputs of the second lie farther out, by m at either end.
    mismatch = 0.01
    x = np.repeat([0.0, 1.0], 50)[:, None]
    y = (x * first + np.where(x > 0.5, mismatch, -mismatch)) / second
    sides = [SimpleNamespace(smallest=low, largest=high) for low, high in ((first, first), (second, largest))]
    found = bounds(*sides, dimension=1, mismatch=mismatch, spread=0.5**0.25)
    changed = np.abs(pdist(y) - pdist(x)).max()
    assert changed == pytest.approx(found.defect)
    assert changed == pytest.approx(first / second - 1 + 2 * mismatch / second)
    before, after = squareform(pdist(x)), squareform(pdist(y))
    real = np.sqrt(((after**2 - before**2) ** 2).mean())
    tie = stitched(*sides, None, None, None, mismatch, None)
    assert 0.7 * tie.square_distortion(0.5**0.25, 1.0) < real <= tie.square_distortion(0.5**0.25, 1.0)
    assert real <= tie.distortion(1.0, None, rms=True) * (1 + after.max())


def test_where_outputs_lie_in_the_other_image_the_mismatch_stays_outside_the_root():
    rng = np.random.default_rng(3)
    bump = inner_bump(0.02, np.eye(2))
    x = disc(300, rng) * 0.9
    z = bump(x)  # the exact stitching of an isometric second decoder
    y = z + 0.01 * disc(300, rng)
    values = singular_values(bump, disc(3000, rng))
    mismatch = np.linalg.norm(rolled(y, 5.0) - rolled(z, 5.0), axis=1)
    beta = 1 / chords(np.concatenate([y, z]), rolled(np.concatenate([y, z]), 5.0))[0]
    found = bounds(
        SimpleNamespace(smallest=values.min(), largest=values.max()),
        SimpleNamespace(smallest=1 / beta, largest=1.0),
        dimension=2,
        diameter=1.8,
        mismatch=mismatch.max(),
        mismatch_rms=np.sqrt((mismatch**2).mean()),
    )
    assert procrustes_rms(x, y) <= found["rms_outside"].value < found["rms"].value
    assert isorep.worst_case(x, y).upper <= found["sup_outside"].value
    assert any("image" in entry.text for entry in found["sup_outside"].untested)


def test_without_the_assumption_on_chords_a_mismatch_bounds_nothing():
    angle = np.linspace(0, 2 * np.pi - 0.01, 200)[:, None]
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    other = angle.copy()
    other[-1] = 0.0  # the outputs are 0.01 apart, the latents a whole turn
    mismatch = np.linalg.norm(circle - np.column_stack([np.cos(other), np.sin(other)]), axis=1).max()
    local = SimpleNamespace(smallest=1.0, largest=1.0)
    found = bounds(local, local, dimension=1, diameter=float(np.ptp(angle)), mismatch=mismatch)
    assert isorep.worst_case(angle, other).lower > found.sup.value
    assert any("chords" in entry.text for entry in found.sup.untested)
    low, high = chords(angle, circle)
    folded = SimpleNamespace(smallest=low, largest=high)
    honest = bounds(folded, folded, dimension=1, diameter=float(np.ptp(angle)), mismatch=mismatch)
    assert isorep.worst_case(angle, other).upper <= honest.sup.value


@given(st.floats(1, 1.5), st.floats(1, 1.5), st.floats(0, 1), st.floats(0, 1), st.integers(1, 40))
def test_bounds_grow_with_constants_and_mismatch(first, second, mismatch, more, dimension):
    sizes = {"dimension": dimension}
    least = bounds(constant=(first, second), mismatch=mismatch, **sizes)
    for larger in (
        bounds(constant=(first + more, second), mismatch=mismatch, **sizes),
        bounds(constant=(first, second), mismatch=mismatch + more, **sizes),
    ):
        for entry in least.entries:
            if not (entry.name.endswith("outside") and mismatch == 0):
                assert entry.value <= larger[entry.name].value * (1 + 1e-12)


@given(st.floats(1, 1.4), st.floats(0, 0.1), st.floats(0.1, 10), st.integers(1, 40))
def test_bounds_scale_with_the_latents(constant, mismatch, unit, dimension):
    one = bounds(constant=constant, mismatch=mismatch, dimension=dimension)
    scaled = bounds(constant=constant, mismatch=mismatch * unit, dimension=dimension, diameter=unit)
    for entry in one.entries:
        assert scaled[entry.name].value == pytest.approx(entry.value * unit, rel=1e-9)
        assert scaled[entry.name].vacuous == entry.vacuous or entry.value == pytest.approx(entry.chance, rel=1e-9)


# What bounds say of themselves ------------------------------------------------------------------------------------


def test_a_bound_knows_when_it_is_vacuous_and_what_it_rests_on():
    sharp, blunt = bounds(excess=1e-4, dimension=4), bounds(excess=0.5, dimension=4)
    assert not sharp.sup.vacuous
    assert not sharp.rms.vacuous
    assert blunt.sup.vacuous
    assert blunt.sup.name == "sup_trivial"
    assert blunt["theorem_1"].value == math.inf
    assert [entry.status for entry in blunt["theorem_1"].assumptions][-1] == "violated"
    assert {entry.status for entry in sharp["theorem_1"].assumptions} == {"not tested", "as given", "measured"}
    assert sharp["sup_trivial"].vacuous
    assert sharp["sup_trivial"].chance == pytest.approx(2 * jung_radius(4))


def test_radii_tell_what_a_random_rotation_would_give():
    found = bounds(excess=0.01, dimension=4, radii=(0.05, 0.05))
    assert found.rms.vacuous
    assert found["rms"].chance == pytest.approx(0.05 * math.sqrt(2))
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 4))
    radii = [np.sqrt(((each - each.mean(axis=0)) ** 2).sum(axis=1).mean()) for each in (x, y)]
    assert procrustes_rms(x, y) <= bounds(excess=9, dimension=4, radii=radii)["rms_trivial"].value


def test_results_print_and_serialise():
    found = bounds(constant=(1.01, 1.02), dimension=3, mismatch=0.01, mismatch_rms=0.005, spread=0.5)
    assert isinstance(found, Bounds)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["schema"] == "isorep.decoder_bounds/1"
    assert plain["constant"] == pytest.approx(1.01 * 1.02)
    assert [entry["name"] for entry in plain["entries"]] == [entry.name for entry in found.entries]
    assert "theorem_1" in found.table()
    assert "rests on" in str(found)
    with pytest.raises(KeyError):
        found["theorem_9"]
    assert "≤" in str(found.sup)


def test_another_constant_may_be_given():
    assert bounds(excess=1e-3, dimension=40, c_d=1.0)["theorem_1"].value == pytest.approx(math.sqrt(0.002001))


def test_dead_and_infinite_decoders_are_a_normal_case():
    dead = SimpleNamespace(smallest=0.0, largest=2.0)
    found = bounds(dead, dimension=3, mismatch=0.1)
    assert found.sup.value == math.inf
    assert found.sup.vacuous
    found = bounds(dead, dimension=3, target_diameter=2.0)
    assert found.sup.name == "sup_trivial"
    assert found.sup.value == pytest.approx(3 * jung_radius(3))
    assert bounds(constant=math.inf, dimension=3).rms.vacuous
    silent = SimpleNamespace(smallest=0.0, largest=0.0)
    assert bounds(silent, dimension=2, target_diameter=1.0).sup.vacuous


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"constant": 0.05, "dimension": 3}, "excess="),
        ({"excess": -0.1, "dimension": 3}, "from 0 on"),
        ({"constant": (1.1, 1.2, 1.3), "dimension": 3}, "two of them"),
        ({"constant": "large", "dimension": 3}, "two of them"),
        ({"constant": math.nan, "dimension": 3}, "two of them"),
        ({"constant": 1.1}, "dimension is missing"),
        ({"constant": 1.1, "dimension": 0}, "of at least 1"),
        ({"constant": 1.1, "dimension": 2.5}, "of at least 1"),
        ({"dimension": 3}, "none was given"),
        ({"constant": 1.1, "excess": 0.1, "dimension": 3}, "constant and excess were given"),
        ({"constant": 1.1, "dimension": 3, "diameter": 0.0}, "positive"),
        ({"constant": 1.1, "dimension": 3, "mismatch": -1}, "from 0 on"),
        ({"constant": 1.1, "dimension": 3, "mismatch": 0.1, "mismatch_rms": 0.2}, "exceeds"),
        ({"constant": 1.1, "dimension": 3, "mismatch_rms": 0.2}, "target_diameter"),
        ({"constant": 1.1, "dimension": 3, "c_d": -1}, "positive"),
        ({"defect": 0.1, "dimension": 3, "mismatch": 0.1}, "already"),
        ({"first": 1.05, "dimension": 3}, "constant="),
        ({"first": SimpleNamespace(smallest=2.0, largest=1.0), "dimension": 3}, "no geometry"),
    ],
)
def test_wrong_calls_are_refused_in_one_sentence(call, words):
    with pytest.raises(isorep.InputError, match=words):
        bounds(**call)


@pytest.mark.parametrize("dimension", [1, 64, 65, 300])
def test_an_isometry_leaves_no_error_in_any_dimension(dimension):
    found = bounds(excess=0, dimension=dimension)
    assert (found.sup.value, found.rms.value, found.sup.vacuous) == (0, 0, False)


@pytest.mark.parametrize("constant", [1e80, 1e160, 1e300, math.inf])
def test_constants_of_any_size_have_bounds(constant):
    found = bounds(constant=constant, dimension=3, spread=0.5, target_diameter=1.0, mismatch=0.1)
    assert found.sup.vacuous
    assert not math.isnan(found.sup.value + found.rms.value)
    assert bounds(defect=constant, dimension=3).rms.vacuous


@pytest.mark.parametrize("wrong", [{"dimension": math.nan}, {"dimension": 2.5}, {"radii": (1.0,)}, {"radii": 1.0}])
def test_sizes_that_are_none_are_refused(wrong):
    with pytest.raises(isorep.InputError, match=next(iter(wrong))):
        bounds(**{"excess": 0.1, "dimension": 2, **wrong})


@pytest.mark.parametrize("dimension", [0, -1, 2.5, True])
def test_the_constant_wants_a_dimension(dimension):
    with pytest.raises(isorep.InputError, match="whole number of at least 1"):
        isometric_constant(dimension)


def test_constants_come_in_arrays_too():
    assert bounds(constant=np.array([1.1, 1.2]), dimension=np.int64(3)).constant == pytest.approx(1.32)
