"""Which array, tensor or columns of a file are the representation, when the user has not said so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .cells import FLAG, NUMBER, TEXT

IDS_NAMES = ("ids", "id")
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
METADATA_PREFIX = "Metadata_"
FEATURE_PREFIX = "feature_"
LIST = "list of numbers"

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


@dataclass(frozen=True)
class Choice:
    """The columns of a table that are the representation: plain ones, or one list column; and what else it holds."""

    columns: list[str]
    list_column: str | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # the other columns, and why
    doubtful: list[str] = field(default_factory=list)  # those of them that would be features if they held numbers

    def require(self) -> None:
        """Refuse a table without anything to choose."""
        if not self.columns and self.list_column is None:
            raise InputError("there is no feature_* column, no list column and no other numeric column")


def choose_columns(kinds: Mapping[str, str], key: str | None, used: Collection[str]) -> Choice:
    """Choose the columns of a table that make up the representation: plain ones, or one list column.

    ``feature_*`` columns come first, then the one list column, then all numeric columns that are not ``Metadata_*``. A
    key is the name of a list column, or a prefix of plain ones. Columns asked for by prefix are taken whatever they
    hold: if it is no number, that is an error and not a column less. Row ids and columns that are ``used`` otherwise
    are never among them. The choice is the user's where there is a key, so nothing counts as left out then.

    Parameters
    ----------
    kinds : mapping
        What each column holds: ``NUMBER``, ``FLAG``, ``LIST`` (of numbers), or what else, in a word or two.
    key : str, optional
        A list column, or a prefix of plain ones.
    used : collection of str
        Columns of row ids, groups and labels.
    """
    hidden = {*used, *INDEX_NAMES, *IDS_NAMES}
    lists = [name for name, kind in kinds.items() if kind == LIST and name not in used]
    plain = [name for name, kind in kinds.items() if name not in hidden and kind != LIST]
    if key is not None:
        if key in lists:
            return Choice([], key)
        chosen = [name for name in plain if name.startswith(key)]
        if not chosen:
            raise InputError(f"there is no list column {key!r} and no other column that starts with it")
        return Choice(chosen)
    others = {name: kind for name, kind in kinds.items() if name not in used}
    others |= {name: "row ids, by its name" for name in others if name in hidden}
    others |= {name: "metadata, by its name" for name in plain if name.startswith(METADATA_PREFIX)}
    features = [name for name in plain if name.startswith(FEATURE_PREFIX)]
    if features:
        return Choice(features, None, _besides(others, features, f"not called {FEATURE_PREFIX}*"))
    if len(lists) == 1:
        return Choice([], lists[0], _besides(others, lists, "not in the list column"))
    if len(lists) > 1:
        raise InputError(
            f"several list columns could be meant ({', '.join(lists)}): name one with key=, or as FILE::NAME"
        )
    numeric = [name for name in plain if others[name] in (NUMBER, FLAG)]
    left_out = _besides(others, numeric, "")
    return Choice(numeric, None, left_out, [name for name, reason in left_out.items() if reason == TEXT])


def _besides(others: dict[str, str], chosen: Collection[str], reason: str) -> dict[str, str]:
    """Columns that were not chosen: the reason for those that could have been, what they hold for the others."""
    could_be = (NUMBER, FLAG, LIST)
    return {name: reason if kind in could_be else kind for name, kind in others.items() if name not in chosen}


def other_arrays(shapes: dict[str, tuple[int, ...]], name: str, key: str | None) -> dict[str, str]:
    """The arrays of a file that were not chosen, with their shapes; none where the user has named one."""
    return {} if key is not None else {other: f"shape {shape}" for other, shape in shapes.items() if other != name}


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
