"""Numbers as a page writes them, and result files that anybody may have written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError
from ..files import require_regular

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
    return f"{shown}%"


def present(*values: float | None) -> list[float]:
    """The values that are there."""
    return [value for value in values if value is not None]


MOST_BYTES = 64_000_000
_MOST_ENTRIES, _MOST_LISTS = 5 * 10**6, 10**6  # parsed, an empty list takes twenty times its two letters


def read_result(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused with one sentence."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a result that isorep wrote with --json")
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    require_regular(path)
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise InputError(f"{path.name} has more than {MOST_BYTES // 1_000_000} MB: no isorep result is that large")
    if raw.count(b",") > _MOST_ENTRIES or raw.count(b"[") + raw.count(b"{") > _MOST_LISTS:
        raise InputError(f"{path.name} has more than {_MOST_ENTRIES:,} entries or {_MOST_LISTS:,} lists: no result has")
    try:
        result = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path.name} is not JSON{where}: name a result that isorep wrote with --json") from None
    if not isinstance(result, dict):
        raise InputError(f"{path.name} is not an isorep result: it holds a {type(result).__name__}, not an object")
    return result
