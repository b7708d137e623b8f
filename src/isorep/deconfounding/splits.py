"""Which batches train and which test: a batch is never split, and perturbed rows are spread over the folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array
from .inputs import Column
from .tasks import Task

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
            raise InputError(
                f"{batch.title} has {batch.count} values and there are {folds} folds: a batch is never split, so lower "
                "folds"
            )
        fold_of = stratified_folds(batch, tasks, folds, rng)
    else:
        folds, fold_of = batch.count, np.arange(batch.count)
    splits = []
    for number in range(folds):
        chosen = (fold_of == number)[batch.codes]
        named = tuple(np.array(batch.names)[fold_of == number].tolist())
        if split == "train_on_one":
            others = tuple(name for name in batch.names if name not in named)
            splits.append(Split(number, chosen, ~chosen, others))
        else:
            splits.append(Split(number, ~chosen, chosen, named))
    return splits


def stratified_folds(batch: Column, tasks: list[Task], folds: int, rng: np.random.Generator) -> Array:
    r"""The fold of each batch: the largest first, each where it adds least to :math:`\sum_{f,t}(n_{ft}/n_t)^2`.

    The sum runs over folds f and over the perturbed rows of each task, the controls and all rows; it is least where
    every fold holds an equal share of each.
    """
    counts = np.stack(
        [np.bincount(batch.codes[task.positives], minlength=batch.count) for task in tasks]
        + [np.bincount(batch.codes[tasks[0].controls], minlength=batch.count)]
        + [np.bincount(batch.codes, minlength=batch.count)],
        axis=1,
    ).astype(float)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    # Perturbed rows are the scarce ones: batches that hold them choose their fold before the control-only ones.
    weight = shares[:, :-2].sum(axis=1)
    order = np.lexsort((rng.permutation(batch.count), -shares[:, -1], -weight))
    held = np.zeros((folds, shares.shape[1]))
    found = np.empty(batch.count, dtype=np.intp)
    for place in order:
        fold = int(np.argmin(held @ shares[place]))
        found[place] = fold
        held[fold] += shares[place]
    return found
