"""Losses of the benchmark against values computed by hand, with numpy alone."""

import numpy as np
import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models import QLAE, VQVAE, BetaTCVAE, BetaVAE, BioAE, PlainAutoencoder  # noqa: E402
from isorep.models.disentangling import (  # noqa: E402
    distances,
    divergence_parts,
    kl_from_normal,
    nearest_code,
    nearest_value,
    straight_through,
)

SHAPE = (3, 4, 4)
PIXELS = 48


@pytest.fixture
def images():
    return torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(0))


def made(model, **settings):
    torch.manual_seed(1)
    return model(SHAPE, 4, **settings)


def entropy(logits, images):
    """Mean sigmoid cross-entropy, from its definition."""
    share = 1 / (1 + np.exp(-logits.detach().numpy().astype(float)))
    target = images.numpy().astype(float)
    return float(np.mean(-target * np.log(share) - (1 - target) * np.log(1 - share)))


def normal_log_density(value, mean, deviation):
    return -0.5 * ((value - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)


def test_the_autoencoder_loses_the_mean_cross_entropy_of_pixels(images):
    model = made(PlainAutoencoder)
    expected = entropy(model.decoder(model.encoder(images)), images)
    assert model.losses(images)["loss"].item() == pytest.approx(expected, rel=1e-5)
    bytes_ = (255 * images).round().to(torch.uint8)
    assert model.losses(bytes_)["loss"].item() == pytest.approx(model.losses(bytes_.float() / 255)["loss"].item())
    assert torch.allclose(
        model.decode(model.encode(images)), torch.sigmoid(model.decoder(model.encoder(images))), atol=1e-5
    )


def test_the_divergence_of_a_normal_from_the_standard_one():
    mean, deviation = torch.tensor([0.0, 1.0, -2.0]), torch.tensor([1.0, 1.0, 0.5])
    by_hand = [0.0, 0.5, 0.5 * (4 + 0.25 - 1) - np.log(0.5)]
    assert kl_from_normal(mean, deviation).numpy() == pytest.approx(by_hand)


def test_beta_vae_weighs_the_summed_divergence_by_beta_over_the_pixels(images):
    model = made(BetaVAE, beta=3.0)
    noise = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    found = model.losses({"images": images, "noise": noise})
    raw = model.encoder(images).detach().numpy()
    mean, deviation = raw[:, :4], np.log1p(np.exp(raw[:, 4:]))
    logits = model.decoder(torch.from_numpy(mean + deviation * noise.numpy()))
    divergence = (0.5 * (mean**2 + deviation**2 - 1) - np.log(deviation)).sum(1).mean()
    assert found["divergence"].item() == pytest.approx(divergence, rel=1e-4)
    assert found["loss"].item() == pytest.approx(entropy(logits, images) + 3 / PIXELS * divergence, rel=1e-4)
    assert np.allclose(model.encode(images).detach(), mean, atol=1e-6)


def test_the_parts_of_the_divergence_from_loops_over_pairs(rng):
    n, d, rows = 5, 3, 1000
    mean, sample = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    deviation = rng.uniform(0.5, 1.5, size=(n, d))
    own, joint, product, prior = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(n):
        own[i] = normal_log_density(sample[i], mean[i], deviation[i]).sum()
        prior[i] = normal_log_density(sample[i], 0, 1).sum()
        joint[i] = np.log(
            sum(np.exp(normal_log_density(sample[i], mean[m], deviation[m]).sum()) for m in range(n)) / (rows * n)
        )
        product[i] = sum(
            np.log(
                sum(np.exp(normal_log_density(sample[i, j], mean[m, j], deviation[m, j])) for m in range(n))
                / (rows * n)
            )
            for j in range(d)
        )
    found = divergence_parts(*map(torch.from_numpy, (sample, mean, deviation)), rows)
    by_hand = ((own - joint).mean(), (joint - product).mean(), (product - prior).mean())
    assert [part.item() for part in found] == pytest.approx(by_hand)
    assert sum(by_hand) == pytest.approx((own - prior).mean())


def test_beta_tcvae_weighs_only_the_total_correlation(images):
    noise = torch.zeros(6, 4)
    parts = {}
    for beta in (1.0, 5.0):
        model = made(BetaTCVAE, beta=beta, rows=200)
        parts[beta] = model.losses({"images": images, "noise": noise})
    one, five = parts[1.0], parts[5.0]
    assert one["total_correlation"].item() == pytest.approx(five["total_correlation"].item())
    more = 4 * one["total_correlation"].item() / PIXELS
    assert five["loss"].item() - one["loss"].item() == pytest.approx(more, abs=1e-5)
    total = one["reconstruction"] + (one["information"] + one["total_correlation"] + one["dimension_wise"]) / PIXELS
    assert one["loss"].item() == pytest.approx(total.item())


def test_the_number_of_rows_moves_no_gradient(images):
    gradients = []
    for rows in (10, 10**6):
        model = made(BetaTCVAE, beta=2.0, rows=rows)
        model.losses({"images": images, "noise": torch.ones(6, 4)})["loss"].backward()
        gradients.append(model.encoder.layers[0].weight.grad)
    assert torch.allclose(*gradients, atol=1e-7)


def test_bioae_adds_negative_parts_and_energy(images):
    model = made(BioAE, nonnegativity=2.0, activity=0.5)
    latents = model.encoder(images).detach().numpy()
    expected = (
        entropy(model.decoder(torch.from_numpy(latents)), images)
        + 2 * np.maximum(-latents, 0).mean()
        + 0.5 * (latents**2).mean()
    )
    assert model.losses(images)["loss"].item() == pytest.approx(expected, rel=1e-5)


def test_the_nearest_code_and_the_nearest_value(rng):
    tokens, codebook = rng.normal(size=(5, 3, 2)), rng.normal(size=(7, 2))
    by_hand = ((tokens[:, :, None] - codebook) ** 2).sum(-1).argmin(-1)
    assert np.array_equal(nearest_code(torch.from_numpy(tokens), torch.from_numpy(codebook)), by_hand)
    values = torch.tensor([[0.0, 1.0, 10.0], [-1.0, 0.0, 2.0]])
    numbers = torch.tensor([[0.4, 0.4], [6.0, 1.1], [0.6, -9.0]])
    assert nearest_value(numbers, values).tolist() == [[0.0, 0.0], [10.0, 2.0], [1.0, -1.0]]


def test_gradients_pass_straight_through_and_each_distance_moves_one_side():
    numbers = torch.tensor([[0.3, -0.2]], requires_grad=True)
    values = torch.tensor([[0.5, -0.5]], requires_grad=True)
    passed = straight_through(numbers, values)
    assert torch.allclose(passed, values, atol=1e-5)
    (passed * torch.tensor([[2.0, 3.0]])).sum().backward()
    assert numbers.grad.tolist() == [[2.0, 3.0]]
    assert values.grad is None
    quantisation, commitment = distances(numbers, values)
    assert quantisation.item() == pytest.approx((0.04 + 0.09) / 2)
    assert commitment.item() == pytest.approx((0.04 + 0.09) / 2)
    numbers.grad = None
    quantisation.backward()
    assert numbers.grad is None
    assert values.grad.tolist() == [pytest.approx([0.2, -0.3])]
    values.grad = None
    commitment.backward()
    assert values.grad is None
    assert numbers.grad.tolist() == [pytest.approx([-0.2, 0.3])]


def test_qlae_by_hand(images):
    model = made(QLAE, quantisation=0.01, commitment=0.03)
    assert model.codebook.shape == (4, 10)
    assert np.allclose(model.codebook.detach()[2], np.linspace(-0.5, 0.5, 10))
    numbers = model.encoder(images).detach().numpy()
    grid = np.linspace(-0.5, 0.5, 10)
    values = grid[np.abs(numbers[..., None] - grid).argmin(-1)].astype(np.float32)
    assert np.allclose(model.encode(images).detach(), values, atol=1e-6)
    distance = ((numbers - values) ** 2).mean()
    expected = entropy(model.decoder(torch.from_numpy(values)), images) + 0.04 * distance
    assert model.losses(images)["loss"].item() == pytest.approx(expected, rel=1e-5)
    assert torch.allclose(
        model.decode(model.encode(images)), torch.sigmoid(model.decoder(torch.from_numpy(values))), atol=1e-5
    )


def test_vqvae_by_hand(images):
    model = made(VQVAE, codes=16)
    assert model.codebook.shape == (16, 64)
    assert model.codebook.abs().max() <= np.sqrt(3 / 64)
    tokens = model.encoder(images).detach().numpy().reshape(6, 4, 64)
    codebook = model.codebook.detach().numpy()
    chosen = ((tokens[:, :, None] - codebook) ** 2).sum(-1).argmin(-1)
    assert np.array_equal(model.encode(images), chosen)
    codes = codebook[chosen]
    logits = model.decoder(torch.from_numpy(codes.reshape(6, 256)))
    expected = entropy(logits, images) + 1.25 * ((tokens - codes) ** 2).mean()
    assert model.losses(images)["loss"].item() == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(model.decode(torch.from_numpy(chosen)), torch.sigmoid(logits), atol=1e-6)
    with pytest.raises(isorep.InputError, match="a codebook of 16 has no code 16"):
        model.decode(torch.full((1, 4), 16))


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (PlainAutoencoder, {"network": "other"}),
        (BetaVAE, {"beta": -1.0}),
        (BetaTCVAE, {"rows": 0}),
        (BioAE, {"activity": float("nan")}),
        (VQVAE, {"codes": 1}),
        (QLAE, {"values": 1}),
    ],
)
def test_settings_that_make_no_sense_are_refused(model, settings):
    with pytest.raises(isorep.InputError):
        model(SHAPE, 4, **settings)
