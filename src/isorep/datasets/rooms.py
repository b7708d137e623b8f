"""Rendered rooms, similar to Shapes3D: an object on the floor of a square room, seen by a circling camera.

Everything is intersected analytically, in arithmetic that IEEE 754 fixes to the last bit (sums, products, quotients,
square roots, comparisons; no matrix products), so that pixels depend neither on the size of a batch nor on threads.
Sines and cosines, one pair per image, come from the system's mathematics library, which may differ in the last digit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..representation import Array
from ..settings import check_choice, check_counts
from . import solids
from .scenes import Factor, Scene, hue_arc, ramp, turn
from .solids import CAMERA_DISTANCE, CAMERA_HEIGHT, LIGHT, Rays, shade

SHAPES = ("cube", "cylinder", "sphere", "capsule")
SHADOWS = ("none", "hard", "soft")
COLOURS = ("arc", "ramp")

_WALL = 5.0  # half the width of the room
_LOOK_AT = 0.62  # height of the point that the camera looks at
_TANGENT = 0.37  # of half the field of view
_CORNER = 45.0  # at orientation 0 the camera looks into a corner
_DARKNESS = 0.5  # of a full shadow
_RAMPS = (
    ((0.12, 0.16, 0.55), (0.90, 0.80, 0.22)),  # floor
    ((0.16, 0.50, 0.40), (0.88, 0.52, 0.78)),  # walls
    ((0.85, 0.16, 0.12), (0.40, 0.85, 0.92)),  # object
)


@dataclass(frozen=True)
class Rooms(Scene):
    """Rooms with six factors: floor, wall and object hue, the object's scale and shape, and the orientation.

    Hues run from 0 to 1 and scale from 0.75 to 1.25. Shape is 0 to 3: cube, cylinder, sphere, capsule. Orientation is
    the angle of the camera's place on its circle, in degrees; the grid spans -30 to 30.

    Parameters
    ----------
    size : int
        Height and width in pixels.
    antialias : int
        Rays along each side of a pixel, whose mean it shows; 1 for none.
    shadow : {"soft", "hard", "none"}
        The shadow of the object on the floor.
    occlusion : bool
        Whether the object hides what is behind it. Otherwise room and object are added up at half brightness each, so
        that every pixel is a sum of a function of the room and one of the object (without a shadow, exactly).
    colour : {"arc", "ramp"}
        Hues as arcs of a circle, or as straight lines between two colours, which are easier for linear probes.

    Examples
    --------
    >>> from isorep.datasets import Rooms
    >>> rooms = Rooms(size=32).draw(1000, seed=0)
    >>> rooms.images([0, 1]).shape
    (2, 32, 32, 3)
    >>> len(Rooms().grid())
    480000
    """

    size: int = 64
    antialias: int = 2
    shadow: str = "soft"
    occlusion: bool = True
    colour: str = "arc"
    name: str = field(default="rooms", init=False)
    channels: int = field(default=3, init=False)

    def __post_init__(self) -> None:
        check_counts(size=(self.size, 4, 512), antialias=(self.antialias, 1, 8))
        check_choice("shadow", self.shadow, SHADOWS)
        check_choice("colour", self.colour, COLOURS)

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """The six factors; hues are periodic on arcs."""
        arc = self.colour == "arc"
        return (
            Factor("floor_hue", 0.0, 1.0, 10, periodic=arc),
            Factor("wall_hue", 0.0, 1.0, 10, periodic=arc),
            Factor("object_hue", 0.0, 1.0, 10, periodic=arc),
            Factor("scale", 0.75, 1.25, 8),
            Factor("shape", 0.0, 3.0, 4, choice=True),
            Orientation("orientation", -30.0, 30.0, 15, periodic=True),
        )

    def _cells(self) -> int:
        return (self.size * self.antialias) ** 2

    def _order(self, values: Array) -> Array:
        return np.argsort(values[:, 4], kind="stable")

    def _draw(self, values: Array, dtype: Any) -> Array:
        frame = _frame(self.size, self.antialias, dtype)
        cosine, sine = (part.astype(dtype)[:, None] for part in turn(values[:, 5] + _CORNER))
        floor, wall = _room(frame, cosine, sine)
        thing = np.zeros_like(floor)
        kinds = values[:, 4].astype(int)
        for kind in np.unique(kinds):
            # Rows of one kind are consecutive, see _order: a slice is a view, and is changed in place.
            rows = slice(int(np.argmax(kinds == kind)), int(len(kinds) - np.argmax(kinds[::-1] == kind)))
            solid = solids.SOLIDS[SHAPES[kind]](values[rows, 3, None].astype(dtype), cosine[rows], sine[rows])
            self._object(solid, frame, float(values[rows, 3].max()), (floor[rows], wall[rows], thing[rows]))
        return self._coloured(values, [frame.pooled(part) for part in (floor, wall, thing)], dtype)

    def _object(self, solid: solids.Solid, frame: Frame, scale: float, maps: tuple[Array, Array, Array]) -> None:
        """Draw the object and its shadow into the maps of floor, walls and object."""
        floor, wall, thing = maps
        if self.shadow != "none":
            window = frame.window(frame.floor_reach <= solids.shadow_reach(scale))
            lit = solids.lit(
                solid, frame.cut(frame.floor_x, window), frame.cut(frame.floor_y, window), soft=self.shadow == "soft"
            )
            lit *= lit.dtype.type(_DARKNESS)
            lit += lit.dtype.type(1 - _DARKNESS)
            patch = frame.part(floor, window)
            patch *= lit.reshape(patch.shape)
        window = frame.window(frame.axis_gap <= solids.reach(scale))
        hit, light = solid.seen(Rays(*(frame.cut(part, window) for part in (frame.x, frame.y, frame.z))))
        if self.occlusion:
            clear = ~hit
            for behind in (floor, wall):
                patch = frame.part(behind, window)
                patch *= clear.reshape(patch.shape)
        patch = frame.part(thing, window)
        patch[...] = (shade(light) * hit).reshape(patch.shape)

    def _coloured(self, values: Array, maps: list[Array], dtype: Any) -> Array:
        """Every pixel is the sum of three colours, each times its share and shade."""
        brightness = 1.0 if self.occlusion else 0.5
        colours = [
            brightness * (hue_arc(values[:, index]) if self.colour == "arc" else ramp(values[:, index], *_RAMPS[index]))
            for index in range(3)
        ]
        images = np.empty((len(values), self.size, self.size, 3), dtype)
        for channel in range(3):
            tints = [colour[:, channel].astype(dtype)[:, None, None] for colour in colours]
            plane = maps[0] * tints[0]
            plane += maps[1] * tints[1]
            plane += maps[2] * tints[2]
            images[..., channel] = plane
        return images


@dataclass(frozen=True)
class Orientation(Factor):
    """The camera's angle: periodic over a full turn, with a grid over a part of it that includes both ends."""

    def grid(self, size: int) -> Array:
        """Values from end to end."""
        return np.linspace(self.low, self.high, size) if size > 1 else np.zeros(1)


def _room(frame: Frame, cosine: Array, sine: Array) -> tuple[Array, Array]:
    """Maps of floor and walls: their shades where they are seen, 0 elsewhere.

    Only the rows of subpixels from which a wall can be seen at some angle are looked at.
    """
    dtype = cosine.dtype.type
    floor = np.full((len(cosine), frame.edge**2), shade(dtype(LIGHT[2])))
    wall = np.zeros_like(floor)
    upper = slice(0, frame.wall_rows * frame.edge)
    point_x, point_y = frame.floor_x[:, upper], frame.floor_y[:, upper]
    on_floor = np.abs(cosine * point_x + sine * point_y) < dtype(_WALL)
    on_floor &= np.abs(cosine * point_y - sine * point_x) < dtype(_WALL)
    floor[:, upper] *= on_floor
    x = cosine * frame.x[:, upper] + sine * frame.y[:, upper]
    y = cosine * frame.y[:, upper] - sine * frame.x[:, upper]
    # The wall that a ray meets first: start + t direction = ±wall has the smaller t, without dividing by direction.
    to_x, to_y = np.copysign(dtype(_WALL), x), np.copysign(dtype(_WALL), y)
    to_x += dtype(CAMERA_DISTANCE) * sine
    to_y += dtype(CAMERA_DISTANCE) * cosine
    to_x *= y
    to_y *= x
    sides = np.abs(to_x, out=to_x) < np.abs(to_y, out=to_y)
    # Normals look inwards: a ray that goes to +x meets the wall whose normal is -x.
    base = shade(dtype(0))
    step_x, step_y = (shade(dtype(part)) - base for part in LIGHT[:2])
    across_x = np.where(x > 0, base - step_x, base + step_x)
    walls = np.where(sides, across_x, np.where(y > 0, base - step_y, base + step_y))
    np.multiply(walls, ~on_floor, out=wall[:, upper])
    return floor, wall


@dataclass(frozen=True)
class Frame:
    """The rays of all subpixels in the camera's own frame, in which the object stands at the origin."""

    size: int
    antialias: int
    wall_rows: int  # rows of subpixels, from the top, in which walls can be seen
    x: Array
    y: Array
    z: Array
    floor_x: Array
    floor_y: Array
    floor_reach: Array
    axis_gap: Array

    @property
    def edge(self) -> int:
        """Subpixels along a side."""
        return self.size * self.antialias

    def window(self, wanted: Array) -> tuple[slice, slice]:
        """The smallest rectangle of subpixels that holds all the wanted ones."""
        square = wanted.reshape(self.edge, self.edge)
        rows, columns = np.flatnonzero(square.any(axis=1)), np.flatnonzero(square.any(axis=0))
        if not len(rows):
            return slice(0, 0), slice(0, 0)
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)

    def cut(self, flat: Array, window: tuple[slice, slice]) -> Array:
        """The window of one row of subpixel values, as a row."""
        return np.ascontiguousarray(flat.reshape(self.edge, self.edge)[window]).reshape(1, -1)

    def part(self, maps: Array, window: tuple[slice, slice]) -> Array:
        """A view of the window of several maps."""
        return maps.reshape(len(maps), self.edge, self.edge)[(slice(None), *window)]

    def pooled(self, maps: Array) -> Array:
        """The mean over the subpixels of every pixel, added up in a fixed order."""
        step = self.antialias
        square = maps.reshape(len(maps), self.edge, self.edge)
        if step == 1:
            return square
        rows = square[:, 0::step]
        for offset in range(1, step):
            rows = rows + square[:, offset::step]
        total = rows[:, :, 0::step]
        for offset in range(1, step):
            total = total + rows[:, :, offset::step]
        return np.asarray(total * maps.dtype.type(1 / step**2))


@lru_cache(maxsize=16)
def _frame(size: int, antialias: int, dtype: Any) -> Frame:
    edge = size * antialias
    across = ((np.arange(edge) + 0.5) / edge * 2 - 1) * _TANGENT
    length = math.hypot(CAMERA_DISTANCE, CAMERA_HEIGHT - _LOOK_AT)
    ahead, down = CAMERA_DISTANCE / length, (CAMERA_HEIGHT - _LOOK_AT) / length
    right, up = np.meshgrid(across, -across)
    x, y, z = right, ahead + up * down, -down + up * ahead
    norm = np.sqrt(x * x + y * y + z * z)
    x, y, z = (part / norm for part in (x, y, z))
    below = z < 0
    reached = -CAMERA_HEIGHT / np.where(below, z, -1e-9)  # rays that rise would meet the floor far beyond any wall
    floor_x, floor_y = reached * x, reached * y - CAMERA_DISTANCE
    floor_reach = np.hypot(floor_x, floor_y)
    wall_rows = int(np.flatnonzero((floor_reach >= _WALL).any(axis=1))[-1]) + 1
    # How far every ray passes from the middle of the object: what is farther than its radius cannot be part of it.
    away = np.stack([0 * x, 0 * x + CAMERA_DISTANCE, 0 * x + solids.MIDDLE - CAMERA_HEIGHT])
    along = away[1] * y + away[2] * z
    axis_gap = np.sqrt(np.maximum((away**2).sum(axis=0) - along**2, 0))
    flat = (x, y, z, floor_x, floor_y, floor_reach, axis_gap)
    return Frame(size, antialias, wall_rows, *(part.reshape(1, -1).astype(dtype) for part in flat))
