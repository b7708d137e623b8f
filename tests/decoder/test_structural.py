"""Latents beside true factors: errors keep to the bounds where the assumptions hold, and the result says which fail."""

import importlib
import json
import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import isorep
from isorep.datasets import Rooms, Squares, render_squares, slot_generator
from isorep.decoder import Structural, structural
from isorep.decoder.maps import channels_moved, joint_extremes, neighbour_extremes, open_map
from isorep.decoder.prepare import as_latents
from isorep.decoder.structural_page import _tiles
from isorep.decoder.structural_result import TITLES

torch = pytest.importorskip("torch")

TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(2, 2)))[0]
LAST = torch.as_tensor(TURN)


independence = importlib.import_module("isorep.decoder.structural")._independent


def process(u):
    """A smooth map into three dimensions that is no isometry."""
    return torch.stack([1.5 * u[:, 0], u[:, 1] + 0.2 * u[:, 0] ** 2, 0.5 * torch.sin(u[:, 1])], dim=1)


def decoder(z):
    """The process after a small change of its factors: perfect reconstruction."""
    return process(torch.sinh(0.3 * (z @ LAST.T)) / 0.3)


def square(n=100, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, 2))


def encoded(u):
    return (np.arcsinh(0.3 * u) / 0.3) @ TURN


def status(found, words):
    return next(each.status for each in found.assumptions if words in each.text)


@pytest.fixture(scope="module")
def found():
    u = square()
    return structural(encoded(u), u, process=process, decoder=decoder, standardise=False, n_null=2)


def test_measured_errors_keep_to_every_bound(found):
    assert isinstance(found, Structural)
    assert not found.violated
    assert found.mismatch.share < 1e-9
    for tie in (found.bounds[source] for source in ("perfect", "with_mismatch", "stitched", "printed")):
        assert found.in_sample.rms <= tie.rms.value
        assert found.certificate.lower <= tie.sup.value
    assert found.scaled_in_sample.rms <= found.bounds["stitched_scaled"].rms.value
    assert found.in_sample.rms > 1e-3
    assert "is allowed" in found.answer
    assert status(found, "reconstructs the data perfectly") == "measured"


def test_the_map_itself_has_sharper_constants_than_its_parts(found):
    low, high = found.stitching
    assert found.process.smallest <= found.process.largest
    assert found.decoder.smallest / found.process.largest <= low
    assert high <= found.decoder.largest / found.process.smallest
    assert not found.bounds["stitched"].rms.vacuous
    assert found.bounds["perfect"].rms.vacuous


@pytest.mark.parametrize("seed", range(3))
def test_distances_obey_the_jacobians_of_the_stitching_map(seed):
    rng = np.random.default_rng(seed)
    bend = torch.as_tensor(rng.normal(size=(2, 2)))

    def warped(z):
        return z + 0.2 * torch.sin(z @ bend)

    z = rng.uniform(-1, 1, size=(400, 2))
    u = warped(torch.as_tensor(z)).numpy()
    rows = np.arange(len(z))
    maps = (
        open_map(lambda z: process(warped(z)), as_latents(z), None, "decoder"),
        open_map(process, as_latents(u), None, "process"),
    )
    low, high = joint_extremes(*maps, rows, np.ones(2))[2]
    exact = isorep.decoder.jacobian(warped, z)
    singular = np.linalg.svd(exact, compute_uv=False)
    assert np.allclose(low, singular[:, 1], rtol=1e-6)
    assert np.allclose(high, singular[:, 0], rtol=1e-6)
    ratio = pdist(u) / pdist(z)
    assert ratio.max() <= high.max() * 1.01  # the largest of a sample is a lower estimate
    assert ratio.min() >= low.min() / 1.05


def test_an_exact_model_has_no_error_and_a_bound_of_nothing():
    u = square()
    exact = structural(u @ TURN, u, process=process, decoder=lambda z: process(z @ LAST.T), standardise=False, n_null=0)
    assert exact.in_sample.rms < 1e-9
    assert exact.stitching == pytest.approx((1, 1))
    assert exact.bounds["stitched"].rms.value < 1e-6
    assert not exact.violated
    assert exact.statistical.rms_bound < 1e-9


def test_standard_units_are_those_of_the_factors(found):
    u = square()
    scale = np.array([3.0, 0.25])
    wide = torch.as_tensor(scale)
    one, two = (
        structural(encoded(u), v, process=made, decoder=decoder, n_null=0)
        for v, made in ((u, process), (u * scale, lambda v: process(v / wide)))
    )
    assert one.process.smallest == pytest.approx(two.process.smallest)
    assert one.in_sample.rms == pytest.approx(two.in_sample.rms)
    assert one.in_sample.rms != pytest.approx(found.in_sample.rms, rel=1e-3)


def test_jacobians_scenes_and_objects_are_taken_as_they_are(found):
    u = square()
    jacobians = isorep.decoder.jacobian(process, u)
    given = structural(encoded(u), u, process=jacobians, decoder=decoder, standardise=False, n_null=0)
    assert given.process.largest == pytest.approx(found.process.largest)
    assert given.mismatch is None
    assert status(given, "reconstructs the data perfectly") == "not tested"
    made = slot_generator(slots=2, dimensions=1, random_state=0)
    v = made.sample(120, random_state=0)
    slots = structural(v, v, process=made, decoder=made.module(torch.float64), standardise=False, n_null=0)
    assert slots.mismatch.share < 1e-6
    assert slots.process.smallest == pytest.approx(slots.decoder.smallest, rel=1e-6)
    assert slots.in_sample.rms < 1e-9


def test_a_scene_renders_its_own_data_and_differentiates_them():
    scene = Squares(size=12, softness=0.3)
    u = np.asarray(scene.draw(120, seed=0).factor_values, dtype=float)

    def drawn(v):
        return render_squares(v[:, :2], v[:, 2], softness=0.3, pixels=12)

    found = structural(u, u, process=scene, decoder=drawn, standardise=False, samples=40, n_null=0)
    assert found.mismatch.share < 1e-6
    assert found.process.smallest == pytest.approx(found.decoder.smallest, rel=1e-2)
    assert found.process.largest == pytest.approx(found.decoder.largest, rel=1e-2)
    assert found.stitching == pytest.approx((1, 1), abs=1e-2)
    assert found.process.how == "from differences of rendered images"


def test_choices_are_left_out_and_said_to_matter():
    scene = Rooms(size=8, colour="ramp", antialias=1)
    u = np.asarray(scene.draw(80, seed=0).factor_values, dtype=float)
    fixed = u.copy()
    fixed[:, 4] = 2
    for values, fails in ((u, True), (fixed, False)):
        data = scene.render(values, dtype=np.float64).reshape(80, -1)
        found = structural(values[:, [0, 1, 2, 3, 5]], values, process=scene, observations=data, samples=10, n_null=0)
        assert (status(found, "these factors alone") == "violated") == fails
        assert any("shape" in caveat for caveat in found.caveats) == fails
        assert found.process.inputs == 5
        assert found.decoder.estimated
        assert not found.process.estimated


def test_channels_may_stand_first_or_last():
    scene = Rooms(size=6, colour="ramp", antialias=1)
    u = np.asarray(scene.draw(40, seed=0).factor_values, dtype=float)
    u[:, 4] = 1
    images = scene.render(u, dtype=np.float64)
    flat = images.reshape(40, -1)
    moved = channels_moved(flat, (6, 6, 3), -1, 0)
    assert np.array_equal(moved, np.moveaxis(images, -1, 1).reshape(40, -1))
    assert np.array_equal(channels_moved(moved, (3, 6, 6), 0, -1), flat)
    z = np.arange(40.0)[:, None] / 40
    kinds = {"first": np.moveaxis(images, -1, 1), "last": images}
    for data in kinds.values():
        table = torch.as_tensor(data)

        def nearest(latents, table=table):
            return table[(latents[:, 0] * 40).round().long()] + 0 * latents.sum()

        found = structural(z, u, process=scene, decoder=nearest, samples=5, n_null=0)
        assert found.mismatch.share < 1e-9


def test_neighbours_estimate_affine_maps_exactly_and_say_so(found):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(3, 20))
    u = rng.uniform(size=(100, 3))
    low, high = neighbour_extremes(u, u @ matrix + 3, np.arange(30))
    singular = np.linalg.svd(matrix, compute_uv=False)
    assert np.allclose(low, singular[-1])
    assert np.allclose(high, singular[0])
    v = square(800)
    data = process(torch.as_tensor(v)).numpy()
    exact = np.linalg.svd(isorep.decoder.jacobian(process, v[:50]), compute_uv=False)
    low, high = neighbour_extremes(v, data, np.arange(50))
    assert np.median(np.abs(high / exact[:, 0] - 1)) < 0.02
    assert np.median(np.abs(low / exact[:, 1] - 1)) < 0.05
    guessed = structural(encoded(v), v, observations=data, decoder=decoder, standardise=False, n_null=0)
    assert guessed.process.estimated
    assert "estimated from 8 neighbours" in guessed.process.how
    assert "estimated)" in guessed.sentence
    assert any("estimated from 8 neighbours" in caveat for caveat in guessed.caveats)
    assert guessed.process.largest == pytest.approx(found.process.largest, rel=0.1)
    assert guessed.stitching is None
    assert not found.process.estimated
    assert "estimated" not in found.sentence


def test_reconstructions_that_differ_are_allowed_for_and_blamed():
    u = square()
    near = structural(u, u, process=lambda v: 1.0 * v, decoder=lambda z: z + 0.02, standardise=False, n_null=0)
    assert not near.violated
    assert status(near, "reconstructs the data perfectly") == "violated"
    assert near.bounds["with_mismatch"].rms.value > near.bounds["perfect"].rms.value
    other = np.stack([u[:, 0], u[:, 0] * u[:, 1]], axis=1)
    far = structural(other, u, process=lambda v: 1.0 * v, decoder=lambda z: 1.0 * z, standardise=False, n_null=0)
    assert far.violated
    assert "reconstructs the data perfectly" in far.answer
    assert "A bound is violated" in far.sentence
    assert not any(each.answer == "violated" for each in far.findings if each.source == "with_mismatch")


def test_a_process_that_meets_itself_is_named():
    angle = np.linspace(0.01, 6.27, 150)[:, None]

    def circle(v):
        return torch.cat([torch.cos(v), torch.sin(v)], dim=1)

    cut = np.where(angle < 2, angle, angle - 2 * math.pi)
    found = structural(cut, angle, process=circle, decoder=circle, standardise=False, n_null=0)
    assert found.violated
    assert "no image folds back on itself" in found.answer
    half = structural(angle / 2, angle / 2, process=circle, decoder=circle, standardise=False, n_null=0)
    assert status(half, "short chords join near latents") != "violated"


def test_the_theorem_asks_for_independent_factors_of_one_dimension_with_the_latents():
    rng = np.random.default_rng(1)
    u = rng.uniform(-1, 1, size=(200, 2))
    ring = rng.standard_normal((200, 2))
    ring *= (1 + 0.05 * rng.standard_normal((200, 1))) / np.linalg.norm(ring, axis=1, keepdims=True)
    normal = rng.standard_normal((200, 2))
    same = {"process": lambda v: 1.0 * v, "decoder": lambda z: 1.0 * z, "n_null": 0, "standardise": False}
    free, tied, gaussian = (structural(v, v, **same) for v in (u, ring, normal))
    assert status(free, "independent") == "not contradicted"
    assert status(tied, "independent") == "violated"  # uncorrelated, and still dependent
    assert status(free, "Gaussian") == "measured"
    assert status(gaussian, "Gaussian") == "not tested"
    wide = structural(np.c_[u, u[:, :1] ** 2], u, process=lambda v: 1.0 * v, decoder=lambda z: z[:, :2], n_null=0)
    assert status(wide, "as many dimensions") == "violated"
    assert wide.decoder.infinite
    assert any("3 latents and 2 factors" in caveat for caveat in wide.caveats)
    assert status(free, "as many dimensions") == "measured"


def test_independent_factors_are_not_called_dependent_by_chance_nor_for_a_trifle():
    rng = np.random.default_rng(0)
    kinds = [rng.uniform, rng.standard_normal, rng.standard_cauchy, lambda size: rng.random(size) < 0.02]
    asked = [independence(kind(size=(n, 5)) * 1.0, rng) for kind in kinds for n in (30, 300) for _ in range(40)]
    assert {each.status for each in asked} == {"not contradicted"}
    z = rng.standard_normal((5000, 2))
    for slope, said in ((0.06, "not contradicted"), (0.2, "violated")):
        tied = independence(np.c_[z[:, 0], z[:, 1] + slope * z[:, 0]], rng)
        assert tied.status == said  # both are significant, and the second matters
        low = float(tied.evidence.split("interval ")[1].split(" to")[0])
        assert low > 0
    few = independence(np.c_[z[:12, 0], z[:12, 1] + z[:12, 0]], rng)
    assert few.status == "not contradicted"  # dependent, but twelve rows cannot tell
    assert float(few.evidence.split(" to ")[1].rstrip(")")) > 0.6
    assert independence(z[:5], rng).status == "not tested"
    assert independence(z[:, :1], rng).status == "measured"


def tiles(found):
    return {title: (value, said) for title, value, said in _tiles(found)}


def test_tiles_quote_the_bound_of_the_sentence(found):
    assert f"is allowed ({TITLES[found.allowed[0]]})" in found.answer
    bound = found.bounds[found.allowed[0]].rms
    assert tiles(found)["RMS error, allowed"] == (f"{bound.value:.4f}", TITLES[found.allowed[0]])
    assert f"{bound.value:.4f}" in found.answer
    u = square()
    twice = structural(
        2 * encoded(u), u, process=process, decoder=lambda z: decoder(z / 2), standardise=False, n_null=0
    )
    source, measured = twice.allowed
    assert source.endswith("scaled")
    assert measured is twice.scaled_in_sample
    assert tiles(twice)["RMS error, measured"] == (f"{measured.rms:.4f}", "rigid, one scale, in sample")
    assert tiles(twice)["RMS error, allowed"][0] in twice.answer
    other = np.stack([u[:, 0], u[:, 0] * u[:, 1]], axis=1)
    far = structural(other, u, process=lambda v: 1.0 * v, decoder=lambda z: 1.0 * z, standardise=False, n_null=0)
    error = "RMS" if far.broken.error == "rms" else "largest"
    value, said = tiles(far)[f"{error} error, allowed"]
    assert said == f"violated: {TITLES[far.broken.source]}"
    assert float(value) == pytest.approx(far.broken.bound, abs=1e-4)
    assert f"A bound is violated: {TITLES[far.broken.source]}, {far.broken.error} error" in far.answer


@pytest.mark.parametrize("seed", range(3))
def test_two_models_near_the_factors_are_near_each_other(seed):
    rng = np.random.default_rng(seed)
    u = square(120, seed)
    first, second = (
        (u + 0.1 * rng.normal(size=u.shape)) @ np.linalg.qr(rng.normal(size=(2, 2)))[0] + rng.normal(size=2)
        for _ in "ab"
    )
    found = structural(first, u, observations=u, other=second, standardise=False, n_null=0)
    told = found.statistical
    assert told.kept
    assert 0 < told.between.rms <= told.rms_bound
    assert told.rms_bound == pytest.approx(found.in_sample.rms + told.error.rms)
    lower = isorep.worst_case(second, first).lower / found.unit
    upper = sum(isorep.worst_case(side, u).upper for side in (first, second)) / found.unit
    assert lower <= upper * (1 + 1e-9)
    assert "between the two models" in found.table()
    assert told.bound.value == pytest.approx(2 * found.certificate.upper)


def test_it_prints_and_serialises(found, tmp_path):
    plain = json.loads(found.to_json(tmp_path / "structural.json"))
    assert plain["schema"] == "isorep.decoder_structural/1"
    assert plain["bounds"]["perfect"]["entries"][0]["name"] == "theorem_3"
    assert plain["failing"] == list(found.failing)
    for words in ("measured, held out", "Theorem 3 as printed", "bound: A.5", "assumption:", "Constants: process"):
        assert words in str(found)
    assert "between the two models" not in found.table()
    found.to_html(tmp_path / "structural.html")
    html = (tmp_path / "structural.html").read_text()
    for words in ("Latents compared with the true factors", "Process and decoder", "Two models near the factors"):
        assert words in html


def test_no_failure_is_said_where_none_is_seen():
    u = square(300)
    plain = structural(u, u, process=lambda v: 1.0 * v, decoder=lambda z: 1.0 * z, n_null=0, standardise=False)
    assert plain.failing == ()
    assert "No assumption was found to fail" in plain.sentence


def test_wrong_input_is_refused():
    u = square(60)
    same = {"process": lambda v: 1.0 * v, "decoder": lambda z: 1.0 * z}
    wrong = [
        (u[:-1], u, same, "rows of latents"),
        (u, u, {}, "pass observations="),
        (u, u, {"process": same["process"]}, "without a decoder"),
        (u, u, {**same, "process": np.zeros((60, 3, 5))}, r"\(60, outputs, 2\)"),
        (u, u, {**same, "process": 3}, "process is a int"),
        (u, u, {**same, "observations": u[:-1]}, "59 observations"),
        (u, u, {**same, "process": lambda v: torch.cat([v, v], 1)}, "puts out 2 numbers"),
        (u, u, {**same, "other": u[:-1]}, "59 rows of the other"),
        (u, u, {**same, "samples": 1}, "samples"),
        (u, np.c_[u, np.ones(60)], {**same, "decoder": lambda z: z[:, :1] * z.new_ones(3)}, "does not vary"),
        (u, u, {**same, "process": Squares(size=8)}, "2 columns"),
        (u[:8], u[:8], {"observations": u[:8]}, "are needed to estimate"),
    ]
    for latents, factors, given, words in wrong:
        with pytest.raises(isorep.InputError, match=words):
            structural(latents, factors, n_null=0, **given)
