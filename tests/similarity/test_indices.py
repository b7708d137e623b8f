"""What each index must not notice, and what it does with shapes that others stumble over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isorep
from isorep import InputError, Moments, Representation, similarity
from isorep.similarity import table
from isorep.similarity.neighbours import nearest

from ..data import rotation

ALL = [
    "cca",
    "svcca",
    "pwcca",
    "linear_r2",
    "cka",
    "cka_debiased",
    "cka_rbf",
    "procrustes_distance",
    "bures_distance",
    "mcc",
    "one_to_one",
    "soft_matching",
    "rsa",
    "mutual_knn",
]
LINEAR = ["cca", "linear_r2"]  # blind to any invertible map of the source
ROTATION = [name for name in ALL if name not in ("mcc", "one_to_one", "soft_matching")]


def value(name, x, y):
    return similarity.indices(x, y, names=[name], permutations=0)[name].value


def pair(seed=0, n=150, d=6, e=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.geomspace(1, 0.2, d)
    return x, x[:, :3] @ rng.normal(size=(3, e)) + 0.5 * rng.normal(size=(n, e))


@given(st.integers(0, 50), st.sampled_from(ROTATION))
def test_rotating_scaling_and_shifting_a_side_changes_nothing(seed, name):
    x, y = pair(seed)
    turned = 3.0 * x @ rotation(6, seed) + (0 if name == "mutual_knn" else 5)  # angles between rows know the origin
    if name == "pwcca":  # weights are sums over the columns as they come
        turned = 3.0 * x[:, ::-1] + 5
    assert value(name, turned, y) == pytest.approx(value(name, x, y), abs=1e-9)


@given(st.integers(0, 50), st.sampled_from(LINEAR))
def test_any_invertible_map_of_the_source_changes_nothing(seed, name):
    x, y = pair(seed)
    mixed = x @ (rotation(6, seed) * np.geomspace(1, 1e3, 6)) - 7
    assert value(name, mixed, y) == pytest.approx(value(name, x, y), abs=1e-9)


def test_mcc_is_blind_to_permutations_signs_and_scales_of_dimensions():
    x, y = pair()
    moved = -x[:, [3, 1, 0, 5, 4, 2]] * np.arange(1, 7) + 2
    assert value("mcc", moved, y) == pytest.approx(value("mcc", x, y), abs=1e-12)
    assert value("mcc", x @ rotation(6, 0), y) != pytest.approx(value("mcc", x, y), abs=1e-3)
    bent = similarity.mcc(np.exp(x), y, correlation="spearman").value
    assert bent == pytest.approx(similarity.mcc(x, y, correlation="spearman").value, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_a_side_is_closest_to_itself(name):
    x, _ = pair()
    found = similarity.indices(x, x.copy(), names=[name], permutations=20)[name]
    assert found.value == pytest.approx(found.best, abs=1e-6)
    assert found.corrected == pytest.approx(1.0, abs=1e-6)
    assert found.p_value == pytest.approx(1 / 21)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", ["wide", "unequal", "deficient", "constant column", "duplicates", "three rows"])
def test_legal_shapes_give_finite_values_in_range(name, shape):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 8)), rng.normal(size=(60, 8))
    if shape == "wide":
        x, y = rng.normal(size=(20, 50)), rng.normal(size=(20, 30))
    elif shape == "unequal":
        y = rng.normal(size=(60, 2))
    elif shape == "deficient":
        x = x[:, :3] @ rng.normal(size=(3, 8))
    elif shape == "constant column":
        x[:, 2], y[:, 0] = 1e6, 0.0
    elif shape == "duplicates":
        x = np.hstack([x, x])
    else:
        x, y = x[:4], y[:4]  # four, which the debiased estimate needs
    found = similarity.indices(x, y, names=[name], permutations=5)[name]
    signed = {"cka_debiased": -2.0, "one_to_one": -1.0, "rsa": -1.0}
    distances = {"procrustes_distance": np.pi / 2, "bures_distance": np.sqrt(2), "soft_matching": 2.0}
    assert signed.get(name, 0.0) <= found.value <= distances.get(name, 1.0)
    assert np.isfinite(found.null.draws).all()


@pytest.mark.parametrize("name", ALL)
def test_single_precision_gives_the_same_values(name):
    x, y = pair(n=400)
    single = value(name, (x + 10).astype(np.float32), y.astype(np.float32))
    double = value(name, (x + 10).astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64))
    # Which of two neighbours is nearer may hang on rounding, and each of the 4,000 counts 2.5e-4.
    assert single == pytest.approx(double, abs=2e-3 if name == "mutual_knn" else 2e-6)


def test_rank_deficient_sides_are_correlated_over_their_ranks():
    rng = np.random.default_rng(0)
    low = rng.normal(size=(100, 2))
    x = low @ rng.normal(size=(2, 6))
    found = similarity.cca(x, np.hstack([low, rng.normal(size=(100, 3))]))
    assert found.details["ranks"] == [2, 5]
    assert found.value == pytest.approx(1.0, abs=1e-10)


def test_fewer_rows_than_columns_saturate_cca_and_it_says_so():
    rng = np.random.default_rng(0)
    found = similarity.cca(rng.normal(size=(30, 40)), rng.normal(size=(30, 50)), permutations=20)
    assert found.value == pytest.approx(1.0)
    assert np.isnan(found.corrected)
    assert "rank 29 fills, so that all canonical correlations are 1" in found.caveats[0]
    debiased = similarity.cka(rng.normal(size=(30, 400)), rng.normal(size=(30, 500)), debiased=True)
    assert abs(debiased.value) < 0.2
    assert similarity.cka(rng.normal(size=(30, 400)), rng.normal(size=(30, 500))).value > 0.8  # the bias it removes


def test_tall_and_wide_paths_meet():
    """Around as many rows as columns, moments and the rows themselves give the same."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(41, 40)), rng.normal(size=(41, 10))
    for name in ALL:
        tall = value(name, x, y)
        assert value(name, np.hstack([x, np.zeros((41, 1))]), y) == pytest.approx(tall, abs=1e-7), name


def test_directions_far_below_the_largest_still_count():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 4))
    x = z @ (rotation(4, 0) * [1.0, 1e-3, 1e-6, 1e-9]) @ rotation(4, 1)
    assert similarity.cca(x, z).value == pytest.approx(1.0, abs=1e-6)


def test_svcca_keeps_what_it_is_told():
    x, y = pair()
    assert similarity.svcca(x, y, components=2).details["kept"] == [2, 2]
    assert similarity.svcca(x, y, components=99).details["kept"] == [6, 5]
    assert similarity.svcca(x, y, variance=1.0).value == pytest.approx(similarity.cca(x, y).value, abs=1e-12)
    assert similarity.svcca(x * [100, 1, 1, 1, 1, 1], y, variance=0.5).details["kept"][0] == 1


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner_product"])
def test_nearest_agrees_with_brute_force(metric):
    rng = np.random.default_rng(0)
    queries, corpus = rng.normal(size=(37, 5)) + 100, rng.normal(size=(3000, 5)) + 100
    if metric == "cosine":
        unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, corpus)]
        scores = unit[0] @ unit[1].T
    elif metric == "euclidean":
        scores = -np.linalg.norm(queries[:, None] - corpus, axis=2)
    else:
        scores = queries @ corpus.T
    assert (nearest(queries, corpus, 7, metric=metric) == np.argsort(-scores, axis=1)[:, :7]).all()
    own = nearest(corpus, corpus, 3, metric=metric, itself=False)
    assert not (own == np.arange(3000)[:, None]).any()


def test_mutual_knn_counts_shared_neighbours():
    x = np.array([[0.0], [1.0], [2.1], [10.0], [11.0], [12.1]])
    y = np.array([[0.0], [1.0], [10.0], [2.1], [11.0], [12.1]])
    near = [{1, 2}, {0, 2}, {1, 0}, {4, 5}, {3, 5}, {4, 3}], [{1, 3}, {0, 3}, {4, 5}, {1, 0}, {2, 5}, {4, 2}]
    by_hand = np.mean([len(a & b) / 2 for a, b in zip(*near, strict=True)])
    assert similarity.mutual_knn(x, y, k=2, metric="euclidean").value == pytest.approx(by_hand)


def test_results_say_what_they_are():
    x, y = pair()
    found = similarity.procrustes_distance(x, y, permutations=10)
    assert not found.higher_is_closer
    assert float(found) == found.value
    assert "lower is closer" in str(found)
    assert found.to_dict()["null"]["n"] == 10
    assert similarity.cka(x, y).corrected is None
    assert similarity.cka(x, y).p_value is None


def test_wrong_input_is_refused_with_a_sentence():
    x, y = pair()
    bad = x.copy()
    bad[3, 2] = np.nan
    for call, words in [
        (lambda: similarity.cca(x, y[:-1]), "150 rows and Y has 149"),
        (lambda: similarity.cca(bad, y), "X holds 1 NaN value, the first at row 3, column 2"),
        (lambda: similarity.cca(bad[:5], y[:5]), "X holds 1 NaN value"),
        (lambda: similarity.mutual_knn(bad, y), "X holds 1 NaN value"),
        (lambda: similarity.cca(np.ones((50, 3)), y[:50]), "all rows of X are identical"),
        (lambda: similarity.cca(x), "pass X and Y"),
        (lambda: similarity.cca(x[:2], y[:2]), "at least 3"),
        (lambda: similarity.cka(x[:3], y[:3], debiased=True), "at least 4 rows"),
        (lambda: similarity.svcca(x, y, variance=0), "variance is 0"),
        (lambda: similarity.svcca(x, y, components=0), "components is 0"),
        (lambda: similarity.pwcca(x, y, side="both"), "side is 'both'"),
        (lambda: similarity.cka(x, y, kernel="cubic"), "kernel is 'cubic'"),
        (lambda: similarity.cka(x, y, bandwidth=-1), "bandwidth is -1"),
        (lambda: similarity.mutual_knn(x, y, k=150), "from 1 to 149"),
        (lambda: similarity.mutual_knn(x, y, metric="taxi"), "metric is 'taxi'"),
        (lambda: similarity.procrustes_distance(x, y, up_to="anything"), "up_to is 'anything'"),
        (lambda: similarity.mcc(x, y, correlation="kendall"), "correlation is 'kendall'"),
        (lambda: similarity.cca(x, y, permutations=-1), "permutations is -1"),
        (lambda: similarity.cca(x, y, permutations=5, groups=np.zeros(150)), "one group only"),
        (lambda: similarity.cca(x, y, permutations=5, groups=np.zeros(3)), "one label per row"),
        (lambda: similarity.cca(Moments.from_rows(x, y), permutations=5), "a null needs the two arrays"),
        (lambda: similarity.cka(Moments.from_rows(x, y), debiased=True), "pass the two arrays"),
        (lambda: similarity.cca(Moments.from_rows(x, y), y), "pass them alone"),
        (lambda: similarity.indices(x, y, names=["tsne"]), "choose from cca"),
        (lambda: similarity.cka(np.repeat(x[:5], 40, axis=0), np.repeat(x[:1], 200, axis=0)), "identical"),
        (
            lambda: similarity.cca(Representation(x, ids=np.arange(150)), Representation(y, ids=np.arange(1, 151))),
            "ids",
        ),
    ]:
        with pytest.raises(InputError, match=words.replace("(", r"\(")):
            call()


def test_the_room_loads_lazily():
    assert isorep.similarity.cca is similarity.cca
    assert "similarity" in dir(isorep)


def test_every_index_has_its_words_for_the_page():
    assert set(similarity.table.SHOWN) == set(similarity.INDICES)


def test_indices_that_match_units_are_left_out_by_default_where_that_takes_minutes(rng, monkeypatch):
    x = rng.normal(size=(20, 30))
    monkeypatch.setattr(table, "MOST_MATCHING", 30**3 * 20 - 1)
    found = isorep.similarity.indices(x, x, permutations=19)
    assert not {"mcc", "one_to_one", "soft_matching"} & found.indices.keys()
    assert sum("make it slow; name it to compute it" in caveat for caveat in found.caveats) == 3
    assert "mcc" in isorep.similarity.indices(x, x, names=["mcc"], permutations=19).indices
    assert "mcc" in isorep.similarity.indices(x, x, permutations=18).indices


def test_three_rows_leave_out_what_needs_four(rng):
    found = isorep.similarity.indices(rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), permutations=0)
    assert "cka_debiased" not in found.indices
    assert any("needs at least 4 rows" in caveat for caveat in found.caveats)


@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
@pytest.mark.parametrize("power", [-130, -60, 60, 120])
def test_neighbours_do_not_depend_on_an_extreme_scale(rng, metric, power):
    x = rng.normal(size=(80, 5)).astype(np.float32)
    wanted = nearest(x, x, 5, metric=metric, itself=False)
    scaled = (x.astype(np.float64) * 2.0**power).astype(np.float32 if power > -100 else np.float64)
    np.testing.assert_array_equal(nearest(scaled, scaled, 5, metric=metric, itself=False), wanted)


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("size", [1e-60, 1e-30, 1e30, 1e60])
def test_cka_has_no_unit_at_any_size_of_values(size, debiased):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = x @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(60, 3))
    found, usual = (
        isorep.similarity.cka(scale * x, scale * y, debiased=debiased, permutations=20) for scale in (size, 1.0)
    )
    assert found.value == pytest.approx(usual.value, rel=1e-9)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_values_whose_fourth_powers_leave_float64_are_refused_as_such(size):
    x = np.random.default_rng(0).normal(size=(60, 3))
    for a, b in ((size * x, x), (x, size * x), ((size * x).T.copy(), x.T.copy())):
        with pytest.raises(isorep.InputError, match="rescale, their fourth powers"):
            isorep.similarity.cka(a, b)


def test_an_index_that_the_rows_do_not_define_is_left_out_of_the_table_and_an_error_by_name():
    rng = np.random.default_rng(0)
    x = np.zeros((60, 3))
    x[-12:] = rng.normal(size=(12, 3))  # more than half of all pairs are equal: there is no bandwidth
    found = isorep.similarity.indices(x, rng.normal(size=(60, 3)), permutations=20)
    assert "cka_rbf" not in found.indices
    assert any(each.startswith("cka_rbf was left out: more than half of all pairs") for each in found.caveats)
    assert {"cka", "cca"} <= set(found.indices)
    with pytest.raises(isorep.InputError, match="there is no bandwidth"):
        isorep.similarity.indices(x, rng.normal(size=(60, 3)), names=["cka_rbf"], permutations=20)
