"""What survives a kill: every row once, in order, with the bits of a run that was never stopped."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import isorep
from isorep.extraction import run as running

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from ...waiting import until  # noqa: E402

X = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)

NETS = """
import os, time
import torch

class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.map = torch.nn.Linear(4, 3)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        if "WAIT" in os.environ and self.calls > 10:
            time.sleep(1000)
        return self.map(x)
"""


class Stopped(Exception):  # noqa: N818
    pass


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


@pytest.fixture(autouse=True)
def commit_always(monkeypatch):
    monkeypatch.setattr(running, "_COMMIT_SECONDS", 0.0)


def stopping(after):
    def progress(stage, done, total):
        if done >= after:
            raise Stopped

    return progress


@pytest.mark.parametrize("suffix", ["parquet", "zarr", "npy"])
def test_a_stopped_run_goes_on_without_gaps_or_repeats(model, tmp_path, suffix):
    options = {"layers": ["0", "output"], "batch": 7, "output": tmp_path / f"{{layer}}.{suffix}"}
    with pytest.raises(Stopped):
        isorep.extract(model, X, progress=stopping(35), **options)
    assert [path.name for path in tmp_path.iterdir()] == [f".layer.{suffix}.extracting"]
    with (tmp_path / f".layer.{suffix}.extracting" / "values-0").open("ab") as file:
        file.write(b"half a row")  # what a killed run leaves behind its last commit
    found = isorep.extract(model, X, **options)
    assert found.resumed
    whole = isorep.extract(model, X, layers=["0", "output"], batch=7)
    assert not whole.resumed
    for layer in ("0", "output"):
        assert np.array_equal(found[layer].values[:], whole[layer].values)
        assert found[layer].ids.tolist() == list(range(90))
    assert not (tmp_path / f".layer.{suffix}.extracting").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("journal.json", lambda text: text.replace('"rows": 28', '"rows": 1e999'), "journal of an extraction, or it"),
        ("journal.json", lambda text: text.replace('"rows": 28', '"rows": -35'), "journal of an extraction, or it"),
        ("documents.jsonl", lambda text: text.replace("[0, null]", "[[], nul]"), "its rows or their documents"),
        ("documents.jsonl", lambda text: text.replace("[0, null]", "[[], {}] "), "its rows or their documents"),
        ("places", lambda text: text.replace("\0", "\x7f", 1), "its rows or their documents"),
    ],
)
def test_a_state_that_was_changed_is_refused(model, tmp_path, name, text, words):
    options = {"layers": ["0", "output"], "batch": 7, "output": tmp_path / "{layer}.npy"}
    with pytest.raises(Stopped):
        isorep.extract(model, X, progress=stopping(35), **options)
    path = tmp_path / ".layer.npy.extracting" / name
    before = path.read_text("latin-1")
    path.write_text(text(before), "latin-1")
    assert path.read_text("latin-1") != before
    with pytest.raises(isorep.InputError, match=words):
        isorep.extract(model, X, **options)


def test_links_among_the_rows_of_a_stopped_run_are_not_written_through(model, tmp_path):
    options = {"layers": ["0", "output"], "batch": 7, "output": tmp_path / "{layer}.npy"}
    with pytest.raises(Stopped):
        isorep.extract(model, X, progress=stopping(35), **options)
    (tmp_path / "mine").write_bytes(b"mine" * 1000)
    path = tmp_path / ".layer.npy.extracting" / "values-0"
    path.unlink()
    path.symlink_to(tmp_path / "mine")
    with pytest.raises(isorep.InputError, match="values-0 is a link inside a folder"):
        isorep.extract(model, X, **options)
    assert (tmp_path / "mine").read_bytes() == b"mine" * 1000


def test_documents_go_on_too(gpt2, tmp_path, monkeypatch):
    from .conftest import WORDS

    monkeypatch.setattr(running, "_SHARD_TOKENS", 30)
    monkeypatch.setattr(running, "_LEAST_TOKENS", 30)
    texts = [" ".join(WORDS[: 1 + number % 14]) if number % 5 else "" for number in range(40)]
    options = {"layers": [-1, "h.0"], "pool": "token"}
    with pytest.raises(Stopped):
        isorep.extract(gpt2 / "seed0", texts, output=tmp_path, progress=stopping(20), **options)
    found = isorep.extract(gpt2 / "seed0", texts, output=tmp_path, **options)
    whole = isorep.extract(gpt2 / "seed0", texts, **options)
    assert found.resumed
    assert found.data == whole.data
    for layer in ("hidden_2", "h.0"):
        assert np.array_equal(found[layer].values[:], whole[layer].values)
        assert found[layer].ids.tolist() == whole[layer].ids.tolist()
    assert found.groups.tolist() == whole.groups.tolist()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pool": "max"}, r"other pool \(mean and not max\)"),
        ({"dtype": "float16"}, "other dtype"),
        ({"layers": "0"}, "other layers"),
        ({"data": X + 1}, "other contents"),
        ({"seed": 1}, "other weights"),
    ],
)
def test_what_belongs_to_another_run_is_refused_unless_it_is_thrown_away(model, tmp_path, change, match):
    options = {"layers": "2", "batch": 7, "output": tmp_path / "x.npy", "data": X}
    with pytest.raises(Stopped):
        isorep.extract(model, progress=stopping(35), **options)
    if change.pop("seed", None):
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    with pytest.raises(isorep.InputError, match=match):
        isorep.extract(model, **{**options, **change})
    found = isorep.extract(model, **{**options, **change}, restart=True)
    assert not found.resumed
    assert len(found[next(iter(found.layers))]) == 90


def test_a_damaged_journal_is_refused(model, tmp_path):
    options = {"batch": 7, "output": tmp_path / "x.npy"}
    with pytest.raises(Stopped):
        isorep.extract(model, X, progress=stopping(35), **options)
    journal = tmp_path / ".x.npy.extracting" / "journal.json"
    facts = json.loads(journal.read_text())
    for text, match in (
        ("{}", "not the journal"),
        ("[", "not the journal"),
        (json.dumps({**facts, "done": {**facts["done"], "rows": 80}}), "say --restart"),
    ):
        journal.write_text(text)
        with pytest.raises(isorep.InputError, match=match):
            isorep.extract(model, X, **options)


def test_a_killed_process_goes_on_in_the_next(tmp_path, monkeypatch):
    (tmp_path / "killed_nets.py").write_text(NETS)
    np.save(tmp_path / "x.npy", X)
    run = "from isorep.extraction import run as r; r._COMMIT_SECONDS = 0; import isorep.cli.main as m; m.run()"
    arguments = ["extract", "killed_nets:Slow", "x.npy", "-o", "out.parquet", "--batch", "2"]
    command = [sys.executable, "-c", run, *arguments]
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "WAIT": "1"}, stderr=subprocess.DEVNULL)
    journal = tmp_path / ".out.parquet.extracting" / "journal.json"
    until(lambda: journal.exists() and json.loads(journal.read_text())["done"]["rows"] >= 6, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = json.loads(journal.read_text())["done"]["rows"]
    assert 6 <= done < 90
    assert not (tmp_path / "out.parquet").exists()
    monkeypatch.chdir(tmp_path)
    assert isorep.extract("killed_nets:Slow", "x.npy", output="out.parquet").resumed
    found = isorep.read(tmp_path / "out.parquet")
    assert found.ids.tolist() == list(range(90))
    torch.manual_seed(0)
    layer = nn.Linear(4, 3)
    np.testing.assert_allclose(found.values, layer(torch.as_tensor(X)).detach().numpy(), atol=1e-6)


def test_two_runs_of_one_extraction_do_not_mix(model, tmp_path):
    def again(stage, done, total):
        isorep.extract(model, X, output=tmp_path / "x.npy")

    with pytest.raises(isorep.InputError, match="another run is at work"):
        isorep.extract(model, X, output=tmp_path / "x.npy", progress=again)
