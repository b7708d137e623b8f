"""Procrustes distance, its dual, the Bures distance, and the mean correlation coefficient (MCC) of matched columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..assignment import best_assignment
from ..representation import Array
from ..settings import check_choice
from ..threads import one_blas_thread
from .cca import cross_source
from .frames import Pair, Side, paired
from .null import PreparedIndex, Similarity, finished, nuclear_norm

GROUPS = ("rotation", "permutation")


@one_blas_thread
def procrustes_distance(
    X: Any,
    Y: Any = None,
    *,
    up_to: str = "rotation",
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Procrustes distance: the angle between two sets of rows, centred, scaled to unit norm and optimally rotated.

    .. math:: \theta=\arccos\frac{\|X_c^\top Y_c\|_*}{\|X_c\|_F\,\|Y_c\|_F}\in[0,\tfrac\pi2]

    A metric, invariant to translation, scale and orthogonal maps; the narrower side counts as padded with zeros.
    ``details`` has the ``cosine``, the ``euclidean`` distance without scaling, and the ``disparity``
    :math:`1-\cos^2\theta`.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone.
    up_to : {"rotation", "permutation"}
        Group that is optimised over: all orthogonal maps (default), or permutations without signs.
    permutations, groups, within, random_state
        As for :func:`cca`.

    References
    ----------
    .. [1] Williams, A. H., Kunz, E., Kornblith, S., Linderman, S. (2021). Generalized shape metrics on neural
           representations. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> isorep.similarity.procrustes_distance(X, 3 * X @ [[0, 1], [1, 0]] + 1).value < 1e-6
    True
    """
    return finished(paired(X, Y), partial(prepare_procrustes, up_to=up_to), permutations, groups, within, random_state)


@one_blas_thread
def bures_distance(
    X: Any, Y: Any = None, *, permutations: int = 0, groups: Any = None, within: Any = None, random_state: int = 0
) -> Similarity:
    r"""Bures distance between the Gram matrices of two sides, centred and scaled to unit trace.

    .. math:: d^2=\operatorname{tr}K+\operatorname{tr}L-2\operatorname{tr}\big(K^{1/2}LK^{1/2}\big)^{1/2},
              \qquad K=\frac{X_cX_c^\top}{\|X_c\|_F^2},\ L=\frac{Y_cY_c^\top}{\|Y_c\|_F^2}

    A metric from 0 to :math:`\sqrt2`, invariant to translation, scale and orthogonal maps. It is the chord of the
    Procrustes angle, :math:`d=2\sin(\theta/2)` with the angle of :func:`procrustes_distance`, so that both order pairs
    alike [1]_.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or their Moments as ``X`` alone.
    permutations, groups, within, random_state
        As for :func:`cca`.

    Returns
    -------
    Similarity
        ``details`` has the normalised Bures ``similarity`` [2]_ and the distance ``unscaled``, of Gram matrices as
        they are.

    References
    ----------
    .. [1] Harvey, S. E., Larsen, B. W., Williams, A. H. (2024). Duality of Bures and shape distances with implications
           for comparing neural representations. UniReps.
    .. [2] Tang, S., Maddox, W. J., Dickens, C., Diethe, T., Damianou, A. (2020). Similarity of neural networks with
           gradients. arXiv:2003.11498.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> isorep.similarity.bures_distance(X, 3 * X @ [[0, 1], [1, 0]] + 1).value < 1e-6
    True
    """
    return finished(paired(X, Y), prepare_bures, permutations, groups, within, random_state)


@one_blas_thread
def mcc(
    X: Any,
    Y: Any = None,
    *,
    correlation: str = "pearson",
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Mean correlation coefficient (MCC) of dimensions matched one to one.

    .. math:: \frac1m\max_{\pi}\sum_{j=1}^{m}|\operatorname{corr}(x_{\pi(j)},y_j)|,\qquad m=\min(d_x,d_y)

    Invariant to permutations, signs and scales of dimensions. Constant columns correlate with nothing.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows, or for Pearson's correlation their Moments as ``X`` alone.
    correlation : {"pearson", "spearman"}
        Correlation of values (default) or of ranks.
    permutations, groups, within, random_state
        As for :func:`cca`.

    Returns
    -------
    Similarity
        ``details`` has the matched pairs of dimensions and their signed ``correlations``.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> round(isorep.similarity.mcc(X, -X[:, [2, 0, 1]]).value, 6)
    1.0
    """
    check_choice("correlation", correlation, ("pearson", "spearman"))
    prepare = partial(prepare_mcc, correlation=correlation)
    return finished(paired(X, Y), prepare, permutations, groups, within, random_state)


def prepare_procrustes(pair: Pair, *, up_to: str = "rotation") -> PreparedIndex:
    """The Procrustes distance of a pair."""
    check_choice("up_to", up_to, GROUPS)
    a, b = pair.x.frame, pair.y.frame
    norms = float(np.sqrt(a.square_norm * b.square_norm))

    def cosine(cross: Array, norm_of: Callable[[Array], float] = nuclear_norm) -> float:
        if up_to == "permutation":
            products = a.root.T @ cross @ b.root
            if a.width != b.width:
                products = np.maximum(products, 0.0)  # padding leaves negative ones unmatched
            overlap = float(products[best_assignment(products)].sum())
        else:
            overlap = norm_of(a.singular_values[:, None] * cross * b.singular_values)
        return min(overlap / norms, 1.0)

    similarity = cosine(pair.cross, lambda weighted: float(np.linalg.svd(weighted, compute_uv=False).sum()))
    euclidean = np.sqrt(max(a.square_norm + b.square_norm - 2 * similarity * norms, 0.0))
    details = {"up_to": up_to, "cosine": similarity, "euclidean": float(euclidean), "disparity": 1.0 - similarity**2}
    return PreparedIndex(
        "procrustes_distance",
        float(np.arccos(similarity)),
        details,
        cross_source(pair),
        lambda cross: float(np.arccos(cosine(cross))),
        higher_is_closer=False,
        best=0.0,
    )


def prepare_bures(pair: Pair) -> PreparedIndex:
    """The Bures distance of a pair, by its duality with the Procrustes distance."""
    dual = prepare_procrustes(pair)
    details = {"similarity": dual.details["cosine"], "unscaled": dual.details["euclidean"]}

    def chord(angle: float) -> float:
        return 2 * float(np.sin(angle / 2))

    return PreparedIndex(
        "bures_distance",
        chord(dual.value),
        details,
        dual.source,
        lambda cross: chord(dual.statistic(cross)),
        higher_is_closer=False,
        best=0.0,
    )


def prepare_mcc(pair: Pair, *, correlation: str = "pearson") -> PreparedIndex:
    """The mean correlation coefficient of a pair."""
    if correlation == "spearman":
        pair = _ranked(pair)

    def matched(cross: Array) -> tuple[Array, Array, Array]:
        correlations = pair.column_correlations(cross)
        rows, columns = best_assignment(np.abs(correlations))
        return rows, columns, correlations[rows, columns]

    def mean(correlations: Array) -> float:
        return min(float(np.abs(correlations).mean()), 1.0)

    rows, columns, correlations = matched(pair.cross)
    details = {"correlation": correlation, "x_dims": rows, "y_dims": columns, "correlations": correlations}
    return PreparedIndex("mcc", mean(correlations), details, cross_source(pair), lambda cross: mean(matched(cross)[2]))


def _ranked(pair: Pair) -> Pair:
    """The same rows with every column replaced by its ranks."""

    def ranked(side: Side) -> Side:
        values = rankdata(np.asarray(side.rows[:], dtype=np.float64), axis=0)
        return Side(values, side.name, side.n)

    x, y = (side.once("ranked", partial(ranked, side)) for side in (pair.x, pair.y))
    return pair.once("ranked", lambda: Pair(x, y))
