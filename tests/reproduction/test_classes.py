"""The simulation with classes: end to end through the command, resumed, and judged by claims."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.reproduction import reproduce, runner
from isorep.reproduction.classes import EXPERIMENT, SCALES, Preset, by_angle, examples, followed, taught

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
    call = ["reproduce", "classes", "--scale", "smoke", "--out", str(folder / "run")]
    call += ["--html", str(folder / "page.html")]
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
    for words in ("rises to its maximum", "taught probabilities", "published: roeder"):
        assert words in out.lower()
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
        ({"tasks": ("taut",)}, "tasks taut: choose from"),
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


PAIRS = ((0, 1), (0, 2), (1, 2))


def setting(
    task="angle",
    classes=18,
    dimension=2,
    published=True,
    curve=(0.5, 0.99),
    losses=(0.1, 0.1, 0.1),
    start=0.01,
    **measures,
):
    """A unit with three models; a measure is a number for all pairs, or one number for each."""

    def of_pairs(**named):
        found = [{"first": i, "second": j} for i, j in PAIRS]
        for place, pair in enumerate(found):
            pair |= {name: each[place] if isinstance(each, tuple) else each for name, each in named.items()}
        return found

    rungs = {"identity": -0.5, "permutation": 0.5, "rigid": 0.8, "linear": 0.98}
    usual = {
        "cca": 0.99, "least": 0.9, "cca_g": 0.99, "cca_shuffled": 0.03, "cca_g_shuffled": 0.2, "f": rungs, "g": rungs,
        "f_shuffled": -0.01, "cca_within": 0.99, "within": 0.99, "outside": None if classes > dimension else 0.3,
        "logits": 0.9, "head": 0.97,
    }  # fmt: skip
    points = [
        {"step": step, "pairs": of_pairs(f=value, g=0.9, shuffled=0.02, head=0.9, regression=0.9)}
        for step, value in zip((0, 10), curve, strict=True)
    ]
    return {
        "task": task, "classes": classes, "dimension": dimension, "start": start, "published": published, "floor": 0.0,
        "models": [{"loss": loss, "diverse": True, "condition": 2.0} for loss in losses], "curve": points,
        "pairs": of_pairs(**usual | measures),
    }  # fmt: skip


def summary(*more, **head):
    outcomes = {str(place): each for place, each in enumerate((setting(**head), *more))}
    return EXPERIMENT.summarise(replace(SCALES["laptop"], tasks=("taught",)), outcomes)


WIDE = (0.2, 0.99, 0.6)
RUNGS = {"identity": -0.5, "linear": -0.1}


@pytest.mark.parametrize(
    ("place", "holds", "fails", "undecided"),
    [
        (0, {}, {"curve": (0.5, 0.7)}, {"curve": (0.5, (0.7, 0.99, 0.99))}),
        (0, {"curve": (0.94, 0.96)}, {"curve": (0.99, 0.98)}, {"curve": (WIDE, 0.99)}),
        (0, {"curve": (0.5, (0.985, 0.995, 0.99))}, {"curve": (0.6, 0.5)}, {"curve": (None, None)}),
        (1, {}, {"f": RUNGS | {"permutation": 0, "rigid": 0}}, {"f_shuffled": None}),
        (2, {"cca_g": 0.96}, {"cca_g": 0.9}, {"cca_g": WIDE}),
    ],
)
def test_a_claim_on_the_simulation_holds_fails_or_is_undecided(place, holds, fails, undecided):
    for expected, numbers in ((True, holds), (False, fails), (None, undecided)):
        found = summary(**numbers)
        assert found.claims[place].holds is expected, str(found.claims[place])
        assert found.reached is found.claims[0].holds


@pytest.mark.parametrize(
    ("few", "enough", "holds"),
    [((0.3,), (0.9,), True), ((0.88,), (0.9,), False), ((0.2, 0.9), (0.9, 0.95), None)],
)
def test_agreement_takes_more_classes_than_dimensions_only_where_it_does(few, enough, holds):
    sweep = [setting("taught", 3 + place, 4, False, least=least) for place, least in enumerate(few)]
    sweep += [setting("taught", size, 4, False, least=least) for size, least in zip((8, 18), enough, strict=False)]
    found = summary(*sweep)
    claim = found.claims[3]
    assert "more classes than dimensions" in claim.text
    assert claim.holds is holds, str(claim)
    assert "(too few)" in next(table for table in found.tables if table.name == "classes-taught").rows[0].name
    assert len(summary(*sweep[len(few) :]).claims) == 3, "nothing is claimed where classes are enough everywhere"


@pytest.mark.parametrize(
    ("losses", "cca", "holds"),
    [
        ((0.1, 0.1, 0.9), (0.99, 0.5, 0.6), True),
        ((0.1, 0.1, 0.9), (0.99, 0.95, 0.96), False),
        ((0.1, 0.9, 0.1, 0.1), (0.99, None, 0.2), None),
    ],
)
def test_trainings_at_the_least_loss_are_set_beside_others(losses, cca, holds):
    head = setting(losses=losses, cca=cca)
    if holds is None:
        head["pairs"] = [
            {**head["pairs"][0], "first": i, "second": j, "cca": value}
            for i, j, value in ((0, 1, 0.9), (0, 2, 0.99), (0, 3, 0.5), (1, 2, 0.7), (1, 3, 0.6), (2, 3, 0.6))
        ]
    found = EXPERIMENT.summarise(SCALES["laptop"], {"a": head})
    assert found.claims[-1].text.startswith("trainings that both reach the least loss")
    assert found.claims[-1].holds is holds, str(found.claims[-1])


def test_the_least_loss_is_that_of_all_starts():
    found = summary(setting(losses=(0.5, 0.6, 0.7), start=1.0))
    rows = next(table for table in found.tables if table.name == "starts").rows
    assert [row.values[0] for row in rows] == [3, 0]
    assert [row.values[4] for row in rows] == [None, pytest.approx(0.99)], (
        "no pair, and all pairs, are not both at the least loss"
    )
    assert len(found.claims) == 3, "no start has pairs of both kinds"


def test_no_outcomes_make_no_claims():
    found = EXPERIMENT.summarise(SCALES["laptop"], {})
    assert (found.reached, found.claims, found.tables) == (None, (), ())
