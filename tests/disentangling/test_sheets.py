"""Contact sheets and traversals: PNG that others read, and the right image in the right place."""

import io

import numpy as np
import pytest

import isorep
from isorep.disentangling import Unmixing, contact_sheet, traversal
from isorep.disentangling.traversals import png_bytes


def read(png):
    pillow = pytest.importorskip("PIL.Image")
    return np.asarray(pillow.open(io.BytesIO(png)).convert("RGB"))


def test_a_png_holds_the_pixels(rng):
    pixels = rng.integers(0, 256, size=(7, 5, 3)).astype(np.uint8)
    assert np.array_equal(read(png_bytes(pixels)), pixels)


def test_images_lie_in_rows_and_columns_on_white():
    images = np.zeros((2, 3, 3, 4, 5))
    images[1, 2, 0] = 1.0  # red
    images[0, 1] = 0.5
    sheet = contact_sheet(images, enlarge=2)
    found = read(sheet.png)
    assert found.shape == (sheet.height, sheet.width, 3) == (2 * 8 + 2, 3 * 10 + 4, 3)
    assert (found[10:18, 24:34] == [255, 0, 0]).all()
    assert (found[:8, 12:22] == 128).all()
    assert (found[8:10] == 255).all()


def test_values_beyond_the_range_are_clipped():
    found = read(contact_sheet(np.array([-3.0, 2.0, np.nan]).reshape(1, 3, 1, 1, 1)).png)
    assert found[0, ::3].tolist() == [[0, 0, 0], [255, 255, 255], [0, 0, 0]]


@pytest.mark.parametrize("shape", [(2, 2, 3, 3), (1, 1, 2, 3, 3), (0, 1, 3, 3, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(isorep.InputError, match="a sheet has rows"):
        contact_sheet(np.zeros(shape))


def test_a_traversal_moves_one_component_and_orders_by_what_it_moves(rng):
    torch = pytest.importorskip("torch")

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([0.1, 0.02, 0.3]))

        def decode(self, latents):
            return (0.5 + latents * self.weight).reshape(-1, 1, 1, 3)

    latents = rng.uniform(-1, 1, size=(500, 3))
    identity = Unmixing("raw", np.zeros(3), np.eye(3), np.eye(3), True)
    sheet, order = traversal(Decoder(), identity, latents, steps=5)
    assert order == (2, 0, 1)
    found = read(sheet.png).astype(int)
    first = found[0, ::1].reshape(-1, 3)[:, 0]
    tiles = [first[5 * step : 5 * step + 3] for step in range(5)]  # three pixels and a gap of two
    assert np.ptp([tile[2] for tile in tiles]) > 100
    assert np.ptp([tile[0] for tile in tiles]) <= 1
