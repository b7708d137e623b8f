"""Slot generators: prescribed support and overlap, injective slots, the same draw for a seed."""

import numpy as np
import pytest

import isorep
from isorep.datasets import slot_generator


@pytest.mark.parametrize(("shape", "slots"), [("line", 3), ("ring", 3), ("ring", 2), ("line", 1)])
@pytest.mark.parametrize("overlap", [0, 3])
def test_supports_overlap_as_prescribed(shape, slots, overlap):
    generator = slot_generator(slots, 2, 8, overlap, shape=shape)
    moved = np.abs(generator.jacobian(generator.sample(4))).max(0) > 0
    supports = [set(np.flatnonzero(moved[:, block].any(1))) for block in generator.blocks]
    assert all(len(support) == 8 for support in supports)
    assert set().union(*supports) == set(range(generator.outputs))
    neighbours = [(k, k + 1) for k in range(slots - 1)] + ([(slots - 1, 0)] if shape == "ring" and slots > 2 else [])
    for one, other in neighbours:
        assert len(supports[one] & supports[other]) == overlap * (2 if shape == "ring" and slots == 2 else 1)
    assert generator.outputs == slots * (8 - overlap) + (0 if shape == "ring" and slots > 1 else overlap)


@pytest.mark.parametrize("activation", ["leaky_relu", "smooth"])
@pytest.mark.parametrize("interaction", ["additive", "product", "occlusion"])
def test_the_jacobian_is_that_of_differences(interaction, activation):
    generator = slot_generator(3, [1, 2, 3], 6, 2, interaction=interaction, activation=activation, strength=0.7)
    latents, step = generator.sample(4), 1e-6
    moves = step * np.eye(generator.d)
    expected = np.stack([(generator(latents + move) - generator(latents - move)) / (2 * step) for move in moves], -1)
    assert np.allclose(generator.jacobian(latents), expected, atol=1e-7)


@pytest.mark.parametrize("interaction", ["additive", "product", "occlusion"])
def test_the_module_gives_the_same_outputs(interaction):
    torch = pytest.importorskip("torch")
    for activation in ("leaky_relu", "smooth"):
        generator = slot_generator(3, 2, 6, 2, interaction=interaction, activation=activation, shape="ring")
        latents = generator.sample(5)
        found = generator.module(torch.float64)(torch.tensor(latents)).numpy()
        assert np.allclose(found, generator(latents), atol=1e-12)
        assert generator.module()(torch.tensor(latents, dtype=torch.float32)).dtype == torch.float32


def test_slots_are_injective_and_well_conditioned():
    generator = slot_generator(4, 3, 20, 0)
    for first, second in zip(generator.first, generator.second, strict=True):
        assert np.allclose(np.linalg.norm(first, axis=0), 1)
        assert np.linalg.cond(first) < 2
        assert np.linalg.cond(second) < 100
    values = np.linalg.svd(generator.jacobian(generator.sample(50)), compute_uv=False)
    assert values.min() > 1e-3


def test_a_seed_decides_everything():
    first, second, other = (slot_generator(2, 2, 6, 1, random_state=seed) for seed in (4, 4, 5))
    assert np.array_equal(first.first[0], second.first[0])
    assert not np.array_equal(first.first[0], other.first[0])
    assert np.array_equal(first.sample(3, random_state=1), second.sample(3, random_state=1))
    same = slot_generator(2, 2, 6, 1, same_network=True)
    assert np.array_equal(same.first[0], same.first[1])
    assert not np.array_equal(first.first[0], first.first[1])


def test_dependent_latents_have_the_covariance_of_one_wishart_draw():
    generator = slot_generator(2, 2, 6)
    independent = np.cov(generator.sample(20_000).T)
    dependent = np.cov(generator.sample(20_000, dependent=True).T)
    assert np.abs(independent - np.eye(4)).max() < 0.05
    assert np.abs(dependent - np.diag(np.diag(dependent))).max() > 0.5
    factor = np.random.default_rng([0, 2]).normal(size=(4, 4))
    assert np.allclose(dependent, factor @ factor.T, atol=0.06 * np.abs(dependent).max())


def test_truth_follows_the_overlap():
    assert slot_generator(3, 3, 20, 0).truth.type_d
    held = slot_generator(3, 3, 20, 4).truth
    assert (held.type_d, held.type_m, held.type_s, held.gap) == (False, True, True, 13)
    lost = slot_generator(2, 3, 20, 17).truth
    assert (lost.type_m, lost.type_s) == (True, False)
    assert slot_generator(2, 3, 20, 18).truth.type_m is False
    unknown = slot_generator(3, 3, 20, 9, interaction="occlusion").truth
    assert (unknown.type_d, unknown.type_s) == (True, None)
    assert slot_generator(2, 2, 6, 1, interaction="product", strength=0).truth.h2_swaps


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slots": 0}, "at least one"),
        ({"overlap": 20}, "cannot overlap"),
        ({"window": 2}, "hold slots of 3"),
        ({"dimensions": [1, 2]}, "do not fit"),
        ({"interaction": "sum"}, "interaction is 'sum'"),
        ({"shape": "torus"}, "shape is 'torus'"),
        ({"activation": "relu"}, "activation is 'relu'"),
        ({"shape": "ring", "overlap": 15}, "shorter than one window"),
        ({"dimensions": [1, 2, 3], "same_network": True}, "same network"),
    ],
)
def test_wrong_generators_are_refused(options, words):
    with pytest.raises(isorep.InputError, match=words):
        slot_generator(**options)


def test_wrong_latents_are_refused():
    generator = slot_generator()
    with pytest.raises(isorep.InputError, match=r"takes \(n, 9\)"):
        generator(np.ones((2, 3)))
    with pytest.raises(isorep.InputError, match="at least one"):
        generator.sample(0)
