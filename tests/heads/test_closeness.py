"""Closeness in distribution: what each distance sees, what it is blind to, and the pair that divergence calls close."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

import isorep
from isorep.heads import closeness
from isorep.heads.closeness import svd_distance

from .worlds import circle_models, equal_models


def two_models(n=120, classes=6, seed=0):
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(n, 3)), rng.normal(size=(classes, 3))
    h, other = f @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(n, 4)), rng.normal(size=(classes, 4))
    return f, h, g, other


def test_every_number_is_that_of_the_definition():
    f, h, g, other = two_models()
    b = np.arange(6.0)
    found = closeness(f, h, g, other, source_bias=b, intervals=False)
    p, q = log_softmax(f @ g.T + b, axis=1), log_softmax(h @ other.T, axis=1)
    kl = np.sum(np.exp(p) * (p - q), axis=1)
    assert found.kl.mean == pytest.approx(kl.mean())
    assert found.kl.largest == pytest.approx(kl.max())
    assert found.worst_row == str(kl.argmax())
    assert found.kl_reverse.mean == pytest.approx(np.sum(np.exp(q) * (q - p), axis=1).mean())
    assert found.total_variation.mean == pytest.approx(np.abs(np.exp(p) - np.exp(q)).sum(axis=1).mean() / 2)
    assert found.agreement.mean == pytest.approx((p.argmax(axis=1) == q.argmax(axis=1)).mean())
    psi, other_psi = (each - each.mean(axis=1, keepdims=True) for each in (p, q))
    spread = (psi - other_psi).std(axis=0)
    assert found.log_odds.value == pytest.approx(spread.max())
    assert found.log_odds.worst_class == str(spread.argmax())
    assert found.log_odds.mean_difference == pytest.approx(np.abs((psi - other_psi).mean(axis=0)).max())
    assert found.log_odds.over_classes == pytest.approx((p - q).std(axis=1).max())
    standard = (psi / psi.std(axis=0) - other_psi / other_psi.std(axis=0)).std(axis=0)
    assert found.log_odds.standardised == pytest.approx(standard.max())
    assert found.representations.linear_r2 == pytest.approx(isorep.similarity.linear_r2(f, h).value)
    assert found.representations.cca == pytest.approx(isorep.similarity.cca(f, h).value)


def test_a_reference_class_gives_the_log_odds_of_the_paper():
    f, h, g, other = two_models()
    p, q = log_softmax(f @ g.T, axis=1), log_softmax(h @ other.T, axis=1)
    expected = ((p - p[:, [2]]) - (q - q[:, [2]])).std(axis=0).max()
    assert closeness(f, h, g, other, reference=2, intervals=False).log_odds.value == pytest.approx(expected)


def test_logits_say_the_same_as_features_and_heads():
    f, h, g, other = two_models()
    whole, logits = closeness(f, h, g, other, intervals=False), closeness(f @ g.T, h @ other.T, intervals=False)
    assert logits.kl.mean == pytest.approx(whole.kl.mean)
    assert logits.log_odds.value == pytest.approx(whole.log_odds.value)
    assert logits.representations is None


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), biases=st.booleans())
def test_models_of_one_class_of_equivalence_are_at_distance_zero(seed, biases):
    m = equal_models(n=60, seed=seed, biases=biases)
    found = closeness(m.f, m.other_f, m.g, m.other_g, source_bias=m.b, target_bias=m.other_b, intervals=False)
    assert max(found.kl.largest, found.kl_reverse.largest, found.total_variation.largest) < 1e-9
    assert found.agreement.mean == 1
    assert found.log_odds.value < 1e-9
    assert found.log_odds.standardised < 1e-5
    assert found.close
    assert found.representations.cca == pytest.approx(1, abs=1e-6)
    assert "carries over to representations" in found.verdict


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_classes_and_one_vector_for_all_of_them_change_nothing(seed):
    f, h, g, other = two_models(n=40, seed=seed)
    order = np.random.default_rng(seed).permutation(6)
    plain, moved = (
        closeness(f, h, g, other, intervals=False),
        closeness(f, h, g[order] + 7, other[order] - 3, intervals=False),
    )
    for name in ("kl", "kl_reverse", "total_variation"):
        assert getattr(moved, name).mean == pytest.approx(getattr(plain, name).mean, rel=1e-6)
    assert moved.log_odds.value == pytest.approx(plain.log_odds.value, rel=1e-6)
    assert order[int(moved.log_odds.worst_class)] == int(plain.log_odds.worst_class)


def test_a_tiny_divergence_with_representations_far_apart_is_seen_by_the_log_odds():
    f, other_f, g, other_g = circle_models()
    found = closeness(f, other_f, g, other_g)
    assert max(found.kl.mean, found.kl_reverse.mean) < 1e-4
    assert found.agreement.mean == 1
    assert found.representations.linear_r2 < 0.6
    assert found.representations.svd_distance > 0.3
    assert found.log_odds.value > 20
    assert found.log_odds.standardised > 1
    assert found.misleading
    assert found.verdict.startswith("Close in divergence, not in log-odds")
    low, high = found.log_odds.interval.low, found.log_odds.interval.high
    assert 20 < low < found.log_odds.value < high


def test_the_svd_distance_is_that_of_pls():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x @ rng.normal(size=(3, 4)) + rng.normal(size=(200, 4))
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    u, _, v = np.linalg.svd(a.T @ b, full_matrices=False)
    expected = 1 - np.mean([np.corrcoef(a @ u[:, i], b @ v[i])[0, 1] for i in range(3)])
    assert svd_distance(isorep.Moments.from_rows(x, y)) == pytest.approx(expected)
    assert svd_distance(isorep.Moments.from_rows(x, x @ np.linalg.qr(rng.normal(size=(3, 3)))[0])) == pytest.approx(0)


def test_estimates_lie_inside_their_intervals_and_few_units_are_said():
    rng = np.random.default_rng(3)
    f, g = rng.normal(size=(120, 20)), rng.normal(size=(8, 20))
    h = 2 * f + rng.normal(size=f.shape)  # 120 rows for 20 columns: repeats would inflate R² and CCA beyond themselves
    found = closeness(f, h, g, g)
    each = found.representations
    for name in ("linear_r2", "linear_r2_reverse", "cca", "svd_distance"):
        span = getattr(each, f"{name}_interval")
        assert span.low <= getattr(each, name) <= span.high, name
    for part in (found.kl, found.kl_reverse, found.total_variation, found.agreement):
        assert part.interval.low <= part.mean <= part.interval.high
    assert any("intervals are from 120 rows" in caveat for caveat in found.caveats)
    grouped = closeness(f, h, g, g, groups=np.arange(120) % 12)
    assert any("intervals are from 12 groups" in caveat for caveat in grouped.caveats)
    assert not closeness(f, h, g, g, intervals=False).caveats


def test_groups_widen_intervals():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 10)
    f, g = rng.normal(size=(30, 3))[groups], rng.normal(size=(6, 3))  # all rows of a group are one row
    h = f + (0.5 * rng.normal(size=(30, 3)))[groups]
    alone, together = closeness(f, h, g, g), closeness(f, h, g, g, groups=groups)
    for part in ("kl", "log_odds"):
        narrow, wide = getattr(alone, part).interval, getattr(together, part).interval
        assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    narrow, wide = alone.representations.cca_interval, together.representations.cca_interval
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert together.kl.mean == alone.kl.mean
    assert together.settings["groups"] == 30


def test_blocks_files_and_pooled_units_give_the_same_figures(monkeypatch, tmp_path):
    f, h, g, other = two_models(n=300)
    whole = closeness(f, h, g, other)
    module = import_module("isorep.heads.closeness")
    monkeypatch.setattr(module, "block_rows", lambda *widths, **how: 64)
    monkeypatch.setattr(module, "_MOST_CELLS", 7 * 6 * 50)
    np.save(tmp_path / "f.npy", f)
    np.save(tmp_path / "h.npy", h)
    parts = closeness(tmp_path / "f.npy", tmp_path / "h.npy", g, other)
    assert parts.kl.mean == pytest.approx(whole.kl.mean, rel=1e-12)
    assert parts.log_odds.value == pytest.approx(whole.log_odds.value, rel=1e-12)
    assert parts.log_odds.standardised == pytest.approx(whole.log_odds.standardised, rel=1e-9)
    one, two = parts.log_odds.interval, whole.log_odds.interval
    assert one.high - one.low == pytest.approx(two.high - two.low, rel=0.5)


def test_saturated_probabilities_and_large_offsets_are_no_trouble():
    m = equal_models(n=50, biases=False)
    found = closeness(1e4 * m.f, 1e4 * m.other_f, m.g + 1e6, m.other_g - 1e6, intervals=False)
    assert found.kl.largest < 1e-3
    assert np.isfinite(found.log_odds.value)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f, h, g, o: closeness(f, h, g), "one head was given"),
        (lambda f, h, g, o: closeness(f, h, source_bias=np.ones(3)), "a bias goes with a head"),
        (lambda f, h, g, o: closeness(f, h), "3 classes and target has 4"),
        (lambda f, h, g, o: closeness(f, h, g, o[:5]), "6 classes and target head has 5"),
        (lambda f, h, g, o: closeness(f, h[:9], g, o), "has no partner"),
        (lambda f, h, g, o: closeness(h, f, g, o), "4 columns where source head reads 3"),
        (lambda f, h, g, o: closeness(f, h, g, o, reference=6), "reference is 6"),
        (lambda f, h, g, o: closeness(f[:, :1], h[:, :1]), "there is one class"),
        (lambda f, h, g, o: closeness(f[:1], h[:1], g, o), "have 1 row"),
        (lambda f, h, g, o: closeness(np.where(f > 2, np.inf, f), h, g, o), "infinite value"),
    ],
)
def test_wrong_input_is_one_sentence(call, match):
    with pytest.raises(isorep.InputError, match=match):
        call(*two_models())


def test_features_that_do_not_vary_have_no_distance():
    f, h, g, other = two_models()
    found = closeness(np.ones_like(f), h, g, other, intervals=False)
    assert found.representations is None
