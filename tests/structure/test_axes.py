"""Random axes, and every sentence about factors: a case where it is true, and a neighbouring one where it is not."""

import json

import numpy as np
import pytest
from scipy import stats

import isorep
from isorep.resampling import null_of
from isorep.structure import result
from isorep.structure.axes import Basis, _resolution, alone, axes_p_values, random_axes
from isorep.structure.columns import Pair, as_columns, paired
from isorep.structure.families import ALIGNED, FAMILIES, Task, chances

from .worlds import quantised


def plane(degrees):
    angle = np.radians(degrees)
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def uniform(n, d, seed):
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, d))


def scored(latents, factors, n_null=39, **options):
    return isorep.score_factors(
        latents, factors, scores="infomec", ladder=False, n_resamples=0, n_null=n_null, **options
    )


def states(found):
    return [each.state for each in found.factors]


# The null -----------------------------------------------------------------------------------------------------------


def test_whitening_of_turned_latents_is_the_turned_whitening():
    s = uniform(300, 3, 0)
    s = (s - s.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(s.T, bias=True))).T
    turn = stats.ortho_group.rvs(3, random_state=0)
    whole = np.ones(3, dtype=bool)
    one, other = Basis(as_columns(s, "latents"), whole), Basis(as_columns(s @ turn, "latents"), whole)
    assert np.allclose(one.columns(np.eye(3)).matrix, s)
    assert np.allclose(other.columns(np.eye(3)).matrix, s @ turn)
    mixed = Basis(as_columns(s @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0.3, 2]]), "latents"), whole)
    assert np.allclose(np.cov(mixed.columns(np.eye(3)).matrix.T, bias=True), np.eye(3))


def test_dependent_constant_and_discrete_latents_have_a_basis():
    s = uniform(200, 2, 1)
    latents = as_columns(
        {"a": s[:, 0], "b": s[:, 1], "again": 3 * s[:, 0], "code": np.arange(200) % 3, "flat": np.ones(200)}, "latents"
    )
    basis = Basis(latents, np.array([True, True, True, True, False]))
    assert basis.rank == 2
    turned = basis.columns(basis.turn((0, 1)))
    assert turned.names == ("a", "b", "again", "code")
    assert np.allclose(turned[0].values, turned[2].values)
    assert np.array_equal(turned[3].values, latents[3].values)


def test_correlations_that_turn_are_those_of_the_turned_latents():
    s = uniform(150, 3, 2)
    factors = as_columns({"number": s[:, 0], "label": np.digitize(s[:, 1], [-0.3, 0.4])}, "factors")
    basis = Basis(as_columns(s, "latents"), np.ones(3, dtype=bool))
    turn = basis.turn((3,))
    found = basis.explained(factors, [turn])[0]
    for j, latent in enumerate(basis.columns(turn)):
        assert found[0, j] == pytest.approx(np.corrcoef(s[:, 0], latent.values)[0, 1] ** 2)
        means = [latent.values[factors[1].values == label].mean() for label in range(3)]
        assert found[1, j] == pytest.approx(np.bincount(factors[1].codes) @ np.square(means) / 150)


@pytest.mark.parametrize("families", [["mig", "sap", "modularity"], ["infomec", "mcc"]])
def test_p_values_of_a_random_rotation_of_uniform_factors_are_uniform(families):
    p_values = {}
    for seed in range(20):
        s = uniform(100, 3, seed)
        z = s @ stats.ortho_group.rvs(3, random_state=1000 + seed)
        task = Task(paired(s, z), None, seed, "range/20", 10, "binned", None)
        rows = dict.fromkeys(families, np.arange(100))
        for name, null in random_axes(task, families, 19, rows, None, lambda: None).nulls.items():
            p_values.setdefault(name, []).append(null.p_value)
    assert set(p_values) == {name for family in families for name in FAMILIES[family].outputs} & set(ALIGNED)
    for name, values in p_values.items():
        assert stats.kstest(np.array(values) - 1 / 40, "uniform").pvalue > 1e-3, (name, values)


def test_in_random_axes_any_factor_passes_in_one_of_twenty_and_an_aligned_one_always():
    rng = np.random.default_rng(0)
    passed = [np.any(axes_p_values(rng.random((40, 3)), rng.random((40, 3))) <= 0.05) for _ in range(200)]
    assert np.mean(passed) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    statistic = 0.9 * rng.random((40, 3))
    statistic[0] = 1.0
    assert axes_p_values(statistic, rng.random((40, 3)) + (np.arange(40) == 0)[:, None]).tolist() == [1 / 40] * 3
    assert axes_p_values(np.ones((40, 2))).tolist() == [1.0, 1.0]


def test_a_factor_is_alone_in_a_latent_or_shares_it_or_is_hardly_known():
    assert alone(np.array([[0.9, 0.0], [0.0, 0.5]])).tolist() == [1.0, 1.0]
    assert alone(np.array([[0.5, 0.5], [0.5, 0.0]])).tolist() == pytest.approx([0.25, 0.5])
    assert alone(np.array([[0.01, 0.0], [0.0, 0.9]]), np.full(2, 0.01)).tolist() == pytest.approx(
        [0.25, 0.978], abs=1e-3
    )
    assert alone(np.zeros((1, 2))).tolist() == [0.0]


def test_discrete_or_single_latents_have_no_random_axes():
    s, z = quantised(300)
    found = scored(z, s, n_null=19)
    assert found["infom"].axes is None
    assert any("no random-axes null: fewer than two continuous latents" in each for each in found.caveats)
    assert states(found)[0] == "split"  # in a copy and in a copy with errors
    assert scored(z[:, :2], s, n_null=19).factors[0].state == "captured"
    single = scored(uniform(100, 1, 0), uniform(100, 1, 0), n_null=19)
    assert single.verdict.answer == "recovered"
    assert single.factors[0].axes_p is None


# What is said -------------------------------------------------------------------------------------------------------


def test_a_random_rotation_has_no_latents_of_its_own():
    captured = 0
    for seed in range(6):
        s = uniform(120, 3, seed)
        found = scored(s @ stats.ortho_group.rvs(3, random_state=seed), s, n_null=19)
        captured += states(found).count("captured")
        assert {each.state for each in found.latents if each.factor} <= {"mixed", "undecided", "pure"}
    assert captured <= 3  # of 18; at most one of twenty rotations has any


@pytest.mark.parametrize("degrees", [0, 35])
def test_two_gaussians_have_their_latents_or_are_turned(degrees):
    s = np.random.default_rng(0).normal(size=(400, 2))
    found = scored(s @ plane(degrees), s, n_null=99)
    said = str(found.verdict)
    if degrees:
        assert set(states(found)) <= {"undecided", "mixed", "split", "mixed and split"}
        assert "latents inform about 2 of 2 factors (InfoE 1.00 against 0." in said
        assert "their axes are indistinguishable from random axes: whitened, InfoM 0." in said
        assert min(found["infom"].axes.p_value, found["infoc"].axes.p_value) > 0.3
        assert not {each.state for each in found.latents} & {"pure"}
    else:
        assert said == "All 2 factors have a latent of their own (s0 z0, s1 z1)."
        assert {each.state for each in found.latents} == {"pure"}
        assert found["infom"].axes_corrected > 0.9


def rounded(z):
    return np.round(10 * z).astype(int)


def coarse(z):
    return np.round(2 * z)


def signs(z):
    return z > 0


@pytest.mark.parametrize(("code", "degrees"), [(rounded, 0), (rounded, 35), (coarse, 0), (coarse, 35), (signs, 35)])
def test_rounded_latents_have_their_factors_or_are_turned(code, degrees):
    s = np.random.default_rng(0).normal(size=(400, 2))
    found = scored(code(s @ plane(degrees)), s, n_null=19)
    assert all(column["discrete"] for column in found.columns["latents"])
    if degrees:
        assert set(states(found)) <= {"undecided", "mixed", "split", "mixed and split"}
        assert all(each.axes_p > 0.2 for each in found.factors)
        assert "None of 2 factors is shown to have a latent of its own" in str(found.verdict)
    else:
        assert str(found.verdict) == "All 2 factors have a latent of their own (s0 z0, s1 z1)."


@pytest.mark.parametrize(("degrees", "told"), [(0, False), (6, True)])
def test_of_undecided_factors_in_two_latents_it_is_said_what_could_be_told(degrees, told):
    s = uniform(250, 2, 3)
    found = scored(s @ plane(degrees), s, n_null=99)
    assert set(states(found)) == ({"undecided"} if told else {"captured"})
    notes = [each for each in found.caveats if "span a plane" in each]
    assert len(notes) == told
    assert all("z0 and z1" in each and "within 2.2 degrees" in each and "would determine" not in each for each in notes)


@pytest.mark.parametrize("factors", [1, 2])
def test_the_angle_of_two_latents_is_known_as_exactly_as_is_said(factors):
    rng = np.random.default_rng(0)
    angles = []
    for _ in range(400):
        s = rng.normal(size=(150, 2))
        latents = as_columns(np.sign(s) + 0.1 * rng.normal(size=s.shape), "latents")
        x, y = s - s.mean(axis=0), Basis(latents, np.ones(2, dtype=bool)).columns(np.eye(2)).matrix
        c = (x / x.std(axis=0)).T @ y
        both = np.arctan2(c[0, 1] - c[1, 0], c[0, 0] + c[1, 1])
        angles.append(np.degrees(both if factors == 2 else np.arctan2(c[0, 1], c[0, 0])))
    r2 = np.full((factors, 2), np.corrcoef(s[:, 0], latents[0].values)[0, 1] ** 2)
    said = _resolution(("a", "b"), r2, 150)
    within = float(said.split("±")[1].split()[0])
    assert within == pytest.approx(2 * np.std(angles), rel=0.25)
    needed = int(said.split("about ")[2].split()[0])
    assert "would determine" not in _resolution(("a", "b"), r2, needed)


def test_signs_have_their_factors_once_rows_are_enough():
    s = np.random.default_rng(0).normal(size=(2000, 2))
    assert states(scored(signs(s), s)) == ["captured", "captured"]


def test_rounded_latents_of_a_turned_plane_beside_aligned_ones_are_seen():
    s = np.random.default_rng(1).normal(size=(400, 4))
    turn = np.eye(4)
    turn[2:, 2:] = plane(35)
    found = scored(np.round(5 * s @ turn).astype(int), s)
    assert states(found)[:2] == ["captured", "captured"]
    assert not {"captured"} & set(states(found)[2:])


def test_turned_codes_have_the_values_of_the_codes():
    codes = as_columns({"a": np.arange(60) % 3, "b": np.arange(60) % 2, "name": ["x", "y"] * 30}, "latents")
    basis = Basis(codes, np.ones(3, dtype=bool), codes=True)
    assert basis.rank == 2
    for seed in (None, (4,)):
        turned = basis.columns(basis.turn(seed))
        assert [np.bincount(each.codes).tolist() for each in turned] == [[20] * 3, [30] * 2, [30] * 2]
        assert turned[2].text
        assert np.array_equal(turned[0].values, codes[0].values) == (seed is None)


def test_a_plane_turned_beside_aligned_latents_is_seen():
    s = uniform(300, 4, 0)
    turn = np.eye(4)
    turn[2:, 2:] = plane(30)
    found = scored(s @ turn + 0.02 * np.random.default_rng(1).normal(size=s.shape), s)
    assert states(found)[:2] == ["captured", "captured"]
    assert not {"captured"} & set(states(found)[2:])
    assert found.verdict.answer == "partly"
    assert str(found.verdict).startswith("2 of 4 factors have a latent of their own (s0 z0, s1 z1)")
    assert "indistinguishable from random axes" not in str(found.verdict)


def test_weak_but_significant_information_counts_in_shares():
    rng = np.random.default_rng(3)
    s = rng.normal(size=(1500, 2))
    z = np.column_stack([s[:, 0] + 0.7 * s[:, 1], s[:, 1]]) + 0.5 * rng.normal(size=s.shape)
    found = scored(z, s)
    low = found.information.nmi[1, 0]
    assert found.information.chance[1] < low < 0.05  # below the floor that hid it
    assert "z0" in found.factors[1].latents


def test_an_outlier_leaves_the_other_latents_active_and_their_information_whole():
    s = uniform(300, 3, 4)
    z = s + 0.02 * np.random.default_rng(0).normal(size=s.shape)
    plain = isorep.structure.infomec(s, z)
    z[7, 0] = -1e7
    found = isorep.structure.infomec(s, z)
    assert found.active.all()
    assert np.allclose(np.diag(found.nmi), np.diag(plain.nmi), atol=0.05)
    assert states(scored(z, s)) == ["captured"] * 3
    z[:30, 0] = -1e7  # a tenth of the rows is no outlier
    assert isorep.structure.infomec(s, z).active.tolist() == [True, False, False]


def test_a_factor_in_a_latent_that_hardly_varies_is_not_lost():
    s = uniform(200, 1, 5)
    noise = np.random.default_rng(0).normal(size=(200, 2))
    found = scored(np.column_stack([1e-3 * s, noise]), s)
    assert states(found) == ["inactive"]
    assert "only in latents that hardly vary: s0" in str(found.verdict)
    assert states(scored(noise, s)) == ["lost"]


@pytest.mark.parametrize(("degrees", "least", "most"), [(0, 0.999, 0.02), (10, 0.5, 0.1), (45, 0.1, 0.4)])
def test_a_grid_that_is_turned_is_continuous_and_does_not_determine_both_factors(degrees, least, most):
    s = np.random.default_rng(0).integers(8, size=(1500, 2))
    found = isorep.structure.infomec(s, s @ plane(degrees) + 0.05)
    assert least < np.diag(found.nmi).min() <= np.diag(found.nmi).max() <= 1
    assert found.nmi[0, 1] < most
    assert found.nmi[1, 0] < most
    columns = as_columns(s @ plane(degrees) + 0.05, "latents")
    assert [column.discrete for column in columns] == [False, False]
    assert [column.discrete for column in as_columns(s.astype(float), "latents")] == [True, True]
    assert [column.discrete for column in as_columns(s + 0.05, "factors")] == [True, True]


def test_normalised_information_is_at_most_one():
    values = np.random.default_rng(0).normal(size=(300, 1))
    for k in (3, 10):
        found = isorep.structure.infomec(values, np.hstack([values, -values, values**3]), n_neighbors=k)
        assert found.nmi.max() <= 1


def test_latents_of_noise_do_not_count_in_infom():
    s = uniform(300, 2, 6)
    noise = np.random.default_rng(1).normal(size=(300, 6))
    without, beside = scored(s, s), scored(np.hstack([s, noise]), s)
    assert beside["infom"].value == pytest.approx(without["infom"].value, abs=0.05)
    assert beside["infom"].value > 0.9 > isorep.structure.infomec(s, np.hstack([s, noise])).infom
    assert [each.state for each in beside.latents][:2] == ["pure", "pure"]
    assert [each.state for each in beside.latents].count("uninformative") >= 5
    task = Task(paired(s, noise), None, 0, "range/20", 10, "binned", None)
    null = chances(task, ["infomec"], 39, np.random.default_rng(0), lambda: None)
    assert null.nulls["infom"].mean < 0.5


@pytest.mark.parametrize("n_null", [0, 18, 19])
def test_too_few_shuffles_say_nothing_about_single_factors(n_null):
    s = uniform(60, 2, 7)
    found = scored(s, s, n_null=n_null)
    if n_null < 19:
        assert found.verdict.answer == "not asked"
        assert str(found.verdict).startswith("Too few shuffles to estimate chance")
        assert states(found) == ["untested", "untested"]
        assert found.information.chance is None
    else:
        assert found.verdict.answer in ("recovered", "partly", "not recovered")
        assert "untested" not in states(found)
    assert str(found)


# Sentences by rule --------------------------------------------------------------------------------------------------


def read(nmi, significant=None, active=None, axes=None, explicit=1.0):
    nmi = np.array(nmi)
    factors, latents = nmi.shape
    rng = np.random.default_rng(0)
    pair = Pair(
        as_columns(rng.normal(size=(9, factors)), "factors"), as_columns(rng.normal(size=(9, latents)), "latents")
    )
    names = pair.factors.names
    evidence = result.Evidence(
        nmi,
        np.ones(latents, dtype=bool) if active is None else np.array(active),
        dict.fromkeys(names, 0.8),
        nmi > 0.01 if significant is None else np.array(significant),
        np.full(factors, 0.01),
        dict.fromkeys(names, explicit),
        dict.fromkeys(names, 0.01) if axes is None else axes,
    )
    return result.read_factors(pair, evidence), result.read_latents(pair, evidence)


@pytest.mark.parametrize(
    ("options", "state", "words"),
    [
        ({"nmi": [[0.9, 0.0]]}, "captured", "s0 is captured by z0 (share 1.00, purity 1.00)"),
        ({"nmi": [[0.9, 0.0]], "axes": {"s0": 0.05}}, "captured", "s0 is captured by z0"),
        ({"nmi": [[0.9, 0.0]], "axes": {"s0": 0.06}}, "undecided", "more than in random axes (p 0.06)"),
        ({"nmi": [[0.9, 0.0]], "axes": {}}, "captured", "s0 is captured by z0"),
        ({"nmi": [[0.6, 0.2]]}, "captured", "share 0.75"),
        ({"nmi": [[0.5, 0.4]]}, "split", "s0 is split across z0, z1"),
        ({"nmi": [[0.5, 0.4]], "significant": [[True, False]]}, "captured", "share 1.00"),
        ({"nmi": [[0.6, 0.0], [0.5, 0.0]]}, "mixed", "s0 is in z0 together with s1"),
        ({"nmi": [[0.5, 0.4], [0.5, 0.0]]}, "mixed and split", "split across z0, z1, which also hold s1"),
        ({"nmi": [[0.9, 0.0]], "active": [False, True]}, "inactive", "only in latents that hardly vary: z0"),
        ({"nmi": [[0.9, 0.3]], "active": [False, True]}, "captured", "s0 is captured by z1"),
        ({"nmi": [[0.005, 0.0]]}, "lost", "nor do all together by a linear map"),
        ({"nmi": [[0.005, 0.0]], "explicit": 0.01}, "spread", "all together explain it (explicitness 0.80)"),
    ],
)
def test_each_state_has_its_rule(options, state, words):
    reading = read(**options)[0][0]
    assert reading.state == state
    assert words in reading.sentence


def test_each_state_of_a_latent_has_its_rule():
    nmi = [[0.9, 0.3, 0.0, 0.8, 0.0], [0.0, 0.3, 0.0, 0.0, 0.5]]
    active = [True, True, True, False, True]
    found = read(nmi, active=active, axes={"s0": 0.01, "s1": 0.5})[1]
    assert [each.state for each in found] == ["pure", "mixed", "uninformative", "inactive", "undecided"]


def scores(p):
    draws = np.linspace(0.2, 0.4, 99)
    observed = float(np.quantile(draws, 1 - p)) if p > 0.02 else 0.9
    null = null_of(draws, observed, higher_is_closer=True, method="random axes")
    told = {name: result.Score(name, observed, None, None, null) for name in ("infom", "infoc")}
    return told | {"infoe": result.Score("infoe", 0.9, None, null_of(draws, 0.9, higher_is_closer=True))}


@pytest.mark.parametrize(("p", "axes", "arbitrary"), [(0.5, 0.5, True), (0.01, 0.5, False), (0.5, 0.01, False)])
def test_axes_are_called_arbitrary_only_if_nothing_speaks_against_it(p, axes, arbitrary):
    readings = read([[0.5, 0.4], [0.4, 0.5]], axes={"s0": axes, "s1": 0.5})[0]
    said = str(result.judge(readings, scores(p)))
    assert ("indistinguishable from random axes" in said) == arbitrary
    assert "latents inform about 2 of 2 factors (InfoE 0.90 against 0.30 in shuffled rows)" in said
    assert "against 0.30 in random axes" in said


def test_axes_are_not_spoken_of_where_nothing_is_known_or_something_is_captured():
    assert "axes" not in str(result.judge(read([[0.005, 0.0]])[0], scores(0.5)))
    assert "axes" not in str(result.judge(read([[0.9, 0.0], [0.0, 0.005]])[0], scores(0.5)))
    assert "random axes (" not in str(result.judge(read([[0.5, 0.4]])[0], {}))


def test_both_chance_levels_are_in_the_tables_the_json_and_on_the_page(tmp_path):
    s = uniform(100, 2, 8)
    found = isorep.score_factors(s, s, scores=["infomec", "mig", "linear_r2"], ladder=False, n_resamples=0, n_null=19)
    text = str(found)
    for words in ("against shuffled rows", "against random axes", "whitened", "p (random"):
        assert words in text
    told = json.loads(found.to_json())
    assert told["scores"]["mig"]["axes"]["method"] == "random axes"
    assert told["scores"]["mig"]["axes"]["n"] == 19
    assert told["scores"]["mig"]["axes_corrected"] == found["mig"].axes_corrected
    assert told["scores"]["linear_r2"]["axes"] is None
    assert told["factors"][0]["axes_p"] == found.factors[0].axes_p
    found.to_html(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text()
    for words in ("chance (shuffled rows)", "chance (random axes)", "Would other axes do as well?"):
        assert words in html


# Swapped arguments --------------------------------------------------------------------------------------------------


def test_swapped_files_are_refused_and_files_in_order_are_not(tmp_path):
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{'red' if i % 2 else 'blue'},{i % 3},{rng.normal():.6f}" for i in range(60))
    (tmp_path / "factors.csv").write_text(f"colour,size,hue\n{rows}\n")
    latents = rng.normal(size=(60, 4))
    with pytest.raises(isorep.InputError, match=r"factors.csv holds text \('colour'\).*swapped"):
        isorep.score_factors(tmp_path / "factors.csv", latents)
    with pytest.raises(isorep.InputError, match="swapped"):
        isorep.structure.mig(latents, tmp_path / "factors.csv")
    assert isorep.structure.mig(tmp_path / "factors.csv", latents).value >= 0
    with pytest.raises(isorep.InputError, match="swapped"):
        isorep.score_factors({"colour": ["red", "blue"] * 30}, latents)
