"""Contrastive pairs: the loss by hand, what it cannot see, and many models as one program."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.models import ContrastivePair, Group, Recipe, contrastive_loss, train, train_many  # noqa: E402


def fixed(first, second, **options):
    """A pair whose encoders return their inputs."""
    pair = ContrastivePair(len(first[0]), hidden=(), outputs=len(first[0]), **options)
    with torch.no_grad():
        for encoder in (pair.f, pair.g):
            encoder[0].weight.copy_(torch.eye(len(first[0])))
            encoder[0].bias.zero_()
    return pair, (torch.tensor(first), torch.tensor(second))


def lost(pair, batch):
    return contrastive_loss(pair, batch).item()


def test_the_loss_is_what_it_is_by_hand():
    pair, batch = fixed([[1.0, 0.0], [0.0, 2.0]], [[3.0, 1.0], [0.0, 1.0]])
    # logits [[3, 0], [2, 2]]: log(e³ + 1) - 3 for the first row, log 2 for the second
    expected = (math.log(math.exp(3) + 1) - 3 + math.log(2)) / 2
    assert lost(pair, batch) == pytest.approx(expected, rel=1e-6)
    reference = torch.nn.functional.cross_entropy(pair(*batch), torch.arange(2))
    assert lost(pair, batch) == pytest.approx(reference.item(), rel=1e-6)


def test_normalised_outputs_and_a_temperature():
    pair, batch = fixed([[1.0, 0.0], [0.0, 2.0]], [[3.0, 4.0], [0.0, 5.0]], normalise=True, temperature=0.5)
    torch.testing.assert_close(pair(*batch), torch.tensor([[1.2, 0.0], [1.6, 2.0]]))
    for part in pair.embed(*batch):
        torch.testing.assert_close(part.norm(dim=1), torch.ones(2))


def test_large_logits_stay_finite_and_chance_is_the_logarithm_of_the_batch():
    pair, batch = fixed([[1e4, 0.0], [0.0, 1e4]], [[0.0, 1e4], [1e4, 0.0]])
    assert lost(pair, batch) == pytest.approx(1e8)
    pair, batch = fixed([[0.0, 0.0]] * 7, [[1.0, 2.0]] * 7)
    assert lost(pair, batch) == pytest.approx(math.log(7))


def test_the_loss_cannot_see_a_linear_map_that_is_undone_nor_a_shift_of_g(rng):
    first, second = rng.normal(size=(2, 9, 3)).astype(np.float32)
    mixing = rng.normal(size=(3, 3)).astype(np.float32)
    plain, batch = fixed(first.tolist(), second.tolist())
    before = contrastive_loss(plain, batch)
    moved = torch.from_numpy(first @ mixing.T), torch.from_numpy(second @ np.linalg.inv(mixing) + np.float32(2.5))
    torch.testing.assert_close(contrastive_loss(plain, moved), before, rtol=1e-4, atol=1e-4)
    assert abs(lost(plain, (moved[0], batch[1])) - before.item()) > 1e-3


def test_it_learns_which_halves_belong_together():
    halves = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    made = train(
        lambda _: ContrastivePair(6, hidden=(16,), outputs=4), (halves, halves), contrastive_loss,
        Recipe(steps=60, batch=50, groups=Group("adam", 1e-2)), seed=1,
    )  # fmt: skip
    assert made.history.training[-1] < 0.5 * made.history.training[0]


def test_many_pairs_as_one_program_end_where_each_ends_alone():
    first, second = torch.randn(2, 40, 5, generator=torch.Generator().manual_seed(0))
    found = [
        train_many(
            lambda _: ContrastivePair((5, 5), hidden=(6,), outputs=3), (first, second), contrastive_loss,
            Recipe(steps=12, batch=16), seeds=[3, 4], batched=batched,
        )
        for batched in (True, False)
    ]  # fmt: skip
    assert [each.together for each in found[0]] == [True, True]
    for one, other in zip(*found, strict=True):
        for name, value in one.module.state_dict().items():
            if name != "g.2.bias":  # a shift of g has no gradient but rounding, which Adam blows up to full steps
                torch.testing.assert_close(value, other.module.state_dict()[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("given", [{"outputs": 0}, {"hidden": (0,)}, {"inputs": 0}, {"temperature": 0.0}])
def test_sizes_that_make_no_sense_are_refused(given):
    with pytest.raises(InputError):
        ContrastivePair(**{"inputs": 4} | given)
