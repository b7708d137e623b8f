"""The rungs of Table 1 for one pair: in sample as published, and held out with intervals and chance."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...comparison import compare
from ...representation import Array, Representation
from .presets import Preset

RUNGS = ("signed_permutation", "rigid", "linear", "ica")
_BLOCK = 2**14


def measure(source: Any, target: Any, groups: Array | None, preset: Preset, seed: int) -> dict[str, Any]:
    """Both directions, errors in diameters of the target."""
    with warnings.catch_warnings():  # on few rows and on ICA: both are among the caveats
        warnings.simplefilter("ignore")
        found = compare(
            source,
            target,
            rungs=RUNGS,
            groups=groups,
            n_null=preset.n_null,
            n_boot=preset.n_boot,
            worst_case=False,
            random_state=seed,
        )
    return {
        "rows": found.settings["rows_used"],
        "groups": found.settings["groups"],
        "columns": [found.source.columns, found.target.columns],
        "ranks": [found.source.rank, found.target.rank],
        "ways": [_way(each) for each in (found.forward, found.reverse)],
        "caveats": list(found.caveats),
    }


def fewer_rows(
    source: Representation, target: Representation, groups: Array | None, most: int, seed: int
) -> tuple[Representation, Representation, Array | None]:
    """At most so many rows of both, drawn at random, in their order."""
    count = len(source)
    if count <= most or len(target) != count:  # unequal lengths are for the comparison to refuse
        return source, target, groups
    chosen = np.sort(np.random.default_rng([seed, 61]).permutation(count)[:most])
    taken = [
        Representation(_taken(each.values, chosen), None if each.ids is None else each.ids[chosen], each.name)
        for each in (source, target)
    ]
    if groups is not None and len(groups) == count:
        groups = np.asarray(groups)[chosen]
    return taken[0], taken[1], groups


def _taken(values: Any, chosen: Array) -> Array:
    """Some rows of an array, or of what gives slices of one."""
    if isinstance(values, np.ndarray):
        return np.asarray(values[chosen])
    parts = []
    for start in range(0, int(chosen[-1]) + 1, _BLOCK):
        inside = chosen[(chosen >= start) & (chosen < start + _BLOCK)]
        if len(inside):
            parts.append(np.asarray(values[start : start + _BLOCK])[inside - start])
    return np.concatenate(parts)


def _way(direction: Any) -> dict[str, Any]:
    return {
        "rungs": {
            name: {
                "in_sample": rung.in_sample.mean,
                "held_out": rung.held_out.mean,
                "interval": _ends(rung.interval),
                "excess": _ends(rung.over_linear),
                "chance": None if rung.null is None else rung.null.mean,
                "below_null": rung.below_null,
            }
            for name, rung in ((name, each.in_diameters) for name, each in direction.rungs.items())
        },
        "baseline": direction.baseline,
        "efficiency": direction.ica_efficiency,
        "efficiency_in_sample": direction.ica_efficiency_in_sample,
        "verdict": direction.verdict.rung,
    }


def _ends(interval: Any) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
