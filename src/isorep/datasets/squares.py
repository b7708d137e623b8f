r"""Images of a square that moves and grows, blurred by a Gaussian: a process whose geometry is known in closed form.

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

from ..errors import InputError
from ..representation import Array
from .checks import is_whole
from .scenes import Factor, Scene

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
        if not is_whole(self.size, 4, 512) or not 0.001 <= self.softness <= 1:
            raise InputError(f"size is {self.size} and softness {self.softness}: 4 to 512 and 0.001 to 1 are drawn")

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
        Of a side. The picture runs from ``-reach`` to ``reach``.
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
    if not isinstance(pixels, int | np.integer) or pixels < 2:
        raise InputError(f"pixels is {pixels!r} and must be a whole number of at least 2")
    tensors = hasattr(position, "detach") or hasattr(radius, "detach")
    library: Any = _torch() if tensors else np
    place, size = (library.as_tensor(v) if tensors else np.asarray(v, float) for v in (position, radius))
    if place.ndim not in (1, 2) or (place.ndim == 2 and place.shape[1] != 2) or size.shape != place.shape[:1]:
        raise InputError(f"positions of shape {tuple(place.shape)} and radii of shape {tuple(size.shape)} do not pair")
    across, up = (place[:, 0], place[:, 1]) if place.ndim == 2 else (place, library.zeros_like(place))
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


def _torch() -> Any:
    import torch

    return torch
