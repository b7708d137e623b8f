"""``isorep structure``: from two files to scores, verdict, JSON and page; and what can be wrong with the call."""

import json

import numpy as np
import pandas as pd
import pytest

from ..structure.worlds import rooms

FAST = ("--scores", "infomec,mcc", "--no-ladder", "--null", 39, "--resamples", 3)


@pytest.fixture
def files(tmp_path):
    factors, latents = rooms(200)
    frame = pd.DataFrame(factors)
    frame.insert(0, "id", np.arange(200))
    frame.to_csv(tmp_path / "factors.csv", index=False)
    np.savez(tmp_path / "latents.npz", values=latents, ids=np.arange(200), plate=np.arange(200) // 10)
    return tmp_path


def test_from_two_files_to_scores_verdict_json_and_page(isorep_command, files):
    done = isorep_command(
        "structure", files / "latents.npz::values", files / "factors.csv", *FAST, "--groups", "plate",
        "--json", files / "r.json", "--html", files / "r.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    for words in (
        "latents  latents.npz: 200 rows, 4 continuous",
        "factors  factors.csv: 200 rows, 3 discrete, 1 continuous",
        "Scores against shuffled rows; higher is better, 1 is best",
        "Scores of whitened latents against random axes; higher is better, 1 is best",
        "infom",
        "mcc_held_out",
        "verdict: All 4 factors have a latent of their own (shape z0, lit z1, size z2, hue z3).",
    ):
        assert words in done.out
    found = json.loads((files / "r.json").read_text())
    assert found["schema"] == "isorep.structure/2"
    assert found["settings"]["groups"] == 20
    assert "Which latent knows which factor" in (files / "r.html").read_text()
    again = isorep_command("report", files / "r.json", "-o", files / "again.html")
    assert again.code == 0, again.err


def test_kinds_slots_columns_and_limits_can_be_named(isorep_command, files):
    done = isorep_command(
        "structure", files / "latents.npz::values", f"{files / 'factors.csv'}::hue,size", "--scores", "slots,mig,mcc",
        "--factors-discrete", "none", "--latents-discrete", "none", "--slots", "2,1,1", "--factor-slots", 1,
        "--no-ladder", "--null", 0, "--resamples", 0, "--seed", 3, "--quiet", "--json", files / "r.json",
        "--fail-below", "mcc=0.5,sis=-1",
    )  # fmt: skip
    assert (done.code, done.out, done.err) == (0, "", "")
    found = json.loads((files / "r.json").read_text())
    assert [column["discrete"] for column in found["columns"]["factors"]] == [False, False]
    assert found["settings"]["random_state"] == 3
    assert len(found["records"]["slots"]["matches"]) == 2


def test_a_score_below_its_limit_exits_with_one(isorep_command, files):
    done = isorep_command(
        "structure",
        files / "latents.npz::values",
        files / "factors.csv",
        *FAST,
        "--fail-below",
        "mcc=1,infom=-1,infoe=1",
    )
    assert done.code == 1
    assert [line.split(",")[0] for line in done.err.splitlines()] == ["isorep: mcc", "isorep: infoe"]
    assert "mcc, 0.9" in done.err
    assert done.err.count("is below the limit 1") == 2
    assert "verdict" in done.out


def test_swapped_files_are_refused(isorep_command, files):
    done = isorep_command("structure", files / "factors.csv", files / "latents.npz::values", *FAST)
    assert done.code == 2
    assert "factors.csv holds text ('shape') and all 4 factors (latents.npz) are continuous" in done.err


def test_swapped_files_are_hinted_at(isorep_command, files):
    pd.read_csv(files / "factors.csv").select_dtypes("number").to_csv(files / "numbers.csv", index=False)
    done = isorep_command("structure", files / "numbers.csv", files / "latents.npz::values", *FAST)
    assert done.code == 0
    assert "make sure that factors and latents are not swapped" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scores", "beta"], "scores beta: choose from infomec"),
        (["--scores", ","], "--scores takes names"),
        (["--fail-below", "mcc"], "--fail-below takes SCORE=VALUE"),
        (["--fail-below", "mcc=2"], "a value of at most 1"),
        (["--scores", "mig", "--fail-below", "mcc=0.5"], "whose family mcc is not among --scores"),
        (["--slots", "x"], "--slots takes a number of columns"),
        (["--factors-discrete", "color"], "there is no column 'color' in factors.csv"),
        (["--groups", "well"], "there is no array 'well'"),
        (["--json", "nowhere/r.json"], "is not a folder"),
    ],
)
def test_wrong_calls_end_with_one_sentence(isorep_command, files, options, words):
    done = isorep_command("structure", files / "latents.npz::values", files / "factors.csv", *options)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_files_that_do_not_fit_are_refused(isorep_command, files):
    np.save(files / "short.npy", np.zeros((3, 2)))
    done = isorep_command("structure", files / "short.npy", files / "factors.csv")
    assert done.code == 2
    assert "short.npy has 3 rows and factors.csv has 200, with no ids to join by" in done.err
    done = isorep_command("structure", files / "factors.csv::shape", files / "latents.npz::values")
    assert done.code == 2
    missing = isorep_command("structure", files / "none.npy", files / "factors.csv")
    assert (missing.code, "does not exist" in missing.err) == (2, True)
