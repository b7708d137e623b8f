"""``isorep.disentangle``: from images to independent components of an autoencoder, and their reproducibility."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..comparison import Ensemble, compare_many
from ..decoder import jacobian
from ..errors import InputError
from ..files import resolved
from ..ica import Cards
from ..ica.associations import joined_columns, named_columns
from ..ica.cards import make_cards
from ..representation import Array
from ..rows import Progress, no_progress
from ..settings import check_counts, check_seed
from ..storage.tables import read_obs
from .images import FEWEST, Pictures, as_pictures
from .reconstruction import PrincipalImages, mean_and_spread, principal_images, reconstruct
from .result import COMES_BACK, Component, Disentanglement, Training
from .traversals import Sheet, encoded, lost, traversal
from .unmixing import Unmixing, decoder_constants, decoder_response, unmix

if TYPE_CHECKING:
    from ..models import Trained

MOST_IMAGES = 50_000
_JACOBIANS = 48
_USUAL = {"spatial": (0.01, 3e-3), "dense": (0.1, 1e-3)}  # weight decay and learning rate
_POORLY = 0.5  # share of the variance lost by reconstructions above which there is a caveat


def disentangle(
    images: Any,
    *,
    latents: int = 16,
    size: int = 32,
    network: str = "auto",
    steps: int = 2000,
    batch: int = 32,
    weight_decay: float | None = None,
    learning_rate: float | None = None,
    n_seeds: int = 3,
    held_out: float = 0.1,
    most: int = MOST_IMAGES,
    key: str | None = None,
    obs: Any = None,
    checkpoints: str | Path | None = None,
    device: str = "cpu",
    random_state: int = 0,
    progress: Progress | None = None,
) -> Disentanglement:
    """Train plain autoencoders on images, unmix their latents by ICA, and test which components are reproducible.

    Each training starts from other weights and uses the images in another order. Its latents are pruned to the
    directions that the decoder responds to, whitened there and unmixed. Components of the first training are matched
    one to one with those of every other by absolute correlation.

    A reproducible component is determined by the images and the architecture, but need not be a factor of the world. To
    test that, score it against known factors with :func:`isorep.structure.infomec`.

    Parameters
    ----------
    images : path or array
        A folder of image files, an ``.npy`` or ``.npz`` file, or an array (n, height, width[, channels]) of bytes or
        numbers in [0, 1]; see :func:`isorep.disentangling.as_pictures`.
    latents : int
        Latent dimensions; choose more than the expected number of factors. The decoder ignores those it does not need.
    size : int
        Side of the images in pixels; images are cropped to squares and resized.
    network : {"auto", "spatial", "dense", "light", "published"}
        Convolutions with positions (``spatial``); fully connected layers (``dense``); or the benchmark's convolutions,
        with a quarter of the channels (``light``) or all (``published``). Default: spatial for sizes that are multiples
        of 4 and at least 16, otherwise dense.
    steps, batch
        Steps and batch size of each training.
    weight_decay, learning_rate : float, optional
        Default: 0.01 and 0.003 for the spatial network, 0.1 and 0.001 for the others. The product of learning rate,
        weight decay and steps keeps the decoder well conditioned; too large a product leaves few active latents.
    n_seeds : int
        Number of trainings.
    held_out : float
        Share of the images held out to test reconstructions.
    most : int
        Largest number of images, drawn at random.
    key : str, optional
        Name of the array in an npz file.
    obs : mapping of str to values, data frame or path, optional
        Columns that describe the images: extreme images of each component are read against them, as in
        :func:`isorep.ica.component_cards`. A file may name the images in its column of ids; otherwise columns are in
        the order of the images, those of a folder by name. Default: the subfolders of a folder of images.
    checkpoints : path, optional
        Folder for the state of trainings; the same call resumes from it.
    device : str
        Device for training, such as ``cpu`` or ``cuda``.
    random_state : int
        Seed from which all others are derived.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Disentanglement
    """
    from ..models import PlainAutoencoder, benchmark_recipe, train

    check_counts(latents=(latents, 2), steps=(steps, 1), batch=(batch, 2), n_seeds=(n_seeds, 1), most=(most, FEWEST))
    check_seed(random_state)
    if not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out}: it must lie between 0 and 1")
    if network == "auto":
        network = "spatial" if size % 4 == 0 and size >= 16 else "dense"
    usual = _USUAL.get(network, _USUAL["dense"])
    weight_decay = usual[0] if weight_decay is None else weight_decay
    learning_rate = usual[1] if learning_rate is None else learning_rate
    if not (weight_decay >= 0 and np.isfinite(weight_decay)):
        raise InputError(f"weight_decay is {weight_decay}: it must be at least 0")
    began = time.perf_counter()
    tell = progress or no_progress
    pictures = as_pictures(images, size=size, key=key, most=most, random_state=random_state, progress=tell)
    columns, unread = _described(pictures, obs)
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
    split = _split(len(pictures), held_out, random_state)
    folder = None if checkpoints is None else _folder(Path(checkpoints))
    recipe = benchmark_recipe(
        steps,
        weight_decay=weight_decay,
        learning_rate=learning_rate,
        batch=min(batch, len(split.trained)),
        falls_after=2 / 3,
        record_every=max(steps // 40, 1),
    )
    principal = principal_images(pictures.values[split.trained], latents, np.random.default_rng(random_state))
    mean, spread = mean_and_spread(pictures.values, split.trained)

    def build(_: int) -> Any:
        module = PlainAutoencoder(pictures.values.shape[1:], latents, network=network)
        module.start_from(mean, spread)
        return module

    runs = []
    for index in range(n_seeds):
        seed = 1000 * random_state + index
        trained = train(
            build,
            pictures.values[split.trained],
            PlainAutoencoder.losses,
            recipe,
            seed=seed,
            checkpoint=None if folder is None else _checkpoint(folder, seed),
            device=device,
            progress=tell,
        )
        runs.append(_run(trained, pictures, split, principal, random_state))
        tell("trainings", index + 1, n_seeds)
    first = runs[0]
    sheet, rows = traversal(first.module, first.unmixing, first.latents, enlarge=_enlarge(size))
    components = _components(runs, rows)
    shape = dict(zip(("channels", "height", "width"), pictures.values.shape[1:], strict=True))
    return Disentanglement(
        module=first.module,
        unmixing=first.unmixing,
        size=shape["height"],
        trainings=tuple(run.training for run in runs),
        components=components,
        sheet=sheet,
        rows=rows,
        reconstructions=first.reconstructions,
        ensemble=_compared(runs, random_state),
        data={
            "name": pictures.name,
            "images": len(pictures),
            "trained_on": len(split.trained),
            "held_out": len(split.held_out),
            **shape,
        },
        settings=settings,
        caveats=(*pictures.notes, *_caveats(runs, len(pictures)), *unread),
        seconds=time.perf_counter() - began,
        cards=_cards(first, components, pictures, columns),
    )


@dataclass(frozen=True, eq=False)
class Split:
    """Images by their index: trained on, held out, as many of the former to compare with, and a few for Jacobians."""

    trained: Array
    held_out: Array
    compared: Array
    sample: Array


@dataclass(frozen=True, eq=False)
class Run:
    """One training: the autoencoder, its unmixing, the latents of all images, and the variance lost on training images.

    ``reconstructions`` shows held-out images and their reconstructions.
    """

    module: Any
    unmixing: Unmixing
    latents: Array
    training: Training
    fitted: float
    reconstructions: Sheet


def _split(count: int, share: float, random_state: int) -> Split:
    order = np.random.default_rng(random_state).permutation(count)
    held_out = np.sort(order[: max(round(share * count), 1)])
    trained = np.setdiff1d(order, held_out)
    if len(trained) < 2:
        raise InputError(f"held_out is {share}: it leaves {len(trained)} of {count} images to train on")
    compared = trained[:: max(len(trained) // len(held_out), 1)]
    # Folders come sorted: the first images may all be of one kind.
    return Split(trained, held_out, compared, np.sort(order[-_JACOBIANS:]))


def _checkpoint(folder: Path, seed: int | str) -> Path:
    return folder / f"training-{seed}.safetensors"


def is_checkpoint(path: str | Path, folder: str | Path) -> bool:
    """Whether a file to write has the place of a training in a folder of checkpoints."""
    place: Path = resolved(Path(path))
    return bool(place.parent == resolved(Path(folder))) and place.match(_checkpoint(place.parent, "*").name)


def _folder(path: Path) -> Path:
    if path.is_file():
        raise InputError(f"{path} is a file: name a folder for the checkpoints")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _run(trained: Trained, pictures: Pictures, split: Split, principal: PrincipalImages, random_state: int) -> Run:
    """Unmix the latents of an autoencoder, and measure its reconstructions and the conditioning of its decoder."""
    module = trained.module
    latents = encoded(module, pictures.values)
    sample = latents[split.sample]
    response = decoder_response(jacobian(module.decode, sample.astype(np.float32)))
    unmixing = unmix(latents, response=response, random_state=random_state)
    constants = decoder_constants(module, unmixing, sample)
    held_out, fitted = (lost(module, pictures.values[rows], latents[rows]) for rows in (split.held_out, split.compared))
    values, kept_latents = pictures.values[split.held_out], latents[split.held_out]
    kept = reconstruct(module, unmixing, values, kept_latents, principal, _enlarge(values.shape[-1]))
    training = Training(
        seed=trained.seed,
        loss=trained.history.training[-1],
        lost=held_out,
        directions=unmixing.components,
        constant=constants["active"]["similarity"],
        condition=constants["active"]["median_condition"],
        activity=tuple(constants["activity"]),
        converged=unmixing.converged,
        kept=kept.kept,
        principal=kept.principal,
        ahead=kept.ahead,
    )
    return Run(module, unmixing, latents, training, fitted, kept.sheet)


def _enlarge(size: int) -> int:
    """Pixels of a sheet for each pixel of an image."""
    return max(1, 48 // size)


def _components(runs: list[Run], rows: tuple[int, ...]) -> tuple[Component, ...]:
    """The components of the first training, those that move images most first."""
    first = runs[0].unmixing
    own = first.transform(runs[0].latents)
    correlations = np.zeros((len(runs) - 1, first.components))
    for index, run in enumerate(runs[1:]):
        other = run.unmixing.transform(run.latents)
        shared = np.abs(np.corrcoef(own.T, other.T)[: own.shape[1], own.shape[1] :])
        matched = linear_sum_assignment(-shared)
        correlations[index, matched[0]] = shared[matched]
    gaussian = np.zeros(first.components, bool) if first.gaussian is None else first.gaussian
    return tuple(
        Component(
            name=f"ica{index}",
            correlations=tuple(correlations[:, index].tolist()),
            comes_back=bool(correlations[:, index].min() >= COMES_BACK) if len(correlations) else None,
            gaussian=bool(gaussian[index]),
        )
        for index in (*rows, *np.setdiff1d(np.arange(first.components), rows))
    )


def _described(pictures: Pictures, obs: Any) -> tuple[dict[str, Any], list[str]]:
    """Columns that describe the images that are used: those given, or the subfolder of each."""
    if obs is None:
        folders = [Path(file).parts[0] if len(Path(file).parts) > 1 else "" for file in pictures.files]
        return ({"folder": np.array(folders)} if any(folders) else {}), []
    if isinstance(obs, str | Path):
        table = read_obs(obs)
        named = bool(pictures.files) and table.ids is not None
        ids = np.array([Path(file).as_posix() for file in pictures.files]) if named else None
        columns = joined_columns(table, ids, len(pictures) if named else pictures.of_rows, pictures.name)
        unread = [f"components were not read against {name} ({why})" for name, why in list(table.left_out.items())[:8]]
        return columns if named else {name: each[pictures.rows] for name, each in columns.items()}, unread
    columns = {title: np.asarray(values) for title, values in named_columns(obs).items()}
    for title, values in columns.items():
        if values.shape != (pictures.of_rows,):
            wanted = f"one value per image, ({pictures.of_rows},)"
            raise InputError(f"column {title!r} of obs needs {wanted}, and has shape {values.shape}")
    return {title: values[pictures.rows] for title, values in columns.items()}, []


def _cards(first: Run, components: tuple[Component, ...], pictures: Pictures, columns: dict[str, Any]) -> Cards:
    """Cards of the first training's components, in their order; latents have no names, so there are no loadings."""
    numbers = [int(component.name.removeprefix("ica")) for component in components]
    shared = np.array([np.median(each.correlations) if each.correlations else np.nan for each in components])
    order = np.argsort(numbers)
    several = bool(components) and components[0].comes_back is not None
    sources = first.unmixing.transform(first.latents)
    cards = make_cards(
        sources,
        columns,
        ids=pictures.files or None,
        numbers=pictures.rows,
        gaussian=np.array([component.gaussian for component in components])[order],
        stability=(shared[order], np.array([each.comes_back for each in components])[order]) if several else None,
    )
    return replace(cards, items=tuple(cards[number] for number in numbers))


def _compared(runs: list[Run], random_state: int) -> Ensemble | None:
    """Agreement of the trainings' latents, and up to which transformation."""
    if len(runs) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the result's caveats report them
        spaces = {f"training {index}": run.latents for index, run in enumerate(runs)}
        return compare_many(spaces, random_state=random_state)


def _caveats(runs: list[Run], images: int) -> list[str]:
    said = []
    if len(runs) < 2:
        said.append("reproducibility of components needs more than one training: raise n_seeds")
    if images < 1000:
        said.append(f"only {images} images: an autoencoder may not generalise from so few")
    worst, fitted = max(run.training.lost for run in runs), max(run.fitted for run in runs)
    if np.isnan(worst):
        said.append("the held-out images are all equal, so reconstructions could not be tested on them")
    if worst > _POORLY:
        few = f"held-out pixels ({fitted:.0%} in training): give more images, or more weight decay"
        short = "the pixels: train longer, with more latents or less weight decay"
        said.append(f"reconstructions lose up to {worst:.0%} of the variance of {few if fitted < worst / 2 else short}")
    first = runs[0].training
    if first.directions == len(first.activity):
        said.append(f"the decoder responds to all {first.directions} latents: there may be more factors than latents")
    return said
