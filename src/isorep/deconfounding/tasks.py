"""What is told apart: perturbed rows from controls, all together or one perturbation and one guide at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .inputs import Column, Inputs, as_label

_CONTROL_WORDS = (
    "control",
    "controls",
    "ctrl",
    "dmso",
    "negcon",
    "negative_control",
    "negative control",
    "non-targeting",
    "non_targeting",
    "nontargeting",
    "untreated",
    "unperturbed",
    "vehicle",
    "mock",
    "empty_control",
)


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
        truth = np.r_[np.ones(len(positives), dtype=bool), np.zeros(len(controls), dtype=bool)]
        rows = np.concatenate([positives, controls])
        order = np.argsort(rows, kind="stable")
        return rows[order], truth[order]


def control_values(label: Column, control: Any) -> tuple[str, ...]:
    """The values of the label that are controls: named by the user, or the one that reads as one."""
    if label.count < 2:
        raise InputError(f"{label.title} has one value only, {label.names[0]!r}: there is nothing to tell apart")
    if control is None:
        words = [name for name in label.names if name.lower() in _CONTROL_WORDS]
        if label.count == 2 and not words:
            words = [name for name in label.names if name.lower() in ("false", "0")]
        if len(words) != 1:
            shown = ", ".join(map(repr, label.names[:6])) + (" and more" if label.count > 6 else "")
            raise InputError(f"which value of {label.title} is the control? Name it with control=; there are {shown}")
        return (words[0],)
    several = isinstance(control, Sequence | np.ndarray) and not isinstance(control, str)
    wanted = tuple(as_label(each) for each in (control if several else [control]))
    unknown = [each for each in wanted if each not in label.names]
    if unknown or not wanted:
        shown = ", ".join(map(repr, label.names[:6])) + (" and more" if label.count > 6 else "")
        raise InputError(f"control {', '.join(map(repr, unknown)) or 'is empty'}: {label.title} holds {shown}")
    if len(set(wanted)) == label.count:
        raise InputError(f"every value of {label.title} is named as a control: there is nothing to tell apart")
    return wanted


def make_tasks(inputs: Inputs, control: tuple[str, ...], each: bool) -> list[Task]:
    """One task, or one for each perturbation; guides divide each of them further."""
    label = inputs.label
    is_control = np.isin(np.array(label.names), control)
    controls = np.flatnonzero(is_control[label.codes])
    values = [place for place in range(label.count) if not is_control[place]]
    grouped = [(label.names[place], [place]) for place in values] if each else [(_joint_name(label, values), values)]
    tasks = []
    for name, places in grouped:
        positives = np.flatnonzero(np.isin(label.codes, places))
        if inputs.guides is None:
            tasks.append(Task(name, None, positives, controls))
            continue
        codes = inputs.guides.codes[positives]
        if (codes < 0).any():
            first = int(positives[np.argmax(codes < 0)])
            raise InputError(f"{inputs.guides.title} is missing for perturbed rows, the first at row {first}")
        tasks += [
            Task(name, inputs.guides.names[code], positives[codes == code], controls) for code in np.unique(codes)
        ]
    return tasks


def refuse_confounded(inputs: Inputs) -> None:
    """Refuse batches that are the label under another name: nothing could separate the two."""
    label, batch = inputs.label, inputs.batch
    if batch.count < 2:
        raise InputError(f"{batch.title} has one value only, {batch.names[0]!r}: no batch can be held out")
    pairs = len(np.unique(label.codes * np.int64(batch.count) + batch.codes))
    if pairs == label.count == batch.count:
        raise InputError(
            f"{batch.title} and {label.title} are the same division of the rows: nothing can separate batch from label"
        )


def _joint_name(label: Column, values: list[int]) -> str:
    return label.names[values[0]] if len(values) == 1 else f"{len(values)} values of {label.title}"
