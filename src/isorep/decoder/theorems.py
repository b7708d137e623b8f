r"""Theorems 2 and 3, whitening, and ICA under perturbation: from linear to rigid to signed permutation.

Constants of this file are correct but, except for toy data, very loose: :math:`\Delta^2/\lambda\ge d` always, as
:math:`\operatorname{tr}\Sigma\le\Delta^2`. Use them for diagnosis only.

Conditioning of ICA on two models' latents, and the constants of Theorem 2.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..ica import ICA
from ..ica.curvature import curvature, weak_planes
from ..representation import Array
from ..results import Record
from ..settings import check_choice, check_counts
from .bound import MEASURED, NOT_TESTED, Assumption, Bound, Bounds
from .near_isometry import EQUAL, bounds
from .stitching import not_negative, positive

GROUPS = {"rigid": 1.0, "signed_permutation": 1.0, "linear": math.inf}


def whitening_constant(radius: float, eigenvalue: float, *, singular_values: tuple[float, float] = (1.0, 1.0)) -> float:
    r"""Amplification of an error by symmetric whitening: :math:`K_w=\lambda^{-1/2}(1+\Delta^2/\lambda)` (Lemma A.5).

    For zero-mean :math:`x,y` with :math:`\|x-y\|\le\epsilon`, :math:`\|x\|,\|y\|\le\Delta` and covariances whose
    eigenvalues are at least :math:`\lambda`: :math:`\|\Sigma_x-\Sigma_y\|\le2\Delta\epsilon`, the square root is
    :math:`1/(2\sqrt\lambda)`-Lipschitz, hence :math:`\|W_xx-W_yy\|\le K_w\epsilon`.

    Parameters
    ----------
    radius : float
        :math:`\Delta`, the largest norm of a centred row of either side.
    eigenvalue : float
        :math:`\lambda`, the smallest eigenvalue of either covariance.
    singular_values : pair of float
        The least and the largest of the linear map :math:`A` in :math:`\|f-Af'\|\le\epsilon` (Lemma A.6); whitening
        then leaves a rotation, with :math:`\tilde\lambda=\min(1,\sigma_{\min}^2)\lambda` and
        :math:`\tilde\Delta=\max(1,\sigma_{\max})\Delta`. Default: a rigid map.

    Examples
    --------
    >>> from isorep.decoder import whitening_constant
    >>> whitening_constant(2.0, 1.0)
    5.0
    """
    size, least = _reduced(radius, eigenvalue, singular_values)
    return float((1 + size**2 / least) / math.sqrt(least))


def ica_constant(gamma: float, radius: float, dimension: int, *, contrast: str = "logcosh") -> float:
    r"""Rotation of ICA per shift of whitened rows: :math:`\kappa=(C_2B+\sqrt d\,C_1)/\gamma` (Lemma A.8).

    ``gamma`` is the least eigenvalue of the Hessian of the contrast at the optimum, ``radius`` :math:`B` bounds the
    whitened rows, and :math:`|G'|\le C_1`, :math:`|G''|\le C_2`. Infinite at a saddle.

    Examples
    --------
    >>> from isorep.decoder import ica_constant
    >>> ica_constant(0.5, 4.0, 4)
    12.0
    """
    steepest, bend = _slopes(contrast, positive("radius", radius))
    check_counts(dimension=(dimension, 1))
    if math.isnan(gamma):
        raise InputError("gamma is not a number")
    return (bend * radius + math.sqrt(dimension) * steepest) / float(gamma) if gamma > 0 else math.inf


@dataclass(frozen=True)
class Theorem2(Record):
    r"""The constants of Theorem 2: an error :math:`\epsilon` becomes :math:`K\epsilon+K'\epsilon^2` after ICA.

    ``whitening`` is :math:`K_w`, ``kappa`` :math:`\kappa`, ``radius`` :math:`B=\tilde\Delta/\sqrt{\tilde\lambda}`,
    ``linear`` :math:`K=K_w(1+\kappa B)` and ``quadratic`` :math:`K'=\kappa K_w^2`. ``error`` is the error before,
    ``bound`` the one after, in whitened coordinates of unit variance.
    """

    whitening: float
    kappa: float
    radius: float
    linear: float
    quadratic: float
    error: float
    bound: Bound


def theorem2(
    error: float,
    *,
    dimension: int,
    radius: float,
    eigenvalue: float,
    gamma: float,
    contrast: str = "logcosh",
    singular_values: tuple[float, float] = (1.0, 1.0),
) -> Theorem2:
    r"""Bound the error after whitening and ICA, given the error up to a linear or rigid map (Theorem 2).

    .. math:: \epsilon'=K\epsilon+K'\epsilon^2,\qquad K=K_w(1+\kappa B),\quad K'=\kappa K_w^2,\quad
              B=\tilde\Delta/\sqrt{\tilde\lambda}

    Parameters
    ----------
    error : float
        The largest error :math:`\epsilon` of the linear or rigid map, in the units of the representation.
    dimension : int
        Number of components.
    radius, eigenvalue, singular_values
        As for :func:`whitening_constant`.
    gamma : float
        As for :func:`ica_constant`.
    contrast : {"logcosh", "exp", "cube"}
        Contrast of the ICA.

    Examples
    --------
    >>> from isorep.decoder import theorem2
    >>> found = theorem2(1e-3, dimension=2, radius=2.0, eigenvalue=0.5, gamma=0.3)
    >>> round(found.linear), found.bound.vacuous
    (522, False)
    """
    epsilon = not_negative("error", error)
    whitening = whitening_constant(radius, eigenvalue, singular_values=singular_values)
    size, least = _reduced(radius, eigenvalue, singular_values)
    ball = size / math.sqrt(least)
    kappa = ica_constant(gamma, ball, dimension, contrast=contrast)
    linear, quadratic = whitening * (1 + kappa * ball), kappa * whitening**2
    value = linear * epsilon + quadratic * epsilon * epsilon if epsilon > 0 else 0.0
    rests = (
        Assumption("rows are bounded and covariances bounded away from singular ones", MEASURED),
        Assumption("whitening is symmetric", NOT_TESTED),
        Assumption("the curvature gamma holds along the way from one run to the other", NOT_TESTED),
        Assumption("ICA follows the same optimum in both runs", NOT_TESTED),
    )
    said = f"In whitened coordinates, with K = {linear:.4g} and K' = {quadratic:.4g}."
    bound = Bound("theorem_2", "sup", value, 2 * ball, "K ε + K' ε²", said, rests)
    return Theorem2(whitening, kappa, ball, linear, quadratic, epsilon, bound)


def theorem3(
    *,
    process: float | None = None,
    model: float | None = None,
    process_excess: float | None = None,
    model_excess: float | None = None,
    **sizes: Any,
) -> Bounds:
    r"""Bound the error between latents and true factors of a bi-Lipschitz process, up to a rigid motion (Theorem 3).

    A process :math:`x=g(u)` with constant :math:`1+\delta` and a decoder with :math:`1+L` that reconstruct the same
    data are tied by :math:`g^{-1}\circ g_\theta`, whose constant is the product :math:`(1+\delta)(1+L)`. The theorem
    as printed uses the square of the larger one; ``theorem_3_as_printed`` is that bound.

    Parameters
    ----------
    process, model : float
        The constants :math:`1+\delta` and :math:`1+L`.
    process_excess, model_excess : float
        The excesses :math:`\delta` and :math:`L`, instead of the constants.
    **sizes
        As for :func:`bounds`: ``dimension``, ``diameter``, ``c_d`` and so on.

    Examples
    --------
    >>> from isorep.decoder import theorem3
    >>> found = theorem3(process=1.0, model=1.002, dimension=3)
    >>> round(found.defect, 4), round(found["theorem_3"].value / found["theorem_3_as_printed"].value, 3)
    (0.002, 0.707)
    """
    pair = (_one("process", process, process_excess), _one("model", model, model_excess))
    product, printed = bounds(constant=pair, **sizes), bounds(constant=max(pair), **sizes)
    perfect = "the model reconstructs the data perfectly"
    every = []
    for bound in product.entries:
        rests = tuple(Assumption(perfect, NOT_TESTED) if each.text == EQUAL else each for each in bound.assumptions)
        name = "theorem_3" if bound.name == "theorem_1" else bound.name
        every.append(replace(bound, name=name, assumptions=rests, origin="ours"))
    as_printed = replace(
        printed["theorem_1"],
        name="theorem_3_as_printed",
        assumptions=every[0].assumptions,
        explanation="With the larger of the two constants for both.",
    )
    return replace(product, entries=(every[0], as_printed, *every[1:]))


def structural_to_statistical(error: float, *, group: str = "rigid", norm: float | None = None) -> Bound:
    r"""Bound the distance of two models within :math:`\epsilon` of the true factors: :math:`2C\epsilon` (A.5).

    With :math:`\|h_1f-u\|\le\epsilon`, :math:`\|h_2f'-u\|\le\epsilon` and :math:`h=h_1^{-1}h_2`,
    :math:`\|f-hf'\|\le\|h_1^{-1}\|\,(\|h_1f-u\|+\|u-h_2f'\|)\le2C\epsilon`, :math:`C` the largest operator norm in the
    group: 1 for rigid motions and signed permutations. Linear maps are unbounded: no conclusion, unless ``norm``
    bounds the inverse of the map.

    Examples
    --------
    >>> from isorep.decoder import structural_to_statistical
    >>> structural_to_statistical(0.1).value, structural_to_statistical(0.1, group="linear").vacuous
    (0.2, True)
    """
    check_choice("group", group, list(GROUPS))
    epsilon = not_negative("error", error)
    largest = GROUPS[group] if norm is None else positive("norm", norm)
    value = 2 * largest * epsilon if epsilon > 0 else 0.0
    said = f"The factor is 2C with C = {largest:g}."
    if math.isinf(largest) and epsilon > 0:
        said = "Linear maps have no largest operator norm: nothing follows."
    rests = (Assumption("both models are within the error of the same factors", NOT_TESTED),)
    return Bound("structural_to_statistical", "sup", value, math.inf, "2 C ε", said, rests)


@dataclass(frozen=True)
class DynamicalIsometry:
    r"""The bi-Lipschitz constant :math:`1+L` of a map whose singular values are near one (A.4).

    ``constant`` is the sharp :math:`\max(\sigma_{\max},1/\sigma_{\min})`, ``printed`` the condition number that the
    paper uses, and ``similarity`` the constant after one global scale, :math:`\sqrt{\sigma_{\max}/\sigma_{\min}}`.
    """

    constant: float
    printed: float
    similarity: float

    @property
    def excess(self) -> float:
        """:math:`L`."""
        return self.constant - 1


def dynamical_isometry(
    deviation: float | None = None, *, smallest: float | None = None, largest: float | None = None
) -> DynamicalIsometry:
    r"""From singular values in :math:`[1-\delta,1+\delta]`, or between two measured ends, to a bi-Lipschitz constant.

    Examples
    --------
    >>> from isorep.decoder import dynamical_isometry
    >>> found = dynamical_isometry(0.2)
    >>> round(found.constant, 4), round(found.printed, 4)
    (1.25, 1.5)
    """
    if deviation is not None:
        if smallest is not None or largest is not None:
            raise InputError("give either the deviation from one or the two extreme singular values")
        delta = not_negative("deviation", deviation)
        if delta >= 1:
            raise InputError(f"deviation is {delta:g} and must be below 1: singular values from 1 - δ to 1 + δ")
        low, high = 1 - delta, 1 + delta
    else:
        low, high = not_negative("smallest", smallest), not_negative("largest", largest)
        if low > high:
            raise InputError(f"the smallest singular value, {low:g}, exceeds the largest, {high:g}")
    if low == 0:
        return DynamicalIsometry(math.inf, math.inf, math.inf)
    return DynamicalIsometry(max(high, 1 / low), high / low, math.sqrt(high / low))


def _reduced(radius: float, eigenvalue: float, singular_values: tuple[float, float]) -> tuple[float, float]:
    """The radius and eigenvalue that serve both sides after a linear map."""
    size, least = positive("radius", radius), positive("eigenvalue", eigenvalue)
    low, high = (positive("singular_values", value) for value in singular_values)
    if low > high:
        raise InputError(f"singular_values are {low:g} and {high:g}: the smaller comes first")
    return max(1.0, high) * size, min(1.0, low**2) * least


def _slopes(contrast: str, radius: float) -> tuple[float, float]:
    """The constants of a contrast on projections of rows of this norm."""
    slopes = {"logcosh": (1.0, 1.0), "exp": (math.exp(-0.5), 1.0), "cube": (radius**3, 3 * radius**2)}
    check_choice("contrast", contrast, list(slopes))
    return slopes[contrast]


def _one(name: str, constant: float | None, excess: float | None) -> float:
    if (constant is None) == (excess is None):
        raise InputError(f"either {name}= or {name}_excess= is needed, and only one")
    if constant is None:
        return 1 + not_negative(f"{name}_excess", excess)
    if not constant >= 1:
        raise InputError(f"{name} is {constant!r} and a constant is at least 1: its excess goes in {name}_excess=")
    return float(constant)


MOST_COMPONENTS = 128
ROWS_PER_COMPONENT = 10


@dataclass(frozen=True)
class IcaSide:
    """One side: the least curvature of the contrast, the number of weak planes, the weakest, Gaussian components."""

    components: int
    gamma: float | None
    exact: bool
    weak: int
    planes: int
    weakest: tuple[tuple[int, int, float], ...]
    gaussian: int


@dataclass(frozen=True)
class Conditioning:
    """Both sides, the constants of Theorem 2 where they exist, and a sentence about them."""

    sides: tuple[IcaSide, ...]
    theorem2: Theorem2 | None
    sentence: str


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
    constants = theorem2(error, dimension=d, radius=radius, eigenvalue=eigenvalue, gamma=min(gammas))
    return Conditioning(sides, constants, _sentence(constants))


def _sentence(constants: Theorem2) -> str:
    if math.isinf(constants.kappa):
        return "The contrast has a saddle or no curvature in some plane: Theorem 2 gives no bound after ICA."
    said = "vacuous" if constants.bound.vacuous else f"{constants.bound.value:.3g} in whitened units"
    return (
        f"Theorem 2 with K = {constants.linear:.3g} and K' = {constants.quadratic:.3g}: after ICA the error is {said}."
    )


def _side(values: Array, seed: int) -> IcaSide:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ica = ICA(random_state=seed).fit(values)
    curvatures = curvature(values, ica)
    k = len(curvatures.planes)
    pairs = weak_planes(curvatures.planes, curvatures.error, ica.gaussian_)
    first, second = np.triu_indices(k, 1)
    order = np.argsort(curvatures.planes[first, second], kind="stable")[:5]
    weakest = tuple((int(first[p]), int(second[p]), float(curvatures.planes[first[p], second[p]])) for p in order)
    gamma = curvatures.smallest if curvatures.smallest is not None else (weakest[0][2] if weakest else None)
    return IcaSide(k, gamma, curvatures.smallest is not None, len(pairs), len(first), weakest, int(ica.gaussian_.sum()))


def _least_eigenvalue(values: Array) -> float:
    centred = values - values.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    if len(singular) < values.shape[1] or singular[-1] <= singular[0] * len(values) * np.finfo(np.float64).eps:
        return 0.0
    return float(singular[-1] ** 2 / len(values))
