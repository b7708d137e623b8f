"""Sprites: positions, symmetries, occlusion and addition."""

import numpy as np
import pytest

from isorep.datasets import Sprites

SQUARE, ELLIPSE, HEART = 0, 1, 2


def one(shape=SQUARE, scale=1.0, orientation=0.0, x=0.5, y=0.5):
    return [shape, scale, orientation, x, y]


def test_a_sprite_stands_where_x_and_y_say():
    scene = Sprites(size=64)
    grid = np.arange(64) + 0.5
    for shape in (SQUARE, ELLIPSE):
        for x, y in ((0.0, 0.0), (1.0, 0.25), (0.5, 0.9)):
            image = scene.render(one(shape, x=x, y=y, orientation=30))[0, :, :, 0]
            centre = (image @ grid).sum() / image.sum(), (image.T @ grid).sum() / image.sum()
            np.testing.assert_allclose(centre, 64 * (0.2 + 0.6 * np.array([x, y])), atol=0.02)


@pytest.mark.parametrize("antialias", [True, False])
def test_areas_are_those_of_the_shapes(antialias):
    scene = Sprites(size=256, antialias=antialias)
    radius = 0.17 * 256
    areas = {
        SQUARE: (1.6 * radius) ** 2,
        ELLIPSE: np.pi * 0.55 * radius**2,
        HEART: (1.1 * radius) ** 2 + np.pi * (0.55 * radius) ** 2,
    }
    for shape, area in areas.items():
        for scale in (1.0, 0.5):
            image = scene.render(one(shape, scale, orientation=20), dtype=np.float64)
            assert image.sum() == pytest.approx(area * scale**2, rel=0.01)
            assert np.isin(image, (0, 1)).all() != antialias


@pytest.mark.parametrize(("shape", "period"), [(SQUARE, 90), (ELLIPSE, 180), (HEART, 360)])
def test_orientation_has_the_period_of_the_shape(shape, period):
    scene = Sprites(size=32)
    here = scene.render(one(shape, orientation=33.0), dtype=np.float64)
    np.testing.assert_allclose(scene.render(one(shape, orientation=33.0 + period), dtype=np.float64), here, atol=1e-9)
    np.testing.assert_array_equal(scene.render(one(shape, orientation=33.0 - 360), dtype=np.float64), here)
    assert np.abs(scene.render(one(shape, orientation=33.0 + period / 2)) - here).max() > 0.5


def test_later_sprites_hide_earlier_ones():
    scene = Sprites(size=32, count=2, colour="ramp", antialias=False)
    back, front = [*one(SQUARE, 1.0), 0.0], [*one(ELLIPSE, 0.8), 1.0]
    both = scene.render(back + front)[0]
    swapped = scene.render(front + back)[0]
    alone = Sprites(size=32, colour="ramp", antialias=False)
    red, blue = alone.render(back)[0], alone.render(front)[0]
    covered = blue.max(axis=2) > 0
    np.testing.assert_array_equal(both, np.where(covered[..., None], blue, red))
    np.testing.assert_array_equal(swapped, red)  # the ellipse lies inside the square


def test_added_sprites_are_sums_of_functions_of_one_sprite():
    scene = Sprites(size=32, count=3, composition="add", colour="arc")
    rng = np.random.default_rng(0)
    values = scene.draw(2, seed=0).factor_values
    alone = Sprites(size=32, colour="arc")
    parts = sum(alone.render(values[:, start : start + 6], dtype=np.float64) for start in (0, 6, 12))
    np.testing.assert_allclose(scene.render(values, dtype=np.float64), parts / 3, atol=1e-12)
    jacobian = scene.factor_jacobian(values)
    assert jacobian.shape == (2, 32 * 32 * 3, 15)
    moved = values.copy()
    moved[:, 6:] = scene.draw(2, seed=int(rng.integers(1, 100))).factor_values[:, 6:]
    np.testing.assert_allclose(scene.factor_jacobian(moved)[..., :5], jacobian[..., :5], atol=1e-9)


def test_factors_are_named_after_their_sprite():
    assert Sprites().factor_names == ("shape", "scale", "orientation", "x", "y")
    assert Sprites(count=2, colour="arc").factor_names[5:7] == ("1.hue", "2.shape")
    assert Sprites().channels == 1
    assert Sprites(colour="arc").channels == 3
    assert Sprites(count=2).continuous[:3] == ("1.scale", "1.orientation", "1.x")


def test_smooth_edges_make_smooth_derivatives():
    """A shift changes no mass, and halving the step changes little; with hard edges it changes much."""
    smooth, hard = (
        [
            Sprites(size=48, antialias=antialias).factor_jacobian(one(ELLIPSE, orientation=25.0), step=step)[0]
            for step in (0.01, 0.005)
        ]
        for antialias in (True, False)
    )
    column = Sprites().continuous.index("x")
    shift = smooth[0][:, column]
    assert abs(shift.sum()) < 0.02 * np.abs(shift).sum()
    for (coarse, fine), least, most in ((smooth, 0.0, 0.25), (hard, 0.5, np.inf)):
        assert least <= np.linalg.norm(coarse - fine) / np.linalg.norm(fine) <= most
