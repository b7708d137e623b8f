"""Inputs of a deconfounding: an embedding with label, batches and guides of its rows, and the settings.

* Tasks: perturbed rows against controls, all together or one perturbation and one guide at a time.
* Splits: a batch is never split between training and test, and perturbed rows are spread over the folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array


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
    total: int  # rows of the data
    rows: Array  # the numbers of these rows in the data: rows without label or batch are left out
    kept: Array  # a mask of the data's columns: those that look like metadata are left out
    means: Array  # of all columns of the data
    features: tuple[str, ...] | None  # the names of all columns of the data
    obs: Mapping[str, Any] = field(default_factory=dict)  # other columns that describe these rows
    also: Column | None = None  # held out together with the batches
    others: tuple[Column, ...] = ()  # what else divides the rows

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
    n_components: int | str
    split: str
    folds: int
    unit: str
    n_seeds: int
    n_rotations: int
    classifiers: tuple[str, ...]
    top: tuple[float, ...]
    batch_limit: float
    n_restarts: int
    n_examples: int
    mixing: bool
    random_state: int


SPLITS = ("auto", "leave_one_out", "folds", "train_on_one")
UNITS = ("batch", "fold")
_LEFT_OUT_SINGLY = 20  # batches at most; more are held out in folds
_FOLDS = 10
_FOLDS_BESIDE = 5  # of the second column that is held out


@dataclass(frozen=True, eq=False)
class Split:
    """The rows that train and those that test, as masks, and the batches that test.

    ``beside`` are the values of a second column that are held out too.
    """

    number: int
    train: Array
    test: Array
    held_out: tuple[str, ...]
    beside: tuple[str, ...] = ()


def resolved_split(batch: Column, tasks: list[Task], split: str, folds: int | None) -> tuple[str, int]:
    """The kind of split and its number of folds.

    By default batches are held out one at a time, if there are at most 20 and each that holds perturbed rows holds
    controls; otherwise in ten folds, or as many as keep both classes in every fold.
    """
    if folds is not None and split in ("leave_one_out", "train_on_one"):
        raise InputError(
            f"folds is {folds} and split is {split!r}, which has as many folds as batches: give one of them"
        )
    if split in ("leave_one_out", "train_on_one"):
        return split, batch.count
    if folds is not None:
        return "folds", folds
    holding = np.zeros((2, batch.count), dtype=bool)
    for task in tasks:
        for kind, rows in enumerate((task.positives, task.controls)):
            holding[kind, batch.codes[rows]] = True
    perturbed, controls = holding
    if split == "auto" and batch.count <= _LEFT_OUT_SINGLY and controls[perturbed].all():
        return "leave_one_out", batch.count
    return "folds", max(2, min(_FOLDS, int(perturbed.sum()), int(controls.sum())))


def make_splits(
    batch: Column, tasks: list[Task], split: str, folds: int, rng: np.random.Generator, also: Column | None = None
) -> list[Split]:
    """All splits of one seed; with a second column every fold of batches is crossed with every fold of its values."""
    fold_of = stratified_folds(batch, tasks, folds, rng) if split == "folds" else np.arange(batch.count)
    splits: list[Split] = []
    for number in range(folds):
        held_out = fold_of != number if split == "train_on_one" else fold_of == number
        test = held_out[batch.codes]
        names = tuple(np.array(batch.names)[held_out].tolist())
        for train, tested, beside in _beside(test, tasks, also, rng) if also else [(~test, test, ())]:
            splits.append(Split(len(splits), train, tested, names, beside))
    return splits


def _beside(
    test: Array, tasks: list[Task], also: Column, rng: np.random.Generator
) -> list[tuple[Array, Array, tuple[str, ...]]]:
    """Training rows, test rows and held-out values: test rows have a batch and a value that no training row has.

    Controls that all have one value, or none, are divided by batch alone.
    """
    controls = tasks[0].controls
    exempt = np.zeros(len(test), dtype=bool)
    if shared_by_controls(also, tasks):
        exempt[controls] = True
    rows = np.unique(np.concatenate([*(task.positives for task in tasks), controls]))
    rows = rows[~exempt[rows]]
    present, codes = np.unique(also.codes[rows], return_inverse=True)
    column = Column(also.title, codes, tuple(also.names[code] for code in present))
    place = np.full(len(test), -1)
    place[rows] = np.arange(len(rows))
    inner = [
        replace(task, positives=place[task.positives], controls=place[task.controls[~exempt[task.controls]]])
        for task in tasks
    ]
    kinds = [len(np.unique(codes[part])) for task in inner for part in (task.positives, task.controls) if len(part)]
    folds = min(_FOLDS_BESIDE, max(2, min(kinds)))
    fold_of = stratified_folds(column, inner, folds, rng) if column.count > 1 else np.zeros(1, dtype=int)
    splits = []
    for number in range(int(fold_of.max()) + 1):
        held = np.zeros(len(test), dtype=bool)
        held[rows] = (fold_of == number)[codes]
        names = tuple(np.array(column.names)[fold_of == number].tolist())
        splits.append((~test & (exempt | ~held), test & (exempt | held), names))
    return splits


def shared_by_controls(also: Column, tasks: list[Task]) -> bool:
    """Whether all controls have one value of a column, or none: it cannot be held out for them."""
    return len(np.unique(also.codes[tasks[0].controls])) == 1


def stratified_folds(batch: Column, tasks: list[Task], folds: int, rng: np.random.Generator) -> Array:
    r"""The fold of each batch: the largest first, each where it adds least to :math:`\sum_{f,t}(n_{ft}/n_t)^2`.

    The sum runs over folds f and over the perturbed rows of each task, the controls and all rows; it is least where
    every fold holds an equal share of each.
    """
    kinds = [batch.codes[rows] for rows in (*(task.positives for task in tasks), tasks[0].controls)]
    counts = np.stack([np.bincount(codes, minlength=batch.count) for codes in (*kinds, batch.codes)], axis=1)
    shares = counts / np.maximum(counts.sum(axis=0), 1)  # a class may be missing here
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
