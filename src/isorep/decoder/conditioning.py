"""How firmly ICA holds the components of two models' latents, and the constants of Theorem 2."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..ica import ICA
from ..ica.curvature import curvature, weak_planes
from ..representation import Array
from .lemmas import Theorem2, theorem2

MOST_COMPONENTS = 128
ROWS_PER_COMPONENT = 10


@dataclass(frozen=True)
class IcaSide:
    """One side: the least curvature of the contrast, how many planes may turn, the weakest ones, Gaussian ones."""

    components: int
    gamma: float | None
    exact: bool
    weak: int
    planes: int
    weakest: tuple[tuple[int, int, float], ...]
    gaussian: int


@dataclass(frozen=True)
class Conditioning:
    """Both sides, the constants of Theorem 2 where they exist, and a sentence on what they say."""

    sides: tuple[IcaSide, ...]
    theorem2: Theorem2 | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sides": [asdict(side) for side in self.sides],
            "theorem2": None if self.theorem2 is None else self.theorem2.to_dict(),
            "sentence": self.sentence,
        }


def conditioning(x: Array, y: Array, error: float | None, seed: int) -> Conditioning | None:
    """ICA of both sides and its conditioning; None where there are too few rows, or too many components."""
    d = max(x.shape[1], y.shape[1])
    if min(x.shape[1], y.shape[1]) < 2 or d > MOST_COMPONENTS or len(x) < ROWS_PER_COMPONENT * d:
        return None
    sides = tuple(_side(values, seed) for values in (x, y))
    eigenvalue = min(_least_eigenvalue(values) for values in (x, y))
    gammas = [side.gamma for side in sides if side.gamma is not None]
    if x.shape[1] != y.shape[1] or eigenvalue <= 0 or error is None or len(gammas) < 2:
        why = "widths differ" if x.shape[1] != y.shape[1] else "a covariance is singular"
        return Conditioning(sides, None, f"Theorem 2 has no constants here: {why}.")
    radius = max(float(np.linalg.norm(values - values.mean(axis=0), axis=1).max()) for values in (x, y))
    found = theorem2(error, dimension=d, radius=radius, eigenvalue=eigenvalue, gamma=min(gammas))
    return Conditioning(sides, found, _sentence(found))


def _sentence(found: Theorem2) -> str:
    if math.isinf(found.kappa):
        return "The contrast has a saddle or no curvature in some plane: Theorem 2 promises nothing after ICA."
    said = "vacuous" if found.bound.vacuous else f"{found.bound.value:.3g} in whitened units"
    return f"Theorem 2 with K = {found.linear:.3g} and K' = {found.quadratic:.3g}: after ICA the error is {said}."


def _side(values: Array, seed: int) -> IcaSide:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ica = ICA(random_state=seed).fit(values)
    found = curvature(values, ica)
    k = len(found.planes)
    pairs = weak_planes(found.planes, found.error, ica.gaussian_)
    first, second = np.triu_indices(k, 1)
    order = np.argsort(found.planes[first, second], kind="stable")[:5]
    weakest = tuple((int(first[p]), int(second[p]), float(found.planes[first[p], second[p]])) for p in order)
    gamma = found.smallest if found.smallest is not None else (weakest[0][2] if weakest else None)
    return IcaSide(k, gamma, found.smallest is not None, len(pairs), len(first), weakest, int(ica.gaussian_.sum()))


def _least_eigenvalue(values: Array) -> float:
    centred = values - values.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    if len(singular) < values.shape[1] or singular[-1] <= singular[0] * len(values) * np.finfo(np.float64).eps:
        return 0.0
    return float(singular[-1] ** 2 / len(values))
