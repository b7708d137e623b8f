"""Matrices that stay orthogonal, and autoencoders whose decoders obey the bound of their leak."""

import numpy as np
import pytest
import torch

import isorep
from isorep.models import (
    Group,
    OrthogonalAdam,
    OrthogonalAutoencoder,
    Recipe,
    reconstruction_loss,
    train_many,
)
from isorep.models.orthogonal import defect, orthogonal


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (5, 5), (1, 4)])
def test_random_matrices_are_orthogonal_and_follow_their_generator(shape):
    first, again = (orthogonal(*shape, torch.Generator().manual_seed(1)) for _ in range(2))
    assert first.shape == shape
    assert defect(first) < 1e-6
    assert torch.equal(first, again)


@pytest.mark.parametrize("rate", [1e-3, 0.05, 3.0])
def test_weights_do_not_drift_whatever_the_step(rate):
    data = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
    recipe = Recipe(steps=150, groups=Group("orthogonal_adam", rate))
    build = lambda seed: OrthogonalAutoencoder((12, 9, 9, 2), 0.4, seed=seed)  # noqa: E731
    for trained in train_many(build, data, reconstruction_loss, recipe, seeds=[0, 1]):
        assert trained.module.defect() < 1e-5
        assert all(torch.isfinite(value).all() for value in trained.module.parameters())


def test_the_optimiser_finds_the_leading_subspace():
    rng = np.random.default_rng(1)
    data = torch.from_numpy(rng.normal(size=(200, 6)) * [4, 3, 1, 0.5, 0.3, 0.1])
    basis = orthogonal(6, 2, torch.Generator().manual_seed(0), torch.float64).requires_grad_()
    mover = OrthogonalAdam([basis], lr=0.05)
    for step in range(200):
        mover.param_groups[0]["lr"] = 0.05 * (1 - step / 200)
        mover.zero_grad()
        (-((data @ basis) ** 2).mean()).backward()
        mover.step()
    _, _, axes = torch.linalg.svd(data, full_matrices=False)
    overlap = torch.linalg.svdvals(axes[:2] @ basis.detach())
    assert overlap.min() > 1 - 1e-6


@pytest.mark.parametrize("leak", [0.1, 0.5, 0.9, 1.0])
def test_the_decoder_obeys_the_bound_of_its_leak(leak):
    network = OrthogonalAutoencoder((20, 12, 7, 4), leak, seed=3, dtype=torch.float64)
    found = isorep.decoder.bilipschitz(network.decoder, np.random.default_rng(0).normal(size=(200, 4)))
    assert found.constant <= network.bound * (1 + 1e-9)
    assert network.bound == pytest.approx(leak**-2)
    if leak == 1:
        assert found.constant == pytest.approx(1)
    else:
        assert found.constant > 1.01


def test_encoder_and_decoder_are_mirrors_in_shape():
    network = OrthogonalAutoencoder((20, 12, 7, 4), 0.5)
    assert [tuple(each.shape) for each in network.encoder.parameters()] == [(12, 20), (7, 12), (4, 7)]
    assert [tuple(each.shape) for each in network.decoder.parameters()] == [(7, 4), (12, 7), (20, 12)]
    assert network(torch.zeros(3, 20)).shape == (3, 20)
    assert network.layers == 3


@pytest.mark.parametrize(
    ("widths", "leak", "message"),
    [
        ((8, 128, 64, 5), 0.5, "grow from 8 to 128: then a layer of the decoder narrows, has a kernel"),
        ((8,), 0.5, "at least two widths"),
        ((8, 0), 0.5, "at least 1"),
        ((8, 4), 0.0, "the leak is 0.0"),
        ((8, 4), 1.5, "the leak is 1.5"),
    ],
)
def test_architectures_without_a_bound_are_refused(widths, leak, message):
    with pytest.raises(isorep.InputError, match=message):
        OrthogonalAutoencoder(widths, leak)
