"""Examples as a model takes them: documents for a model of language, rows for any other; and the first of them."""

from __future__ import annotations

from ...errors import InputError
from .arrays import Rows
from .data import TokenRows
from .passes import Batch
from .running import rows_batch
from .sources import TRANSFORMER, TWO_SIDES, Source, has_two_sides
from .texts import Documents
from .windows import Cutter, padded

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
    for found in (pad, getattr(source.tokenizer, "pad_token_id", None)):
        if isinstance(found, int) and found >= 0 and (known is None or found < known):
            return found
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
