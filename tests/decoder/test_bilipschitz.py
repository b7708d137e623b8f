"""Bi-Lipschitz constants of decoders with known ones, inactive latents and random directions."""

import json
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import isorep  # noqa: E402
from isorep.decoder import bilipschitz, mechanisms  # noqa: E402

from .networks import Images, linear, mlp, with_values  # noqa: E402


def test_the_constants_of_a_map_with_known_singular_values():
    found = bilipschitz(linear(with_values([3.0, 1.0, 0.5], 7)), np.zeros((4, 3)))
    assert found.constant == pytest.approx(3.0)
    assert found.excess == pytest.approx(2.0)
    assert found.mean_constant == pytest.approx(3.0)
    assert found.similarity_constant == pytest.approx(np.sqrt(6))
    assert found.scale == pytest.approx(1 / np.sqrt(1.5))
    assert found.constants.condition == pytest.approx(6.0)
    assert found.isometry.delta == pytest.approx(2.0)
    assert found.isometry.mean_square == pytest.approx((4 + 0 + 0.25) / 3)
    assert np.isinf(found.isometry.sharp_constant)
    np.testing.assert_allclose(found.largest, 3.0)
    np.testing.assert_allclose(found.smallest, 0.5)
    np.testing.assert_allclose(found.spectrum["0.5"], [3.0, 1.0, 0.5])
    assert found.inactive == ()
    assert found.active is None


@pytest.mark.parametrize("dtype", [">f4", ">f8"])
def test_latents_of_the_other_byte_order_have_the_same_constants(rng, dtype):
    latents = rng.standard_normal((60, 3)).astype(dtype[1:])
    there, here = (bilipschitz(torch.nn.Tanh(), each) for each in (latents.astype(dtype), latents))
    assert (there.constant, there.convexity) == (here.constant, here.convexity)
    assert mechanisms(torch.nn.Tanh(), latents.astype(dtype), samples=20).verdict


def test_the_scale_that_is_named_attains_the_similarity_constant():
    matrix = with_values([3.0, 1.0, 0.5], 7)
    first = bilipschitz(linear(matrix), np.zeros((2, 3)))
    scaled = bilipschitz(linear(first.scale * matrix), np.zeros((2, 3)))
    assert scaled.constant == pytest.approx(first.similarity_constant)
    assert scaled.similarity_constant == pytest.approx(first.similarity_constant)


def test_an_isometry_has_the_constant_one_and_dynamical_isometry_converts_as_stated():
    orthogonal = bilipschitz(linear(with_values(np.ones(6), 20)), np.zeros((3, 6)))
    assert orthogonal.constant == pytest.approx(1.0)
    assert orthogonal.excess == pytest.approx(0.0, abs=1e-12)
    near = bilipschitz(linear(with_values([1.2, 1.0, 0.8], 5)), np.zeros((3, 3)))
    assert near.isometry.delta == pytest.approx(0.2)
    assert near.isometry.text_constant == pytest.approx(1.2 / 0.8)
    assert near.isometry.sharp_constant == pytest.approx(1 / 0.8)
    assert near.constant == pytest.approx(1 / 0.8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inactive_latents_are_found_named_and_left_out(rng, dtype):
    matrix = rng.standard_normal((30, 5))
    matrix[:, 1] = 0
    matrix[:, 3] *= 1e-5
    found = bilipschitz(linear(matrix, dtype), rng.standard_normal((6, 5)), names=["a", "b", "c", "d", "e"])
    assert found.inactive == ("b", "d")
    assert np.isinf(found.constant)
    assert np.isinf(found.similarity_constant)
    assert found.scale is None
    kept = np.linalg.svd(matrix[:, [0, 2, 4]])[1]
    assert found.active.constant == pytest.approx(max(kept[0], 1 / kept[-1]), rel=1e-5)
    assert found.active.similarity_constant == pytest.approx(np.sqrt(kept[0] / kept[-1]), rel=1e-5)
    assert any("b, d" in sentence for sentence in found.verdict)
    assert bilipschitz(linear(matrix, dtype), np.zeros((2, 5)), inactive_below=1e-6).inactive == ("z1",)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_that_are_lost_without_an_inactive_latent_make_the_constant_infinite(rng, dtype):
    matrix = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 6))
    found = bilipschitz(linear(matrix, dtype), rng.standard_normal((4, 6)))
    assert np.isinf(found.constant)
    assert found.inactive == ()
    assert found.rank.tolist() == [3, 3, 3, 3]
    assert any("rank 3 of 6" in sentence for sentence in found.verdict)


def test_fewer_outputs_than_latents_lose_directions(rng):
    found = bilipschitz(linear(rng.standard_normal((3, 5))), rng.standard_normal((4, 5)))
    assert np.isinf(found.constant)
    assert (found.smallest == 0).all()
    assert any("2 of 5 directions or more (outputs: 3)" in sentence for sentence in found.verdict)
    assert found.isometry.mean_square > 2 / 5


def test_a_decoder_that_ignores_its_latents():
    found = bilipschitz(lambda z: 0 * z, np.zeros((3, 4)))
    assert np.isinf(found.constant)
    assert found.inactive == ("z0", "z1", "z2", "z3")
    json.loads(found.to_json())


@pytest.mark.parametrize(("outputs", "d", "constant"), [(1, 1, 2.0), (5, 1, 2.0)])
def test_one_latent_and_one_row(outputs, d, constant):
    matrix = np.full((outputs, d), 2.0 / np.sqrt(outputs))
    found = bilipschitz(linear(matrix), [[0.3]])
    assert found.constant == pytest.approx(constant)
    assert found.convexity is None
    assert found.caveats[0] == "the constant is that of a single row"


@given(st.integers(0, 2**16), st.integers(1, 5), st.integers(1, 8))
def test_no_small_step_is_stretched_or_shrunk_more_than_the_exact_constant_says(seed, d, outputs):
    rng = np.random.default_rng(seed)
    decoder, z, step = mlp(d, outputs, seed=seed), rng.standard_normal((5, d)), 1e-5
    found = bilipschitz(decoder, z, n_directions=3, random_state=seed)
    v = rng.standard_normal((5, d))
    v *= step / np.linalg.norm(v, axis=1, keepdims=True)
    ahead, behind = (decoder(torch.as_tensor(z + sign * v)).detach().numpy() for sign in (1, -1))
    stretch = np.linalg.norm(ahead - behind, axis=1) / (2 * step)
    assert (stretch <= found.largest + 1e-6).all()
    assert (stretch >= found.smallest - 1e-6).all()
    if np.isfinite(found.constant):
        assert stretch.max() <= found.constant + 1e-6
        assert stretch.min() >= 1 / found.constant - 1e-6
    assert found.directions.constant <= found.constant * (1 + 1e-12)


def test_random_directions_underestimate_the_more_the_more_latents_there_are():
    ratios = []
    for d in (2, 8, 32, 128):
        decoder = linear(with_values(np.geomspace(np.exp(0.5), np.exp(-0.5), d), d))
        found = bilipschitz(decoder, np.zeros((50, d)), mode="paper")
        assert not found.certain
        assert found.constant <= found.directions.exact
        assert found.directions.exact == pytest.approx(np.exp(0.5), rel=1e-6)
        ratios.append(found.mean_constant)
    np.testing.assert_allclose(ratios, [1.635, 1.348, 1.207, 1.144], atol=0.05)
    assert sorted(ratios, reverse=True) == ratios
    assert any("random directions underestimate" in caveat for caveat in found.caveats)


def test_modes_agree_where_they_should_and_the_same_seed_gives_the_same_numbers(rng):
    decoder, z = mlp(), rng.standard_normal((40, 5))
    exact, free = (bilipschitz(decoder, z, mode=mode) for mode in ("exact", "matrix_free"))
    assert free.constant == pytest.approx(exact.constant, rel=1e-9)
    for mode in ("exact", "paper"):
        one, other = (bilipschitz(decoder, z, mode=mode, samples=15, random_state=3).to_dict() for _ in range(2))
        del one["seconds"], other["seconds"]
        assert one == other
        assert one["data"]["rows_used"] == 15
    assert bilipschitz(decoder, z, memory=3000).constant == pytest.approx(exact.constant, rel=1e-12)


def test_more_latents_than_are_decomposed_go_through_krylov_spaces_and_say_so(monkeypatch):
    monkeypatch.setattr(import_module("isorep.decoder.bilipschitz"), "EXACT_UP_TO", 10)
    values = np.linspace(1, 2, 30)
    found = bilipschitz(lambda z: z * torch.as_tensor(values), np.zeros((2, 30)), mode="matrix_free", tol=1e-6)
    assert found.constant == pytest.approx(2.0, rel=1e-5)
    assert found.certain
    assert found.latents == ()
    assert any("inactive latents were not detected" in caveat for caveat in found.caveats)
    poor = np.concatenate([np.linspace(1, 2, 29), [1e-3]])
    found = bilipschitz(lambda z: z * torch.as_tensor(poor), np.zeros((2, 30)), mode="matrix_free", max_iter=4)
    assert not found.certain
    assert found.constant <= 1000
    assert "at least" in found.verdict[0]


def test_kinks_are_named_whether_they_are_modules_or_functions():
    assert bilipschitz(Images(), np.zeros((2, 6))).data["kinks"] == ["ReLU"]
    functional = bilipschitz(lambda z: torch.nn.functional.leaky_relu(z, 0.1), np.ones((2, 6)))
    assert functional.data["kinks"] == ["LeakyReLU"]
    assert any("LeakyReLU" in caveat for caveat in functional.caveats)
    assert bilipschitz(mlp(), np.zeros((2, 5))).data["kinks"] == []


def test_results_print_tabulate_and_serialise(rng, tmp_path):
    z = isorep.Representation(rng.standard_normal((30, 5)), ids=[f"r{place}" for place in range(30)])
    found = bilipschitz(mlp(), z, name="toy")
    assert "toy" not in found.table()
    assert "all latents" in found.table()
    assert str(found).startswith(f"verdict: {found.verdict[0]}")
    assert found.table() in str(found)
    data = json.loads(found.to_json(tmp_path / "r.json"))
    assert data["schema"] == "isorep.decoder/1"
    assert data["data"]["decoder"] == "toy"
    assert data["worst"][0]["id"] == f"r{int(np.argmax(found.local))}"
    assert data["constants"]["constant"] == pytest.approx(found.constant, rel=1e-5)
    assert data["worst"][0]["local"] == data["constants"]["constant"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "approximate"},
        {"mode": "paper", "n_directions": 0},
        {"n_directions": -1},
        {"samples": 0},
        {"names": ["a"]},
        {"inactive_below": 1},
        {"random_state": -1},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(isorep.InputError):
        bilipschitz(mlp(), np.zeros((3, 5)), **wrong)


def test_a_constant_decoder_is_called_constant():
    found = bilipschitz(lambda z: 0 * z, np.ones((3, 2)))
    assert found.inactive == ("z0", "z1")
    assert "does not depend on any latent" in found.verdict[1]


def test_lost_directions_and_inactive_latents_are_counted(rng):
    z = rng.standard_normal((5, 2))
    assert "Lost everywhere: 1 of 2 directions or more" in str(bilipschitz(lambda z: z.sum(1), z))
    assert "Inactive: 1 of 2 latents (z1)" in str(bilipschitz(lambda z: z[:, :1] * z.new_ones(2), z))


def test_the_columns_of_a_data_frame_name_the_latents(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.standard_normal((5, 2)), columns=["size", "place"])
    stretch = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert bilipschitz(lambda z: z * stretch, frame).inactive == ("place",)
    assert bilipschitz(lambda z: z * stretch, frame, names=["a", "b"]).inactive == ("b",)
