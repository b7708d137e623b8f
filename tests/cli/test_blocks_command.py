"""``isorep blocks``: views in files, reruns, what is written, limits, and what is refused."""

import json

import numpy as np
import pytest

from ..blocks.worlds import latents, views_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    content = latents(200, 2)
    for run in (0, 1):
        for name, view in zip("abc", views_of(content, (2, 3, 2), seed=run), strict=True):
            np.save(folder / f"{name}{run}.npy", view)
    np.save(folder / "noise.npy", np.random.default_rng(9).normal(size=(200, 3)))
    np.save(folder / "short.npy", np.zeros((20, 3)))
    np.save(folder / "plate.npy", np.arange(200) // 5)
    return folder


def test_the_shared_block_is_printed_and_written(isorep_command, folder):
    done = isorep_command(
        "blocks", folder / "a0.npy", folder / "b0.npy", folder / "c0.npy", "--groups", folder / "plate.npy", "--null",
        39, "--json", folder / "r.json", "--html", folder / "r.html", "--content", folder / "content.npy", "--seed", 3,
        "--fail-below", 2,
    )  # fmt: skip
    assert done.code == 0
    assert done.out.startswith("verdict: 2 dimensions are shared by the 3 views")
    told = json.loads((folder / "r.json").read_text())
    assert told["settings"]["groups"] == 40
    assert told["settings"]["random_state"] == 3
    assert np.load(folder / "content.npy").shape == (200, 2)
    assert "2 shared dimensions." in (folder / "r.html").read_text()
    assert f"Content: {folder / 'content.npy'}" in done.out


def test_a_rerun_is_compared_and_quiet_prints_nothing(isorep_command, folder):
    views = [folder / name for name in ("a0.npy", "b0.npy")]
    again = f"{folder / 'a1.npy'},{folder / 'b1.npy'}"
    done = isorep_command("blocks", *views, "--rerun", again, "--null", 19, "--json", folder / "again.json")
    assert "rerun 1: Content of the first run and content of rerun 1 agree" in " ".join(done.out.split())
    (rerun,) = json.loads((folder / "again.json").read_text())["reruns"]
    assert rerun["content"]["verdict"]["rung"] in ("signed_permutation", "rigid")
    assert isorep_command("blocks", *views, "--null", 19, "--quiet").out == ""


def test_limits_and_wrong_calls_have_their_exit_codes(isorep_command, folder):
    apart = ("blocks", folder / "a0.npy", folder / "noise.npy", "--null", 19)
    done = isorep_command(*apart, "--fail-below", 1)
    assert (done.code, done.out.startswith("verdict: No shared block")) == (1, True)
    assert "0 dimensions are shared, and the limit is 1" in done.err
    done = isorep_command(*apart, "--content", folder / "none.npy", "--json", folder / "none.json")
    assert (done.code, (folder / "none.npy").exists(), (folder / "none.json").exists()) == (2, False, True)
    assert "no shared block was found, so" in done.err
    assert done.out.startswith("verdict: No shared block")
    done = isorep_command(*apart, "--content", folder / "none.xyz", "--json", folder / "early.json")
    assert (done.code, "cannot write .xyz" in done.err, (folder / "early.json").exists()) == (2, True, False)
    done = isorep_command("blocks", folder / "a0.npy")
    assert (done.code, "name at least two views" in done.err) == (2, True)
    done = isorep_command("blocks", folder / "a0.npy", folder / "short.npy")
    assert done.code == 2
    assert "rows" in done.err
