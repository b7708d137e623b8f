"""Controls of the ICA rung: a fitted scale per component, leading directions alone, random rotations of whitened rows.

The permutation and the rigid map have a least-squares scale, so they shrink towards the mean where two models disagree.
ICA maps unit variance onto unit variance, and whitening gives directions of hardly any variance the weight of all
others. The controls tell what decides where ICA is worse than a permutation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..alignment.base import (
    AffineMap,
    component_map,
    fitted_scale,
    match_components,
    match_signed,
    padded,
    signed_matrix,
)
from ..comparison.diameter import diameter
from ..comparison.fits import PARTS, FittedICA, UnmixedSide, unmix
from ..moments import Moments, fold_moments, merged_without
from ..representation import Array
from ..resampling import assign_folds, group_codes, haar
from ..rows import Deadline, no_progress

LEADING = 0.99
"""Share of the variance that the leading principal directions of a side hold."""
CONTROLS = {
    "permutation": "permutation, scale per unit",
    "ica": "ICA",
    "one_scale": "ICA, one scale",
    "shrunk": "ICA, scale per component",
    "turned": "turned at random, scale per component",
    "leading": "ICA, leading directions",
    "leading_shrunk": "ICA, leading directions, scale per component",
    "leading_turned": "leading directions turned at random, scale per component",
}
"""Maps by key: what is done to the source's rows. Those turned at random are whitened and not unmixed."""


def ica_controls(source: Array, target: Array, groups: Array | None, seed: int) -> dict[str, Any]:
    """Held-out errors of every control, both ways in diameters of the side mapped onto, and facts about components.

    As in the ladder, rows are scored by ICAs of the two other thirds of the rows, one for each side, and then
    exchanged. Matches and scales come from those two thirds. Leading directions come from all rows of a side.
    """
    rng = np.random.default_rng([seed, 67])
    sides = [np.asarray(side, dtype=np.float64) for side in (source, target)]
    part_of = assign_folds(len(sides[0]), PARTS, group_codes(groups, len(sides[0])), rng)
    axes = [_leading(side) for side in sides]
    narrow = [side @ each for side, each in zip(sides, axes, strict=True)]
    full, leading = (_unmixed(values, part_of, seed, rng) for values in (sides, narrow))
    sizes = [diameter(side).value for side in sides]
    errors: list[dict[str, list[Array]]] = [{key: [] for key in CONTROLS} for _ in (0, 1)]
    for a_fit, b_fit in zip(full.fits(rng), leading.fits(rng), strict=True):
        out = part_of == a_fit.part
        for way in (0, 1):
            here, there = way, 1 - way
            maps = {"permutation": _scaled_permutation(a_fit.moments(way)), **_maps(a_fit, way)}
            inner = _maps(b_fit, way)
            x, y = sides[here][out], sides[there][out]
            for name in ("ica", "shrunk", "turned"):
                key = "leading" if name == "ica" else f"leading_{name}"
                linear = axes[here] @ inner[name].matrix @ axes[there].T
                means = a_fit.moments(way)
                maps[key] = AffineMap(linear, means.source_mean, means.target_mean)
            for key, each in maps.items():
                errors[way][key].append(each.residual_norms(x, y) / sizes[there])
    return {
        "ways": [{key: float(np.concatenate(values).mean()) for key, values in way.items()} for way in errors],
        "components": full.components,
        "gaussian": full.gaussian,
        "leading": [each.shape[1] for each in axes],
        "correlation": full.correlation,
        "leading_correlation": leading.correlation,
    }


@dataclass(frozen=True, eq=False)
class _Fit:
    """ICAs of both sides, of different thirds of the rows, with the moments of both thirds; and the same turned."""

    part: int
    training: Moments
    icas: tuple[FittedICA, FittedICA]
    turned: tuple[FittedICA, FittedICA]

    def moments(self, way: int) -> Moments:
        """From the source, or from the target."""
        return self.training if way == 0 else self.training.swapped()


@dataclass(frozen=True, eq=False)
class _Unmixed:
    """Both sides unmixed on each third of their rows."""

    sides: Sequence[UnmixedSide]
    parts: Sequence[Moments]

    def fits(self, rng: np.random.Generator) -> Iterator[_Fit]:
        """For each third that is scored the two ways to fit the others."""
        for part in range(PARTS):
            first, second = (other for other in range(PARTS) if other != part)
            for a, b in ((first, second), (second, first)):
                icas = self.sides[0].parts[a], self.sides[1].parts[b]
                turned = _turned(icas[0], rng), _turned(icas[1], rng)
                yield _Fit(part, merged_without(self.parts, part), icas, turned)

    @property
    def components(self) -> list[int]:
        """Number of components of each side."""
        return [len(side.whole.components) for side in self.sides]

    @property
    def gaussian(self) -> list[int]:
        """How many of them are indistinguishable from Gaussian, fitted to all rows."""
        return [side.gaussian for side in self.sides]

    @property
    def correlation(self) -> float | None:
        """Median absolute correlation of matched components, by ICAs of different thirds, on these two thirds."""
        fits = list(self.fits(np.random.default_rng(0)))
        matched = [match_components(fit.training, *(ica.components for ica in fit.icas)).correlations for fit in fits]
        every = np.concatenate(matched)
        return float(np.median(every)) if len(every) else None


def _unmixed(sides: Sequence[Array], part_of: Array, seed: int, rng: np.random.Generator) -> _Unmixed:
    with warnings.catch_warnings():  # Gaussian components are counted
        warnings.simplefilter("ignore")
        fitted = unmix(sides, part_of, seed, rng, no_progress, Deadline())
    return _Unmixed(fitted, fold_moments(sides[0], sides[1], part_of, PARTS))


def _leading(side: Array) -> Array:
    """As many principal directions as hold so much of the variance, (columns, k)."""
    variances, axes = np.linalg.eigh(np.cov(side.T).reshape(side.shape[1], -1))
    shares = np.cumsum(variances[::-1]) / max(float(variances.sum()), 1e-300)
    return np.asarray(axes[:, ::-1][:, : int(np.searchsorted(shares, LEADING)) + 1])


def _maps(fit: _Fit, way: int) -> dict[str, AffineMap]:
    """ICA with and without scales, and the whitened rows turned, from one side to the other."""
    moments = fit.moments(way)
    (x, y), turned = (pair if way == 0 else pair[::-1] for pair in (fit.icas, fit.turned))
    match = match_components(moments, x.components, y.components)
    by_chance = match_components(moments, turned[0].components, turned[1].components)
    plain = component_map(moments, x.components, y.mixing, match)
    return {
        "ica": plain,
        "one_scale": replace(plain, scale=_scale(moments, plain.linear)),
        "shrunk": component_map(moments, x.components, y.mixing, match, shrink=True),
        "turned": component_map(moments, turned[0].components, turned[1].mixing, by_chance, shrink=True),
    }


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


def _turned(ica: FittedICA, rng: np.random.Generator) -> FittedICA:
    rotation = haar(len(ica.components), rng)
    return replace(ica, components=rotation @ ica.components, mixing=ica.mixing @ rotation.T)
