"""Shuffled pairings: exact ones equal recomputation, sketched ones the exact null, and p-values are fair."""

import itertools
from importlib import import_module

import numpy as np
import pytest

import isorep
from isorep import similarity
from isorep.resampling import Shuffles
from isorep.similarity.cka import KernelSums, permutation_moments
from isorep.similarity.null import corrected

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
    "bures": (similarity.bures_distance, {}),
    "one to one": (similarity.one_to_one, {"overlap": 0.5}),
    "soft": (similarity.soft_matching, {}),
    "rsa": (similarity.rsa, {}),
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
    monkeypatch.setattr(import_module("isorep.similarity.cka"), "_HELD_ROWS", 100)
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
    assert set(together.indices) == set(similarity.INDICES) - {"soft_matching"}  # 60 and 55 units
    assert "of 13 indices find" in " ".join(str(together).split())


def test_costly_indices_are_left_out_unasked(monkeypatch):
    x, y = pair()
    monkeypatch.setitem(similarity.table.COSTLY, "cka_rbf", 100)
    found = similarity.indices(x, y, permutations=0)
    assert "cka_rbf" not in found.indices
    assert "cka_rbf was left out" in found.caveats[0]
    assert "No null was drawn" in found.reading
    assert "cka_rbf" in similarity.indices(x, y, names=["cka_rbf"], permutations=0).indices


@pytest.mark.parametrize("case", CASES)
def test_unequal_groups_compare_the_rows_that_take_part(case):
    x, y = pair(290)
    index, options = CASES[case]
    groups = np.repeat(np.arange(20), np.arange(5, 25))
    shuffles = Shuffles(290, groups)
    rows = shuffles.rows
    found = index(x, y, permutations=3, groups=groups, random_state=5, **options)
    assert len(rows) < 290
    assert found.value == pytest.approx(index(x, y, **options).value, abs=1e-10)
    assert found.null.exact
    assert found.null.observed == pytest.approx(index(x[rows], y[rows], **options).value, abs=1e-9)
    for draw, seed in zip(found.null.draws, np.random.SeedSequence(5).spawn(3), strict=True):
        partners = shuffles.draw(np.random.default_rng(seed))
        assert draw == pytest.approx(index(x[rows], y[partners], **options).value, abs=1e-9)
    assert any(f"{len(rows)} of 290 rows" in note for note in found.caveats)
    chance = found.null.mean
    assert found.corrected == pytest.approx((found.null.observed - chance) / (found.best - chance), abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_within_shuffles_inside_classes(case):
    x, y = pair()
    index, options = CASES[case]
    classes = np.arange(300) % 7
    found = index(x, y, permutations=2, within=classes, random_state=5, **options)
    assert found.null.exact
    assert "within 7 classes" in found.null.method
    for draw, seed in zip(found.null.draws, np.random.SeedSequence(5).spawn(2), strict=True):
        partners = Shuffles(300, within=classes).draw(np.random.default_rng(seed))
        assert draw == pytest.approx(index(x, y[partners], **options).value, abs=1e-9)


def test_classes_alone_are_chance_within_classes():
    """Both sides separate five classes and share nothing else: closer than chance, but not than that within classes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 5, 300)
    x, y = (4 * rng.normal(size=(5, d))[classes] + rng.normal(size=(300, d)) for d in (8, 6))
    plain = similarity.cka(x, y, permutations=99)
    inside = similarity.cka(x, y, permutations=99, within=classes)
    assert plain.p_value == pytest.approx(0.01)
    assert plain.corrected > 0.3
    assert inside.p_value > 0.05
    assert abs(inside.corrected) < 0.1
    assert "chance within classes" in str(inside)
    assert inside.to_dict()["within"] == 5
    table = similarity.indices(x, y, names=["cka"], permutations=20, within=classes)
    assert table.settings["within"] == 5
    assert "closer than chance within classes" in table.reading
    with pytest.raises(isorep.InputError, match="within has shape"):
        similarity.cka(x, y, permutations=5, within=classes[1:])


def test_few_groups_bound_the_p_value_and_are_counted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    found = similarity.cca(x, x @ rng.normal(size=(3, 3)), permutations=200, groups=np.repeat(np.arange(4), 20))
    assert found.p_value >= 1 / 24
    assert found.null.smallest_p == pytest.approx(1 / 24)
    assert any("4 groups" in note for note in found.caveats)
    assert any("only 24 different ways" in note for note in found.caveats)
    with pytest.raises(isorep.InputError, match="only 2 rows can change places"):
        similarity.cca(x, x, permutations=5, groups=np.append(np.zeros(79), 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [60, 400])
def test_an_index_that_every_pairing_forces_has_no_p_value(dtype, n):
    rng = np.random.default_rng(0)
    names = ["cca", "pwcca", "linear_r2"]
    forced = rng.normal(size=(2, n, n - 1)).astype(dtype)
    free = forced[:, :, : n - 2]  # one dimension is left
    found = similarity.indices(*forced, names=names, permutations=29)
    for each in found.indices.values():
        assert each.value == pytest.approx(1.0, abs=1e-6)
        assert np.isnan(each.corrected)
        assert np.isnan(each.p_value)
        assert "no p-value and no corrected value" in each.caveats[-1]
    assert "No index has a p-value" in found.reading
    assert found.table().splitlines()[-1].split()[-2:] == ["-", "-"]
    found = similarity.indices(*free, names=names, permutations=29)
    for each in found.indices.values():
        assert 0.05 < each.p_value <= 1
        assert abs(each.corrected) < 0.9
    assert "canonical correlations are 1 for any pairing" in found.caveats[0]


def test_wide_sources_explain_everything_and_wide_targets_do_not_force_that():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 80)), rng.normal(size=(50, 4))
    assert np.isnan(similarity.linear_r2(x, y, permutations=20).p_value)
    assert np.isfinite(similarity.linear_r2(y, x, permutations=20).p_value)
    assert "explains any target" in similarity.linear_r2(x, y).caveats[-1]


def test_a_value_that_no_pairing_changes_has_no_p_value():
    """Rows that are all equally similar make linear CKA the same for every pairing, far from 1."""
    rng = np.random.default_rng(0)
    found = similarity.cka(np.eye(40), rng.normal(size=(40, 5)), permutations=20)
    assert found.value < 0.9
    assert np.isnan(found.p_value)
    assert "all 20 shuffled pairings give the value of the real one" in found.caveats[-1]
    with pytest.raises(isorep.InputError, match="equally similar"):
        similarity.cka(np.eye(40), rng.normal(size=(40, 5)), debiased=True)
    everybody = similarity.mutual_knn(rng.normal(size=(8, 3)), rng.normal(size=(8, 3)), k=7, permutations=20)
    assert np.isnan(everybody.p_value)


@pytest.mark.parametrize(
    ("value", "chance", "best", "higher", "expected"),
    [
        (0.9, 0.8, 1.0, True, 0.5),
        (0.7, 0.8, 1.0, True, -0.5),
        (-0.2, -0.1, 1.0, True, -1 / 11),
        (0.5, 1.0, 0.0, False, 0.5),
        (1.5, 1.0, 0.0, False, -0.5),
        (1.0, 1.0, 1.0, True, np.nan),
        (0.9, 1.1, 1.0, True, np.nan),
        (0.1, -0.1, 0.0, False, np.nan),
    ],
)
def test_corrected_values_run_from_chance_to_the_best(value, chance, best, higher, expected):
    assert corrected(value, chance, best, higher) == pytest.approx(expected, nan_ok=True)


def test_copies_on_both_sides_are_shuffled_together():
    rng = np.random.default_rng(0)
    stored = np.repeat(np.arange(50), 4)
    x, y = (rng.normal(size=(50, d))[stored] for d in (4, 3))
    found = similarity.indices(x, y, permutations=39)
    assert found.settings["groups"] == 50
    assert "150 rows equal an earlier row in both X and Y" in found.caveats[0]
    by_hand = similarity.indices(x, y, permutations=39, groups=stored)
    # which number a group has does not matter to a p-value beyond which shuffles are drawn
    for name, each in found.indices.items():
        assert each.null.mean == pytest.approx(by_hand[name].null.mean, abs=0.1), name
    layers = similarity.layers([x, x[:, :2]], [y], permutations=19)
    assert any("copies are shuffled together" in note for note in layers.caveats)
    both = similarity.cka(x, y, permutations=19, within=np.arange(200) % 2)
    assert both.within == 2


def test_rows_that_repeat_on_one_side_or_by_chance_are_only_counted():
    rng = np.random.default_rng(0)
    stored = np.repeat(np.arange(50), 4)
    x, y = rng.normal(size=(50, 4))[stored], rng.normal(size=(200, 3))
    found = similarity.cca(x, y, permutations=19)
    assert "150 rows of X equal an earlier row and are shuffled one by one" in found.caveats[0]
    few = [rng.integers(0, 2, size=(200, 2)).astype(float) for _ in range(2)]
    assert "groups" not in similarity.cca(*few, permutations=19).null.method
    assert similarity.cca(y, y[:, :2], permutations=19).caveats == ()


def test_equal_scores_do_not_make_neighbours_agree():
    """Independent rows of few values: many are equally near, and their order in the file must not decide."""
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(40):
        x, y = (rng.integers(0, 2, size=(80, 4)).astype(float) for _ in range(2))
        p_values.append(similarity.mutual_knn(x, y, metric="euclidean", k=5, permutations=39).p_value)
    assert np.mean(np.array(p_values) <= 0.1) < 0.3
    copies = np.repeat(rng.normal(size=(20, 3)), 5, axis=0)
    assert similarity.mutual_knn(copies, copies[:, ::-1], k=6).value == 1.0
