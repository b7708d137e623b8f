"""Images from folders, files and arrays: what is taken, how it is cut, and what is refused."""

import struct
import zlib

import numpy as np
import pytest

import isorep
from isorep.disentangling import as_pictures

from .conftest import bars

pillow = pytest.importorskip("PIL.Image")


def write(folder, count=70, width=12, height=8, suffix=".png"):
    """Coloured images, wider than high; each has one colour of its own in the middle and black ends."""
    folder.mkdir(parents=True, exist_ok=True)
    for place in range(count):
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[:, 2:-2] = (place, 255 - place, 128)
        pillow.fromarray(pixels).save(folder / f"{place:03}{suffix}")
    return folder


def test_a_folder_is_read_in_order_and_cut_to_the_middle(tmp_path):
    write(tmp_path / "some", 40)
    write(tmp_path / "some" / "more", 40)
    (tmp_path / "some" / "notes.txt").write_text("not an image")
    found = as_pictures(tmp_path / "some", size=4)
    assert found.values.shape == (80, 3, 4, 4)
    assert found.values.dtype == np.uint8
    assert found.files[0] == "000.png"
    assert found.files[40] == "more/000.png"
    assert (found.values[7, 0] == 7).all()
    assert found.name == "some"


def test_grey_colours_are_one_channel(tmp_path):
    for place in range(64):
        pillow.new("RGB", (8, 8), (place, place, place)).save(tmp_path / f"{place}.bmp")
    assert as_pictures(tmp_path, size=8).values.shape == (64, 1, 8, 8)
    assert as_pictures(tmp_path, size=8, channels=3).values.shape == (64, 3, 8, 8)


def test_sixteen_bits_and_numbers_become_bytes_and_other_numbers_are_refused(tmp_path):
    ramp = np.arange(64).reshape(8, 8)
    for name, values in (("deep.tif", ramp * 1000), ("deep.png", ramp * 1000)):
        pillow.fromarray(values.astype(np.uint16)).save(tmp_path / name)
    pillow.fromarray((ramp / 63).astype(np.float32)).save(tmp_path / "numbers.tif")
    found = as_pictures(tmp_path, size=8, fewest=1)
    assert (found.values[0] == found.values[1]).all()
    assert np.abs(found.values[0, 0] - np.rint(ramp * 1000 / 257)).max() == 0
    assert np.abs(found.values[2, 0] - np.rint(ramp * 255 / 63)).max() <= 1
    assert any("2 files have 16 bits" in note for note in found.notes)
    pillow.fromarray(ramp.astype(np.float32)).save(tmp_path / "numbers.tif")
    with pytest.raises(isorep.InputError, match="outside 0 to 1"):
        as_pictures(tmp_path, size=8, fewest=1)


def test_so_many_at_most_drawn_alike_each_time():
    images, _ = bars(200)
    one, two = (as_pictures(images, size=8, most=100, random_state=3).values for _ in range(2))
    assert one.shape == (100, 1, 8, 8)
    assert np.array_equal(one, two)


def test_bytes_and_numbers_are_the_same_and_files_as_arrays(tmp_path):
    images, _ = bars(70)
    as_bytes = np.rint(images * 255).astype(np.uint8)
    plain = as_pictures(images, size=8).values
    assert np.array_equal(plain, as_pictures(as_bytes, size=8).values)
    np.save(tmp_path / "a.npy", as_bytes[..., None])
    np.savez(tmp_path / "a.npz", other=as_bytes)
    assert np.array_equal(plain, as_pictures(tmp_path / "a.npy", size=8).values)
    assert np.array_equal(plain, as_pictures(f"{tmp_path / 'a.npz'}::other", size=8).values)
    assert as_pictures(images, size=4).values.shape == (70, 1, 4, 4)
    coloured = np.stack([as_bytes, as_bytes // 2, as_bytes, as_bytes], axis=-1)
    found = as_pictures(coloured, size=8)
    assert found.values.shape == (70, 3, 8, 8)
    assert found.notes == ("the fourth channel, transparency, was left out",)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            np.where(np.arange(70)[:, None, None] < 9, 0.5, np.full((70, 8, 8), np.nan)),
            "not finite, the first in image 9",
        ),
        (np.ma.masked_less(np.random.default_rng(0).random((70, 8, 8)), 0.5), "masked array"),
        (np.zeros((70, 90, 3), np.uint8), "as a single image has"),
        (np.linspace(0, 7, 70 * 64).reshape(70, 8, 8), "from 0 to 7: scale them"),
        (np.arange(70 * 64).reshape(70, 8, 8), "from 0 to 4479: give bytes"),
        (np.array([["a"]], dtype=object), "holds object"),
        (np.zeros((70, 8)), "has the shape"),
        (np.zeros((70, 8, 8, 2)), "has the shape"),
        (np.zeros((0, 8, 8)), "has the shape"),
        (np.random.default_rng(0).random((5, 8, 8)), "holds 5 images: at least 64"),
        (np.random.default_rng(0).random((1, 8, 8)), "holds 1 image: at least 64"),
        (np.zeros((70, 8, 8)), "are alike"),
        ([[1], [1, 2]], "cannot be taken as an array"),
    ],
)
def test_arrays_that_are_no_images_are_refused(values, words):
    with pytest.raises(isorep.InputError, match=words):
        as_pictures(values, size=8)


def test_folders_and_files_that_are_no_images_are_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="does not exist"):
        as_pictures(tmp_path / "nowhere")
    with pytest.raises(isorep.InputError, match="holds no images"):
        as_pictures(tmp_path)
    write(tmp_path / "few", 3)
    with pytest.raises(isorep.InputError, match="holds 3 images: at least 64"):
        as_pictures(tmp_path / "few")
    write(tmp_path / "broken", 70)
    (tmp_path / "broken" / "035.png").write_bytes((tmp_path / "broken" / "035.png").read_bytes()[:40])
    with pytest.raises(isorep.InputError, match=r"035.png cannot be read as an image"):
        as_pictures(tmp_path / "broken")
    (tmp_path / "broken" / "035.png").write_bytes(b"#!/bin/sh\necho\n")
    with pytest.raises(isorep.InputError, match=r"035.png cannot be read as an image"):
        as_pictures(tmp_path / "broken")
    (tmp_path / "text.csv").write_text("a,b\n1,2\n")
    with pytest.raises(isorep.InputError, match="is no folder of images"):
        as_pictures(tmp_path / "text.csv")
    np.save(tmp_path / "pickled.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(isorep.InputError):
        as_pictures(tmp_path / "pickled.npy")


def test_an_image_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path):
    write(tmp_path, 70)
    header = struct.pack(">IIBBBBB", 20_000, 20_000, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    (tmp_path / "000.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in chunks
        )
    )
    with pytest.raises(isorep.InputError, match=r"000.png"):
        as_pictures(tmp_path)


def test_hidden_files_are_no_images(tmp_path):
    folder = write(tmp_path / ".cache" / "some", 70)
    for name in ("._000.png", "__MACOSX/._000.png", ".thumbnails/000.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\0\5\x16\7Mac OS X")
    found = as_pictures(folder, size=4)
    assert len(found) == 70
    assert found.files[0] == "000.png"


def test_what_is_left_out_of_a_file_is_said(tmp_path):
    rng = np.random.default_rng(0)
    pages = [pillow.fromarray(page) for page in rng.integers(0, 256, (3, 8, 8), dtype=np.uint8)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "b.png")
    seen = np.full((8, 8, 4), 255, np.uint8)
    pillow.fromarray(seen).save(tmp_path / "opaque.png")
    found = as_pictures(tmp_path, size=8, fewest=1)
    assert found.notes == ("1 files have several pages or frames: the first of each was used",)
    assert (found.values[0] == found.values[1]).all()
    folder = tmp_path / "shapes"
    folder.mkdir()
    for place in range(64):
        seen[:, :, :3], seen[:, :, 3] = 0, 0
        seen[place // 8, place % 8, 3] = 255
        pillow.fromarray(seen).save(folder / f"{place}.png")
    with pytest.raises(isorep.InputError, match=r"are alike.*64 files have transparent pixels"):
        as_pictures(folder, size=8)


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_photographs_are_turned_as_the_camera_says(tmp_path, suffix):
    pixels = np.zeros((16, 24), np.uint8)
    pixels[:8] = 255
    photograph = pillow.fromarray(pixels)
    facts = photograph.getexif()
    facts[0x0112] = 6  # to be turned to the right: its top is the right side
    photograph.save(tmp_path / f"a{suffix}", exif=facts)
    found = as_pictures(tmp_path, size=16, fewest=1).values[0, 0]
    assert (found[:, :7] < 20).all()
    assert (found[:, 9:] > 235).all()


def test_zeros_and_ones_are_black_and_white():
    values = np.random.default_rng(0).integers(0, 2, (70, 8, 8))
    found = as_pictures(values.astype(np.uint8), size=8)
    assert np.array_equal(found.values[:, 0], 255 * values)
    assert "0 and 1" in found.notes[0]
    assert np.array_equal(found.values, as_pictures(values.astype(float), size=8).values)


def test_tensors_that_are_trained_are_images_too():
    torch = pytest.importorskip("torch")
    values = bars(70)[0]
    found = as_pictures(torch.tensor(values, requires_grad=True), size=8)
    assert np.array_equal(found.values, as_pictures(values, size=8).values)
