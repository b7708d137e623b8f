"""Controls of the ICA rung: with a fitted scale per component, and against random rotations of whitened rows.

The permutation and the rigid map have a least-squares scale, so they shrink towards the mean where two models disagree.
ICA maps unit variance onto unit variance. Three controls tell what decides where it is worse than a permutation: ICA
with such scales, the permutation with as many scales, and whitened rows turned at random instead of unmixed.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ..alignment.base import (
    AffineMap,
    ComponentMatch,
    component_map,
    fitted_scale,
    match_components,
    match_signed,
    padded,
    signed_matrix,
)
from ..comparison.diameter import diameter
from ..comparison.fits import PARTS, FittedICA, unmix
from ..moments import Moments, fold_moments, merged_without
from ..representation import Array
from ..resampling import assign_folds, group_codes, haar
from ..rows import Deadline, no_progress

CONTROLS = {
    "ica": "ICA",
    "one_scale": "ICA, one scale",
    "shrunk": "ICA, scale per component",
    "turned": "whitened, turned at random, scale per component",
    "permutation": "permutation, scale per unit",
}
"""Maps by key: what is done to the source's rows."""


def ica_controls(source: Array, target: Array, groups: Array | None, seed: int) -> dict[str, Any]:
    """Held-out errors of every control, both ways in diameters of the side mapped onto, and facts about components.

    As in the ladder, rows are scored by ICAs of the two other thirds of the rows, one for each side, and then
    exchanged. Matches and scales come from those two thirds.
    """
    rng = np.random.default_rng([seed, 67])
    source, target = (np.asarray(side, dtype=np.float64) for side in (source, target))
    sizes = diameter(target).value, diameter(source).value
    codes = group_codes(groups, len(source))
    part_of = assign_folds(len(source), PARTS, codes, rng)
    with warnings.catch_warnings():  # Gaussian components are counted below
        warnings.simplefilter("ignore")
        sides = unmix((source, target), part_of, seed, rng, no_progress, Deadline())
    parts = fold_moments(source, target, part_of, PARTS)
    errors: list[dict[str, list[Array]]] = [{key: [] for key in CONTROLS} for _ in (0, 1)]
    matched: list[Array] = []
    for part in range(PARTS):
        training, out = merged_without(parts, part), part_of == part
        first, second = (other for other in range(PARTS) if other != part)
        for a, b in ((first, second), (second, first)):
            icas = sides[0].parts[a], sides[1].parts[b]
            turns = [haar(len(ica.components), rng) for ica in icas]
            turned = [_turned(ica, turn) for ica, turn in zip(icas, turns, strict=True)]
            for way, (moments, x, y) in enumerate(
                ((training, source[out], target[out]), (training.swapped(), target[out], source[out]))
            ):
                here, there = (icas, turned) if way == 0 else (icas[::-1], turned[::-1])
                maps, match = _maps(moments, (here[0], here[1]), (there[0], there[1]))
                for key, each in maps.items():
                    errors[way][key].append(each.residual_norms(x, y) / sizes[way])
            matched.append(match.correlations)
    return {
        "ways": [{key: float(np.concatenate(values).mean()) for key, values in way.items()} for way in errors],
        "components": [len(side.whole.components) for side in sides],
        "gaussian": [side.gaussian for side in sides],
        "correlation": float(np.median(np.concatenate(matched))) if matched else None,
    }


def _maps(
    moments: Moments, icas: tuple[FittedICA, FittedICA], turned: tuple[FittedICA, FittedICA]
) -> tuple[dict[str, AffineMap], ComponentMatch]:
    """Every control's map from the first side to the second, and the match of the independent components."""
    match = match_components(moments, icas[0].components, icas[1].components)
    plain = component_map(moments, icas[0].components, icas[1].mixing, match)
    by_chance = match_components(moments, turned[0].components, turned[1].components)
    return {
        "ica": plain,
        "one_scale": replace(plain, scale=_scale(moments, plain.linear)),
        "shrunk": component_map(moments, icas[0].components, icas[1].mixing, match, shrink=True),
        "turned": component_map(moments, turned[0].components, turned[1].mixing, by_chance, shrink=True),
        "permutation": _scaled_permutation(moments),
    }, match


def _scale(moments: Moments, linear: Array) -> float:
    """The least-squares scale of a map."""
    return fitted_scale(True, float(np.einsum("ij,ij->", linear, moments.xy)), linear.T @ moments.xx @ linear)


def _scaled_permutation(moments: Moments) -> AffineMap:
    """The best signed permutation of units, each with its own least-squares scale."""
    permutation, signs, _ = match_signed(padded(moments.xy))
    linear = signed_matrix(permutation, signs)[: moments.xy.shape[0], : moments.xy.shape[1]]
    squares = np.diagonal(linear.T @ moments.xx @ linear)
    overlap = np.einsum("ij,ij->j", linear, moments.xy)
    scales = np.divide(overlap, squares, out=np.zeros_like(overlap), where=squares > 0)
    return AffineMap(linear * scales, moments.source_mean, moments.target_mean)


def _turned(ica: FittedICA, rotation: Array) -> FittedICA:
    return replace(ica, components=rotation @ ica.components, mixing=ica.mixing @ rotation.T)
