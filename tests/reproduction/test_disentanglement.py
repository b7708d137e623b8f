"""The disentanglement experiment: published numbers, a run end to end, selection and findings made by rule."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.datasets import FactorImages, Rooms
from isorep.disentangling import unmixing
from isorep.reproduction import Run, Unit, disentanglement_settings, experiment_named, reproduce
from isorep.reproduction import disentanglement as scoring
from isorep.reproduction.disentanglement import score, settings_of
from isorep.reproduction.disentanglement_charts import Chosen, Reading, compared
from isorep.reproduction.disentanglement_settings import AGGREGATED, DATA, MODELS, SCALES, TABLE

from ..data import rotation

pytest.importorskip("torch")

TINY = replace(SCALES["smoke"], images=300, held_out=100, scored=100, size=8, steps=30, jacobians=4, scored_at=(15,))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two weight decays, one beta, two replicates and the controls, all very small."""
    folder = tmp_path_factory.mktemp("out") / "run"
    changes = {name: getattr(TINY, name) for name in TINY.__dataclass_fields__}
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr(unmixing, "_SWEEPS", 40)
        quick.setattr(scoring, "_TOLERANCE", 1e-2)
        return reproduce("disentanglement", scale="smoke", out=folder, settings=changes)


def test_the_published_table_is_that_of_the_paper():
    assert TABLE["ae", "published"]["shapes3d"] == (0.79, 0.99, 0.52)
    assert TABLE["beta_vae", "raw"]["falcor3d"] == (0.71, 0.73, 0.70)
    for row, scores in AGGREGATED.items():
        means = np.mean(list(TABLE[row].values()), axis=0)
        assert means == pytest.approx(scores, abs=0.011), row


def test_a_run_has_all_models_controls_tables_and_figures(run):
    assert len(run.outcomes) == 2 * (1 + 2 + 1)
    assert run.skipped == ()
    published, held_out, sweep = run.summary.tables
    names = [row.name for row in published.rows]
    assert {"AE", "AE (rotated)", "AE + ICA (published)", "AE + ICA (rescaled)", "AE + ICA (pruned)"} <= set(names)
    assert {"β-VAE + ICA (rescaled)", "PCA + ICA (whitened)", "untrained + ICA (rescaled)"} <= set(names)
    rows = {row.name: row for row in published.rows}
    assert rows["AE + ICA (published)"].published == (0.79, 0.99, 0.52)
    assert rows["AE + ICA (rescaled)"].published == ()
    for table in (published, held_out):
        for row in table.rows:
            assert all(0 <= value <= 1.0001 for value in row.values[::2]), row.name
            assert all(error >= 0 for error in row.errors), row.name
    assert len(sweep.rows) == 2
    assert [chart.name for chart in run.summary.charts] == [
        "rooms-infom",
        "rooms-sweep",
        "constants",
        "rooms-nmi-latents",
        "rooms-nmi-components",
        "rooms-traversal-components",
        "rooms-traversal-latents",
    ]
    assert (run.folder / "figures" / "rooms-traversal-components.svg").exists()
    assert not (run.folder / "state").exists()
    for words in ("inactive latents", "selection", "Rank correlation", "factors: how far"):
        assert any(words in finding for finding in run.summary.findings), words
    run.to_html(run.folder.parent / "page.html")
    assert (run.folder.parent / "page.html").stat().st_size < 1_500_000


def test_ica_and_rotations_leave_explicitness_as_it_is(run):
    point = run.outcomes["rooms-0-ae-decay 0.1"]["steps"][-1]
    for way in ("rotated", "published", "scaled"):
        assert point["conditions"][way]["seen"]["InfoE"] == point["conditions"]["raw"]["seen"]["InfoE"]
    assert point["conditions"]["pruned"]["components"] <= 12
    assert point["geometry"]["active"]["similarity"] >= 1
    assert [each["step"] for each in run.outcomes["rooms-0-ae-decay 0.1"]["steps"]] == [15, 30]


def test_the_short_way_to_score_gives_the_same_as_the_long_one(rng):
    factors = rng.integers(4, size=(400, 3))
    latents = np.column_stack([factors + 0.4 * rng.normal(size=(400, 3)), 0.1 * rng.normal(size=400)])
    names = ("a", "b", "c")
    raw = score(names, factors, latents)
    turned = latents @ rotation(4, 0)
    short, long = score(names, factors, turned, same=raw), score(names, factors, turned)
    assert short.infom == pytest.approx(long.infom, abs=1e-12)
    assert short.infoc == pytest.approx(long.infoc, abs=1e-12)
    assert short.infoe == pytest.approx(long.infoe, abs=2e-3)
    assert np.array_equal(short.nmi, long.nmi)


@pytest.mark.parametrize("model", ["bioae", "beta_tcvae", "vqvae_decay", "qlae"])
def test_every_model_can_be_a_unit(model):
    preset = replace(TINY, models=("all",), steps=4, scored_at=(), images=150, held_out=80, scored=80)
    plan = experiment_named("disentanglement").plan(preset, None)
    unit = next(unit for unit in plan.units if unit.arguments.get("model") == model)
    outcome = experiment_named("disentanglement").run(unit, Run(preset, None, 0))
    conditions = outcome["steps"][-1]["conditions"]
    assert set(conditions) == ({"raw"} if model == "vqvae_decay" else {*conditions})
    assert ("scaled" in conditions) is (model != "vqvae_decay")
    assert outcome["steps"][-1]["lost"] > 0
    assert 0 <= conditions["raw"]["seen"]["InfoM"] <= 1


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    experiment = experiment_named("disentanglement")
    preset = replace(TINY, steps=6, scored_at=(3,), images=150, held_out=80, scored=80)
    unit = Unit("u", "u", {"scene": "rooms", "replicate": 0, "model": "ae", "setting": "decay 0.1"})
    whole = experiment.run(unit, Run(preset, None, 0))
    import isorep.models.checkpoints as kept

    monkeypatch.setattr(kept.Checkpoint, "due", lambda self: True)
    told = []

    def stop(stage, done, total):
        told.append(done)
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(unit, Run(preset, None, 0, stop, tmp_path))
    again = experiment.run(unit, Run(preset, None, 0, lambda *_: None, tmp_path))
    del whole["seconds"], again["seconds"]
    assert again == whole


def test_scenes_without_files_are_named_and_plans_follow_the_preset(tmp_path):
    experiment = experiment_named("disentanglement")
    plan = experiment.plan(SCALES["paper"], None)
    assert {unit.arguments["scene"] for unit in plan.units} == {"rooms"}
    assert [words.partition(" was left out")[0] for words in plan.skipped] == list(DATA)
    laptop = SCALES["laptop"]
    assert len(experiment.plan(laptop, None).units) == 3 * 3 * (1 + 4 + 2)
    every = experiment.plan(replace(laptop, models=("all",)), None)
    assert {unit.arguments.get("model") for unit in every.units} == {None, *MODELS}
    with pytest.raises(isorep.InputError, match="there is no model 'gan'"):
        replace(laptop, models=("ae", "gan"))
    with pytest.raises(isorep.InputError, match="must have ae among them"):
        replace(laptop, models=("beta_vae",))
    with pytest.raises(isorep.InputError, match="nothing can be run: shapes3d was left out"):
        reproduce("disentanglement", scale="paper", out=tmp_path / "run", settings={"scenes": "shapes3d"})


def _with(run, raw, scaled, pixels):
    """The outcomes with other modularities for the AE, AE + ICA and PCA + ICA, give or take by replicate."""
    outcomes = copy.deepcopy(run.outcomes)
    for outcome in outcomes.values():
        shift = 0.01 * outcome["replicate"]
        if "model" not in outcome:
            for way in ("scaled", "whitened"):
                outcome["pixels"][way]["held_out"] |= {"InfoM": pixels + shift, "InfoE": 0.5}
                outcome["untrained"][way]["held_out"] |= {"InfoM": 0.1 + shift, "InfoE": 0.5}
            continue
        for point in outcome["steps"]:
            values = {"raw": raw, "rotated": raw, "scaled": scaled} if outcome["model"] == "ae" else {"raw": 0.2}
            for way, value in values.items():
                for side in ("seen", "held_out"):
                    point["conditions"][way][side] |= {"InfoM": value + shift, "InfoE": 0.5}
    return outcomes


def test_the_verdict_follows_the_numbers(run):
    summarise = experiment_named("disentanglement").summarise
    ahead = summarise(TINY, _with(run, 0.3, 0.8, 0.5))
    assert ahead.reached is True
    assert ahead.verdict.startswith("AE + ICA is ahead of the AE, of the other models and of every control.")
    short = summarise(TINY, _with(run, 0.3, 0.8, 0.9))
    assert short.reached is None
    assert "of everything it is set beside nowhere" in short.verdict
    assert "behind PCA + ICA" in short.verdict
    none = summarise(TINY, _with(run, 0.9, 0.8, 0.9))
    assert none.reached is False
    assert none.verdict.startswith("AE + ICA is not ahead of the AE.")


def test_selection_leaves_out_what_does_not_reconstruct_and_the_replicate_itself(run):
    outcomes = copy.deepcopy(run.outcomes)
    for key, outcome in outcomes.items():
        if outcome.get("model") != "ae":
            continue
        for point in outcome["steps"]:
            point["lost"] = 1.0 if "decay 0.5" in key and point["step"] == 30 else 0.1
            own = {("decay 0.1", 15): 0.4, ("decay 0.1", 30): 0.5, ("decay 0.5", 15): 0.6, ("decay 0.5", 30): 0.9}
            value = own[outcome["setting"], point["step"]]
            if outcome["replicate"] == 0 and (outcome["setting"], point["step"]) == ("decay 0.1", 15):
                value = 0.95  # the first replicate's own fancy must not choose for itself
            point["conditions"]["scaled"]["seen"]["InfoM"] = value
            point["conditions"]["scaled"]["held_out"]["InfoM"] = value - 0.1
    reading = Reading(TINY, outcomes)
    chosen = reading.as_published("rooms", "ae", "scaled")
    assert chosen.choice == ("decay 0.1", 15)  # mean 0.675; the best of all, 0.9, does not reconstruct
    assert chosen.values("InfoM") == pytest.approx([0.95, 0.4])
    honest = reading.held_out("rooms", "ae", "scaled")
    # Replicate 0 is given what replicate 1 likes best, and the other way round.
    assert honest.values("InfoM") == pytest.approx([0.6 - 0.1, 0.4 - 0.1])


@pytest.mark.parametrize(
    ("ours", "theirs", "explicit", "answer"),
    [
        ([0.8, 0.82, 0.81], [0.3, 0.31, 0.33], (0.5, 0.5), "ahead"),
        ([0.8, 0.82, 0.81], [0.3, 0.31, 0.33], (0.5, 0.6), "ahead, but less explicit"),
        ([0.3, 0.31, 0.33], [0.8, 0.82, 0.81], (0.5, 0.5), "behind"),
        # Three standard errors, but with three replicates an interval reaches 4.3 of them.
        ([0.8, 0.82, 0.87], [0.75, 0.75, 0.75], (0.5, 0.5), "not shown"),
    ],
)
def test_a_difference_is_shown_beyond_what_so_few_replicates_vary(ours, theirs, explicit, answer):
    made = [
        Chosen(tuple({"InfoM": value, "InfoE": level, "InfoC": 0.5} for value in values), None)
        for values, level in zip((ours, theirs), explicit, strict=True)
    ]
    assert compared("other", *made).answer == answer


def test_published_files_are_split_once_and_settings_are_the_published_ones(monkeypatch, tmp_path):
    rooms = Rooms(size=8).draw(60, seed=0, continuous=False)
    plain = FactorImages(
        "shapes3d", rooms.factor_names, rooms.factor_sizes, rooms.factors, None, (8, 8, 3), rooms.images
    )
    monkeypatch.setattr(disentanglement_settings, "load", lambda name, folder: plain)
    preset = replace(SCALES["paper"], held_out=10, images=None)
    made = [disentanglement_settings.material("shapes3d", replicate, Run(preset, tmp_path, 0)) for replicate in (0, 1)]
    assert made[0] is made[1]
    assert made[0].images.shape == (50, 3, 8, 8)
    assert made[0].held_out.shape == (10, 3, 8, 8)
    assert made[0].latents == 12
    assert made[0].rendered is None
    both = np.concatenate([made[0].factors, made[0].held_out_factors])
    assert sorted(map(tuple, both)) == sorted(map(tuple, rooms.factors))
    found = {model: settings_of(model, "falcor3d", SCALES["paper"]) for model in ("beta_vae", "qlae", "ae", "vqvae")}
    assert [setting.arguments for setting in found["beta_vae"]] == [{"beta": 10.0}]
    assert [setting.weight_decay for setting in found["qlae"]] == [0.1]
    assert [setting.weight_decay for setting in found["ae"]] == list(SCALES["paper"].weight_decays)
    (small,) = settings_of("bioae", "rooms", SCALES["laptop"])
    assert small.weight_decay == pytest.approx(1e-4 * 200_000 / 1200)
    disentanglement_settings._made.cache_clear()
