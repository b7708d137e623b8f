"""Translation without pairs: known mixings are found, and what cannot be known is refused."""

from functools import cache

import numpy as np
import pytest

import isorep
from isorep import InputError
from isorep.translation.unpaired import Match, _Assignment, _Portrait, _verdict


def factors(n, seed):
    """Independent factors of different, skewed shapes."""
    rng = np.random.default_rng(seed)
    columns = (
        rng.exponential(size=n),
        rng.gamma(4, size=n),
        rng.random(n) ** 2,
        np.where(rng.random(n) < 0.3, 2, 0) + 0.4 * rng.normal(size=n),
    )
    made = np.stack(columns, axis=1)
    return (made - made.mean(axis=0)) / made.std(axis=0)


RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(4, 4)), 20 * RNG.normal(size=(4, 7))
OLD, NEW = factors(5000, 1) @ A + 3, factors(4000, 2) @ B - 100


@cache
def found():
    return isorep.translate_unpaired(OLD, NEW)


def test_a_mixing_is_recovered_from_other_rows_scales_and_means():
    result = found()
    assert result.verdict.answer == "found"
    assert result.carried > 0.99
    s = factors(500, 9)
    x, y = s @ A + 3, s @ B - 100
    error = ((result.transform(x) - y) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
    assert error < 0.05


def test_equal_seeds_give_equal_results():
    first, second = (isorep.translate_unpaired(OLD[:900], NEW[:800], random_state=3) for _ in range(2))
    assert first.to_dict() == second.to_dict()
    np.testing.assert_array_equal(first.translator.matrix, second.translator.matrix)


def test_pairs_check_the_map_and_wrong_ones_refuse_it():
    s = factors(60, 10)
    pairs = s @ A + 3, s @ B - 100
    right = isorep.translate_unpaired(OLD, NEW, pairs=pairs)
    assert right.verdict.answer == "found"
    assert right.check.recall[1] > 0.5
    assert 0.001 <= right.check.p_value < 0.05 < right.check.cosine
    wrong = isorep.translate_unpaired(OLD, NEW, pairs=(pairs[0], pairs[1][::-1]))
    assert wrong.verdict.answer == "refused"
    assert "do not confirm" in str(wrong.verdict)
    for some, words in ((pairs[1][:5], "same items"), (pairs[1][:3], "too few")):
        with pytest.raises(InputError, match=words):
            isorep.translate_unpaired(OLD, NEW, pairs=(pairs[0][: 3 if words == "too few" else 60], some))


def gaussian(n, seed):
    return np.random.default_rng(seed).normal(size=(n, 5))


def alike(n, seed):
    return np.random.default_rng(seed).exponential(size=(n, 5))


def symmetric(n, seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.laplace(size=n), rng.uniform(-1, 1, n), rng.standard_t(5, n)], axis=1)


def other(n, seed):
    rng = np.random.default_rng(seed)
    columns = (
        rng.standard_t(4, n),
        rng.uniform(size=n),
        rng.gamma(1.5, size=n),
        rng.choice(3, n) + 0.3 * rng.normal(size=n),
    )
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (gaussian, gaussian, "near-Gaussian"),
        (alike, alike, "ambiguous"),
        (symmetric, symmetric, "sign open"),
        (factors, other, "differs"),
    ],
)
def test_what_cannot_be_known_is_refused(tmp_path, old, new, problem):
    x, y = old(4000, 1), new(4000, 2)
    rng = np.random.default_rng(0)
    result = isorep.translate_unpaired(x @ rng.normal(size=(x.shape[1],) * 2), y @ rng.normal(size=(y.shape[1],) * 2))
    assert result.verdict.answer == "refused"
    assert problem in {each.problem for each in result.matches}
    with pytest.raises(InputError, match="nothing is translated"):
        result.transform(x)
    with pytest.raises(InputError, match="no map is written"):
        result.save(tmp_path / "map.safetensors")
    result.save(tmp_path / "map.safetensors", force=True)
    assert isorep.Translator.load(tmp_path / "map.safetensors").kind == "unpaired"


def test_costs_are_those_of_the_sums_written_out():
    rng = np.random.default_rng(4)
    mine, yours = (rng.exponential(size=(300, 4)) + 0.3 * rng.normal(size=(300, 1)) ** 2 for _ in range(2))
    a, b = _Portrait(mine), _Portrait(yours)
    match = _Assignment(np.array([2, 0, 3, 1]), np.array([1, -1, 1, -1]))
    known = np.ones(4, bool)
    costs = match.costs(a, b, known, known)
    for old, new, sign in ((0, 2, 1), (0, 1, -1), (3, 0, 1), (2, 3, -1)):
        flip = np.repeat([1.0, sign], 5)
        apart = a.features[old] - flip * b.features[new]
        noise = a.noise[old] + b.noise[new] * flip[:, None] * flip
        total = apart @ np.linalg.solve(noise, apart)
        for m in range(4):
            if m != old and match.new[m] != new:
                there, side = match.new[m], match.signs[m]
                terms = (
                    a.even[old, m] - b.even[new, there],
                    a.mixed[old, m] - side * b.mixed[new, there],
                    a.mixed[m, old] - sign * b.mixed[there, new],
                )
                total += 150 * sum(term**2 for term in terms)
        assert costs.between[int(sign < 0), old, new] == pytest.approx(total)


def test_the_verdict_follows_the_share_that_is_carried():
    def told(share, p_value=0.001):
        matches = [Match(number, number, 1, 1.0, 9.0, 50.0, 0.2, None) for number in range(5)]
        return _verdict(("a", "b"), matches, share, p_value, None).answer

    assert [told(share) for share in (0.95, 0.7, 0.3)] == ["found", "in part", "refused"]
    assert told(0.95, p_value=0.4) == "refused"


@pytest.mark.parametrize(
    ("old", "new", "options", "words"),
    [
        (OLD[:20], NEW, {}, "20 rows"),
        (np.ones((100, 3)), NEW, {}, "the training part of old has no variance"),
        (OLD, np.full((100, 3), 0.1), {}, "the training part of new has no variance"),
        (OLD, NEW, {"pairs": (OLD[:1], NEW[:1])}, "too few pairs to check a map: 1, and at least 5"),
        (np.where(np.arange(4) < 1, np.nan, OLD[:200]), NEW, {}, "NaN"),
        (OLD, NEW, {"n_components": 5}, "exceeds the rank"),
        (OLD, NEW, {"pairs": (OLD,)}, "two sides"),
        (OLD, NEW, {"pairs": (OLD[:9, :3], NEW[:9])}, "columns"),
    ],
)
def test_wrong_input_is_named(old, new, options, words):
    with pytest.raises(InputError, match=words):
        isorep.translate_unpaired(old, new, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_rounding_of_stored_values_is_no_component(dtype):
    wide = np.random.default_rng(4).normal(size=(4, 9))
    old = (factors(5000, 1) @ wide + 30).astype(dtype)
    result = isorep.translate_unpaired(old, NEW.astype(dtype))
    assert result.ranks == (4, 4)
    assert result.verdict.answer == "found"
