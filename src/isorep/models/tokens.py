"""Tokens of text: byte pairs, learnt from the text itself, so that no vocabulary has to be shipped."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import InputError

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
        for place, pair in enumerate(self.merges):
            if not all(0 <= part < _BYTES + place for part in pair):
                raise InputError(f"the token {_BYTES + place} is made of {pair}, which do not come before it")
        self._ranks = {pair: place for place, pair in enumerate(self.merges)}
        self._known: dict[str, list[int]] = {}

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
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
        for place, (word, count) in enumerate(words):
            for pair in pairwise(word):
                pairs[pair] += count
                homes[pair].add(place)
        merges: list[tuple[int, int]] = []
        while len(merges) < vocabulary - _BYTES and pairs:
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            if pairs[best] < 2:
                break
            for place in homes.pop(best):
                word, count = words[place]
                for pair in pairwise(word):
                    pairs[pair] -= count
                word[:] = _merged(word, best, _BYTES + len(merges))
                for pair in pairwise(word):
                    pairs[pair] += count
                    homes[pair].add(place)
            del pairs[best]
            merges.append(best)
        return cls(merges)

    def encode(self, text: str) -> Any:
        """Tokens of a text."""
        found: list[int] = []
        for piece in _PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = self._piece(piece)
            found += self._known[piece]
        return np.array(found, dtype=np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of tokens; bytes that are no text are replaced."""
        spelt = [bytes([place]) for place in range(_BYTES)]
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
    found: list[int] = []
    place = 0
    while place < len(word):
        if place + 1 < len(word) and (word[place], word[place + 1]) == pair:
            found.append(token)
            place += 2
        else:
            found.append(word[place])
            place += 1
    return found
