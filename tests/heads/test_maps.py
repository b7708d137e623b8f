"""The map that heads predict: exact where distributions are equal, compared with a regression where they are not."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isorep
from isorep.heads import examine, head_map

from .worlds import equal_models


def centred(values):
    return values - values.mean(axis=0)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("classes", [5, 12, 40])  # K = M + 1 and more
def test_equal_distributions_have_the_exact_map(biases, classes):
    m = equal_models(classes=classes, biases=biases)
    given_biases = (m.b, m.other_b) if biases else (None, None)
    found = head_map(m.g, m.other_g, *given_biases)
    np.testing.assert_allclose(found.coef, m.map, atol=1e-10)
    np.testing.assert_allclose(found.intercept, m.shift, atol=1e-10)
    np.testing.assert_allclose(found.transform(m.f), m.other_f, atol=1e-10)
    assert found.unexpressed < 1e-10
    assert max(found.angles) < 1e-6


def test_the_formula_is_that_of_the_paper_for_as_few_classes_as_can_be():
    """With L the differences from one class, f' = L'^-T L*^T f*, which the pseudo-inverse reduces to for K = M + 1."""
    rng = np.random.default_rng(0)
    g, other = rng.normal(size=(2, 5, 4))  # two heads that have nothing to do with each other
    left, right = (g[1:] - g[0]).T, (other[1:] - other[0]).T
    expected = np.linalg.inv(right).T @ left.T
    np.testing.assert_allclose(head_map(g, other).coef.T, expected, atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(3, 12), width=st.integers(1, 5), other=st.integers(1, 5))
def test_the_map_is_the_least_squares_solution_of_the_log_odds(seed, classes, width, other):
    """Brute force: among all affine maps, none makes the target's centred logits closer to the source's."""
    rng = np.random.default_rng(seed)
    g, h = rng.normal(size=(classes, width)) + 5, rng.normal(size=(classes, other)) - 5
    b, c = rng.normal(size=(2, classes))
    found = head_map(g, h, b, c)
    expected = np.linalg.pinv(centred(h), rcond=1e-10)
    np.testing.assert_allclose(found.coef.T, expected @ centred(g), atol=1e-8, rtol=1e-8)
    np.testing.assert_allclose(found.intercept, expected @ (centred(b) - centred(c)), atol=1e-8, rtol=1e-8)
    f = rng.normal(size=(20, width))
    wanted = f @ centred(g).T + centred(b)

    def miss(coef, intercept):
        return np.sum(((f @ coef + intercept) @ centred(h).T + centred(c) - wanted) ** 2)

    best = miss(found.coef, found.intercept)
    for _ in range(5):
        step = 0.01 * rng.normal(size=found.coef.shape), 0.01 * rng.normal(size=found.intercept.shape)
        assert miss(found.coef + step[0], found.intercept + step[1]) >= best * (1 - 1e-9)


def test_weights_make_it_weighted_least_squares_and_leave_out_classes_without():
    rng = np.random.default_rng(0)
    g, h, w = rng.normal(size=(9, 3)), rng.normal(size=(9, 4)), np.array([1, 2, 3, 4, 5, 6, 7, 8, 0.0])
    p = w / w.sum()
    root = np.sqrt(p)[:, None]
    expected = np.linalg.pinv(root * (h - p @ h)) @ (root * (g - p @ g))
    np.testing.assert_allclose(head_map(g, h, weights=w).coef.T, expected, atol=1e-10)


def test_principal_angles_are_those_of_scipy():
    from scipy.linalg import subspace_angles

    rng = np.random.default_rng(0)
    g, h = rng.normal(size=(15, 4)), rng.normal(size=(15, 6))
    found = head_map(g, h)
    np.testing.assert_allclose(found.angles, np.sort(subspace_angles(centred(g), centred(h))), atol=1e-7)
    fitted = np.linalg.lstsq(centred(h), centred(g), rcond=None)[1].sum()
    assert found.unexpressed == pytest.approx(fitted / np.sum(centred(g) ** 2))


def test_unequal_widths_are_restricted_to_what_classes_see():
    m = equal_models(n=200)
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    wide_f = np.column_stack([m.f, 10 * rng.normal(size=(200, 3))]) @ turn  # three dimensions that no class sees
    wide_g = np.column_stack([m.g, np.zeros((12, 3))]) @ turn
    onto = head_map(wide_g, m.other_g, m.b, m.other_b, features=wide_f, other_features=m.other_f)
    np.testing.assert_allclose(onto.transform(wide_f), m.other_f, atol=1e-10)
    assert onto.agrees
    assert onto.ranks == (4, 4)
    assert onto.regression.effective_dimensions == (4, 4)
    assert onto.regression.seen_shares[0] < 0.2
    back = head_map(m.other_g, wide_g, m.other_b, m.b, features=m.other_f, other_features=wide_f)
    seen = wide_f @ turn.T
    seen[:, 4:] = 0
    np.testing.assert_allclose(back.transform(m.other_f), seen @ turn, atol=1e-9)
    assert back.agrees
    assert back.regression.head.r2 > 1 - 1e-10
    assert any("rank 4 of 7" in caveat for caveat in back.caveats)


def test_float32_keeps_the_map_to_its_digits():
    m = equal_models()
    parts = [each.astype(np.float32) for each in (m.g, m.other_g, m.b, m.other_b)]
    found = head_map(
        *parts, features=m.f.astype(np.float32), other_features=m.other_f.astype(np.float32), intervals=False
    )
    np.testing.assert_allclose(found.coef, m.map, atol=1e-4)
    assert found.regression.head.r2 > 1 - 1e-8
    assert found.agrees
    assert found.rank_tolerances[0] == pytest.approx(16 * np.finfo(np.float32).eps)


@pytest.mark.parametrize(("classes", "vacuous"), [(4, True), (5, True), (6, False), (20, False)])
def test_too_few_classes_make_the_weights_vacuous(classes, vacuous):
    rng = np.random.default_rng(0)
    found = head_map(*rng.normal(size=(2, classes, 4)))
    assert found.vacuous is vacuous
    assert found.verdict.startswith("Vacuous") is vacuous
    assert (found.unexpressed < 1e-10) is vacuous
    assert (np.array(found.angles) < 1e-6).sum() == found.forced_angles


def test_of_directions_that_no_head_sees_nothing_is_claimed():
    """Equal logits leave what lies outside the head free: here independent noise."""
    m = equal_models()
    noise = np.random.default_rng(6).normal(size=(2, len(m.f), 1))
    blind = [np.hstack([head, np.zeros((len(head), 1))]) for head in (m.g, m.other_g)]
    found = head_map(
        *blind,
        m.b,
        m.other_b,
        features=np.hstack([m.f, noise[0]]),
        other_features=np.hstack([m.other_f, noise[1]]),
    )
    assert found.agrees
    assert found.verdict.startswith("The heads predict the map between what the heads see of the features: ")
    share = found.regression.seen_shares[1]
    assert 0 < share < 0.99
    assert f"of what its head sees of the target ({share:.1%} of its variance) and least squares" in found.verdict
    whole = head_map(m.g, m.other_g, m.b, m.other_b, features=m.f, other_features=m.other_f)
    assert whole.verdict.startswith("The heads predict the map between the features: ")
    assert "sees" not in whole.verdict


def test_a_regression_sees_what_heads_do_not():
    """The features are linear images of each other, the heads are unrelated: heads predict nothing."""
    m = equal_models()
    unrelated = np.random.default_rng(5).normal(size=m.g.shape)
    found = head_map(m.g, unrelated, features=m.f, other_features=m.other_f)
    assert found.agrees is False
    assert found.regression.regression.r2 > 0.999
    assert found.regression.head.r2 < 0.5
    assert found.regression.excess.low > 0.01
    assert found.head_prediction.inverse.r2 < 0.5
    assert found.verdict.startswith("The heads predict nothing of what a linear map can explain")
    assert "explains nothing of the target" in found.verdict
    shrunk = head_map(m.g, 1.5 * m.other_g, m.b, m.other_b, features=m.f, other_features=m.other_f)
    assert 0 < shrunk.regression.head.r2 < 1
    assert f"predict {shrunk.regression.share:.1%} of what" in shrunk.verdict


def test_features_that_no_linear_map_relates_are_not_agreement():
    m = equal_models()
    noise = np.random.default_rng(5).normal(size=m.f.shape)
    found = head_map(m.g, m.other_g, features=m.f, other_features=noise)
    assert found.agrees is False
    assert found.verdict.startswith("No linear map explains half")


def test_held_out_errors_are_those_of_compare():
    m = equal_models(n=150)
    noisy = m.other_f + 0.3 * np.random.default_rng(2).normal(size=m.other_f.shape)
    groups = np.repeat(np.arange(30), 5)
    found = head_map(m.g, m.other_g, m.b, m.other_b, features=m.f, other_features=noisy, groups=groups)
    linear = isorep.compare(m.f, noisy, rungs=["linear"], groups=groups, n_null=0, n_boot=0, worst_case=False)
    both = found.regression
    assert both.diameter == pytest.approx(linear.diameter.value)
    assert both.regression.error.mean == pytest.approx(linear.rungs["linear"].in_diameters.held_out.mean)
    error = np.linalg.norm(found.transform(m.f) - noisy, axis=1)
    assert both.head.error.mean == pytest.approx(error.mean() / both.diameter)
    assert both.head.r2 == pytest.approx(1 - (error**2).sum() / np.sum(centred(noisy) ** 2))
    assert both.head.r2 > both.regression.r2  # the truth, against a map fitted to noise
    assert found.settings["groups"] == 30


def test_intervals_account_for_the_regressions_of_other_rows(monkeypatch):
    """Twenty columns and 150 rows: the regression varies, the map of the heads does not."""
    rng = np.random.default_rng(0)
    g, f = rng.normal(size=(30, 20)), rng.normal(size=(150, 20))
    both = {"features": f, "other_features": f + 0.5 * rng.normal(size=f.shape)}
    whole = head_map(g, g, **both).regression
    monkeypatch.setattr("isorep.comparison.ladder.pulled_rungs", lambda *sizes: [])
    alone = head_map(g, g, **both).regression  # rows vary, the regression is taken as given
    spans = [(each.head.interval, each.regression.interval, each.excess) for each in (whole, alone)]
    head, fitted, excess = (new.high - new.low for new in spans[0])
    plain = [old.high - old.low for old in spans[1]]
    assert head == pytest.approx(plain[0])
    assert fitted > 1.1 * plain[1]
    assert excess > 1.02 * plain[2]
    assert spans[0][2].low < whole.head.error.mean - whole.regression.error.mean < spans[0][2].high


def test_the_other_side_of_the_theorem_predicts_the_target_s_head():
    m = equal_models()
    found = head_map(m.g, m.other_g, m.b, m.other_b, features=m.f, other_features=m.other_f, intervals=False)
    for each in (found.head_prediction.inverse, found.head_prediction.reverse):
        assert each.r2 == pytest.approx(1, abs=1e-10)
        assert each.log_odds_r2 == pytest.approx(1, abs=1e-10)
    values = np.linalg.svd(m.map, compute_uv=False)
    assert found.head_prediction.condition == pytest.approx(values[0] / values[-1])


def test_blocks_of_classes_give_the_same_map(monkeypatch):
    rng = np.random.default_rng(0)
    g, h = rng.normal(size=(300, 4)), rng.normal(size=(300, 5))
    whole = head_map(g, h)
    monkeypatch.setattr(import_module("isorep.heads.head_map"), "block_rows", lambda *widths, **how: 64)
    np.testing.assert_allclose(head_map(g, h).coef, whole.coef, atol=1e-12)


def test_everything_at_once_and_its_limits():
    m = equal_models()
    found = examine(
        m.g, m.other_g, bias=m.b, other_bias=m.other_b, features=m.f, other_features=m.other_f,
        weights=np.arange(1, 13),
    )  # fmt: skip
    assert found.holds
    assert found.figure("kl") < 1e-10
    assert found.figure("excess") < 1e-10
    assert found.figure("condition") == max(each.classes.condition for each in found.heads)
    assert found.to_dict()["schema"] == "isorep.heads/1"
    alone = examine(m.g[:3])
    assert not alone.holds
    assert alone.figure("condition") == alone.figure("differences") == np.inf
    assert alone.figure("kl") is None
    assert "does not apply" in str(alone)
    failing = examine(m.g[:4], m.other_g[:4])
    assert failing.verdict == failing.heads[0].verdict


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: head_map(m.g, m.other_g[:5]), "12 classes and target head has 5"),
        (lambda m: head_map(m.g, m.other_g, features=m.f), "features of one model"),
        (lambda m: head_map(m.g, m.other_g, features=m.f, other_features=m.f[:7]), "has no partner from row 7"),
        (lambda m: head_map(m.g, m.other_g, features=m.f[:, :2], other_features=m.f), "2 columns where source head"),
        (lambda m: head_map(m.g, 0 * m.g, features=m.f, other_features=m.f), "all classes of target head have one"),
        (lambda m: head_map(m.g, m.other_g, features=m.f, other_features=0 * m.f), "are identical"),
        (lambda m: head_map(m.g, m.other_g, m.b[:3]), "the bias of source head"),
        (lambda m: head_map(m.g, m.other_g, tolerance=-1), "tolerance is -1"),
        (lambda m: head_map(m.g, m.other_g, folds=1), "folds is 1"),
        (lambda m: head_map(m.g, m.other_g).transform(m.f[:, :2]), "X has 2 columns"),
        (lambda m: examine(m.g, groups=np.ones(300)), "name two heads"),
        (lambda m: examine(m.g, other_features=m.f), "there is one head"),
        (lambda m: examine(m.g, m.g, features=m.f), "features of one model"),
        (lambda m: examine(m.g, m.g, groups=np.ones(300)), "groups belong to the rows of features"),
        (lambda m: examine(m.g, reference=1), "log-odds, which need two heads"),
        (lambda m: examine(m.g, m.g, reference=1), "log-odds, which need two heads"),
    ],
)
def test_wrong_input_is_one_sentence(call, match):
    with pytest.raises(isorep.InputError, match=match):
        call(equal_models())


def test_classes_in_another_order_are_refused():
    m = equal_models()
    names = [f"class {place}" for place in range(12)]
    here, there = isorep.Representation(m.g, ids=names), isorep.Representation(m.other_g, ids=names[::-1])
    with pytest.raises(isorep.InputError, match="another order"):
        head_map(here, there)


def test_heads_of_one_name_are_told_apart(tmp_path):
    m = equal_models()
    for folder, values in (("a", m.g), ("b", m.other_g)):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "head.npy", values)
    found = examine(tmp_path / "a" / "head.npy", tmp_path / "b" / "head.npy")
    names = ("a/head.npy", "b/head.npy")
    assert found.head_map.names == tuple(each.name for each in found.heads) == names
