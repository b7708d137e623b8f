r"""Representational similarity analysis (RSA): the correlation of two sides' distances between rows, and its ceiling.

Under a permutation of rows the matrix of distances changes its rows and columns and nothing else, so that ranks are
taken once, and every draw of the null is a sum of products (Mantel 1967).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata

from ..errors import InputError
from ..representation import Array, Representation, match_rows
from ..resampling import Null, null_of
from ..results import Record
from ..settings import check_choice
from ..storage import loaded
from ..threads import one_blas_thread
from .frames import Pair, Side, paired
from .null import Draws, PreparedIndex, Similarity, UndefinedIndexError, finished, moved_product, plan

DISTANCES = ("euclidean", "correlation", "cosine")
CORRELATIONS = ("spearman", "pearson")
MOST_ROWS = 10_000  # whose distances are held, in float32


@one_blas_thread
def rsa(
    X: Any,
    Y: Any,
    *,
    distance: str = "euclidean",
    correlation: str = "spearman",
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Representational similarity analysis: the correlation of all distances between rows (Kriegeskorte et al. 2008).

    .. math:: \operatorname{corr}_{i<j}\big(d(x_i,x_j),\,d(y_i,y_j)\big)

    With Euclidean distances invariant to translation, scale and orthogonal maps; with Spearman's correlation also to
    any monotone change of the distances.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, at most 10,000; widths may differ.
    distance : {"euclidean", "correlation", "cosine"}
        Squared Euclidean distance (default); 1 minus the correlation of two rows; or 1 minus their cosine.
    correlation : {"spearman", "pearson"}
        Correlation of the distances: of ranks (default), or of values.
    permutations, groups, within, random_state
        As for :func:`cca`.

    References
    ----------
    .. [1] Kriegeskorte, N., Mur, M., Bandettini, P. (2008). Representational similarity analysis - connecting the
           branches of systems neuroscience. Frontiers in Systems Neuroscience 2.
    .. [2] Mantel, N. (1967). The detection of disease clustering and a generalized regression approach. Cancer Research
           27.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> round(isorep.similarity.rsa(X, 2 * X[:, [1, 2, 0]] + 1).value, 6)
    1.0
    """
    prepare = partial(prepare_rsa, distance=distance, correlation=correlation)
    return finished(paired(X, Y, moments=False), prepare, permutations, groups, within, random_state)


def prepare_rsa(pair: Pair, *, distance: str = "euclidean", correlation: str = "spearman") -> PreparedIndex:
    """RSA of a pair."""
    check_choice("distance", distance, DISTANCES)
    check_choice("correlation", correlation, CORRELATIONS)
    key = ("rsa", distance, correlation)
    left, right = (side.once(key, partial(unit_distances, side, distance, correlation)) for side in (pair.x, pair.y))

    def draw(partners: Array) -> float:
        return _correlation(moved_product(left, right, partners))

    draws = pair.once(key, lambda: Draws(draw, "rows and columns of the distances moved per permutation"))
    value = draw(np.arange(pair.n))
    details = {"distance": distance, "correlation": correlation}
    return PreparedIndex("rsa", value, details, lambda uniform: draws, float)


def unit_distances(side: Side, distance: str, correlation: str) -> Array:
    """The (n, n) distances of a side, or their ranks, about their mean and at unit norm; zero on the diagonal."""
    if side.n > MOST_ROWS:
        raise InputError(
            f"{side.name} has {side.n} rows: RSA holds the distances of all pairs, of at most {MOST_ROWS} rows, so "
            "pass a random part of them"
        )
    rows = np.asarray(side.near_rows[:], dtype=np.float64)
    rows = rows - rows.mean(axis=0) if distance == "euclidean" else _unit(rows, distance, side.name)
    apart = pdist(rows, "sqeuclidean")  # of unit rows twice 1 minus the cosine
    spread = float(np.ptp(apart))
    if not spread > 1e-9 * float(apart.max(initial=0.0)):
        raise UndefinedIndexError(f"all rows of {side.name} are equally far apart: RSA is not defined for it")
    return _standardised(apart, correlation)


def _standardised(apart: Array, correlation: str) -> Array:
    """Distances of all pairs as an (n, n) matrix at unit norm, about their mean or that of their ranks."""
    values = rankdata(apart) if correlation == "spearman" else apart
    values = values - values.mean()
    values /= max(float(np.linalg.norm(values)), 1e-300) * np.sqrt(2)  # each distance occurs twice in the matrix
    matrix = squareform(values)
    return np.asarray(matrix, dtype=np.float32 if len(matrix) > 1000 else np.float64)


def _unit(rows: Array, distance: str, name: str) -> Array:
    if distance == "correlation":
        rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1)
    least = 1e-12 * float(norms.max(initial=0.0))
    if not (norms > least).all():
        what = "is constant over its columns" if distance == "correlation" else "is zero"
        raise InputError(f"row {int(np.argmin(norms))} of {name} {what}: use distance='euclidean'")
    return np.asarray(rows / norms[:, None])


def _correlation(product: float) -> float:
    return float(np.clip(product, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class NoiseCeiling(Record):
    """How similar runs of one model are to each other by RSA, and how near another model comes.

    Attributes
    ----------
    lower, upper : float
        The ceiling: the mean correlation of a run's distances with the mean of the other runs', and with that of all.
    names : tuple of str
        Names of the runs.
    lower_by_run, upper_by_run : tuple of float
    model : float or None
        The mean RSA of the model with every run; None without a model.
    model_by_run : tuple of float
    null : Null or None
        ``model`` with the model's rows shuffled.
    settings : dict
    caveats : tuple of str
    model_name : str
    """

    derived = ("sentence",)
    lower: float
    upper: float
    names: tuple[str, ...]
    lower_by_run: tuple[float, ...]
    upper_by_run: tuple[float, ...]
    model: float | None
    model_by_run: tuple[float, ...]
    null: Null | None
    settings: dict[str, Any]
    caveats: tuple[str, ...] = ()
    model_name: str = "the model"

    @property
    def sentence(self) -> str:
        """The ceiling, and where the model lies."""
        ceiling = f"The noise ceiling of {len(self.names)} runs by RSA is {self.lower:.3f} to {self.upper:.3f}"
        if self.model is None:
            return f"{ceiling}."
        p = "" if self.null is None else f" (chance {self.null.mean:.3f}, p {self.null.p_text})"
        if self.model >= self.lower:
            return f"{ceiling}; {self.model_name} reaches it, with {self.model:.3f}{p}."
        return f"{ceiling}; {self.model_name} lies below, at {self.model:.3f}{p}."

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per run: lower and upper bound, and the model's RSA with it."""
        models = self.model_by_run or (None,) * len(self.names)
        bounds = zip(self.names, self.lower_by_run, self.upper_by_run, models, strict=True)
        return [{"run": name, "lower": low, "upper": high, "model": value} for name, low, high, value in bounds]

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"note: {each}" for each in self.caveats)])


@one_blas_thread
def noise_ceiling(
    runs: Any,
    model: Any = None,
    *,
    distance: str = "euclidean",
    correlation: str = "spearman",
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> NoiseCeiling:
    r"""Noise ceiling of RSA from many runs: the best that any model can reach, given how the runs differ.

    With :math:`r_s` the distances of run :math:`s`, standardised, or their ranks:

    .. math:: \text{upper}=\frac1S\sum_s\operatorname{corr}(r_s,\bar r),\qquad
              \text{lower}=\frac1S\sum_s\operatorname{corr}(r_s,\bar r_{-s})

    The mean of all runs includes run :math:`s`, so that the first overestimates the ceiling; that of the others does
    not, and underestimates it (Nili et al. 2014). Runs are subjects, or trainings that differ by their seed.

    Parameters
    ----------
    runs : list of (n, d) arrays, Representations or paths, or a dict of them by name
        At least two runs of the same rows; widths may differ.
    model : (n, d) array, Representation or path, optional
        What is compared with the ceiling.
    distance, correlation
        As for :func:`rsa`.
    permutations, groups, within, random_state
        As for :func:`cca`; rows of the model are shuffled.

    Returns
    -------
    NoiseCeiling

    References
    ----------
    .. [1] Nili, H. et al. (2014). A toolbox for representational similarity analysis. PLOS Computational Biology 10.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> runs = [X + 0.5 * rng.normal(size=X.shape) for _ in range(4)]
    >>> found = isorep.similarity.noise_ceiling(runs, X)
    >>> bool(found.lower < found.upper), bool(found.model > found.lower)
    (True, True)
    """
    check_choice("distance", distance, DISTANCES)
    check_choice("correlation", correlation, CORRELATIONS)
    read = _read(runs)
    sides = [Side(each.values, str(each.name), len(each)) for each in read]
    pairings = plan(len(read[0]), permutations, groups, within, random_state)
    if permutations and model is None:
        raise InputError("permutations are of the rows of a model, and none was given")
    matrices = [unit_distances(side, distance, correlation) for side in sides]
    total: Array = np.asarray(np.sum(matrices, axis=0, dtype=np.float64))
    upper = [_against(each, total, correlation) for each in matrices]
    lower = [_against(each, total - each, correlation) for each in matrices]
    by_run: list[float] = []
    null = None
    if model is not None:
        other = loaded(model, "the model")
        match_rows(read[0], other)
        side = Side(other.values, str(other.name), len(other))
        own = unit_distances(side, distance, correlation)
        by_run = [_product(own, each) for each in matrices]
        if permutations:
            null = _model_null(own, total / len(matrices), pairings)
    settings = {"distance": distance, "correlation": correlation, "rows": len(read[0]), **pairings.settings}
    caveats = [f"the ceiling is from {len(read)} runs only"] if len(read) < _FEW_RUNS else []
    if permutations:
        caveats += pairings.notes
    return NoiseCeiling(
        float(np.mean(lower)),
        float(np.mean(upper)),
        tuple(side.name for side in sides),
        tuple(lower),
        tuple(upper),
        float(np.mean(by_run)) if by_run else None,
        tuple(by_run),
        null,
        settings,
        tuple(caveats),
        "the model" if model is None else str(other.name),
    )


_FEW_RUNS = 5


def _read(runs: Any) -> list[Representation]:
    single = isinstance(runs, str | Representation) or getattr(runs, "ndim", 3) < 3
    named: Sequence[Any] | Mapping[Any, Any] = [runs] if single else runs
    given = list(named.values()) if isinstance(named, Mapping) else list(named)
    if len(given) < 2:
        raise InputError(f"{len(given) or 'no'} run was given: a noise ceiling needs at least 2")
    names = list(named) if isinstance(named, Mapping) else [f"run {number}" for number in range(1, len(given) + 1)]
    read = [loaded(run, str(name)) for run, name in zip(given, names, strict=True)]
    for other in read[1:]:
        match_rows(read[0], other)
    return read


def _against(mine: Array, mean: Array, correlation: str) -> float:
    """The correlation of one run's distances with a mean of several runs'."""
    apart = squareform(mean, checks=False)
    if correlation == "spearman":  # sums of ranks have many ties, which rounding must not break
        apart = np.round(apart * 8 * np.sqrt(len(apart) ** 3 / 6))
    return _product(mine, _standardised(apart, correlation))


def _product(left: Array, right: Array) -> float:
    """The correlation of two matrices at unit norm."""
    return _correlation(float(np.einsum("ij,ij->", left, right, dtype=np.float64)))


def _model_null(own: Array, mean: Array, pairings: Any) -> Null:
    """The model's mean RSA with its rows shuffled; groups of unequal size are cut, as in every null."""
    shuffles = pairings.shuffles
    rows = shuffles.rows
    place = np.zeros(len(own), dtype=np.intp)
    place[rows] = np.arange(len(rows))
    left, right = (np.ascontiguousarray(each[np.ix_(rows, rows)]) for each in (mean, own))
    statistic: Callable[[Array], float] = partial(moved_product, left, right)
    seeds = np.random.SeedSequence(pairings.random_state).spawn(pairings.permutations)
    draws = [statistic(place[shuffles.draw(np.random.default_rng(seed))]) for seed in seeds]
    return null_of(draws, statistic(np.arange(len(rows))), higher_is_closer=True, distinct=shuffles.distinct)
