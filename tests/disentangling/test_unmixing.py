"""Ways to unmix latents: what they find, what they keep, how they depend on scale, and what is refused."""

import numpy as np
import pytest

import isorep
from isorep.disentangling import active_directions, decoder_response, unmix

from ..data import rotation


@pytest.fixture(scope="module")
def mixed():
    """Three uniform factors, turned, among five latents; two directions carry a little noise that nothing shows."""
    rng = np.random.default_rng(0)
    factors = rng.uniform(-1.5, 1.5, size=(2000, 3)) * [1.0, 1.2, 0.8]
    noise = 0.02 * rng.laplace(size=(2000, 2))
    turned = rotation(5, 1)
    latents = np.column_stack([factors, noise]) @ turned.T
    response = turned @ np.diag([1.0, 1.0, 1.0, 1e-6, 1e-6]) @ turned.T
    return factors, latents, response


def matched(factors, components):
    """The largest absolute correlation of each factor with one component."""
    both = np.abs(np.corrcoef(factors.T, components.T))
    return both[: factors.shape[1], factors.shape[1] :].max(1)


def test_pruning_keeps_the_directions_that_move_images_and_finds_the_factors(mixed):
    factors, latents, response = mixed
    found = unmix(latents, response=response)
    assert found.components == 3
    assert matched(factors, found.transform(latents)).min() > 0.99
    assert found.activity[2] > 100 * found.activity[3]
    assert found.conditioning.shape == (3, 3)
    assert not found.gaussian.any()


def test_whitening_at_full_rank_lifts_the_noise_to_the_size_of_the_factors(mixed):
    _, latents, _ = mixed
    found = unmix(latents, "whitened")
    components = found.transform(latents)
    assert found.components == 5
    assert components.std(0) == pytest.approx(np.ones(5), abs=0.01)


def test_rescaled_latents_are_unmixed_alike_whatever_their_scale_and_published_ones_are_not(mixed):
    factors, latents, _ = mixed
    for scale in (1e-3, 1.0, 1e3):
        small = unmix(scale * latents + 7.0, "scaled")
        assert matched(factors, small.transform(scale * latents + 7.0)).min() > 0.95
    with np.errstate(all="ignore"):
        found = unmix(1e-3 * latents, "published")
    assert matched(factors, found.transform(1e-3 * latents)).min() < 0.9


@pytest.mark.parametrize("kind", ["scaled", "published", "whitened"])
def test_maps_that_keep_all_directions_come_back(mixed, kind):
    _, latents, _ = mixed
    found = unmix(latents, kind)
    assert np.allclose(found.inverse_transform(found.transform(latents)), latents, atol=1e-8)


def test_pruned_components_come_back_to_the_active_part(mixed):
    _, latents, response = mixed
    found = unmix(latents, response=response)
    back = found.inverse_transform(found.transform(latents))
    assert np.allclose(found.transform(back), found.transform(latents), atol=1e-8)
    assert np.abs(back - latents).max() < 0.3  # the noise is gone, and nothing else


def test_activity_does_not_change_when_the_decoder_makes_up_for_a_mixing(mixed, rng):
    _, latents, response = mixed
    mixing = rng.normal(size=(5, 5)) + 3 * np.eye(5)
    inverse = np.linalg.inv(mixing)
    _, _, before = active_directions(latents, response)
    onto, _, after = active_directions(latents @ mixing.T, inverse.T @ response @ inverse)
    assert np.allclose(before, after, rtol=1e-6, atol=1e-9)
    assert np.allclose(np.cov((latents @ mixing.T) @ onto.T, rowvar=False), np.eye(len(onto)), atol=1e-6)


def test_constant_latents_are_inactive(mixed):
    _, latents, _ = mixed
    padded = np.column_stack([latents, np.full(len(latents), 3.0)])
    found = unmix(padded, response=np.eye(6))
    assert found.components <= 5
    assert found.activity[-1] == 0


def test_the_response_is_the_mean_square_of_jacobians(rng):
    jacobians = rng.normal(size=(7, 11, 4)).astype(np.float32)
    by_hand = np.mean([each.T @ each for each in jacobians.astype(float)], axis=0)
    assert decoder_response(jacobians) == pytest.approx(by_hand, rel=1e-6)
    with pytest.raises(isorep.InputError, match="samples, outputs and latents"):
        decoder_response(jacobians[0])


@pytest.mark.parametrize(
    ("latents", "settings", "words"),
    [
        (np.zeros((5, 2)), {"kind": "scaled"}, "all rows of the latents are alike"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), {"kind": "scaled"}, "latents"),
        (np.ones(5), {"kind": "scaled"}, "rows and columns"),
        (np.array([["a", "b"], ["c", "d"]]), {"kind": "scaled"}, "rows and columns"),
        (np.eye(5), {"kind": "magic"}, "kind is 'magic'"),
        (np.eye(5), {}, "needs the response"),
        (np.eye(5), {"response": np.eye(4)}, "the response has the shape"),
        (np.eye(5), {"response": np.zeros((5, 5))}, "responds to no direction"),
    ],
)
def test_what_cannot_be_unmixed_is_refused(latents, settings, words):
    with pytest.raises(isorep.InputError, match=words):
        unmix(latents, **settings)
