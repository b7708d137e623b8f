"""The text as tokens: windows to train on, and windows of held-out documents to measure on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.text import Document, standard_library_text, text_digest, text_documents
from ...errors import InputError
from ...representation import Array
from .presets import Preset

_LARGEST = 0.05
"""Share of all text above which a document is always trained on, unless documents are few."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Windows of ``context`` + 1 tokens: the last is what follows.

    ``documents`` numbers the held-out document of every window of ``held_out``.
    """

    pairs: Any
    train: Array
    held_out: Array
    documents: Array
    digest: str
    characters: int

    @property
    def unigram(self) -> float:
        """Nats of a held-out token by the frequency of training tokens alone: what a model must beat."""
        counts = np.bincount(self.train.ravel(), minlength=self.pairs.vocabulary) + 1.0
        return float(-np.log(counts / counts.sum())[self.held_out[:, 1:].ravel()].mean())


def corpus_of(preset: Preset, seed: int) -> Corpus:
    """The tokens of a preset's text."""
    return _corpus(
        preset.text, preset.characters, preset.vocabulary, preset.context, preset.held_out, preset.windows, seed
    )


def documents_of(text: str, characters: int | None) -> list[Document]:
    """The user's text, or the prose of Python's library."""
    return text_documents(Path(text).expanduser(), characters) if text else standard_library_text(characters)


def split(documents: Sequence[Document], held_out: int, least: int, seed: int) -> tuple[list[Document], list[Document]]:
    """Documents to train on and others to measure on, drawn from those of some length that are not most of the text."""
    total = sum(len(each.text) for each in documents)
    most = max(_LARGEST * total, 2 * total / len(documents))
    fit = [place for place, each in enumerate(documents) if least <= len(each.text) <= most]
    if len(fit) <= held_out or held_out < 2:
        raise InputError(
            f"{held_out} documents cannot be held out: of {len(documents)}, {len(fit)} are long enough and not most of "
            "the text, at least 2 are held out, and one more is needed"
        )
    chosen = set(np.random.default_rng([seed, 31]).choice(fit, held_out, replace=False).tolist())
    return (
        [each for place, each in enumerate(documents) if place not in chosen],
        [each for place, each in enumerate(documents) if place in chosen],
    )


def windows_of(tokens: Array, size: int, most: int) -> Array:
    """At most so many windows side by side, spread over the tokens."""
    count = len(tokens) // size
    if count < 1:
        return np.empty((0, size), dtype=np.int64)
    chosen = np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))
    return np.asarray(tokens[: count * size].reshape(count, size)[chosen])


@lru_cache(maxsize=2)
def _corpus(
    text: str, characters: int | None, vocabulary: int, context: int, held_out: int, windows: int, seed: int
) -> Corpus:
    from ...models import BytePairs

    documents = documents_of(text, characters)
    train, others = split(documents, held_out, 4 * (context + 1), seed)
    pairs = BytePairs.learnt((each.text for each in train), vocabulary)
    stream = np.concatenate([pairs.encode(each.text) for each in train])
    rows = windows_of(stream, context + 1, len(stream))
    parts = [windows_of(pairs.encode(each.text), context + 1, windows) for each in others]
    places = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if len(rows) < 1 or len(np.unique(places)) < 2:
        raise InputError(
            f"the text is too short for windows of {context} tokens: shorten the context or give more text"
        )
    return Corpus(
        pairs, rows, np.concatenate(parts), places, text_digest(documents), sum(len(e.text) for e in documents)
    )
