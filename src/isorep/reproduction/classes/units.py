"""The units of work: all seeds of one setting, trained as one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..experiment import Outcome, Plan, Run, Unit
from ..threads import threads
from .material import TASKS, Examples, examples
from .measuring import cloud, curve, measure
from .presets import Preset


def plan(preset: Preset, data: Path | None) -> Plan:
    """The published simulation from every start, and the sweeps over classes and dimensions on every task."""
    _check(preset)
    units = {}
    for start in preset.starts:
        unit = _unit("angle", preset.classes, preset.dimension, start, published=True)
        units[unit.key] = unit
    for task in preset.tasks:
        settings = [(classes, preset.fixed_dimension) for classes in preset.sweep_classes]
        settings += [(preset.fixed_classes, dimension) for dimension in preset.sweep_dimensions]
        for classes, dimension in settings:
            unit = _unit(task, classes, dimension, preset.starts[0], published=False)
            units[unit.key] = unit
    return Plan(tuple(units.values()))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all seeds of a setting, and compare every pair."""
    preset: Preset = run.preset
    wanted = unit.arguments
    given = examples(wanted["task"], wanted["classes"], wanted["dimension"], preset, run.seed)
    count = preset.seeds if wanted["published"] else preset.sweep_seeds
    seeds = [int(seed) for seed in np.random.SeedSequence([run.seed, 43]).generate_state(count)]
    with threads(preset.threads):
        trained = _trained(unit, given, seeds, run)
        found: Outcome = {**wanted, "together": trained[0].together, "floor": given.floor}
        found |= measure(trained, given, run.seed)
    if wanted["published"]:
        found["curve"] = curve(trained, run.seed)
        found["cloud"] = cloud(trained, given) if wanted["dimension"] == 2 else None
    return found


def followed(step: int, total: int) -> bool:
    """Steps at which representations are kept: before training, five for each power of ten, and the last."""
    if step in (0, total):
        return True
    power = 10 ** (len(str(step)) - 1)
    return step % power == 0 and step // power in (1, 2, 3, 5, 7)


def _trained(unit: Unit, given: Examples, seeds: list[int], run: Run) -> list[Any]:
    import torch

    from ...models import EmbeddingClassifier, Group, Recipe, Schedule, label_loss, train_many

    preset: Preset = run.preset
    wanted = unit.arguments
    steps = preset.steps if wanted["published"] else preset.sweep_steps
    watched = torch.from_numpy(given.test_inputs[: preset.curve_rows])

    def evaluate(module: Any, step: int) -> dict[str, Any]:
        return {"f": module.represent(watched).tolist(), "g": module.embeddings.tolist()}

    return train_many(
        lambda seed: EmbeddingClassifier(
            2, wanted["classes"], wanted["dimension"], hidden=preset.hidden, start=wanted["start"]
        ),
        (given.inputs, given.wanted),
        label_loss,
        Recipe(
            steps=steps,
            batch=preset.batch,
            groups=Group("adam", preset.learning_rate),
            schedule=Schedule(preset.schedule),
            record_every=max(steps // 20, 1),
        ),
        seeds=seeds,
        evaluate=evaluate if wanted["published"] else None,
        evaluate_every=lambda step: followed(step, steps),
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        progress=run.progress,
    )


def _unit(task: str, classes: int, dimension: int, start: float, *, published: bool) -> Unit:
    key = f"{task}-classes-{classes}-dimension-{dimension}" + (f"-start-{start:g}" if published else "")
    words = f"{TASKS[task]}, {classes} classes, {dimension} dimensions" + (f", start {start:g}" if published else "")
    arguments = {"task": task, "classes": classes, "dimension": dimension, "start": start, "published": published}
    return Unit(key, words, arguments)


def _check(preset: Preset) -> None:
    unknown = [task for task in preset.tasks if task not in TASKS]
    if unknown:
        raise InputError(f"there is no task {unknown[0]!r}; there are {', '.join(TASKS)}")
    if not preset.starts or not all(start > 0 for start in preset.starts):
        raise InputError("starts are numbers above zero, and there is at least one")
    if min(preset.seeds, preset.sweep_seeds) < 2:
        raise InputError("seeds and sweep_seeds are at least 2: pairs are compared")
    if min((preset.classes, preset.fixed_classes, *preset.sweep_classes)) < 2:
        raise InputError("there are at least 2 classes")
