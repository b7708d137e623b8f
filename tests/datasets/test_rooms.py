"""Rooms: every factor changes what it should, and nothing else."""

import numpy as np
import pytest

from isorep.datasets import Rooms, solids
from isorep.datasets.rooms import SHAPES

BASE = np.array([0.0, 0.33, 0.66, 1.0, 2.0, 12.0])


def at(scene, **changed):
    """One image with some factors changed."""
    values = BASE.copy()
    for name, value in changed.items():
        values[scene.factor_names.index(name)] = value
    return scene.render(values, dtype=np.float64)[0]


def regions(scene, **fixed):
    """Pixels that show floor, wall and object, found by changing their hue."""
    before = at(scene, **fixed)
    return [
        np.abs(at(scene, **fixed, **{f"{name}_hue": 0.5}) - before).max(axis=2) > 0
        for name in ("floor", "wall", "object")
    ]


@pytest.mark.parametrize("shape", range(4))
@pytest.mark.parametrize("colour", ["arc", "ramp"])
def test_a_hue_changes_its_own_surface_alone(shape, colour):
    scene = Rooms(size=32, antialias=1, colour=colour)
    floor, wall, thing = regions(scene, shape=shape)
    assert not (floor & wall).any()
    assert not (floor & thing).any()
    assert not (wall & thing).any()
    assert (floor | wall | thing).all()
    assert min(floor.sum(), wall.sum(), thing.sum()) > 50


def test_without_occlusion_the_room_shows_through_and_pixels_add_up():
    scene = Rooms(size=32, antialias=1, occlusion=False, shadow="none")
    floor, wall, thing = regions(scene)
    assert (floor | wall).all()
    assert thing.any()
    assert (thing & (floor | wall)).sum() == thing.sum()
    both = at(scene, floor_hue=0.5, object_hue=0.1)
    parts = at(scene, floor_hue=0.5) + at(scene, object_hue=0.1) - at(scene)
    np.testing.assert_allclose(both, parts, atol=1e-12)


def test_shadows_darken_the_floor_and_nothing_else():
    none, hard, soft = (Rooms(size=64, antialias=1, shadow=kind) for kind in ("none", "hard", "soft"))
    for shape in range(4):
        floor, wall, thing = regions(none, shape=shape)
        for scene in (hard, soft):
            darker = at(none, shape=shape) - at(scene, shape=shape)
            assert darker.min() >= 0
            assert (darker.max(axis=2) > 0)[floor].any()
            assert not darker[wall | thing].any()
        shades = [len(np.unique((at(scene, shape=shape)[floor][:, 0] / 0.92).round(6))) for scene in (none, hard, soft)]
        assert shades[0] == 1
        assert shades[1] == 2
        assert shades[2] > 20


def test_antialiasing_is_the_mean_over_finer_rays():
    coarse, fine = Rooms(size=16, antialias=4), Rooms(size=64, antialias=1)
    for shape in range(4):
        mean = at(fine, shape=shape).reshape(16, 4, 16, 4, 3).mean(axis=(1, 3))
        np.testing.assert_allclose(at(coarse, shape=shape), mean, atol=1e-12)


def test_a_full_turn_changes_no_bit_and_a_quarter_turn_shows_the_same_room_under_another_sun():
    scene = Rooms(size=32, shadow="none")
    for angle in (-30.0, 0.0, 17.25):
        np.testing.assert_array_equal(at(scene, orientation=angle), at(scene, orientation=angle + 360))
        np.testing.assert_array_equal(at(scene, orientation=angle), at(scene, orientation=angle - 720))
    for shape in range(4):
        here, there = (regions(Rooms(size=32, antialias=1), shape=shape, orientation=angle) for angle in (7.0, 97.0))
        for one, other in zip(here, there, strict=True):
            assert (one != other).mean() < 0.005  # rays along an edge may fall on either side
    assert np.abs(at(scene, orientation=7.0) - at(scene, orientation=97.0)).max() > 0.05


def test_a_larger_object_covers_a_smaller_one():
    scene = Rooms(size=48, antialias=1)
    for shape in range(4):
        small, large = (regions(scene, shape=shape, scale=scale)[2] for scale in (0.8, 1.2))
        assert large.sum() > 1.5 * small.sum()
        assert (small & ~large).mean() < 0.01


def test_a_ball_has_the_outline_that_geometry_gives_it():
    scene = Rooms(size=64, antialias=1)
    thing = regions(scene)[2]
    distance = np.hypot(solids.CAMERA_DISTANCE, solids.CAMERA_HEIGHT - 0.75)
    half_angle = np.arcsin(0.75 / distance)
    pixels = 32 * np.tan(half_angle) / 0.37  # of the radius, seen near the middle of the image
    assert np.sqrt(thing.sum() / np.pi) == pytest.approx(pixels, rel=0.02)


@pytest.mark.parametrize("shape", range(4))
@pytest.mark.parametrize("shadow", ["hard", "soft"])
def test_the_windows_hold_all_of_the_object_and_its_shadow(shape, shadow, monkeypatch):
    """Drawing in the smallest window that may matter gives the same image as drawing everywhere."""
    scene = Rooms(size=48, antialias=1, shadow=shadow)
    values = np.array(
        [[0.1, 0.4, 0.7, scale, shape, angle] for scale in (0.7, 1.0, 1.3) for angle in range(0, 360, 24)]
    )
    small = scene.render(values)
    monkeypatch.setattr(solids, "reach", lambda scale: np.inf)
    monkeypatch.setattr(solids, "shadow_reach", lambda scale: 50.0)
    np.testing.assert_array_equal(scene.render(values), small)


def test_shapes_have_their_symmetries():
    """Ball, cylinder and capsule look the same from all sides but for the sun; the cube does not."""
    scene = Rooms(size=48, antialias=1, shadow="none")
    assert SHAPES == ("cube", "cylinder", "sphere", "capsule")
    for shape, same in enumerate((False, True, True, True)):
        outlines = [regions(scene, shape=shape, orientation=angle)[2] for angle in (0.0, 20.0)]
        assert np.array_equal(*outlines) == same
