"""Inversion of known latents: which objectives recover them, up to which group, and when an assumption is broken?

Latents are mixed by an invertible network, or rendered. A unit is one objective with all its assumptions kept, or with
one of them broken: several trainings as one program, of which those with the smallest losses are compared with the
latents and with each other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ortho_group

from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..settings import check_choice
from .experiment import Experiment, Outcome, Plan, Run, Unit, by_scale, scaled
from .inversion_latents import BROKEN, Drawn, Mixing, Rendering, World
from .outcomes import all_pairs, compared, explained, folds_of, held_out, ladder, seeds_from

RUNGS = ("signed_permutation", "rigid", "linear")
_LADDER = {"signed_permutation": "permutation", "rigid": "rigid", "linear": "linear"}  # names of outcomes.ladder
_FOLDS = 5
_ROTATIONS = 20
_PENALTY = 0.1  # in squared units of standardised observations: far below the sum over hundreds of rows


@dataclass(frozen=True)
class Objective:
    """An objective and its theorem.

    Attributes
    ----------
    words, short : str
        Its name, and a name for columns of a figure.
    world : str
        Latents and pairs that its theorem assumes.
    group : str or None
        The rung that the theorem promises where all assumptions hold.
    still : mapping of str to str
        Rungs that are promised even if an assumption of the others is broken.
    without : tuple of str
        Assumptions that have no meaning for it.
    rescaled : bool
        Whether the theorem leaves a scale for each latent open; columns are then standardised.
    """

    words: str
    short: str
    world: str
    group: str | None
    still: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    rescaled: bool = False


OBJECTIVES = {
    "cosine": Objective("InfoNCE, cosine", "cosine", "sphere", "rigid"),
    "l1": Objective("InfoNCE, L1 distance", "L1", "box", "signed_permutation"),
    "diet": Objective("DIET", "DIET", "clusters", "rigid", {"marginal": "rigid", "dependence": "rigid"}),
    "vicreg": Objective("VICReg", "VICReg", "normal", "rigid", {"dependence": "linear"}),
    "lejepa": Objective("LeJEPA", "LeJEPA", "normal", "rigid", {"dependence": "linear"}),
    "ivae": Objective("iVAE", "iVAE", "segments", "signed_permutation", rescaled=True),
    "autoencoder": Objective("autoencoder", "AE", "box", None, without=("conditional", "concentration")),
}
KEPT, SCENE = "kept", "scene"


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    objectives, broken, scene : tuple of str
        Objectives, assumptions that are broken one at a time, and objectives that also see a rendered scene.
    dimension : int
        Number of latents; spheres have at least three coordinates, because a circle can be wound.
    layers : int
        Layers of the mixing network.
    rows, test_rows : int
        Rows to train on, and others for all that is measured.
    seeds, kept : int
        Trainings of a unit, and how many of them with the smallest losses are measured.
    steps, ivae_steps, batch, learning_rate, hidden
        Training by Adam with a cosine schedule; iVAE takes more steps than the others.
    concentration, sharpness, correlation : float
        How close pairs are: on the sphere, in the box (one over the scale), and for Gaussians.
    instances, segments : int
        Clusters of DIET, and values of the auxiliary variable of iVAE.
    more : int
        Outputs more than latents, where the dimension is the broken assumption.
    directions : int
        Random directions of LeJEPA's regulariser at each step.
    weight, noise : float
        Weight of that regulariser, and standard deviation of the observations that iVAE assumes.
    pixels : int
        Height and width of a rendered scene.
    n_null, n_boot : int
        Shuffled pairings, and draws of the bootstrap over rows.
    """

    objectives: tuple[str, ...] = tuple(OBJECTIVES)
    broken: tuple[str, ...] = scaled((), BROKEN, BROKEN)
    scene: tuple[str, ...] = scaled((), ("l1", "lejepa", "autoencoder"), tuple(OBJECTIVES))
    dimension: int = scaled(2, 3, 10)
    layers: int = scaled(2, 2, 3)
    rows: int = scaled(4000, 20_000, 1_000_000)
    test_rows: int = scaled(600, 2000, 10_000)
    seeds: int = scaled(5, 5, 10)
    kept: int = scaled(3, 3, 5)
    steps: int = scaled(300, 600, 100_000)
    ivae_steps: int = scaled(600, 1500, 200_000)
    batch: int = scaled(128, 256, 4096)
    learning_rate: float = scaled(1e-2, 5e-3, 1e-4)
    hidden: tuple[int, ...] = scaled((32, 32), (64, 64), (512, 512, 512))
    concentration: float = 4.0
    sharpness: float = 10.0
    correlation: float = 0.9
    instances: int = scaled(50, 100, 1000)
    segments: int = scaled(15, 30, 60)
    more: int = 2
    directions: int = scaled(4, 8, 256)
    weight: float = 0.1
    noise: float = 0.1
    pixels: int = scaled(12, 12, 32)
    n_null: int = scaled(5, 10, 50)
    n_boot: int = scaled(50, 100, 1000)


SCALES = by_scale(Preset)


def plan(preset: Preset, data: Path | None) -> Plan:
    """Every objective with all assumptions kept, with each one broken, and with a rendered scene."""
    for name in (*preset.objectives, *preset.scene):
        check_choice("objectives", name, tuple(OBJECTIVES))
    for name in preset.broken:
        check_choice("broken", name, BROKEN)
    if preset.dimension < 2 or not 2 <= preset.kept <= preset.seeds:
        raise InputError("dimension is from 2 on, and from 2 trainings to all of them are kept")
    units = []
    for name in preset.objectives:
        objective = OBJECTIVES[name]
        settings = [KEPT, *(each for each in BROKEN if each in preset.broken and each not in objective.without)]
        for setting in (*settings, *((SCENE,) if name in preset.scene else ())):
            words = f"{objective.words}, {WORDS[setting]}"
            units.append(Unit(f"{name}-{setting}", words, {"objective": name, "setting": setting}))
    return Plan(tuple(units))


WORDS = {
    KEPT: "all assumptions kept",
    "marginal": "another marginal",
    "conditional": "another conditional",
    "concentration": "unequal concentrations",
    "dimension": "more outputs than latents",
    "dependence": "dependent latents",
    SCENE: "rendered scene",
}


def promised(name: str, setting: str) -> str | None:
    """The rung that a theorem promises for an objective in a setting; None where none does."""
    objective = OBJECTIVES[name]
    return objective.group if setting in (KEPT, SCENE) else objective.still.get(setting)


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all seeds of one objective in one setting, and measure those with the smallest losses."""
    from ..models import Group, Recipe, Schedule, train_many
    from ..models.batched import seeded

    preset: Preset = run.preset
    name, setting = unit.arguments["objective"], unit.arguments["setting"]
    given = material(name, setting, preset, run.seed)
    build, loss, prepare = learner(name, given, preset)
    seeds = seeds_from(run.seed, 61, count=preset.seeds)
    steps = preset.ivae_steps if name == "ivae" else preset.steps
    recipe = Recipe(
        steps=steps,
        batch=preset.batch,
        groups=Group("adam", preset.learning_rate),
        schedule=Schedule("cosine"),
        record_every=max(steps // 10, 1),
    )
    trained = train_many(
        build,
        given.data,
        loss,
        recipe,
        seeds=seeds,
        batched=True,
        prepare=prepare,
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        progress=run.progress,
    )
    losses = [each.history.training[-1] if each.ended != "diverged" else float("inf") for each in trained]
    chosen = np.argsort(losses, kind="stable")[: preset.kept]
    codes = [_Codes(trained[place].module, given, at) for at, place in enumerate(chosen)]
    before = [_Codes(seeded(build, seeds[place]), given, at) for at, place in enumerate(chosen)]
    return {
        **unit.arguments,
        "promised": promised(name, setting),
        "dimension": given.truth.shape[1],
        "outputs": given.outputs,
        "losses": losses,
        "kept": [int(place) for place in chosen],
        "together": trained[0].together,
        **measure(codes, before, given, preset, run.seed, rescaled=OBJECTIVES[name].rescaled),
    }


@dataclass(frozen=True, eq=False)
class Material:
    """What one unit trains on and is measured with; ``fitting`` are other rows, for the ICA of each training."""

    data: tuple[Array, ...]
    truth: Array
    test: Array
    fitting: tuple[Array, ...]
    outputs: int
    labels: int


def material(name: str, setting: str, preset: Preset, seed: int) -> Material:
    """Draw latents, and mix or render them."""
    objective = OBJECTIVES[name]
    spherical = objective.world in ("sphere", "clusters")
    dimension = 3 if setting == SCENE else max(preset.dimension, 3) if spherical else preset.dimension
    labels = {"clusters": preset.instances, "segments": preset.segments}.get(objective.world, 0)
    near = preset.concentration if spherical else preset.sharpness if objective.world == "box" else preset.correlation
    world = World(objective.world, dimension, setting, near, labels, seed)
    rng = np.random.default_rng([seed, 67])
    train, test = (world.draw(rows, rng) for rows in (preset.rows, preset.test_rows))
    others = [world.draw(preset.test_rows, rng).latents for _ in range(preset.kept)]
    observe = _observed(train, setting, preset, world, seed)
    data = [observe(train.latents)]
    data += [observe(train.partners)] if train.partners is not None else []
    data += [train.labels] if train.labels is not None else []
    outputs = dimension + (preset.more if setting == "dimension" else 0)
    fitting = tuple(map(observe, others))
    return Material(tuple(data), test.latents, observe(test.latents), fitting, outputs, labels)


def _observed(train: Drawn, setting: str, preset: Preset, world: World, seed: int) -> Callable[[Array], Array]:
    """From latents to standardised observations; the scale of latents and observations is that of training rows."""
    centre, scale = train.latents.mean(0), float(train.latents.std())
    rendered = setting == SCENE
    mixed = Mixing(world.dimension, preset.layers, centre, scale, seed)
    mixing = Rendering(world, preset.pixels) if rendered else mixed
    seen = mixing(train.latents)
    mean, spread = seen.mean(0), seen.std() if rendered else seen.std(0)
    return lambda latents: np.asarray((mixing(latents) - mean) / spread, dtype=np.float32)


def learner(name: str, given: Material, preset: Preset) -> tuple[Callable[[int], Any], Any, Any]:
    """How an objective builds a network, its loss, and what a step draws."""
    import torch

    from ..models import joint_embedding as objectives

    inputs, outputs = given.test.shape[1], given.outputs
    sizes: dict[str, Any] = {"hidden": preset.hidden}
    if name == "ivae":
        return (
            lambda _: objectives.IdentifiableVAE(inputs, outputs, given.labels, noise=preset.noise, **sizes),
            objectives.ivae_loss,
            lambda batch, generator: (*batch, torch.randn(len(batch[0]), outputs, generator=generator)),
        )
    losses: dict[str, Callable[[], Any]] = {
        "cosine": lambda: objectives.infonce_loss(temperature=1 / preset.concentration),
        "l1": lambda: objectives.infonce_loss(power=1.0),
        "diet": objectives.diet_loss,
        "vicreg": objectives.vicreg_loss,
        "lejepa": lambda: objectives.lejepa_loss(preset.weight),
        "autoencoder": lambda: objectives.autoencoder_loss,
    }
    sizes |= {"normalise": name in ("cosine", "diet"), "decoder": name == "autoencoder"}
    sizes |= {"classes": given.labels if name == "diet" else 0}

    def directions(batch: Any, generator: Any) -> Any:
        return (*batch, torch.randn(preset.directions, outputs, generator=generator))

    return (
        lambda _: objectives.Encoder(inputs, outputs, **sizes),
        losses[name](),
        directions if name == "lejepa" else None,
    )


class _Codes:
    """Codes of the test rows, and their independent components by an ICA of other rows, at its own place.

    ICAs of two trainings on the same rows would agree by the sampling noise that they share.
    """

    def __init__(self, module: Any, given: Material, place: int) -> None:
        import torch

        rows = (given.test, given.fitting[place])
        with torch.no_grad():
            test, other = (module.represent(torch.from_numpy(x)).double().numpy() for x in rows)
        self.values: Array = test
        with warnings.catch_warnings():  # on components that are Gaussian: what is left is measured
            warnings.simplefilter("ignore")
            self.components: Array = np.asarray(ICA(random_state=0).fit(other).transform(test))


def measure(
    codes: list[Any], before: list[Any], given: Material, preset: Preset, seed: int, *, rescaled: bool
) -> dict[str, Any]:
    """Held-out R² of codes against the latents and each other, by rung, and after ICA; controls beside them."""
    folds = folds_of(len(given.truth), _FOLDS, seed)
    rng = np.random.default_rng([seed, 71])
    truth = _standardised(given.truth) if rescaled else given.truth
    shuffled = truth[rng.permutation(len(truth))]

    def shares(source: Array, target: Array) -> dict[str, float]:
        given = ladder(_standardised(source) if rescaled else source, target, folds)
        return {rung: given[name] for rung, name in _LADDER.items()}

    def after(source: Array, target: Array) -> float:
        wanted = _standardised(target)
        return explained(held_out(_standardised(source), wanted, folds, "permutation"), wanted)

    unit = _standardised(given.truth)
    turned = [after(_whitened(unit) @ _rotation(unit.shape[1], rng), unit) for _ in range(_ROTATIONS)]
    ends = compared(_standardised(codes[0].values) if rescaled else codes[0].values, truth, RUNGS, None, preset, seed)
    return {
        "truth": [shares(each.values, truth) | {"ica": after(each.components, given.truth)} for each in codes],
        "untrained": [shares(each.values, truth) | {"ica": after(each.components, given.truth)} for each in before],
        "shuffled": [shares(each.values, shuffled) | {"ica": after(each.components, shuffled)} for each in codes],
        "rotated": float(np.mean(turned)),
        "observations": explained(_regressed(given.test.astype(np.float64), truth, folds), truth),
        "pairs": [
            {"first": i, "second": j}
            | shares(codes[i].values, _standardised(codes[j].values) if rescaled else codes[j].values)
            | {"ica": after(codes[i].components, codes[j].components)}
            for i, j in all_pairs(len(codes))
        ],
        "best": {
            "verdict": ends.verdict.rung,
            "rungs": {
                name: {
                    "error": rung.held_out.mean,
                    "low": None if rung.interval is None else rung.interval.low,
                    "high": None if rung.interval is None else rung.interval.high,
                    "chance": None if rung.null is None else rung.null.mean,
                }
                for name, rung in ends.rungs.items()
            },
        },
    }


def _standardised(values: Array) -> Array:
    spread = values.std(0)
    return np.asarray((values - values.mean(0)) / np.where(spread > 0, spread, 1.0))


def _regressed(observations: Array, truth: Array, folds: Array) -> Array:
    """Latents by ridge regression from observations of other folds.

    The penalty is for scenes: least squares has no bounded slope for a pixel that hardly varies in those folds.
    """
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    return np.asarray(cross_val_predict(Ridge(_PENALTY), observations, truth, cv=PredefinedSplit(folds)))


def _whitened(values: Array) -> Array:
    """Of unit covariance, moved as little as possible (ZCA)."""
    left, _, right = np.linalg.svd(values - values.mean(0), full_matrices=False)
    return np.asarray(left @ right * np.sqrt(len(values)))


def _rotation(dimension: int, rng: np.random.Generator) -> Array:
    return np.asarray(ortho_group.rvs(dimension, random_state=rng))


TITLE = "Inversion: which objectives recover the latents, and up to what"
PAPER = (
    "Zimmermann, Sharma, Schneider, Bethge and Brendel, Contrastive learning inverts the data generating process, "
    "ICML 2021; Reizinger et al., Cross-entropy is all you need to invert the data generating process, ICLR 2025; "
    "Khemakhem, Kingma, Monti and Hyvärinen, Variational autoencoders and nonlinear ICA, AISTATS 2020; Klindt, LeCun "
    "and Balestriero, When does LeJEPA learn a world model?, 2026"
)
EXPERIMENT = Experiment("inversion", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
