"""Designs: other columns of the rows that share batches or labels, so that a held-out batch is not all that is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..representation import Array
from .controls import as_label
from .inputs import Column, Inputs, Task
from .reading import MISSING

_MOST_COLUMNS = 40
_NAMED = 3  # columns in one sentence


def other_columns(obs: Mapping[str, Any], used: Iterable[str]) -> tuple[Column, ...]:
    """Columns that describe the rows, divide them and have no other part: text, flags and whole numbers."""
    taken = set(used)
    found = [(name, values) for name, values in obs.items() if name not in taken and not name.startswith("_")]
    columns = (_divides(name, np.asarray(values, dtype=object)) for name, values in found[:_MOST_COLUMNS])
    return tuple(column for column in columns if column is not None)


def _divides(title: str, values: Array) -> Column | None:
    """Labels that put at least two rows together; measurements and rows without labels are none."""
    texts = np.array([as_label(value) for value in values.tolist()], dtype=str)
    if values.ndim != 1 or np.isin(texts, MISSING).any():
        return None
    names, codes = np.unique(texts, return_inverse=True)
    if not 2 <= len(names) <= len(texts) / 2 or any(isinstance(value, float) and value % 1 for value in values[:100]):
        return None
    return Column(title, codes, tuple(names.tolist()))


def design_notes(inputs: Inputs, tasks: Sequence[Task]) -> list[str]:
    """Sentences on columns that batches or labels are nested in, where they are."""
    batch, label = inputs.batch, inputs.label
    positives = np.unique(np.concatenate([task.positives for task in tasks]))
    others = [*inputs.others, *inputs.batches[1:]]
    above = [each.title for each in others if _coarser(batch, each)]
    once = [
        each.title
        for each in (batch, *others)
        if label.count > 2 and each is not inputs.also and _one_each(label.codes[positives], each.codes[positives])
    ]
    held = [] if inputs.also is None else [inputs.also]
    recurring = [
        each.title
        for each in others
        if each.title not in above
        and not any(_one_each(each.codes, other.codes) for other in held)
        and _one_each(each.codes, label.codes)
        and not _one_each(each.codes[positives], batch.codes[positives])
        and len(np.unique(each.codes[positives])) > len(np.unique(label.codes[positives]))
    ]
    said = []
    if above:
        said.append(
            f"every {batch.title} lies within one {_named(above)}: a held-out {batch.title} shares it with training "
            f"batches; hold out {above[0]} to test new ones"
        )
    if once:
        said.append(
            f"every perturbed value of {label.title} lies in one {_named(once)} only: its effect cannot be told from "
            f"that of {'it' if len(once) == 1 else 'these'}"
        )
    if recurring:
        said.append(
            f"each value of {_named(recurring)} has one {label.title} and recurs in several batches, so the classifier "
            f"may know it from training: --also-hold-out {recurring[0]} tests new ones"
        )
    return said


def _coarser(fine: Column, coarse: Column) -> bool:
    """Whether every value of one column lies within one value of another that has fewer, but several."""
    return 1 < coarse.count < fine.count and _one_each(fine.codes, coarse.codes)


def _one_each(inner: Array, outer: Array) -> bool:
    """Whether each value of the first lies within one value of the second, and the second has several."""
    pairs = len(np.unique(np.stack([inner, outer]), axis=1).T)
    return pairs == len(np.unique(inner)) and len(np.unique(outer)) > 1


def _named(titles: list[str]) -> str:
    shown = " and ".join(titles[:_NAMED])
    return shown if len(titles) <= _NAMED else f"{shown} (and others)"
