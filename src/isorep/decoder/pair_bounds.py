"""All bounds for a pair of decoders, in diameters of the second model's latents."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ..comparison import Comparison
from ..representation import Array
from .bound import Bounds
from .bounds import bounds
from .chords import Chords, Mismatch
from .geometry import Geometry
from .spreads import quartic_spread, rms_radius


def pair_bounds(
    geometries: list[Geometry],
    latents: tuple[Array, Array],
    rows: Array,
    seen: tuple[Chords, Chords],
    apart: Mismatch | None,
    compared: Comparison,
    c_d: float | None,
) -> dict[str, Bounds]:
    """Bounds from the decoders, from chords, from the measured defect; and what mean constants would give."""
    unit = compared.diameter.value
    source = compared.reverse.diameter.value / unit
    x, y = latents
    distances = pdist(x[rows]) / unit
    sizes: dict[str, Any] = {
        "dimension": (x.shape[1], y.shape[1]),
        "diameter": source,
        "target_diameter": 1.0,
        "radii": (rms_radius(x) / unit, rms_radius(y) / unit),
        "spread": quartic_spread(x) / unit,
        "c_d": c_d,
    }
    first, second = geometries
    found = {"equal_outputs": bounds(first, second, **sizes)}
    if apart is not None:
        differ: dict[str, Any] = {"mismatch": apart.largest / unit, "mismatch_rms": apart.rms / unit}
        found["with_mismatch"] = bounds(first, second, **differ, **sizes)
        found["chords"] = bounds(seen[0], seen[1], **differ, **sizes)
    changed = float(np.abs(pdist(y[rows]) / unit - distances).max())
    if compared.worst_case is not None:  # some rows against all
        changed = max(changed, compared.worst_case["rigid"].distortion)
    found["defect"] = bounds(defect=changed / source, **sizes)
    scaled = _scaled(first, second, sizes)
    if scaled is not None:
        found["scaled"] = scaled
    found["mean"] = bounds(*(_averaged(side) for side in geometries), **sizes)
    return found


def _averaged(side: Geometry) -> SimpleNamespace:
    """The means of the extreme singular values in the place of the extremes: no bound follows from them."""
    return SimpleNamespace(smallest=float(np.mean(side.smallest)), largest=float(np.mean(side.largest)))


def _scaled(first: Geometry, second: Geometry, sizes: dict[str, Any]) -> Bounds | None:
    """With one scale free: the stitching map is rescaled to stretch as much as it shrinks."""
    lows, highs = ([float(end(getattr(side, key))) for side in (first, second)] for end, key in _ENDS)
    if min(lows) <= 0:
        return None
    scale = math.sqrt((lows[1] * highs[1]) / (lows[0] * highs[0]))
    balanced = [
        SimpleNamespace(smallest=low / math.sqrt(low * high), largest=high / math.sqrt(low * high))
        for low, high in zip(lows, highs, strict=True)
    ]
    source = {key: sizes[key] / scale for key in ("diameter", "spread")}
    return bounds(*balanced, **{**sizes, **source, "radii": (sizes["radii"][0] / scale, sizes["radii"][1])})


_ENDS = ((np.min, "smallest"), (np.max, "largest"))
