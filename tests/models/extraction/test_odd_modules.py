"""Modules that mix examples, draw random numbers, are lazy or compiled; and weights as people save them."""

import warnings

import numpy as np
import pytest

import isorep

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

X = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
SEQUENCES = np.random.default_rng(0).standard_normal((10, 7, 4)).astype(np.float32)

NETS = """
from torch import nn

def net():
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh())

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight
    def forward(self, x):
        return self.head(self.embedding(x))
"""


class Dropping(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5)  # training=True is its default


class Turned(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)


class Sparse(nn.Module):
    def forward(self, x):
        return x.to_sparse()


@pytest.fixture
def nets(tmp_path, monkeypatch):
    (tmp_path / "odd_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import odd_nets

    return odd_nets


@pytest.mark.parametrize("first", [True, False])
def test_rows_that_depend_on_the_rest_of_their_batch_are_refused(first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=first)
    model = nn.Sequential(layer, nn.LSTM(4, 6, batch_first=first))
    for name in ("0", "1"):
        alone = isorep.extract(model, SEQUENCES, layers=name, batch=1)[name].values
        if first:
            found = isorep.extract(model, SEQUENCES, layers=name, batch=4)
            np.testing.assert_allclose(found[name].values, alone, atol=1e-5)
            assert found.caveats == ()
        else:
            with pytest.raises(
                isorep.InputError, match=rf"layer '{name}' gives an example other .*batch_first.*--batch 1"
            ):
                isorep.extract(model, SEQUENCES, layers=name, batch=4)


def test_random_numbers_in_a_pass_are_a_note():
    found = isorep.extract(nn.Sequential(nn.Linear(4, 3), Dropping()), X, layers=["0", "1"])
    (note,) = found.caveats
    assert note.startswith("layer 1 gave other values for the same example again")


def test_lazy_modules_are_refused_before_their_weights_are_drawn():
    lazy = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(isorep.InputError, match=r"parameters without a shape, such as 0\.weight: run it"):
        isorep.extract(lazy, X)
    lazy(torch.as_tensor(X))
    assert isorep.extract(lazy, X)["output"].shape == (10, 3)


def test_what_was_compiled_is_read_as_it_was_before():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    compiled = torch.compile(model, backend="eager")
    wanted = isorep.extract(model, X, layers=["0", "output"])
    found = isorep.extract(compiled, X, layers=[0, "output"])
    assert list(found.layers) == ["0", "output"]
    for name in found.layers:
        assert np.array_equal(found[name].values, wanted[name].values)


def test_layers_that_cannot_be_rows_are_refused():
    with pytest.raises(isorep.InputError, match="gives a sparse tensor"):
        isorep.extract(Sparse(), X)
    with pytest.raises(isorep.InputError, match="calls no modules inside of it; name 'output'"):
        isorep.extract(Sparse(), X, layers=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's word on what it will drop one day
        scripted = torch.jit.trace(nn.Linear(4, 3), torch.as_tensor(X))
    with pytest.raises(isorep.InputError, match=r"made by torch\.jit, which hides its layers"):
        isorep.extract(scripted, X)
    with pytest.raises(isorep.InputError, match="first axis is not that of examples"):
        isorep.extract(Turned(), SEQUENCES[:7])  # as many positions as examples


@pytest.mark.parametrize(
    ("wrap", "match"),
    [
        (lambda w: {f"module.{name}": value for name, value in w.items()}, "begin with 'module.', .*DataParallel"),
        (lambda w: {f"_orig_mod.{name}": value for name, value in w.items()}, "begin with '_orig_mod.'"),
        (lambda w: {f"a.b.{name}": value for name, value in w.items()} | {"c": w["0.bias"]}, "begin with 'a.b.'"),
        (lambda w: {"state_dict": w, "epoch": 3}, r"'state_dict' .* torch\.save\(checkpoint\['state_dict'\], FILE"),
        (lambda w: {"0.bias": w["0.bias"]}, 'does not fit .*Missing key.*"0.weight"'),
    ],
)
def test_weights_of_other_shells_are_refused_with_what_to_do(nets, tmp_path, wrap, match):
    torch.save(wrap(nets.net().state_dict()), tmp_path / "w.pt")
    with pytest.raises(isorep.InputError, match=match):
        isorep.extract("odd_nets:net", X, weights=tmp_path / "w.pt")


def test_weights_that_are_shared_are_stored_once_and_read(nets, tmp_path):
    from safetensors.torch import save_model

    model = nets.Tied()
    save_model(model, str(tmp_path / "w.safetensors"))
    tokens = np.array([[1, 2], [3, 4]])
    found = isorep.extract("odd_nets:Tied", tokens, weights=tmp_path / "w.safetensors")
    assert np.array_equal(found["output"].values, isorep.extract(model, tokens)["output"].values)
