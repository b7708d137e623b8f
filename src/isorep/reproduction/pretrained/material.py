"""What is trained on and measured on: images with classes, and windows of text with their documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import Rooms, cifar10, load
from ...datasets.folder import VARIABLE, find_file
from ...representation import Array
from ..layers.presets import Preset as LanguagePreset
from ..layers.text import Corpus, corpus_of, documents_of, split, windows_of
from .presets import Preset

CLASSES = 10
_HELD_OUT = 1_000  # images that losses and accuracies are read on
_BINARY = ("cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin", cifar10.ARCHIVE)
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
    return _binary(data) or find_file(data, "cifar10_jpeg", cifar10.JPEGS)
