"""``isorep compare`` on two folders of layers, fast, within a time limit, and stopped by Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import isorep  # noqa: E402

from ..comparison.test_layers import ROWS, documents, folders  # noqa: E402, F401

QUICK = ("--fast", "--null", "10")


def rows_of(text):
    """The first and the last word of every row of the table."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("layer "))
    return [(line.split()[0], line.split()[-1]) for line in lines[start + 1 : lines.index("", start)]]


def test_two_folders_give_one_row_per_layer_a_report_and_json(isorep_command, folders, tmp_path):  # noqa: F811
    done = isorep_command("compare", *folders, *QUICK, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert (done.code, done.err) == (0, "")
    assert rows_of(done.out) == [("0", "linear"), ("1", "none")]
    assert "verdict: The smallest rung that suffices is linear in 1 of 2 layers (0)." in done.out
    assert "note: only seed0 has layer output" in done.out
    told = json.loads((tmp_path / "r.json").read_text())
    wanted = json.loads(isorep.compare_layers(*folders, fast=True, n_null=10).to_json())
    assert told["layers"]["1"]["forward"] == wanted["layers"]["1"]["forward"]
    assert "Errors over layers" in (tmp_path / "r.html").read_text()
    again = isorep_command("report", tmp_path / "r.json", "-o", tmp_path / "again.html")
    assert again.code == 0
    assert (tmp_path / "again.html").read_text() == (tmp_path / "r.html").read_text()


def test_options_reach_every_layer(isorep_command, folders):  # noqa: F811
    done = isorep_command("compare", *folders, *QUICK, "--layers", "1,0", "--rungs", "rigid,linear", "--reverse")
    assert done.code == 0, done.err
    assert rows_of(done.out)[0][0] == "1"
    assert "seed1 -> seed0\n" in done.out
    assert "identity" not in done.out
    assert isorep_command("compare", *folders, *QUICK, "--quiet").out == ""


def test_groups_are_taken_along(isorep_command, documents, tmp_path):  # noqa: F811
    pair = documents / "seed0", documents / "seed1"
    assert rows_of(isorep_command("compare", *pair, *QUICK).out) == [("1", "none")]
    np.save(tmp_path / "alone.npy", np.arange(300))
    override = isorep_command("compare", *pair, *QUICK, "--groups", tmp_path / "alone.npy")
    assert rows_of(override.out) == [("1", "linear")]
    named = isorep_command("compare", *pair, *QUICK, "--groups", "group")
    assert rows_of(named.out) == [("1", "none")]


def test_similarity_takes_the_same_folders_with_their_groups(isorep_command, documents, folders, tmp_path):  # noqa: F811
    pair = documents / "seed0", documents / "seed1"
    for more, groups in (((), 30), (("--layers", "1"), 30), (("--groups", "group"), 30)):
        done = isorep_command("similarity", *pair, *more, "--permutations", 20, "--json", tmp_path / "s.json")
        assert (done.code, done.err) == (0, "")
        assert json.loads((tmp_path / "s.json").read_text())["settings"]["groups"] == groups
    every = isorep_command("similarity", *folders, "--permutations", 20)
    assert [line.split()[0] for line in every.out.splitlines()[-3:]] == ["0", "1", "output"]
    mixed = isorep_command("similarity", folders[0], folders[1] / "0.parquet")
    assert mixed.code == 2
    assert "is not a folder of layers" in mixed.err


def test_a_limit_is_judged_in_every_layer(isorep_command, folders):  # noqa: F811
    done = isorep_command("compare", *folders, *QUICK, "--fail-above", "linear=0.5")
    assert done.code == 1
    assert done.err.count("exceeds the limit 0.5") == 1
    assert " in layer 1, exceeds" in done.err
    assert isorep_command("compare", *folders, *QUICK, "--layers", "0", "--fail-above", "linear=0.5").code == 0


def test_a_limit_on_a_rung_that_was_left_out_is_refused(isorep_command, folders, files):  # noqa: F811
    both = files / "a.npy", files / "b.npy"
    done = isorep_command("compare", *both, "--fast", "--fail-above", "ica=0.5")
    assert (done.code, done.out) == (2, "")
    assert "--fail-above takes" in done.err
    for pair in (both, folders):
        done = isorep_command("compare", *pair, "--time-limit", "0.000001", "--fail-above", "ica=0.5")
        assert done.code == 2
        assert "--fail-above names ica, which was left out" in done.err
        assert "verdict: No verdict" in done.out


def test_fast_and_time_limit_of_files(isorep_command, files):
    both = files / "a.npy", files / "b.npy"
    fast = isorep_command("compare", *both, "--fast", "--json", files / "f.json")
    assert fast.code == 0
    assert "\nica" not in fast.out
    told = json.loads((files / "f.json").read_text())
    assert (told["settings"]["fast"], told["settings"]["n_null"], told["worst_case"]) == (True, 20, None)
    short = isorep_command("compare", *both, "--time-limit", "0.000001")
    assert "note: left out by the time limit: independent components" in short.out
    refused = isorep_command("compare", *both, "--time-limit", "0")
    assert refused.code == 2
    assert "must be positive" in refused.err
    many = isorep_command("compare", *both, both[0], "--fast", "--null", "2")
    assert many.code == 0, many.err
    assert "\nica" not in many.out
    short = isorep_command("compare", *both, both[0], "--time-limit", "0.000001", "--json", files / "m.json")
    assert short.code == 0, short.err
    assert "note: left out by the time limit: independent components, 60 of 60 shuffled pairings" in short.out
    told = json.loads((files / "m.json").read_text())
    assert told["settings"]["time_limit"] == 0.000001
    assert told["left_out"][0] == "independent components"


def test_a_folder_of_layers_beside_anything_else_is_refused(isorep_command, folders, files, tmp_path):  # noqa: F811
    (tmp_path / "empty").mkdir()
    file = files / "a.npy"
    for arguments, words in (
        ((folders[0], file), f"{folders[0]} holds layers and {file} does not: name two folders"),
        ((file, folders[0]), f"such as {folders[0] / '0.parquet'}"),
        ((folders[0], tmp_path / "empty"), "empty does not: name two folders"),
        ((tmp_path / "empty", tmp_path / "empty"), "is a folder without files to read"),
        ((*folders, file), "name two such folders, or one file of every run"),
        ((*folders, file, "--layers", "0"), "--layers is for two folders, and 3 paths were named"),
        ((file, file, "--layers", "0"), "is not a folder of layers"),
        ((*folders, "--layers", "nine"), "holds no file called 'nine'"),
        ((*folders, "--ids", "id"), "folders of layers have their own ids"),
    ):
        done = isorep_command("compare", *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
        assert done.err.count("\n") == 1


def test_a_folder_of_shards_is_still_one_matrix(isorep_command, tmp_path):
    for name, sign in (("a", 1), ("b", -1)):
        (tmp_path / name).mkdir()
        for part in range(3):
            np.save(tmp_path / name / f"part-{part}.npy", sign * ROWS[part * 80 : part * 80 + 80])
    done = isorep_command("compare", tmp_path / "a", tmp_path / "b", *QUICK)
    assert done.code == 0, done.err
    assert "source  a: 240 rows x 4 columns" in done.out


WAITING = """
import os, signal, sys, time
import isorep.comparison
from isorep.cli.main import run
def made_to_wait(room, name):
    room, work = sys.modules[room], getattr(sys.modules[room], name)
    def waiting(*given):
        print("waiting", file=sys.stderr, flush=True)
        while not given[-1].passed or "STUBBORN" in os.environ:
            time.sleep(0.01)
        return work(*given)
    setattr(room, name, waiting)
made_to_wait("isorep.comparison.compare", "chance")
made_to_wait("isorep.comparison.many", "nulls_of")
def for_ever(*given):
    while True:
        time.sleep(0.01)
if "STUBBORN" in os.environ:
    sys.modules["isorep.comparison.compare"].bracket = for_ever  # in a thread of its own
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
run()
"""


def waiting(*arguments, **environment):
    """A command that waits, when it comes to the null, until it is stopped."""
    command = [sys.executable, "-c", WAITING, "compare", *map(str, arguments)]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    assert running.stderr.readline() == "waiting\n"
    running.send_signal(signal.SIGINT)
    return running


def test_control_c_prints_and_writes_what_there_is(files):
    running = waiting(files / "a.npy", files / "b.npy", "--json", files / "r.json", "--html", files / "r.html")
    printed, said = running.communicate()
    assert running.returncode == 130
    assert "isorep: stopping; the result so far follows. Press Ctrl-C again to quit at once" in said
    assert said.endswith("isorep: interrupted; the result is incomplete, see its notes\n")
    assert "linear " in printed
    assert "note: the run was stopped; left out: " in printed
    assert json.loads((files / "r.json").read_text())["settings"]["stopped"]
    assert (files / "r.html").exists()


def test_control_c_after_the_last_stage_leaves_a_complete_result(isorep_command, files, monkeypatch):
    def stopped_late(*runs, time_limit, **settings):
        result = compare(*runs, time_limit=time_limit, **settings)
        time_limit.stopped = True
        return result

    compare = isorep.compare
    monkeypatch.setattr(isorep, "compare", stopped_late)
    done = isorep_command("compare", files / "a.npy", files / "b.npy", "--fast")
    assert (done.code, done.err) == (130, "isorep: interrupted; the result is complete\n")


def test_control_c_of_many_runs_prints_and_writes_what_there_is(files):
    three = [files / name for name in ("a.npy", "b.npy", "a.npy")]
    running = waiting(*three, "--json", files / "m.json", "--html", files / "m.html")
    printed, said = running.communicate()
    assert running.returncode == 130
    assert said.endswith("isorep: interrupted; the result is incomplete, see its notes\n")
    assert "linear " in printed
    assert "note: the run was stopped; left out: 60 of 60 shuffled pairings" in printed
    assert json.loads((files / "m.json").read_text())["settings"]["stopped"]
    assert (files / "m.html").exists()


def test_control_c_leaves_out_the_layers_that_were_not_begun(folders):  # noqa: F811
    running = waiting(*folders, "--time-limit", "1000")
    printed, _ = running.communicate()
    assert running.returncode == 130
    assert [name for name, _ in rows_of(printed)] == ["0"]
    assert "note: the run was stopped; layers not started: 1" in printed


def test_a_second_control_c_leaves_at_once(files):
    running = waiting(files / "a.npy", files / "b.npy", "--json", files / "r.json", STUBBORN="1")
    running.stderr.readline()
    assert running.stderr.readline().startswith("isorep: stopping")
    running.send_signal(signal.SIGINT)
    try:
        printed, said = running.communicate(timeout=60)
    finally:
        running.kill()
    assert (running.returncode, printed) == (130, "")
    assert said == "isorep: interrupted; nothing was written\n"
    assert not (files / "r.json").exists()


def test_rungs_are_told_on_a_terminal_as_soon_as_they_are_known(folders):  # noqa: F811
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "isorep", "compare", *folders, "--null", "3"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    drawn = []

    def read():
        try:
            while chunk := os.read(main, 65536):
                drawn.append(chunk)
        except OSError:  # Linux reports the closed other end of a pseudo-terminal as an error
            pass

    reading = threading.Thread(target=read)
    reading.start()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=True, text=True)
    os.close(terminal)
    reading.join(10)
    os.close(main)
    text = b"".join(drawn).decode()
    for layer in "01":
        assert f"layer {layer}, held-out errors so far: identity " in text
    assert "layers" in text
    assert "so far" not in done.stdout


def test_rungs_of_many_runs_are_told_on_a_terminal(isorep_command, files, monkeypatch):
    told = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("isorep.cli.common.warn", told.append)
    many = [files / name for name in ("a.npy", "b.npy", "a.npy")]
    assert isorep_command("compare", *many, "--fast", "--null", "2").code == 0
    assert told[0].startswith("mean over all pairs of 3 runs, held-out errors so far: identity ")
