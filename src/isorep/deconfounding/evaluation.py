"""Evaluation on held-out batches: transforms once per fold, every classifier on them, paired tests and the filter."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, map_blocks
from .classifiers import Rows, fit_all, fit_parts
from .components import associations
from .inputs import Column, Inputs, Request, Split, Task, holm, interval_of, least_p, make_splits, paired_p
from .measures import Mixing, mixing, sample_rows
from .result import Condition, Filtered, Fold, Mean, PairedTest, Score, summarised
from .transforms import WHITE, Transforms

FILTERED = "pca_ica without batch-driven components"
STEPS = ("transforms", "classifiers", "mixing", "components")


@dataclass(frozen=True, eq=False)
class Plan:
    """Every seed and split, with the tasks that have both classes on both sides of it.

    ``test_over_train`` is the mean ratio of test to training rows; 0 where training sets share no rows.
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
        steps, facts = [], []
        positive = positives_of(tasks, len(inputs.values))
        for seed in range(asked.n_seeds):
            rng = np.random.default_rng([asked.random_state, seed])
            for split in make_splits(inputs.batch, tasks, asked.split, asked.folds, rng):
                usable = [task for task in tasks if task.has_both(split.train) and task.has_both(split.test)]
                steps.append((seed, split, usable))
                masks = (split.train, split.test, split.train & positive, split.test & positive)
                facts.append(Fold(seed, split.number, split.held_out, *(int(mask.sum()) for mask in masks)))
        evaluated = {id(task) for _, _, usable in steps for task in usable}
        kept = [task for task in tasks if id(task) in evaluated]
        lost = [task for task in tasks if id(task) not in evaluated]
        if lost and not (asked.each and kept):
            raise InputError(_why_lost(lost[0], inputs.batch))
        skipped = sum(len(kept) - len(usable) for _, _, usable in steps)
        ratios = [0.0 if asked.split == "train_on_one" else fold.test_rows / fold.train_rows for fold in facts]
        return cls(kept, steps, facts, skipped, [str(task) for task in lost], float(np.mean(ratios)))


@dataclass(eq=False)
class Evaluation:
    """Scores of every fit, including those without batch-driven components, and other results of the evaluation."""

    scores: list[Score] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    nothing_left: int = 0
    dimensions: dict[str, int] = field(default_factory=dict)
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
    transforms: Transforms | None = None
    for step, (seed, split, tasks) in enumerate(plan.steps):
        tell("transforms", step, len(plan.steps))
        with result.timed("transforms"):
            if transforms is None or asked.fit_on == "train":  # other transforms are the same for every fold
                fitted = inputs.values[split.train] if asked.fit_on == "train" else inputs.values
                fitted = fitted if asked.elsewhere is None else asked.elsewhere
                transforms = Transforms(inputs.values, fitted, asked.n_components, inputs.batch, asked.transformers)
            rotation = int(np.random.default_rng([asked.random_state, seed, 1]).integers(2**31))
            every = {name: transforms(name, rotation) for name in asked.names}
        tell("transforms", step + 1, len(plan.steps))
        tell("classifiers", step, len(plan.steps))
        spaces = {name: (values, np.arange(values.shape[1])) for name, values in every.items()}
        result.dimensions = {name: len(columns) for name, (_, columns) in spaces.items()} | result.dimensions
        if "pca_ica" in spaces:
            spaces[FILTERED] = every["pca_ica"], _not_driven(every["pca_ica"], inputs, split, asked, result)
        with result.timed("classifiers"):
            result.scores += _classified(spaces, seed, split, tasks, asked)
        if step == 0:
            with result.timed("mixing"):
                result.mixings = _mixings(spaces, inputs, plan, asked.random_state)
        tell("classifiers", step + 1, len(plan.steps))
    return result


def conditions_of(evaluation: Evaluation, asked: Request) -> dict[str, Condition]:
    """The results of each condition by classifier."""
    shares, conditions = [f"{share:g}" for share in asked.top], {}
    for name in asked.names:
        scores = {by: summarised(evaluation.scores_of(name, by), shares) for by in asked.classifiers}
        conditions[name] = Condition(name, evaluation.dimensions[name], scores, evaluation.mixings.get(name))
    return conditions


def paired_tests(evaluation: Evaluation, plan: Plan, asked: Request) -> tuple[PairedTest, ...]:
    """PCA+ICA against every other condition, or all pairs without it."""
    if "pca_ica" in asked.names:
        pairs = [("pca_ica", name) for name in asked.names if name != "pca_ica"]
    else:
        pairs = [(second, first) for first, second in combinations(asked.names, 2)]
    rng = np.random.default_rng([asked.random_state, 2**21])
    every = [differences(evaluation, *pair, asked.classifiers[0]) for pair in pairs]
    p_values = [paired_p(each, asked.test, rng) for each in every]
    tests = []
    for pair, each, p_value, corrected in zip(pairs, every, p_values, holm(p_values), strict=True):
        interval, least = interval_of(each, plan.test_over_train), least_p(len(each), asked.test)
        tests.append(PairedTest(*pair, float(each.mean()), interval, p_value, corrected, len(each), least))
    return tuple(tests)


def filtered(evaluation: Evaluation, plan: Plan, asked: Request) -> Filtered | None:
    """The effect of dropping batch-driven components."""
    if "pca_ica" not in asked.names:
        return None
    by = asked.classifiers[0]
    each = differences(evaluation, FILTERED, "pca_ica", by)
    return Filtered(
        auroc=Mean.of(score.auroc for score in evaluation.scores_of(FILTERED, by)),
        difference=float(each.mean()),
        interval=interval_of(each, plan.test_over_train),
        p_value=paired_p(each, asked.test, np.random.default_rng([asked.random_state, 2**22])),
        pairs=len(each),
        dropped=Mean.of(map(float, evaluation.dropped)),
        mixing=evaluation.mixings.get(FILTERED),
    )


def differences(evaluation: Evaluation, mine: str, other: str, classifier: str) -> Array:
    """Differences in AUROC of two conditions on the same task, guide, fold and seed, which they have in one order."""
    pairs = zip(*(evaluation.scores_of(name, classifier) for name in (mine, other)), strict=True)
    return np.array([score.auroc - against.auroc for score, against in pairs])


def positives_of(tasks: list[Task], n: int) -> Array:
    """Which of ``n`` rows are perturbed in some task."""
    chosen = np.zeros(n, dtype=bool)
    for task in tasks:
        chosen[task.positives] = True
    return chosen


def _classified(spaces: Mapping[str, Space], seed: int, split: Split, tasks: list[Task], asked: Request) -> list[Score]:
    """All fits of a split in parallel; each is repeated on ranked features, for the concentration."""
    fits = [
        (name, classifier, task)
        for name in spaces
        for classifier in (asked.classifiers if name != FILTERED else asked.classifiers[:1])
        for task in tasks
    ]

    def fit(at: slice) -> Score:
        name, classifier, task = fits[at.start]
        rows = Rows(*spaces[name], *task.rows(split.train), *task.rows(split.test))
        figures, ranked = fit_all(rows, classifier, asked.random_state + seed)
        parts = {}
        for share in asked.top if name != FILTERED else ():
            pair = fit_parts(rows, classifier, asked.random_state + seed, ranked, share)
            if pair is not None:
                parts[f"{share:g}"] = pair
        return Score(name, classifier, task.name, task.guide, split.number, seed, **figures, parts=parts)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking of rows converges long before the weights
        return map_blocks(fit, len(fits), 1)


def _not_driven(sources: Array, inputs: Inputs, split: Split, asked: Request, result: Evaluation) -> Array:
    """The components that are not batch-driven on the training batches; at least one is kept."""
    label_r2, batch_r2, driven = associations(sources, inputs.label, inputs.batches, asked.batch_limit, split.train)
    if driven.all():
        result.nothing_left += 1
        driven[np.argmax(label_r2 - batch_r2.max(axis=0))] = False
    result.dropped.append(int(driven.sum()))
    return np.flatnonzero(~driven)


def _mixings(spaces: Mapping[str, Space], inputs: Inputs, plan: Plan, random_state: int) -> dict[str, Mixing]:
    """Batch structure under the transforms of the first fold; rotations of one space share it."""
    sample = sample_rows(inputs.batch.codes, np.random.default_rng([random_state, 2**20]))
    if sample is None:
        return {}
    positive = positives_of(plan.tasks, len(inputs.values))[sample]
    white = [name for name in WHITE if name in spaces]
    apart = [name for name in spaces if name not in white[1:]]

    def of_space(at: slice) -> Mixing:
        values, columns = spaces[apart[at.start]]
        return mixing(values[np.ix_(sample, columns)], inputs.batch.codes[sample], positive)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixings = dict(zip(apart, map_blocks(of_space, len(apart), 1), strict=True))
    for name in white[1:]:
        mixings[name] = mixings[white[0]]
    return mixings


def _why_lost(task: Task, batch: Column) -> str:
    """Why no split can evaluate a task."""
    for kind, rows in (("perturbed", task.positives), ("control", task.controls)):
        codes = np.unique(batch.codes[rows])
        if len(codes) == 1:
            where = f"all {kind} rows of {task} lie in one value of {batch.title}, {batch.names[codes[0]]!r}"
            return f"{where}: no other batch can test what is learnt there"
    told = f"no split of {batch.title} has perturbed and control rows of {task} on both sides"
    return f"{told}: use fewer folds or another split"
