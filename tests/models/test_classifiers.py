"""Classifiers with two representations: the loss by hand, and what the architecture promises."""

import math

import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models import EmbeddingClassifier, label_loss  # noqa: E402


def small(bias=False):
    network = EmbeddingClassifier(2, classes=3, dimension=1, hidden=(), bias=bias)
    with torch.no_grad():
        network.layers[0].weight.copy_(torch.tensor([[1.0, 2.0]]))
        network.layers[0].bias.zero_()
        network.embeddings.copy_(torch.tensor([[0.0], [1.0], [-1.0]]))
    return network


def test_the_loss_is_the_cross_entropy_by_hand():
    network = small()
    inputs = torch.tensor([[1.0, 1.0], [0.0, 0.0]])  # f is 3 and 0
    wanted = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])
    first = math.log(1 + math.exp(3) + math.exp(-3)) - 3
    assert label_loss(network, (inputs, wanted)).item() == pytest.approx((first + math.log(3)) / 2, rel=1e-6)


def test_a_bias_is_added_to_the_scores():
    network = small(bias=True)
    with torch.no_grad():
        network.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert network(torch.ones(1, 2)).tolist() == [[1.0, 5.0, 0.0]]


def test_one_vector_added_to_all_classes_changes_no_probability():
    network = EmbeddingClassifier(2, classes=5, dimension=3, start=1.0)
    batch = torch.randn(8, 2), torch.softmax(torch.randn(8, 5), dim=1)
    before = label_loss(network, batch).item()
    with torch.no_grad():
        network.embeddings += torch.tensor([1.0, -2.0, 0.5])
    assert label_loss(network, batch).item() == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classes": 1}, "classes is 1"),
        ({"dimension": 0}, "dimension is 0"),
        ({"inputs": True}, "inputs is True"),
        ({"start": 0}, "start is 0"),
        ({"start": float("inf")}, "start is inf"),
    ],
)
def test_what_makes_no_classifier_is_refused(given, message):
    with pytest.raises(isorep.InputError, match=message):
        EmbeddingClassifier(**({"inputs": 2, "classes": 3, "dimension": 2} | given))
