"""What is measured of two networks, layer by layer from the end: SVCCA, and the ladder held out by document."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...comparison import compare
from ...representation import Array
from ...similarity import svcca
from .networks import States, label
from .presets import Preset

CONTROL_RUNGS = ("rigid", "linear")


def places_of(preset: Preset, counts: tuple[int, int]) -> list[int]:
    """Layers to compare, from the end: as many as both have, and an embedding only with an embedding."""
    most = min(counts) if counts[0] == counts[1] else min(counts) - 1
    return [place for place in (preset.places or range(most + 1)) if 0 <= place <= most]


def compare_layers(
    first: States, second: States, groups: Array, preset: Preset, seed: int, *, control: bool
) -> list[dict[str, Any]]:
    """One entry a layer; a control has the rungs that it is read for."""
    counts = (first.layers, second.layers)
    rungs = tuple(rung for rung in preset.rungs if not control or rung in CONTROL_RUNGS)
    found = []
    for place in places_of(preset, counts):
        x, y = first.at[place], second.at[place]
        found.append(
            {
                "place": place,
                "labels": [label(place, count) for count in counts],
                "svcca": {str(count): _svcca(x, y, count, groups, preset, seed) for count in preset.components},
                "ladder": _ladder(x, y, groups, rungs, preset, seed),
            }
        )
    return found


def _svcca(x: Array, y: Array, components: int, groups: Array, preset: Preset, seed: int) -> dict[str, Any]:
    """As Roeder et al. compute it, every column at unit variance."""
    found = svcca(
        x, y, components=components, standardise=True, permutations=preset.n_null, groups=groups, random_state=seed
    )
    return {"value": found.value, "chance": None if found.null is None else found.null.mean}


def _ladder(
    x: Array, y: Array, groups: Array, rungs: tuple[str, ...], preset: Preset, seed: int
) -> dict[str, dict[str, Any]]:
    """Held-out errors of each rung, in diameters of the target: the mean of both directions."""
    if not rungs:
        return {}
    with warnings.catch_warnings():  # on how well ICA converged and how many rows there are: it is the same everywhere
        warnings.simplefilter("ignore")
        found = compare(
            x,
            y,
            rungs=rungs,
            groups=groups,
            n_null=preset.n_null,
            n_boot=preset.n_boot,
            diameter="auto",
            worst_case=False,
            random_state=seed,
        )
    entries = {}
    for rung in rungs:
        ways = [found.rungs[rung].in_diameters, found.reverse.rungs[rung].in_diameters]
        entries[rung] = {
            "error": float(np.mean([each.held_out.mean for each in ways])),
            "ways": [each.held_out.mean for each in ways],
            "interval": [None if each.interval is None else [each.interval.low, each.interval.high] for each in ways],
            "chance": None if ways[0].null is None else float(np.mean([each.null.mean for each in ways if each.null])),
            "below_null": [each.below_null for each in ways],
        }
    return entries
