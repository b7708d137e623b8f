"""Any module: layers by name and number, pooling, images, types of numbers, and outputs of every kind."""

import numpy as np
import pytest

import isorep
from isorep.models import capture, list_layers

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


class Net(nn.Module):
    """A sequence model, a picture model and odd outputs in one."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh())
        self.twice = nn.Linear(6, 6)
        self.never = nn.Linear(6, 6)
        self.pair = Pair()

    def forward(self, x):
        return self.pair(self.twice(self.twice(self.body(x))))["values"]


class Pair(nn.Module):
    def forward(self, x):
        return {"name": "pair", "values": x[:, :2], "others": (2 * x,)}


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)
        self.line = nn.Conv1d(5, 7, 3)

    def forward(self, x):
        return self.line(self.conv(x).flatten(2))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def by_hand(net, x):
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    with torch.no_grad():
        found = net.body(torch.as_tensor(x)).numpy(), net(torch.as_tensor(x)).numpy()
    for module, mode in modes:
        module.training = mode
    return found


def test_rows_equal_a_plain_pass_bit_by_bit_and_the_model_is_left_as_it_was(net, tmp_path):
    net.body.eval()
    body, output = by_hand(net, X)
    np.savez(tmp_path / "x.npz", values=X, ids=np.arange(30) * 2)
    for data, ids in ((X, range(30)), (torch.as_tensor(X), range(30)), (tmp_path / "x.npz", range(0, 60, 2))):
        found = isorep.extract(net, data, layers=["body", "output"], batch=30)
        assert np.array_equal(found["body"].values, body)
        assert np.array_equal(found["output"].values, output)
        assert found["body"].ids.tolist() == list(ids)
    assert net.training
    assert not net.body.training
    one = isorep.extract(net, X[:1], layers="body", batch=1)
    np.testing.assert_allclose(one["body"].values, body[:1], atol=1e-6)


def test_layers_are_numbered_by_their_first_call_and_listed_with_shapes(net):
    listed = {layer.name: layer for layer in list_layers(net, X)}
    assert [(name, layer.number) for name, layer in listed.items()] == [
        ("output", None), ("body", None), ("body.0", 0), ("body.1", 1), ("body.2", 2), ("twice", 3), ("pair", 4)
    ]  # fmt: skip
    assert listed["body.0"].shape == (6,)
    assert listed["pair"].shape == (2,)
    assert list(isorep.extract(net, X, layers=[0, -3]).layers) == ["body.0", "body.2"]


@pytest.mark.parametrize(
    ("layers", "match"),
    [
        ("bodi.0", r"no layer 'bodi\.0'; near are body\.0"),
        ("never", "not called in a pass"),
        ("twice", "called 2 times in one pass"),
        (9, "numbered 0 to 4, or -5 to -1"),
        ("body,body", "named twice"),
        ("", "layers is empty"),
        ([], "layers is empty"),
        (1.5, "not iterable|not by"),
    ],
)
def test_layers_that_cannot_be_meant_are_refused(net, layers, match):
    with pytest.raises((isorep.InputError, TypeError), match=match):
        isorep.extract(net, X, layers=layers)


def test_an_entry_of_a_dict_is_taken_by_its_name(net):
    found = isorep.extract(net, X, layers="pair")
    assert np.array_equal(found["pair"].values, by_hand(net, X)[1])
    with pytest.raises(isorep.InputError, match="has no tensor 'others'; it has name, values, others"):
        isorep.extract(net, X, layers="pair", key="others")


def test_maps_are_pooled_flattened_or_given_place_by_place():
    torch.manual_seed(0)
    model = Pictures().eval()
    images = np.random.default_rng(0).integers(0, 255, (9, 6, 6, 3), dtype=np.uint8)
    inputs = torch.as_tensor(images.transpose(0, 3, 1, 2) / 255, dtype=torch.float32)
    with torch.no_grad():
        maps, line = model.conv(inputs).numpy(), model(inputs).numpy()
    for pool, wanted in (
        ("mean", maps.mean(axis=(2, 3))),
        ("max", maps.max(axis=(2, 3))),
        ("flatten", maps.reshape(9, -1)),
        ("token", maps.reshape(9, 5, 36).transpose(0, 2, 1).reshape(-1, 5)),
    ):
        found = isorep.extract(model, images, layers="conv", pool=pool, batch=4)
        np.testing.assert_allclose(found["conv"].values, wanted, atol=1e-6)
    assert found["conv"].ids[[0, 35, 36]].tolist() == ["0:0", "0:35", "1:0"]
    assert found.groups.tolist() == np.repeat(np.arange(9), 36).tolist()
    both = isorep.extract(model, images, layers=["conv", "line"])
    np.testing.assert_allclose(both["line"].values, line.mean(axis=2), atol=1e-6)  # a Conv1d: channels first
    with pytest.raises(isorep.InputError, match="give 324 and 306 rows for 9 examples"):
        isorep.extract(model, images, layers=["conv", "line"], pool="token")


def test_a_folder_of_images_is_read_by_name_cut_square_and_normalised(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    (tmp_path / "a").mkdir()
    values = np.random.default_rng(0).integers(0, 255, (2, 8, 8, 3), dtype=np.uint8)
    for name, picture in zip(("a/1.png", "b.png"), values, strict=True):
        pillow.fromarray(picture).save(tmp_path / name)
    pixels = {"mean": [0.5, 0.5, 0.5], "spread": [0.25]}
    found = isorep.extract(nn.Flatten(), tmp_path, pixels=pixels)
    wanted = (values.transpose(0, 3, 1, 2) / np.float32(255) - 0.5) / 0.25
    np.testing.assert_allclose(found["output"].values, wanted.reshape(2, -1), atol=1e-6)
    assert found["output"].ids.tolist() == ["a/1.png", "b.png"]
    assert isorep.extract(nn.Flatten(), tmp_path, pixels={"size": 4, "grey": True})["output"].shape == (2, 16)
    (tmp_path / "c.png").write_bytes(b"\x89PNG but not really")
    with pytest.raises(isorep.InputError, match=r"c\.png cannot be read as an image"):
        isorep.extract(nn.Flatten(), tmp_path)
    (tmp_path / "d.txt").write_text("a")
    with pytest.raises(isorep.InputError, match="both texts and images"):
        isorep.extract(nn.Flatten(), tmp_path)


def test_padding_of_token_arrays_is_no_row():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 3))
    tokens = np.array([[4, 5, 0, 0], [6, 0, 0, 0], [0, 0, 0, 0], [7, 8, 9, 1]])
    rows = isorep.extract(model, tokens, pool="token", pad=0)
    assert rows["output"].ids.tolist() == ["0:0", "0:1", "1:0", "3:0", "3:1", "3:2", "3:3"]
    weights = model[0].weight.detach().numpy()
    assert np.array_equal(rows["output"].values, weights[[4, 5, 6, 7, 8, 9, 1]])
    means = isorep.extract(model, tokens, pad=0)
    assert means["output"].ids.tolist() == [0, 1, 3]
    assert means.caveats == ("1 example is empty, without a row",)
    np.testing.assert_allclose(means["output"].values[0], weights[[4, 5]].mean(axis=0), atol=1e-6)


class Scaled(nn.Module):
    def forward(self, x):
        return x * 1e4


def test_what_is_not_finite_or_does_not_fit_is_refused_with_row_and_layer():
    bad = X.copy()
    bad[17, 2] = np.nan
    with pytest.raises(isorep.InputError, match="layer 'output' is not finite at row 17"):
        isorep.extract(Scaled(), bad, batch=8)
    large = np.ones((20, 4), np.float32)
    large[11] = 7
    with pytest.raises(isorep.InputError, match="reaches 7e\\+04 at row 11, more than float16"):
        isorep.extract(Scaled(), large, dtype="float16")
    found = isorep.extract(Scaled(), large[:3] / 2, dtype="float16")
    assert found["output"].values.dtype == np.float16
    assert found.layers["output"].constant == 4
    assert found.caveats == ("layer output is the same in all rows",)
    double = isorep.extract(Scaled().double(), large.astype(np.float64), dtype="float64")
    assert double["output"].values.dtype == np.float64


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pool": "sum"}, "pool is 'sum'"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"batch": 0}, "batch is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"device": "cuda:7"}, "is not there"),
        ({"device": "abacus"}, "not known to torch"),
        ({"input": "sound"}, "input is 'sound'"),
        ({"output": "x.csv"}, r"features go to \.parquet"),
        ({"output": "x", "format": "csv"}, "format is 'csv'"),
        ({"output": "x.npy"}, r"x\.npy is an input"),
        ({"group_field": "g", "limit": 1}, None),
    ],
)
def test_options_that_make_no_sense_are_refused(net, options, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    with pytest.raises(isorep.InputError, match=match or "no group 'g'"):
        isorep.extract(net, "x.npy", **options)
    assert [path.name for path in tmp_path.iterdir() if path.name != "x"] == ["x.npy"]


@pytest.mark.parametrize("data", [X[0], X.astype(object), np.empty((0, 4)), "nothing.npy", np.array(["a"])])
def test_data_that_cannot_go_in_are_refused(net, data):
    with pytest.raises(isorep.InputError):
        isorep.extract(net, data)


def test_a_model_that_fails_is_said_to_and_keeps_no_hooks(net):
    with pytest.raises(isorep.InputError, match=r"Net fails on a batch of shape \(1, 3\)"):
        isorep.extract(net, X[:, :3], layers="body")
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_capture_keeps_all_passes_as_they_are_and_removes_its_hooks(net):
    with capture(net, ["body.0", "output"]) as seen:
        loss = sum(net(torch.as_tensor(part)).sum() for part in (X[:10], X[10:]))
    loss.backward()
    assert net.training
    assert seen.layers == ("body.0", "output")
    assert seen["body.0"].shape == (30, 6)
    assert not seen["body.0"].requires_grad
    assert seen.representation("output", ids=np.arange(30)).name == "output"
    with pytest.raises(isorep.InputError, match="'twice' was not captured"):
        seen["twice"]
    with pytest.raises(ZeroDivisionError), capture(net, "body") as seen:
        1 / 0  # noqa: B018
    assert not net.body._forward_hooks
    with pytest.raises(isorep.InputError, match="was not called"):
        seen["body"]


def test_capture_is_not_changed_by_what_works_in_place_afterwards():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    with capture(model, "0") as seen, torch.no_grad():
        model(torch.as_tensor(X))
    assert (seen["0"] < 0).any()


def test_outputs_of_one_dimensional_convolutions_have_channels_first_or_a_note():
    model = nn.Sequential(nn.Conv1d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(2))
    data = np.random.default_rng(0).standard_normal((6, 3, 10)).astype(np.float32)
    found = isorep.extract(model, data, layers=["0", "1", "2"])
    assert [found[name].shape[1] for name in found.layers] == [5, 8, 5]
    assert found.caveats == (
        "layer 1 was read as 5 positions of 8 channels; use --channels first if channels come first",
    )
    first = isorep.extract(model, data, layers="1", channels="first")
    assert (first["1"].shape[1], first.caveats) == (5, ())
    assert isorep.extract(model, data, layers="1", pool="flatten").caveats == ()


def test_a_run_that_fails_before_anything_is_certain_leaves_no_folder(tmp_path):
    bad = X.copy()
    bad[3, 0] = np.nan
    with pytest.raises(isorep.InputError, match="not finite"):
        isorep.extract(Scaled(), bad, output=tmp_path / "out.npy")
    assert list(tmp_path.iterdir()) == []


def test_tensors_of_half_precision_go_in_as_they_are():
    inputs = torch.as_tensor(X).bfloat16().requires_grad_()
    found = isorep.extract(Scaled(), inputs)
    assert np.array_equal(found["output"].values, inputs.detach().float().numpy() * 1e4)


def test_the_room_s_former_name_still_imports():
    from isorep import extraction
    from isorep.models import extraction as former

    assert former.__all__ == extraction.__all__
    assert all(getattr(former, name) is getattr(extraction, name) for name in extraction.__all__)
