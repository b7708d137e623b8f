"""``isorep decoder --blocks`` and ``--mechanisms``: verdicts, page, limits, and what can be wrong with the call."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

CODE = """
from isorep.datasets import slot_generator

def apart():
    return slot_generator(2, 1, 4, 0).module()

def overlapping():
    return slot_generator(2, 1, 4, 2).module()

def leaking():
    network = apart()
    return lambda z: network(z + 0.003 * z.flip(1))
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"slots_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(CODE)
    np.save(tmp_path / "z.npy", np.random.default_rng(0).standard_normal((30, 2)))
    return name


def test_blocks_are_judged_printed_and_written(isorep_command, work, tmp_path):
    done = isorep_command(
        "decoder",
        f"{work}:overlapping",
        "z.npy",
        "--blocks",
        "1,1",
        "--samples",
        6,
        "--json",
        "m.json",
        "--html",
        "m.html",
    )
    assert (done.code, done.err) == (0, "")
    assert f"decoder  {work}:overlapping: 2 latents to 6, 6 samples" in done.out
    found = json.loads((tmp_path / "m.json").read_text())
    assert found["schema"] == "isorep.mechanisms/1"
    assert [found["criteria"][name]["state"] for name in ("D", "H2")] == ["fails", "holds"]
    assert "Which latents act on the outputs independently" in (tmp_path / "m.html").read_text()
    latents = isorep_command("decoder", f"{work}:overlapping", "z.npy", "--blocks", "1/0", "--samples", 6, "--quiet")
    assert (latents.code, latents.out) == (0, "")


def test_factors_are_found_without_blocks_and_limits_are_judged(isorep_command, work):
    free = isorep_command("decoder", f"{work}:apart", "z.npy", "--mechanisms", "--samples", 0, "--require", "D")
    assert (free.code, free.err) == (0, "")
    assert "1, 1" in free.out
    assert "30 samples" in free.out
    failed = isorep_command("decoder", f"{work}:overlapping", "z.npy", "--blocks", "1,1", "--require", "D", "--quiet")
    assert failed.code == 1
    assert failed.err.strip() == "isorep: Type D is required and its state is: fails"


def test_leakage_is_printed_beside_random_bases_written_and_limited(isorep_command, work, tmp_path):
    call = ("decoder", f"{work}:leaking", "z.npy", "--blocks", "1,1", "--samples", 6)
    done = isorep_command(*call, "--max-leakage", 0.05, "--order", 4, "--json", "m.json", "--html", "m.html")
    assert (done.code, done.err) == (0, "")
    assert "random bases" in done.out
    assert "Nearly Type D" in done.out
    assert "Type H₄" in done.out
    found = json.loads((tmp_path / "m.json").read_text())
    leak = next(each for each in found["leakage"] if each["name"] == "D")
    assert 0 < leak["mean"] <= leak["quantile"] <= leak["largest"] < 0.05 < leak["random"]
    assert leak["near"]
    assert found["near_factors"]["splits"][0]["dimensions"] == [2]
    page = (tmp_path / "m.html").read_text()
    assert "Leakage, compared with random bases" in page
    assert "Cuts into near-factors" in page
    over = isorep_command(*call, "--max-leakage", 1e-6, "--quiet")
    assert over.code == 1
    assert "the Type D leakage, " in over.err
    assert "above the limit 0.0001%" in over.err
    alone = isorep_command(*call[:4], "2", "--samples", 6, "--max-leakage", 0.05, "--quiet")
    assert alone.code == 1
    assert "leakage was not measured" in alone.err
    assert isorep_command(*call, "--require", "conformal", "--quiet").err.strip() == (
        "isorep: conformal is required and its state is: fails"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mechanisms", "--max-leakage", "2"), "a share between 0 and 1"),
        (("--max-leakage", "0.1"), "--max-leakage is for mechanisms"),
        (("--mechanisms", "--order", "9"), "highest_order is 9"),
        (("--mechanisms", "--require", "H4"), "--require H4 needs --order 4"),
        (("--blocks", "2,1"), "do not make up 2 latents"),
        (("--blocks", "a,b"), "--blocks takes sizes"),
        (("--blocks", "0/0"), "each of the latents"),
        (("--blocks", ""), "--blocks takes sizes"),
        (("--mechanisms", "--tolerances", "x"), "--tolerances takes numbers"),
        (("--mechanisms", "--tolerances", "0.1,0.2"), "at least three"),
        (("--mechanisms", "--require", "Q"), "--require is one of"),
        (("--mechanisms", "--samples", "-1"), "--samples takes a number of rows"),
        (("--mechanisms", "--fail-above", "2"), "--fail-above is for distances"),
        (("--mechanisms", "--against", "other:decoder"), "--against is for distances"),
        (("--require", "D"), "--require is for mechanisms"),
        (("--mechanisms", "--json", "z.npy"), "is an input"),
    ],
)
def test_a_wrong_call_is_told_in_a_sentence(isorep_command, work, options, words):
    done = isorep_command("decoder", f"{work}:apart", "z.npy", *options)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") <= 2
