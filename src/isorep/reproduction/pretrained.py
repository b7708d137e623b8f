"""Pairs of trained models (Table 1 of Nelson et al. 2026): up to which group are two trainings the same?

Pairs are trained here, or named by the user in a TOML file: model folders, code with weights, or ready representations.
For each pair the rungs of Table 1 are measured, in-sample as published, and held out with intervals and chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.catalogue import CLASSES, find_cifar10, labelled_images
from ..errors import InputError
from ..models.corpus import Corpus, corpus_of, document_windows, documents_of, parsed, split
from ..models.load import read_arrays, weights_of, write_arrays
from ..models.pair_files import NamedPair, layers_of, named_pairs
from ..models.states import batched_outputs
from ..representation import Array
from ..settings import check_choice, check_names
from .experiment import NELSON, Experiment, Outcome, Plan, Run, Unit, by_scale, how_to_find, scaled
from .ica_controls import ica_controls
from .outcomes import all_pairs, compared, seeds_from, threads

RUNGS = ("signed_permutation", "rigid", "linear", "ica")
PUBLISHED = {
    "Pythia-160M": ("gpt", (0.219, 0.150, 0.131, 0.202, 0.25)),
    "MAE": ("mae", (0.197, 0.109, 0.036, 0.145, 0.59)),
    "CheXpert": ("mae", (0.218, 0.104, 0.048, 0.175, 0.38)),
    "ResNet-18": ("cnn", (0.382, 0.206, 0.175, 0.312, 0.40)),
}
"""Rows of Table 1: the kind of network, in-sample errors of the rungs in diameters, and the efficiency of ICA."""

KINDS = {"gpt": "GPT", "mae": "masked autoencoder", "cnn": "supervised CNN", "ae": "autoencoder"}
"""What is trained here."""

SUBJECTS = {"gpt": ("gpt", "gpt-last"), "mae": ("mae",), "cnn": ("cnn",), "ae": ("ae",)}
"""What is compared of each kind."""

SOURCES = ("cifar10", "rooms")
ROWS, WEIGHTS = "representations", "models"
_MEASUREMENT = ("pairs", "both", "kinds", "n_null", "n_boot", "control", "threads")  # does not change what is trained
_CHECKPOINT_SECONDS = 30.0
_LETTERS = 8  # of a token at most, for taking enough text
_WARMUP = 0.05


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    pairs : str
        A TOML file that names pairs of models or representations; nothing is trained if there is one.
    both : bool
        Train here nevertheless.
    kinds : tuple of str
        Networks to train: ``gpt``, ``mae``, ``cnn``, ``ae``.
    seeds : int
        Trainings of each; all pairs are compared.
    images : {"cifar10", "rooms"}
        Photographs, or rendered scenes, which are also taken where the files of CIFAR-10 are missing.
    scene : int
        Height and width of rendered scenes.
    train_images : int
        To train on, at most.
    rows : int
        Rows that are compared, at most: tokens or images.
    unseen : bool
        Whether these rows are held out from training; the published ones were trained on.
    text, characters, vocabulary, context, documents, windows
        A text file or folder (by default the prose of Python's library), how much of it, tokens, tokens seen at once,
        documents that are held out, and as many that are measured, with so many windows of each.
    gpt, heads, mae_width, mae_depth, mae_patch, cnn_width, latents
        Sizes of the networks; ``gpt`` is ``WIDTHxLAYERS``.
    gpt_steps, mae_steps, cnn_steps, ae_steps : int
    gpt_batch, batch : int
        Windows, and images.
    gpt_rate, mae_rate, cnn_rate, ae_rate : float
        Learning rates of AdamW, with a warm-up and then a cosine.
    weight_decay : float
        Weight decay of all; it is multiplied by the learning rate, so a short training decays little.
    n_null, n_boot : int
        Shuffled pairings, and draws for intervals.
    control : bool
        Whether untrained networks are compared, too, and the ICA of networks trained here with other scales.
    threads : int
        Number of torch threads; 0 leaves the setting unchanged.
    """

    pairs: str = ""
    both: bool = False
    kinds: tuple[str, ...] = ("gpt", "mae", "cnn", "ae")
    seeds: int = scaled(2, 3, 4)
    images: str = scaled("rooms", "cifar10", "cifar10")
    scene: int = scaled(16, 32, 32)
    train_images: int = scaled(600, 20_000, 50_000)
    rows: int = scaled(600, 6_000, 20_000)
    unseen: bool = False
    text: str = ""
    characters: int | None = scaled(700_000, 2_000_000, None)
    vocabulary: int = scaled(300, 512, 4_096)
    context: int = scaled(32, 64, 256)
    documents: int = scaled(16, 60, 120)
    windows: int = 4
    gpt: str = scaled("16x2", "64x4", "384x12")
    heads: int = scaled(4, 4, 8)
    mae_width: int = scaled(16, 64, 192)
    mae_depth: int = scaled(2, 4, 12)
    mae_patch: int = 4
    cnn_width: int = scaled(4, 16, 64)
    latents: int = scaled(8, 32, 128)
    gpt_steps: int = scaled(30, 1_200, 20_000)
    mae_steps: int = scaled(30, 1_500, 100_000)
    cnn_steps: int = scaled(20, 900, 40_000)
    ae_steps: int = scaled(60, 2_500, 100_000)
    gpt_batch: int = scaled(8, 16, 32)
    batch: int = scaled(32, 64, 128)
    gpt_rate: float = scaled(3e-3, 3e-3, 1e-3)
    mae_rate: float = scaled(2e-3, 2e-3, 1e-3)
    cnn_rate: float = scaled(3e-3, 3e-3, 1e-3)
    ae_rate: float = 1e-3
    weight_decay: float = 0.1
    n_null: int = scaled(3, 10, 20)
    n_boot: int = scaled(100, 500, 1_000)
    control: bool = True
    threads: int = scaled(0, 2, 2)

    def __post_init__(self) -> None:
        if self.kinds:
            check_names("kinds", self.kinds, KINDS)
        check_choice("images", self.images, SOURCES)
        if len(set(self.kinds)) < len(self.kinds) or self.seeds < 2:
            raise InputError("kinds are named once each, and there are at least 2 seeds")
        counts = (self.gpt_steps, self.mae_steps, self.cnn_steps, self.ae_steps, self.gpt_batch, self.batch)
        if min(*counts, self.train_images, self.rows, self.scene, self.documents, self.windows) < 1:
            raise InputError("steps, batches, images, rows, documents and windows are from 1 on")


SCALES = by_scale(Preset)


def plan(preset: Preset, data: Path | None) -> Plan:
    """The user's pairs first, so that mistakes are reported at once; then, kind by kind, trainings and pairs."""
    units: list[Unit] = []
    if preset.pairs:
        for pair in named_pairs(preset.pairs, list(PUBLISHED)):
            units.append(Unit(f"named-{pair.name}-{pair.digest}", f"pair {pair.name}", {"named": pair}))
        if not preset.both:
            return Plan(tuple(units))
    parsed(preset.gpt)
    for kind in preset.kinds:
        units.append(Unit(f"train-{kind}", f"{KINDS[kind]}, {preset.seeds} trainings", {"train": kind}))
        for a, b in all_pairs(preset.seeds):
            words = f"{KINDS[kind]}, trainings {a + 1} and {b + 1}"
            units.append(Unit(f"pair-{kind}-{a}.{b}", words, {"kind": kind, "pair": [a, b]}))
    if not set(preset.kinds) - {"gpt"} or preset.images == "rooms":
        return Plan(tuple(units))
    if files := _image_files(preset, data):
        return Plan(tuple(units), tuple(files))
    words = "CIFAR-10 is not available, so images are rendered rooms, with the object's hue as the class"
    return Plan(tuple(units), skipped=(f"{words}: {how_to_find(data)}",))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train, or compare."""
    named = unit.arguments.get("named")
    if named is not None and not named.models:  # nothing here needs torch
        return _named(named, run)
    with threads(run.preset.threads):
        if named is not None:
            return _named(named, run)
        if "train" in unit.arguments:
            return rows_of(unit.arguments["train"], run)[1]
        return _pair(unit.arguments["kind"], unit.arguments["pair"], run)


def _pair(kind: str, places: list[int], run: Run) -> Outcome:
    rows, _ = rows_of(kind, run)
    subjects: dict[str, Any] = {}
    for subject in SUBJECTS[kind]:
        for when in ("trained", "untrained") if run.preset.control else ("trained",):
            source, target = (rows[f"{when}/{subject}/{place}"] for place in places)
            measured = measure(source, target, rows.get("groups"), run.preset, run.seed)
            subjects.setdefault(subject, {})[when] = measured
            if run.preset.control:
                measured["controls"] = ica_controls(source, target, rows.get("groups"), run.seed)
    return {"kind": kind, "pair": places, "subjects": subjects}


def _named(pair: NamedPair, run: Run) -> Outcome:
    layers: list[dict[str, Any]] = []
    try:
        for trained in (True, False) if run.preset.control else (True,):
            given = layers_of(pair, run.preset.rows, run.seed, run.scratch, run.progress, trained=trained)
            for place, (label, source, target, groups) in enumerate(given):
                layers += [{"layer": label}] if trained else []
                compared_layer = measure(source, target, groups, run.preset, run.seed)
                layers[place]["trained" if trained else "untrained"] = compared_layer
    except InputError as error:
        raise InputError(f"pair {pair.name!r}: {error}") from error
    return {"name": pair.name, "published": pair.published, "models": pair.models, "layers": layers}


def measure(source: Any, target: Any, groups: Array | None, preset: Preset, seed: int) -> dict[str, Any]:
    """Both directions, errors in diameters of the target."""
    both = compared(source, target, RUNGS, groups, preset, seed)
    return {
        "rows": both.settings["rows_used"],
        "groups": both.settings["groups"],
        "columns": [both.source.columns, both.target.columns],
        "ranks": [both.source.rank, both.target.rank],
        "ways": [_way(each) for each in (both.forward, both.reverse)],
        "caveats": list(both.caveats),
    }


def _way(direction: Any) -> dict[str, Any]:
    rungs = {}
    for name, each in direction.rungs.items():
        rung = each.in_diameters
        rungs[name] = {
            "in_sample": rung.in_sample.mean,
            "held_out": rung.held_out.mean,
            "interval": rung.interval and [rung.interval.low, rung.interval.high],
            "excess": rung.over_linear and [rung.over_linear.low, rung.over_linear.high],
            "chance": rung.null and rung.null.mean,
            "below_null": rung.below_null,
        }
    return {
        "rungs": rungs,
        "baseline": direction.baseline,
        "efficiency": direction.ica_efficiency,
        "efficiency_in_sample": direction.ica_efficiency_in_sample,
        "verdict": direction.verdict.rung,
    }


def rows_of(kind: str, run: Run) -> tuple[dict[str, Array], dict[str, Any]]:
    """Rows of all trainings of a kind, read from the run's folder or made, and the facts of the trainings.

    ``trained/gpt/0`` are those of the first training, ``untrained/gpt/0`` the same before it, ``groups`` what belongs
    together.
    """
    preset: Preset = run.preset
    task = task_of(kind, preset, run.data, run.seed)
    settings = {name: value for name, value in asdict(preset).items() if name not in _MEASUREMENT}
    files = [[path.name, path.stat().st_size] for path in _image_files(preset, run.data)] if kind != "gpt" else []
    decisive = {"kind": kind, "seed": run.seed, "data": task.digest, "files": files} | settings
    belongs = json.dumps(decisive, sort_keys=True)
    path = None if run.folder is None else run.folder / ROWS / f"{kind}.safetensors"
    kept = None if path is None else read_arrays(path, belongs, "rows of other trainings")
    if kept is None:
        kept = _trained(kind, task, run)
        if path is not None:
            write_arrays(path, kept[0], belongs, kept[1])
    return kept


def _trained(kind: str, task: Task, run: Run) -> tuple[dict[str, Array], dict[str, Any]]:
    from ..models import train_many
    from ..models.batched import seeded

    place = list(KINDS).index(kind)  # no two kinds share a seed
    seeds = seeds_from(run.seed, 59, place, count=run.preset.seeds)
    before = [seeded(task.build, seed).eval() for seed in seeds]
    trained = train_many(
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
    if any(each.ended == "diverged" for each in trained):
        raise InputError(f"a training of {kind} diverged: lower {kind}_rate")
    modules = [each.module for each in trained]
    if run.folder is not None:
        for place, module in enumerate(modules):
            write_arrays(run.folder / WEIGHTS / f"{kind}-{place}.safetensors", weights_of(module))
    facts: dict[str, Any] = {
        "kind": kind,
        "seeds": seeds,
        "together": trained[0].together,
        "steps": [each.history.steps[-1] for each in trained],
        "loss": [each.history.training[-1] for each in trained],
        "held_out_loss": [_loss(task, module) for module in modules],
        "loss_before": [_loss(task, module) for module in before],
        "accuracy": [_accuracy(task, module) for module in modules] if kind == "cnn" else None,
        "parameters": sum(each.numel() for each in modules[0].parameters()),
    }
    arrays = {
        f"{when}/{subject}/{number}": values
        for when, networks in (("trained", modules), ("untrained", before))
        for number, module in enumerate(networks)
        for subject, values in task.rows(module).items()
    }
    return arrays | ({} if task.groups is None else {"groups": task.groups}), facts


def _loss(task: Task, module: Any) -> float:
    """On what is held out, with the same random numbers for all networks."""
    import torch

    batch = _tensors(task.held_out)
    with torch.no_grad():
        if task.prepare is not None:
            batch = task.prepare(batch, torch.Generator().manual_seed(0))
        loss = task.loss(module, batch)
    return float(loss["loss"] if isinstance(loss, dict) else loss)


def _accuracy(task: Task, module: Any) -> float:
    import torch

    images, known = _tensors(task.held_out)
    with torch.no_grad():
        return float((module(images).argmax(1) == known.argmax(1)).double().mean())


def _tensors(data: Any) -> Any:
    import torch

    return tuple(map(_tensors, data)) if isinstance(data, tuple) else torch.from_numpy(np.asarray(data))


@dataclass(frozen=True, eq=False)
class Task:
    """A training that is repeated with other seeds.

    Attributes
    ----------
    build, data, loss, recipe, prepare
        As the trainer takes them.
    held_out : like data
        Data for held-out losses.
    rows : callable
        ``rows(module)``: what is compared, by subject.
    together : bool or str
        Whether all seeds are one program. A row of text or an image in patches is many rows of a step, so that the
        trainer's own rule does not apply.
    groups : array or None
        Rows that belong together.
    digest : str
        Digest of the training data.
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
    """The network, the loss, the recipe and the rows of a kind."""
    from ..models import Group, Recipe, Schedule

    steps = getattr(preset, f"{kind}_steps")
    recipe = Recipe(
        steps=steps,
        batch=preset.gpt_batch if kind == "gpt" else preset.batch,
        groups=Group(
            "adamw", getattr(preset, f"{kind}_rate"), options={"weight_decay": preset.weight_decay}, clip_norm=1.0
        ),
        schedule=Schedule("cosine", warmup=int(_WARMUP * steps)),
        record_every=max(steps // 10, 1),
    )
    return _gpt(preset, recipe, seed) if kind == "gpt" else _image_task(kind, preset, recipe, data, seed)


def _gpt(preset: Preset, recipe: Any, seed: int) -> Task:
    from ..models import GPT, next_token_loss

    corpus, windows, documents = text_of(preset, seed)
    width, layers = parsed(preset.gpt)

    def states(module: Any, tokens: Any) -> list[Any]:
        # After every block but the last, then after the final norm: numbered as the transformers library does it.
        hidden = module.hidden_states(tokens)
        return [hidden[-3].flatten(0, 1), hidden[-1].flatten(0, 1)]

    return Task(
        build=lambda _: GPT(corpus.pairs.vocabulary, width, layers, preset.heads, preset.context),
        data=corpus.train,
        loss=next_token_loss,
        recipe=recipe,
        held_out=corpus.held_out,
        rows=lambda module: dict(
            zip(SUBJECTS["gpt"], batched_outputs(lambda part: states(module, part), windows), strict=True)
        ),
        groups=np.repeat(documents, preset.context),
        digest=corpus.digest,
    )


def _image_task(kind: str, preset: Preset, recipe: Any, data: Path | None, seed: int) -> Task:
    from ..models import MaskedAutoencoder, PlainAutoencoder, ResidualClassifier, label_loss

    folder = data if _image_files(preset, data) else None
    images = labelled_images(folder, preset.scene, preset.train_images, preset.rows, preset.unseen, seed)
    shape = images.shape
    own: dict[str, Any] = {"data": images.train, "held_out": images.held_out}
    if kind == "mae":
        patches = (shape[1] // preset.mae_patch) * (shape[2] // preset.mae_patch)
        own |= {
            "build": lambda _: MaskedAutoencoder(
                shape, patch=preset.mae_patch, width=preset.mae_width, depth=preset.mae_depth
            ),
            "loss": MaskedAutoencoder.losses,
            "prepare": MaskedAutoencoder.prepare(patches),
            "together": False,
        }
    elif kind == "cnn":
        known = np.eye(CLASSES, dtype=np.float32)
        own |= {
            "build": lambda _: ResidualClassifier(shape, CLASSES, width=preset.cnn_width),
            "data": (images.train, known[images.classes]),
            "held_out": (images.held_out, known[images.held_out_classes]),
            "loss": label_loss,
            "together": False,
        }
    else:
        own |= {"build": lambda _: PlainAutoencoder(shape, preset.latents), "loss": PlainAutoencoder.losses}

    def rows(module: Any) -> dict[str, Array]:
        outputs = module.represent if kind == "cnn" else module.encode
        return {kind: batched_outputs(lambda part: [outputs(part)], images.rows)[0]}

    return Task(recipe=recipe, rows=rows, digest=images.note, **own)


def _image_files(preset: Preset, data: Path | None) -> list[Path]:
    """The file that decides which images are read; none where they are rendered."""
    cifar = find_cifar10(data) if preset.images == "cifar10" else None
    return [] if cifar is None else [cifar[1]]


@lru_cache(maxsize=1)
def text_of(preset: Preset, seed: int) -> tuple[Corpus, Array, Array]:
    """The corpus, the windows that are compared and the document of each, which was trained on or held out."""
    sizes = (preset.text, preset.characters, preset.vocabulary, preset.context, preset.documents, preset.windows)
    corpus = corpus_of(*sizes, seed)
    tokens, documents = corpus.held_out[:, :-1], corpus.documents
    rng = np.random.default_rng([seed, 53])
    if not preset.unseen:  # windows of as many documents as are held out
        least = 4 * (preset.context + 1)
        train, _ = split(documents_of(preset.text, preset.characters), preset.documents, least, seed)
        fit = [each for each in train if len(each.text) >= least]
        letters = _LETTERS * preset.context * preset.windows
        order = rng.permutation(len(fit))[: preset.documents]
        coded = [corpus.pairs.encode(fit[place].text[:letters]) for place in order]
        tokens, documents = document_windows(coded, preset.context, preset.windows)
    count = max(preset.rows // preset.context, 2)
    chosen = np.sort(rng.permutation(len(tokens))[:count])
    return corpus, tokens[chosen], documents[chosen]


TITLE = "Pairs of trained models: the same up to a linear map, a rigid map, or ICA alone"
PAPER = f"{NELSON}, section 4.2, Table 1 and appendix A.7.2"
EXPERIMENT = Experiment("pretrained", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch", "transformers"))
