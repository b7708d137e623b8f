"""Rendered sprites, in the manner of dSprites: flat shapes on black, one or several, over or added to each other.

Coverage is computed from signed distances in plain arithmetic, so that pixels depend neither on the size of a batch nor
on threads; see ``rooms`` for what may differ between machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .checks import is_whole
from .scenes import Factor, Scene, hue_arc, ramp, turn

SHAPES = ("square", "ellipse", "heart")
COMPOSITIONS = ("over", "add")
COLOURS = ("white", "arc", "ramp")

_RADIUS = 0.17  # of a sprite of scale 1, as a share of the image
_MARGIN = 0.2  # how far from the border, as a share of the image, a sprite's centre stays
_RAMP = ((0.85, 0.16, 0.12), (0.40, 0.85, 0.92))


@dataclass(frozen=True)
class Sprites(Scene):
    """Sprites with five factors each: shape, scale, orientation, x and y, and a hue where they are coloured.

    Shape is 0 to 2 (square, ellipse, heart), scale runs from 0.5 to 1, orientation is in degrees, x from left to right
    and y from top to bottom run from 0 to 1. With several sprites the factors are those of the first, then those of
    the next, and so on, named ``1.shape``, ``1.scale``, ...

    Parameters
    ----------
    size : int
        Height and width in pixels.
    count : int
        How many sprites.
    composition : {"over", "add"}
        Later sprites hide earlier ones; or all are added up at 1/count of full brightness, so that every pixel is a sum
        of functions of one sprite each.
    antialias : bool
        Smooth edges one pixel wide, or hard ones.
    colour : {"white", "arc", "ramp"}
        White on one channel, or hues on three: arcs of a circle, or straight lines between two colours.

    Examples
    --------
    >>> from isorep.datasets import Sprites
    >>> pairs = Sprites(count=2).draw(1000, seed=0, correlation={("1.x", "2.x"): 0.9})
    >>> pairs.images([0]).shape
    (1, 64, 64, 1)
    >>> len(Sprites().grid())
    737280
    """

    size: int = 64
    count: int = 1
    composition: str = "over"
    antialias: bool = True
    colour: str = "white"
    name: str = field(default="sprites", init=False)

    def __post_init__(self) -> None:
        if not is_whole(self.size, 4, 512) or not is_whole(self.count, 1, 16):
            raise InputError(f"size is {self.size} and count {self.count}: 4 to 512 and 1 to 16 are drawn")
        if self.composition not in COMPOSITIONS or self.colour not in COLOURS:
            raise InputError(
                f"composition is {self.composition!r} and colour {self.colour!r}: there are {', '.join(COMPOSITIONS)}, "
                f"and {', '.join(COLOURS)}"
            )

    @property
    def channels(self) -> int:  # type: ignore[override]
        """One for white sprites, three for coloured ones."""
        return 1 if self.colour == "white" else 3

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """Those of the first sprite, then those of the next."""
        found = []
        for number in range(1, self.count + 1):
            prefix = f"{number}." if self.count > 1 else ""
            found += [
                Factor(f"{prefix}shape", 0.0, 2.0, 3, choice=True),
                Factor(f"{prefix}scale", 0.5, 1.0, 6),
                Factor(f"{prefix}orientation", 0.0, 360.0, 40, periodic=True),
                Factor(f"{prefix}x", 0.0, 1.0, 32),
                Factor(f"{prefix}y", 0.0, 1.0, 32),
            ]
            if self.colour != "white":
                found.append(Factor(f"{prefix}hue", 0.0, 1.0, 10, periodic=self.colour == "arc"))
        return tuple(found)

    def _draw(self, values: Array, dtype: Any) -> Array:
        images = np.zeros((len(values), self.channels, self.size, self.size), dtype)  # planes are faster to fill
        width = len(self.factors) // self.count
        for number in range(self.count):
            own = values[:, number * width : (number + 1) * width]
            cover = self._coverage(own, dtype)[:, None]
            if self.colour == "white":
                colours = np.ones((len(values), 1, 1, 1), dtype)
            else:
                hue = own[:, 5]
                chosen = hue_arc(hue) if self.colour == "arc" else ramp(hue, *_RAMP)
                colours = chosen.astype(dtype)[:, :, None, None]
            if self.composition == "over":
                images *= 1 - cover
                images += cover * colours
            else:
                images += cover * (colours * dtype(1 / self.count))
        return np.moveaxis(images, 1, -1)

    def _coverage(self, values: Array, dtype: Any) -> Array:
        """The share of every pixel that a sprite covers."""
        cosine, sine = (part.astype(dtype)[:, None, None] for part in turn(values[:, 2]))
        radius = (values[:, 1] * (_RADIUS * self.size)).astype(dtype)[:, None, None]
        centre = (_MARGIN + (1 - 2 * _MARGIN) * values[:, 3:5]) * self.size
        pixels = np.arange(self.size, dtype=dtype) + dtype(0.5)
        right = pixels[None, None, :] - centre[:, 0].astype(dtype)[:, None, None]
        down = pixels[None, :, None] - centre[:, 1].astype(dtype)[:, None, None]
        x, y = cosine * right + sine * down, cosine * down - sine * right
        distance = np.empty_like(x)
        kinds = values[:, 0].astype(int)
        for kind in np.unique(kinds):
            rows = np.flatnonzero(kinds == kind)
            distance[rows] = _DISTANCES[SHAPES[kind]](x[rows], y[rows], radius[rows])
        if not self.antialias:
            return np.asarray(distance < 0, dtype)
        return np.asarray(np.clip(dtype(0.5) - distance, 0, 1, out=distance))


def _square(x: Array, y: Array, radius: Array) -> Array:
    half = radius * x.dtype.type(0.8)
    return np.asarray(np.maximum(np.abs(x), np.abs(y)) - half)


def _ellipse(x: Array, y: Array, radius: Array) -> Array:
    """The first-order distance k (k - 1) / |∇| with k the radius in units of the ellipse's own."""
    kind = x.dtype.type
    wide, high = radius, radius * kind(0.55)
    along, across = x / wide, y / high
    own = np.sqrt(along * along + across * across)
    along /= wide
    across /= high
    slope = np.sqrt(along * along + across * across)
    return np.asarray(own * (own - 1) / np.maximum(slope, kind(1e-6)) - radius * (own == 0))


def _heart(x: Array, y: Array, radius: Array) -> Array:
    """Two discs on the upper sides of a square that stands on its tip."""
    kind = x.dtype.type
    half = radius * kind(0.55)
    turned, other = (x + y) * kind(0.5**0.5), (y - x) * kind(0.5**0.5)
    square = np.maximum(np.abs(turned), np.abs(other)) - half
    left = np.sqrt((turned + half) ** 2 + other**2) - half
    right = np.sqrt((other + half) ** 2 + turned**2) - half
    return np.asarray(np.minimum(square, np.minimum(left, right)))


_DISTANCES = {"square": _square, "ellipse": _ellipse, "heart": _heart}
