"""Results as others may have written them: any field may be missing, null or of another kind.

Reading a result file that anybody may have written.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError


class Node:
    """A place in parsed JSON. A wrong turn leads to an empty node, never to an exception."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __getitem__(self, key: str) -> Node:
        return Node(self.raw.get(key) if isinstance(self.raw, dict) else None)

    def __bool__(self) -> bool:
        return self.raw is not None and self.raw != {} and self.raw != []

    def number(self) -> float | None:
        """A finite number, or None."""
        if isinstance(self.raw, bool) or not isinstance(self.raw, int | float):
            return None
        try:
            value = float(self.raw)
        except OverflowError:
            return None
        return value if math.isfinite(value) else None

    def whole(self) -> int | None:
        """A whole number, or None."""
        value = self.number()
        return None if value is None else int(value)

    def text(self, otherwise: str = "") -> str:
        """Text; numbers are spelt out."""
        if isinstance(self.raw, str):
            return self.raw
        return str(self.raw) if isinstance(self.raw, int | float) else otherwise

    def nodes(self, most: int | None = None) -> list[Node]:
        """The items of a list."""
        return [Node(item) for item in self.raw[:most]] if isinstance(self.raw, list) else []

    def numbers(self, most: int | None = None) -> list[float | None]:
        """The items of a list, as numbers."""
        return [node.number() for node in self.nodes(most)]

    def points(self, most: int | None = None) -> list[tuple[float, float]]:
        """The items of a list of pairs; empty if any is not a pair of numbers."""
        found = []
        for node in self.nodes(most):
            pair = node.numbers(3)
            if len(pair) != 2 or pair[0] is None or pair[1] is None:
                return []
            found.append((pair[0], pair[1]))
        return found

    def items(self) -> list[tuple[str, Node]]:
        """Keys and values of an object."""
        return [(str(key), Node(value)) for key, value in self.raw.items()] if isinstance(self.raw, dict) else []


MISSING = "–"


def fixed(value: float | None, digits: int = 4) -> str:
    """A number with a fixed number of decimals and a true minus sign."""
    if value is None or not math.isfinite(value):
        return MISSING
    if abs(value) >= 1e6:
        return compact(value)
    return f"{value:.{digits}f}".replace("-", "−")


def compact(value: float | None, digits: int = 4) -> str:
    """A number with a few significant digits."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}g}".replace("-", "−")


def p_value(p: float | None, smallest: float | None) -> str:
    """A p-value; the smallest that could be found as a bound."""
    bound = p is not None and smallest is not None and p <= smallest * (1 + 1e-9)
    return f"≤ {compact(p, 2)}" if bound else compact(p, 2)


def count(value: float | None) -> str:
    """A whole number with thousands apart."""
    return MISSING if value is None or not math.isfinite(value) else f"{int(value):,}".replace("-", "−")


def percent(value: float | None, digits: int = 0) -> str:
    """A share as per cent."""
    if value is None or not math.isfinite(100 * value):
        return MISSING
    shown = compact(100 * value) if abs(value) >= 1e6 else f"{100 * value:.{digits}f}".replace("-", "−")
    return f"{shown} %"


def present(*values: float | None) -> list[float]:
    """The values that are there."""
    return [value for value in values if value is not None]


MOST_BYTES = 64_000_000


def read_result(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused with one sentence."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a result that isorep wrote with --json")
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise InputError(f"{path.name} has more than {MOST_BYTES // 1_000_000} MB: no isorep result is that large")
    try:
        result = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path.name} is not JSON{where}: name a result that isorep wrote with --json") from None
    if not isinstance(result, dict):
        raise InputError(f"{path.name} is not an isorep result: it holds a {type(result).__name__}, not an object")
    return result
