"""Linear identifiability of classifiers (section 5.1 of Roeder, Metz and Kingma 2021): 18 classes by angle.

Two trainings agree up to a linear map; with fewer classes than the diversity condition requires they need not. Each
unit trains all seeds of one setting and measures the agreement of pairs, in all of f and in the part the head reads.
Labels are by angle, as published, or probabilities that a network of the same family gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import entr, softmax

from ..alignment import Linear
from ..errors import InputError
from ..heads import diversity, head_map
from ..representation import Array
from ..settings import check_names
from ..similarity import cca
from .experiment import ROEDER, Experiment, Outcome, Plan, Run, Unit, by_scale, scaled
from .outcomes import adam_recipe, every_pair, explained, folds_of, held_out, ladder, seeds_from, threads

SPREAD = 3.0
"""Standard deviation of both inputs; networks get them divided by it."""
TASKS = {"angle": "labels by angle", "taught": "taught probabilities"}
_FEATURES, _FREQUENCY, _SHARPNESS = 64, 1.5, 2.0
_FOLDS = 5
_SHUFFLES = 20
_SHOWN = 300
TINY = 1e-9
"""Directions with less than this share of the largest spread are ignored."""


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    classes, dimension : int
        Classes and dimensions of the published simulation.
    seeds, steps : int
        Number of trainings of it, in one program, and their steps.
    starts : tuple of float
        Standard deviations of the class vectors before training; the first is the headline.
    tasks : tuple of str
        Tasks of the sweeps: ``taught`` (probabilities of a network of the same family, so that two students can
        have the same conditional distribution) and ``angle`` (labels by angle, as published).
    fixed_dimension, sweep_classes
        The sweep over classes at one dimension.
    fixed_classes, sweep_dimensions
        The sweep over dimensions at one number of classes.
    sweep_seeds, sweep_steps : int
        Trainings of each setting of the sweeps.
    rows, test_rows : int
        Examples to train on, and others to measure on.
    curve_rows : int
        Number of these that are followed over training.
    hidden : tuple of int
        Widths of the layers of f.
    batch, learning_rate, schedule
        Settings of Adam.
    high : float
        Mean canonical correlation above which two representations count as the same up to a linear map.
    threads : int
        Number of torch threads while training; 0 leaves the setting unchanged.
    """

    classes: int = 18
    dimension: int = 2
    seeds: int = scaled(3, 6, 10)
    steps: int = scaled(500, 4000, 20_000)
    starts: tuple[float, ...] = scaled((0.01,), (0.01, 1.0), (0.01, 1.0))
    tasks: tuple[str, ...] = scaled(("taught",), ("taught", "angle"), ("taught", "angle"))
    fixed_dimension: int = 4
    sweep_classes: tuple[int, ...] = scaled((3, 12), (2, 3, 4, 5, 6, 8, 18), (2, 3, 4, 5, 6, 8, 12, 18))
    fixed_classes: int = 6
    sweep_dimensions: tuple[int, ...] = scaled((2, 8), (2, 4, 5, 6, 8), (1, 2, 3, 4, 5, 6, 8))
    sweep_seeds: int = scaled(3, 5, 10)
    sweep_steps: int = scaled(500, 2000, 20_000)
    rows: int = scaled(5000, 20_000, 100_000)
    test_rows: int = scaled(600, 2000, 5000)
    curve_rows: int = scaled(150, 300, 300)
    hidden: tuple[int, ...] = scaled((64, 64), (64, 64), (256, 256))
    batch: int = scaled(128, 256, 256)
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    high: float = scaled(0.9, 0.95, 0.95)
    threads: int = 0


SCALES = by_scale(Preset)


def plan(preset: Preset, data: Path | None) -> Plan:
    """The published simulation from every start, and the sweeps over classes and dimensions on every task."""
    _check(preset)
    units = [_unit("angle", preset.classes, preset.dimension, start, published=True) for start in preset.starts]
    settings = [(classes, preset.fixed_dimension) for classes in preset.sweep_classes]
    settings += [(preset.fixed_classes, dimension) for dimension in preset.sweep_dimensions]
    units += [
        _unit(task, classes, dimension, preset.starts[0], published=False)
        for task in preset.tasks
        for classes, dimension in settings
    ]
    return Plan(tuple({unit.key: unit for unit in units}.values()))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all seeds of a setting, and compare every pair."""
    preset: Preset = run.preset
    wanted = unit.arguments
    given = examples(wanted["task"], wanted["classes"], wanted["dimension"], preset, run.seed)
    count = preset.seeds if wanted["published"] else preset.sweep_seeds
    with threads(preset.threads):
        trained = _trained(unit, given, seeds_from(run.seed, 43, count=count), run)
        outcome: Outcome = {**wanted, "together": trained[0].together, "floor": given.floor}
        outcome |= measure(trained, given, run.seed)
    if wanted["published"]:
        outcome["curve"] = curve(trained, run.seed)
        outcome["cloud"] = cloud(trained, given) if wanted["dimension"] == 2 else None
    return outcome


def followed(step: int, total: int) -> bool:
    """Steps at which representations are kept: before training, five for each power of ten, and the last."""
    if step in (0, total):
        return True
    power = 10 ** (len(str(step)) - 1)
    return step % power == 0 and step // power in (1, 2, 3, 5, 7)


def _trained(unit: Unit, given: Examples, seeds: list[int], run: Run) -> list[Any]:
    import torch

    from ..models import EmbeddingClassifier, label_loss, train_many

    preset: Preset = run.preset
    wanted = unit.arguments
    steps = preset.steps if wanted["published"] else preset.sweep_steps
    watched = torch.from_numpy(given.test_inputs[: preset.curve_rows])

    def evaluate(module: Any, step: int) -> dict[str, Any]:
        return {"f": module.represent(watched).tolist(), "g": module.embeddings.tolist()}

    return train_many(
        lambda seed: EmbeddingClassifier(
            2, wanted["classes"], wanted["dimension"], hidden=preset.hidden, start=wanted["start"]
        ),
        (given.inputs, given.wanted),
        label_loss,
        adam_recipe(preset, steps),
        seeds=seeds,
        evaluate=evaluate if wanted["published"] else None,
        evaluate_every=lambda step: followed(step, steps),
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        progress=run.progress,
    )


def _unit(task: str, classes: int, dimension: int, start: float, *, published: bool) -> Unit:
    key = f"{task}-classes-{classes}-dimension-{dimension}" + (f"-start-{start:g}" if published else "")
    words = f"{TASKS[task]}, {classes} classes, {dimension} dimensions" + (f", start {start:g}" if published else "")
    arguments = {"task": task, "classes": classes, "dimension": dimension, "start": start, "published": published}
    return Unit(key, words, arguments)


def _check(preset: Preset) -> None:
    if preset.tasks:
        check_names("tasks", preset.tasks, TASKS)
    if not preset.starts or not all(start > 0 for start in preset.starts):
        raise InputError("starts are numbers above zero, and there is at least one")
    if min(preset.seeds, preset.sweep_seeds) < 2:
        raise InputError("seeds and sweep_seeds are at least 2: pairs are compared")
    if min((preset.classes, preset.fixed_classes, *preset.sweep_classes)) < 2:
        raise InputError("there are at least 2 classes")


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs, probabilities of the classes, and the class itself (the likeliest one), to train on and to measure on."""

    inputs: Array
    wanted: Array
    test_inputs: Array
    test_wanted: Array

    @property
    def labels(self) -> Array:
        """The likeliest class of every test example."""
        return np.asarray(self.test_wanted.argmax(1))

    @property
    def floor(self) -> float:
        """The entropy of the test labels: no loss is below it."""
        return float(entr(self.test_wanted).sum(1).mean())


def examples(task: str, classes: int, dimension: int, preset: Preset, seed: int) -> Examples:
    """The examples of a task; inputs are the same for all settings."""
    rng = np.random.default_rng([seed, 29])
    points = rng.normal(0, SPREAD, (preset.rows + preset.test_rows, 2))
    inputs = points / SPREAD
    wanted = by_angle(points, classes) if task == "angle" else taught(inputs, classes, dimension, seed)
    parts = [each.astype(np.float32) for each in (inputs, wanted)]
    return Examples(parts[0][: preset.rows], parts[1][: preset.rows], parts[0][preset.rows :], parts[1][preset.rows :])


def by_angle(points: Array, classes: int) -> Array:
    """The class is the sector of the plane in which a point lies: rows with a single 1."""
    turn = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0
    return np.asarray(np.eye(classes)[np.minimum((classes * turn).astype(int), classes - 1)])


def taught(inputs: Array, classes: int, dimension: int, seed: int) -> Array:
    """Probabilities softmax(f(x)·g(y)) of a teacher: smooth random f of unit variance, and normal g.

    The teacher's f depends on the dimension alone, and more classes are added to the same ones: a sweep over classes
    changes nothing else.
    """
    rng = np.random.default_rng([seed, 31, dimension])
    waves = rng.normal(0, _FREQUENCY, (2, _FEATURES)), rng.uniform(0, 2 * np.pi, _FEATURES)
    mixing = rng.normal(size=(_FEATURES, dimension))
    f = np.cos(inputs @ waves[0] + waves[1]) @ mixing
    f = (f - f.mean(0)) / f.std(0)
    vectors = np.random.default_rng([seed, 37, dimension]).normal(size=(classes, dimension))
    return np.asarray(softmax(f @ vectors.T * (_SHARPNESS / np.sqrt(dimension)), axis=1))


@dataclass(frozen=True, eq=False)
class Side:
    """One trained classifier on the test rows: f, g centred over classes, its loss, and its diversity."""

    f: Array
    g: Array
    loss: float
    accuracy: float
    trained: Any


def measure(trained: list[Any], given: Examples, seed: int) -> dict[str, Any]:
    """All models, and every pair of them."""
    sides = [_side(each, given) for each in trained]
    pairs = every_pair(sides, lambda source, target: _pair(source, target, seed))
    return {"models": [_model_facts(side) for side in sides], "pairs": pairs}


def curve(trained: list[Any], seed: int) -> list[dict[str, Any]]:
    """Every pair over training: canonical correlations of f on examples, of g on classes and of shuffled examples.

    And R² of the map from the two heads alone, and of a held-out regression.
    """

    def alike(source: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, float]:
        f, g, other_f, other_g = (np.array(side[name]) for side in (source, target) for name in ("f", "g"))
        return {
            "f": _correlation(f, other_f),
            "g": _correlation(g, other_g),
            "shuffled": _shuffled(f, other_f, seed, 1),
            "head": _by_heads(f, other_f, g, other_g),
            "regression": explained(held_out(f, other_f, folds_of(len(f), _FOLDS, seed)), other_f),
        }

    kept = [dict(each.history.evaluations) for each in trained]
    steps = [step for step in kept[0] if all(step in each for each in kept)]
    return [{"step": int(step), "pairs": every_pair([each[step] for each in kept], alike)} for step in steps]


def cloud(trained: list[Any], given: Examples) -> dict[str, Any]:
    """The f of the first two models on some test rows, and the first mapped onto the second by the best linear map."""
    first, second = (_side(each, given).f for each in trained[:2])
    fitted = Linear().fit(first[_SHOWN:], second[_SHOWN:]) if len(first) > 2 * _SHOWN else Linear().fit(first, second)
    rows = slice(0, _SHOWN)
    return {
        "labels": given.labels[rows].tolist(),
        "first": first[rows],
        "second": second[rows],
        "mapped": fitted.transform(first[rows]),
    }


def _side(trained: Any, given: Examples) -> Side:
    import torch

    module = trained.module
    with torch.no_grad():
        inputs = torch.from_numpy(given.test_inputs)
        f = module.represent(inputs).double().numpy()
        log = torch.log_softmax(module(inputs), dim=-1).double().numpy()
        g = module.embeddings.double().numpy()
    loss = float(-(given.test_wanted * log).sum(1).mean())
    return Side(f, g - g.mean(0), loss, float((log.argmax(1) == given.labels).mean()), trained)


def _span(g: Array) -> Array:
    """An orthonormal basis of the directions that differences of g have: what the head reads of f."""
    _, sizes, directions = np.linalg.svd(g - g.mean(0), full_matrices=False)
    return np.asarray(directions[sizes > TINY * sizes[0]].T)


def _model_facts(side: Side) -> dict[str, Any]:
    spans = diversity(side.g).classes
    return {
        "seed": side.trained.seed,
        "loss": side.loss,
        "accuracy": side.accuracy,
        "ended": side.trained.ended,
        "rank": spans.rank,
        "diverse": spans.diverse,
        "condition": spans.condition,
    }


def _pair(source: Side, target: Side, seed: int) -> dict[str, Any]:
    folds = folds_of(len(source.f), _FOLDS, seed)
    whole = cca(source.f, target.f)
    shuffled = np.random.default_rng([seed, 47]).permutation(len(source.f))
    within = source.f @ _span(source.g), target.f @ _span(target.g)
    return {
        "cca": whole.value,
        "least": float(min(whole.details["correlations"])),
        "cca_g": _correlation(source.g, target.g),
        "cca_shuffled": _shuffled(source.f, target.f, seed, _SHUFFLES),
        "cca_g_shuffled": _shuffled(source.g, target.g, seed, _SHUFFLES),
        "f": ladder(source.f, target.f, folds),
        "f_shuffled": explained(held_out(source.f[shuffled], target.f, folds), target.f),
        "g": _classes(source.g, target.g),
        "cca_within": _correlation(*within),
        "within": explained(held_out(*within, folds), within[1]),
        "outside": _outside(source, target, folds),
        "logits": explained(source.f @ source.g.T, target.f @ target.g.T),
        "head": _by_heads(source.f, target.f, source.g, target.g),
    }


def _outside(source: Side, target: Side, folds: Array) -> float | None:
    """R² of the target's f outside the span of its head, predicted from all of the source's f."""
    basis = _span(target.g)
    others = np.linalg.svd(basis, full_matrices=True)[0][:, basis.shape[1] :]
    if others.shape[1] == 0:
        return None
    unread = target.f @ others
    return explained(held_out(source.f, unread, folds), unread)


def _by_heads(f: Array, other_f: Array, g: Array, other_g: Array) -> float:
    """R² of the map that two heads predict, in the span of the target's head: nothing was fitted to f."""
    basis = _span(other_g)
    return explained(head_map(g, other_g).transform(f) @ basis, other_f @ basis)


def _classes(source: Array, target: Array) -> dict[str, float] | None:
    """Rungs for g, each class by a map fitted to the others; None where the others are too few."""
    if len(source) < source.shape[1] + 3:
        return None
    return ladder(source, target, np.arange(len(source)))


def _correlation(x: Array, y: Array) -> float:
    """Mean canonical correlation; unknown for constants, or for two rows, which always agree."""
    if len(x) < 3 or min(x.std(0).max(), y.std(0).max()) <= 0:
        return float("nan")
    return float(cca(x, y).value)


def _shuffled(x: Array, y: Array, seed: int, times: int) -> float:
    rng = np.random.default_rng([seed, 53])
    return float(np.mean([_correlation(rng.permutation(x), y) for _ in range(times)]))


TITLE = "Classes: linear identifiability of classifiers"
PAPER = f"{ROEDER}, section 5.1 and Figure 2"
EXPERIMENT = Experiment("classes", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
