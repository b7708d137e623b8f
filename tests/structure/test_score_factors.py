"""All scores at once: intervals that cover, chance that is chance, and a verdict that names the right latents."""

import json

import numpy as np
import pytest
from scipy import stats

import isorep
from isorep import structure
from isorep.structure import result
from isorep.structure.columns import paired
from isorep.structure.families import FAMILIES

from .worlds import rooms


@pytest.fixture(scope="module")
def everything():
    factors, latents = rooms(200)
    return isorep.score_factors(latents, factors, slots=1, n_resamples=3, n_null=3)


def test_every_score_is_there_with_an_interval_and_its_chance(everything):
    assert list(everything.scores) == list(structure.OUTPUTS)
    for score in everything.scores.values():
        assert score.interval.low <= score.value <= score.interval.high
        assert score.chance.p_value >= 0.25
        assert -1 <= score.value <= 1
    assert everything["explicitness"].chance.mean == pytest.approx(0.5, abs=0.08)
    assert everything["mcc_held_out"].corrected > 0.9
    assert everything.ladder.rungs["linear"].held_out.mean < everything.ladder.rungs["linear"].null.mean


def test_the_result_is_the_same_again_and_that_of_the_single_scores(everything):
    factors, latents = rooms(200)
    again = isorep.score_factors(latents, factors, slots=1, n_resamples=3, n_null=3)
    one, other = everything.to_dict(), again.to_dict()
    for part in (one, other):
        part.pop("seconds")
    assert one == other
    assert everything["mig"].value == structure.mig(factors, latents).value
    assert everything["infoe"].value == structure.infomec(factors, latents).infoe
    assert everything["dci_completeness"].value == structure.dci(factors, latents).completeness
    assert everything["sap"].value == structure.sap(factors, latents).value
    assert everything["linear_r2"].value == structure.linear_r2(factors, latents).value
    assert everything["kernel_r2"].value == structure.kernel_r2(factors, latents).value


def test_it_prints_tabulates_and_serialises(everything, tmp_path):
    text = str(everything)
    for words in ("infom", "95% interval", "verdict: Too few shuffles", "shape   untested  z0", "ladder:"):
        assert words in text
    found = json.loads(everything.to_json(tmp_path / "r.json"))
    assert found["schema"] == "isorep.structure/2"
    assert found["columns"]["factors"][3] == {"name": "hue", "discrete": False, "why": "numbers", "distinct": 200}
    assert np.array(found["information"]["nmi"]).shape == (4, 4)
    everything.to_html(tmp_path / "r.html")
    assert "Which latent knows which factor" in (tmp_path / "r.html").read_text()


def scored(latents, factors, **options):
    return isorep.score_factors(latents, factors, scores="infomec", ladder=False, n_resamples=0, **options)


def test_the_verdict_names_what_is_captured_split_mixed_and_lost(rng):
    s = {name: rng.integers(5, size=800) for name in ("floor", "wall", "hue", "size", "turn")}
    v = np.column_stack([values - 2.0 for values in s.values()])
    z = np.column_stack([v[:, 1], v[:, 0], v[:, 0], v[:, 2] + 2.3 * v[:, 3]]) + 0.1 * rng.normal(size=(800, 4))
    z = np.column_stack([z, rng.normal(size=800), 1e-3 * rng.normal(size=800)])
    found = scored(z, s)
    states = {each.name: each.state for each in found.factors}
    assert states["wall"] == "captured"
    assert states["floor"] == "split"
    assert states["turn"] == "lost"
    assert states["size"] in ("captured", "mixed")
    assert [each.state for each in found.latents][4:] == ["uninformative", "inactive"]
    assert {found.latents[1].factor, found.latents[2].factor} == {"floor"}
    assert found.verdict.answer == "partly"
    assert "wall z0" in found.verdict.sentence
    assert "not in any latent above chance: turn" in found.verdict.sentence
    assert any("2 of 6" in each or "1 of 6 latents are inactive: z5" in each for each in found.caveats)


def test_the_verdict_of_rotated_and_of_unrelated_latents(rng):
    s = rng.integers(4, size=(600, 2))
    turned = (s - 1.5) @ np.array([[1.0, 1.0], [1.0, -1.0]]) + 0.1 * rng.normal(size=(600, 2))
    found = scored(turned, s)
    assert {each.state for each in found.factors} == {"mixed and split"}
    assert found.verdict.answer == "not recovered"
    unrelated = scored(rng.normal(size=(600, 2)), s)
    assert {each.state for each in unrelated.factors} == {"lost"}
    assert str(scored(rng.normal(size=(60, 2)), np.zeros((60, 1), int)).verdict).startswith("No factor varies")


@pytest.mark.parametrize(
    ("state", "words"), [("captured", "The factor has a"), ("lost", "The factor is not shown to have a")]
)
def test_a_single_factor_is_spoken_of_as_one(state, words):
    made = [result.FactorReading("s0", state, "z0", 1, 0, 1, 1, ("z0",), None, "")]
    assert result.judge(made).sentence.startswith(words)


def test_intervals_are_as_wide_as_fresh_samples_vary():
    widths, values = [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        s = rng.integers(3, size=(200, 2))
        z = s + 0.7 * rng.normal(size=(200, 2))
        found = isorep.score_factors(z, s, scores="mig", ladder=False, n_null=0, n_resamples=12, random_state=seed)
        values.append(found["mig"].value)
        widths.append(found["mig"].interval.high - found["mig"].interval.low)
    expected = 2 * 2.2 * np.std(values, ddof=1)  # Student's quantile for 11 degrees of freedom, both sides
    assert 0.5 < np.mean(widths) / expected < 1.7


def test_groups_widen_intervals_and_few_of_them_are_refused(rng):
    group = np.repeat(np.arange(20), 15)
    s = rng.integers(3, size=20)[group]
    z = s[:, None] + rng.normal(size=(20, 1))[group] + 0.1 * rng.normal(size=(300, 1))
    options = {"scores": "mig", "ladder": False, "n_null": 3, "n_resamples": 8}
    apart, together = isorep.score_factors(z, s, **options), isorep.score_factors(z, s, groups=group, **options)
    width = {
        name: each["mig"].interval.high - each["mig"].interval.low for name, each in (("a", apart), ("t", together))
    }
    assert width["t"] > 1.5 * width["a"]
    assert together["mig"].chance.mean > apart["mig"].chance.mean
    assert together.settings["groups"] == 20
    with pytest.raises(isorep.InputError, match="at least 4 are needed to halve"):
        isorep.score_factors(z, s, groups=group % 3)


def test_groups_of_very_unequal_size_leave_out_halves_that_are_too_small(rng):
    s, z = rng.integers(3, size=(40, 2)), rng.normal(size=(40, 2))
    group = np.repeat(np.arange(5), [36, 1, 1, 1, 1])
    found = isorep.score_factors(z, s, groups=group, scores=["mig", "mcc"], ladder=False, n_resamples=4, n_null=1)
    assert all(np.isfinite(score.value) for score in found.scores.values())


def test_few_groups_are_left_out_one_at_a_time():
    """Intervals of R² and MCC are as wide as estimates differ; halves of 20 groups made R² 1.6 times as wide."""
    scores, found = ("linear_r2", "mcc", "mcc_held_out"), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(20), 10)
        s = rng.normal(size=(20, 3))[group] + 0.5 * rng.normal(size=(200, 3))
        z = s + 0.7 * rng.normal(size=s.shape)
        asked = {"scores": ["linear_r2", "mcc"], "ladder": False, "n_null": 0}
        made = isorep.score_factors(z, s, groups=group, **asked)
        found.append([(made[name].value, made[name].interval.high - made[name].interval.low) for name in scores])
    values, widths = np.moveaxis(found, 2, 0)
    expected = 2 * stats.t.ppf(0.975, 19) * values.std(axis=0, ddof=1)
    ratio = np.sqrt((widths**2).mean(axis=0)) / expected
    assert (ratio > 0.75).all(), ratio
    assert (ratio < 1.4).all(), ratio
    alone = structure.linear_r2(s, z, groups=group)
    assert alone.value == made["linear_r2"].value
    assert alone.interval == made["linear_r2"].interval


def test_p_values_compare_the_rows_that_take_part(rng):
    groups = np.repeat(np.arange(12), [30] * 6 + [27] * 6)
    s, z = rng.normal(size=(len(groups), 2)), rng.normal(size=(len(groups), 2))
    found = isorep.score_factors(z, s, groups=groups, scores=["mcc", "dci"], ladder=False, n_resamples=0, n_null=5)
    first = np.concatenate([np.flatnonzero(groups == group)[:27] for group in range(12)])
    assert found["mcc"].chance.observed == structure.mcc(s[first], z[first]).value
    assert found["mcc"].value == structure.mcc(s, z).value != found["mcc"].chance.observed
    corrected = (found["mcc"].chance.observed - found["mcc"].chance.mean) / (1 - found["mcc"].chance.mean)
    assert found["mcc"].corrected == corrected
    assert any("p-values compare 324 of 342 rows" in caveat for caveat in found.caveats)
    assert found["dci_completeness"].chance.n == 5


def test_the_smallest_p_is_a_bound_and_few_groups_are_said(rng):
    groups = np.repeat(np.arange(4), 10)
    s = rng.normal(size=(40, 2))
    options = {"scores": "mcc", "ladder": False, "n_resamples": 3}
    alone = isorep.score_factors(s, s, n_null=19, **options)
    assert alone["mcc"].chance.p_value == alone["mcc"].chance.smallest_p == 1 / 20
    assert "<= 0.05" in alone.table()
    together = isorep.score_factors(s, s, n_null=99, groups=groups, **options)
    assert together["mcc"].chance.smallest_p == pytest.approx(1 / 24)
    assert together["mcc"].chance.p_value >= 1 / 24
    assert any("only 24 different ways" in caveat for caveat in together.caveats)
    assert any("intervals are from 4 groups" in caveat for caveat in together.caveats)
    assert not any("intervals are from" in caveat for caveat in alone.caveats)


def test_slow_scores_are_shuffled_less_often_and_say_how_small_p_can_be(rng):
    s = rng.normal(size=(60, 2))
    found = isorep.score_factors(s, s, scores="dci", ladder=False, n_resamples=0, n_null=21)
    assert found["dci_disentanglement"].chance.n == 20
    assert found["dci_disentanglement"].chance.p_value == 1 / 21
    assert "<= 0.048" in found.table()


def test_degenerate_inputs_have_a_whole_result(rng):
    s, z = rng.integers(3, size=(40, 2)), rng.normal(size=(40, 2))
    for factors, latents in (
        (np.zeros((40, 2), int), z),
        (s, np.ones((40, 2))),
        (s[:6], z[:6]),
        (s[:, :1], z[:, :1]),
        ({"each": [f"{i}" for i in range(40)]}, z),
    ):
        found = isorep.score_factors(latents, factors, n_resamples=2, n_null=1)
        assert all(np.isfinite(score.value) for score in found.scores.values())
        assert str(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scores": "beta"}, "scores beta: choose from infomec"),
        ({"scores": []}, "scores is empty"),
        ({"scores": "slots"}, "how many columns each has"),
        ({"slots": 2}, "3 columns, which slots of 2"),
        ({"n_null": -1}, "n_null is -1"),
        ({"threshold": "sd"}, "choose from range/20"),
        ({"importance": "x"}, "choose from binned"),
        ({"random_state": "a"}, "random_state is 'a'"),
        ({"groups": [1, 2]}, "one label per row is needed"),
    ],
)
def test_wrong_calls_are_refused(rng, options, words):
    with pytest.raises(isorep.InputError, match=words):
        isorep.score_factors(rng.normal(size=(50, 3)), rng.integers(3, size=(50, 2)), **options)


def test_progress_counts_every_stage(rng):
    seen = []
    isorep.score_factors(
        rng.normal(size=(50, 2)),
        rng.integers(3, size=(50, 2)),
        scores=["mig", "mcc"],
        ladder=False,
        n_resamples=2,
        n_null=3,
        progress=lambda *step: seen.append(step),
    )
    assert seen[:3] == [("scores", 0, 2), ("scores", 1, 2), ("scores", 2, 2)]
    assert ("chance", 8, 8) in seen  # two families: three shuffles each, and the real pairing
    assert ("random axes", 8, 8) in seen  # as many
    assert seen[-1] == ("intervals", 27, 27)  # MIG without each of 25 blocks, MCC on two halves


def test_ids_among_factors_and_missing_intervals_are_said_aloud(rng):
    latents, factors = rng.normal(size=(60, 2)), {"row": np.arange(60), "size": rng.normal(size=60)}
    found = isorep.score_factors(latents, factors, scores="mcc", ladder=False, n_null=0, n_resamples=2)
    assert any(caveat.startswith("row differs in every row") for caveat in found.caveats)
    groups = np.r_[np.zeros(56), 1, 2, 3, 4]
    found = isorep.score_factors(latents, factors, scores="sap", ladder=False, n_null=0, groups=groups, n_resamples=2)
    assert found["sap"].interval is None
    assert any("have no interval" in caveat for caveat in found.caveats)


def test_one_captured_factor_of_several_is_spoken_of_as_one():
    found = [
        result.FactorReading(name, state, "z0", 1.0, 0.0, 1.0, 1.0, ("z0",), None, "")
        for name, state in (("a", "captured"), ("b", "lost"))
    ]
    assert str(result.judge(found)).startswith("1 of 2 factors has a latent of its own (a z0);")


def test_every_score_has_its_words_for_the_page():
    from isorep.structure.families import LEAST, OUTPUTS, SCORES

    assert set(SCORES) == set(OUTPUTS)
    assert set(LEAST) <= set(OUTPUTS)


# Repeated rows ------------------------------------------------------------------------------------------------------


def read_rows(z, s):
    return isorep.score_factors(z, s, scores="infomec", ladder=False, n_resamples=0, n_null=19)


def test_copies_of_rows_do_not_inform_about_each_other():
    rng = np.random.default_rng(0)
    five = np.repeat(np.arange(40), 5)
    z, s = rng.normal(size=(40, 2)), rng.uniform(size=(40, 2))
    independent = read_rows(z[five], s[five])
    assert {each.state for each in independent.factors} <= {"lost", "spread"}
    assert independent.settings["groups"] == 40
    said = (
        "160 of 200 rows equal an earlier row in all latents and factors: equal rows are held out and shuffled together"
    )
    assert any(said in each for each in independent.caveats)
    assert "above chance" in str(independent.verdict)
    same = read_rows(s[five], s[five])
    assert not {each.state for each in same.factors} & {"lost", "spread"}
    whole = read_rows(rng.normal(size=(200, 2)), rng.uniform(size=(200, 2)))
    assert whole.settings["groups"] is None
    assert not any("equal an earlier row" in each for each in whole.caveats)


def test_equal_labels_and_silent_latents_are_no_copies():
    rng = np.random.default_rng(1)
    s = rng.integers(3, size=(200, 2))
    labels = read_rows(s, s)
    assert labels.settings["groups"] is None
    assert not any("equal an earlier row" in each for each in labels.caveats)
    grid = read_rows(s + 0.3 * s[:, ::-1], s)  # nine different rows, drawn again and again
    assert grid.settings["groups"] is None
    assert any("and are shuffled one by one: if they were not drawn" in each for each in grid.caveats)
    x = rng.normal(size=(200, 1))
    silent = read_rows(np.maximum(np.hstack([x, x - 1]), 0), np.where(x > 0, x, 0.0))
    assert silent.settings["groups"] is None
    assert not any("equal an earlier row" in each for each in silent.caveats)


def test_many_latents_are_measured_less_often_and_costly_families_if_they_are_named(rng):
    factors = rng.normal(size=(60, 6))
    latents = np.hstack([factors, rng.normal(size=(60, 834))])
    settings = {"n_null": 0, "n_resamples": 0, "ladder": False}
    found = isorep.score_factors(latents, factors, **settings)
    left_out = "dci was left out: 840 latents and 6 factors make it slow; name it to compute it"
    assert left_out in found.caveats
    assert not set(FAMILIES["dci"].outputs) & set(found.scores)
    narrower = isorep.score_factors(latents[:, :60], factors, **settings)
    assert set(FAMILIES["dci"].outputs) <= set(narrower.scores)
    assert not any("left out" in each for each in narrower.caveats)
    pair, wide = (paired(factors, latents[:, :width]) for width in (300, 400))
    dci, mcc = FAMILIES["dci"], FAMILIES["mcc"]
    assert (mcc.shuffles(100, pair), mcc.shuffles(100, wide), mcc.shuffles(10, wide)) == (100, 20, 10)
    assert (mcc.halves(10, pair), mcc.halves(10, wide)) == (10, 5)
    assert (dci.shuffles(100, pair), dci.halves(10, pair)) == (20, 5)
