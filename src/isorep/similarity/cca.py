"""Canonical correlations: mean CCA, SVCCA, PWCCA, and linear R²."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..settings import check_choice, check_counts
from ..threads import one_blas_thread
from .frames import Pair, paired
from .null import Draws, PreparedIndex, Similarity, Source, cross_draws, finished, nuclear_norm


@one_blas_thread
def cca(
    X: Any, Y: Any = None, *, permutations: int = 0, groups: Any = None, within: Any = None, random_state: int = 0
) -> Similarity:
    r"""Mean canonical correlation.

    .. math:: \frac1r\sum_{i=1}^{r}\rho_i,\qquad \rho=\operatorname{svdvals}(U_X^\top U_Y)

    with :math:`U` orthonormal bases of the centred columns and :math:`r` the smaller of the two numerical ranks.
    Invariant to any invertible linear map of either side.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows; widths may differ. Alternatively, their :class:`~isorep.Moments` as ``X`` alone.
    permutations : int
        Number of shuffled pairings for the null; default 0, no null.
    groups : (n,) array, optional
        Group per row: groups are shuffled as blocks, each with another group of about its size.
    within : (n,) array, optional
        Class per row: rows (or groups) are shuffled within classes only, so that chance includes what the classes
        explain.
    random_state : int
        Seed of the permutations; default 0.

    Returns
    -------
    Similarity
        ``details`` has the canonical ``correlations`` and the mean of their squares.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> round(isorep.similarity.cca(X, X @ [[1.0, 2, 0], [0, 1, 0], [1, 0, 3]]).value, 6)
    1.0
    """
    return finished(paired(X, Y), prepare_cca, permutations, groups, within, random_state)


@one_blas_thread
def svcca(
    X: Any,
    Y: Any = None,
    *,
    variance: float = 0.99,
    components: int | None = None,
    standardise: bool = False,
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Mean canonical correlation of the leading principal components (Raghu et al. 2017).

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone.
    variance : float
        Share of each side's variance that the kept components explain; components that tie with the last one are kept
        too. Default 0.99.
    components : int, optional
        Number of components to keep instead, at most the rank.
    standardise : bool
        Scale every column to unit variance first, as Roeder et al. (2021) do. Default: centre only, as the original.
    permutations, groups, within, random_state
        As for :func:`cca`.

    References
    ----------
    .. [1] Raghu, M. et al. (2017). SVCCA: singular vector canonical correlation analysis. NeurIPS.
    .. [2] Roeder, G. et al. (2021). On linear identifiability of learned representations. ICML.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) * [10, 5, 0.01]
    >>> isorep.similarity.svcca(X, X[:, ::-1]).details["kept"]
    [2, 2]
    """
    prepare = partial(prepare_svcca, variance=variance, components=components, standardise=standardise)
    return finished(paired(X, Y), prepare, permutations, groups, within, random_state)


@one_blas_thread
def pwcca(
    X: Any,
    Y: Any = None,
    *,
    side: str = "x",
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Projection-weighted CCA (Morcos et al. 2018).

    .. math:: \frac{\sum_i\alpha_i\rho_i}{\sum_i\alpha_i},\qquad \alpha_i=\sum_j|\langle h_i,x_j\rangle|

    with :math:`h_i` the canonical variates of the weighting side and :math:`x_j` its centred columns.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone.
    side : {"x", "y"}
        Side whose columns weight the correlations; the index is not symmetric. ``details`` has the other side's value.
    permutations, groups, within, random_state
        As for :func:`cca`.

    References
    ----------
    .. [1] Morcos, A. S., Raghu, M., Bengio, S. (2018). Insights on representational similarity in neural networks with
           canonical correlation. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> round(isorep.similarity.pwcca(X, 2 * X).value, 6)
    1.0
    """
    return finished(paired(X, Y), partial(prepare_pwcca, side=side), permutations, groups, within, random_state)


@one_blas_thread
def linear_r2(
    X: Any, Y: Any = None, *, permutations: int = 0, groups: Any = None, within: Any = None, random_state: int = 0
) -> Similarity:
    r"""Linear R²: the share of the variance of ``Y`` that the best linear map of ``X`` explains, in-sample.

    .. math:: R^2=\frac{\|U_X^\top Y_c\|_F^2}{\|Y_c\|_F^2}

    In-sample, it grows with the width of ``X`` for any data: use the null-corrected value, or the held-out errors
    of :func:`isorep.compare`. ``details["reverse"]`` is the share of ``X`` explained by ``Y``.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone.
    permutations, groups, within, random_state
        As for :func:`cca`.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> round(isorep.similarity.linear_r2(X, X[:, :2]).value, 6)
    1.0
    """
    return finished(paired(X, Y), prepare_linear_r2, permutations, groups, within, random_state)


def prepare_cca(pair: Pair) -> PreparedIndex:
    """Mean CCA of a pair."""
    rho, ranks = _correlations(pair.cross), _ranks(pair)
    details = {"correlations": rho, "mean_squared": float((rho**2).mean()), "ranks": ranks}
    forced = _filled(pair.n, max(ranks), _ALL_ONE)
    return PreparedIndex(
        "cca", float(rho.mean()), details, cross_source(pair), mean_correlation, _meeting(pair.n, *ranks), forced
    )


def prepare_svcca(
    pair: Pair, *, variance: float = 0.99, components: int | None = None, standardise: bool = False
) -> PreparedIndex:
    """SVCCA of a pair."""
    if not (isinstance(variance, float | int) and 0 < variance <= 1):
        raise InputError(f"variance is {variance!r} and must be above 0 and at most 1")
    if components is not None:
        check_counts(components=(components, 1))
    kind = "standard" if standardise else "frame"
    frames = [side.standard_frame if standardise else side.frame for side in (pair.x, pair.y)]
    kept = [each.components_for(variance) if components is None else min(components, each.rank) for each in frames]
    cross = (pair.standard_cross if standardise else pair.cross)[: kept[0], : kept[1]]
    rho = _correlations(cross)

    def source(uniform: bool) -> Draws:
        scores = zip((pair.x.scores(kind), pair.y.scores(kind)), kept, strict=True)
        left, right = (np.ascontiguousarray(each[:, :most]) for each, most in scores)
        return pair.once(("svcca", kind, *kept), lambda: cross_draws(left, right))

    details = {"correlations": rho, "kept": kept, "standardised": bool(standardise)}
    said, forced = _meeting(pair.n, *kept), _filled(pair.n, max(kept), _ALL_ONE)
    return PreparedIndex("svcca", float(rho.mean()), details, source, mean_correlation, said, forced)


def prepare_pwcca(pair: Pair, *, side: str = "x") -> PreparedIndex:
    """PWCCA of a pair."""
    check_choice("side", side, ("x", "y"))
    roots = {"x": pair.x.frame.root, "y": pair.y.frame.root}

    def weighted(cross: Array, by: str) -> float:
        left, rho, right = np.linalg.svd(cross, full_matrices=False)
        directions = left.T if by == "x" else right
        weights = np.abs(directions @ roots[by]).sum(axis=1)
        return float(weights @ np.minimum(rho, 1.0) / weights.sum())

    value, ranks = weighted(pair.cross, side), _ranks(pair)
    details = {"side": side, "other_side": weighted(pair.cross, "y" if side == "x" else "x"), "ranks": ranks}
    said, forced = _meeting(pair.n, *ranks), _filled(pair.n, max(ranks), _ALL_ONE)
    return PreparedIndex("pwcca", value, details, cross_source(pair), partial(weighted, by=side), said, forced)


def prepare_linear_r2(pair: Pair) -> PreparedIndex:
    """The share of variance explained, of a pair."""
    shares = [frame.singular_values**2 / frame.square_norm for frame in (pair.x.frame, pair.y.frame)]

    def explained(cross: Array) -> float:
        return min(float(np.sum(cross**2, axis=0, dtype=np.float64) @ shares[1]), 1.0)

    ranks = _ranks(pair)
    details = {"reverse": min(float(np.sum(pair.cross**2, axis=1) @ shares[0]), 1.0), "ranks": ranks}
    said, forced = _meeting(pair.n, *ranks), _filled(pair.n, ranks[0], "a linear map explains any target")
    return PreparedIndex("linear_r2", explained(pair.cross), details, cross_source(pair), explained, said, forced)


def cross_source(pair: Pair) -> Source:
    """The shared source of shuffled cross products: one product serves all indices."""
    return lambda uniform: pair.once("cross draws", lambda: cross_draws(pair.x.scores(), pair.y.scores()))


def mean_correlation(cross: Array) -> float:
    """The mean canonical correlation under a shuffled pairing."""
    return float(nuclear_norm(cross) / min(cross.shape))


def _correlations(cross: Array) -> Array:
    return np.minimum(np.linalg.svd(cross, compute_uv=False), 1.0)


def _ranks(pair: Pair) -> list[int]:
    return [pair.x.frame.rank, pair.y.frame.rank]


def _meeting(n: int, a: int, b: int) -> tuple[str, ...]:
    """Subspaces of a space that is too small for both intersect: some correlations are 1 for every pairing."""
    forced = a + b - (n - 1)
    if forced <= 0 or max(a, b) >= n - 1:
        return ()
    return (
        f"{n} rows leave {n - 1} dimensions for ranks {a} and {b}: {forced} canonical correlations are 1 for any "
        "pairing",
    )


_ALL_ONE = "all canonical correlations are 1"


def _filled(n: int, rank: int, then: str) -> str:
    """The consequence, for every pairing, of a side that fills all dimensions; empty if it does not."""
    return f"{n} rows leave {n - 1} dimensions, which rank {rank} fills, so that {then}" if rank >= n - 1 else ""
