"""The warm-up experiment: end to end through the command, resumed within a unit, its filter and its claims."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from isorep.reproduction import Run, experiment_named, reproduce, runner
from isorep.reproduction.outcomes import fit_curve, roots, spearman
from isorep.reproduction.warmup import EXPERIMENT, SCALES, Preset, Training
from isorep.reproduction.warmup_summary import Part

from ..datasets.test_mnist import write_mnist

TINY = Preset(
    leaks=(0.3, 1.0),
    digits=Training((64, 12, 6, 3), pairs=2, images=60, batch=None, epochs=10),
    mnist=None,
    samples=20,
    test_images=40,
)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Folder, page and output of ``isorep reproduce warmup --scale smoke`` with one digit of its own."""
    folder = tmp_path_factory.mktemp("warmup")
    outputs = ["--out", str(folder / "run"), "--html", str(folder / "page.html")]
    settings = {name: value for name, value in os.environ.items() if name != "ISOREP_DATA"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from isorep.cli.main import run; run()",
            "reproduce",
            "warmup",
            "--scale",
            "smoke",
            "--set=classes=0",
            *outputs,
        ],
        capture_output=True,
        text=True,
        check=False,
        env=settings,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout, json.loads((folder / "run" / "metrics.json").read_text())


def tiny(monkeypatch, tmp_path, name="run", preset=TINY, **more):
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("warmup", scale="smoke", out=tmp_path / name, **more)


def test_a_smoke_run_shows_the_published_effect(smoke):
    folder, out, found = smoke
    assert found["verdict"]["reached"] is True
    rows = {row["name"]: row["values"] for row in found["tables"][0]["rows"]}
    errors = [rows[f"leak {leak:g}"][0] for leak in SCALES["smoke"].leaks]
    assert errors[-1] < errors[0] / 2
    for row in rows.values():
        assert row[0] < row[3] / 5, "errors are far below those of shuffled images"
    constants = {row["name"]: row["values"] for row in found["tables"][1]["rows"]}
    assert constants["leak 1"][2:5] == pytest.approx([1, 1, 1], abs=1e-4)
    for words in (
        "published in appendix A.7.1",
        "11     60",
        "5    180",
        "verdict: The published effect is seen. Published: Digits of",
        "torch 2",
    ):
        assert words in out + (folder / "run" / "table.txt").read_text()
    html = (folder / "page.html").read_text()
    for name in ("error-digits", "constants-digits", "largest-digits", "reconstruction-digits", "error-digits-class"):
        assert (folder / "run" / "figures" / f"{name}.svg").exists()
        assert f"{name}-figure" in html
    assert not (folder / "run" / "state").exists()


def test_the_constants_of_a_smoke_run_obey_the_bound(smoke):
    for outcome in smoke[2]["units"].values():
        for pair in outcome["pairs"]:
            for side in pair["sides"]:
                assert 1 <= side["paper"]["max"] <= side["exact"]["max"] * 1.001
                assert side["exact"]["max"] <= outcome["bound_activations"] * 1.001 <= outcome["bound_layers"] * 1.001
                assert side["defect"] < 1e-5
            assert pair["error"]["mean"] <= pair["error"]["rms"] <= pair["error"]["sup"]
            assert not pair["bound"]["violated"]


def test_the_same_seed_gives_the_same_numbers_and_another_others(monkeypatch, tmp_path):
    first, again, other = (
        tiny(monkeypatch, tmp_path, name, random_state=seed).outcomes for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again
    assert first != other


def test_a_unit_that_is_stopped_in_its_training_goes_on_from_there(monkeypatch, tmp_path):
    preset = replace(TINY, digits=replace(TINY.digits, batch=20))
    whole = tiny(monkeypatch, tmp_path, "whole", preset)
    steps = []

    def progress(stage, done, total):
        if stage == "training":
            steps.append(done)
            if len(steps) == 5:
                raise KeyboardInterrupt

    keeping = {"checkpoint_seconds": 0.0}
    from isorep import models

    real = models.train_many
    monkeypatch.setattr(models, "train_many", lambda *given, **named: real(*given, **named | keeping))
    with pytest.raises(KeyboardInterrupt):
        tiny(monkeypatch, tmp_path, "parts", preset, progress=progress)
    assert list((tmp_path / "parts" / "state").rglob("*.safetensors"))
    steps.clear()
    parts = tiny(
        monkeypatch, tmp_path, "parts", preset, progress=lambda stage, done, total: steps.append((stage, done))
    )
    assert parts.outcomes == whole.outcomes
    assert next(done for stage, done in steps if stage == "training") > 3, "it did not begin again"
    assert not (tmp_path / "parts" / "state").exists()


def test_mnist_is_run_where_its_file_is(monkeypatch, tmp_path):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    training = Training((784, 6, 4, 2), pairs=1, images=30, batch=10, epochs=2)
    preset = replace(TINY, digits=None, mnist=training, mnist_class=replace(training, images=4), classes=(3,))
    write_mnist(tmp_path)
    plan = EXPERIMENT.plan(preset, tmp_path)
    assert [unit.key for unit in plan.units] == [
        "mnist-leak-0.3", "mnist-leak-1", "mnist-class-3-leak-0.3", "mnist-class-3-leak-1",
    ]  # fmt: skip
    assert [path.name for path in plan.files] == ["mnist.npz"]
    outcome = EXPERIMENT.run(plan.units[0], Run(preset, tmp_path, 0))
    assert (outcome["images"], outcome["test_images"], len(outcome["pairs"])) == (30, 10, 1)
    for data in (None, tmp_path / "nowhere"):
        laptop = EXPERIMENT.plan(SCALES["laptop"], data)
        assert all(unit.key.startswith("digits-") for unit in laptop.units)
        assert "MNIST was left out" in laptop.skipped[0]


def test_the_paper_scale_is_the_published_protocol():
    paper = SCALES["paper"]
    assert len(paper.leaks) * paper.mnist.pairs == 60
    assert len(paper.leaks) * paper.mnist_class.pairs * len(paper.classes) == 180
    assert (paper.mnist.epochs, paper.mnist.patience, paper.mnist.images, paper.mnist.clip_norm) == (2000, 50, None, 1)
    assert (paper.samples, paper.directions, paper.percentile) == (1000, 10, 95)


def test_curves_are_fitted_in_closed_form():
    excess = np.array([0.0, 0.1, 0.5, 2.0])
    np.testing.assert_allclose(roots(excess) ** 2, (1 + excess) ** 2 - 1)
    np.testing.assert_allclose(roots(excess, "L+L2") ** 2, excess * (1 + excess))
    x = roots(excess)
    exact = fit_curve(x, 0.3 * x)
    assert (exact.slope, exact.intercept, exact.r2) == (pytest.approx(0.3), 0, pytest.approx(1))
    line = fit_curve(x, 0.3 * x + 0.1, intercept=True)
    assert (line.slope, line.intercept, line.r2) == (pytest.approx(0.3), pytest.approx(0.1), pytest.approx(1))
    assert fit_curve(x, 0.3 * x + 0.1).r2 < 1
    assert fit_curve(np.zeros(3), np.ones(3)).r2 is None


def test_a_correlation_that_the_leak_makes_vanishes_within_leaks(rng):
    groups = [(level + 0.1 * rng.normal(size=40), level + 0.1 * rng.normal(size=40)) for level in range(5)]
    x, y = (np.concatenate(side) for side in zip(*groups, strict=True))
    assert spearman([(x, y)]).interval.low > 0.8
    within = spearman(groups).interval
    assert within.low < 0 < within.high
    assert spearman([(np.zeros(5), np.arange(5.0))]).mean is None
    assert spearman([(x[:3], y[:3])]).interval is None


def _outcomes(
    errors,
    reconstructions=None,
    leaks=(0.1, 0.5, 1.0),
    label=None,
    slope=0.01,
    above=0.0,
    violated=False,
    vacuous=False,
):
    """Pairs for each leak with these errors, and reconstruction errors where they are given."""
    found = {}
    for place, (leak, values) in enumerate(zip(leaks, errors, strict=True)):
        pairs = []
        for seat, error in enumerate(values):
            mse = reconstructions[place][seat] if reconstructions else 1.0
            size = 2.1 - leak + slope * error
            constants = {
                "max": size, "mean": size, "quantiles": [size] * 6,
                "mean_roots": {form: float(roots(np.array(size - 1), form)) for form in ("2L+L2", "L+L2")},
            }  # fmt: skip
            bound = {
                "rms": 0.1, "value": 1.0, "vacuous": vacuous, "violated": violated, "equal_outputs": 0.5,
                "equal_outputs_violated": False,
            }  # fmt: skip
            side = {"reconstruction": mse, "ended": "done", "exact": constants | {"max": 1 + above}, "paper": constants}
            means = dict.fromkeys(("mean", "rms", "sup"), error)
            pairs.append({"error": means, "held_out": means, "chance": 0.4, "bound": bound, "sides": [side] * 2})
        found[f"{label}-{leak:g}"] = {
            "set": "digits", "leak": leak, "label": label, "bound_layers": leak**-3, "bound_activations": leak**-2,
            "pairs": pairs,
        }  # fmt: skip
    return found


FALLING = [[0.2, 0.21, 0.22, 0.23], [0.1, 0.11, 0.12, 0.13], [0.001, 0.002, 0.003, 0.004]]
RISING = [[0.01, 0.02, 0.03, 0.04], [0.1, 0.11, 0.12, 0.13], [0.2, 0.21, 0.22, 0.23]]
NOISY = [[0.1, 0.2, 0.3, 0.1], [0.2] * 4, [0.02, 0.2, 0.1, 0.1]]
ONE = [[0.2], [0.1], [0.001]]
SMOKE = SCALES["smoke"]


@pytest.mark.parametrize(
    ("outcomes", "preset", "holds"),
    [
        (_outcomes(FALLING), SMOKE, [True, True, True, True, True]),
        (_outcomes(RISING, slope=-0.01), SMOKE, [False, False, True, True, False]),
        (_outcomes(NOISY, slope=0, vacuous=True), SMOKE, [None, None, True, None, None]),
        (_outcomes(ONE), SMOKE, [True, None, True, True, None]),  # too few pairs for the interval of a correlation
        (_outcomes(FALLING[:2], leaks=(0.1, 0.5)), SMOKE, [None, True, True, True, True]),  # leak 1 was not run
        (_outcomes(FALLING[2:], leaks=(1.0,)), SMOKE, [None, True, True, True, True]),  # nothing to compare it with
        (_outcomes(FALLING, above=1000.0, violated=True), SMOKE, [True, True, False, False, True]),
        (_outcomes(FALLING) | _outcomes(RISING, label=3), SMOKE, [True, True, False, True, True, True]),
        ({}, SMOKE, []),
    ],
)
def test_claims_follow_the_numbers(outcomes, preset, holds):
    summary = experiment_named("warmup").summarise(preset, outcomes)
    assert [each.holds for each in summary.claims] == holds
    assert summary.reached is (holds[0] if holds else None)


def test_the_filter_drops_what_is_above_the_percentile_of_the_reference_leak():
    left = [[0.9, 0.9, 0.9, 2.0], [0.9, 0.9, 0.9, 0.9], [1.0, 1.0, 1.0, 1.5]]
    part = Part("digits", False, SMOKE, _outcomes([[0.1] * 4] * 3, left))
    assert part.limit == pytest.approx(np.percentile([1.0] * 6 + [1.5] * 2, 95))
    assert (len(part.kept), len(part.pairs)) == (11, 12)
    loose = replace(SMOKE, reference_leak=0.1, percentile=50)
    assert len(Part("digits", False, loose, _outcomes([[0.1] * 4] * 3, left)).kept) == 7


def test_a_part_whose_pairs_are_all_dropped_decides_nothing():
    side = {"reconstruction": 1.0, "ended": "diverged"}
    outcomes = _outcomes(FALLING)
    for outcome in outcomes.values():
        for pair in outcome["pairs"]:
            pair["sides"] = [pair["sides"][0] | side] * 2
    summary = experiment_named("warmup").summarise(SMOKE, outcomes)
    assert [each.holds for each in summary.claims] == [None] * 5
    assert summary.charts == ()
