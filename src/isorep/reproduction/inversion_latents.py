"""Known latents and what is observed of them: spheres, boxes, Gaussians and segments, mixed by invertible networks.

Each world has one law of latents and one of positive pairs (or of an auxiliary variable), and can break one assumption
at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, gennorm, norm

from ..datasets import Sprites
from ..representation import Array

WORLDS = ("sphere", "box", "normal", "clusters", "segments")
BROKEN = ("marginal", "conditional", "concentration", "dimension", "dependence")
CORRELATION = 0.6
"""Of any two latents, where they depend on each other."""
SPREAD = 4.0
"""Ratio of the widest to the narrowest conditional over latents, where concentrations differ."""
_SEGMENT_WIDTHS = (0.15, 1.5)  # least and largest standard deviation of a latent in a segment
_SLOPE = 0.2  # of the mixing's LeakyReLU below zero
_DRAWS = 200  # weight matrices of which the best-conditioned is taken
_GRID = 4001  # places of the inverse distribution function of an angle


@dataclass(frozen=True)
class Drawn:
    """Latents of rows, those of their positive partners, and the auxiliary variable; None where a world has none."""

    latents: Array
    partners: Array | None = None
    labels: Array | None = None


class World:
    """A law of latents that can be drawn from again: what is fixed once, such as clusters, depends on the seed.

    Parameters
    ----------
    name : str
        One of ``WORLDS``.
    dimension : int
        Number of latents.
    broken : str
        The assumption that does not hold, one of ``BROKEN``, or empty.
    sharpness : float
        How close partners are: the concentration of the sphere, one over the scale in the box, the correlation of
        Gaussians.
    labels : int
        Clusters or segments.
    """

    def __init__(self, name: str, dimension: int, broken: str, sharpness: float, labels: int, seed: int) -> None:
        self.name, self.dimension, self.broken, self.sharpness, self.labels = name, dimension, broken, sharpness, labels
        rng = np.random.default_rng([seed, 53])
        uneven = broken == "concentration"
        self._widths = np.geomspace(1 / SPREAD, 1.0, dimension) * SPREAD**0.5 if uneven else np.ones(dimension)
        self._factor = np.linalg.cholesky(_correlation(dimension, CORRELATION * (broken == "dependence")))
        self._centres = self._on_sphere(labels, rng) if name == "clusters" else np.zeros((0, dimension))
        self._means = rng.uniform(-1.0, 1.0, (labels, dimension))
        low, high = _SEGMENT_WIDTHS
        widths = np.exp(rng.uniform(np.log(low), np.log(high), (labels, dimension)))
        self._spreads = np.full_like(widths, 0.5) if uneven else widths

    def draw(self, rows: int, rng: np.random.Generator) -> Drawn:
        """So many rows, independent of earlier ones."""
        drawn: Drawn = getattr(self, f"_{self.name}")(rows, rng)
        return drawn

    def _sphere(self, rows: int, rng: np.random.Generator) -> Drawn:
        latents = self._on_sphere(rows, rng)
        return Drawn(latents, self._around(latents, rng))

    def _clusters(self, rows: int, rng: np.random.Generator) -> Drawn:
        labels = rng.integers(0, self.labels, rows)
        return Drawn(self._around(self._centres[labels], rng), None, labels)

    def _box(self, rows: int, rng: np.random.Generator) -> Drawn:
        shares = norm.cdf(self._gaussian(rows, rng))
        latents = 2 * (beta.ppf(shares, 4, 4) if self.broken == "marginal" else shares) - 1
        power = 2.0 if self.broken == "conditional" else 1.0
        scale = self._widths * 2 / self.sharpness * (1.0 if power == 1 else np.sqrt(2.0))
        return Drawn(latents, _truncated(latents, gennorm(power, scale=scale), 1.0, rng))

    def _normal(self, rows: int, rng: np.random.Generator) -> Drawn:
        if self.broken == "marginal":
            end = np.sqrt(3.0)
            latents = rng.uniform(-end, end, (rows, self.dimension))
            return Drawn(latents, _truncated(latents, norm(scale=np.sqrt(1 - self.sharpness**2)), end, rng))
        latents = self._gaussian(rows, rng)
        noise = self._gaussian(rows, rng)
        if self.broken == "conditional":
            noise = rng.laplace(scale=1 / np.sqrt(2.0), size=latents.shape)
        kept = np.power(self.sharpness, self._widths**2)
        return Drawn(latents, kept * latents + np.sqrt(1 - kept**2) * noise)

    def _segments(self, rows: int, rng: np.random.Generator) -> Drawn:
        labels = rng.integers(0, self.labels, rows)
        inner = self._gaussian(rows, rng)
        if self.broken == "marginal":
            inner = rng.laplace(scale=1 / np.sqrt(2.0), size=inner.shape)
        latents = self._means[labels] + self._spreads[labels] * inner
        told = rng.permutation(labels) if self.broken == "conditional" else labels
        return Drawn(latents, None, told)

    def _gaussian(self, rows: int, rng: np.random.Generator) -> Array:
        return np.asarray(rng.normal(size=(rows, self.dimension)) @ self._factor.T)

    def _on_sphere(self, rows: int, rng: np.random.Generator) -> Array:
        raw = self._gaussian(rows, rng)
        if self.broken == "marginal":
            raw[:, 0] += 1.5
        return _unit(raw)

    def _around(self, latents: Array, rng: np.random.Generator) -> Array:
        """Partners on the sphere: von Mises and Fisher's law, or normalised noise where that is the broken part."""
        noise = rng.normal(size=latents.shape)
        if self.broken in ("conditional", "concentration"):
            if self.broken == "conditional":
                noise = rng.laplace(scale=1 / np.sqrt(2.0), size=latents.shape)
            return _unit(latents + self._widths * noise / np.sqrt(self.sharpness))
        cosines = _cosines(len(latents), self.dimension, self.sharpness, rng)[:, None]
        across = _unit(noise - (noise * latents).sum(1, keepdims=True) * latents)
        return np.asarray(cosines * latents + np.sqrt(np.maximum(1 - cosines**2, 0.0)) * across)


def _cosines(rows: int, dimension: int, concentration: float, rng: np.random.Generator) -> Array:
    r"""Cosines of angles to the centre under von Mises and Fisher's law, :math:`e^{\kappa w}(1-w^2)^{(d-3)/2}`.

    By the angle, whose density is bounded in every dimension from two on.
    """
    angles = np.linspace(0.0, np.pi, _GRID)
    weights = np.exp(concentration * (np.cos(angles) - 1)) * np.sin(angles) ** (dimension - 2)
    shares = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    return np.asarray(np.cos(np.interp(rng.uniform(size=rows), shares / shares[-1], angles)))


def _truncated(centres: Array, law: Any, end: float, rng: np.random.Generator) -> Array:
    """Draws of a law around each centre, within [-end, end]."""
    low, high = law.cdf(-end - centres), law.cdf(end - centres)
    return np.asarray(np.clip(centres + law.ppf(low + rng.uniform(size=centres.shape) * (high - low)), -end, end))


def _correlation(dimension: int, value: float) -> Array:
    return (1 - value) * np.eye(dimension) + value


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


class Mixing:
    r"""An invertible network: square layers with LeakyReLU between them, on latents of unit variance.

    .. math:: g(u)=W_L\,\phi(W_{L-1}\cdots\phi(W_1u+b_1)\cdots+b_{L-1})+b_L

    Every :math:`W` has unit columns and is the best conditioned of 200 draws. ``centre`` and ``scale`` bring the
    latents to unit variance.
    """

    def __init__(self, dimension: int, layers: int, centre: Array, scale: float, seed: int) -> None:
        rng = np.random.default_rng([seed, 59])
        self._centre, self._scale = centre, scale
        self._weights = [_conditioned(dimension, rng) for _ in range(layers)]
        self._biases = rng.normal(scale=0.3, size=(layers, dimension))

    def __call__(self, latents: Array) -> Array:
        """What is observed of each row of latents."""
        values = (latents - self._centre) / self._scale
        for place, (weights, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            if place:
                values = np.where(values > 0, values, _SLOPE * values)
            values = values @ weights + bias
        return np.asarray(values)


def _conditioned(dimension: int, rng: np.random.Generator) -> Array:
    draws = rng.normal(size=(_DRAWS, dimension, dimension))
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    return np.asarray(draws[np.argmin(np.linalg.cond(draws))])


class Rendering:
    """Images of a square whose size and position are three latents, flat.

    Latents without bounds are first brought to (-1, 1), each by the distribution function of a standard normal law.
    """

    def __init__(self, world: World, pixels: int) -> None:
        self._scene = Sprites(size=pixels)
        self._bounded = world.name in ("sphere", "box", "clusters")

    def __call__(self, latents: Array) -> Array:
        """What is observed of each row of latents."""
        shares = (latents + 1) / 2 if self._bounded else norm.cdf(latents)
        nothing = np.zeros(len(latents))
        factors = np.column_stack([nothing, 0.5 + shares[:, 0] / 2, nothing, shares[:, 1], shares[:, 2]])
        return np.asarray(self._scene.render(factors).reshape(len(latents), -1), dtype=np.float64)
