"""``isorep compare`` from files to a verdict, exit codes and JSON."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ..data import noisy_pair

FAST = ("--null", "5", "--boot", "100")


def test_the_verdict_then_the_ladder_are_printed_and_nothing_on_stderr(isorep_command, files):
    done = isorep_command("compare", files / "a.npy", files / "b.npy", *FAST)
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    order = [
        "verdict: ",
        "  identity ",
        "  signed_permutation ",
        "> rigid ",
        "  linear ",
        "  ica ",
        "> marks the verdict",
    ]
    places = [next(i for i, line in enumerate(lines) if line.startswith(word)) for word in order]
    assert places == sorted(places)
    assert done.out.startswith("verdict: a.npy and b.npy agree up to a rigid motion")
    for heading in ("held-out", "95% interval", "chance", "R²", "in-sample", "diameters"):
        assert heading in done.out


def test_json_is_complete_and_equals_the_python_result(isorep_command, files):
    import isorep

    target = files / "out.json"
    done = isorep_command(
        "compare", files / "a.npy", files / "b.npy", *FAST, "--json", target, "--quiet", "--seed", "3"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    result = isorep.compare(files / "a.npy", files / "b.npy", n_null=5, n_boot=100, random_state=3)
    written, computed = json.loads(target.read_text()), json.loads(result.to_json())
    assert written.pop("seconds").keys() == computed.pop("seconds").keys()
    assert dict(written["page"].pop("provenance")).items() >= dict(computed["page"].pop("provenance")).items()
    assert written == computed


def test_two_formats_with_ids_in_another_order_are_refused_then_joined(isorep_command, tmp_path):
    x, y = noisy_pair(120, 3, 0.1)
    ids = [f"r{i}" for i in range(120)]
    np.savez(tmp_path / "seed0.npz", latents=x, ids=ids)
    frame = pd.DataFrame(y, columns=[f"feature_{j}" for j in range(3)]).assign(
        id=ids, Metadata_plate=np.arange(120) // 6
    )
    frame.iloc[::-1].iloc[:110].reset_index(drop=True).to_parquet(tmp_path / "seed1.parquet")
    refused = isorep_command("compare", tmp_path / "seed0.npz", tmp_path / "seed1.parquet", *FAST)
    assert refused.code == 2
    assert "10 rows of seed0.npz not in seed1.parquet (first: row 0, 'r0')" in refused.err
    assert refused.out == ""
    joined = isorep_command("compare", tmp_path / "seed0.npz", tmp_path / "seed1.parquet", *FAST, "--join")
    assert joined.code == 0
    assert "10 dropped from seed0.npz and 0 from seed1.parquet" in joined.out
    # groups: a column of A, and FILE::COLUMN
    grouped = isorep_command(
        "compare", tmp_path / "seed1.parquet", tmp_path / "seed0.npz", *FAST, "--join", "--groups", "Metadata_plate"
    )
    assert grouped.code == 0, grouped.err
    np.save(tmp_path / "groups.npy", np.arange(120) // 6)
    from_file = isorep_command(
        "compare",
        tmp_path / "seed0.npz",
        tmp_path / "seed1.parquet",
        *FAST,
        "--join",
        "--groups",
        tmp_path / "groups.npy",
    )
    assert from_file.code == 0, from_file.err


@pytest.mark.parametrize(
    ("limit", "code"), [("0.5", 0), ("0.0001", 1), ("rigid=0.2", 0), ("identity=0.01", 1), ("signed_permutation=0", 1)]
)
def test_fail_above_exits_1_and_says_which_limit(isorep_command, files, limit, code):
    done = isorep_command("compare", files / "a.npy", files / "b.npy", *FAST, "--fail-above", limit)
    assert done.code == code
    assert "verdict:" in done.out
    assert ("exceeds the limit" in done.err) == (code == 1)


@pytest.mark.parametrize("limit", ["much", "affine=0.1", "rigid=", "-1", "nan"])
def test_a_limit_that_makes_no_sense_is_refused(isorep_command, files, limit):
    done = isorep_command("compare", files / "a.npy", files / "b.npy", f"--fail-above={limit}")
    assert done.code == 2
    assert "--fail-above" in done.err


def test_rungs_reverse_and_diameter_options(isorep_command, files):
    done = isorep_command(
        "compare",
        files / "a.npy",
        files / "b.npy",
        *FAST,
        "--rungs",
        "rigid,linear",
        "--reverse",
        "--diameter",
        "bound",
    )
    assert done.code == 0
    assert "b.npy -> a.npy" in done.out
    assert "lower bound" in done.out
    assert "identity" not in done.out


def bad_inputs(folder):
    good = np.random.default_rng(0).normal(size=(20, 3))
    cases = {}

    def add(name, values, words, suffix=".npy", raw=None):
        path = folder / f"{name}{suffix}"
        if raw is not None:
            path.write_bytes(raw)
        else:
            np.save(path, values, allow_pickle=True)
        cases[name] = (path, words)

    nan, inf = good.copy(), good.copy()
    nan[7, 2] = nan[9, 0] = np.nan
    inf[3, 1] = np.inf
    add("nan", nan, "2 NaN values, the first at row 7, column 2")
    add("inf", inf, "1 infinite value, the first at row 3, column 1")
    add("flat", good[:, 0], "rows")
    add("object", np.array([[1, "a"]] * 20, object), "pickled")
    add("ragged", None, "ragged", ".csv", b"a,b\n1,2\n3,4,5\n")
    add("pickle", None, "pickle", raw=b"\x80\x04\x95\x00")
    add("truncated", None, "truncated", raw=None if False else _npy_bytes(good)[:-40])
    add("empty", None, "empty", raw=b"")
    add("unknown", None, "cannot read .foo", ".foo", b"x")
    add("constant", np.full((20, 3), 2.0), "identical")
    add("two_rows", good[:2], "rows")
    add("few_rows", good[:4], "folds")
    add("integers", np.arange(60).reshape(20, 3), "integers")
    add("booleans", good > 0, "booleans")
    add("images", np.zeros((20, 3, 4, 4)), "reshape(len(values), -1)")
    add("huge", good * 1e300, "overflow")
    cases["missing"] = (folder / "nowhere.npy", "does not exist")
    np.savez(folder / "twice.npz", values=good, ids=["a"] * 20)
    cases["twice"] = (folder / "twice.npz", "duplicate row ids")
    return cases


def _npy_bytes(values):
    import io

    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


BAD = [
    "nan",
    "inf",
    "flat",
    "object",
    "ragged",
    "pickle",
    "truncated",
    "empty",
    "unknown",
    "constant",
    "two_rows",
    "few_rows",
    "integers",
    "booleans",
    "images",
    "huge",
    "missing",
    "twice",
]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("side", [0, 1])
def test_bad_input_exits_2_with_one_sentence_and_leaves_no_file(isorep_command, tmp_path, case, side):
    path, words = bad_inputs(tmp_path)[case]
    rows = {"two_rows": 2, "few_rows": 4}.get(case, 20)
    np.save(tmp_path / "good.npy", np.random.default_rng(1).normal(size=(rows, 3)))
    before = set(tmp_path.iterdir())
    pair = [path, tmp_path / "good.npy"]
    done = isorep_command("compare", *(pair if side == 0 else pair[::-1]), *FAST, "--json", tmp_path / "out.json")
    assert done.code == 2
    assert words in done.err
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
    assert "Traceback" not in done.err
    assert set(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written_is_refused_before_the_work(isorep_command, files):
    for target in (files / "nowhere" / "out.json", files):
        done = isorep_command("compare", files / "a.npy", files / "b.npy", "--json", target)
        assert done.code == 2
        assert "folder" in done.err


@pytest.mark.parametrize("wrong", [("--folds", "x"), ("--no-such-option",), ("--groups", "plate"), ("--folds", "1")])
def test_wrong_calls_exit_2(isorep_command, files, wrong):
    assert isorep_command("compare", files / "a.npy", files / "b.npy", *wrong).code == 2


def test_from_the_shell_with_the_installed_command(files):
    from pathlib import Path

    from isorep import __version__

    command = Path(sys.executable).with_name("isorep")
    done = subprocess.run(
        [command, "compare", files / "a.npy", files / "b.npy", *FAST], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    missing = subprocess.run([command, "compare", "x.npy", "y.npy"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert missing.stderr == "isorep: x.npy does not exist\n"
    module = subprocess.run([sys.executable, "-m", "isorep", "--version"], capture_output=True, text=True, check=False)
    assert module.stdout == f"isorep {__version__}\n"


def test_help_and_version(isorep_command):
    from isorep import __version__

    assert isorep_command("--version").out == f"isorep {__version__}\n"
    for command in ([], ["compare"], ["demo"], ["doctor"]):
        done = isorep_command(*command, "--help")
        assert done.code == 0
        assert "Usage" in done.out


def test_the_help_names_all_that_can_be_asked_for(isorep_command):
    from isorep.comparison import RUNGS
    from isorep.reproduction import EXPERIMENTS
    from isorep.similarity import INDICES
    from isorep.structure import FAMILIES

    registries = {"compare": RUNGS, "similarity": INDICES, "structure": FAMILIES, "reproduce": EXPERIMENTS}
    for command, names in registries.items():
        assert set(names) <= set(re.findall(r"\w+", isorep_command(command, "--help").out)), command


def test_whatever_goes_wrong_never_looks_like_an_exceeded_limit(isorep_command, files, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("isorep.compare", broken)
    monkeypatch.delenv("ISOREP_DEBUG", raising=False)
    done = isorep_command("compare", files / "a.npy", files / "b.npy")
    assert done.code == 70
    assert "internal error" in done.err


def test_a_damaged_groups_file_is_one_sentence(isorep_command, files):
    (files / "g.npy").write_bytes((files / "a.npy").read_bytes()[:30])
    done = isorep_command("compare", files / "a.npy", files / "b.npy", "--groups", files / "g.npy")
    assert done.code == 2
    assert "g.npy" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_limit_for_a_rung_that_is_not_compared_is_refused_at_once(isorep_command, files):
    done = isorep_command("compare", files / "a.npy", files / "b.npy", "--rungs", "rigid", "--fail-above", "ica=0.1")
    assert done.code == 2
    assert "--fail-above" in done.err


def test_results_go_through_links_and_pipes_and_never_over_an_input(isorep_command, files):
    import os
    import threading

    (files / "real.json").write_text("old")
    (files / "link.json").symlink_to(files / "real.json")
    assert isorep_command("compare", files / "a.npy", files / "b.npy", *FAST, "--json", files / "link.json").code == 0
    assert (files / "link.json").is_symlink()
    assert json.loads((files / "real.json").read_text())["schema"]
    refused = isorep_command("compare", files / "a.npy", files / "b.npy", "--json", files / "a.npy")
    assert refused.code == 2
    assert "is an input" in refused.err
    os.mkfifo(files / "pipe")
    seen = []
    reader = threading.Thread(target=lambda: seen.append((files / "pipe").read_text()))
    reader.start()
    assert isorep_command("compare", files / "a.npy", files / "b.npy", *FAST, "--json", files / "pipe").code == 0
    reader.join()
    assert json.loads(seen[0])["schema"]


def test_output_that_nobody_reads_to_the_end_and_names_that_cannot_be_shown(files):
    import os
    from pathlib import Path

    command = Path(sys.executable).with_name("isorep")
    (files / "a.npy").rename(files / "größe.npy")
    call = f"{command} compare {files}/größe.npy {files}/b.npy --null 2 --boot 0"
    shown = subprocess.run(
        call, shell=True, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert shown.returncode == 0, shown.stderr
    piped = subprocess.run(["bash", "-c", f"set -o pipefail; {call} | head -1"], capture_output=True, check=False)
    assert piped.returncode == 0, piped.stderr
    assert piped.stderr == b""
