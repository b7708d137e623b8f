"""Result of a deconfounding: frozen records with printing, tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InputError
from ..ica import ICA, Cards
from ..representation import Array
from ..resampling import Interval, p_text
from ..results import ResultRecord, Verdict, aligned, counted, told, wrapped
from ..settings import one_name
from .classifiers import concentration
from .components import Component
from .inputs import least_p
from .kbet import Mixing
from .transforms import condition_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.05
CHANCE = 0.5  # AUROC of guessing
OPENINGS = {"helps": "ICA helps", "hurts": "ICA hurts", "not shown": "ICA is not shown to help or to hurt"}


@dataclass(frozen=True)
class Mean:
    """A mean over folds, guides and seeds, with its standard error (None for fewer than two values)."""

    value: float
    error: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Mean:
        """The mean of the values that are not None."""
        known = np.array([value for value in values if value is not None and math.isfinite(value)])
        if len(known) == 0:
            return cls(math.nan, None, 0)
        error = float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None
        return cls(float(known.mean()), error, len(known))

    def __str__(self) -> str:
        if self.n == 0:
            return "-"
        return f"{self.value:.3f}" + ("" if self.error is None else f" ± {self.error:.3f}")


@dataclass(frozen=True)
class Concentration:
    """AUROC of the top share of features and of the rest, and three ways to compare them."""

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
    """One condition: its number of dimensions, its scores by classifier, and its batch mixing."""

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
            return getattr(self, name)  # type: ignore[no-any-return]
        if share not in self.parts:
            return None
        parts = self.parts[share]
        return dict(zip(PARTS, (*parts, *concentration(*parts)), strict=True))[kind]


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
    """Sizes and names of the data; ``features`` names the columns that were used."""

    name: str
    rows: int
    columns: int
    positives: int
    label: str
    control: tuple[str, ...]
    batch: tuple[str, ...]
    batches: int
    control_only: int
    features: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Deconfounding(ResultRecord):
    """The result of :func:`isorep.deconfound`.

    Attributes
    ----------
    conditions : dict of str to Condition
        Results of each condition on held-out batches.
    tests : tuple of PairedTest
        PCA+ICA against every other condition, by the first classifier.
    components : tuple of Component
        The components of PCA+ICA on all rows.
    filtered : Filtered or None
        The effect of dropping batch-driven components on held-out batches.
    scores : tuple of Score
        Every classifier fit.
    folds : tuple of Fold
    tasks : tuple of str
    data : Data
    verdict : Verdict
        The answer is ``helps``, ``hurts``, ``not shown`` or ``not asked``.
    caveats : tuple of str
        Limits of these numbers, most important first.
    model : ICA or None
        PCA+ICA fitted on all rows, or on the other rows that were given.
    cards : Cards or None
        The components with what their cards share: columns read, chance levels, all loadings.
    place : str or None
        The matrix of AnnData that the embedding came from: X, the name of an obsm entry, or layers/NAME.
    seconds : dict of str to float
        Run times of transforms, classifiers, mixing and components.
    """

    schema: ClassVar[str] = "isorep.deconfound/1"
    page_by: ClassVar[str] = "deconfounding.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"model"})
    derived: ClassVar[tuple[str, ...]] = ("unit",)
    unit: ClassVar[str] = "AUROC and average precision on held-out batches, higher is better; R² less chance; nats"
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
    cards: Cards | None = field(default=None, repr=False)
    place: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """The classifier that decides tests and verdict."""
        return str(self.settings["classifiers"][0])

    def mean(self, metric: str, condition: str, *, task: str | None = None, classifier: str | None = None) -> Mean:
        """A figure over folds, guides and seeds.

        ``metric`` is ``auroc``, ``average_precision``, ``hoyer``, or one of ``top``, ``rest``, ``share``, ``ratio`` and
        ``gini`` with its share of features, as in ``share@0.25``.
        """
        chosen = classifier or self.headline
        scores = [
            score
            for score in self.scores
            if (score.condition, score.classifier) == (condition, chosen) and task in (None, score.task)
        ]
        if not scores:
            raise InputError(f"there are no scores of {condition!r} by {chosen!r}" + (f" for {task!r}" if task else ""))
        if metric.partition("@")[0] not in METRICS:
            raise InputError(f"metric is {metric!r}; known are {', '.join(METRICS)}, the last five with @SHARE")
        return Mean.of(score.metric(metric) for score in scores)

    def transform(self, X: Any, *, filtered: bool = False) -> Array:
        """Rows as independent components; with ``filtered`` without the batch-driven ones."""
        if self.model is None:
            raise InputError("the condition pca_ica was not asked for, so there is no model to transform with")
        sources = np.asarray(self.model.transform(X))
        return sources[:, [not component.batch_driven for component in self.components]] if filtered else sources

    def annotate(
        self, target: Any, *, key: str | None = None, output: str | Path | None = None, key_added: str | None = None
    ) -> Any:
        """Write the components into an AnnData object, or into an ``.h5ad`` file; see :mod:`.anndata`.

        ``key``, also called ``key_added``, is the entry of obsm; default: ``X_isorep_ica``.
        """
        from .anndata import annotate

        name = one_name(key, key_added, "key", "key_added")
        return annotate(self, target, key="X_isorep_ica" if name is None else name, output=output)

    def table(self, width: float | None = None) -> str:
        """The conditions as text: AUROC, average precision, batch figures, sparsity and concentration.

        Concentration and sparsity (Hoyer) are left out where the terminal, or ``width``, has no room.
        """
        several = len(self.settings["classifiers"]) > 1
        shares = [f"{share:g}" for share in self.settings["top"]]
        head = ["condition", *(["classifier"] if several else []), "dims", "AUROC", "AP"]
        sparsity = ["Hoyer", *(f"conc@{share}" for share in shares)]
        rows = [[*head, "batch\nAUROC", "mixed", *sparsity]]
        for name, condition in self.conditions.items():
            mixing = condition.mixing
            batch = ["-", "-"] if mixing is None else [f"{mixing.batch_auroc:.3f}", f"{mixing.accepted:.2f}"]
            for classifier, summary in condition.scores.items():
                names = [condition_name(name), *([classifier] if several else []), str(condition.dimensions)]
                parts = [getattr(summary.concentration.get(share), "share", None) for share in shares]
                own, more = [summary.auroc, summary.average_precision], [summary.hoyer, *parts]
                cells = [["-" if mean is None else str(mean) for mean in means] for means in (own, more)]
                rows.append([*names, *cells[0], *batch, *cells[1]])
        return aligned(rows, optional=sparsity[::-1], width=width)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per condition and classifier: means over folds, guides and seeds, and their standard errors."""
        rows = []
        for name, condition in self.conditions.items():
            mixing = condition.mixing
            for classifier, summary in condition.scores.items():
                means = {"auroc": summary.auroc, "average_precision": summary.average_precision, "hoyer": summary.hoyer}
                means |= {
                    f"concentration@{share:g}": getattr(summary.concentration.get(f"{share:g}"), "share", None)
                    for share in self.settings["top"]
                }
                row: dict[str, Any] = {"condition": name, "classifier": classifier, "dimensions": condition.dimensions}
                for metric, mean in means.items():
                    row |= {metric: getattr(mean, "value", None), f"{metric}_se": getattr(mean, "error", None)}
                row |= {"batch_auroc": getattr(mixing, "batch_auroc", None), "mixed": getattr(mixing, "accepted", None)}
                rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema; cards are among the components."""
        told = super().to_dict()
        if told["cards"] is not None:
            del told["cards"]["items"]
        return told

    def panels(self) -> list[str]:
        """Components only where there are any."""
        return [name for name in super().panels() if self.components or name != "plot_components"]

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The AUROC of every condition on held-out batches, with one standard error; the axis starts at chance, 0.5.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots

        marks = []
        for name, condition in self.conditions.items():
            mean = condition.scores[self.headline].auroc
            reach = None if mean.error is None else (mean.value - mean.error, mean.value + mean.error)
            marks.append(Mark(condition_name(name), mean.value, reach, strong=name == "pca_ica"))
        lowest = min(x for mark in marks for x in mark.known)
        return dots(
            ax,
            marks,
            "AUROC on held-out batches (chance: 0.5)",
            width=width,
            limits=(None if lowest < CHANCE else CHANCE, 1.0),
            reference=(CHANCE, ""),
            value_name="mean over folds",
            interval_name="± 1 standard error",
        )

    def plot_components(self, ax: Axes | None = None, *, batch: str | None = None, width: str = "single") -> Axes:
        """Each independent component by the share of its variance that the batch and the label explain.

        ``batch`` names one of several batch columns, the first by default.
        """
        from ..report.plots import ACCENT, OTHER, above, canvas

        if not self.components:
            raise InputError("the condition pca_ica was not asked for, so there are no components to draw")
        ax = canvas(ax, width, 2.6, "plot_components()")
        column = batch or next(iter(self.components[0].batch_r2))
        handles = []
        for driven, shade, shape, name in (
            (True, OTHER, "s", "batch-driven"),
            (False, ACCENT, "o", "not batch-driven"),
        ):
            some = [each for each in self.components if each.batch_driven is driven]
            points = [each.batch_r2[column] for each in some], [each.label_r2 for each in some]
            handles.append(ax.scatter(*points, c=shade, marker=shape, s=18, label=name, lw=0, clip_on=False, zorder=3))
        reach = max(0.05, *(max(each.batch_r2[column], each.label_r2) for each in self.components))
        ax.set_xlim(min(0.0, *(each.batch_r2[column] for each in self.components)), 1.05 * reach)
        ax.set_ylim(min(0.0, *(each.label_r2 for each in self.components)), 1.05 * reach)
        ax.set_xlabel(
            f"R² of the batch ({column})" if len(self.data.batch) > 1 else "R² of the batch", fontsize="small"
        )
        ax.set_ylabel("R² of the label", fontsize="small")
        above(ax, handles)
        return ax

    def tests_table(self) -> str:
        """The paired tests as text."""
        rows = [["paired difference\nin AUROC", "mean", "95% interval", "p", "p,\ncorrected", "pairs"]]
        for test in self.tests:
            interval = f"[{test.interval.low:+.3f}, {test.interval.high:+.3f}]" if test.interval else "-"
            words = f"{condition_name(test.condition)} - {condition_name(test.against)}"
            numbers = [f"{test.difference:+.4f}", interval, p_text(test.p_value, test.least_p), f"{test.corrected:.3g}"]
            rows.append([words, *numbers, str(test.pairs)])
        return aligned(rows)

    def __str__(self) -> str:
        parts = [self.table(), *([self.tests_table()] if self.tests else [])]
        if self.filtered is not None:
            without, every = self.filtered, self.components
            back = (
                f"; {sum(bool(each.recurs) for each in every)} are reproducible in refits"
                if every[0].recurs is not None
                else ""
            )
            p = p_text(without.p_value, least_p(without.pairs, self.settings["test"]))
            said = [
                f"components: {sum(each.batch_driven for each in every)} of {len(every)} are batch-driven{back}",
                f"dropping batch-driven components (mean {without.dropped.value:.1f} per fold): AUROC "
                f"{without.auroc.value:.3f} ({without.difference:+.3f}, p {p} from {counted(without.pairs, 'pair')})",
            ]
            parts.append("\n".join(map(wrapped, said)))
        parts += [] if self.cards is None else [self.cards.text()]
        return told(self.verdict, *parts, notes=self.caveats)


PARTS = ("top", "rest", "share", "ratio", "gini")
METRICS = ("auroc", "average_precision", "hoyer", *PARTS)


def summarised(scores: list[Score], shares: Iterable[str]) -> Summary:
    """The scores of one condition and classifier."""

    def mean(name: str) -> Mean:
        return Mean.of(score.metric(name) for score in scores)

    return Summary(
        auroc=mean("auroc"),
        average_precision=mean("average_precision"),
        hoyer=mean("hoyer") if any(score.hoyer is not None for score in scores) else None,
        concentration={
            share: Concentration(*(mean(f"{kind}@{share}") for kind in PARTS))
            for share in shares
            if any(share in score.parts for score in scores)
        },
    )


def judge(conditions: dict[str, Condition], tests: tuple[PairedTest, ...], classifier: str) -> Verdict:
    """ICA helps, or hurts, if its difference from Base is shown: corrected p at most 0.05, and an interval without 0.

    The test treats folds as independent, which they are not; the interval accounts for shared training rows.
    """
    auroc = {name: condition.scores[classifier].auroc.value for name, condition in conditions.items()}
    against = {test.against: test for test in tests if test.condition == "pca_ica"}
    if "base" not in against:
        best = max(auroc, key=lambda name: auroc[name])
        said = f"Base and PCA+ICA were not both asked for; the highest AUROC on held-out batches is {auroc[best]:.3f}"
        return Verdict("not asked", f"{said}, with {condition_name(best)}.")
    test, interval = against["base"], against["base"].interval
    shown = test.corrected <= LEVEL and interval is not None and not interval.low <= 0 <= interval.high
    answer = "not shown" if not shown else "helps" if test.difference > 0 else "hurts"
    pairs = f"{test.pairs} {'pair' if test.pairs == 1 else 'pairs'}"
    said = (
        f"{OPENINGS[answer]}: on held-out batches AUROC is {auroc['pca_ica']:.3f} with PCA+ICA and {auroc['base']:.3f} "
        f"without. The difference is {_numbers(test)}, from {pairs}."
    )
    for name, words in (("pca", "whitening alone"), ("pca_rand", "a random rotation")):
        if name in against:
            said += f" Beyond {words}: {_numbers(against[name])}."
    return Verdict(answer, said)


def _numbers(test: PairedTest) -> str:
    """A difference with its interval, which decides beside the p-value whether it is shown."""
    span = f"95% interval {test.interval.low:+.3f} to {test.interval.high:+.3f}, " if test.interval else ""
    return f"{test.difference:+.3f} ({span}corrected p {test.corrected:.2g})"
