"""Blurred squares: the metric of the images is what the closed form says, and conformal."""

import math

import numpy as np
import pytest

import isorep
from isorep.datasets import Squares, render_squares, square_metric

SOFT, PIXELS = 0.02, 201


def speeds(position, radius, softness=SOFT, pixels=PIXELS, step=1e-4):
    """Inner products of the derivatives of one image, by differences."""

    def image(p, r):
        return render_squares(np.array([p]), np.array([r]), softness=softness, pixels=pixels, by_area=True)[0].ravel()

    moved = (image(position + step, radius) - image(position - step, radius)) / (2 * step)
    grown = (image(position, radius + step) - image(position, radius - step)) / (2 * step)
    return moved @ moved, grown @ grown, moved @ grown


@pytest.mark.parametrize("radius", [0.05, 0.1, 0.2, 0.4])
def test_the_metric_with_corners_is_exact(radius):
    along, growing, across = speeds(0.15, radius)
    exact = square_metric([radius], softness=SOFT)
    assert along == pytest.approx(exact[0][0], rel=1e-5)
    assert growing == pytest.approx(exact[1][0], rel=1e-5)
    assert abs(across) < 1e-9 * along


@pytest.mark.parametrize("radius", [0.1, 0.2, 0.4])
def test_corners_correct_the_sharp_metric_to_first_order(radius):
    softness = 0.01
    sharp, exact = (square_metric([radius], softness=softness, corners=corners) for corners in (False, True))
    ratio = softness / radius
    assert exact[0][0] / sharp[0][0] == pytest.approx(1 - ratio / math.sqrt(math.pi), abs=1e-9)
    growth = math.sqrt(math.pi) / 2 - 1 / math.sqrt(math.pi)
    assert exact[1][0] / sharp[1][0] == pytest.approx(1 + growth * ratio, abs=1e-9)


def test_the_ratios_on_record():
    for radius, along, growing in ((0.1, 0.944, 1.032), (0.4, 0.986, 1.008)):
        sharp, exact = (square_metric([radius], softness=0.01, corners=corners) for corners in (False, True))
        assert exact[0][0] / sharp[0][0] == pytest.approx(along, abs=1e-3)
        assert exact[1][0] / sharp[1][0] == pytest.approx(growing, abs=1e-3)


def test_both_directions_of_a_move_are_alike_and_orthogonal():
    step = 1e-4

    def image(x, y):
        return render_squares(np.array([[x, y]]), np.array([0.2]), softness=SOFT, pixels=PIXELS)[0].ravel()

    across = image(step, 0) - image(-step, 0)
    up = image(0, step) - image(0, -step)
    assert across @ across == pytest.approx(up @ up)
    assert abs(across @ up) < 1e-9 * (up @ up)


def test_tensors_give_the_same_images_and_the_constant_of_the_conformal_map():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    low, high = 0.1, 0.4
    p, r = rng.uniform(-0.3, 0.3, 40), np.concatenate([[low, high], rng.uniform(low, high, 38)])
    pictures = render_squares(torch.tensor(p), torch.tensor(r), softness=SOFT, pixels=64)
    assert np.allclose(pictures.numpy(), render_squares(p, r, softness=SOFT, pixels=64))

    def decoder(z):
        return render_squares(z[:, 0], z[:, 1] / math.sqrt(2), softness=SOFT, pixels=128, by_area=True)

    found = isorep.decoder.bilipschitz(decoder, np.column_stack([p, math.sqrt(2) * r]), n_directions=0)
    # Corners make small squares a little faster to grow than to move.
    assert found.similarity_constant == pytest.approx((high / low) ** 0.25, rel=0.06)


@pytest.mark.parametrize(
    "call",
    [
        {"position": np.zeros((2, 3)), "radius": np.ones(2)},
        {"position": np.zeros(2), "radius": np.ones(3)},
        {"position": np.zeros(2), "radius": np.ones(2), "softness": 0.0},
        {"position": np.zeros(2), "radius": np.ones(2), "pixels": 1},
    ],
)
def test_wrong_squares_are_refused(call):
    with pytest.raises(isorep.InputError):
        render_squares(**call)


def test_the_scene_has_the_metric_of_the_closed_form():
    scene, softness = Squares(size=129, softness=0.05), 0.05
    values = np.array([[0.1, -0.2, 0.2], [-0.4, 0.3, 0.35]])
    jacobian = scene.factor_jacobian(values, step=0.001) * (2 / 128)  # norms in L2
    squares = np.einsum("npi,npj->nij", jacobian, jacobian)
    along, growing = square_metric(values[:, 2], softness=softness)
    np.testing.assert_allclose(squares[:, 0, 0], along, rtol=1e-3)
    np.testing.assert_allclose(squares[:, 1, 1], along, rtol=1e-3)
    np.testing.assert_allclose(squares[:, 2, 2], growing, rtol=1e-3)
    assert np.abs(squares[:, 0, 1:]).max() < 1e-3 * along.min()


def test_the_scene_moves_right_and_down():
    rows, columns = np.mgrid[:33, :33]
    images = Squares(size=33).render([[-0.5, 0.0, 0.2], [0.5, 0.25, 0.2]])[..., 0]
    centres = [((image * columns).sum() / image.sum(), (image * rows).sum() / image.sum()) for image in images]
    np.testing.assert_allclose(centres, [[8, 16], [24, 20]], atol=0.01)
