"""Stitched networks: with itself exact, with a rotated copy by the rotation, at chance by maps that know nothing."""

import copy

import numpy as np
import pytest

from isorep.errors import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from isorep.decoder import stitch_models  # noqa: E402


def trained(seed, width=8):
    """A small classifier of three blobs, its inputs and its classes."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 3))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    x, y = data()
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net


def data(n=400):
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(3, (n,), generator=draw)
    centres = 1.2 * torch.randn(3, 5, generator=draw)
    return centres[y] + torch.randn(n, 5, generator=draw), y


@pytest.fixture(scope="module")
def pair():
    return trained(0), trained(1)


def rotated(net):
    """The same function, with the hidden layer in another basis."""
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(3)))[0]
    after = nn.Linear(8, 3)
    after.load_state_dict({"weight": net[2].weight @ turn, "bias": net[2].bias})
    into = nn.Linear(8, 8, bias=False)
    into.load_state_dict({"weight": turn.T})
    return nn.Sequential(net[0], net[1], into, after)


def test_a_network_stitched_with_itself_is_the_network(pair):
    x, y = data()
    found = stitch_models(pair[0], pair[0], x, y, "1", retrain=False)
    same, parent = found.outcome("identity"), found.parents[1]
    assert (same.loss, same.accuracy, same.error) == (parent.loss, parent.accuracy, 0.0)
    assert found.parents[0].loss == parent.loss
    for rung in ("signed_permutation", "rigid", "linear"):
        assert np.isclose(found.outcome(rung).loss, parent.loss, rtol=1e-4)
    assert found.verdict.answer == "identity"


def test_a_rotated_copy_needs_the_rotation_and_no_more(pair):
    x, y = data()
    found = stitch_models(pair[0], rotated(pair[0]), x, y, "1", "2", retrain=False)
    assert found.verdict.answer == "rigid"
    assert np.isclose(found.outcome("rigid").loss, found.parents[1].loss, rtol=1e-3)
    assert found.outcome("identity").loss > found.parents[1].loss + 0.05
    assert "The rigid map suffices" in found.verdict.sentence


def test_two_trainings_lie_between_uninformed_maps_and_the_parents(pair):
    x, y = data()
    found = stitch_models(*pair, x, y, "1", steps=60)
    linear, random = found.outcome("linear"), found.outcome("random rotation")
    assert found.parents[1].loss - 0.05 < linear.loss < random.loss
    assert linear.accuracy > found.outcome("shuffled rows").accuracy + 0.2
    assert found.outcome("trained linear stitch").loss < random.loss
    assert found.outcome("linear probe").accuracy > 0.6
    shares = np.bincount(data()[1]) / 400
    assert np.isclose(found.outcome("constant output").loss, -(shares * np.log(shares)).sum(), atol=0.05)
    assert found.outcome("constant output").recovered <= 1e-9
    assert linear.interval.low < linear.loss < linear.interval.high
    kinds = [each.kind for each in found.outcomes]
    assert kinds == ["map"] * 4 + ["control"] * 3 + ["retrained"] * 2


def test_weights_modes_and_gradients_are_as_before(pair):
    first, second = copy.deepcopy(pair[0]).train(), copy.deepcopy(pair[1])
    before = [each.detach().clone() for each in second.parameters()]
    stitch_models(first, second, *data(), "1", steps=5)
    assert all(torch.equal(a, b) for a, b in zip(before, second.parameters(), strict=True))
    assert all(each.requires_grad and each.grad is None for each in second.parameters())
    assert first.training


def test_other_widths_own_maps_and_own_losses(pair):
    x, y = data()
    wide = trained(2, width=12)
    from isorep import Linear

    with torch.no_grad():
        rows = [net[:2](x).numpy() for net in (pair[0], wide)]
    own = Linear().fit(*rows)
    loss = lambda out, wanted: (out.argmax(1) != wanted).double()  # noqa: E731
    found = stitch_models(pair[0], wide, x, y, "1", maps={"mine": own}, loss=loss, retrain=False)
    assert found.widths == (8, 12)
    assert "identity" not in [each.name for each in found.outcomes]
    assert any("different widths" in note for note in found.caveats)
    assert found.outcome("mine").loss <= found.outcome("shuffled rows").loss
    assert found.parents[0].accuracy is None


def test_channels_are_mapped_alike_everywhere_and_other_positions_do_not_compose():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    x = torch.randn(40, 1, 6, 6)
    y = net(x).argmax(1)
    found = stitch_models(net, net, x, y, "1", retrain=False)
    assert (found.widths, found.positions) == ((3, 3), 16)
    assert found.outcome("identity").loss == found.parents[1].loss
    assert np.isclose(found.outcome("linear").loss, found.parents[1].loss, rtol=1e-3)
    coarse = nn.Sequential(nn.Conv2d(1, 3, 5), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    with pytest.raises(InputError, match="the layers do not compose: '1' of the first network puts out 3 x 4 x 4"):
        stitch_models(net, coarse, x, y, "1")
    with pytest.raises(InputError, match="the layers do not compose"):
        stitch_models(net, net, x, y, "1", "2")


def test_paths_past_the_layer_are_noted():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(x + self.inner(x))

    torch.manual_seed(0)
    net, (x, y) = Residual(), data(60)
    assert any("lead past 'inner'" in note for note in stitch_models(net, net, x, y, "inner", retrain=False).caveats)
    plain = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    assert not any("lead past" in note for note in stitch_models(plain, plain, x, y, "0", retrain=False).caveats)


def test_regression_and_targets_that_nothing_predicts(pair):
    x, _ = data()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
    found = stitch_models(net, net, x, net(x).detach(), "1", loss="squared", steps=5)
    assert found.outcome("identity").loss == 0
    assert found.outcome("linear probe").loss < 1e-3
    noise = torch.randint(3, (400,), generator=torch.Generator().manual_seed(9))
    lost = stitch_models(*pair, x, noise, "1", retrain=False)
    assert lost.verdict.answer == "undetermined"
    assert "Nothing can be said" in lost.verdict.sentence


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"layer": "9"}, "the first network has no layer '9'"),
        ({"targets": np.zeros(400)}, "classes, whole numbers from 0"),
        ({"targets": np.full(400, 7)}, "classes go up to 7: one logit per class"),
        ({"targets": np.zeros(3, dtype=int)}, "one per row is needed, 400"),
        ({"rungs": ["affine"]}, "rungs affine: choose from"),
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"tolerance": 2}, "tolerance is 2"),
        ({"maps": {"mine": 3}}, "map 'mine' is a int"),
        ({"maps": {"mine": lambda rows: rows[:, :2]}}, "map 'mine' must give 8 finite columns"),
        ({"first": "net"}, "the first network is a str: a torch module is needed"),
        ({"other_inputs": np.zeros((5, 5))}, "400 rows and other_inputs 5"),
    ],
)
def test_bad_input_is_named_in_one_sentence(pair, changed, said):
    x, y = data()
    given = {"first": pair[0], "second": pair[1], "inputs": x, "targets": y, "layer": "1", "retrain": False} | changed
    with pytest.raises(InputError, match=said):
        stitch_models(**given)
