"""The simulation with classes: end to end through the command, resumed, and read by rule."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.reproduction import experiment_named, reproduce, runner
from isorep.reproduction.classes import EXPERIMENT, SCALES, Preset, by_angle, examples, followed, taught
from isorep.reproduction.classes_summary import Setting

pytest.importorskip("torch")

TINY = Preset(
    seeds=2,
    steps=40,
    starts=(0.01,),
    tasks=("taught",),
    sweep_classes=(2,),
    sweep_dimensions=(),
    fixed_dimension=3,
    sweep_seeds=2,
    sweep_steps=20,
    rows=300,
    test_rows=100,
    curve_rows=50,
    hidden=(16,),
    batch=64,
)
SHORT = ("sweep_classes=3", "sweep_dimensions=2", "steps=200", "sweep_steps=200", "rows=2000", "hidden=32,32")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Folder, output and result of a shortened ``isorep reproduce classes --scale smoke``."""
    folder = tmp_path_factory.mktemp("classes")
    call = [
        "reproduce",
        "classes",
        "--scale",
        "smoke",
        "--out",
        str(folder / "run"),
        "--html",
        str(folder / "page.html"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", "from isorep.cli.main import run; run()", *call, *(f"--set={each}" for each in SHORT)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout, json.loads((folder / "run" / "metrics.json").read_text())


def tiny(monkeypatch, folder, preset=TINY, **more):
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("classes", scale="smoke", out=folder, **more)


def test_a_smoke_run_shows_that_trainings_come_together(smoke):
    folder, out, found = smoke
    head = found["units"]["angle-classes-18-dimension-2-start-0.01"]
    first, last = (np.mean([pair["f"] for pair in head["curve"][place]["pairs"]]) for place in (0, -1))
    assert last > first + 0.1
    assert np.mean([pair["cca_shuffled"] for pair in head["pairs"]]) < 0.2
    for words in ("verdict: 18 classes in 2 dimensions", "rises from", "taught probabilities", "published: Roeder"):
        assert words in out or words in out.lower()
    html = (folder / "page.html").read_text()
    for name in ("training", "cloud-first", "cloud-mapped", "classes-taught"):
        assert (folder / "run" / "figures" / f"{name}.svg").exists()
        assert f"{name}-figure" in html


def test_what_the_head_does_not_read_is_measured_where_classes_are_too_few(smoke):
    units = smoke[2]["units"]
    few, enough = units["taught-classes-3-dimension-4"], units["taught-classes-6-dimension-2"]
    assert {model["rank"] for model in few["models"]} == {2}
    assert not any(model["diverse"] for model in few["models"])
    assert all(model["diverse"] for model in enough["models"])
    for pair in few["pairs"]:
        assert pair["within"] > pair["outside"]
        assert pair["g"] is None, "three classes are too few to fit and to hold out"
    for pair in enough["pairs"]:
        assert pair["outside"] is None
        assert pair["within"] == pytest.approx(pair["f"]["linear"], abs=1e-4), "the head reads all of f"


def test_finished_units_are_not_done_again_and_numbers_are_the_same(monkeypatch, tmp_path):
    whole = tiny(monkeypatch, tmp_path / "whole")
    done = []

    def progress(stage, place, total):
        if stage == "experiment":
            done.append(place)
            if place == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny(monkeypatch, tmp_path / "parts", progress=progress)
    parts = tiny(monkeypatch, tmp_path / "parts")
    assert (parts.timing.resumed, parts.outcomes) == (1, whole.outcomes)
    assert tiny(monkeypatch, tmp_path / "other", random_state=1).outcomes != whole.outcomes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("taut",)}, "no task 'taut'"),
        ({"starts": ()}, "at least one"),
        ({"seeds": 1}, "at least 2"),
        ({"sweep_classes": (1,)}, "at least 2 classes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(isorep.InputError, match=message):
        EXPERIMENT.plan(replace(TINY, **changes), None)


def test_classes_are_sectors_of_equal_angle():
    turns = (np.arange(18) + 0.5) / 18 * 2 * np.pi
    points = 7 * np.column_stack([np.cos(turns), np.sin(turns)])
    np.testing.assert_array_equal(by_angle(points, 18), np.eye(18))
    np.testing.assert_array_equal(by_angle(points, 2).sum(0), [9, 9])
    assert by_angle(np.array([[1.0, -1e-300]]), 18).sum() == 1, "the last angle belongs to a class, too"


def test_a_teacher_keeps_its_odds_when_classes_are_added(rng):
    inputs = rng.normal(size=(50, 2))
    few, more = taught(inputs, 4, 3, 0), taught(inputs, 7, 3, 0)
    np.testing.assert_allclose(few.sum(1), 1)
    np.testing.assert_allclose(np.log(few[:, 1:] / few[:, :1]), np.log(more[:, 1:4] / more[:, :1]), rtol=1e-8)


def test_a_teacher_has_log_odds_of_no_more_dimensions_than_it_is_given():
    found = examples("taught", 9, 3, replace(TINY, rows=200), 0)
    log = np.log(found.wanted.astype(np.float64))
    sizes = np.linalg.svd(log - log.mean(1, keepdims=True), compute_uv=False)
    assert sizes[2] > 1e-2 * sizes[0] > 1e3 * sizes[4]
    assert found.floor > 0.1
    assert examples("angle", 9, 3, TINY, 0).floor == 0


def test_training_is_followed_from_before_it_to_its_end():
    assert [step for step in range(41) if followed(step, 40)] == [0, 1, 2, 3, 5, 7, 10, 20, 30, 40]
    assert [step for step in range(100, 900) if followed(step, 850)] == [100, 200, 300, 500, 700, 850]


def _setting(
    task="angle", classes=18, dimension=2, published=True, curve=(0.5, 0.99), least=0.9, losses=(0.1, 0.1, 0.1)
):
    """A unit with three models whose pairs all have these numbers."""
    places = [(0, 1), (0, 2), (1, 2)]
    rungs = {"identity": -0.5, "permutation": 0.5, "rigid": 0.8, "linear": 0.98}
    pair = {
        "cca": curve[-1], "least": least, "cca_g": 0.9, "cca_shuffled": 0.03, "cca_g_shuffled": 0.2, "f": rungs,
        "g": rungs, "f_shuffled": -0.01, "cca_within": 0.99, "within": 0.99,
        "outside": None if classes > dimension else 0.3, "logits": 0.9, "head": 0.97,
    }  # fmt: skip
    models = [
        {"seed": 0, "loss": loss, "accuracy": 0.9, "ended": "done", "rank": 2, "diverse": True, "condition": 2.0}
        for loss in losses
    ]
    points = [
        {
            "step": step,
            "pairs": [
                {"first": i, "second": j, "f": value, "g": value, "shuffled": 0.02, "head": value, "regression": value}
                for i, j in places
            ],
        }
        for step, value in zip((0, 10), curve, strict=True)
    ]
    return {
        "task": task, "classes": classes, "dimension": dimension, "start": 0.01, "published": published, "floor": 0.0,
        "together": True, "models": models, "curve": points,
        "pairs": [{"first": i, "second": j} | pair for i, j in places],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("curve", "reached", "words"),
    [
        ((0.5, 0.99), True, "rises from 0.500 before training to 0.990"),
        ((0.5, 0.7), None, "below 0.95"),
        ((0.99, 0.98), None, "does not rise"),
        ((0.6, 0.5), False, "does not rise"),
    ],
)
def test_the_verdict_follows_the_numbers(curve, reached, words):
    summary = experiment_named("classes").summarise(SCALES["laptop"], {"a": _setting(curve=curve)})
    assert summary.reached is reached
    assert words in summary.verdict
    assert "nothing" in summary.verdict, "a rung below zero explains nothing"


@pytest.mark.parametrize(("few", "words"), [(0.3, "agreement breaks"), (0.88, "not seen to break")])
def test_too_few_classes_are_said_to_break_agreement_only_where_they_do(few, words):
    preset = replace(SCALES["laptop"], tasks=("taught",))
    outcomes = {
        "a": _setting(),
        "b": _setting("taught", 3, 4, False, least=few),
        "c": _setting("taught", 8, 4, False, least=0.9),
    }
    summary = experiment_named("classes").summarise(preset, outcomes)
    assert words in summary.verdict
    assert "0.30 outside of it" in summary.verdict
    assert "(too few)" in next(table for table in summary.tables if table.name == "classes-taught").rows[0].name


def test_poor_optima_are_told_from_the_family_of_models():
    found = _setting(losses=(0.1, 0.1, 0.9))
    for pair, value in zip(found["pairs"], (0.99, 0.5, 0.6), strict=True):
        pair["cca"] = value
    setting = Setting(found)
    assert setting.reached == [True, True, False]
    assert setting.mean("cca", optimum=True)[0] == pytest.approx(0.99)
    assert setting.mean("cca", optimum=False)[0] == pytest.approx(0.55)
    summary = experiment_named("classes").summarise(SCALES["laptop"], {"a": found})
    assert any("2 of 3 trainings" in each and "poor optima" in each for each in summary.findings)


def test_the_least_loss_is_that_of_all_starts():
    large = _setting(losses=(0.5, 0.6, 0.7)) | {"start": 1.0}
    summary = experiment_named("classes").summarise(SCALES["laptop"], {"a": _setting(), "b": large})
    assert any("spread 1, 0 of 3 trainings" in each for each in summary.findings)
    rows = next(table for table in summary.tables if table.name == "starts").rows
    assert [row.values[0] for row in rows] == [3, 0]
