"""Recall and overlap: against brute force, whatever the metric and the blocks."""

import numpy as np
import pytest

from isorep.alignment import AffineMap
from isorep.rows import no_progress
from isorep.similarity import neighbours
from isorep.translation.retrieval import measure_retrieval


def distances(queries, corpus, metric):
    if metric == "euclidean":
        return np.linalg.norm(queries[:, None] - corpus, axis=2)
    if metric == "cosine":
        queries, corpus = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, corpus))
    return -queries @ corpus.T


def measured(x, y, test, maps, best, **options):
    settings = {"at": (1, 5, 20), "metric": "cosine", "n_queries": 1000, "n_corpus": 100_000} | options
    return measure_retrieval(x, y, test, maps, best, rng=np.random.default_rng(0), progress=no_progress, **settings)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("mean", [0.0, 30.0])
def test_all_figures_are_those_of_brute_force(metric, mean, monkeypatch):
    monkeypatch.setattr(neighbours, "_TILE_CELLS", 64)  # many tiles of queries
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    y = x @ rng.normal(size=(6, 5)) + 0.4 * rng.normal(size=(300, 5)) + mean
    fitted = AffineMap(np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=None)[0], x.mean(0), y.mean(0))
    test = np.arange(0, 300, 3)
    found = measured(x, y, test, {"linear": fitted}, "linear", metric=metric)
    assert (found.queries, found.corpus, found.at) == (100, 300, (1, 5, 20))
    translated = fitted.apply(x)
    cut = x[:, :5]
    order = {
        "native": np.argsort(distances(y[test], y, metric), axis=1),
        "map": np.argsort(distances(translated[test], y, metric), axis=1),
        "floor": np.argsort(distances(cut[test], y, metric), axis=1),
        "store": np.argsort(distances(y[test], translated, metric), axis=1),
    }
    for name, record in (
        ("native", found.ceiling),
        ("map", found.maps["linear"]),
        ("floor", found.floor),
        ("store", found.store),
    ):
        for k in (1, 5, 20):
            hits = [row in order[name][place, :k] for place, row in enumerate(test)]
            assert record.recall[k] == pytest.approx(np.mean(hits), abs=0.011), (name, k)
            shared = []
            for place, row in enumerate(test):
                here, there = ([item for item in order[kind][place] if item != row][:k] for kind in (name, "native"))
                shared.append(len(set(here) & set(there)) / k)
            assert record.overlap[k] == pytest.approx(np.mean(shared), abs=0.011), (name, k)
    assert found.chance == {1: 1 / 300, 5: 5 / 300, 20: 20 / 300}


def test_native_queries_find_themselves_and_all_their_neighbours():
    y = np.random.default_rng(0).normal(size=(200, 4))
    identity = AffineMap(np.eye(4), np.zeros(4), np.zeros(4))
    found = measured(y, y, np.arange(50), {"rigid": identity}, "rigid")
    for record in (found.ceiling, found.floor, found.store, found.maps["rigid"]):
        assert set(record.recall.values()) == set(record.overlap.values()) == {1.0}


def test_the_corpus_is_a_sample_that_holds_the_queries_own_items():
    y = np.random.default_rng(0).normal(size=(500, 4))
    identity = AffineMap(np.eye(4), np.zeros(4), np.zeros(4))
    found = measured(y, y, np.arange(100), {"rigid": identity}, "rigid", n_queries=30, n_corpus=60)
    assert (found.queries, found.corpus) == (30, 60)
    assert found.ceiling.recall[1] == 1
    fewest = measured(y, y, np.arange(100), {"rigid": identity}, "rigid", n_queries=30, n_corpus=10)
    assert fewest.corpus == 30


def test_a_vector_without_length_is_no_reason_to_fail():
    y = np.random.default_rng(0).normal(size=(100, 4))
    y[3] = 0
    identity = AffineMap(np.eye(4), np.zeros(4), np.zeros(4))
    found = measured(y, y, np.arange(20), {"rigid": identity}, "rigid")
    assert found.ceiling.recall[20] >= 0.95
