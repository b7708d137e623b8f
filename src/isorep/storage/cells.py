"""Numbers in text cells: which cells are numbers, what the others look like, and what a column of them holds.

A column is one of numbers if all of its filled cells are. If at least half of them are numbers, in this spelling or in
another (``1,000.5``, ``0,3``, ``5%``), it is one of numbers with mistakes in it, and that is an error. Otherwise it is
text.
"""

from __future__ import annotations

import re

from ..errors import InputError

NUMBER, FLAG, TEXT = "number", "true or false", "text"
Place = int | tuple[int, int]  # a row counted from 0, or the line of a file, counted from 1, and the row
FLAGS = {"true": "1", "false": "0"}
EXACT = 2**53  # whole numbers beyond it are not all float64

_MISSING = {"", "na", "n/a", "null", "none"}
_ABSENT, _WHOLE, _DECIMAL, _SPELLED_OTHERWISE = "absent", "whole", "decimal", "spelled otherwise"
_STARTS = "0123456789+-.,$i"  # of numbers in any spelling within ASCII, infinity among them
_MOST_SEEN = 4096
_LONGEST_SHOWN = 40
_PLAIN = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
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
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}...")


def where(place: Place) -> str:
    """A place in words."""
    return f"row {place}" if isinstance(place, int) else f"line {place[0]} (row {place[1]})"


def not_a_number(name: str, place: Place, cell: str) -> str:
    """What is wrong with a cell, and what it looks like."""
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
            The column may hold labels: whole numbers beside words are labels too.
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
