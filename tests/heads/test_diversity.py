"""Whether the theorem applies: verdicts on heads with known answers, and what they must not depend on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isorep
from isorep.heads import diversity
from isorep.heads.diversity import best_differences, condition, pivoted_pairs
from isorep.heads.spectrum import spectrum
from isorep.rows import BLOCK_CELLS


def head(classes, width, seed=0):
    return np.random.default_rng(seed).normal(size=(classes, width))


def deficient(classes, width, rank):
    return head(classes, rank) @ head(rank, width, 1)


@pytest.mark.parametrize(
    ("g", "rank", "applies"),
    [
        (head(20, 5), 5, True),
        (deficient(20, 5, 3), 3, False),
        (head(5, 5), 4, False),  # K = M
        (head(6, 5), 5, True),  # K = M + 1
        (np.repeat(head(4, 5), 5, axis=0), 3, False),  # 20 rows, 4 of them different
        (np.repeat(head(6, 5), 2, axis=0), 5, True),
        (np.column_stack([head(20, 4), np.full(20, 7.0)]), 4, False),  # a constant column
        (head(1, 3), 0, False),
        (head(9, 1), 1, True),
        (head(2, 1), 1, True),
        (np.zeros((8, 3)), 0, False),
        (np.full((8, 3), 1e6), 0, False),
        (head(20, 5) + 1e4, 5, True),  # a huge offset is not a direction
        (head(2, 900), 1, False),
        (head(20, 5) * np.logspace(0, -8, 5), 5, True),  # units do not matter
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rank_and_verdict_of_constructed_heads(g, rank, applies, dtype):
    found = diversity(g.astype(dtype))
    assert (found.classes.rank, found.applies) == (rank, applies)
    assert found.classes.distinct == len(np.unique(g.astype(dtype), axis=0))
    assert found.verdict.startswith("The theorem applies" if applies else "The theorem does not apply")
    assert f"{found.classes.rank} of {g.shape[1]} dimensions" in found.verdict
    if not found.classes.enough:
        assert f"at least {g.shape[1] + 1} distinct classes are needed" in found.verdict


def test_an_offset_is_told_as_missing_rank_only_where_it_leaves_no_digits():
    assert diversity(head(20, 5) + 1e7).applies
    assert not diversity((head(20, 5) + 1e8).astype(np.float32)).applies


def test_the_condition_number_is_that_of_the_centred_head():
    g = head(30, 6) * [1, 2, 3, 4, 5, 100]
    values = np.linalg.svd(g - g.mean(axis=0), compute_uv=False)
    found = diversity(g)
    assert found.classes.condition == pytest.approx(values[0] / values[-1])
    assert found.classes.spectrum == pytest.approx(values / np.sqrt(30))


def test_a_head_that_nearly_fails_says_so():
    g = head(30, 4)
    g[:, 3] = g[:, 0] + 1e-6 * g[:, 3]
    found = diversity(g)
    assert found.applies
    assert found.nearly_fails
    assert "nearly fails" in found.verdict


def test_weights_are_the_covariance_of_numpy_and_drop_classes_that_never_occur():
    g, counts = head(12, 3), np.array([5, 1, 0, 2, 9, 1, 3, 0, 4, 4, 1, 30])
    found = diversity(g, weights=counts)
    expected = np.linalg.eigvalsh(np.cov(g.T, fweights=counts, bias=True))[::-1]
    assert np.square(found.weighted_spectrum) == pytest.approx(expected)
    assert found.weighted_condition == pytest.approx(np.sqrt(expected[0] / expected[-1]))
    assert found.classes.used == 10
    assert "2 of 12 classes have no weight" in found.caveats[0]
    without = diversity(g[counts > 0])
    assert found.classes.condition == pytest.approx(without.classes.condition)
    assert not diversity(g, weights=[1, 1, 1] + 9 * [0]).applies  # three classes are left


def test_equal_weights_change_nothing():
    g = head(40, 5)
    found = diversity(g, weights=np.full(40, 0.3))
    assert found.weighted_condition == pytest.approx(found.classes.condition)
    few = diversity(g[:5], weights=np.ones(5))
    assert few.weighted_condition == pytest.approx(few.classes.condition)


def test_weights_resolve_what_single_float64_sums_do_not():
    g = head(50, 4)
    g[:, 3] = g[:, 0] + 1e-9 * g[:, 3]
    found = diversity(g, weights=np.arange(1, 51))
    assert found.weighted_rank == found.classes.rank == 4


@settings(max_examples=15, deadline=None)
@given(classes=st.integers(2, 30), width=st.integers(1, 8), seed=st.integers(0, 1000), offset=st.floats(-100, 100))
def test_one_vector_for_all_classes_and_their_order_change_nothing(classes, width, seed, offset):
    g = head(classes, width, seed)
    order = np.random.default_rng(seed).permutation(classes)
    found, moved = diversity(g), diversity(g[order] + offset)
    assert found.classes.rank == moved.classes.rank == min(width, classes - 1)
    assert moved.classes.condition == pytest.approx(found.classes.condition, rel=1e-6)
    assert found.applies == moved.applies


def test_the_best_differences_are_what_they_say_and_beat_pivoted_qr():
    g = head(200, 24)
    found = diversity(g).classes.pairs
    pairs = np.array(found.classes).astype(int)
    assert pairs.shape == (24, 2)
    values = np.linalg.svd(g[pairs[:, 0]] - g[pairs[:, 1]], compute_uv=False)
    assert found.condition == pytest.approx(values[0] / values[-1])
    assert found.condition < 0.5 * found.pivoted_condition
    assert found.exchanged > 0


@pytest.mark.parametrize(("classes", "width"), [(4, 3), (5, 3), (7, 2)])
def test_few_classes_come_near_the_best_of_all_choices(classes, width):
    from itertools import combinations

    g = head(classes, width, 3)
    edges = list(combinations(range(classes), 2))
    best = min(condition(g, np.array(chosen)) for chosen in combinations(edges, width))
    found = diversity(g).classes.pairs
    assert best <= found.condition * (1 + 1e-9)
    assert found.condition < 2.5 * best
    assert found.condition <= found.pivoted_condition * (1 + 1e-9)


def test_a_rank_deficient_head_has_as_many_differences_as_rank():
    g = deficient(30, 8, 5)
    pairs = np.array(diversity(g).classes.pairs.classes).astype(int)
    assert np.linalg.matrix_rank(g[pairs[:, 0]] - g[pairs[:, 1]]) == len(pairs) == 5


def test_differences_of_a_short_list_are_no_worse_than_plain_qr_of_all():
    g = np.random.default_rng(0).standard_t(3, size=(2000, 16))
    found = spectrum(g, "g")
    rows = (g - found.mean) @ found.axes
    assert best_differences(g, found).condition < condition(rows, pivoted_pairs(rows, 16))


def test_classes_keep_their_names():
    g = isorep.Representation(head(6, 2), ids=list("abcdef"), name="letters")
    found = diversity(g)
    assert found.name == "letters"
    assert {each for pair in found.classes.pairs.classes for each in pair} <= set("abcdef")


def test_features_without_biases_need_to_span_and_with_biases_to_vary():
    rng = np.random.default_rng(0)
    g = head(10, 3)
    flat = np.column_stack([rng.normal(size=(50, 2)), np.full(50, 1.0)])  # spans three dimensions, varies in two
    plain, biased = diversity(g, features=flat), diversity(g, features=flat, bias=np.zeros(10))
    assert (plain.features.rank, plain.features.rank_about_zero) == (2, 3)
    assert plain.applies
    assert not biased.applies
    assert "span only 2 about their mean, as biases demand" in biased.verdict


def test_the_effective_dimension_is_the_rank_of_the_centred_logits():
    rng = np.random.default_rng(0)
    g = deficient(20, 6, 4)
    f = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 6))
    found = diversity(g, features=f).features
    logits = (f - f.mean(axis=0)) @ (g - g.mean(axis=0)).T
    assert found.effective_dimension == np.linalg.matrix_rank(logits) == 3
    unseen = diversity(np.column_stack([g, np.zeros((20, 2))]), features=rng.normal(size=(100, 8))).features
    assert unseen.effective_dimension == 4
    assert 0 < unseen.seen_share < 1


def test_features_stream_from_a_file_as_from_memory(tmp_path):
    rng = np.random.default_rng(0)
    width = 64
    f = (rng.normal(size=(3 * BLOCK_CELLS // width // 100, width)) + 5).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    g = head(100, width).astype(np.float32)
    stored, held = diversity(g, features=tmp_path / "f.npy").features, diversity(g, features=f).features
    assert stored.spectrum == held.spectrum
    assert stored.condition_about_zero == held.condition_about_zero
    values = np.linalg.svd(f.astype(float), compute_uv=False)
    assert held.condition_about_zero == pytest.approx(values[0] / values[-1], rel=1e-5)


def test_more_blocks_give_the_same_spectrum(monkeypatch):
    g, weights = head(500, 7), np.random.default_rng(1).random(500)
    whole = diversity(g, weights=weights)
    monkeypatch.setattr("isorep.heads.spectrum.block_rows", lambda *widths, **how: 64)
    monkeypatch.setattr("isorep.moments.block_rows", lambda *widths, **how: 64)
    monkeypatch.setattr("isorep.rows.block_rows", lambda *widths, **how: 64)
    parts = diversity(g, weights=weights)
    assert parts.weighted_spectrum == pytest.approx(whole.weighted_spectrum, rel=1e-12)
    assert parts.classes.spectrum == pytest.approx(whole.classes.spectrum, rel=1e-12)
    assert parts.classes.distinct == whole.classes.distinct


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda g: diversity(g, weights=np.ones(3)), r"weights has shape \(3,\)"),
        (lambda g: diversity(g, weights=-np.ones(8)), "the weight of class 0 is negative"),
        (lambda g: diversity(g, weights=np.zeros(8)), "the weights sum to 0"),
        (lambda g: diversity(g, weights=[np.nan] * 8), "weights is not finite at class 0"),
        (lambda g: diversity(g, weights=np.array(["a"] * 8)), "where one number per class is needed"),
        (lambda g: diversity(np.where(np.eye(8, 3), np.nan, g)), "holds 3 NaN values"),
        (lambda g: diversity(g.astype(int)), "holds integers"),
        (lambda g: diversity(g.astype(object)), "holds Python objects"),
        (lambda g: diversity(g[0]), "has shape"),
        (lambda g: diversity(g * 1e200), "overflow|leave float64"),
        (lambda g: diversity(g, bias=np.ones(7)), "the bias of head"),
        (lambda g: diversity(g, features=np.ones((5, 4))), "features has 4 columns where head reads 3"),
        (lambda g: diversity(g, features=np.ones((1, 3))), "has 1 row: at least 2"),
    ],
)
def test_wrong_input_is_one_sentence(call, match):
    with pytest.raises(isorep.InputError, match=match):
        call(head(8, 3))


def test_stored_coarsely_a_direction_below_rounding_does_not_count():
    g = head(40, 3)
    g[:, 2] = g[:, 0] + 1e-8 * g[:, 2]
    assert diversity(g).applies
    assert not diversity(g.astype(np.float32)).applies


@pytest.mark.parametrize("half", [None, "half", "bfloat16"])
def test_tensors_of_a_model_that_is_trained_are_taken_as_they_are(half):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 8)
    layer = layer if half is None else getattr(layer, half)()
    shares = torch.nn.functional.softmax(layer.bias, dim=0)
    found = diversity(layer.weight, shares, bias=layer.bias)
    plain = diversity(layer.weight.detach(), shares.detach().double().numpy(), bias=layer.bias.detach().float().numpy())
    assert found.biased
    assert found.to_dict()["heads"] == plain.to_dict()["heads"]


def test_a_tied_head_that_is_asked_for_by_its_own_name_is_told_where_it_lies(tmp_path):
    from safetensors.numpy import save_file

    save_file({"transformer.wte.weight": head(8, 3), "ln.weight": head(3, 3)}, tmp_path / "model.safetensors")
    with pytest.raises(isorep.InputError, match=r"no tensor 'lm_head\.weight'.* such as transformer\.wte"):
        diversity(f"{tmp_path / 'model.safetensors'}::lm_head.weight")
    with pytest.raises(isorep.InputError) as caught:
        diversity(f"{tmp_path / 'model.safetensors'}::fc.weight")
    assert "tied" not in str(caught.value)


def repeated(kind, width=6, seed=0):
    """Heads whose rows of largest leverage are alike, or nearly, or lie in one hyperplane."""
    rng = np.random.default_rng(seed)
    corners = 1000 * np.eye(width)
    return {
        "every row forty times": np.repeat(rng.normal(size=(width + 1, width)), 40, axis=0),
        "one class in each corner and many at rest": np.vstack([np.repeat(corners, 50, axis=0), np.zeros((1, width))]),
        "corners alone": corners[rng.integers(width, size=300)],
        "nearly alike": np.vstack([np.repeat(corners, 50, axis=0), np.zeros((3, width))])
        + 1e-9 * rng.normal(size=(50 * width + 3, width)),
        "an outlier two hundred times": np.vstack([np.full((200, width), 1e3), rng.normal(size=(40, width))]),
        "zero rows": np.vstack([np.zeros((200, width)), rng.normal(size=(width, width))]),
        "binary codes": rng.integers(0, 2, size=(500, width)).astype(float),
    }[kind]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("kind", "rank"),
    [
        ("every row forty times", 6),
        ("one class in each corner and many at rest", 6),
        ("corners alone", 5),
        ("nearly alike", 6),
        ("an outlier two hundred times", 6),
        ("zero rows", 6),
        ("binary codes", 6),
    ],
)
def test_differences_of_rows_that_repeat_span_the_head(kind, rank, dtype):
    g = repeated(kind).astype(dtype)
    found = diversity(g).classes
    assert found.rank == rank
    pairs = np.array(found.pairs.classes).astype(int)
    values = np.linalg.svd((g[pairs[:, 0]] - g[pairs[:, 1]]).astype(float), compute_uv=False)
    assert len(values) == rank
    assert found.pairs.condition == pytest.approx(values[0] / values[-1], rel=1e-3)
    assert np.isfinite(found.pairs.condition)


def test_public_calls_leave_the_threads_of_blas_as_they_were():
    from isorep.threads import blas_threads, one_blas_thread

    before = blas_threads()
    seen = []
    with one_blas_thread:
        isorep.heads.examine(head(8, 3), head(8, 3, 1), features=head(60, 3), other_features=head(60, 3, 2),
                             progress=lambda *_: seen.append(blas_threads()))  # fmt: skip
        assert blas_threads() == 1
    assert blas_threads() == before
    isorep.heads.examine(head(8, 3), head(8, 3, 1), features=head(60, 3), other_features=head(60, 3, 2),
                         progress=lambda *_: seen.append(blas_threads()))  # fmt: skip
    assert seen
    assert set(seen) == {1}
    with pytest.raises(isorep.InputError):
        diversity(head(8, 3)[0])
    assert blas_threads() == before


def test_heads_that_are_always_related_are_those_without_repeated_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 4))  # five classes span four dimensions of differences, and no more
    words = "any two such heads are related"
    assert any(words in caveat for caveat in isorep.heads.diversity(rows).caveats)
    assert not any(words in caveat for caveat in isorep.heads.diversity(np.vstack([rows, rows[:2]])).caveats)
    assert not any(words in caveat for caveat in isorep.heads.diversity(rng.normal(size=(6, 4))).caveats)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_dimensions_in_use_have_no_unit(size):
    head = np.random.default_rng(0).normal(size=(30, 4))
    found, usual = (spectrum(scale * head, "head").participation for scale in (size, 1.0))
    assert found == pytest.approx(usual, rel=1e-9)
