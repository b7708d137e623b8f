"""Families of heads: equal distributions give features that are linear images, where statistics span and only there."""

import re
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_softmax
from scipy.stats import norm

import isorep
from isorep.heads import closeness, diversity, examine, head_map
from isorep.heads.families import FAMILIES

FAMILY = tuple(FAMILIES)
SETS = [[0, 1, 2], [2, 3, 4], [6, 7], [7, 8, 9]]  # two sets that have nothing in common; 5, 10 and 11 are never drawn


def distribution(family, f, g, b):
    """All that an outcome's distribution depends on."""
    logits = f @ g.T + b
    return {"gaussian": lambda: logits, "bernoulli": lambda: expit(logits)}.get(
        family, lambda: log_softmax(logits, axis=1)
    )()


def equal(family, rows=12, width=4, *, seed=0, biases=True):
    """Features, heads and biases of two models with the same distribution, and the map between their features."""
    rng = np.random.default_rng(seed)
    f, g, b = rng.normal(size=(300, width)) + 2, rng.normal(size=(rows, width)), rng.normal(size=rows) * biases
    a, shift = rng.normal(size=(width, width)) + 2 * np.eye(width), rng.normal(size=width) * biases
    other_g = g @ np.linalg.inv(a).T
    other_b = b - other_g @ shift
    if FAMILIES[family].centred:
        offset = rng.normal(size=width)  # one vector for all classes changes no softmax
        other_g, other_b = other_g + offset, other_b - offset @ shift
    return f, f @ a + shift, g, other_g, b, other_b


@pytest.mark.parametrize("family", FAMILY)
def test_equal_distributions_have_features_that_the_heads_map_onto_each_other(family):
    f, h, g, other_g, b, other_b = equal(family)
    np.testing.assert_allclose(distribution(family, f, g, b), distribution(family, h, other_g, other_b), atol=1e-9)
    found = examine(
        g, other_g, bias=b, other_bias=other_b, features=f, other_features=h, family=family, intervals=False,
    )  # fmt: skip
    np.testing.assert_allclose(found.head_map.transform(f), h, atol=1e-8)
    assert found.holds
    assert found.head_map.agrees
    assert found.closeness.kl.largest < 1e-9
    assert found.closeness.close
    assert found.head_map.head_prediction.inverse.r2 == pytest.approx(1, abs=1e-8)
    assert found.to_dict()["settings"]["family"] == found.to_dict()["heads"][0]["family"] == family


@pytest.mark.parametrize("family", FAMILY)
def test_where_statistics_do_not_span_equal_distributions_determine_no_map(family):
    rng = np.random.default_rng(1)
    spare = int(FAMILIES[family].centred)
    g, f = rng.normal(size=(3 + spare, 4)), rng.normal(size=(300, 4))  # three dimensions of four
    unseen = np.linalg.svd(g - spare * g.mean(axis=0))[2][-1]
    h = f + np.outer(np.sin(5 * f[:, 0]) * f[:, 1] * 9, unseen)
    np.testing.assert_allclose(distribution(family, f, g, 0), distribution(family, h, g, 0), atol=1e-9)
    assert isorep.similarity.linear_r2(f, h).value < 0.9
    found = examine(g, g, features=f, other_features=h, family=family, intervals=False)
    assert not found.heads[0].applies
    assert not found.holds
    words = FAMILIES[family]
    assert (
        f"span 3 of 4 dimensions, and at least {4 + spare} distinct {words.rows} are needed" in found.heads[0].verdict
    )
    assert np.abs(found.head_map.transform(f) - h).max() > 1
    one_more = np.vstack([g, rng.normal(size=4)])
    assert diversity(one_more, family=family).applies
    assert not np.allclose(distribution(family, f, one_more, 0), distribution(family, h, one_more, 0))


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_labels_and_outputs_count_as_they_are_and_classes_by_their_differences(family):
    g = np.random.default_rng(0).normal(size=(4, 4))
    assert diversity(g, family=family).applies
    assert not diversity(g).applies
    same = g + 5 * np.ones(4)  # one vector for all rows: another distribution of labels, the same one of classes
    assert diversity(same, family=family).classes.condition != pytest.approx(
        diversity(g, family=family).classes.condition
    )
    constant = np.column_stack([np.random.default_rng(1).normal(size=(9, 3)), np.ones(9)])
    assert diversity(constant, family=family).applies
    assert "1 column is the same for every class" in diversity(constant).verdict
    zero = np.column_stack([constant[:, :3], np.zeros(9)])
    assert f"1 column is zero for every {FAMILIES[family].row}" in diversity(zero, family=family).verdict
    values = np.linalg.svd(g, compute_uv=False)
    assert diversity(g, family=family).classes.condition == pytest.approx(values[0] / values[-1])
    few = diversity(g[:1, :2], family=family)
    assert "the one distinct" in few.verdict
    assert few.classes.rank == 1
    assert diversity(np.zeros((5, 2)), family=family).classes.pairs is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_differences_of_labels_are_between_one_label_another_or_none(dtype):
    g = np.repeat(np.random.default_rng(0).normal(size=(40, 5)), 3, axis=0).astype(dtype)
    found = diversity(g, family="bernoulli").classes.pairs
    rows = np.vstack([g, np.zeros((1, 5))]).astype(float)
    pairs = [[120 if name == "none" else int(name) for name in pair] for pair in found.classes]
    values = np.linalg.svd(np.array([rows[a] - rows[b] for a, b in pairs]), compute_uv=False)
    assert found.condition == pytest.approx(values[0] / values[-1], rel=1e-4)


def test_a_label_that_always_or_never_occurs_says_nothing():
    g = np.random.default_rng(0).normal(size=(5, 4))
    assert diversity(g, [0.5, 0.1, 0.9, 0.3, 0.7], family="bernoulli").applies
    found = diversity(g, [0.5, 0.1, 1.0, 0.0, 0.7], family="bernoulli")
    assert not found.applies
    assert "2 of 5 labels always or never occur and were left out" in found.caveats
    p = np.array([0.5, 0.1, 0.9, 0.3, 0.7])
    values = np.linalg.eigvalsh((g.T * (p * (1 - p))) @ g)
    assert diversity(g, p, family="bernoulli").weighted_condition == pytest.approx(np.sqrt(values[-1] / values[0]))


def test_candidates_are_compared_within_the_sets_that_are_drawn_together():
    rng = np.random.default_rng(0)
    f, h, g, other_g, _, _ = equal("contrastive", biases=False)
    offsets = np.zeros((12, 4))
    offsets[:5], offsets[6:10] = rng.normal(size=(2, 4))  # a vector for each set changes no probability within it
    moved = other_g + offsets
    for each in SETS:
        np.testing.assert_allclose(
            log_softmax(f @ g[each].T, axis=1), log_softmax(h @ moved[each].T, axis=1), atol=1e-9
        )
    given = {"family": "contrastive", "sets": SETS}
    found = examine(g, moved, features=f, other_features=h, intervals=False, **given)
    np.testing.assert_allclose(found.head_map.transform(f), h, atol=1e-8)
    assert found.holds
    assert "compared within 2 sets, span 4 of 4 dimensions" in found.heads[0].verdict
    assert "3 of 12 candidates have no weight or lie in no set of two candidates and were left out" in str(found)
    assert found.closeness is None
    assert any("never compared" in caveat for caveat in found.caveats)
    assert np.abs(head_map(g, moved, family="contrastive").transform(f) - h).max() > 1
    assert found.heads[0].classes.needed == 6
    linked = diversity(g, family="contrastive", sets=[*SETS, [4, 6]])  # the two sets are now one
    assert linked.classes.needed == 5
    assert linked.classes.condition == pytest.approx(diversity(g[[0, 1, 2, 3, 4, 6, 7, 8, 9]]).classes.condition)
    assert not diversity(g, family="contrastive", sets=SETS[:1]).applies


def test_a_head_in_one_set_is_a_head_without_sets():
    g = np.random.default_rng(0).normal(size=(9, 3))
    whole, one = diversity(g), diversity(g, sets=[list(range(9))])
    assert one.verdict == whole.verdict
    weighted = diversity(g, np.arange(9), sets=[[0, 1], list(range(1, 9))])
    assert weighted.classes.condition == pytest.approx(diversity(g[1:]).classes.condition)


def test_sets_of_a_coarsely_stored_head_do_not_count_its_rounding():
    g = np.random.default_rng(0).normal(size=(8, 3))
    sets = [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert diversity(g.astype(np.float32), sets=sets).applies
    g[:, 2] = 1e8 / 3
    assert diversity(g, sets=sets).classes.rank == 2  # the mean of a set is not exact
    assert diversity(g.astype(np.float32), sets=sets).classes.rank == 2


def test_closeness_of_labels_is_that_of_all_outcomes():
    rng = np.random.default_rng(0)
    f, h, g, other = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    outcomes = np.array(list(product((0, 1), repeat=4)))

    def log_probabilities(logits):
        return outcomes @ np.log(expit(logits)).T + (1 - outcomes) @ np.log(expit(-logits)).T

    p, q = log_probabilities(f @ g.T), log_probabilities(h @ other.T)
    found = closeness(f, h, g, other, family="bernoulli", intervals=False)
    assert found.kl.mean == pytest.approx(np.sum(np.exp(p) * (p - q), axis=0).mean())
    assert found.kl_reverse.mean == pytest.approx(np.sum(np.exp(q) * (q - p), axis=0).mean())
    a, b = f @ g.T, h @ other.T
    assert found.total_variation.mean == pytest.approx(np.abs(expit(a) - expit(b)).mean())
    assert found.agreement.mean == pytest.approx(((a > 0) == (b > 0)).mean())
    assert found.log_odds.value == pytest.approx((a - b).std(axis=0).max())
    assert found.log_odds.over_classes == pytest.approx(np.sqrt(((a - b) ** 2).mean(axis=1)).max())
    one = closeness(f, h, g[:1], other[:1], family="bernoulli", intervals=False)
    assert one.classes == 1
    huge = closeness(1e4 * f, 1e4 * f, g, g, family="bernoulli", intervals=False)
    assert huge.kl.largest == 0


def test_closeness_of_outputs_is_that_of_gaussians():
    rng = np.random.default_rng(0)
    f, h, g, other = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    precisions = np.array([4.0, 0.25])
    found = closeness(f, h, g, other, family="gaussian", precisions=precisions, intervals=False)
    apart = f @ g.T - h @ other.T
    assert found.kl.mean == pytest.approx((apart**2 @ precisions / 2).mean())
    assert found.log_odds.value == pytest.approx((apart * np.sqrt(precisions)).std(axis=0).max())
    assert found.agreement is None
    silent = closeness(f, h, g, other, family="gaussian", precisions=[4.0, 0.0], intervals=False)
    assert silent.kl.mean == pytest.approx((2 * apart[:, 0] ** 2).mean())
    assert "agreement" not in found.table()
    one = closeness(f[:2], h[:2], g[:1], other[:1], family="gaussian", intervals=False)
    distances = [
        quad(lambda t, a=a, b=b: abs(norm.pdf(t, a) - norm.pdf(t, b)) / 2, -15, 15, limit=200)[0]
        for a, b in zip((f[:2] @ g[0]).tolist(), (h[:2] @ other[0]).tolist(), strict=True)
    ]
    assert one.total_variation.mean == pytest.approx(np.mean(distances), rel=1e-4)


@pytest.mark.parametrize("family", FAMILY)
def test_a_result_speaks_of_its_own_family(family, tmp_path):
    f, h, g, other_g, b, other_b = equal(family)
    weights = np.linspace(0.05, 0.95, 12)
    found = examine(
        g, other_g, bias=b, other_bias=other_b, features=f, other_features=h, family=family, weights=weights,
    )  # fmt: skip
    found.to_html(tmp_path / "page.html")
    html = re.sub(r"<(style|script).*?</\1>", "", (tmp_path / "page.html").read_text().lower(), flags=re.DOTALL)
    for text in (str(found), html):
        for each in FAMILIES.values():
            foreign = each.name != family and each.row != FAMILIES[family].row
            assert (f"distinct {each.rows}" in text) == (not foreign)
            assert not (foreign and f"weighted by {each.weighing}" in text)
        assert f"weighted by {FAMILIES[family].weighing}" in text
        assert ("log-odds" in text) == (FAMILIES[family].figure == "log-odds")
        assert ("centred head" in text) == FAMILIES[family].centred


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda g: diversity(g, family="poisson"), "family is 'poisson': choose from softmax, contrastive, bernoulli"),
        (lambda g: diversity(g, [2.0] * 6, family="bernoulli"), "the weight of label 0 is 2: give how often it is 1"),
        (lambda g: diversity(g, [1.0] * 6, family="bernoulli"), "every label always or never occurs"),
        (lambda g: diversity(g, [-1.0] * 6, family="gaussian"), "the weight of output 0 is negative"),
        (lambda g: diversity(g, sets=[[0, 1]], family="gaussian"), "sets say which outputs are compared"),
        (lambda g: diversity(g, sets=[[0, 6]]), "set 0 names candidate 6 of 6"),
        (lambda g: diversity(g, sets=[[0.5, 1]]), "set 0 is not a list of whole numbers"),
        (lambda g: diversity(g, sets=3), "sets are lists of places"),
        (lambda g: diversity(g, sets=[[1], [2]]), "no set holds two candidates"),
        (lambda g: diversity(g, sets=[]), "no set holds two candidates"),
        (lambda g: closeness(g, g, family="bernoulli", reference=1), "a reference class belongs to a softmax"),
        (lambda g: closeness(g, g, precisions=np.ones(3)), "precisions belong to gaussian outputs"),
        (lambda g: closeness(g, g, family="gaussian", precisions=[1, -1, 1]), "precision of output 1 is -1"),
        (lambda g: head_map(g, 0 * g, features=g, other_features=g, family="bernoulli"), "all labels of target"),
        (
            lambda g: head_map(g[[0, 0, 1, 1]], g[:4], features=g, other_features=g, sets=[[0, 1], [2, 3]]),
            "all classes of source head that share a set have one",
        ),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence(call, match):
    with pytest.raises(isorep.InputError, match=match):
        call(np.random.default_rng(0).normal(size=(6, 3)))
