r"""Rendered sprites, similar to dSprites: flat shapes on black, one or several, occluding or added to each other.

Coverage is computed from signed distances in plain arithmetic, so that pixels depend neither on the size of a batch nor
on threads; see ``rooms`` for differences between machines.

Images of a square that moves and grows, blurred by a Gaussian: a process whose geometry is known in closed form.

The square with centre :math:`(p,0)` and half-side :math:`r` has the indicator of an interval in each direction; blurred
by a Gaussian of standard deviation :math:`\varsigma` it is the product of two edges

.. math:: I_{p,r}(a,b)=e_r(a-p)\,e_r(b),\qquad
          e_r(t)=\tfrac12\Bigl[\operatorname{erf}\frac{t+r}{\sqrt2\varsigma}-
          \operatorname{erf}\frac{t-r}{\sqrt2\varsigma}\Bigr].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import erf

from ..errors import InputError, import_extra
from ..representation import Array
from ..settings import check_choice, check_counts
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
        Number of sprites.
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
        check_counts(size=(self.size, 4, 512), count=(self.count, 1, 16))
        check_choice("composition", self.composition, COMPOSITIONS)
        check_choice("colour", self.colour, COLOURS)

    @property
    def channels(self) -> int:  # type: ignore[override]
        """One for white sprites, three for coloured ones."""
        return 1 if self.colour == "white" else 3

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """Those of the first sprite, then those of the next."""
        factors = []
        for number in range(1, self.count + 1):
            prefix = f"{number}." if self.count > 1 else ""
            factors += [
                Factor(f"{prefix}shape", 0.0, 2.0, 3, choice=True),
                Factor(f"{prefix}scale", 0.5, 1.0, 6),
                Factor(f"{prefix}orientation", 0.0, 360.0, 40, periodic=True),
                Factor(f"{prefix}x", 0.0, 1.0, 32),
                Factor(f"{prefix}y", 0.0, 1.0, 32),
            ]
            if self.colour != "white":
                factors.append(Factor(f"{prefix}hue", 0.0, 1.0, 10, periodic=self.colour == "arc"))
        return tuple(factors)

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

_FARTHEST = 0.6  # of a centre from the middle of a picture that runs from -1 to 1
_RADII = (0.15, 0.4)


@dataclass(frozen=True)
class Squares(Scene):
    """A white square on black that moves and grows, blurred: the scene whose geometry is known in closed form.

    Its factors are x from left to right and y from top to bottom, both from -0.6 to 0.6 in a picture that runs from
    -1 to 1, and the radius, half the side, from 0.15 to 0.4. In (x, y, √2 radius) the images are nearly conformal:
    see ``square_metric``. They are far from linear: a square that has moved by its side shares no pixel with itself.

    Parameters
    ----------
    size : int
        Height and width in pixels.
    softness : float
        Standard deviation of the blur, in units of half the picture.

    Examples
    --------
    >>> from isorep.datasets import Squares
    >>> Squares(size=32).draw(100, seed=0).images([0]).shape
    (1, 32, 32, 1)
    """

    size: int = 64
    softness: float = 0.1
    name: str = field(default="squares", init=False)
    channels: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        check_counts(size=(self.size, 4, 512))
        if not 0.001 <= self.softness <= 1:
            raise InputError(f"softness is {self.softness} and must be a number from 0.001 to 1")

    @property
    def factors(self) -> tuple[Factor, ...]:  # type: ignore[override]
        """Place and size."""
        return (
            Factor("x", -_FARTHEST, _FARTHEST, 16),
            Factor("y", -_FARTHEST, _FARTHEST, 16),
            Factor("radius", *_RADII, 8),
        )

    def _draw(self, values: Array, dtype: Any) -> Array:
        images = render_squares(values[:, :2], values[:, 2], softness=self.softness, pixels=self.size)
        return np.asarray(images[..., None], dtype)


def render_squares(
    position: Any, radius: Any, *, softness: float = 0.03, pixels: int = 64, reach: float = 1.0, by_area: bool = False
) -> Any:
    r"""Images of blurred squares, for numpy arrays or torch tensors; gradients pass through tensors.

    Parameters
    ----------
    position : (n,) or (n, 2) array or tensor
        The horizontal place of the centre, or both places.
    radius : (n,) array or tensor
        Half the side.
    softness : float
        :math:`\varsigma`, the standard deviation of the blur.
    pixels : int
        Pixels per side. The picture runs from ``-reach`` to ``reach``.
    reach : float
        Half the picture's side.
    by_area : bool
        Multiply by the side of a pixel, so that Euclidean norms of images are norms in :math:`L^2`.

    Returns
    -------
    (n, pixels, pixels) array or tensor
        Rows are vertical.

    Examples
    --------
    >>> from isorep.datasets import render_squares
    >>> image = render_squares([0.0], [0.5], softness=0.1, pixels=5)[0]
    >>> image.round(2)[2]
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    if not (softness > 0 and reach > 0):
        raise InputError(f"softness is {softness!r} and reach {reach!r}: both must be positive")
    check_counts(pixels=(pixels, 2))
    tensors = hasattr(position, "detach") or hasattr(radius, "detach")
    library: Any = import_extra("torch", "torch", "squares of tensors") if tensors else np
    centres, size = (library.as_tensor(v) if tensors else np.asarray(v, float) for v in (position, radius))
    if centres.ndim not in (1, 2) or (centres.ndim == 2 and centres.shape[1] != 2) or size.shape != centres.shape[:1]:
        raise InputError(
            f"positions of shape {tuple(centres.shape)} and radii of shape {tuple(size.shape)} do not pair"
        )
    across, up = (centres[:, 0], centres[:, 1]) if centres.ndim == 2 else (centres, library.zeros_like(centres))
    grid = np.linspace(-reach, reach, int(pixels))
    axis = library.as_tensor(grid, dtype=size.dtype, device=size.device) if tensors else grid
    blur = library.erf if tensors else erf

    def edge(centre: Any) -> Any:
        apart, half = axis[None, :] - centre[:, None], size[:, None]
        steps = (blur((apart + sign * half) / (math.sqrt(2) * softness)) for sign in (1, -1))
        return (next(steps) - next(steps)) / 2

    images = edge(up)[:, :, None] * edge(across)[:, None, :]
    return images * (2 * reach / (int(pixels) - 1)) if by_area else images


def square_metric(radius: Any, *, softness: float, corners: bool = True) -> tuple[Array, Array]:
    r"""The squared speeds :math:`\|\partial_pI\|^2` and :math:`\|\partial_rI\|^2` in :math:`L^2`; they are orthogonal.

    For a sharp square :math:`4rC_\varsigma` and :math:`8rC_\varsigma` with
    :math:`C_\varsigma=1/(2\varsigma\sqrt\pi)`: each unit of moving edge counts :math:`C_\varsigma`, so the map is
    conformal in :math:`(p,\sqrt2r)`. With :math:`q=e^{-r^2/\varsigma^2}` and
    :math:`n_r=\|e_r\|^2=2r\operatorname{erf}(r/\varsigma)-\tfrac{2\varsigma}{\sqrt\pi}(1-q)` they are exactly

    .. math:: \|\partial_pI\|^2=2C_\varsigma(1-q)\,n_r,\qquad
              \|\partial_rI\|^2=4C_\varsigma(1+q)\,n_r+2\operatorname{erf}(r/\varsigma)^2 ,

    which differ from the sharp ones by the corners: relatively by :math:`-\varsigma/(\sqrt\pi r)` and
    :math:`(\tfrac{\sqrt\pi}2-\tfrac1{\sqrt\pi})\varsigma/r` to first order.

    Parameters
    ----------
    radius : (n,) array
        Half the side.
    softness : float
        The standard deviation of the blur.
    corners : bool
        Exact; or else the limit of a sharp square.

    Examples
    --------
    >>> from isorep.datasets import square_metric
    >>> along, growing = square_metric([0.2], softness=0.01, corners=False)
    >>> float(growing[0] / along[0])
    2.0
    """
    r = np.asarray(radius, dtype=float)
    density = 1 / (2 * softness * math.sqrt(math.pi))
    if not corners:
        return 4 * r * density, 8 * r * density
    q = np.exp(-((r / softness) ** 2))
    norm = 2 * r * erf(r / softness) - 2 * softness / math.sqrt(math.pi) * (1 - q)
    return 2 * density * (1 - q) * norm, 4 * density * (1 + q) * norm + 2 * erf(r / softness) ** 2
