"""``isorep decoder``: from a model and latents to constants, JSON and page; and what can be wrong with the call."""

import json
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

CODE = """
import torch

def stretch():
    layer = torch.nn.Linear(3, 8, bias=False)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 0], layer.weight[1, 1], layer.weight[2, 2] = 2.0, 1.0, 0.5
    return layer

def leaves():
    raise SystemExit(0)

def late(z):
    if len(z) > 2:
        raise ValueError("too many rows\\nfor this")
    return z

def flat(z):
    return z * torch.tensor([1.0, 0.0, 1.0])
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"made_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(CODE)
    np.save(tmp_path / "z.npy", np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32))
    return name


def test_from_a_model_and_latents_to_constants_json_and_page(isorep_command, work, tmp_path):
    done = isorep_command(
        "decoder", f"{work}:stretch", "z.npy", "--samples", 40, "--json", "r.json", "--html", "r.html"
    )
    assert (done.code, done.err) == (0, "")
    for words in (
        f"decoder  {work}:stretch: 3 latents to 8, float32",
        "latents  z.npy: 60 rows, 40 of them measured",
        "The decoder is locally 2-bi-Lipschitz",
        "random directions",
    ):
        assert words in done.out
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["schema"] == "isorep.decoder/1"
    assert found["constants"]["constant"] == 2.0
    assert "What bounds rest on" in (tmp_path / "r.html").read_text()
    again = isorep_command("report", "r.json", "-o", "again.html")
    assert again.code == 0, again.err
    assert isorep_command("decoder", f"{work}:stretch", "z.npy", "--quiet", "--samples", 0).out == ""


def test_programs_are_measured_in_paper_mode_and_limits_are_judged(isorep_command, work, tmp_path):
    program = torch.export.export(torch.nn.Linear(3, 3), (torch.zeros(1, 3),))
    torch.export.save(program, tmp_path / "m.pt2")
    done = isorep_command("decoder", "m.pt2", "z.npy", "--mode", "paper", "--fail-above", 1000)
    assert (done.code, done.err) == (0, "")
    assert "all latents, at least" in done.out
    done = isorep_command("decoder", f"{work}:stretch", "z.npy", "--fail-above", 1.5, "--quiet")
    assert done.code == 1
    assert done.err == "isorep: the constant, 2, is above the limit 1.5\n"
    done = isorep_command("decoder", f"{work}:flat", "z.npy", "--fail-above", 100)
    assert done.code == 1
    assert "z1" in done.out
    assert "infinite, is above" in done.err


def test_wrong_calls_end_in_one_sentence(isorep_command, work, tmp_path):
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(3))
    (tmp_path / "noise.pt").write_bytes(b"noise")
    np.save(tmp_path / "wide.npy", np.zeros((4, 9), np.float32))
    for arguments, words in (
        (("bad.pkl", "z.npy"), "nothing is unpickled"),
        (("noise.pt", "z.npy"), "not a model that torch saved"),
        (("none.pt", "z.npy"), "does not exist"),
        ((".", "z.npy"), "is not a file"),
        ((f"{work}:stretch", "none.npy"), "none.npy"),
        ((f"{work}:stretch", "wide.npy"), "fails on rows of shape (9,)"),
        ((f"{work}:stretch", "z.npy", "--mode", "guess"), "choose from exact, paper, matrix_free"),
        ((f"{work}:stretch", "z.npy", "--fail-above", "0.5"), "--fail-above takes a constant"),
        ((f"{work}:stretch", "z.npy", "--samples", "-1"), "--samples takes"),
        ((f"{work}:stretch", "z.npy", "--json", "z.npy"), "is an input"),
        ((f"{work}:stretch", "z.npy", "--device", "nowhere"), "is not known to torch"),
        ((f"{work}:stretch", "z.npy", "--device", "meta"), "device 'meta' is not there"),
        ((f"{work}:stretch", "z.npy", "--memory", "0"), "memory"),
        ((f"{work}:stretch", "z.npy", "--memory", "inf"), "memory"),
        ((f"{work}:stretch", "z.npy", "--seed", "-1"), "random_state is -1"),
        ((f"{work}:stretch", "z.npy", "--join"), "--join is for a pair"),
        ((f"{work}:stretch", "z.npy", "--against-weights", "w"), "--against-weights is for a pair"),
        ((f"{work}:stretch", "z.npy", "--against", f"{work}:stretch", "--directions", "5"), "--directions is for"),
        ((f"{work}:leaves", "z.npy"), "fails: SystemExit"),
        ((f"{work}:late", "z.npy"), "fails on a batch of 60 rows: too many rows"),
    ):
        done = isorep_command("decoder", *arguments)
        assert done.code == 2, arguments
        assert words in done.err, done.err
        assert done.err.count("\n") == 1
        assert done.out == ""
