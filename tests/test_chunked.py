"""Dask arrays: the answers of one array, whatever the chunks; nothing of the rows in a graph; the same errors."""

from __future__ import annotations

import json
from importlib import import_module

import cloudpickle
import numpy as np
import pytest

import isorep
from isorep import chunked
from isorep.chunked import ChunkedRows
from isorep.moments import Moments
from isorep.representation import Representation
from isorep.rows import equal_rows, refuse_non_finite, select

from .data import mixing, sources

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

N, D = 1500, 5
X = sources(N, D) @ mixing(D, 0) + 4
Y = X @ mixing(D, 1) + 0.3 * np.random.default_rng(1).normal(size=(N, D))
Z = X[:, :3] @ mixing(3, 2)
CHUNKINGS = {"one": (N, D), "equal": (400, D), "unequal": ((1, 0, 799, 700), D), "by columns": (600, 2)}


@pytest.fixture(autouse=True)
def spread(monkeypatch):
    """Small chunks stay apart, as large ones do."""
    monkeypatch.setattr(chunked, "_LEAST_CELLS", 1)
    monkeypatch.setattr(chunked, "_LEAST_ROWS", 1)


def cut(values, rows=400):
    return da.from_array(values, chunks=(rows, -1))


def unknown_sizes(values):
    """The same rows in chunks whose sizes Dask does not know."""
    marked = da.concatenate([cut(values), da.full((50, values.shape[1]), 1e9, chunks=(50, -1))])
    return marked[marked[:, 0] < 1e8]


def differences(mine, other, tolerance, place=""):
    """Where two results differ: numbers by more than the tolerance, relative above 1; anything else at all."""
    if isinstance(mine, dict):
        assert set(mine) == set(other), place
        every = [differences(mine[key], other[key], tolerance, f"{place}/{key}") for key in mine if key != "seconds"]
        return [each for found in every for each in found]
    if isinstance(mine, list):
        assert len(mine) == len(other), place
        every = [
            differences(*both, tolerance, f"{place}/{at}") for at, both in enumerate(zip(mine, other, strict=True))
        ]
        return [each for found in every for each in found]
    if isinstance(mine, float) and isinstance(other, float):
        close = np.isclose(mine, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        return [] if close else [(place, mine, other)]
    return [] if mine == other else [(place, mine, other)]


def test_rows_of_any_chunks_are_those_of_the_array():
    for chunks in CHUNKINGS.values():
        rows = ChunkedRows(da.from_array(X, chunks=chunks))
        assert rows.shape == X.shape
        for wanted in (slice(None), slice(3, 900), slice(None, None, 7), np.array([5, 1499, 5, -1]), X[:, 0] > 4, 17):
            np.testing.assert_array_equal(rows[wanted], X[wanted])
        np.testing.assert_array_equal(rows[10:20, 1:3], X[10:20, 1:3])
        with pytest.raises(IndexError):
            rows[np.array([N])]


def test_chosen_rows_stay_in_the_workers_in_the_order_asked_for():
    rng = np.random.default_rng(0)
    for chosen in (np.sort(rng.choice(N, 700, replace=False)), rng.permutation(N)[:900]):
        taken = select(ChunkedRows(da.from_array(X, chunks=(400, D))), chosen)
        assert isinstance(taken, ChunkedRows)
        np.testing.assert_array_equal(taken[:], X[chosen])


def test_sizes_of_chunks_are_counted_where_they_are_not_known():
    array = unknown_sizes(X)
    assert np.isnan(array.shape[0])
    rows = Representation(array).values
    assert rows.shape == X.shape
    np.testing.assert_array_equal(rows[:], X)


def test_large_results_come_some_at_a_time(monkeypatch):
    local = isorep.similarity.cca(X, Y, permutations=20)
    batches = []
    computed = chunked.computed
    monkeypatch.setattr(
        chunked, "computed", lambda tasks, **more: batches.append(len(tasks)) or computed(tasks, **more)
    )
    monkeypatch.setattr(chunked, "_BATCH_CELLS", 600 * D)
    found = isorep.similarity.cca(cut(X, 300), cut(Y, 300), permutations=20)
    assert (found.value, found.null.mean) == pytest.approx((local.value, local.null.mean), abs=1e-9)
    assert batches.count(2) >= 4  # of five chunks of scores, two at a time, for each side


def test_rows_are_kept_by_workers_only_if_all_fit(monkeypatch):
    matrices = [ChunkedRows(cut(X)), ChunkedRows(cut(Y))]
    for memory, kept in ((0, False), (2 * X.nbytes / 0.4 - 1, False), (2 * X.nbytes / 0.4 + 1, True)):
        monkeypatch.setattr(chunked, "cluster_memory", lambda memory=memory: memory)
        found = chunked.keep_all(matrices)
        assert all((a is not b) == kept for a, b in zip(found, matrices, strict=True))
        np.testing.assert_array_equal(found[1][:], Y)


def test_more_rows_than_fit_here_are_refused(monkeypatch):
    monkeypatch.setattr(chunked, "MOST_BYTES", X.nbytes - 1)
    rows = ChunkedRows(cut(X))
    rows[1:]
    with pytest.raises(isorep.InputError, match="1500 x 5 values in one place"):
        rows[:]


@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_moments_do_not_depend_on_the_chunks(chunks):
    far = X + 1e6
    found = Moments.from_rows(ChunkedRows(da.from_array(far, chunks=chunks)), ChunkedRows(cut(Z, 333)))
    whole = Moments.from_rows(far, Z)
    for name in ("source_mean", "target_mean", "xx", "xy", "yy"):
        mine, other = getattr(found, name), getattr(whole, name)
        assert np.abs(mine - other).max() <= 1e-9 * np.abs(other).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compare_gives_the_local_result(dtype):
    x, y = X.astype(dtype), Y.astype(dtype)
    y[7] = y[8]  # repeated rows are found by their hashes
    local = isorep.compare(x, y, worst_case=True).to_dict()
    found = isorep.compare(
        da.from_array(x, chunks=(400, 2)), da.from_array(y, chunks=((1, 0, 799, 700), D)), worst_case=True
    ).to_dict()
    # Means of float32 residuals are sums of float32 numbers in another order.
    assert differences(local, found, 1e-9 if dtype is np.float64 else 1e-6) == []
    assert local["forward"]["verdict"]["rung"] == "linear"


def test_an_ill_conditioned_side_takes_its_second_pass_in_the_workers():
    x = np.column_stack([X, X[:, 0] + 1e-9 * Y[:, 0]])
    options = {"rungs": ["linear"], "n_null": 0}
    local, found = isorep.compare(x, Y, **options), isorep.compare(cut(x), cut(Y, 700), **options)
    assert found.source.rank == local.source.rank == 6
    assert found.rungs["linear"].held_out.rms == pytest.approx(local.rungs["linear"].held_out.rms, rel=1e-6)


def test_join_and_groups_give_the_local_result():
    rng = np.random.default_rng(3)
    order = rng.permutation(N)[:1200]
    ids, groups = np.arange(N), np.arange(N) // 5
    sides = (X, ids), (Y[order], ids[order])
    options = {"join": True, "groups": groups, "rungs": ["rigid", "linear"], "n_null": 20}
    local = isorep.compare(*(Representation(*side) for side in sides), **options).to_dict()
    found = isorep.compare(*(Representation(cut(values), names) for values, names in sides), **options).to_dict()
    assert differences(local, found, 1e-9) == []


def test_compare_many_gives_the_local_result():
    local = isorep.compare_many([X, Y, Z], residuals=True).to_dict()
    found = isorep.compare_many([cut(X), cut(Y, 700), cut(Z, 250)], residuals=True).to_dict()
    # Errors at zero are roots of rounding: X determines Z.
    assert differences(local, found, 1e-6) == []
    assert differences(local["consensus"], found["consensus"], 1e-9) == []


def test_compare_layers_gives_the_local_result(tmp_path):
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder, values in zip(folders, (X, Y), strict=True):
        folder.mkdir()
        np.save(folder / "top.npy", values)
    options = {"layers": ["top"], "fast": True}
    local = isorep.compare_layers(*folders, **options).to_dict()
    assert differences(local, isorep.compare_layers(*folders, in_chunks=True, **options).to_dict(), 1e-9) == []


def test_every_index_gives_the_local_result():
    options = {"permutations": 30, "random_state": 2}
    local = isorep.similarity.indices(X, Y, **options).to_dict()
    assert differences(local, isorep.similarity.indices(cut(X), cut(Y, 700), **options).to_dict(), 1e-9) == []
    assert isorep.similarity.cca(cut(X), cut(Z)).value == pytest.approx(isorep.similarity.cca(X, Z).value, abs=1e-9)
    few = isorep.similarity.cka(cut(X[:4], 3), cut(Y[:4], 2)).value  # fewer rows than columns
    assert few == pytest.approx(isorep.similarity.cka(X[:4], Y[:4]).value, abs=1e-9)
    layers = isorep.similarity.layers([cut(X), cut(Z)], [cut(Y)], permutations=20).to_dict()
    assert differences(isorep.similarity.layers([X, Z], [Y], permutations=20).to_dict(), layers, 1e-9) == []


def test_translate_gives_the_local_result():
    local, found = isorep.translate(X, Y), isorep.translate(cut(X), cut(Y, 700))
    assert differences(local.to_dict(), found.to_dict(), 1e-9) == []
    np.testing.assert_allclose(found.translator.matrix, local.translator.matrix, rtol=0, atol=1e-9)
    translated = found.transform(cut(X))
    assert isinstance(translated, da.Array)
    np.testing.assert_allclose(translated.compute(), local.transform(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "kind", [isorep.Identity, isorep.SignedPermutation, isorep.Rigid, isorep.Linear, isorep.ICAAlignment]
)
def test_aligners_fit_map_and_score_in_the_workers(kind):
    x, y, tolerance = X, Y, 1e-9
    if kind is isorep.ICAAlignment:  # directions are searched for, until they turn by less than 1e-4
        x = sources(6000, D) @ mixing(D, 0)
        y, tolerance = x @ mixing(D, 1), 1e-6
    local, found = kind().fit(x, y), kind().fit(cut(x), cut(y, 700))
    for name, rows in (("transform", x), ("inverse_transform", y)):
        mapped = getattr(found, name)(cut(rows))
        assert isinstance(mapped, da.Array)
        np.testing.assert_allclose(mapped.compute(), getattr(local, name)(rows), rtol=0, atol=tolerance)
    assert found.score(cut(x), cut(y, 700)) == pytest.approx(local.score(x, y), abs=tolerance)
    np.testing.assert_allclose(found.residuals(cut(x), cut(y)), local.residuals(x, y), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("source", "target"), [(X, Z), (Z, X)], ids=["narrower", "wider"])
def test_aligners_of_two_widths_map_there_and_back(source, target):
    local, found = isorep.Rigid().fit(source, target), isorep.Rigid().fit(cut(source), cut(target))
    np.testing.assert_allclose(found.transform(cut(source)).compute(), local.transform(source), rtol=0, atol=1e-9)
    back = found.inverse_transform(cut(target)).compute()
    np.testing.assert_allclose(back, local.inverse_transform(target), rtol=0, atol=1e-9)
    assert back.shape == source.shape


def test_ica_and_whitening_take_representations_of_dask_arrays():
    x = sources(6000, D) @ mixing(D, 0)
    rows = Representation(cut(x), name="rows")
    found = isorep.ICA().fit(rows)
    np.testing.assert_allclose(found.components_, isorep.ICA().fit(x).components_, atol=1e-6)
    white = isorep.Whitening().fit_transform(rows)
    assert isinstance(white, da.Array)
    np.testing.assert_allclose(white.compute(), isorep.Whitening().fit_transform(x), atol=1e-9)


def test_diameter_and_worst_case_give_the_local_result(monkeypatch):
    monkeypatch.setattr(import_module("isorep.comparison.worst_case"), "NEAR_CELLS", 0)  # nothing is brought here
    assert isorep.diameter(cut(X)) == isorep.diameter(X)
    local, found = isorep.worst_case(X, Y), isorep.worst_case(cut(X), cut(Y, 700))
    assert (found.lower, found.upper) == pytest.approx((local.lower, local.upper), rel=1e-6)
    assert found.worst_rows[0].row == local.worst_rows[0].row


def test_no_rows_are_in_a_graph(monkeypatch):
    """Rows are loaded by tasks; what graphs hold besides is small: maps, and a byte per row for its fold."""
    n, sizes, compute = 40_000, [], dask.compute

    def measured(*tasks, **options):
        graph = {}
        for task in tasks:
            graph.update(dict(task.__dask_graph__()))
        sizes.append(sum(len(cloudpickle.dumps(task)) for task in graph.values()))
        return compute(*tasks, **options)

    monkeypatch.setattr(dask, "compute", measured)
    chunks = {"chunks": ((n // 4,) * 4, (8,)), "dtype": float, "meta": np.empty((0, 0))}
    sides = [da.map_blocks(_made, np.int64(seed), **chunks) for seed in range(2)]
    isorep.compare(*sides, rungs=["rigid", "linear"], n_null=20, n_boot=0)
    rows_bytes = n * 8 * 8
    assert len(sizes) > 5
    assert max(sizes) < n + 0.05 * rows_bytes
    computed = [da.from_array(side.compute(), chunks=(n // 4, 8)) for side in sides]
    sizes.clear()
    Moments.from_rows(*map(ChunkedRows, computed))
    assert max(sizes) > rows_bytes  # rows that somebody else has put there are seen


def _made(seed, block_info=None):
    return np.random.default_rng([seed, block_info[None]["chunk-location"][0]]).normal(size=(10_000, 8))


def test_one_side_away_and_one_here_is_refused_by_name():
    with pytest.raises(isorep.InputError, match="source is a Dask array and target is not"):
        isorep.compare(cut(X), Y)
    with pytest.raises(isorep.InputError, match="Y is a Dask array and X is not"):
        isorep.similarity.cka(X, cut(Y))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((10, 3), dtype=int), "holds integers"),
        (np.zeros((10, 3, 2)), "3 axes instead of 2"),
        (np.zeros((0, 3)), "is empty"),
    ],
)
def test_what_is_no_representation_is_refused_as_an_array_is(values, message):
    for given in (values, da.from_array(values)):
        with pytest.raises(isorep.InputError, match=message):
            Representation(given, name="given")


def test_values_that_are_not_finite_are_counted_and_named_as_in_an_array():
    bad = X.copy()
    bad[1300, 2], bad[40, 1] = np.nan, np.inf
    said = "holds 1 NaN and 1 infinite values, the first at row 40, column 1"
    with pytest.raises(isorep.InputError, match=said):
        refuse_non_finite(ChunkedRows(cut(bad)), "rows")
    for call in (
        lambda: isorep.compare(cut(bad), cut(Y)),
        lambda: isorep.compare_many([cut(X), cut(bad)]),
        lambda: isorep.similarity.indices(cut(bad), cut(Y)),
        lambda: isorep.translate(cut(bad), cut(Y)),
        lambda: isorep.Linear().fit(cut(bad), cut(Y)),
        lambda: isorep.Rigid().fit(X, Y).score(cut(bad), cut(Y)),
        lambda: isorep.Rigid().fit(X, Y).residuals(cut(X), cut(bad)),
    ):
        with pytest.raises(isorep.InputError, match=said):
            call()


def test_a_translated_chunk_names_the_place_in_the_whole_array():
    translator = isorep.translate(X, Y).translator
    bad = X.copy()
    bad[1300, 2] = bad[900, 1] = np.inf
    lazy = translator.transform(cut(bad), check=False)
    with pytest.raises(isorep.InputError, match=r"X, in rows 800 to 1199, holds 1 infinite value, .* at row 900, col"):
        lazy[800:1200].compute()
    np.testing.assert_array_equal(lazy[:800].compute(), translator.transform(cut(X), check=False)[:800].compute())


def test_chunks_that_are_not_what_they_declare_are_refused():
    short = da.map_blocks(lambda block: block[: 299 if len(block) == 300 else 400], cut(X), dtype=X.dtype)
    with pytest.raises(isorep.InputError, match="has 299 rows where its chunks declare 300, from row 1200 on"):
        isorep.compare(short, cut(Y))
    with pytest.raises(isorep.InputError, match="X does not say how many columns it has"):
        ChunkedRows(da.from_delayed(dask.delayed(X), (np.nan, np.nan), dtype=X.dtype))


def test_other_numbers_of_rows_are_refused_as_of_arrays():
    with pytest.raises(isorep.InputError, match="source has 1500 rows and target has 1400"):
        isorep.compare(cut(X), cut(Y[:1400]))


def test_equal_rows_are_found_across_chunks():
    repeated = X.copy()
    repeated[1400] = repeated[3]
    np.testing.assert_array_equal(equal_rows(ChunkedRows(cut(repeated))), equal_rows(repeated))


def test_the_same_chunks_give_the_same_bits():
    first, second = (isorep.compare(cut(X, 300), cut(Y, 300), fast=True).to_json() for _ in range(2))
    assert _without_seconds(first) == _without_seconds(second)


def _without_seconds(text):
    told = json.loads(text)
    told.pop("seconds", None)
    return told
