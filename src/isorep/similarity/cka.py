"""Centred kernel alignment: linear or Gaussian, as published or debiased."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..settings import check_choice
from .cca import cross_draws
from .cka_null import SKETCH_AXES, KernelSums, debiasing, kernel_norm, prepare_gaussian, sketch
from .frames import Pair, paired
from .null import Draws, Prepared, Similarity, finished

KERNELS = ("linear", "rbf")


def cka(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "linear",
    debiased: bool = False,
    bandwidth: float = 0.5,
    exact: bool = False,
    permutations: int = 0,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
) -> Similarity:
    r"""Centred kernel alignment.

    .. math:: \frac{\operatorname{tr}\tilde K\tilde L}{\sqrt{\operatorname{tr}\tilde K^2\operatorname{tr}\tilde L^2}},
              \qquad\text{linear: }\frac{\|X_c^\top Y_c\|_F^2}{\|X_c^\top X_c\|_F\,\|Y_c^\top Y_c\|_F}

    Invariant to translation, scale and orthogonal maps.

    Parameters
    ----------
    X, Y : (n, d) arrays or Representations
        Paired rows; for the biased linear kernel also their Moments as ``X`` alone.
    kernel : {"linear", "rbf"}
        Products of rows, or a Gaussian of their distances.
    debiased : bool
        Use the unbiased estimate of each term (Song et al. 2012): without it two unrelated wide representations of few
        rows look alike. It may be negative.
    bandwidth : float
        Of the Gaussian kernel, in multiples of the median distance between rows of the same side.
    exact : bool
        Compute every draw of the null from all dimensions. By default a null over all permutations is drawn from the
        leading axes and brought to the exact mean and variance, which are known.
    permutations, groups, within, random_state
        As for :func:`cca`; with groups or classes every draw is exact.

    References
    ----------
    .. [1] Kornblith, S., Norouzi, M., Lee, H., Hinton, G. (2019). Similarity of neural network representations
           revisited. ICML.
    .. [2] Song, L., Smola, A., Gretton, A., Bedo, J., Borgwardt, K. (2012). Feature selection via dependence
           maximization. JMLR 13.
    .. [3] Kazi-Aoual, F., Hitier, S., Sabatier, R., Lebreton, J.-D. (1995). Refined approximations to permutation tests
           for multivariate inference. Computational Statistics & Data Analysis 20.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> round(isorep.similarity.cka(X, 3 * X @ [[0, 1], [1, 0]]).value, 6)
    1.0
    """
    pair = paired(X, Y)
    return finished(
        pair,
        lambda each: prepare_cka(each, kernel=kernel, debiased=debiased, bandwidth=bandwidth, exact=exact),
        permutations,
        groups,
        within,
        random_state,
    )


def prepare_cka(
    pair: Pair, *, kernel: str = "linear", debiased: bool = False, bandwidth: float = 0.5, exact: bool = False
) -> Prepared:
    """CKA of a pair."""
    check_choice("kernel", kernel, KERNELS)
    if not (isinstance(bandwidth, float | int) and bandwidth > 0):
        raise InputError(f"bandwidth is {bandwidth!r} and must be positive")
    if debiased and pair.n < 4:
        raise InputError(f"the debiased estimate needs at least 4 rows, not {pair.n}")
    if kernel == "linear":
        return _linear(pair, debiased, exact)
    return prepare_gaussian(pair, debiased, float(bandwidth), exact)


def _linear(pair: Pair, debiased: bool, exact: bool) -> Prepared:
    a, b = pair.x.frame, pair.y.frame
    weights = (a.singular_values**2, b.singular_values**2)
    radii = (pair.x.square_radii, pair.y.square_radii) if debiased else None
    sums = [
        _linear_sums(frame.singular_values, None if radii is None else radii[place], pair.n)
        for place, frame in enumerate((a, b))
    ]
    norm = kernel_norm(pair, [each.squares for each in sums], [float((w**2).sum()) for w in weights])

    def alignment(cross: Array) -> float:
        return float(weights[0] @ np.square(cross, dtype=np.float64) @ weights[1])

    constant = debiasing(radii, pair.n) if radii is not None else None
    value = alignment(pair.cross)
    if constant is not None and radii is not None:
        value = constant(value, float(radii[0] @ radii[1]))

    def source(uniform: bool) -> Draws:
        if exact or not uniform or min(a.rank, b.rank) <= SKETCH_AXES:
            return pair.once(("linear", debiased), lambda: _ExactLinear(cross_draws(pair), alignment, radii, constant))
        return pair.once(("sketch", debiased), lambda: _linearsketch(pair, debiased, sums))

    return Prepared(
        "cka_debiased" if debiased else "cka",
        value / norm,
        True,
        1.0,
        {"kernel": "linear", "debiased": debiased},
        source,
        lambda drawn: float(drawn) / norm,
    )


def _linear_sums(singular_values: Array, radii: Array | None, n: int) -> KernelSums:
    """Trace, squares and squared diagonal of the centred linear kernel; debiased where the rows' radii are given."""
    squares = float((singular_values**4).sum())
    if radii is None:
        return KernelSums(float((singular_values**2).sum()), squares, float("nan"))
    square = float(radii @ radii)
    return KernelSums(0.0, debiasing((radii, radii), n)(squares, square), 0.0)


@dataclass(eq=False)
class _ExactLinear:
    """The alignment of all dimensions, from the shuffled cross product."""

    cross: Draws
    alignment: Callable[[Array], float]
    radii: tuple[Array, Array] | None
    debias: Callable[[float, float], float] | None
    exact = True
    method = "one product of the factored sides per permutation"

    def draw(self, partners: Array) -> float:
        """The numerator under a shuffled pairing."""
        found = self.alignment(self.cross.draw(partners))
        if self.radii is None or self.debias is None:
            return found
        return self.debias(found, float(self.radii[0] @ self.radii[1][partners]))


def _linearsketch(pair: Pair, debiased: bool, sums: list[KernelSums]) -> Draws:
    n = pair.n
    features = []
    for side in (pair.x, pair.y):
        leading = side.scores()[:, :SKETCH_AXES] * side.frame.singular_values[:SKETCH_AXES]
        features.append(np.ascontiguousarray(leading))
    if not debiased:
        sums = [
            KernelSums(each.trace, each.squares, float(side.square_radii @ side.square_radii))
            for each, side in zip(sums, (pair.x, pair.y), strict=True)
        ]
    return sketch(features[0], features[1], sums[0], sums[1], n, debiased)
