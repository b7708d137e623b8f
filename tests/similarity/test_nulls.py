"""Shuffled pairings: exact ones equal recomputation, sketched ones the exact null, and p-values are fair."""

import itertools

import numpy as np
import pytest

from isorep import similarity
from isorep.resampling import Shuffles
from isorep.similarity import gaussian
from isorep.similarity.sketches import KernelSums, permutation_moments

CASES = {
    "cca": (similarity.cca, {}),
    "svcca": (similarity.svcca, {}),
    "svcca standardised": (similarity.svcca, {"standardise": True, "components": 20}),
    "pwcca": (similarity.pwcca, {}),
    "pwcca y": (similarity.pwcca, {"side": "y"}),
    "linear_r2": (similarity.linear_r2, {}),
    "cka": (similarity.cka, {"exact": True}),
    "cka debiased": (similarity.cka, {"debiased": True, "exact": True}),
    "cka rbf": (similarity.cka, {"kernel": "rbf"}),
    "cka rbf debiased": (similarity.cka, {"kernel": "rbf", "debiased": True}),
    "procrustes": (similarity.procrustes_distance, {}),
    "procrustes permutation": (similarity.procrustes_distance, {"up_to": "permutation"}),
    "mcc": (similarity.mcc, {}),
    "mcc spearman": (similarity.mcc, {"correlation": "spearman"}),
    "knn": (similarity.mutual_knn, {}),
    "knn euclidean": (similarity.mutual_knn, {"metric": "euclidean", "k": 3}),
}


def pair(n=300):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 60)) * np.geomspace(1, 0.1, 60)
    return x, np.hstack([x[:, :5], rng.normal(size=(n, 45))]) @ rng.normal(size=(50, 55))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("groups", [None, "equal"])
def test_exact_draws_equal_recomputation(case, groups):
    x, y = pair()
    index, options = CASES[case]
    labels = None if groups is None else np.repeat(np.arange(30), 10)
    found = index(x, y, permutations=3, groups=labels, random_state=5, **options)
    assert found.null.exact
    for draw, seed in zip(found.null.draws, np.random.SeedSequence(5).spawn(3), strict=True):
        partners = Shuffles(300, labels).draw(np.random.default_rng(seed))
        assert sorted(partners) == list(range(300))
        assert draw == pytest.approx(index(x, y[partners], **options).value, abs=1e-10)


def test_large_inputs_are_shuffled_in_single_precision_to_six_digits():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50_000, 100)), rng.normal(size=(50_000, 90))
    found = similarity.cca(x, y, permutations=1)
    partners = np.random.default_rng(np.random.SeedSequence(0).spawn(1)[0]).permutation(50_000)
    assert found.null.draws[0] == pytest.approx(similarity.cca(x, y[partners]).value, abs=1e-6)


def test_mean_and_variance_over_all_permutations_are_known():
    rng = np.random.default_rng(0)
    n = 6
    centring = np.eye(n) - 1 / n
    k, other = (centring @ (a @ a.T) @ centring for a in (rng.normal(size=(n, 3)), rng.normal(size=(n, 2))))
    values = [(k * other[np.ix_(p, p)]).sum() for p in map(list, itertools.permutations(range(n)))]
    sums = [KernelSums(np.trace(each), (each**2).sum(), (np.diag(each) ** 2).sum()) for each in (k, other)]
    mean, variance = permutation_moments(*sums, n)
    assert mean == pytest.approx(np.mean(values))
    assert variance == pytest.approx(np.var(values))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("debiased", [False, True])
def test_a_sketched_null_agrees_with_the_exact_one(kernel, debiased, monkeypatch):
    x, y = pair()
    exact = similarity.cka(x, y, kernel=kernel, debiased=debiased, exact=True, permutations=600).null
    monkeypatch.setattr(gaussian, "_HELD_ROWS", 100)
    sketched = similarity.cka(x, y, kernel=kernel, debiased=debiased, permutations=600).null
    assert exact.exact
    assert not sketched.exact
    assert "exact mean and variance" in sketched.method
    sd = exact.std
    assert abs(sketched.mean - exact.mean) < 0.15 * sd
    assert abs(sketched.std / sd - 1) < 0.12
    for level in (0.05, 0.5, 0.95, 0.99):
        assert abs(sketched.quantile(level) - exact.quantile(level)) < 0.35 * sd


def test_p_values_of_unrelated_sides_are_uniform():
    rng = np.random.default_rng(0)
    for index in (similarity.cka, similarity.cca, similarity.mutual_knn):
        found = [index(rng.normal(size=(40, 3)), rng.normal(size=(40, 3)), permutations=39).p_value for _ in range(60)]
        assert 0.3 < np.mean(found) < 0.7
        assert np.mean(np.array(found) <= 0.2) < 0.36


def test_groups_that_share_rows_do_not_pass_for_independent_ones():
    """Rows of a group are copies: shuffling rows finds agreement of group noise, shuffling groups does not."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(12), 20)
    fooled = honest = 0
    for _ in range(10):
        x, y = (rng.normal(size=(12, 4))[groups] + 0.05 * rng.normal(size=(240, 4)) for _ in range(2))
        fooled += similarity.cka(x, y, permutations=49).p_value <= 0.05
        honest += similarity.cka(x, y, permutations=49, groups=groups).p_value <= 0.05
    assert fooled >= 8
    assert honest <= 3


def test_groups_of_unequal_sizes_keep_rows_apart():
    x, y = pair()
    groups = np.sort(np.random.default_rng(0).integers(0, 40, 300))
    found = similarity.indices(x, y, permutations=5, groups=groups)
    assert all(np.isfinite(each.null.draws).all() for each in found.indices.values())
    assert found.settings["groups"] == len(np.unique(groups))


def test_the_same_seed_gives_the_same_null_and_another_another():
    x, y = pair()
    first, again, other = (similarity.cka(x, y, permutations=20, random_state=seed).null.draws for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).all()


def test_all_indices_share_their_pairings():
    x, y = pair()
    together = similarity.indices(x, y, permutations=4)
    alone = similarity.pwcca(x, y, permutations=4)
    assert together["pwcca"].null.draws == pytest.approx(alone.null.draws, abs=1e-12)
    assert together["cka"].null.exact
    assert set(together.indices) == set(similarity.INDICES)
    assert "10 of 10 indices" in str(together) or "indices find" in str(together)


def test_costly_indices_are_left_out_unasked(monkeypatch):
    x, y = pair()
    monkeypatch.setitem(similarity.table.COSTLY, "cka_rbf", 100)
    found = similarity.indices(x, y, permutations=0)
    assert "cka_rbf" not in found.indices
    assert "cka_rbf was left out" in found.caveats[0]
    assert "No null was drawn" in found.reading
    assert "cka_rbf" in similarity.indices(x, y, names=["cka_rbf"], permutations=0).indices
