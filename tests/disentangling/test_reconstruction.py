"""What components keep of held-out images, beside principal components of the pixels."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from isorep.disentangling.reconstruction import mean_and_spread, principal_images, reconstruct, unit_pixels
from isorep.disentangling.unmixing import Unmixing

torch = pytest.importorskip("torch")


class Drawn(torch.nn.Module):
    """A decoder that draws rows of pixels as they are, with some error."""

    def __init__(self, shape, error=0.0):
        super().__init__()
        self.shape, self.error = shape, torch.nn.Parameter(torch.tensor(float(error), dtype=torch.float64))

    def decode(self, latents):
        return (latents + self.error).reshape(-1, *self.shape)


def images(count, seed=0, rank=3):
    rng = np.random.default_rng(seed)
    pixels = rng.random((count, rank)) @ np.random.default_rng(9).random((rank, 48)) / rank
    return (255 * pixels).astype(np.uint8).reshape(count, 3, 4, 4)


def identity(count, width=48):
    """An unmixing whose components are the first latents, the others at zero."""
    matrix = np.eye(width)[:count]
    return Unmixing("pruned", np.zeros(width), matrix, matrix.T, True)


def test_principal_images_are_those_of_pca():
    data = images(100)
    found = principal_images(data, 5, np.random.default_rng(0))
    pca = PCA(2).fit(unit_pixels(data))
    wanted = np.clip(pca.inverse_transform(pca.transform(unit_pixels(data))), 0, 1)
    assert np.allclose(found.drawn(unit_pixels(data), 2), wanted, atol=1e-8)


def test_images_that_are_alike_but_for_one_axis_have_one_principal_image():
    data = np.zeros((20, 1, 4, 4), np.uint8)
    data[:, 0, 0, 0] = np.arange(20)
    assert len(principal_images(data, 5, np.random.default_rng(0)).axes) == 1


@pytest.mark.parametrize(("error", "ahead"), [(0.0, True), (0.3, False)])
def test_components_are_ahead_only_where_their_error_is_smaller(error, ahead):
    train, held = images(100), images(30, 1)
    principal = principal_images(train, 1, np.random.default_rng(0))
    found = reconstruct(Drawn((3, 4, 4), error), identity(48), held, unit_pixels(held), principal, 1)
    assert found.kept == pytest.approx(1 - error**2 * 30 * 48 / _spread(held))
    assert found.principal < 1
    assert found.ahead is ahead
    assert found.sheet.width == 8 * 4 + 7 * 2
    assert found.sheet.height == 4 * 4 + 3 * 2


def test_equal_errors_and_few_images_are_not_ahead():
    train, held = images(100, rank=2), images(30, 1, rank=2)
    principal = principal_images(train, 48, np.random.default_rng(0))
    same = reconstruct(Drawn((3, 4, 4)), identity(48), held, principal.drawn(unit_pixels(held), 48), principal, 1)
    assert same.kept == pytest.approx(same.principal)
    assert not same.ahead
    one = principal_images(train, 1, np.random.default_rng(0))
    assert not reconstruct(Drawn((3, 4, 4)), identity(48), held[:7], unit_pixels(held[:7]), one, 1).ahead
    assert np.isnan(reconstruct(Drawn((3, 4, 4)), identity(48), held[:1], unit_pixels(held[:1]), one, 1).kept)


def test_directions_that_were_pruned_draw_nothing():
    held = images(30, 1)
    principal = principal_images(held, 48, np.random.default_rng(0))
    whole, half = (
        reconstruct(Drawn((3, 4, 4)), identity(count), held, unit_pixels(held), principal, 1) for count in (48, 24)
    )
    assert whole.kept == pytest.approx(1)
    assert half.kept < whole.kept
    assert half.principal == pytest.approx(whole.principal, abs=1e-3)


def test_the_mean_and_spread_of_images_are_those_of_their_pixels():
    data, rows = images(1200), np.arange(0, 1200, 2)
    mean, spread = mean_and_spread(data, rows)
    pixels = data[rows] / 255
    assert np.allclose(mean, pixels.mean(axis=0))
    assert spread == pytest.approx(np.sqrt(np.mean((pixels - pixels.mean(axis=0)) ** 2)))
    assert mean_and_spread(np.zeros_like(data), rows)[1] == 1


def _spread(data):
    pixels = unit_pixels(data)
    return ((pixels - pixels.mean(axis=0)) ** 2).sum()
