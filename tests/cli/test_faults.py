"""Commands under faults: signals, full disks, missing rights, inputs that change, names with control codes."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import isorep
from isorep.storage import lazy

from ..data import noisy_pair

FAST = ("--fast", "--null", "3", "--boot", "0")
ODD = "\x1b[31mred\nverdict: forged\u202e<b>&"


@pytest.mark.parametrize(("number", "word"), [("SIGTERM", "terminated"), ("SIGINT", "interrupted")])
def test_a_signal_ends_with_one_sentence_and_without_temporary_files(tmp_path, number, word):
    rows = np.random.default_rng(0).laplace(size=(500, 4))
    np.save(tmp_path / "a.npy", rows)
    script = (
        "import signal, sys, time; from isorep.storage import text; from isorep.cli.main import run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells ignore it in what they run behind
        "def slow(path, *rest):\n"
        "    path.write_text('half'); print('writing', flush=True); time.sleep(100)\n"
        "text.save = slow\n"
        "sys.argv = ['isorep', 'ica', 'apply', *sys.argv[1:]]; run()"
    )
    model = tmp_path / "m.safetensors"
    isorep.ICA(random_state=0).fit(rows).save(model)
    files = sorted(path.name for path in tmp_path.iterdir())
    command = [sys.executable, "-c", script, str(model), str(tmp_path / "a.npy"), str(tmp_path / "out.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        assert len(list(tmp_path.iterdir())) == len(files) + 1
        process.send_signal(getattr(signal, number))
        _, err = process.communicate()
    assert process.returncode == 128 + getattr(signal, number)
    assert err == f"isorep: {word}; nothing was written\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_handlers_of_signals_are_put_back(isorep_command):
    before = signal.getsignal(signal.SIGTERM)
    isorep_command("doctor")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    "call",
    [
        ("compare", "a.npy", "pipe.npy"),
        ("compare", "a.npy", "a.npy", "--examples", "pipe.txt"),
        ("compare", "a.npy", "a.npy", "--groups", "pipe.csv"),
        ("ica", "fit", "a.npy", "-o", "model.safetensors"),  # its checkpoint is a pipe
        ("ica", "apply", "pipe.safetensors", "a.npy", "out.npy"),
        ("report", "pipe.json"),
        ("disentangle", "pipe.npz"),
        ("translate", "apply", "pipe.safetensors", "a.npy", "out.npy"),
        ("extract", "torch.nn:Identity", "pipe.jsonl", "-o", "out"),
        ("extract", "torch.nn:Identity", "a.npy", "--weights", "pipe.safetensors", "-o", "out"),
        ("extract", "pipe.onnx", "a.npy", "-o", "out"),
        ("extract", "pipe.gguf", "a.npy", "-o", "out"),
        ("decoder", "torch.nn:Identity", "a.npy", "--weights", "pipe.safetensors"),
        ("decoder", "pipe.pt", "a.npy"),
    ],
    ids=" ".join,
)
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path, monkeypatch, isorep_command, call):
    """Opening a pipe without a writer waits for ever, in native code past all signals but SIGKILL."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.random.default_rng(0).normal(size=(40, 3)))
    pipes = [word for word in call if word.startswith("pipe.")] or ["model.safetensors.checkpoint"]
    os.mkfifo(pipes[0])
    files = sorted(tmp_path.iterdir())
    done = isorep_command(*call)
    assert done.code == 2
    assert pipes[0] in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize("change", ["shorter", "other"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_input_that_changes_during_a_run_is_refused(tmp_path, monkeypatch, change, order):
    values = np.asarray(noisy_pair(200, 4, 0.1)[0], order=order)
    path = tmp_path / "a.npy"
    np.save(path, values)
    monkeypatch.setattr(lazy, "HELD_BYTES", 0)
    read = isorep.read(path)
    np.testing.assert_array_equal(read.values[20:40], values[20:40])
    if change == "shorter":
        os.truncate(path, 1000)
    else:
        time.sleep(0.02)
        with path.open("r+b") as file:
            file.seek(200)
            file.write(bytes(8))
    with pytest.raises(isorep.InputError, match=r"a\.npy: the file (became shorter|was changed) while it was read"):
        isorep.compare(read, read, n_null=0, n_boot=0)


def test_an_input_that_is_removed_or_replaced_during_a_run_is_still_read(tmp_path, monkeypatch):
    values = noisy_pair(200, 4, 0.1)[0]
    path = tmp_path / "a.npy"
    np.save(path, values)
    monkeypatch.setattr(lazy, "HELD_BYTES", 0)
    read = isorep.read(path).values
    path.unlink()
    np.testing.assert_array_equal(read[:], values)
    np.save(path, values + 1)
    np.testing.assert_array_equal(read[:], values)


@pytest.mark.parametrize(
    "command",
    ["npy", "npz", "csv", "csv.gz", "parquet", "h5", "h5ad", "zarr", "safetensors", "pt", "model", "json", "html"],
)
def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(tmp_path, command):
    values = np.random.default_rng(0).laplace(size=(4000, 16))
    np.save(tmp_path / "a.npy", values)
    before = sorted(path.name for path in tmp_path.iterdir())
    target = tmp_path / f"out.{'safetensors' if command == 'model' else command}"
    script = {
        "model": f"isorep.ICA(4).fit(isorep.read({str(tmp_path / 'a.npy')!r}).values).save({str(target)!r})",
        "json": f"isorep.files.write_text({str(target)!r}, 'x' * 10**6)",
        "html": f"isorep.files.write_text({str(target)!r}, 'x' * 10**6)",
    }.get(command, f"isorep.write(isorep.read({str(tmp_path / 'a.npy')!r}), {str(target)!r})")
    code = (
        "import isorep, isorep.files, sys\n"
        f"try:\n    {script}\n"
        "except (isorep.InputError, OSError) as error:\n    print(error); sys.exit(2)"
    )

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=small_disk)
    assert done.returncode == 2, done.stderr[-500:]
    assert target.name in done.stdout
    assert "-isorep-" not in done.stdout
    assert "a file" not in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("suffix", ["h5", "h5ad"])
def test_hdf5_ends_cleanly_wherever_in_a_file_the_disk_is_full(tmp_path, suffix):
    """HDF5 itself ends the process at some of these sizes."""
    code = (
        "import numpy as np, isorep, resource, sys\n"
        "ids = [f'a row that has a long name {row}' for row in range(400)]\n"
        "rows = isorep.Representation(np.ones((400, 8)), ids)\n"
        "for size in [*range(500, 90_000, 1500), 2**30]:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))\n"
        "    try:\n        isorep.write(rows, sys.argv[1])\n        break\n"
        "    except isorep.InputError as error:\n        print(error)\n"
    )
    target = tmp_path / f"out.{suffix}"
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.splitlines()) == {f"{target} cannot be written: File too large"}
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert isorep.read(target).shape == (400, 8)


def test_an_interrupt_while_hdf5_writes_stays_one(tmp_path, monkeypatch):
    def interrupted(self, view):
        raise KeyboardInterrupt

    monkeypatch.setattr("isorep.storage.hdf5._Sink._write_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        isorep.write(np.eye(9), tmp_path / "a.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_shard_that_has_no_room_is_named_by_where_it_will_be(isorep_command, files, monkeypatch):
    values = np.load(files / "a.npy")
    isorep.translate(values, values, maps=["linear"], n_boot=0).save(files / "m.safetensors")
    (files / "shards").mkdir()
    np.save(files / "shards" / "0.npy", values)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))
    done = isorep_command("translate", "apply", files / "m.safetensors", files / "shards", files / "out")
    out = files / "out"
    assert done.code == 2
    assert done.err.startswith(f"isorep: {out / '0.npy'} cannot be written: it takes ")
    assert done.err.endswith(f" and {out} has 0 bytes free\n")
    assert not out.exists()


def test_a_full_disk_is_named_with_the_faiss_index(tmp_path):
    faiss = pytest.importorskip("faiss")
    rows = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    index = faiss.IndexFlatL2(8)
    index.add(rows)
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    isorep.translate(rows, rows, maps=["linear"], n_boot=0).save(tmp_path / "m.safetensors")
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))"
    process = run_by(
        script, "translate", "apply", *(tmp_path / name for name in ("m.safetensors", "a.faiss", "b.faiss"))
    )
    assert process.communicate()[1] == f"isorep: {tmp_path / 'b.faiss'} cannot be written: File too large\n"
    assert process.returncode == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.faiss", "m.safetensors"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_an_extraction_that_never_committed_a_row_on_a_full_disk_leaves_nothing(tmp_path):
    from isorep.extraction.write import Journal

    journal = Journal(tmp_path / ".features.extracting", {})
    journal.open({"first": 4}, 4)
    journal._files["values-0"].close()
    journal._files["values-0"] = Path("/dev/full").open("wb")  # noqa: SIM115
    journal.append([np.ones((3, 4), np.float32)], np.arange(3), np.zeros(3))
    with pytest.raises(OSError, match="No space left") as caught:
        journal.commit()
    assert caught.value.filename == str(tmp_path / ".features.extracting" / "values-0")
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_right_is_not_called_damage(isorep_command, files, monkeypatch):
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and not str(path).endswith("b.npy"))
    done = isorep_command("compare", files / "a.npy", files / "b.npy", *FAST)
    assert done.code == 2
    assert done.err == "isorep: b.npy cannot be read: Permission denied\n"


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "a.npy", "b.npy", "--json", "locked/r.json"),
        ("similarity", "a.npy", "b.npy", "--html", "locked/r.html"),
        ("ica", "fit", "a.npy", "-o", "locked/m.safetensors"),
        ("translate", "fit", "a.npy", "b.npy", "-o", "locked/m.safetensors"),
        ("translate", "apply", "m.safetensors", "a.npy", "locked/out.zarr"),
        ("deconfound", "a.npy", "--label", "a.npy", "--batch", "b.npy", "--json", "locked/r.json"),
        ("reproduce", "words", "--json", "locked/r.json"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_folder_without_the_right_to_write_is_refused_before_any_work(isorep_command, files, monkeypatch, command):
    real = os.access
    (files / "locked").mkdir()
    if "m.safetensors" in command:
        values = np.load(files / "a.npy")
        isorep.translate(values, values, maps=["linear"], n_boot=0).save(files / "m.safetensors")
    monkeypatch.chdir(files)
    monkeypatch.setattr(os, "access", lambda path, mode, **more: real(path, mode) and "locked" not in str(path))
    done = isorep_command(*command)
    assert done.code == 2
    assert done.err == "isorep: locked cannot be written to\n"


def test_two_fits_with_one_checkpoint_at_once_give_what_one_gives(tmp_path, monkeypatch):
    from isorep.checkpoint import Checkpoint

    rows = np.random.default_rng(0).laplace(size=(400, 4))
    alone = isorep.ICA(random_state=0).fit(rows)
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    state, begun, fitted = tmp_path / "m.checkpoint", [], []

    def second(*told):
        """In the middle of the first fit, another one resumes from its checkpoint, and removes it at its end."""
        begun.append(state.exists())
        if state.exists() and not fitted:
            fitted.append(None)
            fitted.append(isorep.ICA(random_state=0).fit(rows, checkpoint=state))
            assert not state.exists()

    fitted.append(isorep.ICA(random_state=0).fit(rows, checkpoint=state, progress=second))
    assert len(fitted) == 3, "there was no second fit"
    for each in fitted[1:]:
        np.testing.assert_array_equal(each.components_, alone.components_)
    assert list(tmp_path.iterdir()) == []


def test_what_the_system_says_is_not_called_damage(files, monkeypatch):
    from isorep.storage import npy

    def too_many(file):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(npy, "read_header", too_many)
    with pytest.raises(isorep.InputError, match=r"^a\.npy cannot be read: Too many open files$"):
        isorep.read(files / "a.npy")


@pytest.mark.parametrize("command", [("compare", *FAST), ("similarity", "--permutations", "3")])
@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e160, 1e300])
def test_scales_whose_squares_leave_float64_are_refused_as_such(isorep_command, files, command, factor):
    values = np.load(files / "a.npy").astype(np.float64)
    np.save(files / "far.npy", values * factor)
    done = isorep_command(command[0], files / "far.npy", files / "b.npy", *command[1:])
    if done.code == 0:  # indices that do not depend on scale
        np.save(files / "near.npy", values)
        near = isorep_command(command[0], files / "near.npy", files / "b.npy", *command[1:])
        assert near.out.replace("near.npy", "far.npy").split() == done.out.split()
    else:
        assert done.code == 2
        assert "rescale" in done.err


@pytest.mark.parametrize("command", [("compare", *FAST), ("similarity", "--permutations", "3")])
def test_identical_rows_far_from_zero_are_not_said_to_be_tiny(isorep_command, files, command):
    np.save(files / "same.npy", np.full((200, 4), 3.5))
    done = isorep_command(command[0], files / "same.npy", files / "b.npy", *command[1:])
    assert done.code == 2
    assert "identical" in done.err
    assert "rescale" not in done.err


def odd_files(folder):
    """Two runs whose file names, array names and row ids hold control codes."""
    x, y = noisy_pair(200, 4, 0.1)
    ids = np.array([f"{ODD}{row}" for row in range(200)])
    paths = [folder / f"{side}{ODD}".replace("/", "") for side in "ab"]
    for path, values in zip(paths, (x, y), strict=True):
        np.savez(path, **{ODD: values, "ids": ids})
    return [path.with_name(f"{path.name}.npz") for path in paths]


def test_names_and_ids_with_control_codes_reach_neither_terminal_nor_page(isorep_command, tmp_path):
    a, b = odd_files(tmp_path)
    outputs = ["--json", tmp_path / "r.json", "--html", tmp_path / "r.html"]
    done = isorep_command("compare", a, b, *FAST, *outputs)
    assert done.code == 0, done.err
    written = done.out + done.err + (tmp_path / "r.html").read_text("utf-8") + (tmp_path / "r.json").read_text("utf-8")
    assert not set(written) & set("\x1b\u202e\r")
    assert "\\x1b[31mred\\nverdict: forged" in done.out
    assert not [line for line in done.out.splitlines() if line.startswith("verdict: forged")]
    assert "<b>" not in (tmp_path / "r.html").read_text("utf-8")
    page = isorep_command("report", tmp_path / "r.json", "-o", tmp_path / "again.html")
    assert page.code == 0
    assert not set((tmp_path / "again.html").read_text("utf-8")) & set("\x1b\u202e")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["source"]["name"].isprintable()


def test_errors_about_odd_names_are_one_line(isorep_command, tmp_path):
    a, b = odd_files(tmp_path)
    np.savez(tmp_path / "two.npz", **{ODD: np.eye(9), "other\n": np.eye(9)})
    for arguments in ((f"{a}::none", b), (tmp_path / "two.npz", b), (tmp_path / ODD, b), (a, tmp_path / "two.npz")):
        done = isorep_command("compare", *arguments, *FAST)
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert not set(done.err) & set("\x1b\u202e\r")


def test_a_file_name_that_is_no_text_can_be_reported(isorep_command, files):
    odd = os.fsencode(files / "a.npy").replace(b"a.npy", b"\xff.npy")
    (files / "a.npy").rename(os.fsdecode(odd))
    done = isorep_command("compare", os.fsdecode(odd), files / "b.npy", *FAST, "--html", files / "r.html")
    assert done.code == 0, done.err
    assert "\\udcff.npy" in (files / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "a.npy", "b.npy", *FAST),
        ("similarity", "a.npy", "b.npy"),
        ("ica", "fit", "a.npy", "-o", "m.safetensors"),
        ("ica", "stability", "a.npy"),
        ("structure", "a.npy", "b.npy"),
        ("deconfound", "a.npy", "--label", "a.npy", "--batch", "b.npy"),
        ("translate", "fit", "a.npy", "b.npy", "-o", "m.safetensors"),
        ("heads", "a.npy", "b.npy"),
        ("reproduce", "words"),
        ("demo",),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_one_path_for_two_outputs_is_refused_before_any_work(isorep_command, files, monkeypatch, command):
    monkeypatch.chdir(files)
    done = isorep_command(*command, "--json", "z", "--html", "./z")
    assert done.code == 2
    assert "z is named twice" in done.err
    assert not (files / "z").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "a.npy", "b.npy", *FAST, "--groups", "kept.npy"),
        ("compare", "a.npy", "b.npy", *FAST, "--within", "kept.npy"),
        ("compare", "a.npy", "b.npy", *FAST, "--examples", "kept.npy"),
        ("similarity", "a.npy", "b.npy", "--groups", "kept.npy"),
        ("similarity", "a.npy", "b.npy", "--within", "kept.npy"),
        ("dictionaries", "a.npy", "b.npy", "--frequencies", "b.npy", "--frequencies", "kept.npy::values"),
        ("blocks", "a.npy", "b.npy", "--groups", "kept.npy"),
        ("blocks", "a.npy", "b.npy", "--within", "kept.npy"),
        ("ica", "stability", "a.npy", "--groups", "kept.npy"),
        ("structure", "a.npy", "b.npy", "--groups", "kept.npy"),
        ("heads", "a.npy", "b.npy", "--bias", "kept.npy"),
        ("heads", "a.npy", "b.npy", "--other-bias", "kept.npy"),
        ("heads", "a.npy", "b.npy", "--weights", "kept.npy"),
        ("heads", "a.npy", "b.npy", "--sets", "kept.npy"),
        ("heads", "a.npy", "b.npy", "--features", "a.npy", "--groups", "kept.npy"),
        ("deconfound", "a.npy", "--label", "kept.npy", "--batch", "b.npy"),
        ("deconfound", "a.npy", "--label", "b.npy", "--batch", "b.npy,kept.npy"),
        ("deconfound", "a.npy", "--label", "b.npy", "--batch", "b.npy", "--guides", "kept.npy"),
        ("deconfound", "a.npy", "--label", "b.npy", "--batch", "b.npy", "--also-hold-out", "kept.npy"),
        ("translate", "fit", "a.npy", "b.npy", "-o", "m.safetensors", "--groups", "kept.npy"),
        ("translate", "fit", "a.npy", "b.npy", "-o", "m.safetensors", "--labels", "kept.npy"),
        ("extract", "kept.npy", "a.npy", "-o", "features"),
    ],
    ids=" ".join,
)
def test_no_file_that_an_option_names_is_overwritten(isorep_command, files, monkeypatch, command):
    monkeypatch.chdir(files)
    np.save("kept.npy", np.arange(200) // 4)
    before = Path("kept.npy").read_bytes()
    done = isorep_command(*command, "--json", "./kept.npy")
    assert (done.code, done.err) == (2, "isorep: kept.npy is an input: name another file to write\n")
    assert Path("kept.npy").read_bytes() == before


@pytest.mark.parametrize("output", ["--json", "--html"])
@pytest.mark.parametrize("command", [("decoder",), ("extract", "-o", "features")], ids=" ".join)
def test_code_that_is_named_as_a_model_is_not_overwritten(isorep_command, files, monkeypatch, command, output):
    pytest.importorskip("torch")
    monkeypatch.chdir(files)
    Path("own").mkdir()
    for path in ("made_here.py", "own/__init__.py", "own/made_there.py"):
        Path(path).write_text("import torch\n\n\ndef make():\n    return torch.nn.Identity()\n")
        model = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        done = isorep_command(command[0], f"{model}:make", "a.npy", *command[1:], output, path)
        assert (done.code, done.err) == (2, f"isorep: {path} is an input: name another file to write\n")
        assert "make" in Path(path).read_text()


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("compare", "a.npy", "b.npy", "--json", ""), "--json"),
        (("heads", "a.npy", "--html="), "--html"),
        (("ica", "fit", "a.npy", "-o", ""), "--output"),
        (("translate", "fit", "a.npy", "b.npy", "-o", ""), "--output"),
        (("extract", "torch.nn:Identity", "a.npy", "-o", ""), "--output"),
        (("disentangle", "a.npy", "--checkpoints", ""), "--checkpoints"),
        (("demo", "--save", ""), "--save"),
        (("report", ""), "RESULT..."),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_an_empty_name_is_not_the_current_folder(isorep_command, files, monkeypatch, command, named):
    monkeypatch.chdir(files)
    before = sorted(Path().iterdir())
    done = isorep_command(*command)
    assert (done.code, done.err) == (2, f"isorep: {named} is empty: name a file or folder\n")
    assert sorted(Path().iterdir()) == before


def test_names_of_written_files_take_one_line(isorep_command, files):
    done = isorep_command("heads", files / "a.npy", "--json", files / f"x{ODD}".replace("/", ""))
    assert done.code == 0
    assert "Result: " in done.out.splitlines()[-1]
    assert "\\x1b[31mred\\nverdict: forged" in done.out.splitlines()[-1]


def test_a_warning_takes_one_line_without_control_codes_and_is_said_once(files):
    script = (
        "import sys, warnings; from isorep import heads; from isorep.cli.main import run\n"
        "examine, said = heads.examine, sys.argv.pop()\n"
        "def loud(*given, **named):\n"
        "    for _ in range(3): warnings.warn_explicit(said, UserWarning, 'model.py', 8)\n"
        "    return examine(*given, **named)\n"
        "heads.examine = loud; run()"
    )
    command = [sys.executable, "-c", script, "heads", files / "a.npy", "--quiet", ODD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "warning: \\x1b[31mred\\nverdict: forged\\u202e<b>&\n"


def test_what_the_terminal_cannot_show_is_written_as_an_escape(files):
    ascii_alone = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "isorep", "similarity", files / "a.npy", files / "b.npy", "--indices", "cka"]
    done = subprocess.run(command, env=ascii_alone, capture_output=True, check=True)
    assert done.stdout.isascii()
    assert b"\\u2191 higher is closer" in done.stdout


def test_files_have_any_name_where_the_system_speaks_ascii(files):
    ascii_alone = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    name = files / "höhe.json"
    command = [sys.executable, "-m", "isorep", "heads", files / "a.npy", "--json", name, "--quiet"]
    subprocess.run(command, env=ascii_alone, check=True)
    assert json.loads(name.read_text())["schema"]


def test_a_column_of_the_name_of_an_output_is_no_file(isorep_command, tmp_path):
    lines = [f"{row % 7}.5,{row % 5},{row // 4}" for row in range(80)]
    (tmp_path / "a.csv").write_text("\n".join(["feature_0,feature_1,plate", *lines]) + "\n")
    named = (tmp_path / "a.csv", tmp_path / "a.csv", *FAST, "--groups", "plate", "--json", tmp_path / "plate")
    assert isorep_command("compare", *named).code == 0


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (("extract", "torch.nn:Identity", "a.npy", "-o", "z"), "z"),
        (("reproduce", "words", "--scale", "smoke", "--out", "z"), "z"),
        (("disentangle", "a.npy", "--checkpoints", "z"), "z"),
        (("demo", "--save", "."), "seed1.npy"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_an_output_is_apart_from_what_a_command_makes_in_a_folder(isorep_command, files, monkeypatch, command, folder):
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    done = isorep_command(*command, "--html", folder)
    assert (done.code, done.err) == (2, f"isorep: {folder} is named twice: name another file to write\n")
    assert sorted(files.iterdir()) == before


def test_a_result_does_not_replace_what_its_own_command_has_written(isorep_command, files, monkeypatch):
    monkeypatch.chdir(files)
    done = isorep_command("extract", "torch.nn:Identity", "a.npy", "-o", "z.npy", "--json", "z.ids.npy", "--quiet")
    assert done.code == 2
    assert done.err.startswith("isorep: z.ids.npy is a file that this command has just written")
    np.testing.assert_array_equal(np.load("z.ids.npy"), np.arange(200))


@pytest.mark.parametrize("kind", [">f8", ">f4", "longdouble"])
def test_numbers_that_torch_does_not_know_go_through_a_model(isorep_command, files, kind):
    np.save(files / "odd.npy", np.load(files / "a.npy").astype(kind))
    done = isorep_command("extract", "torch.nn:Identity", files / "odd.npy", "-o", files / "out.npy")
    assert done.code == 0, done.err
    np.testing.assert_array_equal(np.load(files / "out.npy"), np.load(files / "odd.npy").astype(np.float32))


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_link_to_a_place_that_is_not_there_is_refused_before_any_work(isorep_command, files, monkeypatch, option):
    monkeypatch.chdir(files)
    Path("link").symlink_to("missing/r")
    done = isorep_command("ica", "fit", "a.npy", "-o", "m.safetensors", option, "link")
    assert done.code == 2
    assert done.err.endswith("missing is not a folder, so r cannot be written there\n")
    assert not Path("m.safetensors").exists()


def run_by(script, *arguments, **options):
    """A command in a process of its own, after some lines of Python."""
    code = f"import sys\nfrom isorep.cli import main\n{script}\nsys.argv = ['isorep', *sys.argv[1:]]; main.run()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


SIGNALS = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


@pytest.mark.parametrize(("number", "word"), [("SIGTERM", "terminated"), ("SIGINT", "interrupted")])
def test_an_interrupted_command_names_what_it_has_written(files, number, word):
    script = (
        f"{SIGNALS}from isorep.results import ResultRecord\n"
        f"ResultRecord.to_html = lambda self, path: os.kill(os.getpid(), signal.{number})"
    )
    outputs = ["--json", files / "o.json", "--html", files / "o.html"]
    process = run_by(script, "compare", files / "a.npy", files / "b.npy", *FAST, "--quiet", *outputs)
    assert process.communicate()[1] == f"isorep: {word}; written before that: {files / 'o.json'}\n"
    assert process.returncode == 128 + getattr(signal, number)
    assert json.loads((files / "o.json").read_text())["schema"]


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_while_modules_are_imported_is_one_sentence_and_further_signals_are_ignored(number):
    script = (
        f"{SIGNALS}\nclass Twice:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer':\n"
        "            try:\n"
        f"                os.kill(os.getpid(), signal.{number}); os.kill(os.getpid(), signal.SIGINT)\n"
        "            finally:\n"
        "                os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Twice())"
    )
    process = run_by(script, "doctor")
    word = {"SIGTERM": "terminated", "SIGINT": "interrupted"}[number]
    assert process.communicate()[1] == f"isorep: {word}; nothing was written\n"
    assert process.returncode == 128 + getattr(signal, number)


@pytest.mark.parametrize("joined", [False, True])
def test_a_thread_that_never_ends_does_not_keep_an_interrupted_command(files, joined):
    """One that the interpreter waits for at its end, or one that an executor waits for before."""
    script = (
        f"{SIGNALS}import threading; from concurrent.futures import ThreadPoolExecutor\n"
        "main._PATIENCE = 0.1\n"
        "end = threading.Event()\n"
        "def versions(*rest):\n"
        + (
            "    with ThreadPoolExecutor(1) as crew:\n        crew.submit(end.wait)\n"
            if joined
            else "    threading.Thread(target=end.wait).start()\n    if True:\n"
        )
        + "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "from isorep.results import ResultRecord\nResultRecord.to_json = versions"
    )
    outputs = ["--json", files / "o.json"]
    process = run_by(script, "compare", files / "a.npy", files / "b.npy", *FAST, "--quiet", *outputs)
    told = process.communicate()[1]
    assert process.returncode == 143
    assert told == (
        "isorep: terminated; it did not end within 0.1 s, so temporary files may be left\n"
        if joined
        else "isorep: terminated; nothing was written\n"
    )


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize(("source", "code"), [("a.npy", 0), ("none.npy", 2)])
def test_closed_streams_change_no_exit_code(files, closed, source, code):
    def close():
        for number in closed:
            os.close(number)

    outputs = ["--json", files / "o.json"]
    command = ["compare", files / source, files / "b.npy", *FAST, *outputs]
    process = run_by("", *command, stdout=subprocess.PIPE, preexec_fn=close)
    out, err = process.communicate()
    assert process.returncode == code
    assert (files / "o.json").exists() == (code == 0)
    assert "isorep: " not in out
    assert ("none.npy does not exist" in err) == (code == 2 and 2 not in closed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize(
    ("full", "source", "code"), [("stderr", "none.npy", 2), ("stdout", "none.npy", 2), ("stdout", "a.npy", 2)]
)
def test_full_streams_do_not_pass_for_an_exceeded_limit(files, full, source, code):
    code_of_python = f"sys.{full}.flush(); os.dup2(os.open('/dev/full', os.O_WRONLY), sys.{full}.fileno())"
    process = run_by(f"import os\n{code_of_python}", "compare", files / source, files / "b.npy", *FAST)
    process.communicate()
    assert process.returncode == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_device_is_named(isorep_command, files):
    done = isorep_command("compare", files / "a.npy", files / "b.npy", *FAST, "--json", "/dev/full")
    assert (done.code, done.err) == (2, "isorep: /dev/full: No space left on device\n")
