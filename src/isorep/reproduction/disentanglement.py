"""Disentanglement (section 4.3 of the paper): a plain autoencoder plus ICA against models made for the purpose.

Rendered rooms, sprites and squares at the scale of a laptop; the published data sets, where the files are, in full.

What is measured of latents: scores of every way to unmix them, and the decoder's conditioning beside.

InfoMEC of latents against classes, with what it costs kept in mind.

The units of work: one training of one model with one setting, and the controls of a replicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ..datasets.catalogue import find_entry
from ..datasets.folder import VARIABLE, find_file
from ..decoder import jacobian
from ..disentangling import Unmixing, decoder_response, traversal, unmix
from ..disentangling.traversals import encoded, lost
from ..disentangling.unmixing import decoder_constants
from ..representation import Array
from ..rows import blocks
from ..structure.columns import Columns, as_columns, paired
from ..structure.infomec import active_latents, measure_infomec, shares
from ..structure.mutual_information import information
from .disentanglement_settings import PAPER, PUBLISHED_STEPS, RENDERED, SCALES, Material, Preset, available, material
from .experiment import Experiment, Outcome, Plan, Run, Unit

ICA_KINDS = ("published", "scaled", "whitened", "pruned")
_FEW = 3  # components beyond which there are enough planes to rank
_ROWS_FITTED = 20_000  # latents that ICA is fitted to at most


@dataclass(frozen=True, eq=False)
class Bench:
    """The images that models of one replicate are judged on."""

    material: Material
    preset: Preset
    seed: int

    @property
    def images(self) -> Array:
        """The training images whose latents are looked at: those that ICA is fitted to, and those that are scored."""
        return self.material.images[: max(_ROWS_FITTED, self.preset.scored)]

    def conditions(
        self,
        latents: Array,
        held_out: Array,
        *,
        kinds: tuple[str, ...],
        response: Array | None = None,
        discrete: bool = False,
        rotate: bool = False,
        whole: bool = False,
    ) -> tuple[dict[str, Outcome], dict[str, Unmixing]]:
        """Scores on training images and on held-out ones: as they are, unmixed in each way, and turned at random."""
        maps: dict[str, Unmixing] = {}
        raw = self._both(latents, held_out, discrete=discrete)
        found = {"raw": self._record(raw, whole)}
        if rotate:
            turned = _rotation(latents.shape[1], self.seed)
            both = self._both(latents @ turned, held_out @ turned, same=None if discrete else raw)
            found["rotated"] = self._record(both)
        for kind in kinds:
            maps[kind] = made = unmix(latents[:_ROWS_FITTED], kind, response=response, random_state=self.seed)
            spans = made.components == latents.shape[1] and not discrete
            both = self._both(made.transform(latents), made.transform(held_out), same=raw if spans else None)
            found[kind] = self._record(both, whole) | {"components": made.components, "converged": made.converged}
            if kind == "pruned" and made.conditioning is not None and made.components > _FEW:
                found[kind]["planes"] = planes(made.conditioning, both[0].nmi)
        return found, maps

    def _both(
        self, latents: Array, held_out: Array, *, discrete: bool = False, same: tuple[Scored, Scored] | None = None
    ) -> tuple[Scored, Scored]:
        material, count = self.material, self.preset.scored
        sides = ((material.factors, latents), (material.held_out_factors, held_out))
        seen, unseen = (
            score(
                material.names,
                factors[:count],
                values[:count],
                discrete=discrete,
                same=None if same is None else same[place],
            )
            for place, (factors, values) in enumerate(sides)
        )
        return seen, unseen

    def _record(self, both: tuple[Scored, Scored], whole: bool = False) -> Outcome:
        return {"seen": both[0].to_dict(whole), "held_out": both[1].to_dict()}


def evaluator(bench: Bench, discrete: bool, has_axes: bool, draw: bool) -> Callable[[Any, int], Outcome]:
    """What the trainer asks after some steps: ``evaluate(module, step)``."""
    material, preset = bench.material, bench.preset

    def evaluate(module: Any, step: int) -> Outcome:
        last = step == preset.steps
        latents, held_out = encoded(module, bench.images), encoded(module, material.held_out)
        outcome: Outcome = {"lost": lost(module, material.held_out, held_out)}
        if not has_axes:
            found, _ = bench.conditions(latents, held_out, kinds=(), discrete=discrete)
            return outcome | {"conditions": found}
        sample = latents[: preset.jacobians]
        response = decoder_response(jacobian(module.decode, sample.astype(np.float32)))
        found, maps = bench.conditions(
            latents,
            held_out,
            kinds=ICA_KINDS,
            response=response,
            discrete=discrete,
            rotate=True,
            whole=last and draw,
        )
        outcome |= {"conditions": found, "geometry": decoder_constants(module, maps["pruned"], sample)}
        if last and draw:
            outcome["sheets"] = sheets(module, maps["pruned"], latents)
        return outcome

    return evaluate


def planes(conditioning: Array, nmi: Array) -> Outcome:
    """Whether planes in which components may turn are those whose components tell of the same factors.

    The overlap of two components is the sum over factors of the smaller share of their information.
    """
    total = nmi.sum(0)
    parts = nmi / np.where(total > 0, total, 1.0)
    firm, overlap = [], []
    for i in range(len(conditioning)):
        for j in range(i):
            firm.append(float(conditioning[i, j]))
            overlap.append(float(np.minimum(parts[:, i], parts[:, j]).sum()))
    varies = np.ptp(firm) > 0 and np.ptp(overlap) > 0
    return {
        "curvature": firm,
        "overlap": overlap,
        "spearman": float(spearmanr(firm, overlap).statistic) if varies else None,
    }


def sheets(module: Any, pruned: Unmixing, latents: Array) -> Outcome:
    """Traversals of the components, and of the latents as they are."""
    identity = np.eye(latents.shape[1])
    plain = Unmixing("raw", np.zeros(len(identity)), identity, identity, True)
    found = {}
    for name, made in (("components", pruned), ("latents", plain)):
        sheet, order = traversal(module, made, latents)
        found[name] = sheet.to_dict() | {"order": list(order)}
    return found


def _rotation(size: int, seed: int) -> Array:
    turned, upper = np.linalg.qr(np.random.default_rng([seed, 7]).normal(size=(size, size)))
    return np.asarray(turned * np.sign(np.diag(upper)))


_TOLERANCE = 1e-4
_RANK = 1e-9


@dataclass(frozen=True, eq=False)
class Scored:
    """InfoMEC, its matrix (factors x latents), which latents are active, and the explicitness of every factor."""

    infom: float
    infoe: float
    infoc: float
    nmi: Array
    active: Array
    explicitness: dict[str, float]

    def to_dict(self, whole: bool = False) -> dict[str, Any]:
        """Plain data; with ``whole`` also the matrix."""
        found: dict[str, Any] = {
            "InfoM": self.infom,
            "InfoE": self.infoe,
            "InfoC": self.infoc,
            "active": int(self.active.sum()),
            "explicitness": self.explicitness,
            "best": dict(zip(self.explicitness, self.nmi.max(1).tolist(), strict=True)),
        }
        return found | {"nmi": self.nmi.tolist()} if whole else found


def score(
    names: tuple[str, ...], factors: Array, latents: Array, *, discrete: bool = False, same: Any = None
) -> Scored:
    """InfoMEC of latents; ``same`` is the score of others that span the same space.

    An unpenalised regression from all latents predicts the same whichever basis it is given, so that explicitness does
    not change under invertible linear maps and need not be fitted again.
    """
    columns = as_columns(dict(zip(names, factors.T, strict=True)), "factors", True)
    pair = paired(columns, latents, discrete_latents=discrete)
    if same is None and discrete:
        found = measure_infomec(pair, tolerance=_TOLERANCE)
        return Scored(found.infom, found.infoe, found.infoc, found.nmi, found.active, found.explicitness)
    told = same or measure_infomec(paired(columns, _white(latents), discrete_latents=False), tolerance=_TOLERANCE)
    nmi = information(pair.factors, pair.latents).normalised
    active = active_latents(pair.latents)
    varies = _varies(pair.factors)
    seen = nmi[varies][:, active]
    modular = [value for value in shares(seen.T) if value is not None]
    compact = [value or 0.0 for value in shares(seen)]
    return Scored(
        float(np.mean(modular)) if modular else 0.0,
        told.infoe,
        float(np.mean(compact)) if compact else 0.0,
        nmi,
        active,
        told.explicitness,
    )


def _white(latents: Array) -> Array:
    """The same space in white coordinates, in which the regressions settle many times sooner."""
    centred = latents - latents.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, sizes > sizes[0] * _RANK] * np.sqrt(len(latents))) if sizes[0] > 0 else latents


def _varies(factors: Columns) -> Array:
    return np.array([not factor.constant for factor in factors])


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
    from ..models.disentangling import method_named

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
    from ..models import benchmark_recipe, train
    from ..models.disentangling import method_named

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
    from ..disentangling.traversals import encoded
    from ..models.batched import seeded
    from ..models.disentangling import method_named

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


__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="disentanglement",
    title="Disentanglement with a plain autoencoder and ICA",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    packages=("torch",),
)
