"""ONNX files: layers by the names of nodes, and files that are damaged, hostile or of several inputs."""

import os
import subprocess
import sys

import numpy as np
import pytest

import isorep
from isorep import InputError
from isorep.models import list_layers

torch = pytest.importorskip("torch")

from isorep.extraction.onnx_file import read_graph  # noqa: E402

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
FLOAT, INT64 = 1, 7


def part(number, content):
    """A field of a protocol buffer: a whole number, or something with a length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def value(name, *shape, kind=FLOAT):
    axes = b"".join(part(1, part(2, each) if isinstance(each, str) else part(1, each)) for each in shape)
    return part(1, name) + part(2, part(1, part(1, kind) + part(2, axes)))


def node(kind, inputs, output):
    return part(1, b"".join(part(1, each) for each in inputs) + part(2, output) + part(3, output) + part(4, kind))


def weights(external=None):
    stored = part(9, W.tobytes())
    if external:
        stored = part(13, part(1, "location") + part(2, external)) + part(14, 1)
    return part(5, part(1, 4) + part(1, 3) + part(2, FLOAT) + part(8, "w") + stored)


def model(graph):
    return part(1, 8) + part(8, part(1, "") + part(2, 13)) + part(7, part(2, "toy") + graph)


def write(path, external=None, more=b""):
    """Rectified linear features: the product is called like layers of real files, with slashes and dots."""
    graph = node("MatMul", ["x", "w"], "/body.0/MatMul_out") + node("Relu", ["/body.0/MatMul_out"], "y")
    graph += weights(external) + part(11, value("x", "n", 4)) + more + part(12, value("y", "n", 3))
    path.write_bytes(model(graph))
    return path


@pytest.fixture
def toy(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return write(tmp_path / "toy.onnx")


def test_outputs_of_nodes_are_layers_whether_the_graph_returns_them_or_not(toy, tmp_path):
    found = isorep.extract(toy, X, layers=["/body.0/MatMul_out", "y"], output=tmp_path / "rows", format="npy")
    np.testing.assert_allclose(found["/body.0/MatMul_out"].values, X @ W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["y"].values, np.maximum(X @ W, 0), rtol=1e-5, atol=1e-6)
    assert (tmp_path / "rows" / "_body.0_MatMul_out.npy").is_file()


def test_nothing_is_reported_to_the_makers_of_onnxruntime(tmp_path):
    """Their reports leave a file in TMPDIR, and a number of this machine in the home folder."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "toy.onnx")
    places = dict.fromkeys(("TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"), str(tmp_path / "empty"))
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"} | places
    code = "import sys; from isorep.extraction.onnx_file import OnnxModel, Path; OnnxModel(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "toy.onnx")], env=environment, check=True)
    assert list((tmp_path / "empty").rglob("*")) == []


def test_endless_nodes_are_refused(tmp_path):
    graph = b"".join(part(1, part(2, str(number))) for number in range(100_001)) + part(12, value("0", "n", 3))
    with pytest.raises(InputError, match="has 100001 nodes, and up to 100000 are read"):
        read_graph(model(graph), tmp_path / "a.onnx")


def test_a_kind_of_node_that_no_class_can_be_called_is_escaped(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    graph = node("Mat\0Mul", ["x", "w"], "y") + weights() + part(11, value("x", "n", 4)) + part(12, value("y", "n", 3))
    (tmp_path / "a.onnx").write_bytes(model(graph))
    with pytest.raises(InputError, match="cannot be loaded"):
        isorep.extract(tmp_path / "a.onnx", X)


def test_the_default_is_the_first_output_and_numbers_count_nodes(toy):
    np.testing.assert_allclose(isorep.extract(toy, X)["output"].values, np.maximum(X @ W, 0), rtol=1e-5, atol=1e-6)
    assert list(isorep.extract(toy, X, layers=0).layers) == ["/body.0/MatMul_out"]
    listed = list_layers(toy, X)
    assert [(each.name, each.type, each.shape) for each in listed[1:]] == [
        ("/body.0/MatMul_out", "MatMul", (3,)), ("y", "Relu", (3,))
    ]  # fmt: skip


def test_a_layer_that_is_not_there_is_named_with_those_near_it(toy):
    with pytest.raises(InputError, match="there is no layer 'body'; near are"):
        isorep.extract(toy, X, layers="body")


def test_language_models_get_a_mask_and_segments_and_other_inputs_are_refused(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    graph = node("Gather", ["w", "input_ids"], "h") + weights() + part(11, value("input_ids", "n", "t", kind=INT64))
    graph += part(11, value("attention_mask", "n", "t", kind=INT64)) + part(12, value("h", "n", "t", 3))
    path = tmp_path / "words.onnx"
    path.write_bytes(model(graph))
    tokens = np.array([[0, 1, 2], [3, 3, 1]])
    found = isorep.extract(path, tokens, pool="token")["output"].values
    np.testing.assert_allclose(found, W[tokens].reshape(6, 3))
    write(tmp_path / "two.onnx", more=part(11, value("other", "n", 4)))
    with pytest.raises(InputError, match="a model of one input is needed, not other"):
        isorep.extract(tmp_path / "two.onnx", X)


def test_an_output_that_depends_on_the_batch_is_called_as_in_the_file(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    graph = part(5, part(1, 1) + part(2, INT64) + part(8, "axis") + part(7, b"\x00"))
    graph += node("ReduceSum", ["x", "axis"], "sum") + node("Add", ["x", "sum"], "y")
    graph += part(11, value("x", "n", 4)) + part(12, value("y", "n", 4))
    path = tmp_path / "mixed.onnx"
    path.write_bytes(model(graph))
    with pytest.raises(InputError, match=r"layer 'y' gives an example other .*8-bit quantisation; --batch 1") as raised:
        isorep.extract(path, X)
    assert "batch_first" not in str(raised.value)
    np.testing.assert_allclose(isorep.extract(path, X, batch=1)["output"].values, 2 * X, rtol=1e-6)


def as_float(name, output):
    to_float = part(5, part(1, "to") + part(3, FLOAT) + part(20, 2))
    return part(1, part(1, name) + part(2, output) + part(3, output) + part(4, "Cast") + to_float)


@pytest.mark.parametrize("masked", [True, False])
def test_a_model_with_a_mask_does_not_attend_to_padding_and_one_without_gets_a_note(tmp_path, masked):
    """The sum over the sequence: with a mask that of the example alone, without one that of its padding, too."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    graph = as_float("input_ids", "x") + part(5, part(1, 1) + part(2, INT64) + part(8, "axis") + part(7, b"\x01"))
    graph += as_float("attention_mask", "m") + node("Mul", ["x", "m"], "z") if masked else b""
    graph += node("ReduceSum", ["z" if masked else "x", "axis"], "y") + part(
        11, value("input_ids", "n", "t", kind=INT64)
    )
    graph += part(11, value("attention_mask", "n", "t", kind=INT64)) if masked else b""
    path = tmp_path / "sum.onnx"
    path.write_bytes(model(graph + part(12, value("y", "n", 1))))
    tokens = np.array([[1, 2, 3], [4, 9, 9], [5, 6, 9]])
    found = isorep.extract(path, tokens, pad=9)
    alone = [[6.0], [4.0], [11.0]]
    noted = [note for note in found.caveats if "padding changes layer output" in note]
    if masked:
        np.testing.assert_allclose(found["output"].values, alone)
        assert not noted
    else:
        np.testing.assert_allclose(found["output"].values, [[6.0], [22.0], [20.0]])
        assert len(noted) == 1
    full = isorep.extract(path, tokens[:1], pad=9)
    assert not any("padding" in note for note in full.caveats)


def test_weights_in_another_file_are_read_from_the_folder_of_the_model_alone(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    (tmp_path / "toy.data").write_bytes(W.tobytes())
    found = isorep.extract(write(tmp_path / "toy.onnx", "toy.data"), X)["output"].values
    np.testing.assert_allclose(found, np.maximum(X @ W, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", ["../toy.data", "/etc/hostname", "a/../../b", "C:\\weights"])
def test_weights_outside_of_the_folder_are_refused(tmp_path, place):
    path = write(tmp_path / "toy.onnx", place)
    with pytest.raises(InputError, match="weights outside of its folder"):
        read_graph(path.read_bytes(), path)


@pytest.mark.parametrize(
    "stored", [b"", b"no model at all", b"\x3a\xff\xff\xff\xff\x0f", b"\x08\x08", b"\x3f", bytes(9)]
)
def test_files_that_are_no_onnx_models_are_refused(tmp_path, stored):
    with pytest.raises(InputError, match="no ONNX model") as caught:
        read_graph(stored, tmp_path / "x.onnx")
    assert "\n" not in str(caught.value)


def test_files_that_are_cut_short_are_refused(tmp_path):
    whole = write(tmp_path / "toy.onnx").read_bytes()
    for size in range(0, len(whole) - 1, 7):
        with pytest.raises(InputError, match="no ONNX model"):
            read_graph(whole[:size], tmp_path / "x.onnx")


def test_without_onnxruntime_the_error_names_the_extra(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"isorep\[onnx\]"):
        isorep.extract(write(tmp_path / "toy.onnx"), X)
