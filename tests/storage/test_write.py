"""What is written comes back: values, dtype and ids, in every format, and half a file is never left behind."""

import itertools

import numpy as np
import pytest
import torch

import isorep
from isorep.storage import lazy, registry

RNG = np.random.default_rng(0)
TEXT_IDS = np.array([f"cell, {i} é" for i in range(11)])
INTEGER_IDS = np.arange(11) * 7
WITH_TEXT_IDS = ["npz", "csv", "csv.gz", "tsv", "tsv.gz", "parquet", "h5", "hdf5", "h5ad", "zarr"]
WITH_INTEGER_IDS = [*WITH_TEXT_IDS, "safetensors", "pt", "pth"]
ALL = [*WITH_INTEGER_IDS, "npy"]


def values(dtype):
    drawn = RNG.normal(size=(11, 4)) * 10.0 ** RNG.integers(-3, 4, size=(11, 4))
    return drawn.astype(dtype)


@pytest.fixture
def small_blocks(monkeypatch):
    """Three rows a block of float64, so that every writer meets several."""
    monkeypatch.setattr(registry, "_BLOCK_BYTES", 3 * 4 * 8)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("suffix", ALL)
def test_values_and_dtype_come_back(tmp_path, suffix, dtype):
    path = tmp_path / f"run.{suffix}"
    stored = values(dtype)
    isorep.write(stored, path)
    read = isorep.read(path)
    np.testing.assert_array_equal(np.asarray(read.values), stored.astype(float))
    is_text = "sv" in suffix
    assert read.values.dtype == (np.float64 if is_text else np.dtype(dtype).newbyteorder("="))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    if suffix != "h5ad":  # AnnData always names its rows
        assert read.ids is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("suffix", "ids"),
    [*itertools.product(WITH_TEXT_IDS, [TEXT_IDS]), *itertools.product(WITH_INTEGER_IDS, [INTEGER_IDS])],
)
def test_ids_come_back(tmp_path, suffix, ids):
    path = tmp_path / f"run.{suffix}"
    isorep.write(isorep.Representation(values("float32"), ids), path)
    read = isorep.read(path)
    np.testing.assert_array_equal(read.ids, ids)
    assert read.ids.dtype.kind == ids.dtype.kind
    assert read.shape == (11, 4)


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.permutations(["npz", "csv.gz", "parquet", "h5", "zarr"], 2))
)
def test_formats_convert_into_each_other(tmp_path, first, second):
    stored = values("float32")
    isorep.write(isorep.Representation(stored, TEXT_IDS), tmp_path / f"a.{first}")
    isorep.write(isorep.read(tmp_path / f"a.{first}"), tmp_path / f"b.{second}")
    read = isorep.read(tmp_path / f"b.{second}")
    np.testing.assert_array_equal(np.asarray(read.values), stored)
    np.testing.assert_array_equal(read.ids, TEXT_IDS)


@pytest.mark.parametrize("suffix", ["npy", "h5ad", "safetensors", "pt"])
def test_one_sided_formats_convert_through_npz(tmp_path, suffix):
    stored = values("float64")
    isorep.write(isorep.Representation(stored, INTEGER_IDS), tmp_path / f"a.{suffix}")
    isorep.write(isorep.read(tmp_path / f"a.{suffix}"), tmp_path / "b.npz")
    read = isorep.read(tmp_path / "b.npz")
    np.testing.assert_array_equal(read.values, stored)
    if suffix != "npy":
        np.testing.assert_array_equal(read.ids, INTEGER_IDS)


@pytest.mark.parametrize("suffix", ["npy", "safetensors", "pt"])
def test_text_ids_are_lost_only_when_asked_for(tmp_path, suffix):
    path = tmp_path / f"run.{suffix}"
    representation = isorep.Representation(values("float32"), TEXT_IDS)
    with pytest.raises(isorep.InputError, match=r"cannot hold text ids such as 'cell, 0 é'.*drop_ids"):
        isorep.write(representation, path)
    assert not list(tmp_path.iterdir())
    isorep.write(representation, path, drop_ids=True)
    assert isorep.read(path).ids is None


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "h5", "h5ad", "zarr", "pt", "csv", "parquet"])
def test_a_key_names_the_values(tmp_path, suffix):
    path = tmp_path / f"run.{suffix}"
    stored = values("float32")
    isorep.write(isorep.Representation(stored, INTEGER_IDS), path, key="latent_")
    np.testing.assert_array_equal(np.asarray(isorep.read(path, key="latent_").values), stored)
    isorep.write(2 * stored, f"{path}::other_")
    np.testing.assert_array_equal(np.asarray(isorep.read(f"{path}::other_").values), 2 * stored)


def test_keys_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="without names"):
        isorep.write(values("float32"), tmp_path / "a.npy", key="z")
    with pytest.raises(isorep.InputError, match="where row ids are looked for"):
        isorep.write(values("float32"), tmp_path / "a.npz", key="ids")
    assert not list(tmp_path.iterdir())


def test_bfloat16_is_written_as_float32(tmp_path):
    tensor = torch.tensor(values("float32")).to(torch.bfloat16)
    isorep.write(tensor, tmp_path / "a.npy")
    read = isorep.read(tmp_path / "a.npy").values
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, tensor.float().numpy())


def test_npz_is_stored_so_that_rows_can_be_read_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "HELD_BYTES", 0)
    isorep.write(isorep.Representation(values("float32"), TEXT_IDS), tmp_path / "a.npz")
    assert isinstance(isorep.read(tmp_path / "a.npz").values, lazy.PlainMatrix)


@pytest.mark.parametrize(
    "suffix", ["npy", "npz", "safetensors", "csv", "csv.gz", "tsv.gz", "parquet", "h5", "h5ad", "pt", "pth"]
)
def test_the_same_values_give_the_same_bytes(tmp_path, suffix):
    stored = values("float32")
    for name in ("a", "b"):
        isorep.write(stored, tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_anndata_reads_what_is_written(tmp_path):
    import anndata

    stored = values("float32")
    isorep.write(isorep.Representation(stored, TEXT_IDS), tmp_path / "a.h5ad")
    read = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(read.obsm["X_isorep"], stored)
    assert read.obs_names.tolist() == TEXT_IDS.tolist()


def test_torch_and_safetensors_read_what_is_written(tmp_path):
    from safetensors.numpy import load_file

    stored = values("float16")
    representation = isorep.Representation(stored, INTEGER_IDS)
    isorep.write(representation, tmp_path / "a.safetensors")
    isorep.write(representation, tmp_path / "a.pt")
    for read in (load_file(tmp_path / "a.safetensors"), torch.load(tmp_path / "a.pt", weights_only=True)):
        np.testing.assert_array_equal(np.asarray(read["values"]), stored)
        np.testing.assert_array_equal(np.asarray(read["ids"]), INTEGER_IDS)


class Breaks:
    """Values whose third block cannot be read."""

    shape = (11, 4)
    dtype = np.dtype(np.float64)

    def __init__(self, error):
        self.error = error

    def __getitem__(self, rows):
        if rows.start >= 6:
            raise self.error
        return np.zeros((len(range(*rows.indices(11))), 4))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError()])
@pytest.mark.parametrize("suffix", ALL)
def test_an_interrupted_write_leaves_nothing_and_the_older_file(tmp_path, monkeypatch, suffix, error):
    monkeypatch.setattr("isorep.storage.zarr._CHUNK_BYTES", 3 * 4 * 8)
    expected = isorep.InputError if isinstance(error, OSError) else type(error)
    path = tmp_path / f"run.{suffix}"
    with pytest.raises(expected):
        isorep.write(Breaks(error), path)
    assert not list(tmp_path.iterdir())
    older = values("float64")
    isorep.write(older, path)
    with pytest.raises(expected):
        isorep.write(Breaks(error), path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    np.testing.assert_array_equal(np.asarray(isorep.read(path).values), older)


@pytest.mark.parametrize("suffix", ALL)
def test_a_file_can_be_replaced_by_itself(tmp_path, suffix):
    path = tmp_path / f"run.{suffix}"
    stored = values("float64")
    isorep.write(stored, path)
    isorep.write(isorep.read(path), path)
    np.testing.assert_array_equal(np.asarray(isorep.read(path).values), stored)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="is not a folder"):
        isorep.write(values("float32"), tmp_path / "nowhere" / "a.npy")
    with pytest.raises(isorep.InputError, match=r"cannot write \.xyz"):
        isorep.write(values("float32"), tmp_path / "a.xyz")
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(isorep.InputError, match="is a folder"):
        isorep.write(values("float32"), tmp_path / "a.npy")
    precious = tmp_path / "notes.zarr"
    precious.mkdir()
    (precious / "thesis.txt").write_text("do not delete")
    with pytest.raises(isorep.InputError, match="not a zarr store, so it is not replaced"):
        isorep.write(values("float32"), precious)
    assert (precious / "thesis.txt").read_text() == "do not delete"


def test_long_doubles_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="convert it to float64"):
        isorep.write(values("float64").astype(np.longdouble), tmp_path / "a.npy")


@pytest.mark.parametrize("label", ["", "x\0y", "a\rb", "\ud800"])
@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "h5", "zarr"])
def test_ids_that_would_not_come_back_are_refused_and_nothing_is_left(tmp_path, label, suffix):
    with pytest.raises(isorep.InputError, match="row 1 has the id"):
        isorep.write(isorep.Representation(np.eye(2), ["a", label]), tmp_path / f"a.{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "parquet", "h5ad", "zarr", "npz", "jsonl"])
def test_text_without_utf8_is_refused_in_names_and_columns(tmp_path, suffix):
    rows, path, half = np.eye(2), tmp_path / f"a.{suffix}", "x\ud800"
    with pytest.raises(isorep.InputError, match="lone surrogate"):
        isorep.write(rows, path, key=half)
    if suffix not in ("npz", "jsonl"):
        for labels in ({half: np.arange(2)}, {"t": np.array(["a", half])}, {"t": np.array([None, half])}):
            with pytest.raises(isorep.InputError, match="lone surrogate"):
                isorep.write(rows, path, labels=labels)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "key"),
    [
        ("safetensors", "__metadata__"),
        ("h5ad", "X"),
        ("h5ad", "a/b"),
        ("h5", "../evil"),
        ("h5", "."),
        ("zarr", "/"),
        ("npz", ""),
    ],
)
def test_names_that_mean_something_else_are_refused(tmp_path, suffix, key):
    with pytest.raises(isorep.InputError, match="choose a plain name"):
        isorep.write(np.eye(2), tmp_path / f"a.{suffix}", key=key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_a_link_stays_and_what_it_points_to_is_written(tmp_path, suffix):
    isorep.write(np.eye(2), tmp_path / f"real.{suffix}")
    (tmp_path / f"link.{suffix}").symlink_to(tmp_path / f"real.{suffix}")
    isorep.write(np.eye(3), tmp_path / f"link.{suffix}")
    assert (tmp_path / f"link.{suffix}").is_symlink()
    assert isorep.read(tmp_path / f"real.{suffix}").shape == (3, 3)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_format_that_can_only_be_read_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(registry._FAMILIES, ".odd", "naming")
    with pytest.raises(isorep.InputError, match=r"x\.odd: \.odd files can be read, and not written"):
        isorep.write(np.eye(3), tmp_path / "x.odd")
    assert not list(tmp_path.iterdir())


def test_sizes_are_told_in_a_unit_that_shows_them(tmp_path, monkeypatch):
    from isorep.storage.scratch import sized

    assert [sized(count) for count in (0, 1023, 1536, 2**20, 5 * 2**30, 2**50)] == [
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "1.0 MiB",
        "5.0 GiB",
        "1048576.0 GiB",
    ]
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 4096}))
    with pytest.raises(isorep.InputError, match=r"it takes 78\.1 KiB and .* has 4\.0 KiB free"):
        isorep.write(np.zeros((1000, 10)), tmp_path / "a.npy")
