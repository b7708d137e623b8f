"""The demo trains, compares and explains; the doctor tells what is installed."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from isorep.cli.compare import _explain


def test_the_demo_trains_two_seeds_and_explains_the_ladder(isorep_command, tmp_path):
    done = isorep_command("demo", "--save", tmp_path, "--json", tmp_path / "demo.json")
    assert done.code == 0, done.err
    for words in ("100 epochs", "(seed 0)", "(seed 1)", "verdict:", "How to read this", "Next steps"):
        assert words in done.out
    steps = done.out.partition("Next steps\n")[2].splitlines()
    assert steps[0] == f"  isorep compare {tmp_path / 'seed0.npy'} {tmp_path / 'seed1.npy'}"
    data = json.loads((tmp_path / "demo.json").read_text())
    rungs = data["forward"]["rungs"]
    assert rungs["rigid"]["held_out"]["mean"] < 0.6 * rungs["signed_permutation"]["held_out"]["mean"]
    assert rungs["linear"]["below_null"]
    assert data["verdict"]["rung"] in ("rigid", "linear")
    again = isorep_command("compare", tmp_path / "seed0.npy", tmp_path / "seed1.npy", "--null", "2", "--boot", "0")
    assert again.code == 0
    assert np.load(tmp_path / "seed0.npy").shape == (1797, 5)


@pytest.mark.parametrize(("permutation", "shared"), [(0.62, False), (0.3, True)])
def test_axes_are_said_not_to_be_shared_where_matching_them_leaves_much(permutation, shared):
    errors = {"signed_permutation": permutation, "rigid": 0.22, "linear": 0.19, "ica": 0.6}
    rungs = {name: SimpleNamespace(held_out=SimpleNamespace(mean=error), null=None) for name, error in errors.items()}
    said = " ".join(_explain(SimpleNamespace(rungs=rungs)))
    assert ("the runs do not share axes" in said) == (not shared)
    assert "Chance (shuffled rows) is not measured" in said


def test_the_demo_refuses_a_wrong_call(isorep_command, tmp_path):
    assert isorep_command("demo", "--save", tmp_path / "nowhere").code == 2
    assert isorep_command("demo", "--seed", "-1").code == 2


def test_the_doctor_prints_versions_extras_blas_and_threads(isorep_command, monkeypatch, tmp_path):
    done = isorep_command("doctor", "--json", tmp_path / "facts.json")
    assert json.loads((tmp_path / "facts.json").read_text())["core"]["numpy"] == np.__version__
    assert done.code == 0
    for words in ("isorep", "python", "numpy", "scikit-learn", "extras", "pyarrow", "BLAS", "threads"):
        assert words in done.out
    monkeypatch.setattr("isorep.cli.doctor._version", lambda name: None)
    assert "pip install 'isorep[io]'" in isorep_command("doctor").out
