"""What scores promise: invariances, known answers, chance, and a number for every legal input."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

import isorep
from isorep import structure
from isorep.structure.dci import BoostedTrees
from isorep.structure.explicitness import Logistic

from .worlds import aligned, rooms, rotated

FUNCTIONS = ("infomec", "dci", "mig", "sap", "modularity", "explicitness", "mcc", "linear_r2", "kernel_r2")


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, float):
        yield value


def headline(found):
    names = ("value", "infom", "infoe", "infoc", "disentanglement", "completeness", "informativeness", "held_out")
    return {name: getattr(found, name) for name in names if hasattr(found, name)}


# Invariances and known answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_signs_and_scales_of_latents_do_not_matter(name):
    factors, latents = rooms(300)
    scales = [-1.0] * 4 if name == "sap" else [-1.0, 1.5, -2.0, 0.7]  # the classifier of SAP has a penalty
    moved = latents[:, [2, 0, 3, 1]] * scales
    score = getattr(structure, name)
    assert headline(score(factors, moved)) == pytest.approx(headline(score(factors, latents)), abs=0.02)


@given(st.integers(0, 500))
def test_mutual_information_scores_are_blind_to_the_order_of_latents(seed):
    rng = np.random.default_rng(seed)
    s = rng.integers(3, size=(80, 2))
    z = s + rng.normal(size=(80, 2))
    for score in (structure.mig, structure.modularity):
        assert score(s, z[:, ::-1]).value == pytest.approx(score(s, z).value, abs=1e-12)
    one, other = structure.infomec(s, z, random_state=3), structure.infomec(s, -3 * z[:, ::-1], random_state=3)
    assert (one.infom, one.infoc) == pytest.approx((other.infom, other.infoc), abs=1e-6)


def test_rotation_lowers_what_looks_at_single_latents_and_nothing_else():
    s, z = aligned(1000)
    turned = rotated(1000)[1]
    s_turned = rotated(1000)[0]
    before, after = structure.infomec(s, z), structure.infomec(s_turned, turned)
    assert after.infom < before.infom - 0.5
    assert after.infoc < before.infoc - 0.5
    assert after.infoe > 0.99
    assert structure.mcc(s_turned, turned).value < 0.75 < 0.95 < structure.mcc(s, z).value
    assert structure.linear_r2(s_turned, turned).value > 0.95


@pytest.mark.parametrize("name", FUNCTIONS)
def test_factors_recovered_one_to_one_score_one(name, rng):
    s = rng.integers(2, size=(400, 3))
    found = headline(getattr(structure, name)(s, s[:, ::-1] + 1e-3 * rng.normal(size=s.shape)))
    if name == "sap":  # the best single latent less the second, which is right half of the time
        assert found["value"] == pytest.approx(0.5, abs=0.15)
    else:
        assert min(found.values()) > 0.93


def test_unrelated_latents_score_chance(rng):
    s, z = rng.integers(4, size=(600, 3)), rng.normal(size=(600, 4))
    assert structure.infomec(s, z).infoe < 0.05
    assert structure.dci(s, z).disentanglement < 0.1
    assert structure.mig(s, z).value < 0.02
    assert structure.sap(s, z).value < 0.1
    assert structure.explicitness(s, z).value == pytest.approx(0.5, abs=0.07)
    assert abs(structure.mcc(s, z).held_out) < 0.08
    assert structure.linear_r2(s, z).value < 0.01
    assert structure.kernel_r2(s, z).value < 0.02


def test_each_of_the_three_thresholds_can_prune_a_latent(rng):
    s = rng.integers(3, size=(500, 1))
    wide = rng.uniform(-1, 1, size=500)
    narrow = 0.11 * wide[::-1]
    tailed = np.where(np.arange(500) < 50, wide, 0.01 * wide)
    z = np.column_stack([wide, narrow, tailed])
    active = {name: structure.infomec(s, z, threshold=name).active.tolist() for name in structure.THRESHOLDS}
    assert active == {"range/20": [True, True, True], "range/8": [True, False, True], "iqr/10": [True, True, False]}


def test_a_matching_chosen_on_the_rows_it_is_judged_on_flatters(rng):
    s, z = rng.normal(size=(60, 5)), rng.normal(size=(60, 40))
    found = structure.mcc(s, z)
    assert found.value > 0.25
    assert found.held_out < 0.15


def test_mcc_after_a_map_finds_what_is_mixed(rng):
    s = rng.laplace(size=(800, 3))
    z = s @ np.array([[2.0, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3
    assert structure.mcc(s, z).held_out < 0.8
    assert structure.mcc(s, z, after="linear").held_out > 0.999
    assert structure.mcc(s, z, after="ica").held_out > 0.97
    bent = structure.mcc(s, np.sinh(s), correlation="spearman")
    assert (bent.value, bent.held_out) == pytest.approx((1.0, 1.0), abs=0.01)


def test_too_few_latents_leave_factors_without_one(rng):
    s = rng.normal(size=(200, 3))
    found = structure.mcc(s, s[:, :2])
    assert found.matches == {"s0": "z0", "s1": "z1", "s2": None}
    assert found.value == pytest.approx(2 / 3, abs=1e-6)


def test_linear_r2_has_an_interval_that_holds_the_truth(rng):
    inside = 0
    for _ in range(20):
        z = rng.normal(size=(200, 1))
        found = structure.linear_r2(z + rng.normal(size=(200, 1)), z)
        inside += found.interval.low <= 0.5 <= found.interval.high
    assert inside >= 16


def test_the_ladder_climbs_from_latents_to_factors(rng):
    s = rng.laplace(size=(400, 3))
    assert structure.ladder(s, s[:, [1, 2, 0]] * [3, -1, 0.2], n_null=5).verdict.rung == "signed_permutation"
    turn = np.array([[2.0, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3
    assert structure.ladder(s, s @ turn, n_null=5, standardise=False).verdict.rung == "rigid"


def test_slots_may_differ_in_number_and_size(rng):
    z = rng.normal(size=(400, 6))
    found = structure.slot_identifiability(z, z[:, [4, 5, 0, 1]], factor_slots=2, slots=[2, 2], model="linear")
    assert found.matches == (1, -1, 0)
    assert found.value == pytest.approx(2 / 3, abs=0.05)
    alone = structure.slot_identifiability(z[:, :2], z[:, :2], slots=2, split="random", groups=np.arange(400) // 4)
    assert alone.off.tolist() == [0.0]
    assert alone.value > 0.9


def test_groups_are_held_out_together(rng):
    group = np.repeat(np.arange(12), 20)
    s = rng.normal(size=12)[group] + 0.01 * rng.normal(size=240)
    z = (group[:, None] == np.arange(12)).astype(float)  # the latents name the group, and nothing else
    assert structure.linear_r2(s, z).value > 0.99
    assert structure.linear_r2(s, z, groups=group).value < 0.1


# The machinery ----------------------------------------------------------------------------------------------------


def test_boosted_trees_are_scikit_learn_s_where_bins_hold_every_value(rng):
    x = rng.integers(6, size=(300, 3)).astype(float)
    labels = ((x[:, 0] + (x[:, 1] > 2) + rng.integers(2, size=300)) % 3).astype(float)
    for y in (labels, (labels > 0).astype(float)):
        ours, theirs = BoostedTrees(classify=True).fit(x, y), GradientBoostingClassifier(random_state=0).fit(x, y)
        assert ours.importances == pytest.approx(theirs.feature_importances_, abs=3e-3)  # ties go another way
        assert np.mean(ours.predict(x) == theirs.predict(x)) > 0.99
    y = x @ [1.0, -2.0, 0.0] + rng.normal(size=300)
    ours, theirs = BoostedTrees(classify=False).fit(x, y), GradientBoostingRegressor(random_state=0).fit(x, y)
    assert ours.importances == pytest.approx(theirs.feature_importances_, abs=1e-6)
    assert ours.predict(x) == pytest.approx(theirs.predict(x), abs=1e-6)


def test_the_logistic_regression_is_scikit_learn_s(rng):
    x = rng.normal(size=(300, 3))
    y = (x[:, 0] + rng.normal(size=300) > 0).astype(int) + (x[:, 1] > 1)
    theirs = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(x, y)
    ours = Logistic(strength=1.0, tolerance=1e-8).fit(x, y)
    assert ours.log_probabilities(x) == pytest.approx(theirs.predict_log_proba(x), abs=1e-3)


# Every legal input has a number -----------------------------------------------------------------------------------


def degenerate():
    rng = np.random.default_rng(0)
    n = 60
    z, s = rng.normal(size=(n, 3)), rng.integers(3, size=(n, 2))
    return {
        "a constant factor": (np.column_stack([s[:, 0], np.zeros(n, int)]), z),
        "constant factors": (np.zeros((n, 2), int), z),
        "constant latents": (s, np.ones((n, 2))),
        "a constant latent": (s, np.column_stack([np.ones(n), z[:, 0]])),
        "nothing varies": (np.zeros((n, 2), int), np.ones((n, 2))),
        "one factor": (s[:, :1], z),
        "one latent": (s, z[:, 0]),
        "one of each, continuous": (z[:, 1], z[:, 0]),
        "labels with one row": (np.concatenate([np.zeros(n - 3), [1, 2, 3]]).astype(int), z),
        "a label for every row": ({"id": [f"row {i}" for i in range(n)], "s": s[:, 0]}, z),
        "latents twice": (s, np.hstack([z, z])),
        "few rows": (np.array([[0, 1], [1, 0], [0, 1], [1, 1], [0, 0]]), z[:5, :2]),
        "more latents than rows": (s[:30], rng.normal(size=(30, 50))),
        "text, booleans and numbers": rooms(n),
        "discrete latents, continuous factors": (z[:, :2], s),
        "factors that never differ from each other": (np.column_stack([s[:, 0], s[:, 0]]), z),
        "many ties": (s, np.maximum(z, 0)),
        "huge and tiny": (z[:, :2] * 1e100, z * 1e-100),
        "a large offset": (z[:, :2] + 1e9, z + 1e9),
        "single precision": (s.astype(np.uint8), z.astype(np.float32)),
    }


@pytest.mark.parametrize("case", degenerate())
def test_every_score_is_a_number_within_its_range(case):
    s, z = degenerate()[case]
    for name in FUNCTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = getattr(structure, name)(s, z)
        assert np.isfinite(list(numbers(found.to_dict()))).all(), name
        for score, value in headline(found).items():
            least = -1 if score == "held_out" else -1e-9
            assert least <= value <= 1 + 1e-9, (name, score)


def test_what_cannot_be_averaged_has_the_documented_value(rng):
    s, noise = rng.integers(3, size=(300, 2)), rng.normal(size=300)
    # discrete latents, so that information is exactly 0 where labels are balanced against each other
    label, other = np.tile([0, 1], 150), np.tile([0, 0, 1, 1], 75)
    with_idle = structure.infomec(label, np.column_stack([label, other]))
    assert with_idle.modularity == {"z0": 1.0}  # the other is active, and informs about nothing
    assert with_idle.infom == 1.0
    lost = structure.infomec(np.column_stack([label, other]), label)
    assert lost.compactness == {"s0": 1.0, "s1": 0.0}
    assert lost.infoc == 0.5
    nothing = structure.infomec(label, other)
    assert (nothing.infom, nothing.infoc) == (0.0, 0.0)
    constant = structure.infomec(np.column_stack([s[:, 0], np.zeros(300, int)]), noise)
    assert set(constant.explicitness) == {"s0"}
    assert "constant factors were left out: s1" in constant.caveats
    assert structure.dci(s[:, :1], np.column_stack([noise, s[:, 0]])).disentanglement == 1.0
    assert structure.dci(s, s[:, :1].astype(float)).completeness == 1.0
    assert structure.dci(s, np.ones((300, 2))).disentanglement == 0.0
    assert structure.modularity(label, np.column_stack([label, other])).latents == {"z0": 1.0, "z1": 0.0}
    assert structure.mig(label, label).value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, z: structure.infomec(s, z, threshold="range/3"), "choose from range/20, range/8, iqr/10"),
        (lambda s, z: structure.infomec(s, z, n_neighbors=0), "n_neighbors is 0"),
        (lambda s, z: structure.infomec(s, z[:-1]), "59 rows and factors has 60, with no ids"),
        (
            lambda s, z: structure.infomec(s, np.where(z == z[5, 1], np.nan, z)),
            "column 'z1' of latents holds NaN at row 5",
        ),
        (lambda s, z: structure.infomec(np.where(s == 0, np.inf, s * 1.0), z), "holds an infinite value at row"),
        (lambda s, z: structure.infomec(s, z[:, :, None]), "slots of three axes are for slot_identifiability"),
        (lambda s, z: structure.infomec(s, z[:0]), "rows and columns are needed"),
        (lambda s, z: structure.infomec(s, z.astype(complex)), "holds complex128"),
        (lambda s, z: structure.infomec(s[:1], z[:1]), "at least 2 are needed"),
        (lambda s, z: structure.infomec(np.array([["a", ""]] * 60), z), "is missing for 60 rows"),
        (lambda s, z: structure.dci(s, z, importance="forest"), "choose from binned, trees, lasso"),
        (lambda s, z: structure.dci(s, z, test=(s, z[:, :1])), "3 latents to learn from and 1 to be judged on"),
        (lambda s, z: structure.dci(s, z, test=5), "as a pair"),
        (lambda s, z: structure.mig(s, z, bins=1), "bins is 1"),
        (lambda s, z: structure.mcc(s, z, correlation="kendall"), "choose from pearson, spearman"),
        (lambda s, z: structure.mcc(s, z, after="pca"), "choose from None, linear, ica"),
        (lambda s, z: structure.linear_r2(s, z, groups=np.zeros(60)), "too few to hold any out"),
        (lambda s, z: structure.slot_identifiability(s, z), "say how many columns each has"),
        (lambda s, z: structure.slot_identifiability(s, z, slots=2), "3 columns, which slots of 2 do not divide"),
        (lambda s, z: structure.slot_identifiability(s, z, slots=1, model="mlp"), "choose from kernel, linear"),
        (lambda s, z: structure.slot_identifiability(s, z, slots=1, groups=np.arange(60)), "split='random' only"),
        (lambda s, z: structure.infomec(s, z, discrete_factors=["s9"]), "there is no column 's9'"),
        (lambda s, z: structure.infomec(s, z, discrete_factors=3), "True, False, one flag for each of 2 columns"),
        (lambda s, z: structure.infomec(z, np.where(s == 1, "x", "y")), "are factors and latents swapped"),
    ],
)
def test_wrong_calls_are_refused_with_a_sentence(call, words):
    rng = np.random.default_rng(0)
    with pytest.raises(isorep.InputError, match=words.replace("(", r"\(").replace("[", r"\[")):
        call(rng.integers(3, size=(60, 2)), rng.normal(size=(60, 3)))


def test_a_latent_that_is_constant_on_the_rows_to_learn_from_spoils_nothing(rng):
    s = rng.normal(size=(60, 2))
    latents = np.column_stack([s, np.append(np.full(59, 0.1), 1e9)])  # the mean of 59 times 0.1 rounds
    assert isorep.structure.linear_r2(s, latents).value > 0.99
    assert isorep.structure.explicitness(s, latents).value > 0.99
    assert isorep.structure.mcc(s, latents, after="linear").held_out > 0.99


@pytest.mark.parametrize("importance", ["binned", "trees", "lasso"])
def test_labels_with_decimals_are_labels(rng, importance):
    z, s = rng.normal(size=(60, 2)), rng.integers(4, size=(60, 1)).astype(float)
    whole = structure.dci(s, z, importance=importance, discrete_factors=True)
    parts = structure.dci(s + 0.5, z, importance=importance, discrete_factors=True)
    assert (parts.disentanglement, parts.informativeness) == (whole.disentanglement, whole.informativeness)


@pytest.mark.parametrize("importance", ["binned", "trees", "lasso"])
def test_the_unit_of_a_continuous_factor_does_not_matter_to_dci(rng, importance):
    s = rng.normal(size=(80, 2))
    one, other = (isorep.structure.dci(s * unit, s, importance=importance) for unit in (1.0, 2.0**-120))
    assert min(one.disentanglement, other.disentanglement) > 0.9
    assert np.isclose(one.informativeness, other.informativeness, atol=0.02)


def test_constant_factors_are_left_out_of_mcc_and_slots(rng):
    z = rng.normal(size=(200, 4))
    s = np.column_stack([z[:, :3], np.ones(200)])
    assert structure.mcc(s, z).value == pytest.approx(1)
    assert structure.mcc(s, z).held_out == pytest.approx(1)
    assert structure.mcc(s, z).matches["s3"] is None
    assert structure.mcc(s[:, 3:], z).value == 0
    plain = structure.slot_identifiability(z[:, :3], z[:, :3], slots=1, model="linear")
    beside = structure.slot_identifiability(s, z, slots=1, model="linear")
    assert beside.matches == (0, 1, 2, -1)
    assert beside.on[:3] == pytest.approx(plain.on)
    assert beside.value > 0.85
    inside = structure.slot_identifiability(s, z, slots=2, model="linear")
    assert inside.on == pytest.approx([1, 1])
    s[-40:, 0] = 0.1  # in the rows to be judged on alone
    late = structure.slot_identifiability(s, z, slots=2, model="linear")
    assert np.abs(late.r2).max() < 2


@pytest.mark.parametrize(("n", "rows", "words"), [(9, 1000, "there are 9 rows"), (100, 7, "rows is 7")])
def test_slots_need_two_rows_to_be_judged_on(rng, n, rows, words):
    z = rng.normal(size=(n, 2))
    with pytest.raises(isorep.InputError, match=words):
        structure.slot_identifiability(z, z, slots=1, rows=rows)
