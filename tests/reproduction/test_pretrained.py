"""The experiment on pairs of trained models: end to end through the command, resumed, with named pairs, and by rule."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.models.pair_files import named_pairs  # noqa: E402
from isorep.reproduction import Run, pretrained, reproduce, runner  # noqa: E402
from isorep.reproduction.pretrained import EXPERIMENT, PUBLISHED, RUNGS, SCALES, Preset, plan, task_of  # noqa: E402
from isorep.reproduction.pretrained_summary import LEVEL, RULES, summarise, summed  # noqa: E402
from isorep.resampling import Interval, Value  # noqa: E402

CHANGES = {
    "images": "rooms", "scene": 8, "train_images": 80, "rows": 120, "context": 8, "vocabulary": 270, "documents": 6,
    "gpt": "8x2", "heads": 2, "mae_width": 8, "mae_depth": 1, "cnn_width": 2, "latents": 4, "gpt_steps": 6,
    "mae_steps": 4, "cnn_steps": 4, "ae_steps": 6, "gpt_batch": 4, "batch": 8, "n_null": 2, "n_boot": 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of fourteen documents in a language of forty words."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdeilnorst"), rng.integers(2, 6))) for _ in range(40)]
    for name in range(14):
        (folder / f"{name:02d}.txt").write_text(" ".join(rng.choice(words, 80)))
    return folder


@pytest.fixture(scope="module")
def smoke(tmp_path_factory, text):
    """Folder, output and metrics of ``isorep reproduce pretrained --scale smoke`` with smaller settings."""
    folder = tmp_path_factory.mktemp("pretrained")
    call = ["reproduce", "pretrained", "--scale", "smoke", "--out", str(folder / "run")]
    call += ["--html", str(folder / "page.html")]
    for name, value in {**CHANGES, "text": text}.items():
        call += ["--set", f"{name}={value}"]
    done = subprocess.run(
        [sys.executable, "-c", "from isorep.cli.main import run; run()", *call],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout, json.loads((folder / "run" / "metrics.json").read_text())


def tiny(monkeypatch, folder, text, **more):
    preset = replace(SCALES["smoke"], **{**CHANGES, "text": str(text), **more})
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("pretrained", scale="smoke", out=folder)


def test_a_smoke_run_goes_from_the_command_to_tables_figures_and_page(smoke):
    folder, out, found = smoke
    told = out + (folder / "run" / "table.txt").read_text()
    for words in ("Table 1: errors in diameters", "GPT (penultimate)", "0.219", "verdict: The published effect "):
        assert words in out
    for words in ("before training, held out", "its error is at most two thirds", "in Table 1, in-sample"):
        assert words in " ".join(told.split())
    html = (folder / "page.html").read_text()
    for name in ("errors", "ladder-trained", "ladder-untrained"):
        assert (folder / "run" / "figures" / f"{name}.svg").exists()
        assert f"{name}-figure" in html
    assert "whisker" in (folder / "run" / "figures" / "errors.svg").read_text(), "errors have intervals"
    assert not (folder / "run" / "state").exists()
    assert len(found["units"]) == 4 * 2


def test_the_outcomes_of_a_smoke_run_are_consistent(smoke):
    folder, _, found = smoke
    pairs = [outcome for key, outcome in found["units"].items() if key.startswith("pair")]
    assert [list(outcome["subjects"]) for outcome in pairs] == [["gpt", "gpt-last"], ["mae"], ["cnn"], ["ae"]]
    for outcome in pairs:
        for entry in outcome["subjects"].values():
            for way in (*entry["trained"]["ways"], *entry["untrained"]["ways"]):
                errors = {rung: way["rungs"][rung]["in_sample"] for rung in RUNGS}
                assert errors["linear"] <= errors["rigid"] + 1e-9 <= errors["signed_permutation"] + 2e-9
                assert errors["linear"] <= errors["ica"]
                assert way["rungs"]["rigid"]["interval"][0] <= way["rungs"]["rigid"]["held_out"]
    gpt = pairs[0]["subjects"]["gpt"]["trained"]
    assert (gpt["rows"], pairs[1]["subjects"]["mae"]["trained"]["rows"]) == (120, 80)
    assert 1 < gpt["groups"] <= 6
    table = found["tables"][0]["rows"]
    mean = np.mean([way["rungs"]["rigid"]["in_sample"] for way in gpt["ways"]])
    assert table[0]["values"][1] == pytest.approx(mean, abs=1e-4)
    assert table[0]["published"] == [0.219, 0.150, 0.131, 0.202, 0.25]
    assert len(list((folder / "run" / "models").glob("*.safetensors"))) == 4 * 2


def test_an_interrupted_run_goes_on_and_trains_nothing_twice(monkeypatch, tmp_path, text):
    kinds = {"kinds": ("gpt", "ae")}
    monkeypatch.setattr(
        pretrained, "measure", lambda a, b, *rest: measured(0.4, 0.3, 0.1 + float(np.abs(a - b).mean()), 0.3)
    )
    whole = tiny(monkeypatch, tmp_path / "whole", text, **kinds)
    from isorep import models

    real, calls = models.train_many, []

    def counted(*given, **named):
        calls.append(named["seeds"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(models, "train_many", counted)
    with pytest.raises(KeyboardInterrupt):
        tiny(monkeypatch, tmp_path / "again", text, **kinds)
    again = tiny(monkeypatch, tmp_path / "again", text, **kinds)
    assert again.outcomes == whole.outcomes
    assert len(calls) == 3
    assert not set(calls[0]) & set(calls[1]), "no two kinds share a seed"
    for path in (tmp_path / "again" / "units").glob("pair*"):
        path.unlink()
    monkeypatch.setattr(models, "train_many", None)
    assert tiny(monkeypatch, tmp_path / "again", text, **kinds).outcomes == whole.outcomes
    rows = tmp_path / "again" / "representations" / "ae.safetensors"
    rows.write_bytes((tmp_path / "again" / "representations" / "gpt.safetensors").read_bytes())
    run = Run(replace(SCALES["smoke"], **{**CHANGES, "text": str(text), **kinds}), None, 0, folder=tmp_path / "again")
    with pytest.raises(InputError, match="rows of other trainings"):
        pretrained.rows_of("ae", run)


def test_rows_are_of_texts_that_were_trained_on_unless_unseen_ones_are_wanted(text):
    preset = replace(SCALES["smoke"], **{**CHANGES, "text": str(text)})
    for unseen in (False, True):
        task = task_of("gpt", replace(preset, unseen=unseen), None, 0)
        module = task.build(0).eval()
        seen = task.rows(module)
        assert seen["gpt"].shape == seen["gpt-last"].shape == (len(task.groups), 8)
    with torch.no_grad():
        states = module.hidden_states(torch.from_numpy(task.held_out[:, :-1]))
    after = states[1].flatten(0, 1).numpy()
    assert (np.abs(after - seen["gpt"][0]).max(1) < 1e-5).any(), "after the last block but one, of a held-out document"


def test_rendered_rooms_take_the_place_of_missing_photographs(tmp_path):
    found = plan(SCALES["laptop"], tmp_path)
    assert found.files == ()
    assert "CIFAR-10 is not available, so images are rendered rooms" in found.skipped[0]
    assert len(found.units) == 4 * (1 + 3)
    assert plan(replace(SCALES["laptop"], kinds=("gpt",)), None).skipped == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kinds": ("gpt", "vae")}, "kinds vae: choose from"),
        ({"seeds": 1}, "at least 2 seeds"),
        ({"images": "mnist"}, "images is 'mnist'"),
        ({"ae_steps": 0}, "from 1 on"),
    ],
)
def test_settings_that_make_no_run_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        Preset(**change)


# Named pairs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def ready(tmp_path):
    """Two npy files of the same rows, one a rotation of the other, with groups."""
    rng = np.random.default_rng(0)
    rows = rng.laplace(size=(300, 4))
    turned = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    np.save(tmp_path / "a.npy", rows)
    np.save(tmp_path / "b.npy", rows @ turned + 0.01 * rng.normal(size=rows.shape))
    np.save(tmp_path / "groups.npy", np.repeat(np.arange(30), 10))
    return tmp_path


def written(folder, text):
    (folder / "pairs.toml").write_text(text)
    return str(folder / "pairs.toml")


def test_ready_representations_are_compared_beside_the_row_that_they_name(monkeypatch, ready, text):
    pairs = written(
        ready,
        '[[pair]]\nname = "turned"\nsource = "a.npy"\ntarget = "b.npy"\ngroup = "groups.npy"\npublished = "MAE"\n',
    )
    found = tiny(monkeypatch, ready / "run", text, pairs=pairs)
    (outcome,) = found.outcomes.values()
    measured = outcome["layers"][0]["trained"]
    assert (measured["rows"], measured["groups"]) == (120, 30)
    row = found.summary.tables[0].rows[0]
    assert (row.name, row.published[:2]) == ("turned", (0.197, 0.109))
    assert row.values[1] < 0.01 < row.values[0]
    assert found.summary.claims[0].text.startswith("a rigid map explains")
    assert found.summary.reached is True
    np.save(ready / "b.npy", np.load(ready / "a.npy"))
    assert list(tiny(monkeypatch, ready / "run", text, pairs=pairs).outcomes) != list(found.outcomes), "another file"


def test_model_folders_and_code_are_extracted_and_have_an_untrained_control(monkeypatch, tmp_path, text):
    pytest.importorskip("transformers")
    from .test_layers import made_folder

    for seed in range(2):
        made_folder(tmp_path / f"seed{seed}", seed, 2)
    (tmp_path / "nets_to_pair.py").write_text("import torch\n\ndef build():\n    return torch.nn.Linear(4, 3)\n")
    torch.manual_seed(0)
    from safetensors.torch import save_file

    save_file({"weight": torch.eye(4)[:3].contiguous(), "bias": torch.zeros(3)}, tmp_path / "w.safetensors")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    (tmp_path / "texts.txt").write_text("\n".join((text / f"{name:02d}.txt").read_text()[:40] for name in range(9)))
    pairs = written(
        tmp_path,
        '[[pair]]\nname = "gpt"\nsource = "seed0"\ntarget = "seed1"\ndata = "texts.txt"\nlayer = [-2, -1]\n'
        'pool = "token"\npublished = "Pythia-160M"\n'
        '[[pair]]\nname = "code"\nsource = "nets_to_pair:build"\ntarget = "nets_to_pair:build"\ndata = "x.npy"\n'
        'source_weights = "w.safetensors"\ntarget_weights = "w.safetensors"\n',
    )
    monkeypatch.chdir(tmp_path)
    found = tiny(monkeypatch, tmp_path / "run", text, pairs=pairs)
    folders, code = found.outcomes.values()
    assert [each["layer"] for each in folders["layers"]] == ["hidden_1", "hidden_2"]
    assert all(each["trained"]["groups"] == each["untrained"]["groups"] == 9 for each in folders["layers"])
    same, before = (
        code["layers"][0][when]["ways"][0]["rungs"]["rigid"]["held_out"] for when in ("trained", "untrained")
    )
    assert same < 1e-6 < before, "the same weights, and two others"
    assert [row.name for row in found.summary.tables[0].rows] == ["gpt, hidden_1", "gpt, hidden_2", "code, output"]
    assert folders["layers"][0]["trained"]["caveats"], "what a comparison warns of stays in the outcome"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[[pair", "pairs.toml is not TOML"),
        ("a = " + "[" * 3000, "pairs.toml is not TOML"),
        ("x = 1", "has the key 'x'"),
        ("", "holds no pairs"),
        ("pair = [1]", "pair 1 is no table"),
        ('[[pair]]\nname = 3\nsource = "a.npy"', "pair 1: name is '3': it must be text"),
        ('[[pair]]\nname = "p"\ntarget = "b.npy"', r"pair 1 \('p'\): source is missing"),
        (
            '[[pair]]\nname = "p"\nsource = "a.npy"\ntarget = "b.npy"\nlayr = 1',
            r"pair 1 \('p'\): there is no key 'layr'",
        ),
        ('[[pair]]\nname = "p"\nsource = "no.npy"\ntarget = "b.npy"', "source is 'no.npy', which is neither there"),
        ('[[pair]]\nname = "p"\nsource = "EleutherAI/pythia-160m"\ntarget = "b.npy"', "nothing is downloaded"),
        ('[[pair]]\nname = "p"\nsource = "a.npy"\ntarget = "m:f"', "target is a model and source a representation"),
        ('[[pair]]\nname = "p"\nsource = "a.npy"\ntarget = "b.npy"\nlayer = 2', "layer is for models"),
        ('[[pair]]\nname = "p"\nsource = "a.npy"\ntarget = "b.npy"\npublished = "Bert"', "published is 'Bert'"),
        ('[[pair]]\nname = "p"\nsource = "m:f"\ntarget = "m:f"', "data is missing"),
        ('[[pair]]\nname = "p"\nsource = "m:f"\ntarget = "m:f"\ndata = "none.txt"', "data is 'none.txt', which is not"),
        ('[[pair]]\nname = "p"\nsource = "m:f"\ntarget = "m:f"\ndata = "a.npy"\nlayer = true', "layer is 'True'"),
        ('[[pair]]\nname = "p"\nsource = "m:f"\ntarget = "m:f"\ndata = "a.npy"\nlayer = [1, 1]', "layer is"),
        ('[[pair]]\nname = "p"\nsource = "m:f"\ntarget = "m:f"\ndata = "a.npy"\npool = "sum"', "pool is 'sum'"),
        ('[[pair]]\nname = "p"\nsource = "m:f"\ntarget = "m:f"\ndata = "a.npy"\nlimit = 0', "limit is '0'"),
        ('[[pair]]\nname = "p\\u0007"\nsource = "a.npy"\ntarget = "b.npy"', "letters that cannot be printed"),
        ('[[pair]]\nname = "p"\nsource = "a.npy"\ntarget = "b.npy"\n' * 2, "two pairs have the name 'p'"),
    ],
)
def test_whatever_is_wrong_with_a_file_of_pairs_is_one_sentence(ready, table, words):
    with pytest.raises(InputError, match=words) as caught:
        named_pairs(written(ready, table), list(PUBLISHED))
    assert "\n" not in str(caught.value)


def test_the_file_of_pairs_in_the_guide_can_be_read(ready):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "reproduce-pretrained.md").read_text()
    file = written(ready, guide.split("```toml\n")[1].split("```")[0])
    for name in ("texts.txt", "seed0.safetensors", "seed1.safetensors", "images.npy", "seed0.npy", "seed1.npy"):
        (ready / name).touch()
    for seed in (1, 2):
        (ready / "models" / f"pythia-160m-seed{seed}").mkdir(parents=True)
        (ready / "models" / f"pythia-160m-seed{seed}" / "config.json").touch()
    pythia, code, stored = named_pairs(file, list(PUBLISHED))
    assert (pythia.layers, pythia.target_layers, pythia.pool, pythia.models) == ((-2, -1), (-2, -1), "token", True)
    assert (code.source, code.layers, code.published) == ("nets:build", ("encoder",), "")
    assert (stored.models, stored.group) == (False, "plates.npy"), "a column of that name, as there is no such file"
    (ready / "plates.npy").touch()
    assert named_pairs(file, list(PUBLISHED))[2].group == str(ready / "plates.npy")
    assert named_pairs(file, list(PUBLISHED))[2].digest != stored.digest


def test_a_pair_that_cannot_be_compared_is_named(monkeypatch, ready, text):
    np.save(ready / "short.npy", np.ones((7, 2)))
    pairs = written(ready, '[[pair]]\nname = "odd"\nsource = "a.npy"\ntarget = "short.npy"\n')
    with pytest.raises(InputError, match="pair 'odd': "):
        tiny(monkeypatch, ready / "run", text, pairs=pairs)
    with pytest.raises(InputError, match="which is no file: name a TOML file"):
        tiny(monkeypatch, ready / "other", text, pairs="none.toml")
    both = plan(replace(SCALES["smoke"], pairs=pairs, both=True), None)
    assert [unit.key.split("-")[0] for unit in both.units] == ["named", *["train", "pair"] * 4]


# Claims ---------------------------------------------------------------------------------------------------------------


def way(permutation, rigid, linear, ica, reach=0.002):
    errors = dict(zip(RUNGS, (permutation, rigid, linear, ica), strict=True))
    return {
        "rungs": {
            rung: {
                "in_sample": error,
                "held_out": error,
                "interval": [error - reach, error + reach] if reach else None,
                "excess": [error - linear - reach, error - linear + reach] if reach else None,
            }
            for rung, error in errors.items()
        },
        "baseline": 0.4,
        "efficiency": (permutation - ica) / (permutation - rigid) if permutation != rigid else None,
        "efficiency_in_sample": 0.5,
        "verdict": "linear",
    }


def measured(*errors, **more):
    return {"ways": [way(*errors, **more)] * 2, "rows": 100, "groups": None, "caveats": []}


def constructed(rows, control=None, **more):
    """Three pairs a subject with the same errors."""
    outcomes = {}
    for subject, errors in rows.items():
        for pair in ((0, 1), (0, 2), (1, 2)):
            found = {"trained": measured(*errors, **more)} | ({"untrained": measured(*control)} if control else {})
            outcomes[f"{subject}-{pair}"] = {"kind": subject, "pair": list(pair), "subjects": {subject: found}}
    return outcomes


def summary(rows, **more):
    return summarise(SCALES["smoke"], constructed(rows, **more))


def errors_of(name):
    return PUBLISHED[name][1][:4]


def test_the_published_table_keeps_every_stated_rule():
    for rule in RULES:
        assert all(each >= 0 for each in rule.published) if rule.stated else max(rule.published) < 0, rule.short
    rows = {"gpt": errors_of("Pythia-160M"), "mae": errors_of("MAE"), "cnn": errors_of("ResNet-18")}
    found = summary(rows, reach=0.0005)
    assert found.reached is True
    assert [each.holds for each in found.claims] == [True] * 6
    assert found.verdict.endswith("6 of 6 claims hold.")
    assert LEVEL.published == [pytest.approx(0.042)]


@pytest.mark.parametrize(
    ("place", "holds", "breaks", "undecided"),
    [
        (0, {"gpt": (0.3, 0.2, 0.1, 0.25)}, {"gpt": (0.3, 0.29, 0.28, 0.35)}, {"gpt": (0.3, 0.25, 0.2, 0.25)}),
        (0, {"ae": (0.3, 0.1, 0.05, 0.2)}, {"ae": (0.2, 0.19, 0.05, 0.1)}, {"ae": (0.3, 0.2, 0.1, 0.2)}),
        (
            2,
            {"gpt": (0.3, 0.2, 0.1, 0.2), "mae": (0.3, 0.05, 0.1, 0.2)},
            {"gpt": (0.3, 0.2, 0.1, 0.2), "mae": (0.3, 0.2, 0.1, 0.2)},
            {"gpt": (0.3, 0.2, 0.1, 0.2), "mae": (0.3, 0.12, 0.1, 0.2)},
        ),
        (1, {"cnn": (0.3, 0.2, 0.1, 0.25)}, {"cnn": (0.3, 0.2, 0.1, 0.35)}, {"cnn": (0.3, 0.2, 0.1, 0.3)}),
        (2, {"cnn": (0.3, 0.2, 0.1, 0.25)}, {"cnn": (0.3, 0.2, 0.1, 0.15)}, {"cnn": (0.3, 0.2, 0.1, 0.2)}),
        (3, {"cnn": (0.3, 0.2, 0.1, 0.25)}, {"cnn": (0.3, 0.2, 0.1, 0.29)}, {"cnn": (0.3, 0.2, 0.1, 0.28)}),
    ],
)
def test_a_claim_holds_or_not_by_the_intervals_of_all_pairs(place, holds, breaks, undecided):
    assert summary(holds).claims[place].holds is True
    assert summary(breaks).claims[place].holds is False
    assert summary(undecided).claims[place].holds is None
    assert summary(holds, reach=0).claims[place].holds is None, "without intervals nothing is decided"


def test_one_network_that_breaks_a_rule_is_enough_and_is_named():
    both = summary({"cnn": (0.3, 0.2, 0.1, 0.25), "ae": (0.3, 0.1, 0.05, 0.4)})
    below = both.claims[1]
    assert (below.holds, "Autoencoder" in below.measure) == (False, True)
    mixed = constructed({"ae": (0.3, 0.1, 0.05, 0.4)})
    mixed["ae-(0, 1)"]["subjects"]["ae"]["trained"] = measured(0.3, 0.1, 0.05, 0.2)
    assert summarise(SCALES["smoke"], mixed).claims[1].holds is None, "pairs of one network disagree"


def test_runs_without_a_part_have_no_claim_on_it():
    assert summary({"ae": (0.3, 0.2, 0.1, 0.25)}).claims[0].text.startswith("a rigid map explains")
    nothing = summarise(SCALES["smoke"], {})
    assert (nothing.verdict, nothing.reached, nothing.tables) == ("Nothing was measured.", None, ())
    constant = constructed({"ae": (0.3, 0.2, 0.1, 0.25)})
    for outcome in constant.values():
        for each in outcome["subjects"]["ae"]["trained"]["ways"]:
            each["baseline"] = None
            for rung in each["rungs"].values():
                rung |= dict.fromkeys(rung)
    found = summarise(SCALES["smoke"], constant)
    assert {each.holds for each in found.claims} == {None}
    assert "unknown" in found.claims[0].measure


def test_tables_and_figures_show_intervals_the_published_numbers_and_the_efficiency():
    rows = {"gpt": errors_of("Pythia-160M"), "ae": (0.3, 0.2, 0.1, 0.35)}
    found = summary(rows, control=(0.3, 0.2, 0.1, 0.28))
    errors, trained, untrained, efficiency = found.charts
    assert [(mark.name, mark.bound) for mark in errors.marks[:2]] == [
        ("GPT: permutation", 0.219),
        ("GPT: rigid", 0.150),
    ]
    assert all(mark.low < mark.value < mark.high for mark in errors.marks)
    assert [line.name for line in trained.lines] == ["GPT (penultimate)", "Autoencoder"]
    assert untrained.lines[0].points[2][1] == pytest.approx(0.5), "rigid, of what the mean alone leaves"
    held_out = next(line for line in efficiency.lines if line.name == "held out")
    assert held_out.points[1] == (1.0, pytest.approx(-0.5)), "worse than a permutation"
    assert [line.points for line in efficiency.lines if line.name.startswith("published")] == [((0.0, 0.25),)]
    rules = {row.name: row.values for row in found.tables[2].rows}
    assert rules["ICA below permutation: Autoencoder"][2:] == pytest.approx((-0.05, -0.054, -0.046, 0.02))
    assert rules["rigid within 0.01 of linear: Autoencoder"][2] == pytest.approx(-0.09)


def test_the_interval_of_a_margin_adds_up_the_ends_of_its_parts():
    parts = [(2.0, Value(1.0, interval=Interval(0.5, 2.0))), (-1.0, Value(1.0, interval=Interval(0.0, 3.0)))]
    assert summed(parts, 0.25) == Value(1.25, interval=Interval(-1.75, 4.25))
    assert summed([(1.0, Value(1.0))]).interval is None
    assert summed([(1.0, Value(None)), (0.0, Value(1.0))]).mean is None
