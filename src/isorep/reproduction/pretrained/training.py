"""Trainings of one kind: done once, with rows and weights kept in the folder of the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import replacing
from ...representation import Array
from ..experiment import Run
from .material import image_files
from .presets import Preset
from .tasks import Task, task_of

ROWS, WEIGHTS = "representations", "models"
_MEASUREMENT = ("pairs", "both", "kinds", "n_null", "n_boot", "control", "threads")  # does not change what is trained
_CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, eq=False)
class Rows:
    """What the trainings of a kind give: ``trained["gpt"][0]`` are the rows of the first, likewise untrained."""

    trained: dict[str, list[Array]]
    untrained: dict[str, list[Array]]
    groups: Array | None
    facts: dict[str, Any]


def rows_of(kind: str, run: Run) -> Rows:
    """The rows of all trainings of a kind: read from the run's folder, or made."""
    task = task_of(kind, run.preset, run.data, run.seed)
    belongs = _belongs(kind, task, run)
    path = None if run.folder is None else run.folder / ROWS / f"{kind}.safetensors"
    kept = None if path is None else _kept(path, belongs)
    if kept is not None:
        return kept
    found = _trained(kind, task, run)
    if path is not None:
        _keep(path, found, belongs)
    return found


def seeds_of(kind: str, run: Run) -> list[int]:
    """The seeds of a kind's trainings; no two kinds share one."""
    place = ("gpt", "mae", "cnn", "ae").index(kind)
    return [int(seed) for seed in np.random.SeedSequence([run.seed, 59, place]).generate_state(run.preset.seeds)]


def _trained(kind: str, task: Task, run: Run) -> Rows:
    from ...models import train_many
    from ...models.batched import seeded

    seeds = seeds_of(kind, run)
    before = [seeded(task.build, seed).eval() for seed in seeds]
    found = train_many(
        task.build,
        task.data,
        task.loss,
        task.recipe,
        seeds=seeds,
        batched=task.together,
        prepare=task.prepare,
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        checkpoint_seconds=_CHECKPOINT_SECONDS,
        progress=run.progress,
    )
    if any(each.ended == "diverged" for each in found):
        raise InputError(f"a training of {kind} diverged: lower {kind}_rate")
    modules = [each.module for each in found]
    if run.folder is not None:
        for place, module in enumerate(modules):
            _keep_weights(run.folder / WEIGHTS / f"{kind}-{place}.safetensors", module)
    facts: dict[str, Any] = {
        "kind": kind,
        "seeds": seeds,
        "together": found[0].together,
        "steps": [each.history.steps[-1] for each in found],
        "loss": [each.history.training[-1] for each in found],
        "held_out_loss": [_loss(task, module) for module in modules],
        "loss_before": [_loss(task, module) for module in before],
        "accuracy": [_accuracy(task, module) for module in modules] if kind == "cnn" else None,
        "parameters": sum(each.numel() for each in modules[0].parameters()),
    }
    after, initial = ([task.rows(module) for module in each] for each in (modules, before))
    return Rows(_by_subject(after), _by_subject(initial), task.groups, facts)


def _by_subject(found: list[dict[str, Array]]) -> dict[str, list[Array]]:
    return {subject: [each[subject] for each in found] for subject in found[0]}


def _loss(task: Task, module: Any) -> float:
    """On what is held out, with the same random numbers for all networks."""
    import torch

    batch = _tensors(task.held_out)
    with torch.no_grad():
        if task.prepare is not None:
            batch = task.prepare(batch, torch.Generator().manual_seed(0))
        found = task.loss(module, batch)
    return float(found["loss"] if isinstance(found, dict) else found)


def _accuracy(task: Task, module: Any) -> float:
    import torch

    images, known = _tensors(task.held_out)
    with torch.no_grad():
        return float((module(images).argmax(1) == known.argmax(1)).double().mean())


def _tensors(data: Any) -> Any:
    import torch

    return tuple(map(_tensors, data)) if isinstance(data, tuple) else torch.from_numpy(np.asarray(data))


def _belongs(kind: str, task: Task, run: Run) -> str:
    """What decides the rows, as text."""
    preset: Preset = run.preset
    settings = {name: value for name, value in asdict(preset).items() if name not in _MEASUREMENT}
    files = [[path.name, path.stat().st_size] for path in image_files(preset, run.data)[0]] if kind != "gpt" else []
    return json.dumps({"kind": kind, "seed": run.seed, "data": task.digest, "files": files} | settings, sort_keys=True)


def _keep(path: Path, rows: Rows, belongs: str) -> None:
    from safetensors.numpy import save_file

    path.parent.mkdir(exist_ok=True)
    arrays = {
        f"{when}/{subject}/{place}": np.ascontiguousarray(values)
        for when, found in (("trained", rows.trained), ("untrained", rows.untrained))
        for subject, each in found.items()
        for place, values in enumerate(each)
    }
    if rows.groups is not None:
        arrays["groups"] = np.ascontiguousarray(rows.groups)
    with replacing(path) as temporary:
        save_file(arrays, temporary, metadata={"belongs": belongs, "facts": json.dumps(rows.facts)})


def _kept(path: Path, belongs: str) -> Rows | None:
    """Rows of a file that is of these very trainings; a damaged one is made anew."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, "np") as file:
            known = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(known.get("facts", "null"))
    except (SafetensorError, ValueError):
        return None
    if known.get("belongs") != belongs:
        raise InputError(f"{path} holds rows of other trainings: name another folder with --out")
    if not isinstance(facts, dict):
        return None
    groups = arrays.pop("groups", None)
    found: dict[str, dict[str, dict[int, Array]]] = {"trained": {}, "untrained": {}}
    for name, values in arrays.items():
        when, subject, place = name.split("/")
        found[when].setdefault(subject, {})[int(place)] = values
    trained, untrained = (
        {subject: [each[place] for place in sorted(each)] for subject, each in found[when].items()}
        for when in ("trained", "untrained")
    )
    return Rows(trained, untrained, groups, facts)


def _keep_weights(path: Path, module: Any) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(exist_ok=True)
    weights = {name: value.detach().contiguous().clone() for name, value in module.state_dict().items()}
    with replacing(path) as temporary:
        save_file(weights, temporary)
