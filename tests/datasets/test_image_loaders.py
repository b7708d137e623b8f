"""Image data sets from small files in their published formats."""

import gzip
import tarfile

import numpy as np
import pytest
from PIL import Image

import isorep
from isorep.datasets import FactorImages, grids, load, names
from isorep.datasets import images as layouts
from isorep.datasets.images import grid_classes, resized

from . import published
from .making import REAL


def test_the_published_sizes_are_those_of_the_table():
    counts = {"shapes3d": 480_000, "dsprites": 737_280, "falcor3d": 233_280, "isaac3d": 737_280, "cars3d": 17_568}
    for layout in (layouts.SHAPES3D, layouts.DSPRITES, layouts.FALCOR3D, layouts.ISAAC3D, layouts.CARS3D):
        assert layout.count == counts[layout.name]
        assert len(layout.factor_names) == len(layout.sizes)
    assert {layout.count for name, layout in layouts.MPI3D.items() if name != "real_complex"} == {1_036_800}
    assert layouts.MPI3D["real_complex"].count == 460_800
    assert layouts.SMALLNORB.count == 48_600


def test_the_last_factor_of_a_grid_varies_fastest():
    np.testing.assert_array_equal(
        grid_classes((2, 1, 3)), [[0, 0, 0], [0, 0, 1], [0, 0, 2], *[[1, 0, _] for _ in (0, 1, 2)]]
    )


@pytest.mark.parametrize("chunks", [None, (1, 64, 64, 3), (90, 8, 8, 1)])
def test_shapes3d_gives_images_classes_and_values(tmp_path, chunks, monkeypatch):
    images, labels = published.write_shapes3d(tmp_path / "shapes3d", chunks=chunks)
    found = load("shapes3d", tmp_path)
    assert len(found) == 96
    assert found.factor_names == ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
    assert found.factor_sizes == (2, 1, 2, 2, 4, 3)
    np.testing.assert_array_equal(found.factors, grid_classes((2, 1, 2, 2, 4, 3)))
    np.testing.assert_array_equal(found.factor_values, labels)
    rows = [95, 3, 3, 0, -2]
    np.testing.assert_array_equal(found.images(rows), images[rows])
    np.testing.assert_array_equal(found.images(slice(2, 9)), images[2:9])
    np.testing.assert_array_equal(found.images(found.factors[:, 4] == 2), images[found.factors[:, 4] == 2])


def test_nothing_is_read_before_an_image_is_asked_for(tmp_path, monkeypatch):
    published.write_shapes3d(tmp_path, chunks=(90, 8, 8, 1))
    published.write_dsprites(tmp_path / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz")
    asked = []
    spool = grids.spool
    monkeypatch.setattr(grids, "spool", lambda *args, **rest: asked.append(1) or spool(*args, **rest))
    for name in ("shapes3d", "dsprites"):
        found = load(name, tmp_path)
        assert not asked
        for _ in range(2):
            found.images([1])
        assert len(asked) == 1
        asked.clear()


@pytest.mark.parametrize("compress", [False, True])
def test_mpi3d_has_no_labels_and_takes_another_grid_only_by_name(tmp_path, compress):
    images = published.write_mpi3d(tmp_path / "mpi3d_toy" / "mpi3d_toy.npz", (2, 1, 2, 1, 1, 3, 2), compress)
    with pytest.raises(isorep.InputError, match=r"24 images where mpi3d_toy has 1036800.*sizes="):
        load("mpi3d_toy", tmp_path)
    with pytest.raises(isorep.InputError, match="has 48"):
        load("mpi3d_toy", tmp_path, sizes=(2, 2, 2, 1, 1, 3, 2))
    with pytest.raises(isorep.InputError, match="7 positive integers"):
        load("mpi3d_toy", tmp_path, sizes=(24,))
    for sizes in (24, (2.0, 1, 2, 1, 1, 3, 2)):
        with pytest.raises(isorep.InputError, match="7 positive integers"):
            load("mpi3d_toy", tmp_path, sizes=sizes)
    found = load("mpi3d_toy", tmp_path, sizes=(2, 1, 2, 1, 1, 3, 2))
    assert found.factor_values is None
    assert found.factor_sizes == (2, 1, 2, 1, 1, 3, 2)
    np.testing.assert_array_equal(found.factors[:3, -2:], [[0, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(found.images([23, 0]), images[[23, 0]])


def test_mpi3d_is_found_under_the_names_it_is_published_with(tmp_path):
    sizes = (1, 1, 2, 1, 1, 1, 1)
    published.write_mpi3d(tmp_path / "real.npz", sizes)
    assert len(load("mpi3d_real", tmp_path, sizes=sizes)) == 2
    published.write_mpi3d(tmp_path / "mpi3d_real_complex" / "real3d_complicated_shapes_ordered.npz", sizes)
    assert load("mpi3d_real_complex", tmp_path, sizes=sizes).name == "mpi3d_real_complex"


class Canary:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (open, (str(self.place), "w"))


def test_dsprites_is_read_and_its_pickle_is_not(tmp_path):
    trace = tmp_path / "trace"
    arrays = published.write_dsprites(
        tmp_path / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz", metadata=[Canary(trace)]
    )
    found = load("dsprites", tmp_path)
    np.testing.assert_array_equal(found.images()[..., 0], 255 * arrays["imgs"])
    np.testing.assert_array_equal(found.factors, arrays["latents_classes"])
    np.testing.assert_array_equal(found.factor_values, arrays["latents_values"])
    assert found.factor_sizes == (1, 3, 6, 40, 32, 32)
    assert not trace.exists()
    with np.load(tmp_path / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz", allow_pickle=True) as archive:
        archive["metadata"][0].close()  # the canary sings when it is let out
    assert trace.exists()


@pytest.mark.parametrize(
    ("name", "folder", "labels"),
    [
        ("falcor3d", "Falcor3D_down128", "train-rec.labels"),
        ("isaac3d", "Isaac3D_down128", "labels.npy"),
    ],
)
def test_png_folders_are_shrunk_as_published(tmp_path, name, folder, labels):
    layout = {"falcor3d": layouts.FALCOR3D, "isaac3d": layouts.ISAAC3D}[name]
    images, values = published.write_pngs(tmp_path / name / folder, labels, layout)
    whole = load(name, tmp_path, size=None)
    np.testing.assert_array_equal(whole.images([4, 0]), images[[4, 0]])
    np.testing.assert_array_equal(whole.factor_values, values)
    np.testing.assert_array_equal(whole.factors[:, -1], [0, 1, 2, 3, 4 if name == "falcor3d" else 0])
    small = load(name, tmp_path)
    assert small.image_shape == (64, 64, 3)
    theirs = np.stack([by_pillow(image, 64) for image in images])
    assert np.abs(small.images().astype(int) - theirs).max() <= 1


def by_pillow(image, size):
    """Pillow's bicubic resizing in floating point: in bytes it would clip between rows and columns."""
    planes = [
        Image.fromarray(plane.astype(np.float32)).resize((size, size), Image.Resampling.BICUBIC)
        for plane in np.moveaxis(image, -1, 0)
    ]
    return np.clip(np.rint(np.stack(planes, axis=-1)), 0, 255).astype(int)


def test_resizing_keeps_constants_clips_and_agrees_with_pillow():
    flat = np.full((1, 96, 96, 1), 200, np.uint8)
    np.testing.assert_array_equal(resized(flat, 64), np.full((1, 64, 64, 1), 200))
    steps = np.zeros((1, 128, 128, 3), np.uint8)
    steps[:, 40:90, 30:71] = 255
    found = resized(steps, 64)
    assert found.min() == 0
    assert found.max() == 255
    assert np.abs(found[0].astype(int) - by_pillow(steps[0], 64)).max() <= 1
    assert resized(steps, None) is steps


def test_cars3d_runs_over_elevation_azimuth_and_car(tmp_path):
    images = published.write_cars3d(tmp_path / "cars3d" / "cars")
    found = load("cars3d", tmp_path, size=None)
    assert found.factor_sizes == (4, 24, 3)
    assert len(found) == 4 * 24 * 3
    rows = [0, 287, 73, 2, 73]
    for row, image in zip(rows, found.images(rows), strict=True):
        elevation, azimuth, car = found.factors[row]
        assert row == (elevation * 24 + azimuth) * 3 + car
        np.testing.assert_array_equal(image, images[car, :, :, :, azimuth, elevation])
    np.testing.assert_array_equal(load("cars3d", tmp_path).images([5]), resized(found.images([5]), 64))


@pytest.mark.parametrize("packed", [False, True])
def test_smallnorb_joins_its_parts(tmp_path, packed):
    written = published.write_smallnorb(tmp_path / "smallnorb", packed=packed)
    found = load("smallnorb", tmp_path, size=None)
    factors = np.concatenate([written["train"][1], written["test"][1]])
    factors[:, 3] //= 2
    np.testing.assert_array_equal(found.factors, factors)
    assert found.factor_sizes == (5, 10, 9, 18, 6)
    images = np.concatenate([written["train"][0], written["test"][0]])
    np.testing.assert_array_equal(found.images([11, 0, 6])[..., 0], images[[11, 0, 6], 0])
    other = load("smallnorb", tmp_path, size=None, camera=1, part="test")
    np.testing.assert_array_equal(other.images([2])[..., 0], written["test"][0][[2], 1])
    assert load("smallnorb", tmp_path).image_shape == (64, 64, 1)


def test_cifar10_is_the_same_from_files_and_from_the_archive(tmp_path):
    batches = published.cifar_batches()
    for name, records in batches.items():
        path = tmp_path / "plain" / "cifar10" / "cifar-10-batches-bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(records.tobytes())
    members = [(tarfile.TarInfo(f"cifar-10-batches-bin/{name}"), data.tobytes()) for name, data in batches.items()]
    published.tar_gz(tmp_path / "packed" / "cifar10" / "cifar-10-binary.tar.gz", members[::-1])
    for part, wanted in (("train", list(batches)[:5]), ("test", ["test_batch.bin"]), ("both", list(batches))):
        records = np.concatenate([batches[name] for name in wanted])
        for folder in ("plain", "packed"):
            found = load("cifar10", tmp_path / folder, part=part)
            np.testing.assert_array_equal(found.factors[:, 0], records[:, 0])
            planes = records[:, 1:].reshape(-1, 3, 32, 32)
            np.testing.assert_array_equal(found.images(), np.moveaxis(planes, 1, -1))
            np.testing.assert_array_equal(found.floats([1]), planes[[1]].astype(np.float32) / np.float32(255))


@pytest.mark.skipif(not (REAL / "cifar10_jpeg.npz").exists(), reason="the JPEGs of CIFAR-10 are not here")
def test_the_jpegs_of_cifar10_say_that_they_are_lossy():
    found = load("cifar10_jpeg", REAL, part="test")
    assert len(found) == 10_000
    assert "loss" in found.note
    assert set(np.bincount(found.factors[:, 0])) == {1000}
    assert found.images([0, 9_999]).shape == (2, 32, 32, 3)


def test_faces_have_classes_of_equal_counts_and_wrong_files_are_refused(tmp_path):
    images, factors = published.pixels(16, 32, 32), np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
    np.savez(tmp_path / "faces.npz", images=images, factors=factors)
    found = load("faces", tmp_path)
    assert (found.factor_names, found.factor_sizes) == (("light", "pan", "tilt"), (8, 8, 8))
    np.testing.assert_array_equal(found.images([3, 1])[..., 0], images[[3, 1]])
    np.testing.assert_allclose(found.factor_values, factors)
    for values, classes in zip(factors.T, found.factors.T, strict=True):
        np.testing.assert_array_equal(np.bincount(classes), [2] * 8)
        assert (np.diff(classes[values.argsort()]) >= 0).all(), "larger values are in later classes"
    for changed, said in (
        ({"images": images[:, :16]}, r"\(n, 32, 32\) uint8 is needed"),
        ({"factors": factors[:5]}, r"where \(16, 3\) floats"),
        ({"factors": factors * np.nan}, "not finite"),
    ):
        np.savez(tmp_path / "faces.npz", **{"images": images, "factors": factors} | changed)
        with pytest.raises(isorep.InputError, match=said):
            load("faces", tmp_path)


def test_samples_subsets_and_splits_belong_together(tmp_path):
    images, _ = published.write_shapes3d(tmp_path)
    found = load("shapes3d", tmp_path)
    sample = found.sample(20, seed=3)
    assert len(set(sample.rows.tolist())) == len(sample) == 20
    np.testing.assert_array_equal(sample.images, images[sample.rows])
    np.testing.assert_array_equal(sample.factors, found.factors[sample.rows])
    np.testing.assert_array_equal(found.sample(20, seed=3).rows, sample.rows)
    assert not np.array_equal(found.sample(20, seed=4).rows, sample.rows)
    floats = sample.floats()
    assert floats.shape == (20, 3, 64, 64)
    assert floats.dtype == np.float32
    np.testing.assert_allclose(np.moveaxis(floats, 1, -1) * 255, sample.images, atol=1e-4)
    part = found.subset([5, 50]).subset([1])
    assert isinstance(part, FactorImages)
    np.testing.assert_array_equal(part.images(), images[[50]])
    train, test = found.split(0.25, seed=1)
    assert (len(train), len(test)) == (72, 24)
    together = np.concatenate([train.factor_values, test.factor_values])
    assert len(np.unique(together, axis=0)) == 96
    for wrong in (lambda: found.sample(97), lambda: found.split(0.001), lambda: found.images([96])):
        with pytest.raises(isorep.InputError, match=r"from 1 to 96|96 images"):
            wrong()
    with pytest.raises(isorep.InputError, match="not by float64"):
        found.images([0.5])
    with pytest.raises(isorep.InputError, match="mask has 3"):
        found.images([True, False, True])
    assert "96 images 64 x 64 x 3, floor_hue 2" in repr(found)


@pytest.mark.parametrize("name", names())
def test_a_missing_file_is_named_with_its_places_and_how_to_get_it(name, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        load(name, tmp_path)
    said = str(caught.value)
    assert str(tmp_path / name) in said
    assert f"isorep datasets download {name}" in said or "by hand from" in said
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    with pytest.raises(isorep.InputError, match="ISOREP_DATA"):
        load(name)
    monkeypatch.setenv("ISOREP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="looked for in"):
        load(name)


def test_unknown_names_and_options_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="no data set 'shapes4d'; there are shapes3d"):
        load("shapes4d", tmp_path)
    with pytest.raises(isorep.InputError, match="shapes3d has no option 'size'"):
        load("shapes3d", tmp_path, size=32)
    published.write_smallnorb(tmp_path)
    for options, said in (
        ({"camera": 2}, "choose from 0, 1"),
        ({"size": 0}, "from 1 to 1024"),
        ({"size": 32.5}, "from 1 to 1024"),
        ({"part": "x"}, "train, test"),
    ):
        with pytest.raises(isorep.InputError, match=said):
            load("smallnorb", tmp_path, **options)


def test_mnist_speaks_the_same_language(tmp_path):
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 256, (2, 6, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=train, y_train=np.arange(6), x_test=test, y_test=np.arange(6))
    found = load("mnist", tmp_path, part="both")
    np.testing.assert_array_equal(found.images([7])[0, :, :, 0], test[1])
    assert found.factors[7, 0] == 1
    assert found.image_shape == (28, 28, 1)


def test_gzipped_members_of_a_plain_name_are_found(tmp_path):
    published.write_smallnorb(tmp_path, packed=False)
    path = next(tmp_path.glob("*training-dat.mat"))
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    path.unlink()
    assert len(load("smallnorb", tmp_path)) == 12
