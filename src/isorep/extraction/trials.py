"""What a model does with one example or two, tried before a run: does padding, company or chance change its rows?

A row must be what its example gives alone. Some models do not keep padding out (their mask is not used, or
convolutions reach into it): their batches hold documents of one length. A model that mixes examples, because its
first axis is that of positions, or because it takes statistics of a batch, is refused.

Examples as a model takes them: documents for a model of language, rows for any other; and the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .data import Rows, TokenRows
from .documents import Cutter, Documents, padded
from .model import TRANSFORMER, TWO_SIDES, Source, has_two_sides
from .passes import Batch, Passes, not_examples
from .run import rows_batch

if TYPE_CHECKING:
    import torch

_TOKENS = 32  # of a document that is tried
_PADDING = 3
_SINGLE, _HALF = 1e-3, 0.1  # largest differences that rounding makes, in units of the largest value


@dataclass(frozen=True)
class Trial:
    """Whether documents have to be of one length in a batch, and what is to be said."""

    equal_lengths: bool = False
    notes: tuple[str, ...] = ()


def try_document(passes: Passes, first: Batch, context: int | None, pad: int) -> Trial:
    """Show a few tokens twice, and once with padding after them."""
    if passes.changes_attention:
        return Trial(True)
    room = max(1, (context or _TOKENS + _PADDING) - _PADDING)
    count = min(first.inputs.shape[1], room, _TOKENS)
    types = None if first.types is None else first.types[:, :count]
    short = Batch(first.inputs[:, :count], "tokens", np.ones((1, count), dtype=bool), None, types)
    ends = ((0, 0), (0, _PADDING))
    longer = replace(
        short,
        inputs=np.pad(short.inputs, ends, constant_values=pad),
        attended=np.pad(np.ones((1, count), dtype=bool), ends),
        types=None if short.types is None else np.pad(short.types, ends),
    )
    with passes.outputs() as outputs:
        alone, again = outputs(short), outputs(short)
        notes = _random(passes, alone, again)
        if notes or (context is not None and count + _PADDING > context):
            return Trial(notes=notes)
        beside = [each[:, :count] if each.dim() == 3 else each for each in outputs(longer)]
    for layer, a, b in zip(passes.layers, alone, beside, strict=True):
        if a.shape == b.shape and _far(a, b):
            together = "so that only documents of one length went through the model together"
            return Trial(True, (f"padding changes layer {layer.label}, {together}",))
    return Trial()


def try_rows(passes: Passes, examples: Rows, pad: int | None, batch: int | None) -> Trial:
    """Show an example twice alone, and once beside another one."""
    if examples.count < 2:
        return Trial()
    pair, one = rows_batch(examples, 0, 2, pad), rows_batch(examples, 1, 2, pad)
    with passes.outputs() as outputs:
        alone, again = outputs(one), outputs(one)
        notes = _random(passes, alone, again)
        if notes or batch == 1 or not all(each.dim() for each in alone):  # a number is refused with its shape
            return Trial(notes=notes)
        both = outputs(pair)
    for layer, single, double in zip(passes.layers, alone, both, strict=True):
        if (len(single), len(double)) != (1, 2):
            raise InputError(not_examples(layer, double, 2))
        if single.shape[1:] == double.shape[1:] and _far(single[0], double[1]):
            mixed = f"layer {layer.label!r} gives an example other values when another one is in the batch"
            why = "its first axis is not that of examples (batch_first=True?), or it takes statistics of the batch"
            raise InputError(f"{mixed}: {why}; --batch 1 runs each example alone")
    return Trial()


def _random(passes: Passes, one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> tuple[str, ...]:
    return tuple(
        f"layer {layer.label} gave other values when the same example was shown again: the model draws random numbers"
        for layer, a, b in zip(passes.layers, one, other, strict=True)
        if a.shape != b.shape or _far(a, b)
    )


def _far(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two outputs differ by more than rounding; what is not finite is refused later, with its row."""
    if not a.is_floating_point() or not a.numel():
        return False
    one, other = a.cpu().double(), b.cpu().double()  # not every device knows float64
    allowed = (_SINGLE if a.dtype.itemsize >= 4 else _HALF) * one.abs().max()
    return bool((one - other).abs().max() > allowed)


_HOLDS = {"text": "texts", "tokens": "whole numbers, which are taken as token ids", "values": "floating-point numbers"}


def as_taken(examples: Rows | Documents, source: Source, pad: int | None) -> Rows | Documents:
    """Documents where the model has a notion of them."""
    if source.kind == TRANSFORMER:
        _require_kind(examples, source)
    if isinstance(examples, Documents) and source.tokenizer is None:
        raise InputError(f"{examples.name} holds texts and {source.name} has no tokenizer: give token ids")
    if isinstance(examples, Rows) and examples.kind == "tokens" and source.kind == TRANSFORMER:
        if len(examples.read(0, 1).shape) != 2:
            raise InputError(f"{examples.name} holds whole numbers of more than two axes, which are no token ids")
        return TokenRows(examples, pad)
    return examples


def first_batch(examples: Rows | Documents, cutter: Cutter, pad: int | None) -> Batch:
    """One example that is not empty."""
    if isinstance(examples, Rows):
        for row in range(examples.count):
            batch = rows_batch(examples, row, row + 1, pad)
            if batch.kept is None or batch.kept.any():
                return batch
    else:
        for document in examples:
            windows = cutter.windows(0, document.content)
            if windows:
                return padded(windows[:1], 0)
    raise InputError(f"all examples of {examples.name} are empty: there is no token in them")


def padding_id(source: Source, pad: int | None) -> int | None:
    """The id that fills up batches: it is masked, so any will do that the model has."""
    if source.kind != TRANSFORMER:
        return pad
    known = source.vocabulary
    for token in (pad, getattr(source.tokenizer, "pad_token_id", None)):
        if isinstance(token, int) and token >= 0 and (known is None or token < known):
            return token
    return 0


def _require_kind(examples: Rows | Documents, source: Source) -> None:
    """Refuse images for a model of language, and texts for one of images or sounds."""
    words = examples.kind in ("text", "tokens")
    if words == (source.takes == "input_ids"):
        return
    if has_two_sides(source):
        raise InputError(f"{source.name} {TWO_SIDES}")
    images = "images, or " if source.takes == "pixel_values" else ""
    wanted = f"{source.takes}: {images}an array of floating-point numbers" if words else "texts or token ids"
    holds = _HOLDS.get(examples.kind, examples.kind)
    raise InputError(f"{examples.name} holds {holds}, and {source.name} takes {wanted}")
