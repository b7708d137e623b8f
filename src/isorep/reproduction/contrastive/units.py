"""The units of work: one pair of models of one setting, compared at the steps that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import replacing
from ...representation import Array
from ..experiment import Outcome, Plan, Run, Unit
from .material import SOURCES, Material, files_of, material, patches, source_of
from .measuring import against, measure
from .presets import Preset

SIDES = ("f", "g")
_CHECKPOINT_SECONDS = 60.0


def plan(preset: Preset, data: Path | None) -> Plan:
    """The base setting, the sweeps over images and width, and random projections of the pixels; a unit for a pair."""
    if min(preset.pairs, preset.steps, preset.layers, preset.width, *preset.widths, *preset.sizes, 1) < 1:
        raise InputError("pairs, steps, layers, widths and numbers of images are from 1 on")
    files, missing = files_of(preset, data)
    settings: list[tuple[str, str, int, int]] = [("base", "base setting", preset.width, 0)]
    settings += [(f"images-{size}", f"{size} images", preset.width, size) for size in sorted({*preset.sizes})]
    settings += [(f"width-{width}", f"width {width}", width, 0) for width in sorted({*preset.widths} - {preset.width})]
    units = [
        Unit(
            f"{key}-pair-{pair + 1}",
            f"{words}, pair {pair + 1}",
            {"sweep": key.split("-")[0], "width": width, "images": size, "pair": pair},
        )
        for key, words, width, size in settings
        for pair in range(preset.pairs)
    ]
    units.append(Unit("projections", "random projections of the pixels", {"sweep": "projections"}))
    return Plan(tuple(units), files, missing)


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train two models and compare them, or compare random projections."""
    preset: Preset = run.preset
    given = material(preset, run.data, run.seed)
    if unit.arguments["sweep"] == "projections":
        return {
            "sweep": "projections",
            "pairs": [_projections(given, preset, run.seed, k) for k in range(preset.pairs)],
        }
    wanted = unit.arguments
    pair = wanted["pair"]
    rows = _rows(given, wanted["images"], run.seed, pair)
    steps = sorted({0, preset.steps, *(preset.checkpoints if wanted["sweep"] == "base" else ())})
    steps = [step for step in steps if step <= preset.steps]
    seeds = [int(seed) for seed in np.random.SeedSequence([run.seed, 31, pair]).generate_state(2)]
    models = [_Model(seed, wanted["width"], given, rows, steps, run, place) for place, seed in enumerate(seeds)]
    return {
        **wanted,
        "images": len(rows),
        "source": SOURCES[source_of(preset, run.data)],
        "note": given.note,
        "seeds": seeds,
        "training": [model.training for model in models],
        "steps": [
            {"step": step, "loss": float(np.mean([model.losses[step] for model in models]))}
            | {
                name: _compared(place, step, models, given, run, wanted["sweep"] == "base")
                for place, name in enumerate(SIDES)
            }
            for step in steps
        ],
    }


class _Model:
    """One training: what f and g give on the test patches at every step that is asked for, and the losses there."""

    def __init__(
        self, seed: int, width: int, given: Material, rows: Array, steps: list[int], run: Run, place: int
    ) -> None:
        from ...models import ContrastivePair, Group, Recipe, Schedule, contrastive_loss, train

        preset: Preset = run.preset
        self._seed, self._folder = seed, run.scratch
        self._kept: dict[int, Array] = {}
        inputs = given.test[0].shape[1]
        hidden = (width,) * (preset.layers - 1)
        trained = train(
            lambda _: ContrastivePair(
                inputs,
                hidden=hidden,
                outputs=preset.outputs,
                normalise=preset.normalise,
                temperature=preset.temperature,
            ),
            tuple(half[rows] for half in given.halves),
            contrastive_loss,
            Recipe(
                steps=preset.steps,
                batch=preset.batch,
                groups=Group("adam", preset.learning_rate),
                schedule=Schedule(preset.schedule),
                record_every=max(preset.steps // 20, 1),
            ),
            seed=seed,
            prepare=_placing(given, preset),
            evaluate=lambda module, step: self._evaluate(module, step, given, preset),
            evaluate_every=lambda step: step in steps,
            checkpoint=None if run.scratch is None else run.scratch / f"training-{seed}.safetensors",
            checkpoint_seconds=_CHECKPOINT_SECONDS,
            device=preset.device,
            progress=lambda stage, done, total: run.progress(stage, place * total + done, 2 * total),
        )
        self.training = trained.history.training[-1]
        self.losses = {step: float(values["loss"]) for step, values in trained.history.evaluations}

    def embedded(self, step: int) -> Array:
        """What f and g give on the test patches after so many steps, (2, patches, outputs)."""
        if self._folder is None:
            return self._kept[step]
        return np.asarray(np.load(self._file(step), allow_pickle=False))

    def _evaluate(self, module: Any, step: int, given: Material, preset: Preset) -> dict[str, float]:
        """Keep the representations beside the training, so that a unit that is stopped has them when it goes on."""
        import torch

        from ...models import contrastive_loss

        views = [torch.from_numpy(part).to(preset.device) for part in given.test]
        found = np.stack([part.cpu().numpy() for part in module.embed(*views)])
        if self._folder is None:
            self._kept[step] = found
        else:
            with replacing(self._file(step)) as temporary, temporary.open("wb") as file:
                np.save(file, found)
        batch = min(preset.batch, len(views[0]))
        starts = range(0, len(views[0]) - batch + 1, batch)
        losses = [contrastive_loss(module, [view[start : start + batch] for view in views]) for start in starts]
        return {"loss": float(torch.stack(losses).mean())}

    def _file(self, step: int) -> Path:
        if self._folder is None:
            raise ValueError("representations are kept in memory")
        return self._folder / f"representations-{self._seed}-{step}.npy"


def _compared(side: int, step: int, models: list[_Model], given: Material, run: Run, base: bool) -> dict[str, Any]:
    """Both models with each other, and each with the principal components of the pixels; all that there is at base."""
    first, second = (model.embedded(step)[side] for model in models)
    pixels = [against(values, given.components[side], share=base) for values in (first, second)]
    return measure(first, second, run.preset, run.seed, ladder=base and step == run.preset.steps) | {
        "pixels": {name: float(np.mean([each[name] for each in pixels])) for name in pixels[0]}
    }


def _projections(given: Material, preset: Preset, seed: int, pair: int) -> dict[str, Any]:
    """Two random linear maps of the pixels to as many numbers as the models have outputs."""
    found = {}
    for side, name in enumerate(SIDES):
        rng = np.random.default_rng([seed, 37, pair, side])
        pixels = given.test[side]
        maps = rng.normal(size=(2, pixels.shape[1], preset.outputs))
        found[name] = measure(pixels @ maps[0], pixels @ maps[1], preset, seed)
    return found


def _rows(given: Material, images: int, seed: int, pair: int) -> Array:
    """Training images of a pair: all, or some that are drawn for the pair, fewer ones from among more."""
    count = len(given.halves[0])
    if images > count:
        raise InputError(f"{images} images are asked for, and there are {count} to train on")
    if not images:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, 47, pair]).permutation(count)[:images])


def _placing(given: Material, preset: Preset) -> Callable[[Any, Any], Any]:
    """A patch of each half at a place of its own, anew at every step, as the loss takes it."""
    import torch

    columns = preset.patch or given.halves[0].shape[1]
    free = given.halves[0].shape[1] - columns + 1
    centres = [torch.from_numpy(mean).to(preset.device) for mean in given.centre]

    def prepare(batch: Any, generator: Any) -> Any:
        placed = []
        for half, mean in zip(batch, centres, strict=True):
            starts = torch.randint(free, (len(half),), generator=generator, device=half.device)
            taken = (patches(half, starts, columns) - mean) / given.scale
            placed.append(taken.flatten(1))
        return tuple(placed)

    return prepare
