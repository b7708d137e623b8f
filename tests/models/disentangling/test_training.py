"""Every model of the benchmark under the trainer: the protocol's groups, seeds as one program, and learning at all."""

import numpy as np
import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models import train, train_many  # noqa: E402
from isorep.models.batched import Alone, Movers  # noqa: E402
from isorep.models.disentangling import METHODS, BetaVAE, benchmark_recipe, method_named  # noqa: E402

SHAPE = (1, 6, 6)


@pytest.fixture(scope="module")
def squares():
    """Bright squares on black: two factors, in bytes."""
    rng = np.random.default_rng(0)
    images = np.zeros((96, *SHAPE), np.uint8)
    for image, (x, y) in zip(images, rng.integers(0, 5, size=(96, 2)), strict=True):
        image[0, x : x + 2, y : y + 2] = 255
    return torch.from_numpy(images)


@pytest.mark.parametrize("name", METHODS)
def test_models_learn_to_reconstruct(name, squares):
    method = method_named(name)
    settings = {"beta": 0.05} if issubclass(method.model, BetaVAE) else {}
    build = method.builder(SHAPE, 4, network="dense", rows=96, **settings)
    steps = 400 if settings else 120  # posteriors must leave the prior first
    found = train(
        build,
        squares,
        method.model.losses,
        benchmark_recipe(steps, batch=32, record_every=20),
        prepare=method.model.prepare(4),
    )
    losses = found.history.parts.get("reconstruction", found.history.training)
    assert losses[-1] < 0.65 * losses[0]  # the mean image alone reaches 0.7
    latents = found.module.encode(squares)
    assert latents.shape == (96, 4)
    images = found.module.decode(latents)
    assert images.shape == squares.shape
    assert 0 <= images.min() <= images.max() <= 1
    if method.model.discrete:
        assert len(torch.unique(latents[:, 0])) <= (10 if name == "qlae" else 512)


@pytest.mark.parametrize("name", ["ae", "beta_vae", "beta_tcvae", "bioae", "vqvae", "qlae"])
def test_seeds_trained_as_one_program_end_where_they_end_alone(name, squares):
    method = method_named(name)
    build = method.builder(SHAPE, 3, network="dense", rows=96)
    recipe = benchmark_recipe(4, batch=16, weight_decay=0.1)
    given = {"seeds": [0, 7], "prepare": method.model.prepare(3)}
    together = train_many(build, squares, method.model.losses, recipe, batched=True, **given)
    alone = train_many(build, squares, method.model.losses, recipe, batched=False, **given)
    for one, other in zip(together, alone, strict=True):
        assert one.together
        for key, value in one.module.state_dict().items():
            assert torch.allclose(value, other.module.state_dict()[key], atol=2e-4), key


def test_convolutions_train_as_one_program(squares):
    method = method_named("qlae")
    images = torch.nn.functional.interpolate(squares[:8].float() / 255, size=32)
    build = method.builder((1, 32, 32), 3, network="light", rows=8)
    recipe = benchmark_recipe(1, batch=8)
    found = train_many(build, images, method.model.losses, recipe, seeds=[0, 1], batched=True)
    assert all(np.isfinite(each.history.training[-1]) for each in found)


def test_weights_are_clipped_and_decayed_biases_and_codebooks_are_not(squares):
    method = method_named("qlae")
    recipe = benchmark_recipe(10, weight_decay=0.5)
    movers = Movers(Alone(method.builder(SHAPE, 3, network="dense", rows=9)(0), method.model.losses), recipe)
    (plain, first, adam), (clipped, second, adamw) = movers._groups
    assert all(name.endswith("bias") or name == "codebook" for name in first)
    assert all(name.endswith("weight") for name in second)
    assert isinstance(adamw, torch.optim.AdamW)
    assert not isinstance(adam, torch.optim.AdamW)
    assert (plain.clip_value, plain.options) == (None, {})
    assert (clipped.clip_value, clipped.options) == (1.0, {"weight_decay": 0.5})
    published = method.builder((3, 32, 32), 3, network="published", rows=9)(0)
    groups = Movers(Alone(published, method.model.losses), recipe)._groups
    assert "decoder.constant" in groups[1][1]


def test_published_settings():
    assert method_named("beta_vae").settings_for("falcor3d") == ({"beta": 10.0}, 0.0)
    assert method_named("beta_tcvae").settings_for("falcor3d") == ({"beta": 3.0}, 0.0)
    assert method_named("bioae").settings_for("isaac3d") == ({"activity": 0.1}, 1e-4)
    assert method_named("qlae").settings_for("mpi3d_real_complex") == ({}, 1e-3)
    assert method_named("qlae").settings_for("shapes3d") == ({}, 0.1)
    assert method_named("vqvae_decay").settings_for("rooms") == ({}, 0.01)
    with pytest.raises(isorep.InputError, match="there is no model 'gan'; there are ae, beta_vae"):
        method_named("gan")
