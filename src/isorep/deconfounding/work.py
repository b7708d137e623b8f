"""The work of an evaluation: fit transforms once a fold, run every classifier on them, and keep what they show."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..rows import Progress, map_blocks
from .classifiers import Measured, Rows, fit_all, fit_parts
from .components import Component, associations, fit_final, read_components
from .inputs import Inputs, Split, Task, holm, interval_of, least_p, make_splits, paired_p
from .kbet import Mixing, mixing, sample_rows
from .result import Filtered, Fold, Mean, PairedTest, Score
from .transforms import WHITE, Transforms, whitening

FILTERED = "pca_ica without batch-driven components"


@dataclass(frozen=True, eq=False)
class Plan:
    """Every seed and split, with the tasks that have both classes on both sides of it."""

    tasks: list[Task]
    steps: list[tuple[int, Split, list[Task]]]
    facts: list[Fold]
    skipped: int
    left_out: list[str]
    split: str

    @classmethod
    def make(
        cls,
        inputs: Inputs,
        tasks: list[Task],
        split: str,
        folds: int,
        n_seeds: int,
        random_state: int,
        *,
        lenient: bool,
    ) -> Plan:
        """Refuse a task that no split can evaluate before any work; with ``lenient`` leave it out."""
        steps, facts, skipped = [], [], 0
        everyone = np.zeros(len(inputs.values), dtype=bool)
        for task in tasks:
            everyone[task.positives] = True
        for seed in range(n_seeds):
            rng = np.random.default_rng([random_state, seed])
            for each in make_splits(inputs.batch, tasks, split, folds, rng):
                usable = [task for task in tasks if _has_both(task, each.train) and _has_both(task, each.test)]
                skipped += len(tasks) - len(usable)
                steps.append((seed, each, usable))
                sides = [(int(mask.sum()), int((mask & everyone).sum())) for mask in (each.train, each.test)]
                (train, train_positives), (test, test_positives) = sides
                facts.append(Fold(seed, each.number, each.held_out, train, test, train_positives, test_positives))
        evaluated = {id(task) for _, _, usable in steps for task in usable}
        lost = [task for task in tasks if id(task) not in evaluated]
        if lost and (not lenient or len(lost) == len(tasks)):
            raise InputError(_why_lost(lost[0], inputs))
        kept = [task for task in tasks if id(task) in evaluated]
        skipped -= len(lost) * len(steps)
        return cls(kept, steps, facts, skipped, [_task_words(task) for task in lost], split)

    @property
    def test_over_train(self) -> float:
        """Mean ratio of test to training rows; 0 where training sets share no rows."""
        if self.split == "train_on_one":
            return 0.0
        return float(np.mean([fold.test_rows / fold.train_rows for fold in self.facts]))


class Work:
    """Scores and what else is seen along the way."""

    def __init__(
        self,
        inputs: Inputs,
        plan: Plan,
        *,
        names: list[str],
        transformers: Mapping[str, Any],
        fit_on: str,
        elsewhere: Array | None,
        n_components: int | str | None,
        classifiers: tuple[str, ...],
        top: tuple[float, ...],
        batch_limit: float,
        random_state: int,
        progress: Progress,
    ) -> None:
        self.inputs, self.plan, self.names, self.transformers = inputs, plan, names, transformers
        self.fit_on, self.elsewhere, self.n_components = fit_on, elsewhere, n_components
        self.classifiers, self.top, self.batch_limit = classifiers, top, batch_limit
        self.random_state, self.progress = random_state, progress
        self.scores: list[Score] = []
        self.filtered_scores: list[Score] = []
        self.dropped: list[int] = []
        self.nothing_left = 0
        self.dimensions: dict[str, int] = {}
        self.mixings: dict[str, Mixing] = {}
        self.seconds = dict.fromkeys(("transforms", "classifiers", "mixing", "components"), 0.0)
        self.sample = sample_rows(inputs.batch.codes, np.random.default_rng([random_state, 2**20]))
        self._kept: Transforms | None = None

    def run(self) -> None:
        """Every split: all conditions first, then every classifier and task on them, one thread a core."""
        steps = self.plan.steps
        for place, (seed, split, tasks) in enumerate(steps):
            self.progress("transforms", place, len(steps))
            with self._timed("transforms"):
                transforms = self._transforms(seed, split)
                spaces = {name: transforms(name) for name in self.names}
            del transforms
            self.progress("transforms", place + 1, len(steps))
            self.progress("classifiers", place, len(steps))
            self.dimensions |= {name: values.shape[1] for name, values in spaces.items() if name not in self.dimensions}
            columns = {name: np.arange(values.shape[1]) for name, values in spaces.items()}
            if "pca_ica" in spaces:  # the filter is a choice of columns, and needs no copy
                spaces[FILTERED] = spaces["pca_ica"]
                columns[FILTERED] = self._not_driven(spaces["pca_ica"], split)
            with self._timed("classifiers"):
                self._classify(spaces, columns, seed, split, tasks)
            if place == 0:
                self._mix(spaces, columns)
            self.progress("classifiers", place + 1, len(steps))

    def scores_of(self, condition: str, classifier: str) -> list[Score]:
        """The scores of one condition by one classifier."""
        return [score for score in self.scores if (score.condition, score.classifier) == (condition, classifier)]

    def tests(self, test: str) -> tuple[PairedTest, ...]:
        """PCA+ICA against every other condition, or all pairs without it."""
        if "pca_ica" in self.names:
            pairs = [("pca_ica", name) for name in self.names if name != "pca_ica"]
        else:
            pairs = [(second, first) for first, second in combinations(self.names, 2)]
        by = self.classifiers[0]
        rng = np.random.default_rng([self.random_state, 2**21])
        found = [paired(self.scores_of(mine, by), self.scores_of(other, by)) for mine, other in pairs]
        p_values = [paired_p(differences, test, rng) for differences in found]
        return tuple(
            PairedTest(
                mine,
                other,
                float(differences.mean()),
                interval_of(differences, self.plan.test_over_train),
                p_value,
                corrected,
                len(differences),
                least_p(len(differences), test),
            )
            for (mine, other), differences, p_value, corrected in zip(
                pairs, found, p_values, holm(p_values), strict=True
            )
        )

    def filtered(self, test: str) -> Filtered | None:
        """What dropping batch-driven components changes."""
        if not self.filtered_scores:
            return None
        differences = paired(self.filtered_scores, self.scores_of("pca_ica", self.classifiers[0]))
        return Filtered(
            auroc=Mean.of(score.auroc for score in self.filtered_scores),
            difference=float(differences.mean()),
            interval=interval_of(differences, self.plan.test_over_train),
            p_value=paired_p(differences, test, np.random.default_rng([self.random_state, 2**22])),
            pairs=len(differences),
            dropped=Mean.of(map(float, self.dropped)),
            mixing=self.mixings.get(FILTERED),
        )

    def final(self, n_restarts: int, n_examples: int) -> tuple[ICA | None, tuple[Component, ...]]:
        """PCA+ICA on all rows that transforms may see, and its components."""
        if "pca_ica" not in self.names:
            return None, ()
        self.progress("components", 0, 1)
        with self._timed("components"):
            fitted = self.inputs.values if self.elsewhere is None else self.elsewhere
            wanted = whitening(fitted, self.n_components).matrix.shape[1]
            batch = self.inputs.batch.codes if self.elsewhere is None else None
            model = fit_final(fitted, batch, wanted, n_restarts, self.random_state)
            components = read_components(model, self.inputs, self.batch_limit, n_examples)
        self.progress("components", 1, 1)
        return model.ica, components

    def _transforms(self, seed: int, split: Split) -> Transforms:
        """Fitted anew for every fold, or once for all where they do not depend on it; rotations turn with the seed."""
        rotation = int(np.random.default_rng([self.random_state, seed, 1]).integers(2**31))
        if self._kept is not None:
            self._kept.seed = rotation
            return self._kept
        fitted = self.inputs.values[split.train] if self.fit_on == "train" else self.inputs.values
        made = Transforms(
            self.inputs.values,
            fitted if self.elsewhere is None else self.elsewhere,
            n_components=self.n_components,
            batch=self.inputs.batch,
            transformers=self.transformers,
            seed=rotation,
        )
        self._kept = made if self.fit_on != "train" else None
        return made

    def _classify(
        self, spaces: dict[str, Array], columns: dict[str, Array], seed: int, split: Split, tasks: list[Task]
    ) -> None:
        """All fits of a split side by side; a second round, on ranked features, for the concentration."""
        fits = [
            (name, classifier, task)
            for name in spaces
            for classifier in (self.classifiers if name != FILTERED else self.classifiers[:1])
            for task in tasks
        ]

        def rows_of(name: str, task: Task) -> Rows:
            (train, train_truth), (test, test_truth) = task.rows(split.train), task.rows(split.test)
            return Rows(spaces[name], train, train_truth, test, test_truth, columns[name])

        def whole(place: slice) -> tuple[Measured, Array]:
            name, classifier, task = fits[place.start]
            return fit_all(rows_of(name, task), classifier, self.random_state + seed)

        def part(place: slice) -> tuple[float, float] | None:
            at, share = parts[place.start]
            name, classifier, task = fits[at]
            return fit_parts(rows_of(name, task), measured[at][1], share, classifier, self.random_state + seed)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking of rows settles long before the weights
            measured = map_blocks(whole, len(fits), 1)
            parts = [(at, share) for at, fit in enumerate(fits) for share in self.top if fit[0] != FILTERED]
            concentrated = map_blocks(part, len(parts), 1)
        for at, (name, classifier, task) in enumerate(fits):
            pairs = {f"{share:g}": pair for (each, share), pair in zip(parts, concentrated, strict=True) if each == at}
            score = Score(
                name,
                classifier,
                task.name,
                task.guide,
                split.number,
                seed,
                **asdict(measured[at][0]),
                parts={share: pair for share, pair in pairs.items() if pair is not None},
            )
            (self.filtered_scores if name == FILTERED else self.scores).append(score)

    def _not_driven(self, sources: Array, split: Split) -> Array:
        """The places of components that are not batch-driven on the training batches; one has to stay."""
        label_r2, batch_r2, driven = associations(
            sources, self.inputs.label, self.inputs.batches, self.batch_limit, split.train
        )
        if driven.all():
            self.nothing_left += 1
            driven[np.argmax(label_r2 - batch_r2.max(axis=0))] = False
        self.dropped.append(int(driven.sum()))
        return np.flatnonzero(~driven)

    def _mix(self, spaces: dict[str, Array], columns: dict[str, Array]) -> None:
        """Batch structure under the transforms of the first fold; rotations of one space share it."""
        if self.sample is None:
            return
        positive = np.zeros(len(self.inputs.values), dtype=bool)
        for task in self.plan.tasks:
            positive[task.positives] = True
        batch, positive, sample = self.inputs.batch.codes[self.sample], positive[self.sample], self.sample
        first = next((name for name in WHITE if name in spaces), None)
        apart = [name for name in spaces if name not in WHITE or name == first]

        def measured(place: slice) -> Mixing:
            name = apart[place.start]
            return mixing(spaces[name][np.ix_(sample, columns[name])], batch, positive)

        with self._timed("mixing"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.mixings = dict(zip(apart, map_blocks(measured, len(apart), 1), strict=True))
        if first is not None:
            self.mixings |= {name: self.mixings[first] for name in WHITE if name in spaces}

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - began


def paired(mine: list[Score], others: list[Score]) -> Array:
    """Differences in AUROC on the same task, guide, fold and seed."""
    theirs = {(score.task, score.guide, score.fold, score.seed): score.auroc for score in others}
    return np.array([score.auroc - theirs[score.task, score.guide, score.fold, score.seed] for score in mine])


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
