"""Inputs of a deconfounding: an embedding with label, batches and guides of its rows, and the settings.

* Tasks: perturbed rows against controls, all together or one perturbation and one guide at a time.
* Splits: a batch is never split between training and test, and perturbed rows are spread over the folds.
* Paired tests of conditions on the same folds: sign flips, Wilcoxon, intervals, Holm's correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

from ..errors import InputError
from ..representation import Array
from ..resampling import Interval, t_interval


@dataclass(frozen=True, eq=False)
class Column:
    """Text labels of rows: ``codes`` count into ``names``, and -1 stands for a missing one."""

    title: str
    codes: Array
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of different labels."""
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Values in memory and the columns that describe their rows; the first batch column is the one held out."""

    values: Array
    ids: Array | None
    name: str
    notes: tuple[str, ...]  # what was left out, converted or doubtful in reading
    place: str | None  # the matrix of an AnnData object: X, the name of an obsm entry, or layers/NAME
    label: Column
    batches: tuple[Column, ...]
    guides: Column | None
    rows: Array  # the numbers of these rows in the data: rows without label or batch are left out
    kept: Array  # a mask of the data's columns: those that look like metadata are left out
    means: Array  # of all columns of the data
    features: tuple[str, ...] | None  # the names of all columns of the data
    obs: Mapping[str, Any] = field(default_factory=dict)  # other columns that describe these rows

    @property
    def batch(self) -> Column:
        """The batches that are held out."""
        return self.batches[0]

    @property
    def described(self) -> dict[str, Any]:
        """Label, batches and guides as text, and the other columns that describe the rows."""
        columns = (self.label, *self.batches, *((self.guides,) if self.guides else ()))
        mine = {each.title: np.array([*each.names, ""])[each.codes] for each in columns}
        return mine | {name: values for name, values in self.obs.items() if name not in mine}

    @property
    def used_features(self) -> tuple[str, ...] | None:
        """The names of the columns that are used."""
        return None if self.features is None else tuple(np.array(self.features, dtype=object)[self.kept])


@dataclass(frozen=True, eq=False)
class Request:
    """The settings of a deconfounding, checked; ``elsewhere`` holds other rows to fit on, where ``fit_on`` is other."""

    each: bool
    names: list[str]
    transformers: Mapping[str, Any]
    fit_on: str
    elsewhere: Array | None
    n_components: int | str | None
    split: str
    folds: int
    n_seeds: int
    classifiers: tuple[str, ...]
    top: tuple[float, ...]
    batch_limit: float
    n_restarts: int
    n_examples: int
    test: str
    random_state: int


SPLITS = ("folds", "leave_one_out", "train_on_one")


@dataclass(frozen=True, eq=False)
class Split:
    """The rows that train and those that test, as masks, and the batches that test."""

    number: int
    train: Array
    test: Array
    held_out: tuple[str, ...]


def make_splits(batch: Column, tasks: list[Task], split: str, folds: int, rng: np.random.Generator) -> list[Split]:
    """All splits of one seed."""
    if split == "folds":
        if batch.count < folds:
            told = f"{batch.title} has {batch.count} values and there are {folds} folds"
            raise InputError(f"{told}: a batch is never split, so lower folds")
        fold_of = stratified_folds(batch, tasks, folds, rng)
    else:
        folds, fold_of = batch.count, np.arange(batch.count)
    splits = []
    for number in range(folds):
        held_out = fold_of != number if split == "train_on_one" else fold_of == number
        test = held_out[batch.codes]
        splits.append(Split(number, ~test, test, tuple(np.array(batch.names)[held_out].tolist())))
    return splits


def stratified_folds(batch: Column, tasks: list[Task], folds: int, rng: np.random.Generator) -> Array:
    r"""The fold of each batch: the largest first, each where it adds least to :math:`\sum_{f,t}(n_{ft}/n_t)^2`.

    The sum runs over folds f and over the perturbed rows of each task, the controls and all rows; it is least where
    every fold holds an equal share of each.
    """
    kinds = [batch.codes[rows] for rows in (*(task.positives for task in tasks), tasks[0].controls)]
    counts = np.stack([np.bincount(codes, minlength=batch.count) for codes in (*kinds, batch.codes)], axis=1)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    # Perturbed rows are scarce: batches with perturbed rows are assigned before control-only ones.
    weight = shares[:, :-2].sum(axis=1)
    order = np.lexsort((rng.permutation(batch.count), -shares[:, -1], -weight))
    held = np.zeros((folds, shares.shape[1]))
    fold_of = np.empty(batch.count, dtype=np.intp)
    for code in order:
        fold_of[code] = np.argmin(held @ shares[code])
        held[fold_of[code]] += shares[code]
    return fold_of


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of one perturbation (and one guide of it) against the control rows."""

    name: str
    guide: str | None
    positives: Array
    controls: Array

    def rows(self, chosen: Array) -> tuple[Array, Array]:
        """The rows of the task among those chosen by a mask, and which of them are perturbed."""
        positives, controls = (rows[chosen[rows]] for rows in (self.positives, self.controls))
        rows = np.sort(np.concatenate([positives, controls]))
        return rows, np.isin(rows, positives, assume_unique=True)

    def has_both(self, chosen: Array) -> bool:
        """Whether there are perturbed rows and controls among those chosen by a mask."""
        return bool(chosen[self.positives].any() and chosen[self.controls].any())

    def __str__(self) -> str:
        return self.name if self.guide is None else f"{self.name}, guide {self.guide}"


def make_tasks(inputs: Inputs, control: tuple[str, ...], each: bool) -> list[Task]:
    """One task, or one for each perturbation; guides divide each of them further."""
    label = inputs.label
    is_control = np.isin(np.array(label.names), control)
    controls = np.flatnonzero(is_control[label.codes])
    others = np.flatnonzero(~is_control)
    tasks = []
    for codes in others[:, None] if each else [others]:
        name = label.names[codes[0]] if len(codes) == 1 else f"{len(codes)} values of {label.title}"
        positives = np.flatnonzero(np.isin(label.codes, codes))
        if inputs.guides is None:
            tasks.append(Task(name, None, positives, controls))
            continue
        guides = inputs.guides.codes[positives]
        if (guides < 0).any():
            first = int(positives[np.argmax(guides < 0)])
            raise InputError(f"{inputs.guides.title} is missing for perturbed rows, the first at row {first}")
        for guide in np.unique(guides):
            tasks.append(Task(name, inputs.guides.names[guide], positives[guides == guide], controls))
    return tasks


def refuse_confounded(inputs: Any) -> None:
    """Refuse batches that are identical to the label: nothing could separate the two."""
    label, batch = inputs.label, inputs.batch
    if batch.count < 2:
        raise InputError(f"{batch.title} has one value only, {batch.names[0]!r}: no batch can be held out")
    pairs = len(np.unique(label.codes * np.int64(batch.count) + batch.codes))
    if pairs == label.count == batch.count:
        both = f"{batch.title} and {label.title}"
        raise InputError(f"{both} are the same division of the rows: nothing can separate batch from label")


TESTS = ("sign_flip", "wilcoxon")
_EXACT_PAIRS = 14  # up to which all sign patterns are counted: 16,384
_DRAWS = 20_000


def paired_p(differences: Array, test: str, rng: np.random.Generator) -> float:
    """The two-sided p-value of no difference."""
    if not differences.any():
        return 1.0
    if test == "sign_flip":
        return _sign_flip(differences, rng)
    kept = differences[differences != 0]
    exact = len(kept) <= 50 and len(np.unique(np.abs(kept))) == len(kept)
    return float(stats.wilcoxon(kept, method="exact" if exact else "approx").pvalue)


def least_p(pairs: int, test: str = "sign_flip") -> float:
    """The smallest possible p-value for this number of pairs."""
    drawn = test == "sign_flip" and pairs > _EXACT_PAIRS
    return 1 / (1 + _DRAWS) if drawn else float(2.0 ** (1 - pairs))


def interval_of(differences: Array, test_over_train: float) -> Interval | None:
    r"""An interval of the mean difference whose folds share training rows: t with :math:`J-1` degrees of freedom and

    the variance :math:`(1/J+n_\mathrm{test}/n_\mathrm{train})s^2` (Nadeau & Bengio 2003). None for one pair.
    """
    n = len(differences)
    if n < 2:
        return None
    spread = float(differences.std(ddof=1) * np.sqrt(1 / n + test_over_train))
    return t_interval(float(differences.mean()), spread, n)


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction.

    Examples
    --------
    >>> from isorep.deconfounding.inputs import holm
    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(order), 0, -1) * np.array(p_values)[order]
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected.tolist()


def _sign_flip(differences: Array, rng: np.random.Generator) -> float:
    """The share of random signs whose mean is as far from zero: all signs if few, else a sample plus the real one."""
    reached = abs(differences.sum()) * (1 - 1e-12)
    if len(differences) <= _EXACT_PAIRS:
        signs = np.array(list(product((-1.0, 1.0), repeat=len(differences))))
        return float(np.mean(np.abs(signs @ differences) >= reached))
    signs = rng.choice((-1.0, 1.0), size=(_DRAWS, len(differences)))
    return float((1 + np.sum(np.abs(signs @ differences) >= reached)) / (1 + _DRAWS))
