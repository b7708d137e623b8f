"""What is trained on and measured on: images with classes, and windows of text with their documents.

How large each scale is: all that the text leaves open is a setting.

Table 1 as published, and what its text leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Rooms, digits_and_photos, load
from ..datasets.folder import VARIABLE, find_file
from ..errors import InputError
from ..representation import Array
from .layers_networks import Corpus, corpus_of, documents_of, split, windows_of
from .layers_networks import Preset as LanguagePreset

CLASSES = 10
_HELD_OUT = 1_000  # images that losses and accuracies are read on
_BINARY = ("cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin", digits_and_photos.ARCHIVE)
_LETTERS = 8  # of a token at most, for taking enough text


@dataclass(frozen=True, eq=False)
class Images:
    """Bytes (n, channels, height, width) and a class each; ``rows`` are those that are compared."""

    train: Array
    classes: Array
    held_out: Array
    held_out_classes: Array
    rows: Array
    note: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.shape[1:]
        return int(channels), int(height), int(width)


@dataclass(frozen=True, eq=False)
class Text:
    """The corpus, and the windows that are compared with the document of each."""

    corpus: Corpus
    rows: Array
    documents: Array


def image_files(preset: Preset, data: Path | None) -> tuple[tuple[Path, ...], str]:
    """The files that decide which images are read, and a sentence where rendered scenes take their place."""
    if preset.images == "rooms":
        return (), ""
    found = None if data is None else _cifar(data)
    if found is not None:
        return (found,), ""
    where = f"no folder of data was named (--data or {VARIABLE})" if data is None else f"{data} does not hold its files"
    return (), f"CIFAR-10 is not there, so images are rendered rooms, with the object's hue as the class: {where}"


def images_of(preset: Preset, data: Path | None, seed: int) -> Images:
    """Read or render everything once."""
    files, _ = image_files(preset, data)
    size = None if files else preset.scene
    return _images(data if files else None, size, preset.train_images, preset.rows, preset.unseen, seed)


@lru_cache(maxsize=1)
def text_of(preset: Preset, seed: int) -> Text:
    """Windows to train on, and windows to compare: of documents that were trained on, or of held-out ones."""
    language = LanguagePreset(
        text=preset.text,
        characters=preset.characters,
        vocabulary=preset.vocabulary,
        context=preset.context,
        held_out=preset.documents,
        windows=preset.windows,
    )
    corpus = corpus_of(language, seed)
    tokens, documents = corpus.held_out[:, :-1], corpus.documents
    rng = np.random.default_rng([seed, 53])
    if not preset.unseen:
        tokens, documents = _training_windows(preset, corpus, seed, rng)
    count = max(preset.rows // preset.context, 2)
    chosen = np.sort(rng.permutation(len(tokens))[:count])
    return Text(corpus, tokens[chosen], documents[chosen])


def _training_windows(preset: Preset, corpus: Corpus, seed: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Windows of documents that were trained on, as many documents as are held out."""
    least = 4 * (preset.context + 1)
    train, _ = split(documents_of(preset.text, preset.characters), preset.documents, least, seed)
    fit = [each for each in train if len(each.text) >= least]
    order = rng.permutation(len(fit))[: preset.documents]
    letters = _LETTERS * preset.context * preset.windows
    coded = [corpus.pairs.encode(fit[place].text[:letters]) for place in order]
    parts = [windows_of(tokens, preset.context, preset.windows) for tokens in coded]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


@lru_cache(maxsize=1)
def _images(data: Path | None, size: int | None, train: int, rows: int, unseen: bool, seed: int) -> Images:
    if data is None:
        drawn = Rooms(size=size or 32, antialias=1).draw(train + _HELD_OUT + (rows if unseen else 0), seed=seed)
        pixels, classes, note = _first(drawn.images()), _hues(drawn), ""
        seen, others = slice(0, train), slice(train, None)
        parts = (pixels[seen], classes[seen], pixels[others], classes[others])
    else:
        name = "cifar10_jpeg" if _binary(data) is None else "cifar10"
        sources = [load(name, data, part=part) for part in ("train", "test")]
        rng = np.random.default_rng([seed, 47])
        chosen = [
            np.sort(rng.permutation(len(source))[:most])
            for source, most in zip(sources, (train, max(_HELD_OUT, rows if unseen else 0)), strict=True)
        ]
        read = [(_first(s.images(c)), s.factors[c, 0].astype(np.int64)) for s, c in zip(sources, chosen, strict=True)]
        parts, note = (*read[0], *read[1]), sources[0].note
    measured = parts[2] if unseen else parts[0]
    return Images(parts[0], parts[1], parts[2][:_HELD_OUT], parts[3][:_HELD_OUT], measured[:rows], note)


def _hues(drawn: Any) -> Array:
    """The object's hue in ten classes."""
    hue = np.asarray(drawn.factors)[:, drawn.factor_names.index("object_hue")]
    return np.minimum((hue * CLASSES).astype(np.int64), CLASSES - 1)


def _first(images: Array) -> Array:
    """Channels first."""
    return np.ascontiguousarray(np.moveaxis(images, -1, 1))


def _binary(data: Path) -> Path | None:
    return next((path for file in _BINARY if (path := find_file(data, "cifar10", file)) is not None), None)


def _cifar(data: Path) -> Path | None:
    return _binary(data) or find_file(data, "cifar10_jpeg", digits_and_photos.JPEGS)


KINDS = {"gpt": "GPT", "mae": "masked autoencoder", "cnn": "supervised CNN", "ae": "autoencoder"}
"""What is trained here."""

SOURCES = ("cifar10", "rooms")


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
        What is trained: ``gpt``, ``mae``, ``cnn``, ``ae``.
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
        Whether they are of texts and images that were not trained on; the published ones were trained on.
    text, characters, vocabulary, context, documents, windows
        A text file or folder (by default the prose of Python's library), how much of it, tokens, tokens seen at once,
        documents that are held out, and as many that are measured, with so many windows of each.
    gpt, heads, mae_width, mae_depth, mae_patch, cnn_width, latents
        Of the networks; ``gpt`` is ``WIDTHxLAYERS``.
    gpt_steps, mae_steps, cnn_steps, ae_steps : int
    gpt_batch, batch : int
        Windows, and images.
    gpt_rate, mae_rate, cnn_rate, ae_rate : float
        Learning rates of AdamW, with a warm-up and then a cosine.
    weight_decay : float
        Of all; it is multiplied by the learning rate, so a short training decays little.
    n_null, n_boot : int
        Shuffled pairings, and draws for intervals.
    control : bool
        Whether networks as they were before training are compared, too.
    threads : int
        Of torch; 0 leaves them as they are.
    """

    pairs: str = ""
    both: bool = False
    kinds: tuple[str, ...] = ("gpt", "mae", "cnn", "ae")
    seeds: int = 3
    images: str = "cifar10"
    scene: int = 32
    train_images: int = 20_000
    rows: int = 6_000
    unseen: bool = False
    text: str = ""
    characters: int | None = 2_000_000
    vocabulary: int = 512
    context: int = 64
    documents: int = 60
    windows: int = 4
    gpt: str = "64x4"
    heads: int = 4
    mae_width: int = 64
    mae_depth: int = 4
    mae_patch: int = 4
    cnn_width: int = 16
    latents: int = 32
    gpt_steps: int = 1_200
    mae_steps: int = 1_500
    cnn_steps: int = 900
    ae_steps: int = 2_500
    gpt_batch: int = 16
    batch: int = 64
    gpt_rate: float = 3e-3
    mae_rate: float = 2e-3
    cnn_rate: float = 3e-3
    ae_rate: float = 1e-3
    weight_decay: float = 0.1
    n_null: int = 10
    n_boot: int = 500
    control: bool = True
    threads: int = 0

    def __post_init__(self) -> None:
        if unknown := [kind for kind in self.kinds if kind not in KINDS]:
            raise InputError(f"kinds has {unknown[0]!r}; known are {', '.join(KINDS)}")
        if len(set(self.kinds)) < len(self.kinds) or self.seeds < 2:
            raise InputError("kinds are named once each, and there are at least 2 seeds")
        if self.images not in SOURCES:
            raise InputError(f"images is {self.images!r}; known are {', '.join(SOURCES)}")
        counts = (self.gpt_steps, self.mae_steps, self.cnn_steps, self.ae_steps, self.gpt_batch, self.batch)
        if min(*counts, self.train_images, self.rows, self.scene, self.documents, self.windows) < 1:
            raise InputError("steps, batches, images, rows, documents and windows are from 1 on")


SCALES = {
    "smoke": Preset(
        seeds=2,
        images="rooms",
        scene=16,
        train_images=600,
        rows=600,
        characters=700_000,
        vocabulary=300,
        context=32,
        documents=16,
        gpt="16x2",
        mae_width=16,
        mae_depth=2,
        cnn_width=4,
        latents=8,
        gpt_steps=30,
        mae_steps=30,
        cnn_steps=20,
        ae_steps=60,
        gpt_batch=8,
        batch=32,
        n_null=3,
        n_boot=100,
    ),
    "laptop": Preset(threads=2),
    "paper": Preset(
        seeds=4,
        train_images=50_000,
        rows=20_000,
        characters=None,
        vocabulary=4_096,
        context=256,
        documents=120,
        gpt="384x12",
        heads=8,
        mae_width=192,
        mae_depth=12,
        cnn_width=64,
        latents=128,
        gpt_steps=20_000,
        mae_steps=100_000,
        cnn_steps=40_000,
        ae_steps=100_000,
        gpt_batch=32,
        batch=128,
        gpt_rate=1e-3,
        mae_rate=1e-3,
        cnn_rate=1e-3,
        n_null=20,
        n_boot=1_000,
        threads=2,
    ),
}

PAPER = "Nelson et al. 2026, section 4.2, Table 1 and appendix A.7.2"
SOURCE = "Table 1, in sample"


@dataclass(frozen=True)
class Published:
    """A row of Table 1: errors in diameters, in sample, and the family that its theory is for."""

    name: str
    kind: str
    permutation: float
    rigid: float
    linear: float
    ica: float
    efficiency: float


PUBLISHED = {
    row.name: row
    for row in (
        Published("Pythia-160M", "gpt", 0.219, 0.150, 0.131, 0.202, 0.25),
        Published("MAE", "mae", 0.197, 0.109, 0.036, 0.145, 0.59),
        Published("CheXpert", "mae", 0.218, 0.104, 0.048, 0.175, 0.38),
        Published("ResNet-18", "cnn", 0.382, 0.206, 0.175, 0.312, 0.40),
    )
}

LEFT_OPEN = (
    "The text does not say how many examples Table 1 has, nor which. All of its numbers are in sample; whether they "
    "are of one direction or of both is not said either. Efficiency is (permutation − ICA) / (permutation − rigid), "
    "which gives the four printed values; the text calls it the reduction relative to the rigid map."
)
