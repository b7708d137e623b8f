"""Matching of units and RSA: optima by brute force, invariances, partial overlap, and input that has no answer."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import spearmanr

import isorep
from isorep import InputError, similarity
from isorep.similarity.matching import _program, assigned, transport_cost

from ..data import rotation


def units(n=120, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def brute_force(cost, count):
    """The least cost of ``count`` pairs, over all of them."""
    rows, columns = cost.shape
    return min(
        sum(cost[i, j] for i, j in zip(chosen, order, strict=True))
        for chosen in combinations(range(rows), count)
        for order in permutations(range(columns), count)
    )


@pytest.mark.parametrize(("rows", "columns", "count"), [(4, 4, 4), (4, 5, 4), (5, 4, 2), (3, 5, 1), (4, 4, 3)])
def test_an_assignment_of_some_pairs_is_the_best_of_all(rows, columns, count):
    cost = np.random.default_rng(rows + columns + count).normal(size=(rows, columns))
    found = assigned(cost, count)
    assert len(found[0]) == count == len(set(found[0])) == len(set(found[1]))
    assert cost[found].sum() == pytest.approx(brute_force(cost, count))


@pytest.mark.parametrize("share", [1.0, 0.8, 0.37])
@pytest.mark.parametrize("shape", [(5, 5), (4, 6), (3, 7)])
def test_transport_by_repeated_units_and_by_a_linear_program_agree(shape, share):
    cost = np.random.default_rng(1).random(shape)
    program = _program(cost, share) / share
    assert transport_cost(cost, share) == pytest.approx(program, abs=1e-9)
    rows, columns = shape
    sums = np.concatenate([np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))])
    masses = np.repeat([1 / rows, 1 / columns], [rows, columns])
    dense = linprog(cost.ravel(), A_ub=sums, b_ub=masses, A_eq=np.ones((1, rows * columns)), b_eq=[share])
    assert program == pytest.approx(dense.fun / share, abs=1e-9)


def test_wide_unequal_sides_are_matched_by_the_linear_program():
    x = units(200, 23)
    y = np.hstack([x, units(200, 2, seed=1)])  # 575 units if repeated
    found = similarity.soft_matching(x, y)
    assert 0 < found.value < 0.6
    assert "soft_matching" not in similarity.indices(x, y, permutations=0).indices
    assert any("soft_matching was left out" in each for each in similarity.indices(x, y, permutations=0).caveats)
    named = similarity.indices(x, y, names=["soft_matching"], permutations=0)
    assert named["soft_matching"].value == found.value
    assert named.caveats == ()


def test_soft_matching_is_a_metric_on_these_sides():
    sides = [units(seed=0), units(seed=1, d=4), units(seed=2, d=3)]
    a, b, c = (
        similarity.soft_matching(x, y).value
        for x, y in ((sides[0], sides[1]), (sides[1], sides[2]), (sides[0], sides[2]))
    )
    assert c <= a + b
    assert a <= b + c
    assert b <= a + c
    assert similarity.soft_matching(sides[1], sides[0]).value == pytest.approx(a)


def test_matching_is_blind_to_order_shift_and_positive_scale_of_units_and_sees_signs():
    x = units()
    y = x + 0.5 * units(seed=1)
    moved = 3 * y[:, [2, 0, 1, 5, 4, 3]] + 7
    for index in (similarity.one_to_one, similarity.soft_matching):
        assert index(x, moved).value == pytest.approx(index(x, y).value, abs=1e-9)
        assert index(x, y @ rotation(6, 0)).value != pytest.approx(index(x, y).value, abs=1e-2)
    assert similarity.one_to_one(x, -x).value < 0.3
    assert similarity.mcc(x, -x).value == pytest.approx(1)


def test_units_that_recur_are_found_among_units_that_do_not():
    x = units(500, 8)
    y = np.hstack([x[:, [5, 1, 3, 7]], units(500, 6, seed=1)])
    half = similarity.one_to_one(x, y, overlap=0.5, permutations=50)
    assert half.value == pytest.approx(1)
    assert half.p_value == pytest.approx(1 / 51)
    assert sorted(half.details["x_dims"]) == [1, 3, 5, 7]
    assert sorted(half.details["y_dims"]) == [0, 1, 2, 3]
    assert similarity.one_to_one(x, y).value < 0.7
    assert similarity.soft_matching(x, y, overlap=0.4).value == pytest.approx(0, abs=1e-6)
    assert similarity.soft_matching(x, y, overlap=0.5).value > 0.3


@pytest.mark.parametrize("name", ["rsa", "bures_distance", "one_to_one", "soft_matching"])
def test_unrelated_sides_are_at_chance_and_copies_are_not(name):
    index = getattr(similarity, name)
    x, y = units(80, 5), units(80, 5, seed=3)
    found = index(x, y, permutations=60)
    assert found.p_value > 0.02
    assert abs(found.corrected) < 0.2
    copied = index(x, x + 0.05 * y, permutations=60)
    assert copied.p_value == pytest.approx(1 / 61)
    assert copied.corrected > 0.9


def test_groups_move_as_blocks_in_the_null_of_rsa():
    """Rows that differ by group alone, on both sides: their common rows are no evidence beyond 10 groups."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 8)
    x, y = (rng.normal(size=(10, 3))[groups] + 0.05 * rng.normal(size=(80, 3)) for _ in range(2))
    blind = similarity.rsa(x, y, permutations=60)
    aware = similarity.rsa(x, y, groups=groups, permutations=60)
    assert aware.null.std > 2 * blind.null.std


def test_rsa_is_the_rank_correlation_of_distances():
    x, y = units(30, 4), units(30, 3, seed=1)
    apart = [[float(np.linalg.norm(side[i] - side[j])) for i, j in combinations(range(30), 2)] for side in (x, y)]
    assert similarity.rsa(x, y).value == pytest.approx(spearmanr(*apart).statistic)
    assert similarity.rsa(3 * x @ rotation(4, 1) + 2, y).value == pytest.approx(spearmanr(*apart).statistic)


def test_bures_is_the_chord_of_the_procrustes_angle():
    x, y = units(50, 80), units(50, 3, seed=1)  # wide, too
    angle = similarity.procrustes_distance(x, y)
    found = similarity.bures_distance(x, y)
    assert found.value == pytest.approx(2 * np.sin(angle.value / 2))
    assert found.details["unscaled"] == pytest.approx(angle.details["euclidean"])


def test_constant_columns_float32_and_moments():
    x = units(100, 4)
    dead = np.hstack([x, np.full((100, 2), 3.0)])
    assert similarity.one_to_one(dead, dead).value == pytest.approx(1)  # constant columns are no units
    assert max(similarity.one_to_one(dead[:, ::-1], x).details["x_dims"]) == 5
    assert similarity.soft_matching(dead, dead).value == pytest.approx(0, abs=1e-6)
    assert similarity.soft_matching(x.astype(np.float32), x + 1).value == pytest.approx(0, abs=1e-3)
    moments = isorep.Moments.from_rows(x, x[:, ::-1])
    assert similarity.one_to_one(moments).value == pytest.approx(1)
    assert similarity.soft_matching(moments).value == pytest.approx(0, abs=1e-6)


def test_input_without_an_answer_is_refused_in_a_sentence():
    x = units(20, 3)
    with pytest.raises(InputError, match="overlap is 0 and must be above 0"):
        similarity.one_to_one(x, x, overlap=0)
    with pytest.raises(InputError, match=r"overlap is 1\.5"):
        similarity.soft_matching(x, x, overlap=1.5)
    with pytest.raises(InputError, match="row 4 of Y is zero"):
        similarity.rsa(x, np.where(np.arange(20)[:, None] == 4, 0.0, x), distance="cosine")
    with pytest.raises(InputError, match="row 4 of Y is constant over its columns"):
        similarity.rsa(x, np.where(np.arange(20)[:, None] == 4, 1.0, x), distance="correlation")
    with pytest.raises(InputError, match="equally far apart"):
        similarity.rsa(x, np.ones((20, 2)))
    with pytest.raises(InputError, match="at most 10000 rows"):
        similarity.rsa(np.zeros((10_001, 1), np.float32), np.zeros((10_001, 1), np.float32))
    with pytest.raises(InputError, match="distance is 'l1'"):
        similarity.rsa(x, x, distance="l1")


def test_the_noise_ceiling_holds_the_truth_and_not_another_model():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 4))
    runs = {f"seed {seed}": truth + 0.6 * rng.normal(size=truth.shape) for seed in range(6)}
    found = similarity.noise_ceiling(runs, truth, permutations=40)
    assert found.lower < found.model
    assert found.lower < found.upper
    assert "the model reaches it" in found.sentence
    assert found.null.p_value == pytest.approx(1 / 41)
    assert found.names[2] == "seed 2"
    assert found.caveats == ()
    assert found.model == pytest.approx(np.mean([similarity.rsa(truth, run).value for run in runs.values()]))
    other = similarity.noise_ceiling(runs, rng.normal(size=(60, 4)), permutations=40)
    assert other.model < 0.2
    assert other.null.p_value > 0.02
    assert "lies below" in other.sentence
    assert len(found.to_frame()) == 6
    assert found.to_dict()["sentence"] == found.sentence


def test_a_noise_ceiling_needs_runs_of_the_same_rows():
    x = units(20, 3)
    with pytest.raises(InputError, match="1 run was given: a noise ceiling needs at least 2"):
        similarity.noise_ceiling([x])
    with pytest.raises(InputError, match="rows"):
        similarity.noise_ceiling([x, x[:10]])
    with pytest.raises(InputError, match="permutations are of the rows of a model"):
        similarity.noise_ceiling([x, x + 1], permutations=10)
    assert "2 runs only" in similarity.noise_ceiling([x, x + units(20, 3, 1)]).caveats[0]
