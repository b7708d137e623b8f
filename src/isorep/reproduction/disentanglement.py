"""Disentanglement (section 4.3 of the paper): a plain autoencoder plus ICA against specialised models.

Rendered rooms, sprites and squares at laptop scale, and faces where their file is available; the published data sets
in full, where the files are. A unit is one training of one model with one setting, or the controls of a replicate.
Scores of every way to unmix latents are measured, and the decoder's conditioning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ..datasets.catalogue import published_set
from ..datasets.factor_splits import RENDERED, FactorSplit, available, factor_split
from ..datasets.folder import find_file
from ..decoder import jacobian
from ..disentangling import Unmixing, decoder_response, traversal, unmix
from ..disentangling.reconstruction import mean_and_spread
from ..disentangling.traversals import encoded, lost
from ..disentangling.unmixing import decoder_constants
from ..errors import InputError
from ..representation import Array
from ..rows import blocks
from ..settings import check_counts, check_names
from ..structure.columns import as_columns, paired
from ..structure.infomec import active_latents, measure_infomec, shares
from ..structure.mutual_information import information
from .experiment import NELSON, Experiment, Outcome, Plan, Run, Unit, by_scale, how_to_find, scaled

DATA = {"shapes3d": "Shapes3D", "mpi3d_real_complex": "MPI3D", "falcor3d": "Falcor3D", "isaac3d": "Isaac3D"}
"""The data sets of the table, by the names of their loaders."""

FACES = "faces"
_FACES_HELD_OUT = 174  # at most, a quarter of them

MODELS = ("ae", "beta_vae", "beta_tcvae", "bioae", "vqvae", "vqvae_decay", "qlae")
PUBLISHED_STEPS = 200_000
ICA_KINDS = ("published", "scaled", "whitened", "pruned")
_FEW = 3  # components beyond which there are enough planes to rank
_ROWS_FITTED = 20_000  # latents that ICA is fitted to at most
_PIXEL_ROWS = 5000  # images that principal components of pixels are fitted to at most
_MOST_DECAY = 1.0
_TOLERANCE = 1e-4  # of the regressions that explicitness is taken from
_RANK = 1e-9


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    scenes : tuple of str
        ``rooms``, ``sprites`` and ``squares`` are rendered; the others, such as ``faces``, are read from their files.
    models : tuple of str
        Models of the benchmark, or ``all``.
    weight_decays : tuple of float
        Weight decays of the autoencoder. The product with learning rate and steps matters, so small scales use larger
        ones.
    betas : tuple of float
        Betas of the variational models; empty for the published ones.
    replicates : int
        New images (where they are rendered) and new weights.
    images, held_out, scored : int
        Images to train on (None for all, which are 100,000 of rendered ones), images that are never trained on, and
        images that are scored of each.
    size : int
        Side of rendered images.
    network : str
        ``dense``, ``spatial``, ``light`` or ``published``.
    steps, batch, learning_rate
        Steps, batch size and learning rate of the training; the spatial network learns faster with 0.003.
    falls_after : float or None
        The share of the steps after which the learning rate falls; None as published.
    scored_at : tuple of int
        Steps after which models are scored; the last is always among them.
    jacobians : int
        Latents at which the decoder is differentiated.
    tolerance : float
        A setting reconstructs well if its loss is at most this many times that of the model's best one.
    device : str
        Device for training.
    """

    scenes: tuple[str, ...] = scaled(("rooms",), (*RENDERED, FACES), (*DATA, "rooms"))
    models: tuple[str, ...] = scaled(("ae", "beta_vae"), ("ae", "beta_vae"), ("all",))
    weight_decays: tuple[float, ...] = scaled((0.1, 0.5), (0.03, 0.1, 0.3, 1.0), (1e-4, 1e-3, 1e-2, 1e-1))
    betas: tuple[float, ...] = scaled((0.3,), (0.1, 0.5), ())
    replicates: int = scaled(2, 3, 3)
    images: int | None = scaled(2000, 6000, None)
    held_out: int = scaled(500, 1500, 10_000)
    scored: int = scaled(500, 1500, 10_000)
    size: int = scaled(16, 32, 64)
    network: str = scaled("dense", "dense", "published")
    steps: int = scaled(300, 1200, PUBLISHED_STEPS)
    batch: int = scaled(32, 32, 128)
    learning_rate: float = 1e-3
    falls_after: float | None = scaled(2 / 3, 2 / 3, None)
    scored_at: tuple[int, ...] = scaled((), (600,), (0, *range(500, 5000, 500), *range(5000, PUBLISHED_STEPS, 5000)))
    jacobians: int = scaled(16, 48, 64)
    tolerance: float = 1.5
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_names("scenes", self.scenes, (*RENDERED, FACES, *DATA))
        check_names("models", self.models, (*MODELS, "all"))
        if "ae" not in self.all_models:
            raise InputError("models must include ae: the others are compared with it")
        counts = ("replicates", "steps", "batch", "held_out", "scored", "jacobians")
        check_counts(**{name: (getattr(self, name), 1) for name in counts})
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate is {self.learning_rate}: it must be above 0")
        if not self.weight_decays or min((*self.weight_decays, *self.betas)) < 0:
            raise InputError("there must be weight decays, and none of these or of betas below 0")

    @property
    def all_models(self) -> tuple[str, ...]:
        """The models, spelt out."""
        return MODELS if "all" in self.models else self.models

    @property
    def all_scored_at(self) -> tuple[int, ...]:
        """The steps after which models are scored."""
        return tuple(sorted({step for step in self.scored_at if 0 <= step < self.steps} | {self.steps}))


SCALES = by_scale(Preset)


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
            skipped.append(f"{scene} was left out: {how_to_find(data)} ({published_set(scene).origin()})")
            continue
        if scene not in RENDERED and data is not None:
            main = find_file(data, scene, published_set(scene).file)
            files += [] if main is None else [main]
        for replicate in range(preset.replicates):
            about = {"scene": scene, "replicate": replicate}
            key, words = f"{scene}-{replicate}", f"{scene}, replicate {replicate}"
            units.append(Unit(f"{key}-controls", f"{words}, controls", {**about}))
            for model in preset.all_models:
                for name in (each.name for each in settings_of(model, scene, preset)):
                    wanted = {**about, "model": model, "setting": name}
                    units.append(Unit(f"{key}-{model}-{name}", f"{words}, {model}, {name}", wanted))
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
    wanted, preset = dict(unit.arguments), run.preset
    place = wanted["replicate"] if wanted["scene"] in RENDERED else 0  # files hold the same images every time
    held_out = min(preset.held_out, _FACES_HELD_OUT) if wanted["scene"] == FACES else preset.held_out
    images = factor_split(wanted["scene"], place, run.seed, preset.images, held_out, preset.size, run.data)
    bench = Bench(images, preset, 1000 * run.seed + wanted["replicate"])
    return wanted | (_trained(bench, wanted, run) if "model" in wanted else _controls(bench))


def _trained(bench: Bench, wanted: Any, run: Run) -> Outcome:
    from ..models import benchmark_recipe, train
    from ..models.disentangling import method_named

    preset: Preset = run.preset
    images, method = bench.split, method_named(wanted["model"])
    (setting,) = (each for each in settings_of(method.name, images.scene, preset) if each.name == wanted["setting"])
    # One run is drawn: the first replicate of the autoencoder with the weight decay in the middle of the sweep.
    middle = settings_of("ae", images.scene, preset)[len(preset.weight_decays) // 2].name
    draw = wanted["replicate"] == 0 and method.name == "ae" and setting.name == middle
    steps = preset.all_scored_at
    trained = train(
        bench.builder(method, **setting.arguments),
        images.images,
        method.model.losses,
        benchmark_recipe(
            preset.steps,
            weight_decay=setting.weight_decay,
            learning_rate=preset.learning_rate,
            batch=preset.batch,
            falls_after=preset.falls_after,
            record_every=max(preset.steps // 40, 1),
        ),
        seed=bench.seed,
        prepare=method.model.prepare(bench.latents),
        evaluate=evaluator(bench, method.model.discrete, method.model.has_axes, draw),
        evaluate_every=lambda step: step in steps,
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        device=preset.device,
        progress=run.progress,
    )
    return {
        "weight_decay": setting.weight_decay,
        "names": list(images.names),
        "latents": bench.latents,
        "training": trained.history.training[-1],
        "seconds": trained.history.seconds[-1],
        "steps": [{"step": step, **values} for step, values in trained.history.evaluations],
    }


def _controls(bench: Bench) -> Outcome:
    """Controls without learning: principal components of pixels, and an untrained encoder."""
    images = bench.split
    outcome: Outcome = {"names": list(images.names)}
    for name, (seen, unseen) in {"pixels": _principal(bench), "untrained": _untrained(bench)}.items():
        outcome[name], _ = bench.conditions(seen, unseen, kinds=("scaled", "whitened"))
    return outcome | ({} if images.rendered is None else {"generator": images.geometry()})


def _principal(bench: Bench) -> tuple[Array, Array]:
    """As many leading principal components of the pixels as models have latents."""
    images = bench.split
    seen, unseen = (part.reshape(len(part), -1) for part in (bench.images, images.held_out))
    some = seen[:_PIXEL_ROWS].astype(np.float64) / 255
    mean = some.mean(0)
    axes = np.linalg.svd(some - mean, full_matrices=False)[2][: bench.latents]
    return _onto(seen, mean, axes), _onto(unseen, mean, axes)


def _onto(flat: Array, mean: Array, axes: Array) -> Array:
    return np.concatenate([(flat[rows] / 255 - mean) @ axes.T for rows in blocks(len(flat), 1024)])


def _untrained(bench: Bench) -> tuple[Array, Array]:
    from ..models.batched import seeded
    from ..models.disentangling import method_named

    module = seeded(bench.builder(method_named("ae")), bench.seed)
    return encoded(module, bench.images), encoded(module, bench.split.held_out)


@dataclass(frozen=True, eq=False)
class Bench:
    """The images that models of one replicate are judged on."""

    split: FactorSplit
    preset: Preset
    seed: int

    @property
    def latents(self) -> int:
        """Latents of every model: twice the number of factors."""
        return 2 * len(self.split.names)

    @property
    def images(self) -> Array:
        """The training images whose latents are used: those that ICA is fitted to, and those that are scored."""
        return self.split.images[: max(_ROWS_FITTED, self.preset.scored)]

    def builder(self, method: Any, **arguments: float) -> Any:
        """The trainer's ``build(seed)`` of a model; a spatial network starts from the mean image."""
        images, network = self.split.images, self.preset.network
        build = method.builder(self.split.shape, self.latents, network=network, rows=len(images), **arguments)
        if network != "spatial":
            return build
        mean, spread = mean_and_spread(images, np.arange(len(images)))

        def started(seed: int) -> Any:
            module = build(seed)
            module.start_from(mean, spread)
            return module

        return started

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
        scores = {"raw": self._record(raw, whole)}
        if rotate:
            turned = _rotation(latents.shape[1], self.seed)
            both = self._both(latents @ turned, held_out @ turned, same=None if discrete else raw)
            scores["rotated"] = self._record(both)
        for kind in kinds:
            maps[kind] = made = unmix(latents[:_ROWS_FITTED], kind, response=response, random_state=self.seed)
            spans = made.components == latents.shape[1] and not discrete
            both = self._both(made.transform(latents), made.transform(held_out), same=raw if spans else None)
            scores[kind] = self._record(both, whole) | {"components": made.components, "converged": made.converged}
            if kind == "pruned" and made.conditioning is not None and made.components > _FEW:
                scores[kind]["planes"] = planes(made.conditioning, both[0].nmi)
        return scores, maps

    def _both(
        self,
        latents: Array,
        held_out: Array,
        *,
        discrete: bool = False,
        same: tuple[InfoScores, InfoScores] | None = None,
    ) -> tuple[InfoScores, InfoScores]:
        split, count = self.split, self.preset.scored
        sides = ((split.factors, latents), (split.held_out_factors, held_out))
        seen, unseen = (
            score(split.names, factors[:count], values[:count], discrete=discrete, same=known)
            for (factors, values), known in zip(sides, same or (None, None), strict=True)
        )
        return seen, unseen

    def _record(self, both: tuple[InfoScores, InfoScores], whole: bool = False) -> Outcome:
        return {"seen": both[0].to_dict(whole), "held_out": both[1].to_dict()}


def evaluator(bench: Bench, discrete: bool, has_axes: bool, draw: bool) -> Callable[[Any, int], Outcome]:
    """The evaluation hook of the trainer: ``evaluate(module, step)``."""
    preset, unseen = bench.preset, bench.split.held_out

    def evaluate(module: Any, step: int) -> Outcome:
        latents, held_out = encoded(module, bench.images), encoded(module, unseen)
        outcome: Outcome = {"lost": lost(module, unseen, held_out)}
        if not has_axes:
            return outcome | {"conditions": bench.conditions(latents, held_out, kinds=(), discrete=discrete)[0]}
        sample = latents[: preset.jacobians]
        response = decoder_response(jacobian(module.decode, sample.astype(np.float32)))
        drawn = draw and step == preset.steps
        scores, maps = bench.conditions(
            latents, held_out, kinds=ICA_KINDS, response=response, discrete=discrete, rotate=True, whole=drawn
        )
        outcome |= {"conditions": scores, "geometry": decoder_constants(module, maps["pruned"], sample)}
        if drawn:
            outcome["sheets"] = sheets(module, maps["pruned"], latents)
        return outcome

    return evaluate


def planes(conditioning: Array, nmi: Array) -> Outcome:
    """Whether weak planes are those whose components inform about the same factors.

    The overlap of two components is the sum over factors of the smaller share of their information.
    """
    total = nmi.sum(0)
    parts = nmi / np.where(total > 0, total, 1.0)
    i, j = np.tril_indices(len(conditioning), -1)
    firm, overlap = conditioning[i, j], np.minimum(parts[:, i], parts[:, j]).sum(0)
    varies = np.ptp(firm) > 0 and np.ptp(overlap) > 0
    rank = float(spearmanr(firm, overlap).statistic) if varies else None
    return {"curvature": firm.tolist(), "overlap": overlap.tolist(), "spearman": rank}


def sheets(module: Any, pruned: Unmixing, latents: Array) -> Outcome:
    """Traversals of the components, and of the latents as they are."""
    identity = np.eye(latents.shape[1])
    plain = Unmixing("raw", np.zeros(len(identity)), identity, identity, True)
    drawn = {}
    for name, made in (("components", pruned), ("latents", plain)):
        sheet, order = traversal(module, made, latents)
        drawn[name] = sheet.to_dict() | {"order": list(order)}
    return drawn


def _rotation(size: int, seed: int) -> Array:
    turned, upper = np.linalg.qr(np.random.default_rng([seed, 7]).normal(size=(size, size)))
    return np.asarray(turned * np.sign(np.diag(upper)))


@dataclass(frozen=True, eq=False)
class InfoScores:
    """InfoMEC, its matrix (factors x latents), which latents are active, and the explicitness of every factor."""

    infom: float
    infoe: float
    infoc: float
    nmi: Array
    active: Array
    explicitness: dict[str, float]

    def to_dict(self, whole: bool = False) -> dict[str, Any]:
        """Plain data; with ``whole`` also the matrix."""
        scores: dict[str, Any] = {
            "InfoM": self.infom,
            "InfoE": self.infoe,
            "InfoC": self.infoc,
            "active": int(self.active.sum()),
            "explicitness": self.explicitness,
            "best": dict(zip(self.explicitness, self.nmi.max(1).tolist(), strict=True)),
        }
        return scores | {"nmi": self.nmi.tolist()} if whole else scores


def score(
    names: tuple[str, ...], factors: Array, latents: Array, *, discrete: bool = False, same: Any = None
) -> InfoScores:
    """InfoMEC of latents; ``same`` is the score of others that span the same space.

    An unpenalised regression from all latents predicts the same whichever basis it is given, so that explicitness does
    not change under invertible linear maps and need not be fitted again.
    """
    columns = as_columns(dict(zip(names, factors.T, strict=True)), "factors", True)
    pair = paired(columns, latents, discrete_latents=discrete)
    told = same
    if told is None:
        regressed = pair if discrete else paired(columns, _white(latents), discrete_latents=False)
        told = measure_infomec(regressed, tolerance=_TOLERANCE)
    nmi = information(pair.factors, pair.latents).normalised
    active = active_latents(pair.latents)
    varies = np.array([not factor.constant for factor in pair.factors])
    seen = nmi[varies][:, active]
    modular = [value for value in shares(seen.T) if value is not None]
    compact = [value or 0.0 for value in shares(seen)]
    infom, infoc = (float(np.mean(each)) if each else 0.0 for each in (modular, compact))
    return InfoScores(infom, told.infoe, infoc, nmi, active, told.explicitness)


def _white(latents: Array) -> Array:
    """The same space in white coordinates, in which the regressions converge many times faster."""
    centred = latents - latents.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, sizes > sizes[0] * _RANK] * np.sqrt(len(latents))) if sizes[0] > 0 else latents


TITLE = "Disentanglement with a plain autoencoder and ICA"
PAPER = (
    f"{NELSON}, section 4.3, Table 2; protocol of Hsu, Dorrell, Whittington, Wu and Finn, Disentanglement via latent "
    "quantization, NeurIPS 2023"
)
EXPERIMENT = Experiment("disentanglement", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
