"""What is measured of two representations of the same patches: canonical correlations, the ladder, dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...comparison import compare
from ...comparison.result import Direction
from ...representation import Array
from ...similarity import cca, svcca
from .presets import Preset

RUNGS = ("signed_permutation", "rigid", "linear")


def measure(first: Array, second: Array, preset: Preset, seed: int, ladder: bool = False) -> dict[str, Any]:
    """Two runs on images that neither was trained on.

    Mean CCA is fitted and read on the same images, as published; ``chance`` is the same with images shuffled. Shares
    of variance are held out: maps are fitted without the fold that they are scored on, mean of both directions. With
    ``ladder``, errors in diameters with interval and null, too.
    """
    correlated = cca(first, second, permutations=preset.null, random_state=seed)
    leading = svcca(first, second)
    maps = compare(
        first,
        second,
        rungs=RUNGS,
        n_null=preset.null if ladder else 0,
        n_boot=preset.draws if ladder else 0,
        diameter="bound",
        worst_case=False,
        random_state=seed,
    )
    radii = (maps.target.rms_radius, maps.source.rms_radius)
    directions = (maps.forward, maps.reverse)
    found = {
        "cca": correlated.value,
        "chance": None if correlated.null is None else correlated.null.mean,
        "svcca": leading.value,
        "kept": float(np.mean(leading.details["kept"])),
        "dimension": float(np.mean([effective_dimension(side) for side in (first, second)])),
        "r2": {
            rung: float(np.mean([_share(each, rung, radius) for each, radius in zip(directions, radii, strict=True)]))
            for rung in RUNGS
        },
    }
    return found | ({"ladder": {rung: _rung(maps.forward, rung) for rung in RUNGS}} if ladder else {})


def against(values: Array, reference: Array, share: bool = False) -> dict[str, float]:
    """Mean CCA with a fixed reference; and the share of the variance that a linear map of it explains, held out."""
    found = {"cca": cca(values, reference).value}
    if share:
        maps = compare(values, reference, rungs=("linear",), n_null=0, n_boot=0, diameter="bound", worst_case=False)
        found["r2"] = _share(maps.reverse, "linear", maps.source.rms_radius)
    return found


def effective_dimension(values: Array) -> float:
    r"""The participation ratio :math:`(\sum\lambda)^2/\sum\lambda^2` of the eigenvalues of the covariance."""
    centred = values.astype(np.float64) - values.mean(0, dtype=np.float64)
    covariance = centred.T @ centred
    squares = float((covariance**2).sum())
    return float(np.trace(covariance)) ** 2 / squares if squares > 0 else 0.0


def _share(direction: Direction, rung: str, radius: float) -> float:
    """R², the variance of the target being the square of its radius."""
    found = direction.rungs[rung]
    return 1 - (found.held_out.rms * found.unit / radius) ** 2 if radius > 0 else 0.0


def _rung(direction: Direction, name: str) -> dict[str, Any]:
    found = direction.rungs[name].in_diameters
    return {
        "error": found.held_out.mean,
        "low": None if found.interval is None else found.interval.low,
        "high": None if found.interval is None else found.interval.high,
        "null": None if found.null is None else found.null.mean,
        "below_null": direction.rungs[name].below_null,
    }
