"""What compare_many finds in runs with known answers: consensus, families, outliers, clusters, verdicts."""

import json
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.comparison.consensus import find_consensus
from isorep.comparison.many_errors import RungMatrix
from isorep.comparison.many_verdict import pair_rungs
from isorep.comparison.recurrence import _families
from isorep.comparison.verdict import WITHOUT_LINEAR, WITHOUT_NULL
from isorep.moments import joint_moments

from ..data import mixing, rotation, sources
from .test_many import LADDER, seeds


def test_the_consensus_recovers_a_common_space_under_noise():
    rng = np.random.default_rng(0)
    shared = sources(2000, 6) * np.array([4, 3, 2.5, 2, 1.5, 1.0])
    runs = [shared @ rotation(6, i) + rng.normal(size=shared.shape) for i in range(8)]
    consensus = isorep.compare_many(runs, **LADDER).consensus
    found = consensus.average(runs)
    for place in range(6):
        correlation = abs(np.corrcoef(found[:, place], shared[:, place])[0, 1])
        single = abs(np.corrcoef(consensus.transform(0, runs[0])[:, place], shared[:, place])[0, 1])
        assert correlation > max(0.93, single)
    expected = np.array([16, 9, 6.25, 4, 2.25, 1.0])
    np.testing.assert_allclose(consensus.agreement, expected / (expected + 1), atol=0.06)
    assert (np.diff(consensus.spectrum) <= 0).all()


def test_the_consensus_is_what_its_rotations_say():
    runs = seeds(4, 300, 5)
    runs[2] = runs[2][:, :3]
    consensus = isorep.compare_many(runs, **LADDER).consensus
    images = [consensus.transform(i, run) for i, run in enumerate(runs)]
    for rotated, run in zip(consensus.rotations, runs, strict=True):
        np.testing.assert_allclose(rotated @ rotated.T, np.eye(run.shape[1]), atol=1e-9)
    mean = sum(images) / 4
    np.testing.assert_allclose(mean.T @ mean / 300, np.diag(consensus.spectrum), atol=1e-9)
    np.testing.assert_allclose(consensus.average(runs), mean)
    for i, image in enumerate(images):
        others = sum(images[j] for j in range(4) if j != i)
        explained = (image * others).sum() ** 2 / (image**2).sum() / (others**2).sum()
        assert consensus.shares[i] == pytest.approx(explained)
    covariances = np.mean([(images[i] * images[j]).mean(0) for i in range(4) for j in range(4) if i != j], axis=0)
    np.testing.assert_allclose(consensus.agreement, covariances / np.mean([(m**2).mean(0) for m in images], axis=0))
    np.testing.assert_allclose(consensus.transform("run 1", runs[1]), images[1])


def test_no_small_rotation_of_one_run_improves_the_consensus():
    rng = np.random.default_rng(1)
    runs = seeds(4, 300, 4, noise=0.8)
    total = joint_moments(runs, np.zeros(300, dtype=int), 1, names=list("abcd"))[0]
    radii = [float(np.sqrt(np.trace(total.block(i, i)) / 300)) for i in range(4)]
    found = find_consensus(total, list("abcd"), radii)
    images = [found.transform(i, run) for i, run in enumerate(runs)]
    reached = sum((images[i] * images[j]).sum() for i in range(4) for j in range(i))
    for which in range(4):
        for _ in range(10):
            turn = np.linalg.qr(np.eye(4) + 0.02 * rng.normal(size=(4, 4)))[0]
            turned = [
                image @ (turn * np.sign(np.diag(turn))) if i == which else image for i, image in enumerate(images)
            ]
            assert sum((turned[i] * turned[j]).sum() for i in range(4) for j in range(i)) <= reached * (1 + 1e-4)


def test_a_run_that_the_consensus_does_not_know_is_refused():
    consensus = isorep.compare_many(seeds(3, 100, 3), **LADDER).consensus
    for run, words in (("x", "no run 'x'"), (5, "no run 5"), (-4, "no run -4")):
        with pytest.raises(isorep.InputError, match=words):
            consensus.transform(run, np.zeros((2, 3)))
    with pytest.raises(isorep.InputError, match="X has 2 columns"):
        consensus.transform(0, np.zeros((2, 2)))
    with pytest.raises(isorep.InputError, match="2 runs were given"):
        consensus.average([np.zeros((2, 3))] * 2)


@pytest.fixture(scope="module")
def planted():
    """Four components in all five runs, two more in the first three, and Gaussian noise for the rest."""
    rng = np.random.default_rng(3)
    n = 3000
    common, some = sources(n, 4, 1), sources(n, 2, 2)
    runs = []
    for run in range(5):
        own = some if run < 3 else rng.normal(size=(n, 2))
        runs.append(np.column_stack([common, own]) @ mixing(6, 10 * run, 5.0))
    return isorep.compare_many(runs)


def test_families_recover_planted_components(planted):
    sizes = sorted((family.runs for family in planted.components.families if family.score > 0.9), reverse=True)
    assert sizes[:6] == [5, 5, 5, 5, 3, 3]
    assert planted.components.recurring(5) == 4
    for family in planted.components.families:
        members = [run for run, _ in family.members]
        assert len(members) == len(set(members)) == family.runs
    every = [member for family in planted.components.families for member in family.members]
    assert len(every) == len(set(every))


def test_a_component_that_two_would_have_joins_the_better_one():
    """A component of the second run is the match of one in the first and of one in the third, which do not match."""
    matched = [np.array([[0.0], [0.95], [0.1]]), np.array([[0.95], [0.0], [0.9]]), np.array([[0.1], [0.9], [0.0]])]
    partner = [np.zeros((3, 1), dtype=int) for _ in range(3)]
    correlations = {(0, 1): np.array([[0.95]]), (0, 2): np.array([[0.1]]), (1, 2): np.array([[0.9]])}
    (whole,) = _families(matched, partner, correlations)
    assert whole.members == ((0, 0), (1, 0), (2, 0))
    assert whole.score == pytest.approx((0.95 + 0.1 + 0.9) / 3)
    matched[0][1, 0] = 2.5  # now the first run founds the family, the second joins it, and the third finds nobody left
    (pair,) = _families(matched, partner, correlations)
    assert pair.members == ((0, 0), (1, 0))


def test_components_are_scored_by_what_they_are_matched_with(planted):
    in_first, in_last = planted.components.by_run[0], planted.components.by_run[4]
    assert sorted(in_first.runs) == [3, 3, 5, 5, 5, 5]
    assert (in_last.runs == 5).sum() == 4
    assert in_last.score[in_last.runs == 5].min() > 0.95
    assert in_last.gaussian[in_last.runs < 5].all()


def test_dimensions_are_scored_by_held_out_prediction_and_by_matching():
    rng = np.random.default_rng(0)
    shared = sources(800, 3)
    runs = [np.column_stack([shared, rng.normal(size=800)])[:, rng.permutation(4)] for _ in range(4)]
    result = isorep.compare_many(runs, rungs=("signed_permutation", "linear"), n_null=0)
    for run, found in zip(runs, result.dimensions, strict=True):
        own = np.array([max(abs(np.corrcoef(run[:, k], s)[0, 1]) for s in shared.T) < 0.5 for k in range(4)])
        np.testing.assert_allclose(found.r2[~own], 1, atol=1e-6)
        assert found.r2[own] < 0.01
        np.testing.assert_allclose(found.correlation[~own], 1, atol=1e-6)
        assert found.correlation[own] < 0.2
    assert isorep.compare_many(runs, rungs=("rigid",), n_null=0).dimensions[0].r2 is None


@pytest.mark.parametrize("count", [4, 6])
def test_a_run_that_stands_apart_is_named_and_the_verdict_is_about_the_others(count):
    runs = seeds(count)
    runs[1] = np.random.default_rng(9).permutation(runs[1])
    result = isorep.compare_many(runs)
    assert [outlier.run for outlier in result.outliers] == ["run 1"]
    assert result.verdict.rung == "rigid"
    assert result.verdict.sentence.startswith(f"{count - 1} of the {count} runs agree up to a rigid motion")
    assert "run 1 is an outlier" in result.verdict.sentence
    assert result.agreed_rung(0, 2) == "rigid"
    assert result.agreed_rung(0, 1) is None
    assert result.clustering.order[0] == 1 or result.clustering.order[-1] == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_ensemble_has_no_outliers(seed):
    result = isorep.compare_many(seeds(6, seed=seed), n_null=0, rungs=("rigid", "linear"))
    assert result.outliers == ()


def test_three_runs_have_no_majority_and_the_result_says_so():
    runs = seeds(3)
    runs[0] = np.random.default_rng(9).permutation(runs[0])
    result = isorep.compare_many(runs)
    assert result.outliers == ()
    assert any("outliers cannot be detected" in caveat for caveat in result.caveats)
    assert "4 of the 6 ordered pairs are not explained" in result.verdict.sentence


def test_two_groups_of_runs_are_two_branches_of_the_tree():
    one, other = seeds(3, seed=0), seeds(3, seed=50)
    result = isorep.compare_many([one[0], other[0], one[1], other[1], one[2], other[2]], **LADDER)
    order = [run % 2 for run in result.clustering.order]
    assert order in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    assert result.clustering.linkage[-1, 2] > 2 * result.clustering.linkage[-2, 2]


@pytest.mark.parametrize(
    ("group", "rung"),
    [
        (lambda x, i: x, "identity"),
        (lambda x, i: (1 + i) * x[:, np.roll(np.arange(4), i)], "signed_permutation"),
        (lambda x, i: x @ rotation(4, i), "rigid"),
        (lambda x, i: x @ mixing(4, 7 * i), "linear"),
    ],
)
def test_the_verdict_is_the_smallest_group_that_relates_all_runs(group, rung):
    rng = np.random.default_rng(1)
    runs = [group(sources(600, 4), i) for i in range(3)]
    runs = [run + 0.01 * run.std() * rng.normal(size=run.shape) for run in runs]
    result = isorep.compare_many(runs)
    assert result.verdict.rung == rung
    assert {result.agreed_rung(i, j) for i in range(3) for j in range(i)} == {rung}


def rung(name, upper, excess, null):
    """Two runs with these upper ends of error and excess in both directions, and this 5 % point of chance."""
    blank = np.zeros((2, 2))
    return RungMatrix(
        name,
        error=np.full((2, 2), upper - 0.01),
        se=blank,
        upper=np.full((2, 2), upper),
        excess=np.full((2, 2), excess),
        in_sample=blank,
        rms=blank,
        rms_in_sample=blank,
        left_out=np.zeros((5, 2, 2)),
        null=np.full((2, 2), null + 0.01),
        null_low=np.full((2, 2), null),
    )


@pytest.mark.parametrize(
    ("rigid", "linear", "null", "found"),
    [
        ((0.33, 0.02), (0.32, 0.0), 0.98, "rigid"),  # at most 0.02 more than the best
        ((0.33, 0.03), (0.32, 0.0), 0.98, "rigid"),  # just within tolerance
        ((0.40, 0.08), (0.32, 0.0), 0.98, "linear"),  # 0.08 more
        ((0.33, 0.02), (0.32, 0.0), 0.32, None),  # chance may be as good
        ((1.01, 0.02), (1.00, 0.0), 1.20, None),  # below chance, but no better than the mean
    ],
)
def test_a_pair_is_explained_by_the_smallest_rung_whose_upper_ends_are_low_enough(rigid, linear, null, found):
    rungs = {"rigid": rung("rigid", *rigid, null), "linear": rung("linear", *linear, null)}
    assert pair_rungs(rungs, 0.03) == ((None, found), (found, None))


def test_the_verdict_counts_the_pairs_that_need_less_than_the_others():
    rng = np.random.default_rng(1)
    shared = sources(600, 4)
    runs = [shared, shared @ rotation(4, 0), shared @ mixing(4, 1)]
    runs = [run + 0.01 * run.std() * rng.normal(size=run.shape) for run in runs]
    verdict = isorep.compare_many(runs).verdict
    assert verdict.rung == "linear"
    assert "2 of the 6 ordered pairs need no more than the rigid rung" in verdict.sentence


def test_relations_in_part_are_called_that_and_what_is_left_out_leaves_no_verdict():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(4000, 4))
    runs = [0.6 * shared + rng.normal(size=shared.shape) for _ in range(3)]
    weak = isorep.compare_many(runs, rungs=("rigid", "linear")).verdict
    assert weak.rung == "rigid"
    assert weak.sentence.startswith("All 3 runs are partly related, up to a rigid motion")
    nearer = [0.9 * shared + 0.2 * rng.normal(size=shared.shape) for _ in range(3)]
    stretched = [run * np.roll([1, 3, 6, 10], place) for place, run in enumerate(nearer)]
    near = isorep.compare_many(stretched, rungs=("rigid", "linear")).verdict
    assert near.sentence.startswith("All 3 runs agree up to a linear map. Mean held-out error 0.")
    without = isorep.compare_many(runs, rungs=("rigid", "linear"), n_null=0).verdict
    assert (without.rung, without.sentence) == (None, WITHOUT_NULL)
    without = isorep.compare_many(runs, rungs=("rigid",)).verdict
    assert (without.rung, without.sentence) == (None, WITHOUT_LINEAR)


def test_the_result_prints_tabulates_and_serialises(tmp_path):
    result = isorep.compare_many(seeds(4, 300, 3), names=["a", "b", "c", "d"])
    said = " ".join(str(result).split())
    assert "mean distances of the target to its mean; lower is closer, 1 is no better than the mean" in said
    assert "All 4 runs agree up to a rigid motion" in said
    assert "All 4 runs" in repr(result)
    assert len(result.table("linear").splitlines()) == 5
    text = result.to_json(tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == text
    data = json.loads(text)
    assert data["schema"] == "isorep.compare_many/2"
    np.testing.assert_allclose(data["rungs"]["rigid"]["rms"], result.rungs["rigid"].rms, rtol=1e-5)
    assert data["rungs"]["rigid"]["null"][0][0] is None
    assert sorted(data["clustering"]["order"]) == [0, 1, 2, 3]
    assert "agree up to a rigid motion" in result._repr_html_()
    assert result.rungs["rigid"].mean == pytest.approx(result.rungs["rigid"].error[~np.eye(4, dtype=bool)].mean())
    i, j = result.rungs["rigid"].worst
    assert result.rungs["rigid"].error[i, j] == result.rungs["rigid"].max
    assert 0.5 < result.ica_efficiency < 1.1


def test_the_same_call_gives_the_same_numbers_and_another_seed_others():
    runs = seeds(3, 200, 3)
    first, second, other = (
        replace(isorep.compare_many(runs, random_state=seed), seconds={}).to_json() for seed in (0, 0, 1)
    )
    assert first == second != other
