"""``isorep.translate`` end to end: what it reports is what a direct computation on the rows gives."""

import json
import math
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

import isorep
from isorep import InputError, Representation
from isorep.translation.maps import Point, read_curve
from isorep.translation.result import headline_k

from ..data import noisy_pair, rotation, sources

fitting = import_module("isorep.translation.translate")


def pair(n=1500, d_x=16, d_y=12, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = sources(n, d_x, seed) @ rotation(d_x, seed) * np.geomspace(1, 0.2, d_x) + 1
    return x, x @ rng.normal(size=(d_x, d_y)) + noise * rng.normal(size=(n, d_y)) + 3


@pytest.fixture(scope="module")
def result():
    return isorep.translate(*pair())


def test_held_out_errors_are_those_of_a_direct_computation_on_the_rows(monkeypatch):
    x, y = pair()
    seen = {}
    split_rows = fitting.split_rows

    def watched(*arguments):
        seen["split"] = split_rows(*arguments)
        return seen["split"]

    monkeypatch.setattr(fitting, "split_rows", watched)
    result = isorep.translate(x, y, maps=["linear"])
    test = seen["split"].test_rows
    train = np.setdiff1d(np.arange(len(x)), test)
    aligned = isorep.Linear().fit(x[train], y[train])
    mapped = aligned.transform(x[test])
    norms, radius = np.linalg.norm(mapped - y[test], axis=1), np.sqrt(y.var(axis=0).sum())
    away = np.linalg.norm(y[test] - y[test].mean(axis=0), axis=1)
    held = result.maps["linear"].held_out
    assert held.mean == pytest.approx(norms.sum() / away.sum(), rel=1e-9)
    assert held.rms == pytest.approx(np.sqrt((norms**2).mean()) / radius, rel=1e-9)
    assert held.r2 == pytest.approx(1 - (norms**2).sum() / ((y[test] - y[test].mean(0)) ** 2).sum(), rel=1e-9)
    lengths = np.linalg.norm(mapped, axis=1) * np.linalg.norm(y[test], axis=1)
    assert held.cosine == pytest.approx(((mapped * y[test]).sum(axis=1) / lengths).mean(), rel=1e-9)
    assert held.interval.low < held.mean < held.interval.high


def test_the_curve_falls_and_ends_at_the_full_fit(result):
    points = result.curve.points
    assert points[-1].error == pytest.approx(result.maps[result.best].held_out.rms, rel=1e-6)
    assert points[-1].pairs == result.pairs["training"] == 1200
    errors = [point.error for point in points if point.pairs > 40]
    assert all(after < 1.03 * before for before, after in pairwise(errors))
    assert points[0].error > 1.2 * points[-1].error
    assert result.curve.enough < 1200
    assert "pairs are enough" in str(result.curve)


@pytest.mark.parametrize("kind", ["rigid", "ridge", "low_rank"])
def test_every_kind_has_a_curve(kind):
    x, y = pair(300)
    result = isorep.translate(x, y, maps=kind, n_queries=20)
    assert result.curve.kind == result.best == kind
    assert result.curve.points[-1].error == pytest.approx(result.maps[kind].held_out.rms, rel=1e-6)


def test_how_a_curve_is_read():
    def read(*errors):
        return read_curve("linear", tuple(Point(100 * 2**place, error) for place, error in enumerate(errors)))

    assert read(0.6, 0.208, 0.206, 0.2).enough == 200
    assert read(0.202, 0.24, 0.204, 0.2).enough == 400  # within 5 % by chance, and then not
    assert "more would help little" in read(0.6, 0.208, 0.202, 0.2).sentence
    steep = read(1.6, 0.8, 0.4, 0.2)
    assert (steep.enough, steep.gain) == (None, 0.5)
    assert "not shown to be enough" in steep.sentence
    assert "more would still help, the last doubling lowered the error by 50%" in steep.sentence
    exact = read(1.0, 1e-9, 2e-9, 1e-9)
    assert (exact.enough, exact.gain) == (200, 0.0)


def test_a_curve_names_its_map_and_says_nothing_of_other_maps_or_of_noise():
    points = tuple(Point(100 * 2**place, error) for place, error in enumerate((0.6, 0.208, 0.206, 0.2)))
    assert "for the low-rank map, 200 pairs are enough" in read_curve("low_rank", points, "low_rank").sentence
    level = tuple(Point(point.pairs, 0.99) for point in points)
    for curve in (
        read_curve("ridge", points, "mlp"),
        read_curve("ridge", points, "cosine"),
        read_curve("ridge", points, "ridge", related=False),
        read_curve("ridge", level, "ridge"),
    ):
        assert curve.enough is None
        assert "ridge map" in curve.sentence
        for words in ("pairs are enough for", "more would", "doubling"):
            assert words not in curve.sentence


def test_the_curve_of_noise_calls_no_number_of_pairs_enough():
    rng = np.random.default_rng(0)
    result = isorep.translate(rng.normal(size=(600, 8)), rng.normal(size=(600, 8)), maps="ridge")
    assert result.curve.enough is None
    assert "how many pairs are enough cannot be told" in str(result)


def test_the_kept_map_is_fitted_to_all_pairs(result):
    x, y = pair()
    assert result.best == "linear"
    expected = isorep.Linear().fit(x, y).transform(x[:50])
    np.testing.assert_allclose(result.transform(x)[:50], expected, rtol=1e-9)
    assert result.translator.facts["pairs"] == 1500


def test_two_runs_up_to_a_rotation_are_translated_by_it():
    x, y = noisy_pair(800, 10, 0.02)
    result = isorep.translate(x, y)
    assert result.best == "rigid"
    assert result.verdict.answer == "translate"
    assert result.maps["rigid"].recalls["queries"].recall[1] > 0.99
    assert result.loss(10) < 0.01
    assert result.retrieval.scenarios["queries"].untranslated.recall[10] < 0.2


@pytest.mark.parametrize("distinct", [2, 3, 20, 200])
def test_noise_is_unrelated_also_where_new_vectors_repeat(distinct):
    rng = np.random.default_rng(distinct)
    new = rng.normal(size=(distinct, 6))[rng.integers(0, distinct, 1000)]
    result = isorep.translate(rng.normal(size=(1000, 8)), new, maps=["ridge"])
    assert {each.verdict.answer for each in result.retrieval.scenarios.values()} == {"unrelated"}
    assert result.retrieval.chance[10] > 0.2  # and not 10 of 200


def test_related_vectors_that_repeat_are_judged_where_guessing_finds_few():
    rng = np.random.default_rng(0)
    new = rng.normal(size=(100, 8))[rng.integers(0, 100, 2000)]
    old = new @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    first, tenth = (isorep.translate(old, new, maps=["rigid"], at=at) for at in ((1,), (1, 10)))
    assert first.retrieval.chance[1] < 0.1
    assert first.retrieval.scenarios["store"].maps["rigid"].recall[1] == 1
    assert "new vectors repeat" not in str(first.verdict)
    assert "new vectors repeat, so that guessing finds" in str(tenth.verdict)
    assert "name a smaller k" in str(tenth.verdict)


def test_unrelated_vectors_are_said_to_be_unrelated():
    rng = np.random.default_rng(0)
    result = isorep.translate(rng.normal(size=(600, 8)), rng.normal(size=(600, 8)))
    assert result.verdict.answer == "unrelated"
    held = result.maps[result.best].held_out
    assert "As paired, the rows of old and new are not shown to be related" in result.verdict.sentence
    assert f"(error {held.mean:.3f}, up to {held.interval.high:.3f} by its interval" in result.verdict.sentence
    assert held.interval.high >= 1
    assert result.maps[result.best].held_out.mean > 0.9
    assert result.maps[result.best].recalls["store"].recall[10] < 0.1


def test_a_loose_relation_is_to_be_embedded_again():
    x, y = pair(600, noise=4.0)
    result = isorep.translate(x, y)
    assert result.verdict.answer == "re-embed"
    assert result.verdict.sentence.startswith("Translating old to new loses much: embed again where retrieval matters")
    assert result.maps[result.best].held_out.interval.high < 1


def test_the_test_fold_has_no_say_in_what_is_chosen(monkeypatch):
    x, y = pair(300, noise=2.0)
    first = isorep.translate(x, y, n_queries=10)
    seen = {}
    split_rows = fitting.split_rows

    def watched(*arguments):
        seen["split"] = split_rows(*arguments)
        return seen["split"]

    monkeypatch.setattr(fitting, "split_rows", watched)
    isorep.translate(x, y, n_queries=10)
    spoilt = y.copy()
    spoilt[seen["split"].test_rows] = np.random.default_rng(1).normal(size=(60, 12))
    second = isorep.translate(x, spoilt, n_queries=10)
    assert second.best == first.best
    assert [record.setting for record in second.maps.values()] == [record.setting for record in first.maps.values()]
    assert second.maps[first.best].held_out.mean > 1.5 * first.maps[first.best].held_out.mean


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_precision_of_the_rows_is_kept(dtype):
    x, y = (rows.astype(dtype) for rows in pair(400))
    result = isorep.translate(x, y, n_queries=50)
    assert result.transform(x).dtype == (np.float64 if dtype == np.float64 else np.float32)
    reference = isorep.translate(*pair(400), n_queries=50)
    rough = 0.05 if dtype == np.float16 else 1e-3
    assert result.maps["ridge"].held_out.mean == pytest.approx(reference.maps["ridge"].held_out.mean, rel=rough)


def test_fewer_pairs_than_dimensions_and_constant_columns():
    x, y = pair(60, 80, 30)
    x[:, 5] = 4.0
    y[:, 0] = 0.5
    result = isorep.translate(x, y)
    assert result.best != "linear"
    assert all(math.isfinite(record.held_out.mean) for record in result.maps.values())
    said = " ".join(result.caveats)
    assert "fewer than 5 per dimension" in said
    assert "1 of them constant" in said
    assert "only 12 queries" in said
    assert "cut" in said


def test_groups_are_kept_together():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(50), 8)
    x = rng.normal(size=(50, 20))[groups] + 0.01 * rng.normal(size=(400, 20))
    y = rng.normal(size=(50, 6))[groups]  # a label of the group, which x of other groups does not tell
    y += 0.01 * rng.normal(size=y.shape)  # equal rows would be kept together anyway
    leaking, honest = (isorep.translate(x, y, groups=given, n_queries=50) for given in (None, groups))
    assert honest.settings["groups"] == 50
    assert honest.maps["linear"].held_out.mean > 1.3 * leaking.maps["linear"].held_out.mean


def test_ids_are_joined_and_mismatches_refused():
    x, y = pair(300)
    ids = np.arange(300) + 5
    old, new = Representation(x, ids, "a"), Representation(y[::-1], ids[::-1], "b")
    with pytest.raises(InputError, match="same ids in another order"):
        isorep.translate(old, new)
    joined = isorep.translate(old, new, join=True, n_queries=20)
    plain = isorep.translate(x, y, n_queries=20)
    assert joined.maps["linear"].held_out.mean == pytest.approx(plain.maps["linear"].held_out.mean, rel=1e-9)
    part = isorep.translate(old, Representation(y[:250], ids[:250], "b"), join=True, n_queries=20)
    assert part.pairs["all"] == 250
    assert any("50 dropped from a" in said for said in part.caveats)


def test_the_same_seed_gives_the_same_result_and_paths_work(tmp_path):
    x, y = pair(300)
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", y)
    first, second = (isorep.translate(tmp_path / "a.npy", tmp_path / "b.npy", n_queries=20) for _ in range(2))
    assert first.to_json() == second.to_json()
    other = isorep.translate(x, y, random_state=1, n_queries=20)
    assert other.maps["linear"].held_out.mean != first.maps["linear"].held_out.mean


def test_it_prints_tabulates_and_serialises_itself(result, tmp_path):
    text = str(result)
    for words in (
        "> linear",
        "@100",
        "untranslated",
        "native",
        "other scenario: Queries of",
        "verdict: ",
        "pairs: ",
        "estimated",
    ):
        assert words in text
    written = json.loads(result.to_json(tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text()) == written
    assert written["schema"] == "isorep.translate/3"
    assert set(written["maps"]) == set(result.maps) >= {"rigid", "linear", "ridge", "low_rank"}
    for name in ("store", "queries"):
        kept = written["retrieval"]["scenarios"][name]["maps"]["linear"]["recall"]["10"]
        assert kept == result.maps["linear"].recalls[name].recall[10]
    assert len(written["fingerprints"]["old"]) == 64
    assert headline_k((1, 10, 100)) == 10
    assert headline_k((2, 5, 7)) == 5


def test_what_cannot_be_translated_is_refused_with_one_sentence():
    x, y = pair(100)
    spoilt = y.copy()
    spoilt[3, 2] = np.nan
    cases = [
        ((x, y[:90]), {}, "X|old has 100 rows and new has 90"),
        ((x, spoilt), {}, "new holds 1 NaN value, the first at row 3, column 2"),
        ((x, np.ones_like(y)), {}, "all rows of new are identical"),
        ((np.ones_like(x), y), {}, "all rows of old are identical"),
        ((x * 1e200, y), {}, "overflow"),
        ((x * 1e-150, y), {}, "leave float64"),
        ((x, y), {"maps": ["affine"]}, "maps affine: choose from rigid, linear, ridge, low_rank, cosine, mlp"),
        ((x, y), {"maps": []}, "maps is empty"),
        ((x, y), {"folds": 2}, "folds is 2"),
        ((x, y), {"at": [0]}, "at is"),
        ((x, y), {"metric": "l1"}, "choose from cosine, euclidean, dot"),
        ((x, y), {"n_queries": 0}, "n_queries is 0"),
        ((x, y), {"groups": np.arange(50)}, "groups has shape"),
        ((x[:2], y[:2]), {}, "2 rows and 5 folds"),
    ]
    for arguments, options, words in cases:
        with pytest.raises(InputError, match=words) as refused:
            isorep.translate(*arguments, **options)
        assert "\n" not in str(refused.value)


def test_progress_is_told_by_stage():
    told = []
    isorep.translate(*pair(200), n_queries=20, progress=lambda *step: told.append(step))
    assert {stage for stage, _, _ in told} >= {"moments", "selection", "retrieval"}
    assert all(done <= total for _, done, total in told)


def test_columns_that_hardly_vary_are_left_out_of_every_map_and_named():
    rng = np.random.default_rng(0)
    old = rng.normal(size=(1500, 6))
    new = old @ rng.normal(size=(6, 6)) + 0.1 * rng.normal(size=(1500, 6))
    dead = np.concatenate([old, 1e-9 * rng.normal(size=(1500, 2)) + [0.0, 1e-3]], axis=1)
    plain, found = (isorep.translate(each, new, random_state=1) for each in (old, dead))
    for kind in ("rigid", "linear", "ridge"):
        assert found.maps[kind].held_out.mean == pytest.approx(plain.maps[kind].held_out.mean, rel=1e-6)
    assert any("2 columns of old hardly vary" in caveat and "leaves them out" in caveat for caveat in found.caveats)
    assert not any("hardly vary" in caveat for caveat in plain.caveats)
    assert not any("constant columns" in caveat for caveat in found.caveats)  # they vary, if hardly
    louder = dead.copy()
    louder[:, 6:] += 1e-4 * rng.normal(size=(1500, 2))  # the noise of another machine
    assert found.translator.transform(louder) == pytest.approx(found.translator.transform(dead), abs=1e-9)


@pytest.mark.parametrize("scenario", ["store", "queries"])
def test_recall_that_guessing_would_have_decides_nothing(scenario):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 120))
    result = isorep.translate(x, x @ rng.normal(size=(120, 120)), scenario=scenario)
    assert result.retrieval.corpus == 16
    assert result.retrieval.chance[10] == pytest.approx(10 / 16)
    assert result.verdict.answer in ("undecided", "unrelated")
    assert "guessing 62.5%" in result.verdict.sentence
    assert "guessing" in result.table()
    assert "62.5%" in result.size_table()


def test_few_queries_decide_nothing_however_well_they_fare():
    x, y = pair(2000, noise=0.01)
    few, more = (isorep.translate(x, y, n_queries=number) for number in (20, 200))
    assert few.maps[few.best].recalls["store"].recall[10] == 1
    assert few.verdict.answer == "undecided"
    assert "cannot be told from 20 queries: give more pairs or queries" in few.verdict.sentence
    assert more.verdict.answer == "translate"


def test_k_beyond_the_sample_is_refused_or_named():
    x, y = pair(300)
    with pytest.raises(InputError, match="at is 5000, and there are 60 held-out vectors to search"):
        isorep.translate(x, y, maps="linear", at=(5000,))
    result = isorep.translate(x, y, maps="linear", at=(5, 60, 5000))
    assert result.retrieval.at == (5,)
    assert any("recall at 60, 5000 is left out: there are only 60" in note for note in result.caveats)
    assert not any("is left out" in note for note in isorep.translate(x, y, maps="linear", at=(1, 5)).caveats)


def test_a_store_has_more_vectors_than_are_looked_at():
    x, y = pair(300)
    with pytest.raises(InputError, match="store_size is 5, and recall at 10 needs a larger store"):
        isorep.translate(x, y, store_size=5)
    smallest = isorep.translate(x, y, maps="linear", store_size=15, at=(1, 3, 50)).chosen.sizes[0]
    assert smallest.size == 15
    assert set(smallest.recall) == set(smallest.native) == {1, 3}  # 50 of 15 vectors are no question


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_recall_in_a_smaller_store_is_that_of_fresh_rows(metric):
    rng = np.random.default_rng(1)
    mixed = rng.normal(size=(8, 8)) / 3

    def rows(n):
        old = rng.normal(size=(n, 8))
        return old, old @ mixed + 0.7 * rng.normal(size=(n, 8))

    x, y = rows(3000)
    fresh, native = rows(1500)
    result = isorep.translate(x, y, maps="linear", store_size=100, at=(1, 10), metric=metric)
    mapped = result.translator.transform(fresh, check=False)
    if metric == "cosine":
        mapped, native = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (mapped, native))

    def truth(stored, k):
        hits = []
        for start in range(0, 1500, 100):  # disjoint stores of 100
            part = slice(start, start + 100)
            scores = native[part] @ stored[part].T
            hits.append((scores > np.diagonal(scores)[:, None]).sum(axis=1) < k)
        return np.mean(hits)

    point = next(point for point in result.chosen.sizes if point.size == 100)
    for k in (1, 10):
        assert point.recall[k] == pytest.approx(truth(mapped, k), abs=0.05)
        assert point.native[k] == pytest.approx(truth(native, k), abs=0.05)
        assert point.low[k] < point.recall[k] < point.high[k]
    assert result.retrieval.scenarios["store"].maps["linear"].recall[10] < point.recall[10] - 0.1


@pytest.mark.parametrize("size", [1e-34, 1e-18, 1e18, 1e34])
def test_all_maps_of_large_and_small_values_are_those_of_ordinary_ones(size):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = np.tanh(x @ rng.normal(size=(4, 5))) + 0.1 * rng.normal(size=(200, 5))
    found, usual = (isorep.translate(scale * x, scale * y, maps="all") for scale in (size, 1.0))
    assert found.verdict.sentence == usual.verdict.sentence
    for kind, each in usual.maps.items():
        assert found.maps[kind].selection_error == pytest.approx(each.selection_error, rel=0.05)


@pytest.mark.parametrize("size", [1e-75, 1e-40, 1e40, 1e75])
def test_values_beyond_the_range_of_float32_are_refused(size):
    x = np.random.default_rng(0).normal(size=(100, 3))
    for old, new in ((size * x, x), (x, size * x)):
        with pytest.raises(isorep.InputError, match="rescale, vectors are searched in float32"):
            isorep.translate(old, new)


@pytest.mark.parametrize("part", ["xx", "xy", "yy", "source_mean", "target_mean"])
def test_pairs_are_not_added_to_moments_that_overflow(part):
    """Such moments are in damaged files only; sums would become infinite, and the map with them."""
    x = np.random.default_rng(0).normal(size=(300, 3))
    some = isorep.translate(x[:200], 2 * x[:200], maps="linear").translator
    damaged = replace(some.moments, **{part: np.full_like(getattr(some.moments, part), 1e308)})
    with pytest.raises(isorep.InputError, match="would overflow"):
        replace(some, moments=damaged).update(x[200:], 2 * x[200:], check=False)
