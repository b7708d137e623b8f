"""Losses on the Jacobian: values by hand, gradients by differences, stacked models."""

import math

import numpy as np
import pytest

import isorep
from isorep.datasets import slot_generator

torch = pytest.importorskip("torch")
from isorep.decoder.mechanism import losses  # noqa: E402

BLOCKS = [[0, 1], [2]]


def network(seed=0, activation=torch.nn.Tanh, outputs=4, dtype=torch.float64):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 6, dtype=dtype), activation(), torch.nn.Linear(6, outputs, dtype=dtype)
    )


def batch(n=5, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(1).normal(size=(n, 3)), dtype=dtype)


LOSSES = {
    "contrast": lambda g, z: losses.compositional_contrast(g, z, BLOCKS),
    "image": lambda g, z: losses.compositional_contrast(g, z, BLOCKS, weighting="image"),
    "sparsity": lambda g, z: losses.jacobian_sparsity(g, z),
    "ima": lambda g, z: losses.ima_contrast(g, z),
    "hessian": lambda g, z: losses.cross_hessian_penalty(g, z, BLOCKS, probes=None),
}


def test_the_contrast_of_a_matrix_is_what_one_gets_by_hand():
    weights = torch.tensor([[3.0, 1.0, 0.0], [4.0, 0.0, 0.0], [2.0, 0.0, 7.0]], dtype=torch.float64)
    # columns of the transpose are outputs: norms of block {0, 1} are 5, 1, 0 and of block {2} are 2, 0, 7
    found = losses.compositional_contrast(lambda z: z @ weights, batch(), BLOCKS)
    assert float(found) == pytest.approx(5 * 2)
    image = losses.compositional_contrast(lambda z: z @ weights, batch(), BLOCKS, weighting="image")
    means = np.array([3.5, 0.5, 3.5])
    assert float(image) == pytest.approx((5 * 2 / 3.5**2) * means[0] / means.max())


def test_sparsity_is_one_for_single_outputs_and_the_root_of_the_outputs_for_even_ones():
    single = torch.eye(3, dtype=torch.float64) * torch.tensor([1.0, 100.0, 1e-3], dtype=torch.float64)
    assert float(losses.jacobian_sparsity(lambda z: z @ single, batch())) == pytest.approx(1)
    even = torch.ones(3, 9, dtype=torch.float64)
    assert float(losses.jacobian_sparsity(lambda z: z @ even, batch())) == pytest.approx(3)


def test_ima_is_zero_for_orthogonal_columns_and_the_known_logarithm_otherwise():
    orthogonal = torch.tensor(np.linalg.qr(np.random.default_rng(0).normal(size=(5, 3)))[0] * [2, 3, 5]).T
    assert float(losses.ima_contrast(lambda z: z @ orthogonal, batch())) == pytest.approx(0, abs=1e-12)
    square = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 2]], dtype=torch.float64)  # columns of J are its rows
    expected = math.log(1) + math.log(math.sqrt(2)) + math.log(2) - math.log(2)
    assert float(losses.ima_contrast(lambda z: z @ square, batch())) == pytest.approx(expected)
    wide = torch.cat([square, torch.zeros(3, 2, dtype=torch.float64)], 1)
    assert float(losses.ima_contrast(lambda z: z @ wide, batch())) == pytest.approx(expected)


def test_the_cross_hessian_counts_products_across_blocks_only():
    z = batch()

    def decoder(z):
        return torch.stack([3 * z[:, 0] * z[:, 2], z[:, 0] * z[:, 1], z[:, 2] ** 2], 1)

    assert float(losses.cross_hessian_penalty(decoder, z, BLOCKS, probes=None)) == pytest.approx(9)
    torch.manual_seed(0)
    assert float(losses.cross_hessian_penalty(decoder, z, BLOCKS)) == pytest.approx(9)  # signs: 3 u0 v2, squared
    additive = slot_generator(2, [2, 1], 4, 1, activation="smooth").module(torch.float64)
    assert float(losses.cross_hessian_penalty(additive, z, BLOCKS)) == pytest.approx(0, abs=1e-20)


def test_the_contrast_vanishes_exactly_for_disjoint_slots():
    apart, joined = (slot_generator(2, [2, 1], 4, overlap).module(torch.float64) for overlap in (0, 1))
    assert float(losses.compositional_contrast(apart, batch(), BLOCKS)) == 0
    assert float(losses.compositional_contrast(joined, batch(), BLOCKS)) > 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_differences(name):
    model, z = network(), batch(3)
    weight = model[0].weight
    LOSSES[name](model, z).backward()
    gradient = weight.grad.clone()
    for place in ((0, 0), (3, 1), (5, 2)):
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                weight[place] += step
                values.append(LOSSES[name](model, z).item())
                weight[place] -= step
        assert float(gradient[place]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.LeakyReLU])
def test_stacked_models_give_what_each_gives_alone(name, activation):
    models = [network(seed, activation) for seed in range(3)]
    parameters, _ = torch.func.stack_module_state(models)
    z = batch()

    def loss(parameters, z):
        return LOSSES[name](lambda z: torch.func.functional_call(models[0], parameters, (z,)), z)

    together = torch.func.vmap(loss, (0, None))(parameters, z)
    alone = torch.stack([LOSSES[name](model, z) for model in models])
    assert torch.allclose(together, alone, atol=1e-5)
    gradients = torch.func.vmap(torch.func.grad(loss), (0, None))(parameters, z)
    if alone.requires_grad:
        expected = torch.autograd.grad(alone[1], models[1][0].weight)[0]
        assert torch.allclose(gradients["0.weight"][1], expected, atol=1e-5)


def test_probes_are_unbiased_and_work_on_stacked_models():
    model, z = network().requires_grad_(False), batch(400)
    torch.manual_seed(0)
    exact = float(losses.compositional_contrast(model, z, BLOCKS))
    assert float(losses.compositional_contrast(model, z, BLOCKS, probes=60)) == pytest.approx(exact, rel=0.03)
    exact = float(losses.cross_hessian_penalty(model, z, BLOCKS, probes=None))
    assert float(losses.cross_hessian_penalty(model, z, BLOCKS, probes=60)) == pytest.approx(exact, rel=0.05)
    models = [network(seed) for seed in range(2)]
    parameters, _ = torch.func.stack_module_state(models)

    def loss(parameters):
        decoder = lambda z: torch.func.functional_call(models[0], parameters, (z,))  # noqa: E731
        return losses.compositional_contrast(decoder, z, BLOCKS, probes=1) + losses.cross_hessian_penalty(
            decoder, z, BLOCKS, probes=1
        )

    found = torch.func.vmap(loss, randomness="different")(parameters)
    assert found.shape == (2,)
    assert bool((found > 0).all())


def test_outputs_and_jacobian_come_together_and_save_a_second_pass():
    model, z = network(), batch()
    outputs, jacobian = losses.decode_and_jacobian(model, z)
    assert torch.allclose(outputs, model(z), atol=1e-5)
    assert torch.allclose(jacobian, torch.func.vmap(torch.func.jacrev(model))(z), atol=1e-5)
    assert torch.allclose(
        losses.compositional_contrast(model, z, BLOCKS, jacobian=jacobian), LOSSES["contrast"](model, z), atol=1e-5
    )


def test_images_are_flattened_and_single_precision_stays_single():
    model = torch.nn.Sequential(network(outputs=12, dtype=torch.float32), torch.nn.Unflatten(1, (3, 2, 2)))
    for loss in LOSSES.values():
        found = loss(model, batch(dtype=torch.float32))
        assert found.dtype == torch.float32
        assert found.shape == ()
        assert bool(torch.isfinite(found))


def test_dead_latents_and_outputs_have_finite_gradients():
    model = torch.nn.Linear(3, 4, dtype=torch.float64)
    with torch.no_grad():
        model.weight[:, 2] = 0
        model.weight[1] = 0
    for loss in (LOSSES["contrast"], LOSSES["image"], losses.jacobian_sparsity):
        model.zero_grad()
        value = loss(model, batch())
        value.backward()
        assert bool(torch.isfinite(value))
        assert bool(torch.isfinite(model.weight.grad).all())
    assert losses.ima_contrast(model, batch()).item() == torch.inf


def test_sparsity_and_ima_do_not_depend_on_scales_so_small_that_squares_vanish():
    weights = torch.tensor([[3.0, 4.0, 0.0], [1.0, 0.0, 1.0]])
    for loss in (losses.jacobian_sparsity, losses.ima_contrast):
        usual, small = (loss(lambda z, w=weights * scale: z @ w, torch.zeros(2, 2)) for scale in (1.0, 1e-30))
        assert small.item() == pytest.approx(usual.item(), rel=1e-5)


def test_training_with_the_contrast_moves_a_mixed_decoder_towards_disjoint_outputs():
    torch.manual_seed(0)
    model, z = torch.nn.Linear(2, 8, bias=False), torch.randn(32, 2)
    target = torch.randn(8, 2)
    target[:4, 1] = target[4:, 0] = 0
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    with torch.no_grad():
        model.weight.copy_(target @ turn)
    start = losses.compositional_contrast(model, z, [[0], [1]]).item()
    angle = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.Adam([angle], lr=0.05)
    for _ in range(60):
        matrix = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
        loss = losses.compositional_contrast(lambda z, m=matrix: z @ (target @ turn @ m).T, z, [[0], [1]])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1 * start  # a rotation cannot shrink the outputs, so it must have turned them apart


def test_wrong_options_are_refused():
    with pytest.raises(isorep.InputError, match="weighting is 'x'"):
        losses.compositional_contrast(network(), batch(), BLOCKS, weighting="x")
    with pytest.raises(isorep.InputError, match="probes"):
        losses.compositional_contrast(network(), batch(), BLOCKS, weighting="image", probes=1)
    with pytest.raises(isorep.InputError, match="probes"):
        losses.cross_hessian_penalty(network(), batch(), BLOCKS, probes=0)
    for blocks, words in (([[0], [3, 4]], "latents 0 to 2"), ([[0], []], "latents 0 to 2"), ([[0], [0, 1]], "share")):
        for loss in (losses.compositional_contrast, losses.cross_hessian_penalty):
            with pytest.raises(isorep.InputError, match=words):
                loss(torch.nn.Linear(3, 4), torch.zeros(2, 3), blocks)
    with pytest.raises(isorep.InputError, match="full rank"):
        losses.ima_contrast(torch.nn.Linear(3, 2), torch.zeros(2, 3))


@pytest.mark.parametrize("blocks", [[1, 1], [["a"], ["b"]], [], 2])
def test_blocks_that_are_no_lists_of_latents_are_refused(blocks):
    for loss in (losses.compositional_contrast, losses.cross_hessian_penalty):
        with pytest.raises(isorep.InputError, match="blocks"):
            loss(torch.sin, torch.zeros(3, 2), blocks)
