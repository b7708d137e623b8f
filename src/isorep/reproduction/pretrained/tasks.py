"""What is trained here: for each kind the network, the loss, the recipe, and how its rows are taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...representation import Array
from ..layers.presets import parsed
from .material import CLASSES, Images, images_of, text_of
from .presets import Preset

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
    from ...models import GPT, next_token_loss

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
    from ...models import MaskedAutoencoder

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
    from ...models import ResidualClassifier
    from ...models.classifiers import label_loss

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
    from ...models import PlainAutoencoder

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
    from ...models import Group, Recipe, Schedule

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
