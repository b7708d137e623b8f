"""Which array, tensor or columns of a file are the representation, when the user has not said so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array

IDS_NAMES = ("ids", "id")
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
METADATA_PREFIX = "Metadata_"
FEATURE_PREFIX = "feature_"

# Ids and labels are held in memory. Honest ones may unpack a hundredfold (UTF-32 of compressed text); a zip bomb
# unpacks a thousandfold, and is met while it is still small.
_LABELS_BYTES = 2**29
_LABELS_RATIO = 100


def default_ids_name(names: Sequence[str]) -> str | None:
    """The array or column that holds row ids by convention."""
    return next((name for name in (*IDS_NAMES, *INDEX_NAMES) if name in names), None)


def choose_array(shapes: dict[str, tuple[int, ...]], key: str | None, noun: str) -> str:
    """The named array, or the only one that can be a representation."""
    if key is not None:
        if key not in shapes:
            raise InputError(f"there is no {noun} {key!r}; there are {_listing(shapes) or 'none'}")
        return key
    if not shapes:
        raise InputError(f"there is no {noun} in it besides row ids")
    if len(shapes) == 1:
        return next(iter(shapes))
    candidates = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(candidates) == 1:
        return candidates[0]
    raise InputError(f"several {noun}s could be meant ({_listing(shapes)}): name one with key=, or as FILE::NAME")


def choose_columns(
    names: Sequence[str], numeric: Sequence[str], lists: Sequence[str], key: str | None, index: Sequence[str]
) -> tuple[list[str], str | None]:
    """Columns of a table that make up the representation: plain ones, or one list column.

    ``feature_*`` columns come first, then the one list column, then all numeric columns that are neither row ids
    (``index``) nor ``Metadata_*``. A key is the name of a list column, or a prefix of plain ones. Columns asked for by
    prefix are taken whatever they hold: if it is no number, that is an error and not a column less.
    """
    hidden = {*index, *INDEX_NAMES}
    numeric = [name for name in numeric if name not in hidden]
    plain_names = [name for name in names if name not in hidden and name not in lists]
    if key is not None:
        if key in lists:
            return [], key
        chosen = [name for name in plain_names if name.startswith(key)]
        if not chosen:
            raise InputError(f"there is no list column {key!r} and no other column that starts with it")
        return chosen, None
    features = [name for name in plain_names if name.startswith(FEATURE_PREFIX)]
    if features:
        return features, None
    if len(lists) == 1:
        return [], lists[0]
    if len(lists) > 1:
        raise InputError(
            f"several list columns could be meant ({', '.join(lists)}): name one with key=, or as FILE::NAME"
        )
    plain = [name for name in numeric if not name.startswith(METADATA_PREFIX)]
    if not plain:
        raise InputError("there is no feature_* column, no list column and no other numeric column")
    return plain, None


def as_ids(labels: Array | list[str]) -> Array:
    """Row ids from text: integers where every entry is one (and none has leading zeros), otherwise the text."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "U":
        return labels
    if all(cell.isascii() and cell.isdigit() and (cell == "0" or cell[0] != "0") and len(cell) < 19 for cell in labels):
        return np.array(labels, dtype=np.int64)
    return np.array(labels, dtype=str)


def as_text(labels: Any, stored_bytes: int, what: str) -> Array:
    """Labels of any kind as an array of text, unless the longest would make it too large."""
    texts = [label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label) for label in labels]
    require_plausible(4 * len(texts) * max(map(len, texts), default=0), stored_bytes, what)
    return np.array(texts, dtype=str)


def require_plausible(unpacked_bytes: int, stored_bytes: int, what: str) -> None:
    """Refuse ids or labels that would unpack to far more than the file they come from."""
    if unpacked_bytes > max(_LABELS_BYTES, _LABELS_RATIO * stored_bytes):
        raise InputError(f"{what} unpacks to {unpacked_bytes} bytes or more, too much for row ids or labels")


def _listing(shapes: dict[str, tuple[int, ...]], most: int = 12) -> str:
    shown = [f"{name} {shape}" for name, shape in list(shapes.items())[:most]]
    return ", ".join(shown) + (f" and {len(shapes) - most} more" if len(shapes) > most else "")
