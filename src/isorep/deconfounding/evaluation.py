"""Evaluation on held-out batches: transforms once a fold, every classifier on them, paired tests and the filter."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..rows import Progress, map_blocks
from .classifiers import Rows, fit_all, fit_parts
from .components import Component, associations, fit_final, read_components
from .inputs import Inputs, Split, Task, holm, interval_of, least_p, make_splits, paired_p
from .kbet import Mixing, mixing, sample_rows
from .result import Filtered, Fold, Mean, PairedTest, Score
from .transforms import WHITE, Transforms, whitening

FILTERED = "pca_ica without batch-driven components"
STEPS = ("transforms", "classifiers", "mixing", "components")


@dataclass(frozen=True, eq=False)
class Asked:
    """The settings of an evaluation, checked; ``elsewhere`` holds other rows to fit on, where ``fit_on`` is other."""

    names: list[str]
    transformers: Mapping[str, Any]
    fit_on: str
    elsewhere: Array | None
    n_components: int | str | None
    classifiers: tuple[str, ...]
    top: tuple[float, ...]
    batch_limit: float
    test: str
    random_state: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Every seed and split, with the tasks that have both classes on both sides of it."""

    tasks: list[Task]
    steps: list[tuple[int, Split, list[Task]]]
    facts: list[Fold]
    skipped: int
    left_out: list[str]
    split: str
    each: bool

    @classmethod
    def make(
        cls, inputs: Inputs, tasks: list[Task], split: str, folds: int, n_seeds: int, random_state: int, *, each: bool
    ) -> Plan:
        """Refuse a task that no split can evaluate before any work; of one task ``each`` it is left out."""
        steps, facts, skipped = [], [], 0
        everyone = positives_of(tasks, len(inputs.values))
        for seed in range(n_seeds):
            rng = np.random.default_rng([random_state, seed])
            for part in make_splits(inputs.batch, tasks, split, folds, rng):
                usable = [task for task in tasks if _has_both(task, part.train) and _has_both(task, part.test)]
                skipped += len(tasks) - len(usable)
                steps.append((seed, part, usable))
                rows, positives = (
                    [int((mask & kind).sum()) for mask in (part.train, part.test)] for kind in (True, everyone)
                )
                facts.append(Fold(seed, part.number, part.held_out, *rows, *positives))
        evaluated = {id(task) for _, _, usable in steps for task in usable}
        lost = [task for task in tasks if id(task) not in evaluated]
        if lost and (not each or len(lost) == len(tasks)):
            raise InputError(_why_lost(lost[0], inputs))
        kept = [task for task in tasks if id(task) in evaluated]
        skipped -= len(lost) * len(steps)
        return cls(kept, steps, facts, skipped, [_task_words(task) for task in lost], split, each)

    @property
    def test_over_train(self) -> float:
        """Mean ratio of test to training rows; 0 where training sets share no rows."""
        if self.split == "train_on_one":
            return 0.0
        return float(np.mean([fold.test_rows / fold.train_rows for fold in self.facts]))


@dataclass(eq=False)
class Evaluation:
    """Scores of every fit, those without batch-driven components among them, and what else is seen along the way."""

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
        """Add up the seconds of a step."""
        began = time.perf_counter()
        yield
        self.seconds[step] += time.perf_counter() - began


@dataclass(frozen=True, eq=False)
class Space:
    """All rows under a condition, and the columns that a classifier sees: the filter needs no copy."""

    values: Array
    columns: Array


def evaluate(inputs: Inputs, plan: Plan, asked: Asked, tell: Progress) -> Evaluation:
    """Every split: all conditions first, then every classifier and task on them, one thread a core."""
    found = Evaluation()
    transforms: Transforms | None = None
    for step, (seed, split, tasks) in enumerate(plan.steps):
        tell("transforms", step, len(plan.steps))
        with found.timed("transforms"):
            if transforms is None or asked.fit_on == "train":  # other transforms are the same for every fold
                transforms = _transforms(inputs, split, asked)
            rotation = int(np.random.default_rng([asked.random_state, seed, 1]).integers(2**31))
            every = {name: transforms(name, rotation) for name in asked.names}
        tell("transforms", step + 1, len(plan.steps))
        tell("classifiers", step, len(plan.steps))
        spaces = {name: Space(values, np.arange(values.shape[1])) for name, values in every.items()}
        found.dimensions = {name: len(space.columns) for name, space in spaces.items()} | found.dimensions
        if "pca_ica" in spaces:
            spaces[FILTERED] = Space(every["pca_ica"], _not_driven(every["pca_ica"], inputs, split, asked, found))
        with found.timed("classifiers"):
            found.scores += _classified(spaces, seed, split, tasks, asked)
        if step == 0:
            with found.timed("mixing"):
                found.mixings = _mixings(spaces, inputs, plan, asked.random_state)
        tell("classifiers", step + 1, len(plan.steps))
    return found


def paired_tests(found: Evaluation, plan: Plan, asked: Asked) -> tuple[PairedTest, ...]:
    """PCA+ICA against every other condition, or all pairs without it."""
    if "pca_ica" in asked.names:
        pairs = [("pca_ica", name) for name in asked.names if name != "pca_ica"]
    else:
        pairs = [(second, first) for first, second in combinations(asked.names, 2)]
    rng = np.random.default_rng([asked.random_state, 2**21])
    every = [differences(found, *pair, asked.classifiers[0]) for pair in pairs]
    p_values = [paired_p(each, asked.test, rng) for each in every]
    return tuple(
        PairedTest(
            *pair,
            float(each.mean()),
            interval_of(each, plan.test_over_train),
            p_value,
            corrected,
            len(each),
            least_p(len(each), asked.test),
        )
        for pair, each, p_value, corrected in zip(pairs, every, p_values, holm(p_values), strict=True)
    )


def filtered(found: Evaluation, plan: Plan, asked: Asked) -> Filtered | None:
    """What dropping batch-driven components changes."""
    if "pca_ica" not in asked.names:
        return None
    by = asked.classifiers[0]
    each = differences(found, FILTERED, "pca_ica", by)
    return Filtered(
        auroc=Mean.of(score.auroc for score in found.scores_of(FILTERED, by)),
        difference=float(each.mean()),
        interval=interval_of(each, plan.test_over_train),
        p_value=paired_p(each, asked.test, np.random.default_rng([asked.random_state, 2**22])),
        pairs=len(each),
        dropped=Mean.of(map(float, found.dropped)),
        mixing=found.mixings.get(FILTERED),
    )


def final_components(
    inputs: Inputs, asked: Asked, n_restarts: int, n_examples: int
) -> tuple[ICA, tuple[Component, ...]]:
    """PCA+ICA on all rows that transforms may see, and its components."""
    fitted = inputs.values if asked.elsewhere is None else asked.elsewhere
    batch = inputs.batch.codes if asked.elsewhere is None else None
    wanted = whitening(fitted, asked.n_components).matrix.shape[1]
    model = fit_final(fitted, batch, wanted, n_restarts, asked.random_state)
    return model.ica, read_components(model, inputs, asked.batch_limit, n_examples)


def differences(found: Evaluation, mine: str, other: str, classifier: str) -> Array:
    """Differences in AUROC of two conditions on the same task, guide, fold and seed."""
    theirs = {_same(score): score.auroc for score in found.scores_of(other, classifier)}
    return np.array([score.auroc - theirs[_same(score)] for score in found.scores_of(mine, classifier)])


def positives_of(tasks: list[Task], n: int) -> Array:
    """Which of ``n`` rows are perturbed in some task."""
    chosen = np.zeros(n, dtype=bool)
    for task in tasks:
        chosen[task.positives] = True
    return chosen


def _transforms(inputs: Inputs, split: Split, asked: Asked) -> Transforms:
    fitted = inputs.values[split.train] if asked.fit_on == "train" else inputs.values
    return Transforms(
        inputs.values,
        fitted if asked.elsewhere is None else asked.elsewhere,
        n_components=asked.n_components,
        batch=inputs.batch,
        transformers=asked.transformers,
    )


def _classified(
    spaces: Mapping[str, Space], seed: int, split: Split, tasks: list[Task], asked: Asked
) -> Iterator[Score]:
    """All fits of a split side by side; a second round, on ranked features, for the concentration."""
    fits = [
        (name, classifier, task)
        for name in spaces
        for classifier in (asked.classifiers if name != FILTERED else asked.classifiers[:1])
        for task in tasks
    ]
    parts = [(index, share) for index, fit in enumerate(fits) for share in asked.top if fit[0] != FILTERED]

    def rows_of(index: int) -> tuple[Rows, str, int]:
        name, classifier, task = fits[index]
        (train, train_truth), (test, test_truth) = task.rows(split.train), task.rows(split.test)
        space = spaces[name]
        rows = Rows(space.values, train, train_truth, test, test_truth, space.columns)
        return rows, classifier, asked.random_state + seed

    def part(at: slice) -> tuple[float, float] | None:
        index, share = parts[at.start]
        return fit_parts(*rows_of(index), whole[index][1], share)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking of rows settles long before the weights
        whole = map_blocks(lambda at: fit_all(*rows_of(at.start)), len(fits), 1)
        concentrated = map_blocks(part, len(parts), 1)
    for index, (name, classifier, task) in enumerate(fits):
        pairs = {
            f"{share:g}": pair for (at, share), pair in zip(parts, concentrated, strict=True) if at == index and pair
        }
        where = (name, classifier, task.name, task.guide, split.number, seed)
        yield Score(*where, **asdict(whole[index][0]), parts=pairs)


def _not_driven(sources: Array, inputs: Inputs, split: Split, asked: Asked, found: Evaluation) -> Array:
    """The components that are not batch-driven on the training batches; one has to stay."""
    label_r2, batch_r2, driven = associations(sources, inputs.label, inputs.batches, asked.batch_limit, split.train)
    if driven.all():
        found.nothing_left += 1
        driven[np.argmax(label_r2 - batch_r2.max(axis=0))] = False
    found.dropped.append(int(driven.sum()))
    return np.flatnonzero(~driven)


def _mixings(spaces: Mapping[str, Space], inputs: Inputs, plan: Plan, random_state: int) -> dict[str, Mixing]:
    """Batch structure under the transforms of the first fold; rotations of one space share it."""
    sample = sample_rows(inputs.batch.codes, np.random.default_rng([random_state, 2**20]))
    if sample is None:
        return {}
    positive = positives_of(plan.tasks, len(inputs.values))[sample]
    first = next((name for name in WHITE if name in spaces), None)
    apart = [name for name in spaces if name not in WHITE or name == first]

    def of_space(at: slice) -> Mixing:
        space = spaces[apart[at.start]]
        return mixing(space.values[np.ix_(sample, space.columns)], inputs.batch.codes[sample], positive)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixings = dict(zip(apart, map_blocks(of_space, len(apart), 1), strict=True))
    return mixings | {name: mixings[first] for name in WHITE if first is not None and name in spaces}


def _same(score: Score) -> tuple[str, str | None, int, int]:
    return score.task, score.guide, score.fold, score.seed


def _has_both(task: Task, chosen: Array) -> bool:
    return bool(chosen[task.positives].any() and chosen[task.controls].any())


def _task_words(task: Task) -> str:
    return task.name if task.guide is None else f"{task.name}, guide {task.guide}"


def _why_lost(task: Task, inputs: Inputs) -> str:
    batch = inputs.batch
    batches = [len(np.unique(batch.codes[rows])) for rows in (task.positives, task.controls)]
    for count, kind in zip(batches, ("perturbed", "control"), strict=True):
        if count == 1:
            name = batch.names[int(batch.codes[(task.positives if kind == "perturbed" else task.controls)[0]])]
            return (
                f"all {kind} rows of {_task_words(task)} lie in one value of {batch.title}, {name!r}: no other "
                "batch can test what is learnt there"
            )
    return (
        f"no split of {batch.title} has perturbed and control rows of {_task_words(task)} on both sides: use fewer "
        "folds or another split"
    )
