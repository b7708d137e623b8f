r"""Stitching map :math:`h=g_2^{-1}\circ g_1` of two decoders: bounds on its change of distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import InputError


@dataclass(frozen=True)
class Stitching:
    r"""Relation of distances on two sides: ``lowest`` :math:`\le\|y-y'\|/\|x-x'\|\le` ``highest``.

    ``inverse`` is :math:`\beta`, the largest shift of a target latent per difference of outputs, and
    ``shrunk`` :math:`1/\alpha_2`, its counterpart for distances that get shorter; ``inverse_source`` and
    ``shrunk_source`` are the same for the source. ``constants`` are those of the two decoders, ``alike`` where one
    constant stood for both, ``sampled`` where they come from a sample of latents.
    """

    lowest: float
    highest: float
    inverse: float = 1.0
    shrunk: float = 1.0
    inverse_source: float = 1.0
    shrunk_source: float = 1.0
    constants: tuple[float, float] | None = None
    alike: bool = False
    sampled: bool = False
    mismatch: float = 0.0
    mismatch_rms: float = 0.0
    measured_defect: float | None = None

    @property
    def constant(self) -> float | None:
        """The bi-Lipschitz constant of the stitching map; None where a defect was measured."""
        if self.measured_defect is not None:
            return None
        return max(self.highest, _over(1.0, self.lowest), 1.0)

    def square_distortion(self, spread: float, diameter: float) -> float | None:
        r"""Largest RMS change of squared distances over pairs; None where unknown.

        With :math:`M=m_i+m_j`, :math:`d_Y\le ad_X+\beta M` gives
        :math:`d_Y^2-d_X^2\le(a^2-1)d_X^2+2a\beta d_XM+\beta^2M^2`, and the other side likewise without the last
        term. ``spread`` is :math:`(\mathbb E\,d_X^4)^{1/4}`.
        """
        if self.measured_defect is not None or (self.mismatch_rms > 0 and self.mismatch == 0):
            return None
        relative = max(self.highest * self.highest - 1, 1 - self.lowest**2, 0.0) * spread**2
        if self.mismatch_rms == 0:
            return relative
        mixed = max(self.highest * self.inverse, self.lowest * self.shrunk)
        return relative + 4 * self.mismatch_rms * (mixed * diameter + self.inverse * self.inverse * self.mismatch)

    def distortion(self, source: float, target: float | None, *, rms: bool = False) -> float:
        """Largest change of a distance, given the diameters: the smaller of two bounds.

        With ``rms`` in the root mean square over pairs: the mismatch by its root mean square.
        """
        mismatch = self.mismatch_rms if rms else self.mismatch
        if self.measured_defect is not None:
            return self.measured_defect * source
        forward = _distortion(self.lowest, self.highest, source, self.inverse, self.shrunk, mismatch)
        if target is None:
            return forward
        lowest, highest = _over(1.0, self.highest), _over(1.0, self.lowest)
        return min(forward, _distortion(lowest, highest, target, self.inverse_source, self.shrunk_source, mismatch))


def _distortion(lowest: float, highest: float, size: float, inverse: float, shrunk: float, mismatch: float) -> float:
    relative = max(highest - 1, 1 - lowest, 0.0)
    by_mismatch = 2 * max(inverse, shrunk) * mismatch if mismatch > 0 else 0.0
    return relative * size + by_mismatch


def stitched(
    first: Any,
    second: Any,
    constant: float | Sequence[float] | None,
    excess: float | Sequence[float] | None,
    defect: float | None,
    mismatch: float,
    mismatch_rms: float | None,
) -> Stitching:
    """The stitching map of what was given: geometries, constants, excesses or a measured defect, and only one."""
    sources = {"a geometry": first, "constant": constant, "excess": excess, "defect": defect}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} were given" if given else "none was given"
        raise InputError(f"exactly one of a geometry, constant=, excess= and defect= is needed: {said}")
    largest = not_negative("mismatch", mismatch)
    mean = largest if mismatch_rms is None else not_negative("mismatch_rms", mismatch_rms)
    if largest and mean > largest * (1 + 1e-12):
        raise InputError(f"mismatch_rms is {mean:g} and exceeds the largest mismatch, {largest:g}")
    if defect is not None:
        if largest or mean:
            raise InputError("a measured defect holds the mismatch of outputs already: leave mismatch= out")
        return Stitching(0.0, math.inf, measured_defect=not_negative("defect", defect))
    if first is not None:
        tie = _of_geometries(first, first if second is None else second)
    else:
        tie = _of_constants(given[0], excess if constant is None else constant)
    return replace(tie, mismatch=largest, mismatch_rms=mean)


def balanced(first: Any, second: Any) -> tuple[SimpleNamespace, float] | None:
    """The first map with its input rescaled, so that the stitching map stretches as much as it shrinks.

    Also the scale, by which the source is divided; None where a map loses directions.
    """
    (low1, high1), (low2, high2) = _ends(first), _ends(second)
    if min(low1, low2) <= 0 or math.isinf(high1 * high2):
        return None
    scale = math.sqrt((low2 / low1) * (high2 / high1))
    return SimpleNamespace(smallest=low1 * scale, largest=high1 * scale), scale


def _of_geometries(first: Any, second: Any) -> Stitching:
    (low1, high1), (low2, high2) = _ends(first), _ends(second)
    return Stitching(
        lowest=_over(low1, high2),
        highest=_over(high1, low2),
        inverse=_over(1.0, low2),
        shrunk=_over(1.0, high2),
        inverse_source=_over(1.0, low1),
        shrunk_source=_over(1.0, high1),
        constants=(max(high1, _over(1.0, low1)), max(high2, _over(1.0, low2))),
        alike=first is second,
        sampled=True,
    )


def _ends(side: Any) -> tuple[float, float]:
    """The extreme singular values over a sample."""
    try:
        low, high = float(np.min(side.smallest)), float(np.max(side.largest))
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            f"a geometry as isorep.decoder.bilipschitz returns it is needed, not {type(side).__name__}; numbers "
            "go in constant= or excess="
        ) from None
    if not 0 <= low <= high:
        raise InputError(f"singular values from {low:g} to {high:g} are no geometry")
    return low, high


def _of_constants(name: str, value: Any) -> Stitching:
    """One number for both decoders, or one for each: constants, or excesses over 1."""
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and np.ndim(value) > 0
    numbers = [_number(each) for each in (value if many else [value, value])]
    if len(numbers) != 2 or any(map(math.isnan, numbers)):
        raise InputError(f"{name} is {value!r} and must be a number, or two of them")
    if name == "excess":
        numbers = [1 + not_negative(name, each) for each in numbers]
    elif min(numbers) < 1:
        raise InputError(
            f"constant is {min(numbers):g} and a bi-Lipschitz constant 1 + L is at least 1: L itself goes in excess="
        )
    first, second = numbers
    both, pair = first * second, (first, second)
    return Stitching(1 / both, both, second, second, first, first, constants=pair, alike=first == second)


def not_negative(name: str, value: Any) -> float:
    """A number from 0 on, infinity included."""
    number = _number(value)
    if not number >= 0:
        raise InputError(f"{name} is {value!r} and must be a number from 0 on")
    return number


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    number = _number(value)
    if not 0 < number < math.inf:
        raise InputError(f"{name} is {value!r} and must be a positive number")
    return number


def _number(value: Any) -> float:
    """The value as a float; NaN, which fails every comparison, if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf
