"""The units of work: one training of one model with one setting, and the controls of a replicate."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.catalogue import find_entry
from ...datasets.folder import VARIABLE, find_file
from ...representation import Array
from ...rows import blocks
from ..experiment import Outcome, Plan, Run, Unit
from .material import Material, available, material
from .measuring import Bench, evaluator
from .presets import PUBLISHED_STEPS, RENDERED, Preset

_MOST_DECAY = 1.0
_PIXEL_ROWS = 5000  # images that principal components of pixels are fitted to at most


@dataclass(frozen=True)
class Setting:
    """A setting of a model: its name in keys and tables, the weight decay, and the model's arguments."""

    name: str
    weight_decay: float
    arguments: dict[str, float] = field(default_factory=dict)


def plan(preset: Preset, data: Path | None) -> Plan:
    """Replicates of a scene together, so that its images are made once."""
    units: list[Unit] = []
    skipped: list[str] = []
    files: list[Path] = []
    for scene in preset.scenes:
        if not available(scene, data):
            where = f"name a folder with --data or {VARIABLE}" if data is None else f"{data} does not hold its files"
            skipped.append(f"{scene} was left out: {where} ({find_entry(scene).origin()})")
            continue
        if scene not in RENDERED and data is not None:
            main = find_file(data, scene, find_entry(scene).file)
            files += [] if main is None else [main]
        for replicate in range(preset.replicates):
            about = {"scene": scene, "replicate": replicate}
            units.append(Unit(f"{scene}-{replicate}-controls", f"{scene}, replicate {replicate}, controls", {**about}))
            for model in preset.all_models:
                for setting in settings_of(model, scene, preset):
                    units.append(
                        Unit(
                            f"{scene}-{replicate}-{model}-{setting.name}",
                            f"{scene}, replicate {replicate}, {model}, {setting.name}",
                            {**about, "model": model, "setting": setting.name},
                        )
                    )
    return Plan(tuple(units), tuple(files), tuple(skipped))


def settings_of(model: str, scene: str, preset: Preset) -> tuple[Setting, ...]:
    """What is swept: weight decay of the autoencoder, beta of the variational models."""
    if model == "ae":
        return tuple(Setting(f"decay {decay:g}", decay) for decay in preset.weight_decays)
    from ...models.disentangling import method_named

    arguments, decay = method_named(model).settings_for(scene)
    if "beta" in arguments:
        betas = preset.betas or (arguments["beta"],)
        return tuple(Setting(f"beta {beta:g}", 0.0, {"beta": beta}) for beta in betas)
    # Learning rate x weight decay x steps as published, up to a decay that leaves any weights.
    decay = min(decay * PUBLISHED_STEPS / preset.steps, max(_MOST_DECAY, decay))
    return (Setting(f"decay {decay:.3g}", decay, arguments),)


def run_unit(unit: Unit, run: Run) -> Outcome:
    """One training, or the controls."""
    wanted = unit.arguments
    images = material(wanted["scene"], wanted["replicate"], run)
    bench = Bench(images, run.preset, 1000 * run.seed + wanted["replicate"])
    about = {"scene": wanted["scene"], "replicate": wanted["replicate"]}
    if "model" not in wanted:
        return about | _controls(bench)
    return about | {"model": wanted["model"], "setting": wanted["setting"]} | _trained(bench, wanted, run)


def _trained(bench: Bench, wanted: Any, run: Run) -> Outcome:
    from ...models import benchmark_recipe, train
    from ...models.disentangling import method_named

    preset: Preset = run.preset
    images, method = bench.material, method_named(wanted["model"])
    (setting,) = (each for each in settings_of(method.name, images.scene, preset) if each.name == wanted["setting"])
    # One run is drawn: the first replicate of the autoencoder with the weight decay in the middle of the sweep.
    middle = settings_of("ae", images.scene, preset)[len(preset.weight_decays) // 2].name
    draw = wanted["replicate"] == 0 and method.name == "ae" and setting.name == middle
    steps = preset.all_scored_at
    found = train(
        method.builder(
            images.shape, images.latents, network=preset.network, rows=len(images.images), **setting.arguments
        ),
        images.images,
        method.model.losses,
        benchmark_recipe(
            preset.steps,
            weight_decay=setting.weight_decay,
            batch=preset.batch,
            falls_after=preset.falls_after,
            record_every=max(preset.steps // 40, 1),
        ),
        seed=bench.seed,
        prepare=method.model.prepare(images.latents),
        evaluate=evaluator(bench, method.model.discrete, method.model.has_axes, draw),
        evaluate_every=lambda step: step in steps,
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        device=preset.device,
        progress=run.progress,
    )
    return {
        "weight_decay": setting.weight_decay,
        "names": list(images.names),
        "latents": images.latents,
        "training": found.history.training[-1],
        "seconds": found.history.seconds[-1],
        "steps": [{"step": step, **values} for step, values in found.history.evaluations],
    }


def _controls(bench: Bench) -> Outcome:
    """What no learning gives: principal components of pixels, and an encoder that was never trained."""
    images = bench.material
    outcome: Outcome = {"names": list(images.names)}
    seen, unseen = _principal(bench)
    found, _ = bench.conditions(seen, unseen, kinds=("scaled", "whitened"))
    outcome["pixels"] = found
    seen, unseen = _untrained(bench)
    found, _ = bench.conditions(seen, unseen, kinds=("scaled", "whitened"))
    outcome["untrained"] = found
    if images.rendered is not None and images.scene in RENDERED:
        outcome["generator"] = _generator(images)
    return outcome


def _principal(bench: Bench) -> tuple[Array, Array]:
    """As many leading principal components of the pixels as models have latents."""
    images = bench.material
    seen, unseen = (part.reshape(len(part), -1) for part in (bench.images, images.held_out))
    some = seen[:_PIXEL_ROWS].astype(np.float64) / 255
    mean = some.mean(0)
    axes = np.linalg.svd(some - mean, full_matrices=False)[2][: images.latents]
    return _onto(seen, mean, axes), _onto(unseen, mean, axes)


def _onto(flat: Array, mean: Array, axes: Array) -> Array:
    return np.concatenate([(flat[rows] / 255 - mean) @ axes.T for rows in blocks(len(flat), 1024)])


def _untrained(bench: Bench) -> tuple[Array, Array]:
    from ...disentangling.traversals import encoded
    from ...models.batched import seeded
    from ...models.disentangling import method_named

    images = bench.material
    build = method_named("ae").builder(
        images.shape, images.latents, network=bench.preset.network, rows=len(images.images)
    )
    module = seeded(build, bench.seed)
    return encoded(module, bench.images), encoded(module, images.held_out)


def _generator(images: Material) -> Outcome:
    """How far each factor moves the pixels, with factors of unit variance, and the constant of the generator."""
    scene = images.rendered
    if scene is None or scene.factor_values is None:
        return {}
    continuous = scene.scene.continuous
    places = [images.names.index(name) for name in continuous]
    values = scene.factor_values
    rows = values[:: max(len(values) // 48, 1)][:48]
    jacobian = scene.factor_jacobian(rows) * values[:, places].std(0)
    squares = np.einsum("npi,npj->nij", jacobian, jacobian, optimize=True)
    spectra = np.sqrt(np.maximum(np.linalg.eigvalsh(squares), 0))
    stretch = np.sqrt(np.einsum("nii->ni", squares).mean(0))
    least, most = float(spectra[:, 0].min()), float(spectra[:, -1].max())
    return {
        "stretch": dict(zip(continuous, stretch.tolist(), strict=True)),
        "similarity": float(np.sqrt(most / least)) if least > 0 else float("inf"),
        "median_condition": float(np.median(spectra[:, -1] / np.maximum(spectra[:, 0], 1e-12))),
    }
