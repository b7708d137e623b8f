"""SpliceAI from Keras files: against a plain numpy pass, against Keras itself, and files that are not what they say."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import isorep

torch = pytest.importorskip("torch")
h5py = pytest.importorskip("h5py")

from isorep.models import SpliceAI, encode_dna, find_spliceai, load_spliceai  # noqa: E402

CHANNELS, WIDTHS, DILATIONS, BLOCKS, CROP = 3, (3, 5), (1, 2), 2, 20


class ResultRecord:
    """A small network of SpliceAI's layers, as Keras would write it."""

    def __init__(self):
        self.layers, self.weights = [], {}
        self._rng = np.random.default_rng(0)
        self.add("InputLayer", "dna", [], batch_input_shape=[None, None, 4])
        state = self.convolution("z_stem", "dna", 4, CHANNELS)
        total = self.convolution("skip_0", state, CHANNELS, CHANNELS)
        for number, (width, dilation) in enumerate(zip(WIDTHS, DILATIONS, strict=True)):
            for block in range(BLOCKS):
                inner = state
                for half in "ab":
                    name = f"{number}{block}{half}"
                    inner = self.norm(f"norm_{name}", inner)
                    inner = self.add("Activation", f"unit_{name}", [inner], activation="relu")
                    same = {"width": width, "dilation": dilation, "padding": "same"}
                    inner = self.convolution(f"conv_{name}", inner, CHANNELS, CHANNELS, **same)
                state = self.add("Add", f"sum_{number}{block}", [inner, state])
            skip = self.convolution(f"skip_{number + 1}", state, CHANNELS, CHANNELS)
            total = self.add("Add", f"total_{number}", [total, skip])
        cropped = self.add("Cropping1D", "crop", [total], cropping=[CROP, CROP])
        self.convolution("a_head", cropped, CHANNELS, 3, activation="softmax")

    def add(self, kind, name, inputs, **settings):
        nodes = [[[each, 0, 0, {}] for each in inputs]] if inputs else []
        config = {"name": name, **settings}
        self.layers.append({"class_name": kind, "name": name, "config": config, "inbound_nodes": nodes})
        return name

    def convolution(self, name, before, wide, filters, width=1, dilation=1, padding="valid", activation="linear"):
        self.weights[name] = {
            "kernel": self._rng.normal(size=(width, wide, filters)) / np.sqrt(width * wide),
            "bias": self._rng.normal(size=filters),
        }
        sizes = {"filters": filters, "kernel_size": [width], "dilation_rate": [dilation], "strides": [1]}
        return self.add("Conv1D", name, [before], **sizes, padding=padding, activation=activation, use_bias=True)

    def norm(self, name, before):
        drawn = {key: self._rng.normal(size=CHANNELS) for key in ("gamma", "beta", "moving_mean")}
        self.weights[name] = drawn | {"moving_variance": self._rng.uniform(0.5, 2, CHANNELS)}
        return self.add("BatchNormalization", name, [before], axis=-1, epsilon=0.001, scale=True, center=True)

    def layer(self, name):
        return next(layer for layer in self.layers if layer["name"] == name)

    def save(self, path):
        config = {"class_name": "Model", "config": {"layers": self.layers, "output_layers": [["a_head", 0, 0]]}}
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = json.dumps(config)
            for layer, arrays in self.weights.items():
                for name, values in arrays.items():
                    file[f"model_weights/{layer}/{layer}/{name}:0"] = np.asarray(values, np.float32)
        return path

    def forward(self, one_hot):
        """Layer by layer on (length, 4), in float64, by loops and matrix products."""
        steps = {
            "InputLayer": lambda layer: one_hot,
            "Conv1D": self._convolved,
            "BatchNormalization": self._normed,
            "Activation": lambda layer, x: np.maximum(x, 0),
            "Add": lambda layer, x, y: x + y,
            "Cropping1D": lambda layer, x: x[CROP:-CROP],
        }
        values = {}
        for layer in self.layers:
            inputs = [values[node[0]] for nodes in layer["inbound_nodes"] for node in nodes]
            values[layer["name"]] = steps[layer["class_name"]](layer, *inputs)
        return values

    def _convolved(self, layer, x):
        kernel, bias = (self.weights[layer["name"]][key].astype(np.float32) for key in ("kernel", "bias"))
        (dilation,), width = layer["config"]["dilation_rate"], len(kernel)
        out = np.zeros((len(x), kernel.shape[2])) + bias
        for tap in range(width):
            for place in range(len(x)):
                seen = place + (tap - width // 2) * dilation
                if 0 <= seen < len(x):
                    out[place] += x[seen] @ kernel[tap]
        if layer["config"]["activation"] == "softmax":
            out = np.exp(out) / np.exp(out).sum(1, keepdims=True)
        return out

    def _normed(self, layer, x):
        w = {key: values.astype(np.float32) for key, values in self.weights[layer["name"]].items()}
        return (x - w["moving_mean"]) / np.sqrt(w["moving_variance"] + 0.001) * w["gamma"] + w["beta"]


@pytest.fixture
def written():
    return ResultRecord()


def test_a_file_read_back_gives_what_a_plain_numpy_pass_gives(written, tmp_path):
    (model,) = load_spliceai(written.save(tmp_path / "tiny.h5"))
    dna = encode_dna("".join(random.Random(0).choices("ACGTN", k=60)))
    expected = written.forward(dna[0].numpy().T)
    np.testing.assert_allclose(model(dna)[0].T, expected["a_head"], atol=2e-6)
    np.testing.assert_allclose(model.represent(dna)[0].T, expected["crop"], atol=2e-5)
    for state, name in zip(model.depths(dna), ("z_stem", "sum_01", "sum_11"), strict=True):
        np.testing.assert_allclose(state[0].T, expected[name][CROP:-CROP], atol=2e-5)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_prediction_sees_its_context_and_no_further(written, tmp_path):
    (model,) = load_spliceai(written.save(tmp_path / "tiny.h5"))
    made = SpliceAI(channels=CHANNELS, widths=WIDTHS, dilations=DILATIONS, blocks=BLOCKS)
    assert made.crop == CROP  # of itself as far as the convolutions reach
    assert SpliceAI().crop == 5000
    dna = torch.zeros(1, 4, 60).requires_grad_()
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):
            norm.weight.fill_(0.01)  # with the next line no unit rests, and nothing is hidden from the gradient
            norm.bias.fill_(1.0)
    model.represent(dna)[0, 0, 10].backward()
    seen = dna.grad.abs().sum((0, 1)).nonzero().squeeze()
    assert (seen.min(), seen.max()) == (10, 50)  # the output at 10 belongs to the position 30


def test_reading_draws_no_random_numbers(written, tmp_path):
    path = written.save(tmp_path / "tiny.h5")
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    load_spliceai(path)
    assert torch.equal(torch.rand(1), expected)


def test_letters():
    coded = encode_dna(["acgN", "TTTT"])
    assert coded.shape == (2, 4, 4)
    assert torch.equal(coded[0], torch.diag(torch.tensor([1.0, 1.0, 1.0, 0.0])))
    assert torch.equal(coded[1, 3], torch.ones(4))
    with pytest.raises(isorep.InputError, match="sequence 1 has 'X' at 2"):
        encode_dna(["ACGT", "ACXT"])
    with pytest.raises(isorep.InputError, match="'é' at 0"):
        encode_dna("éA")
    for wrong in ([], ["A", "AC"], [b"A"]):
        with pytest.raises(isorep.InputError, match="one length"):
            encode_dna(wrong)


def test_sequences_without_context_are_refused(written, tmp_path):
    (model,) = load_spliceai(written.save(tmp_path / "tiny.h5"))
    for shape in ((1, 4, 2 * CROP), (4, 60), (1, 60, 4)):
        with pytest.raises(isorep.InputError, match="longer than the 40 positions"):
            model(torch.zeros(shape))


def changed(name, **settings):
    def change(written):
        written.layer(name)["config"].update(settings)

    return change


def rewired(name, *inputs):
    def change(written):
        written.layer(name)["inbound_nodes"] = [[[each, 0, 0, {}] for each in inputs]]

    return change


def weights(layer, name, change):
    def changing(written):
        written.weights[layer][name] = change(written.weights[layer][name])

    return changing


def with_lambda(written):
    written.add("Lambda", "surprise", ["a_head"], function=["4wEAAAA=", None, None], function_type="lambda")


DAMAGED = {
    "a Lambda": (with_lambda, "'surprise' is a Lambda: .* code in a file is not run"),
    "weights missing": (lambda it: it.weights.pop("conv_10a"), "no dataset model_weights/conv_10a/conv_10a/kernel:0"),
    "a bias missing": (lambda it: it.weights["skip_1"].pop("bias"), "no dataset model_weights/skip_1/skip_1/bias:0"),
    "a shape": (weights("conv_00b", "kernel", lambda w: w[:2]), r"of shape \(2, 3, 3\) where floats of \(3, 3, 3\)"),
    "NaN": (weights("norm_00b", "gamma", lambda w: w * np.nan), "norm_00b/gamma:0 holds values that are not finite"),
    "variances": (weights("norm_00b", "moving_variance", np.negative), "'norm_00b' has negative variances"),
    "a huge layer": (changed("z_stem", filters=10**9), "filters = 3 where 1000000000|z_stem/kernel:0 is float32"),
    "no number": (changed("z_stem", filters="many"), "'z_stem' has filters = 'many', which is no number"),
    "another unit": (changed("unit_00a", activation="tanh"), "'unit_00a' has activation = 'tanh' where 'relu'"),
    "strides": (changed("conv_00a", strides=[2]), r"'conv_00a' has strides = \[2\] where 1"),
    "even width": (changed("conv_00a", kernel_size=[4]), "widths that are even, or more than one size"),
    "channels first": (changed("conv_00a", data_format="channels_first"), "does not have its channels last"),
    "epsilon": (changed("norm_00a", epsilon=0.1), "do not have one epsilon"),
    "no epsilon": (changed("norm_00a", epsilon=[]), "do not have one epsilon"),
    "one-sided crop": (changed("crop", cropping=[1, 2]), "cuts off 1 and 2 positions"),
    "crop of text": (changed("crop", cropping="all"), "does not say how much it cuts off"),
    "a loop": (rewired("sum_00", "conv_00b", "sum_01"), "'sum_00' does not add to what its block starts from"),
    "a real loop": (rewired("total_0", "total_1", "skip_1"), "'total_1' has two places"),
    "nowhere": (rewired("crop", "elsewhere"), "no layer 'elsewhere'"),
    "three added": (rewired("total_1", "total_0", "skip_2", "skip_1"), "adds 3 inputs"),
    "a layer too many": (lambda it: it.add("Activation", "idle", ["dna"], activation="relu"), "'idle' has no place"),
    "a name twice": (lambda it: it.add("Add", "crop", ["dna", "dna"]), "two layers have the same name"),
    "no input": (rewired("z_stem"), "'z_stem' takes 0 inputs"),
    "no class": (lambda it: it.layers[3].pop("class_name"), "without a name or a class"),
    "no settings": (lambda it: it.layers[3].update(config=7), "has no settings"),
    "inputs of text": (lambda it: it.layers[3].update(inbound_nodes=["dna"]), "not a list of layers"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_network_that_is_not_spliceai_is_refused(written, tmp_path, name):
    change, message = DAMAGED[name]
    change(written)
    with pytest.raises(isorep.InputError, match=rf"^tiny\.h5: .*({message})"):
        load_spliceai(written.save(tmp_path / "tiny.h5"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "no attribute model_config"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "lists no layers"),
        ('{"config": {"layers": []}}', "lists no layers"),
        (json.dumps({"config": {"layers": [1] * 2001}}), "2001 layers, more than"),
        ('{"config": {"layers": [1]}}', "without a name or a class"),
        (7, "no attribute model_config"),
    ],
)
def test_a_config_that_describes_no_network_is_refused(tmp_path, config, message):
    with h5py.File(tmp_path / "tiny.h5", "w", libver="latest") as file:
        if config is not None:
            file.attrs["model_config"] = config
    with pytest.raises(isorep.InputError, match=message):
        load_spliceai(tmp_path / "tiny.h5")


def test_files_that_are_cut_off_or_no_hdf5_are_refused(written, tmp_path):
    whole = written.save(tmp_path / "tiny.h5").read_bytes()
    (tmp_path / "text.h5").write_text("not HDF5")
    (tmp_path / "cut.h5").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "cut"):
        with pytest.raises(isorep.InputError, match=rf"{name}\.h5 cannot be read as HDF5"):
            load_spliceai(tmp_path / f"{name}.h5")


def test_weights_in_other_files_are_not_followed(written, tmp_path):
    path = written.save(tmp_path / "tiny.h5")
    written.save(tmp_path / "other.h5")
    with h5py.File(path, "r+") as file:
        del file["model_weights/z_stem/z_stem/bias:0"]
        file["model_weights/z_stem/z_stem/bias:0"] = h5py.ExternalLink(
            "other.h5", "/model_weights/z_stem/z_stem/bias:0"
        )
    with pytest.raises(isorep.InputError, match="no dataset model_weights/z_stem/z_stem/bias:0"):
        load_spliceai(path)


def test_files_are_found_in_a_folder_a_variable_or_the_package(written, tmp_path, monkeypatch):
    folder = tmp_path / "site" / "spliceai" / "models"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.delenv("ISOREP_SPLICEAI", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    with pytest.raises(FileNotFoundError, match=r"no h5 files in .*pip install --no-deps spliceai"):
        find_spliceai()
    for number in (10, 2, 1):
        written.save(folder / f"spliceai{number}.h5")
    names = ["spliceai1.h5", "spliceai2.h5", "spliceai10.h5"]
    assert [path.name for path in find_spliceai()] == names  # the package is found, not imported
    assert "spliceai" not in sys.modules
    assert len(load_spliceai(folder)) == 3
    monkeypatch.setenv("ISOREP_SPLICEAI", str(folder / "spliceai2.h5"))
    assert find_spliceai() == [folder / "spliceai2.h5"]
    with pytest.raises(isorep.InputError, match="there are no h5 files in"):
        find_spliceai(tmp_path / "nowhere")


def fixed_dna():
    """Letters from Python's own generator, five exons, the third a weak one around which predictions are made."""
    draw = random.Random(2019)
    letters = draw.choices("ACGT", weights=(29, 19, 20, 32), k=10160)

    def put(place, text):
        letters[place : place + len(text)] = text

    put(5007, "TACTAACTTGACCTCTTTCTTGTATTGCAGG")
    put(5120, "CAGGTACGT")
    put(3800, "N" * 50)
    for place in (3000, 4200, 6000, 7200):
        exon = "".join(draw.choices("ACGT", weights=(28, 25, 28, 19), k=110))
        put(place - 33, "TACTAACTTGACCTCTTTCTTCTTTTTTGCAGG" + exon + "CAGGTAAGT")
    return "".join(letters)


def test_the_published_members_predict_what_keras_predicts():
    """Five files of three megabytes each, which isorep does not have: ISOREP_SPLICEAI names their folder."""
    try:
        files = find_spliceai()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    assert [path.name for path in files] == [f"spliceai{number}.h5" for number in range(1, 6)]
    expected = json.loads((Path(__file__).parent / "spliceai_keras.json").read_text())
    dna = encode_dna(fixed_dna())
    with torch.inference_mode():
        found = torch.stack([member(dna)[0].T[expected["positions"]] for member in load_spliceai()])
    np.testing.assert_allclose(found, expected["probabilities"], rtol=1e-4, atol=2e-6)
    acceptor, donor = found[:, 1, 1], found[:, 3, 2]
    assert (acceptor > 0.6).all()
    assert (donor > 0.2).all()
