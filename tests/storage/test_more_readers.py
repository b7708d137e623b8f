"""zarr, AnnData, HDF5, torch files and folders of shards: what is meant is found, and it stays in the file."""

import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import isorep
from isorep.storage import column, scratch

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(40, 3))
IDS = np.array([f"cell {i}" for i in range(40)])


def annotated(path, **parts):
    obs = pd.DataFrame(
        {"plate": pd.Categorical(list("abab") * 10), "count": np.arange(40), "good": [True, False] * 20}, index=IDS
    )
    data = anndata.AnnData(**{"obs": obs, **parts})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which zarr format it writes is anndata's choice
        data.write_zarr(path) if path.suffix == ".zarr" else data.write_h5ad(path)
    return path


def lazy(folder, kind):
    if kind == "h5":
        with h5py.File(folder / "a.h5", "w") as file:
            file.create_dataset("z", data=VALUES, chunks=(7, 2), compression="gzip")
            file["ids"] = IDS.astype(object)
        return folder / "a.h5"
    if kind == "contiguous.h5":
        with h5py.File(folder / "b.h5", "w") as file:
            file["z"] = VALUES
        return folder / "b.h5"
    if kind == "zarr":
        zarr.create_array(folder / "a.zarr", data=VALUES, chunks=(7, 2))
        return folder / "a.zarr"
    if kind == "sharded zarr":
        array = zarr.create_array(folder / "s.zarr", shape=VALUES.shape, dtype="f8", chunks=(7, 3), shards=(14, 3))
        array[:] = VALUES
        return folder / "s.zarr"
    if kind == "zarr 2":
        array = zarr.create_array(folder / "v2.zarr", shape=VALUES.shape, dtype="f8", chunks=(7, 3), zarr_format=2)
        array[:] = VALUES
        return folder / "v2.zarr"
    if kind == "pt":
        torch.save(torch.tensor(VALUES), folder / "a.pt")
        return folder / "a.pt"
    shards = folder / "shards"
    shards.mkdir()
    for place, start in enumerate(range(0, 40, 9)):
        np.save(shards / f"part-{place}.npy", VALUES[start : start + 9])
    return shards


LAZY = ["h5", "contiguous.h5", "zarr", "sharded zarr", "zarr 2", "pt", "shards"]


@pytest.mark.parametrize("kind", LAZY)
def test_values_stay_in_the_file_and_rows_come_in_any_order(tmp_path, kind):
    values = isorep.read(lazy(tmp_path, kind)).values
    assert not isinstance(values, np.ndarray)
    assert values.shape == (40, 3)

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(-40, 39), max_size=60))
    def check_index(index):
        np.testing.assert_array_equal(values[np.array(index, dtype=int)], VALUES[np.array(index, dtype=int)])

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.slices(40))
    def check_slice(rows):
        np.testing.assert_array_equal(values[rows], VALUES[rows])

    check_index()
    check_slice()
    np.testing.assert_array_equal(np.asarray(values), VALUES)
    np.testing.assert_array_equal(np.asarray(values, dtype="f4"), VALUES.astype("f4"))
    mask = VALUES[:, 0] > 0
    np.testing.assert_array_equal(values[mask], VALUES[mask])
    np.testing.assert_array_equal(values[5], VALUES[5])
    assert values[5, 1] == VALUES[5, 1]
    np.testing.assert_array_equal(values[2:9, 1], VALUES[2:9, 1])
    with pytest.raises(IndexError):
        values[np.array([40])]


def test_runs_of_rows_are_cut_where_they_would_be_long(tmp_path, monkeypatch):
    monkeypatch.setattr("isorep.storage.lazy._RUN_BYTES", 5 * 24)
    monkeypatch.setattr("isorep.storage.hdf5._BRIDGE", 2 * 24)
    values = isorep.read(lazy(tmp_path, "contiguous.h5")).values
    rows = RNG.integers(0, 40, size=25)
    np.testing.assert_array_equal(values[rows], VALUES[rows])


@pytest.mark.parametrize("kind", ["h5", "zarr", "pt", "shards"])
def test_a_comparison_does_not_depend_on_where_the_rows_lie(tmp_path, kind):
    target = VALUES @ RNG.normal(size=(3, 3))
    stored = isorep.compare(isorep.read(lazy(tmp_path, kind)), target, n_null=3, n_boot=3)
    held = isorep.compare(VALUES, target, n_null=3, n_boot=3)
    for name, rung in held.rungs.items():
        assert stored.rungs[name].held_out.mean == rung.held_out.mean


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
def test_anndata_gives_x_else_the_only_embedding(tmp_path, suffix):
    x = VALUES.astype("f4")
    one = annotated(tmp_path / f"one.{suffix}", X=x, obsm={"X_pca": 2 * VALUES})
    bare = annotated(tmp_path / f"bare.{suffix}", obsm={"X_pca": 2 * VALUES, "X_isorep_ica": VALUES})
    two = annotated(tmp_path / f"two.{suffix}", X=x, obsm={"X_pca": 2 * VALUES, "X_umap": 3 * VALUES})
    np.testing.assert_array_equal(isorep.read(one).values[:], x)
    assert isorep.read(one).taken == "X"
    np.testing.assert_array_equal(isorep.read(bare).values[:], 2 * VALUES)
    np.testing.assert_array_equal(isorep.read(f"{one}::X_pca").values[:], 2 * VALUES)
    np.testing.assert_array_equal(isorep.read(f"{one}::X").values[:], x)
    np.testing.assert_array_equal(isorep.read(two).values[:], x)
    np.testing.assert_array_equal(isorep.read(f"{two}::X_umap").values[:], 3 * VALUES)
    np.testing.assert_array_equal(isorep.read(two, key="obsm/X_umap").values[:], 3 * VALUES)
    assert not isinstance(isorep.read(two).values, np.ndarray)
    np.testing.assert_array_equal(isorep.read(two).ids, IDS)
    with pytest.raises(isorep.InputError, match=r"no 'X_tsne' in obsm; obsm has X_pca, X_umap"):
        isorep.read(two, key="X_tsne")


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
def test_columns_of_obs(tmp_path, suffix):
    path = annotated(tmp_path / f"a.{suffix}", X=VALUES)
    assert column(path, "plate").tolist() == list("abab") * 10
    assert column(path, "count").tolist() == list(range(40))
    assert column(path, "obs_names").tolist() == IDS.tolist()
    assert isorep.read(path, ids="count").ids.tolist() == list(range(40))
    with pytest.raises(isorep.InputError, match="no column 'batch' in obs; there are _index, count, good, plate"):
        column(path, "batch")


def test_missing_categories_are_counted(tmp_path):
    obs = pd.DataFrame({"plate": pd.Categorical(["a", None] * 20), "n": pd.array([1, None] * 20, "Int64")}, index=IDS)
    path = annotated(tmp_path / "a.h5ad", X=VALUES, obs=obs)
    for name in ("plate", "n"):
        with pytest.raises(isorep.InputError, match=f"column '{name}' has 20 missing entries"):
            column(path, name)
        assert column(path, name, missing=True).tolist() == [{"plate": "a", "n": "1"}[name], ""] * 20


def test_nullable_columns_without_gaps_are_read(tmp_path):
    obs = pd.DataFrame({"n": pd.array(range(40), "Int64")}, index=IDS)
    path = annotated(tmp_path / "a.h5ad", X=VALUES, obs=obs)
    assert column(path, "n").tolist() == list(range(40))


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_sparse_x_becomes_dense_up_to_a_limit(tmp_path, suffix, form, monkeypatch):
    some = np.where(VALUES > 0.5, VALUES, 0)
    path = annotated(tmp_path / f"a.{suffix}", X=form(some), obsm={"X_pca": VALUES})
    np.testing.assert_array_equal(isorep.read(path).values[:], some)
    monkeypatch.setattr("isorep.annotated.DENSE_LIMIT", 40 * 3 * 8 - 1)
    with pytest.raises(isorep.InputError, match=r"X is sparse, and its 40 x 3 values would take"):
        isorep.read(path)
    assert isorep.read(path, key="X_pca").shape == (40, 3)
    with pytest.raises(isorep.InputError, match="there is no X"):
        isorep.read(annotated(tmp_path / f"c.{suffix}"))


@pytest.mark.parametrize(
    ("part", "held", "words"),
    [
        ("indices", np.full(3, 7), "outside of the shape"),
        ("indices", np.full(3, -1), "outside of the shape"),
        ("indices", np.zeros(2, int), "do not fit the shape"),
        ("indptr", np.array([0, 9, 1, 3]), "outside of the shape"),
        ("indptr", np.array([0, 3]), "do not fit the shape"),
        ("shape", [3, 2**40], "declares the shape"),
        ("shape", [3], "declares the shape"),
        ("shape", [2**30, 2**30], "as a dense array"),
    ],
)
def test_sparse_parts_that_do_not_fit_are_refused(tmp_path, part, held, words):
    path = annotated(tmp_path / "a.h5ad", X=scipy.sparse.csr_matrix(np.eye(3)), obs=pd.DataFrame(index=list("abc")))
    with h5py.File(path, "r+") as file:
        if part == "shape":
            file["X"].attrs["shape"] = np.array(held, dtype=np.int64)
        else:
            del file[f"X/{part}"]
            file[f"X/{part}"] = held
    with pytest.raises(isorep.InputError, match=words):
        isorep.read(path)


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
def test_layers_frames_raw_and_the_names_of_features(tmp_path, suffix):
    adata = pytest.importorskip("anndata").AnnData(
        VALUES, obs=pd.DataFrame(index=IDS), var=pd.DataFrame(index=["g1", "g2", "g3"])
    )
    adata.layers["counts"] = 2 * VALUES
    adata.obsm["shape"] = pd.DataFrame({"width": VALUES[:, 1], "area": VALUES[:, 0]}, index=IDS)
    adata.raw = adata
    path = tmp_path / f"a.{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which zarr format it writes is anndata's choice
        adata.write_zarr(path) if suffix == "zarr" else adata.write_h5ad(path)
    for source in (path, adata):
        for key in ("layers/counts", "counts"):
            np.testing.assert_array_equal(isorep.read(source, key=key).values[:], 2 * VALUES)
        assert isorep.read(source).columns == ("g1", "g2", "g3")
        assert isorep.read(source, key="raw/X").columns == ("g1", "g2", "g3")
        frame = isorep.read(source, key="shape")
        assert frame.columns == ("width", "area")
        np.testing.assert_array_equal(frame.values[:], VALUES[:, [1, 0]])
        with pytest.raises(isorep.InputError, match="no 'layers/x' in layers; obsm has shape, layers has counts"):
            isorep.read(source, key="layers/x")


def test_hdf5_groups_are_named_by_path_with_the_ids_beside_them(tmp_path):
    with h5py.File(tmp_path / "runs.hdf5", "w") as file:
        for seed in (0, 1):
            file[f"seed{seed}/z"] = VALUES + seed
            file[f"seed{seed}/ids"] = IDS.astype(object)
    read = isorep.read(f"{tmp_path}/runs.hdf5::seed1/z")
    np.testing.assert_array_equal(read.values[:], VALUES + 1)
    np.testing.assert_array_equal(read.ids, IDS)
    assert column(tmp_path / "runs.hdf5", "seed0/ids")[3] == "cell 3"
    with pytest.raises(isorep.InputError, match=r"several arrays could be meant \(seed0/z"):
        isorep.read(tmp_path / "runs.hdf5")
    with pytest.raises(isorep.InputError, match="no array 'seed7/z'"):
        isorep.read(tmp_path / "runs.hdf5", key="seed7/z")


def test_a_zarr_group_of_several_arrays_needs_a_key(tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=VALUES)
    group.create_array("deep/b", data=2 * VALUES)
    with pytest.raises(isorep.InputError, match="several arrays"):
        isorep.read(tmp_path / "g.zarr")
    np.testing.assert_array_equal(isorep.read(f"{tmp_path}/g.zarr::deep/b").values[:], 2 * VALUES)


def test_torch_dicts_bfloat16_and_ids(tmp_path):
    tensors = {"z": torch.tensor(VALUES).to(torch.bfloat16), "ids": torch.arange(40), "bias": torch.zeros(3)}
    torch.save(tensors, tmp_path / "a.pth")
    read = isorep.read(tmp_path / "a.pth")
    assert read.values.dtype == np.float32
    np.testing.assert_array_equal(read.values[3:5], tensors["z"].float().numpy()[3:5])
    assert read.ids.tolist() == list(range(40))
    assert column(tmp_path / "a.pth", "ids").tolist() == list(range(40))
    with pytest.raises(isorep.InputError, match="no tensor 'w'"):
        isorep.read(tmp_path / "a.pth", key="w")
    torch.save({"epoch": 3, "z": tensors["z"]}, tmp_path / "b.pt")
    np.testing.assert_array_equal(isorep.read(tmp_path / "b.pt").values[:], tensors["z"].float().numpy())
    torch.save({"epoch": 3, "model": {"w": torch.ones(3, 2), "v": torch.ones(3, 2)}}, tmp_path / "whole.pt")
    with pytest.raises(isorep.InputError, match=r"several tensors could be meant \(model\.w"):
        isorep.read(tmp_path / "whole.pt")
    for named in ("model.w", "model::w"):
        assert isorep.read(f"{tmp_path / 'whole.pt'}::{named}").origin.endswith("whole.pt::model.w")
    torch.save({"epoch": 3, "losses": [0.1]}, tmp_path / "none.pt")
    with pytest.raises(isorep.InputError, match="it holds dict without a tensor"):
        isorep.read(tmp_path / "none.pt")
    torch.save([torch.ones(3, 2), torch.ones(1, 2)], tmp_path / "batches.pt")
    with pytest.raises(
        isorep.InputError, match=r"a list of 2 tensors where a tensor is read: .* torch\.cat\(tensors\)"
    ):
        isorep.read(tmp_path / "batches.pt")
    torch.save([torch.ones(3, 2), torch.ones(3)], tmp_path / "mixed.pt")
    with pytest.raises(isorep.InputError, match="a list of 2 tensors where a tensor is read: save the one"):
        isorep.read(tmp_path / "mixed.pt")


def write_shards(folder, suffix):
    folder.mkdir()
    for place, start in enumerate(range(0, 40, 4)):
        rows = slice(start, start + 4)
        isorep.write(isorep.Representation(VALUES[rows], IDS[rows]), folder / f"part-{place}.{suffix}")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.crc").write_text("checksum")
    return folder


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv", "csv.gz", "h5", "h5ad", "zarr"])
@pytest.mark.parametrize("limit", [50, 2**28])
def test_shards_of_every_format_are_one_matrix_in_natural_order(tmp_path, monkeypatch, suffix, limit):
    monkeypatch.setattr(scratch, "MEMORY_LIMIT", limit)
    folder = write_shards(tmp_path / "run", suffix)
    read = isorep.read(folder)
    assert read.name == "run"
    np.testing.assert_array_equal(np.asarray(read.values), VALUES)
    np.testing.assert_array_equal(read.ids, IDS)
    if suffix in ("parquet", "csv"):
        assert column(folder, "id").tolist() == IDS.tolist()


def test_more_shards_than_files_may_be_open(tmp_path):
    import resource

    (tmp_path / "many").mkdir()
    for place in range(200):
        np.save(tmp_path / "many" / f"{place}.npy", VALUES[:2] + place)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, hard))
    try:
        values = np.asarray(isorep.read(tmp_path / "many").values)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    np.testing.assert_array_equal(values[398:], VALUES[:2] + 199)


def test_shards_of_two_precisions_take_the_wider_one(tmp_path):
    (tmp_path / "mixed").mkdir()
    np.save(tmp_path / "mixed" / "0.npy", VALUES.astype("f4"))
    np.save(tmp_path / "mixed" / "1.npy", VALUES)
    values = isorep.read(tmp_path / "mixed").values
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values[40:], VALUES)


@pytest.mark.parametrize("package", ["h5py", "zarr", "torch"])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, package):
    import sys

    path = lazy(tmp_path, {"h5py": "h5", "zarr": "zarr", "torch": "pt"}[package])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(isorep.InputError, match=rf"pip install 'isorep\[{'torch' if package == 'torch' else 'io'}\]'"):
        isorep.read(path)
