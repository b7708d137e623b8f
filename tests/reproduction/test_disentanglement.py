"""The disentanglement experiment: published numbers, a run end to end, selection and claims."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.datasets import FactorImages, Rooms, factor_splits
from isorep.disentangling import unmixing
from isorep.reproduction import Run, Unit, experiment_named, reproduce
from isorep.reproduction import disentanglement as scoring
from isorep.reproduction.disentanglement import DATA, MODELS, SCALES, score, settings_of
from isorep.reproduction.disentanglement_summary import AGGREGATED, TABLE, Selection, summarise

from ..data import rotation

pytest.importorskip("torch")

from isorep.models.disentangling import method_named

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
    assert TABLE["ae", "published"][list(DATA).index("shapes3d")] == (0.79, 0.99, 0.52)
    assert TABLE["beta_vae", "raw"][list(DATA).index("falcor3d")] == (0.71, 0.73, 0.70)
    for row, scores in AGGREGATED.items():
        means = np.mean(TABLE[row], axis=0)
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
    assert len(run.summary.claims) == 6
    controls = run.outcomes["rooms-0-controls"]
    assert controls["generator"]["similarity"] >= 1
    assert set(controls["generator"]["stretch"]) <= set(controls["names"])
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


def test_spatial_networks_start_from_the_mean_image():
    preset = replace(TINY, scenes=("sprites",), network="spatial", size=16, images=150, held_out=80, scored=80)
    images = factor_splits.factor_split("sprites", 0, 0, preset.images, preset.held_out, preset.size, None)
    bench = scoring.Bench(images, preset, 0)
    for method in ("ae", "beta_vae"):
        module = bench.builder(method_named(method))(0)
        mean = images.images.mean(0) / 255
        np.testing.assert_allclose(module.encoder.mean, mean, atol=1e-6)
        logits = np.log(np.clip(mean, 0.02, 0.98) / (1 - np.clip(mean, 0.02, 0.98)))
        np.testing.assert_allclose(module.decoder.bias.detach(), logits, atol=1e-4)
    plain = replace(bench, preset=replace(preset, network="dense")).builder(method_named("ae"))(0)
    assert not hasattr(plain.encoder, "mean")
    with pytest.raises(isorep.InputError, match="learning_rate is 0"):
        replace(preset, learning_rate=0.0)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    experiment = experiment_named("disentanglement")
    preset = replace(TINY, steps=6, scored_at=(3,), images=150, held_out=80, scored=80)
    unit = Unit("u", "u", {"scene": "rooms", "replicate": 0, "model": "ae", "setting": "decay 0.1"})
    whole = experiment.run(unit, Run(preset, None, 0))
    import isorep.models.loop as kept

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


def test_factors_of_faces_are_scored_as_classes_that_images_share(tmp_path, rng):
    values = rng.normal(size=(400, 3)).astype(np.float32)
    np.savez(tmp_path / "faces.npz", images=np.zeros((400, 32, 32), np.uint8), factors=values)
    made = factor_splits.factor_split("faces", 0, 0, None, 100, 32, tmp_path)
    assert (len(made.images), len(made.held_out)) == (300, 100)
    own, noise = (
        score(made.names, made.factors, latents) for latents in (made.factors + 0.0, rng.normal(size=(300, 3)))
    )
    assert own.infom > 0.75
    assert own.infoe > noise.infoe + 0.5, "an image does not have a class of its own"


def test_scenes_without_files_are_named_and_plans_follow_the_preset(tmp_path):
    experiment = experiment_named("disentanglement")
    plan = experiment.plan(SCALES["paper"], None)
    assert {unit.arguments["scene"] for unit in plan.units} == {"rooms"}
    assert [words.partition(" was left out")[0] for words in plan.skipped] == list(DATA)
    laptop = SCALES["laptop"]
    assert len(experiment.plan(laptop, None).units) == 3 * 3 * (1 + 4 + 2)
    every = experiment.plan(replace(laptop, models=("all",)), None)
    assert {unit.arguments.get("model") for unit in every.units} == {None, *MODELS}
    with pytest.raises(isorep.InputError, match="models gan: choose from"):
        replace(laptop, models=("ae", "gan"))
    with pytest.raises(isorep.InputError, match="must include ae"):
        replace(laptop, models=("beta_vae",))
    with pytest.raises(isorep.InputError, match="nothing can be run: shapes3d was left out"):
        reproduce("disentanglement", scale="paper", out=tmp_path / "run", settings={"scenes": "shapes3d"})


# Claims ---------------------------------------------------------------------------------------------------------------


def scored(modular, explicit=0.5):
    return {side: {"InfoM": modular, "InfoE": explicit, "InfoC": 0.5} for side in ("seen", "held_out")}


def constructed(scaled, raw=(0.3, 0.31, 0.33), explicit=0.5, beta=0.2, rotated=0.2, pixels=0.1, untrained=0.1, **more):
    """Outcomes of an AE with two weight decays and a β-VAE, one replicate for each value of ``scaled``."""
    outcomes = {}
    for place, value in enumerate(scaled):
        about = {"scene": more.get("scene", "rooms"), "replicate": place, "names": ["x"]}
        controls = {"pixels": {"raw": scored(0.0), "scaled": scored(pixels)}}
        outcomes[f"controls-{place}"] = about | controls | {"untrained": {"scaled": scored(untrained)}}
        for decay, constant in more.get("constants", {"decay 0.1": 2.0, "decay 1": 3.0}).items():
            ways = {"raw": scored(raw[place], explicit), "rotated": scored(rotated), "scaled": scored(value)}
            ways |= {"published": scored(value), "whitened": scored(value), "pruned": scored(value)}
            geometry = {"active": {"similarity": constant, "median_condition": 1.5}, "directions": 3}
            point = {"step": 9, "lost": 0.1, "conditions": ways, "geometry": geometry}
            outcomes[f"ae-{decay}-{place}"] = about | {"model": "ae", "setting": decay, "steps": [point]}
        point = {"step": 9, "lost": 0.1, "conditions": {"raw": scored(beta)}}
        outcomes[f"beta-{place}"] = about | {"model": "beta_vae", "setting": "beta 1", "steps": [point]}
    return outcomes


AHEAD = (0.8, 0.82, 0.81)


@pytest.mark.parametrize(
    ("place", "beaten", "level"),
    [
        (0, {"raw": (0.9, 0.93, 0.91)}, {"raw": (0.75, 0.82, 0.8)}),
        (1, {"beta": 0.9}, {"beta": 0.81}),
        (2, {"rotated": 0.9}, {"rotated": 0.81}),
        (3, {"pixels": 0.9}, {"pixels": 0.81}),
        (4, {"untrained": 0.9}, {"untrained": 0.81}),
    ],
)
def test_ae_and_ica_is_ahead_level_or_behind_by_the_interval_over_replicates(place, beaten, level):
    assert summarise(TINY, constructed(AHEAD)).claims[place].holds is True
    assert summarise(TINY, constructed(AHEAD, **beaten)).claims[place].holds is False
    assert summarise(TINY, constructed(AHEAD, **level)).claims[place].holds is None


def test_the_first_claim_needs_every_scene_the_replicates_and_comparable_explicitness():
    ahead = summarise(TINY, constructed(AHEAD))
    assert ahead.reached is True
    assert ahead.verdict.startswith("The published effect is seen. Published: AE + ICA is more modular than the AE")
    both = constructed(AHEAD) | {
        f"s-{key}": value for key, value in constructed(AHEAD, raw=(0.9, 0.92, 0.93), scene="squares").items()
    }
    behind = summarise(TINY, both)
    assert behind.reached is False
    assert "minus that of AE in squares" in behind.claims[0].measure
    # Three standard errors, but with three replicates an interval reaches 4.3 of them.
    assert summarise(TINY, constructed((0.8, 0.82, 0.87), raw=(0.75, 0.75, 0.75))).reached is None
    less = summarise(TINY, constructed(AHEAD, explicit=0.6))
    assert less.reached is None, "ahead, but less explicit"
    assert "InfoE −0.10" in less.claims[0].measure
    assert summarise(TINY, constructed((0.3, 0.3), raw=(0.3, 0.3))).reached is False, "no difference is not ahead"


def test_what_was_not_run_or_is_not_known_decides_nothing():
    nothing = summarise(TINY, {})
    assert (nothing.verdict, nothing.tables, nothing.charts) == ("Nothing was measured.", (), ())
    alone = {key: value for key, value in constructed(AHEAD).items() if key.startswith("ae")}
    texts = [each.text for each in summarise(TINY, alone).claims]
    assert [text.split(" (a control")[0][-9:] for text in texts[:2]] == ["an the AE", "s latents"]
    unknown = summarise(TINY, constructed((0.8, 0.82), explicit=None))
    assert unknown.claims[0].holds is None, "explicitness is not known"
    constant = summarise(TINY, constructed((0.8, 0.82), raw=(None, None)))
    assert (constant.reached, "unknown" in constant.claims[0].measure) == (None, True)


def test_the_decoder_s_constant_is_judged_by_its_rank_correlation_over_enough_runs():
    constants = {f"decay {place}": float(place) for place in range(1, 5)}
    outcomes = constructed((0.8, 0.82, 0.81), constants=constants)
    for sign, holds in ((-1, True), (1, False)):
        for outcome in outcomes.values():
            if outcome.get("model") == "ae":
                (point,) = outcome["steps"]
                level = point["geometry"]["active"]["similarity"]
                point["conditions"]["scaled"] = scored(0.5 + sign * 0.1 * level + 0.001 * outcome["replicate"])
        found = summarise(TINY, outcomes)
        assert (found.claims[-1].rule, found.claims[-1].holds) == ("below 0", holds)
    few = {key: value for key, value in outcomes.items() if key.endswith("0")}
    assert summarise(TINY, few).claims[-1].holds is None
    for outcome in outcomes.values():
        if outcome.get("model") == "ae":
            outcome["steps"][0]["geometry"]["active"]["similarity"] = None
    assert len(summarise(TINY, outcomes).claims) == 5, "decoders without a constant"


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
    selection = Selection(TINY, outcomes)
    # Decay 0.1 after step 15 has the mean 0.675; the best of all, 0.9, does not reconstruct.
    chosen = selection.scores("rooms", "ae", "scaled", "seen")
    assert [each["InfoM"] for each in chosen.values()] == pytest.approx([0.95, 0.4])
    # Replicate 0 is given what replicate 1 likes best, and the other way round.
    honest = selection.scores("rooms", "ae", "scaled")
    assert [each["InfoM"] for each in honest.values()] == pytest.approx([0.6 - 0.1, 0.4 - 0.1])


def test_published_files_are_split_once_and_settings_are_the_published_ones(monkeypatch, tmp_path):
    rooms = Rooms(size=8).draw(60, seed=0, continuous=False)
    plain = FactorImages(
        "shapes3d", rooms.factor_names, rooms.factor_sizes, rooms.factors, None, (8, 8, 3), rooms.images
    )
    monkeypatch.setattr(factor_splits, "load", lambda name, folder: plain)
    made = factor_splits.factor_split("shapes3d", 0, 0, None, 10, 8, tmp_path)
    assert made.images.shape == (50, 3, 8, 8)
    assert made.held_out.shape == (10, 3, 8, 8)
    assert made.rendered is None
    both = np.concatenate([made.factors, made.held_out_factors])
    assert sorted(map(tuple, both)) == sorted(map(tuple, rooms.factors))
    found = {model: settings_of(model, "falcor3d", SCALES["paper"]) for model in ("beta_vae", "qlae", "ae", "vqvae")}
    assert [setting.arguments for setting in found["beta_vae"]] == [{"beta": 10.0}]
    assert [setting.weight_decay for setting in found["qlae"]] == [0.1]
    assert [setting.weight_decay for setting in found["ae"]] == list(SCALES["paper"].weight_decays)
    (small,) = settings_of("bioae", "rooms", SCALES["laptop"])
    assert small.weight_decay == pytest.approx(1e-4 * 200_000 / 1200)
    factor_splits.factor_split.cache_clear()
