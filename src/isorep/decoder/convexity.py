"""Convexity of the latents' support: midpoints of random pairs, and whether samples lie near them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from ..ica import ICA
from ..representation import Array

_ROWS = 1000  # samples used
_PAIRS = 2000  # or five for each sample
_DRAWS = 7  # of each kind of box
_FEW = 3  # Gaussian clouds, and shells
_NOTCHES = 5
_LEAST = 20  # rows below which there is no answer, and values below which a column counts as a grid
_NEAREST = 20  # samples around a midpoint, or a tenth of all
CHANCE = 0.005  # share of midpoints that are remote in a reference
_EXCESS = 2.0  # by which the share must exceed the largest of a reference's draws
_CLEARLY = 2.0  # factor by which a planted notch must lie above the limit, and the samples themselves below it
_BESIDE = 5  # spacings on either side of a gap
_GAP = 0.1  # share of midpoints in gaps of one direction above which there is one
_HARDLY = 1e-4  # of the largest spread: directions that vary less are left out
_BLUR = 0.1  # of the spread: axes are known no better, and samples may crowd on the faces of a box
_UNMIXED = 10  # dimensions up to which ICA looks for the axes of a box


@dataclass(frozen=True)
class Convexity:
    """Convexity probe: distances of midpoints of random pairs from other samples.

    Attributes
    ----------
    share : float
        The share of midpoints that lie farther from the nearest sample than 99% of samples do from theirs.
    ratio : float
        The median distance of a midpoint to the nearest sample over that of a sample to its nearest neighbour.
    solid, hollow : float
        The median of ``ratio`` for samples of the same size and covariance from a Gaussian, whose support is convex,
        and from the surface of an ellipsoid, whose support is not.
        Distances are taken with unit variance in all directions.
    solid_share : float
        The largest ``share`` among the Gaussian samples.
    answer : {"holes", "none seen", "blind"}
    sentence : str
    remote : float
        The share of midpoints that lie farther from samples, in units of the spacing of these samples, than 99.5% of
        midpoints do in a reference with a convex support: the smallest over the references. By chance 0.005.
    limit : float
        The threshold of ``remote``.
    gap : float
        The same share for one direction alone: the largest over the columns and the axes that ICA finds.
    notch, shell : float
        The least ``remote`` of these samples after a notch that removes a quarter of them, and of samples from the
        surface of an ellipsoid: the power of the probe.
    """

    share: float
    ratio: float
    solid: float
    hollow: float
    solid_share: float
    rows: int
    pairs: int
    answer: str
    sentence: str
    remote: float
    limit: float
    gap: float
    notch: float
    shell: float


def convexity(latents: Array, *, random_state: int = 0) -> Convexity | None:
    """Probe the assumption that the latents' support is convex; None where there are too few rows, or no spread.

    A midpoint in a hole lies far from all samples, while these lie as near to each other as elsewhere. So the distance
    of a midpoint to its nearest samples, 20 or a tenth of all, is divided by the same distance of these samples. Where
    samples are sparse, both grow: a box whose samples crowd in the corners does not count as hollow. Chance comes from
    references with a convex support and as many rows. They are boxes, made by shuffling every column, and every axis
    that ICA finds, separately; for columns of few values they are a Gaussian of the same covariance. A direction
    with a gap would make boxes with gaps, so every direction is also probed alone; in one dimension gaps are the only
    holes.

    To measure its power, the same probe is run on these samples after removing a notch, the quarter that lies above the
    median in two directions. If that is not clearly detected, the answer is "blind". Holes smaller than that, or than
    the spacing of samples, are never detected.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> line, angle = rng.uniform(size=(500, 1)), rng.uniform(0, 2 * np.pi, 500)
    >>> isorep.decoder.convexity(line).answer, isorep.decoder.convexity(np.c_[np.cos(angle), np.sin(angle)]).answer
    ('none seen', 'holes')
    """
    rng = np.random.default_rng(random_state)
    n, d = latents.shape
    rows = np.sort(rng.choice(n, _ROWS, replace=False)) if n > _ROWS else np.arange(n)
    values = np.asarray(latents[rows], dtype=np.float64)
    values = np.ldexp(values, -np.frexp(np.abs(values).max(initial=0.0))[1])  # no square vanishes or overflows
    values = values[np.sort(np.unique(values, axis=0, return_index=True)[1])]  # equal rows are no nearest neighbours
    white = _whitening(values - values.mean(0))
    if len(values) < _LEAST or white.shape[1] == 0:
        return None
    cloud = (values - values.mean(0)) @ white
    if len(np.unique(cloud, axis=0)) < _LEAST:  # all but a few rows are equal beside an outlier
        return None
    axes, shape = _axes(cloud), cloud.shape
    solid = [_probed(rng.standard_normal(shape), rng) for _ in range(_FEW)]
    hollow = [_probed(_sphere(shape, rng), rng) for _ in range(_FEW)]
    boxes = [[_probed(box, rng) for box in drawn] for drawn in _boxes(values, white, cloud @ axes.T, axes, rng)]
    own, excess = _probed(cloud, rng), _excess(boxes or [solid])
    remote, limit = excess(own)
    notches = list(_notched(cloud, cloud @ axes.T, rng))
    notch = sorted(excess(_probed(cut, rng))[0] for cut in notches)[1]  # four of five have as many, or more
    shell = sorted(excess(each)[0] for each in hollow)[1]
    gap = _gap(np.concatenate([values, cloud @ axes.T], axis=1) if boxes else values)
    if shape[1] == 1:  # a line has gaps and no other holes
        remote, limit, notch = gap, _GAP, _gap(notches[0])
    clear = remote * _CLEARLY <= limit and notch > _CLEARLY * limit
    answer = "holes" if remote > limit or gap > _GAP else "none seen" if clear else "blind"
    said = {"holes": "holes" if remote > limit else "gap", "blind": "shells" if shell > limit else "blind"}
    if notch > _CLEARLY * limit:
        said["blind"] = "unclear"
    if shape[1] == 1:
        said = {"holes": "gap", "none seen": "line", "blind": "blind line"}
    told = {"remote": remote, "limit": limit, "gap": gap, "notch": notch, "n": len(values), "d": d}
    reference = "boxes with the same marginals" if boxes else "a Gaussian of the same covariance"
    sentence = _READING[said.get(answer, answer)].format(**told, reference=reference)
    full, empty = (float(np.median([each.ratio for each in drawn])) for drawn in (solid, hollow))
    older = (own.share, own.ratio, full, empty, max(each.share for each in solid), len(values), len(own.local))
    return Convexity(*older, answer, sentence, remote, limit, gap, notch, shell)


_READING = {
    "holes": "The latents' support does not look convex: {remote:.1%} of the midpoints of random pairs lie farther "
    "from samples than these lie from each other (in {reference} 0.5%, at most {limit:.1%}).",
    "line": "No gap was detected in the latents' support, which has one direction: {gap:.1%} of the midpoints of "
    "random pairs lie in gaps between samples ({notch:.0%} if the middle third of these samples were missing).",
    "blind line": "Convexity of the latents' support cannot be determined from {n:,} samples along one direction: "
    "{gap:.1%} of the midpoints of random pairs lie in gaps ({notch:.0%} if the middle third were missing).",
    "gap": "The latents' support does not look convex: in one direction {gap:.0%} of the midpoints of random pairs lie "
    "in a gap between samples.",
    "none seen": "No holes were detected in the latents' support: {remote:.1%} of the midpoints of random pairs are "
    "remote (at most {limit:.1%} by chance); a notch that removes a quarter of these samples would be detected.",
    "blind": "Convexity of the latents' support cannot be determined from {n:,} samples in {d} dimensions: neither a "
    "notch that removes a quarter of them nor a hollow cloud would be detected.",
    "unclear": "Convexity of the latents' support cannot be determined: {remote:.1%} of the midpoints of random pairs "
    "are remote, within the range of chance (at most {limit:.1%}) but too many to exclude a notch.",
    "shells": "Convexity of the latents' support cannot be determined from {n:,} samples in {d} dimensions: a hollow "
    "cloud would be detected, but not a notch that removes a quarter of them.",
}


@dataclass(frozen=True)
class _Probe:
    """Midpoints of one cloud: ``local`` distances in units of the spacing there, and the two older summaries."""

    local: Array
    share: float
    ratio: float


def _probed(cloud: Array, rng: np.random.Generator) -> _Probe:
    white = cloud @ _whitening(cloud - cloud.mean(axis=0))  # each by its own rows, as the latents are
    values = white + _BLUR * rng.standard_normal(white.shape)
    n, k = len(values), max(2, min(_NEAREST, len(values) // 10))
    first = rng.integers(n, size=min(_PAIRS, 5 * n))
    second = (first + rng.integers(1, n, size=len(first))) % n
    middle = (values[first] + values[second]) / 2
    own, _ = _nearest(values, values, k + 1)
    far, near = _nearest(values, middle, k + 2)
    far = np.where((near == first[:, None]) | (near == second[:, None]), np.inf, far)  # not the pair itself
    order = np.argsort(far, axis=1, kind="stable")[:, :k]
    far, near = np.take_along_axis(far, order, 1), np.take_along_axis(near, order, 1)
    spacing, usual = np.median(own[near][:, :, k], axis=1), float(np.median(own[:, 1]))
    reach = far[:, -1] + np.linalg.norm(values[near].mean(axis=1) - middle, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        local = np.where(reach > 0, reach / spacing, 0.0)
    share = float((far[:, 0] > np.quantile(own[:, 1], 0.99)).mean())
    return _Probe(local, share, float(np.median(far[:, 0])) / usual if usual > 0 else np.inf)


def _nearest(values: Array, points: Array, k: int) -> tuple[Array, Array]:
    """Distances to the k nearest samples and which these are; a tree serves few dimensions."""
    if values.shape[1] <= 4:
        far, near = cKDTree(values).query(points, k)
    else:
        far, near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(values).kneighbors(points)
    return np.asarray(far), np.asarray(near)


def _excess(references: Sequence[Sequence[_Probe]]) -> Callable[[_Probe], tuple[float, float]]:
    """The share of remote midpoints and its limit, for the reference with the smallest excess."""
    known = []
    for drawn in references:
        threshold = float(np.quantile(np.concatenate([each.local for each in drawn]), 1 - CHANCE))
        most = max(float((each.local > threshold).mean()) for each in drawn)
        known.append((threshold, max(_EXCESS * most, 2 * CHANCE, 15 / len(drawn[0].local))))

    def excess(probe: _Probe) -> tuple[float, float]:
        shares = [(float((probe.local > threshold).mean()), limit) for threshold, limit in known]
        return min(shares, key=lambda each: each[0] - each[1])

    return excess


def _boxes(values: Array, white: Array, sources: Array, axes: Array, rng: np.random.Generator) -> Iterator[list[Array]]:
    """Clouds with the marginals of this one in its columns, and in its axes, each shuffled on its own."""
    levels = [len(np.unique(column)) for column in values.T if np.ptp(column) > 0]
    if len(axes) == 1 or min(levels) < _LEAST:  # a column of few values is full of gaps, and so are its shuffles
        return
    yield [rng.permuted(values, axis=0) @ white for _ in range(_DRAWS)]
    yield [rng.permuted(sources, axis=0) @ np.linalg.pinv(axes).T for _ in range(_DRAWS)]


def _axes(cloud: Array) -> Array:
    """Directions in which the whitened cloud may be a box, as rows: by ICA where possible."""
    rank = cloud.shape[1]
    if not 2 <= rank <= _UNMIXED or len(cloud) < 10 * rank:
        return np.eye(rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        components = np.asarray(ICA(random_state=0).fit(cloud).components_)
    return components if len(components) == rank else np.eye(rank)


def _notched(cloud: Array, sources: Array, rng: np.random.Generator) -> Iterator[Array]:
    """The samples without those above the median in two axes, up or down, or without the middle third in one."""
    if cloud.shape[1] == 1:
        low, high = np.quantile(cloud, (1 / 3, 2 / 3))
        yield from [cloud[(cloud[:, 0] < low) | (cloud[:, 0] > high)]] * _NOTCHES
        return
    for _ in range(_NOTCHES):
        two = sources[:, rng.choice(sources.shape[1], 2, replace=False)] * rng.choice([-1.0, 1.0], 2)
        yield cloud[~(two > np.median(two, axis=0)).all(axis=1)]


def _gap(columns: Array) -> float:
    r"""The largest share of midpoints that lie in gaps of a single column, with samples on both sides.

    Of spacings alike, each is exponential, and exceeds :math:`t` times the mean of :math:`m` others with probability
    :math:`(1+t/m)^{-m}`. A gap exceeds what one spacing in all columns does by chance, once in 500 tries.
    """
    shares = [0.0]
    for column in columns.T:
        reach = float(np.ptp(column))
        if reach <= 1e-9 * float(np.abs(column).max()):
            continue
        ordered = np.unique(np.round(column / reach, 9))
        n, beside = len(ordered), 2 * _BESIDE
        if n < _LEAST:
            continue
        steps = np.diff(ordered)
        wide = np.zeros(n - 1, dtype=bool)
        around = np.lib.stride_tricks.sliding_window_view(steps, beside + 1).sum(axis=1) - steps[_BESIDE:-_BESIDE]
        rare = beside * ((500 * n * columns.shape[1]) ** (1 / beside) - 1)
        wide[_BESIDE:-_BESIDE] = steps[_BESIDE:-_BESIDE] > rare * around / beside
        if wide.any():
            every = max(1, n // 64)
            middle = (ordered[:, None] + ordered[every // 2 :: every]).ravel() / 2
            place = np.clip(np.searchsorted(ordered, middle, side="right") - 1, 0, n - 2)
            between = (middle > ordered[place]) & (middle < ordered[place + 1])
            shares.append(float((wide[place] & between).mean()))
    return max(shares)


def _sphere(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Samples from the surface of a sphere, of unit variance in each direction."""
    normal = rng.standard_normal(shape)
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True) * np.sqrt(shape[1]))


def _whitening(centred: Array) -> Array:
    """Convexity does not depend on units, so directions get unit variance; those that hardly vary are left out."""
    _, values, axes = np.linalg.svd(centred / np.sqrt(len(centred)), full_matrices=False)
    kept = values > _HARDLY * values[0] if values[0] > 0 else np.zeros(len(values), dtype=bool)
    return np.asarray(axes[kept].T / values[kept])
