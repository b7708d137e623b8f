"""Result of a deconfounding: frozen records with printing, tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InputError
from ..ica import ICA, Cards
from ..representation import Array
from ..resampling import p_text
from ..results import ResultRecord, Verdict, aligned, counted, told, wrapped
from ..settings import check_choice, one_name
from .classifiers import concentration
from .components import Component
from .dimensions import Dimensions
from .maps import AFTER, BEFORE, Maps, Needs
from .measures import Measure, Mixing
from .paired import LEAST_PAIRS, Comparison, least_p
from .transforms import condition_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANCE = 0.5  # AUROC of guessing
MOST_NAMED = 7  # values of a map with a name and a colour of their own
OPENINGS = {"helps": "ICA helps", "hurts": "ICA hurts", "not shown": "ICA is not shown to help or to hurt"}
TOO_FEW = "too few batches"


@dataclass(frozen=True)
class Mean:
    """A mean over held-out batches (or folds), with its standard error (None for fewer than two values)."""

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
    """One condition: its number of dimensions (of the first fold), its scores by classifier, and its batch mixing.

    ``uses`` says what it uses of a held-out batch: its ``controls``, its ``rows`` (without labels), or nothing (None).
    """

    name: str
    dimensions: int
    scores: dict[str, Summary]
    mixing: Mixing | None
    uses: str | None = None

    @property
    def title(self) -> str:
        """Its name in words, marked where it uses rows of a held-out batch."""
        return condition_name(self.name) + (f" {MARKS[self.uses]}" if self.uses else "")


@dataclass(frozen=True)
class Score:
    """One classifier on one held-out batch: a condition, a task and guide, a fold and a seed.

    ``batch`` is None where all rows of a fold were scored together; ``rotation`` counts random rotations.
    """

    condition: str
    classifier: str
    task: str
    guide: str | None
    fold: int
    seed: int
    batch: str | None
    rotation: int
    auroc: float
    average_precision: float
    hoyer: float | None
    parts: dict[str, tuple[float, float]] = field(default_factory=dict)

    def unit(self, kind: str) -> Hashable:
        """What is independent of the other scores: the held-out batch; or the fold, by task, guide and seed."""
        if kind == "fold" or self.batch is None:
            return self.task, self.guide, self.fold, self.seed
        return self.batch

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
    """Which batches were held out, and how many rows trained and tested.

    ``beside`` are the values of a second column that were held out, too.
    """

    seed: int
    number: int
    held_out: tuple[str, ...]
    beside: tuple[str, ...]
    train_rows: int
    test_rows: int
    train_positives: int
    test_positives: int


@dataclass(frozen=True)
class PairedTest(Comparison):
    """AUROC of a condition less that of another on the same held-out batches (or folds).

    Attributes
    ----------
    difference, interval : float, Interval or None
        Mean over pairs and its 95% interval, of the sign-flip test; below six pairs Student's.
    p_value : float or None
        Exact sign-flip p up to 20 pairs, else from 20,000 draws; None below six pairs, where no p can decide.
    corrected : float or None
        Holm's p over all tests but the primary one, which has none.
    pairs, better, worse : int
        Number of pairs, and in how many of them the condition is better or worse.
    primary : bool
        Whether it decides the verdict: PCA+ICA against Base.
    """

    condition: str
    against: str
    classifier: str
    corrected: float | None
    primary: bool

    @classmethod
    def of(cls, names: tuple[str, str], classifier: str, found: Comparison, primary: bool) -> PairedTest:
        """A test of two conditions, not corrected yet."""
        first, second = names
        return cls(
            **vars(found), condition=first, against=second, classifier=classifier, corrected=None, primary=primary
        )

    @property
    def answer(self) -> str:
        """``helps`` or ``hurts`` where p is at most 0.05, which is where the interval excludes zero."""
        if self.p_value is None:
            return TOO_FEW
        return "not shown" if not self.shown else "helps" if self.difference > 0 else "hurts"


@dataclass(frozen=True)
class Filtered(Comparison):
    """PCA+ICA without batch-driven components, chosen on training batches; differences are from all components."""

    auroc: Mean
    dropped: float
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
        PCA+ICA against Base, which decides; then PCA+ICA against the others, and these against Base.
    second_opinions : tuple of PairedTest
        PCA+ICA against Base by the other classifiers.
    dimensions : Dimensions or None
        How many dimensions whitening kept, and the scores that this was chosen by.
    components : tuple of Component
        The components of PCA+ICA on all rows.
    needs : Needs or None
        Whether the rows have what ICA needs, without labels.
    maps : Maps or None
        Sampled rows in two dimensions, with and without batch-driven components.
    filtered : Filtered or None
        The effect of dropping batch-driven components on held-out batches.
    scores : tuple of Score
        Every classifier fit.
    folds : tuple of Fold
    tasks : tuple of str
    data : Data
    verdict : Verdict
        The answer is ``helps``, ``hurts``, ``not shown``, ``too few batches`` or ``not asked``.
    caveats : tuple of str
        Limits of these numbers, most important first.
    model : ICA or None
        PCA+ICA fitted on all rows, or on the other rows that were given.
    cards : Cards or None
        The components with what their cards share: columns read, chance levels, all loadings.
    place : str or None
        The matrix of AnnData that the embedding came from: X, the name of an obsm entry, or layers/NAME.
    seconds : dict of str to float
        Run times of the choice of dimensions, transforms, classifiers, mixing and components.
    """

    schema: ClassVar[str] = "isorep.deconfound/2"
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
    second_opinions: tuple[PairedTest, ...] = ()
    dimensions: Dimensions | None = None
    maps: Maps | None = None
    needs: Needs | None = None

    @property
    def headline(self) -> str:
        """The classifier that decides tests and verdict."""
        return str(self.settings["classifiers"][0])

    def mean(self, metric: str, condition: str, *, task: str | None = None, classifier: str | None = None) -> Mean:
        """A figure over held-out batches, each averaged over tasks, guides and seeds (over folds with that unit).

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
        return mean_of(scores, metric, self.settings["unit"])

    @property
    def positive(self) -> str:
        """The class to predict, in words."""
        if self.settings["each"]:
            return f"each other value of {self.data.label}"
        return self.tasks[0] if len(self.tasks) == 1 else "perturbed rows"

    @property
    def unit_word(self) -> str:
        """What a pair is: a batch or a fold."""
        return "fold" if any(score.batch is None for score in self.scores) else "batch"

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
        """The conditions as text: AUROC and average precision on held-out batches.

        With shares of features (``top``), sparsity (Hoyer) and concentration too, as far as the terminal, or ``width``,
        has room.
        """
        several = len(self.settings["classifiers"]) > 1
        shares = [f"{share:g}" for share in self.settings["top"]]
        head = ["condition", *(["classifier"] if several else []), "dims", "AUROC", "AP"]
        sparsity = ["Hoyer", *(f"conc@{share}" for share in shares)] if shares else []
        rows = [[*head, *sparsity]]
        for condition in self.conditions.values():
            for classifier, summary in condition.scores.items():
                names = [condition.title, *([classifier] if several else []), str(condition.dimensions)]
                parts = [getattr(summary.concentration.get(share), "share", None) for share in shares]
                means = [summary.auroc, summary.average_precision, *([summary.hoyer, *parts] if shares else [])]
                rows.append([*names, *("-" if mean is None else str(mean) for mean in means)])
        return aligned(rows, optional=sparsity[::-1], width=width)

    def measures_table(self, width: float | None = None) -> str:
        """Batches and labels in every space as text, chance levels in brackets; empty where nothing was measured.

        Columns are left out where the terminal, or ``width``, has no room.
        """
        spaces = self.spaces()
        if not spaces:
            return ""
        rows = [["condition", *MEASURES]]
        for title, mixing in spaces:
            batch = mixing.batch_auroc, mixing.batch_forest_auroc
            cells = [*map(_measure, (mixing.replicates, mixing.neighbours, mixing.connectivity))]
            cells += [
                *(f"{each:.2f}" for each in batch),
                f"{mixing.accepted:.2f}",
                f"{mixing.batch_variance.value:.2f}",
            ]
            rows.append([title, *cells])
        return aligned(rows, optional=list(MEASURES)[:1:-1], width=width)

    def spaces(self) -> list[tuple[str, Mixing]]:
        """The measures of batches and labels of every space, with its title; the filtered components come last."""
        every = [(condition.title, condition.mixing) for condition in self.conditions.values()]
        every.append(("PCA+ICA, filtered", None if self.filtered is None else self.filtered.mixing))
        return [(title, mixing) for title, mixing in every if mixing is not None]

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per condition and classifier: means over held-out batches, and their standard errors.

        ``dimensions.to_frame()`` is the curve by which the number of dimensions was chosen.
        """
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
                row |= {"uses_held_out": condition.uses}
                for metric, mean in means.items():
                    row |= {metric: getattr(mean, "value", None), f"{metric}_se": getattr(mean, "error", None)}
                row |= {"batch_auroc": getattr(mixing, "batch_auroc", None), "mixed": getattr(mixing, "accepted", None)}
                row |= {"batch_forest_auroc": getattr(mixing, "batch_forest_auroc", None)}
                for measure in ("batch_variance", "replicates", "neighbours", "connectivity"):
                    row[measure] = getattr(getattr(mixing, measure, None), "value", None)
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
            value_name=f"mean over {self.unit_word}es" if self.unit_word == "batch" else "mean over folds",
            interval_name="± 1 standard error",
        )

    def plot_components(self, ax: Axes | None = None, *, batch: str | None = None, width: str = "single") -> Axes:
        """Each independent component by the share that the batch and the label explain of its values or its spread.

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
            points = [each.by_batch(column) for each in some], [each.by_label for each in some]
            handles.append(ax.scatter(*points, c=shade, marker=shape, s=18, label=name, lw=0, clip_on=False, zorder=3))
        reach = max(0.05, *(max(each.by_batch(column), each.by_label) for each in self.components))
        ax.set_xlim(0.0, 1.05 * reach)
        ax.set_ylim(0.0, 1.05 * reach)
        ax.set_xlabel(
            f"R² of the batch ({column})" if len(self.data.batch) > 1 else "R² of the batch", fontsize="small"
        )
        ax.set_ylabel("R² of the label", fontsize="small")
        above(ax, handles)
        return ax

    def plot_dimensions(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The score by which the number of dimensions was chosen, and the numbers that folds chose as filled dots."""
        from ..report.plots import ACCENT, above, canvas

        if self.dimensions is None or not self.dimensions.curve:
            raise InputError("the number of dimensions was not chosen by a score, so there is no curve to draw")
        ax = canvas(ax, width, 2.3, "plot_dimensions()")
        curve = self.dimensions.curve
        ax.plot([each.dimensions for each in curve], [each.auroc for each in curve], color=ACCENT, lw=1.2, zorder=2)
        handles = []
        for chosen, face, name in ((True, ACCENT, "chosen in a fold"), (False, "white", "tried")):
            some = [each for each in curve if bool(each.chosen) is chosen]
            points = [each.dimensions for each in some], [each.auroc for each in some]
            handles += ax.plot(*points, "o", mfc=face, mec=ACCENT, ms=4.5, label=name, zorder=3)
        ax.set_xscale("log", base=2)
        ax.set_xticks([each.dimensions for each in curve], [str(each.dimensions) for each in curve])
        ax.minorticks_off()
        ax.set_xlabel("dimensions", fontsize="small")
        ax.set_ylabel("AUROC in training batches", fontsize="small")
        above(ax, handles)
        return ax

    def plot_maps(
        self,
        ax: Axes | None = None,
        *,
        filtered: bool = False,
        colour: str = "batch",
        method: str = "PCA",
        width: str = "single",
    ) -> Axes:
        """Rows on a map of the embedding, or with ``filtered`` of what it is without batch-driven components.

        ``colour`` is ``batch`` or ``label``; up to seven values have names. ``method`` is ``PCA``, or ``UMAP`` where
        umap-learn was installed. At most 600 rows are drawn.
        """
        from ..report.plots import canvas, coloured, short_name

        check_choice("colour", colour, ("batch", "label"))
        space = AFTER if filtered else BEFORE
        planes = [] if self.maps is None else [each for each in self.maps.planes if each.space == space]
        plane = next((each for each in planes if each.method == method), None)
        if self.maps is None or plane is None:
            known = ", ".join(each.method for each in planes)
            raise InputError(f"there is no map of the {space} by {method!r}; there are {known or 'none'}")
        ax = canvas(ax, width, 2.6, "plot_maps()")
        points, groups = np.array(plane.points), np.array(self.maps.batch if colour == "batch" else self.maps.label)
        shades = coloured(sorted(set(groups.tolist())))
        handles = [
            ax.scatter(points[mine, 0], points[mine, 1], s=6, color=shade, lw=0, label=short_name(name))
            for name, shade in shades.items()
            for mine in [groups == name]
        ]
        shown = "" if plane.shown is None else f", {100 * plane.shown:.0f}% of variance"
        ax.set_title(f"{space} ({plane.method}{shown})", fontsize="small", loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
        if len(shades) <= MOST_NAMED:
            ax.legend(handles=handles, frameon=False, fontsize="x-small", markerscale=2, loc="best")
        return ax

    def tests_table(self) -> str:
        """The paired tests as text."""
        rows = [["paired difference\nin AUROC", "mean", "95% interval", "better\nin", "p", "p,\ncorrected"]]
        for test in self.tests:
            interval = f"[{test.interval.low:+.3f}, {test.interval.high:+.3f}]" if test.interval else "-"
            words = f"{condition_name(test.condition)} - {condition_name(test.against)}"
            corrected = "-" if test.corrected is None else f"{test.corrected:.3g}"
            counts = f"{test.better} of {test.pairs}"
            rows.append(
                [words, f"{test.difference:+.4f}", interval, counts, told_p(test.p_value, test.pairs), corrected]
            )
        return aligned(rows)

    def __str__(self) -> str:
        parts = [self.table()]
        marked = [mark for uses, mark in MARKS.items() if any(each.uses == uses for each in self.conditions.values())]
        if marked:
            parts.append("\n".join(f"{mark} {MARKED[mark]}" for mark in marked))
        if self.dimensions is not None and self.dimensions.curve:
            head = f"dimensions: {self.dimensions}, chosen on {self.dimensions.rule} (AUROC of a linear discriminant)"
            parts.append(f"{wrapped(head)}\n{self.dimensions.table()}")
        if self.tests:
            parts.append(self.tests_table())
        measured = self.measures_table()
        if measured:
            parts.append(f"{wrapped(MEASURED)}\n\n{measured}")
        if self.filtered is not None:
            without, every = self.filtered, self.components
            back = (
                f"; {counted(sum(bool(each.recurs) for each in every), 'is', 'are')} reproducible in refits"
                if every[0].recurs is not None
                else ""
            )
            driven = sum(each.batch_driven for each in every)
            said = [
                f"components: {driven} of {len(every)} are batch-driven, by mean or spread{back}",
                f"dropping batch-driven components (mean {without.dropped:.1f} per fold): AUROC "
                f"{without.auroc.value:.3f} ({without.difference:+.3f}, {in_counts(without, self.unit_word)})",
            ]
            said += [] if self.needs is None else [str(self.needs)]
            parts.append("\n".join(map(wrapped, said)))
        parts += [] if self.cards is None else [self.cards.text()]
        return told(self.verdict, *parts, notes=self.caveats)


MEASURES = ("replicates", "neighbours", "connected", "batch\nAUROC", "by\nforest", "mixed", "batch\nvariance")
MEASURED = (
    "labels across batches (chance in brackets): average precision of replicates among controls, nearest neighbours in "
    "other batches with the same label, connected rows of a label; batches: AUROC of a linear classifier and of a "
    "random forest of the batch (chance 0.50), mixed neighbourhoods (kBET, chance 0.95), share of variance"
)


def _measure(found: Measure | None) -> str:
    return "-" if found is None else f"{found.value:.2f} ({found.chance:.2f})"


MARKS = {"controls": "*", "rows": "+"}
MARKED = {
    "*": "uses the controls of the held-out batch (transductive)",
    "+": "uses the rows of the held-out batch without labels (transductive)",
}
PARTS = ("top", "rest", "share", "ratio", "gini")
METRICS = ("auroc", "average_precision", "hoyer", *PARTS)


def averaged(scores: Iterable[Score], metric: str, unit: str) -> dict[Hashable, float]:
    """A figure of every unit: the mean over its tasks, guides, seeds and rotations, as far as they are known."""
    found: dict[Hashable, list[float]] = {}
    for score in scores:
        value = score.metric(metric)
        if value is not None and math.isfinite(value):
            found.setdefault(score.unit(unit), []).append(value)
    return {each: float(np.mean(values)) for each, values in found.items()}


def mean_of(scores: list[Score], metric: str, unit: str) -> Mean:
    """The mean over units; several random rotations add their spread to the error."""
    mean = Mean.of(averaged(scores, metric, unit).values())
    rotations = {score.rotation for score in scores}
    if len(rotations) < 2 or mean.error is None:
        return mean
    each = [
        Mean.of(averaged((score for score in scores if score.rotation == number), metric, unit).values()).value
        for number in rotations
    ]
    return replace(mean, error=math.hypot(mean.error, float(np.std(each, ddof=1)) / math.sqrt(len(each))))


def summarised(scores: list[Score], shares: Iterable[str], unit: str) -> Summary:
    """The scores of one condition and classifier."""
    return Summary(
        auroc=mean_of(scores, "auroc", unit),
        average_precision=mean_of(scores, "average_precision", unit),
        hoyer=mean_of(scores, "hoyer", unit) if any(score.hoyer is not None for score in scores) else None,
        concentration={
            share: Concentration(*(mean_of(scores, f"{kind}@{share}", unit) for kind in PARTS))
            for share in shares
            if any(share in score.parts for score in scores)
        },
    )


def judge(
    conditions: Mapping[str, Condition],
    tests: tuple[PairedTest, ...],
    second: tuple[PairedTest, ...],
    classifier: str,
    unit: str,
) -> Verdict:
    """ICA helps, or hurts, if its difference from Base is shown: p at most 0.05, or an interval without zero.

    Both come from one test, so they agree. Below six batches there is no such test, and no verdict.
    """
    auroc = {name: condition.scores[classifier].auroc.value for name, condition in conditions.items()}
    primary = next((test for test in tests if test.primary), None)
    if primary is None:
        best = max(auroc, key=lambda name: auroc[name])
        said = f"Base and PCA+ICA were not both asked for; the highest AUROC on held-out batches is {auroc[best]:.3f}"
        return Verdict("not asked", f"{said}, with {condition_name(best)}.")
    both = f"on held-out batches AUROC is {auroc['pca_ica']:.3f} with PCA+ICA and {auroc['base']:.3f} without"
    if primary.answer == TOO_FEW:
        opening = f"{in_words(primary.pairs, unit)} cannot decide whether ICA helps ({LEAST_PAIRS} can)"
    else:
        opening = OPENINGS[primary.answer]
    said = f"{opening}: {both}, {in_counts(primary, unit)}. The difference is {_numbers(primary)}."
    for test in second:
        said += f" {_second(test, primary)}"
    for name, words in (("pca", "whitening alone"), ("pca_rand", "a random rotation")):
        for test in tests:
            if (test.condition, test.against) == ("pca_ica", name):
                said += f" Beyond {words}: {_numbers(test)}."
    return Verdict(primary.answer, said)


def _second(test: PairedTest, first: PairedTest) -> str:
    """Whether another classifier agrees with the first."""
    by = CLASSIFIER_NAMES.get(test.classifier, test.classifier)
    same = test.answer == first.answer
    if first.answer == TOO_FEW or (same and first.answer == "not shown"):
        return f"With {by} it is {_numbers(test)}."
    if same:
        return f"{by[0].upper()}{by[1:]} agrees: {_numbers(test)}."
    if test.answer == "not shown":
        return f"With {by} it is not shown: {_numbers(test)}."
    return f"{by[0].upper()}{by[1:]} disagrees: with it ICA {test.answer}, {_numbers(test)}."


CLASSIFIER_NAMES = {"lightgbm": "gradient boosting", "logistic": "logistic regression"}


def _numbers(test: PairedTest) -> str:
    """A difference with its interval and p, which agree."""
    span = f"95% interval {test.interval.low:+.3f} to {test.interval.high:+.3f}" if test.interval else ""
    p = "" if test.p_value is None else f"p {told_p(test.p_value, test.pairs)}"
    inside = ", ".join(filter(None, (span, p)))
    return f"{test.difference:+.3f}" + (f" ({inside})" if inside else "")


def in_counts(found: PairedTest | Filtered, unit: str) -> str:
    """In how many pairs it is better, or worse."""
    worse = found.worse > found.better
    return (
        f"{'worse' if worse else 'better'} in {found.worse if worse else found.better} of {in_words(found.pairs, unit)}"
    )


def in_words(number: int, unit: str) -> str:
    """A number of batches or folds."""
    return counted(number, unit, "batches" if unit == "batch" else None)


def told_p(p_value: float | None, pairs: int) -> str:
    """A p-value in words; none below six pairs."""
    smallest = least_p(pairs)
    return "-" if p_value is None or smallest is None else p_text(p_value, smallest)
