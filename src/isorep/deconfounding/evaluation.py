"""Evaluation on held-out batches: transforms once per fold, every classifier on them, paired tests and the filter."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, roc_auc_score

from ..errors import InputError
from ..ica import Whitening
from ..ica.whitening import quietly
from ..representation import Array
from ..rows import Progress, map_blocks
from .classifiers import Rows, bins_for, fit_parts, fitted, hoyer
from .components import associations, batch_driven
from .dimensions import Choice, choose
from .inputs import Column, Inputs, Request, Split, Task, make_splits, shared_by_controls
from .measures import Mixing, forest_auroc, mixing, sample_rows
from .paired import Comparison, compared, holm
from .result import Condition, Filtered, Fold, PairedTest, Score, averaged, summarised
from .transforms import WHITE, Transforms, leading, used_by

FILTERED = "pca_ica without batch-driven components"
FURTHER = "pca_rand "  # before the number of a further rotation
STEPS = ("dimensions", "transforms", "classifiers", "mixing", "components")


@dataclass(frozen=True, eq=False)
class Plan:
    """Every seed and split, with the tasks that have both classes on both sides of it.

    ``test_over_train`` is the mean ratio of the test rows of a pair to the training rows.
    """

    tasks: list[Task]
    steps: list[tuple[int, Split, list[Task]]]
    facts: list[Fold]
    skipped: int
    left_out: list[str]
    test_over_train: float

    @classmethod
    def make(cls, inputs: Inputs, tasks: list[Task], asked: Request) -> Plan:
        """Refuse a task that no split can evaluate before any work; with ``each`` it is left out."""
        steps, facts, empty = [], [], 0
        positive = positives_of(tasks, len(inputs.values))
        for seed in range(asked.n_seeds):
            rng = np.random.default_rng([asked.random_state, seed])
            for split in make_splits(inputs.batch, tasks, asked.split, asked.folds, rng, inputs.also):
                usable = [task for task in tasks if task.has_both(split.train) and task.has_both(split.test)]
                if not usable:
                    empty += len(tasks)
                    continue
                steps.append((seed, split, usable))
                masks = (split.train, split.test, split.train & positive, split.test & positive)
                sizes = (int(mask.sum()) for mask in masks)
                facts.append(Fold(seed, split.number, split.held_out, split.beside, *sizes))
        evaluated = {id(task) for _, _, usable in steps for task in usable}
        kept = [task for task in tasks if id(task) in evaluated]
        lost = [task for task in tasks if id(task) not in evaluated]
        if lost and not (asked.each and kept):
            raise InputError(_why_lost(lost[0], inputs))
        skipped = empty + sum(len(kept) - len(usable) for _, _, usable in steps)
        ratio = np.mean([_test_over_train(split, inputs.batch, asked) for _, split, _ in steps])
        return cls(kept, steps, facts, skipped, [str(task) for task in lost], float(ratio))


@dataclass(eq=False)
class Evaluation:
    """Scores of every fit, including those without batch-driven components, and other results of the evaluation."""

    scores: list[Score] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    nothing_left: int = 0
    dimensions: dict[str, int] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    mixings: dict[str, Mixing] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    def scores_of(self, condition: str, classifier: str) -> list[Score]:
        """The scores of one condition by one classifier."""
        return [score for score in self.scores if (score.condition, score.classifier) == (condition, classifier)]

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the run time of a step."""
        began = time.perf_counter()
        yield
        self.seconds[step] += time.perf_counter() - began


Space = tuple[Array, Array]
"""All rows under a condition, and the columns that a classifier uses: the filter needs no copy."""


def evaluate(inputs: Inputs, plan: Plan, asked: Request, tell: Progress) -> Evaluation:
    """Every split: all conditions first, then every classifier and task on them, one thread per core."""
    result = Evaluation()
    makers = Makers(inputs, plan.tasks, asked)
    total = len(plan.steps)
    for step, (seed, split, tasks) in enumerate(plan.steps):
        tell("transforms", step, total)
        with result.timed("dimensions"):
            choice = makers.choose(split.train)
        with result.timed("transforms"):
            transforms = makers.make(split.train, choice)
            spaces = {name: (values, np.arange(values.shape[1])) for name, values in _made(transforms, seed, asked)}
        if choice is not None:
            result.choices.append(choice)
        tell("transforms", step + 1, total)
        tell("classifiers", step, total)
        result.dimensions = {name: len(columns) for name, (_, columns) in spaces.items()} | result.dimensions
        if "pca_ica" in spaces:
            sources = spaces["pca_ica"][0]
            spaces[FILTERED] = sources, _not_driven(sources, inputs, split, asked, result)
        with result.timed("classifiers"):
            result.scores += _classified(spaces, seed, split, tasks, inputs.batch, asked)
        if step == 0 and asked.mixing:
            with result.timed("mixing"):
                result.mixings = _mixings(spaces, inputs, plan, asked.random_state)
        tell("classifiers", step + 1, total)
    return result


class Makers:
    """Whitenings, the number of axes they keep, and transforms; those that are the same for all folds are kept."""

    def __init__(self, inputs: Inputs, tasks: Sequence[Task], asked: Request) -> None:
        self._inputs, self._tasks, self._asked = inputs, tasks, asked
        self._needed = any(name in (*WHITE, "harmony") for name in asked.names)
        self._kept: dict[int | None, Transforms] = {}
        self._white: Whitening | None = None

    def choose(self, train: Array) -> Choice | None:
        """The number of axes for a fold, from its training rows; None where no condition needs axes."""
        if not self._needed:
            return None
        inputs, asked = self._inputs, self._asked
        own = asked.fit_on == "train"
        if own or self._white is None:
            self._white = quietly(Whitening(), self._fitted(train))
        rows = np.flatnonzero(train)
        place = np.full(len(train), -1)
        place[rows] = np.arange(len(rows))
        inside = [
            replace(task, positives=place[task.positives[train[task.positives]]], controls=place[kept])
            for task in self._tasks
            if len(kept := task.controls[train[task.controls]])
        ]
        white, spectrum = self._white, self._white.singular_values_**2
        axes = np.asarray(white.transform(inputs.values[rows])) * white.singular_values_
        fitted_rows = len(self._fitted(train))
        return choose(asked.n_components, axes, spectrum, fitted_rows, inputs.batch.codes[rows], inside, own)

    def make(self, train: Array, choice: Choice | None) -> Transforms:
        """Transforms for a fold."""
        inputs, asked = self._inputs, self._asked
        size = None if choice is None else choice.dimensions
        if asked.fit_on != "train" and size in self._kept:
            return self._kept[size]
        among = None if asked.elsewhere is not None else train if asked.fit_on == "train" else np.ones_like(train)
        white = None if self._white is None or size is None else leading(self._white, size)
        controls = np.zeros(len(train), dtype=bool)
        controls[self._tasks[0].controls] = True
        found = Transforms(
            inputs.values, self._fitted(train), among, white, inputs.batches, controls, asked.transformers
        )
        if asked.fit_on != "train":
            self._kept[size] = found
        return found

    def _fitted(self, train: Array) -> Array:
        if self._asked.elsewhere is not None:
            return self._asked.elsewhere
        return self._inputs.values[train] if self._asked.fit_on == "train" else self._inputs.values


def _made(transforms: Transforms, seed: int, asked: Request) -> Iterator[tuple[str, Array]]:
    """All conditions; further rotations are conditions of their own until they are scored."""
    draw = np.random.default_rng([asked.random_state, seed, 1])
    rotations = [int(draw.integers(2**31)) for _ in range(asked.n_rotations)]
    for name in asked.names:
        yield name, transforms(name, rotations[0])
    if "pca_rand" in asked.names:
        for number, rotation in enumerate(rotations[1:], 1):
            yield f"{FURTHER}{number}", transforms("pca_rand", rotation)


def conditions_of(evaluation: Evaluation, asked: Request) -> dict[str, Condition]:
    """The results of each condition by classifier."""
    shares, conditions = [f"{share:g}" for share in asked.top], {}
    for name in asked.names:
        scores = {by: summarised(evaluation.scores_of(name, by), shares, asked.unit) for by in asked.classifiers}
        uses, mixed = used_by(name, asked.transformers), evaluation.mixings.get(name)
        conditions[name] = Condition(name, evaluation.dimensions[name], scores, mixed, uses)
    return conditions


def paired_tests(
    evaluation: Evaluation, plan: Plan, asked: Request
) -> tuple[tuple[PairedTest, ...], tuple[PairedTest, ...]]:
    """Tests by the first classifier, and that of PCA+ICA against Base by the others.

    PCA+ICA against Base comes first and is not corrected. PCA+ICA against every other condition, and every other
    condition against Base, are corrected together; without PCA+ICA or Base, all pairs.
    """
    names, first = asked.names, asked.classifiers[0]
    primary = [("pca_ica", "base")] if {"pca_ica", "base"} <= set(names) else []
    rest = [name for name in names if name not in ("pca_ica", "base")]
    if primary:
        others = [("pca_ica", name) for name in rest] + [(name, "base") for name in rest]
    elif "pca_ica" in names:
        others = [("pca_ica", name) for name in rest]
    else:
        others = [(later, earlier) for earlier, later in combinations(names, 2)]
    found = [
        PairedTest.of(pair, first, compare(evaluation, plan, asked, *pair, first), not at and bool(primary))
        for at, pair in enumerate(primary + others)
    ]
    second = [
        PairedTest.of(pair, by, compare(evaluation, plan, asked, *pair, by), False)
        for pair in primary
        for by in asked.classifiers[1:]
    ]
    p_values = [test.p_value for test in found if not test.primary and test.p_value is not None]
    corrected = iter(holm(p_values))
    tests = [
        replace(test, corrected=next(corrected)) if not test.primary and test.p_value is not None else test
        for test in found
    ]
    return tuple(tests), tuple(second)


def compare(evaluation: Evaluation, plan: Plan, asked: Request, mine: str, other: str, classifier: str) -> Comparison:
    """Two conditions on the same held-out batches (or folds), each averaged over tasks, guides, seeds and rotations."""
    first, second = (averaged(evaluation.scores_of(name, classifier), "auroc", asked.unit) for name in (mine, other))
    differences = np.array([first[unit] - second[unit] for unit in first if unit in second])
    return compared(differences, plan.test_over_train, np.random.default_rng([asked.random_state, 2**21]))


def filtered(evaluation: Evaluation, plan: Plan, asked: Request) -> Filtered | None:
    """The effect of dropping batch-driven components."""
    if "pca_ica" not in asked.names:
        return None
    by = asked.classifiers[0]
    found = compare(evaluation, plan, asked, FILTERED, "pca_ica", by)
    return Filtered(
        **vars(found),
        auroc=summarised(evaluation.scores_of(FILTERED, by), (), asked.unit).auroc,
        dropped=float(np.mean(evaluation.dropped)),
        mixing=evaluation.mixings.get(FILTERED),
    )


def _test_over_train(split: Split, batch: Column, asked: Request) -> float:
    """Rows of one pair over those that train for it; each held-out batch is trained for by all the others in turn."""
    held = np.isin(np.array(batch.names), split.held_out)[batch.codes]
    pairs = len(split.held_out) if asked.unit == "batch" else 1
    if asked.split == "train_on_one":
        return float(held.sum() / pairs / (len(held) - held.sum() / pairs)) if asked.unit == "batch" else 0.0
    return float(held.sum() / pairs / max((~held).sum(), 1))


def positives_of(tasks: list[Task], n: int) -> Array:
    """Which of ``n`` rows are perturbed in some task."""
    chosen = np.zeros(n, dtype=bool)
    for task in tasks:
        chosen[task.positives] = True
    return chosen


def _classified(
    spaces: Mapping[str, Space], seed: int, split: Split, tasks: list[Task], batch: Column, asked: Request
) -> list[Score]:
    """All fits of a split in parallel; each is repeated on ranked features, for the concentration."""
    first = asked.classifiers[0]
    bins = bins_for(int(split.train.sum()), max(len(columns) for _, columns in spaces.values()))
    # A further rotation is scored like the first one; linear classifiers do not see rotations.
    fits = [
        (name, classifier, task)
        for name in spaces
        for classifier in (asked.classifiers if name != FILTERED and not name.startswith(FURTHER) else (first,))
        for task in tasks
    ]
    fits.sort(
        key=lambda each: -len(spaces[each[0]][1]) * (each[1] == "lightgbm")
    )  # long ones first: cores end together

    def fit_one(at: slice) -> list[Score]:
        name, classifier, task = fits[at.start]
        rows = replace(Rows(*spaces[name], *task.rows(split.train), *task.rows(split.test)), bins=bins)
        predicted, importance = fitted(rows, classifier, asked.random_state + seed)
        parts = {}
        for share in asked.top if classifier == first and name in asked.names else ():
            pair = fit_parts(rows, classifier, asked.random_state + seed, importance, share)
            if pair is not None:
                parts[f"{share:g}"] = pair

        def auroc(here: Array, scores: Array) -> float:
            return float(roc_auc_score(rows.test_truth[here], scores[here]))

        condition, _, number = name.partition(" ") if name.startswith(FURTHER) else (name, "", "0")
        sparsity = hoyer(importance) if classifier == "lightgbm" else None
        return [
            Score(
                condition,
                classifier,
                task.name,
                task.guide,
                split.number,
                seed,
                where,
                int(number),
                auroc(here, predicted),
                float(average_precision_score(rows.test_truth[here], predicted[here])),
                sparsity,
                {share: (auroc(here, top), auroc(here, rest)) for share, (top, rest) in parts.items()},
            )
            for where, here in scored_parts(rows, batch, asked.unit)
        ]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking of rows converges long before the weights
        order = {name: place for place, name in enumerate((*asked.names, FILTERED))}
        scores = [score for some in map_blocks(fit_one, len(fits), 1) for score in some]
    return sorted(scores, key=lambda score: order[score.condition])


def scored_parts(rows: Rows, batch: Column, unit: str) -> list[tuple[str | None, Array]]:
    """The test rows of each held-out batch with both classes; all together where there is none, or for folds."""
    codes = batch.codes[rows.test]
    parts: list[tuple[str | None, Array]] = []
    for code in np.unique(codes) if unit == "batch" else ():
        here = codes == code
        if 0 < rows.test_truth[here].sum() < here.sum():
            parts.append((batch.names[code], here))
    return parts or [(None, np.ones(len(codes), dtype=bool))]


def _not_driven(sources: Array, inputs: Inputs, split: Split, asked: Request, result: Evaluation) -> Array:
    """The components that are not batch-driven on the training batches; at least one is kept."""
    found = associations(sources, inputs.label, inputs.batches, split.train)
    driven = batch_driven(found, asked.batch_limit)
    if driven.all():
        most = found.max(axis=1)
        result.nothing_left += 1
        driven[np.argmax(most[0] - most[1:].max(axis=0))] = False
    result.dropped.append(int(driven.sum()))
    return np.flatnonzero(~driven)


def _mixings(spaces: Mapping[str, Space], inputs: Inputs, plan: Plan, random_state: int) -> dict[str, Mixing]:
    """Batches and labels under the transforms of the first fold; rotations of one space differ in the forest alone."""
    sample = sample_rows(inputs.batch.codes, np.random.default_rng([random_state, 2**20]))
    if sample is None:
        return {}
    n = len(inputs.values)
    control = np.zeros(n, dtype=bool)
    control[plan.tasks[0].controls] = True
    about = [each[sample] for each in (inputs.batch.codes, inputs.label.codes, positives_of(plan.tasks, n), control)]
    names = [name for name in spaces if not name.startswith(FURTHER)]
    turned = [name for name in WHITE if name in spaces][1:]

    def of_space(at: slice) -> Mixing | float:
        values, columns = spaces[names[at.start]]
        rows = values[np.ix_(sample, columns)]
        return forest_auroc(rows, about[0]) if names[at.start] in turned else mixing(rows, *about)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = dict(zip(names, map_blocks(of_space, len(names), 1), strict=True))
    whole = {name: each for name, each in found.items() if isinstance(each, Mixing)}
    first = next((whole[name] for name in WHITE if name in whole), None)
    more = {
        name: replace(first, batch_forest_auroc=each)
        for name, each in found.items()
        if first is not None and isinstance(each, float)
    }
    return {name: (whole | more)[name] for name in names}


def _why_lost(task: Task, inputs: Inputs) -> str:
    """Why no split can evaluate a task."""
    columns = [inputs.batch, *([inputs.also] if inputs.also else [])]
    for column in columns:
        for kind, rows in (("perturbed", task.positives), ("control", task.controls)):
            codes = np.unique(column.codes[rows])
            exempt = column is inputs.also and kind == "control" and shared_by_controls(column, [task])
            if len(codes) == 1 and not exempt:
                where = f"all {kind} rows of {task} lie in one value of {column.title}, {column.names[codes[0]]!r}"
                return f"{where}: no other value can test what is learnt there"
    both = " and ".join(column.title for column in columns)
    told = f"no split of {both} has perturbed and control rows of {task} on both sides"
    return f"{told}: use fewer folds or another split"
