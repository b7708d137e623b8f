"""Contrastive predictive coding (section 5.2 of Roeder, Metz and Kingma 2021): alignment of two trainings.

f encodes a patch of the upper half of an image, g one of the lower half. Each unit trains one pair of models of one
setting and compares them at the chosen steps: canonical correlations, held-out R² of groups of maps, and
effective dimensions, against training steps, images and width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison import compare
from ..comparison.result import Direction
from ..datasets import Rooms, digits_and_photos, load
from ..datasets.catalogue import find_cifar10
from ..errors import InputError
from ..files import replacing
from ..representation import Array
from ..settings import check_choice
from ..similarity import cca, svcca
from .experiment import ROEDER, Experiment, Outcome, Plan, Run, Unit, by_scale, how_to_find, scaled
from .outcomes import adam_recipe, seeds_from

SOURCES = {"cifar10": "CIFAR-10", "rooms": "rendered rooms"}
_COMPONENT_ROWS = 5000  # training patches that principal components are fitted to
RUNGS = ("signed_permutation", "rigid", "linear")
SIDES = ("f", "g")
_CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    source : {"cifar10", "rooms"}
        Photographs, or rendered scenes, which also stand for photographs whose files are not there.
    pairs : int
        Pairs of models of every setting; no model is in two of them.
    steps : int
        Steps of every training, for any width and number of images.
    checkpoints : tuple of int
        Steps at which the models of the base setting are compared, besides 0 and the last. With fewer images models are
        also compared at the one of them with the least held-out loss.
    width, widths : int, tuple of int
        Hidden units of the base setting, and of the sweep; the base is always in it.
    sizes : tuple of int
        Training images of the sweep, besides all of them.
    layers, outputs : int
        Linear layers of f and of g, and the numbers that they give.
    patch : int
        Columns of a patch, which has the height of its half and is placed anew at every step; 0 for whole halves.
    scene, scenes : int
        Height and width of rendered scenes, and how many there are to train on.
    test_images : int
        Images that no model was trained on, for all that is measured.
    batch, learning_rate, schedule, normalise, temperature
        Settings of Adam and of the loss. With a constant rate a checkpoint equals the end of a shorter training.
    null, draws : int
        Shuffled pairings, and draws of the bootstrap over images.
    device : str
        Device of the tensors.
    """

    source: str = scaled("rooms", "cifar10", "cifar10")
    pairs: int = scaled(3, 5, 5)
    steps: int = scaled(80, 800, 50_000)
    checkpoints: tuple[int, ...] = scaled(
        (10, 30), (25, 50, 100, 200, 400), (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
    )
    width: int = scaled(64, 256, 256)
    widths: tuple[int, ...] = scaled((8, 64), (64, 256, 1024), (64, 128, 256, 512, 1024, 2048, 4096, 8192))
    sizes: tuple[int, ...] = scaled((100,), (500, 5000), (500, 1000, 2000, 5000, 10_000, 20_000))
    layers: int = 3
    outputs: int = scaled(8, 64, 64)
    patch: int = scaled(8, 16, 16)
    scene: int = scaled(16, 32, 32)
    scenes: int = scaled(1500, 50_000, 50_000)
    test_images: int = scaled(600, 5000, 10_000)
    batch: int = scaled(128, 256, 256)
    learning_rate: float = 1e-3
    schedule: str = "constant"
    normalise: bool = False
    temperature: float = 1.0
    null: int = scaled(5, 10, 50)
    draws: int = scaled(100, 200, 1000)
    device: str = "cpu"


SCALES = by_scale(Preset)


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
        pairs = [_projections(given, preset, run.seed, pair) for pair in range(preset.pairs)]
        return {"sweep": "projections", "pairs": pairs}
    wanted = unit.arguments
    pair = wanted["pair"]
    rows = _rows(given, wanted["images"], run.seed, pair)
    base = wanted["sweep"] == "base"
    # How long a training may last before it overfits depends on the images, not on the width.
    between = [step for step in preset.checkpoints if wanted["sweep"] != "width" and step < preset.steps]
    steps = sorted({0, *between, preset.steps})
    seeds = seeds_from(run.seed, 31, pair, count=2)
    models = [_Model(seed, wanted["width"], given, rows, steps, run, place) for place, seed in enumerate(seeds)]
    losses = {step: float(np.mean([model.losses[step] for model in models])) for step in steps}

    def at(step: int) -> dict[str, Any]:
        sides = {name: _compared(side, step, models, given, run, base) for side, name in enumerate(SIDES)}
        return {"step": step, "loss": losses[step]} | sides

    reported = {step: at(step) for step in (steps if base else (0, preset.steps))}
    least = min(steps[1:], key=lambda step: losses[step])
    return {
        **wanted,
        "images": len(rows),
        "source": SOURCES[source_of(preset, run.data)],
        "note": given.note,
        "seeds": seeds,
        "training": [model.training for model in models],
        "steps": list(reported.values()),
        "stopped": reported.get(least) or at(least),
    }


class _Model:
    """One training: outputs of f and g on the test patches at every chosen step, and the losses there."""

    def __init__(
        self, seed: int, width: int, given: Material, rows: Array, steps: list[int], run: Run, place: int
    ) -> None:
        from ..models import ContrastivePair, contrastive_loss, train

        preset: Preset = run.preset
        if run.scratch is None:
            raise ValueError("a unit keeps its representations in a scratch folder, and there is none")
        self._seed, self._folder = seed, run.scratch
        trained = train(
            lambda _: ContrastivePair(
                given.test[0].shape[1],
                hidden=(width,) * (preset.layers - 1),
                outputs=preset.outputs,
                normalise=preset.normalise,
                temperature=preset.temperature,
            ),
            tuple(half[rows] for half in given.halves),
            contrastive_loss,
            adam_recipe(preset, preset.steps),
            seed=seed,
            prepare=_placing(given, preset),
            evaluate=lambda module, step: self._evaluate(module, step, given, preset),
            evaluate_every=lambda step: step in steps,
            checkpoint=run.scratch / f"training-{seed}.safetensors",
            checkpoint_seconds=_CHECKPOINT_SECONDS,
            device=preset.device,
            progress=lambda stage, done, total: run.progress(stage, place * total + done, 2 * total),
        )
        self.training = trained.history.training[-1]
        self.losses = {step: float(values["loss"]) for step, values in trained.history.evaluations}

    def embedded(self, step: int) -> Array:
        """Outputs of f and g on the test patches after ``step`` steps, (2, patches, outputs)."""
        return np.asarray(np.load(self._file(step), allow_pickle=False))

    def _evaluate(self, module: Any, step: int, given: Material, preset: Preset) -> dict[str, float]:
        """Store the representations with the training state, so that an interrupted unit has them when it resumes."""
        import torch

        from ..models import contrastive_loss

        views = [torch.from_numpy(part).to(preset.device) for part in given.test]
        embedded = np.stack([part.cpu().numpy() for part in module.embed(*views)])
        with replacing(self._file(step)) as temporary, temporary.open("wb") as file:
            np.save(file, embedded)
        batch = min(preset.batch, len(views[0]))
        starts = range(0, len(views[0]) - batch + 1, batch)
        losses = [contrastive_loss(module, [view[start : start + batch] for view in views]) for start in starts]
        return {"loss": float(torch.stack(losses).mean())}

    def _file(self, step: int) -> Path:
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
    sides = {}
    for side, name in enumerate(SIDES):
        rng = np.random.default_rng([seed, 37, pair, side])
        pixels = given.test[side]
        maps = rng.normal(size=(2, pixels.shape[1], preset.outputs))
        sides[name] = measure(pixels @ maps[0], pixels @ maps[1], preset, seed)
    return sides


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


@dataclass(frozen=True, eq=False)
class Material:
    """Halves of images, and the test patches for all measurements.

    Attributes
    ----------
    halves : two arrays
        Upper and lower halves of the training images as bytes, (images, columns, height x channels).
    centre, scale : two arrays and a number
        Means by half, height and channel, and the standard deviation around them.
    test : two arrays
        Patches of other images, flat, at places drawn once.
    components : two arrays
        The same patches in as many principal components of training patches as the models have outputs.
    note : str
        A note about the images.
    """

    halves: Sequence[Array]
    centre: Sequence[Array]
    scale: float
    test: Sequence[Array]
    components: Sequence[Array]
    note: str


def source_of(preset: Preset, data: Path | None) -> str:
    """The source of images: rendered ones if CIFAR-10 is requested and not available."""
    check_choice("source", preset.source, tuple(SOURCES))
    return preset.source if find_cifar10(data) is not None else "rooms"


def files_of(preset: Preset, data: Path | None) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files that decide which images are read, and a sentence for what is missing."""
    source, cifar = source_of(preset, data), find_cifar10(data)
    if source == preset.source:
        return ((cifar[1],) if source == "cifar10" and cifar is not None else ()), ()
    return (), (
        f"CIFAR-10 was left out, and rendered rooms stand for it: {how_to_find(data)} "
        f"({digits_and_photos.ARCHIVE} or what it holds, or {digits_and_photos.JPEGS})",
    )


def patches(halves: Any, starts: Any, columns: int) -> Any:
    """Columns from each row's own start on, flat; arrays or tensors."""
    places = np.arange if isinstance(halves, np.ndarray) else _arange(halves.device)
    rows = places(len(halves))[:, None]
    return halves[rows, starts[:, None] + places(columns)].reshape(len(halves), columns, -1)


@lru_cache(maxsize=1)
def material(preset: Preset, data: Path | None, seed: int) -> Material:
    """Read or render everything once."""
    train, test, note = _images(preset, data, seed)
    halves, others = _halves(train), _halves(test)
    columns = preset.patch or halves[0].shape[1]
    if not 1 <= columns <= halves[0].shape[1]:
        raise InputError(f"patch is {preset.patch}: halves have {halves[0].shape[1]} columns")
    centre = [half.mean((0, 1), dtype=np.float64).astype(np.float32) for half in halves]
    spread = [float(((half[:_COMPONENT_ROWS] - mean) ** 2).mean()) for half, mean in zip(halves, centre, strict=True)]
    scale = float(np.sqrt(np.mean(spread))) or 1.0
    rng = np.random.default_rng([seed, 41])

    def flat(half: Array, mean: Array) -> Array:
        starts = rng.integers(0, half.shape[1] - columns + 1, len(half))
        return np.asarray(((patches(half, starts, columns) - mean) / np.float32(scale)).reshape(len(half), -1))

    placed = list(map(flat, others, centre))
    seen = [flat(half[:_COMPONENT_ROWS], mean) for half, mean in zip(halves, centre, strict=True)]
    components = [_components(part, others, preset.outputs) for part, others in zip(seen, placed, strict=True)]
    return Material(halves, centre, scale, placed, components, note)


def _images(preset: Preset, data: Path | None, seed: int) -> tuple[Array, Array, str]:
    """Training images in random order, test images, and a note; bytes (n, height, width, channels)."""
    cifar = find_cifar10(data) if preset.source == "cifar10" else None
    if cifar is None:
        scenes = Rooms(size=preset.scene, antialias=1).draw(preset.scenes + preset.test_images, seed=seed).images()
        return scenes[: preset.scenes], scenes[preset.scenes :], ""
    train, test = (load(cifar[0], data, part=part) for part in ("train", "test"))
    rng = np.random.default_rng([seed, 43])
    order, chosen = rng.permutation(len(train)), rng.permutation(len(test))[: preset.test_images]
    return train.images(order), test.images(np.sort(chosen)), train.note


def _halves(images: Array) -> list[Array]:
    middle = images.shape[1] // 2
    upper, lower = (np.moveaxis(part, 2, 1) for part in (images[:, :middle], images[:, middle : 2 * middle]))
    return [np.ascontiguousarray(part).reshape(*part.shape[:2], -1) for part in (upper, lower)]


def _components(seen: Array, other: Array, count: int) -> Array:
    mean = seen.mean(0)
    directions = np.linalg.eigh(np.cov(seen.T.astype(np.float64)))[1][:, ::-1][:, :count]
    return np.asarray((other - mean) @ directions)


def _arange(device: Any) -> Any:
    import torch

    return lambda count: torch.arange(count, device=device)


def measure(first: Array, second: Array, preset: Preset, seed: int, ladder: bool = False) -> dict[str, Any]:
    """Two runs on images that neither was trained on.

    Mean CCA is fitted and read on the same images, as published; ``chance`` is the same with images shuffled. Shares
    of variance are held out: maps are fitted without the fold that they are scored on, mean of both directions. With
    ``ladder``, errors in diameters with interval and null, too.
    """
    correlated = cca(first, second, permutations=preset.null, random_state=seed)
    leading = svcca(first, second)
    maps = compare(
        first,
        second,
        rungs=RUNGS,
        n_null=preset.null if ladder else 0,
        n_boot=preset.draws if ladder else 0,
        diameter="bound",
        worst_case=False,
        random_state=seed,
    )
    radii = (maps.target.rms_radius, maps.source.rms_radius)
    directions = (maps.forward, maps.reverse)
    measures = {
        "cca": correlated.value,
        "chance": None if correlated.null is None else correlated.null.mean,
        "svcca": leading.value,
        "kept": float(np.mean(leading.details["kept"])),
        "dimension": float(np.mean([effective_dimension(side) for side in (first, second)])),
        "r2": {
            rung: float(np.mean([_share(each, rung, radius) for each, radius in zip(directions, radii, strict=True)]))
            for rung in RUNGS
        },
    }
    return measures | ({"ladder": {rung: _rung(maps.forward, rung) for rung in RUNGS}} if ladder else {})


def against(values: Array, reference: Array, share: bool = False) -> dict[str, float]:
    """Mean CCA with a fixed reference; and the share of the variance that a linear map of it explains, held out."""
    alike = {"cca": cca(values, reference).value}
    if share:
        maps = compare(values, reference, rungs=("linear",), n_null=0, n_boot=0, diameter="bound", worst_case=False)
        alike["r2"] = _share(maps.reverse, "linear", maps.source.rms_radius)
    return alike


def effective_dimension(values: Array) -> float:
    r"""The participation ratio :math:`(\sum\lambda)^2/\sum\lambda^2` of the eigenvalues of the covariance."""
    centred = values.astype(np.float64) - values.mean(0, dtype=np.float64)
    covariance = centred.T @ centred
    squares = float((covariance**2).sum())
    return float(np.trace(covariance)) ** 2 / squares if squares > 0 else 0.0


def _share(direction: Direction, rung: str, radius: float) -> float:
    """R², the variance of the target being the square of its radius."""
    error = direction.rungs[rung]
    return 1 - (error.held_out.rms * error.unit / radius) ** 2 if radius > 0 else 0.0


def _rung(direction: Direction, name: str) -> dict[str, Any]:
    rung = direction.rungs[name].in_diameters
    return {
        "error": rung.held_out.mean,
        "low": None if rung.interval is None else rung.interval.low,
        "high": None if rung.interval is None else rung.interval.high,
        "null": None if rung.null is None else rung.null.mean,
        "below_null": direction.rungs[name].below_null,
    }


TITLE = "Contrastive: alignment grows with training, data and width"
PAPER = f"{ROEDER}, section 5.2 and Figure 3"
EXPERIMENT = Experiment("contrastive", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
