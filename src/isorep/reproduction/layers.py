"""Layers of language models (section 5.3 of Roeder et al. 2021): is the last layer the most similar across trainings?

Small GPTs trained here on the prose of Python's library, or real model folders. A unit is one network, or one pair:
layer by layer from the end SVCCA, and the ladder held out by document.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison.fits import RUNGS, checked_rungs
from ..errors import InputError
from ..files import finite_json, write_text
from ..models.corpus import Corpus, corpus_of, parsed
from ..models.load import read_arrays, weights_of, write_arrays
from ..models.states import Network, States, constants, folder_network, folder_windows, gpt_network
from ..representation import Array
from ..similarity import svcca
from .experiment import ROEDER, Experiment, Outcome, Plan, Run, Unit, by_scale, scaled
from .outcomes import compared, seeds_from, threads

COMPONENTS = (16, 64, 256, 768)
"""Principal components of SVCCA; the last is the width of the smallest model."""

PLACES = (0, 2, 5, 8, 11)
"""Layers of the figure, as places before the last: the states numbered −1, −3, −6, −9 and −12."""

CONTROL_RUNGS = ("rigid", "linear")
FOLDERS = "model folders"
FOLDER = "models"
_DECISIVE = (
    "heads", "context", "text", "characters", "vocabulary", "held_out", "steps", "batch", "learning_rate", "warmup",
    "patience",
)  # fmt: skip


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    models : tuple of str
        Folders of models of the transformers library with one tokenizer; nothing is trained if there are any.
    sizes : tuple of str
        Small GPTs to train, as ``WIDTHxLAYERS``.
    seeds : int
        Trainings of every size; all pairs of a size are compared, and seed by seed those of two sizes.
    heads, context : int
        Attention heads, and tokens of context.
    text : str
        A text file or a folder of them; default: the prose of Python's standard library.
    characters : int or None
        Largest number of characters of the text.
    vocabulary : int
        Tokens: bytes and learnt pairs.
    held_out : int
        Number of documents held out for all measurements.
    windows : int
        Largest number of windows of ``context`` tokens per held-out document.
    steps, batch, learning_rate, warmup
        AdamW with weight decay 0.1, gradients clipped to norm 1, the rate rising for ``warmup`` steps and then falling
        as a cosine.
    patience : int
        With a patience training lasts until the held-out loss has not fallen for so many hundredths of ``steps``, at a
        constant rate, and the weights of the least loss are taken. Default: 0, all steps.
    rows : int
        Tokens that layers are compared on, at most.
    components : tuple of int
        Numbers of principal components for SVCCA.
    places : tuple of int
        Layers to compare, as places before the last: 0 is the last. All of them if empty.
    rungs : tuple of str
        Rungs of the ladder.
    n_null, n_boot : int
        Shuffled pairings, and draws for the interval of an error.
    jacobians : int
        Tokens at which the constants of the remaining network are measured; 0 for none.
    jacobian_context : int
        Tokens before each of them at most, for model folders.
    control : bool
        Whether untrained networks are compared, too.
    threads : int
        Number of torch threads; 0 leaves the setting unchanged.
    """

    models: tuple[str, ...] = ()
    sizes: tuple[str, ...] = scaled(("24x2", "32x3"), ("64x4", "96x6"), ("256x6", "384x12"))
    seeds: int = scaled(2, 4, 3)
    heads: int = scaled(4, 4, 8)
    context: int = scaled(32, 64, 256)
    text: str = ""
    characters: int | None = scaled(700_000, None, None)
    vocabulary: int = scaled(320, 512, 4_096)
    held_out: int = scaled(16, 60, 60)
    windows: int = 4
    steps: int = scaled(60, 1_200, 20_000)
    batch: int = scaled(8, 16, 32)
    learning_rate: float = scaled(1e-2, 2e-3, 1e-3)
    warmup: int = scaled(10, 50, 500)
    patience: int = 0
    rows: int = scaled(900, 4_000, 20_000)
    components: tuple[int, ...] = scaled((4, 12, 24), (4, 16, 32, 64), COMPONENTS)
    places: tuple[int, ...] = scaled((), (), PLACES)
    rungs: tuple[str, ...] = RUNGS
    n_null: int = scaled(3, 5, 20)
    n_boot: int = scaled(50, 200, 1_000)
    jacobians: int = scaled(6, 32, 16)
    jacobian_context: int = 16
    control: bool = True
    threads: int = scaled(0, 2, 2)


SCALES = by_scale(Preset)


def plan(preset: Preset, data: Path | None) -> Plan:
    """Every network, then all pairs of one size, then pairs of two sizes seed by seed; or all pairs of folders."""
    checked_rungs(preset.rungs)
    if preset.models:
        return _folders(preset)
    for size in preset.sizes:
        if parsed(size)[0] % preset.heads:
            raise InputError(f"the width of {size} does not divide into {preset.heads} heads")
    if len(set(preset.sizes)) < len(preset.sizes) or not preset.sizes or preset.seeds < 2:
        raise InputError("there must be sizes, each only once, and at least 2 seeds of each")
    units = [
        Unit(f"model-{size}-{place}", f"GPT {size}, training {place + 1}", {"size": size, "place": place})
        for size in preset.sizes
        for place in range(preset.seeds)
    ]
    for size in preset.sizes:
        for a, b in combinations(range(preset.seeds), 2):
            units.append(_pair((size, a), (size, b), size))
    for small, large in combinations(preset.sizes, 2):
        for place in range(preset.seeds):
            # Not of the same seed: those begin with some of the same draws.
            other = (place + 1) % preset.seeds
            units.append(_pair((small, place), (large, other), f"{small} with {large}"))
    return Plan(tuple(units))


def _pair(first: tuple[str, int], second: tuple[str, int], group: str) -> Unit:
    key = ".".join(f"{size}-{place}" for size, place in (first, second))
    words = " and ".join(f"{size}, training {place + 1}" for size, place in (first, second))
    sides = [{"size": size, "place": place} for size, place in (first, second)]
    return Unit(f"pair-{key}", f"GPT {words}", {"pair": sides, "group": group})


def _folders(preset: Preset) -> Plan:
    folders = list(preset.models)
    if len(folders) < 2 or len(set(folders)) < len(folders):
        raise InputError("models are at least two folders, each only once, between commas")
    missing = [folder for folder in folders if not Path(folder).expanduser().is_dir()]
    if missing:
        raise InputError(f"{missing[0]} is not a folder: models are folders of the transformers library")
    sides = [{"folder": folder, "size": f"{place + 1}: {Path(folder).name}"} for place, folder in enumerate(folders)]
    units = [Unit(f"model-{place}", f"model {side['size']}", side) for place, side in enumerate(sides)]
    for a, b in combinations(range(len(sides)), 2):
        words = f"models {sides[a]['size']} and {sides[b]['size']}"
        units.append(Unit(f"pair-{a}.{b}", words, {"pair": [sides[a], sides[b]], "group": FOLDERS}))
    return Plan(tuple(units))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train and describe a network, or compare two."""
    with threads(run.preset.threads):
        return _compared(unit, run) if "pair" in unit.arguments else _described(unit, run)


def _described(unit: Unit, run: Run) -> Outcome:
    preset: Preset = run.preset
    wanted = unit.arguments
    network, training = _network(wanted, run, trained=True)
    facts: dict[str, Any] = {**wanted, **training, "constants": _constants(network, run), "initial_constants": None}
    if preset.control:
        facts["initial_constants"] = _constants(_network(wanted, run, trained=False)[0], run)
    if not preset.models:
        corpus = corpus_for(preset, run.seed)
        text = {"digest": corpus.digest, "characters": corpus.characters, "tokens": int(corpus.train.size)}
        facts |= {"unigram": corpus.unigram, "text": text}
    return facts


def _compared(unit: Unit, run: Run) -> Outcome:
    preset: Preset = run.preset
    wanted = unit.arguments
    tokens, documents = measured_windows(preset, run.seed)
    groups = np.repeat(documents, tokens.shape[1])
    outcome: dict[str, Any] = {**wanted, "rows": int(tokens.size), "documents": len(np.unique(documents))}
    for key, trained in (("layers", True), ("initial", False)):
        if not trained and not preset.control:
            continue
        sides = (_network(each, run, trained=trained)[0] for each in wanted["pair"])
        first, second = (side.states(tokens, preset.places) for side in sides)
        outcome[key] = compare_layers(first, second, groups, preset, run.seed, control=not trained)
    return outcome


def _constants(network: Network, run: Run) -> list[dict[str, float]] | None:
    """At the last tokens of windows that are spread over the held-out text."""
    count = run.preset.jacobians
    if not count:
        return None
    tokens, _ = measured_windows(run.preset, run.seed)
    rows = np.unique(np.linspace(0, len(tokens) - 1, min(count, len(tokens))).astype(int))
    return constants(network.jacobians(tokens[rows]))


def places_of(preset: Preset, counts: tuple[int, int]) -> list[int]:
    """Layers to compare, from the end: as many as both have, and an embedding only with an embedding."""
    most = min(counts) if counts[0] == counts[1] else min(counts) - 1
    return [place for place in (preset.places or range(most + 1)) if 0 <= place <= most]


def compare_layers(
    first: States, second: States, groups: Array, preset: Preset, seed: int, *, control: bool
) -> list[dict[str, Any]]:
    """One entry per layer; a control has only the rungs that are reported."""
    counts = (first.layers, second.layers)
    rungs = tuple(rung for rung in preset.rungs if not control or rung in CONTROL_RUNGS)
    pairs = {place: (first.at[place], second.at[place]) for place in places_of(preset, counts)}
    return [
        {
            "place": place,
            "labels": [label(place, count) for count in counts],
            "svcca": {str(count): _svcca(*sides, count, groups, preset, seed) for count in preset.components},
            "ladder": _ladder(*sides, groups, rungs, preset, seed),
        }
        for place, sides in pairs.items()
    ]


def _svcca(x: Array, y: Array, components: int, groups: Array, preset: Preset, seed: int) -> dict[str, Any]:
    """As Roeder et al. compute it, every column at unit variance."""
    similarity = svcca(
        x, y, components=components, standardise=True, permutations=preset.n_null, groups=groups, random_state=seed
    )
    return {"value": similarity.value, "chance": None if similarity.null is None else similarity.null.mean}


def _ladder(
    x: Array, y: Array, groups: Array, rungs: tuple[str, ...], preset: Preset, seed: int
) -> dict[str, dict[str, Any]]:
    """Held-out errors of each rung, in diameters of the target: the mean of both directions."""
    if not rungs:
        return {}
    both = compared(x, y, rungs, groups, preset, seed)
    errors = {}
    for rung in rungs:
        ways = [both.rungs[rung].in_diameters, both.reverse.rungs[rung].in_diameters]
        errors[rung] = {
            "error": float(np.mean([each.held_out.mean for each in ways])),
            "ways": [each.held_out.mean for each in ways],
            "interval": [None if each.interval is None else [each.interval.low, each.interval.high] for each in ways],
            "chance": None if ways[0].null is None else float(np.mean([each.null.mean for each in ways if each.null])),
            "below_null": [each.below_null for each in ways],
        }
    return errors


def label(place: int, layers: int) -> str:
    """The layer at a place from the end, of a network with so many blocks."""
    return "last" if place == 0 else "embedding" if place == layers else f"block {layers - place}"


def _network(wanted: Any, run: Run, *, trained: bool) -> tuple[Network, dict[str, Any]]:
    """A network with the facts of its training, or the same before training."""
    preset: Preset = run.preset
    if "folder" in wanted:
        seed = None if trained else seed_of(run.seed, preset.models.index(wanted["folder"]))
        network, count = folder_network(wanted["folder"], seed, preset.jacobian_context)
        return network, {"parameters": count}
    corpus, (size, place) = corpus_for(preset, run.seed), (wanted["size"], wanted["place"])
    if trained:
        module, facts = trained_model(size, place, corpus, run)
    else:
        module, facts = untrained_model(size, seed_of(run.seed, place), corpus, preset), {}
    return gpt_network(module), facts


def corpus_for(preset: Preset, seed: int) -> Corpus:
    """The tokens of a preset's text."""
    sizes = (preset.text, preset.characters, preset.vocabulary, preset.context, preset.held_out, preset.windows)
    return corpus_of(*sizes, seed)


def measured_windows(preset: Preset, seed: int) -> tuple[Array, Array]:
    """As many held-out windows as the preset wants tokens, and the document of each."""
    if preset.models:
        sizes = (preset.text, preset.characters, preset.context, preset.held_out, preset.windows)
        tokens, documents = folder_windows(preset.models, *sizes, seed)
    else:
        corpus = corpus_for(preset, seed)
        tokens, documents = corpus.held_out[:, :-1], corpus.documents
    count = max(preset.rows // tokens.shape[1], 2)
    chosen = np.sort(np.random.default_rng([seed, 37]).permutation(len(tokens))[:count])
    return tokens[chosen], documents[chosen]


def trained_model(size: str, place: int, corpus: Corpus, run: Run) -> tuple[Any, dict[str, Any]]:
    """A trained GPT in evaluation mode with the facts of its training: read from the run's folder if it is there."""
    seed, settings = seed_of(run.seed, place), asdict(run.preset)
    decisive = {key: settings[key] for key in _DECISIVE}
    belongs = json.dumps({"size": size, "seed": seed, "text": corpus.digest} | decisive)
    path = None if run.folder is None else run.folder / FOLDER / f"{size}-{place}.safetensors"
    kept = None if path is None else read_arrays(path, belongs, "weights of another training")
    if kept is not None:
        import torch

        module = untrained_model(size, seed, corpus, run.preset)
        module.load_state_dict({name: torch.from_numpy(each) for name, each in kept[0].items()})
        return module.eval(), kept[1]
    module, facts = _train(size, place, corpus, run)
    if path is not None:
        write_arrays(path, weights_of(module), belongs, facts)
        write_text(path.parent / "tokens.json", finite_json({"merges": corpus.pairs.merges}))
    return module, facts


def untrained_model(size: str, seed: int, corpus: Corpus, preset: Preset) -> Any:
    """The network as training begins with it."""
    from ..models.batched import seeded

    return seeded(lambda _: _built(size, corpus, preset), seed).eval()


def seed_of(seed: int, place: int) -> int:
    """The seed of a training: the same for all sizes."""
    return seeds_from(seed, 41, place, count=1)[0]


def _built(size: str, corpus: Corpus, preset: Preset) -> Any:
    from ..models import GPT

    width, layers = parsed(size)
    return GPT(corpus.pairs.vocabulary, width, layers, preset.heads, preset.context)


def _train(size: str, place: int, corpus: Corpus, run: Run) -> tuple[Any, dict[str, Any]]:
    from ..models import EarlyStopping, Group, Recipe, Schedule, next_token_loss, train

    preset: Preset = run.preset
    by_loss = preset.patience > 0
    trained = train(
        lambda _: _built(size, corpus, preset),
        corpus.train,
        next_token_loss,
        Recipe(
            steps=preset.steps,
            batch=preset.batch,
            groups=Group("adamw", preset.learning_rate, options={"weight_decay": 0.1}, clip_norm=1.0),
            schedule=Schedule("constant" if by_loss else "cosine", warmup=preset.warmup),
            stop=EarlyStopping(preset.patience, on="validation", restore=True) if by_loss else None,
            record_every=max(preset.steps // (100 if by_loss else 5), 1),
        ),
        seed=seed_of(run.seed, place),
        validation=corpus.held_out,
        checkpoint=None if run.scratch is None else run.scratch / f"{size}-{place}.safetensors",
        progress=run.progress,
    )
    history = trained.history
    return trained.module, {
        "loss": history.training[-1],
        "held_out_loss": min(history.validation) if by_loss else history.validation[-1],
        "ended": trained.ended,
        "steps": history.steps[-1],
        "parameters": sum(each.numel() for each in trained.module.parameters()),
    }


TITLE = "Layers of language models: the last is identified, earlier ones need not be"
PAPER = f"{ROEDER}, section 5.3 and Figure 4"
EXPERIMENT = Experiment("layers", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch", "transformers"))
