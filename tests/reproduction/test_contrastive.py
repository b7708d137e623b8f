"""The contrastive experiment: end to end through the command, resumed within a unit, measured and judged by claims."""

import io
import json
import math
import sys
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.cli.main import run  # noqa: E402
from isorep.reproduction import reproduce, runner  # noqa: E402
from isorep.reproduction.contrastive import (  # noqa: E402
    EXPERIMENT,
    SCALES,
    Preset,
    _rows,
    against,
    effective_dimension,
    material,
    measure,
    patches,
    plan,
)
from isorep.reproduction.outcomes import estimate, trend  # noqa: E402

from ..datasets import published  # noqa: E402

TINY = Preset(
    source="rooms",
    pairs=2,
    steps=6,
    checkpoints=(2,),
    width=6,
    widths=(4, 6),
    sizes=(20,),
    outputs=3,
    patch=4,
    scene=8,
    scenes=60,
    test_images=40,
    batch=16,
    null=3,
    draws=10,
)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Folder, output and metrics of a shortened ``isorep reproduce contrastive --scale smoke``."""
    folder = tmp_path_factory.mktemp("contrastive")
    call = ["reproduce", "contrastive", "--scale", "smoke", "--out", str(folder / "run")]
    shorter = ("pairs=2", "steps=40", "checkpoints=10", "scenes=600", "test_images=256", "null=3", "draws=20")
    call += ["--html", str(folder / "page.html"), *(part for each in shorter for part in ("--set", each))]
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(io.StringIO()) as out:
        patched.setattr(sys, "argv", ["isorep", *call])
        with pytest.raises(SystemExit) as ended:
            run()
    assert ended.value.code in (None, 0)
    return folder, out.getvalue(), json.loads((folder / "run" / "metrics.json").read_text())


def tiny(monkeypatch, tmp_path, name="run", preset=TINY, **more):
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("contrastive", scale="smoke", out=tmp_path / name, **more)


def test_a_smoke_run_goes_from_the_command_to_tables_figures_and_page(smoke):
    folder, out, found = smoke
    told = out + (folder / "run" / "table.txt").read_text()
    for words in ("Does alignment grow?", "Figure 3b", "Figure 3c", "Figure 3d", "Controls", "The ladder", "verdict: "):
        assert words in told
    html = (folder / "page.html").read_text()
    for sweep in ("training", "images", "width"):
        for name in (f"cca-{sweep}", f"shares-{sweep}"):
            assert f"{name}-figure" in html
            assert "whisker" in (folder / "run" / "figures" / f"{name}.svg").read_text(), "means have error bars"
    assert not (folder / "run" / "state").exists()
    assert {len(table["rows"]) for table in found["tables"]} == {24, 6, 4, 12}


def test_the_outcomes_of_a_smoke_run_are_consistent(smoke):
    units = smoke[2]["units"]
    assert len(units) == 2 * 3 + 1
    for key, outcome in units.items():
        if key == "projections":
            continue
        assert [each["step"] for each in outcome["steps"]] == ([0, 10, 40] if "base" in key else [0, 40])
        assert outcome["stopped"]["step"] in ([10, 40] if outcome["sweep"] != "width" else [40])
        assert outcome["stopped"]["loss"] <= outcome["steps"][-1]["loss"], "the least of those that were measured"
        assert outcome["steps"][0]["loss"] == pytest.approx(math.log(128), abs=0.1), "untrained is at chance"
        for each in outcome["steps"]:
            for side in ("f", "g"):
                found = each[side]
                assert found["chance"] < found["cca"] <= 1
                assert found["r2"]["signed_permutation"] <= found["r2"]["rigid"] + 0.02 <= found["r2"]["linear"] + 0.04
                assert 1 <= found["dimension"] <= 8
                assert ("ladder" in found) == (each["step"] == 40 and "base" in key)
    base, other = units["base-pair-1"], units["images-100-pair-1"]
    assert base["steps"][0]["f"]["cca"] == other["steps"][0]["f"]["cca"], "the same pair starts alike in every setting"
    assert base["steps"][-1]["f"]["cca"] != other["steps"][-1]["f"]["cca"]
    assert base["steps"][-1]["f"]["r2"]["linear"] > base["steps"][0]["f"]["r2"]["linear"] + 0.2
    rows = {row["name"]: row["values"] for row in smoke[2]["tables"][1]["rows"]}
    mean = np.mean([units[f"base-pair-{pair}"]["steps"][-1]["f"]["cca"] for pair in (1, 2)])
    assert rows["f, step 40"][0] == pytest.approx(mean, abs=1e-5)


def test_a_unit_that_is_stopped_in_its_second_model_goes_on_from_there(monkeypatch, tmp_path):
    preset = replace(TINY, pairs=1, sizes=(), widths=())
    whole = tiny(monkeypatch, tmp_path, "whole", preset)
    assert tiny(monkeypatch, tmp_path, "other", preset, random_state=1).outcomes != whole.outcomes
    seen = []

    def progress(stage, done, total):
        seen.append((stage, done))
        if (stage, done) == ("training", 9):
            raise KeyboardInterrupt

    monkeypatch.setattr("isorep.reproduction.contrastive._CHECKPOINT_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        tiny(monkeypatch, tmp_path, "parts", preset, progress=progress)
    assert len(list((tmp_path / "parts" / "state").rglob("*.safetensors"))) == 2
    seen.clear()
    parts = tiny(monkeypatch, tmp_path, "parts", preset, progress=lambda *told: seen.append(told[:2]))
    assert parts.outcomes == whole.outcomes
    assert min(done for stage, done in seen if stage == "training") > 8, "neither model began again"
    assert not (tmp_path / "parts" / "state").exists()


def test_cifar10_is_read_where_its_files_are_and_named_where_they_are_not(monkeypatch, tmp_path):
    for name, records in published.cifar_batches(rows=12).items():
        path = tmp_path / "data" / "cifar10" / "cifar-10-batches-bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(records.tobytes())
    preset = replace(TINY, source="cifar10", pairs=1, sizes=(), widths=(), test_images=12, batch=8, outputs=2, patch=0)
    found = tiny(monkeypatch, tmp_path, "run", preset, data=tmp_path / "data")
    outcome = found.outcomes["base-pair-1"]
    assert (outcome["images"], outcome["source"], outcome["note"]) == (60, "CIFAR-10", "")
    assert found.settings["data_files"] == {"data_batch_1.bin": 12 * 3073}
    planned = plan(preset, tmp_path)
    assert planned.units == plan(replace(preset, source="rooms"), None).units
    assert planned.files == ()
    assert "rendered rooms stand for it" in planned.skipped[0]
    assert material(preset, None, 0).halves[0].shape == (60, 8, 12)
    (tmp_path / "data" / "cifar10" / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="5 bytes where"):
        tiny(monkeypatch, tmp_path, "hostile", replace(preset, patch=8), data=tmp_path / "data")


def test_patches_are_columns_of_a_half_for_arrays_and_tensors():
    halves = np.arange(2 * 5 * 3).reshape(2, 5, 3)
    expected = np.stack([halves[0, 1:4], halves[1, 0:3]])
    np.testing.assert_array_equal(patches(halves, np.array([1, 0]), 3), expected)
    found = patches(torch.from_numpy(halves), torch.tensor([1, 0]), 3)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_material_has_two_halves_of_the_same_images():
    given = material(TINY, None, 0)
    assert [half.shape for half in given.halves] == [(60, 8, 12)] * 2
    assert [part.shape for part in given.test] == [(40, 4 * 12)] * 2
    assert [part.shape for part in given.components] == [(40, 3)] * 2
    assert given.test[0].dtype == np.float32
    few, more = (set(_rows(given, count, 0, 1)) for count in (10, 20))
    assert few < more
    assert few != set(_rows(given, 10, 0, 2)), "every pair has images of its own"
    with pytest.raises(InputError, match="there are 60 to train on"):
        _rows(given, 61, 0, 0)
    with pytest.raises(InputError, match="8 columns"):
        material(replace(TINY, patch=9), None, 0)


def test_a_linear_map_of_a_representation_is_the_same_and_another_is_not(rng):
    first = rng.laplace(size=(300, 4)) * [3, 2, 1, 1]
    mixed = first @ rng.normal(size=(4, 4))
    turned = first @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    found = measure(first, mixed, TINY, 0, ladder=True)
    assert found["cca"] == pytest.approx(1)
    assert found["r2"]["linear"] == pytest.approx(1)
    assert found["r2"]["rigid"] < 0.99
    assert found["ladder"]["linear"]["below_null"]
    found = measure(first, turned, TINY, 0)
    assert found["r2"]["rigid"] == pytest.approx(1)
    assert found["r2"]["signed_permutation"] < 0.99
    alone = measure(first, rng.normal(size=(300, 4)), TINY, 0)
    assert alone["cca"] < 0.2
    assert alone["r2"]["linear"] < 0.05
    assert against(mixed[:, :2], first, share=True)["r2"] == pytest.approx(1)


def test_the_effective_dimension_counts_directions_by_their_variance(rng):
    basis = np.linalg.qr(rng.normal(size=(200, 4)) - 0)[0]
    basis = np.linalg.qr(basis - basis.mean(0))[0]
    assert effective_dimension(basis) == pytest.approx(4)
    assert effective_dimension(basis * [1, 1, 1e-6, 1e-6]) == pytest.approx(2)
    assert effective_dimension(np.zeros((5, 3))) == 0


def test_trends_over_pairs():
    rising = trend(np.array([[0.1, 0.2, 0.5], [0.2, 0.25, 0.55], [0.1, 0.3, 0.5]]))
    assert rising.grows is True
    assert rising.correlation.mean == pytest.approx(1)
    assert rising.difference.mean == pytest.approx((0.4 + 0.35 + 0.4) / 3)
    falling = trend(np.array([[0.5, 0.1], [0.6, 0.2], [0.5, 0.15]]))
    assert falling.grows is False
    assert falling.correlation is None
    unclear = trend(np.array([[0.5, 0.9, 0.6], [0.5, 0.8, 0.3]]))
    assert unclear.grows is None
    assert trend(np.array([[0.1, 0.9]])).grows is None, "one pair shows nothing"
    assert trend(np.ones((3, 1))) is None
    assert trend(np.ones((2, 3))).correlation.mean == 0
    # Student's t with two degrees of freedom reaches 4.303 standard errors
    found = estimate(np.array([1.0, 2.0, 3.0]))
    assert found.interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3), rel=1e-5)


def step(number, cca, r2=0.9, pixels=0.3):
    shares = {"signed_permutation": r2 - 0.2, "rigid": r2 - 0.1, "linear": r2}
    rungs = {name: {"error": 0.1, "low": 0.09, "high": 0.11, "null": 0.3, "below_null": True} for name in shares}
    side = {
        "cca": cca, "chance": 0.1, "svcca": cca, "kept": 9.0, "dimension": 4.0, "r2": shares, "ladder": rungs,
        "pixels": {"cca": pixels, "r2": 0.2},
    }  # fmt: skip
    return {"step": number, "loss": 5.0 - number / 400, "f": side, "g": side}


def outcomes(
    small=0.4, narrow=0.5, start=0.3, narrow_start=0.3, end=0.6, pixels=0.3, projected=0.25, pairs=3, jitter=0.002,
    stopped=0.5,
):  # fmt: skip
    """Pairs of the base setting, of few images and of a narrow network, and random projections."""
    found = {"projections": {"sweep": "projections", "pairs": [step(0, projected)] * pairs}}
    for pair in range(pairs):
        common = {"pair": pair, "width": 256, "images": 50_000}
        settings = {
            "base": (start, end + jitter * pair, {}),
            "images": (start, small and small - jitter * pair, {"images": 500}),
            "width": (narrow_start, narrow - jitter * pair, {"width": 64}),
        }
        for sweep, (first, last, more) in settings.items():
            steps = [step(0, first), step(800, last, pixels=pixels)]
            early = step(100, stopped if sweep == "images" else end)
            found[f"{sweep}-{pair}"] = common | more | {"sweep": sweep, "steps": steps, "stopped": early}
    return found


def summary(without=(), **numbers):
    kept = {key: each for key, each in outcomes(**numbers).items() if each["sweep"] not in without}
    return EXPERIMENT.summarise(SCALES["laptop"], kept)


@pytest.mark.parametrize(
    ("place", "holds", "fails", "undecided"),
    [
        (0, {}, {"small": 0.8}, {"small": 0.6}),
        (1, {}, {"start": 0.7}, {"start": 0.6}),
        (2, {}, {"small": 0.8}, {"small": 0.6}),
        (2, {}, {"small": 0.61, "jitter": 0.0}, {"small": None}),
        (3, {}, {"narrow": 0.9}, {"narrow": 0.601}),
        (4, {}, {"narrow_start": 0.1}, {"narrow_start": 0.2}),
        (5, {}, {"pixels": 0.7}, {"pixels": 0.602}),
        (5, {}, {"projected": 0.7}, {"projected": 0.602}),
    ],
)
def test_a_claim_holds_fails_or_is_undecided(place, holds, fails, undecided):
    for expected, numbers in ((True, holds), (False, fails), (None, undecided)):
        found = summary(**numbers)
        assert found.claims[place].holds is expected, str(found.claims[place])
        assert found.reached is found.claims[0].holds


def test_trends_are_set_beside_the_published_ones():
    for small, grows in ((0.4, 1), (0.8, -1)):
        rows = {row.name: row for row in summary(small=small).tables[0].rows}
        data = rows["mean CCA of f with data"]
        assert (data.values[0], data.published[0]) == (grows, 1)
        assert data.values[3] == pytest.approx(0.6 - small + 0.004)


def test_the_least_held_out_loss_has_a_trend_of_its_own_and_is_no_claim():
    found = summary(small=0.8, stopped=0.5)
    rows = {row.name: row for row in found.tables[0].rows}
    assert rows["mean CCA of f with data"].values[0] == -1
    assert rows["mean CCA of f with data, stopped"].values[1:4] == pytest.approx((0.5, 0.6, 0.1))
    assert rows["mean CCA of f with data, stopped"].published == ()
    assert summary(small=0.8, stopped=0.9).claims == found.claims


def test_one_pair_decides_nothing():
    found = summary(pairs=1)
    assert {each.holds for each in found.claims} == {None}
    assert all(row.values[0] == 0 for row in found.tables[0].rows)


def test_a_part_that_was_not_run_makes_no_claim():
    found = summary(without=("width", "projections"))
    assert found.reached is None, "a trend that was not measured may be there"
    assert [each.text for each in found.claims if "wid" in each.text] == [found.claims[0].text]
    assert not any("projections" in each.measure for each in found.claims)
    assert not any("projections" in row.name for table in found.tables for row in table.rows)
    nothing = summary(without=("base", "images", "width"))
    assert (nothing.reached, nothing.claims, nothing.tables) == (None, (), ())


def test_the_paper_scale_is_the_published_protocol():
    paper = SCALES["paper"]
    assert (paper.pairs, paper.width, paper.layers, paper.outputs) == (5, 256, 3, 64)
    assert (paper.widths[0], paper.widths[-1], paper.normalise, paper.temperature) == (64, 8192, False, 1.0)
    smoke_plan = plan(SCALES["smoke"], None)
    assert smoke_plan.skipped == ()
    assert "name a folder" in plan(paper, None).skipped[0]
    with pytest.raises(InputError, match="choose from cifar10, rooms"):
        plan(replace(paper, source="mnist"), None)
    with pytest.raises(InputError, match="from 1 on"):
        plan(replace(paper, widths=(0,)), None)
