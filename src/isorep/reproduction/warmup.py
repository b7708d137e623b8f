"""Warm-up (section 4.1 of the paper): autoencoders differ less if their decoders are nearer to isometries.

Orthogonal LeakyReLU autoencoders of handwritten digits; the leak controls the bi-Lipschitz constant of the decoder.
A unit is all pairs of one leak, on one data set or on one class of it. Everything the paper leaves open is a setting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from ..alignment import Rigid
from ..comparison import diameter
from ..datasets import digits_and_photos as mnist_files
from ..datasets.folder import find_file
from ..decoder import bilipschitz, bounds
from ..representation import Array
from .experiment import NELSON, Experiment, Outcome, Plan, Run, Unit, by_scale, how_to_find, scaled
from .outcomes import FORMS, roots, seeds_from

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def measure_pair(first: Any, second: Any, images: Array, unseen: Array, preset: Preset, *, seed: int) -> dict[str, Any]:
    """Rigid error of the first's latents on the second's, constants of both decoders, bounds and outputs."""
    sides = [_Side(trained, images, unseen, preset, seed) for trained in (first, second)]
    source, target = sides
    unit = diameter(target.latents, search="exact").value
    motion = Rigid(scale=False).fit(source.latents, target.latents)
    shuffled = np.random.default_rng([seed, 11]).permutation(len(images))
    by_chance = Rigid(scale=False).fit(source.latents[shuffled], target.latents)
    apart = np.linalg.norm(source.outputs - target.outputs, axis=1)
    error = _errors(motion, source.latents, target.latents, unit)
    return {
        "seeds": [first.seed, second.seed],
        "error": error,
        "held_out": _errors(motion, source.unseen, target.unseen, unit),
        "chance": _errors(by_chance, source.latents[shuffled], target.latents, unit)["mean"],
        "diameter": unit,
        "sides": [side.facts for side in sides],
        "mismatch": {"rms": float(np.sqrt((apart**2).mean())), "max": float(apart.max())},
        "bound": _bound(source, target, unit, apart, error["rms"]),
    }


def spectrum_gap(images: Array, latents: int) -> float:
    """Ratio of the first eigenvalue of the uncentred second moments that the latents leave out, to the last they keep.

    Near 1 the best linear autoencoder is hardly unique, and two trainings need not agree even at leak 1.
    """
    values = np.linalg.eigvalsh(images.T.astype(np.float64) @ images)
    return float(values[-latents - 1] / values[-latents])


class _Side:
    """One trained autoencoder on the images: latents, outputs, constants of the decoder, and plain numbers of it."""

    def __init__(self, trained: Any, images: Array, unseen: Array, preset: Preset, seed: int) -> None:
        import torch

        encoder, decoder = trained.module.encoder, trained.module.decoder
        with torch.no_grad():
            seen, other = (encoder(torch.from_numpy(part)) for part in (images, unseen))
            outputs, again = (decoder(part).double().numpy() for part in (seen, other))
        self.latents, self.unseen, self.outputs = seen.double().numpy(), other.double().numpy(), outputs
        rows = np.random.default_rng([seed, 5]).permutation(len(images))[: preset.samples]
        points = self.latents[np.sort(rows)].astype(np.float32)
        self.exact = bilipschitz(decoder, points, random_state=seed)
        paper = bilipschitz(decoder, points, mode="paper", n_directions=preset.directions, random_state=seed)
        self.facts = {
            "reconstruction": float(((outputs - images) ** 2).mean()),
            "reconstruction_unseen": float(((again - unseen) ** 2).mean()),
            "loss": trained.history.training[-1],
            "steps": trained.history.steps[-1],
            "ended": trained.ended,
            "defect": trained.module.defect(),
            "exact": _constants(self.exact),
            "paper": _constants(paper),
        }


def _constants(constants: Any) -> dict[str, Any]:
    local = np.maximum(constants.local, 1.0)  # below 1 by rounding
    return {
        "max": float(local.max()),
        "mean": float(local.mean()),
        "quantiles": [float(value) for value in np.quantile(local, QUANTILES)],
        "mean_roots": {form: float(roots(local - 1, form).mean()) for form in FORMS},
    }


def _errors(motion: Rigid, source: Array, target: Array, unit: float) -> dict[str, float]:
    """Errors of a rigid motion in diameters of the target."""
    away = np.linalg.norm(motion.transform(source) - target, axis=1) / unit
    return {"mean": float(away.mean()), "rms": float(np.sqrt((away**2).mean())), "sup": float(away.max())}


def _bound(source: _Side, target: _Side, unit: float, apart: Array, rms: float) -> dict[str, Any]:
    """The bound on the root mean square error in diameters of the target, with and without the outputs' mismatch."""
    sizes: dict[str, Any] = {
        "diameter": diameter(source.latents, search="exact").value,
        "target_diameter": unit,
        "radii": tuple(float(np.sqrt(side.latents.var(0).sum())) for side in (source, target)),
    }
    mean = float(np.sqrt((apart**2).mean()))
    bound = bounds(source.exact, target.exact, mismatch=float(apart.max()), mismatch_rms=mean, **sizes)["rms"]
    equal = bounds(source.exact, target.exact, **sizes)["rms"]
    return {
        "rms": rms,
        "value": bound.value / unit,
        "vacuous": bound.vacuous,
        "violated": rms > bound.value / unit,
        "equal_outputs": equal.value / unit,
        "equal_outputs_vacuous": equal.vacuous,
        "equal_outputs_violated": rms > equal.value / unit,
        "chance": bound.chance / unit,
    }


@dataclass(frozen=True)
class Training:
    """How the autoencoders of one part are trained.

    Attributes
    ----------
    widths : tuple of int
        From the image to the latents; the decoder is the mirror.
    pairs : int
        Pairs of autoencoders for each leak (and each class).
    epochs : int
        Passes over the images.
    images : int or None
        Training images at most.
    batch : int or None
        Images of a step; all at once if None.
    learning_rate, clip_norm
        Learning rate of Adam on orthogonal matrices, and the norm to which each model's gradient is clipped.
    schedule : {"cosine", "constant"}
        A constant rate keeps the last steps noisy: errors at leak 1 then reach that noise level, not zero.
    patience, min_delta
        Early stopping on the training loss; None for no early stopping.
    """

    widths: tuple[int, ...]
    pairs: int
    epochs: int
    images: int | None = None
    batch: int | None = None
    learning_rate: float = 1e-2
    clip_norm: float = 1.0
    schedule: str = "cosine"
    patience: int | None = None
    min_delta: float = 1e-6


_LEAKS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_DIGITS = Training((64, 32, 16, 5), pairs=5, epochs=600, learning_rate=3e-2)
_PAPER = Training(
    (784, 256, 64, 10), pairs=10, epochs=2000, batch=1000, learning_rate=1e-3, schedule="constant", patience=50
)


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    leaks : tuple of float
    digits, mnist : Training or None
        The 8 x 8 digits of scikit-learn, which are always available, and MNIST.
    digits_class, mnist_class : Training or None
        The same with a model for each class.
    classes : tuple of int
        Classes of these models.
    samples, directions : int
        Encoded images at which constants are measured, and random directions of the published estimator.
    reference_leak, percentile
        A pair is dropped if the reconstruction error of either autoencoder is above this percentile of those at the
        reference leak.
    form : {"2L+L2", "L+L2"}
        The curve err = a sqrt(form); the theorem has the first.
    statistic : {"mean of roots", "root of mean"}
        Definition of a pair's x: the mean over samples of sqrt(form), or sqrt(form) of the mean L.
    intercept : bool
        Fit err = a sqrt(form) + b instead.
    test_images : int
        Images at most that the held-out errors are measured on.
    """

    leaks: tuple[float, ...] = scaled((0.2, 0.6, 1.0), _LEAKS, _LEAKS)
    digits: Training | None = scaled(  # noqa: RUF009
        replace(_DIGITS, pairs=3, images=600, epochs=200), _DIGITS, replace(_DIGITS, pairs=10, epochs=2000)
    )
    mnist: Training | None = scaled(  # noqa: RUF009
        None, Training((784, 64, 32, 5), pairs=5, images=10_000, batch=200, epochs=30), _PAPER
    )
    digits_class: Training | None = scaled(  # noqa: RUF009
        replace(_DIGITS, pairs=1), None, replace(_DIGITS, pairs=3, epochs=2000)
    )
    mnist_class: Training | None = scaled(None, None, replace(_PAPER, pairs=3))  # noqa: RUF009
    classes: tuple[int, ...] = scaled((0, 1), (), tuple(range(10)))
    samples: int = scaled(100, 1000, 1000)
    directions: int = 10
    reference_leak: float = 1.0
    percentile: float = 95.0
    form: str = "2L+L2"
    statistic: str = "mean of roots"
    intercept: bool = False
    test_images: int = scaled(300, 10_000, 10_000)


SCALES = by_scale(Preset)

DROPPED = {"MNIST": (11.0, 60.0), "MNIST, a model for each digit": (5.0, 180.0)}
"""Runs that the filter on reconstruction removed, of all (A.7.1)."""

NAMES = {"digits": "Digits of scikit-learn", "mnist": "MNIST"}


def plan(preset: Preset, data: Path | None) -> Plan:
    """The digits of scikit-learn always, MNIST where its file is; a unit for each leak, and for each class."""
    path = find_file(data, mnist_files.FOLDER, mnist_files.FILE) if data is not None else None
    units = [
        Unit(
            f"{name}{'' if label is None else f'-class-{label}'}-leak-{leak:g}",
            f"{NAMES[name]}{'' if label is None else f', digit {label}'}, leak {leak:g}",
            {"set": name, "leak": leak, "label": label},
        )
        for name in NAMES
        if name == "digits" or path is not None
        for label in (None, *preset.classes)
        if training_of(preset, name, label is not None) is not None
        for leak in preset.leaks
    ]
    wanted = preset.mnist is not None or preset.mnist_class is not None
    files = (path,) if wanted and path is not None else ()
    missing = f"MNIST was left out: {how_to_find(data)} ({mnist_files.FILE}, from {mnist_files.ORIGIN})"
    return Plan(tuple(units), files, (missing,) if wanted and not files else ())


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all autoencoders of a leak, and measure each pair."""
    from ..models import EarlyStopping, Group, OrthogonalAutoencoder, Recipe, Schedule, reconstruction_loss, train_many

    preset: Preset = run.preset
    wanted = unit.arguments
    leak, label = wanted["leak"], wanted["label"]
    training: Training = training_of(preset, wanted["set"], label is not None)
    images, unseen = _images(wanted["set"], run.data, label, training.images, preset.test_images, run.seed)
    place = preset.leaks.index(leak) * 100 + (0 if label is None else label + 1)
    seeds = seeds_from(run.seed, place, count=2 * training.pairs)
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
        **wanted,
        "images": len(images),
        "test_images": len(unseen),
        "widths": list(training.widths),
        "bound_layers": leak ** -(len(training.widths) - 1),
        "bound_activations": leak ** -(len(training.widths) - 2),
        "spectrum_gap": spectrum_gap(images, training.widths[-1]),
        "together": trained[0].together,
        "pairs": pairs,
    }


def training_of(preset: Preset, name: str, by_class: bool) -> Any:
    """The settings of a part; None where it is not run."""
    return getattr(preset, f"{name}_class" if by_class else name)


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
        mnist = mnist_files.load_mnist(data)
        return _flat(mnist.train, 255), mnist.train_labels, _flat(mnist.test, 255), mnist.test_labels
    bunch: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.data))
    train, test = order[:1400], order[1400:]
    return _flat(bunch.data[train], 16), bunch.target[train], _flat(bunch.data[test], 16), bunch.target[test]


def _flat(images: Array, most: int) -> Array:
    return np.asarray(images.reshape(len(images), -1) / np.float32(most), dtype=np.float32)


TITLE = "Warm-up: the leak controls identifiability"
PAPER = f"{NELSON}, section 4.1 and appendix A.7.1, Figures 2 and A.3 to A.6"
EXPERIMENT = Experiment("warmup", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
