"""Normalised vectors, scenarios, maps trained on rows, confidence, labels, judgements and added pairs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import isorep
from isorep import DriftWarning, InputError, Representation, Translator
from isorep.moments import Moments
from isorep.translation.maps import Training
from isorep.translation.networks import fit_cosine, fit_mlp
from isorep.translation.result import shortened
from isorep.translation.translate import common_norm

from ..data import rotation, sources


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def bent(n=2500, d=8, width=24, seed=0):
    """New vectors of unit length that are not linear in the old ones: a random feature map of them."""
    rng = np.random.default_rng(seed)
    matrix, shift = rng.normal(size=(d, width)), rng.normal(size=width)
    rows = rng.normal(size=(n, d + width))  # the first rows are the same for every n
    x, noise = rows[:, :d], rows[:, d:]
    return x, unit(np.cos(0.35 * x @ matrix + 2 * shift) + 0.05 * noise)


@pytest.fixture(scope="module")
def hard():
    return isorep.translate(*bent(), maps="all", store_size=100_000)


@pytest.mark.parametrize("length", [1.0, 7.5])
def test_outputs_have_the_length_that_new_vectors_have(length):
    x, y = bent(800)
    result = isorep.translate(x, length * y, maps="ridge", n_queries=50)
    assert result.norm == pytest.approx(length)
    np.testing.assert_allclose(np.linalg.norm(result.transform(x), axis=1), length, rtol=1e-6)
    assert any(f"scaled to the length of new ones, {length:.4g}" in note for note in result.caveats)
    kept = isorep.translate(x, length * y, maps="ridge", n_queries=50, normalise=False)
    assert kept.norm is None
    assert np.ptp(np.linalg.norm(kept.transform(x), axis=1)) > 0.1 * length
    assert any("keep the lengths that the map gives them" in note for note in kept.caveats)


def test_lengths_that_vary_are_not_set_unless_asked_for():
    x = sources(500, 5)
    y = x @ np.random.default_rng(0).normal(size=(5, 4)) + 1
    result = isorep.translate(x, y, maps="linear", n_queries=50)
    assert result.norm is None
    assert any("lengths of vectors of new vary" in note for note in result.caveats)
    np.testing.assert_allclose(result.transform(x), y, atol=1e-9)
    forced = isorep.translate(x, y, maps="linear", n_queries=50, normalise=True)
    assert np.ptp(np.linalg.norm(forced.transform(x), axis=1)) < 1e-9


def test_a_few_empty_vectors_do_not_hide_a_common_length():
    y = unit(np.random.default_rng(0).normal(size=(1000, 6)))
    y[:5] = 0
    assert common_norm(y, None) == pytest.approx(1)
    assert common_norm(np.random.default_rng(0).normal(size=(1000, 768)), None) is None
    assert common_norm(np.zeros((10, 3)), True) is None


def test_zero_rows_stay_finite_and_one_dimension_works():
    x, y = bent(600)
    x[7] = 0
    y[8] = 0
    result = isorep.translate(x, y, n_queries=50)
    assert np.isfinite(result.transform(x)).all()
    flat = isorep.translate(x[:, :1], np.sign(x[:, :1]) * 3.0, n_queries=50)
    assert flat.norm == 3
    lengths = np.abs(flat.transform(x[:, :1])).ravel()
    assert (np.isclose(lengths, 3) | (lengths == 0)).all()


@pytest.mark.parametrize("n", [12, 40])
def test_fewer_pairs_than_dimensions_and_copies_of_rows(n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 64))
    y = unit(x @ rng.normal(size=(64, 16)))
    again = np.concatenate([x, x]), np.concatenate([y, y])
    for pair in ((x, y), again):
        result = isorep.translate(*pair, maps="all", n_queries=20)
        assert np.isfinite(result.transform(pair[0])).all()
        str(result)


def test_a_map_that_bends_is_chosen_where_it_pays(hard):
    recall = {kind: record.recalls["store"].recall[1] for kind, record in hard.maps.items()}
    assert hard.best == hard.retrieval.scenarios["queries"].best == "mlp"
    assert recall["mlp"] > recall["ridge"]
    by_query = {kind: record.recalls["queries"].recall[1] for kind, record in hard.maps.items()}
    assert by_query["mlp"] > by_query["ridge"] + 0.1
    assert hard.maps["mlp"].held_out.cosine > hard.maps["ridge"].held_out.cosine
    assert hard.maps["cosine"].held_out.cosine > hard.maps["linear"].held_out.cosine - 1e-3
    assert hard.maps["mlp"].held_out.mean < hard.maps["ridge"].held_out.mean


def test_by_default_they_are_tried_where_the_others_lose_something():
    assert "mlp" in isorep.translate(*bent(800), n_queries=100).maps
    x = sources(500, 6)
    result = isorep.translate(x, unit(x @ rotation(6, 1) + 0.001), n_queries=100)
    assert "mlp" not in result.maps
    assert any("cosine and mlp maps were not tried" in note for note in result.caveats)


def test_trained_maps_are_the_same_for_the_same_seed_and_come_back_from_a_file(hard, tmp_path):
    x, _ = bent()
    again = isorep.translate(*bent(), maps="all", store_size=100_000)
    np.testing.assert_array_equal(again.translator.map.hidden[0], hard.translator.map.hidden[0])
    hard.save(tmp_path / "m.safetensors")
    loaded = Translator.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.transform(x), hard.transform(x))
    np.testing.assert_array_equal(loaded.confidence(x), hard.translator.confidence(x))
    np.testing.assert_allclose(hard.transform(x), hard.translator.map.apply(x), atol=1e-9)
    np.testing.assert_allclose(hard.transform(x.astype(np.float32)), hard.transform(x), atol=1e-4)
    with pytest.raises(InputError, match="trained on rows, so pairs cannot be added"):
        loaded.update(*bent(100))


def test_the_cosine_loss_is_lower_after_training_and_gradients_are_those_of_differences():
    from isorep.translation.networks import _cosine_loss, _squared_loss

    rng = np.random.default_rng(0)
    mapped, goal = rng.normal(size=(6, 5)), unit(rng.normal(size=(6, 5)))
    for loss in (_cosine_loss, _squared_loss):
        gradient = loss(mapped, goal)[1]
        for place in ((0, 0), (3, 2), (5, 4)):
            step = np.zeros_like(mapped)
            step[place] = 1e-6
            slope = (loss(mapped + step, goal)[0] - loss(mapped - step, goal)[0]) / 2e-6
            assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-9)
    x, y = bent(600)
    ridge = isorep.translate(x, y, maps="ridge", n_queries=20).translator.map
    rows = x.astype(np.float32), y.astype(np.float32)

    def cosine(fitted):
        return float((unit(fitted.raw(x)) * y).sum(axis=1).mean())

    assert cosine(fit_cosine(*rows, ridge, 1.0)) > cosine(ridge)
    assert cosine(fit_mlp(*rows, ridge, 1.0, 0)) > cosine(ridge) + 0.01


def test_each_scenario_has_its_own_recall_map_and_verdict():
    x, y = bent(1200, seed=3)
    store, queries = (isorep.translate(x, y, scenario=name, n_queries=200) for name in ("store", "queries"))
    for name in ("store", "queries"):
        assert store.retrieval.scenarios[name].maps == queries.retrieval.scenarios[name].maps
    assert store.verdict == store.retrieval.scenarios["store"].verdict
    assert queries.verdict == store.retrieval.scenarios["queries"].verdict
    assert store.verdict.sentence.count("Native queries find their own item") == 1
    assert "Queries translated by the" in queries.verdict.sentence
    assert store.best == store.retrieval.scenarios["store"].best
    assert store.loss(1) == store.loss(1, "store") == queries.loss(1, "store")
    assert queries.loss(1) == store.loss(1, "queries")


def test_recall_at_the_size_of_the_store_decides_the_verdict(hard):
    sizes = [point.size for point in hard.chosen.sizes]
    assert 100_000 in sizes
    assert sizes == sorted(sizes)
    recalls = [point.recall[10] for point in hard.chosen.sizes]
    assert recalls == sorted(recalls, reverse=True)
    for point in hard.chosen.sizes:
        assert 0 <= point.low[10] <= point.recall[10] <= point.high[10] <= 1
    first = hard.chosen.sizes[0]
    assert first.measured
    assert first.recall[10] == hard.chosen.maps[hard.best].recall[10]
    assert "an estimated" in hard.verdict.sentence
    assert "of 100,000 vectors" in hard.verdict.sentence


def test_a_store_too_large_for_the_sample_is_not_judged():
    x, y = bent(1000)
    near, far = (isorep.translate(x, y, maps="mlp", n_queries=200, store_size=size) for size in (201, 10**9))
    assert near.verdict.answer in ("translate", "with losses")
    point = next(point for point in far.chosen.sizes if point.size == 10**9)
    spans = point.low[10] < 0.9 <= point.high[10]
    assert (far.verdict.answer == "undecided") == spans
    assert ("cannot be told from 200 queries" in far.verdict.sentence) == spans


def test_confidence_predicts_the_cosine_of_new_rows(hard):
    x, y = bent(6000)
    fresh, native = x[2500:], y[2500:]  # the same models, other items
    predicted = hard.translator.confidence(fresh)
    measured = (hard.transform(fresh) * native).sum(axis=1)
    assert hard.calibration.tells
    order = np.argsort(predicted)
    low, high = order[:350], order[-350:]
    assert measured[low].mean() < measured[high].mean() - 0.02
    assert measured[low].mean() == pytest.approx(predicted[low].mean(), abs=0.06)
    assert measured[high].mean() == pytest.approx(predicted[high].mean(), abs=0.06)


def test_a_confidence_that_separates_nothing_says_so():
    rng = np.random.default_rng(0)
    x = unit(rng.normal(size=(2000, 40)))
    y = unit(x @ rotation(40, 1) + 0.1 * rng.normal(size=(2000, 40)))
    result = isorep.translate(x, y, maps="rigid", n_queries=50)
    assert result.calibration.correlation < 0.4
    spoken = "hardly separates" in str(result)
    assert spoken != result.calibration.tells


def test_a_label_on_which_the_map_fails_is_named():
    x, y = bent(3000)
    labels = np.random.default_rng(1).integers(4, size=3000)
    y[labels == 2] = unit(y[labels == 2] + 0.15 * np.random.default_rng(2).normal(size=(int((labels == 2).sum()), 24)))
    result = isorep.translate(x, y, maps="ridge", labels=np.array(list("abcd"))[labels], n_queries=300)
    assert [region.label for region in result.regions if region.worse] == ["c"]
    assert result.regions[0].label == "c"
    assert "significantly worse on 1 of 4 labels" in str(result)
    assert sum(region.rows for region in result.regions) == 600
    fair = isorep.translate(*bent(3000), maps="ridge", labels=labels, n_queries=300)
    assert not any(region.worse for region in fair.regions)
    assert "No label is significantly worse" in str(fair)
    with pytest.raises(InputError, match="labels has shape"):
        isorep.translate(x, y, labels=labels[:10])


@pytest.mark.parametrize("kind", ["rigid", "linear", "ridge", "low_rank"])
@pytest.mark.parametrize("dead", [False, True])
def test_added_pairs_give_the_map_of_all_pairs(tmp_path, kind, dead):
    x, y = bent(900)
    if dead:
        x[:, 3] = 0.25
    first = isorep.translate(x[:500], y[:500], maps=kind, n_queries=20).translator
    first.save(tmp_path / "m.safetensors")
    added = Translator.load(tmp_path / "m.safetensors").update(x[500:700], y[500:700]).update(x[700:], y[700:])
    whole = Training(Moments.from_rows(x, y), 2e-16).fit(kind, first.setting)
    np.testing.assert_allclose(added.map.raw(x), whole.apply(x)[:, :24], atol=1e-8)
    assert added.facts["pairs"] == 900
    assert added.facts["added"] == [200, 200]
    assert added.norm == first.norm
    with pytest.raises(InputError, match="has 7 columns, and the map has 8"):
        first.update(x[:, :7], y)


@pytest.mark.parametrize("kind", ["rigid", "linear", "ridge", "low_rank"])
@pytest.mark.parametrize("first", [0.0, 1e-7])
def test_columns_that_vary_in_added_pairs_alone_count_as_in_a_full_fit(tmp_path, kind, first):
    x, y = bent(900)
    rare = x[:, 3] - x[:, 3].mean()
    x[:, 3] = 0.25 + np.where(np.arange(900) < 500, first, 1.0) * rare
    some = isorep.translate(x[:500], y[:500], maps=kind, n_queries=20).translator
    some.save(tmp_path / "m.safetensors")
    added = Translator.load(tmp_path / "m.safetensors").update(x[500:], y[500:], check=False)
    whole = Training(Moments.from_rows(x, y), 2e-16).fit(kind, some.setting)
    np.testing.assert_allclose(added.map.raw(x), whole.apply(x)[:, :24], atol=1e-8)
    assert np.abs(added.matrix[3]).max() > 0


def test_pairs_that_would_spoil_a_map_are_noticed(tmp_path):
    x, y = bent(1500)
    first = isorep.translate(x[:900], y[:900], maps="ridge", n_queries=20).translator
    first.save(tmp_path / "m.safetensors")
    rng, more = np.random.default_rng(3), slice(900, 1500)
    for known in (first, Translator.load(tmp_path / "m.safetensors")):
        for n in (1, 5, 30, 600):
            assert known.doubts(x[900 : 900 + n], y[900 : 900 + n]) == ()
        for old, new, words in (
            (100 * x[more], y[more], "old: the rows do not look like"),
            (x[more], 100 * y[more], "new: the rows do not look like"),
            (x[more], y[more] + 3, "new: the rows do not look like"),
            (x[more], rng.permutation(y[more]), "not shown to fit the map better than shuffled ones"),
            (x[more], -y[more], "held-out pairs of the first fit"),
        ):
            assert any(words in said for said in known.doubts(old, new))
            with pytest.warns(DriftWarning):
                known.update(old, new)
        with pytest.raises(InputError, match="are already in the map"):
            known.update(x[:900], y[:900])
    added = first.update(x[more], y[more])
    assert added.facts["first fit"]["held-out error"] == first.facts["held-out error"]
    assert added.update(x[:30], y[:30]).facts["first fit"] == added.facts["first fit"]
    assert "held-out error" not in added.facts
    with pytest.raises(InputError, match="are already in the map"):
        added.update(x[more], y[more])


def test_facts_of_a_map_that_are_no_numbers_raise_no_error():
    x, y = bent(300)
    fitted = isorep.translate(x, y, maps="ridge", n_queries=20).translator
    for spoilt in (
        {"new vectors": "none"},
        {"new vectors": {"radius": -1}},
        {"held-out error": "low"},
        {"rounding": []},
    ):
        known = replace(fitted, facts=fitted.facts | spoilt)
        assert known.doubts(x[:50], y[:50]) == ()
        assert known.update(x[:50], y[:50]).facts["pairs"] == 350


def test_maps_of_the_first_version_still_load(tmp_path):
    fitted = isorep.translate(*bent(600), maps="ridge", n_queries=20).translator
    fitted.save(tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        facts = json.loads(file.metadata()["isorep"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    earlier = ("kind", "old columns", "new columns", "reference rows", "held-out rows", "fit", "isorep")
    facts = {"format": "isorep translation 1"} | {name: facts[name] for name in earlier}
    names = ("matrix", "old_mean", "new_mean", "reference_mean", "whitener", "scales")
    save_file({name: arrays[name] for name in names}, tmp_path / "old.safetensors", {"isorep": json.dumps(facts)})
    loaded = Translator.load(tmp_path / "old.safetensors")
    assert loaded.norm is None
    np.testing.assert_allclose(loaded.transform(bent(50)[0], check=False), fitted.map.raw(bent(50)[0]), atol=1e-9)
    for action, words in (
        (lambda: loaded.confidence(bent(50)[0]), "no confidence"),
        (lambda: loaded.update(*bent(50)), "without the moments"),
    ):
        with pytest.raises(InputError, match=words):
            action()


def judged(tmp_path, n=600):
    x, y = bent(n)
    ids = np.array([f"d{row}" for row in range(n)])
    near = unit(y[:100] + 0.02 * np.random.default_rng(5).normal(size=(100, 24)))
    queries = Representation(near, ids=[f"q{row}" for row in range(100)], name="queries")
    lines = [f"q{row} 0 d{row} 2" for row in range(100)] + ["q1 0 elsewhere 1", "nobody 0 d3 1", "q2 0 d50 0"]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    return Representation(x, ids=ids, name="x"), Representation(y, ids=ids, name="y"), queries


def test_judgements_are_measured_on_held_out_documents(tmp_path):
    x, y, queries = judged(tmp_path)
    older = Representation(x.values[:100], ids=queries.ids, name="older")
    result = isorep.translate(
        x, y, maps=["linear", "mlp"], queries=queries, old_queries=older, relevance=tmp_path / "qrels.txt", n_queries=50
    )
    found = result.relevance
    assert found.queries == found.judged
    assert 5 < found.queries < 45
    assert found.unknown == 2
    store = found.scenarios["store"]
    assert store.native_ndcg > 0.9
    assert store.native_recall == pytest.approx(1.0)
    assert store.untranslated_ndcg < store.ndcg <= store.native_ndcg + 0.05
    assert found.documents == 120
    assert set(found.scenarios) == {"store", "queries"}
    assert "nDCG@10" in str(result)
    by_dict = isorep.translate(
        x, y, maps=["linear", "mlp"], queries=queries, relevance={f"q{row}": {f"d{row}": 2} for row in range(100)},
        n_queries=50,
    )  # fmt: skip
    assert by_dict.relevance.scenarios["store"].ndcg == pytest.approx(store.ndcg)
    assert set(by_dict.relevance.scenarios) == {"store"}


def test_ndcg_is_that_of_the_definition():
    from isorep.translation.relevance import _scores

    items = np.eye(12, dtype=np.float32)
    vectors = np.arange(12, 0, -1, dtype=float)[None]  # ranks the items in their order
    gain = {0: 1.0, 3: 2.0, 11: 1.0}
    ndcg, recall = _scores(vectors, items, [gain], "dot")
    found = 1 / np.log2(2) + 3 / np.log2(5)
    best = 3 / np.log2(2) + 1 / np.log2(3) + 1 / np.log2(4)
    assert ndcg == pytest.approx(found / best)
    assert recall == pytest.approx(2 / 3)


JUDGEMENTS = {
    "no file": (None, "does not exist"),
    "one word": ("q1\n", "line 1 is not a query"),
    "a grade that is none": ("q1 0 d1 1\nq1 0 d2 high\n", "line 2 has the grade 'high'"),
    "a huge grade": ("q1 0 d1 5000\n", "grades go up to 100"),
    "nothing relevant": ("q1 0 d1 0\n", "no document relevant"),
    "other ids": ("a 0 b 1\n", "no judged query"),
    "a first line without a number": ("q0 d1 high\nq1 d2 1\n", "line 1 has the grade 'high', which is no number"),
    "two readings": ("q0 d,1 1\n", "line 1 can be read with spaces or with commas"),
    "two readings of two columns": ("q0 d,1\n", "line 1 can be read with spaces or with commas"),
    "four columns without an iteration": ('"q,0",d1,1\n', "line 1 is not a query"),
}


@pytest.mark.parametrize("case", JUDGEMENTS)
def test_spoilt_judgements_are_refused_with_one_sentence(tmp_path, case):
    x, y, queries = judged(tmp_path, 100)
    text, words = JUDGEMENTS[case]
    path = tmp_path / "spoilt.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        isorep.translate(x, y, maps="linear", queries=queries, relevance=path)
    assert "\n" not in str(refused.value)


def test_judgements_need_ids_and_queries(tmp_path):
    x, y, queries = judged(tmp_path, 100)
    path = tmp_path / "qrels.txt"
    for arguments, options, words in (
        ((x, y), {"relevance": path}, "belong together"),
        ((x.values, y.values), {"relevance": path, "queries": queries}, "neither side has row ids"),
        ((x, y), {"relevance": path, "queries": queries.values}, "has no ids"),
        ((x, y), {"relevance": path, "queries": x}, "8 columns, and the vectors it should search have 24"),
        ((x, y), {"scenario": "both"}, "choose from store, queries"),
        ((x, y), {"store_size": 1}, "store_size is 1"),
    ):
        with pytest.raises(InputError, match=words):
            isorep.translate(*arguments, **options)


READABLE = {
    "TREC": "q,0 0 d,1 2\nq1 Q0 d2 0\n",
    "a header": "query-id\tcorpus-id\tscore\nq,0\td,1\t2\nq1\td2\t0\n",
    "a header after a comment": "# made by hand\nquery doc relevance\nq,0 0 d,1 2\nq1 0 d2 0\n",
    "tabs": "q,0\t0\td,1\t2\nq1\td2\t0\n",
}


@pytest.mark.parametrize("case", READABLE)
def test_judgements_are_read_whatever_separates_them(tmp_path, case):
    from isorep.translation.relevance import read_relevance

    (tmp_path / "qrels").write_text(READABLE[case])
    assert read_relevance(tmp_path / "qrels") == {"q,0": {"d,1": 2.0}, "q1": {"d2": 0.0}}


def test_commas_may_separate_ids_with_spaces(tmp_path):
    from isorep.translation.relevance import read_relevance

    (tmp_path / "qrels.csv").write_text("query id,doc id,score\nq 0,d 1,2\nq1, d2, 1\nq2,0,d2,1\n")
    assert read_relevance(tmp_path / "qrels.csv") == {"q 0": {"d 1": 2.0}, "q1": {"d2": 1.0}, "q2": {"d2": 1.0}}


def numbered(n=300):
    x, y = bent(n)
    return (
        Representation(x, ids=np.arange(n), name="x"),
        Representation(y, ids=np.arange(n), name="y"),
        Representation(y[:50], ids=np.arange(50), name="queries"),
        Representation(x[:50], ids=np.arange(50), name="older"),
    )


def test_judgements_of_a_dict_may_have_numbers_as_ids():
    x, y, queries, older = numbered()
    both = [
        isorep.translate(
            x, y, maps="ridge", queries=queries, old_queries=older, n_queries=40,
            relevance={kind(row): {kind(row): 1} for row in range(50)},
        ).relevance
        for kind in (int, str, np.int64)
    ]  # fmt: skip
    assert both[0] == both[1] == both[2]
    assert both[0].queries > 3
    for spoilt, words in (
        ({0: [0, 1]}, "no dict of documents"),
        ({0: {0: "high"}}, "the grade 'high', which is no number"),
        ({0: {0: 5000}}, "grades go up to 100"),
    ):
        with pytest.raises(InputError, match=words):
            isorep.translate(x, y, maps="ridge", queries=queries, relevance=spoilt)


def test_judgements_that_are_left_out_are_notes():
    x, y, queries, older = numbered()
    known = {row: {row: 1} for row in range(50)}
    given = {"maps": "ridge", "queries": queries, "scenario": "queries", "n_queries": 40}
    alone = isorep.translate(x, y, relevance=known | {"nobody": {0: 1, 1: 1}, 0: {0: 1, "elsewhere": 1}}, **given)
    assert "relevance judgements left out: 3, for documents" in " ".join(alone.caveats)
    assert "measured with a translated store only" in " ".join(alone.caveats)
    one = isorep.translate(x, y, relevance=known | {"nobody": {0: 1}}, **given)
    assert "relevance judgements left out: 1, for documents" in " ".join(one.caveats)
    whole = isorep.translate(x, y, relevance=known, old_queries=older, **given)
    assert not any("judgements" in note for note in whole.caveats)


def test_labels_that_begin_alike_are_told_apart_and_marked_each():
    x, y = bent(3000)
    codes = np.random.default_rng(1).integers(3, size=3000)
    bad = codes == 2
    y[bad] = unit(y[bad] + 0.15 * np.random.default_rng(2).normal(size=(int(bad.sum()), 24)))
    names = np.array([f"{'a long path of a source ' * 4}{end}" for end in ("one", "two", "\x1bred")])
    result = isorep.translate(x, y, maps="ridge", labels=names[codes], n_queries=300)
    shown = [line for line in str(result).splitlines() if "a long path" in line and "…" in line]
    assert [line.startswith("> ") for line in shown] == [True, False, False]
    assert len({line[:42] for line in shown}) == 3


def test_shortened_labels_are_short_and_different():
    labels = [f"{'x' * 30}{middle}{'y' * 30}" for middle in "abc"] + ["z" * 40, "short"]
    found = shortened(labels)
    assert len(set(found)) == 5
    assert max(map(len, found)) <= 40
    assert found[3:] == labels[3:]
