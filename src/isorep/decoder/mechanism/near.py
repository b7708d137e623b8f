r"""Leakage: how far blocks of latents are from independent mechanisms, and near-factors where no blocks are known.

Balanced units: at every sample the columns of a block are replaced by an orthonormal basis :math:`Q_k` of their span,
so that neither units nor the basis inside a block matter. :math:`E_{nk}=\|Q_{n,k}\|^2` is the energy that block k has
in output n. For a chance level, everything is also measured in random bases: latents in which each block is white on
average, rotated by a Haar rotation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.linalg import subspace_angles
from scipy.spatial.distance import squareform

from ...representation import Array
from ...resampling import haar
from ...results import Record
from .views import consecutive

NEAR = 0.05  # mean leakage up to which a decoder is nearly independent; twice as much at 95% of the samples
ROUNDING = 1e-16  # shares of energy below this are shown as 0
BELOW_RANDOM = 0.25  # largest leakage, as a share of that in random bases
LEAKS = {
    "D": "energy in outputs that another block affects more, 0 is disjoint",
    "M": "largest share of a block inside another's support, 0 is disjoint, 1 contained",
    "S": "relative gain in 1-norm sparsity by another basis, 0 if none was found",
    "IMA": "mean squared cosine between blocks, 0 is orthogonal",
    "conformal": "spread of squared singular values at a sample, 0 is conformal",
    "isometric": "spread of squared singular values over all samples, 0 is an isometry up to scale",
}
_CELLS = 20_000_000  # numbers of the Jacobians that leakage is measured at
_WORK = 2e9  # multiplications in random bases
_DRAWS = 20  # random bases
_ROWS = 10_000  # of all Jacobians together that near-factors are searched in
_STEPS, _LEAST_STEPS = 100, 20  # of a search
_SEARCH = 1e9  # multiplications of a search, beyond its least steps
_STARTS = 3  # of a search
_SINGLE = 5  # samples at which near-factors are looked for again
_SPARSE, _SPARSE_DRAWS = 5, 3  # samples and random bases for which sparser bases are looked for
_NOTHING = 0.01  # of the leakage of random axes
_ROTATIONS = 256  # by which outputs are turned for the chance level of a search


def leakage(
    jacobians: Array, blocks: Sequence[Array], noise: float, rng: np.random.Generator
) -> tuple[tuple[Leakage, ...], list[Array]]:
    """Types D, M and S and block orthogonality as shares at every sample and in random bases; and these bases.

    In a random basis (d, d) the first columns are taken for the first block, and so on.
    """
    tangents = Tangents.of(jacobians, noise)
    d = tangents.right.shape[2]
    here, bases, random = _beside_random(tangents, [np.eye(d)[:, block] for block in blocks], rng)
    found = {name: leakage_of(name, "Jacobians", here[name], [each[name] for each in random]) for name in here}
    few = int(max(1, min(_SPARSE, _WORK / (8 * _LEAST_STEPS * tangents.left.shape[1] * d * d))))
    values, drawn = sparser(tangents.first(few), blocks, bases[:_SPARSE_DRAWS], rng)
    found["S"] = leakage_of("S", "sparser bases", values, drawn)
    return tuple(each for name in ("D", "M", "S", "IMA") if (each := found[name]) is not None), bases


def near_factors(jacobians: Array, noise: float, rng: np.random.Generator) -> NearFactors:
    """Factors of the latents that nearly act on disjoint outputs, the same at all samples, in any basis.

    Rows of all Jacobians, in latents that are white on average, are rotated to lie along few axes. Axes that are large
    in the same outputs are clustered. Of the cuts with a small leakage, the one before the largest jump is chosen.
    """
    tangents = Tangents.of(jacobians, noise)
    d = tangents.right.shape[2]
    metric = mean_metric(tangents.right)
    values = np.linalg.eigvalsh(metric)
    if not values[0] > (10 * noise) ** 2 * tangents.left.shape[1] * values[-1] or values[-1] == 0:
        return NearFactors("rank deficient", ())
    white = _inverse_root(metric)
    rows, outputs = _pooled(tangents, white, rng)
    search = Search.of(rows, rng)
    count = search.answer()
    labels = search.labels[count - 1]
    directions = [white @ search.rotation[:, labels == label] for label in range(count)]
    here, _, random = _beside_random(tangents, directions, rng) if count > 1 else ({}, [], [])
    found = leakage_of("D", "Jacobians", here["D"], [each["D"] for each in random]) if here else None
    if found is None or not found.near:
        finer = search.splits[max(1, count - 1)] if d > 1 else None
        turning = _turning(tangents, white, rng) if found is None else None  # else one cut serves most samples
        return NearFactors("one", (d,), found, finer, splits=search.splits, turning=turning)
    chance = Search.of(scrambled(rows, outputs, rng), rng).splits[count - 1]
    angles = _angles(tangents, white, search, labels)
    order = np.argsort([-each.shape[1] for each in directions], kind="stable")
    return NearFactors(
        "found" if _beyond_chance(search.splits[count - 1], chance) else "few outputs",
        search.splits[count - 1].dimensions,
        found,
        search.splits[count] if count < d else None,
        chance.leak,
        float(np.median(angles)),
        float(np.max(angles)),
        tuple(np.linalg.qr(directions[place])[0] for place in order),
        search.splits,
    )


@dataclass(frozen=True)
class Leakage(Record):
    """Leakage: the distance from independence over samples, compared with random bases.

    ``mean``, ``quantile`` (95% of the samples are below) and ``largest`` are over the samples at which it is known;
    ``random`` is the mean over random bases and ``random_least`` that of the best of them, None where a rotation
    has no effect. ``by`` is its source.
    """

    derived: ClassVar[tuple[str, ...]] = ("near", "measure")
    name: str
    by: str
    mean: float
    quantile: float
    largest: float
    samples: int
    random: float | None = None
    random_least: float | None = None
    draws: int = 0

    @property
    def measure(self) -> str:
        """A description, with its direction."""
        return LEAKS.get(self.name, "energy of interactions across blocks, 0 is none")

    @property
    def near(self) -> bool:
        """Whether it is small, in itself and relative to every random basis; never for Types M and S."""
        if self.name in "MS" or self.random is None or self.random_least is None:
            return False
        small = self.mean <= NEAR and self.quantile <= 2 * NEAR
        return small and self.mean <= BELOW_RANDOM * self.random and self.mean < self.random_least


@dataclass(frozen=True)
class Split:
    """One cut of the axes into near-factors: its dimensions, its leakage over all rows, and that of random axes.

    ``own`` is the leakage between the two parts of the factor that this cut divides, as a share of that factor, and
    ``own_random`` that of random axes inside it.
    """

    dimensions: tuple[int, ...]
    leak: float
    random: float
    own: float
    own_random: float

    @property
    def relative(self) -> float:
        """The leakage, in units of that of random axes."""
        return self.leak / self.random if self.random > 0 else 0.0


@dataclass(frozen=True, eq=False)
class NearFactors(Record):
    """Factors that nearly act on disjoint outputs, the same ones at all samples.

    Attributes
    ----------
    state : {"found", "one", "few outputs", "rank deficient"}
        ``few outputs``: a search in rows without structure has hardly more leakage. ``one``: no cut has little leakage.
    dimensions : tuple of int
        Dimensions of the factors, largest first.
    leakage : Leakage or None
        Type D leakage of this cut; with one factor, of the cut that leaks little overall but not at every sample, if
        there is one.
    next_split : Split or None
        The next finer cut; with one factor, that one.
    chance : float or None
        The leakage of the same search where every output's rows are rotated at random.
    angle, largest_angle : float or None
        Angle in degrees between the factors of single samples and these: median and largest.
    subspaces : tuple of arrays (d, k)
        Bases of the factors, in latent coordinates.
    splits : tuple of Split
        Every cut, coarsest first.
    turning : float or None
        With one factor: the share of single samples that have near-factors of their own.
    """

    state: str
    dimensions: tuple[int, ...]
    leakage: Leakage | None = None
    next_split: Split | None = None
    chance: float | None = None
    angle: float | None = None
    largest_angle: float | None = None
    subspaces: tuple[Array, ...] = ()
    splits: tuple[Split, ...] = ()
    turning: float | None = None

    def in_units(self, units: Array) -> NearFactors:
        """The same, found in other units of the latents, in the latents' own."""
        return replace(self, subspaces=tuple(np.linalg.qr(units[:, None] * each)[0] for each in self.subspaces))

    def among(self, kept: Array, d: int) -> NearFactors:
        """The same of some latents, as subspaces of all of them."""
        return replace(self, subspaces=tuple(among(each, kept, d) for each in self.subspaces))


def leakage_of(name: str, by: str, values: Array, drawn: Sequence[Array] = ()) -> Leakage | None:
    """From the values of all samples, NaN where there is none, and those of every random basis."""
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return None
    means = [float(np.nanmean(each)) for each in drawn if not np.isnan(each).all()]
    random = (float(np.mean(means)), min(means), len(means)) if means else (None, None, 0)
    quantile = float(np.quantile(known, 0.95))
    return Leakage(name, by, float(known.mean()), quantile, float(known.max()), len(known), *random)


def among(directions: Array, kept: Array, d: int) -> Array:
    """Directions (kept, k) of some latents as directions (d, k) of all of them."""
    whole = np.zeros((d, directions.shape[1]))
    whole[kept] = directions
    return whole


def as_share(value: float) -> str:
    """A share in per cent with two digits; 0 below the rounding of an energy."""
    return "100%" if value >= 0.995 else f"{100 * value:.2g}%" if value > ROUNDING else "0%"


@dataclass(frozen=True, eq=False)
class Tangents:
    """Jacobians as orthonormal ``left`` (samples, outputs, r) times ``right`` (samples, r, d)."""

    left: Array
    right: Array
    noise: float

    @classmethod
    def of(cls, jacobians: Array, noise: float) -> Tangents:
        """Of the first samples, as many as fit."""
        _, outputs, d = jacobians.shape
        chosen = jacobians[: max(1, _CELLS // (outputs * d))]
        left, right = np.linalg.qr(chosen)
        return cls(left, right, noise)

    def first(self, samples: int) -> Tangents:
        """Those of fewer samples."""
        return Tangents(self.left[:samples], self.right[:samples], self.noise)

    def spans(self, basis: Array) -> Array:
        """An orthonormal basis (samples, r, k) of what some directions (d, k) move; 0 for directions that are lost."""
        left, values, _ = np.linalg.svd(self.right @ basis, full_matrices=False)
        limit = 10 * self.noise * np.sqrt(self.left.shape[1]) * values[:, :1]
        return np.asarray(left * ((values > limit) & (values > 0))[:, None])

    def energies(self, spans: Sequence[Array]) -> Array:
        """The energy (samples, outputs, K) of every block in every output."""
        return np.stack([np.square(self.left @ each).sum(-1) for each in spans], axis=-1)


def _beside_random(
    tangents: Tangents, directions: Sequence[Array], rng: np.random.Generator
) -> tuple[dict[str, Array], list[Array], list[dict[str, Array]]]:
    """The measures of all samples; random bases, with blocks of the same sizes; and theirs, at as many as is quick."""
    samples, outputs, d = tangents.left.shape[0], tangents.left.shape[1], tangents.right.shape[2]
    here = measures(tangents, directions)
    few = tangents.first(int(max(1, min(samples, _WORK / (_DRAWS * outputs * d * d)))))
    blocks = consecutive([each.shape[1] for each in directions])
    bases = random_bases(few, np.concatenate(directions, axis=1), blocks, _DRAWS, rng)
    return here, bases, [measures(few, [basis[:, block] for block in blocks]) for basis in bases]


def measures(tangents: Tangents, directions: Sequence[Array]) -> dict[str, Array]:
    r"""Of every sample, for blocks given by their directions (d, k).

    Type D: :math:`\ell_D=1-\sum_n\max_kE_{nk}/\sum_{nk}E_{nk}`, energy in outputs that another block moves more; 0 is
    disjoint and :math:`1-1/K` the most. Type M: the largest share of a block's energy that lies where another block
    moves, :math:`\sum_na_n\min(1,b_n/\sum_mb_m^2)` for energies a and b that add up to 1; 1 is contained in an even
    support, 0 disjoint. IMA: :math:`\|Q_i^\top Q_j\|_F^2/\min(d_i,d_j)`, mean over pairs of blocks; 0 is orthogonal.
    """
    spans = [tangents.spans(each) for each in directions]
    energies = tangents.energies(spans)
    moved = energies.sum(1)  # (samples, K): the directions that each block moves
    total = moved.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mixed = np.maximum(0.0, 1.0 - energies.max(2).sum(1) / total)
        shares = energies / moved[:, None]
        even = np.minimum(1.0, shares / np.square(shares).sum(1, keepdims=True))
    inside = np.swapaxes(shares, 1, 2) @ even
    inside[:, *np.diag_indices(len(spans))] = -np.inf
    contained = np.where(np.isnan(inside).any((1, 2)), np.nan, inside.max((1, 2)))
    whole = np.concatenate(spans, axis=2)
    member = np.repeat(np.eye(len(spans)), [each.shape[2] for each in spans], axis=0)
    cosines = member.T @ np.square(np.swapaxes(whole, 1, 2) @ whole) @ member
    above = np.triu_indices(len(spans), 1)
    crossing = cosines[:, *above].sum(1)
    most = np.minimum(moved[:, :, None], moved[:, None])[:, *above].sum(1)
    if len(spans) < 2:
        contained = np.zeros(len(total))
    orthogonal = np.where(most > 0, crossing / np.where(most > 0, most, 1.0), 0.0 if len(spans) < 2 else np.nan)
    return {"D": mixed, "M": contained, "IMA": orthogonal}


def sparser(
    tangents: Tangents, blocks: Sequence[Array], bases: Sequence[Array], rng: np.random.Generator
) -> tuple[Array, list[Array]]:
    r"""Type S: by how much another basis of the tangent space is sparser in the 1-norm than the blocks' own, and draws.

    :math:`\ell_S=1-\min_B\|JB\|_1/\|JB_+\|_1` with columns of unit length, :math:`B_+` sparse within the blocks and
    :math:`B` found by rotations of the rows; 0 where nothing sparser than the blocks' own basis was found.
    """
    eye = np.eye(tangents.right.shape[2])
    found, drawn = [], [[] for _ in bases]  # type: ignore[var-annotated]
    for sample in range(len(tangents.left)):
        here = Tangents(tangents.left[sample : sample + 1], tangents.right[sample : sample + 1], tangents.noise)
        whole = here.left[0] @ here.spans(eye)[0]
        own = _aligned(here, [eye[:, block] for block in blocks], rng)
        starts = [_polar(whole.T @ own), *(haar(whole.shape[1], rng) for _ in range(_STARTS - 2))]
        sizes = [np.abs(whole @ concentrated(whole, start)).sum() for start in starts if start.shape == (len(eye),) * 2]
        best = min([np.abs(own).sum(), *sizes])
        turned = consecutive([len(block) for block in blocks])
        for values, basis in zip([found, *drawn], [None, *bases], strict=True):
            other = own if basis is None else _aligned(here, [basis[:, block] for block in turned], rng)
            size = np.abs(other).sum()
            values.append(max(0.0, 1.0 - best / size) if size > 0 else np.nan)
    return np.array(found), [np.array(each) for each in drawn]


def _aligned(here: Tangents, directions: Sequence[Array], rng: np.random.Generator) -> Array:
    """A sparse basis of unit columns within every block, side by side (outputs, d)."""
    parts = []
    for each in directions:
        columns = here.left[0] @ here.spans(each)[0]
        k = columns.shape[1]
        starts = [np.eye(k), *(haar(k, rng) for _ in range(_STARTS - 1 if k > 1 else 0))]
        bases = [columns @ concentrated(columns, start) for start in starts]
        parts.append(min(bases, key=lambda basis: float(np.abs(basis).sum())))
    return np.concatenate(parts, axis=1)


def random_bases(
    tangents: Tangents, basis: Array, blocks: Sequence[Array], draws: int, rng: np.random.Generator
) -> list[Array]:
    """Bases (d, d) of the latents: blocks of a basis, each white on average over the samples, then a Haar rotation."""
    metric = mean_metric(tangents.right @ basis)
    white = np.zeros_like(metric)
    for block in blocks:
        white[np.ix_(block, block)] = _inverse_root(metric[np.ix_(block, block)])
    return [basis @ white @ haar(len(metric), rng) for _ in range(draws)]


def mean_metric(right: Array) -> Array:
    """The mean of :math:`J^\\top J` over samples, each of trace 1: no sample outweighs the others."""
    metrics = np.swapaxes(right, 1, 2) @ right
    traces = np.trace(metrics, axis1=1, axis2=2)
    return np.asarray((metrics / np.where(traces > 0, traces, 1.0)[:, None, None]).mean(0))


def _inverse_root(metric: Array) -> Array:
    values, vectors = np.linalg.eigh(metric)
    values = np.maximum(values, max(1e-24 * float(values[-1]), 1e-200))
    return np.asarray(vectors / np.sqrt(values) @ vectors.T)


def _polar(matrix: Array) -> Array:
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def concentrated(rows: Array, start: Array) -> Array:
    r"""The rotation R in which rows x lie along few axes: a maximum of :math:`\sum_n\sum_i(x_n^\top r_i)^4/\|x_n\|^2`.

    The sum is convex in R, so that the polar factor of its gradient never lowers it. What rows without a direction
    would give, :math:`3R/(d+2)`, is taken from the gradient for speed, as long as the sum does not fall.
    """
    d = rows.shape[1]
    squares = np.square(rows).sum(1)
    kept = rows[squares > 0] if (squares == 0).any() else rows
    inverse = 1 / squares[squares > 0][:, None]
    shift, last, rotation = 3 / (d + 2), -np.inf, start
    steps = int(np.clip(_SEARCH / (4 * len(rows) * d * d), _LEAST_STEPS, _STEPS)) if d > 1 else 0
    for _ in range(steps):
        scores = kept @ rotation
        cubes = scores**3 * inverse
        value = float((cubes * scores).sum())
        if value < last - 1e-12 * abs(last):
            shift = 0.0
        turned = _polar(kept.T @ cubes - shift * rotation)
        moved, rotation, last = float(np.abs(turned - rotation).max()), turned, value
        if moved < 1e-5:
            break
    return rotation


@dataclass(frozen=True, eq=False)
class Search:
    """A rotation of the rows and the clusters of its axes: ``labels`` (d, d), and splits, coarsest first."""

    rotation: Array
    labels: Array
    splits: tuple[Split, ...]

    @classmethod
    def of(cls, rows: Array, rng: np.random.Generator, starts: int = _STARTS) -> Search:
        """The best of some starts."""
        d = rows.shape[1]
        squares = np.square(rows).sum(1)
        inverse = 1 / np.where(squares > 0, squares, 1.0)
        found = [concentrated(rows, start) for start in [np.eye(d), *(haar(d, rng) for _ in range(starts - 1))]]
        rotation = max(found, key=lambda each: float((inverse @ (rows @ each) ** 4).sum()))
        scores, drawn = rows @ rotation, [np.square(rows @ haar(d, rng)) for _ in range(3)]
        energies = np.square(scores)
        together = (energies * inverse[:, None]).T @ energies
        sizes = np.sqrt(np.diag(together))
        apart = np.clip(1 - together / np.outer(sizes, sizes), 0.0, None)
        labels = _cuts(apart)
        splits = []
        for place, each in enumerate(labels):
            own = (0.0, 0.0)
            if place:
                coarse = labels[place - 1]
                parent = coarse == next(label for label in coarse if len(np.unique(each[coarse == label])) > 1)
                axes, halves = scores[:, parent], np.unique(each[parent], return_inverse=True)[1]
                turned = [np.square(axes @ haar(int(parent.sum()), rng)) for _ in drawn]
                own = split_leak(np.square(axes), halves), _mean_leak(turned, halves)
            dimensions = tuple(sorted(np.bincount(each).tolist(), reverse=True))
            splits.append(Split(dimensions, split_leak(energies, each), _mean_leak(drawn, np.sort(each)), *own))
        return cls(rotation, labels, tuple(splits))

    def answer(self) -> int:
        """The number of clusters: of the cuts with a small leakage, the one before the largest jump in leakage."""
        jumps = [0.0, *(each.own / each.own_random if each.own_random > 0 else 1.0 for each in self.splits[1:]), 1.0]
        small = [
            place
            for place, each in enumerate(self.splits)
            if place == 0 or (each.leak <= NEAR and each.relative <= BELOW_RANDOM and jumps[place] <= BELOW_RANDOM)
        ]
        return 1 + max(small, key=lambda place: jumps[place + 1] - jumps[place])


def _cuts(apart: Array) -> Array:
    """The clusters (d, d) of axes at every cut of their tree by average linkage, coarsest first."""
    d = len(apart)
    members = [[axis] for axis in range(d)]
    labels = [np.arange(d)]
    for one, other in linkage(squareform(apart, checks=False), "average")[:, :2].astype(int) if d > 1 else ():
        members.append(members[one] + members[other])
        merged = labels[-1].copy()
        merged[members[-1]] = merged[members[-1][0]]
        labels.append(np.unique(merged, return_inverse=True)[1])
    return np.array(labels[::-1])


def split_leak(energies: Array, labels: Array) -> float:
    """The share of energy (rows, d) outside the cluster that has most of its row."""
    grouped = energies @ (labels[:, None] == np.arange(labels.max() + 1)).astype(float)
    total = float(grouped.sum())
    return max(0.0, 1.0 - float(grouped.max(1).sum()) / total) if total > 0 else 0.0


def _beyond_chance(split: Split, chance: Split) -> bool:
    """Whether a search in rows without structure has leakage, and at least twice as much."""
    return chance.relative > _NOTHING and split.relative <= chance.relative / 2


def _mean_leak(drawn: Sequence[Array], labels: Array) -> float:
    return float(np.mean([split_leak(each, labels) for each in drawn]))


def scrambled(rows: Array, outputs: Array, rng: np.random.Generator) -> Array:
    """The rows with each output's rotated separately, white again: rows without structure, for the chance level."""
    turned = rows.copy()
    own = rng.permutation(outputs.max() + 1)[outputs] % _ROTATIONS
    for place in np.unique(own):
        turned[own == place] = rows[own == place] @ haar(rows.shape[1], rng)
    return np.asarray(turned @ _inverse_root(turned.T @ turned))


def _pooled(tangents: Tangents, white: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows of all samples in white latents with their outputs; drawn by their energy where they are many."""
    samples, outputs, _ = tangents.left.shape
    traces = np.sqrt(np.square(tangents.right).sum((1, 2)))
    scale = np.where(traces > 0, traces, 1.0)[:, None, None] * np.sqrt(samples)
    rows = (tangents.left @ (tangents.right @ white / scale)).reshape(samples * outputs, -1)
    places = np.tile(np.arange(outputs), samples)
    if len(rows) <= _ROWS:
        return rows, places
    squares = np.square(rows).sum(1)
    chosen = rng.choice(len(rows), _ROWS, p=squares / squares.sum())
    return rows[chosen] / np.sqrt(squares[chosen] * _ROWS / rows.shape[1])[:, None], places[chosen]


def _angles(tangents: Tangents, white: Array, search: Search, labels: Array) -> list[float]:
    """Angle in degrees between the factors of single samples and those of all."""
    angles = []
    for sample in range(min(len(tangents.left), 2 * _SINGLE)):
        rows = tangents.left[sample] @ tangents.right[sample] @ white
        own = _inverse_root(rows.T @ rows)
        turned = own @ concentrated(rows @ own, _polar(np.linalg.solve(own, search.rotation)))
        angles += [
            float(np.degrees(subspace_angles(turned[:, labels == label], search.rotation[:, labels == label]).max()))
            for label in range(labels.max() + 1)
        ]
    return angles


def _turning(tangents: Tangents, white: Array, rng: np.random.Generator) -> float | None:
    """The share of single samples that have near-factors, where all together have none."""
    samples = min(len(tangents.left), _SINGLE)
    if samples < 2 or white.shape[0] < 2:
        return None
    seen = []
    for sample in range(samples):
        rows = tangents.left[sample] @ tangents.right[sample] @ white
        rows = rows @ _inverse_root(rows.T @ rows)
        search = Search.of(rows, rng, 2)
        count = search.answer()
        if count > 1:
            chance = Search.of(scrambled(rows, np.arange(len(rows)), rng), rng, 2).splits[count - 1]
        seen.append(count > 1 and _beyond_chance(search.splits[count - 1], chance))
    return float(np.mean(seen))
