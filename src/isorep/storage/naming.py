"""Names in a file: which array, tensor or columns are the representation, if the user has not named them.

Numbers in text cells: which cells are numbers, what the others look like, and what a column of them holds.

A column is one of numbers if all of its filled cells are. If at least half of them are numbers, in this spelling or in
another (``1,000.5``, ``0,3``, ``5%``), it is one of numbers with mistakes in it, and that is an error. Otherwise it is
text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..results import cut_inside

IDS_NAMES = ("ids", "id")
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
METADATA_PREFIX = "Metadata_"
FEATURE_PREFIX = "feature_"
LIST = "list of numbers"

# Ids and labels are held in memory. Honest ones may unpack a hundredfold (UTF-32 of compressed text); a zip bomb
# unpacks a thousandfold, and is met while it is still small.
_LABELS_BYTES = 2**28
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
    first = next(iter(candidates or shapes))
    raise InputError(f"several {noun}s could be meant ({_listing(shapes)}): choose one, such as FILE::{first}")


def choose_named(
    shapes: Mapping[str, tuple[int, ...]], key: str | None, ids: str | None, noun: str
) -> tuple[str, str | None, dict[str, str]]:
    """Of named arrays the representation, the row ids where there are any, and what was not chosen."""
    ids_name = default_ids_name(list(shapes)) if ids is None else ids
    others = {name: shape for name, shape in shapes.items() if name != ids_name}
    name = choose_array(others, key, noun)
    return name, ids_name, other_arrays(others, name, key)


def require_column(name: str, names: Sequence[str]) -> None:
    """Refuse a column that a table does not have."""
    if name not in names:
        raise InputError(f"there is no column {name!r}; there are {some(names)}")


def some(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def require_vector(shapes: Mapping[str, tuple[int, ...]], name: str, noun: str) -> None:
    """Refuse labels that are not there, or not one for each row."""
    if name not in shapes:
        raise InputError(f"there is no {noun} {name!r}; there are {', '.join(shapes) or 'none'}")
    if len(shapes[name]) != 1:
        raise InputError(f"{noun} {name!r} has shape {shapes[name]} where one entry per row is needed")


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
    key is the name of a list column, or a prefix of plain ones. Columns chosen by prefix must hold numbers:
    anything else is an error, and never silently dropped. Row ids and columns that are ``used`` otherwise
    are never among them. The choice is the user's where there is a key, so nothing counts as left out then.

    Parameters
    ----------
    kinds : mapping
        Kind of each column: ``NUMBER``, ``FLAG``, ``LIST`` (of numbers), or another kind in a word or two.
    key : str, optional
        A list column, or a prefix of plain ones.
    used : collection of str
        Columns of row ids, groups and labels.
    """
    hidden = {*used, *INDEX_NAMES, *IDS_NAMES}
    used = frozenset(used)
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
            f"several list columns could be meant ({', '.join(lists)}): choose one, such as FILE::{lists[0]}"
        )
    numeric = [name for name in plain if others[name] in (NUMBER, FLAG)]
    left_out = _besides(others, numeric, "")
    return Choice(numeric, None, left_out, [name for name, reason in left_out.items() if reason == TEXT])


def _besides(others: dict[str, str], chosen: Collection[str], reason: str) -> dict[str, str]:
    """Columns that were not chosen: the reason for those that could have been, what they hold for the others."""
    could_be, taken = (NUMBER, FLAG, LIST), frozenset(chosen)
    return {name: reason if kind in could_be else kind for name, kind in others.items() if name not in taken}


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


def not_utf8(error: UnicodeDecodeError) -> InputError:
    """The refusal of text in another encoding, which is named if its first bytes say so."""
    if error.start == 0 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return InputError("this is text in UTF-16: save it as UTF-8")
    return InputError("this is not UTF-8 text")


def _listing(shapes: dict[str, tuple[int, ...]]) -> str:
    return some([f"{name} {shape}" for name, shape in shapes.items()])


NUMBER, FLAG, TEXT = "number", "true or false", "text"
Place = int | tuple[int, int]  # a row counted from 0, or the line of a file, counted from 1, and the row
FLAGS = {"true": "1", "false": "0"}
EXACT = 2**53  # whole numbers beyond it are not all float64

_MISSING = {"", "na", "n/a", "null", "none"}
_ABSENT, _WHOLE, _DECIMAL, _SPELLED_OTHERWISE = "absent", "whole", "decimal", "spelled otherwise"
_STARTS = "0123456789+-.,$i"  # of numbers in any spelling within ASCII, infinity among them
_MOST_SEEN = 4096
_LONGEST_SHOWN = 40
_PLAIN = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_SPELLINGS = {
    "with a comma in it, for thousands or for decimals": r"[+-]?[1-9]\d{0,2},\d{3}",
    "with thousands separators": r"[+-]?\d{1,3}(?:(?:[, ']\d{3})+(?:\.\d+)?|(?:[. ']\d{3})+,\d+)",
    "with a decimal comma": r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?",
    "as a percentage": rf"{_PLAIN}\s*%",
    "with a currency sign": rf"[$€£¥]\s*{_PLAIN}|{_PLAIN}\s*[$€£¥]",
    "with underscores": r"[+-]?\d[\d_]*(?:\.[\d_]+)?(?:[eE][+-]?\d+)?",
    "in hexadecimal": r"[+-]?0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:[pP][+-]?\d+)?",
}
_SPELLED = {words: re.compile(pattern, re.ASCII) for words, pattern in _SPELLINGS.items()}
_WITH_UNIT = re.compile(rf"({_PLAIN})\s*([^\W\d].*)", re.ASCII | re.DOTALL)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)


def is_filled(cell: str) -> bool:
    """Whether a cell holds anything: it is neither empty nor a word for a missing value."""
    return cell.strip().lower() not in _MISSING


def is_number(cell: str, comma: bool = False) -> bool:
    """Whether a cell is a number, in ASCII and without underscores; ``comma`` allows a decimal comma."""
    try:
        float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        return False
    return "_" not in cell and cell.strip().isascii()


def is_whole(cell: str) -> bool:
    """Whether a cell is written as a whole number."""
    digits = cell.strip().lstrip("+-")
    return digits.isascii() and digits.isdigit()


def may_be_thousands(cell: str) -> bool:
    """Whether the comma of a cell could separate thousands as well as decimals."""
    return _THOUSANDS.fullmatch(cell.strip()) is not None


def shown(text: str) -> str:
    """A cell or name for a message: quoted, shortened, with control characters escaped."""
    return repr(cut_inside(text, _LONGEST_SHOWN))


def where(place: Place) -> str:
    """A place in words."""
    return f"row {place}" if isinstance(place, int) else f"line {place[0]} (row {place[1]})"


def not_a_number(name: str, place: Place, cell: str) -> str:
    """The problem of a cell, and its likely spelling."""
    spelling = _spelling(cell)
    if spelling is None:
        unit = _WITH_UNIT.fullmatch(cell.strip())
        spelling = None if unit is None else f"followed by {shown(unit[2])}"
    looks = "" if spelling is None else f" (it looks like one {spelling})"
    return f"{where(place)}, column {shown(name)}: {shown(cell)} is not a number{looks}"


def inexact(name: str, place: Place, number: int) -> InputError:
    """The refusal of a whole number that float64 cannot hold."""
    return InputError(
        f"{where(place)}, column {shown(name)}: the whole number {number} cannot be kept exactly as float64; if "
        f"the column holds ids, name it with ids= (--ids) or call it {shown(f'Metadata_{name}')}"
    )


class Tally:
    """Counts of the filled cells of one column, and the first of them that is no number."""

    def __init__(self, name: str, comma: bool = False) -> None:
        self.name = name
        self.first: tuple[Place, str] | None = None
        self._comma = comma
        self._counts = {_ABSENT: 0, _WHOLE: 0, _DECIMAL: 0, FLAG: 0, _SPELLED_OTHERWISE: 0, TEXT: 0}
        self._seen: dict[str, str] = {}  # labels repeat

    def add(self, cell: str, place: Place, count: int = 1) -> None:
        """Count a cell that occurs so many times, first at this place."""
        what = self._seen.get(cell)
        if what is None:
            what = _sort(cell, self._comma)
            if len(self._seen) < _MOST_SEEN and len(cell) <= _LONGEST_SHOWN:
                self._seen[cell] = what
        self._counts[what] += count
        if self.first is None and what not in (_ABSENT, _WHOLE, _DECIMAL):
            self.first = (place, cell)

    def kind(self, *, typed: bool = False, labels: bool = False) -> str:
        """What the column holds; numbers with mistakes among them are an error that names the first.

        Parameters
        ----------
        typed : bool
            The file says that the column is text: whole numbers alone are then labels, and other numbers an error.
        labels : bool
            The column may hold labels: whole numbers mixed with words are labels too.
        """
        counts, first = self._counts, self.first
        filled = sum(counts.values()) - counts[_ABSENT]
        if typed and filled and first is None:
            if counts[_DECIMAL] == 0:
                return TEXT
            raise InputError(
                f"column {shown(self.name)} holds numbers as text: convert it to floating point, or call it "
                f"{shown(f'Metadata_{self.name}')} if it is no feature"
            )
        if first is None:
            return NUMBER
        if counts[FLAG] == filled:
            return FLAG
        numbers = counts[_DECIMAL] + (0 if labels else counts[_WHOLE])
        if 2 * (numbers + counts[_SPELLED_OTHERWISE]) < filled:
            return TEXT
        plain = counts[_WHOLE] + counts[_DECIMAL]
        others = f", and {plain} of the column's {filled} cells are" if plain else ""
        raise InputError(
            f"{not_a_number(self.name, *first)}{others}: correct it, or call the column "
            f"{shown(f'Metadata_{self.name}')} if it is no feature"
        )


def _sort(cell: str, comma: bool) -> str:
    """What one cell is."""
    lowered = cell.strip().lower()
    if lowered in _MISSING or lowered == "nan":
        return _ABSENT
    if lowered in FLAGS:
        return FLAG
    if lowered[0] not in _STARTS and lowered[0].isascii():
        return TEXT
    if is_number(cell, comma):
        return _WHOLE if is_whole(cell) else _DECIMAL
    return TEXT if _spelling(cell) is None else _SPELLED_OTHERWISE


def _spelling(cell: str) -> str | None:
    """How else than plainly a number is written, if a cell is one."""
    text = cell.strip()
    for words, pattern in _SPELLED.items():
        if pattern.fullmatch(text):
            return words
    if not text.isascii():
        try:
            float(text.replace("\N{MINUS SIGN}", "-"))
        except ValueError:
            return None
        return "with digits or signs outside of ASCII"
    return None
