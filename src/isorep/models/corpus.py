"""Corpus of byte pairs: windows of tokens to train small GPTs on, and windows of documents that are held out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.text import Document, standard_library_text, text_digest, text_documents
from ..errors import InputError
from ..representation import Array

_LARGEST = 0.05  # share of all text above which a document is always trained on, unless documents are few
_SIZE = re.compile(r"(\d{1,5})x(\d{1,3})")


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


@lru_cache(maxsize=2)
def corpus_of(
    text: str, characters: int | None, vocabulary: int, context: int, held_out: int, windows: int, seed: int
) -> Corpus:
    """The tokens of a text: byte pairs learnt from the training documents, at most so many windows of each other."""
    from .tokens import BytePairs

    documents = documents_of(text, characters)
    train, others = split(documents, held_out, 4 * (context + 1), seed)
    pairs = BytePairs.learnt((each.text for each in train), vocabulary)
    stream = np.concatenate([pairs.encode(each.text) for each in train])
    rows = windows_of(stream, context + 1, len(stream))
    unseen, places = document_windows([pairs.encode(each.text) for each in others], context + 1, windows)
    if len(rows) < 1:
        raise _too_short(context + 1)
    return Corpus(pairs, rows, unseen, places, text_digest(documents), sum(len(each.text) for each in documents))


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


def document_windows(coded: Sequence[Array], size: int, most: int) -> tuple[Array, Array]:
    """Windows of all documents, and the document of each; at least two documents must have one."""
    parts = [windows_of(tokens, size, most) for tokens in coded]
    places = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if len(np.unique(places)) < 2:
        raise _too_short(size)
    return np.concatenate(parts), places


def parsed(size: str) -> tuple[int, int]:
    """Width and layers of a GPT that is named ``WIDTHxLAYERS``."""
    found = _SIZE.fullmatch(size)
    if found is None or min(map(int, found.groups())) < 1:
        raise InputError(f"{size!r} is not a size such as 64x4: width and layers")
    return int(found[1]), int(found[2])


def _too_short(size: int) -> InputError:
    return InputError(f"the text is too short for windows of {size} tokens: shorten the context or give more text")
