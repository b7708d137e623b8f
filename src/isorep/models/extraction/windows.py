"""Documents as windows of tokens that a model takes, and batches of windows of about one length.

A document longer than the context is cut into windows one after the other, without overlap; each gets the special
tokens that the tokenizer puts around a text, while ids of tokens are taken as they are. All windows of a document
belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError
from ...representation import Array
from ..loading import said
from .passes import Batch


@dataclass(frozen=True)
class Window:
    """Some tokens of a document; ``kept`` marks those that may come out as rows, ``types`` are their segments."""

    document: int  # its place among those that are read together
    tokens: Array
    kept: Array
    types: Array | None = None


@dataclass(frozen=True)
class Around:
    """What a tokenizer puts before and after a text, and the segments of all three where they are not the first."""

    before: list[int]
    after: list[int]
    types: tuple[list[int], int, list[int]] | None = None


class Cutter:
    """Cuts documents into windows."""

    def __init__(self, tokenizer: Any, context: int | None, *, special: bool = True, truncate: bool = False) -> None:
        self._tokenizer, self._context, self._special, self._truncate = tokenizer, context, special, truncate
        self._around: Around | None = None

    def windows(self, place: int, content: Any) -> list[Window]:
        """The windows of a document; none of an empty one."""
        tokens = self._tokens(content)
        if len(tokens) == 0:
            return []
        around = self._special_tokens() if isinstance(content, str) else Around([], [])
        room = len(tokens) if self._context is None else self._context - len(around.before) - len(around.after)
        starts = range(0, len(tokens), room)[: 1 if self._truncate else None]
        return [self._window(place, tokens[start : start + room], around) for start in starts]

    def _tokens(self, content: Any) -> list[int]:
        if not isinstance(content, str):
            return list(content)
        if not content.strip():
            return []
        try:
            found: list[int] = self._tokenizer(content, add_special_tokens=False, verbose=False)["input_ids"]
        except Exception as error:  # whatever a stranger's tokenizer raises
            raise InputError(f"the tokenizer fails on {content[:40]!r}: {said(error)}") from error
        return found

    def _special_tokens(self) -> Around:
        if self._around is None:
            self._around = _special_tokens(self._tokenizer)
            count = len(self._around.before) + len(self._around.after)
            if self._context is not None and self._context <= count:
                raise InputError(f"a context of {self._context} tokens has no room beside {count} special tokens")
        return self._around

    def _window(self, place: int, tokens: Sequence[int], around: Around) -> Window:
        whole = np.array([*around.before, *tokens, *around.after], dtype=np.int64)
        kept = np.ones(len(whole), dtype=bool)
        if not self._special:
            kept[: len(around.before)] = False
            kept[len(whole) - len(around.after) :] = False
        if around.types is None:
            return Window(place, whole, kept)
        before, inside, after = around.types
        return Window(place, whole, kept, np.array([*before, *([inside] * len(tokens)), *after], dtype=np.int64))


def batches(windows: Sequence[Window], size: int | None, tokens: int, *, equal: bool = False) -> Iterator[list[int]]:
    """Places of windows that go through the model together: those of about one length, the longest first.

    A batch has ``size`` of them, or else as many as have this number of tokens; with ``equal`` all have one length.
    """
    order = sorted(range(len(windows)), key=lambda place: -len(windows[place].tokens))
    while order:
        longest = len(windows[order[0]].tokens)
        take = size or max(1, tokens // longest)
        if equal:
            take = min(take, sum(len(windows[place].tokens) == longest for place in order))
        yield order[:take]
        order = order[take:]


def padded(windows: Sequence[Window], pad: int) -> Batch:
    """Token ids with padding after them, the mask of what is attended to, and that of what is kept."""
    longest = max(len(window.tokens) for window in windows)
    tokens = np.full((len(windows), longest), pad, dtype=np.int64)
    real, kept = np.zeros((len(windows), longest), dtype=bool), np.zeros((len(windows), longest), dtype=bool)
    types = None if windows[0].types is None else np.zeros((len(windows), longest), dtype=np.int64)
    for place, window in enumerate(windows):
        length = len(window.tokens)
        tokens[place, :length] = window.tokens
        real[place, :length] = True
        kept[place, :length] = window.kept
        if types is not None and window.types is not None:
            types[place, :length] = window.types
    return Batch(tokens, "tokens", real, kept, types)


def _special_tokens(tokenizer: Any) -> Around:
    """What a tokenizer puts before and after a text."""
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    found = tokenizer("a")
    whole, types = found["input_ids"], found.get("token_type_ids") or []
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain and plain:
            stop = start + len(plain)
            segments = (types[:start], types[start], types[stop:]) if any(types) else None
            return Around(whole[:start], whole[stop:], segments)
    raise InputError("the tokenizer does not put its special tokens around a text: give token ids instead")
