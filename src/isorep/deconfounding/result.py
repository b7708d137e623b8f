"""What deconfounding found, as small frozen records that print, tabulate and serialise themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..resampling import Interval
from ..results import Verdict, Written, plain, versions
from .components import Component
from .kbet import Mixing
from .sparsity import concentration

SCHEMA = "isorep.deconfound/1"


@dataclass(frozen=True)
class Mean:
    """A mean over folds, guides and seeds, with its standard error (None for fewer than two values)."""

    value: float
    error: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Mean:
        """The mean of the values that are there."""
        found = np.array([value for value in values if value is not None and math.isfinite(value)])
        if len(found) == 0:
            return cls(math.nan, None, 0)
        error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else None
        return cls(float(found.mean()), error, len(found))


@dataclass(frozen=True)
class Concentration:
    """AUROC of the top share of features and of the rest, and three ways to set them against each other."""

    top: Mean
    rest: Mean
    share: Mean
    ratio: Mean
    gini: Mean


@dataclass(frozen=True)
class Summary:
    """One classifier under one condition, on held-out batches; higher is better, and sparser."""

    auroc: Mean
    average_precision: Mean
    hoyer: Mean | None
    concentration: dict[str, Concentration]


@dataclass(frozen=True)
class Condition:
    """One condition: its number of dimensions, what classifiers show, and how batches mix in it."""

    name: str
    dimensions: int
    scores: dict[str, Summary]
    mixing: Mixing | None


@dataclass(frozen=True)
class Score:
    """One classifier fit: a condition, a task and guide, a fold and a seed."""

    condition: str
    classifier: str
    task: str
    guide: str | None
    fold: int
    seed: int
    auroc: float
    average_precision: float
    hoyer: float | None
    parts: dict[str, tuple[float, float]] = field(default_factory=dict)

    def metric(self, name: str) -> float | None:
        """A figure by its name, such as ``auroc`` or ``share@0.25``."""
        kind, _, share = name.partition("@")
        if not share:
            found: float | None = getattr(self, name)
            return found
        if share not in self.parts:
            return None
        top, rest = self.parts[share]
        kinds = ("share", "ratio", "gini")
        return {"top": top, "rest": rest, **dict(zip(kinds, concentration(top, rest), strict=True))}[kind]


@dataclass(frozen=True)
class Fold:
    """Which batches were held out, and how many rows trained and tested."""

    seed: int
    number: int
    held_out: tuple[str, ...]
    train_rows: int
    test_rows: int
    train_positives: int
    test_positives: int


@dataclass(frozen=True)
class PairedTest:
    """AUROC of a condition less that of another on the same folds; ``corrected`` is Holm's p, ``least_p`` the smallest

    that so many pairs can give before correction.
    """

    condition: str
    against: str
    difference: float
    interval: Interval | None
    p_value: float
    corrected: float
    pairs: int
    least_p: float


@dataclass(frozen=True)
class Filtered:
    """PCA+ICA without batch-driven components, chosen on training batches; differences are from all components."""

    auroc: Mean
    difference: float
    interval: Interval | None
    p_value: float
    pairs: int
    dropped: Mean
    mixing: Mixing | None


@dataclass(frozen=True)
class Data:
    """What was evaluated."""

    name: str
    rows: int
    columns: int
    positives: int
    label: str
    control: tuple[str, ...]
    batch: tuple[str, ...]
    batches: int
    control_only: int


@dataclass(frozen=True)
class Deconfounding(Written):
    """The result of :func:`isorep.deconfound`.

    Attributes
    ----------
    conditions : dict of str to Condition
        What each condition shows on held-out batches.
    tests : tuple of PairedTest
        PCA+ICA against every other condition, by the first classifier.
    components : tuple of Component
        The components of PCA+ICA on all rows.
    filtered : Filtered or None
        What dropping batch-driven components does to held-out batches.
    scores : tuple of Score
        Every classifier fit.
    folds : tuple of Fold
    tasks : tuple of str
    data : Data
    verdict : Verdict
        Its answer is ``helps``, ``hurts``, ``not shown`` or ``not asked``.
    caveats : tuple of str
        What to keep in mind about these numbers.
    model : ICA or None
        PCA+ICA on all rows, or on the other rows that were given.
    place : str or None
        The obsm entry that the embedding came from, or X.
    seconds : dict of str to float
        What transforms, classifiers, mixing and components took.
    """

    conditions: dict[str, Condition]
    tests: tuple[PairedTest, ...]
    components: tuple[Component, ...]
    filtered: Filtered | None
    scores: tuple[Score, ...]
    folds: tuple[Fold, ...]
    tasks: tuple[str, ...]
    data: Data
    verdict: Verdict
    caveats: tuple[str, ...]
    settings: dict[str, Any]
    model: ICA | None = field(default=None, repr=False)
    place: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def mean(self, metric: str, condition: str, *, task: str | None = None, classifier: str | None = None) -> Mean:
        """A figure over folds, guides and seeds.

        ``metric`` is ``auroc``, ``average_precision``, ``hoyer``, or one of ``top``, ``rest``, ``share``, ``ratio`` and
        ``gini`` with its share of features, as in ``share@0.25``.
        """
        chosen = classifier or self.settings["classifiers"][0]
        found = [
            score
            for score in self.scores
            if score.condition == condition and score.classifier == chosen and task in (None, score.task)
        ]
        if not found:
            raise InputError(f"there are no scores of {condition!r} by {chosen!r}" + (f" for {task!r}" if task else ""))
        if metric.partition("@")[0] not in METRICS:
            raise InputError(f"metric is {metric!r}; known are {', '.join(METRICS)}, the last five with @SHARE")
        return Mean.of(score.metric(metric) for score in found)

    def transform(self, X: Any, *, filtered: bool = False) -> Array:
        """Rows as independent components; with ``filtered`` without the batch-driven ones."""
        if self.model is None:
            raise InputError("the condition pca_ica was not asked for, so there is no model to transform with")
        found = np.asarray(self.model.transform(X))
        if not filtered:
            return found
        return found[:, [not component.batch_driven for component in self.components]]

    def annotate(self, target: Any, *, key: str = "X_isorep_ica", output: str | Path | None = None) -> Any:
        """Write the components into an AnnData object, or into an ``.h5ad`` file; see :mod:`.annotating`."""
        from .anndata import annotate

        return annotate(self, target, key=key, output=output)

    def table(self) -> str:
        """The conditions as text: AUROC, average precision, sparsity, concentration and batch figures."""
        from .verdict import conditions_table

        return conditions_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, as plain data with a versioned schema."""
        found: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "isorep": __version__,
                "versions": versions(),
                "data": asdict(self.data),
                "place": self.place,
                "unit": "AUROC and average precision on held-out batches, higher is better; R² less chance; nats",
                "verdict": asdict(self.verdict),
                "tasks": list(self.tasks),
                "conditions": {name: asdict(condition) for name, condition in self.conditions.items()},
                "tests": [asdict(test) for test in self.tests],
                "filtered": None if self.filtered is None else asdict(self.filtered),
                "components": [asdict(component) for component in self.components],
                "folds": [asdict(fold) for fold in self.folds],
                "scores": [asdict(score) for score in self.scores],
                "settings": self.settings,
                "seconds": self.seconds,
                "caveats": list(self.caveats),
            }
        )
        return found

    def __str__(self) -> str:
        from .verdict import as_text

        return as_text(self)


METRICS = ("auroc", "average_precision", "hoyer", "top", "rest", "share", "ratio", "gini")


def summarised(scores: Iterable[Score], shares: Iterable[str]) -> Summary:
    """The scores of one condition and classifier."""
    found = list(scores)

    def mean(name: str) -> Mean:
        return Mean.of(score.metric(name) for score in found)

    return Summary(
        auroc=mean("auroc"),
        average_precision=mean("average_precision"),
        hoyer=mean("hoyer") if any(score.hoyer is not None for score in found) else None,
        concentration={
            share: Concentration(*(mean(f"{kind}@{share}") for kind in ("top", "rest", "share", "ratio", "gini")))
            for share in shares
            if any(share in score.parts for score in found)
        },
    )
