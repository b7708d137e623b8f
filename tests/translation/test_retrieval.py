"""Recall and overlap: against brute force, whatever the metric and the blocks."""

import numpy as np
import pytest

from isorep.rows import no_progress
from isorep.similarity import neighbours
from isorep.translation.maps import FittedMap
from isorep.translation.retrieval import search_rows


def distances(queries, corpus, metric):
    if metric == "euclidean":
        return np.linalg.norm(queries[:, None] - corpus, axis=2)
    if metric == "cosine":
        queries, corpus = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, corpus))
    return -queries @ corpus.T


def measured(x, y, test, maps, **options):
    settings = {"at": (1, 5, 20), "metric": "cosine", "n_queries": 1000, "n_corpus": 100_000} | options
    return search_rows(x, y, test, maps, rng=np.random.default_rng(0), progress=no_progress, **settings)


def identity(d, norm=None):
    return FittedMap("rigid", np.eye(d), np.zeros(d), np.zeros(d), norm=norm)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("mean", [0.0, 30.0])
def test_all_figures_are_those_of_brute_force(metric, mean, monkeypatch):
    monkeypatch.setattr(neighbours, "_TILE_CELLS", 64)  # many tiles of queries
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    y = x @ rng.normal(size=(6, 5)) + 0.4 * rng.normal(size=(300, 5)) + mean
    matrix = np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=None)[0]
    fitted = FittedMap("linear", matrix, x.mean(0), y.mean(0))
    test = np.arange(300)
    found = measured(x, y, test, {"linear": fitted}, metric=metric)
    assert (len(found.queries), found.corpus, found.at) == (300, 300, (1, 5, 20))
    translated = fitted.apply(x)
    cut = x[:, :5]
    searched = {
        ("native", None): (y[test], y),
        ("queries", "linear"): (translated[test], y),
        ("queries", "untranslated"): (cut[test], y),
        ("store", "linear"): (y[test], translated),
        ("store", "untranslated"): (y[test], cut),
    }
    order = {name: np.argsort(distances(*each, metric), axis=1) for name, each in searched.items()}
    for (scenario, name), ranks in order.items():
        record = found.ceiling if name is None else found.found[scenario][name]
        for k in (1, 5, 20):
            hits = [row in ranks[place, :k] for place, row in enumerate(test)]
            assert record.share.recall[k] == pytest.approx(np.mean(hits), abs=0.011), (scenario, name, k)
            shared = []
            for place, row in enumerate(test):
                here, there = (
                    [item for item in one[place] if item != row][:k] for one in (ranks, order["native", None])
                )
                shared.append(len(set(here) & set(there)) / k)
            assert record.share.overlap[k] == pytest.approx(np.mean(shared), abs=0.011), (scenario, name, k)
        places = np.array([list(ranks[place]).index(row) for place, row in enumerate(test)])
        if name == "untranslated":  # whose count ends at the depth of the search
            places, closer = np.minimum(places, 21), np.minimum(record.closer, 21)
        else:
            closer = record.closer
        assert (places != closer).mean() <= 0.03


def test_native_queries_find_themselves_and_all_their_neighbours():
    y = np.random.default_rng(0).normal(size=(200, 4))
    found = measured(y, y, np.arange(200), {"rigid": identity(4)})
    for record in (found.ceiling, *found.found["store"].values(), *found.found["queries"].values()):
        assert set(record.share.recall.values()) == set(record.share.overlap.values()) == {1.0}
        assert not record.closer.any()


def test_the_corpus_is_a_sample_that_holds_the_queries_own_items():
    y = np.random.default_rng(0).normal(size=(500, 4))
    found = measured(y, y, np.arange(100), {"rigid": identity(4)}, n_queries=30, n_corpus=60)
    assert (len(found.queries), found.corpus) == (30, 60)
    assert found.ceiling.share.recall[1] == 1
    fewest = measured(y, y, np.arange(100), {"rigid": identity(4)}, n_queries=30, n_corpus=10)
    assert fewest.corpus == 30


def test_an_item_with_the_same_new_vector_is_as_good_as_the_own_one():
    y = np.repeat(np.random.default_rng(0).normal(size=(100, 4)), 3, axis=0)
    found = measured(y, y, np.arange(300), {"rigid": identity(4)})
    assert found.found["store"]["rigid"].share.recall[1] == 1


def test_lengths_that_vary_cost_recall_by_dot_product_and_set_lengths_do_not():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(400, 16))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    x = y * rng.uniform(0.3, 1.2, size=(400, 1))
    found = measured(x, y, np.arange(400), {"raw": identity(16), "scaled": identity(16, 1.0)}, metric="dot")
    assert found.found["store"]["raw"].share.recall[1] < 0.9
    assert found.found["store"]["scaled"].share.recall[1] == 1


def test_a_vector_without_length_is_no_reason_to_fail():
    y = np.random.default_rng(0).normal(size=(100, 4))
    y[3] = 0
    found = measured(y, y, np.arange(100), {"rigid": identity(4, 1.0)})
    assert found.ceiling.share.recall[20] >= 0.95


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
def test_a_map_onto_one_vector_finds_no_more_than_guessing(metric):
    y = np.random.default_rng(0).normal(size=(400, 4)) + 1
    one = FittedMap("rigid", np.zeros((4, 4)), np.zeros(4), np.ones(4))
    found = measured(y, y, np.arange(400), {"rigid": one}, metric=metric, at=(1, 20)).found["store"]["rigid"]
    assert found.share.recall[20] < 0.15
    assert 100 < np.median(found.closer) < 300
