r"""Classifiers trained on some batches and tested on held-out ones: AUROC, average precision, sparsity.

Split fractions :math:`s` (how often each feature is split on, summing to one) are sparse where trees lean on few
features (Hoyer 2004),

.. math:: \mathrm{Hoyer}(s)=\frac{\sqrt d-\|s\|_1/\|s\|_2}{\sqrt d-1},

0 for equal use and 1 for a single feature. Concentration compares a classifier on the most important share k of the
features, of AUROC :math:`a`, with one on the rest, of AUROC :math:`b`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..errors import missing_extra
from ..representation import Array
from ..settings import check_names

PARAMETERS: dict[str, Any] = {
    "objective": "binary",
    "is_unbalance": True,
    "learning_rate": 0.05,
    "num_leaves": 31,
    "feature_fraction": 0.6,
    "reg_alpha": 5.0,
    "reg_lambda": 1.0,
    "min_gain_to_split": 0.8,
    "min_data_in_leaf": 30,
}
"""LightGBM's parameters as published (Nelson et al. 2026, Table 6)."""
ROUNDS = 100  # unstated in the paper: the library's default
CLASSIFIERS = ("lightgbm", "logistic")
_SWEEPS = 1000
BINS, _FEW_BINS = 255, 63  # the number is unstated in the paper: the library's default, and a quarter of it
_FEW_ROWS, _CELLS = 10_000, 2**20
_ABOVE_CHANCE = 0.51  # below this AUROC there is no signal to take shares of
_BINNED_ROWS = 50_000  # that bins are drawn from: they are briefly held in float64, twice for two fits


@dataclass(frozen=True, eq=False)
class Rows:
    """Which rows and columns of a space train and test a classifier, with the truth; copies are made on demand."""

    values: Array
    columns: Array
    train: Array
    train_truth: Array
    test: Array
    test_truth: Array
    bins: int = BINS

    def train_values(self) -> Array:
        """A copy of the training rows."""
        return np.asarray(self.values[np.ix_(self.train, self.columns)])

    def test_values(self) -> Array:
        """A copy of the test rows."""
        return np.asarray(self.values[np.ix_(self.test, self.columns)])


def fitted(rows: Rows, classifier: str, seed: int) -> tuple[Array, Array]:
    """Fit on training rows: predictions for the test rows, and the importance of every feature."""
    return _FITS[classifier](rows, seed)


def fit_parts(rows: Rows, classifier: str, seed: int, importance: Array, share: float) -> tuple[Array, Array] | None:
    """Predictions from the top share of the features, and from the rest; None where one of them would be empty."""
    ranked = np.argsort(-importance, kind="stable")
    cut = max(1, math.ceil(share * len(ranked)))
    if cut == len(ranked):
        return None
    some, rest = (replace(rows, columns=rows.columns[np.sort(part)]) for part in (ranked[:cut], ranked[cut:]))
    return fitted(some, classifier, seed)[0], fitted(rest, classifier, seed)[0]


def bins_for(rows: int, columns: int) -> int:
    """Bins of a feature for trees, the same for all conditions; few where that halves the time of wide embeddings."""
    return _FEW_BINS if rows < _FEW_ROWS and rows * columns > _CELLS else BINS


def require_classifiers(classifiers: Any) -> tuple[str, ...]:
    """The chosen classifiers, the headline first, after a check that they can run."""
    wanted = check_names("classifiers", classifiers, CLASSIFIERS)
    if "lightgbm" in wanted:
        _lightgbm()
    return tuple(dict.fromkeys(wanted))


def boosted(rows: Rows, seed: int) -> tuple[Array, Array]:
    """Gradient boosting with the published parameters: predictions, and how often each feature was split on."""
    lightgbm = _lightgbm()
    settings = {
        **PARAMETERS,
        "seed": seed,
        "deterministic": True,
        "force_col_wise": True,  # a third faster than by rows at 5,000 x 600, and the same trees
        "bin_construct_sample_cnt": _BINNED_ROWS,
        "max_bin": rows.bins,
        "num_threads": 1,  # fits run in parallel: one thread per core is ten times faster than nested ones under load
        "verbosity": -1,
    }
    data = lightgbm.Dataset(rows.train_values(), rows.train_truth.astype(np.float32), params=settings).construct()
    booster = lightgbm.train(settings, data, num_boost_round=ROUNDS)
    importance = np.asarray(booster.feature_importance("split"), dtype=float)
    return np.asarray(booster.predict(rows.test_values(), num_threads=1)), importance


def logistic(rows: Rows, seed: int) -> tuple[Array, Array]:
    """Logistic regression on standardised features with balanced classes: scores, and absolute weights."""
    regression = LogisticRegression(class_weight="balanced", max_iter=_SWEEPS, random_state=seed)
    model = make_pipeline(StandardScaler(), regression).fit(rows.train_values(), rows.train_truth)
    return np.asarray(model.decision_function(rows.test_values())), np.abs(regression.coef_[0])


_FITS: dict[str, Callable[[Rows, int], tuple[Array, Array]]] = {"lightgbm": boosted, "logistic": logistic}


def _lightgbm() -> Any:
    try:
        import lightgbm  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise missing_extra("lightgbm", "bio", "the classifier lightgbm (logistic works without it)") from None
    return lightgbm


def hoyer(fractions: Any) -> float | None:
    """Hoyer sparsity of non-negative use counts or fractions; None where nothing is used, or for one feature.

    Examples
    --------
    >>> from isorep.deconfounding import hoyer
    >>> hoyer([0, 3, 0, 0]), hoyer([1, 1, 1, 1])
    (1.0, 0.0)
    """
    used = np.asarray(fractions, dtype=float)
    root, norm = math.sqrt(len(used)), float(np.linalg.norm(used))
    if norm == 0 or len(used) < 2:
        return None
    return float((root - used.sum() / norm) / (root - 1))


def concentration(top: float, rest: float) -> tuple[float, float, float]:
    r"""Share, ratio and Gini of two AUROCs: :math:`\frac{a-b}{a-1/2}`, :math:`\frac ab-1`, :math:`2(a-b)`.

    The share, of the signal above chance, is not a number where the top features are no better than chance.

    Examples
    --------
    >>> from isorep.deconfounding import concentration
    >>> [round(value, 3) for value in concentration(0.75, 0.6)]
    [0.6, 0.25, 0.3]
    """
    share = (top - rest) / (top - 0.5) if top > _ABOVE_CHANCE else math.nan
    return share, top / rest - 1 if rest > 0 else math.nan, 2 * (top - rest)
