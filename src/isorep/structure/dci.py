r"""Disentanglement, completeness and informativeness (Eastwood and Williams 2018) from how models use latents."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..representation import Array
from ..results import Record
from ..settings import check_choice
from .boosting import Boosted
from .columns import Column, Pair, mean_of, moments_of, standardised
from .splits import ROWS, Given, split_pair

IMPORTANCES = ("binned", "trees", "lasso")
_TINY = 1e-11  # what public code adds before it takes logarithms


@dataclass(frozen=True, eq=False)
class DCI(Record):
    """The result of :func:`dci`; higher is better, 1 is best.

    ``importances`` is latents by factors, each column summing to 1; ``informativeness`` is on rows that models have not
    seen, ``informativeness_train`` on those they learnt from.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    informativeness_train: float
    importances: Array
    factors: tuple[str, ...]
    latents: tuple[str, ...]


def dci(
    factors: Any,
    latents: Any,
    *,
    importance: str = "binned",
    test: Any = None,
    rows: int | None = ROWS,
    groups: Any = None,
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    random_state: int = 0,
) -> DCI:
    r"""Does each latent serve one factor, is each factor served by one latent, and how well is it predicted?

    A model predicts each factor from all latents; :math:`R_{ji}` is the importance of latent j to factor i. With
    entropies to the base of the number of entries,

    .. math::
        D=\sum_j\frac{\sum_iR_{ji}}{\sum R}\,\bigl(1-H(R_{j\cdot}/\textstyle\sum_iR_{ji})\bigr),\qquad
        C=\sum_i\frac{\sum_jR_{ji}}{\sum R}\,\bigl(1-H(R_{\cdot i}/\textstyle\sum_jR_{ji})\bigr),

    and informativeness is the mean held-out accuracy (discrete factors) or R², at least 0 (continuous ones). Constant
    factors are left out. With one factor D is 1, with one latent C is 1; where no latent is of any use, both are 0.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    importance : {"binned", "trees", "lasso"}
        Boosted trees on latents cut into 64 bins; scikit-learn's gradient boosting, which disentanglement_lib uses and
        which takes about ten times as long; or the absolute coefficients of a lasso on standardised latents.
    test : (factors, latents), optional
        Other rows to be judged on; by default a random fifth is held out.
    rows : int or None
        Look at no more rows, of which a fifth is held out; None for all. Rows to be judged on that are given, and those
        to learn from then, are all looked at.
    groups : (n,) array, optional
        Rows that belong together are held out together.
    discrete_factors, discrete_latents
        As for :func:`infomec`.
    random_state : int
        Seed of the split.

    References
    ----------
    .. [1] Eastwood, C., Williams, C. K. I. (2018). A framework for the quantitative evaluation of disentangled
           representations. ICLR.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(3, size=(400, 2))
    >>> found = isorep.structure.dci(s, s + 0.01 * rng.normal(size=(400, 2)))
    >>> found.disentanglement > 0.99, found.informativeness
    (True, 1.0)
    """
    check_choice("importance", importance, IMPORTANCES)
    given = Given(factors, latents, test, rows, groups, discrete_factors, discrete_latents, random_state)
    return measure_dci(*split_pair(given), importance=importance)


def measure_dci(train: Pair, test: Pair, *, importance: str = "binned") -> DCI:
    """DCI of columns that were checked and split."""
    x, other = train.latents.matrix, test.latents.matrix
    importances, seen, unseen = np.zeros((len(train.latents), len(train.factors))), {}, {}
    for index, (factor, judged) in enumerate(zip(train.factors, test.factors, strict=True)):
        if not factor.constant:
            importances[:, index], before, after = _IMPORTANCE[importance](x, factor, other)
            seen[factor.name], unseen[factor.name] = _right(factor, before), _right(judged, after)
    kept = importances[:, [not factor.constant for factor in train.factors]]
    return DCI(
        disentanglement=_concentrated(kept),
        completeness=_concentrated(kept.T),
        informativeness=mean_of(unseen),
        informativeness_train=mean_of(seen),
        importances=importances,
        factors=train.factors.names,
        latents=train.latents.names,
    )


def _concentrated(table: Array) -> float:
    """How far each row is concentrated on one entry, rows weighted by their sums."""
    total = float(table.sum())
    if not total > 0:
        return 0.0
    if table.shape[1] == 1:
        return 1.0
    shares = table + _TINY
    shares = shares / shares.sum(axis=1, keepdims=True)
    each = 1 + np.sum(shares * np.log(shares), axis=1) / np.log(table.shape[1])
    return float(each @ table.sum(axis=1) / total)


def _right(factor: Column, predicted: Array) -> float:
    """The share of labels that are right, or R² and at least 0."""
    if factor.discrete:
        return float(np.mean(predicted == factor.values))
    spread = float(np.sum((factor.values - factor.values.mean()) ** 2))
    error = float(np.sum((factor.values - predicted) ** 2))
    return max(0.0, 1 - error / spread) if spread > 0 else 0.0


def _binned(x: Array, factor: Column, other: Array) -> tuple[Array, Array, Array]:
    model = Boosted(classify=factor.discrete).fit(x, factor.values)
    return model.importances, model.predict(x), model.predict(other)


def _trees(x: Array, factor: Column, other: Array) -> tuple[Array, Array, Array]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    model: Any = (GradientBoostingClassifier if factor.discrete else GradientBoostingRegressor)(random_state=0)
    if factor.discrete:
        model.fit(x, factor.values)
        return np.abs(model.feature_importances_), model.predict(x), model.predict(other)
    centre, spread = (each[0] for each in moments_of(factor.values[:, None]))
    model.fit(x, (factor.values - centre) / spread)  # trees of tiny targets are not grown
    before, after = (model.predict(rows) * spread + centre for rows in (x, other))
    return np.abs(model.feature_importances_), before, after


def _lasso(x: Array, factor: Column, other: Array) -> tuple[Array, Array, Array]:
    """Coefficients summed over an indicator for each label, with the penalty that a held-out fifth prefers."""
    standard, elsewhere = standardised(x), standardised(other, x)
    labels = np.unique(factor.values)
    targets = (factor.values[:, None] == labels).astype(float) if factor.discrete else factor.values[:, None]
    centre = targets.mean(axis=0)
    coefficients = _lasso_coefficients(standard, targets - centre)
    before, after = standard @ coefficients + centre, elsewhere @ coefficients + centre
    weights = np.abs(coefficients).sum(axis=1)
    if weights.sum() > 0:
        weights = weights / weights.sum()
    if factor.discrete:
        return weights, labels[before.argmax(axis=1)], labels[after.argmax(axis=1)]
    return weights, before[:, 0], after[:, 0]


def _lasso_coefficients(x: Array, targets: Array) -> Array:
    from sklearn.linear_model import lasso_path

    held = np.arange(len(x)) % 5 == 4
    learn = ~held if held.any() else np.ones(len(x), dtype=bool)
    judged = held if held.any() else learn
    found = []
    for target in targets.T:
        most = float(np.abs(x.T @ target).max()) / len(x)
        if most == 0:
            found.append(np.zeros(x.shape[1]))
            continue
        alphas = most * np.geomspace(1, 1e-3, 15)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # paths of nearly dependent latents stop early, near enough
            _, paths, _ = lasso_path(x[learn], target[learn], alphas=alphas)
            errors = ((target[judged, None] - x[judged] @ paths) ** 2).sum(axis=0)
            best = alphas[int(errors.argmin())]
            _, whole, _ = lasso_path(x, target, alphas=alphas[alphas >= best])
        found.append(whole[:, -1])
    return np.column_stack(found)


_IMPORTANCE = {"binned": _binned, "trees": _trees, "lasso": _lasso}
