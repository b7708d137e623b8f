"""Solids on a floor: intersections with a camera's rays, brightness and shadows.

The frame is the camera's: z is up, the solid stands at the origin, the camera at (0, -distance, height). The world is
turned in this frame by an angle that differs from image to image, and the sun and the cube turn with it. Arrays have
one row per image and one column per ray.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..representation import Array

CAMERA_DISTANCE = 4.6
CAMERA_HEIGHT = 2.2
MIDDLE = 0.8  # height of the middle of a solid, roughly
_SUN = (-0.32, 0.53, 0.78)
LIGHT = tuple(part / math.sqrt(sum(_ * _ for _ in _SUN)) for part in _SUN)  # towards the sun, in the world
_FLAT = math.hypot(LIGHT[0], LIGHT[1])

_AMBIENT, _DIRECT = 0.58, 0.40
_PENUMBRA = 0.16  # how fast a shadow's edge widens with the distance to what throws it
_NEAREST = 0.05


def shade(cosine: Any) -> Any:
    """Brightness by the cosine between normal and sun; it is not cut off at 0, so that it has no kink."""
    kind = cosine.dtype.type
    return cosine * kind(_DIRECT) + kind(_AMBIENT)


def reach(scale: float) -> float:
    """A ray that passes the middle at a larger distance than this cannot meet a solid of this scale."""
    return max(math.hypot(0.84 * scale, max(MIDDLE, 1.35 * scale - MIDDLE)), 1.7 * scale - MIDDLE) + 0.02


def shadow_reach(scale: float) -> float:
    """Beyond this distance from the origin no floor is in shadow."""
    return 2.2 * scale + 0.1


@dataclass(frozen=True)
class Rays:
    """Directions of unit length from the camera."""

    x: Array
    y: Array
    z: Array


class Solid(ABC):
    """A solid of a scale, one per image; ``cosine`` and ``sine`` rotate the camera's frame into the world's."""

    shares: tuple[float, float]  # at scale 1: radius or half an edge, height of the top or of the upper ball's centre

    def __init__(self, scale: Array, cosine: Array, sine: Array) -> None:
        kind = scale.dtype.type
        self.cosine, self.sine = cosine, sine
        self.radius, self.top = (scale * kind(share) for share in self.shares)
        self.distance, self.height = kind(CAMERA_DISTANCE), kind(CAMERA_HEIGHT)
        self.sun = (  # towards the sun, in the camera's frame
            kind(LIGHT[0]) * cosine - kind(LIGHT[1]) * sine,
            kind(LIGHT[0]) * sine + kind(LIGHT[1]) * cosine,
            kind(LIGHT[2]),
        )

    @abstractmethod
    def seen(self, rays: Rays) -> tuple[Array, Array]:
        """Which rays meet the solid, and the cosine between its normal there and the sun."""

    @abstractmethod
    def margin(self, x: Array, y: Array) -> tuple[Array, Array]:
        """How deep inside the shadow floor points lie (negative outside), and how far from what throws it."""


class Sphere(Solid):
    """A ball on the floor."""

    shares = (0.75, 0.75)

    def seen(self, rays: Rays) -> tuple[Array, Array]:
        """A quadratic equation."""
        return _ball(self, rays, self.top)

    def margin(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Radius minus the distance between centre and sunbeam."""
        return _ball_margin(self, x, y, self.top)


class Cylinder(Solid):
    """An upright cylinder."""

    shares = (0.62, 1.35)

    def seen(self, rays: Rays) -> tuple[Array, Array]:
        """The side where a ray enters at a height inside, otherwise the top."""
        kind = self.radius.dtype.type
        inside, entered, height = _tube(self, rays)
        side = inside & (height >= 0) & (height <= self.top)
        to_top = (self.top - self.height) / np.minimum(rays.z, kind(-1e-6))
        x, y = to_top * rays.x, to_top * rays.y - self.distance
        lid = inside & (height > self.top) & (rays.z < 0) & (x * x + y * y <= self.radius * self.radius)
        light = entered * rays.x * self.sun[0] + (entered * rays.y - self.distance) * self.sun[1]
        light /= self.radius
        return side | lid, np.where(lid, self.sun[2], light)

    def margin(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The floor that is shadowed is a disc swept along the sun's direction."""
        kind = self.radius.dtype.type
        along = x * self.sun[0] + y * self.sun[1]
        along *= kind(-1 / _FLAT**2)
        np.clip(along, 0, self.top / self.sun[2], out=along)
        away_x, away_y = x + along * self.sun[0], y + along * self.sun[1]
        return self.radius - np.sqrt(away_x * away_x + away_y * away_y), along


class Capsule(Solid):
    """An upright cylinder between two half balls."""

    shares = (0.5, 1.2)

    def seen(self, rays: Rays) -> tuple[Array, Array]:
        """The side where a ray enters the endless cylinder between the balls, otherwise the nearer ball."""
        inside, entered, height = _tube(self, rays)
        centre = np.clip(height, self.radius, self.top)
        side = inside & (height == centre)
        met, light = _ball(self, rays, centre)
        along = entered * rays.x * self.sun[0] + (entered * rays.y - self.distance) * self.sun[1]
        along /= self.radius
        return side | (met & inside), np.where(side, along, light)

    def margin(self, x: Array, y: Array) -> tuple[Array, Array]:
        """That of a ball at the point of the axis which is nearest to the sunbeam."""
        kind = self.radius.dtype.type
        along = x * self.sun[0] + y * self.sun[1]
        along *= kind(-LIGHT[2] / _FLAT**2)
        return _ball_margin(self, x, y, np.clip(along, self.radius, self.top))


class Cube(Solid):
    """A cube whose sides are parallel to the walls."""

    shares = (0.58, 1.16)

    def seen(self, rays: Rays) -> tuple[Array, Array]:
        """Three slabs; the last one to be entered is the face."""
        kind = self.radius.dtype.type
        x, y = self._turned(rays.x, rays.y)
        start_x, start_y = -self.distance * self.sine, -self.distance * self.cosine
        near_x, far_x = _slab(x, start_x, self.radius)
        near_y, far_y = _slab(y, start_y, self.radius)
        z = np.minimum(rays.z, kind(-1e-6))  # rays that rise meet no lid, and the sides cut them off
        to_lid, to_ground = (self.top - self.height) / z, -self.height / z
        falls = rays.z < 0
        near = np.maximum(near_x, near_y)
        lid = falls & (to_lid > near)
        np.maximum(near, to_lid, out=near, where=falls)
        far = np.minimum(far_x, far_y)
        np.minimum(far, to_ground, out=far, where=falls)
        met = (near < far) & (near > 0)
        met &= falls | (self.height + near * rays.z <= self.top)
        side = np.where(near_x > near_y, -np.sign(x) * kind(LIGHT[0]), -np.sign(y) * kind(LIGHT[1]))
        return met, np.where(lid, kind(LIGHT[2]), side)

    def margin(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Half the length of the sunbeam's way over the cube's square below its top, seen from above."""
        kind = self.radius.dtype.type
        x, y = self._turned(x, y)
        near_x, far_x = _slab(np.array([[kind(LIGHT[0])]]), x, self.radius)
        near_y, far_y = _slab(np.array([[kind(LIGHT[1])]]), y, self.radius)
        near = np.maximum(np.maximum(near_x, near_y), 0)
        far = np.minimum(np.minimum(far_x, far_y), self.top / kind(LIGHT[2]))
        return (far - near) * kind(_FLAT / 2), np.maximum(near, 0)

    def _turned(self, x: Array, y: Array) -> tuple[Array, Array]:
        return self.cosine * x + self.sine * y, self.cosine * y - self.sine * x


SOLIDS: dict[str, type[Solid]] = {"cube": Cube, "cylinder": Cylinder, "sphere": Sphere, "capsule": Capsule}


def lit(solid: Solid, x: Array, y: Array, *, soft: bool) -> Array:
    """How much of the sun floor points see, from 0 to 1."""
    margin, away = solid.margin(x, y)
    kind = margin.dtype.type
    if not soft:
        return (margin <= 0).astype(margin.dtype)
    away += kind(_NEAREST)
    margin /= away
    margin *= kind(-0.5 / _PENUMBRA)
    margin += kind(0.5)
    return np.clip(margin, 0, 1, out=margin)


def _ball(solid: Solid, rays: Rays, centre: Array) -> tuple[Array, Array]:
    """A ball around the axis at height ``centre``: whether rays meet it, and the cosine to the sun there."""
    rise = solid.height - centre
    half = rise * rays.z - solid.distance * rays.y
    root = half * half
    root -= solid.distance * solid.distance + rise * rise - solid.radius * solid.radius
    met = root > 0
    np.sqrt(np.maximum(root, 0, out=root), out=root)
    entered = -half
    entered -= root
    light = entered * rays.x * solid.sun[0] + (entered * rays.y - solid.distance) * solid.sun[1]
    light += (entered * rays.z + rise) * solid.sun[2]
    light /= solid.radius
    return met, light


def _ball_margin(solid: Solid, x: Array, y: Array, centre: Array) -> tuple[Array, Array]:
    along = centre * solid.sun[2] - x * solid.sun[0] - y * solid.sun[1]
    apart = x * x + y * y + centre * centre
    apart -= along * along
    margin = solid.radius - np.sqrt(np.maximum(apart, 0, out=apart), out=apart)
    np.copyto(margin, -solid.radius, where=along <= 0)  # the ball lies behind, seen towards the sun
    return margin, np.maximum(along, 0)


def _tube(solid: Solid, rays: Rays) -> tuple[Array, Array, Array]:
    """The endless upright cylinder: whether rays enter it, after which way, and at which height."""
    across = rays.x * rays.x + rays.y * rays.y
    half = -solid.distance * rays.y
    root = half * half - across * (solid.distance * solid.distance - solid.radius * solid.radius)
    inside = root > 0
    entered = -half - np.sqrt(np.maximum(root, 0, out=root))
    entered /= across
    return inside, entered, solid.height + entered * rays.z


def _slab(direction: Array, start: Array, half: Array) -> tuple[Array, Array]:
    """Where a line enters and leaves the space between two planes; almost parallel lines count as slanted a little."""
    kind = direction.dtype.type
    inverse = 1 / np.copysign(np.maximum(np.abs(direction), kind(1e-7)), direction)
    middle = -start * inverse
    width = half * np.abs(inverse, out=inverse)
    return middle - width, middle + width
