"""Trainings of one kind: done once, with rows and weights kept in the folder of the run.

What is trained here: for each kind the network, the loss, the recipe, and how its rows are taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import replacing
from ..representation import Array
from .experiment import Run
from .layers_networks import parsed
from .pretrained_settings import CLASSES, Images, Preset, image_files, images_of, text_of

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
    from ..models import train_many
    from ..models.batched import seeded

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


SUBJECTS = {
    "gpt": ("gpt", "gpt-last"),
    "mae": ("mae",),
    "cnn": ("cnn",),
    "ae": ("ae",),
}
"""What is compared of each kind."""

TITLES = {
    "gpt": "GPT (penultimate)",
    "gpt-last": "GPT (last)",
    "mae": "Masked autoencoder",
    "cnn": "Supervised CNN",
    "ae": "Autoencoder",
}
BESIDE = {"gpt": "Pythia-160M", "mae": "MAE", "cnn": "ResNet-18"}
"""The published row that stands beside."""

_AT_ONCE = 256
_WARMUP = 0.05


@dataclass(frozen=True, eq=False)
class Task:
    """A training that is repeated with other seeds.

    Attributes
    ----------
    build, data, loss, recipe, prepare
        As the trainer takes them.
    together : bool or str
        Whether all seeds are one program. A row of text or an image in patches is many rows of a step, so that the
        trainer's own rule does not know.
    held_out : like data
        What losses are read on.
    rows : callable
        ``rows(module)``: what is compared, by subject.
    groups : array or None
        Rows that belong together.
    digest : str
        What was trained on.
    """

    build: Callable[[int], Any]
    data: Any
    loss: Callable[..., Any]
    recipe: Any
    held_out: Any
    rows: Callable[[Any], dict[str, Array]]
    together: bool | str = "auto"
    prepare: Callable[..., Any] | None = None
    groups: Array | None = None
    digest: str = ""


def task_of(kind: str, preset: Preset, data: Path | None, seed: int) -> Task:
    """The task of a kind."""
    if kind == "gpt":
        return _gpt(preset, seed)
    makers = {"mae": _mae, "cnn": _cnn, "ae": _ae}
    return makers[kind](preset, images_of(preset, data, seed))


def _gpt(preset: Preset, seed: int) -> Task:
    from ..models import GPT, next_token_loss

    text = text_of(preset, seed)
    width, layers = parsed(preset.gpt)

    def rows(module: Any) -> dict[str, Array]:
        # After every block but the last, then after the final norm: numbered as the transformers library does it.
        penultimate, last = _batched(lambda part: _states(module, part), text.rows)
        return {"gpt": penultimate, "gpt-last": last}

    return Task(
        build=lambda _: GPT(text.corpus.pairs.vocabulary, width, layers, preset.heads, preset.context),
        data=text.corpus.train,
        loss=next_token_loss,
        recipe=_recipe(preset, preset.gpt_steps, preset.gpt_batch, preset.gpt_rate),
        held_out=text.corpus.held_out,
        rows=rows,
        groups=np.repeat(text.documents, preset.context),
        digest=text.corpus.digest,
    )


def _mae(preset: Preset, images: Images) -> Task:
    from ..models import MaskedAutoencoder

    patches = (images.shape[1] // preset.mae_patch) * (images.shape[2] // preset.mae_patch)
    return Task(
        build=lambda _: MaskedAutoencoder(
            images.shape, patch=preset.mae_patch, width=preset.mae_width, depth=preset.mae_depth
        ),
        data=images.train,
        loss=MaskedAutoencoder.losses,
        recipe=_recipe(preset, preset.mae_steps, preset.batch, preset.mae_rate),
        held_out=images.held_out,
        rows=lambda module: {"mae": _batched(lambda part: [module.encode(part)], images.rows)[0]},
        together=False,
        prepare=MaskedAutoencoder.prepare(patches),
        digest=images.note,
    )


def _cnn(preset: Preset, images: Images) -> Task:
    from ..models import ResidualClassifier
    from ..models.classifiers import label_loss

    known = np.eye(CLASSES, dtype=np.float32)
    return Task(
        build=lambda _: ResidualClassifier(images.shape, CLASSES, width=preset.cnn_width),
        data=(images.train, known[images.classes]),
        loss=label_loss,
        recipe=_recipe(preset, preset.cnn_steps, preset.batch, preset.cnn_rate),
        held_out=(images.held_out, known[images.held_out_classes]),
        rows=lambda module: {"cnn": _batched(lambda part: [module.represent(part)], images.rows)[0]},
        together=False,
        digest=images.note,
    )


def _ae(preset: Preset, images: Images) -> Task:
    from ..models import PlainAutoencoder

    return Task(
        build=lambda _: PlainAutoencoder(images.shape, preset.latents),
        data=images.train,
        loss=PlainAutoencoder.losses,
        recipe=_recipe(preset, preset.ae_steps, preset.batch, preset.ae_rate),
        held_out=images.held_out,
        rows=lambda module: {"ae": _batched(lambda part: [module.encode(part)], images.rows)[0]},
        digest=images.note,
    )


def _recipe(preset: Preset, steps: int, batch: int, rate: float) -> Any:
    from ..models import Group, Recipe, Schedule

    return Recipe(
        steps=steps,
        batch=batch,
        groups=Group("adamw", rate, options={"weight_decay": preset.weight_decay}, clip_norm=1.0),
        schedule=Schedule("cosine", warmup=int(_WARMUP * steps)),
        record_every=max(steps // 10, 1),
    )


def _states(module: Any, tokens: Any) -> list[Any]:
    found = module.hidden_states(tokens)
    return [found[-3].flatten(0, 1), found[-1].flatten(0, 1)]


def _batched(outputs: Callable[[Any], list[Any]], inputs: Array) -> list[Array]:
    """Outputs of all inputs, a part at a time, as float32 rows."""
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(inputs), _AT_ONCE):
            found = outputs(torch.from_numpy(inputs[start : start + _AT_ONCE]))
            parts.append([each.float().numpy() for each in found])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]
