"""The slots experiment: end to end through the command, resumed within a unit, measures and claims."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.datasets import slot_generator  # noqa: E402
from isorep.models import SlotAutoencoder  # noqa: E402
from isorep.reproduction import experiment_named, reproduce, runner  # noqa: E402
from isorep.reproduction.slots import (  # noqa: E402
    CONDITIONS,
    EXPERIMENT,
    SCALES,
    Preset,
    ceiling,
    examples,
    grouped_sis,
    loss_of,
    own_share,
    parsed,
    plan,
)
from isorep.reproduction.slots_summary import least_loss, over_seeds  # noqa: E402

TINY = Preset(
    slots=(2,),
    overlaps=(0,),
    strengths=(1.0,),
    unit_strengths=(),
    laws=("normal",),
    additive_overlaps=(),
    beyond=("warm@1",),
    beyond_overlaps=(0,),
    seeds=2,
    dimension=2,
    window=6,
    rows=80,
    test_rows=60,
    steps=6,
    batch=20,
)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Folder, output and metrics of ``isorep reproduce slots --scale smoke``."""
    folder = tmp_path_factory.mktemp("slots")
    call = ["reproduce", "slots", "--scale", "smoke", "--out", str(folder / "run"), "--html", str(folder / "page.html")]
    done = subprocess.run(
        [sys.executable, "-c", "from isorep.cli.main import run; run()", *call],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout, json.loads((folder / "run" / "metrics.json").read_text())


def tiny(monkeypatch, tmp_path, name="run", preset=TINY, **more):
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("slots", scale="smoke", out=tmp_path / name, **more)


def test_a_smoke_run_goes_from_the_command_to_tables_figures_and_page(smoke):
    folder, out, found = smoke
    told = out + (folder / "run" / "table.txt").read_text()
    for words in ("SIS by overlap", "AE + ICA", "Past the paper", "verdict: ", "at unit spread, regrouped", "torch 2"):
        assert words in told
    html = (folder / "page.html").read_text()
    for name in ("sis-2", "laws-2-0", "beyond-2-8"):
        assert (folder / "run" / "figures" / f"{name}.svg").exists()
        assert f"{name}-figure" in html
    assert (folder / "run" / "figures" / "trace-2-1.svg").exists()
    assert "SIS during training" in told
    assert "whisker" in (folder / "run" / "figures" / "sis-2.svg").read_text(), "means have error bars"
    assert not (folder / "run" / "state").exists()
    assert len(found["claims"]) == 6
    assert found["verdict"]["reached"] is found["claims"][0]["holds"] is False, "45 steps find no slots"


def test_the_outcomes_of_a_smoke_run_are_consistent(smoke):
    for key, outcome in smoke[2]["units"].items():
        assert outcome["together"], "all seeds of a setting are one program"
        assert outcome["truth"]["type_d"] == (outcome["overlap"] == 0)
        for run in outcome["runs"]:
            assert run["sis"] == pytest.approx(run["on"] - run["off"], abs=1e-4)
            assert run["sis"] <= outcome["ceiling"] + 0.05
            assert 0.5 <= run["own"] <= 1
            assert ("ica" in run) == (outcome["condition"] == "plain"), key
    table = {row["name"]: row["values"] for row in smoke[2]["tables"][0]["rows"]}
    plain = smoke[2]["units"]["normal-slots-2-overlap-0-plain"]
    assert table["2 slots, λ = 0"][0] == pytest.approx(np.mean([run["sis"] for run in plain["runs"]]), abs=1e-4)
    latents = {
        name: np.mean([run["size"] for run in smoke[2]["units"][f"normal-slots-2-overlap-0-{name}"]["runs"]])
        for name in ("plain", "contrast-1", "unit-0.003")
    }
    assert latents["contrast-1"] > 2 * latents["plain"], "the contrast is evaded by larger latents"
    assert latents["unit-0.003"] < 2 * latents["plain"]


def test_the_same_seed_gives_the_same_numbers_and_another_others(monkeypatch, tmp_path):
    first, again, other = (
        tiny(monkeypatch, tmp_path, name, random_state=seed).outcomes for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again
    assert first != other


def test_sis_is_followed_through_all_stages_and_ends_where_it_is_reported(monkeypatch, tmp_path):
    found = tiny(monkeypatch, tmp_path, preset=replace(TINY, traced=3))
    for key, outcome in found.outcomes.items():
        for run in outcome["runs"]:
            assert [each["step"] for each in run["trace"]] == [2, 4, 6], key
            assert run["trace"][-1]["sis"] == pytest.approx(run["sis"])
    rows = {row.name: row.values for table in found.summary.tables if table.name == "traces" for row in table.rows}
    contrast = found.outcomes["normal-slots-2-overlap-0-contrast-1"]["runs"]
    values = rows["2 slots, 0%, normal latents: contrast, λ = 1"]
    assert values[0] == pytest.approx(np.mean([run["sis"] for run in contrast]))
    assert values[2] == pytest.approx(np.mean([run["trace"][1]["sis"] for run in contrast]))
    assert values[3] == pytest.approx(max(abs(run["sis"] - run["trace"][1]["sis"]) for run in contrast))
    untraced = tiny(monkeypatch, tmp_path, "untraced", preset=replace(TINY, traced=0))
    assert not any(table.name == "traces" for table in untraced.summary.tables)


def test_a_unit_that_is_stopped_in_its_second_stage_goes_on_from_there(monkeypatch, tmp_path):
    whole = tiny(monkeypatch, tmp_path, "whole")
    seen = []

    def progress(stage, done, total):
        if stage == "training":
            seen.append((done, total))
            if (done, total) == (2, 4):
                raise KeyboardInterrupt

    from isorep import models

    real = models.train_many
    monkeypatch.setattr(models, "train_many", lambda *given, **named: real(*given, **named | {"checkpoint_seconds": 0}))
    with pytest.raises(KeyboardInterrupt):
        tiny(monkeypatch, tmp_path, "parts", progress=progress)
    assert len(list((tmp_path / "parts" / "state").rglob("*.safetensors"))) == 2
    seen.clear()
    parts = tiny(monkeypatch, tmp_path, "parts", progress=lambda *told: seen.append(told))
    assert parts.outcomes == whole.outcomes
    assert next(told[1] for told in seen if told[0] == "training") > 1, "neither stage began again"


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_every_condition_has_a_loss_that_torch_differentiates(name):
    condition = CONDITIONS[name]
    activation = "smooth" if condition.smooth else "leaky_relu"
    network = SlotAutoencoder(7, (2, 2), hidden=(5,), additive=condition.additive, activation=activation)
    found = loss_of(condition.loss, 0.1, network.blocks)(network, torch.randn(6, 7))
    if condition.loss:
        torch.testing.assert_close(found["loss"], found["reconstruction"] + 0.1 * found["penalty"])
        found = found["loss"]
    found.backward()
    assert all(torch.isfinite(each.grad).all() for each in network.parameters() if each.grad is not None)
    assert sum(share for share, _ in condition.stages) == pytest.approx(1)


def test_larger_latents_shrink_the_contrast_and_not_the_one_at_unit_spread():
    network = SlotAutoencoder(7, (2, 2), hidden=(5,))
    batch = torch.randn(30, 7)
    before = {kind: loss_of(kind, 1.0, network.blocks)(network, batch)["penalty"] for kind in ("contrast", "unit")}
    with torch.no_grad():  # the same autoencoder, with latents ten times as large
        for value in (network.encoder.linear[-1].weight, network.encoder.linear[-1].bias):
            value *= 10
        network.decoder.linear[0].weight /= 10
    after = {kind: loss_of(kind, 1.0, network.blocks)(network, batch)["penalty"] for kind in ("contrast", "unit")}
    torch.testing.assert_close(after["contrast"], before["contrast"] / 100)
    torch.testing.assert_close(after["unit"], before["unit"])


def test_components_are_grouped_as_well_as_can_be(rng):
    generator = slot_generator(3, 2, 8, 2)
    given = examples(generator, "uniform", 10, 600, 0)
    shuffled = given.test_latents[:, rng.permutation(6)] * rng.choice([-1, 1], 6)
    assert grouped_sis(shuffled, given.test_latents, generator.dimensions) == pytest.approx(
        ceiling(generator, given), abs=1e-9
    )
    turned = given.test_latents @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    assert grouped_sis(turned, given.test_latents, generator.dimensions) < 0.5
    assert grouped_sis(shuffled[:, :5], given.test_latents, generator.dimensions) is None


@pytest.mark.parametrize("law", ["normal", "dependent", "uniform"])
def test_the_share_of_derivatives_sees_slots_whatever_their_distribution(law):
    generator = slot_generator(2, 2, 8, 3)
    given = examples(generator, law, 10, 100, 0)
    inverse = np.linalg.pinv(generator.jacobian(given.test_latents))
    mixing = np.eye(4)
    for mixed, expected in ((False, 1.0), (True, 0.5)):
        if mixed:
            mixing = np.kron([[1.0, 1.0], [1.0, -1.0]], np.eye(2))
        inner = torch.from_numpy(mixing @ inverse)
        module = SimpleNamespace(encoder=SimpleNamespace(with_jacobian=lambda outputs, inner=inner: (None, inner)))
        found = own_share(module, generator, given)
        assert found == pytest.approx(1.0) if expected == 1 else found < 0.8
    if law == "dependent":
        assert ceiling(generator, given) < ceiling(generator, examples(generator, "uniform", 10, 100, 0))


def test_the_paper_scale_is_the_published_protocol_and_goes_to_where_the_criteria_fail():
    paper = SCALES["paper"]
    assert (paper.slots, paper.strengths, paper.seeds, paper.steps, paper.batch) == (
        (2, 3, 5),
        (0.01, 1.0),
        5,
        200_000,
        64,
    )
    assert paper.rows + paper.test_rows == 80_000
    truths = {overlap: slot_generator(2, 3, 20, overlap).truth for overlap in (*paper.overlaps, *paper.failing)}
    assert [overlap for overlap, truth in truths.items() if truth.type_d] == [0]
    assert [overlap for overlap, truth in truths.items() if not truth.type_s] == [17, 18, 19]
    units = plan(paper, None).units
    assert {unit.arguments["slots"] for unit in units if unit.arguments["overlap"] == 19} == {2}


def test_settings_that_make_no_sense_are_refused():
    for text in ("warm", "warm@0", "warm@x", "plain@1", "nothing@1"):
        with pytest.raises(InputError, match="name@strength"):
            parsed(text)
    with pytest.raises(InputError, match="laws are"):
        plan(replace(TINY, laws=("normal", "cauchy")), None)


def _outcome(condition, strength, overlap, values, losses=None, law="normal", type_s=True):
    runs = [
        {"sis": sis, "own": 0.9, "error": 0.01, "size": 1.0, "loss": loss, "grouped": sis, "ica": sis, "rotated": sis}
        for sis, loss in zip(values, losses or [0.1] * len(values), strict=True)
    ]
    truth = {"type_d": overlap == 0, "type_m": True, "type_s": type_s, "h2_swaps": True, "margin": 5, "gap": 4}
    return {
        "slots": 2, "overlap": overlap, "law": law, "condition": condition, "strength": strength,
        "share": overlap / 20, "ceiling": 0.97, "truth": truth, "runs": runs,
    }  # fmt: skip


NEAR = np.array([-0.01, 0.0, 0.01])
WIDE = np.array([-0.4, 0.0, 0.4])


def _outcomes(low, high, *, spread=NEAR, dependent=0.5, losses=(0.5, 0.1, 0.3, 0.2), regrouped=0.9):
    """The contrast from SIS ``low`` at 0 % to ``high`` at 40 %; plain and ICA have 0.15, trainings of restarts vary."""
    made = [_outcome("plain", 0.0, overlap, [0.14, 0.15, 0.16]) for overlap in (0, 8)]
    made += [_outcome("contrast", 1.0, overlap, sis + spread) for overlap, sis in ((0, low), (8, high))]
    made += [
        _outcome("plain", 0.0, 0, [0.14, 0.15, 0.16], law="dependent"),
        _outcome("contrast", 1.0, 0, dependent + spread, law="dependent"),
        _outcome("restarts", 0.01, 8, [0.2, 0.9, 0.3, 0.95], losses),
        _outcome("regrouped", 0.01, 8, regrouped + spread),
        _outcome("regrouped", 0.01, 19, [0.1, 0.1], type_s=False),
    ]
    return {str(place): each for place, each in enumerate(made)}


@pytest.mark.parametrize(
    ("outcomes", "holds"),
    [
        (_outcomes(0.95, 0.4), [True] * 6),
        (_outcomes(0.1, 0.3, dependent=0.1, losses=(0.1, 0.5, 0.2, 0.3), regrouped=0.5), [False] * 6),
        (_outcomes(0.6, 0.5, spread=WIDE, dependent=0.4, losses=(0.1, 0.5, 0.3, 0.2)), [None] * 6),
        ({"a": _outcome("contrast", 1.0, 8, [0.9]), "b": _outcome("plain", 0.0, 8, [0.1])}, [None, True]),
        ({"a": _outcome("contrast", 1.0, 0, [0.9, None]), "b": _outcome("plain", 0.0, 0, [None])}, [True, None]),
        ({"a": _outcome("plain", 0.0, 0, [0.1])}, [None]),
        ({}, []),
    ],
)
def test_claims_follow_the_numbers(outcomes, holds):
    summary = experiment_named("slots").summarise(replace(SCALES["laptop"], restarts=2), outcomes)
    assert [each.holds for each in summary.claims] == holds
    assert summary.reached is (holds[0] if holds else None)


def test_a_claim_is_about_the_lowest_of_all_settings_and_undecided_where_one_is_unknown():
    outcomes = _outcomes(0.95, 0.4)
    for values, holds, words in (([0.3], False, "λ = 2): 0.30"), ([None], None, "λ = 2): unknown")):
        more = {"a": _outcome("contrast", 2.0, 0, values), "b": _outcome("contrast", 2.0, 8, [0.1])}
        first = experiment_named("slots").summarise(SCALES["laptop"], outcomes | more).claims[0]
        assert first.holds is holds
        assert first.measure.endswith(words)


def test_of_restarts_the_one_with_the_lowest_loss_is_taken_whatever_its_score():
    setting = _outcome("restarts", 1.0, 8, [0.2, 0.9, 0.3, 0.95, 0.5], [0.1, 0.5, 0.3, 0.2, 0.0])
    assert least_loss(setting, 2).mean == pytest.approx((0.2 + 0.95) / 2)
    assert (least_loss(setting, 5).mean, least_loss(setting, 5).error) == (0.5, None)
    assert least_loss(setting, 6).mean is least_loss(None, 2).mean is None


def test_trainings_that_diverge_do_not_count():
    outcome = _outcome("contrast", 1.0, 0, [0.9, 0.8])
    outcome["runs"].append({"sis": None, "loss": None})
    assert over_seeds(outcome).mean == pytest.approx(0.85)
    assert over_seeds(outcome, "own").mean == pytest.approx(0.9)
