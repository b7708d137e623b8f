"""Text as examples: words by frequency, the words before each of them, and blocks of text that are held out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...datasets.text import Document, standard_library_text, text_digest, text_documents
from ...errors import InputError
from ...representation import Array

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_BLOCK, _EVERY = 500, 10
LEAST = 1000
"""Examples without which nothing is trained."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Contexts and next words, as numbers by frequency; one block of 500 words in ten is held out.

    Two numbers follow those of the vocabulary: any other word, and the empty places before a document.
    """

    vocabulary: tuple[str, ...]
    contexts: Array
    words: Array
    test_contexts: Array
    test_words: Array
    test_blocks: Array
    shares: Array
    facts: dict[str, object]

    @property
    def unigram(self) -> float:
        """The loss on held-out text of knowing the shares of words alone."""
        return float(-np.log(self.shares[self.test_words]).mean())


@lru_cache(maxsize=2)
def corpus(text: str, characters: int | None, vocabulary: int, context: int) -> Corpus:
    """The examples of a text; the same text gives the same ones."""
    documents = text_documents(text, characters) if text else standard_library_text(characters)
    return examples(documents, vocabulary, context, text or "standard library of Python")


def words_of(text: str) -> list[str]:
    """Runs of letters in lower case, with an apostrophe inside; digits and underscores part words."""
    return _WORD.findall(text.lower())


def examples(documents: list[Document], vocabulary: int, context: int, source: str) -> Corpus:
    """Documents as contexts and next words."""
    texts = [words_of(document.text) for document in documents]
    counts = Counter(word for text in texts for word in text)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:vocabulary]
    if len(ranked) < vocabulary:
        raise InputError(f"the text has {len(ranked)} different words, fewer than the vocabulary of {vocabulary}")
    numbers = {word: place for place, (word, _) in enumerate(ranked)}
    seen, following, blocks = _windows(texts, numbers, context)
    out = blocks % _EVERY == 0
    if min(int(out.sum()), int((~out).sum())) < LEAST:
        raise InputError(f"the text has {len(following)} words of the vocabulary: too few to train on and to hold out")
    shares = 1.0 + np.bincount(following[~out], minlength=vocabulary)
    total = sum(counts.values())
    facts = {
        "source": source,
        "digest": text_digest(documents),
        "documents": len(documents),
        "characters": sum(len(document.text) for document in documents),
        "words": total,
        "different_words": len(counts),
        "covered": sum(count for _, count in ranked) / total,
        "examples": int((~out).sum()),
        "held_out": int(out.sum()),
        "rarest": ranked[-1][1],
    }
    return Corpus(
        vocabulary=tuple(word for word, _ in ranked),
        contexts=seen[~out],
        words=following[~out],
        test_contexts=seen[out],
        test_words=following[out],
        test_blocks=blocks[out],
        shares=shares / shares.sum(),
        facts=facts,
    )


def _windows(texts: list[list[str]], numbers: dict[str, int], context: int) -> tuple[Array, Array, Array]:
    """All places whose word is in the vocabulary: the words before, the word, and the block of text."""
    other, empty = len(numbers), len(numbers) + 1
    seen, following, blocks = [], [], []
    first = 0
    for text in texts:
        coded = np.array([empty] * context + [numbers.get(word, other) for word in text], dtype=np.int64)
        if len(coded) <= context:
            continue
        window = np.lib.stride_tricks.sliding_window_view(coded, context + 1)
        block = first + np.arange(len(window)) // _BLOCK
        first = int(block[-1]) + 1
        known = window[:, -1] < other
        seen.append(window[known, :-1])
        following.append(window[known, -1])
        blocks.append(block[known])
    if not seen:
        raise InputError("the text holds no words")
    return np.concatenate(seen), np.concatenate(following), np.concatenate(blocks)
