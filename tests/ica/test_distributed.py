"""Fits of Dask arrays: the same answers as from one array, whatever the chunks, the scheduler or the workers' fate."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import isorep
from isorep import ICA, Whitening
from isorep.ica.checkpoint import Checkpoint
from isorep.ica.contrasts import contrast_named
from isorep.ica.unmixing import ArraySource, as_source
from isorep.threads import Crew, blas_threads

from ..data import mixing, rotation, sources
from ..waiting import until

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

N, D = 8000, 8
CHUNKINGS = {
    "one": (N, D),
    "equal": (1000, D),
    "unequal": ((1, 4999, 700, 2300), D),
    "by columns": (1500, 3),
}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return sources(N, D) @ mixing(D, 0) + 5


@pytest.fixture(scope="module")
def serial(rows):
    return ICA().fit(rows)


@pytest.fixture
def spread(monkeypatch):
    """Nothing is joined and nothing comes here: every pass is made by the workers, as it is for large data."""
    monkeypatch.setattr("isorep.ica.dask_rows._LEAST_CELLS", 1)
    monkeypatch.setattr("isorep.ica.dask_rows._NEAR_CELLS", 0)


def unknown_sizes(array):
    """The same rows in chunks whose sizes Dask does not know, an empty one among them."""
    width = array.shape[1]
    marked = da.concatenate([array, da.full((50, width), 1e9, dtype=array.dtype, chunks=(50, width))])
    return marked[marked[:, 0] < 1e8]


@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_every_chunking_gives_the_serial_components(rows, serial, chunks):
    found = ICA().fit(da.from_array(rows, chunks=chunks))
    np.testing.assert_allclose(found.components_, serial.components_, atol=1e-6)
    np.testing.assert_allclose(found.mixing_, serial.mixing_, atol=1e-6)
    np.testing.assert_allclose(found.kurtosis_, serial.kurtosis_, atol=1e-6)
    assert found.n_iter_ == serial.n_iter_


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_passes_by_the_workers_give_the_serial_components(rows, serial, chunks):
    found = ICA().fit(da.from_array(rows, chunks=chunks))
    np.testing.assert_allclose(found.components_, serial.components_, atol=1e-6)


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_single_precision_finds_the_serial_sources(rows, dtype):
    values = rows.astype(dtype)
    expected = ICA().fit_transform(values)
    for chunks in CHUNKINGS.values():
        found = ICA().fit_transform(da.from_array(values, chunks=chunks))
        assert found.dtype == np.float32
        correlations = np.corrcoef(found.compute().T, expected.T)[:D, D:]
        assert np.diagonal(correlations).min() > 0.9999


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize("contrast", ["exp", "cube"])
def test_every_contrast_travels(rows, contrast):
    found = ICA(contrast=contrast).fit(da.from_array(rows, chunks=(3000, D)))
    np.testing.assert_allclose(found.components_, ICA(contrast=contrast).fit(rows).components_, atol=1e-6)


def test_without_whitening_the_fit_agrees_too(rows):
    white = Whitening().fit_transform(rows)
    found = ICA(whiten=None).fit(da.from_array(white, chunks=(3000, D)))
    np.testing.assert_allclose(found.components_, ICA(whiten=None).fit(white).components_, atol=1e-6)


@pytest.mark.usefixtures("spread")
def test_the_same_chunks_give_the_same_bits(rows):
    first, second = (ICA().fit(da.from_array(rows, chunks=(700, D))) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize("columns", [D, 3])
def test_sizes_of_chunks_need_not_be_known(rows, serial, columns):
    array = unknown_sizes(da.from_array(rows, chunks=(900, columns)))
    assert np.isnan(array.shape[0])
    found = ICA().fit(array)
    np.testing.assert_allclose(found.components_, serial.components_, atol=1e-6)
    np.testing.assert_allclose(found.transform(array).compute(), serial.transform(rows), atol=1e-5)


def test_whitening_takes_dask_arrays(rows):
    expected = Whitening().fit(rows)
    for chunks in CHUNKINGS.values():
        found = Whitening().fit(da.from_array(rows, chunks=chunks))
        np.testing.assert_allclose(found.mean_, expected.mean_, atol=1e-12)
        np.testing.assert_allclose(np.abs(found.components_), np.abs(expected.components_), atol=1e-6)


def test_a_wide_spectrum_is_resolved_by_a_second_pass():
    values = (sources(6000, 6) @ mixing(6, 0, 1e9)).astype(np.float64)
    serial, found = ICA().fit(values), ICA().fit(da.from_array(values, chunks=(1700, 4)))
    assert found.rank_ == serial.rank_ == 6
    np.testing.assert_allclose(found.transform(values), serial.transform(values), atol=1e-4)


def test_constant_and_duplicate_columns_are_a_normal_case(rows):
    values = np.column_stack([rows, rows[:, 0], np.ones(N)])
    serial, found = ICA().fit(values), ICA().fit(da.from_array(values, chunks=(3000, 4)))
    assert found.rank_ == serial.rank_ == D
    np.testing.assert_allclose(found.components_, serial.components_, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", [ICA(), Whitening()])
def test_a_transform_is_lazy_and_equals_the_eager_one(rows, estimator, dtype):
    values = rows.astype(dtype)
    estimator.fit(values)
    for chunks in CHUNKINGS.values():
        found = estimator.transform(da.from_array(values, chunks=chunks))
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype, found.numblocks[1]) == ((N, D), np.dtype(dtype), 1)
        np.testing.assert_allclose(found.compute(), estimator.transform(values), atol=1e-6)

    def load():
        raise AssertionError("a transform must not load anything")

    estimator.transform(da.from_delayed(dask.delayed(load)(), (N, D), dtype=dtype))


def test_non_finite_values_are_counted_and_placed(rows):
    values = rows.copy()
    values[2500, 3], values[7000, 1], values[7000, 2] = np.nan, np.inf, np.nan
    for array in (da.from_array(values, chunks=(1000, 3)), unknown_sizes(da.from_array(values, chunks=(1000, D)))):
        with pytest.raises(isorep.InputError, match="3 NaN or infinite values, the first at row 2500, column 3"):
            ICA().fit(array)


def test_values_that_cannot_be_used_are_refused_with_the_reason(rows):
    with pytest.raises(isorep.InputError, match="overflow"):
        Whitening().fit(da.from_array(rows * 1e200, chunks=(1000, D)))
    with pytest.raises(isorep.InputError, match="int64"):
        ICA().fit(da.from_array(rows.astype(int), chunks=(1000, D)))
    with pytest.raises(isorep.InputError, match="MaskedArray"):
        ICA().fit(da.ma.masked_greater(da.from_array(rows, chunks=(1000, D)), 7))
    nothing = da.from_array(rows, chunks=(1000, D))
    with pytest.raises(isorep.InputError, match="no rows"):
        Whitening().fit(nothing[nothing[:, 0] > 1e9])


def test_a_sample_and_a_fingerprint_do_not_depend_on_the_chunks(rows):
    whitening = Whitening().fit(rows)
    expected = ArraySource(rows)
    with Crew() as crew:
        drawn = expected.whitened(whitening.mean_, whitening.components_.T, crew).sample(300, np.random.default_rng(3))
        for chunks in CHUNKINGS.values():
            source = as_source(unknown_sizes(da.from_array(rows, chunks=chunks)))
            assert source.fingerprint() == expected.fingerprint()
            assert source.shape == (N, D)
            white = source.whitened(whitening.mean_, whitening.components_.T, crew)
            found = white.sample(300, np.random.default_rng(3))
            np.testing.assert_allclose(found.values, drawn.values, atol=1e-12)


@pytest.mark.usefixtures("spread")
def test_sums_are_the_same_here_and_on_workers(rows):
    whitening = Whitening().fit(rows)
    directions, contrast = rotation(D, 3), contrast_named("logcosh")
    arguments = (whitening.mean_, whitening.components_.T)
    with Crew() as crew:
        here = ArraySource(rows).whitened(*arguments, crew)
        there = as_source(da.from_array(rows, chunks=(100, D))).whitened(*arguments, crew)
        np.testing.assert_allclose(there.fourth_order(), here.fourth_order(), atol=1e-10)
        np.testing.assert_allclose(there.outlying(7), here.outlying(7), atol=1e-10)
        few = directions[:3]
        for mine, theirs in ((here, there), (here.project(few), there.project(few))):
            at = np.eye(3) if mine.width == 3 else directions
            one, other = mine.portrait(at, contrast), theirs.portrait(at, contrast)
            for name in ("third", "fourth", "pairs", "square"):
                np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-10)
            one, other = mine.sweep(at, contrast), theirs.sweep(at, contrast)
            for name in ("cross", "slope", "value"):
                np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-10)


def test_what_a_task_gave_is_not_changed_by_adding_it():
    from isorep.ica.dask_rows import _added

    parts = [[np.ones(2)], [np.ones(2)]]
    np.testing.assert_array_equal(_added(parts)[0], [2, 2])
    np.testing.assert_array_equal(parts[0][0], [1, 1])


def test_a_fit_leaves_the_threads_of_blas_as_they_were(rows):
    before = blas_threads()
    ICA().fit(da.from_array(rows, chunks=(1000, D)))
    assert blas_threads() == before


@pytest.mark.usefixtures("spread")
@pytest.mark.parametrize("stop", [1, 2, 4])
def test_a_checkpoint_is_taken_up_again_in_other_chunks(rows, serial, tmp_path, monkeypatch, stop):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    path = tmp_path / "state"
    steps = []

    def interrupt(stage, *_):
        steps.append(stage)
        if steps.count("rotation") > stop and path.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ICA().fit(da.from_array(rows, chunks=(1000, D)), checkpoint=path, progress=interrupt)
    with pytest.raises(isorep.InputError, match="other data"):
        ICA().fit(da.from_array(rows[::-1], chunks=(1000, D)), checkpoint=path)
    resumed = ICA().fit(unknown_sizes(da.from_array(rows, chunks=(1500, D))), checkpoint=path)
    np.testing.assert_allclose(resumed.components_, serial.components_, atol=1e-6)
    assert not path.exists()


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _load(path: str, log: str) -> np.ndarray:
    with open(log, "a") as file:  # noqa: PTH123
        file.write(f"{path}\n")
    return np.load(path)


@pytest.fixture
def stored(rows, tmp_path):
    """Rows in files that workers load, and the log of their loading."""
    log = tmp_path / "log"
    parts = []
    for place, part in enumerate(np.array_split(rows, 6)):
        path = tmp_path / f"{place}.npy"
        np.save(path, part)
        loaded = dask.delayed(_load)(str(path), str(log))
        parts.append(da.from_delayed(loaded, part.shape, dtype=part.dtype))
    return da.concatenate(parts), log


@pytest.mark.usefixtures("spread")
def test_worker_processes_load_each_file_once_a_pass_and_keep_nothing_afterwards(client, stored, serial):
    array, log = stored
    found = ICA().fit(array)
    np.testing.assert_allclose(found.components_, serial.components_, atol=1e-6)
    assert len(log.read_text().splitlines()) == 2 * 6  # moments, whitening
    assert found.transform(array).shape == (N, D)
    until(lambda: not client.futures)  # the client gives back what was dropped a moment later


@pytest.mark.usefixtures("spread")
def test_a_fit_survives_the_death_of_a_worker(client, stored, serial):
    array, log = stored
    killed = []

    def kill(stage, *_):
        if stage == "rotation" and not killed:
            pids = client.run(os.getpid)
            held = client.has_what()
            victim = max(pids, key=lambda worker: len(held[worker]))
            assert held[victim], "nothing would be lost"
            os.kill(pids[victim], signal.SIGKILL)
            killed.append(victim)

    found = ICA().fit(array, progress=kill)
    assert killed
    assert len(log.read_text().splitlines()) > 2 * 6  # what was lost has been loaded again
    np.testing.assert_allclose(found.components_, serial.components_, atol=1e-6)
