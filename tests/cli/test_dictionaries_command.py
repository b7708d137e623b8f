"""``isorep dictionaries``: two files and many, activations, limits, and what is refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from ..dictionaries.worlds import planted, sparse_codes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dictionaries")
    source, target, _ = planted(atoms=100, others=130, width=32, shared=40)
    save_file({"W_dec": source.astype(np.float32)}, folder / "a.safetensors")
    np.save(folder / "b.npy", target)
    np.save(folder / "c.npy", target[:60])
    np.save(folder / "turned.npy", target.T)
    np.save(folder / "none.npy", target[:0])
    for name, atoms in (("a", 100), ("b", 130)):
        np.save(folder / f"{name}-codes.npy", sparse_codes(300, np.full(atoms, 0.2), seed=atoms))
        np.save(folder / f"{name}-often.npy", np.linspace(0.01, 0.5, atoms))
    return folder


def test_two_files_give_the_verdict_files_and_exit_code(isorep_command, folder, tmp_path):
    done = isorep_command(
        "dictionaries", f"{folder / 'a.safetensors'}::W_dec", folder / "b.npy", "--json", tmp_path / "r.json",
        "--html", tmp_path / "r.html", "--frequencies", folder / "a-often.npy", "--frequencies", folder / "b-often.npy",
        "--fail-below", "0.5",
    )  # fmt: skip
    assert done.code == 1
    assert "verdict: Some atoms recur: 40 of 100 living atoms of a.safetensors (40.0%)" in done.out
    assert "0.4 of atoms recur in a.safetensors and b.npy, below the limit 0.5" in done.err
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["schema"] == "isorep.dictionaries/1"
    assert found["pairs"][0]["decoder"]["one_to_one"]["share"] == 0.4
    assert "frequency-figure" in (tmp_path / "r.html").read_text()


def test_many_files_and_activations_alone(isorep_command, folder):
    many = isorep_command("dictionaries", f"{folder / 'a.safetensors'}::W_dec", folder / "b.npy", folder / "c.npy")
    assert (many.code, many.err) == (0, "")
    assert "over 3 pairs of 3 dictionaries" in many.out
    alone = isorep_command(
        "dictionaries",
        "--activations",
        folder / "a-codes.npy",
        "--activations",
        folder / "b-codes.npy",
        "--rows",
        "200",
    )
    assert "Atoms do not recur beyond chance" in alone.out
    assert "correlations are over 200 of 300 rows" in alone.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["b.npy"], "only one was given"),
        ([], "none was given"),
        (["b.npy", "none.npy"], "none.npy"),
        (["b.npy", "turned.npy"], "atoms of 32 dimensions and turned.npy of 130"),
        (["b.npy", "c.npy", "--fail-below", "3"], "--fail-below takes a share"),
        (["b.npy", "c.npy", "--null", "3"], "n_null is 3"),
        (["b.npy", "c.npy", "--frequencies", "b-often.npy"], "2 dictionaries and --frequencies of 1"),
        (["b.npy", "missing.npy"], "missing.npy does not exist"),
    ],
)
def test_what_is_refused(isorep_command, folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    done = isorep_command("dictionaries", *arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
