"""Chords of decoders, mismatch of outputs, errors of rigid motions without a scale (Theorem 1) and sizes of clouds."""

from __future__ import annotations

import math
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import pdist, squareform

from ..alignment import Rigid
from ..alignment.base import Error, summarise
from ..comparison import Comparison, compare
from ..representation import Array, Representation
from ..resampling import assign_folds
from ..results import Record
from ..rows import block_rows, blocks
from .prepare import Latents, prepared


@dataclass(frozen=True)
class Chords:
    """The least and the largest ratio of output distance to latent distance over pairs of rows.

    A decoder whose image folds back on itself has short chords between distant latents: its smallest ratio falls
    below the smallest singular value of its Jacobians. ``shortest`` and ``longest`` are the ratios after allowing for
    the rounding of the outputs. ``meeting`` is, of the pairs whose outputs are as near as neighbours, the one with the
    most distant latents for its chord: distances of the outputs and of the latents. ``collide`` is true if distant
    latents have one output.
    """

    smallest: float
    largest: float
    pairs: int
    shortest: float = 0.0
    longest: float = math.inf
    meeting: tuple[float, float] | None = None
    collide: bool = False


@dataclass(frozen=True)
class Mismatch(Record):
    """Difference of two models' outputs: its largest norm, its root mean square, and the outputs' spread."""

    derived: ClassVar[tuple[str, ...]] = ("share",)
    largest: float
    rms: float
    spread: float

    @property
    def share(self) -> float:
        """The root mean square in units of the outputs' spread."""
        return self.rms / self.spread if self.spread > 0 else (math.inf if self.rms > 0 else 0.0)


def paired_outputs(
    decoders: tuple[Any, Any], sides: tuple[Latents, Latents], rows: Array, device: Any = None
) -> tuple[Array, Array, Mismatch | None]:
    """The outputs of both decoders at some rows, and the mismatch of all paired outputs; None if widths differ."""
    kept: tuple[list[Array], list[Array]] = ([], [])
    moments: tuple[list[Any], list[Any]] = ([], [])
    apart = []
    with ExitStack() as stack:
        ready = [
            stack.enter_context(prepared(decoder, side.rows(slice(0, 2)), side.row_shape, device, side.double))
            for decoder, side in zip(decoders, sides, strict=True)
        ]
        alike = ready[0].outputs == ready[1].outputs
        size = max(1, min(sides[0].n, block_rows(*(each.held for each in ready))))
        for part in blocks(sides[0].n, size):
            pair = [
                each.function(each.tensor(side.rows(part))).cpu().numpy().astype(np.float64)
                for each, side in zip(ready, sides, strict=True)
            ]
            here = rows[(rows >= part.start) & (rows < part.stop)] - part.start
            for block, chosen, known in zip(pair, kept, moments, strict=True):
                chosen.append(block[here])
                known.append((len(block), block.mean(axis=0), float(block.var(axis=0).sum())))
            if alike:
                apart.append(np.linalg.norm(pair[0] - pair[1], axis=1))
    outputs = np.concatenate(kept[0]), np.concatenate(kept[1])
    if not alike:
        return *outputs, None
    norms = np.concatenate(apart)
    spread = math.sqrt((_variance(moments[0]) + _variance(moments[1])) / 2)
    return *outputs, Mismatch(float(norms.max()), float(np.sqrt((norms**2).mean())), spread)


def _variance(moments: list[tuple[int, Array, float]]) -> float:
    """The total variance of rows from the size, mean and total variance of every block of them."""
    sizes, means, within = zip(*moments, strict=True)
    between = ((np.stack(means) - np.average(means, axis=0, weights=sizes)) ** 2).sum(axis=1)
    return float(np.average(within + between, weights=sizes))


_NEIGHBOURS = 3.0  # outputs are as near as neighbours within so many times the usual distance to the nearest one
_DISTANT = 1e-3  # of the latents' diameter


def chords(latents: Array, outputs: Array, eps: float = float(np.finfo(np.float64).eps)) -> Chords:
    """Ratios of output to latent distances over all pairs; equal latents are left out.

    ``eps`` is the relative rounding of the outputs.
    """
    before, after = pdist(latents), pdist(outputs)
    apart = before > 0
    if not apart.any():
        return Chords(0.0, math.inf, 0)
    rounding = 8 * eps * float(np.abs(outputs).max()) * math.sqrt(outputs.shape[1])
    nearest = squareform(after)
    np.fill_diagonal(nearest, np.inf)
    usual = float(np.quantile(nearest.min(axis=1), 0.9))
    before, after = before[apart], after[apart]
    ratio, eased = after / before, (after + rounding) / before
    near = after <= _NEIGHBOURS * usual + rounding
    meeting = None
    if near.any():
        place = np.flatnonzero(near)[int(np.argmin(eased[near]))]
        meeting = (float(after[place]), float(before[place]))
    return Chords(
        float(ratio.min()),
        float(ratio.max()),
        int(apart.sum()),
        shortest=float(eased.min()),
        longest=float(((after - rounding) / before).max()),
        meeting=meeting,
        collide=bool(((after <= rounding) & (before > _DISTANT * before.max())).any()),
    )


@dataclass(frozen=True)
class RigidErrors:
    """Residuals of least-squares rigid motions, held out and in-sample, in units of the target's diameter."""

    held_out: Error
    in_sample: Error


def rigid_errors(x: Array, y: Array, unit: float, folds: int, seed: int) -> RigidErrors:
    """Fit on all rows, and without each fold; no scale is fitted."""
    fold_of = assign_folds(len(x), folds, None, np.random.default_rng(seed))
    residuals = np.empty(len(x))
    for fold in range(folds):
        held = fold_of == fold
        residuals[held] = Rigid(scale=False).fit(x[~held], y[~held]).residuals(x[held], y[held])
    inside = Rigid(scale=False).fit(x, y).residuals(x, y)
    return RigidErrors(summarise(residuals, unit), summarise(inside, unit))


def ladder(x: Array, y: Array, names: tuple[str, str] = ("first", "second"), **settings: Any) -> Comparison:
    """Rigid and linear rungs of :func:`isorep.compare`; its warnings are among its caveats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sides = (Representation(side, name=name) for side, name in zip((x, y), names, strict=True))
        return compare(*sides, rungs=("rigid", "linear"), n_boot=0, **settings)


def relative_sizes(x: Array, y: Array, compared: Comparison) -> dict[str, Any]:
    """The sizes of two clouds that bounds need, in diameters of the second."""
    unit = compared.diameter.value
    return {
        "dimension": (x.shape[1], y.shape[1]),
        "diameter": compared.reverse.diameter.value / unit,
        "target_diameter": 1.0,
        "radii": (rms_radius(x) / unit, rms_radius(y) / unit),
        "spread": quartic_spread(x) / unit,
    }


def rescaled(sizes: dict[str, Any], scale: float) -> dict[str, Any]:
    """The sizes after the source is divided by a scale."""
    source = {key: sizes[key] / scale for key in ("diameter", "spread")}
    return {**sizes, **source, "radii": (sizes["radii"][0] / scale, sizes["radii"][1])}


def rms_radius(rows: Array) -> float:
    """The root mean square distance from the mean."""
    return float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()))


def quartic_spread(rows: Array) -> float:
    r"""The spread :math:`(\mathbb E\|x-x'\|^4)^{1/4}` over all pairs of rows, without going through pairs.

    For centred rows with :math:`a=\|x\|^2` and covariance :math:`\Sigma`,
    :math:`\mathbb E\|x-x'\|^4=2\,\mathbb E a^2+2(\mathbb E a)^2+4\|\Sigma\|_F^2`.
    """
    centred = rows - rows.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    wide = centred.shape[1] > len(centred)
    gram = (centred @ centred.T if wide else centred.T @ centred) / len(centred)  # of the same Frobenius norm
    total = 2 * float((squares**2).mean()) + 2 * float(squares.mean()) ** 2 + 4 * float((gram**2).sum())
    return float(total**0.25)
