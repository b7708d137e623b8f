"""The small residual classifier."""

import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.models import ResidualClassifier  # noqa: E402


def test_logits_are_a_linear_function_of_the_representation():
    torch.manual_seed(0)
    network = ResidualClassifier((3, 9, 12), classes=4, width=8, blocks=2)
    images = torch.randint(0, 256, (5, 3, 9, 12), dtype=torch.uint8)
    codes = network.represent(images)
    assert codes.shape == (5, 32)
    assert torch.allclose(network(images), codes @ network.head.weight.T + network.head.bias, atol=1e-5)


def test_an_image_has_the_same_code_in_any_batch():
    torch.manual_seed(0)
    network = ResidualClassifier((1, 8, 8), classes=2, width=3)
    images = torch.rand(6, 1, 8, 8)
    assert torch.allclose(network.represent(images)[2:3], network.represent(images[2:3]), atol=1e-6)


@pytest.mark.parametrize("change", [{"classes": 1}, {"width": 0}, {"blocks": True}, {"shape": (3, 3, 8)}])
def test_sizes_that_make_no_network_are_refused(change):
    with pytest.raises(InputError):
        ResidualClassifier(**{"shape": (3, 8, 8), "classes": 3, **change})
