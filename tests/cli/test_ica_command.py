"""``isorep ica``: fit, apply and stability from the shell; interruptions, formats and everything that can be wrong."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import isorep
from isorep.ica.checkpoint import Checkpoint
from isorep.ica.model import model_facts
from isorep.ica.white import ArrayRows

from ..data import mixing, sources
from ..waiting import until

COMMAND = Path(sys.executable).with_name("isorep")
VALUES = (sources(800, 6) @ mixing(6, 0)).astype(np.float32)

# The command with a checkpoint before every sweep; it waits after the third one, to be killed.
WAITING = """
import signal, sys, time
from isorep.cli.main import run
from isorep.ica.checkpoint import Checkpoint
from isorep.ica.white import ArrayRows
Checkpoint.__init__.__defaults__ = (0.0,)
save, sweep, saved = Checkpoint.save, ArrayRows.sweep, []
def counted(checkpoint, kept):
    save(checkpoint, kept)
    saved.append(kept.stage)
def waiting(rows, *arguments):
    while len(saved) >= 3:
        time.sleep(60)
    return sweep(rows, *arguments)
Checkpoint.save, ArrayRows.sweep = counted, waiting
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
run()
"""


@pytest.fixture
def folder(tmp_path):
    """The same rows as npy without ids and npz with ids, and other rows."""
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "a.npz", latents=VALUES, more=VALUES[:, :2], ids=np.arange(800) + 100)
    np.save(tmp_path / "other.npy", VALUES[::-1])
    return tmp_path


@pytest.fixture
def model(folder, isorep_command):
    assert isorep_command("ica", "fit", folder / "a.npy", "-o", folder / "m.safetensors", "--quiet").code == 0
    return folder / "m.safetensors"


def one_sentence(done, *words):
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("isorep: ")
    assert done.err.count("\n") == 1, done.err
    for each in words:
        assert each in done.err
    return True


def test_a_fit_prints_what_it_found_and_writes_the_model(isorep_command, folder):
    out = folder / "m.safetensors"
    done = isorep_command("ica", "fit", f"{folder / 'a.npz'}::latents", "-o", out, "--json", folder / "m.json")
    assert (done.code, done.err) == (0, "")
    for words in ("a.npz: 800 rows x 6 columns, rank 6", "components  6", "contrast ", "converged   yes, after "):
        assert words in done.out
    assert "kurtosis" in done.out
    assert "\nica0 " in done.out
    assert "near-Gaussian: 0 of 6" in done.out
    assert f"\nModel: {out}\n" in done.out
    expected = isorep.ICA().fit(VALUES)
    np.testing.assert_array_equal(isorep.ICA.load(out).components_, expected.components_)
    result = json.loads((folder / "m.json").read_text())
    assert (result["schema"], result["rows"], result["columns"]) == ("isorep.ica/1", 800, 6)
    assert result["seconds"] > 0
    assert result["peak_memory"] > 2**20
    training = model_facts(out)["training"]
    assert (training["name"], training["rows"], len(training["fingerprint"])) == ("a.npz", 800, 64)
    assert sorted(path.name for path in folder.iterdir()) == ["a.npy", "a.npz", "m.json", "m.safetensors", "other.npy"]


def test_options_reach_the_fit_and_quiet_prints_nothing(isorep_command, folder):
    out = folder / "m.safetensors"
    options = ("--components", 3, "--contrast", "exp", "--whiten", "zca", "--tol", 1e-3, "--max-iter", 50, "--seed", 5)
    done = isorep_command("ica", "fit", folder / "a.npy", "-o", out, *options, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    ica = isorep.ICA.load(out)
    assert (ica.n_components, ica.contrast, ica.whiten, ica.tol) == (3, "exp", "zca", 1e-3)
    assert (ica.max_iter, ica.random_state) == (50, 5)
    assert ica.components_.shape == (3, 6)
    unwhitened = isorep_command("ica", "fit", folder / "a.npy", "-o", out, "--whiten", "none")
    assert unwhitened.code == 0, unwhitened.err
    assert "neither centred nor whitened" in unwhitened.out
    assert isorep.ICA.load(out).whiten is None


def test_the_report_of_a_fit_and_of_its_stability_are_pages(isorep_command, folder):
    page = folder / "p.html"
    done = isorep_command("ica", "fit", folder / "a.npy", "-o", folder / "m.safetensors", "--html", page)
    assert done.code == 0, done.err
    assert "<html" in page.read_text()
    done = isorep_command("ica", "stability", folder / "a.npy", "--restarts", 2, "--html", page)
    assert done.code == 0, done.err
    assert "<html" in page.read_text()


def test_warnings_become_notes(isorep_command, folder, rng):
    np.save(folder / "g.npy", np.column_stack([rng.laplace(size=(500, 2)), rng.normal(size=(500, 14))]))
    done = isorep_command("ica", "fit", folder / "g.npy", "-o", folder / "g.safetensors", "--max-iter", 2)
    assert (done.code, done.err) == (0, "")
    gaussian = np.flatnonzero(isorep.ICA.load(folder / "g.safetensors").gaussian_)
    named = ", ".join(f"ica{place}" for place in gaussian[:10])
    more = f" and {len(gaussian) - 10} more" if len(gaussian) > 10 else ""
    assert f"near-Gaussian: {len(gaussian)} of 16: {named}{more}\n" in done.out
    assert "converged   no" in done.out
    assert "note: " in done.out
    assert "before the contrast had converged" in done.out
    assert "indistinguishable from Gaussian" in done.out


FORMATS = ["npy", "npz", "safetensors", "pt", "csv", "tsv.gz", "parquet", "h5", "h5ad", "zarr"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_is_written_with_ids_and_comes_back(isorep_command, folder, model, suffix):
    pytest.importorskip({"pt": "torch", "parquet": "pyarrow", "zarr": "zarr"}.get(suffix, "numpy"))
    out, back = folder / f"s.{suffix}", folder / f"back.{suffix}"
    done = isorep_command("ica", "apply", model, f"{folder / 'a.npz'}::latents", out)
    assert (done.code, done.err) == (0, "")
    kept = "without" if suffix == "npy" else "with"
    assert done.out == f"wrote {out}: 800 rows x 6 columns, float32, {kept} ids\n"
    found = isorep.read(out)
    np.testing.assert_allclose(found.values[:], isorep.ICA.load(model).transform(VALUES), rtol=1e-5, atol=1e-6)
    assert isorep_command("ica", "apply", model, out, back, "--inverse", "--quiet").out == ""
    returned = isorep.read(back)
    np.testing.assert_allclose(returned.values[:], VALUES, atol=1e-5)
    if suffix != "npy":
        np.testing.assert_array_equal(returned.ids.astype(int), np.arange(800) + 100)


def test_a_folder_of_shards_is_applied_to_and_a_store_is_replaced(isorep_command, folder, model):
    (folder / "shards").mkdir()
    for place, part in enumerate(np.array_split(VALUES, 3)):
        np.save(folder / "shards" / f"{place}.npy", part)
    for _ in range(2):  # the second time over the store of the first
        assert isorep_command("ica", "apply", model, folder / "shards", folder / "s.zarr::sources").code == 0
    np.testing.assert_allclose(
        isorep.read(folder / "s.zarr").values[:], isorep.ICA.load(model).transform(VALUES), rtol=1e-5, atol=1e-6
    )
    inside = isorep_command("ica", "apply", model, folder / "shards", folder / "shards" / "3.npy")
    assert one_sentence(inside, "3.npy and the input", "lie in one another")
    around = isorep_command("ica", "apply", model, folder / "s.zarr" / "sources", folder / "s.zarr")
    assert one_sentence(around, "lie in one another")


def test_text_ids_need_a_format_that_holds_them(isorep_command, folder, model):
    np.savez(folder / "named.npz", values=VALUES, label=[f"cell {i}" for i in range(800)])
    refused = isorep_command("ica", "apply", model, folder / "named.npz", folder / "s.npy", "--ids", "label")
    assert one_sentence(refused, "cannot hold text ids such as 'cell 0'", "--drop-ids")
    arguments = ("ica", "apply", model, folder / "named.npz", folder / "s.npy", "--ids", "label", "--drop-ids")
    assert "without ids" in isorep_command(*arguments).out
    assert isorep_command("ica", "apply", model, folder / "named.npz", folder / "s.csv", "--ids", "label").code == 0
    assert isorep.read(folder / "s.csv").ids[7] == "cell 7"


def test_what_cannot_be_applied_exits_2_and_leaves_nothing(isorep_command, folder, model):
    np.save(folder / "narrow.npy", VALUES[:, :4])
    spoilt = VALUES.copy()
    spoilt[700, 3] = np.nan
    np.save(folder / "nan.npy", spoilt)
    (folder / "broken.safetensors").write_bytes(model.read_bytes()[:-9])
    a, before = folder / "a.npy", sorted(folder.iterdir())
    cases = [
        ((model, folder / "narrow.npy", folder / "s.npy"), "narrow.npy has 4 columns, and the model was fitted to 6"),
        ((model, folder / "narrow.npy", folder / "s.npy", "--inverse"), "and the model maps 6 components back"),
        ((model, folder / "nan.npy", folder / "s.csv"), "nan.npy holds 1 NaN value, the first at row 700, column 3"),
        ((model, a, a), "a.npy is an input"),
        ((model, f"{folder / 'a.npz'}::latents", f"{folder / 'a.npz'}::sources"), "a.npz is an input"),
        ((model, a, model), "m.safetensors is an input"),
        ((model, a, folder / "nowhere" / "s.npy"), "nowhere is not a folder"),
        ((model, a, folder / "s.foo"), "cannot write .foo"),
        ((model, a, folder), "cannot write no suffix"),
        ((model, folder / "absent.npy", folder / "s.npy"), "absent.npy does not exist"),
        ((folder / "absent.safetensors", a, folder / "s.npy"), "absent.safetensors does not exist"),
        ((folder / "broken.safetensors", a, folder / "s.npy"), "not a model that isorep saved"),
        ((a, a, folder / "s.npy"), "not a model that isorep saved"),
        ((model, f"{folder / 'a.npz'}::nix", folder / "s.npy"), "there is no array 'nix'"),
    ]
    for arguments, words in cases:
        assert one_sentence(isorep_command("ica", "apply", *arguments), words), arguments
        assert sorted(folder.iterdir()) == before


def test_what_cannot_be_fitted_exits_2_and_leaves_nothing(isorep_command, folder):
    spoilt = VALUES.copy()
    spoilt[7, 2] = spoilt[9, 0] = np.nan
    np.save(folder / "nan.npy", spoilt)
    np.savetxt(folder / "nan.csv", spoilt, delimiter=",", header="a,b,c,d,e,f", comments="")
    np.save(folder / "row.npy", VALUES[:1])
    np.save(folder / "constant.npy", np.ones((20, 3)))
    np.save(folder / "huge.npy", VALUES.astype(float) * 1e300)
    np.save(folder / "integers.npy", np.arange(60).reshape(20, 3))
    a, out, before = folder / "a.npy", folder / "m.safetensors", sorted(folder.iterdir())
    cases = [
        ((folder / "absent.npy",), "absent.npy does not exist"),
        ((folder / "a.npz",), "several arrays could be meant"),
        ((folder / "nan.npy",), "nan.npy holds 2 NaN values, the first at row 7, column 2"),
        ((folder / "nan.csv",), "nan.csv holds 2 NaN values, the first at row 7, column 2"),
        ((folder / "row.npy",), "row.npy has one row"),
        ((folder / "constant.npy",), "constant.npy: X has no variance"),
        ((folder / "huge.npy",), "overflow"),
        ((folder / "integers.npy",), "holds integers"),
        ((a, "--components", 7), "a.npy: n_components=7 is not between 1 and the data's numerical rank 6"),
        ((a, "--components", 0), "--components is 0"),
        ((a, "--contrast", "tanh"), "known are logcosh, exp, cube"),
        ((a, "--whiten", "unit"), "known are pca, zca, none"),
        ((a, "--tol", "nan"), "must be positive"),
        ((a, "--max-iter", 0), "must be positive"),
        ((a, "--seed", -1), "seed is -1"),
        ((a, "--json", a), "a.npy is an input"),
        ((a, "--json", out), "m.safetensors is named twice"),
        ((a, "--html", folder / "nowhere" / "p.html"), "nowhere is not a folder"),
        ((a, "--json", folder), "name"),
        ((a, "--ids", "label"), "label"),
        ((a, "--no-such-option"), "No such option"),
    ]
    for arguments, words in cases:
        assert one_sentence(isorep_command("ica", "fit", *arguments, "-o", out), words), arguments
        assert sorted(folder.iterdir()) == before
    for target, words in (
        (a, "must end in .safetensors"),
        (folder / "nowhere" / "m.safetensors", "nowhere is not a folder"),
    ):
        assert one_sentence(isorep_command("ica", "fit", a, "-o", target), words)
    assert "Missing option" in isorep_command("ica", "fit", a).err


def test_values_that_overflow_without_whitening_are_refused(isorep_command, folder):
    np.save(folder / "huge.npy", VALUES.astype(float) * 1e300)
    done = isorep_command("ica", "fit", folder / "huge.npy", "-o", folder / "m.safetensors", "--whiten", "none")
    assert one_sentence(done, "huge.npy: X holds values so large that their squares overflow")


def counted_sweeps(monkeypatch, *, most=None):
    """A list that grows with every sweep; the one after ``most`` presses Ctrl-C."""
    taken = []
    sweep = ArrayRows.sweep

    def watched(rows, *arguments):
        if most is not None and len(taken) == most:
            raise KeyboardInterrupt
        taken.append(1)
        return sweep(rows, *arguments)

    monkeypatch.setattr(ArrayRows, "sweep", watched)
    return taken


def interrupted_after(sweeps, monkeypatch, *, seconds=0.0):
    """Press Ctrl-C in a later sweep; the checkpoint is written before every one."""
    counted_sweeps(monkeypatch, most=sweeps)
    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", (seconds,))


def stop_a_fit(isorep_command, data, out, sweeps):
    with pytest.MonkeyPatch.context() as patched:
        interrupted_after(sweeps, patched)
        done = isorep_command("ica", "fit", data, "-o", out)
    assert (done.code, done.out) == (130, "")
    return done


def sweeps_at_checkpoints(isorep_command, data, out):
    """How many sweeps a whole fit had taken whenever it wrote its state; rounding decides, so machines differ."""
    kept = []
    with pytest.MonkeyPatch.context() as patched:
        taken = counted_sweeps(patched)
        save = Checkpoint.save

        def watched(checkpoint, state):
            kept.append(len(taken))
            save(checkpoint, state)

        patched.setattr(Checkpoint, "save", watched)
        patched.setattr(Checkpoint.__init__, "__defaults__", (0.0,))
        assert isorep_command("ica", "fit", data, "-o", out).code == 0
    return [sweeps for sweeps in kept if sweeps < len(taken)]


@pytest.fixture
def wide(tmp_path):
    """Enough columns for a search that projects, and a dozen sweeps or more."""
    np.save(tmp_path / "wide.npy", sources(1000, 36) @ mixing(36, 0))
    return tmp_path / "wide.npy"


def test_an_interrupted_fit_goes_on_to_the_same_model_bit_by_bit(isorep_command, wide):
    whole, out = wide.with_name("whole.safetensors"), wide.with_name("m.safetensors")
    kept = sweeps_at_checkpoints(isorep_command, wide, whole)
    stages = set()
    for sweeps in {kept[0], kept[len(kept) // 2], kept[-1]}:
        done = stop_a_fit(isorep_command, wide, out, sweeps)
        assert done.err == f"isorep: interrupted; the same command resumes from {out}.checkpoint\n"
        assert not out.exists()
        stages.add(Checkpoint(f"{out}.checkpoint", {}).load().stage)
        again = isorep_command("ica", "fit", wide, "-o", out)
        assert (again.code, again.err) == (0, "")
        assert f"note: resumed from {out}.checkpoint" in " ".join(again.out.split())
        assert out.read_bytes() == whole.read_bytes()
        assert sorted(path.name for path in wide.parent.iterdir()) == [out.name, whole.name, wide.name]
        out.unlink()
    assert len(stages) >= 2


def test_too_early_for_a_checkpoint_says_that_it_starts_again(isorep_command, folder, monkeypatch):
    interrupted_after(2, monkeypatch, seconds=60.0)
    done = isorep_command("ica", "fit", folder / "a.npy", "-o", folder / "m.safetensors")
    assert done.code == 130
    assert done.err == ("isorep: interrupted; it was too early for a checkpoint, so the same command starts again\n")
    assert not list(folder.glob("m.*"))


def test_an_interruption_says_what_is_there(isorep_command, folder, model, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("isorep.ica.whitening.AffineRows._slice", stop)
    done = isorep_command("ica", "apply", model, folder / "a.npy", folder / "s.npy")
    assert (done.code, done.out, done.err.strip()) == (130, "", "isorep: interrupted; nothing was written")
    assert not list(folder.glob("*s.npy*"))
    model.unlink()
    monkeypatch.setattr("isorep.ica.summary.Fit.of", stop)
    done = isorep_command("ica", "fit", folder / "a.npy", "-o", model)
    assert (done.code, done.out, done.err) == (130, "", f"isorep: interrupted; the model is in {model}\n")
    assert isorep.ICA.load(model).converged_


def test_the_checkpoint_of_another_fit_is_refused_until_it_is_given_up(isorep_command, wide):
    other, out = wide.with_name("other.npy"), wide.with_name("m.safetensors")
    np.save(other, np.load(wide)[::-1])
    checkpoint = Path(f"{out}.checkpoint")
    stop_a_fit(isorep_command, wide, out, sweeps_at_checkpoints(isorep_command, wide, out)[0])
    kept = checkpoint.read_bytes()
    refused = isorep_command("ica", "fit", other, "-o", out)
    assert one_sentence(refused, f"{checkpoint} is the checkpoint of other data", "--no-resume does, and starts again")
    refused = isorep_command("ica", "fit", wide, "-o", out, "--contrast", "exp")
    assert one_sentence(refused, "a fit with contrast='logcosh', not 'exp'", "--no-resume")
    assert checkpoint.read_bytes() == kept
    done = isorep_command("ica", "fit", other, "-o", out, "--no-resume")
    assert done.code == 0, done.err
    assert "resumed" not in done.out
    assert out.exists()
    assert not checkpoint.exists()


def test_a_file_that_is_no_checkpoint_is_never_removed(isorep_command, folder):
    out = folder / "m.safetensors"
    mine = Path(f"{out}.checkpoint")
    mine.write_text("my notes")
    for option in ("--resume", "--no-resume"):
        assert one_sentence(isorep_command("ica", "fit", folder / "a.npy", "-o", out, option), "is not a checkpoint")
        assert mine.read_text() == "my notes"


def waiting_fit(data, out):
    """The real process, until its first checkpoint is there."""
    running = subprocess.Popen(
        [sys.executable, "-c", WAITING, "ica", "fit", data, "-o", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(Path(f"{out}.checkpoint").exists, running)
    return running


def test_a_killed_process_goes_on_to_the_same_model_bit_by_bit(wide):
    whole, out = wide.with_name("whole.safetensors"), wide.with_name("m.safetensors")
    running = waiting_fit(wide, out)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert not out.exists()
    assert Path(f"{out}.checkpoint").exists()
    for target in (out, whole):
        done = subprocess.run([COMMAND, "ica", "fit", wide, "-o", target], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert ("resumed from" in done.stdout) == (target == out)
    assert out.read_bytes() == whole.read_bytes()
    assert not Path(f"{out}.checkpoint").exists()


def test_control_c_exits_130_with_one_sentence_and_leaves_the_checkpoint(wide):
    out = wide.with_name("m.safetensors")
    running = waiting_fit(wide, out)
    running.send_signal(signal.SIGINT)
    printed, said = running.communicate()
    assert (running.returncode, printed) == (130, "")
    assert said == f"isorep: interrupted; the same command resumes from {out}.checkpoint\n"
    assert sorted(path.name for path in wide.parent.iterdir()) == ["m.safetensors.checkpoint", "wide.npy"]


@contextmanager
def small_disk(limit):
    """A limit on the size of files stands for a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet", "zarr", "safetensors", "pt"])
def test_a_disk_that_fills_up_leaves_nothing(isorep_command, folder, model, suffix):
    before = sorted(folder.iterdir())
    with small_disk(2048):
        done = isorep_command("ica", "apply", model, folder / "a.npy", folder / f"s.{suffix}")
    assert one_sentence(done, f"s.{suffix} cannot be written")
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_ends_a_fit_with_one_sentence_and_keeps_the_older_model(isorep_command, folder, model, monkeypatch):
    older, before = model.read_bytes(), sorted(folder.iterdir())
    for seconds, what in ((60.0, "m.safetensors cannot"), (0.0, "m.safetensors.checkpoint cannot")):
        monkeypatch.setattr(Checkpoint.__init__, "__defaults__", (seconds,))
        with small_disk(1024):
            done = isorep_command("ica", "fit", folder / "other.npy", "-o", model)
        assert one_sentence(done, f"{what} be written")
        assert model.read_bytes() == older
        assert sorted(folder.iterdir()) == before


def test_what_the_disk_has_no_room_for_is_refused_before_the_work(isorep_command, folder, model, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Free())
    for suffix in ("npy", "h5", "h5ad"):
        done = isorep_command("ica", "apply", model, folder / "a.npy", folder / f"s.{suffix}")
        assert one_sentence(done, f"s.{suffix} cannot be written", "1000 bytes free")


class Free:
    free = 1000


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(isorep_command, folder, model, monkeypatch):
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    real = os.access  # root may write anywhere, so its answer is put right
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != locked and real(path, mode))
    fit = isorep_command("ica", "fit", folder / "absent.npy", "-o", locked / "m.safetensors")
    assert one_sentence(fit, "locked cannot be written to")
    applied = isorep_command("ica", "apply", folder / "absent.safetensors", folder / "a.npy", locked / "s.npy")
    assert one_sentence(applied, "locked cannot be written to")
    for option in ("--json", "--html"):
        repeated = isorep_command("ica", "stability", folder / "absent.npy", option, locked / "s")
        assert one_sentence(repeated, "locked cannot be written to")


def test_stability_prints_a_table_and_a_sentence(isorep_command, folder):
    done = isorep_command("ica", "stability", folder / "a.npy", "--restarts", 3, "--json", folder / "s.json")
    assert (done.code, done.err) == (0, "")
    result = isorep.ica.stability(isorep.read(folder / "a.npy"), 3)
    assert done.out == f"{result}\n\nResult: {folder / 's.json'}\n"
    assert result.reading in done.out
    written, computed = json.loads((folder / "s.json").read_text()), json.loads(result.to_json())
    assert dict(written["page"].pop("provenance")).items() >= dict(computed["page"].pop("provenance")).items()
    assert written == computed
    quiet = isorep_command("ica", "stability", folder / "a.npy", "--restarts", 1, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_stability_takes_groups_components_and_the_same_rows(isorep_command, folder):
    np.savez(folder / "g.npz", values=VALUES, plate=np.arange(800) // 8)
    options = ("--restarts", 2, "--components", 3, "--contrast", "cube", "--seed", 4, "--json", folder / "s.json")
    done = isorep_command("ica", "stability", f"{folder / 'g.npz'}::values", *options, "--groups", "plate")
    assert done.code == 0, done.err
    settings = json.loads((folder / "s.json").read_text())["settings"]
    assert (settings["groups"], settings["resample"], settings["n_restarts"]) == (100, True, 2)
    assert (settings["random_state"], settings["ica"]["n_components"], settings["ica"]["contrast"]) == (4, 3, "cube")
    done = isorep_command("ica", "stability", folder / "a.npy", *options, "--no-resample")
    assert json.loads((folder / "s.json").read_text())["settings"]["resample"] is False
    assert "only the starts differed" in done.out


def test_wrong_calls_of_stability_exit_2(isorep_command, folder):
    np.save(folder / "row.npy", VALUES[:1])
    np.save(folder / "nan.npy", VALUES + np.where(np.arange(6) == 2, np.nan, 0))
    np.save(folder / "groups.npy", np.arange(5))
    cases = [
        (("absent.npy",), "absent.npy does not exist"),
        (("row.npy",), "row.npy has one row"),
        (("nan.npy",), "nan.npy holds 800 NaN values"),
        (("a.npy", "--restarts", 0), "--restarts is 0"),
        (("a.npy", "--components", 9), "numerical rank 6"),
        (("a.npy", "--contrast", "x"), "known are logcosh, exp, cube"),
        (("a.npy", "--groups", "plate"), "plate"),
        (("a.npy", "--groups", folder / "groups.npy"), "a.npy"),
        (("a.npy", "--json", folder / "a.npy"), "is an input"),
        (("a.npy", "--html", folder / "nowhere" / "p.html"), "nowhere is not a folder"),
    ]
    for (name, *options), words in cases:
        assert one_sentence(isorep_command("ica", "stability", folder / name, *options), words), options


def test_the_bar_is_drawn_on_a_terminal_and_the_table_stays_on_stdout(wide):
    main, terminal = pty.openpty()
    code = WAITING.replace("while len(saved) >= 3:", "if saved:").replace("sleep(60)", "sleep(0.03)")
    arguments = [sys.executable, "-c", code, "ica", "fit", wide, "-o", wide.with_name("m.safetensors")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140"}
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=True)
    os.close(terminal)
    drawn = b""
    try:
        while chunk := os.read(main, 65536):
            drawn += chunk
    except OSError:  # Linux reports the closed other end of a pseudo-terminal as an error
        os.close(main)
    for words in (b"rotation", b"sweeps, contrast", b" left ", b"MiB of memory"):
        assert words in drawn
    assert b"converged   yes" in done.stdout
    assert b"\x1b" not in done.stdout


def test_help_of_the_group_and_of_every_command(isorep_command):
    for arguments in (["ica"], ["ica", "fit"], ["ica", "apply"], ["ica", "stability"]):
        done = isorep_command(*arguments, "--help")
        assert done.code == 0
        assert f"isorep {' '.join(arguments)} [OPTIONS]" in done.out
    bare = isorep_command("ica")
    assert (bare.code, bare.out) == (2, "")
    assert bare.err.startswith("Usage: ")


def test_columns_that_hardly_vary_are_named_and_count_when_standardised(folder, isorep_command):
    values = np.array(VALUES)
    values[:, 2] *= 1e-7
    np.save(folder / "dead.npy", values)
    for options, rank, left_out in (((), 5, [2]), (("--standardise",), 6, [])):
        out = ("-o", folder / "m.safetensors", "--json", folder / "m.json")
        done = isorep_command("ica", "fit", folder / "dead.npy", *out, *options)
        assert done.code == 0
        assert done.out.count("1 column of dead.npy hardly varies") == len(left_out)
        told = json.loads((folder / "m.json").read_text())
        assert (told["rank"], told["left_out"]["columns"]) == (rank, left_out)
        assert told["settings"]["standardise"] is bool(options)
        done = isorep_command("ica", "stability", folder / "dead.npy", "--restarts", "2", *options)
        assert done.code == 0
        assert done.out.count("1 column of dead.npy hardly varies") == len(left_out)


def test_applying_keeps_everything_else_of_an_annotated_file(tmp_path, isorep_command):
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    obs = pandas.DataFrame(
        {"plate": pandas.Categorical(["a", "b", None, "a"] * 200), "dose": np.linspace(0, 1, 800)},
        index=[f"w{row}" for row in range(800)],
    )
    given = anndata.AnnData(VALUES, obs=obs, var=pandas.DataFrame({"stain": list("uvwxyz")}, index=list("ABCDEF")))
    given.obsm["X_pca"], given.uns["note"], given.layers["twice"] = VALUES[:, :2], "kept", 2 * VALUES
    given.write_h5ad(tmp_path / "in.h5ad")
    model = tmp_path / "m.safetensors"
    assert isorep_command("ica", "fit", f"{tmp_path / 'in.h5ad'}::layers/twice", "-o", model, "--quiet").code == 0
    assert model_facts(model)["names"] == list("ABCDEF")
    done = isorep_command("ica", "apply", model, tmp_path / "in.h5ad", tmp_path / "out.h5ad")
    assert "in obsm['X_isorep_ica'] of a copy of in.h5ad" in " ".join(done.out.split())
    found = anndata.read_h5ad(tmp_path / "out.h5ad")
    ica = isorep.ICA.load(model)
    np.testing.assert_allclose(found.obsm["X_isorep_ica"], ica.transform(isorep.Representation(2 * VALUES)), rtol=1e-5)
    np.testing.assert_array_equal(found.varm["isorep_ica"], ica.mixing_)
    pandas.testing.assert_frame_equal(found.obs, given.obs)
    pandas.testing.assert_frame_equal(found.var, given.var)
    np.testing.assert_array_equal(found.obsm["X_pca"], VALUES[:, :2])
    assert found.uns["note"] == "kept"
    assert isorep_command("ica", "apply", model, tmp_path / "in.h5ad", f"{tmp_path / 'named.h5ad'}::X_mine").code == 0
    assert "X_mine" in anndata.read_h5ad(tmp_path / "named.h5ad").obsm
    # the components are back where they came from, and the next command reads the data and not them
    back = isorep_command(
        "ica", "apply", model, f"{tmp_path / 'out.h5ad'}::X_isorep_ica", tmp_path / "b.h5ad", "--inverse"
    )
    assert back.code == 0
    np.testing.assert_allclose(anndata.read_h5ad(tmp_path / "b.h5ad").obsm["X_isorep"], 2 * VALUES, atol=1e-4)
    np.testing.assert_array_equal(isorep.read(tmp_path / "out.h5ad").values[:], VALUES)
    assert isorep_command("ica", "apply", model, tmp_path / "in.h5ad", tmp_path / "out.csv").code == 0
    table = pandas.read_csv(tmp_path / "out.csv")
    assert list(table.columns[:3]) == ["id", "plate", "dose"]
    np.testing.assert_allclose(table["dose"], obs["dose"])
    assert table["plate"].isna().sum() == 200


@pytest.mark.parametrize("source", ["parquet", "csv"])
@pytest.mark.parametrize("target", ["parquet", "csv", "tsv.gz", "zarr", "h5ad"])
def test_applying_keeps_the_other_columns_of_a_table(tmp_path, isorep_command, source, target):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(VALUES, columns=list("ABCDEF"))
    table.insert(0, "id", [f"w{row}" for row in range(800)])
    table.insert(3, "Metadata_dose", np.arange(800))
    table["plate"] = ["a", None] * 400
    table.to_parquet(tmp_path / "in.parquet", index=False)
    table.to_csv(tmp_path / "in.csv", index=False)
    model, out = tmp_path / "m.safetensors", tmp_path / f"out.{target}"
    assert isorep_command("ica", "fit", tmp_path / f"in.{source}", "-o", model, "--quiet").code == 0
    done = isorep_command("ica", "apply", model, tmp_path / f"in.{source}", out)
    assert "with ids, 2 other columns kept" in " ".join(done.out.split())
    assert isorep.storage.column(out, "Metadata_dose").tolist() == list(range(800))
    assert isorep.storage.column(out, "plate", missing=True).tolist() == ["a", ""] * 400
    found = isorep.read(out)
    assert found.shape == (800, 6)
    assert found.ids.tolist() == table["id"].tolist()
    bare = isorep_command("ica", "apply", model, tmp_path / f"in.{source}", tmp_path / "out.npz")
    assert f"left out 2 other columns of in.{source}" in " ".join(bare.out.split())
    swapped = table[[*table.columns[::-1]]]
    swapped.to_parquet(tmp_path / "swapped.parquet", index=False)
    refused = isorep_command("ica", "apply", model, tmp_path / "swapped.parquet", out)
    assert one_sentence(refused, "features of swapped.parquet have another order: column 0 is 'F' and was 'A'")
