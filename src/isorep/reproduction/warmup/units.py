"""The units of work: all pairs of one leak, on one data set or on one class of it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from ...datasets import mnist as mnist_files
from ...datasets.folder import VARIABLE, find_file
from ...representation import Array
from ..experiment import Outcome, Plan, Run, Unit
from .measuring import measure_pair, spectrum_gap
from .presets import Preset, Training

NAMES = {"digits": "Digits of scikit-learn", "mnist": "MNIST"}


def plan(preset: Preset, data: Path | None) -> Plan:
    """The digits of scikit-learn always, MNIST where its file is; a unit for each leak, and for each class."""
    here = data is not None and mnist_files.has_mnist(data)
    units = [
        Unit(
            f"{name}{'' if label is None else f'-class-{label}'}-leak-{leak:g}",
            f"{NAMES[name]}{'' if label is None else f', digit {label}'}, leak {leak:g}",
            {"set": name, "leak": leak, "label": label},
        )
        for name in NAMES
        if name == "digits" or here
        for label in (None, *preset.classes)
        if training_of(preset, name, label is not None) is not None
        for leak in preset.leaks
    ]
    files: tuple[Path, ...] = ()
    skipped: tuple[str, ...] = ()
    if preset.mnist is not None:
        path = find_file(data, mnist_files.FOLDER, mnist_files.FILE) if data is not None else None
        files = (path,) if path is not None else ()
        if path is None:
            where = f"name a folder with --data or {VARIABLE}" if data is None else f"{data} does not hold its file"
            skipped = (f"MNIST was left out: {where} ({mnist_files.FILE}, from {mnist_files.ORIGIN})",)
    return Plan(tuple(units), files, skipped)


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all autoencoders of a leak, and measure each pair."""
    from ...models import EarlyStopping, Group, OrthogonalAutoencoder, Recipe, Schedule, reconstruction_loss, train_many

    preset: Preset = run.preset
    wanted = unit.arguments
    leak, label = wanted["leak"], wanted["label"]
    training = training_of(preset, wanted["set"], label is not None)
    if training is None:
        raise ValueError(f"{unit.key} has no settings")
    images, unseen = _images(wanted["set"], run.data, label, training.images, preset.test_images, run.seed)
    place = preset.leaks.index(leak) * 100 + (0 if label is None else label + 1)
    seeds = [int(seed) for seed in np.random.SeedSequence([run.seed, place]).generate_state(2 * training.pairs)]
    recipe = Recipe(
        epochs=training.epochs,
        batch=training.batch,
        groups=Group("orthogonal_adam", training.learning_rate, clip_norm=training.clip_norm),
        schedule=Schedule(training.schedule),
        stop=None if training.patience is None else EarlyStopping(training.patience, training.min_delta),
    )
    trained = train_many(
        lambda seed: OrthogonalAutoencoder(training.widths, leak, seed=seed),
        images,
        reconstruction_loss,
        recipe,
        seeds=seeds,
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        progress=run.progress,
    )
    pairs = [
        measure_pair(trained[place], trained[place + 1], images, unseen, preset, seed=run.seed + place)
        for place in range(0, len(trained), 2)
    ]
    return {
        "set": wanted["set"],
        "leak": leak,
        "label": label,
        "images": len(images),
        "test_images": len(unseen),
        "widths": list(training.widths),
        "bound_layers": leak ** -(len(training.widths) - 1),
        "bound_activations": leak ** -(len(training.widths) - 2),
        "spectrum_gap": spectrum_gap(images, training.widths[-1]),
        "together": trained[0].together,
        "pairs": pairs,
    }


def training_of(preset: Preset, name: str, by_class: bool) -> Training | None:
    """The settings of a part."""
    found: Training | None = getattr(preset, f"{name}_class" if by_class else name)
    return found


def _images(
    name: str, data: Path | None, label: int | None, most: int | None, most_unseen: int, seed: int
) -> tuple[Array, Array]:
    """Training images and others, flat, from 0 to 1; which ones are taken depends on the run's seed."""
    values, labels, test, test_labels = _loaded(name, data)
    rng = np.random.default_rng([seed, 7])
    train_rows = np.arange(len(values)) if label is None else np.flatnonzero(labels == label)
    test_rows = np.arange(len(test)) if label is None else np.flatnonzero(test_labels == label)
    train_rows, test_rows = rng.permutation(train_rows)[:most], rng.permutation(test_rows)[:most_unseen]
    return values[np.sort(train_rows)], test[np.sort(test_rows)]


@lru_cache(maxsize=2)
def _loaded(name: str, data: Path | None) -> tuple[Array, Array, Array, Array]:
    if name == "mnist":
        found = mnist_files.load_mnist(data)
        return _flat(found.train, 255), found.train_labels, _flat(found.test, 255), found.test_labels
    bunch: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.data))
    train, test = order[:1400], order[1400:]
    return _flat(bunch.data[train], 16), bunch.target[train], _flat(bunch.data[test], 16), bunch.target[test]


def _flat(images: Array, most: int) -> Array:
    return np.asarray(images.reshape(len(images), -1) / np.float32(most), dtype=np.float32)
