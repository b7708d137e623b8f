"""Classifiers on training batches, and what they show on held-out ones: AUROC, average precision, importances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from ..errors import InputError, missing_extra
from ..representation import Array
from .sparsity import hoyer

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
_BINNED_ROWS = 50_000  # that bins are drawn from: they are held in float64 for a moment, twice over for two fits


@dataclass(frozen=True)
class HeldOutScores:
    """What one classifier showed on held-out rows."""

    auroc: float
    average_precision: float
    hoyer: float | None


@dataclass(frozen=True, eq=False)
class Rows:
    """Which rows and features of a space train and test a classifier, with the truth; copies are made on demand."""

    values: Array
    train: Array
    train_truth: Array
    test: Array
    test_truth: Array
    columns: Array

    def train_values(self) -> Array:
        """A copy of the training rows."""
        return np.asarray(self.values[np.ix_(self.train, self.columns)])

    def test_values(self) -> Array:
        """A copy of the test rows."""
        return np.asarray(self.values[np.ix_(self.test, self.columns)])

    def among(self, chosen: Array) -> Rows:
        """Some of the features only, by their place among these."""
        return replace(self, columns=self.columns[chosen])


def fit_all(rows: Rows, classifier: str, seed: int) -> tuple[HeldOutScores, Array]:
    """Fit on training rows with all features: figures on the test rows, and the features, most important first."""
    predicted, importance = _FITS[classifier](rows, seed)
    found = HeldOutScores(
        auroc=float(roc_auc_score(rows.test_truth, predicted)),
        average_precision=float(average_precision_score(rows.test_truth, predicted)),
        hoyer=hoyer(importance) if classifier == "lightgbm" else None,
    )
    return found, np.argsort(-importance, kind="stable")


def fit_parts(rows: Rows, classifier: str, seed: int, ranked: Array, share: float) -> tuple[float, float] | None:
    """AUROC of the top share of the ranked features, and of the rest; None where one of them would be empty."""
    cut = max(1, math.ceil(share * len(ranked)))
    if cut == len(ranked):
        return None
    top, rest = (
        float(roc_auc_score(rows.test_truth, _FITS[classifier](rows.among(np.sort(some)), seed)[0]))
        for some in (ranked[:cut], ranked[cut:])
    )
    return top, rest


def require_classifiers(classifiers: Any) -> tuple[str, ...]:
    """The wanted classifiers, the headline first, once it is certain that they can run."""
    wanted = tuple([classifiers] if isinstance(classifiers, str) else classifiers or ())
    unknown = [name for name in wanted if name not in CLASSIFIERS]
    if unknown or not wanted:
        known = ", ".join(CLASSIFIERS)
        raise InputError(f"classifiers {', '.join(map(str, unknown)) or 'is empty'}: choose from {known}")
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
        "force_row_wise": True,
        "bin_construct_sample_cnt": _BINNED_ROWS,
        "num_threads": 1,  # fits run side by side: one thread a core is ten times faster than nested ones under load
        "verbosity": -1,
    }
    data = lightgbm.Dataset(rows.train_values(), rows.train_truth.astype(np.float32), params=settings).construct()
    booster = lightgbm.train(settings, data, num_boost_round=ROUNDS)
    importance = np.asarray(booster.feature_importance("split"), dtype=float)
    return np.asarray(booster.predict(rows.test_values(), num_threads=1)), importance


def logistic(rows: Rows, seed: int) -> tuple[Array, Array]:
    """Logistic regression on standardised features with balanced classes: scores, and absolute weights."""
    train = rows.train_values()
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1)
    model = LogisticRegression(class_weight="balanced", max_iter=_SWEEPS, random_state=seed)
    model.fit((train - mean) / deviation, rows.train_truth)
    return np.asarray(model.decision_function((rows.test_values() - mean) / deviation)), np.abs(model.coef_[0])


_FITS: dict[str, Callable[[Rows, int], tuple[Array, Array]]] = {"lightgbm": boosted, "logistic": logistic}


def _lightgbm() -> Any:
    try:
        import lightgbm  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise missing_extra("lightgbm", "bio", "the classifier lightgbm (logistic works without it)") from None
    return lightgbm
