"""The ends of two networks: what equal logits leave open enters the bound, and what nothing ties has none."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from isorep.decoder import layers
from isorep.decoder.split import Split, kinks_of, layer_outputs

torch = pytest.importorskip("torch")
nn = torch.nn
DOUBLE = torch.float64


class Bend(nn.Module):
    """A smooth change of each coordinate, near the identity."""

    def forward(self, z):
        return z + 0.03 * torch.sin(2 * z)


def parts(seed=0, classes=6, width=3):
    torch.manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(width, width, dtype=DOUBLE))[0]
    inner = nn.Linear(width, width, bias=False).double()
    with torch.no_grad():
        inner.weight.copy_(turn)
    return nn.Linear(5, width).double(), inner, nn.Linear(width, classes).double()


def twins(matrix, *, seed=0, classes=6, noise=0.0):
    """Two networks of equal logits whose penultimate layers, called "1", differ by a linear map."""
    width = len(matrix)
    first, inner, head = parts(seed, classes, width)
    other, turn, end = parts(seed, classes, width)
    matrix = torch.as_tensor(matrix, dtype=DOUBLE)
    back = inner.weight.detach().T @ matrix @ inner.weight.detach()  # what the inner turn makes of it
    with torch.no_grad():
        other.weight.copy_(back @ first.weight)
        other.bias.copy_(back @ first.bias)
        turn.weight.copy_(inner.weight)
        end.weight.copy_(head.weight @ torch.linalg.inv(matrix))
        end.weight.add_(noise * torch.randn(end.weight.shape, dtype=DOUBLE, generator=torch.manual_seed(9)))
        end.bias.copy_(head.bias + 1.5)  # softmax does not see it
    return nn.Sequential(first, inner, head), nn.Sequential(other, turn, end)


def rows(n=150, width=5):
    return torch.rand(n, width, dtype=DOUBLE, generator=torch.manual_seed(3)) - 0.5


def near_rotation(seed, spread, width=3):
    rng = np.random.default_rng(seed)
    turns = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(2)]
    return (turns[0] * np.linspace(1 - spread, 1 + spread, width)) @ turns[1]


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3])
def test_the_map_between_the_ends_enters_the_bound(spread):
    matrix = near_rotation(0, spread)
    found = layers(*twins(matrix), rows(), ["0"], to="1", n_null=0)
    layer, singular = found.layers[0], np.linalg.svd(matrix, compute_uv=False)
    assert (found.end.largest, found.end.smallest) == pytest.approx((singular[0], singular[-1]), rel=1e-6)
    assert found.mismatch < 1e-9
    assert layer.rests[0].constant == pytest.approx(1)  # the rests alone would promise equality
    assert layer.in_sample.rms <= layer.bound.value + 1e-9
    assert not found.violated
    if spread:
        assert layer.in_sample.rms > 1e-3
    assert layer.answer == ("vacuous" if spread == 0.3 else "kept")


@pytest.mark.parametrize("seed", range(4))
def test_distances_obey_the_singular_values_of_the_map_and_of_the_rests(seed):
    matrix = near_rotation(seed, 0.4)
    first, second = twins(matrix, seed=seed)
    first, second = (nn.Sequential(net[0], Bend(), net[1], net[2]) for net in (first, second))
    inputs = rows(60)
    ends = [layer_outputs(net, inputs, ["2"])[0]["2"].numpy() for net in (first, second)]
    assert not np.allclose(ends[0], ends[1])
    with torch.no_grad():  # a second network with equal logits, by solving for its bend's input
        wanted = (torch.as_tensor(ends[0] @ matrix.T) @ second[2].weight).clone()
        z = wanted.clone()
        for _ in range(60):
            z = wanted - 0.03 * torch.sin(2 * z)
    values = layer_outputs(first, inputs, ["0"])[0]["0"].numpy()
    ratio = pdist(z.numpy()) / pdist(values)
    low, high = 1 - 0.06, 1 + 0.06  # of the bend
    singular = np.linalg.svd(matrix, compute_uv=False)
    assert singular[-1] * low / high <= ratio.min()
    assert ratio.max() <= singular[0] * high / low


def test_a_scaled_isometry_between_the_ends_bounds_the_error_with_a_scale():
    scaled = layers(*twins(3 * near_rotation(0, 0.01)), rows(), ["0"], to="1", n_null=0).layers[0]
    skewed = layers(*twins(3 * near_rotation(0, 0.6)), rows(), ["0"], to="1", n_null=0).layers[0]
    assert scaled.bound.vacuous
    assert not scaled.scaled_bound.vacuous
    assert 0 < scaled.scaled_in_sample.rms <= scaled.scaled_bound.value
    assert skewed.scaled_bound.vacuous


@pytest.mark.parametrize(("classes", "logits", "determined"), [(3, True, False), (4, True, True), (3, False, True)])
def test_a_head_that_does_not_see_all_directions_determines_nothing(classes, logits, determined):
    first, second = twins(near_rotation(0, 0.01), classes=classes)
    if not logits:
        with torch.no_grad():
            second[2].bias.sub_(1.5)
    found = layers(first, second, rows(), ["0"], to="1", logits=logits, n_null=0)
    assert found.end.determined == determined
    assert (found.layers[0].answer == "not determined") == (not determined)
    assert ("not determined" in found.table()) == (not determined)
    assert ("not determined" in found.sentence) == (not determined)
    assert found.layers[0].bound.vacuous == (not determined)
    assert not found.violated


@pytest.mark.parametrize("last", [nn.LogSoftmax(dim=1), nn.Softmax(dim=1)])
def test_probabilities_and_their_logarithms_are_taken_as_logits(last):
    matrix = near_rotation(1, 0.2)
    first, second = (nn.Sequential(*net, last) for net in twins(matrix))
    end = layers(first, second, rows(), ["0"], to="1", n_null=0).end
    assert end.largest == pytest.approx(np.linalg.svd(matrix, compute_uv=False)[0], rel=1e-6)
    assert end.mismatch.share < 1e-8


def test_what_follows_the_end_must_be_linear():
    first, second = (nn.Sequential(*net, nn.Tanh()) for net in twins(near_rotation(0, 0.01)))
    found = layers(first, second, rows(), ["0"], to="1", n_null=0)
    assert found.end.sentence.startswith("not determined: the outputs are not a linear function of 1")
    assert layers(first, second, rows(), ["0"], to="2", n_null=0).end.sentence.startswith("not determined")
    wide = nn.Sequential(*twins(near_rotation(0, 0.01), classes=7)[1])
    other = layers(twins(near_rotation(0, 0.01))[0], wide, rows(), ["0"], to="1", n_null=0)
    assert "6 and 7 dimensions" in other.end.sentence


def test_logits_that_differ_move_the_ends_by_the_inverse_head():
    first, second = twins(near_rotation(0, 0.01), noise=1e-4)
    inputs = rows()
    found = layers(first, second, inputs, ["0"], to="1", n_null=0)
    with torch.no_grad():
        logits = [net(inputs).numpy() for net in (first, second)]
    apart = logits[1] - logits[0]
    apart = apart - apart.mean(axis=1, keepdims=True)
    head = second[2].weight.detach().numpy()
    inverse = np.linalg.pinv(head - head.mean(axis=0))
    norms = np.linalg.norm(apart @ inverse.T, axis=1)
    assert found.end.mismatch.largest == pytest.approx(norms.max(), rel=1e-6)
    assert found.end.mismatch.rms == pytest.approx(np.sqrt((norms**2).mean()), rel=1e-6)
    assert found.end.inverse == pytest.approx(np.linalg.norm(inverse, 2))
    assert norms.max() <= found.end.inverse * np.linalg.norm(apart, axis=1).max()
    layer = found.layers[0]
    assert layer.term > 1e-4
    assert layer.in_sample.rms <= layer.bound.value
    equal = layers(*twins(near_rotation(0, 0.01)), inputs, ["0"], to="1", n_null=0).layers[0]
    assert equal.term < 1e-4
    assert f"{layer.term:.4f}" in found.table()


def test_outputs_that_differ_have_their_term():
    first, second = twins(np.eye(3), noise=0.0)
    with torch.no_grad():
        second[0].bias.add_(torch.tensor([0.0, 0.01, 0.0], dtype=DOUBLE))
        second[0].weight.add_(0.01 * torch.randn(3, 5, dtype=DOUBLE, generator=torch.manual_seed(1)))
    found = layers(nn.Sequential(*first[:2]), nn.Sequential(*second[:2]), rows(), ["0"], n_null=0)
    layer = found.layers[0]
    assert found.end.answer == "equal outputs"
    assert layer.term > 0.01
    assert 1e-3 < layer.in_sample.rms <= layer.bound.value
    wide = layers(nn.Sequential(*first[:2]), first, rows(), ["0"], n_null=0)
    assert wide.end.sentence == "not determined: the outputs have 3 and 6 dimensions, and cannot be equal"
    assert wide.mismatch is None


class Angle(nn.Module):
    """The angle of a point, from a cut on."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, x):
        return torch.remainder(torch.atan2(x[:, 1:], x[:, :1]) - self.cut, 2 * math.pi)


class Circle(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, angle):
        return torch.cat([torch.cos(angle + self.cut), torch.sin(angle + self.cut)], dim=1)


def test_a_bound_below_the_error_is_violated_and_says_what_fails(tmp_path):
    angles = torch.linspace(0, 6.25, 120, dtype=DOUBLE) + 0.001
    inputs = torch.stack([torch.cos(angles), torch.sin(angles)], dim=1)
    nets = [nn.Sequential(Angle(cut), Circle(cut)) for cut in (0.0, 2.0)]
    found = layers(*nets, inputs, ["0"], n_null=0)
    assert found.violated
    assert found.layers[0].answer == "violated"
    assert "violated" in found.table()
    assert found.sentence.startswith("A bound is violated at 0")
    assert "no image folds back on itself" in found.layers[0].findings[0].why
    found.to_html(tmp_path / "layers.html")
    assert "Violated at 0" in (tmp_path / "layers.html").read_text()
    same = layers(nets[0], nn.Sequential(Angle(0.0), Circle(0.0)), inputs, ["0"], n_null=0)
    assert not same.violated
    assert "violated" not in same.sentence


def test_paths_past_a_layer_have_no_bound():
    class Past(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3).double()

        def forward(self, x):
            return self.inner(x) + x

    net = Past()
    found = layers(net, net, rows(width=3), ["inner"], n_null=0)
    assert found.layers[0].answer == "not covered"
    assert "not covered" in found.table()


def test_kinks_are_those_of_the_rest():
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4), nn.LeakyReLU(), nn.Linear(4, 2)).double()
    values, _ = layer_outputs(net, rows(), ["0", "2", "3"])
    kinks = [kinks_of(Split(net, name, None), values[name], rows()) for name in ("0", "2", "3")]
    assert kinks == [("LeakyReLU", "ReLU"), ("LeakyReLU",), ()]


def test_a_head_that_is_constant_sees_nothing_and_a_large_bias_hides_nothing():
    first, second = (net.float() for net in twins(near_rotation(0, 0.01)))
    given = rows().float()
    with torch.no_grad():
        second[2].bias.add_(1e4)
    assert layers(first, second, given, ["0"], to="1", n_null=0).end.determined
    with torch.no_grad():
        second[2].weight.zero_()
    dead = layers(first, second, given, ["0"], to="1", n_null=0)
    assert "use 0 of 3 directions" in dead.end.sentence
    other = layers(second, first, given, ["0"], to="1", n_null=0)
    assert other.end.largest == 0
    assert other.layers[0].bound.vacuous
    assert not other.violated
    with pytest.raises(ValueError, match="or what follows the layer is constant"):
        layers(first, second, given, ["0"], n_null=0)


def test_a_single_logit_has_no_constant_to_take_out():
    first, second = twins([[0.7]], classes=1)
    with torch.no_grad():
        second[2].bias.sub_(1.5)  # softmax would not see it, and log-odds do
    found = layers(first, second, rows(), ["0"], to="1", n_null=0)
    assert found.end.smallest == pytest.approx(0.7)
    assert found.end.largest == pytest.approx(0.7)
    assert found.end.mismatch.share < 1e-8


def test_the_answer_says_that_outputs_differ_where_no_constant_is_to_blame():
    first, second = twins(np.eye(3))
    rigid = [nn.Sequential(*net[:2]) for net in (first, second)]
    with torch.no_grad():
        rigid[1][0].weight.mul_(torch.tensor([[1.0], [2.0], [0.5]], dtype=DOUBLE))
    found = layers(*rigid, rows(), ["0"], n_null=0)
    assert found.layers[0].constant == pytest.approx(1)
    assert found.layers[0].bound.vacuous
    assert f"differ by {found.mismatch:.2g} of their spread" in found.sentence
    assert found.mismatch > 0.1
    assert any("outputs differ by" in caveat for caveat in found.caveats)


def test_rests_that_see_different_numbers_of_directions_are_both_counted():
    first, second = twins(near_rotation(0, 0.01))
    with torch.no_grad():
        second[2].weight[:, 2] = 0
    found = layers(first, second, rows(), ["1"], n_null=0)
    assert found.layers[0].reading.startswith("covers the 2 and 3 directions that the two rests depend on")
