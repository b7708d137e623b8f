"""The log-bilinear model: scores and both losses by hand, and noise that follows the shares of words."""

import math

import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models import (  # noqa: E402
    Group,
    LogBilinear,
    Recipe,
    noise_contrastive_loss,
    noise_words,
    softmax_loss,
    train_many,
)


def small():
    network = LogBilinear(2, dimension=2, context=2, context_words=3)
    with torch.no_grad():
        network.contexts.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]))
        network.weights.copy_(torch.tensor([[1.0, 1.0], [0.5, -1.0]]))
        network.embeddings.copy_(torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        network.bias.copy_(torch.tensor([0.5, -0.5]))
    return network


CONTEXT = torch.tensor([[0, 2]])  # f = (1, 0) * (1, 1) + (2, 2) * (0.5, -1) = (2, -2); scores 0.5 and -4.5


def test_scores_are_weighted_sums_of_context_vectors_with_a_bias():
    network = small()
    assert network.represent(CONTEXT).tolist() == [[2.0, -2.0]]
    assert network(CONTEXT).tolist() == [[0.5, -4.5]]
    assert network.scores(CONTEXT, torch.tensor([[1, 0, 1]])).tolist() == [[-4.5, 0.5, -4.5]]


def test_the_softmax_loss_by_hand():
    expected = math.log(math.exp(0.5) + math.exp(-4.5)) + 4.5
    assert softmax_loss(small(), (CONTEXT, torch.tensor([1]))).item() == pytest.approx(expected, rel=1e-6)


def test_the_noise_contrastive_loss_by_hand():
    shares = torch.tensor([0.8, 0.2])
    loss = noise_contrastive_loss(shares, noise=2)
    found = loss(small(), (CONTEXT, torch.tensor([1]), torch.tensor([[0, 0]]))).item()
    above = [-4.5 - math.log(2 * 0.2), 0.5 - math.log(2 * 0.8)]
    expected = math.log1p(math.exp(-above[0])) + 2 * math.log1p(math.exp(above[1]))
    assert found == pytest.approx(expected, rel=1e-6)


def test_noise_words_follow_their_shares_and_the_generator():
    shares = torch.tensor([0.7, 0.0, 0.3])
    prepare = noise_words(shares, 50)
    batch = torch.zeros(200, 2, dtype=torch.long), torch.zeros(200, dtype=torch.long)
    first, again, other = (prepare(batch, torch.Generator().manual_seed(seed))[2] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    drawn = torch.bincount(first.flatten(), minlength=3) / first.numel()
    assert drawn.tolist() == pytest.approx([0.7, 0.0, 0.3], abs=0.02)
    assert first.shape == (200, 50)


def test_vectors_start_small_and_biases_at_the_logarithm_of_the_shares():
    network = LogBilinear(3, dimension=4, context=1, shares=[0.5, 0.25, 0.25])
    assert network.embeddings.abs().max().item() <= 1e-3
    assert torch.softmax(network.bias, 0).tolist() == pytest.approx([0.5, 0.25, 0.25])
    assert LogBilinear(3, dimension=4, context=1).bias.tolist() == [0, 0, 0]


def test_both_losses_learn_which_word_follows_which_in_one_program():
    words = torch.arange(6).repeat(20)
    contexts, following = words[:, None], (words + 1) % 6
    shares = torch.full((6,), 1 / 6)
    recipe = Recipe(steps=120, groups=Group("adam", 0.2))
    for loss, prepare in ((softmax_loss, None), (noise_contrastive_loss(shares, 10), noise_words(shares, 10))):
        trained = train_many(
            lambda seed: LogBilinear(6, 2, 1, shares=shares), (contexts, following), loss, recipe,
            seeds=[0, 1], batched=True, prepare=prepare,
        )  # fmt: skip
        for each in trained:
            with torch.no_grad():
                assert softmax_loss(each.module, (contexts, following)).item() < 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"words": 1}, "words is 1"),
        ({"context": 0}, "context is 0"),
        ({"context_words": 4}, "at least words, 5"),
        ({"shares": [0.5, 0.5]}, "5 numbers above zero"),
        ({"shares": [0.5, 0.5, 0.0, 0.0, 0.0]}, "5 numbers above zero"),
    ],
)
def test_what_makes_no_model_is_refused(given, message):
    with pytest.raises(isorep.InputError, match=message):
        LogBilinear(**({"words": 5, "dimension": 2, "context": 1} | given))
