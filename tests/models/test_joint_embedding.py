"""Objectives with theorems: values in closed form, invariances, and refused settings."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.models import (  # noqa: E402
    Encoder,
    IdentifiableVAE,
    autoencoder_loss,
    diet_loss,
    infonce_loss,
    ivae_loss,
    lejepa_loss,
    sigreg,
    vicreg_loss,
)


class Given(torch.nn.Module):
    """Inputs are codes."""

    vectors = None

    def represent(self, inputs):
        return inputs


@pytest.fixture
def codes():
    return torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3)))


def test_infonce_of_equal_codes_is_that_of_chance(codes):
    same = torch.ones(40, 3)
    unit = codes / codes.norm(dim=1, keepdim=True)
    for loss, apart in (
        (infonce_loss(), 90 * unit),
        (infonce_loss(power=1.0), codes),
        (infonce_loss(power=2.0), codes),
    ):
        assert float(loss(Given(), (same, same))) == pytest.approx(math.log(40), rel=1e-5)
        assert float(loss(Given(), (9 * apart, 9 * apart))) < 1


def test_infonce_is_the_cross_entropy_of_its_similarities(codes):
    other = codes.flip(0) + 0.1
    by_hand = {
        (None, 0.5): codes @ other.T / 0.5,
        (1.0, 2.0): -torch.cdist(codes, other, p=1) / 2,
        (2.0, 1.0): -(torch.cdist(codes, other) ** 2),
        (3.0, 1.0): -(torch.cdist(codes, other, p=3) ** 3),
    }
    for (power, temperature), logits in by_hand.items():
        wanted = torch.nn.functional.cross_entropy(logits, torch.arange(40))
        assert float(infonce_loss(power, temperature)(Given(), (codes, other))) == pytest.approx(float(wanted))


def test_infonce_by_inner_products_does_not_see_a_rotation_and_by_l1_it_does(codes):
    other = codes + 0.2 * codes.flip(0)
    turn = torch.linalg.qr(torch.from_numpy(np.random.default_rng(1).normal(size=(3, 3))))[0]
    plain, turned = (codes, other), (codes @ turn, other @ turn)
    assert float(infonce_loss()(Given(), plain)) == pytest.approx(float(infonce_loss()(Given(), turned)))
    by_l1 = infonce_loss(power=1.0)
    assert abs(float(by_l1(Given(), plain)) - float(by_l1(Given(), turned))) > 1e-3


def test_vicreg_is_zero_for_white_codes_that_do_not_change(codes):
    around = codes - codes.mean(0)
    white = around @ torch.linalg.inv(torch.linalg.cholesky(around.T @ around / 39)).T
    assert float(vicreg_loss()(Given(), (white, white))) == pytest.approx(0, abs=1e-9)
    assert float(vicreg_loss()(Given(), (white, white + 0.1))) == pytest.approx(25 * 0.01)
    # all columns equal: six covariances of 1 in three dimensions, for each of the views
    equal = white[:, :1].expand(40, 3)
    assert float(vicreg_loss()(Given(), (equal, equal))) == pytest.approx(2 * 6 / 3)
    collapsed = vicreg_loss(covariance=0)(Given(), (torch.zeros(40, 3), torch.zeros(40, 3)))
    assert float(collapsed) == pytest.approx(25 * (1 - 0.01))


def test_sigreg_grows_with_the_distance_from_a_standard_gaussian():
    rng = np.random.default_rng(0)
    directions = torch.from_numpy(rng.normal(size=(30, 2)))
    normal = torch.from_numpy(rng.normal(size=(2000, 2)))
    near = float(sigreg(normal, directions))
    for far in (2 * normal, normal + 1, normal.abs(), 0 * normal):
        assert float(sigreg(far, directions)) > 10 * near
    assert float(sigreg(normal, 7 * directions)) == pytest.approx(near), "directions count by their direction"
    # one row at zero: the integral of (1 - exp(-t²/2))² exp(-t²/2) over the line
    exact = math.sqrt(2 * math.pi) * (1 - 2 / math.sqrt(2) + 1 / math.sqrt(3))
    assert float(sigreg(torch.zeros(1, 2, dtype=torch.float64), directions)) == pytest.approx(exact, rel=0.02)


def test_lejepa_weighs_alignment_against_the_gaussian(codes):
    directions = torch.eye(3, dtype=torch.float64)
    away = float(sigreg(codes, directions))
    assert float(lejepa_loss(0.3)(Given(), (codes, codes, directions))) == pytest.approx(0.3 * away)
    moved = codes + torch.tensor([0.5, 0.0, 0.0])
    both = (away + float(sigreg(moved, directions))) / 2
    assert float(lejepa_loss(0.3)(Given(), (codes, moved, directions))) == pytest.approx(0.7 * 0.25 + 0.3 * both)


@torch.no_grad()
def test_diet_is_the_cross_entropy_of_instances(codes):
    network = Encoder(3, 2, classes=5, normalise=True).double()
    labels = torch.arange(40) % 5
    wanted = torch.nn.functional.cross_entropy(network.represent(codes) @ network.vectors.T / 0.5, labels)
    assert float(diet_loss(0.5)(network, (codes, labels))) == pytest.approx(float(wanted))
    assert torch.allclose(network(codes).norm(dim=1), torch.ones(40, dtype=torch.float64))


def test_ivae_counts_the_divergence_from_the_prior_of_each_value(codes):
    network = IdentifiableVAE(3, 2, 4, noise=0.5).double()
    labels, nothing = torch.arange(40) % 4, torch.zeros(40, 2, dtype=torch.float64)
    with torch.no_grad():
        mean, spread = network.layers(codes).chunk(2, dim=-1)
        posterior = torch.distributions.Normal(mean, (spread / 2).exp())
        prior = torch.distributions.Normal(network.means[labels], (network.log_variances[labels] / 2).exp())
        missed = (network.decoder(mean) - codes).square().sum(-1) / (2 * 0.5**2)
        wanted = (missed + torch.distributions.kl_divergence(posterior, prior).sum(-1)).mean()
        assert float(ivae_loss(network, (codes, labels, nothing))) == pytest.approx(float(wanted))
        assert network(codes).equal(mean)


@torch.no_grad()
def test_an_autoencoder_is_judged_by_its_reconstruction(codes):
    network = Encoder(3, 2, decoder=True).double()
    found = network.decoder(network.represent(codes))
    assert float(autoencoder_loss(network, (codes,))) == pytest.approx(float((found - codes).square().mean()))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: infonce_loss(power=0.5), "power is 0.5"),
        (lambda: infonce_loss(temperature=0.0), "temperature is 0.0"),
        (lambda: diet_loss(-1.0), "temperature is -1.0"),
        (lambda: lejepa_loss(1.0), "between 0 and 1"),
        (lambda: IdentifiableVAE(3, 2, 4, noise=0.0), "noise is 0.0"),
        (lambda: Encoder(0, 2), "inputs"),
    ],
)
def test_settings_out_of_range_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
