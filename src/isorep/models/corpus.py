"""Corpus of byte pairs: tokens learnt from the text itself, windows to train on, and windows of held-out documents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
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
        """Nats per held-out token by the frequency of training tokens alone: the baseline of a model."""
        counts = np.bincount(self.train.ravel(), minlength=self.pairs.vocabulary) + 1.0
        return float(-np.log(counts / counts.sum())[self.held_out[:, 1:].ravel()].mean())


@lru_cache(maxsize=2)
def corpus_of(
    text: str, characters: int | None, vocabulary: int, context: int, held_out: int, windows: int, seed: int
) -> Corpus:
    """The tokens of a text: byte pairs learnt from training documents, with a limited number of held-out windows."""
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
    fit = [index for index, each in enumerate(documents) if least <= len(each.text) <= most]
    if len(fit) <= held_out or held_out < 2:
        why = f"of {len(documents)}, {len(fit)} are long enough and not most of the text"
        raise InputError(f"{held_out} documents cannot be held out: {why}; hold out at least 2, and leave one more")
    chosen = set(np.random.default_rng([seed, 31]).choice(fit, held_out, replace=False).tolist())
    train = [each for index, each in enumerate(documents) if index not in chosen]
    return train, [documents[index] for index in sorted(chosen)]


def windows_of(tokens: Array, size: int, most: int) -> Array:
    """A limited number of consecutive windows, spread over the tokens."""
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
    match = _SIZE.fullmatch(size)
    if match is None or min(map(int, match.groups())) < 1:
        raise InputError(f"{size!r} is not a size such as 64x4: width and layers")
    return int(match[1]), int(match[2])


def _too_short(size: int) -> InputError:
    return InputError(f"the text is too short for windows of {size} tokens: shorten the context or give more text")


_BYTES = 256
_PIECES = re.compile(r" ?\w+| ?[^\w\s]+|\s+")


class BytePairs:
    """Text as whole numbers: bytes first, then pairs of tokens that occur often side by side within a word.

    Parameters
    ----------
    merges : sequence of pairs of int
        The pair that each token from 256 on stands for.

    Examples
    --------
    >>> from isorep.models import BytePairs
    >>> tokens = BytePairs.learnt(["low lower lowest"], 258)
    >>> tokens.merges
    ((108, 111), (256, 119))
    >>> tokens.decode(tokens.encode("lowest"))
    'lowest'
    """

    def __init__(self, merges: Sequence[tuple[int, int]]) -> None:
        self.merges = tuple((int(left), int(right)) for left, right in merges)
        for rank, pair in enumerate(self.merges):
            if not all(0 <= part < _BYTES + rank for part in pair):
                raise InputError(f"the token {_BYTES + rank} is made of {pair}, which do not come before it")
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known: dict[str, list[int]] = {}

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return _BYTES + len(self.merges)

    @classmethod
    def learnt(cls, texts: Iterable[str], vocabulary: int) -> BytePairs:
        """The most frequent pair becomes a token, again and again; equal counts go to the smaller numbers."""
        if vocabulary < _BYTES:
            raise InputError(f"a vocabulary of {vocabulary} does not hold the {_BYTES} bytes")
        counts = Counter(piece for text in texts for piece in _PIECES.findall(text))
        words = [(list(_coded(piece)), count) for piece, count in counts.items()]
        pairs: Counter[tuple[int, int]] = Counter()
        homes: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for word_index, (word, count) in enumerate(words):
            for pair in pairwise(word):
                pairs[pair] += count
                homes[pair].add(word_index)
        merges: list[tuple[int, int]] = []
        while len(merges) < vocabulary - _BYTES and pairs:
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            if pairs[best] < 2:
                break
            for word_index in homes.pop(best):
                word, count = words[word_index]
                for pair in pairwise(word):
                    pairs[pair] -= count
                word[:] = _merged(word, best, _BYTES + len(merges))
                for pair in pairwise(word):
                    pairs[pair] += count
                    homes[pair].add(word_index)
            del pairs[best]
            merges.append(best)
        return cls(merges)

    def encode(self, text: str) -> Any:
        """Tokens of a text."""
        pieces = _PIECES.findall(text)
        self._known |= {piece: self._piece(piece) for piece in set(pieces) - set(self._known)}
        return np.array([token for piece in pieces for token in self._known[piece]], dtype=np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of tokens; bytes that are no text are replaced."""
        spelt = [bytes([byte]) for byte in range(_BYTES)]
        for left, right in self.merges:
            spelt.append(spelt[left] + spelt[right])
        return b"".join(spelt[token] for token in tokens).decode("utf-8", "replace")

    def _piece(self, piece: str) -> list[int]:
        """The earliest merge first, as it was learnt."""
        word = list(_coded(piece))
        while len(word) > 1:
            rank, pair = min((self._ranks.get(pair, len(self._ranks)), pair) for pair in pairwise(word))
            if rank == len(self._ranks):
                break
            word = _merged(word, pair, _BYTES + rank)
        return word


def _coded(piece: str) -> bytes:
    return piece.encode("utf-8", "surrogatepass")


def _merged(word: list[int], pair: tuple[int, int], token: int) -> list[int]:
    merged: list[int] = []
    last: int | None = None  # the token before, unless a merge has taken it
    for part in word:
        if (last, part) == pair:
            merged[-1], last = token, None
        else:
            merged.append(part)
            last = part
    return merged
