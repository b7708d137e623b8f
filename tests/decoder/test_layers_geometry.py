"""Networks split at their layers: the rest is what it should be, whatever the network, and theory stands beside it."""

import itertools
import json
import math

import numpy as np
import pytest

import isorep
from isorep.decoder import LayerGeometry, layers
from isorep.decoder.split import Split, layer_outputs, rest_jacobians

torch = pytest.importorskip("torch")
nn = torch.nn


def network(seed=0, widths=(5, 4, 4, 6)):
    torch.manual_seed(seed)
    parts = []
    for a, b in itertools.pairwise(widths):
        parts += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*parts[:-1]).double()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.shared = nn.Tanh()
        self.twice = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.loose = nn.ReLU(inplace=True)

    def forward(self, x):
        x = x + self.second(self.shared(self.first(x)))
        x = self.twice(self.twice(x))
        return self.last(self.loose(self.norm(x)) + x)


class Pairing(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


@pytest.fixture(scope="module")
def inputs():
    return torch.randn(80, 5, dtype=torch.float64, generator=torch.manual_seed(0))


@pytest.fixture(scope="module")
def found(inputs):
    return layers(network(0), network(1), inputs, n_null=3)


def test_the_rest_is_the_remaining_part_of_a_sequential(inputs):
    net = network().eval()
    for place in range(len(net) - 1):
        values, end = layer_outputs(net, inputs, [str(place)])
        split = Split(net, str(place), None)
        assert torch.allclose(split.rest(values[str(place)], inputs), end, atol=1e-5)
        block = next(rest_jacobians(split, values[str(place)][:3], inputs[:3]))
        rest = net[place + 1 :]
        for row in range(3):
            exact = torch.autograd.functional.jacobian(rest, values[str(place)][row])
            assert np.allclose(block[row], exact.numpy())


def test_jacobians_agree_with_those_of_the_room(inputs):
    net = network().eval()
    values, _ = layer_outputs(net, inputs, ["1"])
    block = next(rest_jacobians(Split(net, "1", None), values["1"], inputs))
    assert np.allclose(block, isorep.decoder.jacobian(net[2:], values["1"]))


def test_layers_come_in_the_order_of_execution_and_the_end_is_left_out(found):
    assert isinstance(found, LayerGeometry)
    assert [layer.name for layer in found.layers] == ["0", "1", "2", "3"]
    assert all(layer.reading == "covers the layer" for layer in found.layers)
    assert all(rest.lost == 0 and not rest.depends_on_input for layer in found.layers for rest in layer.rests)
    assert all(math.isfinite(layer.constant) for layer in found.layers)


def test_a_network_agrees_with_itself_turned_inside(inputs):
    turn = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.manual_seed(2)))[0]
    linear = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 6)).double()
    other = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 6)).double()
    with torch.no_grad():
        other[0].weight.copy_(turn @ linear[0].weight)
        other[0].bias.copy_(turn @ linear[0].bias)
        other[1].weight.copy_(linear[1].weight @ turn.T)
        other[1].bias.copy_(linear[1].bias)
    found = layers(linear, other, inputs, n_null=0)
    assert found.mismatch < 1e-9
    assert found.layers[0].held_out.rms < 1e-7
    assert found.layers[0].rests[0].constant == pytest.approx(found.layers[0].rests[1].constant)


def test_where_the_rest_narrows_the_constant_is_infinite_and_the_seen_part_has_its_own(inputs):
    torch.manual_seed(3)
    nets = [nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 2)).double() for _ in range(2)]
    layer = layers(*nets, inputs, n_null=0).layers[0]
    assert layer.constant == math.inf
    assert layer.rests[0].lost == 4
    assert layer.rests[0].shared
    assert layer.seen.widths == (2, 2)
    singular = np.linalg.svd(nets[0][1].weight.detach().numpy(), compute_uv=False)
    assert layer.rests[0].seen_constant == pytest.approx(max(singular[0], 1 / singular[-1]))
    assert layer.rests[0].similarity_constant == pytest.approx(math.sqrt(singular[0] / singular[-1]))
    assert "2 directions" in layer.reading
    # What the rest sees is a linear image of the output, so equal outputs make it equal up to a linear map.
    nets[1].load_state_dict(nets[0].state_dict())
    same = layers(*nets, inputs, n_null=0).layers[0].seen
    assert same.held_out.rms < 1e-7


def test_the_bound_holds_where_its_assumptions_do(inputs):
    # Two networks with equal outputs: the second undoes a small nonlinear change of the first's layer.
    class Change(nn.Module):
        def forward(self, z):
            return torch.stack([torch.sinh(0.2 * z[:, 0]) / 0.2, z[:, 1]], dim=1)

    class Undo(nn.Module):
        def forward(self, z):
            return torch.stack([torch.asinh(0.2 * z[:, 0]) / 0.2, z[:, 1]], dim=1)

    rows = torch.rand(300, 2, dtype=torch.float64, generator=torch.manual_seed(4)) - 0.5
    head = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        head.weight.copy_(torch.eye(2))
    changed = nn.Sequential(Change(), nn.Sequential(Undo(), head))
    found = layers(nn.Sequential(nn.Identity(), head), changed, rows, ["0"], n_null=0)
    assert found.mismatch < 1e-9
    assert 0 < found.layers[0].in_sample.rms <= found.layers[0].bound.value
    assert not found.layers[0].bound.vacuous


def test_any_module_can_be_split_and_paths_past_a_layer_are_seen():
    nets = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        nets.append(Residual())
    rows = torch.randn(60, 4, generator=torch.manual_seed(5))
    found = layers(*nets, rows, n_null=0)
    names = [layer.name for layer in found.layers]
    assert names == ["first", "shared", "second", "norm", "loose"]
    by_name = {layer.name: layer for layer in found.layers}
    assert by_name["second"].rests[0].depends_on_input
    assert "not covered" in by_name["second"].reading
    assert any("twice" in caveat and "2 times" in caveat for caveat in found.caveats)
    assert any("past" in caveat for caveat in found.caveats)
    assert all(net.training for net in nets)
    penultimate = layers(*nets, rows, ["first"], to="norm", n_null=0)
    assert penultimate.layers[0].rests[0].outputs == 4


def test_layers_that_cannot_be_split_at_are_refused(inputs):
    rows = torch.randn(20, 4)
    with pytest.raises(isorep.InputError, match="called 2 times"):
        layers(Residual(), Residual(), rows, ["twice"])
    with pytest.raises(isorep.InputError, match="returns a tuple"):
        layers(Pairing(), Pairing(), torch.randn(20, 6, 3), ["gru"])
    with pytest.raises(isorep.InputError, match="no layer 'absent'"):
        layers(network(), network(), inputs, ["absent"])
    with pytest.raises(isorep.InputError, match="torch module"):
        layers(lambda x: x, network(), inputs)
    with pytest.raises(isorep.InputError, match="network fails"):
        layers(network(), network(), torch.randn(20, 3))
    with pytest.raises(isorep.InputError, match="not finite"):
        layers(network(), network(), np.full((20, 5), np.nan))
    with pytest.raises(isorep.InputError, match="at least 3"):
        layers(network(), network(), np.zeros((2, 5)))
    with pytest.raises(isorep.InputError, match="samples"):
        layers(network(), network(), inputs, samples=0)
    with pytest.raises(isorep.InputError, match="the same for all inputs"):
        layers(network(), network(), np.zeros((20, 5)), n_null=0)


def test_what_has_no_rest_of_its_own_is_refused(inputs):
    class Batched(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(5, 3)

        def forward(self, x):
            return self.inner(x) - self.inner.bias * x.mean()

    class Noisy(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + torch.randn(len(x), 6)

    rows = inputs.float()
    with pytest.raises(isorep.InputError, match="other rows"):
        layers(Batched(), Batched(), rows, ["inner"])
    noisy = Noisy(nn.Linear(5, 6))
    with pytest.raises(isorep.InputError, match="at random"):
        layers(noisy, noisy, rows, ["0"])
    with pytest.raises(isorep.InputError, match="does not depend"):
        layers(network(), network(), inputs, ["2"], to="1")


def test_layers_that_work_in_place_spoil_nothing(inputs):
    torch.manual_seed(8)
    nets = [nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(inplace=True)) for _ in "ab"]
    plain = [nn.Sequential(net[0], nn.ReLU(), net[2], nn.ReLU()) for net in nets]
    found, same = (layers(*pair, inputs.float(), ["0"], to="2", n_null=0).layers[0] for pair in (nets, plain))
    assert found == same


def test_wide_layers_are_compared_in_their_span():
    torch.manual_seed(6)
    nets = [
        nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(288, 3))
        for _ in "ab"
    ]
    found = layers(*nets, torch.randn(40, 1, 6, 6), samples=10, n_null=0)
    assert [layer.widths for layer in found.layers] == [(288, 288), (288, 288)]
    assert all(layer.rests[0].rank == 3 for layer in found.layers)
    assert any("rows for layers" in caveat for caveat in found.caveats)


def test_it_prints_and_serialises(found, tmp_path):
    plain = json.loads(found.to_json())
    assert plain["schema"] == "isorep.decoder_layers/2"
    assert [layer["name"] for layer in plain["layers"]] == ["0", "1", "2", "3"]
    assert "rms bound" in found.table()
    assert "closest layer" in str(found)
    found.to_html(tmp_path / "layers.html")
    assert "How rigid the rest is" in (tmp_path / "layers.html").read_text()


def test_layers_that_are_all_as_near_have_no_closest(inputs):
    net = network()
    same = layers(net, net, inputs, n_null=0)
    assert same.sentence.startswith("Up to a rigid motion with one scale every layer leaves 0.0000 diameters held out.")


def test_the_rest_of_a_layer_does_not_end_at_itself():
    inputs = torch.randn(30, 5, dtype=torch.float64)
    with pytest.raises(isorep.InputError, match="nothing between"):
        layers(network(0), network(1), inputs, ["2"], to="2")
    assert [layer.name for layer in layers(network(0), network(1), inputs, ["2", "2"], n_null=0).layers] == ["2"]


def test_half_precision_is_computed_in_single():
    halves = [network(seed).half() for seed in (0, 1)]
    inputs = torch.randn(30, 5)
    found = layers(*halves, inputs, ["0"], n_null=0)
    full = layers(*(network(seed).half().float() for seed in (0, 1)), inputs, ["0"], n_null=0)
    assert found.layers[0].constant == full.layers[0].constant
    assert halves[0][0].weight.dtype == torch.float16
    assert any("half precision" in caveat for caveat in found.caveats)
