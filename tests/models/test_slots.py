"""Slot autoencoders: Jacobians pushed forward by hand, and decoders that are sums of slots."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.decoder.mechanism.losses import (  # noqa: E402
    compositional_contrast,
    cross_hessian_penalty,
    decode_and_jacobian,
)
from isorep.models import AdditiveDecoder, Recipe, SlotAutoencoder, regroup_slots, train_many  # noqa: E402


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("activation", ["leaky_relu", "smooth"])
@pytest.mark.parametrize("hidden", [(7, 5), (6,), ()])
def test_jacobians_pushed_forward_are_those_of_differentiation(additive, activation, hidden):
    network = SlotAutoencoder(9, (2, 3), hidden=hidden, additive=additive, activation=activation).double()
    latents = torch.randn(11, 5, dtype=torch.float64)
    outputs, jacobian = network.decoder.with_jacobian(latents)
    expected_outputs, expected = decode_and_jacobian(network.decoder, latents)
    torch.testing.assert_close(outputs, expected_outputs)
    torch.testing.assert_close(jacobian, expected)
    torch.testing.assert_close(network(outputs), network.decoder(network.encoder(outputs)))


def test_gradients_through_the_jacobian_are_those_of_differentiation():
    network = SlotAutoencoder(6, (2, 1), hidden=(5, 4), activation="smooth").double()
    latents = torch.randn(8, 3, dtype=torch.float64)
    found = []
    for jacobian in (network.decoder.with_jacobian(latents)[1], decode_and_jacobian(network.decoder, latents)[1]):
        loss = jacobian.square().sum(1).sqrt().prod(1).sum()
        found.append(torch.autograd.grad(loss, list(network.decoder.parameters()), allow_unused=True))
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_an_additive_decoder_has_no_interaction_across_slots_and_another_has():
    torch.manual_seed(0)
    latents = torch.randn(20, 4, dtype=torch.float64)
    blocks = [[0, 1], [2, 3]]
    penalties = []
    for additive in (True, False):
        network = SlotAutoencoder(10, (2, 2), hidden=(8, 8), additive=additive, activation="smooth").double()
        assert network.blocks == blocks
        penalties.append(float(cross_hessian_penalty(network.decoder, latents, blocks, probes=None).detach()))
    assert penalties[0] < 1e-20 < 1e-6 < penalties[1]


def test_models_are_trained_together_to_the_same_weights():
    data = torch.randn(60, 6)

    def loss(module, batch):
        outputs, jacobian = module.decoder.with_jacobian(module.encoder(batch))
        return (outputs - batch).square().mean() + 0.01 * jacobian.abs().mean()

    def build(seed):
        return SlotAutoencoder(6, (1, 2), hidden=(5,), additive=True)

    runs = [
        train_many(build, data, loss, Recipe(steps=5, batch=20), seeds=[3, 4], batched=together)
        for together in (True, False)
    ]
    for one, other in zip(*runs, strict=True):
        for name, value in one.module.state_dict().items():
            torch.testing.assert_close(value, other.module.state_dict()[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ((0, (2, 2)), {}, "0 outputs"),
        ((5, ()), {}, "slots of"),
        ((5, (2, 0)), {}, "from 1 on"),
        ((5, (2,)), {"hidden": (4, 0)}, "hidden widths"),
        ((5, (2,)), {"activation": "sine"}, "leaky_relu, smooth"),
    ],
)
def test_wrong_sizes_are_refused(given, options, words):
    for kind in (SlotAutoencoder, AdditiveDecoder):
        with pytest.raises(InputError, match=words):
            kind(*given, **options)


def _two_slots(swapped):
    """A linear autoencoder of two slots with outputs of their own, two latents of which may be in the wrong slot."""
    network = SlotAutoencoder(12, (3, 3), hidden=()).double()
    rng = np.random.default_rng(0)
    decode = np.zeros((12, 6))
    decode[:6, :3], decode[6:, 3:] = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    turn = np.zeros((6, 6))
    turn[:3, :3], turn[3:, 3:] = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))  # no axis of a slot is special
    order = [0, 1, 5, 3, 4, 2] if swapped else list(range(6))
    decode = decode[:, order] @ turn
    with torch.no_grad():
        network.decoder.linear[0].weight.copy_(torch.from_numpy(decode))
        network.encoder.linear[0].weight.copy_(torch.from_numpy(np.linalg.pinv(decode)))
        network.encoder.linear[0].bias.zero_()
    inputs = torch.from_numpy(rng.normal(size=(400, 6)) @ decode.T)
    return network, inputs


def test_regrouping_puts_directions_into_their_slots_and_changes_no_output():
    network, inputs = _two_slots(swapped=True)
    before = [value.clone() for value in network.parameters()]
    regrouped, exchanges = regroup_slots(network, inputs)
    assert exchanges == 1
    torch.testing.assert_close(regrouped(inputs), network(inputs))
    for value, kept in zip(network.parameters(), before, strict=True):
        assert torch.equal(value, kept), "the original stays as it is"
    latents = regrouped.encoder(inputs)
    blocks = network.blocks
    assert compositional_contrast(network.decoder, network.encoder(inputs), blocks) > 0.1
    assert compositional_contrast(regrouped.decoder, latents, blocks) < 1e-6


def test_slots_that_are_right_stay_and_additive_decoders_are_refused():
    network, inputs = _two_slots(swapped=False)
    regrouped, exchanges = regroup_slots(network, inputs)
    assert exchanges == 0
    torch.testing.assert_close(regrouped.encoder(inputs), network.encoder(inputs))
    assert regroup_slots(SlotAutoencoder(5, (3,)), torch.randn(20, 5))[1] == 0
    with pytest.raises(InputError, match="additive decoder"):
        regroup_slots(SlotAutoencoder(12, (3, 3), additive=True), inputs)
