"""Files that are damaged, of another shape, or meant to harm: one sentence, before memory is filled."""

import gzip
import io
import resource
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

import isorep
from isorep.datasets import images as layouts
from isorep.datasets import load

from . import published

DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"


@pytest.fixture(autouse=True)
def _little_memory():
    """What is refused must be refused before it fills the memory: 2 GiB more than there is now is the limit."""
    if not Path("/proc/self/statm").exists():
        yield
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def refused(said, name, folder, **options):
    with pytest.raises(isorep.InputError, match=said):
        load(name, folder, **options).images([0])


def npz_member(shape, dtype="|u1", body=b""):
    """An npy stream whose header says what it likes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + body


def write_npz(path, method=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)


# Shapes3D -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (np.zeros((4, 64, 64, 3), np.float32), np.zeros((4, 6)), "float32 where uint8"),
        (np.zeros((4, 32, 32, 3), np.uint8), np.zeros((4, 6)), r"\(n, 64, 64, 3\)"),
        (np.zeros((4, 64, 64, 3), np.uint8), np.zeros((5, 6)), r"labels \(5, 6\)"),
        (np.zeros((4, 64, 64, 3), np.uint8), np.full((4, 6), np.nan), "not finite"),
        (np.zeros((12, 64, 64, 3), np.uint8), np.arange(12.0)[:, None] * np.ones(6), "12 values of floor_hue"),
        (np.zeros((0, 64, 64, 3), np.uint8), np.zeros((0, 6)), "0 rows"),
        (None, np.zeros((4, 6)), "images and labels"),
    ],
)
def test_wrong_datasets_of_shapes3d(tmp_path, images, labels, said):
    import h5py

    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        if images is not None:
            file["images"] = images
        file["labels"] = labels
    refused(said, "shapes3d", tmp_path)


def test_hdf5_that_declares_without_holding(tmp_path):
    import h5py

    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        file.create_dataset("images", (2**40, 64, 64, 3), np.uint8, chunks=(1, 64, 64, 3))
        file.create_dataset("labels", (2**40, 6), np.float64, chunks=(64, 6))
    refused("1099511627776 rows", "shapes3d", tmp_path)
    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        file.create_dataset("images", (480_000, 64, 64, 3), np.uint8, chunks=(480_000, 1, 1, 1))
        file["labels"] = np.zeros((480_000, 6))
    refused("values of floor_hue|rows per chunk|may be a bomb", "shapes3d", tmp_path)
    (tmp_path / "3dshapes.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    refused("cannot be read", "shapes3d", tmp_path)


# npz ------------------------------------------------------------------------------------------------------------


def test_headers_of_mpi3d_that_promise_too_much(tmp_path):
    path = tmp_path / "mpi3d_toy.npz"
    sizes = (6, 6, 2, 3, 3, 40, 40)
    write_npz(path, images=npz_member((1_036_800, 64, 64, 3)))
    refused("another size", "mpi3d_toy", tmp_path, sizes=sizes)
    write_npz(path, images=npz_member((2**60, 64, 64, 3)))
    refused("another size", "mpi3d_toy", tmp_path)
    write_npz(path, images=npz_member((2, 64, 64, 3), "|O", bytes(2 * 12288 * 8)))
    refused("pickled", "mpi3d_toy", tmp_path)
    np.savez(path, images=np.zeros((2, 64, 64, 3), np.int64))
    refused("int64 where", "mpi3d_toy", tmp_path)
    np.savez(path, images=np.asfortranarray(np.zeros((2, 64, 64, 3), np.uint8)))
    refused("Fortran", "mpi3d_toy", tmp_path, sizes=(2, 1, 1, 1, 1, 1, 1))
    np.savez(path, pictures=np.zeros((2, 64, 64, 3), np.uint8))
    refused("no array 'images'; there are pictures", "mpi3d_toy", tmp_path)


def test_an_mpi3d_archive_that_is_a_bomb(tmp_path, monkeypatch):
    """What unpacks five hundredfold is refused above a size, here a small one."""
    sizes = (400, 1, 1, 1, 1, 1, 1)
    np.savez_compressed(tmp_path / "mpi3d_toy.npz", images=np.zeros((400, 64, 64, 3), np.uint8))
    assert load("mpi3d_toy", tmp_path, sizes=sizes).images([0]).max() == 0
    monkeypatch.setattr("isorep.storage.scratch.MEMORY_LIMIT", 2**20)
    refused("bomb", "mpi3d_toy", tmp_path, sizes=sizes)


@pytest.mark.parametrize("size", [0, 10, 3000])
def test_truncated_archives(tmp_path, size):
    published.write_mpi3d(tmp_path / "whole.npz", (2, 1, 1, 1, 1, 1, 1), compress=True)
    (tmp_path / "mpi3d_toy.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:size])
    refused("not a complete npz", "mpi3d_toy", tmp_path)


def test_damage_inside_a_member(tmp_path):
    published.write_mpi3d(tmp_path / "mpi3d_toy.npz", (2, 1, 1, 1, 1, 1, 1), compress=True)
    data = bytearray((tmp_path / "mpi3d_toy.npz").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "mpi3d_toy.npz").write_bytes(bytes(data))
    refused("cannot be read|truncated", "mpi3d_toy", tmp_path, sizes=(2, 1, 1, 1, 1, 1, 1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"imgs": np.full((40, 64, 64), 2, np.uint8)}, "other than 0 and 1"),
        ({"imgs": np.zeros((40, 64, 64), np.float32)}, "float32"),
        ({"imgs": np.zeros((41, 64, 64), np.uint8)}, "latents_classes"),
        ({"latents_classes": np.full((40, 6), 5)}, "outside of"),
        ({"latents_classes": np.full((40, 6), -1)}, "outside of"),
        ({"latents_values": np.full((40, 6), np.inf)}, "not finite"),
        ({"latents_values": np.zeros((40, 5))}, "latents_values"),
        ({"latents_classes": np.array([[None] * 6] * 40, dtype=object)}, "pickled"),
    ],
)
def test_wrong_arrays_of_dsprites(tmp_path, changed, said):
    published.write_dsprites(tmp_path / DSPRITES, **changed)
    refused(said, "dsprites", tmp_path)


# Pictures -------------------------------------------------------------------------------------------------------


def test_pictures_that_are_none(tmp_path):
    folder = tmp_path / "Falcor3D_down128"
    published.write_pngs(folder, "train-rec.labels", layouts.FALCOR3D)
    picture = folder / "images" / "000000.png"
    whole = picture.read_bytes()
    for data, said in (
        (b"GIF89a" + bytes(40), "not a PNG"),
        (whole[:16] + struct.pack(">II", 60_000, 60_000) + whole[24:], "60000 x 60000"),
        (whole[: len(whole) // 2], "cannot be read"),
        (whole + bytes(2**20), "bytes, too much"),
    ):
        picture.write_bytes(data)
        refused(said, "falcor3d", tmp_path)
    Image.new("RGB", (64, 64)).save(picture)
    refused("64 x 64 where 128 x 128", "falcor3d", tmp_path)
    picture.unlink()
    refused("does not exist, though the labels", "falcor3d", tmp_path)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.zeros((3, 6)), "one row of 7 numbers"),
        (np.zeros(7), "one row of 7 numbers"),
        (np.full((3, 7), np.nan), "not finite"),
        (np.array([[None] * 7], dtype=object), "pickled"),
        (np.arange(70.0).reshape(10, 7), "10 values of lighting_intensity"),
    ],
)
def test_wrong_labels_of_falcor3d(tmp_path, labels, said):
    folder = tmp_path / "Falcor3D_down128"
    published.write_pngs(folder, "train-rec.labels", layouts.FALCOR3D)
    with (folder / "train-rec.labels").open("wb") as file:
        np.save(file, labels)
    refused(said, "falcor3d", tmp_path)


# Cars3D ---------------------------------------------------------------------------------------------------------


def mat_with(element):
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + element


def test_cars_that_are_none(tmp_path):
    folder = tmp_path / "cars"
    folder.mkdir()
    (folder / "list.txt").write_text("car_001_mesh\n")
    car = folder / "car_001_mesh.mat"
    refused("though list.txt names it", "cars3d", tmp_path)
    zeros = zlib.compress(bytes(2**26), 1)
    for data, said in (
        (b"nonsense", "no little-endian MATLAB 5"),
        (mat_with(struct.pack("<II", 15, len(zeros)) + zeros), "unpacks to more"),
        (mat_with(struct.pack("<II", 15, 10**6) + bytes(10)), "truncated"),
        (mat_with(struct.pack("<II", 15, 4) + b"abcd"), "cannot be read"),
        (mat_with(struct.pack("<II", 14, 16) + bytes(16)), "cannot be read|where"),
    ):
        car.write_bytes(data)
        refused(said, "cars3d", tmp_path)
    for values in (np.zeros((128, 128, 3, 24, 5), np.uint8), np.zeros((4, 4)), np.array([{"a": 1}], dtype=object)):
        scipy.io.savemat(car, {"im": values}, do_compression=True)
        refused("where .* uint8 is needed", "cars3d", tmp_path)
    scipy.io.savemat(car, {"other": np.zeros(3)})
    refused("im as nothing", "cars3d", tmp_path)


@pytest.mark.parametrize("text", ["", "../../etc/passwd\n", "/etc/passwd\n", "a\na\n", "a\n" * 184, "ä\n"])
def test_lists_that_lead_elsewhere(tmp_path, text):
    (tmp_path / "cars").mkdir()
    (tmp_path / "cars" / "list.txt").write_text(text)
    refused("must name 1 to 183|cannot be read", "cars3d", tmp_path)


# SmallNORB ------------------------------------------------------------------------------------------------------


def test_matrices_of_smallnorb_that_are_none(tmp_path):
    published.write_smallnorb(tmp_path)
    stem = "smallnorb-5x46789x9x18x6x2x96x96-training"

    def with_(kind, data):
        """What is said when one file is replaced."""
        path = tmp_path / f"{stem}-{kind}.mat.gz"
        before = path.read_bytes()
        path.write_bytes(data)
        with pytest.raises(isorep.InputError) as caught:
            load("smallnorb", tmp_path, part="train").images([0])
        path.write_bytes(before)
        return str(caught.value)

    pack = gzip.compress
    matrix = published.norb_matrix
    small = np.zeros((6, 2, 96, 96), np.uint8)
    assert "none of a matrix" in with_("dat", pack(b"\x00" * 40))
    assert "dimensions" in with_("dat", pack(struct.pack("<Ii", 0x1E3D4C55, 2**30) + bytes(40)))
    assert "impossible" in with_("dat", pack(struct.pack("<Iiiiii", 0x1E3D4C55, 4, -1, 2, 96, 96)))
    assert "are needed" in with_("dat", pack(struct.pack("<Iiiiii", 0x1E3D4C55, 4, 2**31 - 1, 2, 96, 96)))
    assert "truncated" in with_("dat", pack(matrix(small)[:-1]))
    assert "more than its header" in with_("dat", pack(matrix(small) + bytes(1)))
    assert "rows and" in with_("dat", pack(matrix(small[:5])))
    assert "truncated" in with_("dat", b"")
    assert "cannot be read" in with_("dat", b"no gzip at all")
    assert "outside of" in with_("cat", pack(matrix(np.full(6, 9, np.int32))))
    assert "are needed" in with_("cat", pack(matrix(np.zeros(6, np.float32))))
    assert "odd azimuths" in with_("info", pack(matrix(np.ones((6, 4), np.int32))))
    assert "where (6, 4)" in with_("info", pack(matrix(np.zeros((6, 3), np.int32))))


# CIFAR-10 -------------------------------------------------------------------------------------------------------


def test_archives_of_cifar10_that_are_none(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    batches = [(tarfile.TarInfo(f"x/{name}"), data.tobytes()) for name, data in published.cifar_batches().items()]
    published.tar_gz(path, batches[:4])
    refused("does not hold data_batch_5", "cifar10", tmp_path)
    link = tarfile.TarInfo("x/data_batch_5.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    published.tar_gz(path, [*batches[:4], (link, b"")])
    refused("does not hold data_batch_5", "cifar10", tmp_path)
    published.tar_gz(path, [(tarfile.TarInfo("data_batch_1.bin"), bytes(3072))])
    refused("3072 bytes where", "cifar10", tmp_path)
    published.tar_gz(path, [(tarfile.TarInfo("data_batch_1.bin"), bytes(10_001 * 3073))])
    refused("more than is published", "cifar10", tmp_path)
    wrong = published.cifar_batches()["data_batch_1.bin"]
    wrong[0, 0] = 200
    published.tar_gz(path, [(tarfile.TarInfo("data_batch_1.bin"), wrong.tobytes()), *batches[1:]])
    refused("label 200", "cifar10", tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused("cannot be read|truncated", "cifar10", tmp_path)


def test_an_archive_of_cifar10_that_is_a_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr("isorep.datasets.digits_and_photos._MOST_ARCHIVE", 2**22)
    info = tarfile.TarInfo("filler")
    info.size = 2**40
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(info.tobuf() + bytes(2**23), 1))
    refused("bomb", "cifar10", tmp_path)


def test_a_batch_that_is_missing(tmp_path):
    for name, records in list(published.cifar_batches().items())[:5]:
        (tmp_path / name).write_bytes(records.tobytes())
    refused("test_batch.bin does not exist", "cifar10", tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    refused("choose from train, test, both", "cifar10", tmp_path, part="all")


def jpegs(**changed):
    stream = io.BytesIO()
    Image.new("RGB", (32, 32), (10, 200, 30)).save(stream, "JPEG")
    one = np.frombuffer(stream.getvalue(), np.uint8)
    arrays = {
        "bytes": np.concatenate([one, one]),
        "offsets": np.array([0, len(one), 2 * len(one)]),
        "label": np.array([3, 4], np.uint8),
        "is_test": np.array([False, True]),
    }
    return arrays | {name: change(arrays[name]) for name, change in changed.items()}


def test_small_archives_of_jpegs(tmp_path):
    np.savez(tmp_path / "cifar10_jpeg.npz", **jpegs())
    found = load("cifar10_jpeg", tmp_path, part="both")
    assert np.abs(found.images([1, 0]).astype(int) - [10, 200, 30]).max() < 4
    np.testing.assert_array_equal(load("cifar10_jpeg", tmp_path, part="test").factors, [[4]])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"offsets": lambda a: a[::-1].copy()}, "do not cut"),
        ({"offsets": lambda a: a[:2]}, "offsets as"),
        ({"offsets": lambda a: a.astype(float)}, "offsets as"),
        ({"label": lambda a: a + 9}, "label 12"),
        ({"is_test": lambda a: np.ones(2, bool)}, "no images of the part 'train'"),
        ({"bytes": lambda a: np.concatenate([[0, 0], a[2:]]).astype(np.uint8)}, "no JPEG"),
        ({"bytes": lambda a: np.concatenate([a[:300], np.zeros(len(a) - 300)]).astype(np.uint8)}, "cannot be read|x"),
    ],
)
def test_wrong_archives_of_jpegs(tmp_path, changed, said):
    np.savez(tmp_path / "cifar10_jpeg.npz", **jpegs(**changed))
    refused(said, "cifar10_jpeg", tmp_path)


def test_a_jpeg_of_another_size(tmp_path):
    stream = io.BytesIO()
    Image.new("RGB", (64, 32)).save(stream, "JPEG")
    data = np.frombuffer(stream.getvalue(), np.uint8)
    arrays = {"bytes": data, "offsets": np.array([0, len(data)])}
    np.savez(tmp_path / "cifar10_jpeg.npz", label=np.zeros(1, np.uint8), is_test=np.zeros(1, bool), **arrays)
    refused("64 x 32 where 32 x 32", "cifar10_jpeg", tmp_path)
