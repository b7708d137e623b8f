"""``isorep.disentangle``: from images to independent components of an autoencoder, and whether they come back."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..comparison import Ensemble, compare_many
from ..decoder import jacobian
from ..errors import InputError
from ..representation import Array
from ..rows import Progress, no_progress
from ..settings import check_counts, check_seed
from .images import FEWEST, Pictures, as_pictures
from .result import Component, Disentanglement, Training
from .traversals import encoded, lost, traversal
from .unmixing import Unmixing, decoder_constants, decoder_response, unmix

MOST_IMAGES = 50_000
COMES_BACK = 0.9
"""Correlation above which a component of another training is the same."""
_JACOBIANS = 48
_POORLY = 0.5  # share of the variance that reconstructions lose, from which on there is a caveat


def disentangle(
    images: Any,
    *,
    latents: int = 16,
    size: int = 32,
    network: str = "dense",
    steps: int = 2000,
    batch: int = 64,
    weight_decay: float = 0.1,
    learning_rate: float = 1e-3,
    n_seeds: int = 3,
    held_out: float = 0.1,
    most: int = MOST_IMAGES,
    key: str | None = None,
    checkpoints: str | Path | None = None,
    device: str = "cpu",
    random_state: int = 0,
    progress: Progress | None = None,
) -> Disentanglement:
    """Train plain autoencoders on images, unmix their latents by ICA, and see which components come back.

    Each training starts from other weights and sees the images in another order. Its latents are pruned to the
    directions that the decoder responds to, whitened there and unmixed. Components of the first training are matched
    one to one with those of every other by absolute correlation.

    That a component comes back says that the images determine it, not that it is a factor of the world: for that,
    score it against known factors with :func:`isorep.structure.infomec`.

    Parameters
    ----------
    images : path or array
        A folder of image files, an ``.npy`` or ``.npz`` file, or an array (n, height, width[, channels]) of bytes or
        numbers in [0, 1]; see :func:`isorep.disentangling.as_pictures`.
    latents : int
        More than there may be factors: the decoder leaves alone those it does not need.
    size : int
        Images are cut to squares and resized to this.
    network : {"dense", "light", "published"}
        Fully connected layers; or the benchmark's convolutions, with a quarter of the channels or all of them.
    steps, batch, weight_decay, learning_rate
        Of each training. Learning rate x weight decay x steps is what keeps the decoder well conditioned.
    n_seeds : int
        Trainings.
    held_out : float
        Share of the images that reconstructions are judged on.
    most : int
        Images at most, drawn at random.
    key : str, optional
        The array of an npz file.
    checkpoints : path, optional
        A folder for the state of trainings: the same call goes on from there.
    device : str
        Where networks are trained, such as ``cpu`` or ``cuda``.
    random_state : int
        The seed that all others are derived from.
    progress : callable, optional
        ``progress(stage, done, total)``.

    Returns
    -------
    Disentanglement
    """
    check_counts(latents=(latents, 2), steps=(steps, 1), batch=(batch, 2), n_seeds=(n_seeds, 1), most=(most, FEWEST))
    check_seed(random_state)
    if not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out}: it must lie between 0 and 1")
    if not (weight_decay >= 0 and np.isfinite(weight_decay)):
        raise InputError(f"weight_decay is {weight_decay}: it must be at least 0")
    began = time.perf_counter()
    tell = progress or no_progress
    pictures = as_pictures(images, size=size, key=key, most=most, random_state=random_state, progress=tell)
    settings = {
        "latents": latents,
        "size": size,
        "network": network,
        "steps": steps,
        "batch": batch,
        "weight_decay": weight_decay,
        "learning_rate": learning_rate,
        "n_seeds": n_seeds,
        "held_out": held_out,
        "most": most,
        "device": device,
        "random_state": random_state,
    }
    order = np.random.default_rng(random_state).permutation(len(pictures))
    aside = np.sort(order[: max(round(held_out * len(pictures)), 1)])
    kept = np.setdiff1d(order, aside)
    if len(kept) < 2:
        raise InputError(f"held_out is {held_out}: it leaves {len(kept)} of {len(order)} images to train on")
    looked_at = np.sort(order[-_JACOBIANS:])  # folders come sorted: the first images may all be of one kind
    seen = kept[:: max(len(kept) // len(aside), 1)]  # as many images that were trained on, to tell what is overfitted
    modules, found, unmixings, spaces, fitted = [], [], [], [], []
    for place in range(n_seeds):
        module, training = _trained(pictures, kept, settings, 1000 * random_state + place, checkpoints, tell)
        values = encoded(module, pictures.values)
        sample = values[looked_at]
        response = decoder_response(jacobian(module.decode, sample.astype(np.float32)))
        made = unmix(values, response=response, random_state=random_state)
        modules.append(module)
        unmixings.append(made)
        spaces.append(values)
        constants = decoder_constants(module, made, sample)
        found.append(
            Training(
                seed=1000 * random_state + place,
                loss=training,
                lost=lost(module, pictures.values[aside], values[aside]),
                directions=made.components,
                constant=constants["active"]["similarity"],
                condition=constants["active"]["median_condition"],
                activity=tuple(constants["activity"]),
                converged=made.converged,
            )
        )
        fitted.append(lost(module, pictures.values[seen], values[seen]))
        tell("trainings", place + 1, n_seeds)
    sheet, rows = traversal(modules[0], unmixings[0], spaces[0], enlarge=max(1, 48 // size))
    return Disentanglement(
        module=modules[0],
        unmixing=unmixings[0],
        trainings=tuple(found),
        components=_components(unmixings, spaces, rows),
        sheet=sheet,
        rows=rows,
        ensemble=_compared(spaces, random_state),
        data=_facts(pictures, len(kept), len(aside)),
        settings=settings,
        caveats=(*pictures.notes, *_caveats(found, fitted, pictures, n_seeds)),
        seconds=time.perf_counter() - began,
    )


def _trained(
    pictures: Pictures, kept: Array, asked: dict[str, Any], seed: int, checkpoints: str | Path | None, tell: Progress
) -> tuple[Any, float]:
    """One autoencoder and its last training loss."""
    from ..models import PlainAutoencoder, benchmark_recipe, train

    shape = pictures.values.shape[1:]
    recipe = benchmark_recipe(
        asked["steps"],
        weight_decay=asked["weight_decay"],
        learning_rate=asked["learning_rate"],
        batch=min(asked["batch"], len(kept)),
        falls_after=2 / 3,
        record_every=max(asked["steps"] // 40, 1),
    )
    trained = train(
        lambda _: PlainAutoencoder(shape, asked["latents"], network=asked["network"]),
        pictures.values[kept],
        PlainAutoencoder.losses,
        recipe,
        seed=seed,
        checkpoint=None if checkpoints is None else _folder(checkpoints) / f"training-{seed}.safetensors",
        device=asked["device"],
        progress=tell,
    )
    return trained.module, trained.history.training[-1]


def _components(unmixings: list[Unmixing], spaces: list[Array], rows: tuple[int, ...]) -> tuple[Component, ...]:
    """The components of the first training, those that move images most first."""
    first = unmixings[0]
    own = first.transform(spaces[0])
    back = np.zeros((len(unmixings) - 1, first.components))
    for place, (made, values) in enumerate(zip(unmixings[1:], spaces[1:], strict=True)):
        other = made.transform(values)
        shared = np.abs(np.corrcoef(own.T, other.T)[: own.shape[1], own.shape[1] :])
        matched = linear_sum_assignment(-shared)
        back[place, matched[0]] = shared[matched]
    gaussian = np.zeros(first.components, bool) if first.gaussian is None else first.gaussian
    order = [*rows, *(place for place in range(first.components) if place not in rows)]
    return tuple(
        Component(
            name=f"c{place}",
            correlations=tuple(float(value) for value in back[:, place]),
            comes_back=None if not len(back) else bool(back[:, place].min() >= COMES_BACK),
            gaussian=bool(gaussian[place]),
        )
        for place in order
    )


def _compared(spaces: list[Array], random_state: int) -> Ensemble | None:
    """How far the latents of the trainings agree, and up to what."""
    if len(spaces) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they say is among its caveats
        return compare_many({f"training {place}": each for place, each in enumerate(spaces)}, random_state=random_state)


def _facts(pictures: Pictures, trained: int, held_out: int) -> dict[str, Any]:
    channels, height, width = pictures.values.shape[1:]
    return {
        "name": pictures.name,
        "images": len(pictures),
        "trained_on": trained,
        "held_out": held_out,
        "channels": channels,
        "height": height,
        "width": width,
    }


def _caveats(found: list[Training], fitted: list[float], pictures: Pictures, n_seeds: int) -> list[str]:
    said = []
    if n_seeds < 2:
        said.append("with a single training nothing says whether components come back: raise n_seeds")
    if len(pictures) < 1000:
        said.append(f"{len(pictures)} images are few: what an autoencoder learns from them may not carry over")
    worst = max(training.lost for training in found)
    if np.isnan(worst):
        said.append("the images held out are all alike, so that reconstructions could not be judged on them")
    if worst > _POORLY:
        known = max(fitted)
        if known < worst / 2:
            said.append(
                f"reconstructions lose up to {worst:.0%} of the variance of held-out pixels, and {known:.0%} of those "
                "trained on: give more images, or more weight decay"
            )
        else:
            said.append(
                f"reconstructions lose up to {worst:.0%} of the variance of the pixels: train longer, with more "
                "latents or less weight decay"
            )
    full = found[0].directions
    if full == len(found[0].activity):
        said.append(f"the decoder responds to all {full} latents: there may be more factors than latents")
    return said


def _folder(path: str | Path) -> Path:
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
