"""``isorep similarity``: all indices of two files, layers, limits, and what is refused."""

import json

import numpy as np
import pytest

from ..data import rotation, sources


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    z = sources(300, 4)
    np.save(tmp_path / "a.npy", (z @ rng.normal(size=(4, 6))).astype(np.float32))
    np.save(tmp_path / "b.npy", (z @ rng.normal(size=(4, 5))).astype(np.float32))
    np.save(tmp_path / "plate.npy", np.repeat(np.arange(30), 10))
    layers = {f"layer{place}": z + place * rng.normal(size=(300, 4)) for place in range(3)}
    np.savez(tmp_path / "one.npz", **layers)
    np.savez(tmp_path / "two.npz", **{name: values @ rotation(4, 0) for name, values in layers.items()})
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        for name, values in layers.items():
            np.save(tmp_path / run / f"{name}.npy", values)
    return tmp_path


def test_two_files_give_every_index_with_its_chance(isorep_command, folder):
    done = isorep_command(
        "similarity", folder / "a.npy", folder / "b.npy", "--permutations", "30", "--groups", folder / "plate.npy",
        "--json", folder / "s.json", "--html", folder / "s.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[3].split()[:3] == ["index", "value", "chance"]
    assert [line.split()[0] for line in lines[4:18]] == [
        "cca", "svcca", "pwcca", "linear_r2", "cka", "cka_debiased", "cka_rbf", "procrustes_distance", "bures_distance",
        "mcc", "one_to_one", "soft_matching", "rsa", "mutual_knn",
    ]  # fmt: skip
    assert "14 of 14 indices find a.npy and b.npy closer than chance" in done.out
    told = json.loads((folder / "s.json").read_text())
    assert told["schema"] == "isorep.similarity/1"
    assert told["settings"] == {"permutations": 30, "groups": 30, "within": None, "random_state": 0}
    assert told["indices"]["cca"]["value"] == pytest.approx(1.0, abs=1e-5)
    assert "<html" in (folder / "s.html").read_text()


def test_chance_within_classes(isorep_command, folder):
    np.save(folder / "kind.npy", np.repeat(["a", "b", "c"], 100))
    files = ("similarity", folder / "a.npy", folder / "b.npy", "--within", folder / "kind.npy", "--permutations", 19)
    done = isorep_command(*files, "--json", folder / "w.json", "--html", folder / "w.html")
    assert (done.code, done.err) == (0, "")
    assert "closer than chance within classes" in done.out
    assert "<= 0.05" in done.out
    assert json.loads((folder / "w.json").read_text())["settings"]["within"] == 3
    page = (folder / "w.html").read_text()
    assert "of rows within 3 classes" in page
    assert "inside their class" in page
    done = isorep_command(
        "similarity", folder / "one.npz", folder / "two.npz", "--layers", "layer0", "--within", folder / "kind.npy",
        "--permutations", 19,
    )  # fmt: skip
    assert "closer than chance within classes" in done.out


def test_a_limit_on_an_index_that_cannot_tell_is_not_met(isorep_command, folder):
    rng = np.random.default_rng(0)
    for name in ("wide1", "wide2"):
        np.save(folder / f"{name}.npy", rng.normal(size=(20, 30)))
    done = isorep_command(
        "similarity", folder / "wide1.npy", folder / "wide2.npy", "--indices", "cca", "--fail-below", "cca=0.5"
    )
    assert done.code == 1
    assert "cca has no corrected value for these rows" in done.err


def test_chosen_indices_and_no_null(isorep_command, folder):
    done = isorep_command("similarity", folder / "a.npy", folder / "b.npy", "--indices", "mcc,cca", "--permutations", 0)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[4:6]] == ["cca", "mcc"]
    assert "No null was drawn" in done.out
    assert isorep_command("similarity", folder / "a.npy", folder / "b.npy", "--quiet").out == ""


def test_layer_by_layer_in_archives_and_folders(isorep_command, folder):
    names = "layer0,layer1,layer2"
    done = isorep_command(
        "similarity", folder / "one.npz", folder / "two.npz", "--layers", names, "--permutations", 20, "--json",
        folder / "l.json", "--html", folder / "l.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "The closest layers are layer" in done.out
    told = json.loads((folder / "l.json").read_text())
    assert told["index"] == "cka_debiased"
    assert np.diag(told["values"]) == pytest.approx(1.0, abs=1e-6)
    done = isorep_command(
        "similarity", folder / "one", folder / "two", "--layers", names, "--target-layers", "layer1",
        "--indices", "cca", "--permutations", 20,
    )  # fmt: skip
    assert done.code == 0
    assert "layer1  layer1" in done.out


def test_a_limit_decides_the_exit_code(isorep_command, folder):
    arguments = ("similarity", folder / "a.npy", folder / "b.npy", "--permutations", 20, "--fail-below")
    assert isorep_command(*arguments, "cca=0.9").code == 0
    failed = isorep_command(*arguments, "mcc=0.99")
    assert failed.code == 1
    assert "the corrected mcc" in failed.err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--indices", "tsne"], "choose from cca"),
        (["--fail-below", "cca"], "INDEX=VALUE"),
        (["--fail-below", "cca=0.5", "--permutations", "0"], "needs --permutations"),
        (["--fail-below", "cka=0.5", "--indices", "cca"], "is not among --indices"),
        (["--target-layers", "x"], "name those of A too"),
        (["--layers", "x,x"], "different names"),
        (["--permutations", "-3"], "permutations is -3"),
        (["--json", "{folder}/a.npy"], "is an input"),
        (["--groups", "nothing.npy"], "nothing.npy"),
        (["--within", "nothing.npy"], "nothing.npy"),
    ],
)
def test_wrong_calls_end_with_one_sentence(isorep_command, folder, more, words):
    more = [each.replace("{folder}", str(folder)) for each in more]
    done = isorep_command("similarity", folder / "a.npy", folder / "b.npy", *more)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_unequal_rows_and_missing_layers_are_refused(isorep_command, folder):
    np.save(folder / "short.npy", np.zeros((5, 2)))
    done = isorep_command("similarity", folder / "a.npy", folder / "short.npy")
    assert (done.code, done.out) == (2, "")
    assert "300 rows" in done.err
    done = isorep_command("similarity", folder / "one", folder / "two", "--layers", "layer9")
    assert done.code == 2
    assert "no file called 'layer9'" in done.err


def test_a_model_is_set_against_the_noise_ceiling_of_runs(isorep_command, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 4))
    for name, values in (
        ("model", truth),
        *((f"run{k}", truth + 0.5 * rng.normal(size=truth.shape)) for k in range(5)),
    ):
        np.save(tmp_path / f"{name}.npy", values)
    files = [tmp_path / f"{name}.npy" for name in ("model", "run0")]
    further = ",".join(str(tmp_path / f"run{k}.npy") for k in range(1, 5))
    options = ("--indices", "rsa", "--permutations", 19, "--ceiling", further)
    outputs = ("--json", tmp_path / "c.json", "--html", tmp_path / "c.html")
    done = isorep_command("similarity", *files, *options, *outputs)
    assert "The noise ceiling of 5 runs by RSA is" in done.out
    assert "; model.npy reaches it, with" in done.out
    told = json.loads((tmp_path / "c.json").read_text())["ceiling"]
    assert told["lower"] < told["model"]
    assert len(told["lower_by_run"]) == 5
    assert "Noise ceiling of RSA" in (tmp_path / "c.html").read_text()
    refused = isorep_command("similarity", *files, *options, "--join")
    assert (refused.code, "align the further runs" in refused.err) == (2, True)
